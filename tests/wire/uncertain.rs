//! A link that breaks after a command was sent: it is found out what became of it, or UNCERTAIN
//! says that it was not.

use crate::peer::{Peer, fresh_queue};
use crate::proxy::Proxy;
use crate::support::broker::Broker;
use crate::support::wait::{WITHIN, eventually};
use crate::support::{redis, resp};

/// A broker whose links can be made to fail, and the Redis behind them.
struct Linked {
    proxy: Proxy,
    broker: Broker,
    database: u32,
}

impl Linked {
    /// It is given up on a call, and on settling it, after so long.
    fn start(timeout_ms: &str) -> Linked {
        let database = redis::shared().fresh_database();
        let proxy = Proxy::start(redis::shared().address());
        let broker = Broker::spawn(
            &proxy.url(database),
            &[
                ("redis.call_timeout_ms", timeout_ms),
                ("redis.settle_timeout_ms", timeout_ms),
                ("redis.connect_timeout_ms", "300"),
            ],
        );
        Linked { proxy, broker, database }
    }

    fn backing(&self) -> resp::Client {
        redis::shared().client(self.database)
    }

    fn peer(&self, queue: &str) -> Peer {
        let mut peer = Peer::connect(&self.broker);
        queue.clone_into(&mut peer.queue);
        peer
    }

    fn pending(&self, queue: &str) -> i64 {
        let key = format!("redisson_delay_queue_timeout:{{{queue}}}");
        self.backing().call(&["ZCARD", &key]).unwrap().int()
    }
}

/// The link stays dead for longer than it may take to find out.
#[test]
fn not_settled() {
    // Long enough that a busy machine sends all commands before the first is given up.
    let linked = Linked::start("2000");
    let queue = fresh_queue();
    let mut offering = linked.peer(&queue);
    let mut executing = linked.peer(&queue);
    offering.sends("DQ.OFFER «q» 1h a NAME n\r\n");
    offering.gets("$30\r\n«id»\r\n");
    let writing = [
        "DQ.CANCEL «q» nobody\r\n",
        "DQ.RESCHEDULE «q» n 2h\r\n",
        "DQ.FIRE «q» nobody\r\n",
        "DQ.PAUSE «q»\r\n",
        "DQ.RESUME «q»\r\n",
        "DQ.QUARANTINE «q» DROP\r\n",
        "DQ.QUARANTINE «q» RESTORE\r\n",
        "DQ.TAKE «q»\r\n",
        "DQ.ACK «q» ffffffffffffffff:1\r\n",
        "DQ.NACK «q» ffffffffffffffff:1\r\n",
        "DQ.EXTEND «q» ffffffffffffffff:1\r\n",
        "DQ.DEAD «q» REQUEUE\r\n",
        "DQ.DEAD «q» DROP\r\n",
    ];
    // No reply of theirs may be large: of such calls only four are under way at a time.
    let reading = ["DQ.TAKEN «q»\r\n", "DQ.SIZE «q»\r\n", "TIME\r\n"];
    let commands = || writing.iter().chain(&reading);
    let mut peers: Vec<Peer> = commands().map(|_| linked.peer(&queue)).collect();
    linked.proxy.swallow(true);
    // Of one write, so of one call.
    offering.sends("DQ.OFFER «q» 1h b\r\nDQ.MOFFER «q» 1h c 1h d\r\nDQ.OFFER «q» 1h e NAME m\r\n");
    for (peer, command) in peers.iter_mut().zip(commands()) {
        peer.sends(command);
    }
    executing.sends("MULTI\r\nDQ.OFFER «q»x 1h f\r\nPING\r\nDQ.MOFFER «q»y 1h g 1h h\r\nEXEC\r\n");
    executing.gets(&format!("+OK\r\n{}", "+QUEUED\r\n".repeat(3)));
    let uncertain = "-UNCERTAIN the link to Redis broke after sending «text»\r\n";
    offering.gets(&uncertain.repeat(3));
    // In the same call, or in the next one, which finds no link and is surely not sent.
    executing.gets("*3\r\n-UN«text»\r\n+PONG\r\n-UN«text»\r\n");
    for (peer, command) in peers.iter_mut().zip(commands()) {
        eprintln!("{}", command.escape_debug());
        let code = if reading.contains(command) { "UNAVAILABLE" } else { "UNCERTAIN" };
        peer.gets(&format!("-{code} «text»\r\n"));
    }
    // Here it was applied.
    assert_eq!(linked.pending(&queue), 5);
    linked.proxy.cut();
    let mut peer = Peer::connect(&linked.broker);
    let offered = || {
        peer.sends("DQ.OFFER «q» 1h e\r\n");
        peer.gets("«text»\r\n«lines»").remove(0)
    };
    eventually(offered, |answer| !answer.starts_with('-'));
    peer.gets("«text»\r\n");
}

/// The link breaks, another is made, and Redis says that the call was applied: the client gets the
/// reply that was lost, and nothing is done twice.
#[test]
fn settled_as_applied() {
    let linked = Linked::start("8000");
    let mut peer = Peer::connect(&linked.broker);
    let queue = peer.queue.clone();
    for (command, pending, reply) in [
        ("DQ.OFFER «q» 1h a NAME n\r\n", 1, "$30\r\n«id»\r\n"),
        ("DQ.MOFFER «q» 1h b 1h c\r\n", 3, "*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n"),
        ("DQ.CANCEL «q» n\r\n", 2, ":1\r\n"),
        (
            "MULTI\r\nDQ.OFFER «q» 1h d\r\nDQ.OFFER «q» 2h e\r\nEXEC\r\n",
            4,
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n",
        ),
        // At most once: what was taken is gone, and the client is told.
        ("DQ.POLL «q» COUNT 3\r\n", 1, "-UNCERTAIN the messages were taken, but «text»\r\n"),
        ("DQ.CLEAR «q»\r\n", 0, ":1\r\n"),
    ] {
        eprintln!("{}", command.escape_debug());
        // All links are up before one breaks.
        eventually(
            || metric(&linked.broker, "delay_broker_redis_link_up"),
            |up| !up.is_empty() && up.iter().all(|up| up == "1"),
        );
        linked.proxy.swallow(true);
        peer.sends(command);
        eventually(|| linked.pending(&queue), |now| *now == pending);
        linked.proxy.cut();
        peer.gets(reply);
        assert_eq!(linked.pending(&queue), pending);
    }
}

/// The link breaks before the call arrives: it is made again, once.
#[test]
fn settled_as_not_applied() {
    let linked = Linked::start("8000");
    let mut peer = Peer::connect(&linked.broker);
    let queue = peer.queue.clone();
    for round in 1..=5 {
        linked.proxy.cut();
        peer.sends("DQ.OFFER «q» 1h a\r\n");
        peer.gets("$30\r\n«id»\r\n");
        assert_eq!(linked.pending(&queue), round);
    }
}

/// The values of a metric.
pub fn metric(broker: &Broker, name: &str) -> Vec<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(broker.http_address()).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let values = text.lines().filter(|line| line.starts_with(name));
    values.filter_map(|line| line.rsplit_once(' ')).map(|(_, value)| value.to_owned()).collect()
}
