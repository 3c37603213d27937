//! What a crash left of a node or a record is brought back when a thread first looks at it, under
//! one of some locks that are chosen by its place: its own lock means nothing after a crash. The
//! stamp and the version of what was looked at are of this run, so that is asked with the first
//! words of a look. The first look also tells a damaged node: what can be seen of one node alone is
//! right from then on, and whoever waits for its lock waits for a thread of this run.
//!
//! ```text
//! state of a border node                    action
//! stamp of an epoch that failed             perm := perm_undo
//! undo entry of an epoch that failed        the value := what the entry has
//! undo entry whose epoch has other high     R1: lines 3 and 4 flushed, fence, before the stamp
//!   bits than the new stamp                     changes: else the entry would be of another epoch;
//!                                               in this epoch the node has no new entries: the old
//!                                               stamp may be durable beside them
//! any                                       R2: the undo words say what is there now   order
//!                                           R3: an unlocked version, the stamp of this epoch
//! ```
//! Lost in a crash, all of this is done again: until R3 by the old stamp, then by the new one,
//! whose epoch has failed as well and whose undo words say the same.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, site};
use everleaf_pool::Pool;

use super::Masstree;
use super::epochs::Left;
use super::layout::{Block, LONGER, Node, Onward, Stamp, ValueUndo, Version};
use super::log;
use super::node::At;
use everleaf_tree::key::slices::SliceKey;

/// What is done before the tree is served: where the pool was left, and after a crash the external
/// log of the epoch that failed.
pub(super) fn take_over<M: Media>(pool: &Pool<M>, crashed: bool) -> Result<Left> {
    let mut left = Left::of(pool)?;
    if crashed {
        log::apply(pool, left.next)?;
        left.fail(pool)?;
    }
    Ok(left)
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Whether a node was not looked at in this run. Its version says so too: where the stamp alone
    /// is of this run, it is damaged.
    #[inline(always)]
    pub(super) fn is_unseen(&self, node: &Node) -> bool {
        let (media, epochs) = (self.pool.media(), &self.memory.epochs);
        media.load(&node.stamp).epoch() < epochs.first()
            || !media.load(&node.version).is_of(epochs.run())
    }

    /// The same of a record.
    #[inline(always)]
    pub(super) fn is_unseen_record(&self, record: &Block) -> bool {
        self.pool.media().load(&record.stamp).epoch() < self.memory.epochs.first()
    }

    /// Brings a node back, see the page of this file. Nothing has been written if it is damaged.
    #[cold]
    #[inline(never)]
    pub(super) fn recover_node(&self, at: At<'_>) -> Result<()> {
        let (media, node, epochs) = (self.pool.media(), at.node, &self.memory.epochs);
        let _locked = epochs.gates.recovery_lock(at.offset);
        if !self.is_unseen(node) {
            return Ok(());
        }
        let (stamp, epoch) = (media.load(&node.stamp), epochs.current());
        let is_border = self.inspect(at, stamp)?;
        let crosses = is_border && !ValueUndo::in_common(stamp.epoch(), epoch);
        // It means nothing after a crash. Readers ask the stamp as well, which comes last.
        media.store(&node.version, Version::fresh(is_border, epochs.run()));
        if is_border {
            if epochs.has_failed(stamp.epoch()) {
                media.store(&node.perm, media.load(&node.perm_undo));
            }
            let had_entries = [0, 1].map(|half| self.recover_value(at, half, stamp.epoch()));
            if crosses && had_entries != [false; 2] {
                for half in [0, 1] {
                    let entry = node.undo_of_half(half);
                    media.flush(site!("masstree.recover.R1.line"), entry);
                }
                media.fence(site!("masstree.recover.R1.fence"));
            }
            media.store(&node.perm_undo, media.load(&node.perm));
            media.order(site!("masstree.recover.R2.order"));
        }
        let new = Stamp::of(epochs.now()).with_line(3).with_line(4);
        media.store(&node.stamp, if crosses { new.crossed() } else { new });
        self.memory.note(at.offset, 0);
        Ok(())
    }

    /// Whether a node that is to be recovered is a border node.
    ///
    /// # Errors
    /// It is nothing that an end of an epoch leaves: it is of an epoch that is still to come, of no
    /// kind, or its keys do not ascend. What is seen in this run needs no such look any more.
    fn inspect(&self, at: At<'_>, stamp: Stamp) -> Result<bool> {
        let (media, node) = (self.pool.media(), at.node);
        let damaged = |what| IndexError::Corrupt { offset: at.offset, what };
        if stamp.epoch() >= self.memory.epochs.first() {
            return Err(damaged("a node is of an epoch that has not begun"));
        }
        let is_border =
            media.load(&node.meta).is_border().ok_or(damaged("a node is of no kind"))?;
        if !is_border {
            let ascends = self.contents(at).0.is_sorted_by(|a, b| a < b);
            return if ascends { Ok(false) } else { Err(damaged("keys of a node do not ascend")) };
        }
        let failed = self.memory.epochs.has_failed(stamp.epoch());
        let perm = media.load(if failed { &node.perm_undo } else { &node.perm });
        if !perm.is_sound(Self::SLOTS) {
            return Err(damaged("a permutation names a slot twice, or one that there is not"));
        }
        let keys: Vec<_> = self.entries_in(at, perm).iter().map(|e| (e.slice, e.code)).collect();
        let ascend = keys.is_sorted_by(|a, b| a < b) && keys.iter().all(|key| key.1 <= LONGER);
        if ascend { Ok(true) } else { Err(damaged("keys of a node do not ascend")) }
    }

    /// Brings back the value of an undo entry; whether there was one.
    fn recover_value(&self, at: At<'_>, half: usize, beside: u64) -> bool {
        let media = self.pool.media();
        let cell = at.node.undo_of_half(half);
        let undo = media.load(cell);
        let Some((slot, value)) = undo.entry(half) else { return false };
        if self.memory.epochs.has_failed(undo.epoch(beside)) {
            media.store(at.node.value::<DURABLE>(slot), value);
            media.order(site!("masstree.recover.R2.value"));
        }
        media.store(cell, ValueUndo::NONE);
        true
    }

    /// The same of a record.
    #[cold]
    #[inline(never)]
    pub(super) fn recover_record(&self, offset: u64, record: &Block) -> Result<()> {
        let (media, epochs) = (self.pool.media(), &self.memory.epochs);
        let _locked = epochs.gates.recovery_lock(offset);
        let stamp = media.load(&record.stamp);
        if !self.is_unseen_record(record) {
            return Ok(());
        }
        if epochs.has_failed(stamp.epoch()) {
            media.store(&record.value, media.load(&record.value_undo));
        }
        media.store(&record.value_undo, media.load(&record.value));
        media.order(site!("masstree.recover.R2.record"));
        media.store(&record.stamp, Stamp::of(epochs.now()));
        self.memory.note(offset, 1);
        Ok(())
    }

    /// Looks at everything, so that nothing has a stamp of a failed epoch when this epoch has
    /// ended. No other operation may run meanwhile.
    pub(super) fn recover_all(&self) -> Result<()> {
        let media = self.pool.media();
        let (mut nodes, mut left) = (vec![self.root], self.memory.max_nodes());
        while let Some(offset) = nodes.pop() {
            let what = "there are more nodes than there is memory for";
            left = left.checked_sub(1).ok_or(IndexError::Corrupt { offset, what })?;
            let at = At { node: self.memory.node(offset)?, offset };
            if self.is_unseen(at.node) {
                self.recover_node(at)?;
            }
            if media.load(&at.node.meta).is_border() != Some(true) {
                nodes.extend(self.contents(at).1);
                continue;
            }
            let longer = self.entries(at).into_iter().filter(|entry| entry.code == LONGER);
            for entry in longer {
                match Onward::of(entry.word) {
                    Onward::Layer(root) => nodes.push(root),
                    Onward::Record(record) => {
                        self.own_record(record)?;
                    }
                }
            }
        }
        self.memory.touch_all()
    }
}
