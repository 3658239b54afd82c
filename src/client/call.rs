//! The calls to the store that a connection waits for, and how their replies are to be written and
//! counted.
//!
//! There is one at a time, but for settlements: those of one line are under way together, since
//! they share calls of the store, which keeps their order. A client that sends them without waiting
//! for each reply (all that share a connection do) has thousands a second otherwise, not tens of
//! thousands.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::{FutureExt, LocalBoxFuture, MaybeDone, maybe_done};
use tokio_util::sync::CancellationToken;

use crate::broker::{SettleLine, Unsent};
use crate::command::{self, CommandIndex, Handed, Then};
use crate::peers::memory::{Large, Memory, Permit};
use crate::resp::{Protocol, Reply};

/// A call whose reply has this many bytes of payload is followed by a rest of its own length, up to
/// the maximum.
const LARGE_REPLY: usize = 64 * 1024;
const REST_MAX: Duration = Duration::from_millis(250);
const NO_PERMIT: &str = "UNAVAILABLE replies that other clients have not taken yet use up \
                         limits.buffers_bytes_max; retry, or raise it";

/// Bounds of the settlements that are under way together: number, and bytes of their arguments.
const TOGETHER_MAX: usize = 256;
const TOGETHER_BYTES_MAX: usize = 64 * 1024;

pub struct Call {
    pub reply: MaybeDone<LocalBoxFuture<'static, Answered>>,
    pub protocol: Protocol,
    pub index: CommandIndex,
    /// Bytes that its arguments hold.
    pub bytes: usize,
    /// Of a settlement.
    pub line: Option<SettleLine>,
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
    pub fn new(
        reply: LocalBoxFuture<'static, Answered>,
        protocol: Protocol,
        index: CommandIndex,
        bytes: usize,
    ) -> Self {
        Self { reply: maybe_done(reply), protocol, index, bytes, line: None, enough: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.reply.poll_unpin(context)
    }
}

/// In the order of their commands. All are under way, but for the last if it is of another line
/// than those before it.
#[derive(Default)]
pub struct Calls {
    calls: VecDeque<Call>,
    /// Bytes that their arguments hold.
    bytes: usize,
}

impl Calls {
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Bytes that they hold.
    pub fn held(&self) -> usize {
        self.bytes
    }

    /// True if another settlement may be begun now.
    pub fn take_more(&self) -> bool {
        self.all_together()
            && self.len() < TOGETHER_MAX
            && self.bytes < TOGETHER_BYTES_MAX
            && self.calls.front().is_none_or(|first| first.line.is_some())
    }

    fn all_together(&self) -> bool {
        self.len() < 2
            || self.calls.front().map(|first| &first.line)
                == self.calls.back().map(|last| &last.line)
    }

    pub fn begin(&mut self, call: Call) {
        self.bytes += call.bytes;
        self.calls.push_back(call);
    }

    /// Ends when the first is answered; never, if there is none. Safe to cancel.
    pub async fn answered(&mut self) {
        poll_fn(|context| {
            let together = self.len() - usize::from(!self.all_together());
            let mut polled = self.calls.iter_mut().take(together).map(|call| call.poll(context));
            let first = polled.next().unwrap_or(Poll::Pending);
            polled.for_each(drop);
            first
        })
        .await;
    }

    /// The first, with its outcome if it has one.
    pub fn next_answered(&mut self) -> Option<(Call, Answered)> {
        let answered = Pin::new(&mut self.calls.front_mut()?.reply).take_output()?;
        let call = self.calls.pop_front()?;
        self.bytes -= call.bytes;
        Some((call, answered))
    }

    /// A command that waits for something has waited long enough.
    pub fn stop_waiting(&self) {
        self.calls
            .iter()
            .filter_map(|call| call.enough.as_ref())
            .for_each(|enough| enough.cancel());
    }

    /// Awaits all, for a client that has left.
    pub async fn end(mut self) {
        while !self.is_empty() {
            self.answered().await;
            while self.next_answered().is_some() {}
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
