//! A link to Redis that can be made to fail in the middle: a TCP proxy of this process.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
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
                std::thread::spawn(move || pass(client, server, None));
                let state = Arc::clone(&shared);
                std::thread::spawn(move || pass(back, to, Some(&state)));
            }
        });
        Proxy { state, port }
    }

    pub fn url(&self, database: u32) -> String {
        format!("redis://127.0.0.1:{}/{database}", self.port)
    }

    /// From now on no reply comes back, on no connection.
    pub fn swallow(&self, swallows: bool) {
        self.state.swallows.store(swallows, Ordering::SeqCst);
    }

    /// Ends all connections; new ones are made at once.
    pub fn cut(&self) {
        for stream in self.state.open.lock().unwrap().drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, replies: Option<&State>) {
    let mut some = [0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut some) {
        let swallowed = replies.is_some_and(|state| state.swallows.load(Ordering::SeqCst));
        if !swallowed && to.write_all(&some[..count]).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok();
    from.shutdown(Shutdown::Both).ok();
}
