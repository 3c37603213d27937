//! The nodes that a change has locked.

use super::super::Inner;
use super::super::latches::Latches;
use super::super::nodes::Nodes;
use super::NodeWord;
use crate::key::TreeKey;
use crate::latch;

/// Nodes of a usual change: a few a level. A change of more takes memory for their numbers.
const USUAL: usize = 32;

/// The nodes that a change of many nodes has locked: under the structure lock, or in a transaction.
/// Dropped, they are unlocked.
pub(super) struct Held<'a, K: TreeKey, const CAPACITY: usize, Wait: Fn()> {
    nodes: &'a Nodes<K, CAPACITY>,
    wait: Wait,
    locked: Vec<u32>,
}

impl<'a, K: TreeKey, const CAPACITY: usize, Wait: Fn()> Held<'a, K, CAPACITY, Wait> {
    pub fn new(tree: &'a Inner<K, CAPACITY>, wait: Wait) -> Self {
        Self { nodes: &tree.nodes, wait, locked: Vec::with_capacity(USUAL) }
    }

    /// Unlocks all of them, each with its next version.
    pub fn unlock(&mut self) {
        self.locked.drain(..).for_each(|node| latch::unlock::<NodeWord>(self.nodes.atom(node)));
    }
}

impl<K: TreeKey, const CAPACITY: usize, Wait: Fn()> Latches for Held<'_, K, CAPACITY, Wait> {
    fn change(&mut self, node: u32) {
        if !self.locked.contains(&node) {
            latch::lock::<NodeWord>(self.nodes.atom(node), &self.wait);
            self.locked.push(node);
        }
    }
}

impl<K: TreeKey, const CAPACITY: usize, Wait: Fn()> Drop for Held<'_, K, CAPACITY, Wait> {
    fn drop(&mut self) {
        self.unlock();
    }
}
