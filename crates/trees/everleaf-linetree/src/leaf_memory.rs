//! The memory of leaves that many threads take from and give back to. Nothing of this is
//! persistent: to recovery every leaf that is not live is free.
//!
//! A leaf serves again as soon as it has left the tree: who still reads it without a lock finds
//! that its version has changed.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PPtr, site};
use everleaf_pool::{Lease, PoolError, Workers};
use parking_lot::{Mutex, MutexGuard};

use super::layout::LeafHead;
use everleaf_tree::groups::Groups;

/// What the threads share.
pub(super) struct Stock<M: Media> {
    workers: Workers<M>,
    groups: Mutex<Groups>,
}

impl<M: Media> Stock<M> {
    pub fn new(workers: Workers<M>, groups: Groups) -> Self {
        Self { workers, groups: Mutex::new(groups) }
    }

    /// A worker, for one change.
    pub fn worker(&self) -> Result<Lease<'_, M>, PoolError> {
        self.workers.lease()
    }

    /// Held by an allocation of a group, too, so a thread of the explorer waits in turns.
    pub fn groups(&self, media: &M) -> MutexGuard<'_, Groups> {
        if !M::SCHEDULED {
            return self.groups.lock();
        }
        loop {
            match self.groups.try_lock() {
                Some(groups) => return groups,
                None => media.relax(),
            }
        }
    }

    /// Takes a free leaf, and a group from the pool if there is none.
    ///
    /// # Errors
    /// [`IndexError::Pool`] if the pool is full.
    pub fn take(&self, media: &M) -> Result<u64> {
        let mut groups = self.groups(media);
        match groups.pop() {
            Some(leaf) => Ok(leaf),
            None => take_from_pool(&mut groups, &mut *self.workers.lease()?),
        }
    }

    /// Takes a leaf back that has left the tree. Its group stays where no worker is to be had: the
    /// removal that emptied the leaf is done already, and must not be refused.
    ///
    /// # Errors
    /// The pool is damaged.
    pub fn give_back(&self, media: &M, leaf_offset: u64) -> Result<()> {
        let mut groups = self.groups(media);
        match self.workers.lease() {
            Ok(mut worker) => groups.give_back(leaf_offset, &mut worker),
            Err(_) => {
                groups.keep(leaf_offset);
                Ok(())
            }
        }
    }
}

/// Takes a group from the pool, and one of its leaves.
///
/// # Errors
/// [`IndexError::Pool`] if the pool is full.
pub(super) fn take_from_pool<M: Media>(
    groups: &mut Groups,
    worker: &mut everleaf_pool::Worker<M>,
) -> Result<u64> {
    groups.grow(worker, |media, leaf_offset| {
        // G1: each leaf is free. Crash: the group is not published.
        let head = media.region().at::<LeafHead>(leaf_offset);
        head.into_iter().for_each(|head| free(media, head));
    })?;
    groups.pop().ok_or(IndexError::Corrupt {
        offset: 0,
        what: "a leaf group of the pool is smaller than a leaf",
    })
}

fn free<M: Media>(media: &M, head: &LeafHead) {
    media.store(&head.spare, PPtr::NULL);
    media.store(&head.live, 0);
    media.flush(site!("linetree.group.G1.live"), &head.live);
}
