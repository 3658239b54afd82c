//! A call to the store that a connection waits for, and how its reply is to be written and counted.

use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use tokio_util::sync::CancellationToken;

use crate::broker::Unsent;
use crate::command::{self, CommandIndex, Handed, Then};
use crate::peers::memory::{Large, Memory, Permit};
use crate::resp::{Protocol, Reply};

/// A call whose reply has this many bytes of payload is followed by a rest of its own length, up to
/// the maximum.
const LARGE_REPLY: usize = 64 * 1024;
const REST_MAX: Duration = Duration::from_millis(250);
const NO_PERMIT: &str = "UNAVAILABLE replies that other clients have not taken yet use up \
                         limits.buffers_bytes_max; retry, or raise it";

pub struct Call {
    pub reply: LocalBoxFuture<'static, Answered>,
    pub protocol: Protocol,
    pub index: CommandIndex,
    /// Bytes that its arguments hold.
    pub bytes: usize,
    /// For a command that may wait for something; cancelled when it has waited long enough.
    pub enough: Option<CancellationToken>,
}

/// The outcome of a call.
pub struct Answered {
    pub reply: Reply,
    pub permit: Option<Permit>,
    pub unsent: Option<Unsent>,
    /// The call has an end in the session, which replies in place of it.
    pub then: Option<Then>,
}

impl From<Handed> for Answered {
    fn from((reply, unsent): Handed) -> Self {
        Self { reply, permit: None, unsent, then: None }
    }
}

impl From<Then> for Answered {
    fn from(then: Then) -> Self {
        Self { then: Some(then), ..Self::from((Reply::Nothing, None)) }
    }
}

impl Call {
    /// Its reply; never, if there is no call. Safe to cancel.
    pub async fn answered(call: Option<&mut Self>) -> Answered {
        match call {
            Some(call) => (&mut call.reply).await,
            None => std::future::pending().await,
        }
    }

    /// A command that waits for something has waited long enough.
    pub fn stop_waiting(&self) {
        if let Some(enough) = &self.enough {
            enough.cancel();
        }
    }
}

/// A call that waits up to `at_most` for a permit first, if its reply may be large.
pub fn with_permit(
    reply: LocalBoxFuture<'static, Reply>,
    index: CommandIndex,
    memory: Rc<Memory>,
    at_most: Duration,
) -> LocalBoxFuture<'static, Answered> {
    let Some(large) = command::large_reply(index) else {
        return Box::pin(async move { (reply.await, None).into() });
    };
    Box::pin(async move {
        let Some(permit) = memory.permit(large, at_most).await else {
            return (Reply::Error(NO_PERMIT.into()), None).into();
        };
        let asked = Instant::now();
        let reply = reply.await;
        // A message that is too large for a reply was read to see that.
        let too_big = matches!(&reply, Reply::Error(text) if text.starts_with("TOOBIG "));
        let is_large = too_big || reply.payload_bytes() >= LARGE_REPLY;
        // A search rests itself.
        if is_large && large == Large::Messages {
            // As after a long transfer: half of Redis's time is for others.
            tokio::time::sleep(asked.elapsed().min(REST_MAX)).await;
        }
        Answered { permit: Some(permit), ..Answered::from((reply, None)) }
    })
}
