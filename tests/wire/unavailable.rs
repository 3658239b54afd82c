//! A Redis that is not there, or refuses before its first write: UNAVAILABLE, with its own words.
//! What needs no Redis is answered as ever, and all is well again when it is.

use crate::peer::{Peer, fresh_queue};
use crate::support::broker::Broker;
use crate::support::redis::Redis;
use crate::support::wait::eventually;

/// Every command that asks Redis.
const ASKING: [&str; 29] = [
    "DQ.OFFER «q» 1h a\r\n",
    "DQ.OFFER «q» 1h a NAME n\r\n",
    "DQ.MOFFER «q» 1h a 1h b\r\n",
    "DQ.REMOVE «q» a\r\n",
    "DQ.CANCEL «q» n\r\n",
    "DQ.RESCHEDULE «q» n 1h\r\n",
    "DQ.FIRE «q» n\r\n",
    "DQ.GET «q» n\r\n",
    "DQ.SIZE «q»\r\n",
    "DQ.PEEK «q»\r\n",
    "DQ.RANGE «q» - +\r\n",
    "DQ.CONTAINS «q» a\r\n",
    "DQ.POLL «q»\r\n",
    "DQ.CLEAR «q»\r\n",
    "DQ.CONVERT «q»\r\n",
    "DQ.PAUSE «q»\r\n",
    "DQ.RESUME «q»\r\n",
    "DQ.QUARANTINE «q» LIST\r\n",
    "DQ.QUARANTINE «q» RESTORE\r\n",
    "DQ.QUARANTINE «q» DROP\r\n",
    "DQ.TAKE «q»\r\n",
    "DQ.ACK «q» ffffffffffffffff:1\r\n",
    "DQ.NACK «q» ffffffffffffffff:1\r\n",
    "DQ.EXTEND «q» ffffffffffffffff:1\r\n",
    "DQ.TAKEN «q»\r\n",
    "DQ.DEAD «q» LIST\r\n",
    "DQ.QUEUES\r\n",
    "DQ.INFO «q»\r\n",
    "TIME\r\n",
];

fn start(args: &[&str]) -> (Redis, Broker) {
    let redis = Redis::spawn(args);
    let settings = [
        ("redis.call_timeout_ms", "1500"),
        ("redis.settle_timeout_ms", "1500"),
        ("redis.connect_timeout_ms", "300"),
    ];
    let broker = Broker::spawn(&redis.url(0), &settings);
    (redis, broker)
}

#[test]
fn gone() {
    let (redis, broker) = start(&[]);
    let queue = fresh_queue();
    let mut peers: Vec<Peer> = ASKING.iter().map(|_| Peer::connect(&broker)).collect();
    for peer in &mut peers {
        peer.queue.clone_from(&queue);
    }
    peers[0].sends("DQ.OFFER «q» 1h a\r\n");
    peers[0].gets("$30\r\n«id»\r\n");
    drop(redis);
    let mut local = Peer::connect(&broker);
    local.sends("INFO persistence\r\n");
    local.gets("$26\r\n# Persistence\r\nloading:«int»\r\n\r\n");
    for (peer, command) in peers.iter_mut().zip(ASKING) {
        peer.sends(format!("{command}PING\r\n"));
    }
    local.sends("PING\r\nDQ.OFFER «q» -1 a\r\nHELLO 2\r\nCOMMAND COUNT\r\n");
    local.gets("+PONG\r\n-BADDELAY «text»\r\n*14\r\n«lines»modules\r\n*0\r\n:«int»\r\n");
    for (peer, command) in peers.iter_mut().zip(ASKING) {
        eprintln!("{}", command.escape_debug());
        peer.gets("-UNAVAILABLE Redis cannot be reached«text»\r\n+PONG\r\n");
    }
    local.sends("INFO persistence\r\n");
    local.gets("$26\r\n# Persistence\r\nloading:1\r\n\r\n");
}

/// Stopped by a signal it takes what is sent, and may run it later.
#[test]
fn stopped() {
    let (redis, broker) = start(&[]);
    let mut peer = Peer::connect(&broker);
    let mut local = Peer::connect(&broker);
    peer.sends("DQ.OFFER «q» 1h a\r\n");
    peer.gets("$30\r\n«id»\r\n");
    let pid = redis.pid();
    crate::support::broker::signal(pid, "STOP");
    peer.sends("DQ.OFFER «q» 1h b\r\nDQ.SIZE «q»\r\nPING\r\n");
    local.sends("PING\r\n");
    local.gets("+PONG\r\n");
    peer.gets(
        "-UNCERTAIN the link to Redis broke after sending «text»\r\n-UNAVAILABLE «text»\r\n\
         +PONG\r\n",
    );
    crate::support::broker::signal(pid, "CONT");
    let size = || {
        peer.sends("DQ.SIZE «q»\r\n");
        peer.gets("«text»\r\n").remove(0)
    };
    // What became of it then is for Redis to know; the broker does not send it again.
    let size = eventually(size, |size| !size.starts_with('-'));
    assert!([":1", ":2"].contains(&size.as_str()), "{size}");
}

/// What adds is refused; what frees goes on.
#[test]
fn out_of_memory() {
    let (redis, broker) = start(&[]);
    let mut peer = Peer::connect(&broker);
    peer.sends(
        "DQ.MOFFER «q» 1h a 1h b 1h c 1h d 1h e\r\nDQ.OFFER «q» 1h f NAME n\r\nDQ.OFFER «q» 1h g \
         NAME m\r\n",
    );
    peer.gets(&("*5\r\n".to_owned() + &"$30\r\n«id»\r\n".repeat(7)));
    let mut backing = redis.client(0);
    backing.call(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    peer.sends("DQ.OFFER «q» 1h x\r\nDQ.MOFFER «q» 1h x 1h y\r\nDQ.OFFER «q»x 1h x NAME n\r\n");
    peer.gets(
        &"-UNAVAILABLE Redis refused: OOM command not allowed when used memory > 'maxmemory'.\r\n"
            .repeat(3),
    );
    // Not with the hash of a script, where Redis stopped one.
    peer.sends(
        "DQ.SETUP «q» limit 5\r\nDQ.RESCHEDULE «q» n 2h\r\n\
         DQ.CRON «q» SET a '@daily' p\r\n",
    );
    peer.gets(
        &"-UNAVAILABLE Redis refused: OOM command not allowed when used memory > 'maxmemory'.\r\n"
            .repeat(3),
    );
    peer.sends(
        "DQ.SIZE «q»\r\nDQ.CANCEL «q» n\r\nDQ.REMOVE «q» c\r\nDQ.POLL «q» COUNT 1\r\n\
         DQ.GET «q» m\r\n\
         DQ.CONTAINS «q» b\r\nDQ.CONVERT «q» LEGACY\r\nDQ.CLEAR «q»\r\n",
    );
    peer.gets(":7\r\n:1\r\n:1\r\n*1\r\n$1\r\na\r\n*10\r\n«lines»modern\r\n*1\r\n:1\r\n");
    peer.gets("*4\r\n$9\r\nconverted\r\n:4\r\n$4\r\nleft\r\n:0\r\n:4\r\n");
    backing.call(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    peer.sends("DQ.OFFER «q» 1h x\r\nDQ.SIZE «q»\r\n");
    peer.gets("$30\r\n«id»\r\n:1\r\n");
}

#[test]
fn a_replica_and_no_permission() {
    let (redis, broker) = start(&[]);
    let mut peer = Peer::connect(&broker);
    peer.sends("DQ.OFFER «q» 1h a NAME n\r\n");
    peer.gets("$30\r\n«id»\r\n");
    let mut backing = redis.client(0);
    backing.call(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    for command in
        ["DQ.OFFER «q» 1h b\r\n", "DQ.CANCEL «q» n\r\n", "DQ.POLL «q»\r\n", "DQ.PAUSE «q»\r\n"]
    {
        eprintln!("{}", command.escape_debug());
        peer.sends(command);
        peer.gets("-UNAVAILABLE «text»\r\n");
    }
    backing.call(&["REPLICAOF", "NO", "ONE"]).unwrap();
    works_again(&mut peer);
    backing.call(&["ACL", "SETUSER", "default", "-evalsha"]).unwrap();
    for command in ["DQ.OFFER «q» 1h b\r\n", "DQ.CANCEL «q» n\r\n", "DQ.SIZE «q»\r\n"] {
        eprintln!("{}", command.escape_debug());
        peer.sends(command);
        peer.gets("-UNAVAILABLE Redis refused: NOPERM «text»\r\n");
    }
    backing.call(&["ACL", "SETUSER", "default", "+@all"]).unwrap();
    works_again(&mut peer);
}

/// Offers go on where the address leads to another server by now: their script hands on what Redis
/// refuses, and does not fail by it.
#[test]
fn the_connection_to_a_replica_is_left() {
    let (redis, broker) = start(&[]);
    let mut backing = redis.client(0);
    let mut connection = || {
        let list = backing.call(&["CLIENT", "LIST"]).unwrap().text();
        let of_offers = list.lines().find(|line| line.contains("name=delay-broker-offers"));
        of_offers.and_then(|line| line.split(' ').next()).map(str::to_owned)
    };
    let before = connection();
    redis.client(0).call(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let mut peer = Peer::connect(&broker);
    peer.sends("DQ.OFFER «q» 1h a\r\n");
    peer.gets("-UNAVAILABLE Redis refused: READONLY «text»\r\n");
    eventually(connection, |now| now.is_some() && *now != before);
}

#[test]
fn busy() {
    let (redis, broker) = start(&["--lua-time-limit", "1"]);
    let mut peer = Peer::connect(&broker);
    let mut hog = redis.client(0);
    let mut backing = redis.client(0);
    hog.send(&["EVAL", "while true do end", "0"]).unwrap();
    eventually(|| backing.call(&["PING"]).unwrap().text(), |answer| answer.starts_with("BUSY"));
    peer.sends("DQ.OFFER «q» 1h b\r\nDQ.CANCEL «q» n\r\nDQ.SIZE «q»\r\n");
    peer.gets(&"-UNAVAILABLE Redis refused: BUSY «text»\r\n".repeat(3));
    backing.call(&["SCRIPT", "KILL"]).unwrap();
    works_again(&mut peer);
}

fn works_again(peer: &mut Peer) {
    let offered = || {
        peer.sends("DQ.OFFER «q» 1h again NAME again\r\nECHO end\r\n");
        peer.gets("«lines»$3\r\nend\r\n").remove(0)
    };
    eventually(offered, |answer| answer.starts_with('$'));
}

/// A Redis that lacks a command which a script needs answers what no script expects.
#[test]
fn an_answer_that_no_script_expects() {
    let redis = Redis::spawn(&["--rename-command", "PTTL", ""]);
    let broker = Broker::spawn(&redis.url(0), &[("redis.audit", "warn")]);
    let mut peer = Peer::connect(&broker);
    peer.sends("DQ.OFFER «q» 1h a\r\nDQ.INFO «q»\r\nDQ.CONTAINS «q» a\r\n");
    peer.gets("$30\r\n«id»\r\n-INTERNAL Redis answered: «text»\r\n*1\r\n:1\r\n");
}
