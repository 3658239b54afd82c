//! Storing offers: `lua/offer.lua`, one call for many messages of many queues.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;

use crate::domain::envelope::Carries;
use crate::domain::queue::{Cut, Due, NameMode};
use crate::store::batch::Batches;
use crate::store::keys::QueueKeys;
use crate::store::lane::{Lane, Within};
use crate::store::order::Place;
use crate::store::router::{Router, Slot};
use crate::store::script::OFFER;
use crate::store::{Limits, StoreError, member, refused};

/// The configuration of a queue as Redis records it, in the words of the scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// `modern` or `legacy`; `""` leaves it.
    pub format: &'static str,
    /// `on` or `off`; `""` leaves it.
    pub order_list: &'static str,
}

/// The messages of one call that go to one queue, or one named message.
pub struct Group {
    pub keys: Rc<QueueKeys>,
    /// Recorded where nothing is yet.
    pub configured: Configured,
    /// Their ids grow.
    pub messages: Vec<Message>,
    /// What its messages have beside payloads, all the same of it.
    carries: Carries,
    /// Their members, modern and as the script takes them, one after the other.
    packed: Vec<u8>,
    pub name: Option<(Bytes, NameMode)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub due: Due,
    pub id: u64,
}

impl Group {
    pub fn new(
        keys: Rc<QueueKeys>,
        configured: Configured,
        name: Option<(Bytes, NameMode)>,
        carries: Carries,
    ) -> Self {
        Self { keys, configured, messages: Vec::new(), packed: Vec::new(), name, carries }
    }

    pub fn push(&mut self, message: Message, payload: &[u8]) {
        self.packed.reserve(STR_HEADER_MAX + member::OVERHEAD + payload.len());
        let size = (member::OVERHEAD + payload.len()) as u32;
        // Writing to a Vec cannot fail.
        let _ = rmp::encode::write_str_len(&mut self.packed, size);
        member::pack(&mut self.packed, message.id, payload);
        self.messages.push(message);
    }

    /// Gives its messages other ids, which grow.
    pub fn renew(&mut self, mut next_id: impl FnMut() -> u64) {
        let packed = std::mem::take(&mut self.packed);
        let mut rest = &packed[..];
        for message in std::mem::take(&mut self.messages) {
            // They were packed here.
            let size = rmp::decode::read_str_len(&mut rest).unwrap_or(0) as usize;
            let (member, behind) = rest.split_at_checked(size).unwrap_or_default();
            let payload = member.get(member::OVERHEAD..).unwrap_or_default();
            let id = next_id();
            self.push(Message { id, ..message }, payload);
            rest = behind;
        }
    }

    /// Bytes that it takes packed, about.
    fn size(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |(name, _)| name.len());
        self.packed.len() + self.messages.len() * INT_MAX + name + GROUP_HEAD
    }

    /// Gives back the memory of the payloads.
    pub fn forget_payloads(&mut self) {
        self.packed = Vec::new();
    }
}

/// Bytes of a string's head in msgpack, at most.
const STR_HEADER_MAX: usize = 5;
/// Bytes of an int in msgpack, at most; and of what stands before the members of a group, about.
const INT_MAX: usize = 9;
const GROUP_HEAD: usize = 16;
/// The head of an array of up to 2^32 values, how many being filled in later.
const ARRAY: [u8; 5] = [0xdd, 0, 0, 0, 0];
/// An argument of so many bytes takes no more groups: Redis bounds its size.
const ARGUMENT_FULL: usize = 1 << 20;

/// The outcome of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Delays count from `now_ms`: Redis's TIME rounded up to a millisecond. `head`: its earliest
    /// message is the queue's head now.
    Stored {
        now_ms: u64,
        head: bool,
    },
    /// A named offer whose condition (NX, XX) did not hold: nothing was done.
    Unmet,
    /// Nothing was done yet: another message has this id, whoever gave it. Another id will do.
    Clash,
    Failed(StoreError),
}

/// Offers that share calls: all of one Redis, those of one slot of a Cluster.
pub struct Part {
    pub(super) slot: Slot,
    pub(super) batches: Batches,
    lanes: [Lane; 2],
    /// It is among those of a Cluster that have something to send.
    pub(super) is_ready: Cell<bool>,
}

impl Part {
    pub(super) fn new(slot: Slot, token: &str, limits: Limits) -> Self {
        let lane = |name| Lane::new(&format!("{token}:{name}"), slot, limits);
        Self {
            slot,
            batches: Batches::default(),
            lanes: [lane("offer-0"), lane("offer-1")],
            is_ready: Cell::new(false),
        }
    }

    /// Waits until the batches that are before this one in their order are sent. Safe to cancel.
    pub async fn turn(&self, router: &Router, place: &Place<'_>) {
        if let Ok((link, _)) = router.route(self.slot, |node| &node.offers).link_now() {
            place.turn(&link).await;
        }
    }

    /// Stores a batch: an outcome for each group, in order. `lane` is 0 or 1 and has no other call
    /// under way; ids may be stored as long as the claim of their node number lasts.
    ///
    /// # Errors
    /// Those of the call as a whole; a group that fails alone says so in its outcome.
    pub async fn offer(
        &self,
        router: &Router,
        lane: usize,
        groups: &[&Group],
        within: &Within<'_>,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut keys = Vec::with_capacity(groups.len() * 4 + 1);
        for group in groups {
            let k = &group.keys;
            keys.extend(k.each_of(&OFFER));
            if group.name.is_some() {
                keys.extend([&k.names, &k.ids, &k.held]);
            }
            keys.extend((group.carries == Carries::Priority).then_some(&k.first));
        }
        keys.extend(groups.first().map(|group| &group.keys.channel));
        let lane = self
            .lanes
            .get(lane)
            .ok_or_else(|| StoreError::Internal(format!("there is no offer lane {lane}")))?;
        let (route, args) = (router.route(self.slot, |node| &node.offers), pack(groups));
        let call = lane.call_within(&route, &OFFER, &keys, &args, Some(within));
        let mut answer = call.await?.served()?;
        let now_ms = answer.now_us.div_ceil(1_000);
        let stored = Outcome::Stored { now_ms, head: false };
        let mut outcomes = vec![stored; groups.len()];
        while !answer.is_empty() {
            let (place, said) = (answer.count()?, answer.bytes()?);
            let Some(outcome) = outcomes.get_mut(place as usize) else {
                let text = format!("there is no group {place} in this call");
                return Err(StoreError::Internal(text));
            };
            *outcome = match &said[..] {
                b"1" => Outcome::Stored { now_ms, head: true },
                b"2" => Outcome::Unmet,
                b"CLASH" => Outcome::Clash,
                text => Outcome::Failed(failure(text, router, self.slot)),
            };
        }
        Ok(outcomes)
    }
}

/// The error of an outcome, in the words of the scripts.
pub(super) fn failure(text: &[u8], router: &Router, slot: Slot) -> StoreError {
    if let Some(owner) = text.strip_prefix(b"BADQUEUE ") {
        return StoreError::BadQueue { owner: owner.to_vec() };
    }
    if let Some(carries) = text.strip_prefix(b"DESTINATION ") {
        return StoreError::NotCarried { priority: carries == b"PRIO" };
    }
    if let Some(full) = text.strip_prefix(b"FULL ") {
        let text = String::from_utf8_lossy(full);
        let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        return StoreError::QueueFull { length: next(), max: next(), more: next() };
    }
    match text.strip_prefix(b"WRONGTYPE ") {
        Some(key) => StoreError::WrongType { key: Cut(key).to_string() },
        None => {
            let text = String::from_utf8_lossy(text);
            if let Some(node) = router.node(slot) {
                node.offers.refused(&text);
            }
            refused(&text)
        }
    }
}

/// The packed arguments of a call, as the header of `lua/offer.lua` says.
fn pack(groups: &[&Group]) -> Vec<Bytes> {
    let mut args = Vec::new();
    let (mut out, mut values) = (Vec::new(), 0);
    for (place, group) in groups.iter().enumerate() {
        if out.is_empty() {
            let left = groups.get(place..).unwrap_or_default();
            let sizes = left.iter().map(|group| group.size());
            out.reserve(sizes.sum::<usize>() + ARRAY.len());
            out.extend_from_slice(&ARRAY);
        }
        pack_group(&mut out, group);
        values += 2 + group.messages.len() as u32;
        if out.len() >= ARGUMENT_FULL || place + 1 == groups.len() {
            if let Some(count) = out.get_mut(1..ARRAY.len()) {
                count.copy_from_slice(&values.to_be_bytes());
            }
            args.push(Bytes::from(std::mem::take(&mut out)));
            values = 0;
        }
    }
    args
}

fn pack_group(out: &mut Vec<u8>, group: &Group) {
    // Writing to a Vec cannot fail.
    let int = |out: &mut Vec<u8>, value| drop(rmp::encode::write_sint(out, value));
    let array = |out: &mut Vec<u8>, count: usize| {
        drop(rmp::encode::write_array_len(out, count as u32));
    };
    let messages = &group.messages[..];
    let count = messages.len();
    let mode = |mode: &NameMode| match mode {
        NameMode::Replace => "",
        NameMode::Nx => "NX",
        NameMode::Xx => "XX",
    };
    let (name, mode) = group.name.as_ref().map_or((&b""[..], ""), |(name, m)| (name, mode(m)));
    let carries = match group.carries {
        Carries::Nothing => "",
        Carries::More => "META",
        Carries::Priority => "PRIO",
    };
    let words = [
        group.configured.format.as_bytes(),
        group.configured.order_list.as_bytes(),
        name,
        mode.as_bytes(),
        carries.as_bytes(),
    ];
    // Those at the end that say nothing are left out.
    let said = match (carries.is_empty(), name.is_empty()) {
        (false, _) => 5,
        (true, false) => 4,
        (true, true) if group.configured != Configured::default() => 2,
        (true, true) => 0,
    };
    if said > 0 {
        array(out, 1 + said);
    }
    int(out, count as i64);
    words.into_iter().take(said).for_each(|word| string(out, word));
    match messages {
        [first, rest @ ..] if rest.iter().all(|message| message.due == first.due) => {
            int(out, first.due.packed());
        }
        _ => {
            array(out, count);
            messages.iter().for_each(|message| int(out, message.due.packed()));
        }
    }
    out.extend_from_slice(&group.packed);
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    let _ = rmp::encode::write_str_len(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewed_ids_leave_the_rest() {
        let keys = Rc::new(QueueKeys::new(b"q"));
        let group = |ids: [u64; 3]| {
            let mut group = Group::new(keys.clone(), Configured::default(), None, Carries::Nothing);
            for (id, payload) in ids.into_iter().zip([&b""[..], b"a", &[b'b'; 70_000]]) {
                group.push(Message { due: Due::In(id), id }, payload);
            }
            group
        };
        let (mut renewed, wanted, mut id) = (group([1, 2, 3]), group([11, 12, 13]), 10);
        renewed.renew(|| {
            id += 1;
            id
        });
        assert_eq!(renewed.packed, wanted.packed);
        let ids = renewed.messages.iter().map(|message| (message.id, message.due));
        let kept = [(11, Due::In(1)), (12, Due::In(2)), (13, Due::In(3))];
        assert_eq!(ids.collect::<Vec<_>>(), kept);
    }
}
