//! The gate in front of all writing: closed, it lets one transaction run alone.
//!
//! A transaction that has met other writers again and again closes it for a *turn*. Writers of
//! other threads wait in front of it until the turn ends; readers do not. The gate says who goes
//! first, and nothing else depends on it: what runs alone is looked at before it is committed as
//! every other transaction is. So it may open at any moment, and that is why nothing hangs:
//!
//! G1. Who waits here holds no lock of the store, for the gate comes before all of them: first the
//!     gate, then the lock that all operations share, then those of keys in the order of their
//!     numbers, then the one that keeps scans out, then workers and epochs.
//! G2. A turn has an end by the clock, its *patience*, and whoever finds it over ends it. So a
//!     closure that never ends, or that waits for a thread which waits here, for a lock of its
//!     caller's say, holds up writers for that long and no longer. An error or a panic ends the
//!     turn at once.
//! G3. The thread that runs alone passes: its closure may write to the store itself, and begin
//!     another transaction, which then runs within the same turn.
//! G4. Turns are given in the order in which they were asked for. A writer waits for the turn that
//!     it has found and for no other; so it goes on, however many transactions want to be alone.
//!
//! Writers that have passed before the gate was closed still write. Each does so once, and the
//! transaction begins again within its turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The gate of an open store.
#[derive(Default)]
pub(crate) struct Gate {
    /// Whether a turn goes on: a hint, so that writers need no lock where none does.
    closed: AtomicBool,
    turns: Mutex<Turns>,
    /// A turn has begun or ended.
    changed: Condvar,
}

#[derive(Default)]
struct Turns {
    /// How many were asked for.
    asked: u64,
    /// The number of the one that goes on, or is the next to.
    number: u64,
    /// Who runs alone, and how long at most.
    holder: Option<(ThreadId, Instant)>,
}

/// A time in which no other thread begins to write. It ends when this is dropped.
pub(crate) struct Turn<'g> {
    gate: &'g Gate,
    /// None: the thread was alone already.
    number: Option<u64>,
}

impl Gate {
    /// Waits as long as another thread runs alone. The caller holds nothing of the store.
    #[inline]
    pub(crate) fn pass(&self) {
        if self.closed.load(Ordering::Relaxed) {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let mut turns = self.turns.lock();
        let found = turns.number;
        while let Some((thread, until)) = turns.holder
            && turns.number == found
            && thread != thread::current().id()
        {
            if self.changed.wait_until(&mut turns, until).timed_out() {
                self.end(&mut turns, found);
            }
        }
    }

    /// Closes the gate for so long at most, when all who asked before have had their turns.
    pub(crate) fn close(&self, patience: Duration) -> Turn<'_> {
        let thread = thread::current().id();
        let mut turns = self.turns.lock();
        if turns.holder.is_some_and(|(holder, until)| holder == thread && Instant::now() < until) {
            return Turn { gate: self, number: None };
        }
        let number = turns.asked;
        turns.asked += 1;
        while turns.number != number {
            let current = turns.number;
            match turns.holder {
                Some((_, until)) => {
                    if self.changed.wait_until(&mut turns, until).timed_out() {
                        self.end(&mut turns, current);
                    }
                }
                // A thread that waits for nothing else is about to begin it.
                None => self.changed.wait(&mut turns),
            }
        }
        turns.holder = Some((thread, Instant::now() + patience));
        self.closed.store(true, Ordering::Relaxed);
        self.changed.notify_all();
        Turn { gate: self, number: Some(number) }
    }

    /// Ends this turn, unless it has ended before.
    fn end(&self, turns: &mut Turns, number: u64) {
        if turns.number == number && turns.holder.take().is_some() {
            turns.number += 1;
            self.closed.store(false, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }
}

impl Turn<'_> {
    /// Whether others may write again.
    pub(crate) fn is_over(&self) -> bool {
        let turns = self.gate.turns.lock();
        let until = turns.holder.map(|(_, until)| until);
        self.number.is_some_and(|number| turns.number != number)
            || until.is_none_or(|until| until <= Instant::now())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.gate.end(&mut self.gate.turns.lock(), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn closed(gate: &Gate) -> bool {
        gate.closed.load(Ordering::Relaxed)
    }

    /// Waits until so many turns were asked for.
    fn asked(gate: &Gate, count: u64) {
        while gate.turns.lock().asked < count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_turn_ends_when_it_is_dropped_and_a_panic_drops_it() {
        let gate = Gate::default();
        let turn = gate.close(HOUR);
        assert!(closed(&gate) && !turn.is_over());
        gate.pass(); // It is this thread's.
        drop(turn);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = gate.close(HOUR);
            panic!("alone");
        }));
        assert!(panicked.is_err() && !closed(&gate));
        thread::scope(|scope| scope.spawn(|| gate.pass()).join().unwrap());
    }

    #[test]
    fn a_turn_within_a_turn_is_part_of_it() {
        let gate = Gate::default();
        let outer = gate.close(HOUR);
        let inner = gate.close(HOUR);
        assert!(!inner.is_over());
        drop(inner);
        assert!(closed(&gate) && !outer.is_over());
        drop(outer);
        assert!(!closed(&gate));
    }

    #[test]
    fn a_turn_whose_patience_has_passed_is_ended_by_who_finds_it() {
        let gate = Gate::default();
        let never = gate.close(Duration::from_millis(1));
        thread::scope(|scope| scope.spawn(|| gate.pass()).join().unwrap());
        assert!(never.is_over() && !closed(&gate));
        let never = gate.close(Duration::from_millis(1));
        thread::scope(|scope| scope.spawn(|| drop(gate.close(HOUR))).join().unwrap());
        assert!(never.is_over() && !closed(&gate));
        // Within a closure that took too long: a turn of its own, which the outer one leaves alone.
        let outer = gate.close(Duration::ZERO);
        let inner = gate.close(HOUR);
        drop(outer);
        assert!(closed(&gate) && !inner.is_over());
    }

    /// The second turn begins before the writer wakes: it goes on all the same.
    #[test]
    fn a_writer_waits_for_one_turn_and_turns_are_given_in_their_order() {
        let gate = Gate::default();
        let first = gate.close(HOUR);
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let turn = gate.close(HOUR);
                order.lock().push(2);
                turn
            });
            asked(&gate, 2);
            let third = scope.spawn(|| drop((gate.close(HOUR), order.lock().push(3))));
            asked(&gate, 3);
            let writer = scope.spawn(|| gate.wait());
            drop(first);
            let second = second.join().unwrap();
            // It has found the first turn or none of this order's: then this one, which ends now.
            drop(second);
            writer.join().unwrap();
            third.join().unwrap();
        });
        assert_eq!(*order.lock(), [2, 3]);
    }
}
