//! setup.lua, and the settings that it records, where other scripts go by them.

use crate::bench::{Bench, check};

#[test]
fn setup() {
    let rows: &[(&str, &str, &str, &str, &str)] = &[
        ("nothing", "", "setup '' setup", "OK '' ''", ""),
        (
            "the first: the name is claimed, and brokers before it spare the record",
            "",
            "setup '' setup limit 5 jitter 0",
            "OK '' _jitter:0/setup_limit:5/setup",
            "record name=$q settings=\\x20jitter:0/setup\\x20limit:5/setup format=modern",
        ),
        (
            "the same again",
            "record name=$q settings=\\x20limit:5/setup",
            "setup '' setup limit 5",
            "OK _limit:5/setup _limit:5/setup",
            "record name=$q settings=\\x20limit:5/setup",
        ),
        (
            "one more, one other, one that a newer broker knows; a format stays",
            "record name=$q format=legacy settings=\\x20limit:5/setup\\x20newer:7/file",
            "setup '' file limit 6 lease_ms 100",
            "OK _limit:5/setup_newer:7/file \
             _file:1/file_lease_ms:100/file_limit:6/file_newer:7/file",
            "record name=$q format=legacy \
             settings=\\x20file:1/file\\x20lease_ms:100/file\\x20limit:6/file\\x20newer:7/file",
        ),
        (
            "only what is not set",
            "record name=$q format=modern settings=\\x20limit:5/setup",
            "setup IFABSENT file limit 6 jitter 1",
            "OK _limit:5/setup _file:1/file_jitter:1/file_limit:5/setup",
            "record name=$q format=modern \
             settings=\\x20file:1/file\\x20jitter:1/file\\x20limit:5/setup",
        ),
        (
            "those of a file are marked, since Redis may lose them",
            "record name=$q",
            "setup IFABSENT file limit 6",
            "OK '' _file:1/file_limit:6/file",
            "record name=$q format=modern settings=\\x20file:1/file\\x20limit:6/file",
        ),
        (
            "and the mark stays",
            "record name=$q format=modern settings=\\x20file:1/file\\x20limit:6/file",
            "setup RESET setup",
            "OK _file:1/file_limit:6/file _file:1/file",
            "record name=$q format=modern settings=\\x20file:1/file",
        ),
        (
            "the last one is unset",
            "record name=$q format=modern settings=\\x20limit:5/setup",
            "setup '' setup limit ''",
            "OK _limit:5/setup ''",
            "record name=$q",
        ),
        (
            "all but those that are named",
            "record name=$q format=modern settings=\\x20jitter:1/file\\x20limit:5/setup",
            "setup RESET setup limit 7",
            "OK _jitter:1/file_limit:5/setup _limit:7/setup",
            "record name=$q format=modern settings=\\x20limit:7/setup",
        ),
        (
            "a field that others wrote",
            "record name=$q settings=limit:x/file",
            "setup '' setup limit 7",
            "OK limit:x/file _limit:7/setup",
            "record name=$q format=modern settings=\\x20limit:7/setup",
        ),
        (
            "takers alone, at any time",
            "destination a\ntimeout m1(a)=5",
            "setup '' setup destination 1",
            "OK '' _destination:1/setup",
            "destination a\ntimeout m1(a)=5\n\
             record name=$q settings=\\x20destination:1/setup format=modern",
        ),
        (
            "and back only while it is empty",
            "record name=$q settings=\\x20destination:1/setup\ndestination a",
            "setup RESET setup",
            "INUSE $q",
            "record name=$q settings=\\x20destination:1/setup\ndestination a",
        ),
        (
            "as to a stream",
            "taken a1=a",
            "setup '' setup destination 2 limit 5",
            "INUSE @taken",
            "taken a1=a",
        ),
        (
            "another name",
            "record name={$q}",
            "setup '' setup limit 7",
            "BADQUEUE {$q}",
            "record name={$q}",
        ),
    ];
    check(rows);
}

/// It stays without messages, through a prune and a configuration.
#[test]
fn settings_stay() {
    let record = "record name=$q format=modern settings=\\x20limit:7/setup";
    check(&[
        ("prune", &format!("registry $q; {record}"), "prune", "OK :1", record),
        (
            "the last ack",
            &format!("leased #1=5; taken #1=a; {record}"),
            "ack #1 1",
            "OK :1",
            record,
        ),
        ("modern", record, "configure modern '' 0", "OK DONE :0", record),
    ]);
}

/// Takers and settlers go by them, whatever the broker passes.
#[test]
fn leases_go_by_them() {
    let set = |settings: &str| format!("record name=$q settings=\\x20{settings}");
    let row = |given: &str, settings: &str, call: &str, returns: &str, then: &str| {
        let (given, then) =
            (format!("{given}; {}", set(settings)), format!("{then}; {}", set(settings)));
        check(&[(settings, &given, call, returns, &then)]);
    };
    let lease = "lease_ms:1000/setup";
    row(
        "destination a",
        lease,
        "take 1 1000 1000 -60000 16 #1",
        "OK floor+1001 :floor+1001 :0 :0 #1 :1 :1 a",
        "leased #1=floor+1001; taken #1=a",
    );
    row(
        "destination a",
        lease,
        "take 1 1000 1000 60000 16 #1",
        "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 a",
        "leased #1=floor+60001; taken #1=a",
    );
    row(
        "leased #1=5; taken #1=a",
        lease,
        "extend -60000 #1 1",
        "OK :1 :ceil+1000",
        "leased #1=ceil+1000; taken #1=a",
    );
    row(
        "leased #1=5; taken #1=a",
        "limit:1/file",
        "nack FAIL '' '' 16 5000 9000 0 #1 1 0",
        "OK :1 :1 ''",
        "dead #1=ceil+0; taken #1=a; tries #1=1/0/",
    );
    row(
        "leased #1=5; taken #1=a; tries #1=2/0/",
        "backoff_max_ms:700/file\\x20backoff_min_ms:500/file\\x20jitter:50/file",
        "nack FAIL '' '' 16 5000 9000 0 #1 2 999",
        "OK :1 :0 ceil+350",
        "retry #1=ceil+350; taken #1=a; tries #1=2/0/",
    );
    row(
        "destination a b c; leased #9=9000000000000; taken #9=x",
        "in_flight_max:2/file",
        "take 5 1000 1000 60000 16 #1#2#3",
        "OK floor+0 :floor+60001 :0 :0 #1 :1 :1 a",
        "destination b c; leased #9=9000000000000 #1=floor+60001; taken #9=x #1=a",
    );
    row(
        "destination b; retry #2=5; leased #9=9000000000000; taken #9=x #2=y",
        "in_flight_max:1/file",
        "take 5 1000 1000 60000 16 #1#2#3",
        "OK 9000000000000 :floor+60001 :0 :0",
        "destination b; retry #2=5; leased #9=9000000000000; taken #9=x #2=y",
    );
    row("leased #1=5; taken #1=a", "in_flight_max:1/file", "ack #1 1", "OK :1 :1", "");
}

/// A full queue refuses the whole of a group, and nothing else of the call.
#[test]
fn offers_to_a_full_queue() {
    let record = "record name=$q settings=\\x20max_length:3/setup";
    let given = format!("destination x; timeout m9(z)=9000000000000; list m9(z); {record}");
    let mut bench = Bench::new(&given);
    bench.returns("offer q 5:m1(a) 5:m2(b) / p 5:m3(c)", "OK :0 FULL_2_3_2 :1 :1");
    bench.returns("offer q 5:m4(d)", "OK :0 :1");
    bench.returns("offer q 5:m5(e)", "OK :0 FULL_3_3_1");
    // What a named one does comes first: it takes the place of another, or does nothing.
    bench.returns("offer q 5:m5(e) name=n", "OK :0 FULL_3_3_1");
    bench.returns("offer q 5:m5(e) name=n mode=XX", "OK :0 :2");
    bench.redis("DEL @destination");
    bench.returns("offer q 5:m5(e) name=n", "OK");
    bench.redis("RPUSH @destination x");
    bench.returns("offer q 5:m6(f) name=n mode=NX", "OK :0 :2");
    bench.returns("offer q 5:m6(f) name=n", "OK");
}

/// A bucket that is full lets its burst go; then one comes every 100 ms, at this rate.
#[test]
fn rate() {
    let settings = "settings=\\x20burst:2/setup\\x20rate:36000/setup";
    let given = format!(
        "timeout m1(a)=1 m2(b)=2 m3(c)=3 m4(d)=9000000000000; list m1(a) m2(b) m3(c) m4(d)
         record name=$q {settings}"
    );
    let mut bench = Bench::new(&given);
    let next = |bench: &mut Bench| -> (f64, String) {
        let reply = bench.run("transfer 9 1000");
        let mut words = reply.split(' ');
        assert_eq!(words.next(), Some("OK"), "{reply}");
        let next: f64 = words.next().unwrap().parse().unwrap();
        let from_now = next - bench.now_us as f64 / 1e3;
        (from_now, words.skip(5).collect::<Vec<_>>().join(" "))
    };
    let (wait, moved) = next(&mut bench);
    assert!((98.5..=101.5).contains(&wait), "{wait}");
    assert_eq!(moved, "1 :1 2 :1");
    assert_eq!(bench.redis("LRANGE @destination 0 -1").texts(), ["a", "b"]);
    let at = bench.now_us as f64 / 1e3;
    // Too early: nothing is moved, and nothing noted.
    let noted = bench.redis("HGET @record tokens").text();
    assert_eq!(noted, format!("0.000000 {at:.3}"));
    let (wait, moved) = next(&mut bench);
    assert!((0.0..=101.5).contains(&wait) && moved.is_empty(), "{wait} {moved}");
    assert_eq!(bench.redis("HGET @record tokens").text(), noted);
    // A token and a half have come: one goes, and it counts as late from the token on.
    let earlier = at - 150.0;
    bench.redis(&format!("HSET @record tokens 0.000000_{earlier:.3}").replace('_', "\\x20"));
    let reply = bench.run("transfer 9 1000");
    let words: Vec<&str> = reply.split(' ').collect();
    assert_eq!(words[1], "9000000000000", "{reply}");
    let came: f64 = words[3].trim_start_matches(':').parse().unwrap();
    assert!((came - (earlier + 100.0)).abs() <= 1.5, "{came} {earlier}");
    assert_eq!(bench.redis("LRANGE @destination 0 -1").texts(), ["a", "b", "c"]);
    // A clock that went back gives no token, and takes none.
    bench.give("timeout m5(e)=5; list m5(e)");
    bench.redis("HSET @record tokens 0.500000\\x209000000000000.000");
    let (wait, moved) = next(&mut bench);
    assert!((45.0..=51.0).contains(&wait) && moved.is_empty(), "{wait} {moved}");
}
