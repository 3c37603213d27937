//! Changing many entries together with what they lead to: the whole order of persistence of a
//! batch.
//!
//! ```text
//! P1 COMMIT  the steps': the batch counts                              theirs
//! P2         the entries, in their leaves; in the last round also the
//!            rest of the steps                                         flush each, fence a round
//! P3         the rest of the steps, where they were not in P2          theirs, fence
//! ```
//! An entry commits itself, so there is nothing to prepare. Crash after P1: any mixture of entries
//! that are as they were and as they will be; recovery makes each change once more, as an operation
//! of its own, which changes nothing where it is made already.
//!
//! # Rounds
//! A batch is worked off in the order in which it comes. A *round* is what follows of it as far as
//! the leaves can be locked and each change is one of a line: at most [`MAX_CHANGES`]. The keys of
//! a round go down the tree together, so that their misses overlap, and its leaves stay locked
//! until its fence. What needs a split, or empties a leaf, follows the round as an operation of its
//! own.
//!
//! An entry may go past a line only if all four entries there are durable (I3). So a round also
//! ends before an entry that would go past a line which the round has changed. And such a line does
//! not tell a removal from the line before it that no entry has gone past that.
//!
//! A leaf that another thread has locked is waited for only while this thread has none; else it
//! ends the round. So batches cannot wait for each other.

use std::ptr;

use everleaf_index::{BatchSteps, Changes, Result};
use everleaf_pmem::{Line, Media, planted, site};

use super::LineTree;
use super::free_slots::{enter, free_in, has_no_other, leave};
use super::layout::{half, window};
use super::search::{ABSENT_IN, find_in};
use everleaf_tree::inner::Ticket;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::GROUP;
use everleaf_tree::version_locks::{LockGuard, Seen};

/// Changes of a round at most: a group of keys goes down the tree together.
const MAX_CHANGES: usize = GROUP;

/// What a round has locked and changed.
struct Round<'t> {
    /// The locks, each once.
    guards: Vec<LockGuard<'t>>,
    /// Lines that it has changed, and that are not durable yet.
    lines: Vec<&'t Line>,
    /// Keys that came, without those that went.
    keys: i64,
}

/// What became of a change.
enum Made {
    /// It is made, or there was nothing to do.
    Done,
    /// It must wait for the next round.
    Later,
    /// It must be made by itself, after the round.
    Alone,
}

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Makes the changes of a batch.
    pub(super) fn link_entries(
        &self,
        changes: &Changes<'_, K>,
        steps: &mut dyn BatchSteps,
    ) -> Result<()> {
        let media = self.pool.media();
        debug_assert!(changes.is_sorted_by(|(a, x), (b, y)| (x.is_none(), a) < (y.is_none(), b)));
        changes.iter().try_for_each(|(key, _)| K::admit(*key))?;
        // P1 COMMIT.
        steps.commit()?;
        let mut rest = changes;
        while !rest.is_empty() {
            let mut round = Round { guards: Vec::new(), lines: Vec::new(), keys: 0 };
            let made = self.make_round(&rest[..rest.len().min(MAX_CHANGES)], &mut round);
            let is_last = made.as_ref().is_ok_and(|(made, _)| *made == rest.len());
            let completed = is_last.then(|| steps.complete());
            if is_last || !round.lines.is_empty() {
                media.fence(site!("linetree.batch.P2.fence"));
            }
            round.guards.first().into_iter().for_each(|guard| guard.count(round.keys));
            drop(round);
            completed.transpose()?;
            let (made, alone) = made?;
            rest = &rest[made..];
            if alone && let Some(((key, new), behind)) = rest.split_first() {
                match new {
                    Some(word) => _ = self.upsert(*key, *word)?,
                    None => _ = self.remove(*key)?,
                }
                rest = behind;
                if rest.is_empty() {
                    let completed = steps.complete();
                    media.fence(site!("linetree.batch.P3.fence"));
                    completed?;
                }
            }
        }
        Ok(())
    }

    /// P2: makes as many changes as a round can; how many these are, and whether the one behind
    /// them must be made by itself: so must one that cannot even begin a round.
    fn make_round<'t>(
        &'t self,
        changes: &Changes<'_, K>,
        round: &mut Round<'t>,
    ) -> Result<(usize, bool)> {
        let (mut keys, mut children) = ([K::least(); GROUP], [0; GROUP]);
        let mut tickets = [self.inner.stale_ticket(); GROUP];
        keys.iter_mut().zip(changes).for_each(|(key, change)| *key = change.0);
        let (keys, children) = (&keys[..changes.len()], &mut children[..changes.len()]);
        let tickets = &mut tickets[..changes.len()];
        self.inner.find_many_unvalidated(keys, children, tickets);
        for (key, child) in keys.iter().zip(&*children) {
            self.locks.prefetch_to_lock(*child);
            let _ = self.fetched(*child, Self::wanted(*key), ABSENT_IN);
        }
        for (i, (key, new)) in changes.iter().enumerate() {
            match self.make(*key, *new, (children[i], tickets[i]), round)? {
                Made::Done => {}
                Made::Later => return Ok((i, i == 0)),
                Made::Alone => return Ok((i, true)),
            }
        }
        Ok((changes.len(), false))
    }

    /// Makes one change in the leaf that covers its key, if the ticket still says so.
    fn make<'t>(
        &'t self,
        key: K::Ref<'_>,
        new: Option<u64>,
        (offset, ticket): (u64, Ticket<'_>),
        round: &mut Round<'t>,
    ) -> Result<Made> {
        let (media, wanted, half) = (self.pool.media(), Self::wanted(key), half::<K>(key));
        if !round.guards.iter().any(|guard| self.locks.is_locked_by(offset, guard)) {
            let seen = self.locks.peek(offset);
            let Some(guard) = seen.and_then(Seen::try_lock) else { return Ok(Made::Later) };
            round.guards.push(guard);
        }
        // From here on a ticket that is current stays so.
        if !ticket.is_current() {
            return Ok(Made::Later);
        }
        let leaf = self.leaf(offset)?;
        let is_durable = |line: &Line| !round.lines.iter().any(|other| ptr::eq(line, *other));
        let slot = match (find_in::<K, M, LINES>(&self.pool, leaf, key, wanted)?, new) {
            (None, None) => return Ok(Made::Done),
            (Some(slot), Some(word)) => {
                media.store(slot.value(), word);
                media.flush(site!("linetree.batch.P2.value"), slot.value());
                slot
            }
            (None, Some(word)) => {
                let Some(slot) = free_in(media, leaf, wanted) else { return Ok(Made::Alone) };
                let mut before = window::<LINES>(wanted.home).map(|line| &leaf.lines[line]);
                let mut passed = before.by_ref().take_while(|line| !ptr::eq(*line, slot.line));
                if !passed.all(is_durable) && !planted(386) {
                    return Ok(Made::Later);
                }
                enter::<K, M, LINES>(media, leaf, slot, half, is_durable);
                media.store(slot.value(), word);
                media.order(site!("linetree.batch.P2.order"));
                media.store(slot.key(), wanted.word);
                media.flush(site!("linetree.batch.P2.entry"), slot.key());
                round.keys += 1;
                slot
            }
            (Some(slot), None) => {
                if has_no_other(media, leaf, slot) {
                    return Ok(Made::Alone);
                }
                let (word, _) = leave::<K, M, LINES>(media, leaf, slot, half, is_durable);
                media.store(slot.key(), word);
                media.flush(site!("linetree.batch.P2.removed"), slot.key());
                round.keys -= 1;
                slot
            }
        };
        round.lines.push(slot.line);
        Ok(Made::Done)
    }
}
