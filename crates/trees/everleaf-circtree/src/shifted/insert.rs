//! FAST: inserting by shifting the greater entries up, from the last one on, so that after every
//! store the array says what it holds.
//!
//! Where the moved entries and the new one come to lie in `n` lines: n flushes, n fences; one more
//! of each where the terminator moves into a line of its own (one in four). Into an empty node: 2
//! and 2.

use everleaf_pmem::{Counter, Media, planted, site, unless_planted};

use super::super::layout::State;
use super::super::node::Node;
use everleaf_tree::key::TreeKey;

/// Puts an entry before position `at` of a node that has room, at rest. No other thread has the
/// node.
#[inline]
pub(crate) fn insert_entry<K: TreeKey, M: Media>(
    media: &M,
    node: Node<'_>,
    state: State,
    at: usize,
    (key, value): (u64, u64),
) {
    let count = usize::from(state.count);
    let after = node.at_rest(state.level, 0, count + 1);
    if count == 0 {
        return insert_first::<K, M>(media, node, after, key, value);
    }
    if count + 1 < node.slots() {
        // F0: the terminator, once more. Crash: the first one counts.
        unless_planted!(249, media.store(node.key(count + 1), 0));
        if !Node::share_line(count, count + 1) {
            media.flush(site!("fastfair.insert.F0.terminator"), node.key(count + 1));
            media.fence(site!("fastfair.insert.F0.fence"));
        }
    }
    // F1: the moves, the last entry first; value before key. Crash: the lower one of two slots with
    // the same key is a hole, or there is none yet.
    for slot in (at..count).rev() {
        let (key, value) = node.load(media, slot);
        media.store(node.value(slot + 1), value);
        media.order(site!("fastfair.insert.F1.key"));
        media.store(node.key(slot + 1), key);
        if Node::share_line(slot, slot + 1) {
            media.order(site!("fastfair.insert.F1.order"));
        } else {
            media.flush(site!("fastfair.insert.F1.line"), node.key(slot + 1));
            media.fence(site!("fastfair.insert.F1.fence"));
        }
    }
    // F2 COMMIT: the entry, its key last: into the hole, or in place of the terminator.
    planted!(247, media.store(node.key(at), key));
    media.store(node.value(at), value);
    media.order(site!("fastfair.insert.F2.order"));
    media.store(node.key(at), key);
    media.flush(site!("fastfair.insert.F2.entry"), node.key(at));
    media.fence(site!("fastfair.insert.F2.fence"));
    // F3: the copy of the count, and no record waits for an entry. Not flushed: the next opening
    // believes no copy, and recovery finds the record among the entries.
    media.store(&node.head.state, after.seal());
    if K::RECORDS {
        media.store(&node.head.key, 0);
    }
    media.count(Counter::EntriesShifted, (count - at) as u64);
}

/// Stores the terminator of a node that has so many entries, at least one; false if it is full and
/// has none. No flush.
pub(crate) fn terminate<M: Media>(media: &M, node: Node<'_>, count: usize) -> bool {
    let has_room = count < node.slots();
    if has_room {
        media.store(node.key(count), 0);
    }
    has_room
}

/// The first entry of an empty node.
fn insert_first<K: TreeKey, M: Media>(
    media: &M,
    node: Node<'_>,
    after: State,
    key: u64,
    value: u64,
) {
    // Z1: the entry and the terminator. Crash: the header says that there is nothing.
    media.store(node.value(0), value);
    media.store(node.key(0), key);
    terminate(media, node, 1);
    media.flush(site!("fastfair.insert.Z1.entry"), node.key(0));
    media.fence(site!("fastfair.insert.Z1.fence"));
    // Z2 COMMIT: not empty.
    media.store(&node.head.state, after.seal());
    if K::RECORDS {
        media.order(site!("fastfair.insert.Z2.order"));
        media.store(&node.head.key, 0);
    }
    media.flush(site!("fastfair.insert.Z2.header"), &node.head.state);
    media.fence(site!("fastfair.insert.Z2.fence"));
}
