//! One connection after its handshake: calls go out in order, and replies come back in that order.
//!
//! A call is encoded behind those that are not written yet, and waits in a queue. [`Pipe::drive`]
//! writes all that was queued in one turn of the runtime at once, reads what there is, and gives
//! each reply to the call that waits longest. When the connection ends, every waiting call fails at
//! once: as not sent if none of its bytes were written, else as broken, its outcome unknown.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use redis_protocol::resp3::types::BytesFrame;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::oneshot;

use super::LinkError;
use super::connect::cause;
use crate::resp::peer::{Reader, encode};

/// Bytes of calls that wait to be written, beyond which no more are taken.
const QUEUED_BYTES_MAX: usize = 256 << 20;
/// The buffer of larger writes is not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

pub(super) type Reply = Result<BytesFrame, LinkError>;

#[derive(Default)]
pub(super) struct Pipe {
    /// Encoded and not written yet.
    out: RefCell<BytesMut>,
    /// Oldest first.
    waiting: RefCell<VecDeque<Waiting>>,
    /// Bytes that were written since the start.
    written: Cell<u64>,
    /// The socket took no more when it was given something last.
    full: Cell<bool>,
    signs_of_life: Cell<u64>,
    /// Why it ended.
    ended: RefCell<Option<String>>,
    driver: Cell<Option<Waker>>,
}

struct Waiting {
    /// Bytes that were queued before it since the start.
    begins: u64,
    reply: oneshot::Sender<Reply>,
}

impl Pipe {
    /// Queues a call. To drop the receiver gives up on the reply, not on the call.
    ///
    /// # Errors
    /// `NotSent`: it has ended, or too much is queued.
    pub(super) fn call<'a>(
        &self,
        parts: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<oneshot::Receiver<Reply>, LinkError> {
        if let Some(why) = &*self.ended.borrow() {
            return Err(LinkError::NotSent(why.clone()));
        }
        let mut out = self.out.borrow_mut();
        if out.len() > QUEUED_BYTES_MAX {
            let why = format!("{} bytes of calls wait to be sent to Redis", out.len());
            return Err(LinkError::NotSent(why));
        }
        let begins = self.written.get() + out.len() as u64;
        encode(&mut out, parts);
        let (reply, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back(Waiting { begins, reply });
        self.wake();
        Ok(receiver)
    }

    /// Ends it: all that is under way fails at once.
    pub(super) fn abandon(&self, why: &str) {
        self.ended.borrow_mut().get_or_insert_with(|| why.to_owned());
        let written = self.written.get();
        for Waiting { begins, reply } in self.waiting.take() {
            let error = if begins >= written { LinkError::NotSent } else { LinkError::Broken };
            // The caller may have gone.
            let _ = reply.send(Err(error(why.to_owned())));
        }
        self.out.take();
        self.wake();
    }

    /// How often something was read, or a socket that was full had room again. (One that has room
    /// says nothing of the other end.)
    pub(super) fn signs_of_life(&self) -> u64 {
        self.signs_of_life.get()
    }

    fn lives(&self) {
        self.signs_of_life.set(self.signs_of_life.get() + 1);
    }

    fn wake(&self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Writes and reads until the connection ends: gives the reason.
    pub(super) async fn drive(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        mut reader: Reader,
    ) -> String {
        let ended = std::future::poll_fn(|context| {
            self.driver.set(Some(context.waker().clone()));
            if let Some(why) = &*self.ended.borrow() {
                return Poll::Ready(why.clone());
            }
            match self.step(&mut stream, &mut reader, context) {
                Ok(()) => Poll::Pending,
                Err(why) => Poll::Ready(why),
            }
        });
        let why = ended.await;
        self.abandon(&why);
        why
    }

    /// Goes as far as it can without waiting.
    fn step<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        reader: &mut Reader,
        context: &mut Context<'_>,
    ) -> Result<(), String> {
        let writes = self.write(Pin::new(stream), context);
        // The last words of Redis before it closed the connection say why.
        loop {
            let read = pin!(stream.read_buf(reader.room())).poll(context);
            match read.map_err(|error| cause(&error)) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err("Redis closed the connection".to_owned()),
                Poll::Ready(Ok(_)) => self.lives(),
                Poll::Ready(Err(why)) => return Err(why),
            }
            while let Some(frame) = reader.reply()? {
                let oldest = self.waiting.borrow_mut().pop_front();
                let Some(oldest) = oldest else {
                    return Err(match frame {
                        BytesFrame::SimpleError { data, .. } => data.to_string(),
                        _ => "Redis sent a reply that nobody asked for".to_owned(),
                    });
                };
                let _ = oldest.reply.send(match frame {
                    BytesFrame::SimpleError { data, .. } => {
                        Err(LinkError::Refused(data.to_string()))
                    }
                    frame => Ok(frame),
                });
            }
        }
        writes.map_err(|error| cause(&error))
    }

    fn write(
        &self,
        mut stream: Pin<&mut impl AsyncWrite>,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        let mut out = self.out.borrow_mut();
        if out.is_empty() {
            // TLS may hold back what it was given before.
            return ready_or_later(stream.poll_flush(context));
        }
        while !out.is_empty() {
            match stream.as_mut().poll_write(context, &out) {
                Poll::Pending => {
                    self.full.set(true);
                    return Ok(());
                }
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(size)) => {
                    out.advance(size);
                    self.written.set(self.written.get() + size as u64);
                    if self.full.take() {
                        self.lives();
                    }
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        if out.capacity() > KEPT_BYTES_MAX {
            *out = BytesMut::new();
        }
        ready_or_later(stream.poll_flush(context))
    }
}

fn ready_or_later(flushed: Poll<io::Result<()>>) -> io::Result<()> {
    match flushed {
        Poll::Ready(flushed) => flushed,
        Poll::Pending => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;
    use tokio::task::{JoinHandle, spawn_local};

    /// A pipe over a real socket pair; the test is the other end.
    struct Scene {
        pipe: Rc<Pipe>,
        redis: UnixStream,
        ended: JoinHandle<String>,
    }

    fn scene() -> Scene {
        let (ours, redis) = UnixStream::pair().unwrap();
        let pipe = Rc::new(Pipe::default());
        let driven = pipe.clone();
        let ended = spawn_local(async move { driven.drive(ours, Reader::new(1 << 20)).await });
        Scene { pipe, redis, ended }
    }

    impl Scene {
        fn call(&self, word: &str) -> oneshot::Receiver<Reply> {
            self.pipe.call([word.as_bytes()].into_iter()).unwrap()
        }

        /// Takes what was sent, which is this.
        async fn takes(&mut self, wanted: &str) {
            let mut taken = vec![0; wanted.len()];
            self.redis.read_exact(&mut taken).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&taken), wanted);
        }

        async fn says(&mut self, bytes: &str) {
            self.redis.write_all(bytes.as_bytes()).await.unwrap();
        }
    }

    async fn run(test: impl Future<Output = ()>) {
        tokio::task::LocalSet::new().run_until(test).await;
    }

    fn shown(reply: Result<Reply, oneshot::error::RecvError>) -> String {
        match reply.unwrap() {
            Ok(BytesFrame::Number { data, .. }) => data.to_string(),
            Ok(other) => format!("{other:?}"),
            Err(LinkError::NotSent(why)) => format!("not sent: {why}"),
            Err(LinkError::Broken(why)) => format!("broken: {why}"),
            Err(LinkError::Refused(why)) => format!("refused: {why}"),
        }
    }

    const A: &str = "*1\r\n$1\r\na\r\n";
    const B: &str = "*1\r\n$1\r\nb\r\n";

    #[tokio::test]
    async fn replies_come_in_the_order_of_the_calls() {
        run(async {
            let mut scene = scene();
            let [first, second, third] = ["a", "b", "a"].map(|word| scene.call(word));
            // One turn, one write.
            scene.takes(&format!("{A}{B}{A}")).await;
            // The reply of a caller that has gone is not another's.
            drop(second);
            scene.says(":1\r\n:2\r\n-ERR no\r\n:").await;
            assert_eq!(shown(first.await), "1");
            assert_eq!(shown(third.await), "refused: ERR no");
            let fourth = scene.call("b");
            scene.says("4\r\n").await;
            assert_eq!(shown(fourth.await), "4");
        })
        .await;
    }

    #[tokio::test]
    async fn a_break_tells_every_call_what_became_of_it() {
        run(async {
            let mut scene = scene();
            let (first, second) = (scene.call("a"), scene.call("b"));
            scene.takes(&format!("{A}{B}")).await;
            scene.says(":1\r\n").await;
            drop(scene.redis);
            assert_eq!(shown(first.await), "1");
            assert_eq!(shown(second.await), "broken: Redis closed the connection");
            assert_eq!(scene.ended.await.unwrap(), "Redis closed the connection");
            let late = scene.pipe.call([&b"a"[..]].into_iter()).unwrap_err();
            assert_eq!(late, LinkError::NotSent("Redis closed the connection".into()));
        })
        .await;
    }

    #[tokio::test]
    async fn what_cannot_be_understood_ends_the_connection() {
        for (said, why) in [
            ("HTTP/1.1 400\r\n", "a reply of Redis begins with 'H'"),
            (":1\r\n:2\r\n", "Redis sent a reply that nobody asked for"),
            (":1\r\n-ERR max number of clients\r\n", "ERR max number of clients"),
        ] {
            run(async {
                let mut scene = scene();
                let call = scene.call("a");
                scene.takes(A).await;
                scene.says(said).await;
                drop(call);
                assert_eq!(scene.ended.await.unwrap(), why);
                // The socket is closed, too.
                assert_eq!(scene.redis.read(&mut [0]).await.unwrap(), 0);
            })
            .await;
        }
    }

    #[tokio::test]
    async fn abandoned_calls_fail_at_once() {
        run(async {
            let mut scene = scene();
            let first = scene.call("a");
            scene.takes(A).await;
            // Not a byte of it was written.
            let second = scene.call("b");
            scene.pipe.abandon("enough");
            assert_eq!(shown(first.await), "broken: enough");
            assert_eq!(shown(second.await), "not sent: enough");
            assert_eq!(scene.ended.await.unwrap(), "enough");
            assert_eq!(scene.redis.read(&mut [0]).await.unwrap(), 0);
        })
        .await;
    }

    /// A peer that reads nothing: what was begun is in doubt, what was not is not, and no more is
    /// taken than the bound.
    #[tokio::test]
    async fn a_peer_that_does_not_read() {
        run(async {
            let scene = scene();
            let large = vec![b'x'; 64 << 20];
            let large = || scene.pipe.call([&large[..]].into_iter());
            let begun = large().unwrap();
            tokio::task::yield_now().await;
            let mut waiting = Vec::new();
            let refused = loop {
                match large() {
                    Ok(call) => waiting.push(call),
                    Err(error) => break error,
                }
            };
            assert!(matches!(refused, LinkError::NotSent(_)), "{refused:?}");
            assert!(waiting.len() <= QUEUED_BYTES_MAX / (64 << 20), "{} calls", waiting.len());
            scene.pipe.abandon("enough");
            assert_eq!(shown(begun.await), "broken: enough");
            for call in waiting {
                assert_eq!(shown(call.await), "not sent: enough");
            }
        })
        .await;
    }

    #[test]
    fn commands() {
        let mut out = BytesMut::new();
        encode(&mut out, [&b"EVALSHA"[..], b"", b"1234567890\r\n"].into_iter());
        assert_eq!(&out[..], b"*3\r\n$7\r\nEVALSHA\r\n$0\r\n\r\n$12\r\n1234567890\r\n\r\n");
    }
}
