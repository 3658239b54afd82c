//! Judges a backing Redis: facts in, findings out.
//!
//! Knows no connection: `store::facts` asks, `broker::audited` acts on the findings. Keeps: a
//! finding names the fact, the harm and the cure in one line; it refuses only where messages would
//! surely be lost or damaged; checks that could not be made are a finding too.

use std::collections::HashMap;

pub mod rights;

use crate::domain::text::{one_line, version_of};
use crate::store::facts::Facts;
use rights::Rights;

/// The least version with every command that the scripts use: effects replication, ACLs as we need
/// them, the forms of ZRANGE.
pub const VERSION_MIN: (u32, u32) = (6, 2);
/// From this median round trip on, deliveries are later than "a millisecond or two".
const ROUND_TRIP_MAX_US: u64 = 5_000;
/// Used share of the memory limit from which the limit counts as near.
const MEMORY_NEAR_PERCENT: u64 = 90;

/// Every word that a finding can have, in the order of the checks: labels of the metric, and a
/// table of the runbook.
pub const WORDS: [&str; 12] = [
    "version",
    "mode",
    "role",
    "replicas",
    "coverage",
    "eviction",
    "persistence",
    "fsync",
    "memory",
    "latency",
    "acl",
    "unknown",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Messages would surely be lost or damaged.
    Refuse,
    Warn,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// One of [`WORDS`].
    pub word: &'static str,
    pub severity: Severity,
    /// One line.
    pub text: String,
}

/// All findings, in the order of [`WORDS`].
/// `user`: the ACL user of the connection, if the URL names one.
pub fn findings(facts: &Facts, user: Option<&str>) -> Vec<Finding> {
    let none = HashMap::new();
    let info = Info(facts.info.as_ref().unwrap_or(&none));
    let config = facts.config.as_ref().ok();
    let rights = Rights::of(facts, user);
    let found: [Found; WORDS.len()] = [
        version(&info),
        mode(&info, facts.slots_away.is_some()),
        role(&info),
        replicas(&info, facts.watched, facts.slots_away.is_some()),
        coverage(facts.slots_away, config),
        eviction(&info),
        persistence(&info, config),
        fsync(&info, config),
        memory(&info),
        latency(&facts.round_trips_us),
        rights::finding(&rights, user),
        unknown(facts, &info, &rights),
    ];
    let finding =
        |(word, found): (_, Found)| found.map(|(severity, text)| Finding { word, severity, text });
    WORDS.into_iter().zip(found).filter_map(finding).collect()
}

struct Info<'a>(&'a HashMap<String, String>);

impl Info<'_> {
    fn text(&self, field: &str) -> &str {
        self.0.get(field).map_or("", String::as_str)
    }

    fn number(&self, field: &str) -> u64 {
        self.text(field).parse().unwrap_or(0)
    }
}

/// What a check finds; its place says the word.
type Found = Option<(Severity, String)>;

fn refuse(text: impl Into<String>) -> Found {
    Some((Severity::Refuse, text.into()))
}

fn warn(text: impl Into<String>) -> Found {
    Some((Severity::Warn, text.into()))
}

fn version(info: &Info) -> Found {
    let text = info.text("redis_version");
    if version_of(text)? >= VERSION_MIN {
        return None;
    }
    refuse(format!(
        "this Redis is version {}, which lacks commands that the scripts \
         use: they would stop halfway; use Redis 6.2 or newer, or Valkey",
        one_line(text)
    ))
}

fn mode(info: &Info, of_cluster: bool) -> Found {
    let modes = [info.text("redis_mode"), info.text("server_mode")];
    let is_node = modes.contains(&"cluster") || info.text("cluster_enabled") == "1";
    if is_node && !of_cluster {
        return refuse(
            "this Redis is a node of a cluster, and the broker would reach only some of the \
             queues; use a URL that names the cluster: redis-cluster://host:port,host:port",
        );
    }
    if modes.contains(&"sentinel") {
        return refuse(
            "this is a Sentinel, which stores no messages; use a URL that asks it for the Redis \
             that it watches: redis-sentinel://host:port/name",
        );
    }
    None
}

fn role(info: &Info) -> Found {
    if info.text("role") != "slave" {
        return None;
    }
    if info.text("slave_read_only") == "0" {
        return refuse(
            "this Redis is a writable replica: its master overwrites what is stored here; \
             use the master's address, or REPLICAOF NO ONE",
        );
    }
    warn(
        "this Redis is a read-only replica: commands answer UNAVAILABLE and nothing is delivered \
         until it is promoted; if no failover is under way, use the master's address",
    )
}

/// A primary without a replica has no successor, and slots without one fail offers.
fn coverage(slots_away: Option<usize>, config: Option<&HashMap<String, String>>) -> Found {
    let slots_away = slots_away?;
    if slots_away > 0 {
        return warn(format!(
            "{slots_away} slots of the Cluster are served by nobody: the queues in them answer \
             UNAVAILABLE; look at CLUSTER SLOTS and `redis-cli --cluster check`"
        ));
    }
    (config?.get("cluster-require-full-coverage")? == "yes").then_some(())?;
    warn(
        "cluster-require-full-coverage is yes: while one primary is away, until its replica has \
         taken its place, all others refuse every call too (CLUSTERDOWN); set \
         cluster-require-full-coverage no at each node (CONFIG SET, and the file)",
    )
}

/// Behind Sentinels there are two masters for a while.
fn replicas(info: &Info, watched: bool, of_cluster: bool) -> Found {
    if of_cluster && info.text("role") == "master" && info.number("connected_slaves") == 0 {
        return warn(
            "this primary has no replica: where it is lost its queues are, and until it is back \
             they are not served; give it a replica",
        );
    }
    if !watched || info.text("role") != "master" {
        return None;
    }
    // INFO has it only where both settings are on.
    if info.text("min_slaves_good_slaves").is_empty() {
        return warn(
            "min-replicas-to-write is 0 behind Sentinels: a master that was stopped or cut off \
             goes on storing for ten seconds and more after its successor began, and all of that \
             is lost; set min-replicas-to-write 1 and min-replicas-max-lag 2 at the master and its \
             replicas (CONFIG SET, and the file)",
        );
    }
    (info.number("connected_slaves") == 0).then_some(())?;
    warn(
        "the master has no replica, so it stores nothing (min-replicas-to-write), and the \
         Sentinels have none to take its place: start one",
    )
}

fn eviction(info: &Info) -> Found {
    let policy = info.text("maxmemory_policy");
    let shown = one_line(policy);
    if policy.starts_with("volatile-") {
        return warn(format!(
            "maxmemory-policy is {shown}: at maxmemory Redis drops keys with an expiry, including \
             those with which the broker settles interrupted calls, so offers may be stored twice; \
             set maxmemory-policy noeviction"
        ));
    }
    if !policy.starts_with("allkeys-") {
        return None;
    }
    if info.number("maxmemory") > 0 {
        return refuse(format!(
            "maxmemory-policy is {shown}: at maxmemory Redis drops whole queues with all pending \
             messages; set maxmemory-policy noeviction, or use a Redis of its own"
        ));
    }
    warn(format!(
        "maxmemory-policy is {shown}: harmless without maxmemory, but once that is set \
         Redis drops whole queues; set maxmemory-policy noeviction"
    ))
}

fn persistence(info: &Info, config: Option<&HashMap<String, String>>) -> Found {
    match info.text("aof_enabled") {
        "1" if info.text("aof_last_write_status") == "err" => {
            return warn(
                "Redis cannot write its append-only file (aof_last_write_status:err): it refuses \
                 writes, or loses them at its next stop; look for a full disk in its log",
            );
        }
        "0" => {}
        _ => return None,
    }
    match config?.get("save")?.as_str() {
        "" => warn(
            "Redis writes nothing to disk: a stop or crash loses every message; set appendonly \
             yes (and appendfsync always, to lose nothing)",
        ),
        save => warn(format!(
            "Redis takes snapshots only (save {}): a crash loses what was acknowledged since \
                 the last one; set appendonly yes (and appendfsync always, to lose nothing)",
            one_line(save)
        )),
    }
}

fn fsync(info: &Info, config: Option<&HashMap<String, String>>) -> Found {
    if info.text("aof_enabled") != "1" {
        return None;
    }
    match config?.get("appendfsync")?.as_str() {
        "always" => None,
        "everysec" => warn(
            "appendfsync is everysec: a crash of the machine can lose what was acknowledged in \
             about the last second, more if the disk is slow; set appendfsync always to lose \
             nothing (offers share a flush, so it costs little), or take this as it is",
        ),
        other => warn(format!(
            "appendfsync is {}: a crash of the machine can lose what was acknowledged in the \
                 last half minute or so; set appendfsync always, or everysec",
            one_line(other)
        )),
    }
}

fn memory(info: &Info) -> Found {
    let (used, maxmemory) = (info.number("used_memory"), info.number("maxmemory"));
    let limit = if maxmemory > 0 { maxmemory } else { info.number("total_system_memory") };
    if limit == 0 || used < limit / 100 * MEMORY_NEAR_PERCENT {
        return None;
    }
    let (used, limit) = (used >> 20, limit >> 20);
    if maxmemory > 0 {
        return warn(format!(
            "Redis uses {used} MiB of its maxmemory of {limit} MiB: beyond it offers are \
             refused with UNAVAILABLE, while delivery continues; raise maxmemory, or let consumers \
             catch up"
        ));
    }
    warn(format!(
        "Redis uses {used} MiB of the machine's {limit} MiB and has no maxmemory: the system may \
         kill it; give it more memory, or set maxmemory so that offers are refused \
         before that"
    ))
}

fn latency(round_trips_us: &[u64]) -> Found {
    let mut sorted = round_trips_us.to_vec();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    if median < ROUND_TRIP_MAX_US {
        return None;
    }
    warn(format!(
        "the round trip of a PING takes {:.1} ms: every reply takes at least as long, and every \
         delivery is late by half of it; move the broker closer to Redis, or find out what keeps \
         Redis busy",
        median as f64 / 1e3
    ))
}

fn unknown(facts: &Facts, info: &Info, rights: &Rights) -> Found {
    let mut missing = Vec::new();
    if let Err(words) = &facts.info {
        missing.push(format!(
            "version, mode, role, eviction, persistence and memory (INFO: {})",
            one_line(words)
        ));
    }
    if let Err(words) = &facts.config {
        let what = if info.text("aof_enabled") == "1" {
            "appendfsync"
        } else {
            "whether snapshots are taken"
        };
        missing.push(format!("{what} (CONFIG GET: {})", one_line(words)));
    }
    if let Rights::Unknown(why) = rights {
        missing.push(format!("the rights of the user ({})", one_line(why)));
    }
    if missing.is_empty() {
        return None;
    }
    warn(format!(
        "could not be checked: {}; check it yourself, or allow what was refused",
        missing.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::facts::{Probed, fields};

    const GOOD: &str = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\n\
                        maxmemory:0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n\
                        used_memory:1000\r\ntotal_system_memory:100000\r\n";

    fn facts(change: &str, config: &[(&str, &str)]) -> Facts {
        let pairs = config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Facts {
            info: Ok(fields(&format!("{GOOD}{change}"))),
            config: Ok(pairs.collect()),
            round_trips_us: vec![90, 100, 9_000],
            watched: false,
            slots_away: None,
            subscription: String::new(),
            probes: Probed::Each(Vec::new()),
        }
    }

    /// Each row: lines of INFO that differ from a good one, appendfsync, save, and what is found:
    /// the word, `!` where it refuses, and a part of the text ("" = nothing).
    #[test]
    fn one_by_one() {
        #[rustfmt::skip]
        let rows = [
            ("", "always", "", "", ""),
            ("redis_version:6.2.0", "always", "", "", ""),
            ("redis_version:255.255.255", "always", "", "", ""),
            ("redis_version:6.0.16", "always", "", "version!", "6.2 or newer"),
            ("redis_version:5.0.3", "always", "", "version!", "is version 5.0.3"),
            ("redis_mode:cluster", "always", "", "mode!", "redis-cluster://host"),
            ("redis_mode:sentinel", "always", "", "mode!", "redis-sentinel://host"),
            ("role:slave\nslave_read_only:1", "always", "", "role", "until it is promoted"),
            ("role:slave\nslave_read_only:0", "always", "", "role!", "overwrites"),
            ("maxmemory_policy:allkeys-lru\nmaxmemory:5000", "always", "", "eviction!", "noevic"),
            ("maxmemory_policy:allkeys-lru", "always", "", "eviction", "without maxmemory"),
            ("maxmemory_policy:volatile-ttl", "always", "", "eviction", "settles"),
            ("maxmemory_policy:volatile-ttl\nmaxmemory:5000", "always", "", "eviction", "twice"),
            ("aof_enabled:0", "everysec", "", "persistence", "writes nothing"),
            ("aof_enabled:0", "everysec", "3600 1 300 100", "persistence", "save 3600 1 300 100"),
            ("aof_last_write_status:err", "always", "", "persistence", "full disk"),
            ("", "everysec", "", "fsync", "about the last second"),
            ("", "no", "", "fsync", "half minute"),
            ("maxmemory:1100", "always", "", "memory", "maxmemory"),
            ("maxmemory:1200", "always", "", "", ""),
            ("used_memory:95000", "always", "", "memory", "no maxmemory"),
        ];
        for (change, appendfsync, save, word, part) in rows {
            let facts = facts(change, &[("appendfsync", appendfsync), ("save", save)]);
            let found = findings(&facts, None);
            let seen: Vec<String> = found
                .iter()
                .map(|finding| {
                    let refuses = finding.severity == Severity::Refuse;
                    format!("{}{}", finding.word, if refuses { "!" } else { "" })
                })
                .collect();
            let expected: Vec<&str> =
                Some(word).filter(|word| !word.is_empty()).into_iter().collect();
            assert_eq!(seen, expected, "{change}, {appendfsync}, {save}");
            for finding in found {
                assert!(finding.text.contains(part), "{}", finding.text);
                assert!(!finding.text.contains('\n') && WORDS.contains(&finding.word));
            }
        }
    }

    #[test]
    fn what_was_refused_is_said_and_the_rest_found() {
        let mut hosted = facts("aof_enabled:0\nmaxmemory_policy:allkeys-lru", &[]);
        hosted.config = Err("ERR unknown command 'CONFIG'".to_owned());
        hosted.round_trips_us = vec![7_000, 8_000, 6_000];
        let found = findings(&hosted, None);
        let words: Vec<_> = found.iter().map(|finding| finding.word).collect();
        assert_eq!(words, ["eviction", "latency", "unknown"]);
        assert!(found[1].text.contains("7.0 ms"), "{}", found[1].text);
        let text = &found[2].text;
        assert!(text.contains("snapshots are taken (CONFIG GET: ERR unknown"), "{text}");
        hosted.info = Err("NOPERM\n".to_owned());
        hosted.probes = Probed::Unasked;
        let found = findings(&hosted, Some("app"));
        let words: Vec<_> = found.iter().map(|finding| finding.word).collect();
        assert_eq!(words, ["latency", "unknown"]);
        let text = &found[1].text;
        assert!(
            text.contains("(INFO: NOPERM\\n)") && text.contains("(Redis before 7.0 cannot"),
            "{text}"
        );
    }

    #[test]
    fn findings_stand_in_the_order_of_the_words() {
        let mut bad = facts(
            "redis_version:5.0\nredis_mode:cluster\nrole:slave\nmaxmemory_policy:allkeys-lru\n\
             aof_last_write_status:err\nused_memory:99000",
            &[("appendfsync", "no")],
        );
        bad.round_trips_us = vec![50_000];
        bad.watched = true;
        bad.probes = Probed::Refused("NOPERM no permissions to run the 'evalsha' command".into());
        let words: Vec<_> = findings(&bad, None).iter().map(|finding| finding.word).collect();
        let others = ["replicas", "coverage"];
        let all_but_the_last: Vec<_> = WORDS[..11].iter().filter(|w| !others.contains(w)).collect();
        assert_eq!(words.iter().collect::<Vec<_>>(), all_but_the_last);
    }

    #[test]
    fn a_master_behind_sentinels() {
        for (change, watched, part) in [
            ("connected_slaves:1", false, ""),
            ("connected_slaves:1", true, "min-replicas-to-write 1 and"),
            ("connected_slaves:1\nmin_slaves_good_slaves:1", true, ""),
            ("connected_slaves:0\nmin_slaves_good_slaves:0", true, "has no replica"),
        ] {
            let facts = Facts { watched, ..facts(change, &[("appendfsync", "always")]) };
            let found = findings(&facts, None);
            let text = found.iter().map(|f| format!("{}: {}", f.word, f.text)).collect::<String>();
            assert_eq!(text.is_empty(), part.is_empty(), "{change}: {text}");
            assert!(text.contains(part), "{change}: {text}");
        }
    }

    /// Of a node of a Cluster.
    #[test]
    fn nodes_of_a_cluster() {
        let (full, part) = ("cluster-require-full-coverage", "connected_slaves:1\r\n");
        for (change, slots_away, coverage, wanted) in [
            ("", None, "no", &["mode"][..]),
            (part, Some(0), "no", &[]),
            (part, Some(0), "yes", &["coverage"]),
            (part, Some(3), "no", &["coverage"]),
            ("", Some(0), "no", &["replicas"]),
        ] {
            let change = format!("redis_mode:cluster\r\n{change}");
            let config = [("appendfsync", "always"), (full, coverage)];
            let facts = Facts { slots_away, ..facts(&change, &config) };
            let found = findings(&facts, None);
            let words: Vec<&str> = found.iter().map(|finding| finding.word).collect();
            assert_eq!(words, wanted, "{change} {slots_away:?} {coverage}");
        }
    }
}
