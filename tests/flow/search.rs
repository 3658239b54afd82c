//! DQ.REMOVE and DQ.CONTAINS in queues of many messages, of large ones, and of those that others
//! change meanwhile.

use crate::foreign::keys;
use crate::stage::{Stage, call, eventually, say};
use crate::support::broker::Broker;
use crate::support::proxy::{Break, Proxy};
use crate::support::redis;
use crate::support::resp::{Client, Value};
use delay_broker::store::script::REMOVE_LISTED;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

/// Lists messages of ids `first..=last` in this order, all due in a different one; each tenth has a
/// payload of its own.
const FILL: &str = "for id = tonumber(ARGV[1]), tonumber(ARGV[2]) do
      local payload = id % 10 == 0 and 'own' .. id or ARGV[3]
      local member = struct.pack('>BI4I4<I8', 8, 100, id, #payload) .. payload
      redis.call('ZADD', KEYS[1], 4e12 + id * 7919 % 100003, member)
      if ARGV[4] == 'list' then redis.call('RPUSH', KEYS[2], member) end
    end
    redis.call('HSET', KEYS[3], 'name', 'q', 'order_list', ARGV[4] == 'list' and 'on' or 'off')";

fn fill(redis: &mut Client, first: usize, last: usize, payload: &str, list: &str) {
    let k = keys("q");
    for from in (first..=last).step_by(20_000) {
        let to = last.min(from + 19_999).to_string();
        let from = from.to_string();
        let keys = [&k.timeout, &k.list, "delay_broker_queue:{q}"];
        let args = [&["EVAL", FILL, "3"][..], &keys, &[&from, &to, payload, list]].concat();
        let done = call(redis, &args);
        assert!(!matches!(done, Value::Error(_)), "{done:?}");
    }
}

/// The ids that are pending, in ascending order.
fn pending(redis: &mut Client) -> Vec<usize> {
    let all = say(redis, "ZRANGE redisson_delay_queue_timeout:{q} 0 -1");
    let id = |member: &Value| {
        let bytes: [u8; 4] = member.bytes()[5..9].try_into().unwrap();
        u32::from_be_bytes(bytes) as usize
    };
    let mut ids: Vec<usize> = all.elements().iter().map(id).collect();
    ids.sort_unstable();
    ids
}

/// Exactly the first so many go, in the order of offering, however many.
#[test]
fn the_first_of_any_number() {
    for (list, last, counts) in
        [("list", 120_000, [1, 2_499, 100_000]), ("none", 30_000, [1, 2_499, 20_000])]
    {
        let mut stage = Stage::new(&[]);
        fill(&mut stage.redis, 1, last, "same", list);
        let mut client = stage.broker.client();
        client.read_within(PATIENCE).unwrap();
        let mut left: Vec<usize> = (1..=last).collect();
        for count in counts {
            let removed = say(&mut client, &format!("DQ.REMOVE q same COUNT {count}"));
            assert_eq!(removed, Value::Int(count as i64), "{list}");
            let mut to_go = count;
            left.retain(|id| {
                let goes = id % 10 != 0 && to_go > 0;
                to_go -= usize::from(goes);
                !goes
            });
            assert!(pending(&mut stage.redis) == left, "{list}: others than the first {count}");
        }
        if list == "list" {
            let length = say(&mut stage.redis, "LLEN redisson_delay_queue:{q}");
            assert_eq!(length, Value::Int(left.len() as i64));
        }
        let own = format!("DQ.CONTAINS q same own{last} own7");
        assert_eq!(say(&mut client, &own).texts(), ["1", "1", "0"]);
        let rest = left.iter().filter(|id| *id % 10 != 0).count() as i64;
        assert_eq!(say(&mut client, "DQ.REMOVE q same COUNT 0"), Value::Int(rest), "{list}");
        assert_eq!(say(&mut client, "DQ.CONTAINS q same").texts(), ["0"]);
    }
}

/// Others take messages from all over the list: what stays is found all the same, and nothing else
/// goes.
#[test]
fn while_others_move_the_list() {
    // Some of those with a payload of their own, wherever they stand.
    const TAKE: &str = "local length, taken = redis.call('LLEN', KEYS[2]), 0
        for i = 1, 200 do
          local at = (ARGV[1] * 7919 + i * 104729) % length
          local member = redis.call('LINDEX', KEYS[2], at)
          if member and string.find(member, 'own', 1, true) then
            redis.call('LREM', KEYS[2], 1, member)
            taken = taken + redis.call('ZREM', KEYS[1], member)
          end
        end
        return taken";
    let mut stage = Stage::alone(&[]);
    fill(&mut stage.redis, 1, 60_000, "same", "list");
    let k = keys("q");
    let mut redis = Client::connect(stage.redis_address()).unwrap();
    let mut client = stage.broker.client();
    client.read_within(PATIENCE).unwrap();
    let done = AtomicBool::new(false);
    let (removed, taken) = thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut taken = 0;
            for step in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let step = step.to_string();
                let take = ["EVAL", TAKE, "2", &k.timeout, &k.list, &step];
                taken += call(&mut redis, &take).int();
            }
            taken
        });
        let removed = say(&mut client, "DQ.REMOVE q same COUNT 0");
        done.store(true, Ordering::Relaxed);
        (removed, others.join().unwrap())
    });
    assert!(taken > 100, "{taken}");
    assert_eq!(removed, Value::Int(54_000));
    let left = pending(&mut stage.redis);
    assert!(left.iter().all(|id| id % 10 == 0));
    assert_eq!(left.len() as i64, 6_000 - taken);
}

/// Large payloads: every page is small, none of them travels, and both commands come to an end.
#[test]
fn large_payloads() {
    const LARGE: usize = 64 << 10;
    for list in ["list", "none"] {
        let mut stage = Stage::alone(&[]);
        let payload = "x".repeat(LARGE);
        fill(&mut stage.redis, 1, 600, &payload, list);
        let mut client = stage.broker.client();
        client.read_within(PATIENCE).unwrap();
        let stat = |redis: &mut Client, field: &str| -> u64 {
            let info = say(redis, "INFO stats").text();
            let line = info.lines().find_map(|line| line.strip_prefix(field));
            line.unwrap_or_else(|| panic!("{field}")).trim().parse().unwrap()
        };
        let traffic = |redis: &mut Client| {
            stat(redis, "total_net_input_bytes:") + stat(redis, "total_net_output_bytes:")
        };
        // Scripts are loaded before they are counted.
        say(&mut client, "DQ.CONTAINS q nothing");
        say(&mut client, "DQ.REMOVE q nothing");
        let mut other = payload.clone();
        other.replace_range(..1, "y");
        let before = traffic(&mut stage.redis);
        // The same last bytes, another size; the same size, other last bytes.
        let near = [&payload[1..], &format!("{}y", &payload[1..])];
        let contains = ["DQ.CONTAINS", "q", near[0], near[1], "own600"];
        assert_eq!(call(&mut client, &contains).texts(), ["0", "0", "1"]);
        for one in near {
            assert_eq!(call(&mut client, &["DQ.REMOVE", "q", one]), Value::Int(0));
        }
        let travelled = traffic(&mut stage.redis) - before;
        assert!(travelled < 4 * LARGE as u64, "{list}: {travelled}");
        // Of the same size, with the same last bytes: told by all of them.
        let contains = ["DQ.CONTAINS", "q", &other, &payload, &other];
        assert_eq!(call(&mut client, &contains).texts(), ["0", "1", "0"]);
        assert_eq!(call(&mut client, &["DQ.REMOVE", "q", &other]), Value::Int(0));
        let remove = ["DQ.REMOVE", "q", &payload, "COUNT", "3"];
        assert_eq!(call(&mut client, &remove), Value::Int(3));
        let remove = ["DQ.REMOVE", "q", &payload, "COUNT", "0"];
        assert_eq!(call(&mut client, &remove), Value::Int(537));
        assert_eq!(say(&mut client, "DQ.SIZE q"), Value::Int(60));
        eventually("its list is as short", || {
            let length = say(&mut stage.redis, "LLEN redisson_delay_queue:{q}").int();
            (length == if list == "list" { 60 } else { 0 }).then_some(())
        });
    }
}

/// A command that Redis refuses in its middle says that a part of it is done.
#[test]
fn refused_in_the_middle() {
    const ALL: usize = 120_000;
    for (list, count) in [("list", "0"), ("none", "0"), ("none", "100000")] {
        let mut stage = Stage::alone(&[]);
        fill(&mut stage.redis, 1, ALL, "same", list);
        let mut client = stage.broker.client();
        client.read_within(PATIENCE).unwrap();
        client.send(&["DQ.REMOVE", "q", "same", "COUNT", count]).unwrap();
        eventually("some are removed", || {
            let left = say(&mut stage.redis, "ZCARD redisson_delay_queue_timeout:{q}");
            (left.int() < ALL as i64).then_some(())
        });
        say(&mut stage.redis, "REPLICAOF 127.0.0.1 1");
        let reply = client.read().unwrap().text();
        let left = pending(&mut stage.redis).len();
        let told = format!("UNCERTAIN {} of the messages are done; then: ", ALL - left);
        assert!(left > ALL / 6, "{list} {count}: it was done before Redis refused");
        assert!(reply.starts_with(&told), "{list} {count}: {left} left: {reply}");
    }
}

/// The order list is given up between two pages: what the first one removed counts.
#[test]
fn the_list_goes_meanwhile() {
    let stage = Stage::new(&[]);
    let (_, database) = stage.url.rsplit_once('/').unwrap();
    let proxy = Proxy::start(redis::shared().address());
    let broker = Broker::spawn(&format!("redis://{}/{database}", proxy.address()), &[]);
    let mut redis = redis::shared().client(database.parse().unwrap());
    fill(&mut redis, 1, 3_000, "same", "list");
    // The first page takes 400.
    proxy.break_next(&[REMOVE_LISTED.sha(), "1100"], Break::Late);
    let mut client = broker.client();
    let removes = thread::spawn(move || say(&mut client, "DQ.REMOVE q same COUNT 1500"));
    eventually("the second page", || (proxy.broken() == 1).then_some(()));
    say(&mut redis, "HSET delay_broker_queue:{q} order_list off");
    say(&mut redis, "DEL redisson_delay_queue:{q}");
    proxy.release();
    assert_eq!(removes.join().unwrap(), Value::Int(1_500));
    assert_eq!(pending(&mut redis).len(), 1_500);
}
