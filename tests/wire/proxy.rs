//! A link to Redis that can be made to fail in the middle: a TCP proxy of this process.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Passes bytes on, both ways, until it is told otherwise.
pub struct Proxy {
    state: Arc<State>,
    port: u16,
}

#[derive(Default)]
struct State {
    /// Requests go on, replies are lost.
    swallows: AtomicBool,
    cuts: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub fn start(target: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        // Ends with the process.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&target) else {
                    continue;
                };
                client.set_nodelay(true).ok();
                server.set_nodelay(true).ok();
                let mut open = shared.open.lock().unwrap();
                open.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (back, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let (state, cuts) = (Arc::clone(&shared), shared.cuts.load(SeqCst));
                std::thread::spawn(move || pass(client, server, || true));
                std::thread::spawn(move || {
                    pass(back, to, || {
                        !state.swallows.load(SeqCst) && state.cuts.load(SeqCst) == cuts
                    })
                });
            }
        });
        Proxy { state, port }
    }

    pub fn url(&self, database: u32) -> String {
        format!("redis://127.0.0.1:{}/{database}", self.port)
    }

    /// From now on no reply comes back, on no connection.
    pub fn swallow(&self, swallows: bool) {
        self.state.swallows.store(swallows, SeqCst);
    }

    /// Ends all connections, with the replies that are still in them; new ones are made at once,
    /// and pass everything.
    pub fn cut(&self) {
        let mut open = self.state.open.lock().unwrap();
        self.state.cuts.fetch_add(1, SeqCst);
        self.swallow(false);
        for stream in open.drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, passes: impl Fn() -> bool) {
    let mut some = [0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut some) {
        if passes() && to.write_all(&some[..count]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok();
    from.shutdown(Shutdown::Both).ok();
}
