//! SIGTERM and SIGINT as one future.
//!
//! Does not know what is stopped, nor how. Keeps: both signals mean the same; a second one ends
//! the process at once, wherever the stop may hang.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

/// What a shell reports of a program that Ctrl-C ended.
const EXIT_AT_ONCE: i32 = 130;

/// Listens from now on; the future is done at the first signal. Needs a tokio runtime with a
/// `LocalSet` around the future.
pub fn requested() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = either(&mut terminate, &mut interrupt).await;
        info!("{name}: stopping; once more ends at once");
        tokio::task::spawn_local(async move {
            let name = either(&mut terminate, &mut interrupt).await;
            warn!("{name} again: ending at once");
            std::process::exit(EXIT_AT_ONCE);
        });
    })
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    // Both are safe to drop: a signal that arrives meanwhile stays pending.
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
