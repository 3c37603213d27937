//! Transactions without a processor that has them: one at a time, and aborts drawn from a seed.
//!
//! A mutex, the *gate*, is held for the length of a transaction, so that transactions exclude each
//! other as if they were instants. What the processor does besides, it does here too:
//! - Taking the fallback lock aborts every transaction that has read it. Here its holder waits
//!   until the one that is under way has ended ([`settle`](Simulator::settle)); those that come
//!   later read that the lock is held. A transaction that does not read the lock runs beside its
//!   holder, and is harmed, as it would be on the processor.
//! - It may abort at any moment. Here it does at its beginning, or when it has decided and not yet
//!   stored, for nothing can be taken back here.

use parking_lot::Mutex;

use super::status::AbortStatus;
use super::{AbortCause, Aborted, Attempt};

/// Which aborts a simulation injects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InjectedAborts {
    /// None.
    #[default]
    Nothing,
    /// Every so many times on average, of all causes alike.
    OneIn(u32),
    /// Every time, for this reason.
    Always(AbortCause),
}

/// Simulated transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Simulation {
    /// Decides about the aborts.
    pub seed: u64,
    /// Which aborts there are beside those by the fallback lock.
    pub aborts: InjectedAborts,
}

/// Runs them.
#[derive(Debug)]
pub(super) struct Simulator {
    /// The gate, and the state of the random numbers.
    gate: Mutex<u64>,
    aborts: InjectedAborts,
}

impl Simulator {
    pub fn new(simulation: Simulation) -> Self {
        Self { gate: Mutex::new(simulation.seed), aborts: simulation.aborts }
    }

    /// Waits until no transaction is under way that began before.
    pub fn settle(&self) {
        drop(self.gate.lock());
    }

    /// One attempt.
    pub fn attempt<T>(
        &self,
        held: &impl Fn() -> bool,
        body: &mut impl FnMut(&Attempt) -> Result<T, Aborted>,
    ) -> Result<T, AbortStatus> {
        let mut random = self.gate.lock();
        if let Some(status) = self.inject(&mut random, false) {
            return Err(status);
        }
        if held() {
            return Err(AbortStatus::of(AbortCause::Locked));
        }
        body(&Attempt { abort: self.inject(&mut random, true) }).map_err(|Aborted(status)| status)
    }

    /// An abort at the beginning or at the end of an attempt, perhaps.
    fn inject(&self, random: &mut u64, at_end: bool) -> Option<AbortStatus> {
        match self.aborts {
            InjectedAborts::Nothing => None,
            InjectedAborts::OneIn(times) => {
                let drawn = next(random);
                let hit = (drawn >> 8).is_multiple_of(u64::from(times.max(1)) * 2);
                hit.then(|| {
                    AbortStatus::of(AbortCause::ALL[drawn as u8 as usize % AbortCause::ALL.len()])
                })
            }
            // Now at the beginning, now at the end.
            InjectedAborts::Always(cause) => {
                (at_end || next(random) >> 63 == 1).then(|| AbortStatus::of(cause))
            }
        }
    }
}

/// The next random number (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
