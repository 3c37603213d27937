//! What keeps an epoch from ending.
//!
//! A thread that changes anything passes a gate first, and the epoch does not end before it has
//! passed out. There is a gate for each of several threads. To end an epoch all gates are closed,
//! and all recovery locks are taken, since a reader that recovers a node writes to it. A thread
//! that holds the guard of a caller is behind a gate already, and must pass one once more for each
//! operation: so after a wait a closed gate lets threads through while a guard is behind it.
//!
//! A guard under which many keys are changed may be held for long. So the end first waits for those
//! guards alone, and lets no new one in; other threads write meanwhile.
//!
//! Notes of what was changed are taken in the middle of an epoch too. Then no operation passes a
//! gate for a moment, and those that have are waited for; but not guards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::{Backoff, CachePadded};
use everleaf_index::{EpochGuard, Epochs as Unpin};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, slot_of_thread, slots_of_thread};
use parking_lot::{Mutex, MutexGuard};

/// Gates, and recovery locks.
const GATES: usize = 64;
/// A gate is closed: an epoch ends.
const CLOSED: u64 = 1 << 63;
/// No operation passes a gate, whoever holds a guard: notes are taken.
const PAUSED: u64 = 1 << 62;
/// What a thread adds to its gate.
const PINNED: u64 = 1;
/// What a thread adds that holds a guard: itself, and the guard.
const GUARDED: u64 = 1 << GUARDS | PINNED;
const GUARDS: u32 = 32;
/// A guard under which more keys than this are changed is waited for while others write.
const FEW_CHANGES: usize = 64;
/// In the number of such a guard, beside that of its gate.
const LONG: u64 = 1 << 32;

/// Gates that are closed, or paused, while it lives.
pub(super) struct Shut<'e> {
    gates: &'e [CachePadded<AtomicU64>],
    how: u64,
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        for gate in self.gates {
            gate.fetch_and(!self.how, Ordering::Release);
        }
    }
}

/// No operation is under way while it lives, and none recovers anything.
pub(super) struct Stand<'e> {
    _shut: Shut<'e>,
    _recovering: Vec<MutexGuard<'e, ()>>,
}

/// The gates of a tree, and the locks for recovering its nodes.
pub(super) struct Gates<M: Media> {
    pool: Arc<Pool<M>>,
    gates: Box<[CachePadded<AtomicU64>]>,
    /// The gate of guards under which many keys are changed, which pass one of the others besides.
    long_guards: [CachePadded<AtomicU64>; 1],
    recovery: Box<[CachePadded<Mutex<()>>]>,
    /// Looks at closed gates.
    waits: CachePadded<AtomicU64>,
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

/// Whether a gate of which this was seen lets nobody in who is not behind it.
const fn is_shut(seen: u64) -> bool {
    seen & (CLOSED | PAUSED) != 0
}

/// Guards behind a gate of which this was seen.
const fn guards(seen: u64) -> u64 {
    (seen & !(CLOSED | PAUSED)) >> GUARDS
}

/// Operations behind it.
const fn operations(seen: u64) -> u64 {
    (seen & ((1 << GUARDS) - 1)) - guards(seen)
}

impl<M: Media> Gates<M> {
    /// Of a tree in this pool.
    pub fn new(pool: &Arc<Pool<M>>) -> Self {
        Self {
            pool: Arc::clone(pool),
            gates: (0..GATES).map(|_| CachePadded::default()).collect(),
            long_guards: Default::default(),
            recovery: (0..GATES).map(|_| CachePadded::default()).collect(),
            waits: CachePadded::default(),
        }
    }

    /// Passes a gate, which may have been shut, and says which. Waits while an epoch ends.
    #[inline]
    fn enter(&self, adds: u64) -> usize {
        let own = slot_of_thread(self.pool.media(), GATES);
        let gate = &self.gates[own];
        let seen = gate.load(Ordering::Relaxed);
        if !is_shut(seen) && Self::add(gate, seen, adds) {
            return own;
        }
        self.wait_to_enter(own, adds)
    }

    #[inline(always)]
    fn add(gate: &AtomicU64, seen: u64, adds: u64) -> bool {
        let to = seen + adds;
        gate.compare_exchange(seen, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait_to_enter(&self, own: usize, adds: u64) -> usize {
        let backoff = Backoff::new();
        loop {
            let seen = self.gates[own].load(Ordering::Relaxed);
            if !is_shut(seen) {
                if Self::add(&self.gates[own], seen, adds) {
                    return own;
                }
                continue;
            }
            if adds == PINNED
                && let Some(number) = self.join_guard()
            {
                return number;
            }
            self.waits.fetch_add(1, Ordering::Relaxed);
            self.wait(&backoff);
        }
    }

    /// Passes the gate behind which this thread holds a guard; none if it holds none, or may not
    /// pass now.
    fn join_guard(&self) -> Option<usize> {
        slots_of_thread(self.pool.media(), GATES).into_iter().find(|number| {
            let gate = &self.gates[*number];
            loop {
                let seen = gate.load(Ordering::Relaxed);
                if guards(seen) == 0 || seen & PAUSED != 0 {
                    return false;
                }
                if Self::add(gate, seen, PINNED) {
                    return true;
                }
            }
        })
    }

    /// One turn of a loop that waits for another thread.
    fn wait(&self, backoff: &Backoff) {
        self.pool.media().relax();
        if !M::SCHEDULED {
            backoff.snooze();
        }
    }

    /// Waits while an epoch ends, and keeps the next one from ending.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        Pin(&self.gates[self.enter(PINNED)])
    }

    /// The same for a caller of the index, who changes so many keys.
    pub fn guard(&self, changes: usize) -> EpochGuard<'_> {
        let long = if changes > FEW_CHANGES { self.enter_for_long() } else { 0 };
        EpochGuard::new(self, long | self.enter(GUARDED) as u64)
    }

    /// Passes the gate of guards under which many keys are changed.
    #[cold]
    fn enter_for_long(&self) -> u64 {
        let ([gate], backoff) = (&self.long_guards, Backoff::new());
        loop {
            let seen = gate.load(Ordering::Relaxed);
            if is_shut(seen) {
                self.wait(&backoff);
            } else if Self::add(gate, seen, PINNED) {
                return LONG;
            }
        }
    }

    /// Looks at closed gates in this run.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Whether a caller holds a guard: then a thread may not wait for the epoch's end.
    pub fn is_guarded(&self) -> bool {
        self.gates.iter().any(|gate| guards(gate.load(Ordering::Relaxed)) != 0)
    }

    /// The lock for recovering what begins at a place. While it is held, the epoch does not end.
    pub fn recovery_lock(&self, offset: u64) -> MutexGuard<'_, ()> {
        let spread = (offset >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.lock(&self.recovery[spread as usize % GATES])
    }

    /// Takes a lock. Under the explorer, which schedules, no thread may block.
    pub fn lock<'l>(&self, lock: &'l Mutex<()>) -> MutexGuard<'l, ()> {
        if !M::SCHEDULED {
            return lock.lock();
        }
        loop {
            match lock.try_lock() {
                Some(guard) => return guard,
                None => self.pool.media().relax(),
            }
        }
    }

    /// Shuts gates, and waits until each has been seen so.
    fn shut<'e>(
        &'e self,
        gates: &'e [CachePadded<AtomicU64>],
        how: u64,
        is_empty: impl Fn(u64) -> bool,
    ) -> (Shut<'e>, bool) {
        for gate in gates {
            gate.fetch_or(how, Ordering::Relaxed);
        }
        let (shut, mut waited) = (Shut { gates, how }, false);
        for gate in gates {
            let backoff = Backoff::new();
            while !is_empty(gate.load(Ordering::Acquire)) {
                waited = true;
                self.wait(&backoff);
            }
        }
        (shut, waited)
    }

    /// No thread is behind a gate, and none passes one: all stand.
    pub fn close(&self) -> Stand<'_> {
        self.stand(CLOSED, |seen| seen == CLOSED)
    }

    /// No operation is under way, and none begins. Guards are held, or not.
    pub fn pause(&self) -> Stand<'_> {
        self.stand(PAUSED, |seen| operations(seen) == 0)
    }

    /// Shuts all gates until nothing is behind them that counts, and none recovers anything.
    fn stand(&self, how: u64, is_empty: impl Fn(u64) -> bool) -> Stand<'_> {
        let (shut, _) = self.shut(&self.gates, how, is_empty);
        let recovering = self.recovery.iter().map(|lock| self.lock(lock)).collect();
        Stand { _shut: shut, _recovering: recovering }
    }

    /// Lets no guard in under which many keys are changed; whether one had to be waited for.
    pub fn keep_long_guards_out(&self) -> (Shut<'_>, bool) {
        self.shut(&self.long_guards, CLOSED, |seen| seen == CLOSED)
    }
}

impl<M: Media> Unpin for Gates<M> {
    fn unpin(&self, number: u64) {
        self.gates[number as usize % GATES].fetch_sub(GUARDED, Ordering::Release);
        if number & LONG != 0 {
            self.long_guards[0].fetch_sub(PINNED, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use everleaf_index::Result;
    use everleaf_pmem::{Cpu, Mapped, Region};
    use everleaf_pool::{Format, KeyType};

    use super::super::epochs::{Changes, Epochs, Left, Note, Sizes, Step};
    use super::*;

    /// Nothing was changed.
    struct Nothing;

    impl Changes for Nothing {
        fn take(&self) -> (Vec<Note>, usize) {
            (Vec::new(), 0)
        }
        fn write_back(&self, _: &[Note], _: Step) -> Result<()> {
            Ok(())
        }
        fn prepare(&self, _: u64) -> Result<Sizes> {
            Ok(Sizes::EMPTY)
        }
        fn finish(&self) -> Result<()> {
            Ok(())
        }
    }

    fn epochs() -> Epochs<Mapped> {
        let format =
            Format { engine: "masstree".into(), key_type: KeyType::U64, parameters: [0; 8] };
        let region = Region::anonymous(64 << 10, 1 << 20).unwrap();
        let pool = Pool::create(Mapped::new(region, &Cpu::detect()).unwrap(), &format).unwrap();
        let left = Left::of(&pool).unwrap();
        Epochs::begin(&pool, left)
    }

    /// Ends the first epoch while `body` runs under a guard of this thread; all gates are closed
    /// when it begins.
    fn while_ending(epochs: &Epochs<Mapped>, body: impl FnOnce()) {
        std::thread::scope(|scope| {
            let guard = epochs.guard(1).unwrap();
            let epoch = epochs.current();
            scope.spawn(move || epochs.end(epoch, &Nothing).unwrap());
            while epochs.gates.gates.iter().any(|gate| gate.load(Ordering::Relaxed) & CLOSED == 0) {
                std::thread::yield_now();
            }
            body();
            assert_eq!(epochs.current(), epoch, "the guard keeps the epoch from ending");
            drop(guard);
        });
    }

    #[test]
    fn a_thread_with_a_guard_waits_at_no_gate_while_the_epoch_ends() {
        let epochs = epochs();
        while_ending(&epochs, || (0..1000).for_each(|_| drop(epochs.gates.pin())));
        assert_eq!(epochs.gates.waits(), 0, "looks at closed gates, of 1000 operations");
        assert_eq!(epochs.statistics().ended, 1);
    }

    #[test]
    fn guards_that_come_while_the_epoch_ends_are_of_the_next_one() {
        let epochs = epochs();
        let first = epochs.current();
        std::thread::scope(|scope| {
            let mut others = Vec::new();
            while_ending(&epochs, || {
                for _ in 0..3 {
                    let epochs = &epochs;
                    others.push(scope.spawn(|| {
                        let _guard = epochs.guard(1).unwrap();
                        epochs.current()
                    }));
                }
                // Each of them looks often, and none comes in.
                while epochs.gates.waits() < 3 * 2000
                    && !others.iter().any(|other| other.is_finished())
                {
                    std::thread::yield_now();
                }
            });
            let of_others = others.into_iter().map(|other| other.join().unwrap());
            assert_eq!(of_others.collect::<Vec<_>>(), [first + 1; 3]);
        });
    }

    #[test]
    fn others_go_on_while_the_end_waits_for_a_guard_of_many_changes() {
        let epochs = epochs();
        let epoch = epochs.current();
        std::thread::scope(|scope| {
            let long = epochs.guard(FEW_CHANGES + 1).unwrap();
            let end = scope.spawn(|| epochs.end(epoch, &Nothing).unwrap());
            while epochs.gates.long_guards[0].load(Ordering::Relaxed) & CLOSED == 0 {
                std::thread::yield_now();
            }
            let others = [FEW_CHANGES, 1].map(|changes| {
                let epochs = &epochs;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let _guard = epochs.guard(changes).unwrap();
                        drop(epochs.gates.pin());
                    }
                })
            });
            others.into_iter().for_each(|other| other.join().unwrap());
            let next = scope.spawn(|| {
                let _guard = epochs.guard(FEW_CHANGES + 1).unwrap();
                epochs.current()
            });
            assert!(!end.is_finished() && !next.is_finished() && epochs.current() == epoch);
            drop(long);
            assert_eq!(next.join().unwrap(), epoch + 1, "another one of many is of the next epoch");
        });
    }
}
