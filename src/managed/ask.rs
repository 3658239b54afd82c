//! A few plain questions to a Redis over its Unix socket, one connection each.
//!
//! For looking after the process only: no script, no pipeline, no reconnection. Keeps: no question
//! takes longer than its bound.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Time for an ordinary answer; a stop, which waits for the disk, has its own bound.
pub const ANSWER_MAX: Duration = Duration::from_secs(2);

/// No answer to these questions is larger.
const BULK_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// A status, number or bulk; of an array its elements, one on each line.
    Text(String),
    /// The text of an error reply.
    Refused(String),
    /// The connection was closed instead, which is how a server that stops answers.
    Closed,
}

/// Sends one command, whose arguments have no blanks, and reads its reply.
pub async fn ask(socket: &Path, question: &str, longest: Duration) -> io::Result<Answer> {
    let exchange = async {
        let mut stream = BufReader::new(UnixStream::connect(socket).await?);
        stream.write_all(format!("{question}\r\n").as_bytes()).await?;
        read(&mut stream).await
    };
    timeout(longest, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The value of one setting of a Redis.
pub async fn setting(socket: &Path, name: &str) -> Option<String> {
    match ask(socket, &format!("CONFIG GET {name}"), ANSWER_MAX).await {
        Ok(Answer::Text(pair)) => pair.split_once('\n').map(|(_, value)| value.to_owned()),
        _ => None,
    }
}

async fn read(stream: &mut BufReader<UnixStream>) -> io::Result<Answer> {
    let Some(first) = line(stream).await? else {
        return Ok(Answer::Closed);
    };
    let Some(count) = first.strip_prefix('*') else {
        return element(stream, &first).await;
    };
    let mut elements = Vec::new();
    for _ in 0..count.parse().unwrap_or(0) {
        let Some(first) = line(stream).await? else {
            return Ok(Answer::Closed);
        };
        match element(stream, &first).await? {
            Answer::Text(text) => elements.push(text),
            other => return Ok(other),
        }
    }
    Ok(Answer::Text(elements.join("\n")))
}

async fn element(stream: &mut BufReader<UnixStream>, first: &str) -> io::Result<Answer> {
    if let Some(error) = first.strip_prefix('-') {
        return Ok(Answer::Refused(error.to_owned()));
    }
    let Some(size) = first.strip_prefix('$') else {
        return Ok(Answer::Text(first.get(1..).unwrap_or_default().to_owned()));
    };
    let Ok(size) = size.parse::<usize>() else {
        return Ok(Answer::Text(String::new()));
    };
    let mut bulk = vec![0; size.min(BULK_BYTES_MAX) + 2];
    stream.read_exact(&mut bulk).await?;
    bulk.truncate(size);
    Ok(Answer::Text(String::from_utf8_lossy(&bulk).into_owned()))
}

async fn line(stream: &mut BufReader<UnixStream>) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = match stream.read_line(&mut line).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
        read => read?,
    };
    Ok(if read == 0 { None } else { Some(line.trim_end().to_owned()) })
}
