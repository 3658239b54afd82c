//! What is known of a head without its member: any score is found, and what it costs Redis does
//! not grow with the member.

use crate::bench::{Bench, check};
use crate::support::redis::Redis;
use crate::support::resp::{Client, Value};
use crate::text::modern;

const NOW_MS: i64 = 1_795_228_205_123;
/// A score from here on is no time.
const END: i64 = 1_000_000_000_000_000;

#[test]
fn heads() {
    let given = "timeout m1(a)=5.5 m2(b)=9000000000000; p.timeout m1(a)=-5.5; list m1(a)";
    let rows = [
        ("nothing there", "", "heads timeout", "OK ''"),
        ("nor known", "", "heads timeout | 4", "OK ''"),
        (
            "of which nothing is known",
            given,
            "heads p.timeout timeout destination list timeout",
            "OK -5.5 5.5 '' WRONGTYPE 5.5",
        ),
        (
            "as known, before and after",
            given,
            "heads timeout timeout timeout destination list p.timeout | 5 6 4 8 8 (-inf",
            "OK = 5.5 = '' WRONGTYPE =",
        ),
        (
            "taken out meanwhile",
            given,
            "heads timeout p.timeout p.destination | 5 (-inf 5",
            "OK = = ''",
        ),
        ("no time", "timeout m1(a)=inf", "heads timeout timeout | 999999999999999 4", "OK = ="),
        ("a time where none was", given, "heads timeout | 999999999999999", "OK 5.5"),
    ];
    for (what, given, call, returns) in rows {
        check(&[(what, given, call, returns, given)]);
    }
}

#[test]
fn size() {
    let rows = [
        ("nothing there", "", "size", "OK :0"),
        ("unreadable ones too", "timeout m1(a)=5 bad=6", "size", "OK :2"),
    ];
    for (what, given, call, returns) in rows {
        check(&[(what, given, call, returns, given)]);
    }
}

/// Goal: the score of a head is answered exactly, whatever it is, however large the members are,
/// whatever was expected, and also for a user who may not ask for sizes. Method: against ZRANGE.
#[test]
fn any_score() {
    let redis = Redis::spawn(&[]);
    let mut bench = Bench::on(&redis, "");
    bench.redis("ACL SETUSER old on nopass ~* &* +@all -memory");
    let now = NOW_MS.to_string();
    let scores = [
        "-inf",
        "-1e300",
        "-1e15",
        "-5",
        "-0.5",
        "0",
        "0.25",
        "1",
        "1000.5",
        "1234567890123",
        "1795228205122.999",
        &now,
        "1795228205123.5",
        "1795228205124",
        "1799999999999.123",
        "9007199254740",
        "999999999999999",
        "1000000000000000",
        "1e17",
        "1.5e300",
        "inf",
    ];
    let payload = "x".repeat(20_000);
    let medium = "x".repeat(6_000);
    for user in ["default", "old"] {
        bench.redis(&format!("AUTH {user} any"));
        for score in scores {
            for (what, others, payload) in [
                ("small", "", "a"),
                ("medium", "", &medium),
                ("alone", "", &payload),
                ("before small ones", "inf m2(a) inf m3(a)", &payload),
                ("among large ones", "LARGE", &payload),
            ] {
                let others = others.replace("LARGE", &format!("{score} m0({payload}) inf m4(a)"));
                bench.redis("UNLINK @timeout");
                bench.redis(&format!("ZADD @timeout {score} m1({payload}) {others}"));
                let head = bench.redis("ZRANGE @timeout 0 0 WITHSCORES");
                let wanted: f64 = head.texts()[1].parse().unwrap();
                let ceil = wanted.clamp(0.0, 1e15).ceil() as i64;
                for known in
                    [None, Some(ceil), Some(5), Some((ceil + 1).min(END)), Some(ceil / 2 + 7)]
                {
                    let known = known.map_or("''".to_owned(), |known| known.to_string());
                    let keys = "timeout destination record quarantine leased retry dead first";
                    let reply = bench.run(&format!("stats all {keys} | {known}"));
                    let next_due = reply.split(' ').nth(3).unwrap();
                    let row = format!("{user}, {what}, {score}, known {known}: {reply}");
                    assert_eq!(next_due.parse(), Ok(wanted), "{row}");
                    let until = match known.parse::<i64>() {
                        Ok(0) => "(-inf".to_owned(),
                        Ok(known) => (known - 1).to_string(),
                        Err(_) => known.clone(),
                    };
                    let reply = bench.run(&format!("heads timeout | {until}"));
                    let seen = reply.strip_prefix("OK ").unwrap();
                    if seen != "=" {
                        assert_eq!(seen.parse(), Ok(wanted), "{row}");
                    } else {
                        assert!(known != "''" && ceil >= known.parse().unwrap(), "{row}");
                    }
                }
            }
        }
    }
}

/// What a call costs Redis, in microseconds.
fn spent_us(client: &mut Client, source: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> u64 {
    let sha = client.call(&["SCRIPT", "LOAD", source]).unwrap().bytes();
    let start = [b"EVALSHA".to_vec(), sha, keys.len().to_string().into()];
    client.call(&["CONFIG", "RESETSTAT"]).unwrap();
    let reply = client.call(&[&start[..], keys, args].concat()).unwrap();
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    let stats = client.call(&["INFO", "commandstats"]).unwrap().text();
    let (_, its) = stats.split_once("cmdstat_evalsha:").unwrap();
    let (_, us) = its.split_once("usec=").unwrap();
    us.split(',').next().unwrap().parse().unwrap()
}

/// The least of some, since others use this machine too.
fn least_us(client: &mut Client, script: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> u64 {
    let spent = |_| spent_us(client, crate::bench::source(script), keys, args);
    (0..20).map(spent).min().unwrap()
}

fn add(client: &mut Client, key: &[u8], score: &str, id: u64, payload: &[u8]) {
    let member = modern(&id.to_be_bytes(), payload);
    let zadd = [b"ZADD", key, score.as_bytes(), &member];
    client.call(&zadd.map(<[u8]>::to_vec)).unwrap();
}

/// Keys of a queue whose head is so large, by their roles.
struct Queue(&'static str);

impl Queue {
    fn key(&self, role: &str) -> Vec<u8> {
        let prefix = match role {
            "destination" => return self.0.into(),
            "timeout" => "redisson_delay_queue_timeout",
            "list" => "redisson_delay_queue",
            role => &format!("delay_broker_{role}"),
        };
        format!("{prefix}:{{{}}}", self.0).into()
    }

    fn keys(&self, roles: &str) -> Vec<Vec<u8>> {
        roles.split(' ').map(|role| self.key(role)).collect()
    }

    /// Redis's time for one offer behind the head: each is a new one.
    fn offered_us(&self, client: &mut Client) -> u64 {
        let roles = "call destination timeout list record";
        let spent = |number: u8| {
            let mut group = vec![0x93, 0x01, 0xd3];
            group.extend((-8_000_000_000_001_i64).to_be_bytes());
            let member = modern(&[1, 2, 3, 4, 5, 6, 7, number], b"behind");
            group.extend([0xd9, member.len() as u8]);
            group.extend(&member);
            let forever = crate::bench::FOREVER_MS.into();
            let args = [number.to_string().into(), forever, group];
            spent_us(client, crate::bench::source("offer"), &self.keys(roles), &args)
        };
        (1..8).map(spent).min().unwrap()
    }

    /// What each script that asks for the head costs: where its score is known, and where not.
    fn costs(&self, client: &mut Client, bytes: usize) -> [Vec<(&'static str, u64)>; 2] {
        let now_s = client.call(&["TIME"]).unwrap().elements()[0].int();
        let due = (now_s * 1_000 + 1_800_000).to_string();
        let timeout = self.key("timeout");
        add(client, &timeout, &due, 1, &vec![b'x'; bytes]);
        // A skiplist in both cases, and the head is one of several.
        (2..300).for_each(|id| add(client, &timeout, "8000000000000", id, &[b'y'; 100]));
        let until = (now_s * 1_000 + 1_799_999).to_string().into_bytes();
        let (queue, known, not) = (self.key("destination"), due.into_bytes(), Vec::new());
        let forever = crate::bench::FOREVER_MS.into();
        let numbers: [Vec<u8>; 3] = [forever, b"9".into(), b"1000000".into()];
        let stats = "all timeout destination record quarantine leased retry dead first";
        let info = "destination timeout list record names quarantine all ids leased retry dead \
                    crons first";
        let transfer = "destination timeout list record names ids quarantine all first held";
        let mut cost = |script: &'static str, roles: &str, args: &[&Vec<u8>]| {
            let args: Vec<Vec<u8>> = args.iter().map(|arg| (*arg).clone()).collect();
            (script, least_us(client, script, &self.keys(roles), &args))
        };
        let mut costs = [
            vec![
                cost("heads", "timeout", &[&until]),
                cost("stats", stats, &[&known]),
                cost("info", info, &[&queue, &known]),
                cost("size", "timeout record", &[&queue]),
            ],
            vec![
                cost("heads", "timeout", &[&not]),
                cost("stats", stats, &[&not]),
                cost("info", info, &[&queue, &not]),
                cost("found", "timeout record", &[]),
                cost("transfer", transfer, &[&queue, &numbers[0], &numbers[1], &numbers[2]]),
            ],
        ];
        costs[0].push(("offer", self.offered_us(client)));
        costs
    }
}

/// Goal: a head of 16 MiB costs nobody more than one of 10 bytes, and little where nothing is known
/// of its score. Method: Redis's own time of each script that asks for it, beside both heads; and
/// of a script that reads the member.
#[test]
fn the_size_of_a_head_does_not_matter() {
    let redis = Redis::spawn(&[]);
    let mut client = redis.client(0);
    let [small, _] = Queue("small").costs(&mut client, 10);
    let large = Queue("large");
    let [known, _] = large.costs(&mut client, 16 << 20);
    for ((script, small), (_, large)) in small.iter().zip(&known) {
        eprintln!("{script}: {small} us beside 10 bytes, {large} us beside 16 MiB");
        assert!(*large <= small * 3 + 100, "{script}: {small} us, {large} us");
    }
    let read = "redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')";
    let keys = large.keys("timeout");
    // Where others use the memory of the machine, each takes twice as long and more.
    let quick = (0..5).any(|_| {
        let [_, not_known] = large.costs(&mut client, 16 << 20);
        let read = (0..5).map(|_| spent_us(&mut client, read, &keys, &[])).min().unwrap();
        eprintln!("where the score is not known: {not_known:?}; to read the member: {read} us");
        // A Redis whose allocator moves pages instead of bytes reads it quickly.
        not_known.iter().all(|(_, us)| *us <= (read / 2).max(15_000))
    });
    assert!(quick, "the head is read");
}

/// A thousand heads, as the safety scan reads them: as quick with large members as with small
/// ones, and far quicker than reading them.
#[test]
fn a_thousand_heads() {
    let redis = Redis::spawn(&[]);
    let mut client = redis.client(0);
    let mut cost = |bytes: usize| -> u64 {
        client.call(&["FLUSHALL"]).unwrap();
        let keys: Vec<Vec<u8>> = (0..1_000)
            .map(|queue| format!("redisson_delay_queue_timeout:{{q{queue}}}").into_bytes())
            .collect();
        let payload = vec![b'x'; bytes];
        keys.iter().for_each(|key| add(&mut client, key, "8000000000000", 7, &payload));
        let known = vec![b"7999999999999".to_vec(); 500];
        let mut page = |at: usize| least_us(&mut client, "heads", &keys[at..at + 500], &known);
        page(0) + page(500)
    };
    let (small, large) = (cost(10), cost(64 << 10));
    eprintln!("1,000 heads: {small} us of 10 bytes, {large} us of 64 KiB");
    assert!(large <= small * 3 + 1_000, "{small} us, {large} us");
    assert!(large <= 15_000, "{large} us");
}

/// A page of heads that are as they are known costs a command each, and one more for all.
#[test]
fn known_heads_cost_one_command_each() {
    let redis = Redis::spawn(&[]);
    let mut client = redis.client(0);
    let keys: Vec<Vec<u8>> = (0..50)
        .map(|queue| format!("redisson_delay_queue_timeout:{{q{queue}}}").into_bytes())
        .collect();
    keys.iter().for_each(|key| add(&mut client, key, "8000000000000", 7, b"m"));
    let known = vec![b"7999999999999".to_vec(); 50];
    spent_us(&mut client, crate::bench::source("heads"), &keys, &known);
    let stats = client.call(&["INFO", "commandstats"]).unwrap().text();
    assert!(stats.contains("cmdstat_zcount:calls=50,"), "{stats}");
    assert!(stats.contains("cmdstat_exists:calls=1,"), "{stats}");
    let others = ["cmdstat_zcard", "cmdstat_zrange", "cmdstat_memory"];
    assert!(!others.iter().any(|other| stats.contains(other)), "{stats}");
}

/// Where scores have to be found, a call ends before it takes long, and says of how many it told.
#[test]
fn one_call_finds_few() {
    let redis = Redis::spawn(&[]);
    let mut client = redis.client(0);
    let keys: Vec<Vec<u8>> = (0..8)
        .map(|queue| format!("redisson_delay_queue_timeout:{{q{queue}}}").into_bytes())
        .collect();
    let payload = vec![b'x'; 3 << 20];
    keys.iter().for_each(|key| add(&mut client, key, "8000000000000", 7, &payload));
    let source = crate::bench::source("heads");
    let start = ["EVAL".into(), source.as_bytes().to_vec(), b"8".to_vec()];
    let mut told = |known: &[Vec<u8>]| {
        let reply = client.call(&[&start[..], &keys, known].concat()).unwrap();
        reply.texts()[2..].to_vec()
    };
    let found = told(&[]);
    assert!((2..6).contains(&found.len()), "{found:?}");
    assert!(found.iter().all(|head| head == "8000000000000"), "{found:?}");
    let known: Vec<Vec<u8>> = vec![b"7999999999999".to_vec(); 8];
    assert_eq!(told(&known), ["="; 8]);
    // Those that were just found are told of roughly.
    add(&mut client, &keys[6], "1000", 6, b"due");
    add(&mut client, &keys[7], "1000", 6, &payload);
    let keys = keys.iter().flat_map(|key| [key.clone(), key.clone()]);
    let start = ["EVAL", crate::bench::source("found"), "16"].map(|word| word.as_bytes().to_vec());
    let args: Vec<Vec<u8>> = start.into_iter().chain(keys).collect();
    let reply = client.call(&args).unwrap().texts();
    let heads: Vec<&str> = reply[3..].iter().step_by(2).map(String::as_str).collect();
    let (exact, rough) = heads[..6].split_at(found.len());
    assert!(exact.iter().all(|head| *head == "8000000000000"), "{heads:?}");
    assert!(rough.iter().all(|head| *head == ">"), "{heads:?}");
    assert_eq!(heads[6], "1000");
    let now_ms = reply[0].parse::<u64>().unwrap() / 1_000;
    assert_eq!(heads[7], now_ms.to_string());
}
