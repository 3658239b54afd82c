//! The rights that the broker's user needs in Redis: one table, the ACL line that grants them, and
//! the harm if some are missing.
//!
//! Each right has a probe: a call that `lua/probe.lua` makes where Redis lets no write through. If
//! the user lacks the right, Redis answers with that; else with a refusal of the write.

use crate::domain::text::one_line;
use crate::store::facts::{Facts, Probed};
use crate::store::redis;

use super::{Found, Severity};

/// Keys and channels that the probes name.
const OURS: &str = "delay_broker_queue:{delay_broker_audit}";
const REDISSONS: &str = "redisson_delay_queue_timeout:{delay_broker_audit}";

const PUBLISHED: &str = "&redisson_delay_queue_channel:*";
const HEARTBEATS: &str = "&delay_broker_heartbeat:*";
const WAKES: &str = "&delay_broker_wake:*";

/// A call that a script tries, and the right that a refused user lacks: for the command, or for the
/// key or channel. `K` stands for a key of ours, `R` for one of Redisson's.
pub struct Probe {
    pub call: &'static str,
    pub command: &'static str,
    pub place: &'static str,
}

macro_rules! probes {
    ($($call:literal $command:literal $place:expr;)*) => {
        &[$(Probe { call: $call, command: $command, place: $place }),*]
    };
}

const KEYS: &str = "~delay_broker_*";

/// Commands that scripts and links call, except those that cannot be called from a script.
pub const PROBES: &[Probe] = probes! {
    "DEL K" "+del" KEYS;
    "EXISTS K" "+exists" KEYS;
    "GET K" "+get" KEYS;
    "GETRANGE K 0 1" "+getrange" KEYS;
    "HDEL K f" "+hdel" KEYS;
    "HGET K f" "+hget" KEYS;
    "HLEN K" "+hlen" KEYS;
    "HMGET K f" "+hmget" KEYS;
    "HRANDFIELD K" "+hrandfield" KEYS;
    "HSET K f v" "+hset" KEYS;
    "HSTRLEN K f" "+hstrlen" KEYS;
    "INFO server" "+info" "";
    "LINDEX K 0" "+lindex" KEYS;
    "LLEN K" "+llen" KEYS;
    "LPOS K e" "+lpos" KEYS;
    "LRANGE K 0 1" "+lrange" KEYS;
    "LREM K 1 e" "+lrem" KEYS;
    "LSET K 0 e" "+lset" KEYS;
    "LTRIM K 0 1" "+ltrim" KEYS;
    "MEMORY USAGE K SAMPLES 1" "+memory|usage" KEYS;
    "PEXPIRE K 1" "+pexpire" KEYS;
    "PING" "+ping" "";
    "PTTL K" "+pttl" KEYS;
    "PUBLISH redisson_delay_queue_channel:{delay_broker_audit} 0" "+publish" PUBLISHED;
    "PUBLISH delay_broker_heartbeat:audit 0" "+publish" HEARTBEATS;
    "PUBLISH delay_broker_wake:{delay_broker_audit} 0" "+publish" WAKES;
    "RPOP K" "+rpop" KEYS;
    "RPUSH K e" "+rpush" KEYS;
    "SADD K m" "+sadd" KEYS;
    "SCAN 0 COUNT 1" "+scan" "";
    "SCARD K" "+scard" KEYS;
    "SELECT 0" "+select" "";
    "SET K v" "+set" KEYS;
    "SREM K m" "+srem" KEYS;
    "SSCAN K 0" "+sscan" KEYS;
    "TIME" "+time" "";
    "TYPE K" "+type" KEYS;
    "UNLINK K" "+unlink" KEYS;
    "XACK K g 0-1" "+xack" KEYS;
    "XADD K * f v" "+xadd" KEYS;
    "XDEL K 0-1" "+xdel" KEYS;
    "XGROUP CREATE K g 0" "+xgroup|create" KEYS;
    "XGROUP DELCONSUMER K g c" "+xgroup|delconsumer" KEYS;
    "XINFO CONSUMERS K g" "+xinfo|consumers" KEYS;
    "XINFO GROUPS K" "+xinfo|groups" KEYS;
    "XLEN K" "+xlen" KEYS;
    "XPENDING K g" "+xpending" KEYS;
    "XRANGE K - +" "+xrange" KEYS;
    "XTRIM K MAXLEN 0" "+xtrim" KEYS;
    "ZADD K 0 m" "+zadd" KEYS;
    "ZADD R 0 m" "+zadd" "~redisson_delay_queue*";
    "ZCARD K" "+zcard" KEYS;
    "ZCOUNT K 0 1" "+zcount" KEYS;
    "ZRANGE K 0 1" "+zrange" KEYS;
    "ZRANGEBYSCORE K 0 1" "+zrangebyscore" KEYS;
    "ZRANK K m" "+zrank" KEYS;
    "ZREM K m" "+zrem" KEYS;
    "ZREMRANGEBYRANK K 0 1" "+zremrangebyrank" KEYS;
    "ZSCORE K m" "+zscore" KEYS;
};

/// Rights for commands that no script can call, so that no script stops for lack of them. Running
/// any script shows the first two.
pub const BESIDE: [&str; 6] =
    ["+evalsha", "+script|load", "+script|exists", "+subscribe", "+psubscribe", "+client|id"];

/// Redis lets a user subscribe to a pattern only if a rule of that user is the very same pattern.
const SUBSCRIBED: &str = "&redisson_delay_queue_channel:* (with exactly this pattern)";

/// More rights whose lack makes something late or refused but damages nothing: no script calls
/// these commands, or the script goes on without them.
const HARMLESS: [&str; 13] = [
    GONE_WITHOUT[0],
    "+info",
    GONE_WITHOUT[1],
    "+ping",
    "+sadd",
    "+scan",
    "+scard",
    "+select",
    "+sscan",
    GONE_WITHOUT[2],
    HEARTBEATS,
    WAKES,
    SUBSCRIBED,
];
/// Scripts that may not ask for the size of a payload or a head, or for the rank of a member, read
/// it, or search its score.
const GONE_WITHOUT: [&str; 3] = ["+hstrlen", "+memory|usage", "+zrank"];

/// Rights for queues whose destination is a stream alone: their scripts stop before their first
/// write for lack of them, or undo it. Others do not call these commands.
const OF_STREAMS: [&str; 11] = [
    "+xack",
    "+xadd",
    "+xdel",
    "+xgroup|create",
    "+xgroup|delconsumer",
    "+xinfo|consumers",
    "+xinfo|groups",
    "+xlen",
    "+xpending",
    "+xrange",
    "+xtrim",
];

/// The rights of a user, as far as they are known.
#[derive(Debug, PartialEq, Eq)]
pub enum Rights {
    /// In the words of the ACL line; empty if none is missing.
    Missing(Vec<&'static str>),
    /// Why nothing is known.
    Unknown(String),
}

impl Rights {
    /// Reads the rights from Redis's answers. `user`: the ACL user, if the URL names one.
    pub fn of(facts: &Facts, user: Option<&str>) -> Self {
        let mut missing: Vec<&'static str> =
            lacked_by_subscription(&facts.subscription).into_iter().collect();
        // The user `default` has all rights, with rare exceptions.
        let unknown = |why: &str| match user {
            Some(_) => Self::Unknown(why.to_owned()),
            None => Self::Missing(Vec::new()),
        };
        match &facts.probes {
            Probed::Unasked if missing.is_empty() => {
                return unknown("Redis before 7.0 cannot be asked without writing");
            }
            Probed::Unasked => {}
            Probed::Refused(words) => match lacked_by_call(words) {
                Some(right) => missing.push(right),
                None => return unknown(words),
            },
            Probed::Each(words) => {
                let lacked = PROBES.iter().zip(words);
                missing.extend(lacked.filter_map(|(probe, words)| probe.lacks(words)));
            }
        }
        missing.sort_unstable();
        missing.dedup();
        Self::Missing(missing)
    }
}

impl Probe {
    /// The call with its keys.
    pub fn words(&self) -> String {
        let word = |word| match word {
            "K" => OURS,
            "R" => REDISSONS,
            word => word,
        };
        let words: Vec<&str> = self.call.split(' ').map(word).collect();
        words.join(" ")
    }

    /// The right that is missing, if this error says so.
    pub fn lacks(&self, error: &str) -> Option<&'static str> {
        // Redis 7.0 and 6.2; newer ones; a command that was renamed or disabled.
        let commands = ["can't run this command", "permissions to run", "nknown Redis command"];
        let places = ["keys mentioned", "channel mentioned", "permissions to access"];
        let says = |parts: &[&str]| parts.iter().any(|part| error.contains(part));
        if says(&commands) {
            Some(self.command)
        } else if says(&places) {
            Some(self.place)
        } else {
            None
        }
    }
}

/// The right that is missing if not even the script that asks could run.
pub fn lacked_by_call(error: &str) -> Option<&'static str> {
    let right = |(part, right)| error.contains(part).then_some(right);
    if !error.starts_with("NOPERM") {
        return None;
    }
    [("'script", "+script|load"), ("'evalsha'", "+evalsha")].into_iter().find_map(right)
}

/// The right that is missing to subscribe, from the command and Redis's words.
pub fn lacked_by_subscription(error: &str) -> Option<&'static str> {
    let (command, words) = error.split_once(' ')?;
    let channel = words.contains("channel");
    match command {
        "PSUBSCRIBE" if channel => Some(SUBSCRIBED),
        "PSUBSCRIBE" => Some("+psubscribe"),
        "SUBSCRIBE" if channel => Some(HEARTBEATS),
        "SUBSCRIBE" => Some("+subscribe"),
        redis::WAKES => Some(WAKES),
        _ => None,
    }
}

/// The command that gives a user all rights that the broker needs; it leaves the password alone.
pub fn acl_line(user: &str) -> String {
    let mut commands: Vec<&str> = PROBES.iter().map(|probe| probe.command).collect();
    commands.extend(BESIDE);
    commands.sort_unstable();
    commands.dedup();
    format!(
        "ACL SETUSER {user} on ~* resetchannels {PUBLISHED} {HEARTBEATS} {WAKES} -@all {}",
        commands.join(" ")
    )
}

pub(super) fn finding(rights: &Rights, user: Option<&str>) -> Found {
    let Rights::Missing(missing) = rights else {
        return None;
    };
    if missing.is_empty() {
        return None;
    }
    let of_streams = |right: &&&str| OF_STREAMS.contains(right);
    let harmless = |right| BESIDE.contains(right) || HARMLESS.contains(right) || of_streams(&right);
    let damage = missing.iter().any(|right| !harmless(right));
    let (severity, harm) = if missing.iter().all(|right| of_streams(&right)) {
        (Severity::Warn, "queues whose destination is a stream are not served; all others are")
    } else if damage {
        (Severity::Refuse, "scripts would stop halfway, with half of their work done")
    } else {
        (
            Severity::Warn,
            "commands are refused, scripts take longer, or deliveries are late by up to a second",
        )
    };
    let (named, line) = match user {
        Some(user) => (format!("the user '{}'", one_line(user)), acl_line(&one_line(user))),
        None => ("the user 'default'".to_owned(), format!("{} >password", acl_line("broker"))),
    };
    let text =
        format!("{named} lacks {}: {harm}; what the broker needs: {line}", missing.join(" "));
    Some((severity, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;
    use std::collections::{BTreeSet, HashMap};
    use std::path::Path;

    fn calls(dir: &str, ending: &str, pattern: &str) -> BTreeSet<String> {
        let pattern = Regex::new(pattern).unwrap();
        let mut found = BTreeSet::new();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|its| its == ending) {
                let text = std::fs::read_to_string(&path).unwrap();
                let names = pattern.captures_iter(&text);
                found.extend(names.map(|call| call[1].to_lowercase()));
            }
        }
        found
    }

    /// The table has what `lua/` and `src/store` call, and nothing else.
    #[test]
    fn the_table_is_what_is_called() {
        let in_scripts = calls("lua", "lua", r"redis\.p?call\('([A-Z]+)'");
        let mut direct = calls("src/store", "rs", r#"\.command\(\s*"([A-Z]+)""#);
        direct.extend(calls("src/store/link", "rs", r#"b"(EVALSHA|SCRIPT|TIME|PING)""#));
        // What the links send for themselves; AUTH and HELLO need no right.
        let of_links = ["PING", "SELECT", "INFO", "CLIENT", "SUBSCRIBE", "PSUBSCRIBE"];
        let mut called: BTreeSet<String> = in_scripts.union(&direct).cloned().collect();
        called.extend(of_links.map(str::to_lowercase));
        // Told of by the audit where it is refused, or only asked more with it: not needed.
        for needless in ["config", "pubsub"] {
            assert!(called.remove(needless));
        }
        let granted = PROBES.iter().map(|probe| probe.command).chain(BESIDE);
        let granted: BTreeSet<String> = granted
            .filter_map(|right| right.strip_prefix('+')?.split('|').next())
            .map(str::to_owned)
            .collect();
        assert_eq!(granted, called);
        let lacking_harms = |right: &&str| {
            let name = right.strip_prefix('+').unwrap_or_default();
            !GONE_WITHOUT.contains(right) && in_scripts.contains(name.split('|').next().unwrap())
        };
        let mut harmless = HARMLESS.iter().chain(&BESIDE);
        assert_eq!(harmless.find(|right| lacking_harms(right)), None);
        let of_streams = |right: &&&str| right.starts_with("+x");
        let known: BTreeSet<&str> = PROBES.iter().map(|probe| probe.command).collect();
        let known: BTreeSet<&str> = known.iter().filter(|one| of_streams(one)).copied().collect();
        assert_eq!(known, OF_STREAMS.into_iter().collect());
    }

    #[test]
    fn a_probe_asks_for_its_command() {
        for probe in PROBES {
            // The subcommand too, where only that is granted.
            let words = probe.words().to_lowercase().replacen(' ', "|", 1);
            let mut granted = probe.command.trim_start_matches('+').split('|');
            assert!(granted.all(|word| words.split(['|', ' ']).any(|asked| asked == word)));
        }
    }

    #[test]
    fn lacks() {
        let probe = &PROBES[0];
        for (error, right) in [
            ("ERR The user executing the script can't run this command or subcommand", "+del"),
            (
                "NOPERM ACL failure in script: User u has no permissions to run the 'del' command",
                "+del",
            ),
            ("ERR Unknown Redis command called from script", "+del"),
            (
                "ERR The user executing the script can't access at least one of the keys mentioned \
                 in the command arguments",
                KEYS,
            ),
            ("NOPERM ACL failure in script: No permissions to access a key", KEYS),
            ("ERR Write commands are not allowed from read-only scripts.", ""),
            ("", ""),
        ] {
            assert_eq!(probe.lacks(error).unwrap_or_default(), right, "{error}");
        }
    }

    #[test]
    fn lacked_beside_the_probes() {
        for (error, right) in [
            (
                "NOPERM this user has no permissions to run the 'script|load' command",
                "+script|load",
            ),
            ("NOPERM this user has no permissions to run the 'evalsha' command", "+evalsha"),
            ("ERR Error compiling script", ""),
        ] {
            assert_eq!(lacked_by_call(error).unwrap_or_default(), right);
        }
        for (error, right) in [
            ("PSUBSCRIBE NOPERM ... to run the 'psubscribe' command", "+psubscribe"),
            ("PSUBSCRIBE NOPERM ... to access one of the channels used", SUBSCRIBED),
            ("SUBSCRIBE NOPERM ... to run the 'subscribe' command", "+subscribe"),
            ("SUBSCRIBE NOPERM ... to access one of the channels used", HEARTBEATS),
            ("WAKES NOPERM ... to access one of the channels used", WAKES),
            ("", ""),
        ] {
            assert_eq!(lacked_by_subscription(error).unwrap_or_default(), right);
        }
    }

    /// Each row: the user, the refused subscription, what became of the probes, and what is missing
    /// ("?" and why, where that is not known).
    #[test]
    fn rights_from_answers() {
        let each =
            |words: &str| Probed::Each(PROBES.iter().map(|_| words.to_owned()).take(1).collect());
        let refused = |words: &str| Probed::Refused(words.to_owned());
        let psubscribe = "PSUBSCRIBE NOPERM ... to run the 'psubscribe' command";
        for (user, subscription, probes, expected) in [
            (None, "", each(""), ""),
            (Some("app"), "", each("ERR can't run this command"), "+del"),
            (Some("app"), psubscribe, each("ERR can't run this command"), "+del +psubscribe"),
            (None, "", refused("ERR what"), ""),
            (Some("app"), "", refused("ERR what"), "? ERR what"),
            (None, "", refused("NOPERM ... the 'evalsha' command"), "+evalsha"),
            (
                Some("app"),
                "",
                Probed::Unasked,
                "? Redis before 7.0 cannot be asked without writing",
            ),
            (Some("app"), psubscribe, Probed::Unasked, "+psubscribe"),
        ] {
            let (info, config) = (Ok(HashMap::new()), Ok(HashMap::new()));
            let (round_trips_us, subscription) = (Vec::new(), subscription.to_owned());
            let facts = Facts {
                info,
                config,
                round_trips_us,
                watched: false,
                slots_away: None,
                subscription,
                probes,
            };
            let seen = match Rights::of(&facts, user) {
                Rights::Missing(missing) => missing.join(" "),
                Rights::Unknown(why) => format!("? {why}"),
            };
            assert_eq!(seen, expected, "{facts:?}");
        }
    }

    #[test]
    fn texts() {
        let text =
            |missing: &[&'static str], user| finding(&Rights::Missing(missing.to_vec()), user);
        assert_eq!(text(&[], None), None);
        let (severity, line) = text(&["+psubscribe", HEARTBEATS], Some("app")).unwrap();
        assert_eq!(severity, Severity::Warn);
        assert!(line.starts_with("the user 'app' lacks +psubscribe &delay_broker_heart"), "{line}");
        assert!(line.ends_with(&acl_line("app")), "{line}");
        let (severity, line) = text(&["+xadd", "+xtrim"], Some("app")).unwrap();
        assert_eq!(severity, Severity::Warn);
        assert!(line.contains("lacks +xadd +xtrim: queues whose destination is a"), "{line}");
        let (severity, line) = text(&["+xadd", "+zadd"], None).unwrap();
        assert_eq!(severity, Severity::Refuse, "{line}");
        let (severity, line) = text(&["+zadd"], None).unwrap();
        assert_eq!(severity, Severity::Refuse);
        assert!(line.contains("ACL SETUSER broker on") && line.ends_with(" >password"), "{line}");
    }
}
