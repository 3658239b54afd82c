//! Reading of many queues: one call of a script where there is one Redis, one for each slot of a
//! Cluster.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use crate::store::answer::Answer;
use crate::store::delivery::some_of;
use crate::store::link::LinkError;
use crate::store::node::{Asker, Node, unanswered};
use crate::store::router::Router;
use crate::store::script::Script;
use crate::store::{Store, StoreError};

/// Calls that are under way at one time.
const CALLS_AT_ONCE: usize = 64;

/// What a script of many queues is asked.
pub(super) struct Asked<'a> {
    pub(super) asker: Asker,
    pub(super) script: &'static Script,
    /// Those that it takes once.
    pub(super) once: &'a [Bytes],
    /// Those of each queue, one queue after the other.
    pub(super) each: &'a [Bytes],
    /// An argument for each queue, or none.
    pub(super) args: &'a [Bytes],
    /// So many elements it tells of each.
    pub(super) fields: usize,
}

/// The queues of one slot, by their places among all.
struct SlotAsked {
    slot: u16,
    node: Rc<Node>,
    places: Vec<usize>,
}

impl Store {
    /// Reads of many queues. `read` takes the answer of the queue at a place from the front of what
    /// is left of an answer; `None`: its node cannot be reached. The script may tell of the first
    /// queues only, and so does this; how many it told of.
    ///
    /// # Errors
    /// Redis cannot be reached, or is behind; of a Cluster none of the nodes that are asked.
    pub(super) async fn survey(
        &self,
        asked: Asked<'_>,
        mut read: impl FnMut(usize, Option<&mut Answer>) -> Result<(), StoreError>,
    ) -> Result<usize, StoreError> {
        let width = asked.script.each.len().max(1);
        let queues = asked.each.len() / width;
        if let Router::One { node, .. } = &self.router {
            let keys: Vec<Bytes>;
            let keys = match asked.once {
                [] => asked.each,
                once => {
                    keys = [once, asked.each].concat();
                    &keys
                }
            };
            let call = node.survey(asked.asker, asked.script, keys, asked.args.to_vec());
            let mut answer = call.await?;
            let mut told = 0;
            while !answer.is_empty() && told < queues {
                read(told, Some(&mut answer))?;
                told += 1;
            }
            return Ok(told);
        }
        let mut slots: Vec<SlotAsked> = Vec::new();
        let mut away = Vec::new();
        let mut by_slot = HashMap::new();
        for place in 0..queues {
            let slot = self.slot_of(asked.each.get(place * width..).unwrap_or_default());
            let node = self.router.node(slot).filter(|node| node.calls.is_up());
            let (Some(slot), Some(node)) = (slot, node) else {
                away.push(place);
                continue;
            };
            let at = *by_slot.entry(slot).or_insert_with(|| {
                slots.push(SlotAsked { slot, node, places: Vec::new() });
                slots.len() - 1
            });
            if let Some(slot) = slots.get_mut(at) {
                slot.places.push(place);
            }
        }
        let nodes: BTreeMap<u64, &Rc<Node>> =
            slots.iter().map(|of| (of.node.number, &of.node)).collect();
        // All take them in the same order.
        let mut turns = Vec::with_capacity(nodes.len());
        for node in nodes.into_values() {
            turns.push(node.survey_turn(asked.asker).await?);
        }
        let calls = slots.iter().map(|of| self.survey_slot(&asked, of, width));
        let mut answered = stream::iter(calls).buffered(CALLS_AT_ONCE);
        let mut at = 0;
        let mut reached = slots.is_empty() && queues == 0;
        let mut last = None;
        while let Some(answers) = answered.next().await {
            let Some(of) = slots.get(at) else { break };
            at += 1;
            match answers {
                Ok(answers) => {
                    let mut places = of.places.iter();
                    for mut answer in answers {
                        while !answer.is_empty()
                            && let Some(place) = places.next()
                        {
                            read(*place, Some(&mut answer))?;
                        }
                    }
                    reached = true;
                }
                Err(error) => {
                    last = Some(error);
                    away.extend(&of.places);
                }
            }
        }
        if !reached {
            let down = || format!("Redis cannot be reached{}", self.why_down());
            return Err(last.unwrap_or_else(|| StoreError::Unavailable(down())));
        }
        for place in away {
            read(place, None)?;
        }
        Ok(queues)
    }

    /// Of the queues of one slot, all.
    async fn survey_slot(
        &self,
        asked: &Asked<'_>,
        of: &SlotAsked,
        width: usize,
    ) -> Result<Vec<Answer>, StoreError> {
        let mut answers = Vec::new();
        let mut left = &of.places[..];
        while !left.is_empty() {
            let mut keys = asked.once.to_vec();
            let each = left.iter().filter_map(|at| asked.each.get(at * width..(at + 1) * width));
            keys.extend(each.flatten().cloned());
            Router::keys_in(Some(of.slot), &mut keys);
            let args = left.iter().filter_map(|at| asked.args.get(*at).cloned());
            let args: Vec<Bytes> = args.collect();
            let at_most = self.limits.call_timeout;
            let answered = of.node.calls.eval(asked.script, &keys, &args, at_most).await;
            if let Err(LinkError::Refused(words)) = &answered {
                // It is asked there the next time.
                let _ = self.route(Some(of.slot)).is_elsewhere(words);
            }
            let answer = answered.map_err(unanswered)?.served()?;
            some_of(&answer)?;
            let told = answer.len() / asked.fields;
            answers.push(answer);
            left = left.get(told.max(1)..).unwrap_or_default();
        }
        Ok(answers)
    }
}
