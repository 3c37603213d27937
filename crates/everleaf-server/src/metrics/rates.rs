//! What is done in a second: totals are looked at once in a while, and the last step is told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often totals are looked at.
pub const STEP: Duration = Duration::from_secs(1);

/// Totals: requests, bytes that came, bytes that were sent.
pub type Totals = [u64; 3];

/// What was done in the last second.
#[derive(Debug, Default)]
pub struct Rates {
    last: Mutex<Option<(Instant, Totals)>>,
    in_a_second: [AtomicU64; 3],
}

impl Rates {
    /// So much was done until now. Totals that were reset count from nothing.
    pub fn look(&self, now: Instant, totals: Totals) {
        let mut last = self.last.lock();
        if let Some((then, before)) = *last {
            let ms = now.saturating_duration_since(then).as_millis().max(1);
            for (at, rate) in self.in_a_second.iter().enumerate() {
                let grown = totals[at].checked_sub(before[at]).unwrap_or(totals[at]);
                let in_a_second = u128::from(grown) * 1000 / ms;
                rate.store(u64::try_from(in_a_second).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        }
        *last = Some((now, totals));
    }

    /// How much of each was done in a second.
    pub fn in_a_second(&self) -> Totals {
        self.in_a_second.each_ref().map(|rate| rate.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_is_told_for_a_second() {
        let (rates, began) = (Rates::default(), Instant::now());
        rates.look(began, [100, 0, 0]);
        assert_eq!(rates.in_a_second(), [0, 0, 0]);
        rates.look(began + STEP / 2, [150, 1000, 7]);
        assert_eq!(rates.in_a_second(), [100, 2000, 14]);
        rates.look(began + STEP * 3 / 2, [30, 1000, 7]);
        assert_eq!(rates.in_a_second(), [30, 0, 0]);
    }
}
