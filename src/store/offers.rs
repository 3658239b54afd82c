//! Storing offers: `lua/offer.lua`, one call for many messages of many queues.

use std::rc::Rc;

use bytes::Bytes;

use crate::queue::{Due, NameMode};
use crate::store::keys::QueueKeys;
use crate::store::script::OFFER;
use crate::store::{Store, StoreError, refused};

/// What the configuration says of a queue and Redis records, in the words of the scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// `modern` or `legacy`; `""` leaves it.
    pub format: &'static str,
    /// `on` or `off`; `""` leaves it.
    pub order_list: &'static str,
}

/// The messages of one call that go to one queue, or one named message.
pub struct Group {
    pub queue: Bytes,
    pub keys: Rc<QueueKeys>,
    /// Of a configured queue: recorded where nothing is yet.
    pub configured: Option<Configured>,
    pub dues: Vec<Due>,
    /// Packed modern members, one after the other, and where each ends.
    pub members: Vec<u8>,
    pub ends: Vec<usize>,
    pub name: Option<(Bytes, NameMode)>,
}

/// What became of a group.
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

impl Store {
    /// Stores a batch: an outcome for each group, in order. `lane` is 0 or 1 and has no other call
    /// under way.
    ///
    /// # Errors
    /// Those of the call as a whole; a group that fails alone says so in its outcome.
    pub async fn offer(&self, lane: usize, groups: &[&Group]) -> Result<Vec<Outcome>, StoreError> {
        let mut keys = Vec::with_capacity(groups.len() * 4);
        for group in groups {
            let k = &group.keys;
            keys.extend([
                k.destination.clone(),
                k.timeout.clone(),
                k.list.clone(),
                k.queue.clone(),
            ]);
            if group.name.is_some() {
                keys.extend([k.names.clone(), k.ids.clone()]);
            }
        }
        let args = groups.iter().map(|group| pack(group)).collect();
        let lane = self
            .offer_lanes
            .get(lane)
            .ok_or_else(|| StoreError::Internal(format!("there is no offer lane {lane}")))?;
        let mut answer = lane.call(&OFFER, keys, args).await?.served()?;
        let now_ms = answer.now_us.div_ceil(1_000);
        let mut outcomes = Vec::with_capacity(groups.len());
        for _ in groups {
            let said = answer.bytes()?;
            outcomes.push(match &said[..] {
                b"0" => Outcome::Stored {
                    now_ms,
                    head: false,
                },
                b"1" => Outcome::Stored { now_ms, head: true },
                b"2" => Outcome::Unmet,
                b"CLASH" => Outcome::Clash,
                text => Outcome::Failed(failure(text)),
            });
        }
        Ok(outcomes)
    }
}

fn failure(text: &[u8]) -> StoreError {
    if let Some(owner) = text.strip_prefix(b"BADQUEUE ") {
        return StoreError::BadQueue {
            owner: owner.to_vec(),
        };
    }
    match text.strip_prefix(b"WRONGTYPE ") {
        Some(key) => StoreError::WrongType {
            key: key.escape_ascii().to_string(),
        },
        None => refused(&String::from_utf8_lossy(text)),
    }
}

/// The packed argument of a group, as the header of `lua/offer.lua` says.
fn pack(group: &Group) -> Bytes {
    let mut out: Vec<u8> = Vec::with_capacity(group.members.len() + group.ends.len() * 16 + 64);
    // Writing to a Vec cannot fail.
    let _ = rmp::encode::write_array_len(&mut out, if group.name.is_some() { 6 } else { 4 });
    string(&mut out, &group.queue);
    match group.configured {
        Some(configured) => {
            let _ = rmp::encode::write_array_len(&mut out, 2);
            string(&mut out, configured.format.as_bytes());
            string(&mut out, configured.order_list.as_bytes());
        }
        None => string(&mut out, b""),
    }
    let same = group
        .dues
        .first()
        .filter(|first| group.dues.iter().all(|due| due == *first));
    if let Some(due) = same {
        let _ = rmp::encode::write_sint(&mut out, due.packed());
    } else {
        let _ = rmp::encode::write_array_len(&mut out, group.dues.len() as u32);
        for due in &group.dues {
            let _ = rmp::encode::write_sint(&mut out, due.packed());
        }
    }
    let _ = rmp::encode::write_array_len(&mut out, group.ends.len() as u32);
    let mut start = 0;
    for &end in &group.ends {
        string(&mut out, group.members.get(start..end).unwrap_or_default());
        start = end;
    }
    if let Some((name, mode)) = &group.name {
        string(&mut out, name);
        string(
            &mut out,
            match mode {
                NameMode::Replace => b"",
                NameMode::Nx => b"NX",
                NameMode::Xx => b"XX",
            },
        );
    }
    Bytes::from(out)
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    let _ = rmp::encode::write_str_len(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}
