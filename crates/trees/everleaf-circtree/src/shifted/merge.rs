//! Merging: entries of a neighbour are put behind the terminator, which is overwritten last.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, site};

use super::super::layout::{State, StateWord};
use super::super::node::Node;
use super::recover::resolved;

/// Stores the key of the first entry that a node with `count` entries takes from a neighbour in the
/// place of the terminator: with it those that stand behind it are entries, durably.
pub(crate) fn commit_taken<M: Media>(media: &M, node: Node<'_>, count: usize, key: u64) {
    media.store(node.key(count), key);
    media.flush(site!("sorted.merge.M2.key"), node.key(count));
    media.fence(site!("sorted.merge.M2.taken"));
}

/// Whether the node that a log of a merge speaks of has the entries of both; `absorbed`: its state
/// then.
pub(crate) fn has_absorbed<M: Media>(
    media: &M,
    node: Node<'_>,
    state: State,
    absorbed: StateWord,
) -> Result<bool> {
    let damaged =
        IndexError::Corrupt { offset: node.offset, what: "the log of a merge is damaged" };
    let count = absorbed.open(node.slots()).ok_or(damaged)?.count;
    Ok(resolved(media, node, state)?.len() == usize::from(count))
}
