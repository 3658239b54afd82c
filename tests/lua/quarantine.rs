//! quarantine_list.lua, quarantine_restore.lua, quarantine_drop.lua.

use crate::bench::{Bench, Row, check};

#[test]
fn list() {
    let rows: &[Row] = &[
        ("nothing there", "", "quarantine_list 10 1000000 1000000", "OK", ""),
        (
            "by due time",
            "quarantine bad=2 \\x00\\r\\n=-1.5 ''=3",
            "quarantine_list 10 1000000 1000000",
            "OK \\x00\\r\\n -1.5 bad 2 '' 3",
            "quarantine \\x00\\r\\n=-1.5 bad=2 ''=3",
        ),
        (
            "exactly the count, and one left",
            "quarantine a=1 b=2",
            "quarantine_list 1 1000000 1000000",
            "OK a 1",
            "quarantine a=1 b=2",
        ),
        (
            "none wanted",
            "quarantine a=1",
            "quarantine_list 0 1000000 1000000",
            "OK",
            "quarantine a=1",
        ),
    ];
    check(rows);
}

#[test]
fn restore() {
    let rows: &[Row] = &[
        (
            "nothing there",
            "",
            "quarantine_restore 1000 1000000 '' '' 0 ''",
            "OK :0 :0 '' '' :0 ''",
            "",
        ),
        (
            "not there",
            "quarantine a=1",
            "quarantine_restore 0 1000 '' '' 0 '' b",
            "OK :0 :0 '' '' 0 ''",
            "quarantine a=1",
        ),
        (
            "one, which is the head",
            "quarantine a=1; timeout m1(x)=2; list m1(x)",
            "quarantine_restore 0 1000 '' '' 0 '' a",
            "OK :1 :1 '' '' 0 ''",
            "timeout a=1 m1(x)=2; list m1(x) a",
        ),
        (
            "all, none of them the head; the same one twice",
            "quarantine a=3.5 ''=inf; timeout m1(x)=2; list m1(x)",
            "quarantine_restore 0 1000 '' '' 0 '' a a ''",
            "OK :2 :0 '' '' 0 ''",
            "timeout m1(x)=2 a=3.5 ''=inf; list m1(x) a ''",
        ),
        (
            "without members: all",
            "quarantine a=3 b=4",
            "quarantine_restore 1000 1000000 '' '' 0 ''",
            "OK :2 :1 '' '' :0 ''",
            "timeout a=3 b=4; list a b",
        ),
        (
            "pending again already",
            "quarantine a=3; timeout a=5; list a",
            "quarantine_restore 0 1000 '' '' 0 '' a",
            "OK :1 :0 '' '' 0 ''",
            "timeout a=5; list a",
        ),
    ];
    check(rows);
}

#[test]
fn drop() {
    let rows: &[Row] = &[
        (
            "nothing there",
            "",
            "quarantine_drop 1000 1000000 '' '' 0 ''",
            "OK :0 :0 '' '' :0 ''",
            "",
        ),
        (
            "one",
            "quarantine a=1 b=2",
            "quarantine_drop 0 1000 '' '' 0 '' a a c",
            "OK :1 :0 '' '' 0 ''",
            "quarantine b=2",
        ),
        (
            "without members: all",
            "quarantine a=1 ''=2",
            "quarantine_drop 1000 1000000 '' '' 0 ''",
            "OK :2 :0 '' '' :0 ''",
            "",
        ),
    ];
    check(rows);
}

/// Those from a cursor on: so many, or so many bytes; what comes back before it meanwhile waits.
#[test]
fn in_steps() {
    for (what, given, restored) in [
        ("quarantine_restore", "a=1 b=1 c=1 d=2 e=3", "list a b"),
        ("quarantine_drop", "a=1 b=1 c=1 d=2 e=3", ""),
    ] {
        let mut bench = Bench::new(&format!("quarantine {given}"));
        let head = if what == "quarantine_drop" { 0 } else { 1 };
        let first = bench.run(&format!("{what} 2 1000 '' '' 0 ''"));
        assert_eq!(first, format!("OK :2 :{head} 1 c :0 ''"));
        let pending = if restored.is_empty() { "" } else { "timeout a=1 b=1" };
        bench.then(&format!("quarantine c=1 d=2 e=3; {pending}; {restored}"), what);
        bench.redis("ZADD @quarantine 1 a");
        bench.number += 1;
        let next = bench.run(&format!("{what} 2 1 1 c 0 ''"));
        assert_eq!(next, "OK :1 :0 (1 '' :0 ''");
        bench.number += 1;
        let last = bench.run(&format!("{what} 9 1000 (1 '' 0 ''"));
        let all = ["OK :2 :0 '' '' :0 ''", "OK :3 :0 '' '' :0 ''"];
        assert_eq!(last, all[usize::from(what == "quarantine_drop")]);
    }
}

/// Without members at most so many at once.
#[test]
fn thousand_at_once() {
    let mut bench = Bench::new("");
    let some: Vec<String> = (0..1001).map(|id| format!("{id} x{id}")).collect();
    let first = "1000 1000000 '' '' 0 ''";
    bench.redis(&format!("ZADD @quarantine {}", some.join(" ")));
    bench.returns(&format!("quarantine_restore {first}"), "OK :1000 :1 (999 '' :0 ''");
    bench.returns(&format!("quarantine_restore {first}"), "OK :1 :0 '' '' :0 ''");
    bench.redis(&format!("ZADD @quarantine {}", some.join(" ")));
    bench.returns(&format!("quarantine_drop {first}"), "OK :1000 :0 (999 '' :0 ''");
    assert_eq!(bench.redis("ZCARD @quarantine").int(), 1);
    bench.returns(&format!("quarantine_drop {first}"), "OK :1 :0 '' '' :0 ''");
}

/// What no reply can hold is said, and ends one before it.
#[test]
fn too_large_to_show() {
    let rows: &[Row] = &[
        (
            "the first",
            "quarantine abcdef=1.5 b=2",
            "quarantine_list 10 1000 5",
            "TOOBIG :6 1.5 :5",
            "quarantine abcdef=1.5 b=2",
        ),
        (
            "another one",
            "quarantine b=1 abcdef=1.5 c=3",
            "quarantine_list 10 1000 5",
            "OK b 1",
            "quarantine b=1 abcdef=1.5 c=3",
        ),
    ];
    check(rows);
}
