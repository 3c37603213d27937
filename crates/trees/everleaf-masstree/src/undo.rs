//! Before something of the durable tree changes: what it was is written into its own lines, or the
//! node is copied to the external log. The first change of a node in an epoch also notes it, and
//! the stamp keeps which of its lines are to be flushed when the epoch ends.
//!
//! ```text
//! U1  perm_undo := perm                           order
//! U2  stamp := the epoch                          order
//! U3  a value's undo entry := {slot, value, epoch}    order
//! U4  perm, or the value, changes
//! ```
//! U1, U2 and perm are in one line, U3 and the value in another. After a crash at any moment:
//! * an old stamp: perm was not changed. The undo entry has its own epoch: it tells whether the
//!   value may have been;
//! * the stamp, and the old or the new perm: perm_undo is what it was;
//! * an entry that was free when the epoch began is free again: what was written there is nothing.
//!
//! Nothing of this is needed for a node that is in the external log in this epoch, or is new in it.
//! Only a node that was written back before the end of the epoch is noted once more.

use everleaf_pmem::{LINE, Media, PCell, WORD, planted, site, unless_planted};

use super::Masstree;
use super::layout::{Block, ENTRIES_OF_UNDO_1, Permutation, Stamp, ValueUndo};
use super::node::{At, Step};
use everleaf_tree::key::slices::SliceKey;

/// Words of a node before its keys.
const HEAD_WORDS: usize = LINE / WORD;
/// The line of the first key.
const KEY_LINE: usize = 1;
/// Lines of values: those of the first undo entry, and those of the second.
const VALUE_LINES: [usize; 2] = [3, 4];

/// Which undo entry serves a slot.
const fn half_of(slot: usize) -> usize {
    (slot >= ENTRIES_OF_UNDO_1) as usize
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// U1 and U2: before the permutation of a locked border node changes.
    #[inline(always)]
    pub(super) fn touch(&self, at: At<'_>) -> Step<()> {
        if !DURABLE {
            return Ok(());
        }
        let media = self.pool.media();
        let now = self.memory.epochs.now();
        let stamp = media.load(&at.node.stamp);
        if stamp.moment() == now {
            return Ok(());
        }
        if stamp.epoch() == now.epoch() {
            self.note_again(at.offset, &at.node.stamp, 0);
            return Ok(());
        }
        // The undo entries of values have the high bits of their epochs in the stamp only.
        if !self.logs_in_line || !ValueUndo::in_common(stamp.epoch(), now.epoch()) {
            return self.log(at);
        }
        planted!(281, media.store(&at.node.stamp, Stamp::of(now)));
        media.store(&at.node.perm_undo, media.load(&at.node.perm));
        media.order(site!("masstree.undo.U1.order"));
        media.store(&at.node.stamp, Stamp::of(now));
        media.order(site!("masstree.undo.U2.order"));
        self.memory.note(at.offset, 0);
        Ok(())
    }

    /// A line of this epoch, or what of a node has changed in it (0), was written back, or is being
    /// written back, and changes again.
    #[cold]
    fn note_again(&self, offset: u64, stamp: &PCell<Stamp>, lines: u32) {
        let media = self.pool.media();
        media.store(stamp, media.load(stamp).noted(self.memory.epochs.now()));
        self.memory.note(offset, lines);
    }

    /// U1 to U3: before the value of a live entry of a locked node changes.
    #[inline(always)]
    pub(super) fn touch_value(&self, at: At<'_>, slot: usize) -> Step<()> {
        if !DURABLE {
            return Ok(());
        }
        self.touch(at)?;
        let (media, epoch) = (self.pool.media(), self.memory.epochs.current());
        let was_live = media.load(&at.node.perm_undo).has(slot);
        let stamp = media.load(&at.node.stamp);
        if !stamp.is_logged() && was_live {
            if stamp.is_crossed() {
                return self.log(at);
            }
            let cell = at.node.value_undo(slot);
            let undo = media.load(cell);
            match undo.entry(half_of(slot)).filter(|_| undo.epoch(epoch) == epoch) {
                Some((same, _)) if same == slot => {}
                Some(_) if planted(283) => {}
                Some(_) => return self.log(at),
                None => {
                    let value = media.load(at.node.value::<DURABLE>(slot));
                    let Some(undo) = ValueUndo::of(slot, value, epoch) else {
                        return self.log(at);
                    };
                    media.store(cell, undo);
                    media.order(site!("masstree.undo.U3.order"));
                }
            }
        }
        unless_planted!(282, self.mark_lines(at, &[VALUE_LINES[half_of(slot)]]));
        Ok(())
    }

    /// Before the first free slot of a locked node becomes an entry: if it was one when the epoch
    /// began, the permutation alone does not bring that back.
    #[inline(always)]
    pub(super) fn touch_free_slot(&self, at: At<'_>, perm: Permutation) -> Step<()> {
        if !DURABLE {
            return Ok(());
        }
        self.touch(at)?;
        let (media, slot) = (self.pool.media(), perm.slot(perm.count()));
        if media.load(&at.node.stamp).is_logged() {
            return Ok(());
        }
        if media.load(&at.node.perm_undo).has(slot) && !planted(284) {
            return self.log(at);
        }
        self.mark_lines(at, &[KEY_LINE + slot / HEAD_WORDS, VALUE_LINES[half_of(slot)]]);
        Ok(())
    }

    /// Lines of a touched node that are to be flushed when the epoch ends.
    #[inline(always)]
    fn mark_lines(&self, at: At<'_>, lines: &[usize]) {
        let media = self.pool.media();
        let stamp = media.load(&at.node.stamp);
        let marked = lines.iter().fold(stamp, |stamp, line| stamp.with_line(*line));
        if marked != stamp {
            media.store(&at.node.stamp, marked);
        }
    }

    /// Copies a locked node to the external log, unless that was done in this epoch. On return all
    /// of it may change. Six flushes, one fence.
    pub(super) fn log(&self, at: At<'_>) -> Step<()> {
        if !DURABLE {
            return Ok(());
        }
        let media = self.pool.media();
        let (stamp, now) = (media.load(&at.node.stamp), self.memory.epochs.now());
        if stamp.epoch() == now.epoch() && stamp.is_logged() {
            if stamp.moment() != now {
                self.note_again(at.offset, &at.node.stamp, 0);
            }
            return Ok(());
        }
        self.memory.log(at.node, at.offset)?;
        if media.load(&at.node.meta).is_border() == Some(true) {
            // They may be of epochs whose high bits the new stamp does not have.
            for half in [0, 1] {
                media.store(at.node.undo_of_half(half), ValueUndo::NONE);
            }
            media.store(&at.node.perm_undo, media.load(&at.node.perm));
        }
        media.store(&at.node.stamp, Stamp::logged(now));
        if stamp.moment() != now {
            self.memory.note(at.offset, 0);
        }
        Ok(())
    }

    /// The same as U1, U2 for the value of a record, of any 64 bits.
    pub(super) fn touch_record(&self, offset: u64, record: &Block) {
        if !DURABLE {
            return;
        }
        let (media, now) = (self.pool.media(), self.memory.epochs.now());
        let stamp = media.load(&record.stamp);
        if stamp.epoch() == now.epoch() {
            if stamp.moment() != now {
                self.note_again(offset, &record.stamp, 1);
            }
            return;
        }
        unless_planted!(285, media.store(&record.value_undo, media.load(&record.value)));
        media.order(site!("masstree.undo.V1.order"));
        media.store(&record.stamp, Stamp::of(now));
        media.order(site!("masstree.undo.V2.order"));
        self.memory.note(offset, 1);
    }
}
