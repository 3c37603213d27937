//! Workers that any number of threads share: a thread leases a free one for the length of an
//! operation.
//!
//! A thread tries the slots from one on that its stack chooses: it mostly gets the worker that it
//! had before, whose lines and chunks are in its caches, and two threads seldom look at the same
//! slot. No thread waits while a slot is free, and none keeps a slot beyond an operation.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use everleaf_pmem::Media;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::{Pool, PoolError, Worker};

/// What is taken for the size of a thread's stack. If it is wrong, a thread gets a worker that
/// another one has used.
const STACK_BYTES: usize = 2 << 20;
/// More than the calls of one operation take of a stack.
const CALL_BYTES: usize = 64 << 10;

/// A place for a worker, on lines of its own.
type LeaseSlot<M> = CachePadded<Mutex<Option<Worker<M>>>>;

/// Some workers of one pool, made when they are first needed.
pub struct Workers<M: Media> {
    pool: Arc<Pool<M>>,
    slots: Box<[LeaseSlot<M>]>,
}

/// A worker, until this is dropped.
///
/// The next holder may be another thread, and its fence orders nothing of this one: **end with a
/// fence**. Every operation that is durable on return does.
pub struct Lease<'w, M: Media>(MappedMutexGuard<'w, Worker<M>>);

/// Which of some slots this thread tries first. Stacks of threads lie megabytes apart, so the
/// address of what is on one tells them apart, without anything global. A media whose runs must
/// repeat needs the same slots in every run: there it is the first.
#[inline(always)]
pub fn slot_of_thread<M: Media>(media: &M, slots: usize) -> usize {
    if media.is_repeatable() {
        return 0;
    }
    let on_stack = 0_u8;
    slot_of_address((&raw const on_stack).addr(), slots)
}

/// All slots that [`slot_of_thread`] gives this thread within one operation: a stack may cross the
/// border between two of them.
pub fn slots_of_thread<M: Media>(media: &M, slots: usize) -> [usize; 2] {
    if media.is_repeatable() {
        return [0; 2];
    }
    let on_stack = 0_u8;
    let address = (&raw const on_stack).addr();
    [address.saturating_sub(CALL_BYTES), address.saturating_add(CALL_BYTES)]
        .map(|address| slot_of_address(address, slots))
}

/// Neighbours are spread (Fibonacci hashing): the upper bits of the product choose.
#[inline(always)]
const fn slot_of_address(address: usize, slots: usize) -> usize {
    let spread = ((address / STACK_BYTES) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((spread * slots as u64) >> 32) as usize
}

impl<M: Media> Workers<M> {
    /// At most `slots` workers of `pool`.
    pub fn new(pool: Arc<Pool<M>>, slots: usize) -> Self {
        Self { pool, slots: (0..slots).map(|_| CachePadded::new(Mutex::new(None))).collect() }
    }

    /// A worker that no other thread uses. Waits while all are in use.
    ///
    /// # Errors
    /// [`PoolError::WorkersExhausted`] if others hold all of the pool's workers for good, or errors
    /// and panics left all of these in the middle of an operation.
    pub fn lease(&self) -> Result<Lease<'_, M>, PoolError> {
        loop {
            let mut refused = None;
            let mut some = false;
            let (before, from) =
                self.slots.split_at(slot_of_thread(self.pool.media(), self.slots.len()));
            for slot in from.iter().chain(before) {
                // Looked at before it is written to: a slot in use stays in its user's cache.
                let guard = if slot.is_locked() { None } else { slot.try_lock() };
                let Some(mut guard) = guard else {
                    some = true;
                    continue;
                };
                if guard.is_none() {
                    match self.pool.worker() {
                        Ok(worker) => *guard = Some(worker),
                        Err(error) => {
                            refused = Some(error);
                            continue;
                        }
                    }
                }
                // A worker that was left in the middle of an operation keeps its intent for
                // recovery.
                match MutexGuard::try_map(guard, |worker| {
                    worker.as_mut().filter(|worker| !worker.is_busy())
                }) {
                    Ok(worker) => return Ok(Lease(worker)),
                    Err(_) => continue,
                }
            }
            if !some {
                return Err(
                    refused.unwrap_or(PoolError::WorkersExhausted { slots: self.slots.len() })
                );
            }
            self.pool.media().relax();
            // The threads that hold the slots may wait for this processor.
            std::thread::yield_now();
        }
    }
}

impl<M: Media> Workers<M> {
    /// Calls `step` with each worker that no thread has and that was not left in the middle of an
    /// operation.
    pub(crate) fn for_each_idle(
        &self,
        step: impl Fn(&mut Worker<M>) -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        for slot in &self.slots {
            if let Some(mut slot) = slot.try_lock()
                && let Some(worker) = slot.as_mut().filter(|worker| !worker.is_busy())
            {
                step(worker)?;
            }
        }
        Ok(())
    }
}

impl<M: Media> Deref for Lease<'_, M> {
    type Target = Worker<M>;
    fn deref(&self) -> &Worker<M> {
        &self.0
    }
}

impl<M: Media> DerefMut for Lease<'_, M> {
    fn deref_mut(&mut self) -> &mut Worker<M> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Mapped, Region};

    use super::*;
    use crate::{Format, KeyType};

    #[test]
    fn workers_are_shared_by_more_threads_than_there_are() {
        let media =
            Mapped::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap();
        let format = Format { engine: "none".into(), key_type: KeyType::U64, parameters: [0; 8] };
        let pool = Pool::create(media, &format).unwrap();
        let workers = Workers::new(Arc::clone(&pool), 2);
        let (first, second) = (workers.lease().unwrap(), workers.lease().unwrap());
        assert_ne!(first.slot(), second.slot());
        drop((first, second));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope
                    .spawn(|| (0..1000).for_each(|_| assert!(workers.lease().unwrap().slot() < 2)));
            }
        });
        let others: Vec<_> = (0..62).map(|_| pool.worker().unwrap()).collect();
        let mut late = Workers::new(Arc::clone(&pool), 2);
        assert!(matches!(late.lease(), Err(PoolError::WorkersExhausted { .. })));
        drop(others);
        late = Workers::new(pool, 1);
        assert!(late.lease().is_ok());
    }
}
