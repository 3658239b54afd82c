//! Which node a queue is on: queue -> slot -> node. Nothing outside the store knows more.
//!
//! One Redis is one node, which holds every slot.

use std::ops::RangeInclusive;
use std::rc::Rc;

use redis_protocol::redis_keyslot;

use crate::store::node::Node;

/// The slots of a Redis; a key's follows from the part of it in braces, as Redis Cluster has it.
const SLOTS: RangeInclusive<u16> = 0..=16_383;

pub struct Router {
    first: Rc<Node>,
    /// Each node, and the slots that it holds.
    held: Vec<(Rc<Node>, Vec<RangeInclusive<u16>>)>,
}

impl Router {
    pub(super) fn one(node: Node) -> Self {
        let first = Rc::new(node);
        Self { held: vec![(first.clone(), vec![SLOTS])], first }
    }

    /// The node of a key; all keys of a queue share a slot, and so a node.
    pub(super) fn of(&self, key: &[u8]) -> &Rc<Node> {
        let slot = redis_keyslot(key);
        let holds = |slots: &[RangeInclusive<u16>]| slots.iter().any(|some| some.contains(&slot));
        let held = self.held.iter().find(|(_, slots)| holds(slots));
        held.map_or(&self.first, |(node, _)| node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Rc<Node>> {
        self.held.iter().map(|(node, _)| node)
    }

    /// For what is asked of the whole Redis and not of a key.
    pub(super) fn whole(&self) -> &Rc<Node> {
        &self.first
    }
}
