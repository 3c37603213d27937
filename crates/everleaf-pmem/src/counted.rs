//! Hardware that counts, exactly and by site.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::tally::{Barrier, LineStates, SiteTotals};
use crate::{Counter, Hardware, Hook, Instrumented, LINE, Media, Site};

/// What happened on a [`Counted`] media since it was made or last reset.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Flushed lines by site, counted also where the medium needs no instruction.
    pub flushes: BTreeMap<Site, u64>,
    /// Fences by site.
    pub fences: BTreeMap<Site, u64>,
    /// Of the flushed lines, by site, those that held something new since their last flush.
    pub lines_flushed: BTreeMap<Site, u64>,
    /// Failure-atomic line writes.
    pub line_writes: u64,
    /// Distinct lines of persistent memory read, added up over operations.
    pub pm_lines_read: u64,
    /// Events that the index reported, in the order of [`Counter::ALL`].
    pub events: [u64; Counter::ALL.len()],
}

impl Counts {
    /// The total of one reported event.
    pub fn event(&self, counter: Counter) -> u64 {
        self.events[counter as usize]
    }
}

/// [`Hardware`] that counts.
///
/// A barrier or a store costs one or two uncontended atomic operations. The totals by site are
/// exact whatever the number of threads; `pm_lines_read` is exact with one thread, because
/// operations of several threads at a time share one tally of distinct lines.
pub type Counted = Instrumented<Counting>;

/// The hook of [`Counted`].
pub struct Counting {
    lines: LineStates,
    sites: SiteTotals,
    line_writes: AtomicU64,
    pm_lines_read: AtomicU64,
    lines_of_operation: AtomicU64,
    operation: AtomicU64,
    events: [AtomicU64; Counter::ALL.len()],
}

impl Counted {
    /// Counts what happens on `hardware`.
    pub fn new(hardware: Hardware) -> Self {
        let counting = Counting::new(hardware.region().max_len());
        Self::with_hook(hardware, counting)
    }

    /// As [`Counting::counts`].
    pub fn counts(&self) -> Counts {
        self.hook().counts()
    }

    /// As [`Counting::reset`].
    pub fn reset(&self) {
        self.hook().reset();
    }
}

impl Counting {
    /// Counts what happens in a region that may grow to `max_bytes`
    /// ([`Region::max_len`](crate::Region::max_len)).
    pub fn new(max_bytes: u64) -> Self {
        Self {
            lines: LineStates::new(max_bytes),
            sites: SiteTotals::default(),
            line_writes: AtomicU64::new(0),
            pm_lines_read: AtomicU64::new(0),
            lines_of_operation: AtomicU64::new(0),
            operation: AtomicU64::new(1), // Stamp 0 is that of a line that was never read.
            events: Default::default(),
        }
    }

    /// Everything counted so far.
    pub fn counts(&self) -> Counts {
        Counts {
            flushes: self.sites.by_name(Barrier::Flush),
            fences: self.sites.by_name(Barrier::Fence),
            lines_flushed: self.sites.by_name(Barrier::FlushOfNew),
            line_writes: self.line_writes.load(Relaxed),
            pm_lines_read: self.pm_lines_read.load(Relaxed),
            events: std::array::from_fn(|i| self.events[i].load(Relaxed)),
        }
    }

    /// Starts from zero; lines that are dirty stay so. Nothing else may be counted meanwhile.
    pub fn reset(&self) {
        self.sites.reset();
        let totals = [&self.line_writes, &self.pm_lines_read, &self.lines_of_operation];
        totals.into_iter().chain(&self.events).for_each(|total| total.store(0, Relaxed));
        self.operation.fetch_add(1, Relaxed);
    }
}

impl Hook for Counting {
    const REPEATABLE: bool = true;

    fn before_load(&self, offset: u64) {
        if self.lines.stamp(offset / LINE as u64, self.operation.load(Relaxed)) {
            self.lines_of_operation.fetch_add(1, Relaxed);
        }
    }
    fn after_store(&self, offset: u64) {
        self.lines.mark_dirty(offset / LINE as u64);
    }
    fn after_flush(&self, site: Site, offset: u64) {
        self.sites.add(site, Barrier::Flush);
        if self.lines.mark_clean(offset / LINE as u64) {
            self.sites.add(site, Barrier::FlushOfNew);
        }
    }
    fn after_fence(&self, site: Site) {
        self.sites.add(site, Barrier::Fence);
    }
    /// The whole line goes to memory: nothing is left to flush.
    fn after_line_write(&self, offset: u64) {
        self.lines.mark_clean(offset / LINE as u64);
        self.line_writes.fetch_add(1, Relaxed);
    }
    fn after_operation(&self) {
        self.pm_lines_read.fetch_add(self.lines_of_operation.swap(0, Relaxed), Relaxed);
        self.operation.fetch_add(1, Relaxed);
    }
    fn count(&self, counter: Counter, n: u64) {
        self.events[counter as usize].fetch_add(n, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpu, Line, PPtr, Region, site};

    fn counted() -> Counted {
        let region = Region::anonymous(1 << 16, 16 << 20).unwrap();
        Counted::new(Hardware::new(region, &Cpu::detect()).unwrap())
    }

    fn line(media: &Counted, index: u64) -> &Line {
        media.region().get(PPtr::at(index * LINE as u64)).unwrap()
    }

    #[test]
    fn a_flush_counts_by_site_and_as_a_line_only_when_something_is_new() {
        let media = counted();
        let (a, b) = (line(&media, 1), line(&media, 2));
        media.store(&a.0[0], 1);
        media.store(&a.0[7], 2);
        media.flush(site!("test.first"), &a.0[3]);
        media.flush(site!("test.first"), &a.0[3]);
        media.flush_object(site!("test.second"), b);
        media.fence(site!("test.fence"));
        let counts = media.counts();
        assert_eq!(counts.flushes, [(site!("test.first"), 2), (site!("test.second"), 1)].into());
        assert_eq!(counts.fences, [(site!("test.fence"), 1)].into());
        assert_eq!(counts.lines_flushed, [(site!("test.first"), 1)].into());
    }

    #[test]
    fn dirty_lines_survive_a_reset_and_totals_do_not() {
        let media = counted();
        media.store(&line(&media, 1).0[0], 1);
        media.flush(site!("test.flush"), &line(&media, 2).0[0]);
        media.count(Counter::LeafSplits, 3);
        assert_eq!(media.counts().event(Counter::LeafSplits), 3);
        media.reset();
        let counts = media.counts();
        assert!(counts.flushes.is_empty() && counts.events.iter().all(|n| *n == 0));
        media.flush(site!("test.flush"), &line(&media, 1).0[0]);
        let counts = media.counts();
        assert_eq!(
            (counts.flushes[&site!("test.flush")], counts.lines_flushed[&site!("test.flush")]),
            (1, 1)
        );
    }

    #[test]
    fn lines_read_are_distinct_within_an_operation_and_added_up_over_operations() {
        let media = counted();
        for _ in 0..3 {
            media.load(&line(&media, 1).0[0]);
            media.load(&line(&media, 1).0[5]);
            media.match_line(line(&media, 2), 0);
            media.end_operation();
        }
        media.load(&line(&media, 9).0[0]); // Not ended: not counted yet.
        assert_eq!(media.counts().pm_lines_read, 6);
    }

    #[test]
    fn reading_and_writing_a_line_do_not_disturb_each_other() {
        let media = counted();
        let a = line(&media, 1);
        media.store(&a.0[0], 1);
        media.load(&a.0[0]);
        media.end_operation();
        media.load(&a.0[0]);
        media.flush(site!("test.flush"), &a.0[0]);
        media.load(&a.0[0]);
        media.end_operation();
        let counts = media.counts();
        assert_eq!((counts.lines_flushed[&site!("test.flush")], counts.pm_lines_read), (1, 2));
    }

    #[test]
    fn a_line_write_leaves_its_line_clean() {
        let media = counted();
        let a = line(&media, 1);
        media.store(&a.0[0], 1);
        media.write_line(site!("test.line"), a, [2; 8]);
        media.flush(site!("test.flush"), &a.0[0]);
        let counts = media.counts();
        assert_eq!(
            (counts.line_writes, counts.lines_flushed.len(), counts.flushes.len()),
            (1, 0, 1)
        );
    }
}
