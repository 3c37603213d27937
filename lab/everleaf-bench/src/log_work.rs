//! What stores write to a log beside their pool.

use everleaf_pmem::LogCounts;
use serde::Serialize;

/// What was written in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogWork(LogCounts);

/// What was written, an operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LogOfOperation {
    /// Syncs of the log.
    pub syncs: f64,
    /// Bytes that were appended to it.
    pub log_bytes: f64,
    /// Zeros that were written ahead of that.
    pub zero_bytes: f64,
    /// Bytes that checkpoints wrote to the file of the pool.
    pub base_bytes: f64,
}

const fn numbers(counts: LogCounts) -> [u64; 5] {
    let LogCounts { syncs, log_bytes, zero_bytes, checkpoints, base_bytes, .. } = counts;
    [syncs, log_bytes, zero_bytes, checkpoints, base_bytes]
}

impl LogWork {
    /// Of all targets together; none if one has no log.
    pub fn between(before: &[Option<LogCounts>], after: &[Option<LogCounts>]) -> Option<Self> {
        let mut sum = [0; 5];
        for (before, after) in before.iter().zip(after) {
            let (before, after) = (numbers((*before)?), numbers((*after)?));
            let since = after.iter().zip(before).map(|(after, before)| after - before);
            sum.iter_mut().zip(since).for_each(|(sum, since)| *sum += since);
        }
        (!after.is_empty()).then(|| Self(LogCounts::new(sum)))
    }

    /// And this.
    pub fn add(&mut self, other: Self) {
        let (own, other) = (numbers(self.0), numbers(other.0));
        self.0 = LogCounts::new(std::array::from_fn(|at| own[at] + other[at]));
    }

    /// Divided among operations.
    pub fn of_operations(self, operations: u64) -> LogOfOperation {
        let each = |count: u64| count as f64 / operations.max(1) as f64;
        let LogCounts { syncs, log_bytes, zero_bytes, base_bytes, .. } = self.0;
        let (syncs, log_bytes) = (each(syncs), each(log_bytes));
        LogOfOperation {
            syncs,
            log_bytes,
            zero_bytes: each(zero_bytes),
            base_bytes: each(base_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_added_up_and_divided() {
        let counts = |n: u64| Some(LogCounts::new([n, 100 * n, 10 * n, 0, 7 * n]));
        let mut work = LogWork::between(&[counts(1), counts(5)], &[counts(3), counts(6)]).unwrap();
        work.add(LogWork::between(&[counts(0)], &[counts(1)]).unwrap());
        let each = work.of_operations(2);
        let (syncs, log_bytes, zero_bytes, base_bytes) = (2.0, 200.0, 20.0, 14.0);
        assert_eq!(each, LogOfOperation { syncs, log_bytes, zero_bytes, base_bytes });
        assert_eq!(LogWork::between(&[None], &[None]), None);
    }
}
