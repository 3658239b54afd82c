//! `DQ.CRON`: sets, lists and stops schedules.

use crate::peer::{Place, check, shared};

fn row(name: &str, expr: &str, tz: &str, more: &str, next: &str) -> String {
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let paused = u8::from(!next.starts_with(':'));
    format!(
        "«*16|%8»\r\n$4\r\nname\r\n{}$10\r\nexpression\r\n{}$2\r\ntz\r\n{tz}{more}$6\r\npaused\r\n\
         :{paused}\r\n$4\r\nnext\r\n{next}\r\n$5\r\nbytes\r\n:2\r\n",
        text(name),
        text(expr)
    )
}

const SKIPS: &str = "$7\r\noverlap\r\n$4\r\nskip\r\n$7\r\ncatchup\r\n:1\r\n";
const NIL: &str = "«$-1|_»\r\n";

#[test]
fn forms() {
    let overlaps = "$7\r\noverlap\r\n$5\r\nallow\r\n$7\r\ncatchup\r\n:100\r\n";
    let night = |next: &str| row("night", "0 3 1 1 *", "$13\r\nEurope/Berlin\r\n", SKIPS, next);
    let one = format!("*2\r\n$1\r\n0\r\n*1\r\n{}", night(":«ms»"));
    let paused = format!("*2\r\n$1\r\n0\r\n*1\r\n{}", night("«$-1|_»"));
    let every = row("é", "every 2h", NIL, overlaps, ":«ms»");
    let two = format!("*2\r\n$1\r\n0\r\n*2\r\n{}{every}", night(":«ms»"));
    let first = format!("*2\r\n$«int»\r\n«text»\r\n*1\r\n{}", night(":«ms»"));
    let utc = row("night", "@yearly", "$3\r\nUTC\r\n", SKIPS, ":«ms»");
    let changed = format!("*2\r\n$1\r\n0\r\n*1\r\n{utc}");
    let two_moments = "*2\r\n«*4|%2»\r\n$3\r\ndue\r\n:«ms»\r\n$2\r\nat\r\n$25\r\n«text»\r\n\
         «*4|%2»\r\n$3\r\ndue\r\n:«ms»\r\n$2\r\nat\r\n$25\r\n«text»\r\n";
    check(&[
        (
            "*8\r\n$7\r\nDQ.CRON\r\n$5\r\n«q»\r\n$3\r\nSET\r\n$5\r\nnight\r\n$9\r\n0 3 1 1 *\r\n\
             $2\r\n\0\n\r\n$2\r\nTZ\r\n$13\r\nEurope/Berlin\r\n",
            ":«ms»\r\n",
        ),
        ("dq.cron «q» list\r\n", &one),
        ("DQ.CRON «q» PAUSE night\r\n", ":1\r\n"),
        ("DQ.CRON «q» PAUSE night\r\n", ":0\r\n"),
        ("DQ.CRON «q» LIST\r\n", &paused),
        // It stays paused, whatever it is set to.
        ("DQ.CRON «q» SET night '0 3 1 1 *' pp TZ europe/berlin\r\n", NIL),
        ("DQ.CRON «q» RESUME night\r\n", ":1\r\n"),
        ("DQ.CRON «q» RESUME night\r\n", ":0\r\n"),
        ("DQ.CRON «q» LIST\r\n", &one),
        ("DQ.CRON «q» SET é 'every 2h' pp OVERLAP allow CATCHUP 100 AS raw\r\n", ":«ms»\r\n"),
        ("DQ.CRON «q» LIST\r\n", &two),
        ("DQ.CRON «q» LIST COUNT 1\r\n", &first),
        ("DQ.CRON «q» DEL é\r\n", ":1\r\n"),
        ("DQ.CRON «q» DEL é\r\n", ":0\r\n"),
        ("DQ.CRON «q» SET night @yearly pp\r\n", ":«ms»\r\n"),
        ("DQ.CRON «q» LIST COUNT 1000 CURSOR 0\r\n", &changed),
        ("DQ.CRON «q» NEXT '*/5 * * * * *' COUNT 2\r\n", two_moments),
        ("DQ.CRON «q» DEL night\r\n", ":1\r\n"),
        ("DQ.CRON «q» PAUSE night\r\n", ":0\r\n"),
        ("DQ.CRON «q» RESUME night\r\n", ":0\r\n"),
        ("DQ.CRON «q» LIST\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("DQ.SIZE «q»\r\n", ":0\r\n"),
    ]);
}

/// A clear error each, and nothing is changed.
#[test]
fn refusals() {
    check(&[
        (
            "DQ.CRON «q» SET n '0 0 31 2 *' p\r\n",
            "-ERR expression '0 0 31 2 *' fits no moment within 50 years\r\n",
        ),
        (
            "DQ.CRON «q» SET n '0 3 * * *' p TZ Mars/Base\r\n",
            "-ERR TZ 'Mars/Base' is no zone of the time zone database; names are as Europe/Berlin \
             or UTC\r\n",
        ),
        (
            "DQ.CRON «q» SET n 'every 1d' p TZ UTC\r\n",
            "-ERR TZ 'UTC' has no use with every, which counts time and not the days of a zone\r\n",
        ),
        (
            "DQ.CRON «q» SET n '0 24 * * *' p\r\n",
            "-ERR expression '0 24 * * *' has the hour '24', which must be 0 to 23; with * , - and \
             / as in 1,5-9 and */5\r\n",
        ),
        (
            "DQ.CRON «q» SET n ', * * * *' p\r\n",
            "-ERR expression ', * * * *' has the minute ',', which must be 0 to 59; «text»\r\n",
        ),
        (
            "DQ.CRON «q» NEXT '* * *'\r\n",
            "-ERR expression '* * *' must have 5 fields (minute, «text»; it has 3\r\n",
        ),
        (
            "DQ.CRON «q» SET n 'every 999ms' p\r\n",
            "-ERR expression 'every 999ms' must not come more often than every second\r\n",
        ),
        (
            "DQ.CRON «q» SET n 'every 1x' p\r\n",
            "-ERR expression 'every 1x' has a length of time that «text»\r\n",
        ),
        (
            "DQ.CRON «q» SET n @daily p CATCHUP -1\r\n",
            "-ERR CATCHUP '-1' must be a whole number from 0 to 100\r\n",
        ),
        (
            "DQ.CRON «q» SET n @daily p CATCHUP 2\r\n",
            "-ERR CATCHUP '2' needs OVERLAP ALLOW: «text»\r\n",
        ),
        (
            "DQ.CRON «q» SET n @daily p OVERLAP wait\r\n",
            "-ERR OVERLAP 'wait' must be SKIP or ALLOW\r\n",
        ),
        ("DQ.CRON «q» SET '' @daily p\r\n", "-BADID schedule '' must not be empty\r\n"),
        (
            "DQ.CRON «q» SET 5-ab @daily p\r\n",
            "-BADID schedule '5-ab' reads as a message id«text»\r\n",
        ),
        ("DQ.CRON «q» SET n @daily\r\n", "-ERR wrong number of arguments«text»\r\n"),
        ("DQ.CRON «q» SET n @daily p AS kryo9\r\n", "-ERR encoding 'kryo9' must be «text»\r\n"),
        ("DQ.CRON «q» TICK n\r\n", "-ERR unknown subcommand 'TICK'; SET, DEL, PAUSE, «text»\r\n"),
        ("DQ.CRON «q» LIST COUNT 0\r\n", "-ERR COUNT '0' must be a whole number «text»\r\n"),
        ("DQ.CRON «q» LIST CURSOR 77\r\n", "-ERR invalid cursor: «text»\r\n"),
        ("DQ.CRON '' LIST\r\n", "-BADQUEUE queue '' must not be empty\r\n"),
        ("DQ.CRON «q»\r\n", "-ERR wrong number of arguments for 'dq.cron' command; «text»\r\n"),
        ("DQ.CRON «q» LIST\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
    ]);
    let mut backing = shared().backing();
    let keys = backing.call(&["KEYS", "delay_broker_cron*:{q*"]).unwrap().texts();
    assert!(!keys.iter().any(|key| key.contains("Mars")), "{keys:?}");
}

/// A payload and a name as large as they may be; one byte more is refused.
#[test]
fn large_ones() {
    let place = Place::spawn(&[]);
    let mut peer = place.peer();
    let set = |name: usize, payload: usize| {
        let (name, payload) = ("n".repeat(name), "p".repeat(payload));
        format!(
            "*6\r\n$7\r\nDQ.CRON\r\n$5\r\n«q»\r\n$3\r\nSET\r\n${}\r\n{name}\r\n$6\r\n@daily\r\n\
             ${}\r\n{payload}\r\n",
            name.len(),
            payload.len()
        )
    };
    const MAX: usize = 16 << 20;
    peer.sends(set(1_019, MAX));
    peer.gets(":«ms»\r\n");
    peer.sends(set(1_020, 1));
    peer.gets("-BADID schedule 'n«text» (1020 bytes) is longer than 1019 bytes\r\n");
    peer.sends(set(1, MAX + 1));
    peer.gets("-TOOBIG payload of 16777217 bytes is larger than 16777216 bytes\r\n");
    peer.sends("DQ.CRON «q» LIST\r\nECHO end\r\n");
    peer.gets("*2\r\n$1\r\n0\r\n*1\r\n*16\r\n«lines»bytes\r\n:16777216\r\n$3\r\nend\r\n");
}

/// Inside a transaction there are offers only; and who may not write sets nothing.
#[test]
fn who_and_where() {
    check(&[
        ("MULTI\r\n", "+OK\r\n"),
        ("DQ.CRON «q» SET n @daily p\r\n", "-«text»\r\n"),
        ("DISCARD\r\n", "+OK\r\n"),
        ("DQ.CRON «q» LIST\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"),
    ]);
}
