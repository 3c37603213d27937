//! Fewer preemptions with which an interleaving still goes wrong.

use super::execution::Execution;
use super::explore::{Base, Campaign};
use super::interleaving::{Interleaving, Preemption};
use super::scheduler::Plan;
use super::subject::ConcurrentSubject;
use crate::explorer::{Explorer, Failure};

/// An interleaving, and what goes wrong in it.
pub(super) type Failing<S> = (Execution<S>, Result<Failure, String>);

impl<S: ConcurrentSubject> Campaign<'_, S> {
    /// Leaves out one preemption after the other as long as it still goes wrong; none if no
    /// preemption could be left out. Without one, a thread may come to the accesses before which
    /// others were planned earlier, later or never: what has happened counts, not what was planned.
    pub(super) fn fewer_preemptions(
        &mut self,
        step: usize,
        base: &Base<S::Content>,
        found: &Interleaving,
    ) -> Option<Failing<S>> {
        let mut best: Option<Failing<S>> = None;
        let mut place = 0;
        loop {
            let Interleaving { first, preemptions, .. } =
                best.as_ref().map_or(found, |(run, _)| &run.interleaving).clone();
            let Some(left_out) = preemptions.get(place) else { return best };
            let rest = [&preemptions[..place], &preemptions[place + 1..]].concat();
            // Without the first of them, the thread that it let run may as well be the first one.
            let firsts = if place == 0 { vec![first, left_out.to] } else { vec![first] };
            match firsts.into_iter().find_map(|first| self.failing_with(step, base, first, &rest)) {
                Some(fewer) => best = Some(fewer),
                None => place += 1,
            }
        }
    }

    /// What goes wrong with no more than these preemptions. Nothing is counted as explored.
    fn failing_with(
        &mut self,
        step: usize,
        base: &Base<S::Content>,
        first: u16,
        preemptions: &[Preemption],
    ) -> Option<Failing<S>> {
        let first =
            self.executor.steps[step].threads().iter().position(|thread| thread.thread == first)?;
        let plan = Plan { first, preemptions: preemptions.to_vec(), chance: None };
        let mut run = self.executor.execute(step, plan).ok()?;
        if let Err(error) = self.without_crash(base, &run) {
            return Some((run, Err(error)));
        }
        run.trace.moments = self.moments(base, &run);
        let mut explorer = Explorer::new(self.judge, self.options);
        let failure =
            explorer.explore_interleaving(&mut base.machine.clone(), &run.trace, 0, step)?;
        Some((run, Ok(failure)))
    }
}
