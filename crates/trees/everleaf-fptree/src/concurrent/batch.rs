//! Changing many entries together with what they lead to, in their locked leaves. No other thread
//! sees the entries before what they lead to is durable.

use everleaf_index::{BatchSteps, Changes, Result};
use everleaf_pmem::Media;

use super::ConcurrentFpTree;
use crate::batch::{BatchTree, HeldLeaf, link_all};
use crate::layout::Shape;
use everleaf_tree::key::TreeKey;
use everleaf_tree::version_locks::LockGuard;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Makes the changes of a batch.
    pub(super) fn link_entries(
        &self,
        changes: &Changes<'_, K>,
        steps: &mut dyn BatchSteps,
    ) -> Result<()> {
        link_all(&mut &*self, &self.pool, self.shape, changes, steps)
    }
}

impl<'t, K: TreeKey, M: Media, S: Shape> BatchTree<K, S> for &'t ConcurrentFpTree<K, M, S> {
    /// None where a leaf of the round before it has the same lock; the first has its own.
    type Hold = Option<LockGuard<'t>>;

    fn hold(
        &mut self,
        key: K::Ref<'_>,
        held: &[HeldLeaf<'_, S, Self::Hold>],
    ) -> Option<(u64, Self::Hold)> {
        let (tree, relax) = (*self, wait(self.pool.media()));
        let has = |offset| {
            let mut locked = held.iter().rev().filter_map(|held| held.hold.as_ref());
            locked.any(|locked| tree.locks.is_locked_by(offset, locked))
        };
        loop {
            // By versions: a transaction would wait for leaves that this thread has.
            let (offset, ticket) = tree.inner.find(&relax, key);
            let seen = tree.locks.look(offset);
            let locked = match seen.is_locked() {
                false => seen.try_lock(),
                true if has(offset) => None,
                true if held.is_empty() => {
                    tree.locks.read(&relax, offset);
                    continue;
                }
                true => return None,
            };
            // From here on a ticket that is current stays so (L1).
            if (locked.is_some() || seen.is_locked()) && ticket.is_current() {
                return Some((offset, locked));
            }
            locked.into_iter().for_each(LockGuard::unlock_unchanged);
            tree.restarted();
        }
    }

    fn count(&mut self, hold: &Self::Hold, change: i64) {
        if let Some(locked) = hold {
            locked.count(change);
        }
    }

    fn change(&mut self, key: K::Ref<'_>, new: Option<u64>) -> Result<()> {
        match new {
            Some(word) => self.upsert(key, &[word], &mut [0])?,
            None => self.remove(key, &mut [0])?,
        };
        Ok(())
    }
}
