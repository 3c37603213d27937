//! Removing by shifting the greater entries down over it; and closing the hole that a crash has
//! left, which is the same from there on.
//!
//! Where the removed entry and those behind it lie in `n` lines: n flushes, n fences; byte-string
//! keys one more of each. The only entry: 1 and 1.

use everleaf_pmem::{Counter, Media, planted, site};

use super::super::layout::State;
use super::super::node::Node;
use everleaf_tree::key::TreeKey;

/// Takes the entry at position `at` from a node at rest; its record, if it has one, is the header's
/// then, and is to be freed. No other thread has the node.
#[inline]
pub(crate) fn remove_entry<K: TreeKey, M: Media>(
    media: &M,
    node: Node<'_>,
    state: State,
    at: usize,
) {
    let count = usize::from(state.count);
    let after = node.at_rest(state.level, 0, count - 1);
    if K::RECORDS {
        media.store(&node.head.key, media.load(node.key(at)));
    }
    if count == 1 {
        if K::RECORDS {
            media.order(site!("fastfair.remove.X1.order"));
        }
        // X1 COMMIT: empty.
        media.store(&node.head.state, after.seal());
        media.flush(site!("fastfair.remove.X1.header"), &node.head.state);
        media.fence(site!("fastfair.remove.X1.fence"));
        return;
    }
    if K::RECORDS {
        // D0: the record is the header's. Crash: an entry has it.
        media.flush(site!("fastfair.remove.D0.header"), &node.head.key);
        media.fence(site!("fastfair.remove.D0.fence"));
    }
    close_hole(media, node, at, count);
    // D4: the copy of the count. Not flushed: the next opening believes no copy.
    media.store(&node.head.state, after.seal());
    media.count(Counter::EntriesShifted, (count - 1 - at) as u64);
}

/// Shifts the entries behind slot `hole` down over it, in an array of so many slots, the hole
/// included; durable when it returns.
pub(super) fn close_hole<M: Media>(media: &M, node: Node<'_>, hole: usize, occupied: usize) {
    let last = occupied - 1;
    for slot in hole..last {
        let (key, value) = node.load(media, slot + 1);
        // D1, of the first move COMMIT: key before value: with the key of its neighbour the slot is
        // a hole. Crash: recovery goes on.
        planted!(248, media.store(node.value(slot), value));
        media.store(node.key(slot), key);
        media.order(site!("fastfair.remove.D1.order"));
        media.store(node.value(slot), value);
        // D2: before the next slot becomes the hole, and this one none.
        if Node::share_line(slot, slot + 1) {
            media.order(site!("fastfair.remove.D2.order"));
        } else {
            media.flush(site!("fastfair.remove.D2.line"), node.key(slot));
            media.fence(site!("fastfair.remove.D2.fence"));
        }
    }
    // D3, of the last entry COMMIT: the terminator.
    media.store(node.key(last), 0);
    media.flush(site!("fastfair.remove.D3.terminator"), node.key(last));
    media.fence(site!("fastfair.remove.D3.fence"));
}
