//! Writing to a client in bounded parts, and the end of a connection.

use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::client::buffer::Buffer;

/// Bytes that one write gives at most: the copy holds up everybody.
const WRITE_MAX: usize = 256 * 1024;
/// A client that sends nothing for this time at the end is not waited for.
const SILENT: Duration = Duration::from_millis(20);
/// A client that goes on sending has this time to take its last replies.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// Bytes that are read away at once.
const UNREAD: usize = 4 * 1024;

/// Writes some, and lets TLS send what it holds; says how many bytes. Safe to cancel: what was
/// taken from `output` is with the stream then, and `unflushed` says so.
pub async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    output: &mut Buffer,
    unflushed: &mut bool,
) -> std::io::Result<usize> {
    let mut written = 0;
    if !output.bytes.is_empty() {
        let first = output.bytes.get(..WRITE_MAX).unwrap_or(&output.bytes);
        written = to.write(first).await?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        output.advance(written);
        *unflushed = true;
    }
    to.flush().await?;
    *unflushed = false;
    Ok(written)
}

/// Ends a connection so that the client receives its last replies. With TLS the end is a message
/// too.
///
/// To close while requests come in would reset the connection, and what the client has not received
/// by then would be lost: so they are read away until it has seen the end too.
pub async fn end(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let _ = tokio::time::timeout(LINGER_MAX, to.shutdown()).await;
    let (mut wait, mut unread) = (SILENT, [0; UNREAD]);
    let deadline = Instant::now() + LINGER_MAX;
    while let Ok(Ok(1..)) = tokio::time::timeout(wait, from.read(&mut unread)).await {
        wait = deadline.saturating_duration_since(Instant::now());
    }
}
