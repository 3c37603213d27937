//! The memory of leaves that many threads take from and give back to.
//!
//! A leaf that has left the list, and the inner nodes, is in limbo until all threads that were
//! pinned then have left: one of them may still read it, or be about to lock it. Nothing of this is
//! persistent: to recovery every leaf outside the list is free. Threads that are not pinned hold
//! nothing back, and see afterwards whether leaves were made free while they looked (`reuse`).
//!
//! Leaves that threads make room with at the same time are counted. As many as were ever made so at
//! once stay free, or in limbo, when the tree grows: with one for each of these threads a full leaf
//! can be replaced in a full pool. A thread that finds none waits for those that are pinned, and
//! for those that have leaves in hand, a bounded time, without being pinned itself.

use std::collections::VecDeque;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Lease, Pins, PoolError, Worker, Workers};
use parking_lot::{Mutex, MutexGuard};

use crate::groups;
use crate::layout::Shape;
use everleaf_tree::groups::Groups;
use everleaf_tree::key::TreeKey;
use everleaf_tree::reuse::{Glance, Reuse};
use everleaf_tree::wait::wait;

/// Turns of waiting for leaves that may still be read: some tenths of a second.
const TURNS: usize = 400;

/// Leaves in limbo before those that nobody reads are made free, many at a time, as each time voids
/// what threads see that are not pinned; earlier if leaves are wanted.
const LIMBO: usize = 32;

/// What the threads share.
pub(super) struct Stock<M: Media> {
    workers: Workers<M>,
    pins: Pins,
    shape: Shape,
    state: Mutex<State>,
    reuse: Reuse,
}

/// A look at inner nodes and leaves by a thread that is not pinned.
#[derive(Clone, Copy)]
#[must_use]
pub(super) struct Glances<'t> {
    pub blocks: Glance<'t>,
    pub leaves: Glance<'t>,
}

impl Glances<'_> {
    /// Whether nothing that was seen since can have served for anything else.
    #[inline(always)]
    pub fn are_current(self) -> bool {
        self.blocks.is_current() && self.leaves.is_current()
    }
}

pub(super) struct State {
    pub groups: Groups,
    /// Leaves that have left, with the moment at which they did, oldest first.
    pub limbo: VecDeque<(u64, u64)>,
    /// Threads that have leaves in hand, and the most that ever had at once.
    makers: usize,
    max_makers: usize,
}

/// Leaves in hand. Dropped before they are [used](Taken::used) they go back.
#[must_use]
pub(super) struct Taken<'s, M: Media> {
    stock: &'s Stock<M>,
    media: &'s M,
    offsets: [u64; 2],
    count: usize,
}

impl<M: Media> Stock<M> {
    /// The explorer's trees are small: there they are made free at once.
    const KEPT: usize = if M::SCHEDULED { 1 } else { LIMBO };

    pub fn new(workers: Workers<M>, shape: Shape, groups: Groups) -> Self {
        let limbo = VecDeque::new();
        let state = Mutex::new(State { groups, limbo, makers: 0, max_makers: 1 });
        Self { workers, pins: Pins::default(), shape, state, reuse: Reuse::default() }
    }

    /// How often leaves were made free.
    #[inline(always)]
    pub fn reuse(&self) -> &Reuse {
        &self.reuse
    }

    /// A worker, for one change.
    pub fn worker(&self) -> Result<Lease<'_, M>, PoolError> {
        self.workers.lease()
    }

    /// Who reads.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Held by an allocation of a group, too, so a thread of the explorer waits in turns.
    pub fn state(&self, media: &M) -> MutexGuard<'_, State> {
        if !M::SCHEDULED {
            return self.state.lock();
        }
        loop {
            match self.state.try_lock() {
                Some(state) => return state,
                None => media.relax(),
            }
        }
    }

    /// Takes one or two leaves for a change that gives so many back. The caller is not pinned.
    ///
    /// # Errors
    /// The pool is full, and stays so for some time; or it is damaged.
    pub fn take<'s, K: TreeKey>(
        &'s self,
        media: &'s M,
        count: usize,
        returned: usize,
    ) -> Result<Taken<'s, M>> {
        let mut state = self.state(media);
        if state.limbo.len() < Self::KEPT
            && let Some(offsets) = state.pop(count, returned)
        {
            self.reuse.taken();
            return Ok(Taken { stock: self, media, offsets, count });
        }
        drop(state);
        let relax = wait(media);
        let mut refused = None;
        for _ in 0..TURNS {
            let mut worker = self.workers.lease()?;
            let mut state = self.state(media);
            state.ripen(&self.pins, &self.reuse, &mut worker)?;
            loop {
                if let Some(offsets) = state.pop(count, returned) {
                    self.reuse.taken();
                    return Ok(Taken { stock: self, media, offsets, count });
                }
                if refused.is_some() {
                    break;
                }
                match groups::grow::<K, M>(&mut state.groups, &mut worker, self.shape) {
                    Err(IndexError::Pool(error)) if error.is_full() => {
                        refused = Some(error.into());
                    }
                    grown => grown?,
                }
            }
            if state.limbo.is_empty() && state.makers == 0 {
                break;
            }
            drop((state, worker));
            relax();
        }
        Err(refused.unwrap_or(IndexError::Pool(PoolError::PoolFull {
            requested_bytes: count as u64 * self.shape.leaf_bytes(),
        })))
    }

    /// Keeps leaves that have left the list and the inner nodes until nobody reads them.
    pub fn retire(&self, media: &M, leaves: &[u64]) -> Result<()> {
        self.state(media).keep(&self.pins, leaves);
        self.ripen(media)
    }

    fn ripen(&self, media: &M) -> Result<()> {
        let mut worker = self.workers.lease()?;
        self.state(media).ripen(&self.pins, &self.reuse, &mut worker)
    }
}

impl State {
    /// Takes leaves if so many are free, and, where the tree grows, enough stay.
    fn pop(&mut self, count: usize, returned: usize) -> Option<[u64; 2]> {
        let free = self.groups.free().len();
        let most = self.max_makers.max(self.makers + 1);
        let stay = free + self.limbo.len() + returned;
        if free < count || count > returned && stay < count + most {
            return None;
        }
        (self.makers, self.max_makers) = (self.makers + 1, most);
        let mut taken = [0; 2];
        taken[..count.min(2)].fill_with(|| self.groups.pop().unwrap_or_default());
        Some(taken)
    }

    fn keep(&mut self, pins: &Pins, leaves: &[u64]) {
        let moment = pins.moment();
        self.limbo.extend(leaves.iter().map(|leaf| (moment, *leaf)));
    }

    /// Makes leaves free that nobody reads any more.
    fn ripen<M: Media>(
        &mut self,
        pins: &Pins,
        reuse: &Reuse,
        worker: &mut Worker<M>,
    ) -> Result<()> {
        if self.limbo.is_empty() {
            return Ok(());
        }
        let horizon = pins.horizon();
        reuse.freed();
        while let Some((moment, leaf)) = self.limbo.front().copied() {
            if moment >= horizon {
                break;
            }
            self.limbo.pop_front();
            self.groups.give_back(leaf, worker)?;
        }
        Ok(())
    }
}

impl<M: Media> Taken<'_, M> {
    /// The leaves.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets[..self.count]
    }

    /// They belong to the list, and others have left it: in one step, or a thread that looks in
    /// between finds neither these leaves nor somebody to wait for, and refuses for no reason.
    pub fn used(self, left: &[u64]) -> Result<()> {
        let (stock, media) = (self.stock, self.media);
        let mut state = stock.state(media);
        state.makers -= 1;
        state.keep(&stock.pins, left);
        let few = state.limbo.len() < Stock::<M>::KEPT;
        drop(state);
        std::mem::forget(self);
        if few { Ok(()) } else { stock.ripen(media) }
    }
}

impl<M: Media> Drop for Taken<'_, M> {
    fn drop(&mut self) {
        let mut state = self.stock.state(self.media);
        state.makers -= 1;
        // Nobody has seen them.
        self.offsets[..self.count].iter().for_each(|leaf| state.limbo.push_front((0, *leaf)));
    }
}
