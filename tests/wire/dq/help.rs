//! `DQ.HELP`: lists the commands; its examples are true.

use crate::peer::{Place, shared};
use delay_broker::command::TABLE;
use delay_broker::command::examples::{PENDING, example};
use regex::Regex;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn help() {
    for mut peer in [shared().peer(), shared().peer3()] {
        peer.sends("*1\r\n$7\r\nDQ.HELP\r\ndq.help x y\r\nDQ.HELP ofer\r\n");
        let lines: usize = peer.gets("*«int»\r\n").remove(0).parse().unwrap();
        let lines: Vec<String> = (0..lines).flat_map(|_| peer.gets("+«text»\r\n")).collect();
        assert!(lines.contains(&"DQ.SIZE queue".to_owned()), "{lines:?}");
        peer.gets(
            "-ERR wrong number of arguments for 'dq.help' command; usage: DQ.HELP [command]\r\n\
             -ERR no command 'ofer'; did you mean DQ.OFFER?\r\n",
        );
        peer.sends("DQ.HELP resume\r\ndq.help PING\r\n");
        peer.gets(
            "*5\r\n+DQ.RESUME <queue|ALL>\r\n+    Ends a pause.\r\n+Example:\r\n\
             +    > DQ.RESUME orders\r\n+    OK\r\n*2\r\n+PING [message]\r\n+    «text»\r\n",
        );
    }
}

/// The id in the examples of consumers.
const HELD: [u8; 8] = [0x9d, 0x0f, 0x3a, 0x61, 0xc2, 0xb8, 0x4e, 0x75];

/// Each example of DQ.HELP, typed into redis-cli as a person does: it shows what the example says,
/// but for ids and times.
#[test]
fn examples_are_true() {
    let place = Place::spawn(&[]);
    let mut backing = place.backing();
    let address = place.broker.address();
    let port = address.rsplit(':').next().unwrap();
    let types = |line: &str| -> String {
        let mut cli = Command::new("redis-cli")
            .args(["--no-raw", "-p", port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = cli.stdin.take().unwrap();
        writeln!(stdin, "{line}").unwrap();
        drop(stdin);
        String::from_utf8(cli.wait_with_output().unwrap().stdout).unwrap()
    };
    let id = Regex::new("[0-9]{13}-[0-9a-f]{16}").unwrap();
    let differs = Regex::new("[0-9]{13}-[0-9a-f]{16}|\\b[0-9a-f]{16}\\b|\\b[0-9]{13}\\b").unwrap();
    let plain = |text: &str| differs.replace_all(text, "<id>").into_owned();
    let held = ["leased", "dead", "taken", "tries", "retry"];
    let held = held.map(|key| format!("delay_broker_{key}:{{orders}}"));
    let [leased, dead, taken, tries, _] = held.each_ref().map(|key| key.as_bytes());
    for spec in TABLE.iter().filter(|spec| spec.name.starts_with("DQ.")) {
        assert!(id.is_match(&types(PENDING)), "{spec:?}");
        // The message that the examples of consumers are about: delivered, taken, or dead.
        let mut put = |args: &[&[u8]]| assert_eq!(backing.call(args).unwrap().int(), 1);
        match spec.name {
            "DQ.TAKE" => put(&[b"RPUSH", b"orders", b"order 42"]),
            "DQ.ACK" | "DQ.NACK" | "DQ.EXTEND" | "DQ.TAKEN" => {
                put(&[b"HSET", taken, &HELD, b"order 42"]);
                put(&[b"ZADD", leased, b"1999999999999", &HELD]);
            }
            "DQ.DEAD" => {
                put(&[b"HSET", taken, &HELD, b"order 42"]);
                put(&[b"HSET", tries, &HELD, b"1 0 no such order"]);
                put(&[b"ZADD", dead, b"1700000000000", &HELD]);
            }
            _ => {}
        }
        let (call, reply) = example(spec.name).unwrap();
        let (shown, wanted) = (plain(&types(call)), plain(reply));
        let mut shown = shown.trim_end().lines();
        for line in wanted.lines().take_while(|line| *line != "...") {
            assert_eq!(shown.next().map(str::trim_end), Some(line), "{call}");
        }
        let rest: Vec<&str> = shown.collect();
        assert_eq!(rest.is_empty(), !wanted.ends_with("..."), "{call}");
        types("DQ.CLEAR orders");
        types("DQ.RESUME orders");
        types("DQ.CRON orders DEL nightly");
        // DQ.FIRE put the message there.
        backing.call(&["DEL", "orders"]).unwrap();
        held.iter().for_each(|key| drop(backing.call(&["DEL", key]).unwrap()));
    }
}
