//! Every key and channel name of a queue, and the way back from a key to its queue.
//!
//! `name(prefix, q)` is `prefix:q` if `q` contains `{`, else `prefix:{q}`, as Redisson does it, so
//! that all keys of a queue are in one hash slot. The queues `a` and `{a}` therefore share their
//! keys: which of the two they belong to is recorded in the queue hash, and the scripts check it.

use bytes::{BufMut, Bytes, BytesMut};

pub const TIMEOUT: &str = "redisson_delay_queue_timeout";
pub const LIST: &str = "redisson_delay_queue";
pub const CHANNEL: &str = "redisson_delay_queue_channel";
const QUEUE: &str = "delay_broker_queue";
const NAMES: &str = "delay_broker_names";
const IDS: &str = "delay_broker_ids";
const QUARANTINE: &str = "delay_broker_quarantine";
/// The set of the queues that the brokers know: a hint, written apart from the offer.
pub const REGISTRY: &str = "delay_broker_queues";

/// The keys of one queue; built once and shared.
#[derive(Debug, Clone)]
pub struct QueueKeys {
    /// list: due payloads, bare bytes; the queue's own name.
    pub destination: Bytes,
    /// zset: packed member, score = due in Unix ms. The truth about what is pending.
    pub timeout: Bytes,
    /// list: the same members in offer order.
    pub list: Bytes,
    /// hash: what all brokers must agree on: `name`, `format`, `order_list`,
    /// `paused_until`, `unlisted_until`.
    pub queue: Bytes,
    /// hash: message name to message id.
    pub names: Bytes,
    /// hash: hex of the id bytes to message name.
    pub ids: Bytes,
    /// zset: members that could not be read, with their score.
    pub quarantine: Bytes,
}

impl QueueKeys {
    /// Of a queue; or of a suffix, whose keys are the same, all but the destination.
    pub fn new(queue: &[u8]) -> Self {
        Self {
            destination: Bytes::copy_from_slice(queue),
            timeout: name(TIMEOUT, queue),
            list: name(LIST, queue),
            queue: name(QUEUE, queue),
            names: name(NAMES, queue),
            ids: name(IDS, queue),
            quarantine: name(QUARANTINE, queue),
        }
    }

    /// What follows the prefix in each of the keys: it names the set of keys.
    pub fn suffix(&self) -> Bytes {
        self.list.slice(LIST.len() + 1..)
    }

    /// The same, borrowed.
    pub fn suffix_bytes(&self) -> &[u8] {
        suffix(LIST, &self.list).unwrap_or_default()
    }
}

/// The channel on which the due time of a new head is published.
pub fn channel(queue: &[u8]) -> Bytes {
    name(CHANNEL, queue)
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

/// What follows the prefix of a key or channel: the same for all keys of a queue, so it names the
/// set of keys.
pub fn suffix<'a>(prefix: &str, key: &'a [u8]) -> Option<&'a [u8]> {
    let suffix = key.strip_prefix(prefix.as_bytes())?.strip_prefix(b":")?;
    (!suffix.is_empty()).then_some(suffix)
}

/// The suffix of all keys of `queue`.
pub fn suffix_of(queue: &[u8]) -> Bytes {
    name(LIST, queue).slice(LIST.len() + 1..)
}

/// The queue that a suffix most likely belongs to: `{x}` without `{` in x means `x`. A guess, since
/// the queue `{x}` has the same keys; what is configured, recorded or used in a command goes before
/// it.
pub fn guess(suffix: &[u8]) -> &[u8] {
    match suffix
        .strip_prefix(b"{")
        .and_then(|inner| inner.strip_suffix(b"}"))
    {
        Some(inner) if !inner.is_empty() && !inner.contains(&b'{') => inner,
        _ => suffix,
    }
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
            assert_eq!(
                QueueKeys::new(found).list,
                QueueKeys::new(queue.as_bytes()).list
            );
        }
        assert_eq!(channel(b"a"), "redisson_delay_queue_channel:{a}");
        assert_eq!(suffix(LIST, b"redisson_delay_queue_timeout:{a}"), None);
    }

    #[test]
    fn guesses() {
        for (suffix, queue) in [
            ("{a}", "a"),
            ("x{a}y", "x{a}y"),
            ("{a}}", "a}"),
            ("{a{b}", "{a{b}"),
            ("{}", "{}"),
        ] {
            assert_eq!(guess(suffix.as_bytes()), queue.as_bytes(), "{suffix}");
        }
    }
}
