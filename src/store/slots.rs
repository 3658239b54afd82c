//! The slots of a Redis Cluster: that of a key, a tag for each, and who says that he serves which.
//! Pure.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use redis_protocol::redis_keyslot;

pub const SLOTS: u16 = 16_384;

/// The slot of a key: it follows from the part of it in braces, else from all of it.
pub fn slot(key: &[u8]) -> u16 {
    redis_keyslot(key)
}

/// For each slot the least decimal number that has it: a key with this number in braces has it too.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![u32::MAX; usize::from(SLOTS)];
    let mut missing = tags.len();
    let numbers = (0_u32..).map(|number| (number, slot(number.to_string().as_bytes())));
    for (number, slot) in numbers {
        if let Some(tag) = tags.get_mut(usize::from(slot)).filter(|tag| **tag == u32::MAX) {
            *tag = number;
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    tags
});

/// A text that has this slot.
pub fn tag(slot: u16) -> u32 {
    TAGS.get(usize::from(slot)).copied().unwrap_or(0)
}

/// One line of CLUSTER NODES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Empty where the node does not know its own address.
    pub host: String,
    /// Where it announces one, from Redis 7.0 on.
    pub name: Option<String>,
    pub port: u16,
    /// The node that answered.
    pub myself: bool,
    /// It serves slots, or may.
    pub primary: bool,
    /// Counts the elections and moves of slots: the higher one knows better.
    pub epoch: u64,
    pub slots: Vec<RangeInclusive<u16>>,
}

/// Nodes of a Cluster that are believed: Redis's own advice is at most so many.
const MEMBERS_MAX: usize = 1_000;

/// The nodes that CLUSTER NODES names and that have an address, not more than 1,000.
pub fn members(text: &str) -> Vec<Member> {
    text.lines().filter_map(member).take(MEMBERS_MAX).collect()
}

/// `<id> <host>:<port>[@<bus>][,<name>] <flags> <primary> <ping> <pong> <epoch> <link> <slot>...`
fn member(line: &str) -> Option<Member> {
    let mut fields = line.split_ascii_whitespace();
    let (_, address, flags) = (fields.next()?, fields.next()?, fields.next()?);
    let mut rest = fields.skip(3);
    let epoch = rest.next()?.parse().ok()?;
    let mut parts = address.split(',');
    let own = parts.next()?;
    let name = parts.next().filter(|name| !name.is_empty() && !name.contains('='));
    let (host, port) = own.split('@').next()?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let has = |flag: &str| flags.split(',').any(|other| other == flag);
    if has("handshake") || has("noaddr") {
        return None;
    }
    // Behind them those that come and go: `[93->-<id>]`.
    let slots = rest.skip(1).filter(|slot| !slot.starts_with('['));
    Some(Member {
        host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
        name: name.map(str::to_owned),
        port,
        myself: has("myself"),
        primary: has("master"),
        epoch,
        slots: slots.filter_map(range).collect(),
    })
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < SLOTS).then_some(first..=last)
}

/// Who serves each slot, by what several nodes say: whoever says so by the highest epoch, and of
/// two with the same whoever says it of itself. `T` names a node.
pub fn owners<T: Clone>(said: impl IntoIterator<Item = (T, Member)>) -> Vec<Option<T>> {
    let mut owners: Vec<Option<(u64, bool, T)>> = vec![None; usize::from(SLOTS)];
    for (node, member) in said.into_iter().filter(|(_, member)| member.primary) {
        let claim = (member.epoch, member.myself);
        for slot in member.slots.iter().cloned().flatten() {
            if let Some(owner) = owners.get_mut(usize::from(slot))
                && owner.as_ref().is_none_or(|(epoch, myself, _)| (*epoch, *myself) < claim)
            {
                *owner = Some((claim.0, claim.1, node.clone()));
            }
        }
    }
    owners.into_iter().map(|owner| owner.map(|(_, _, node)| node)).collect()
}

/// A refusal that says that another node serves the slot: that, its host, which may be empty, and
/// its port.
pub fn moved(text: &str) -> Option<(u16, &str, u16)> {
    let mut words = text.split_once("MOVED ")?.1.split([' ', '\r', '\n']);
    let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((slot, host, port.parse().ok().filter(|port| *port > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_tag() {
        for number in 0..SLOTS {
            assert_eq!(slot(tag(number).to_string().as_bytes()), number);
            assert_eq!(slot(format!("a:{{{}}}", tag(number)).as_bytes()), number);
        }
        assert_eq!(TAGS.iter().max(), Some(&109_757));
    }

    /// As `CLUSTER KEYSLOT` says; `tests/lua/slots.rs` asks a Redis for many more.
    #[test]
    fn slots_of_keys() {
        for (key, wanted) in [
            ("q", 11_958),
            ("{q}", 11_958),
            ("redisson_delay_queue_timeout:{q}", 11_958),
            ("a{b}c", 3_300),
            ("lone{", 9_346),
            ("a{}b", 13_694),
            ("close}", 5_262),
        ] {
            assert_eq!(slot(key.as_bytes()), wanted, "{key}");
        }
    }

    #[test]
    fn lines_of_cluster_nodes() {
        let text = "\
            a1 127.0.0.1:7001@17001 myself,master - 0 0 3 connected 0-5460 9000 [93->-b2]\n\
            b2 10.0.0.2:7002@17002,node-2 master - 0 1 2 connected 5461-8999\n\
            c3 10.0.0.3:7003@17003,,shard-id=1 slave a1 0 1 3 connected\n\
            d4 fe80::1:7004@17004 master,fail - 1 1 1 disconnected 10000-10000\n\
            e5 :0@0 master,noaddr - 1 1 1 disconnected\n\
            f6 :7006@17006 myself,master - 0 0 0 connected 20000 5-2 x\n\
            broken\n";
        let found = members(text);
        let shown: Vec<(&str, Option<&str>, u16, bool, bool, u64, usize)> = found
            .iter()
            .map(|one| {
                let name = one.name.as_deref();
                let slots = one.slots.iter().map(|slots| slots.clone().count()).sum();
                (&one.host[..], name, one.port, one.myself, one.primary, one.epoch, slots)
            })
            .collect();
        let wanted = [
            ("127.0.0.1", None, 7001, true, true, 3, 5_462),
            ("10.0.0.2", Some("node-2"), 7002, false, true, 2, 3_539),
            ("10.0.0.3", None, 7003, false, false, 3, 0),
            ("fe80::1", None, 7004, false, true, 1, 1),
            ("", None, 7006, true, true, 0, 0),
        ];
        assert_eq!(shown, wanted);
        let line = "a1 10.0.0.1:7001@17001 master - 0 0 3 connected 1\n";
        assert_eq!(members(&line.repeat(MEMBERS_MAX + 1)).len(), MEMBERS_MAX);
    }

    /// Each row: what is said, as node, epoch, whether of itself, and slots; who serves slot 5.
    #[test]
    fn who_is_believed() {
        #[rustfmt::skip]
        let rows: [(&[(char, u64, bool, RangeInclusive<u16>)], Option<char>); 6] = [
            (&[], None),
            (&[('a', 1, false, 0..=4)], None),
            (&[('a', 1, false, 0..=9)], Some('a')),
            // The old one, back from a pause, still says it of itself.
            (&[('a', 1, true, 0..=9), ('b', 2, false, 0..=9)], Some('b')),
            (&[('b', 2, true, 5..=5), ('a', 1, true, 0..=9)], Some('b')),
            (&[('a', 1, false, 0..=9), ('b', 1, true, 5..=5)], Some('b')),
        ];
        for (said, wanted) in rows {
            let said = said.iter().map(|(node, epoch, myself, slots)| {
                let (host, name, slots) = (String::new(), None, vec![slots.clone()]);
                let (port, primary, epoch, myself) = (1, true, *epoch, *myself);
                (*node, Member { host, name, port, myself, primary, epoch, slots })
            });
            let said: Vec<_> = said.collect();
            assert_eq!(owners(said.clone())[5], wanted, "{said:?}");
        }
    }

    #[test]
    fn refusals_that_name_a_node() {
        for (text, wanted) in [
            ("MOVED 3999 127.0.0.1:6381", Some((3_999, "127.0.0.1", 6_381))),
            ("MOVED 3999 :6381", Some((3_999, "", 6_381))),
            ("MOVED 3999 fe80::1:6381", Some((3_999, "fe80::1", 6_381))),
            ("ERR in a script: -MOVED 1 h:2 more", Some((1, "h", 2))),
            ("MOVED 16384 h:1", None),
            ("MOVED 1 h:0", None),
            ("ASK 3999 127.0.0.1:6381", None),
        ] {
            assert_eq!(moved(text), wanted, "{text}");
        }
    }
}
