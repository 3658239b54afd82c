//! SIGTERM and SIGINT as one future.
//!
//! Does not know what is stopped, nor how. Keeps: both signals mean the same; a second one ends
//! the process at once, even if the stop hangs.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::daemon::logs;

/// A shell reports 128 + n for a program that signal n ended.
const ENDED_BY: i32 = 128;

/// Listens from now on; the future is done at the first signal. Needs a `LocalRuntime`.
pub fn requested() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let (name, _) = either(&mut terminate, &mut interrupt).await;
        info!("{name}: stopping; a second signal ends at once");
        tokio::task::spawn_local(async move {
            let (name, number) = either(&mut terminate, &mut interrupt).await;
            warn!("{name} again: ending at once");
            logs::flush();
            std::process::exit(ENDED_BY + number);
        });
    })
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> (&'static str, i32) {
    // Both are safe to drop: a signal that arrives meanwhile stays pending.
    tokio::select! {
        _ = terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
        _ = interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
    }
}
