//! The body of a response, given out in small parts, and the body of a request, read within bounds.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

/// Bytes that the connection takes over at a time.
const PART: usize = 16 * 1024;
/// Time in which the body of a request must have come.
const WITHIN: Duration = Duration::from_secs(20);
/// Time for a client to take an answer that has a place; others wait for that.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of one that is too large which are read and dropped, so that its sender sees the answer.
const DROPPED_MAX: usize = 32 * 1024 * 1024;

/// Bytes to be sent, and the place that they take until the connection has them; until when it has
/// to.
#[derive(Default)]
pub struct Body {
    bytes: Bytes,
    place: Option<(OwnedSemaphorePermit, Instant)>,
    /// Further bytes, for as long as there are some.
    more: Option<mpsc::Receiver<Bytes>>,
}

impl Body {
    pub fn stream(more: mpsc::Receiver<Bytes>) -> Self {
        Self { more: Some(more), ..Self::default() }
    }

    /// All of one that is no stream.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn holding(self, place: OwnedSemaphorePermit) -> Self {
        Self { place: Some((place, Instant::now() + TAKEN_WITHIN)), ..self }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, ..Self::default() }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let has_none = self.bytes.is_empty();
        if let Some(more) = self.more.as_mut().filter(|_| has_none) {
            return more.poll_recv(context).map(|bytes| Some(Ok(Frame::data(bytes?))));
        }
        if self.place.as_ref().is_some_and(|(_, until)| *until < Instant::now()) {
            self.place = None;
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        let part = self.bytes.len().min(PART);
        if part == 0 {
            self.place = None;
            return Poll::Ready(None);
        }
        let part = self.bytes.split_to(part);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty() && self.more.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.more {
            None => SizeHint::with_exact(self.bytes.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// It has more bytes.
    TooBig,
    /// It did not come in time, or broke off.
    Broken,
}

/// The body of a request, of so many bytes at most.
pub async fn read(mut body: Incoming, max: usize) -> Result<Vec<u8>, Unread> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > max.saturating_add(DROPPED_MAX) {
        return Err(Unread::TooBig);
    }
    let whole = async {
        let (mut bytes, mut came) = (Vec::new(), 0_usize);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
            came += data.len();
            if came <= max {
                bytes.extend_from_slice(&data);
            } else if came > max.saturating_add(DROPPED_MAX) {
                break;
            } else {
                bytes = Vec::new();
            }
        }
        if came <= max { Ok(bytes) } else { Err(Unread::TooBig) }
    };
    timeout(WITHIN, whole).await.unwrap_or(Err(Unread::Broken))
}
