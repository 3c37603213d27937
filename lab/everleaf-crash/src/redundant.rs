//! Barriers that had nothing to do.

use std::collections::{BTreeMap, BTreeSet};

use everleaf_pmem::{LINE, Site};

use crate::Event;
use crate::trace::Recording;

/// How often a barrier had nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redundant {
    /// The barrier.
    pub site: Site,
    /// How often it had nothing to do: a flush of a line that nothing was stored to since its last
    /// flush, or a fence that had no flush and no unordered store to wait for.
    pub redundant: u64,
    /// How often it was executed.
    pub executed: u64,
}

/// Watches barriers at work.
#[derive(Default)]
pub(crate) struct Audit {
    dirty_lines: BTreeSet<u64>,
    unfenced: bool,
    /// By site: redundant, executed.
    flushes: BTreeMap<Site, (u64, u64)>,
    fences: BTreeMap<Site, (u64, u64)>,
}

impl Audit {
    /// Forgets what was counted, and not what is still to be flushed and fenced.
    pub fn start_counting(&mut self) {
        (self.flushes, self.fences) = Default::default();
    }

    /// A crash: nothing is left to be flushed or fenced.
    pub fn crash(&mut self) {
        self.dirty_lines.clear();
        self.unfenced = false;
    }

    /// The flushes and the fences that had nothing to do.
    pub fn finish(self) -> (Vec<Redundant>, Vec<Redundant>) {
        (listed(self.flushes), listed(self.fences))
    }

    pub fn pass(&mut self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Store { offset, .. } => _ = self.dirty_lines.insert(offset / LINE as u64),
                Event::UnorderedStore { .. } => self.unfenced = true,
                Event::Flush { site, line } => {
                    let useful = self.dirty_lines.remove(&line);
                    self.unfenced |= useful;
                    tally(&mut self.flushes, site, useful);
                }
                Event::Fence { site } => {
                    tally(&mut self.fences, site, std::mem::take(&mut self.unfenced))
                }
                _ => {}
            }
        }
    }
}

fn tally(counts: &mut BTreeMap<Site, (u64, u64)>, site: Site, useful: bool) {
    let (redundant, executed) = counts.entry(site).or_default();
    *redundant += u64::from(!useful);
    *executed += 1;
}

/// Flushes and fences of the explored operations that had nothing to do.
pub(crate) fn redundant_barriers(recording: &Recording) -> (Vec<Redundant>, Vec<Redundant>) {
    let mut audit = Audit::default();
    audit.pass(&recording.prepare.events);
    audit.start_counting();
    for step in &recording.steps {
        if step.restart.is_some() {
            audit.crash();
        }
        audit.pass(&step.trace.events);
    }
    audit.finish()
}

fn listed(counts: BTreeMap<Site, (u64, u64)>) -> Vec<Redundant> {
    let row = |(site, (redundant, executed))| Redundant { site, redundant, executed };
    counts.into_iter().map(row).filter(|row| row.redundant > 0).collect()
}
