//! Waiting for another thread.
//!
//! Locks are held for a few hundred nanoseconds, but for one case: a scan shows entries to code of
//! the user while it holds the lock of their leaf, and that code may take its time. So a thread
//! that waits spins for a while, then offers the processor to others, and then sleeps between its
//! looks: a slow visitor costs the threads that wait for it no processor time worth mentioning, and
//! on a single processor it gets on with its work at once. Every look is a turn of [`Media::relax`]
//! as well: the scheduler of the explorer sees it, and decides by itself which thread runs.

use std::cell::Cell;
use std::time::Duration;

use everleaf_pmem::Media;

/// Turns before the processor is offered to others: about the time of ten flushes.
const SPINS: u32 = 128;
/// Turns after these before the thread sleeps.
const YIELDS: u32 = 64;
/// The first sleep, and the longest.
const SLEEPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

/// What a thread does in one turn of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    Spin,
    Yield,
    Sleep(Duration),
}

impl Pause {
    /// After so many turns.
    fn after(turns: u32) -> Self {
        match turns.checked_sub(SPINS) {
            None => Pause::Spin,
            Some(late) if late < YIELDS => Pause::Yield,
            Some(late) => {
                let doublings = ((late - YIELDS) / 4).min(16);
                Pause::Sleep((SLEEPS[0] * (1 << doublings)).min(SLEEPS[1]))
            }
        }
    }
}

/// A wait of one operation: called in each turn of each loop that waits for another thread.
#[inline(always)]
pub fn wait<M: Media>(media: &M) -> impl Fn() + '_ {
    let turns = Cell::new(0);
    move || {
        media.relax();
        if !M::SCHEDULED {
            give_way(&turns);
        }
    }
}

fn give_way(turns: &Cell<u32>) {
    match Pause::after(turns.get()) {
        Pause::Spin => {}
        Pause::Yield => std::thread::yield_now(),
        Pause::Sleep(time) => std::thread::sleep(time),
    }
    turns.set(turns.get().saturating_add(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_spins_then_yields_then_sleeps_ever_longer_up_to_a_millisecond() {
        let turns: Vec<Pause> = (0..1000).map(Pause::after).collect();
        let (spins, rest) = turns.split_at(SPINS as usize);
        let (yields, sleeps) = rest.split_at(YIELDS as usize);
        assert!(spins.iter().all(|turn| *turn == Pause::Spin));
        assert!(yields.iter().all(|turn| *turn == Pause::Yield));
        let times: Vec<Duration> = sleeps
            .iter()
            .map(|turn| match turn {
                Pause::Sleep(time) => *time,
                other => panic!("{other:?} after the first sleep"),
            })
            .collect();
        assert!(times.is_sorted() && times[0] == SLEEPS[0] && times.last() == Some(&SLEEPS[1]));
        assert_eq!(Pause::after(u32::MAX), Pause::Sleep(SLEEPS[1]));
    }
}
