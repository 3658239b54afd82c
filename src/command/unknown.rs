//! Unknown commands: Redis's words, which clients parse, and then advice.

use crate::resp::Request;

use super::TABLE;

/// Bytes of a name or of all arguments that are shown, as in Redis.
const SHOWN_MAX: usize = 128;
/// Names longer than this are like none of ours.
const NAME_MAX: usize = 24;
/// From this length on, `DQ.` included, a name of ours may be mistyped in two letters: fewer than
/// five letters with two changed are mostly another word, as FIRE and FIND are.
const TWO_MISTAKES_FROM: usize = 8;

/// A command of ours, and the names that other systems have for it.
const SYNONYMS: [(&str, &[&str]); 27] = [
    (
        "DQ.OFFER",
        &[
            "ADD", "PUT", "SEND", "PUBLISH", "ENQUEUE", "SCHEDULE", "DELAY", "SET", "LPUSH",
            "RPUSH", "ZADD", "INSERT", "CREATE",
        ],
    ),
    ("DQ.MOFFER", &["MADD", "MPUSH", "BATCH", "BULK"]),
    ("DQ.CANCEL", &["DEL", "DELETE", "ABORT", "UNSCHEDULE"]),
    ("DQ.REMOVE", &["REM", "LREM", "ZREM"]),
    ("DQ.SIZE", &["LEN", "LLEN", "LENGTH", "COUNT", "CARD", "ZCARD"]),
    ("DQ.QUEUES (of queues) or DQ.PEEK (of messages)", &["LIST", "LS", "KEYS", "SCAN", "ALL"]),
    (
        "DQ.INFO (of a queue) or INFO (of the broker)",
        &["STATS", "STAT", "STATUS", "STATE", "METRICS"],
    ),
    ("DQ.POLL", &["POP", "LPOP", "DEQUEUE"]),
    ("DQ.TAKE", &["RECEIVE", "CONSUME", "RESERVE", "LEASE", "BLPOP", "XREADGROUP"]),
    ("DQ.ACK", &["DONE", "COMPLETE", "SUCCEED", "XACK"]),
    ("DQ.NACK", &["RELEASE", "REJECT", "RETRY", "FAIL", "BURY", "RETURN"]),
    ("DQ.EXTEND", &["TOUCH", "RENEW", "HEARTBEAT", "VISIBILITY"]),
    ("DQ.TAKEN", &["INFLIGHT", "LEASES", "XPENDING"]),
    ("DQ.CRON", &["EVERY", "RECUR", "PERIODIC", "CRONTAB"]),
    ("DQ.DEAD", &["DLQ", "BURIED", "KICK", "REQUEUE"]),
    ("DQ.PEEK", &["HEAD", "NEXT", "FIRST", "TOP", "LRANGE"]),
    ("DQ.CLEAR", &["PURGE", "FLUSH", "EMPTY", "DROP", "TRUNCATE"]),
    ("DQ.RESCHEDULE", &["UPDATE", "MOVE", "POSTPONE", "SNOOZE", "DEFER", "EXPIRE"]),
    ("DQ.FIRE", &["NOW", "RUN", "TRIGGER", "PROMOTE", "DELIVER"]),
    ("DQ.PAUSE", &["STOP", "HOLD", "FREEZE", "SUSPEND"]),
    ("DQ.RESUME", &["START", "CONTINUE", "UNPAUSE"]),
    ("DQ.SETUP", &["CONFIGURE", "SETTINGS", "DECLARE", "CREATE"]),
    ("DQ.CONTAINS", &["EXISTS", "HAS"]),
    ("DQ.GET", &["SHOW", "FETCH", "READ"]),
    ("DQ.QUARANTINE", &["POISON"]),
    ("DQ.FIND", &["SEARCH", "GREP", "MATCH", "FILTER", "QUERY"]),
    ("DQ.TIMELINE", &["ZCOUNT", "HISTOGRAM", "BUCKETS", "AGENDA", "FORECAST"]),
];

/// Redis's wording to the letter: clients parse it to find out what a server has.
pub fn words(request: Request<'_>) -> String {
    let plain = |raw: &[u8], max: usize| {
        let cut = raw.get(..max).unwrap_or(raw);
        // Printable characters as they are; the rest would break the line or not be text.
        cut.iter().fold(String::new(), |text, &b| match b {
            b' '..=b'~' => text + char::from(b).encode_utf8(&mut [0; 4]),
            _ => text + &b.escape_ascii().to_string(),
        })
    };
    let mut shown = String::new();
    for value in request.iter().skip(1) {
        if shown.len() >= SHOWN_MAX {
            break;
        }
        shown += &format!("'{}' ", plain(value, SHOWN_MAX - shown.len()));
    }
    let name = plain(request.get(0).unwrap_or_default(), SHOWN_MAX);
    format!("unknown command '{name}', with args beginning with: {shown}")
}

/// The advice after those words. `place`: the address of the backing Redis.
pub fn advice(name: &[u8], place: &str) -> String {
    let name = name.get(..NAME_MAX + 1).unwrap_or(name).to_ascii_uppercase();
    let ours = name.strip_prefix(b"DQ.");
    if let Some(meant) = meant(&name) {
        return format!("; did you mean {meant}?");
    }
    match ours {
        Some(_) => "; DQ.HELP lists the commands".to_owned(),
        None => format!(
            "; this is a delay broker, which has no keys: the lists of due messages are in its \
             Redis, at {place}. DQ.HELP lists the commands"
        ),
    }
}

/// The advice on a name that must be one of ours, with `DQ.` or without.
pub fn advice_on(name: &[u8]) -> String {
    let name = name.get(..NAME_MAX + 1).unwrap_or(name).to_ascii_uppercase();
    let whole = match name.starts_with(b"DQ.") {
        true => name,
        false => [b"DQ.", &name[..]].concat(),
    };
    advice(&whole, "")
}

fn meant(name: &[u8]) -> Option<&'static str> {
    if name.len() > NAME_MAX {
        return None;
    }
    let own = || TABLE.iter().map(|spec| spec.name);
    let own = || own().filter(|own| own.starts_with("DQ."));
    if let Some(short) = name.strip_prefix(b"DQ.") {
        let is = |word: &&str| word.as_bytes() == short;
        let same = SYNONYMS.iter().find(|(_, words)| words.iter().any(is));
        if let Some((meant, _)) = same {
            return Some(meant);
        }
    } else {
        // A command of Redis is meant for a Redis.
        let bare = own().find(|own| own.as_bytes().get(3..) == Some(name));
        if let Some(bare) = bare.filter(|bare| *bare != "DQ.GET") {
            return Some(bare);
        }
    }
    let distances = own().map(|own| (distance(name, own.as_bytes()), own));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    let most = if nearest.len() < TWO_MISTAKES_FROM { 1 } else { 2 };
    (distance <= most).then_some(nearest)
}

/// Letters to put in, leave out, change or swap with the next until both are the same.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    let at = |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX / 2);
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let changed = at(&last, j) + usize::from(a != b);
            let mut least = changed.min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let crossed = i > 0 && j > 0 && one.get(i - 1) == Some(b);
            if crossed && other.get(j - 1) == Some(a) {
                least = least.min(at(&before, j - 1) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    at(&last, other.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings() {
        let lists = "; this is a delay broker, which has no keys: the lists of due messages are in \
                     its Redis, at here:1. DQ.HELP lists the commands";
        let none = "; DQ.HELP lists the commands";
        let long = format!("DQ.{}", "X".repeat(1_000));
        for (name, wanted) in [
            ("DQ.OFER", "DQ.OFFER"),
            ("dq.ofefr", "DQ.OFFER"),
            ("DQ.OFFERS", "DQ.OFFER"),
            ("DQ-OFFER", "DQ.OFFER"),
            ("DQOFFER", "DQ.OFFER"),
            ("OFFER", "DQ.OFFER"),
            ("DQ.ADD", "DQ.OFFER"),
            ("DQ.LEN", "DQ.SIZE"),
            ("DQ.SIZ", "DQ.SIZE"),
            ("DQ.CLERA", "DQ.CLEAR"),
            ("DQ.KLEARS", "DQ.CLEAR"),
            ("DQ.POOLS", none),
            ("DQ.DEL", "DQ.CANCEL"),
            ("DQ.LIST", "DQ.QUEUES (of queues) or DQ.PEEK (of messages)"),
            ("DQ.STATS", "DQ.INFO (of a queue) or INFO (of the broker)"),
            ("DQ.QUEUE", "DQ.QUEUES"),
            ("DQ.RESHEDULE", "DQ.RESCHEDULE"),
            ("DQ.NOTHING", none),
            ("DQ.", none),
            (&long, none),
            ("BLPOP", lists),
            ("GET", lists),
            ("KEYS", lists),
            ("", lists),
            ("\u{fffd}", lists),
        ] {
            let wanted = match wanted.starts_with(';') {
                true => wanted.to_owned(),
                false => format!("; did you mean {wanted}?"),
            };
            assert_eq!(advice(name.as_bytes(), "here:1"), wanted, "{name}");
        }
    }

    /// The commands that are suggested exist, and no name of ours is a synonym of another.
    #[test]
    fn synonyms_are_of_our_commands() {
        let known = |name: &str| TABLE.iter().any(|spec| spec.name == name);
        for (meant, words) in SYNONYMS {
            assert!(known(meant.split(' ').next().unwrap()), "{meant}");
            for word in words {
                assert!(!known(&format!("DQ.{word}")), "{word}");
            }
        }
    }
}
