//! Programs without one of their barriers, explored along with the whole one.

use std::collections::{BTreeMap, BTreeSet};

use everleaf_pmem::{Site, Traced};

use super::judge::Judge;
use super::subject::ConcurrentSubject;
use crate::explorer::Explorer;
use crate::known::Known;
use crate::machine::Machine;
use crate::trace::{Trace, barrier};
use crate::{Options, Report};

/// The mutants of a program, each with the images that it recovered from so far.
#[derive(Default)]
pub(crate) struct Mutants {
    alive: BTreeMap<Site, (Known, Option<Traced>)>,
    killed: BTreeMap<Site, String>,
}

impl Mutants {
    /// Explores one interleaving without each barrier that nothing has missed yet.
    #[allow(clippy::too_many_arguments)] // What an interleaving is, and what is known of the whole program.
    pub fn explore<S: ConcurrentSubject>(
        &mut self,
        judge: &Judge<'_, S>,
        options: &Options,
        whole: &Explorer<'_, Judge<'_, S>>,
        machine: &Machine,
        trace: &Trace,
        from: usize,
        step: usize,
    ) {
        let mut concerned: BTreeSet<Site> = trace.events.iter().filter_map(barrier).collect();
        concerned.extend(whole.known.recovery_sites());
        for site in &whole.tally.barriers {
            if self.killed.contains_key(site) || options.spared.contains(site) {
                continue;
            }
            let memory = self.alive.entry(*site).or_default();
            if !concerned.contains(site) {
                continue;
            }
            let mut mutant = Explorer::mutant(judge, options, *site, &whole.known).with_memory(std::mem::take(memory));
            match mutant.explore_interleaving(&mut machine.clone(), trace, from, step) {
                None => *memory = mutant.into_memory(),
                Some(failure) => {
                    self.alive.remove(site);
                    self.killed.insert(*site, failure.error);
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
