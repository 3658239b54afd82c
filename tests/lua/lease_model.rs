//! Consumers at random, call by call against a model of a few lines: takes, all that settles, stale
//! receipts, leases that run out, replies that are lost. Of three seeds two are of queues that have
//! takers alone, whose messages have ids, priorities, limits, and some have expired.
//!
//! A seed that fails is printed with its last steps. `SEEDS=1000 cargo test --test lua lease_model`
//! runs so many instead of 30.

use crate::bench::{Bench, FOREVER_MS};
use crate::support::keyspace::{Bytes, Keyspace, Stored};
use crate::support::random::Random;
use crate::support::resp::Value;
use delay_broker::domain::envelope::Envelope;
use std::collections::{BTreeMap, BTreeSet};

const STEPS: u64 = 100;
/// Deliveries that count, so few that many messages die.
const LIMIT: i64 = 3;
/// A lease or a wait that ends only where a step writes a past moment in its place.
const LONG_MS: i64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Leased,
    Retry,
    Dead,
}

use Place::{Dead, Leased, Retry};

impl Place {
    fn role(self) -> &'static str {
        match self {
            Leased => "leased",
            Retry => "retry",
            Dead => "dead",
        }
    }
}

/// A message that nobody has had.
#[derive(Clone, Default)]
struct Fresh {
    stored: Vec<u8>,
    /// Of the envelope.
    id: Option<u64>,
    limit: Option<i64>,
    /// What is kept of it, if it has expired and dies of that.
    expired: Option<Vec<u8>>,
}

struct Message {
    place: Place,
    /// Of the lease's end, of the retry, of death: ms.
    moment: i64,
    deliveries: i64,
    base: i64,
    reason: String,
    /// Whether anything of it is in `tries`.
    noted: bool,
    payload: Vec<u8>,
    limit: Option<i64>,
    expired: Option<Vec<u8>>,
}

impl Message {
    /// Whether the attempts so far are all.
    fn is_last(&self, attempt: i64) -> bool {
        let most = self.limit.unwrap_or(LIMIT);
        most > 0 && attempt >= most
    }
}

#[derive(Default)]
struct Model {
    /// Whether takers alone have the queue, and whether what has expired is dead then.
    takers: Option<bool>,
    list: Vec<Fresh>,
    /// By score and order.
    first: BTreeMap<(i64, Vec<u8>), Fresh>,
    /// Those that were taken, each in one place.
    held: BTreeMap<u64, Message>,
    /// All that were ever given; most of them are stale.
    receipts: Vec<(u64, i64)>,
    claimed: bool,
    pushed: usize,
    acked: usize,
    dropped: usize,
    expired: usize,
}

/// A message as a take gives it: id, delivery, attempt, payload.
type Taken = (u64, i64, i64, Vec<u8>);

impl Model {
    /// Ids in a place whose moment has come, the earliest first.
    fn due(&self, place: Place, now_ms: i64) -> Vec<u64> {
        let here = self.held.iter().filter(|(_, m)| m.place == place && m.moment <= now_ms);
        let mut all: Vec<(i64, u64)> = here.map(|(id, m)| (m.moment, *id)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// How many leases ran out, and how many died of it.
    fn lapse(&mut self, now_ms: i64) -> (i64, i64) {
        let (ended, mut died) = (self.due(Leased, now_ms), 0);
        for id in &ended {
            let message = self.held.get_mut(id).unwrap();
            message.place = Retry;
            if message.is_last(message.deliveries - message.base) {
                (message.place, message.moment, message.noted) = (Dead, now_ms, true);
                if message.reason.is_empty() {
                    message.reason = "lease expired".to_owned();
                }
                died += 1;
            }
        }
        (ended.len() as i64, died)
    }

    /// What the reply holds behind the time: next, `until_ms`, lapsed, died, the messages, and how
    /// many have expired.
    fn take(
        &mut self,
        now_us: i64,
        count: usize,
        bytes_max: usize,
        lease_ms: i64,
        ids: &[u64],
    ) -> (String, i64, i64, i64, Vec<Taken>, i64) {
        let now_ms = now_us / 1000;
        let until_ms = now_ms + 1 + lease_ms;
        let (ended, mut died) = self.lapse(now_ms);
        let before: BTreeSet<u64> = self.held.keys().copied().collect();
        let (again, ready) = (self.due(Retry, now_ms), self.list.len() + self.first.len());
        let again_max = match count {
            1 if ready > 0 => (now_us % 2) as usize,
            _ => count - ready.min(count / 2),
        };
        let dies = self.takers == Some(true);
        let (mut taken, mut bytes, mut full) = (Vec::<Taken>::new(), 0, false);
        let (mut expired, mut expired_bytes, mut tried_again) = (0, 0, 0);
        for id in again.iter().take(again_max) {
            let message = self.held.get_mut(id).unwrap();
            let size = message.payload.len();
            if full || (!taken.is_empty() && bytes + size > bytes_max) {
                full = true;
                break;
            }
            tried_again += 1;
            if let Some(corpse) = message.expired.take() {
                (expired, expired_bytes) = (expired + 1, expired_bytes + size);
                full = expired_bytes >= bytes_max;
                (message.place, message.moment, message.noted) = (Dead, now_ms, true);
                (message.payload, message.reason) = (corpse, "expired".to_owned());
                if dies {
                    died += 1;
                } else {
                    self.held.remove(id);
                    self.expired += 1;
                }
                continue;
            }
            (message.place, message.moment, message.noted) = (Leased, until_ms, true);
            message.deliveries += 1;
            bytes += size;
            let attempt = message.deliveries - message.base;
            taken.push((*id, message.deliveries, attempt, message.payload.clone()));
        }
        let (mut new_ids, mut used) = (ids.iter(), BTreeSet::new());
        while !full && taken.len() < count {
            let prior = self.first.first_key_value().map(|(key, fresh)| (key.clone(), fresh));
            let Some(fresh) = prior.as_ref().map(|one| one.1).or(self.list.first()) else { break };
            let (fresh, place) = (fresh.clone(), prior.as_ref().map(|one| one.0.clone()));
            let free = |id: &u64| !used.contains(id) && !before.contains(id);
            let mut id = fresh.id.filter(free);
            used.extend(id);
            let size = fresh.stored.len();
            if fresh.expired.is_some() {
                (expired, expired_bytes) = (expired + 1, expired_bytes + size);
                full = expired_bytes >= bytes_max;
            } else if !taken.is_empty() && bytes + size > bytes_max {
                full = true;
                break;
            }
            let is_dropped = fresh.expired.is_some() && !dies;
            if !is_dropped && id.is_none() {
                id = new_ids.next().copied();
            }
            if !is_dropped && id.is_none() {
                full = true;
                break;
            }
            match place {
                Some(key) => drop(self.first.remove(&key)),
                None => drop(self.list.remove(0)),
            }
            let Some(id) = id.filter(|_| !is_dropped) else {
                self.expired += 1;
                continue;
            };
            let mut message = Message {
                place: Leased,
                moment: until_ms,
                deliveries: 1,
                base: 0,
                reason: String::new(),
                noted: fresh.limit.is_some(),
                payload: fresh.stored,
                limit: fresh.limit,
                expired: None,
            };
            if let Some(corpse) = fresh.expired {
                (message.place, message.moment, message.base) = (Dead, now_ms, 1);
                (message.reason, message.noted) = ("expired".to_owned(), true);
                message.payload = corpse;
                died += 1;
            } else {
                bytes += size;
                taken.push((id, 1, 1, message.payload.clone()));
            }
            self.held.insert(id, message);
        }
        self.claimed |= !taken.is_empty();
        self.receipts.extend(taken.iter().map(|(id, delivery, ..)| (*id, *delivery)));
        let waits = self.held.values().filter(|m| m.place != Dead).map(|m| m.moment).min();
        // Only so many of those to be tried again are looked at.
        let looked_at = again.len().min(count);
        let is_ready = !self.list.is_empty() || !self.first.is_empty();
        let next = match full || is_ready || looked_at > tried_again {
            true => now_ms.to_string(),
            false => waits.map_or(String::new(), |moment| moment.to_string()),
        };
        (next, until_ms, ended, died, taken, expired)
    }

    /// Where the message of a receipt is, if nobody got it since.
    fn of(&mut self, (id, delivery): (u64, i64)) -> Option<&mut Message> {
        self.held.get_mut(&id).filter(|message| message.deliveries == delivery)
    }

    fn ack(&mut self, receipts: &[(u64, i64)]) -> i64 {
        let before = self.held.len();
        for receipt in receipts {
            if self.of(*receipt).is_some() {
                self.held.remove(&receipt.0);
            }
        }
        self.acked += before - self.held.len();
        (before - self.held.len()) as i64
    }

    /// Backoffs begin with `min_ms` and have no jitter here.
    fn nack(&mut self, now_us: i64, nack: &Nack, receipts: &[(u64, i64)]) -> (i64, i64, String) {
        let now_ms = (now_us + 999) / 1000;
        let (mut seen, mut died, mut least) = (BTreeSet::new(), 0, None);
        for receipt in receipts {
            let tied = nack.mode == "TIED";
            let fits = |m: &&mut Message| m.place == Leased || (m.place == Retry && !tied);
            let Some(message) = self.of(*receipt).filter(fits) else { continue };
            if !seen.insert(receipt.0) {
                continue;
            }
            let attempt = message.deliveries - message.base;
            if nack.mode == "SILENT" && message.place == Leased {
                message.base = message.deliveries.min(message.base + 1);
            }
            if !nack.reason.is_empty() && (!tied || message.reason.is_empty()) {
                message.reason.clone_from(&nack.reason);
            }
            message.noted = true;
            if nack.mode == "FATAL" || (nack.mode != "SILENT" && message.is_last(attempt)) {
                (message.place, message.moment) = (Dead, now_ms);
                died += 1;
                continue;
            }
            let doubled = nack.min_ms << (attempt - 1).max(0);
            let of_mode = if nack.mode == "SILENT" { 0 } else { doubled };
            let wait = if tied { 0 } else { nack.delay.unwrap_or(of_mode) };
            let wait = if message.deliveries > 2 { wait.max(100) } else { wait };
            (message.place, message.moment) = (Retry, now_ms + wait);
            least = Some(least.map_or(now_ms + wait, |least: i64| least.min(now_ms + wait)));
        }
        (seen.len() as i64, died, least.map_or(String::new(), |ms| ms.to_string()))
    }

    fn extend(&mut self, now_us: i64, lease_ms: i64, receipts: &[(u64, i64)]) -> (i64, i64) {
        let until_ms = (now_us + 999) / 1000 + lease_ms;
        let mut extended = BTreeSet::new();
        for receipt in receipts {
            if let Some(message) = self.of(*receipt).filter(|m| m.place == Leased) {
                message.moment = until_ms;
                extended.insert(receipt.0);
            }
        }
        (extended.len() as i64, until_ms)
    }

    /// `delay`: none drops them.
    fn dead(&mut self, now_us: i64, delay: Option<i64>, ids: &[u64]) -> (i64, String) {
        let dead = |id: &&u64| self.held.get(*id).is_some_and(|m| m.place == Dead);
        let ids: BTreeSet<u64> = ids.iter().filter(dead).copied().collect();
        let from = delay.map(|delay| (now_us + 999) / 1000 + delay);
        for id in &ids {
            if let Some(from) = from {
                let message = self.held.get_mut(id).unwrap();
                (message.place, message.moment, message.noted) = (Retry, from, true);
                message.base = message.deliveries;
            } else {
                self.held.remove(id);
                self.dropped += 1;
            }
        }
        let from = from.filter(|_| !ids.is_empty());
        (ids.len() as i64, from.map_or(String::new(), |ms| ms.to_string()))
    }

    /// Of each whether it waits. `delay`: none forgets them.
    fn retry(&mut self, now_us: i64, delay: Option<i64>, ids: &[u64]) -> Vec<Value> {
        let from = delay.map(|delay| (now_us + 999) / 1000 + delay);
        let mut reply = Vec::new();
        for id in ids {
            let waits = self.held.get_mut(id).filter(|m| m.place == Retry);
            reply.push(Value::Int(waits.is_some().into()));
            match (waits, from) {
                (Some(message), Some(_)) if delay == Some(0) => {
                    message.moment = message.moment.min(now_us / 1000);
                }
                (Some(message), Some(from)) => message.moment = from,
                (Some(_), None) => {
                    self.held.remove(id);
                    self.dropped += 1;
                }
                (None, _) => {}
            }
        }
        reply
    }

    /// Back to the list; how many, how many wait still, lapsed, died.
    fn release(&mut self, now_us: i64, count: usize, bytes_max: usize) -> [i64; 4] {
        let (lapsed, died) = self.lapse(now_us / 1000);
        let (mut released, mut bytes) = (0, 0);
        let waiting = self.due(Retry, i64::MAX);
        for id in waiting.iter().take(count) {
            bytes += self.held[id].payload.len();
            if bytes > bytes_max && released > 0 {
                break;
            }
            let Message { payload: stored, expired, .. } = self.held.remove(id).unwrap();
            // What it says of itself goes with it.
            let said = Envelope::open(&stored.clone().into()).0.unwrap_or_default();
            let limit = said.limit.map(|limit| limit as i64);
            let fresh = Fresh { stored, id: said.id.map(u64::from_be_bytes), limit, expired };
            self.list.push(fresh);
            released += 1;
        }
        [released, waiting.len() as i64 - released, lapsed, died]
    }

    /// The keyspace that the scripts should have made.
    fn keyspace(&self, bench: &Bench) -> Keyspace {
        let key = |role: &str| Bytes(bench.names.key(role).into_bytes());
        let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
        let id_of = |id: &u64| Bytes(id.to_be_bytes().to_vec());
        let mut keyspace = Keyspace::new();
        if !self.list.is_empty() {
            let list = self.list.iter().map(|fresh| Bytes(fresh.stored.clone())).collect();
            keyspace.insert(key("destination"), Stored::List(list));
        }
        if !self.first.is_empty() {
            let member = |order: &[u8], fresh: &Fresh| Bytes([order, &fresh.stored].concat());
            let all = self
                .first
                .iter()
                .map(|((score, order), fresh)| (member(&order[..8], fresh), score.to_string()));
            keyspace.insert(key("first"), Stored::Zset(all.collect()));
        }
        for place in [Leased, Retry, Dead] {
            let here = self.held.iter().filter(|(_, message)| message.place == place);
            let mut all: Vec<(i64, Bytes)> = here.map(|(id, m)| (m.moment, id_of(id))).collect();
            all.sort_unstable();
            if !all.is_empty() {
                let all = all.into_iter().map(|(moment, id)| (id, moment.to_string())).collect();
                keyspace.insert(key(place.role()), Stored::Zset(all));
            }
        }
        let taken: BTreeMap<_, _> =
            self.held.iter().map(|(id, m)| (id_of(id), Bytes(m.payload.clone()))).collect();
        let noted = self.held.iter().filter(|(_, message)| message.noted);
        let limit = |m: &Message| m.limit.map_or(String::new(), |limit| format!("/{limit}"));
        let text =
            |m: &Message| bytes(&format!("{} {}{} {}", m.deliveries, m.base, limit(m), m.reason));
        let tries: BTreeMap<_, _> = noted.map(|(id, m)| (id_of(id), text(m))).collect();
        for (role, hash) in [("taken", taken), ("tries", tries)] {
            if !hash.is_empty() {
                keyspace.insert(key(role), Stored::Hash(hash));
            }
        }
        // The record goes with the last message that is settled.
        let name = (bytes("name"), bytes(&bench.names.queue));
        if let Some(dies) = self.takers {
            let settings = (bytes("settings"), bytes(settings(dies)));
            keyspace.insert(key("record"), Stored::Hash([name, settings].into()));
        } else if self.claimed && !self.held.is_empty() {
            keyspace.insert(key("record"), Stored::Hash([name].into()));
        }
        keyspace
    }
}

/// Of a queue that takers alone have.
fn settings(dies: bool) -> &'static str {
    if dies { " destination:1/setup expired:1/setup" } else { " destination:1/setup" }
}

struct Nack {
    mode: &'static str,
    delay: Option<i64>,
    reason: String,
    min_ms: i64,
}

impl Nack {
    fn call(&self, clients: &[Vec<(u64, i64)>]) -> String {
        let or_none = |text: String| if text.is_empty() { "''".to_owned() } else { text };
        let delay = or_none(self.delay.map_or(String::new(), |ms| ms.to_string()));
        let reason = or_none(self.reason.replace('\0', "\\x00").replace(' ', "\\x20"));
        let receipts = words(clients, " 999", "''");
        let Nack { mode, min_ms, .. } = self;
        format!("nack {mode} {delay} {reason} {LIMIT} {min_ms} 9000000000000 0{receipts}")
    }
}

/// What one seed runs on.
struct Run<'a> {
    bench: &'a mut Bench,
    random: Random,
    model: Model,
    /// The last delivery of each id that a take gave.
    delivered: BTreeMap<u64, i64>,
    steps: Vec<String>,
}

impl Run<'_> {
    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize].clone()
    }

    /// A numbered call, and what it answers; now and then it comes twice.
    fn call(&mut self, call: &str) -> (i64, Vec<Value>) {
        self.steps.push(call.to_owned());
        self.bench.number += 1;
        let reply = self.bench.reply(call, FOREVER_MS);
        let [Value::Int(now_us), status, rest @ ..] = reply.elements() else {
            panic!("{call}: {reply:?}");
        };
        assert_eq!(status.text(), "OK", "{call}");
        let is_stored = !call.starts_with("take ") || rest.len() >= 8;
        if is_stored && self.random.below(10) == 0 {
            assert_eq!(self.bench.run(call), "SETTLED", "twice: {call}");
        }
        (*now_us, rest.to_vec())
    }

    /// Those of one client, or of several whose settlements share a call.
    fn some_clients(&mut self) -> Vec<Vec<(u64, i64)>> {
        let more = self.one_of(&[0, 0, 0, 1, 2]);
        (0..=more).map(|_| self.some_receipts()).collect()
    }

    /// Mostly of those that were given last; some twice, some that were never given.
    fn some_receipts(&mut self) -> Vec<(u64, i64)> {
        let mut some = Vec::new();
        for _ in 0..=self.random.below(3) {
            let all = self.model.receipts.len() as u64;
            let window = if self.random.below(4) == 0 { all } else { all.min(6) };
            match window {
                0 => some.push((self.random.below(9), 1)),
                _ => {
                    let (id, delivery) =
                        self.model.receipts[(all - 1 - self.random.below(window)) as usize];
                    let more = i64::from(self.random.below(20) == 0);
                    some.push((id, delivery + more));
                }
            }
        }
        some
    }

    fn step(&mut self) {
        match self.random.below(22) {
            0..3 => self.push(),
            3..8 => self.take(),
            8..10 => {
                let clients = self.some_clients();
                let (_, answer) = self.call(&format!("ack{}", words(&clients, "", "")));
                let acked = clients.iter().map(|receipts| Value::Int(self.model.ack(receipts)));
                assert_eq!(answer, acked.collect::<Vec<_>>());
            }
            10..14 => self.nack(),
            14 => {
                let (clients, lease_ms) = (self.some_clients(), self.one_of(&[LONG_MS, 1]));
                let call = format!("extend {lease_ms}{}", words(&clients, "", ""));
                let (now_us, answer) = self.call(&call);
                let extended = clients.iter().map(|one| self.model.extend(now_us, lease_ms, one));
                let (mut wanted, until): (Vec<_>, Vec<_>) =
                    extended.map(|(count, until_ms)| (Value::Int(count), until_ms)).unzip();
                wanted.push(Value::Int(until[0]));
                assert_eq!(answer, wanted);
            }
            15 => self.dead(),
            16 => self.retry(),
            17 => self.release(),
            _ => self.let_time_pass(),
        }
    }

    fn push(&mut self) {
        for _ in 0..=self.random.below(4) {
            let size = self.random.below(9) as usize;
            let payload = format!("{}\r\n\0{}", self.model.pushed, "x".repeat(size)).into_bytes();
            self.model.pushed += 1;
            let bare = Fresh { stored: payload.clone(), ..Fresh::default() };
            let kind = if self.model.takers.is_some() { self.random.below(8) } else { 0 };
            if kind < 2 {
                self.add(None, bare);
                continue;
            }
            // Now and then one comes twice, or with the id of another.
            let known = self.model.receipts.last().map(|(id, _)| *id);
            let number = (1 << 62) + self.model.pushed as u64;
            let id = known.filter(|_| self.random.below(8) == 0).unwrap_or(number);
            let limit = self.one_of(&[None, None, Some(0), Some(1), Some(5)]);
            let expires = self.one_of(&[None, None, None, Some(5), Some(9_000_000_000_000)]);
            let priority = (kind > 5).then(|| 1 + self.random.below(9));
            let envelope = Envelope {
                id: Some(id.to_be_bytes()),
                limit: limit.map(|limit: i64| limit as u64),
                priority,
                ..Envelope::default()
            };
            let around = |envelope: &Envelope| {
                let mut stored = Vec::new();
                envelope.pack(&mut stored);
                stored.extend_from_slice(&payload);
                stored
            };
            let stored = around(&Envelope {
                ttl_ms: expires.map(|_| 5),
                expires_ms: expires,
                ..envelope.clone()
            });
            let expired = expires.filter(|ms| *ms == 5).map(|_| around(&envelope));
            let fresh = Fresh { stored, id: Some(id), limit, expired };
            let score =
                priority.map(|p| (9 - p as i64) * 10_000_000_000_000 + number as i64 % 1_000);
            self.add(score, fresh);
        }
    }

    fn add(&mut self, score: Option<i64>, fresh: Fresh) {
        let text = fresh.stored.escape_ascii();
        self.steps.push(format!("push {score:?} {text}"));
        let Some(score) = score else {
            let key = self.bench.names.key("destination").into_bytes();
            self.bench.client.call(&[b"RPUSH", &key[..], &fresh.stored]).unwrap();
            self.model.list.push(fresh);
            return;
        };
        let order = (self.model.pushed as u64).to_be_bytes().to_vec();
        let member = [&order[..], &fresh.stored].concat();
        let (key, text) = (self.bench.names.key("first").into_bytes(), score.to_string());
        self.bench.client.call(&[b"ZADD", &key[..], text.as_bytes(), &member]).unwrap();
        self.model.first.insert((score, order), fresh);
    }

    fn take(&mut self) {
        let (count, lease_ms) =
            (self.one_of(&[1, 1, 2, 3, 5]), self.one_of(&[LONG_MS, LONG_MS, 1]));
        let bytes_max = self.one_of(&[10_000, 10_000, 12]);
        let ids: Vec<u64> = (0..count).map(|_| self.random.below(1 << 53)).collect();
        let spares: Vec<String> = ids.iter().map(|id| format!("#{id}")).collect();
        let spares = spares.concat();
        let call = format!("take {count} {bytes_max} 10000 {lease_ms} {LIMIT} {spares}");
        let (now_us, answer) = self.call(&call);
        let valid: BTreeSet<u64> = self
            .model
            .held
            .iter()
            .filter_map(|(id, message)| {
                (message.place == Leased && message.moment > now_us / 1000).then_some(*id)
            })
            .collect();
        let (each, rest) = answer[4..].as_chunks::<4>();
        let taken: Vec<Taken> = each
            .iter()
            .map(|one| {
                let id = u64::from_be_bytes(one[0].bytes().try_into().unwrap());
                (id, one[1].int(), one[2].int(), one[3].bytes())
            })
            .collect();
        let expired = rest.first().map_or(0, Value::int);
        // One that comes a second time after its end is another message.
        self.delivered.retain(|id, _| self.model.held.contains_key(id));
        for (id, delivery, attempt, _) in &taken {
            assert!(!valid.contains(id), "{id} is leased");
            let before = self.delivered.insert(*id, *delivery).unwrap_or(0);
            assert!(*delivery > before, "{id}: {before}, then {delivery}");
            let most = if self.model.takers.is_some() { i64::MAX } else { LIMIT };
            assert!((1..=most).contains(attempt), "{id}: attempt {attempt}");
        }
        let answer = (answer[0].text(), answer[1].int(), answer[2].int(), answer[3].int());
        let answer = (answer.0, answer.1, answer.2, answer.3, taken, expired);
        let wanted = self.model.take(now_us, count, bytes_max, lease_ms, &ids);
        assert_eq!(answer, wanted);
        // The reply is lost: what it held is given back by what is stored of it.
        if !wanted.4.is_empty() && self.random.below(8) == 0 {
            let settled = self.bench.reply(&format!("settle {}", self.bench.number), FOREVER_MS);
            let stored = settled.elements()[4..]
                .chunks(2)
                .map(|one| (u64::from_be_bytes(one[0].bytes().try_into().unwrap()), one[1].int()));
            let stored: Vec<(u64, i64)> = stored.collect();
            let given: Vec<_> =
                wanted.4.iter().map(|(id, delivery, ..)| (*id, *delivery)).collect();
            assert_eq!(stored, given, "settled");
            self.give_back(
                &[stored],
                Nack { mode: "SILENT", delay: None, reason: String::new(), min_ms: 1 },
            );
        }
    }

    fn nack(&mut self) {
        let clients = self.some_clients();
        let nack = Nack {
            mode: self.one_of(&["FAIL", "FAIL", "SILENT", "SILENT", "FATAL", "TIED"]),
            delay: self.one_of(&[None, None, Some(0), Some(LONG_MS)]),
            reason: self.one_of(&["", "", "no good", "a\0b"]).to_owned(),
            min_ms: self.one_of(&[1, LONG_MS]),
        };
        self.give_back(&clients, nack);
    }

    fn give_back(&mut self, clients: &[Vec<(u64, i64)>], nack: Nack) {
        let (now_us, answer) = self.call(&nack.call(clients));
        let (mut wanted, mut least) = (Vec::new(), None);
        for receipts in clients {
            let (nacked, died, next) = self.model.nack(now_us, &nack, receipts);
            wanted.extend([nacked.to_string(), died.to_string()]);
            let next = next.parse::<i64>().ok();
            least = [least, next].into_iter().flatten().min();
        }
        wanted.push(least.map_or(String::new(), |ms| ms.to_string()));
        let answer: Vec<String> = answer.iter().map(Value::text).collect();
        assert_eq!(answer, wanted);
    }

    fn dead(&mut self) {
        let dead = self.model.due(Dead, i64::MAX);
        let delay = self.one_of(&[Some(0), Some(LONG_MS), Some(LONG_MS), None]);
        let word = delay.map_or("''".to_owned(), |ms: i64| ms.to_string());
        let first = self.random.below(3) as usize;
        let ids: Vec<u64> = match first {
            0 => self
                .some_receipts()
                .iter()
                .map(|(id, _)| *id)
                .chain(dead.first().copied())
                .collect(),
            _ => dead.into_iter().take(first).collect(),
        };
        let listed: String = ids.iter().map(|id| format!(" #{id}")).collect();
        let listed = if first == 0 { listed } else { String::new() };
        let (now_us, answer) = self.call(&format!("dead {word} {first}{listed}"));
        let wanted = self.model.dead(now_us, delay, &ids);
        assert_eq!((answer[0].int(), answer[1].text()), wanted);
    }

    fn retry(&mut self) {
        let mut ids: Vec<u64> = self.some_receipts().iter().map(|(id, _)| *id).collect();
        ids.extend(self.model.due(Retry, i64::MAX).first());
        let delay = self.one_of(&[Some(0), Some(1), Some(LONG_MS), None]);
        let word = delay.map_or("''".to_owned(), |ms: i64| ms.to_string());
        let listed: String = ids.iter().map(|id| format!(" #{id}")).collect();
        let (now_us, answer) = self.call(&format!("retry {word}{listed}"));
        assert_eq!(answer, self.model.retry(now_us, delay, &ids));
    }

    fn release(&mut self) {
        let (count, bytes_max) = (self.one_of(&[1, 2, 1_000]), self.one_of(&[12, 10_000]));
        // Nobody else could have what takers alone have.
        if self.model.takers.is_some() {
            return;
        }
        let (now_us, answer) = self.call(&format!("release {count} {bytes_max} {LIMIT}"));
        assert_eq!(answer, self.model.release(now_us, count, bytes_max).map(Value::Int));
    }

    /// A lease has run out, or a retry's time has come: some at the same moment.
    fn let_time_pass(&mut self) {
        let waiting = self.model.held.iter().filter(|(_, message)| message.place != Dead);
        let waiting: Vec<u64> = waiting.map(|(id, _)| *id).collect();
        for _ in 0..waiting.len().min(2) {
            let (id, moment) = (self.one_of(&waiting), 1 + self.random.below(20) as i64);
            let message = self.model.held.get_mut(&id).unwrap();
            message.moment = moment;
            let command = format!("ZADD @{} XX {moment} #{id}", message.place.role());
            self.bench.redis(&command);
            self.steps.push(command);
        }
    }

    /// What holds whatever the model says.
    fn keeps(&self, keyspace: &Keyspace) {
        let of = |role: &str| keyspace.get(&Bytes(self.bench.names.key(role).into_bytes()));
        let ids = |role: &str| -> Vec<Bytes> {
            match of(role) {
                None => Vec::new(),
                Some(Stored::Zset(all)) => all.iter().map(|(id, _)| id.clone()).collect(),
                Some(Stored::Hash(all)) => all.keys().cloned().collect(),
                Some(Stored::List(all)) => all.clone(),
                Some(other) => panic!("{role}: {other:?}"),
            }
        };
        let mut placed = [ids("leased"), ids("retry"), ids("dead")].concat();
        placed.sort_unstable();
        let taken = ids("taken");
        assert_eq!(placed, taken, "in one place each, and nothing but these is kept");
        assert!(ids("tries").iter().all(|id| taken.contains(id)), "noted of what is there");
        let Model { pushed, acked, dropped, expired, .. } = &self.model;
        let ready = ids("destination").len() + ids("first").len();
        assert_eq!(*pushed, ready + taken.len() + acked + dropped + expired, "no loss");
    }
}

/// Receipts of several clients as arguments, with more behind each, and that where one ends.
fn words(clients: &[Vec<(u64, i64)>], more: &str, none: &str) -> String {
    let of = |receipts: &Vec<(u64, i64)>| -> String {
        receipts.iter().map(|(id, delivery)| format!(" #{id} {delivery}{more}")).collect()
    };
    clients.iter().map(of).collect::<Vec<_>>().join(&format!(" '' '' {none}"))
}

#[test]
fn random_consumers_get_what_the_model_says() {
    let seeds = std::env::var("SEEDS").map_or(30, |seeds| seeds.parse().unwrap());
    let mut bench = Bench::new("");
    for seed in 1..=seeds {
        bench.redis("FLUSHDB");
        // The first numbers of neighbouring seeds are alike.
        let random = Random::new(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let takers = [None, Some(false), Some(true)][seed as usize % 3];
        if let Some(dies) = takers {
            let (key, name) = (bench.names.key("record"), bench.names.queue.clone());
            bench.client.call(&["HSET", &key, "name", &name, "settings", settings(dies)]).unwrap();
        }
        let mut run = Run {
            bench: &mut bench,
            random,
            model: Model { takers, ..Model::default() },
            delivered: BTreeMap::new(),
            steps: Vec::new(),
        };
        for number in 0..STEPS {
            let step = std::panic::AssertUnwindSafe(|| {
                run.step();
                let keyspace = run.bench.keyspace();
                run.keeps(&keyspace);
                assert_eq!(keyspace, run.model.keyspace(run.bench));
            });
            if let Err(failure) = std::panic::catch_unwind(step) {
                let last = run.steps.len().saturating_sub(12);
                eprintln!(
                    "seed {seed}, step {number}; the last ones:\n{}",
                    run.steps[last..].join("\n")
                );
                std::panic::resume_unwind(failure);
            }
        }
    }
}
