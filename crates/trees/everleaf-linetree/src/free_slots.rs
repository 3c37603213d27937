//! Slots without an entry: where a new one goes, and what one that goes leaves behind (I3).
//!
//! None of these stores is flushed here: each is to a line that the caller flushes. Each is right
//! by itself, so that it makes no difference which of them are durable.

use everleaf_pmem::{LINE, Line, Media, planted};

use super::layout::{KeyWord, Leaf, Slot, Wanted, home_of, window};
use everleaf_tree::key::TreeKey;

/// The first slot without an entry in the window of a key: all lines before its own are full.
#[inline(always)]
pub(super) fn free_in<'p, M: Media, const LINES: usize>(
    media: &M,
    leaf: &'p Leaf<LINES>,
    wanted: Wanted,
) -> Option<Slot<'p>> {
    let mut free = 0;
    for (i, line) in window::<LINES>(wanted.home).enumerate() {
        // Without a branch: which slot is the first is not to be guessed.
        for slot in Slot::all_of(&leaf.lines[line]) {
            let is_free = !media.load(slot.key()).is_entry();
            free |= u64::from(is_free) << (8 * i + 2 * slot.number);
        }
        if free != 0 {
            break;
        }
    }
    let first = (free != 0).then(|| free.trailing_zeros() as usize)?;
    let line = (wanted.home + first / 8) % LINES;
    Some(Slot { line: &leaf.lines[line], number: first % 8 / 2 })
}

/// Prepares a slot without an entry for the one of a key. Where entries may have gone past its
/// line, but none has, its dead slots end searches again. A line that is not durable yet tells
/// nothing: `is_durable` is asked.
#[inline(always)]
pub(super) fn enter<K: TreeKey, M: Media, const LINES: usize>(
    media: &M,
    leaf: &Leaf<LINES>,
    slot: Slot<'_>,
    half: u64,
    is_durable: impl Fn(&Line) -> bool,
) {
    if media.load(slot.key()) == KeyWord::DEAD
        && is_not_passed::<K, M, LINES>(media, leaf, slot, half, is_durable)
    {
        revive(media, slot);
    }
}

/// The key word that a slot gets when its entry goes, and whether that is the last one of its line.
/// A line that is full gets no slot that counts as never used, unless no entry has gone past it, as
/// lines tell that are durable.
#[inline(always)]
pub(super) fn leave<K: TreeKey, M: Media, const LINES: usize>(
    media: &M,
    leaf: &Leaf<LINES>,
    slot: Slot<'_>,
    half: u64,
    is_durable: impl Fn(&Line) -> bool,
) -> (KeyWord, bool) {
    let (mut has_room, mut is_last) = (false, true);
    for other in slot.others() {
        let word = media.load(other.key());
        has_room |= word == KeyWord::NEVER_USED;
        is_last &= !word.is_entry();
    }
    if !has_room && is_not_passed::<K, M, LINES>(media, leaf, slot, half, is_durable) {
        revive(media, slot);
        has_room = true;
    }
    (if has_room || planted(382) { KeyWord::NEVER_USED } else { KeyWord::DEAD }, is_last)
}

/// Whether no entry has gone past the line of a slot: the next line has a slot that was never used,
/// so none is further on, and its own entries are at home there.
#[inline(never)]
fn is_not_passed<K: TreeKey, M: Media, const LINES: usize>(
    media: &M,
    leaf: &Leaf<LINES>,
    slot: Slot<'_>,
    half: u64,
    is_durable: impl Fn(&Line) -> bool,
) -> bool {
    let next = (position(leaf, slot.line) + 1) % LINES;
    if !is_durable(&leaf.lines[next]) && !planted(387) {
        return false;
    }
    let mut has_room = false;
    for slot in Slot::all_of(&leaf.lines[next]) {
        let word = media.load(slot.key());
        has_room |= word == KeyWord::NEVER_USED;
        if word.is_entry() && home_of::<K, LINES>(word, half) != next {
            return false;
        }
    }
    has_room
}

/// The number of a line of a leaf.
fn position<const LINES: usize>(leaf: &Leaf<LINES>, line: &Line) -> usize {
    (std::ptr::from_ref(line).addr() - leaf.lines.as_ptr().addr()) / LINE
}

/// Makes the other dead slots of a line such as were never used.
fn revive<M: Media>(media: &M, slot: Slot<'_>) {
    for other in slot.others().filter(|other| media.load(other.key()) == KeyWord::DEAD) {
        media.store(other.key(), KeyWord::NEVER_USED);
    }
}

/// Whether a leaf has no entry but that of a slot, not even one that is out of its range since a
/// split.
pub(super) fn has_no_other<M: Media, const LINES: usize>(
    media: &M,
    leaf: &Leaf<LINES>,
    slot: Slot<'_>,
) -> bool {
    // From its line on: mostly that one tells, or the next, which is in the cache.
    let own = position(leaf, slot.line);
    let mut slots = (own..own + LINES).flat_map(|line| Slot::all_of(&leaf.lines[line % LINES]));
    slots.all(|other| std::ptr::eq(other.key(), slot.key()) || !media.load(other.key()).is_entry())
}
