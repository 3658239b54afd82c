//! What clients and people ask about the server: INFO, COMMAND, CONFIG; and what a delay broker is
//! not: Cluster, Sentinel, transactions, pub/sub, a web server.

use crate::peer::{check, shared};
use crate::support::wait::eventually;
use std::process::Command;

#[test]
fn info() {
    let mut peer = shared().peer3();
    peer.sends("*1\r\n$4\r\nINFO\r\n");
    let found = peer.gets("$«int»\r\n# Server\r\n«lines»redis_link:up\r\n\r\n");
    let size: usize = found[0].parse().unwrap();
    let text = &found[1];
    assert_eq!(
        size,
        "# Server\r\n".len() + text.len() + "redis_link:up\r\n".len()
    );
    for field in [
        "redis_version:7.4.0",
        "redis_mode:standalone",
        "role:master",
        "loading:0",
        &format!("process_id:{}", shared().broker.pid()),
        &format!(
            "tcp_port:{}",
            shared().broker.address().rsplit(':').next().unwrap()
        ),
        "connected_clients:",
        "used_memory:",
        "uptime_in_seconds:",
        "total_commands_processed:",
        "cluster_enabled:0",
    ] {
        assert!(
            format!("\r\n{text}").contains(&format!("\r\n{field}")),
            "{field} in {text}"
        );
    }
    peer.sends("info SERVER replication\r\nINFO nothing\r\n");
    peer.gets(
        "$«int»\r\n# Server\r\n«lines»\r\n# Replication\r\nrole:master\r\n«lines»\r\n\r\n\
         $0\r\n\r\n",
    );
}

#[test]
fn command() {
    check(&[
        ("*2\r\n$7\r\nCOMMAND\r\n$5\r\nCOUNT\r\n", ":«int»\r\n"),
        (
            "command info DQ.offer nothing\r\n",
            "*2\r\n*10\r\n$8\r\ndq.offer\r\n:-4\r\n*3\r\n+write\r\n+denyoom\r\n+fast\r\n:1\r\n\
             :1\r\n:1\r\n*1\r\n+@write\r\n*0\r\n*1\r\n«*6|%3»\r\n$5\r\nflags\r\n*2\r\n+RW\r\n\
             +access\r\n$12\r\nbegin_search\r\n«*4|%2»\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\n\
             spec\r\n«*2|%1»\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n«*4|%2»\r\n$4\r\ntype\r\n\
             $5\r\nrange\r\n$4\r\nspec\r\n«*6|%3»\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n\
             $5\r\nlimit\r\n:0\r\n*0\r\n«$-1|_»\r\n",
        ),
        (
            "COMMAND LIST FILTERBY PATTERN dq.si*\r\n",
            "*1\r\n$7\r\ndq.size\r\n",
        ),
        (
            "COMMAND GETKEYS dq.offer «q» 1h a\r\n",
            "*1\r\n$5\r\n«q»\r\n",
        ),
        (
            "COMMAND GETKEYS ping\r\n",
            "-ERR The command has no key arguments\r\n",
        ),
        (
            "COMMAND GETKEYS nothing x\r\n",
            "-ERR Invalid command specified\r\n",
        ),
        (
            "COMMAND GETKEYS dq.offer x\r\n",
            "-ERR Invalid number of arguments specified for command\r\n",
        ),
        (
            "COMMAND DOCS dq.size\r\n",
            "«*2|%1»\r\n$7\r\ndq.size\r\n«*8|%4»\r\n$7\r\nsummary\r\n$27\r\n\
             Counts the pending messages\r\n\
             $5\r\nsince\r\n$5\r\n0.1.0\r\n$5\r\ngroup\r\n$12\r\ndelay-broker\r\n\
             $9\r\narguments\r\n*1\r\n\
             «*8|%4»\r\n$4\r\nname\r\n$5\r\nqueue\r\n$4\r\ntype\r\n$3\r\nkey\r\n\
             $12\r\ndisplay_text\r\n$5\r\nqueue\r\n$14\r\nkey_spec_index\r\n:0\r\n",
        ),
        ("COMMAND DOCS nothing\r\n", "«*0|%0»\r\n"),
        (
            "COMMAND WHAT\r\n",
            "-ERR unknown subcommand 'WHAT'. Try COMMAND HELP.\r\n",
        ),
        (
            "COMMAND COUNT x\r\n",
            "-ERR syntax error: unexpected argument 'x'; «text»\r\n",
        ),
    ]);
}

/// Each command that COMMAND lists is answered, and each of ours has its queue as its key.
#[test]
fn all_commands() {
    let mut peer = shared().peer();
    peer.sends("COMMAND COUNT\r\nCOMMAND LIST\r\n");
    let count: usize = peer.gets(":«int»\r\n").remove(0).parse().unwrap();
    peer.gets(&format!("*{count}\r\n"));
    let names: Vec<String> = (0..count)
        .map(|_| peer.gets("$«int»\r\n«text»\r\n").remove(1))
        .collect();
    for name in &names {
        let own = name.starts_with("dq.") && !["dq.queues", "dq.help"].contains(&name.as_str());
        let key = u8::from(own);
        peer.sends(format!("COMMAND INFO {name}\r\nECHO end\r\n"));
        peer.gets(&format!(
            "*1\r\n*10\r\n$«int»\r\n{name}\r\n:«text»\r\n*«int»\r\n"
        ));
        peer.gets(&format!(
            "«lines»:{key}\r\n:{key}\r\n:{key}\r\n*«lines»$3\r\nend\r\n"
        ));
    }
    for name in [
        "dq.offer",
        "dq.queues",
        "hello",
        "client",
        "command",
        "info",
    ] {
        assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
    }
}

/// redis-cli makes its hints from COMMAND DOCS; it starts with it as a person does, on a terminal.
#[test]
fn redis_cli_reads_the_docs() {
    let port = shared()
        .broker
        .address()
        .rsplit(':')
        .next()
        .unwrap()
        .to_owned();
    for protocol in [&[][..], &["-3"]] {
        let answer = Command::new("redis-cli")
            .args(["-p", &port])
            .args(protocol)
            .args(["COMMAND", "DOCS", "DQ.OFFER"])
            .output()
            .unwrap();
        let text = String::from_utf8(answer.stdout).unwrap();
        for word in ["dq.offer", "summary", "delay-broker", "NAME", "payload"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
}

#[test]
fn config() {
    check(&[
        (
            "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$4\r\nsave\r\n",
            "«*2|%1»\r\n$4\r\nsave\r\n$0\r\n\r\n",
        ),
        (
            "config get APPENDONLY\r\n",
            "«*2|%1»\r\n$10\r\nappendonly\r\n$0\r\n\r\n",
        ),
        (
            "CONFIG GET databases timeout\r\n",
            "«*4|%2»\r\n$7\r\ntimeout\r\n$1\r\n0\r\n$9\r\ndatabases\r\n$1\r\n1\r\n",
        ),
        ("CONFIG GET nothing\r\n", "«*0|%0»\r\n"),
        (
            "CONFIG GET limits.payload_bytes_max\r\n",
            "«*2|%1»\r\n$24\r\nlimits.payload_bytes_max\r\n$8\r\n16777216\r\n",
        ),
        (
            "CONFIG GET\r\n",
            "-ERR wrong number of arguments for 'config|get' command\r\n",
        ),
        (
            "CONFIG SET save ''\r\n",
            "-ERR CONFIG 'SET' is not supported: settings are read at start and at SIGHUP\r\n",
        ),
        (
            "CONFIG WHAT\r\n",
            "-ERR unknown subcommand 'WHAT'. Try CONFIG HELP.\r\n",
        ),
    ]);
}

#[test]
fn what_it_is_not() {
    check(&[
        (
            "*2\r\n$7\r\nCLUSTER\r\n$5\r\nNODES\r\n",
            "-ERR This instance has cluster support disabled\r\n",
        ),
        (
            "cluster slots\r\n",
            "-ERR This instance has cluster support disabled\r\n",
        ),
        (
            "CLUSTER SHARDS\r\n",
            "-ERR This instance has cluster support disabled\r\n",
        ),
        (
            "READONLY\r\n",
            "-ERR This instance has cluster support disabled\r\n",
        ),
        (
            "SENTINEL MASTERS\r\n",
            "-ERR This instance is not a Sentinel\r\n",
        ),
        (
            "sentinel get-master-addr-by-name x\r\n",
            "-ERR This instance is not a Sentinel\r\n",
        ),
        (
            "MULTI\r\n",
            "-ERR transactions are not supported; send a plain pipeline «text»\r\n",
        ),
        (
            "EXEC\r\n",
            "-ERR transactions are not supported; «text»\r\n",
        ),
        (
            "WATCH a\r\n",
            "-ERR transactions are not supported; «text»\r\n",
        ),
        (
            "SUBSCRIBE a\r\n",
            "-ERR publish and subscribe are not supported; «text»\r\n",
        ),
        (
            "PSUBSCRIBE a\r\n",
            "-ERR publish and subscribe are not supported; «text»\r\n",
        ),
        (
            "UNSUBSCRIBE\r\n",
            "-ERR publish and subscribe are not supported; «text»\r\n",
        ),
        (
            "*2\r\n$3\r\nGET\r\n$21\r\n__Booksleeve_TieBreak\r\n",
            "-ERR unknown command 'GET', with args beginning with: '__Booksleeve_TieBreak' \r\n",
        ),
        // Redis's wording to the letter: clients read it.
        (
            "NOTHING\r\n",
            "-ERR unknown command 'NOTHING', with args beginning with: \r\n",
        ),
        (
            "nothing a 'b c'\r\n",
            "-ERR unknown command 'nothing', with args beginning with: 'a' 'b c' \r\n",
        ),
        (
            "*2\r\n$9\r\nno\r\nthing\r\n$6\r\n\x00\r\n\x7fa\n\r\n",
            "-ERR unknown command 'no\\r\\nthing', with args beginning with: '\\x00\\r\\n\
             \\x7fa\\n' \r\n",
        ),
        (
            "DQ.NOTHING «q»\r\n",
            "-ERR unknown command 'DQ.NOTHING', with args beginning with: '«q»' \r\n",
        ),
        (
            "''\r\n",
            "-ERR unknown command '', with args beginning with: \r\n",
        ),
        (
            "*1\r\n$0\r\n\r\n",
            "-ERR unknown command '', with args beginning with: \r\n",
        ),
    ]);
}

/// A web page may make a browser send this; nothing of its body is run.
#[test]
fn http() {
    for (start, code) in [
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\n", "-ERR"),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "-ERR"),
    ] {
        let mut peer = shared().peer();
        peer.sends(format!("{start}DQ.OFFER «q» 1h a\r\n"));
        let answer = String::from_utf8(peer.gets_until_end()).unwrap();
        assert!(answer.starts_with(code), "{answer}");
        let mut other = shared().peer();
        other.sends(format!("DQ.SIZE {}\r\n", peer.queue));
        other.gets(":0\r\n");
    }
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

/// What StackExchange.Redis sends in one write when it connects, by its source. It goes on without
/// the answers that are errors; the last one, its sign of life, it needs byte for byte.
#[test]
fn the_opening_of_stackexchange_redis() {
    let mut peer = shared().peer();
    peer.sends(
        "HELLO 3\r\nCLIENT SETNAME app\r\nCLIENT SETINFO lib-name SE.Redis\r\n\
         CLIENT SETINFO lib-ver 3.1.0\r\nCLIENT ID\r\nCONFIG GET timeout\r\n\
         CONFIG GET replica-read-only\r\nCONFIG GET databases\r\nSENTINEL MASTERS\r\n\
         INFO replication\r\nINFO server\r\nCLUSTER NODES\r\nGET __Booksleeve_TieBreak\r\n\
         *2\r\n$4\r\nECHO\r\n$16\r\n\0\r\n345678901234\0\r\n",
    );
    peer.gets(
        "%7\r\n«lines»modules\r\n*0\r\n+OK\r\n+OK\r\n+OK\r\n:«int»\r\n\
         %1\r\n$7\r\ntimeout\r\n$1\r\n0\r\n«lines»%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n\
         -ERR This instance is not a Sentinel\r\n$«int»\r\n# Replication\r\nrole:master\r\n\
         «lines»$«int»\r\n# Server\r\n«lines»-ERR This instance has cluster support disabled\r\n\
         -ERR unknown command 'GET', with args beginning with: '__Booksleeve_TieBreak' \r\n\
         $16\r\n\0\r\n345678901234\0\r\n",
    );
}
