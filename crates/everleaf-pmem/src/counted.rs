//! Hardware that counts, exactly and by site.

use std::collections::{BTreeMap, HashSet};

use parking_lot::Mutex;

use crate::cpu::SimdLevel;
use crate::hardware::lines_of;
use crate::{Counter, Hardware, LINE, Line, Media, PCell, Persistent, Region, Site, Word};

/// What happened on a [`Counted`] media since it was made or last reset.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Flushed lines by site, counted also where the medium needs no instruction.
    pub flushes: BTreeMap<Site, u64>,
    /// Fences by site.
    pub fences: BTreeMap<Site, u64>,
    /// Of the flushed lines, those that held something new since their last flush.
    pub lines_flushed: u64,
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

#[derive(Default)]
struct State {
    counts: Counts,
    dirty_lines: HashSet<u64>,
    lines_of_operation: Vec<u64>,
}

/// [`Hardware`] that counts. A type of its own, so that a timed run on `Hardware` holds no counting instruction.
pub struct Counted {
    hardware: Hardware,
    state: Mutex<State>,
}

impl Counted {
    /// Counts what happens on `hardware`.
    pub fn new(hardware: Hardware) -> Self {
        Self { hardware, state: Mutex::default() }
    }

    /// Everything counted so far.
    pub fn counts(&self) -> Counts {
        self.state.lock().counts.clone()
    }

    /// Starts from zero; lines that are dirty stay so.
    pub fn reset(&self) {
        let mut state = self.state.lock();
        state.counts = Counts::default();
        state.lines_of_operation.clear();
    }

    fn line_of(&self, address: usize) -> u64 {
        self.region().offset_of(address) / LINE as u64
    }

    fn read(&self, address: usize) {
        let line = self.line_of(address);
        let mut state = self.state.lock();
        if !state.lines_of_operation.contains(&line) {
            state.lines_of_operation.push(line);
        }
    }

    fn wrote(&self, address: usize) {
        let line = self.line_of(address);
        self.state.lock().dirty_lines.insert(line);
    }

    fn flushed(&self, site: Site, address: usize) {
        let line = self.line_of(address);
        let mut state = self.state.lock();
        *state.counts.flushes.entry(site).or_default() += 1;
        if state.dirty_lines.remove(&line) {
            state.counts.lines_flushed += 1;
        }
    }
}

impl Media for Counted {
    const OBSERVES_READS: bool = true;

    fn region(&self) -> &Region {
        self.hardware.region()
    }
    fn simd(&self) -> SimdLevel {
        self.hardware.simd()
    }
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        self.read(cell.address());
        self.hardware.load(cell)
    }
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        self.hardware.store(cell, value);
        self.wrote(cell.address());
    }
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        self.read(cell.address());
        let outcome = self.hardware.compare_exchange(cell, current, new);
        if outcome.is_ok() {
            self.wrote(cell.address());
        }
        outcome
    }
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        self.read(line.0[0].address());
        self.hardware.match_line(line, byte)
    }
    fn prefetch<T: Persistent>(&self, object: &T) {
        self.hardware.prefetch(object);
    }
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>) {
        self.hardware.flush(site, cell);
        self.flushed(site, cell.address());
    }
    fn flush_object<T: Persistent>(&self, site: Site, object: &T) {
        self.hardware.flush_object(site, object);
        for line in lines_of(object) {
            self.flushed(site, line);
        }
    }
    fn fence(&self, site: Site) {
        self.hardware.fence(site);
        *self.state.lock().counts.fences.entry(site).or_default() += 1;
    }
    fn order(&self, site: Site) {
        self.hardware.order(site);
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) {
        self.hardware.write_line(site, line, words);
        self.state.lock().counts.line_writes += 1;
    }
    fn relax(&self) {
        self.hardware.relax();
    }
    fn end_operation(&self) {
        let mut state = self.state.lock();
        state.counts.pm_lines_read += state.lines_of_operation.len() as u64;
        state.lines_of_operation.clear();
    }
    fn count(&self, counter: Counter, n: u64) {
        self.state.lock().counts.events[counter as usize] += n;
    }
}
