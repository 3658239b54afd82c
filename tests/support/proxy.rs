//! Stands between broker and Redis, and breaks the link around chosen requests, or holds back what
//! passes.
//!
//! Keeps: it breaks what it was asked for and otherwise only forwards, in order and without loss,
//! so that what follows is the broker's repair.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What happens to the request that holds the needles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Break {
    /// Redis gets it, the broker never gets the reply: the link is cut when the reply comes.
    Reply,
    /// The same, but the link is cut in the middle of the reply.
    HalfReply,
    /// Redis never gets it: the link is cut.
    Request,
    /// Redis gets it, and nothing comes back on that connection any more, which stays open.
    Silence,
    /// Redis gets it, and what follows on that connection, when the proxy releases it.
    Late,
}

struct Plan {
    needles: Vec<Vec<u8>>,
    how: Break,
    /// How many such requests pass before one is broken; `None` for the first one and no other.
    every: Option<usize>,
    passed: usize,
}

impl Plan {
    fn meets(&mut self, bytes: &[u8]) -> Option<Break> {
        if !self.needles.iter().all(|needle| holds(bytes, needle)) {
            return None;
        }
        self.passed += 1;
        if self.passed <= self.every.unwrap_or(0) {
            return None;
        }
        self.passed = 0;
        let how = self.how;
        if self.every.is_some() {
            self.how = match how {
                Break::Reply => Break::Request,
                _ => Break::Reply,
            };
        }
        Some(how)
    }
}

/// One way of one connection: its number, and whether it is that of the replies.
type Way = (usize, bool);

/// What is held back.
#[derive(Default)]
struct Held {
    /// Every connection, also those to come.
    all: bool,
    ways: HashSet<Way>,
    /// How many connections there were.
    made: usize,
}

#[derive(Default)]
struct State {
    plan: Mutex<Option<Plan>>,
    broken: AtomicUsize,
    /// Each way, ms.
    delay_ms: AtomicU64,
    held: Mutex<Held>,
    released: Condvar,
}

impl State {
    /// As long as the way takes.
    fn travel(&self) {
        let delay_ms = self.delay_ms.load(Ordering::SeqCst);
        let way = Duration::from_millis(delay_ms);
        if delay_ms > 0 {
            let held = self.held.lock().unwrap();
            drop(self.released.wait_timeout_while(held, way, |_| true));
        }
    }

    fn hold(&self, way: Way) {
        self.held.lock().unwrap().ways.insert(way);
    }

    fn wait(&self, way: Way) {
        let holds = |held: &mut Held| held.all || held.ways.contains(&way);
        let held = self.held.lock().unwrap();
        drop(self.released.wait_while(held, holds).unwrap());
    }
}

pub struct Proxy {
    address: String,
    state: Arc<State>,
}

impl Proxy {
    pub fn start(redis: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State::default());
        let shared = state.clone();
        // Ends with the process: there is nobody to connect any more.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&redis) else {
                    continue;
                };
                serve(client, server, &shared);
            }
        });
        Proxy { address, state }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// The next request that holds all of these is broken.
    pub fn break_next(&self, needles: &[&str], how: Break) {
        self.plan(needles, how, None);
    }

    /// After every so many requests that hold this, one is broken, in one way and then the other.
    pub fn break_every(&self, needle: &str, count: usize) {
        self.plan(&[needle], Break::Reply, Some(count));
    }

    /// From now on Redis is so far away: half of a round trip, for all that comes in one read.
    pub fn delay(&self, each_way: Duration) {
        let delay_ms = each_way.as_millis() as u64;
        self.state.delay_ms.store(delay_ms, Ordering::SeqCst);
    }

    /// Only forwards from now on.
    pub fn mend(&self) {
        *self.state.plan.lock().unwrap() = None;
    }

    /// Nothing passes any more, on no connection: a network that is cut.
    pub fn hold_all(&self) {
        self.state.held.lock().unwrap().all = true;
    }

    /// Nothing passes on the connections that there are: half-open ones. New ones work.
    pub fn hold_old(&self) {
        let mut held = self.state.held.lock().unwrap();
        let old = (1..=held.made).flat_map(|number| [(number, false), (number, true)]);
        held.ways = old.collect();
    }

    /// What was held back passes.
    pub fn release(&self) {
        let mut held = self.state.held.lock().unwrap();
        held.all = false;
        held.ways.clear();
        self.state.released.notify_all();
    }

    fn plan(&self, needles: &[&str], how: Break, every: Option<usize>) {
        let bytes = |needle: &&str| needle.as_bytes().to_vec();
        let needles = needles.iter().map(bytes).collect();
        let plan = Plan { needles, how, every, passed: 0 };
        *self.state.plan.lock().unwrap() = Some(plan);
    }

    /// How many requests were broken.
    pub fn broken(&self) -> usize {
        self.state.broken.load(Ordering::SeqCst)
    }
}

fn serve(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    let number = {
        let mut held = state.held.lock().unwrap();
        held.made += 1;
        held.made
    };
    let (cuts, halves) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (from_client, to_client) = (client.try_clone().unwrap(), client);
    let (from_server, to_server) = (server.try_clone().unwrap(), server);
    let (requests, replies) = ((number, false), (number, true));
    let (shared, cut_replies, halved) = (state.clone(), cuts.clone(), halves.clone());
    pump(from_client, to_server, move |bytes| {
        let found = {
            let mut plan = shared.plan.lock().unwrap();
            let found = plan.as_mut().and_then(|plan| plan.meets(bytes));
            if found.is_some() {
                *plan = plan.take().filter(|plan| plan.every.is_some());
                shared.broken.fetch_add(1, Ordering::SeqCst);
            }
            found
        };
        match found {
            Some(Break::Request) => return 0,
            Some(Break::Reply) => cut_replies.store(true, Ordering::SeqCst),
            Some(Break::HalfReply) => halved.store(true, Ordering::SeqCst),
            Some(Break::Silence) => shared.hold(replies),
            Some(Break::Late) => shared.hold(requests),
            None => {}
        }
        shared.wait(requests);
        shared.travel();
        bytes.len()
    });
    let shared = state.clone();
    pump(from_server, to_client, move |bytes| {
        shared.wait(replies);
        shared.travel();
        if cuts.load(Ordering::SeqCst) {
            0
        } else if halves.load(Ordering::SeqCst) {
            bytes.len() / 2
        } else {
            bytes.len()
        }
    });
}

/// Forwards as many bytes as `passes` says, until it says fewer than there are or one side closes;
/// then the whole link is cut.
fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    mut passes: impl FnMut(&[u8]) -> usize + Send + 'static,
) {
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(size @ 1..) = from.read(&mut bytes) {
            let passing = passes(&bytes[..size]);
            if to.write_all(&bytes[..passing]).is_err() || passing < size {
                break;
            }
        }
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
    });
}

fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
