//! Stands between broker and Redis, and breaks the link around chosen requests.
//!
//! Keeps: it breaks what it was asked for and otherwise only forwards, so that what follows is the
//! broker's repair.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What happens to the request that holds the needles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Break {
    /// Redis gets it, the broker never gets the reply: the link is cut when the reply comes.
    Reply,
    /// Redis never gets it: the link is cut.
    Request,
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
                Break::Request => Break::Reply,
            };
        }
        Some(how)
    }
}

pub struct Proxy {
    address: String,
    plan: Arc<Mutex<Option<Plan>>>,
    broken: Arc<AtomicUsize>,
}

impl Proxy {
    pub fn start(redis: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let proxy = Proxy {
            address,
            plan: Arc::default(),
            broken: Arc::default(),
        };
        let (plan, broken) = (proxy.plan.clone(), proxy.broken.clone());
        // Ends with the process: there is nobody to connect any more.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&redis) else {
                    continue;
                };
                serve(client, server, plan.clone(), broken.clone());
            }
        });
        proxy
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

    /// Only forwards from now on.
    pub fn mend(&self) {
        *self.plan.lock().unwrap() = None;
    }

    fn plan(&self, needles: &[&str], how: Break, every: Option<usize>) {
        let bytes = |needle: &&str| needle.as_bytes().to_vec();
        let needles = needles.iter().map(bytes).collect();
        let plan = Plan {
            needles,
            how,
            every,
            passed: 0,
        };
        *self.plan.lock().unwrap() = Some(plan);
    }

    /// How many requests were broken.
    pub fn broken(&self) -> usize {
        self.broken.load(Ordering::SeqCst)
    }
}

fn serve(
    client: TcpStream,
    server: TcpStream,
    plan: Arc<Mutex<Option<Plan>>>,
    broken: Arc<AtomicUsize>,
) {
    let swallowing = Arc::new(AtomicBool::new(false));
    let (from_client, to_client) = (client.try_clone().unwrap(), client);
    let (from_server, to_server) = (server.try_clone().unwrap(), server);
    let swallows = swallowing.clone();
    pump(from_client, to_server, move |bytes| {
        let mut plan = plan.lock().unwrap();
        let found = plan.as_mut().and_then(|plan| plan.meets(bytes));
        if found.is_some() {
            *plan = plan.take().filter(|plan| plan.every.is_some());
            broken.fetch_add(1, Ordering::SeqCst);
        }
        swallows.fetch_or(found == Some(Break::Reply), Ordering::SeqCst);
        found != Some(Break::Request)
    });
    pump(from_server, to_client, move |_| {
        !swallowing.load(Ordering::SeqCst)
    });
}

/// Forwards until one side closes or `forwards` says no; then the whole link is cut.
fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    mut forwards: impl FnMut(&[u8]) -> bool + Send + 'static,
) {
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(size @ 1..) = from.read(&mut bytes) {
            if !forwards(&bytes[..size]) || to.write_all(&bytes[..size]).is_err() {
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
