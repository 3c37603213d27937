//! Barriers that had nothing to do.

use std::collections::{BTreeMap, BTreeSet};

use everleaf_pmem::{Event, LINE, Site};

use crate::trace::Recording;

/// How often a barrier had nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redundant {
    /// The barrier.
    pub site: Site,
    /// How often it had nothing to do: a flush of a line that nothing was stored to since its last flush, or a fence that had no flush and
    /// no unordered store to wait for.
    pub redundant: u64,
    /// How often it was executed.
    pub executed: u64,
}

#[derive(Default)]
struct Audit {
    dirty_lines: BTreeSet<u64>,
    unfenced: bool,
    /// By site: redundant, executed.
    flushes: BTreeMap<Site, (u64, u64)>,
    fences: BTreeMap<Site, (u64, u64)>,
}

impl Audit {
    fn pass(&mut self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Store { offset, .. } => _ = self.dirty_lines.insert(offset / LINE as u64),
                Event::UnorderedStore { .. } => self.unfenced = true,
                Event::Flush { site, line } => {
                    let useful = self.dirty_lines.remove(&line);
                    self.unfenced |= useful;
                    tally(&mut self.flushes, site, useful);
                }
                Event::Fence { site } => tally(&mut self.fences, site, std::mem::take(&mut self.unfenced)),
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
    (audit.flushes, audit.fences) = Default::default();
    for step in &recording.steps {
        if step.restart.is_some() {
            audit.dirty_lines.clear();
            audit.unfenced = false;
        }
        audit.pass(&step.trace.events);
    }
    (listed(audit.flushes), listed(audit.fences))
}

fn listed(counts: BTreeMap<Site, (u64, u64)>) -> Vec<Redundant> {
    let row = |(site, (redundant, executed))| Redundant { site, redundant, executed };
    counts.into_iter().map(row).filter(|row| row.redundant > 0).collect()
}
