//! What a counting run counts, exactly and by site.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::{Counter, LINE, Site};

use super::CacheModel;
use super::tally::{Barrier, LineStates, SiteTotals};

/// What happened on a media that counts since it was made or last reset.
///
/// The totals by site are exact whatever the number of threads; `pm_lines_read` is exact with one
/// thread, because operations of several threads at a time share one tally of distinct lines.
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
    /// Reads of lines that a [`CacheModel`] did not hold.
    pub pm_line_misses: u64,
    /// Events that the index reported, in the order of [`Counter::ALL`].
    pub events: [u64; Counter::ALL.len()],
}

impl Counts {
    /// The total of one reported event.
    pub fn event(&self, counter: Counter) -> u64 {
        self.events[counter as usize]
    }
}

/// Counts: one or two uncontended atomic operations for a barrier or a store.
pub(super) struct Counting {
    cache: CacheModel,
    lines: LineStates,
    sites: SiteTotals,
    line_writes: AtomicU64,
    pm_lines_read: AtomicU64,
    pm_line_misses: AtomicU64,
    lines_of_operation: AtomicU64,
    operation: AtomicU64,
    events: [AtomicU64; Counter::ALL.len()],
}

impl Counting {
    /// Counts what happens in a region that may grow to `max_bytes`.
    pub fn new(max_bytes: u64) -> Self {
        Self {
            cache: CacheModel::default(),
            lines: LineStates::new(max_bytes),
            sites: SiteTotals::default(),
            line_writes: AtomicU64::new(0),
            pm_lines_read: AtomicU64::new(0),
            pm_line_misses: AtomicU64::new(0),
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
            pm_line_misses: self.pm_line_misses.load(Relaxed),
            events: std::array::from_fn(|i| self.events[i].load(Relaxed)),
        }
    }

    /// Starts from zero; lines that are dirty stay so, and the cache keeps what it holds. Nothing
    /// else may be counted meanwhile.
    pub fn reset(&self) {
        self.sites.reset();
        let lines = [&self.pm_lines_read, &self.pm_line_misses, &self.lines_of_operation];
        lines
            .into_iter()
            .chain([&self.line_writes])
            .chain(&self.events)
            .for_each(|total| total.store(0, Relaxed));
        self.operation.fetch_add(1, Relaxed);
    }
}

/// What is counted at each operation. Places are byte offsets from the pool's base.
impl Counting {
    /// Right before a word, or the line that begins there, is read. An exchange reads too.
    pub fn before_load(&self, offset: u64) {
        if self.cache.misses(offset) {
            self.pm_line_misses.fetch_add(1, Relaxed);
        }
        if self.lines.stamp(offset / LINE as u64, self.operation.load(Relaxed)) {
            self.lines_of_operation.fetch_add(1, Relaxed);
        }
    }

    /// Right after a word was stored to, or exchanged.
    pub fn after_store(&self, offset: u64) {
        self.lines.mark_dirty(offset / LINE as u64);
    }

    /// After the line that holds `offset` was flushed.
    pub fn after_flush(&self, site: Site, offset: u64) {
        self.sites.add(site, Barrier::Flush);
        if self.lines.mark_clean(offset / LINE as u64) {
            self.sites.add(site, Barrier::FlushOfNew);
        }
    }

    /// After a fence.
    pub fn after_fence(&self, site: Site) {
        self.sites.add(site, Barrier::Fence);
    }

    /// After a whole line was written. It goes to memory: nothing is left to flush.
    pub fn after_line_write(&self, offset: u64) {
        self.lines.mark_clean(offset / LINE as u64);
        self.line_writes.fetch_add(1, Relaxed);
    }

    /// At the end of an operation of the index.
    pub fn after_operation(&self) {
        self.pm_lines_read.fetch_add(self.lines_of_operation.swap(0, Relaxed), Relaxed);
        self.operation.fetch_add(1, Relaxed);
    }

    /// When an index reports an event.
    pub fn count(&self, counter: Counter, n: u64) {
        self.events[counter as usize].fetch_add(n, Relaxed);
    }
}
