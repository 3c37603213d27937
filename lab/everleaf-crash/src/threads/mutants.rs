//! Mutants, explored along with the whole program: those that lack a barrier. Groups are swapped
//! only where one thread runs, since other threads may have seen what came first.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Options, Report, Traced};

use super::judge::Judge;
use super::subject::ConcurrentSubject;
use crate::explorer::Explorer;
use crate::known::Known;
use crate::machine::Machine;
use crate::mutant::Mutant;
use crate::trace::{Trace, barrier};

/// The mutants of a program, each with what it came to so far.
#[derive(Default)]
pub(crate) struct Mutants {
    alive: BTreeMap<Mutant, Alive>,
    killed: BTreeMap<Mutant, String>,
}

/// A mutant in which nothing broke.
#[derive(Default)]
struct Alive {
    /// The images that it recovered from.
    memory: (Known, Option<Traced>),
    recoveries: u64,
}

impl Mutants {
    /// Explores one interleaving of each mutant that is still alive.
    // What an interleaving is, and what is known of the whole program.
    #[allow(clippy::too_many_arguments)]
    pub fn explore<S: ConcurrentSubject>(
        &mut self,
        judge: &Judge<'_, S>,
        options: &Options,
        whole: &Explorer<'_, Judge<'_, S>>,
        machine: &Machine,
        trace: &Trace,
        from: usize,
        step: usize,
        share: u64,
    ) {
        let mut concerned: BTreeSet<_> = trace.events.iter().filter_map(barrier).collect();
        concerned.extend(whole.known.recovery_sites());
        let lacks_a_barrier = |mutant: &&Mutant| !matches!(mutant, Mutant::SwappedGroups(_));
        for mutant in whole.tally.mutants.keys().filter(lacks_a_barrier) {
            if self.killed.contains_key(mutant) || !options.asks_for(*mutant) {
                continue;
            }
            let alive = self.alive.entry(*mutant).or_default();
            if !concerned.contains(&mutant.site()) || alive.recoveries >= options.mutant_recoveries
            {
                continue;
            }
            let mut explorer = Explorer::mutant(judge, options, *mutant, &whole.known)
                .with_memory(std::mem::take(&mut alive.memory));
            match explorer.within(share).explore_interleaving(
                &mut machine.clone(),
                trace,
                from,
                step,
            ) {
                None => {
                    alive.recoveries += explorer.tally.recoveries;
                    alive.memory = explorer.into_memory();
                }
                Some(failure) => {
                    self.alive.remove(mutant);
                    self.killed.insert(*mutant, failure.error);
                }
            }
        }
    }

    pub fn report(self, report: &mut Report) {
        report.mutants = Some(self.alive.len() + self.killed.len());
        report.mutants_killed = Some(self.killed.len());
        report.survivors = self.alive.into_keys().collect();
        report.killed = self.killed.into_iter().collect();
    }
}
