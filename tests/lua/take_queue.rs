//! Queues that only takers consume, and what is said of a message beside its payload: transfer.lua,
//! take.lua, nack.lua, ack.lua, offer.lua, and those that look at payloads.
//!
//! `TAKES` stands for the record of such a queue, `TAKES+expired:1` for one with another setting.

use crate::bench::{Bench, Row, check};

const ALONE: &str = "record name=$q settings=\\x20destination:1/setup";

fn check_takes(rows: &[Row]) {
    let record = |text: &str| {
        let mut out = String::new();
        for (place, part) in text.split("TAKES").enumerate() {
            if place == 0 {
                out += part;
                continue;
            }
            let (more, rest) = part.split_at(part.find([';', '\n']).unwrap_or(part.len()));
            out += "record name=$q format=modern settings=\\x20destination:1/setup";
            for setting in more.split('+').filter(|one| !one.is_empty()) {
                out += &format!("\\x20{setting}/setup");
            }
            out += rest;
        }
        out
    };
    for (what, given, call, returns, then) in rows {
        check(&[(what, &record(given), call, returns, &record(then))]);
    }
}

#[test]
fn transfer() {
    check_takes(&[
        (
            "each in an envelope with its id, in order",
            "TAKES; timeout m1(a)=1000 l2(b)=1001 m3()=1002; destination z",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :1 1001 :1 1002 :1",
            "TAKES; destination z e1(a) e2(b) e3()",
        ),
        (
            "an id that no receipt can name: takers give it another",
            "TAKES; timeout m[0102](a)=1000 m[](b)=1001",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :1 1001 :1",
            "TAKES; destination e(a) e(b)",
        ),
        (
            "what is said of them goes along, and when they expire",
            "TAKES; timeout m1(e,l3,hk:v(a))=1000 m2(e,t9000000000000(b))=1001",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :1 1001 :1",
            "TAKES; destination e1,l3,hk:v(a) e2,t9000000000000,x9000000001001(b)",
        ),
        (
            "one that begins as an envelope, and one that is in an empty one for that",
            "TAKES; timeout m1(\\x00DQ\\x01)=1000 m2(e(\\x00DQ\\x01\\x00))=1001",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :1 1001 :1",
            "TAKES; destination e1(\\x00DQ\\x01) e2(\\x00DQ\\x01\\x00)",
        ),
        (
            "with a priority apart, the highest first; 0 is none; equal ones in order",
            "TAKES; timeout m1(e,p1(a))=1000 m2(e,p9(b))=1001 m3(e,p0(c))=1002 \
             m5(e,p9(d))=1003 m4(e,p9,hlong:header(e))=1003",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :1 1001 :1 1002 :1 1003 :2",
            "TAKES; destination e3,p0(c)
             first f2,p9(b)=1001 f4,p9,hlong:header(e)=1003 f5,p9(d)=1003 f1,p1(a)=80000000001000",
        ),
        (
            "the same twice, in both formats: none is lost",
            "TAKES; timeout m1(e,p1(a))=1000 l1(e,p1(a))=1000",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :2",
            "TAKES; destination e1,p1(a); first f1,p1(a)=80000000001000",
        ),
        (
            "scores of others have a priority as well",
            "TAKES; timeout m1(e,p9(a))=-inf m2(e,p9(b))=0.5",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 -inf :1 0.5 :1",
            "TAKES; first f1,p9(a)=0 f2,p9(b)=0",
        ),
        (
            "expired while it was pending: dropped, and its name with it",
            "TAKES; timeout m1(e,t5(a))=1000 m2(b)=1001; names n=1000-0000000000000001
             ids 0000000000000001=n",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1001 :1 '' :1",
            "TAKES; destination e2(b)",
        ),
        (
            "nothing but that",
            "TAKES; timeout m1(e,t5(a))=1000",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 '' :1",
            "TAKES",
        ),
        (
            "where they are to be dead the next taker sees to it",
            "TAKES+expired:1; timeout m1(e,t5(a))=1000",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :1",
            "TAKES+expired:1; destination e1,t5,x1005(a)",
        ),
        (
            "takers are told the name",
            "TAKES; timeout m1(a)=1000 m2(b)=1000; names n=1000-0000000000000001
             ids 0000000000000001=n",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :2",
            "TAKES; destination e1,nn(a) e2(b)",
        ),
        (
            "and it is held",
            "TAKES+names_until:1; timeout m1(a)=1000 m2(b)=1000; names n=1000-0000000000000001
             ids 0000000000000001=n",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :2",
            "TAKES+names_until:1; destination e1,nn(a) e2(b); held n:n=#1 i:#1=n",
        ),
        (
            "where the key has another type it is not, and nothing else is in the way",
            "TAKES+names_until:1; timeout m1(a)=1000; names n=1000-0000000000000001
             ids 0000000000000001=n; held !string",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :1",
            "TAKES+names_until:1; destination e1,nn(a); held !string",
        ),
        (
            "no priority where the key has another type",
            "TAKES; timeout m1(e,p9(a))=1000; first !string",
            "transfer 9 1000",
            "WRONGTYPE @first",
            "TAKES; timeout m1(e,p9(a))=1000; first !string",
        ),
        (
            "a list gets what is in the envelope",
            "timeout m1(e,hk:v,t5,p9(a))=1000 m2(e(\\x00DQ\\x01))=1001 m3(\\x00DQ\\x01)=1002 \
             m4(\\x00)=1003",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 :1 1001 :1 1002 :1 1003 :1",
            "destination a \\x00DQ\\x01 \\x00DQ\\x01 \\x00",
        ),
        (
            "flags are those of what is inside",
            "timeout m1(e,hk:v(Fa))=1000 m2(b)=1000 m3(Fc)=1000; record flag=F",
            "transfer 9 1000",
            "OK '' '' :0 :0 :0 :0 1000 #1 1000 :1 1000 #3",
            "destination Fa b Fc; record flag=F",
        ),
    ]);
}

#[test]
fn take() {
    check_takes(&[
        (
            "the id is that of the envelope, new ones are for the others",
            "TAKES; destination e7(a) b e(c)",
            "take 9 1000 1000 60000 16 #1#2#3",
            "OK floor+60001 :floor+60001 :0 :0 #7 :1 :1 e7(a) #1 :1 :1 b #2 :1 :1 e(c)",
            "TAKES; leased #7=floor+60001 #1=floor+60001 #2=floor+60001
             taken #7=e7(a) #1=b #2=e(c)",
        ),
        (
            "what a plain list holds is bare, whatever it looks like",
            "destination \\x00DQ\\x01\\x01\\x00\\x00\\x00\\x80a b",
            "take 9 1000 1000 60000 16 #1#2#3",
            "OK floor+60001 :floor+60001 :0 :0 \
             #1 :1 :1 \\x00DQ\\x01\\x01\\x00\\x00\\x00\\x80\\x00DQ\\x01\\x01\\x00\\x00\\x00\\x80a \
             #2 :1 :1 b",
            "record name=$q; leased #1=floor+60001 #2=floor+60001
             taken #2=b #1=\\x00DQ\\x01\\x01\\x00\\x00\\x00\\x80\
             \\x00DQ\\x01\\x01\\x00\\x00\\x00\\x80a",
        ),
        (
            "an id that is another's, or comes twice: a new one",
            "TAKES; destination e7(a) e8(b) e8(c) e9(d)
             leased #7=9000000000000; taken #7=e7(x) #9=''; dead #9=5",
            "take 9 1000 1000 60000 16 #1#2#3",
            "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 e7(a) #8 :1 :1 e8(b) #2 :1 :1 e8(c) \
             #3 :1 :1 e9(d)",
            "TAKES; leased #7=9000000000000 #1=floor+60001 #8=floor+60001 #2=floor+60001 \
             #3=floor+60001
             taken #7=e7(x) #9='' #1=e7(a) #8=e8(b) #2=e8(c) #3=e9(d); dead #9=5",
        ),
        (
            "no new one is left: it waits",
            "TAKES; destination e7(a) b c
             leased #7=9000000000000; taken #7=e7(x)",
            "take 3 1000 1000 60000 16 #1#2",
            "OK floor+0 :floor+60001 :0 :0 #1 :1 :1 e7(a) #2 :1 :1 b",
            "TAKES; destination c; leased #7=9000000000000 #1=floor+60001 #2=floor+60001
             taken #7=e7(x) #1=e7(a) #2=b",
        ),
        (
            "what is tried again first, then the highest priority",
            "TAKES; destination e1(a) e2(b); first f3,p9(c)=1000 f4,p1(d)=80000000000001
             retry #5=5; taken #5=e5(e)",
            "take 4 1000 1000 60000 16 #6#7#8#9",
            "OK floor+0 :floor+60001 :0 :0 #5 :2 :2 e5(e) #3 :1 :1 e3,p9(c) #4 :1 :1 e4,p1(d) \
             #1 :1 :1 e1(a)",
            "TAKES; destination e2(b); tries #5=2/0/
             leased #5=floor+60001 #3=floor+60001 #4=floor+60001 #1=floor+60001
             taken #5=e5(e) #3=e3,p9(c) #4=e4,p1(d) #1=e1(a)",
        ),
        (
            "bytes end it among them",
            "TAKES; destination e1(a); first f3,p9(c)=1000 f4,p1(d)=80000000000001",
            "take 4 20 1000 60000 16 #6#7#8#9",
            "OK floor+0 :floor+60001 :0 :0 #3 :1 :1 e3,p9(c)",
            "TAKES; destination e1(a); first f4,p1(d)=80000000000001
             leased #3=floor+60001; taken #3=e3,p9(c)",
        ),
        (
            "a priority of a list that has none is not looked at",
            "destination a; first f3,p9(c)=1000",
            "take 4 1000 1000 60000 16 #1",
            "OK floor+60001 :floor+60001 :0 :0 #1 :1 :1 a",
            "record name=$q; first f3,p9(c)=1000; leased #1=floor+60001; taken #1=a",
        ),
        (
            "another type",
            "TAKES; destination a; first !string",
            "take 4 1000 1000 60000 16 #1",
            "WRONGTYPE @first",
            "TAKES; destination a; first !string",
        ),
        (
            "a limit of its own is noted",
            "TAKES; destination e7,l3(a) e8,l0(b)",
            "take 9 1000 1000 60000 16 #1#2",
            "OK floor+60001 :floor+60001 :0 :0 #7 :1 :1 e7,l3(a) #8 :1 :1 e8,l0(b)",
            "TAKES; leased #7=floor+60001 #8=floor+60001; taken #7=e7,l3(a) #8=e8,l0(b)
             tries #7=1\\x200\\x2f3\\x20 #8=1\\x200\\x2f0\\x20",
        ),
        (
            "a lease that ran out goes by it, and frees the name of what died",
            "TAKES; leased #7=5 #8=6; taken #7=e7,l1(a) #8=e8,l2(b)
             tries #7=1\\x200\\x2f1\\x20 #8=1\\x200\\x2f2\\x20; held n:n=#7 i:#7=n n:m=#8 i:#8=m",
            "take 9 1000 1000 60000 16 #1#2",
            "OK floor+60001 :floor+60001 :2 :1 #8 :2 :2 e8,l2(b)",
            "TAKES; leased #8=floor+60001; dead #7=floor+0; taken #7=e7,l1(a) #8=e8,l2(b)
             tries #7=1\\x200\\x2f1\\x20lease\\x20expired #8=2\\x200\\x2f2\\x20
             held n:m=#8 i:#8=m",
        ),
    ]);
}

#[test]
fn take_expired() {
    check_takes(&[
        (
            "dropped, wherever it is met",
            "TAKES; destination e1,t5,x1005(a) e2(b); first f3,p9,t5,x1005(c)=1000
             retry #4=5; taken #4=e4,t5,x1005(d); tries #4=2/0/x; held n:n=#4 i:#4=n n:m=#1 i:#1=m",
            "take 9 1000 1000 60000 16 #6#7#8",
            "OK floor+60001 :floor+60001 :0 :0 #2 :1 :1 e2(b) :3",
            "TAKES; leased #2=floor+60001; taken #2=e2(b)",
        ),
        (
            "dead where the queue says so; brought back they expire no more",
            "TAKES+expired:1; destination e1,t5,x1005,hk:v(a) e2(b); first f3,p9,t5,x1005(c)=1000
             retry #4=5; taken #4=e4,t5,x1005(d); tries #4=2/1/x; held n:n=#4 i:#4=n n:m=#1 i:#1=m",
            "take 9 1000 1000 60000 16 #6#7#8",
            "OK floor+60001 :floor+60001 :0 :3 #2 :1 :1 e2(b) :3",
            "TAKES+expired:1; leased #2=floor+60001; dead #1=floor+0 #3=floor+0 #4=floor+0
             taken #1=e1,hk:v(a) #2=e2(b) #3=e3,p9(c) #4=e4(d)
             tries #1=1/1/expired #3=1/1/expired #4=2/1/expired",
        ),
        (
            "with an id that is another's",
            "TAKES+expired:1; destination e1,t5,x1005(a); leased #1=9000000000000; taken #1=e1(x)",
            "take 9 1000 1000 60000 16 #6#7#8",
            "OK 9000000000000 :floor+60001 :0 :1 :1",
            "TAKES+expired:1; leased #1=9000000000000; dead #6=floor+0
             taken #1=e1(x) #6=e1(a); tries #6=1/1/expired",
        ),
        (
            "dropped, the other one keeps its name",
            "TAKES; destination e1,t5,x1005(a); leased #1=9000000000000; taken #1=e1(x)
             held n:n=#1 i:#1=n",
            "take 9 1000 1000 60000 16 #6#7#8",
            "OK 9000000000000 :floor+60001 :0 :0 :1",
            "TAKES; leased #1=9000000000000; taken #1=e1(x); held n:n=#1 i:#1=n",
        ),
    ]);
}

/// As Redisson's transfer moves one: the moment when it expires is written by the take.
#[test]
fn a_ttl_without_a_moment_counts_from_the_take() {
    let mut bench = Bench::new(&format!("{ALONE}; destination e7,t5000,hk:v(a)"));
    let reply = bench.run("take 9 1000 1000 60000 16 #1");
    let stored = format!("e7,t5000,x{},hk:v(a)", bench.now_us / 1000 + 5_000);
    let wanted = format!("OK floor+60001 :floor+60001 :0 :0 #7 :1 :1 {stored}");
    let wanted = bench.timed(&wanted);
    assert_eq!(reply, bench.names.normal(&wanted));
    let then = format!("{ALONE}; leased #7=floor+60001; taken #7={stored}");
    bench.then(&then, "the moment is kept");
}

/// A pile of what has expired is worked off in several calls.
#[test]
fn few_expired_are_passed_over_in_one_call() {
    let pile = "e1,t5,x1005(a) ".repeat(2_500);
    let mut bench = Bench::new(&format!("{ALONE}; destination {pile} b"));
    let mut replies = Vec::new();
    for _ in 0..3 {
        replies.push(bench.run("take 2 100000000 1000 60000 16 #1#2"));
        bench.number += 1;
    }
    let ends: Vec<&str> = replies.iter().map(|reply| reply.rsplit(' ').next().unwrap()).collect();
    assert_eq!(ends, [":1000", ":1000", ":500"], "{replies:?}");
    assert!(replies[2].contains(" :1 :1 b "), "{replies:?}");
}

#[test]
fn give_back_and_settle() {
    check_takes(&[
        (
            "the limit of the message goes before that of the queue, less or more",
            "TAKES; leased #1=9000000000000 #2=9000000000000 #3=9000000000000
             taken #1=e1,l1(a) #2=e2,l9(b) #3=e3,l0(c)
             tries #1=1\\x200\\x2f1\\x20 #2=5\\x200\\x2f9\\x20 #3=99\\x200\\x2f0\\x20
             held n:n=#1 i:#1=n n:m=#2 i:#2=m",
            "nack FAIL '' no 3 5000 9000 0 #1 1 0 #2 5 0 #3 99 0",
            "OK :3 :1 ceil+9000",
            "TAKES; retry #2=ceil+9000 #3=ceil+9000; dead #1=ceil+0
             taken #1=e1,l1(a) #2=e2,l9(b) #3=e3,l0(c)
             tries #1=1\\x200\\x2f1\\x20no #2=5\\x200\\x2f9\\x20no #3=99\\x200\\x2f0\\x20no
             held n:m=#2 i:#2=m",
        ),
        (
            "brought back it keeps its limit",
            "TAKES; dead #1=5; taken #1=e1,l1(a); tries #1=1\\x200\\x2f1\\x20no",
            "dead 0 0 #1",
            "OK :1 ceil+0",
            "TAKES; retry #1=ceil+0; taken #1=e1,l1(a); tries #1=1\\x201\\x2f1\\x20no",
        ),
        (
            "what is settled frees its name; a name that a later message holds too stays",
            "TAKES; leased #1=9000000000000 #2=9000000000000; taken #1=e1,nn(a) #2=e2,nm(b)
             held n:n=#1 i:#1=n n:m=#3 i:#2=m i:#3=m",
            "ack #1 1 #2 1",
            "OK :2",
            "TAKES; held n:m=#3 i:#3=m",
        ),
        (
            "a key of another type holds none",
            "TAKES; leased #1=9000000000000; taken #1=e1,nn(a); held !string",
            "ack #1 1",
            "OK :1",
            "TAKES; held !string",
        ),
    ]);
}

#[test]
fn offer() {
    check_takes(&[
        (
            "a list has nothing beside payloads",
            "destination z",
            "offer q 5:m1(e,hk:v(a)) carries=META / q 5:m2(b) / q 5:m3(e,p9(c)) carries=PRIO",
            "OK :0 DESTINATION\\x20META :1 :1 :2 DESTINATION\\x20PRIO",
            "destination z; timeout m2(b)=ceil+5; list m2(b); record name=$q",
        ),
        (
            "nor where anything else is set",
            "record name=$q settings=\\x20limit:5/setup",
            "offer q 5:m1(e,hk:v(a)) carries=META",
            "OK :0 DESTINATION\\x20META",
            "record name=$q settings=\\x20limit:5/setup",
        ),
        (
            "a stream has all but priorities",
            "record name=$q settings=\\x20destination:2/setup",
            "offer q 5:m1(e,hk:v(a)) carries=META / q 5:m3(e,p9(c)) carries=PRIO",
            "OK :0 :1 :1 DESTINATION\\x20PRIO",
            "record name=$q settings=\\x20destination:2/setup; timeout m1(e,hk:v(a))=ceil+5
             list m1(e,hk:v(a))",
        ),
        (
            "takers have all of it; a name and more go together",
            "TAKES",
            "offer q 5:m1(e,hk:v(a)) carries=META / q 5:m3(e,p9(c)) carries=PRIO
             / q 5:m4(e,p1(d)) carries=PRIO name=n",
            "OK :0 :1",
            "TAKES; timeout m1(e,hk:v(a))=ceil+5 m3(e,p9(c))=ceil+5 m4(e,p1(d))=ceil+5
             list m1(e,hk:v(a)) m3(e,p9(c)) m4(e,p1(d))
             names n=ceil+5-0000000000000004; ids 0000000000000004=n",
        ),
        (
            "those with a priority that are due count as well",
            "TAKES+max_length:3; destination z; first f8,p9(x)=5",
            "offer q 5:m1(e,p9(a)) 5:m2(e,p9(b)) carries=PRIO / q 5:m3(e,p9(c)) carries=PRIO",
            "OK :0 FULL\\x202\\x203\\x202 :1 :1",
            "TAKES+max_length:3; destination z; first f8,p9(x)=5
             timeout m3(e,p9(c))=ceil+5; list m3(e,p9(c))",
        ),
        (
            "a name that is held is refused where it must be new, only there",
            "TAKES; held n:n=#9 i:#9=n",
            "offer q 5:m1(a) name=n mode=NX / q 5:m2(b) name=n mode=XX / q 5:m3(c) name=n",
            "OK :0 :2 :1 :2 :2 :1",
            "TAKES; held n:n=#9 i:#9=n; timeout m3(c)=ceil+5; list m3(c)
             names n=ceil+5-0000000000000003; ids 0000000000000003=n",
        ),
    ]);
}

#[test]
fn payloads_are_those_inside() {
    let inside = "timeout m1(e,hk:v(a))=5 m2(a)=6 m3(e(\\x00DQ\\x01))=7 l4(e1(b))=8
                  record order_list=off";
    check_takes(&[
        (
            "contains",
            inside,
            "contains '' '' 0 '' 10 1000 1 a 4 \\x00DQ\\x01 1 b 1 c",
            "OK '' '' :0 '' :0 :1 :2 :3",
            inside,
        ),
        (
            "contains, told by its end",
            inside,
            "contains '' '' 0 '' 10 1000 1 b",
            "OK '' '' :0 '' :0 :1",
            inside,
        ),
        (
            "remove",
            inside,
            "remove_pending 9 a 10 10 1000 '' '' 0 ''",
            "OK :0 :0 '' '' :0 ''",
            inside,
        ),
        (
            "remove by id",
            "timeout m1(e,hk:v(a))=5 m2(e(b))=6; record order_list=off",
            "remove a 1000 5 #1 6 #2",
            "OK :1 :2",
            "timeout m2(e(b))=6; record order_list=off",
        ),
    ]);
}

#[test]
fn push() {
    check_takes(&[
        (
            "a list gets the payloads as they are",
            "destination z; timeout m1(a)=9000000000000; list m1(a)",
            "push #2 b #3 '' #4 \\x00DQ\\x01",
            "OK :ceil+0 :0 :0 :0",
            "destination z b '' \\x00DQ\\x01; timeout m1(a)=9000000000000; list m1(a)",
        ),
        (
            "takers get them with their ids",
            "TAKES",
            "push #2 b #3 \\x00DQ\\x01",
            "OK :ceil+0 :1 :0 :0",
            "TAKES; destination e2(b) e3(\\x00DQ\\x01)",
        ),
        (
            "behind what is due, in order",
            "timeout m1(a)=1000; list m1(a)",
            "push #2 b #3 \\x00DQ\\x01",
            "OK :ceil+0 :0 :1 :0",
            "timeout m1(a)=1000 m2(b)=ceil+0 m3(e(\\x00DQ\\x01))=ceil+0
             list m1(a) m2(b) m3(e(\\x00DQ\\x01)); record name=$q",
        ),
        (
            "while it is paused",
            "TAKES; timeout m1(a)=9000000000000; list m1(a); all paused_until=-1",
            "push #2 b",
            "OK :ceil+0 :1 :1 :1",
            "TAKES; timeout m1(a)=9000000000000 m2(b)=ceil+0; list m1(a) m2(b)
             all paused_until=-1",
        ),
        (
            "where there is a rate, which lets them go one by one; old members",
            "record name=$q format=legacy settings=\\x20rate:3600/setup",
            "push #2 b",
            "OK :ceil+0 :0 :1 :1",
            "record name=$q format=legacy settings=\\x20rate:3600/setup
             timeout l2(b)=ceil+0; list l2(b)",
        ),
        (
            "no more than there is room for",
            "record name=$q settings=\\x20max_length:3/setup; destination z
             timeout m1(a)=9000000000000",
            "push #2 b #3 c",
            "FAILED FULL\\x202\\x203\\x202",
            "record name=$q settings=\\x20max_length:3/setup; destination z
             timeout m1(a)=9000000000000",
        ),
        (
            "nor behind what is due",
            "record name=$q settings=\\x20max_length:3/setup; destination z; timeout m1(a)=1000",
            "push #2 b #3 c",
            "FAILED FULL\\x202\\x203\\x202",
            "record name=$q settings=\\x20max_length:3/setup; destination z; timeout m1(a)=1000",
        ),
        (
            "a transfer makes entries of a stream",
            "record name=$q settings=\\x20destination:2/setup",
            "push #2 b",
            "OK :ceil+0 :0 :1 :1",
            "record name=$q settings=\\x20destination:2/setup
             timeout m2(b)=ceil+0; list m2(b)",
        ),
    ]);
}
