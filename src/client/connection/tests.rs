//! A connection between two ends of a pipe, on a broker whose Redis never comes.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::config::Config;
use crate::store::backend::Backend;

const WITHIN: Duration = Duration::from_secs(20);
/// What the pipe holds in each direction.
const PIPE: usize = 4 * 1024;

/// Runs a test on a broker without a Redis, within a time.
fn with_broker(test: impl AsyncFnOnce(Rc<Broker>)) {
    with_settings(&[], test);
}

pub(in crate::client) fn with_settings(
    settings: &[(&'static str, &str)],
    test: impl AsyncFnOnce(Rc<Broker>),
) {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(LocalOptions::default()).unwrap();
    runtime.block_on(async {
        let backend = Backend::unix(PathBuf::from("/nonexistent/redis.sock"), String::new());
        let broker = Broker::start(Config::with(settings).unwrap(), backend).unwrap();
        tokio::time::timeout(WITHIN, test(broker)).await.unwrap();
    });
}

/// Waits for what other tasks do.
async fn until_it_is(mut so: impl FnMut() -> bool) {
    while !so() {
        yield_now().await;
    }
}

/// The client's end of a connection, and what runs the other one.
struct Peer {
    pipe: DuplexStream,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl Peer {
    /// A connection that has met these commands.
    fn new(broker: &Rc<Broker>, commands: Vec<Run>) -> Self {
        let from = "1.2.3.4:5".parse().unwrap();
        let registered = broker.clients.register(from, String::new(), Instant::now());
        let mut connection = Connection::new(
            broker.clone(),
            Rc::new(Counts::new(&broker.metrics)),
            Rc::new(RefCell::new(Settings::new(&broker.config()))),
            broker.memory.share(),
            registered,
        );
        for run in commands {
            connection.go_on(None, run);
        }
        let (pipe, stream) = duplex(PIPE);
        let stop = CancellationToken::new();
        let served = tokio::task::spawn_local(connection.run(stream, stop.clone()));
        Self { pipe, stop, served }
    }

    async fn gets(&mut self, expected: &str) {
        let mut got = vec![0; expected.len()];
        self.pipe.read_exact(&mut got).await.unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), expected);
    }

    /// Gets nothing more, and the connection ends.
    async fn gets_end(mut self) {
        let mut rest = Vec::new();
        self.pipe.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.escape_ascii().to_string(), "");
        self.served.await.unwrap();
    }

    /// Leaves; gives what still runs for it.
    fn leaves(self) -> JoinHandle<()> {
        self.served
    }
}

/// Commands that wait: how many do, and the bell that lets one of them go on.
#[derive(Clone, Default)]
struct Waits(Rc<(Cell<usize>, Notify)>);

impl Waits {
    fn number(&self) -> usize {
        self.0.0.get()
    }

    fn ring(&self) {
        self.0.1.notify_one();
    }

    /// A command that waits, and answers why it waits no longer.
    fn run(&self, at_most: Option<Duration>) -> Run {
        struct Place(Waits);
        impl Drop for Place {
            fn drop(&mut self) {
                self.0.0.0.set(self.0.number() - 1);
            }
        }
        let enough = CancellationToken::new();
        let (waits, told) = (self.clone(), enough.clone());
        let reply = async move {
            waits.0.0.set(waits.number() + 1);
            let place = Place(waits);
            let elapsed = async {
                match at_most {
                    Some(at_most) => tokio::time::sleep(at_most).await,
                    None => std::future::pending().await,
                }
            };
            let waited = tokio::select! {
                biased;
                () = told.cancelled() => "Enough",
                () = place.0.0.1.notified() => "Woken",
                () = elapsed => "Elapsed",
            };
            (Reply::Simple(waited.into()), None)
        };
        Run::Parked(Box::pin(reply), enough)
    }
}

fn pong() -> Run {
    Run::Ready(Reply::Simple("PONG".into()))
}

#[test]
fn a_command_that_waits_is_answered_between_what_is_before_and_behind_it() {
    with_broker(async |broker| {
        let waits = Waits::default();
        let mut peer = Peer::new(&broker, vec![pong(), waits.run(None)]);
        peer.pipe.write_all(b"ECHO 1\r\nECHO 2\r\n").await.unwrap();
        peer.gets("+PONG\r\n").await;
        until_it_is(|| waits.number() == 1).await;
        waits.ring();
        peer.gets("+Woken\r\n$1\r\n1\r\n$1\r\n2\r\n").await;
        assert_eq!(waits.number(), 0);
    });
}

#[test]
fn it_waits_until_its_deadline_the_stop_or_the_end_of_what_the_client_says() {
    with_broker(async |broker| {
        let line = Waits::default();
        let waits = |at_most| vec![line.run(at_most)];
        let mut elapses = Peer::new(&broker, waits(Some(Duration::from_millis(1))));
        elapses.gets("+Elapsed\r\n").await;
        let mut stopped = Peer::new(&broker, waits(None));
        until_it_is(|| line.number() == 1).await;
        stopped.stop.cancel();
        stopped.gets("+Enough\r\n").await;
        stopped.gets_end().await;
        let mut silent = Peer::new(&broker, waits(None));
        until_it_is(|| line.number() == 1).await;
        silent.pipe.shutdown().await.unwrap();
        silent.gets("+Enough\r\n").await;
        silent.gets_end().await;
        // One that comes to the stop is not begun to wait for.
        let mut late = Peer::new(&broker, waits(None));
        late.stop.cancel();
        late.gets("+Enough\r\n").await;
        late.gets_end().await;
    });
}

#[test]
fn whoever_leaves_or_is_killed_waits_no_longer() {
    with_broker(async |broker| {
        let waits = Waits::default();
        let peer = || Peer::new(&broker, vec![waits.run(None)]);
        let (killed, mut last) = (peer(), peer());
        until_it_is(|| waits.number() == 2).await;
        broker.clients.list().iter().take(1).for_each(|client| client.kill());
        killed.served.await.unwrap();
        assert_eq!(waits.number(), 1);
        waits.ring();
        last.gets("+Woken\r\n").await;
        let gone = peer();
        until_it_is(|| waits.number() == 1).await;
        gone.leaves().await.unwrap();
        assert_eq!((waits.number(), broker.clients.len()), (0, 1));
    });
}

#[test]
fn what_is_behind_a_command_that_waits_stays_bounded() {
    const COUNT: usize = 100_000;
    with_broker(async |broker| {
        let waits = Waits::default();
        let peer = Peer::new(&broker, vec![waits.run(None)]);
        let (mut from, mut to) = tokio::io::split(peer.pipe);
        let sent = Rc::new(Cell::new(0));
        let sending = {
            let sent = sent.clone();
            tokio::task::spawn_local(async move {
                for _ in 0..COUNT {
                    to.write_all(b"PING\r\n").await.unwrap();
                    sent.set(sent.get() + 6);
                }
                to
            })
        };
        until_it_is(|| waits.number() == 1 && sent.get() >= READ_AHEAD).await;
        for _ in 0..1_000 {
            yield_now().await;
        }
        let taken = sent.get();
        assert!(taken <= READ_AHEAD + READ_MAX + PIPE, "{taken} bytes were taken");
        assert!(broker.memory.used_and_limit().0 <= taken, "they are counted");
        waits.ring();
        let mut got = vec![0; "+Woken\r\n".len() + COUNT * "+PONG\r\n".len()];
        from.read_exact(&mut got).await.unwrap();
        assert!(got.starts_with(b"+Woken\r\n+PONG\r\n"));
        sending.await.unwrap();
    });
}

#[test]
fn a_call_goes_on_when_its_client_has_left_and_nothing_else_of_it_stays() {
    with_broker(async |broker| {
        let (answer, done) = (Rc::new(Notify::new()), Rc::new(Cell::new(false)));
        let call = {
            let (answer, done) = (answer.clone(), done.clone());
            Run::Later(Box::pin(async move {
                answer.notified().await;
                done.set(true);
                Reply::Ok
            }))
        };
        let mut peer = Peer::new(&broker, vec![call]);
        // Much of a command that will never be whole.
        let unfinished = format!("*1\r\n$60000\r\n{}", "x".repeat(10_000));
        peer.pipe.write_all(unfinished.as_bytes()).await.unwrap();
        until_it_is(|| broker.memory.used_and_limit().0 >= 10_000).await;
        let client = broker.clients.list().remove(0);
        client.kill();
        let runs = peer.leaves();
        until_it_is(|| broker.clients.is_empty()).await;
        assert_eq!((broker.clients.left(), broker.memory.used_and_limit().0), (1, 0));
        assert!(!runs.is_finished() && !done.get());
        answer.notify_one();
        runs.await.unwrap();
        assert!(done.get() && broker.clients.left() == 0);
    });
}

#[test]
fn one_that_fills_every_batch_keeps_nobody_out_of_all() {
    // A batch has no answer within this time, and the next large message is there before.
    with_settings(&[("redis.call_timeout_ms", "100")], async |broker| {
        broker.offers().claim.open_until(u64::MAX);
        let large = Peer::new(&broker, Vec::new());
        let (_replies, mut to) = tokio::io::split(large.pipe);
        let offer = [&b"*4\r\n$8\r\nDQ.OFFER\r\n$1\r\nq\r\n$2\r\n1h\r\n$4194304\r\n"[..]]
            .into_iter()
            .chain([&[b'x'; 4 * 1024 * 1024][..], b"\r\n"])
            .collect::<Vec<_>>()
            .concat();
        let flood =
            tokio::task::spawn_local(async move { while to.write_all(&offer).await.is_ok() {} });
        until_it_is(|| broker.offers().waiting() > 0).await;
        // More than one turn has, and than few.
        let mut small = Peer::new(&broker, Vec::new());
        small.pipe.write_all(&b"DQ.OFFER q 1h small\r\n".repeat(200)).await.unwrap();
        let mut lines = tokio::io::BufReader::new(&mut small.pipe).lines();
        for _ in 0..200 {
            assert!(lines.next_line().await.unwrap().is_some());
        }
        flood.abort();
    });
}

#[test]
fn one_that_has_said_everything_is_off_the_list_and_still_hears_its_answer() {
    with_broker(async |broker| {
        let answer = Rc::new(Notify::new());
        let call = {
            let answer = answer.clone();
            Run::Later(Box::pin(async move {
                answer.notified().await;
                Reply::Ok
            }))
        };
        let mut peer = Peer::new(&broker, vec![call]);
        peer.pipe.write_all(b"PING\r\n").await.unwrap();
        peer.pipe.shutdown().await.unwrap();
        until_it_is(|| broker.clients.is_empty()).await;
        answer.notify_one();
        peer.gets("+OK\r\n+PONG\r\n").await;
        peer.gets_end().await;
        assert_eq!(broker.clients.left(), 0);
    });
}
