//! `delay-broker health` finds the running broker, and gets an answer whatever others do.

use crate::stage::get;
use crate::support::broker::{Broker, run};
use crate::support::redis;
use crate::support::wait::eventually;
use std::io::Write;
use std::net::TcpStream;

fn broker(flags: &[&str]) -> Broker {
    let url = redis::shared().url(redis::shared().fresh_database());
    Broker::with_args(&[&["--redis", &url], flags].concat(), &[])
}

/// By a flag that the check does not have, or nowhere at all: the variables are those of the image.
#[test]
fn the_running_broker_is_found_however_it_was_configured() {
    for flags in [["--http", "127.0.0.1:0"], ["--http", ""]] {
        let broker = broker(&flags);
        let which = format!("--running={}", broker.pid());
        let image = [("DELAY_BROKER_HTTP__LISTEN", "0.0.0.0:1")];
        let (status, said) = run(&["health", &which, "--wait", "5"], &image);
        assert!(status.success(), "{flags:?}: {said}");
        // Other tests have theirs.
        let (status, said) = run(&["health", "--running"], &image);
        let several = said.contains("several brokers run here: --running=PID says which");
        assert!(status.success() || several && said.contains(&broker.pid().to_string()), "{said}");
    }
    let (status, said) = run(&["health", "--running=1"], &[]);
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("no answer from the broker that runs here"), "{said}");
}

/// Waits for a broker that is not there yet, and fails when the time is over.
#[test]
fn a_check_can_wait() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nowhere.local_addr().unwrap().to_string();
    drop(nowhere);
    let (status, said) = run(&["health", "--http", &address, "--wait", "1"], &[]);
    assert_eq!(status.code(), Some(1), "{said}");
    let waiting = std::thread::spawn({
        let address = address.clone();
        move || run(&["health", "--http", &address, "--wait", "60"], &[])
    });
    let _broker = broker(&["--http", &address]);
    let (status, said) = waiting.join().unwrap();
    assert!(status.success(), "{said}");
}

#[test]
fn clients_that_never_read_do_not_make_it_unhealthy() {
    let broker = broker(&[]);
    let address = broker.http_address();
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2_000);
    let held: Vec<TcpStream> = (0..70)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            // It may be closed before it has sent everything.
            stream.write_all(request.as_bytes()).ok();
            stream
        })
        .collect();
    let (status, said) = run(&["health", "--http", &address], &[]);
    assert!(status.success(), "{said}");
    eventually(|| get(&broker, "/metrics").0, |status| *status == 200);
    drop(held);
}
