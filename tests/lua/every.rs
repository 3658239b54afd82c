//! What holds for every script: it loads, comes back after SCRIPT FLUSH, names what it uses in its
//! header, and refuses wrong types before it writes.

use crate::bench::{Bench, SCRIPTS, file_text, role, source};
use crate::support::redis::Redis;
use crate::support::resp::Value;
use delay_broker::store::keys::Key;
use delay_broker::store::script::{ALL, PROBE, part_files};
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

/// A call of each script that finds nothing to complain of.
pub const CALLS: [&str; 57] = [
    "offer q 5:m1(a) / q 5:m2(b) name=n",
    "transfer 9 1000",
    "heads timeout",
    "found timeout record",
    "remove a 1000 5 #1",
    "remove_listed 1 a 10 10 1000 0 ''",
    "remove_pending 1 a 10 10 1000 '' '' 0 ''",
    "contains '' '' 0 '' 10 1000 1 a",
    "cancel 5 #1",
    "reschedule 5 #1 5",
    "fire '' 5 #1",
    "get 5 #1 1000",
    "range -inf +inf 10 1000 1000 '' '' 0 ''",
    "timeline 5 10 15",
    "poll 1 1000 1000",
    "first '' '' 0 '' 10 1000 ''",
    "poll_pending 1000 1000 5 #1",
    "clear",
    "pause 0",
    "resume",
    "pause_all -1",
    "quarantine_list 10 1000000 1000000",
    "quarantine_restore 10 1000 '' '' 0 ''",
    "quarantine_drop 10 1000 '' '' 0 ''",
    "size",
    "info",
    "stats all timeout destination record quarantine leased retry dead first",
    "settle 9",
    "node token 1000",
    "setup '' setup",
    "prune",
    "configure '' '' 0",
    "convert_listed legacy 0 10 10 1000",
    "convert_pending legacy '' '' 0 '' 10 1000",
    "take 1 1000 1000 60000 16 #4",
    "ack #1 1",
    "nack FAIL '' '' 16 5000 3600000 20 #1 1 0",
    "extend 60000 #1 1",
    "taken leased 10 1000 1000 '' '' 0 ''",
    "dead 0 0 #3",
    "retry 0 #2",
    "retry_get #2 1000",
    "release 9 1000 16",
    "ready destination leased retry record first",
    "push #1 a",
    "cron n spec 5 6 '' 1 1 #1 5",
    "cron_set n spec payload 5 5 1",
    "cron_stop n PAUSE",
    "cron_read DUE 10",
    "cron_heads crons record",
    "stream_look",
    "stream_keep g '' 30000 16 500 1000 ''",
    "stream_again g 100 1000",
    "stream_nack g FAIL '' '' 16 5000 3600000 20 1-1 0",
    "stream_trim '' 0 1000",
    "stream_idle g 1000 10",
    "stream_heads record retry",
];

/// The directory and the table agree; each script has a call above.
#[test]
fn files() {
    let dir = std::fs::read_dir(format!("{}/lua", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let files: BTreeSet<String> = dir
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| file.strip_suffix(".lua").map(str::to_owned))
        .collect();
    let scripts = SCRIPTS.iter().map(|(name, _)| (*name).to_owned());
    let parts = part_files().map(str::to_owned);
    let probe = [PROBE.name.to_owned()];
    assert_eq!(files, scripts.chain(parts).chain(probe).collect());
    for ((name, _), call) in SCRIPTS.iter().zip(CALLS) {
        assert_eq!(call.split(' ').next(), Some(*name));
    }
}

/// By its hash each is found, is not after a flush, and is again once loaded.
#[test]
fn loads_and_survives_a_flush() {
    let redis = Redis::spawn(&[]);
    let mut client = redis.client(0);
    for (script, _) in SCRIPTS.iter() {
        let mut hashes = BTreeSet::new();
        for _ in 0..2 {
            let reply = client.call(&["SCRIPT", "LOAD", source(script)]).unwrap();
            assert!(!matches!(reply, Value::Error(_)), "{script}: {reply:?}");
            hashes.insert(reply.text());
            let exists = ["SCRIPT", "EXISTS", &reply.text()];
            assert_eq!(client.call(&exists).unwrap().elements(), [Value::Int(1)]);
            client.call(&["SCRIPT", "FLUSH"]).unwrap();
            assert_eq!(client.call(&exists).unwrap().elements(), [Value::Int(0)]);
        }
        assert_eq!(hashes.len(), 1, "{script}");
    }
}

/// Each script answers the same to a queue that was never heard of, with the time first.
#[test]
fn runs_on_nothing() {
    for call in CALLS {
        let mut bench = Bench::new("");
        let reply = bench.run(call);
        assert!(
            ["NOT", "NOSTREAM"].contains(&&reply[..]) || reply.starts_with("OK"),
            "{call}: {reply}"
        );
        assert!(bench.now_us > 1_700_000_000_000_000, "{call}");
    }
}

/// A key of another type is named and nothing is written, whatever else is there. Where a script
/// does not touch what the key holds, it says nothing.
#[test]
fn wrong_types() {
    let unread: [(&str, &str); 38] = [
        ("transfer", "names"),
        ("transfer", "ids"),
        ("info", "names"),
        ("info", "ids"),
        ("info", "quarantine"),
        ("transfer", "all"),
        ("info", "all"),
        ("prune", "names"),
        ("prune", "ids"),
        ("info", "destination"),
        ("info", "leased"),
        ("info", "retry"),
        ("info", "dead"),
        ("prune", "taken"),
        ("prune", "crons"),
        ("info", "crons"),
        ("take", "all"),
        ("setup", "destination"),
        // Only where it is a stream.
        ("retry", "held"),
        ("release", "held"),
        // Only where the destination is `take`.
        ("transfer", "first"),
        ("push", "all"),
        ("take", "first"),
        ("info", "first"),
        ("prune", "first"),
        ("prune", "destination"),
        // A key of another type holds no names.
        ("transfer", "held"),
        ("prune", "held"),
        ("take", "held"),
        ("ack", "held"),
        ("nack", "held"),
        ("cron", "held"),
        ("stream_look", "destination"),
        ("stream_keep", "destination"),
        ("stream_again", "destination"),
        ("stream_nack", "destination"),
        ("stream_trim", "destination"),
        ("stream_idle", "destination"),
    ];
    let mut checked = 0;
    for ((script, roles), call) in SCRIPTS.iter().zip(CALLS) {
        for role in roles.split(' ').filter(|role| !["call", "...", "node"].contains(role)) {
            if unread.contains(&(script, role)) {
                continue;
            }
            let others = [
                ("timeout", "m1(a)=5 bad=6"),
                ("list", "m1(a) bad"),
                ("names", "n=5-0000000000000001"),
                ("ids", "0000000000000001=n"),
                ("quarantine", "x=1"),
                ("record", "name=$q"),
                ("leased", "#1=9000000000000 #5=5"),
                ("retry", "#2=5"),
                ("dead", "#3=5"),
                ("taken", "#1=a #2=b #3=c #5=e"),
                ("tries", "#2=1/0/"),
            ];
            let others = others.iter().filter(|(other, _)| *other != role);
            let others: Vec<String> = others.map(|(key, value)| format!("{key} {value}")).collect();
            let given = format!("{}; {role} !string", others.join("; "));
            let mut bench = Bench::new(&given);
            let expected = bench.names.normal(&format!("WRONGTYPE @{role}"));
            assert_eq!(bench.run(call), expected, "{script}, {role}");
            bench.then(&given, call);
            checked += 1;
        }
    }
    assert!(checked > 110, "{checked}");
}

/// The call key is ours alone: where it holds another type nothing is done.
#[test]
fn call_key_of_another_type() {
    for ((script, roles), call) in SCRIPTS.iter().zip(CALLS) {
        if roles.starts_with("call") {
            let mut bench = Bench::new("timeout m1(a)=5; list m1(a)");
            bench.redis("RPUSH @call x");
            assert_eq!(bench.run(call), "SETTLED", "{script}");
            bench.then("timeout m1(a)=5; list m1(a)", call);
        }
    }
}

/// Another queue's keys are refused by every script that is told its queue.
#[test]
fn keys_of_another_queue() {
    let given = "timeout m1(a)=5 bad=6; list m1(a) bad; quarantine x=1; record name={$q}
                 names n=5-0000000000000001; ids 0000000000000001=n";
    for ((script, roles), call) in SCRIPTS.iter().zip(CALLS) {
        if roles.contains("record") {
            let mut bench = Bench::new(given);
            let refused = bench.names.normal("BADQUEUE {$q}");
            assert_eq!(bench.run(call), refused, "{script}");
            bench.then(given, call);
        }
    }
}

/// A recorded name that has other keys is not believed: somebody renamed keys by hand.
#[test]
fn keys_with_a_name_that_cannot_be_theirs() {
    for name in ["other", "{other}", "{$q}}", "x{$q}"] {
        for ((script, roles), call) in SCRIPTS.iter().zip(CALLS) {
            if roles.contains("record") {
                let mut bench = Bench::new(&format!("record name={name}"));
                let reply = bench.run(call);
                assert!(!reply.starts_with("BADQUEUE"), "{script}: {reply}");
            }
        }
    }
}

/// Members of 1 MiB: a call reads no more than a few, whatever else is there. Where it finds by id,
/// halving needs one read for each doubling of those that share the due time.
#[test]
fn few_large_members_are_read() {
    const FILL: &str = "local payload = string.rep('x', tonumber(ARGV[3]))
        for id = tonumber(ARGV[1]), tonumber(ARGV[2]) do
          local score = ARGV[4] == '' and id or ARGV[4]
          local member = struct.pack('>BI4I4<I8', 8, 0, id, #payload) .. payload
          redis.call('ZADD', KEYS[1], score, member)
          redis.call('RPUSH', KEYS[2], member)
          redis.call('ZADD', KEYS[3], score, member)
          redis.call('HSET', KEYS[4], 'n' .. id, score .. string.format('-%016x', id))
          redis.call('HSET', KEYS[5], string.format('%016x', id), 'n' .. id)
          redis.call('RPUSH', KEYS[6], payload)
          local lease = struct.pack('>I4I4', 0, id)
          redis.call('ZADD', KEYS[7], score, lease)
          redis.call('HSET', KEYS[8], lease, payload)
        end";
    let redis = Redis::spawn(&[]);
    // Each its own due time, all the same one; alone, and behind small ones.
    for (score, small) in [("", 0), ("9000000000000", 0), ("", 100)] {
        let mut bench = Bench::on(&redis, "record name=$q");
        for (first, last, size) in [(1, small, 10), (small + 1, small + 40, MIB - 17)] {
            let roles =
                ["timeout", "list", "quarantine", "names", "ids", "destination", "dead", "taken"];
            let keys = roles.map(|role| bench.names.key(role));
            let args = [first.to_string(), last.to_string(), size.to_string()];
            let mut fill = vec!["EVAL", FILL, "8"];
            fill.extend(keys.iter().map(String::as_str));
            fill.extend(args.iter().map(String::as_str));
            fill.push(score);
            let reply = bench.client.call(&fill).unwrap();
            assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        }
        let due = |id: i32| {
            if score.is_empty() { id.to_string() } else { score.to_owned() }
        };
        let of_id = |id: i32| {
            let start = [&[8], &(id as u64).to_be_bytes()[..]].concat();
            start.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>()
        };
        let (one, other) = (small + 20, small + 30);
        let halving = if score.is_empty() { 1 } else { 7 };
        let large = "9999999";
        let page = "4000 524288";
        let ids: String = (1001..=2000).map(|id| format!("#{id}")).collect();
        let behind = |id: i32| match score {
            "" => format!("({id} '' 0 ''"),
            _ => format!("{score} {} {id} ''", of_id(id + 1)),
        };
        let anchor = format!("1048576\\x20{}", of_id(one));
        let anchor = anchor + &"\\x00\\x00\\x00\\x00".replace(' ', "");
        for (call, most) in [
            (format!("get {} #{one} {large}", due(one)), halving),
            (format!("get '' n{one} {large}"), halving),
            (format!("get {} #{} {large}", due(one), small + 900), 2 * halving),
            (format!("contains '' '' 0 '' {page} 5 aaaaa"), 3),
            (format!("contains '' '' 0 '' {page} 1048559 xxxxxxxx"), 3),
            (format!("contains {} {page} 5 aaaaa", behind(one)), 3),
            (format!("contains {} {page} 1048559 xxxxxxxx", behind(one)), 3),
            (format!("first '' '' 0 '' {page} ''"), 3),
            (format!("first {} {page} ''", behind(one)), 3),
            (format!("range -inf +inf 1000 {MIB} {large} '' '' 0 ''"), 4),
            (format!("range -inf +inf 1000 {MIB} {large} {}", behind(one)), 4),
            (format!("range -inf +inf 1000 {MIB} 1000 {}", behind(one)), 3),
            (format!("range -inf +inf 1000 {MIB} {large} {} search", behind(one)), 4),
            (format!("range -inf +inf 1000 {MIB} 1000 {} search", behind(one)), 3),
            (format!("timeline 0 {one} {large}"), 0),
            (format!("quarantine_list 1000 {MIB} {large}"), 3),
            (format!("remove_listed 5 aaaaa 1 {page} 0 ''"), 3),
            (format!("remove_listed 5 aaaaa 1 {page} {one} {anchor}"), 3),
            (format!("remove_listed 1048559 xxxxxxxx 1 {page} {one} {anchor}"), 3),
            (format!("remove_pending 5 aaaaa 9 {page} {}", behind(one)), 3),
            (format!("remove_pending 1048559 xxxxxxxx 9 {page} {}", behind(one)), 3),
            (format!("remove {} 524288 {} #{}", "x".repeat(MIB as usize - 17), due(2), 2), halving),
            ("convert_listed legacy 0 2000 50 524288".to_owned(), 3),
            (format!("convert_listed legacy {one} 2000 50 524288"), 3),
            (format!("convert_pending legacy '' '' 0 '' {page}"), 3),
            (format!("convert_pending legacy {} {page}", behind(one)), 3),
            ("configure '' off 0".to_owned(), 3),
            (format!("offer q 5:m{}(y) name=n{}", small + 500, small + 10), halving + 2),
            (format!("cancel {} #{one} '' n{other}", due(one)), 2 * halving),
            (
                format!(
                    "poll_pending {MIB} {large} {} #{} {} #{}",
                    due(small + 25),
                    small + 25,
                    due(small + 35),
                    small + 35
                ),
                2 * halving,
            ),
            ("quarantine_restore 1000 524288 '' '' 0 ''".to_owned(), 4),
            ("quarantine_drop 30 524288 '' '' 0 ''".to_owned(), 3),
            (format!("poll 1000 {MIB} {large}"), 3),
            (format!("taken dead 1000 {MIB} {large} '' '' 0 ''"), 2),
            (format!("taken dead 1000 {MIB} 1000 '' '' 0 ''"), 0),
            (format!("take 1000 {MIB} {large} 60000 16 {ids}"), 3),
            (format!("taken leased 1000 {MIB} {large} '' '' 0 ''"), 0),
            ("dead 0 1000".to_owned(), 0),
            (format!("taken retry 1000 {MIB} {large} '' '' 0 ''"), 0),
            // Those that are tried again go first.
            (format!("take 1000 {MIB} {large} 60000 16 {ids}"), 2),
        ] {
            let read = bench.bytes_read(&call);
            let most = most * MIB + 100_000;
            assert!(read <= most, "{call} ({score}, {small}): {read} bytes");
        }
        bench.redis("FLUSHDB");
    }
}

/// Where nothing is recorded, what is pending belongs to the name without braces; where nothing is
/// there, nothing stands in the way of the other one.
#[test]
fn keys_of_the_name_without_braces() {
    let given = "timeout m1(a)=5 bad=6; list m1(a) bad; quarantine x=1
                 names n=5-0000000000000001; ids 0000000000000001=n";
    for ((script, roles), call) in SCRIPTS.iter().zip(CALLS) {
        if !roles.contains("record") || *script == "configure" {
            continue;
        }
        for (given, refused) in [(given, true), ("", false), ("list m1(a)", false)] {
            let mut bench = Bench::new(given);
            bench.names.braced = true;
            let reply = bench.run(call);
            if refused {
                assert_eq!(reply, bench.names.normal("BADQUEUE $q"), "{script}");
                bench.then(given, call);
            } else {
                assert!(!reply.starts_with("BADQUEUE"), "{script}: {reply}");
                // Of those that are told their queue only one claims it.
                let name = bench.redis("HGET @record name");
                let claims = ["pause", "cron_set"].contains(script);
                assert_eq!(name == Value::Null, !claims, "{script}");
            }
        }
        // What is recorded goes before.
        let mut bench = Bench::new(&format!("{given}; record name={{$q}}"));
        bench.names.braced = true;
        let reply = bench.run(call);
        assert!(!reply.starts_with("BADQUEUE"), "{script}: {reply}");
    }
}

/// What a header says of the guard.
const GUARD: &str = "the channel's name, never a key: see _begin.lua";

/// The header says what the code takes and what Rust passes: the same KEYS and ARGV, each with type
/// and name, and what is returned and what it costs.
#[test]
fn headers() {
    for script in ALL {
        let name = script.name;
        let text = file_text(name);
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("--")).collect();
        let code = &text[header.iter().map(|line| line.len() + 1).sum()..];
        assert!(header[0].ends_with(['.', ':', ',']) || header[0].len() > 80, "{name}: a sentence");
        for word in ["RETURN", "COST"] {
            let found =
                header.iter().filter(|line| line.starts_with(&format!("-- {word}"))).count();
            assert_eq!(found, 1, "{name}: {word}");
        }
        let guarded = script.keys.contains(&Key::Guard);
        assert_eq!(guarded, !UNGUARDED.contains(&name), "{name}: has a guard");
        if guarded {
            let guard = header.iter().rfind(|line| line.starts_with("-- KEYS[")).unwrap();
            let of_many = "of one of the queues, the last key: see _begin.lua";
            let said = if script.each.is_empty() { GUARD } else { of_many };
            assert!(guard.ends_with(said), "{name}: {guard}");
            assert_eq!(script.keys.last(), Some(&Key::Guard), "{name}");
            assert!(!code.contains("guard_"), "{name}: nobody reads or writes it");
        }
        for source in ["KEYS", "ARGV"] {
            let listed: Vec<&str> = header
                .iter()
                .filter_map(|line| line.strip_prefix(&format!("-- {source}[")))
                .filter(|line| !line.starts_with('n'))
                .collect();
            let (mut last, mut open) = (0, false);
            for (place, line) in listed.iter().enumerate() {
                let (index, words) = line.split_once(']').unwrap();
                last = index.trim_end_matches("..").parse().unwrap();
                open = index.ends_with("..");
                assert_eq!(last, place + 1, "{name}: {source} in turn");
                let words_of = words.split_whitespace().count() >= 2 || words.contains("of each");
                assert!(words_of, "{name}: {source}[{index}] has a type and a name");
            }
            if source == "KEYS" && guarded && !open {
                // The code does not know it.
                last -= 1;
            }
            let (mut its_last, its_open) = used(code, source);
            // Begin takes what each numbered call has: `lua/_call.lua`.
            if script.keys.first() == Some(&Key::Call) {
                its_last = its_last.max(1) + usize::from(source == "KEYS" && open);
            }
            assert_eq!((last, open), (its_last, its_open), "{name}: {source}");
        }
        let mut keys: Vec<String> = script.keys.iter().map(role).collect();
        let each = keys.len() - usize::from(guarded);
        let mut of_each: Vec<String> = script.each.iter().map(role).collect();
        if name == "offer" {
            of_each.extend(["names", "ids", "held", "first"].map(str::to_owned));
        }
        keys.splice(each..each, of_each);
        assert_eq!(keys_named(&header), keys, "{name}: what Rust passes");
        for line in text.lines() {
            assert!(line.len() <= 100, "{name}: {line}");
        }
    }
}

/// Scripts of one key, and those of many queues that only read.
const UNGUARDED: [&str; 7] =
    ["heads", "found", "stats", "node", "ready", "cron_heads", "stream_heads"];

/// The names of the keys that a header lists: `-- KEYS[3]  list  destination  ...`, or without the
/// index where they are of each queue.
fn keys_named(header: &[&str]) -> Vec<String> {
    let types = ["string", "list", "zset", "hash", "set", "stream", "none"];
    let listed = header
        .iter()
        .take_while(|line| !line.starts_with("-- ARGV") && !line.starts_with("-- RETURN"));
    let name = |line: &&str| {
        let mut words = line.trim_start_matches("--").split_whitespace();
        let word = words.next().filter(|word| !word.starts_with("KEYS["));
        let kind = word.or_else(|| words.next())?;
        types.contains(&kind).then(|| words.next().unwrap().to_owned())
    };
    listed.filter_map(name).collect()
}

/// The highest index of KEYS or ARGV in the code, and whether a loop takes all from there on.
fn used(code: &str, source: &str) -> (usize, bool) {
    let (mut last, mut open) = (0, false);
    for line in code.lines() {
        let start = format!("{source}[");
        let indexes = line.split(&start).skip(1);
        for index in indexes.filter_map(|rest| rest.split_once(']')?.0.parse().ok()) {
            last = last.max(index);
        }
        if line.contains(&format!("= unpack({source})")) {
            last = last.max(line.split('=').next().unwrap().split(',').count());
        }
        if line.contains(&format!(", #{source}")) {
            let first = line.split_once("for i = ").unwrap().1.split(',').next().unwrap();
            (last, open) = (first.parse().unwrap(), true);
        }
        if line.contains(&format!("while {source}[at]")) {
            (last, open) = (last + 1, true);
        }
        // All from an index on.
        if let Some((_, rest)) = line.split_once(&format!("{{ unpack({source}, ")) {
            (last, open) = (rest.split(')').next().unwrap().parse().unwrap(), true);
        }
        for function in ["Match.any_of", "TakeOut.given"] {
            if let Some((_, rest)) = line.split_once(&format!("{function}({source}, ")) {
                (last, open) = (rest.split([',', ')']).next().unwrap().parse().unwrap(), true);
            }
        }
        // Keys of groups and of many queues are taken in a loop of their own.
        if line.contains(&format!("= {source}")) && !line.contains(&format!("{source}[")) {
            (last, open) = (1, true);
        }
        if line.contains(&format!("{source}[key]")) || line.contains(&format!("({source}, key,")) {
            (last, open) = (last + 1, true);
        }
    }
    (last, open)
}
