//! Where the counts of a counting run stand: tables of atomics, so that a million operations are
//! counted in about a second.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::{LINE, Site};
use parking_lot::Mutex;

/// Lines in one piece of the table: 4 MiB of memory, 512 KiB of table.
const PIECE_LINES: u64 = 1 << 16;

/// Marks a line that was written since its last flush; the bits above are the number of the
/// operation that read it last.
const DIRTY: u64 = 1;

/// One word for each line of a region, in pieces that come into being when a line of theirs is
/// first used (a region may reserve far more addresses than it has memory).
pub(crate) struct LineStates {
    pieces: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl LineStates {
    /// A table for every line of a region that may grow to `max_bytes`.
    pub fn new(max_bytes: u64) -> Self {
        let pieces = max_bytes.div_ceil(PIECE_LINES * LINE as u64);
        Self { pieces: (0..pieces).map(|_| OnceLock::new()).collect() }
    }

    fn state(&self, line: u64) -> &AtomicU64 {
        let piece = self.pieces[(line / PIECE_LINES) as usize]
            .get_or_init(|| (0..PIECE_LINES).map(|_| AtomicU64::new(0)).collect());
        &piece[(line % PIECE_LINES) as usize]
    }

    /// Notes that `operation` (from 1 on) read the line; whether it had not yet.
    pub fn stamp(&self, line: u64, operation: u64) -> bool {
        let state = self.state(line);
        let mut seen = state.load(Relaxed);
        while seen >> 1 != operation {
            match state.compare_exchange_weak(seen, operation << 1 | seen & DIRTY, Relaxed, Relaxed)
            {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Notes a store to the line.
    pub fn mark_dirty(&self, line: u64) {
        let state = self.state(line);
        if state.load(Relaxed) & DIRTY == 0 {
            state.fetch_or(DIRTY, Relaxed);
        }
    }

    /// Notes a flush of the line; whether it was dirty.
    pub fn mark_clean(&self, line: u64) -> bool {
        let state = self.state(line);
        state.load(Relaxed) & DIRTY != 0 && state.fetch_and(!DIRTY, Relaxed) & DIRTY != 0
    }
}

/// What is counted by site.
#[derive(Clone, Copy)]
pub(crate) enum Barrier {
    /// Of a line.
    Flush,
    /// Of a line that held something new.
    FlushOfNew,
    Fence,
}

/// Totals of one site, by [`Barrier`].
type Totals<T> = [T; Barrier::Fence as usize + 1];

/// Slots of the table of sites. All tree families together have a few hundred sites; what does not
/// fit is kept in a slower map.
const SITE_SLOTS: usize = 2048;

#[derive(Default)]
struct SiteSlot {
    site: OnceLock<Site>,
    totals: Totals<AtomicU64>,
}

/// Totals by site: open addressing by the address of the name, which costs less than to compare
/// names. One name may have several addresses; [`by_name`](SiteTotals::by_name) adds them up.
pub(crate) struct SiteTotals {
    slots: Box<[SiteSlot]>,
    overflow: Mutex<BTreeMap<Site, Totals<u64>>>,
}

impl Default for SiteTotals {
    fn default() -> Self {
        Self {
            slots: (0..SITE_SLOTS).map(|_| SiteSlot::default()).collect(),
            overflow: Mutex::default(),
        }
    }
}

impl SiteTotals {
    /// Adds one.
    pub fn add(&self, site: Site, barrier: Barrier) {
        let start = (site.name().as_ptr().addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            >> (64 - SITE_SLOTS.ilog2());
        for step in 0..SITE_SLOTS {
            let slot = &self.slots[(start as usize + step) % SITE_SLOTS];
            let holder = slot.site.get_or_init(|| site);
            if std::ptr::eq(holder.name(), site.name()) {
                slot.totals[barrier as usize].fetch_add(1, Relaxed);
                return;
            }
        }
        self.overflow.lock().entry(site).or_default()[barrier as usize] += 1;
    }

    /// The totals by name, without the sites that have none.
    pub fn by_name(&self, barrier: Barrier) -> BTreeMap<Site, u64> {
        let mut map = BTreeMap::new();
        let mut add = |site: Site, total: u64| {
            if total > 0 {
                *map.entry(site).or_insert(0) += total;
            }
        };
        for slot in &self.slots {
            if let Some(site) = slot.site.get() {
                add(*site, slot.totals[barrier as usize].load(Relaxed));
            }
        }
        self.overflow.lock().iter().for_each(|(site, totals)| add(*site, totals[barrier as usize]));
        map
    }

    /// Starts from zero.
    pub fn reset(&self) {
        self.slots.iter().flat_map(|slot| &slot.totals).for_each(|total| total.store(0, Relaxed));
        self.overflow.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_several_addresses_is_one_site() {
        let totals = SiteTotals::default();
        let again: &'static str = String::from("test.site").leak();
        totals.add(Site::new("test.site"), Barrier::Flush);
        totals.add(Site::new(again), Barrier::Flush);
        totals.add(Site::new(again), Barrier::Fence);
        assert_eq!(totals.by_name(Barrier::Flush), [(Site::new(again), 2)].into());
        assert_eq!(totals.by_name(Barrier::Fence), [(Site::new("test.site"), 1)].into());
    }

    #[test]
    fn more_sites_than_slots_are_counted_all_the_same() {
        let totals = SiteTotals::default();
        let names: Vec<&'static str> =
            (0..SITE_SLOTS + 100).map(|i| &*format!("test.{i}").leak()).collect();
        for name in names.iter().chain(&names) {
            totals.add(Site::new(name), Barrier::Fence);
        }
        assert!(totals.by_name(Barrier::Flush).is_empty());
        let fences = totals.by_name(Barrier::Fence);
        assert_eq!((fences.len(), fences.values().all(|n| *n == 2)), (names.len(), true));
        totals.reset();
        assert!(totals.by_name(Barrier::Fence).is_empty());
    }

    #[test]
    fn tables_are_made_only_where_lines_are_used() {
        let lines = LineStates::new(1 << 40);
        let last = (1 << 40) / LINE as u64 - 1;
        assert!(lines.stamp(last, 1) && !lines.stamp(last, 1) && lines.stamp(last, 2));
        lines.mark_dirty(last);
        assert!(!lines.stamp(last, 2) && lines.mark_clean(last) && !lines.mark_clean(last));
        assert_eq!(lines.pieces.iter().filter(|piece| piece.get().is_some()).count(), 1);
    }
}
