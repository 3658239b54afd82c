//! Every key and channel name of a queue, and the way back from a key to its queue.
//!
//! `name(prefix, q)` is `prefix:q` if `q` contains `{`, else `prefix:{q}`, as Redisson does it, so
//! that all keys of a queue are in one hash slot. The queues `a` and `{a}` therefore share their
//! keys: which of the two they belong to is recorded in the queue hash, and the scripts check it.

use bytes::{BufMut, Bytes, BytesMut};

use crate::store::script::Script;

pub const TIMEOUT: &str = "redisson_delay_queue_timeout";
pub const LIST: &str = "redisson_delay_queue";
pub const CHANNEL: &str = "redisson_delay_queue_channel";
/// Where scripts say that something can be taken, see `lua/_wake.lua`.
pub const WAKE: &str = "delay_broker_wake";
const RECORD: &str = "delay_broker_queue";
const NAMES: &str = "delay_broker_names";
const IDS: &str = "delay_broker_ids";
const QUARANTINE: &str = "delay_broker_quarantine";
const LEASED: &str = "delay_broker_leased";
const RETRY: &str = "delay_broker_retry";
const DEAD: &str = "delay_broker_dead";
const TAKEN: &str = "delay_broker_taken";
const TRIES: &str = "delay_broker_tries";
pub const CRONS: &str = "delay_broker_crons";
const CRON: &str = "delay_broker_cron";
const FIRST: &str = "delay_broker_first";
const HELD: &str = "delay_broker_held";
const AGAIN: &str = "delay_broker_again";
/// The set of the queues that the brokers know: a hint, written apart from the offer.
pub const REGISTRY: &str = "delay_broker_queues";
/// The set of the queues that have schedules: a hint as well.
pub const CRON_REGISTRY: &str = "delay_broker_cron_queues";
/// The set of the queues whose destination is a stream: a hint as well.
pub const STREAM_REGISTRY: &str = "delay_broker_stream_queues";
/// zset: the latest time that ids were noted to have.
pub const ID_TIME: &str = "delay_broker_id_time";
/// hash: the pause of all queues.
pub const ALL: &str = "delay_broker_all";

/// A key of a script, by its name in the script's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Of the lane that calls, always the first.
    Call,
    Destination,
    /// Of one group of a stream.
    Again,
    Timeout,
    List,
    Record,
    Names,
    Ids,
    Quarantine,
    Leased,
    Retry,
    Dead,
    Taken,
    Tries,
    Crons,
    Cron,
    First,
    Held,
    All,
    Registry,
    Node,
    /// No key: the name of the queue's channel, always the last; see `lua/_begin.lua`.
    Guard,
}

/// The keys of one queue; built once and shared.
#[derive(Debug, Clone)]
pub struct QueueKeys {
    /// The queue, as commands name it.
    pub name: Bytes,
    /// list: due payloads, bare bytes; or the stream that has them as entries.
    pub destination: Bytes,
    /// zset: packed member, score = due in Unix ms. The truth about what is pending.
    pub timeout: Bytes,
    /// list: the same members in offer order.
    pub list: Bytes,
    /// hash: what all brokers must agree on: `name`, `format`, `order_list`,
    /// `paused_until`, `unlisted_until` and others of that beginning.
    pub record: Bytes,
    /// hash: message name to message id.
    pub names: Bytes,
    /// hash: hex of the id bytes to message name.
    pub ids: Bytes,
    /// zset: members that could not be read, with their score.
    pub quarantine: Bytes,
    /// zset: ids of messages that consumers have taken, with the end of the lease, Unix ms.
    pub leased: Bytes,
    /// zset: ids of those that wait for a retry, with when it may be, Unix ms.
    pub retry: Bytes,
    /// zset: ids of those that are retried no more, with when they died, Unix ms.
    pub dead: Bytes,
    /// hash: their payloads, by id.
    pub taken: Bytes,
    /// hash: by id how often they were handed out, where that was more than once.
    pub tries: Bytes,
    /// zset: names of schedules, with their next occurrence, Unix ms.
    pub crons: Bytes,
    /// hash: what is recorded of each, see `lua/_cron.lua`.
    pub cron: Bytes,
    /// zset: due messages with a priority, for takers alone.
    pub first: Bytes,
    /// hash: names that are held until their messages are done, see `lua/_held.lua`.
    pub held: Bytes,
    /// Where the due time of a new head is published; the guard of the scripts.
    pub channel: Bytes,
}

impl QueueKeys {
    /// Of a queue; or of a suffix, whose keys are the same, all but name and destination.
    pub fn new(queue: &[u8]) -> Self {
        let own_name = Bytes::copy_from_slice(queue);
        Self {
            // The one place where it follows from the name.
            destination: own_name.clone(),
            name: own_name,
            timeout: timeout_of(queue),
            list: name(LIST, queue),
            record: name(RECORD, queue),
            names: name(NAMES, queue),
            ids: name(IDS, queue),
            quarantine: name(QUARANTINE, queue),
            leased: name(LEASED, queue),
            retry: name(RETRY, queue),
            dead: name(DEAD, queue),
            taken: name(TAKEN, queue),
            tries: name(TRIES, queue),
            crons: name(CRONS, queue),
            cron: name(CRON, queue),
            first: name(FIRST, queue),
            held: name(HELD, queue),
            channel: name(CHANNEL, queue),
        }
    }

    /// The keys that a script takes, in its order, but that of the call, which its lane adds.
    pub fn of(&self, script: &Script) -> Vec<Bytes> {
        script.keys.iter().filter_map(|key| self.key(*key)).cloned().collect()
    }

    /// The same for a script that serves one group of a stream.
    pub fn of_group(&self, script: &Script, group: &[u8]) -> Vec<Bytes> {
        let again = self.again(group);
        let key = |key: &Key| if *key == Key::Again { Some(&again) } else { self.key(*key) };
        script.keys.iter().filter_map(key).cloned().collect()
    }

    /// stream: retries of a group, where the destination has several.
    pub fn again(&self, group: &[u8]) -> Bytes {
        let mut key = BytesMut::from(&name(AGAIN, &self.name)[..]);
        key.put_u8(b':');
        key.put_slice(group);
        key.freeze()
    }

    /// Those that a script of many queues takes of each.
    pub fn each_of(&self, script: &Script) -> impl Iterator<Item = &Bytes> {
        script.each.iter().filter_map(|key| self.key(*key))
    }

    fn key(&self, key: Key) -> Option<&Bytes> {
        static ALL_KEY: Bytes = Bytes::from_static(ALL.as_bytes());
        static REGISTRY_KEY: Bytes = Bytes::from_static(REGISTRY.as_bytes());
        Some(match key {
            Key::Destination => &self.destination,
            Key::Timeout => &self.timeout,
            Key::List => &self.list,
            Key::Record => &self.record,
            Key::Names => &self.names,
            Key::Ids => &self.ids,
            Key::Quarantine => &self.quarantine,
            Key::Leased => &self.leased,
            Key::Retry => &self.retry,
            Key::Dead => &self.dead,
            Key::Taken => &self.taken,
            Key::Tries => &self.tries,
            Key::Crons => &self.crons,
            Key::Cron => &self.cron,
            Key::First => &self.first,
            Key::Held => &self.held,
            Key::Guard => &self.channel,
            Key::All => &ALL_KEY,
            Key::Registry => &REGISTRY_KEY,
            Key::Call | Key::Node | Key::Again => return None,
        })
    }

    /// The part behind the prefix in each of the keys: it names the set of keys.
    pub fn suffix(&self) -> Bytes {
        self.list.slice(LIST.len() + 1..)
    }

    /// The same, borrowed.
    pub fn suffix_bytes(&self) -> &[u8] {
        suffix(LIST, &self.list).unwrap_or_default()
    }
}

fn name(prefix: &str, queue: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(prefix.len() + queue.len() + 3);
    out.put_slice(prefix.as_bytes());
    if queue.contains(&b'{') {
        out.put_u8(b':');
        out.put_slice(queue);
    } else {
        out.put_slice(b":{");
        out.put_slice(queue);
        out.put_u8(b'}');
    }
    out.freeze()
}

/// The part behind the prefix of a key or channel: the same for all keys of a queue, so it names
/// the set of keys.
pub fn suffix<'a>(prefix: &str, key: &'a [u8]) -> Option<&'a [u8]> {
    let suffix = key.strip_prefix(prefix.as_bytes())?.strip_prefix(b":")?;
    (!suffix.is_empty()).then_some(suffix)
}

/// The zset of `queue`, without its other keys.
pub fn timeout_of(queue: &[u8]) -> Bytes {
    name(TIMEOUT, queue)
}

/// The suffix of all keys of `queue`.
pub fn suffix_of(queue: &[u8]) -> Bytes {
    name(LIST, queue).slice(LIST.len() + 1..)
}

/// True if the keys with this suffix may be those of a queue of this name. A record that says
/// otherwise is not believed: somebody renamed or copied keys by hand.
pub fn may_own(queue: &[u8], suffix: &[u8]) -> bool {
    suffix_of(queue) == suffix
}

/// The queue that a suffix most likely belongs to: `{x}` without `{` in x means `x`. A guess, since
/// the queue `{x}` has the same keys; what is configured or recorded goes before it.
/// `lua/_record.lua` holds the same rule.
pub fn guess(suffix: &[u8]) -> &[u8] {
    match suffix.strip_prefix(b"{").and_then(|inner| inner.strip_suffix(b"}")) {
        Some(inner) if !inner.is_empty() && !inner.contains(&b'{') => inner,
        _ => suffix,
    }
}

/// True if a queue's keys alone say its name.
pub fn is_guessed(queue: &[u8]) -> bool {
    guess(&suffix_of(queue)) == queue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_redisson_makes_them() {
        for (queue, timeout) in [
            ("dest_queue1", "redisson_delay_queue_timeout:{dest_queue1}"),
            ("{a}", "redisson_delay_queue_timeout:{a}"),
            ("x{a}y", "redisson_delay_queue_timeout:x{a}y"),
            ("lone{", "redisson_delay_queue_timeout:lone{"),
            ("close}", "redisson_delay_queue_timeout:{close}}"),
        ] {
            assert_eq!(QueueKeys::new(queue.as_bytes()).timeout, timeout);
            let found = suffix(TIMEOUT, timeout.as_bytes()).unwrap();
            assert_eq!(found, suffix_of(queue.as_bytes()));
            assert_eq!(QueueKeys::new(found).list, QueueKeys::new(queue.as_bytes()).list);
        }
        assert_eq!(QueueKeys::new(b"a").channel, "redisson_delay_queue_channel:{a}");
        assert_eq!(suffix(LIST, b"redisson_delay_queue_timeout:{a}"), None);
    }

    #[test]
    fn guesses() {
        for (suffix, queue) in
            [("{a}", "a"), ("x{a}y", "x{a}y"), ("{a}}", "a}"), ("{a{b}", "{a{b}"), ("{}", "{}")]
        {
            assert_eq!(guess(suffix.as_bytes()), queue.as_bytes(), "{suffix}");
            assert_eq!(is_guessed(suffix.as_bytes()), suffix == queue, "{suffix}");
        }
    }
}
