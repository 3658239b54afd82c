//! quarantine_list.lua, quarantine_restore.lua, quarantine_drop.lua.

use crate::bench::{Bench, Row, check};

#[test]
fn list() {
    let rows: &[Row] = &[
        ("nothing there", "", "quarantine_list 10 1000000", "OK", ""),
        (
            "by due time",
            "quarantine bad=2 \\x00\\r\\n=-1.5 ''=3",
            "quarantine_list 10 1000000",
            "OK \\x00\\r\\n -1.5 bad 2 '' 3",
            "quarantine \\x00\\r\\n=-1.5 bad=2 ''=3",
        ),
        (
            "exactly the count, and one left",
            "quarantine a=1 b=2",
            "quarantine_list 1 1000000",
            "OK a 1",
            "quarantine a=1 b=2",
        ),
        (
            "none wanted",
            "quarantine a=1",
            "quarantine_list 0 1000000",
            "OK",
            "quarantine a=1",
        ),
    ];
    check(rows);
}

#[test]
fn restore() {
    let rows: &[Row] = &[
        ("nothing there", "", "quarantine_restore", "OK :0 :0", ""),
        (
            "not there",
            "quarantine a=1",
            "quarantine_restore b",
            "OK :0 :0",
            "quarantine a=1",
        ),
        (
            "one, which is the head",
            "quarantine a=1; timeout m1(x)=2; list m1(x)",
            "quarantine_restore a",
            "OK :1 :1",
            "timeout a=1 m1(x)=2; list m1(x) a",
        ),
        (
            "all, none of them the head; the same one twice",
            "quarantine a=3.5 ''=inf; timeout m1(x)=2; list m1(x)",
            "quarantine_restore a a ''",
            "OK :2 :0",
            "timeout m1(x)=2 a=3.5 ''=inf; list m1(x) a ''",
        ),
        (
            "without members: all",
            "quarantine a=3 b=4",
            "quarantine_restore",
            "OK :2 :1",
            "timeout a=3 b=4; list a b",
        ),
        (
            "pending again already",
            "quarantine a=3; timeout a=5; list a",
            "quarantine_restore a",
            "OK :1 :0",
            "timeout a=5; list a",
        ),
    ];
    check(rows);
}

#[test]
fn drop() {
    let rows: &[Row] = &[
        ("nothing there", "", "quarantine_drop", "OK :0", ""),
        (
            "one",
            "quarantine a=1 b=2",
            "quarantine_drop a a c",
            "OK :1",
            "quarantine b=2",
        ),
        (
            "without members: all",
            "quarantine a=1 ''=2",
            "quarantine_drop",
            "OK :2",
            "",
        ),
    ];
    check(rows);
}

/// Without members at most 1,000 at once.
#[test]
fn thousand_at_once() {
    let mut bench = Bench::new("");
    let some: Vec<String> = (0..1001).map(|id| format!("{id} x{id}")).collect();
    bench.redis(&format!("ZADD @quarantine {}", some.join(" ")));
    bench.returns("quarantine_restore", "OK :1000 :1");
    bench.returns("quarantine_restore", "OK :1 :0");
    bench.redis(&format!("ZADD @quarantine {}", some.join(" ")));
    bench.returns("quarantine_drop", "OK :1000");
    assert_eq!(bench.redis("ZCARD @quarantine").int(), 1);
    bench.returns("quarantine_drop", "OK :1");
}
