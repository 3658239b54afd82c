//! `INFO`: the broker as clients and people look at a Redis.

use crate::peer::{Place, shared};
use crate::support::wait::eventually;

#[test]
fn info() {
    let mut peer = shared().peer3();
    peer.sends("*1\r\n$4\r\nINFO\r\n");
    peer.sends("ECHO end\r\n");
    let found = peer.gets("$«int»\r\n# Server\r\n«lines»\r\n$3\r\nend\r\n");
    let size: usize = found[0].parse().unwrap();
    let text = &found[1];
    assert_eq!(size, "# Server\r\n".len() + text.len());
    for field in [
        "redis_version:7.4.0",
        "redis_mode:standalone",
        "role:master",
        "loading:0",
        &format!("process_id:{}", shared().broker.pid()),
        &format!("tcp_port:{}", shared().broker.address().rsplit(':').next().unwrap()),
        "connected_clients:",
        "used_memory:",
        "uptime_in_seconds:",
        "total_commands_processed:",
        "cluster_enabled:0",
        "ready:1",
        "ready_why:ready",
        "redis_link:up",
        "backing_address:redis://127.0.0.1:",
        "offered:",
        "pending_known:",
        "queues_known:",
    ] {
        assert!(format!("\r\n{text}").contains(&format!("\r\n{field}")), "{field} in {text}");
    }
    peer.sends("info SERVER replication\r\nINFO nothing\r\n");
    peer.gets(
        "$«int»\r\n# Server\r\n«lines»\r\n# Replication\r\nrole:master\r\n«lines»\r\n\r\n\
         $0\r\n\r\n",
    );
}

/// What an agent wants to know of the broker at a glance; the queues are read where that was long
/// ago, and the first INFO has them.
#[test]
fn info_of_the_broker() {
    let place = Place::spawn(&[("metrics.queues_max", "2")]);
    let mut peer = place.peer();
    for n in 0..3 {
        let many = "1h m ".repeat(n + 1);
        peer.sends(format!("DQ.MOFFER «q»{n} {many}\r\n"));
        peer.gets(&format!("*{}\r\n", n + 1));
        peer.gets_ids(n + 1);
    }
    peer.sends("DQ.POLL «q»2\r\nDQ.OFFER «q»1 0 due NAME n\r\nDQ.OFFER «q»1 1h x NAME m\r\n");
    peer.gets("*1\r\n$1\r\nm\r\n$30\r\n«id»\r\n$30\r\n«id»\r\n");
    peer.sends("DQ.CANCEL «q»1 m\r\n");
    peer.gets(":1\r\n");
    let queue = peer.queue.clone();
    let mut backing = place.backing();
    let ready = || backing.call(&["LLEN", &format!("{queue}1")]).unwrap().int();
    eventually(ready, |ready| *ready == 1);
    peer.sends("DQ.PAUSE «q»1\r\n");
    peer.gets("+OK\r\n");
    // A reading that Redis takes long for is shown when it is there.
    let known = || {
        peer.sends("INFO messages\r\n");
        let mut texts =
            peer.gets("$«int»\r\n# Messages\r\n«lines»known_seconds_ago:«text»\r\n\r\n");
        texts.pop().unwrap()
    };
    eventually(known, |ago| ago != "-1");
    peer.sends("INFO messages queues\r\n");
    peer.gets(
        "$«int»\r\n# Messages\r\noffered:8\r\ndelivered:1\r\ncancelled:1\r\nremoved:1\r\n\
         quarantined:0\r\npending_known:5\r\nready_known:1\r\nknown_seconds_ago:«int»\r\n\r\n\
         # Queues\r\nqueues_known:3\r\n\
         queue1:pending=2,ready=1,overdue_ms=0,paused=1,name=«q»1\r\n\
         queue2:pending=1,ready=0,overdue_ms=0,paused=0,name=«q»0\r\n\r\n",
    );
    let wanted = |text: &str| {
        let version = ["Redis ", "Valkey "].map(|name| text.contains(&format!("version:{name}")));
        version.contains(&true) && text.contains("backing_role:master\r\n")
    };
    let mut shown = || {
        peer.sends("INFO backing\r\n");
        peer.gets("$«int»\r\n# Backing\r\n«lines»\r\n\r\n").remove(1) + "\r\n"
    };
    eventually(&mut shown, |text| wanted(text));
    assert!(!shown().contains('@'), "no secret");
}

/// What is counted is shown: here the commands.
#[test]
fn commands_are_counted() {
    let mut peer = shared().peer();
    let mut counted = || {
        peer.sends("INFO stats\r\n");
        peer.gets("$«int»\r\n# Stats\r\n«lines»total_commands_processed:«int»\r\n\r\n")[2]
            .parse::<u64>()
            .unwrap()
    };
    let before = counted();
    eventually(counted, |now| *now > before);
}
