//! Epochs: which one it is, what keeps it from ending, and which ones failed.
//!
//! A thread that changes anything passes a gate first, and the epoch does not end before it has
//! passed out. There is a gate for each of several threads. To end an epoch all gates are closed,
//! and all recovery locks are taken, since a reader that recovers a node writes to it. A gate that
//! is closed lets a thread through only while another one is behind it, and after a wait: a thread
//! that is behind the gate already may pass it once more.
//!
//! # The end of an epoch
//! ```text
//! E1  lines that were changed, the number of keys       flush each, fence
//!     Crash: the epoch has failed.
//! E2  COMMIT: the pool's epoch := this one              flush, fence (the pool's E3)
//!     Crash: it has ended. What undoes it does not count any more.
//! E3  the next epoch begins; its log overwrites the log of this one
//! ```
//! All threads that write wait meanwhile. Nothing of the next epoch may be written before E2: it
//! would overwrite what undoes this one.
//!
//! # Failed epochs
//! An epoch in which a crash happened has failed, for ever: a node that was changed in it may first
//! be seen much later. Numbers are not used again. After a crash:
//! ```text
//! F1  the external log of the failed epoch is applied   flush each, fence
//!     Crash: it is applied again.
//! F2  the range of failed epochs, behind the last one   flush, fence
//!     Crash: nothing reads it.
//! F3  COMMIT: the number of ranges                      flush, fence
//!     Or, where no epoch has ended since the last crash, that range gets longer: one store.
//!     Crash: the first epoch of this run has failed as well.
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_index::{EpochGuard, Epochs as Unpin, IndexError};
use everleaf_pmem::{Media, site};
use everleaf_pool::Pool;
use parking_lot::{Mutex, MutexGuard};

use super::layout::{Anchor, FAILED_RANGES};

/// Gates, and recovery locks.
const GATES: usize = 64;
/// What is taken for the size of a thread's stack.
const STACK_BYTES: usize = 2 << 20;
/// A gate is closed: an epoch ends.
const CLOSED: u64 = 1 << 63;
/// How often a thread looks at a closed gate before it joins those behind it.
const PATIENCE: u32 = 1 << 10;
/// With fewer places for ranges than this left, all nodes are recovered and the ranges forgotten.
const RANGES_LEFT: usize = 8;

/// A range of failed epochs: behind the first number, up to the second.
type Range = (u64, u64);

/// The epochs of a tree.
pub(super) struct Epochs<M: Media> {
    pool: Arc<Pool<M>>,
    current: CachePadded<AtomicU64>,
    /// The first one of this run: what has an earlier stamp was not looked at since.
    first: u64,
    failed: Vec<Range>,
    gates: Box<[CachePadded<AtomicU64>]>,
    recovery: Box<[CachePadded<Mutex<()>>]>,
    closing: Mutex<()>,
    /// Guards that callers hold.
    guards: AtomicUsize,
}

/// Where a pool was left.
pub(super) struct Left {
    /// Keys at the end of the last epoch that ended.
    pub keys: u64,
    failed: Vec<Range>,
    durable: u64,
    /// The epoch that was under way, or would have been the next.
    pub next: u64,
}

/// While it lives, the epoch does not end.
#[must_use = "the epoch may end as soon as it is dropped"]
pub(super) struct Pin<'e>(&'e AtomicU64);

impl Drop for Pin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Left {
    /// Reads where a pool was left.
    pub fn of<M: Media>(pool: &Pool<M>) -> Result<Self, IndexError> {
        let (anchor, media) = (pool.index_root::<Anchor>()?, pool.media());
        let durable = pool.durable_epoch()?;
        let ended: [u64; 4] = std::array::from_fn(|i| media.load(&anchor.ended[i]));
        let of_durable = ended.chunks(2).find(|pair| pair[0] == durable);
        let is_new = media.load(&anchor.arenas) == 0;
        let what = "its number of keys is of no epoch that ended";
        let keys = match of_durable {
            Some(pair) => pair[1],
            None if is_new => 0,
            None => return Err(IndexError::Corrupt { offset: 0, what }),
        };
        let count = media.load(&anchor.failed_count) as usize;
        let words = anchor.failed.chunks(2).take(count);
        let failed: Vec<Range> =
            words.map(|pair| (media.load(&pair[0]), media.load(&pair[1]))).collect();
        let ascends = failed.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        let sound = count <= FAILED_RANGES && ascends && failed.iter().all(|(a, b)| a < b);
        if !sound || failed.last().is_some_and(|(after, _)| *after > durable) {
            let what = "its list of failed epochs is out of order";
            return Err(IndexError::Corrupt { offset: 0, what });
        }
        let next = durable.max(failed.last().map_or(0, |range| range.1)) + 1;
        Ok(Self { keys, failed, durable, next })
    }

    /// F2 and F3: the epoch that was under way has failed. The log was applied.
    pub fn fail<M: Media>(&mut self, pool: &Pool<M>) -> Result<(), IndexError> {
        let (anchor, media) = (pool.index_root::<Anchor>()?, pool.media());
        let (durable, next) = (self.durable, self.next);
        match self.failed.last_mut() {
            Some((after, last)) if *after == durable => {
                *last = next;
                let at = 2 * self.failed.len() - 1;
                media.store(&anchor.failed[at], next);
                media.flush(site!("masstree.fail.F3.longer"), &anchor.failed[at]);
            }
            _ => {
                let at = 2 * self.failed.len();
                let Some([after, last]) = anchor.failed.get(at..at + 2) else {
                    let what = "its list of failed epochs is full";
                    return Err(IndexError::Corrupt { offset: 0, what });
                };
                media.store(after, durable);
                media.store(last, next);
                media.flush(site!("masstree.fail.F2.range"), after);
                media.fence(site!("masstree.fail.F2.fence"));
                self.failed.push((durable, next));
                media.store(&anchor.failed_count, self.failed.len() as u64);
                media.flush(site!("masstree.fail.F3.count"), &anchor.failed_count);
            }
        }
        media.fence(site!("masstree.fail.F3.fence"));
        self.next += 1;
        Ok(())
    }

    /// Whether there are so many ranges that they are to be forgotten.
    pub fn is_nearly_full(&self) -> bool {
        self.failed.len() + RANGES_LEFT > FAILED_RANGES
    }
}

impl<M: Media> Epochs<M> {
    /// Of a pool that was left so.
    pub fn begin(pool: &Arc<Pool<M>>, left: Left) -> Self {
        Self {
            pool: Arc::clone(pool),
            current: CachePadded::new(AtomicU64::new(left.next)),
            first: left.next,
            failed: left.failed,
            gates: (0..GATES).map(|_| CachePadded::default()).collect(),
            recovery: (0..GATES).map(|_| CachePadded::default()).collect(),
            closing: Mutex::new(()),
            guards: AtomicUsize::new(0),
        }
    }

    /// The epoch that is under way; for a thread that is behind a gate, until it has passed out.
    #[inline(always)]
    pub fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// The first epoch of this run.
    #[inline(always)]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Whether what was done in an epoch is to be undone.
    pub fn has_failed(&self, epoch: u64) -> bool {
        let range = self.failed.partition_point(|(_, last)| *last < epoch);
        self.failed.get(range).is_some_and(|(after, _)| *after < epoch)
    }

    /// Which gate is this thread's. A media whose runs must repeat needs the same in every run.
    fn gate(&self) -> &AtomicU64 {
        let on_stack = 0_u8;
        let stack = (&raw const on_stack).addr() / STACK_BYTES;
        let spread = (stack as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.gates[if M::REPEATABLE { 0 } else { spread as usize % GATES }]
    }

    /// Waits while an epoch ends, and keeps the next one from ending.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        let gate = self.gate();
        let mut looks = 0;
        loop {
            let seen = gate.load(Ordering::Relaxed);
            let open = seen & CLOSED == 0 || (seen != CLOSED && looks > PATIENCE);
            if open
                && gate
                    .compare_exchange(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Pin(gate);
            }
            if !open {
                looks += 1;
                self.pool.media().relax();
            }
        }
    }

    /// The same for a caller of the index.
    pub fn guard(&self) -> EpochGuard<'_> {
        let pin = self.pin();
        let place = self.gates.iter().position(|gate| std::ptr::eq(&raw const **gate, pin.0));
        std::mem::forget(pin);
        self.guards.fetch_add(1, Ordering::Relaxed);
        EpochGuard::new(self, place.unwrap_or(0) as u64)
    }

    /// Whether a caller holds a guard: then a thread may not wait for the epoch's end.
    pub fn is_guarded(&self) -> bool {
        self.guards.load(Ordering::Relaxed) > 0
    }

    /// The lock for recovering what begins at a place. While it is held, the epoch does not end.
    pub fn recovery_lock(&self, offset: u64) -> MutexGuard<'_, ()> {
        let spread = (offset >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.lock(&self.recovery[spread as usize % GATES])
    }

    fn lock<'l>(&self, lock: &'l Mutex<()>) -> MutexGuard<'l, ()> {
        loop {
            match lock.try_lock() {
                Some(guard) => return guard,
                None => self.pool.media().relax(),
            }
        }
    }

    /// Ends an epoch, unless another thread has ended it meanwhile. `write_back` flushes all that
    /// was changed in it, and returns the number of keys; `ended` is called before anything of the
    /// next epoch is done.
    pub fn end(
        &self,
        epoch: u64,
        write_back: impl FnOnce(u64) -> Result<u64, IndexError>,
        ended: impl FnOnce(),
    ) -> Result<(), IndexError> {
        let _closing = self.lock(&self.closing);
        if self.current() > epoch {
            return Ok(());
        }
        for gate in &self.gates {
            gate.fetch_or(CLOSED, Ordering::Relaxed);
        }
        for gate in &self.gates {
            while gate.load(Ordering::Acquire) != CLOSED {
                self.pool.media().relax();
            }
        }
        let recovering: Vec<_> = self.recovery.iter().map(|lock| self.lock(lock)).collect();
        let done = write_back(epoch).and_then(|keys| self.commit(epoch, keys));
        if done.is_ok() {
            ended();
            self.current.store(epoch + 1, Ordering::Release);
        }
        drop(recovering);
        for gate in &self.gates {
            gate.fetch_and(!CLOSED, Ordering::Release);
        }
        done
    }

    /// E1, but for the lines of the tree, and E2.
    fn commit(&self, epoch: u64, keys: u64) -> Result<(), IndexError> {
        let (anchor, media) = (self.pool.index_root::<Anchor>()?, self.pool.media());
        let durable = self.pool.durable_epoch()?;
        // The pair that the last end of an epoch does not need.
        let place = if media.load(&anchor.ended[0]) == durable { 2 } else { 0 };
        media.store(&anchor.ended[place + 1], keys);
        media.store(&anchor.ended[place], epoch);
        media.flush(site!("masstree.epoch.E1.keys"), &anchor.ended[place]);
        media.fence(site!("masstree.epoch.E1.fence"));
        Ok(self.pool.commit_epoch(epoch)?)
    }

    /// Forgets the ranges of failed epochs: nothing has a stamp of one of them any more.
    pub fn forget(&mut self) -> Result<(), IndexError> {
        let (anchor, media) = (self.pool.index_root::<Anchor>()?, self.pool.media());
        media.store(&anchor.failed_count, 0);
        media.flush(site!("masstree.forget.count"), &anchor.failed_count);
        media.fence(site!("masstree.forget.fence"));
        self.failed.clear();
        Ok(())
    }
}

impl<M: Media> Unpin for Epochs<M> {
    fn unpin(&self, number: u64) {
        self.guards.fetch_sub(1, Ordering::Relaxed);
        self.gates[number as usize % GATES].fetch_sub(1, Ordering::Release);
    }
}
