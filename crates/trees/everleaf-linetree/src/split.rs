//! Making room in a leaf: the upper half of its keys goes to a new leaf.
//!
//! Flushes: the lines of the new leaf and its head, 2 fences. What has moved is not taken out of
//! the old leaf durably: it is out of its range.

use std::sync::atomic::Ordering;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Line, Media, PPtr, Word, planted, prefetch_to_write};

use super::LineTree;
use super::layout::{KeyWord, Leaf, MAX_ENTRIES, Slot, half_of, last_before};
use super::publish::publish;
use super::search::LockedLeaf;
use super::split_halves::{Draft, Entry};
use everleaf_tree::inner::Prepared;
use everleaf_tree::key::TreeKey;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Makes room in a locked leaf where the window of `key` is full, and unlocks it. When the pool
    /// or the memory is full nothing has changed.
    #[cold]
    pub(super) fn make_room(&self, locked: LockedLeaf<'_, LINES>, key: K::Ref<'_>) -> Result<()> {
        if K::RECORDS {
            return self.make_room_in_records(locked, key);
        }
        let media = self.pool.media();
        let upper = self.upper_bound(key).map(|upper| K::word(K::borrow(&upper), 0));
        let (half, last) = (half_of(K::word(key, 0)), last_before(upper));
        let is_covered = |word: &KeyWord| *word <= last;
        let draft = Draft::of::<K, M>(media, locked.leaf, half);
        let mut words = [KeyWord::NEVER_USED; MAX_ENTRIES];
        let count = draft.words(&mut words);
        let words = &mut words[..count];
        if !words.iter().all(is_covered) && !planted(383) {
            // A crash has left what a split has moved: there is room.
            take_out(media, locked.leaf, draft, |(word, _)| is_covered(&word), |_| ());
            return Ok(());
        }
        let (new, middle) = (KeyWord::of(K::word(key, 0)), count / 2);
        // Ascending keys fill leaves: the new leaf begins with this one.
        let ascending = last == KeyWord::GREATEST && words.iter().all(|word| *word < new);
        let separator = match ascending {
            true => new,
            false if middle > 0 => *words.select_nth_unstable(middle).1,
            false => return Err(IndexError::Corrupt { offset: locked.offset, what: NO_ENTRIES }),
        };
        self.split(locked, draft, separator, half)
    }

    /// Moves all keys from `separator` on to a new leaf.
    fn split(
        &self,
        locked: LockedLeaf<'_, LINES>,
        draft: Draft<LINES>,
        separator: KeyWord,
        half: u64,
    ) -> Result<()> {
        let (media, relax) = (self.pool.media(), wait(self.pool.media()));
        // All that may be refused comes first: room in the inner nodes, then in the pool.
        let lower_bound = separator.number(half);
        let prepared = self.inner.prepare(&relax, K::of(lower_bound, &[]), locked.offset)?;
        let new_offset = self.stock.take(media)?;
        let new = self.leaf(new_offset)?;
        // Its lines come into the cache while it is drafted.
        prefetch_to_write(&new.head);
        new.lines.iter().for_each(prefetch_to_write);
        let mut moved = draft.clone();
        moved.keep(|(word, _)| word >= separator);
        moved.pull_home();
        moved.mark_passed();
        publish(media, new, &moved, lower_bound, PPtr::NULL);

        // S3: what has moved goes out of the old leaf; not flushed, for it is out of its range.
        // Crash: it is still there, and takes room until it is found there.
        take_out(media, locked.leaf, draft, |(word, _)| word < separator, |_| ());
        self.enter(prepared, new_offset);
        // Only now: a thread that waits for this leaf finds its keys' new place.
        drop(locked.guard);
        Ok(())
    }

    /// A new leaf becomes known to the inner nodes.
    pub(super) fn enter(&self, prepared: Prepared<'_, '_, K>, new_offset: u64) {
        let (media, relax) = (self.pool.media(), wait(self.pool.media()));
        let splits = self.inner.insert(&relax, prepared, new_offset);
        self.leaves.fetch_add(1, Ordering::Relaxed);
        media.count(Counter::LeafSplits, 1);
        media.count(Counter::InnerSplits, splits);
    }
}

/// Why a leaf cannot be split.
pub(super) const NO_ENTRIES: &str = "a leaf without room has too few keys to be split";

/// Takes all but some entries out of a leaf that holds what the draft has, and calls `changed` with
/// each line that this changes. No flush.
pub(super) fn take_out<M: Media, const LINES: usize>(
    media: &M,
    leaf: &Leaf<LINES>,
    mut draft: Draft<LINES>,
    stays: impl Fn(Entry) -> bool,
    changed: impl Fn(&Line),
) {
    draft.keep(stays);
    draft.mark_passed();
    for (line, words) in leaf.lines.iter().zip(draft.lines()) {
        let mut is_changed = false;
        for slot in Slot::all_of(line) {
            let word = KeyWord::from_word(words[2 * slot.number]);
            if media.load(slot.key()) != word {
                media.store(slot.key(), word);
                is_changed = true;
            }
        }
        if is_changed {
            changed(line);
        }
    }
}
