//! How often threads met during a phase, and what that came to.

use everleaf_index::{Concurrency, Conflicts, IndexStatistics};
use everleaf_pmem::AbortCause;
use serde::Serialize;

/// What the indexes of a run counted in a phase, all threads together; nothing of what is not an
/// index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contention {
    /// What keeps threads apart: `version-locks`, `rtm`, `simulated-rtm` or `one-lock`.
    pub concurrency: Option<&'static str>,
    /// Searches that began again because another thread had changed what they read.
    pub restarts: Option<u64>,
    /// Turns of loops that waited for a lock.
    pub waits: Option<u64>,
    /// Changes that took the one lock of the inner nodes.
    pub structure_changes: Option<u64>,
    /// Transactions that took effect.
    pub transactions: Option<u64>,
    /// Transactions that gave themselves up because the fallback lock was held.
    pub aborts_locked: Option<u64>,
    /// Transactions that met another thread.
    pub aborts_conflict: Option<u64>,
    /// Transactions that touched too much.
    pub aborts_capacity: Option<u64>,
    /// Transactions that aborted without a reason: interrupts and page faults.
    pub aborts_unknown: Option<u64>,
    /// Transactions that aborted otherwise.
    pub aborts_other: Option<u64>,
    /// Operations that gave transactions up.
    pub fallbacks: Option<u64>,
}

impl Contention {
    /// What was counted since `before` by all targets together; nothing if one of them cannot tell.
    pub(crate) fn between(
        before: &[Option<IndexStatistics>],
        after: impl Iterator<Item = Option<IndexStatistics>>,
    ) -> Self {
        let mut concurrency = Concurrency::OneLock;
        let differences: Option<Vec<Conflicts>> = before
            .iter()
            .zip(after)
            .map(|(before, after)| {
                let after = after?;
                concurrency = after.concurrency;
                Some(after.conflicts.since(&before.as_ref()?.conflicts))
            })
            .collect();
        differences.map_or(Self::default(), |differences| Self::of(concurrency, &differences))
    }

    /// What was counted by each of some indexes that are kept by one scheme.
    pub(crate) fn of(concurrency: Concurrency, differences: &[Conflicts]) -> Self {
        let sum = |of: &dyn Fn(&Conflicts) -> u64| Some(differences.iter().map(of).sum());
        let aborted = |cause| sum(&|of: &Conflicts| of.transactions.aborted_by(cause));
        Self {
            concurrency: Some(concurrency.name()),
            restarts: sum(&|of| of.restarts),
            waits: sum(&|of| of.waits),
            structure_changes: sum(&|of| of.structure_changes),
            transactions: sum(&|of| of.transactions.committed),
            aborts_locked: aborted(AbortCause::Locked),
            aborts_conflict: aborted(AbortCause::Conflict),
            aborts_capacity: aborted(AbortCause::Capacity),
            aborts_unknown: aborted(AbortCause::Unknown),
            aborts_other: aborted(AbortCause::Other),
            fallbacks: sum(&|of| of.transactions.fallbacks),
        }
    }

    /// The totals of two runs.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Self {
            concurrency: self.concurrency.or(other.concurrency),
            restarts: sum(self.restarts, other.restarts),
            waits: sum(self.waits, other.waits),
            structure_changes: sum(self.structure_changes, other.structure_changes),
            transactions: sum(self.transactions, other.transactions),
            aborts_locked: sum(self.aborts_locked, other.aborts_locked),
            aborts_conflict: sum(self.aborts_conflict, other.aborts_conflict),
            aborts_capacity: sum(self.aborts_capacity, other.aborts_capacity),
            aborts_unknown: sum(self.aborts_unknown, other.aborts_unknown),
            aborts_other: sum(self.aborts_other, other.aborts_other),
            fallbacks: sum(self.fallbacks, other.fallbacks),
        }
    }

    /// Transactions that aborted.
    pub fn aborts(&self) -> Option<u64> {
        let aborts = [
            self.aborts_locked,
            self.aborts_conflict,
            self.aborts_capacity,
            self.aborts_unknown,
            self.aborts_other,
        ];
        aborts.into_iter().sum()
    }

    /// The heading of [`columns`](Self::columns).
    pub(crate) fn heading() -> String {
        format!(
            "{:<13} {:>10} {:>10} {:>10} {:>10}",
            "concurrency", "restart/M", "wait/M", "abort/M", "fallback/M"
        )
    }

    /// For people: what happened in a million operations.
    pub(crate) fn columns(&self, operations: u64) -> String {
        let each = |total: Option<u64>| match total {
            Some(total) => format!("{:.1}", total as f64 * 1e6 / operations.max(1) as f64),
            None => "-".into(),
        };
        format!(
            "{:<13} {:>10} {:>10} {:>10} {:>10}",
            self.concurrency.unwrap_or("-"),
            each(self.restarts),
            each(self.waits),
            each(self.aborts()),
            each(self.fallbacks)
        )
    }
}

/// Nodes that all targets together copied to a log since `before`; nothing if one of them cannot
/// tell.
pub(crate) fn nodes_logged(
    before: &[Option<IndexStatistics>],
    after: &[Option<IndexStatistics>],
) -> Option<u64> {
    let logged = |of: &Option<IndexStatistics>| of.map(|of| of.epochs.nodes_logged);
    before.iter().zip(after).map(|(before, after)| Some(logged(after)? - logged(before)?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_indexes_counted_in_a_phase_adds_up() {
        let counted = |restarts, conflict: u64| {
            let mut conflicts = Conflicts { restarts, waits: 5, ..Conflicts::default() };
            conflicts.transactions.committed = 100;
            conflicts.transactions.aborted[AbortCause::Conflict as usize] = conflict;
            conflicts
        };
        let statistics = |conflicts| {
            let concurrency = Concurrency::SimulatedRtm;
            Some(IndexStatistics { conflicts, concurrency, ..IndexStatistics::default() })
        };
        let before = [statistics(counted(1, 0)), statistics(Conflicts::default())];
        let after = [statistics(counted(3, 4)), statistics(counted(10, 1))];
        let contention = Contention::between(&before, after.into_iter());
        assert_eq!(
            (contention.restarts, contention.waits, contention.aborts()),
            (Some(12), Some(5), Some(5))
        );
        assert_eq!(
            (contention.transactions, contention.concurrency),
            (Some(100), Some("simulated-rtm"))
        );
        assert_eq!(contention.and(contention).aborts_conflict, Some(10));
        assert_eq!(
            Contention::between(&before, [statistics(counted(3, 4)), None].into_iter()),
            Contention::default()
        );
        let (heading, row) = (Contention::heading(), contention.columns(1_000_000));
        assert_eq!(
            (heading.len(), row.len(), Contention::default().columns(0).len()),
            (row.len(), heading.len(), row.len())
        );
    }
}
