//! Which node a queue is on: queue -> slot -> node. Nothing outside the store knows more.
//!
//! One Redis is one node, which holds every slot.

use crate::store::node::Node;

pub struct Router {
    node: Node,
}

impl Router {
    pub(super) fn one(node: Node) -> Self {
        Self { node }
    }

    /// The node of a key; all keys of a queue share a slot, and so a node.
    pub(super) fn of(&self, _key: &[u8]) -> &Node {
        &self.node
    }

    /// For what is asked of the whole Redis and not of a key.
    pub(super) fn whole(&self) -> &Node {
        &self.node
    }
}
