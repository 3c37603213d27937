//! Fewer operations and fewer threads that still break.

use super::subject::{ConcurrentSubject, Step, ThreadOperations};
use crate::Options;
use crate::violation::Violation;

/// Interleavings of a smaller program that are looked at: it usually breaks in one of the first, or
/// not at all.
const INTERLEAVINGS: u64 = 2000;

/// Drops the operations of whole threads of the step that broke, then operations anywhere before
/// its end, as long as the program still breaks in the same way: with a crash, or without one and
/// with the same complaint: `first_violation` tells how. Returns the violation of what is left;
/// `None` if nothing could be dropped.
pub(crate) fn fewer_operations<S: ConcurrentSubject>(
    subject: &S,
    options: &Options,
    step: usize,
    found: &Violation,
    first_violation: fn(&S, &Options) -> Option<Violation>,
) -> Option<Violation> {
    let steps: Vec<Vec<ThreadOperations>> =
        subject.steps().iter().take(step + 1).map(Step::threads).collect();
    let mut kept: Vec<usize> =
        steps.iter().flatten().flat_map(|thread| thread.operations.iter().copied()).collect();
    kept.sort_unstable();
    let shrinker = Shrinker { subject, options: lenient(options, found), found, first_violation };
    let mut best = None;
    for thread in steps.last()? {
        let rest: Vec<usize> = kept
            .iter()
            .filter(|operation| !thread.operations.contains(operation))
            .copied()
            .collect();
        shrinker.accept(rest, &mut kept, &mut best);
    }
    let mut chunk = kept.len().div_ceil(2);
    loop {
        let mut from = 0;
        while from < kept.len() {
            let to = (from + chunk).min(kept.len());
            let rest = [&kept[..from], &kept[to..]].concat();
            if !shrinker.accept(rest, &mut kept, &mut best) {
                from = to;
            }
        }
        if chunk <= 1 {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    let mut smaller: Violation = best?;
    let renamed = |operation: &usize| kept.get(*operation).copied().unwrap_or(*operation);
    smaller.operations = smaller.operations.iter().map(renamed).collect();
    smaller.found_in.clone_from(&found.interleaving);
    Some(smaller)
}

/// As thorough as is needed to find it again: it was found with no fewer preemptions than it needs.
fn lenient(options: &Options, found: &Violation) -> Options {
    let preemptions =
        found.interleaving.as_ref().map_or(0, |interleaving| interleaving.preemptions.len());
    Options {
        mutate: false,
        violation_limit: 1,
        preemption_bound: preemptions.min(options.preemption_bound),
        interleavings: options.interleavings.min(INTERLEAVINGS),
        interleavings_beyond: if preemptions > options.preemption_bound {
            options.interleavings_beyond
        } else {
            0
        },
        ..options.clone()
    }
}

struct Shrinker<'a, S> {
    subject: &'a S,
    options: Options,
    found: &'a Violation,
    first_violation: fn(&S, &Options) -> Option<Violation>,
}

impl<S: ConcurrentSubject> Shrinker<'_, S> {
    /// Keeps only `rest` if that breaks as well; says whether it does.
    fn accept(
        &self,
        rest: Vec<usize>,
        kept: &mut Vec<usize>,
        best: &mut Option<Violation>,
    ) -> bool {
        let dropped = !rest.is_empty() && rest.len() < kept.len();
        let breaks = || {
            (self.first_violation)(&self.subject.subset(&rest)?, &self.options)
                .filter(|violation| self.is_alike(violation))
        };
        let Some(violation) = dropped.then(breaks).flatten() else { return false };
        (*kept, *best) = (rest, Some(violation));
        true
    }

    /// A program that lacks an operation may fail because it makes no sense any more.
    fn is_alike(&self, violation: &Violation) -> bool {
        fn complaint(violation: &Violation) -> &str {
            violation.error.split(':').next().unwrap_or_default()
        }
        match (self.found.crashes.is_empty(), violation.crashes.is_empty()) {
            (true, true) => complaint(self.found) == complaint(violation),
            (before, now) => before == now,
        }
    }
}
