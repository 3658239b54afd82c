//! `COMMAND`: describes the commands.

use crate::peer::{check, shared};
use std::process::Command;

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
        ("COMMAND LIST FILTERBY PATTERN dq.si*\r\n", "*1\r\n$7\r\ndq.size\r\n"),
        ("COMMAND GETKEYS dq.offer «q» 1h a\r\n", "*1\r\n$5\r\n«q»\r\n"),
        ("COMMAND GETKEYS ping\r\n", "-ERR The command has no key arguments\r\n"),
        ("COMMAND GETKEYS nothing x\r\n", "-ERR Invalid command specified\r\n"),
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
            "COMMAND INFO EXEC DISCARD\r\n",
            "*2\r\n*10\r\n$4\r\nexec\r\n:1\r\n*3\r\n+noscript\r\n+loading\r\n+stale\r\n\
             :0\r\n:0\r\n:0\r\n*2\r\n+@slow\r\n+@transaction\r\n*0\r\n*0\r\n*0\r\n\
             *10\r\n$7\r\ndiscard\r\n:1\r\n*5\r\n+noscript\r\n+loading\r\n+stale\r\n+fast\r\n\
             +allow_busy\r\n:0\r\n:0\r\n:0\r\n*2\r\n+@fast\r\n+@transaction\r\n\
             *0\r\n*0\r\n*0\r\n",
        ),
        // A client may send them before it has said the password, and finds that here.
        (
            "COMMAND INFO QUIT RESET\r\n",
            "*2\r\n*10\r\n$4\r\nquit\r\n:1\r\n*6\r\n+noscript\r\n+loading\r\n+stale\r\n\
             +fast\r\n+no_auth\r\n+allow_busy\r\n:0\r\n:0\r\n:0\r\n*2\r\n+@connection\r\n\
             +@fast\r\n*0\r\n*0\r\n*0\r\n\
             *10\r\n$5\r\nreset\r\n:1\r\n*6\r\n+noscript\r\n+loading\r\n+stale\r\n\
             +fast\r\n+no_auth\r\n+allow_busy\r\n:0\r\n:0\r\n:0\r\n*2\r\n+@connection\r\n\
             +@fast\r\n*0\r\n*0\r\n*0\r\n",
        ),
        ("COMMAND WHAT\r\n", "-ERR unknown subcommand 'WHAT'. Try COMMAND HELP.\r\n"),
        ("COMMAND COUNT x\r\n", "-ERR syntax error: unexpected argument 'x'; «text»\r\n"),
    ]);
}

/// Each command that COMMAND lists is answered, and each of ours has its queue as its key.
#[test]
fn all_commands() {
    let mut peer = shared().peer();
    peer.sends("COMMAND COUNT\r\nCOMMAND LIST\r\n");
    let count: usize = peer.gets(":«int»\r\n").remove(0).parse().unwrap();
    peer.gets(&format!("*{count}\r\n"));
    let names: Vec<String> =
        (0..count).map(|_| peer.gets("$«int»\r\n«text»\r\n").remove(1)).collect();
    for name in &names {
        let own = name.starts_with("dq.") && !["dq.queues", "dq.help"].contains(&name.as_str());
        let key = u8::from(own);
        peer.sends(format!("COMMAND INFO {name}\r\nECHO end\r\n"));
        peer.gets(&format!("*1\r\n*10\r\n$«int»\r\n{name}\r\n:«text»\r\n*«int»\r\n"));
        peer.gets(&format!("«lines»:{key}\r\n:{key}\r\n:{key}\r\n*«lines»$3\r\nend\r\n"));
    }
    for name in ["dq.offer", "dq.queues", "hello", "client", "command", "info"] {
        assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
    }
}

/// redis-cli makes its hints from COMMAND DOCS; it starts with it as a person does, on a terminal.
#[test]
fn redis_cli_reads_the_docs() {
    let port = shared().broker.address().rsplit(':').next().unwrap().to_owned();
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
