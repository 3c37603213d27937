//! Hardware with the latencies of slower memory, for measurements only.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cpu::SimdLevel;
use crate::hardware::lines_of;
use crate::{
    Hardware, LINE, Line, LineAtomicity, Media, PCell, Persistent, Region, Rtm, Site, Word,
    instructions,
};

/// Nanoseconds that are added to each instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Added to each flush of a line.
    pub flush_ns: u64,
    /// Added to each fence.
    pub fence_ns: u64,
    /// Added to each read of a line that misses the modelled last-level cache.
    pub read_ns: u64,
}

/// Bytes of the modelled last-level cache: that of the emulation platforms of the papers (20 MB),
/// rounded.
const MODELLED_CACHE_BYTES: usize = 16 << 20;

/// [`Hardware`] with added latencies: a calibrated spin on the time-stamp counter after each flush
/// and fence, and after each read of a line that a direct-mapped model of a 16 MiB last-level cache
/// does not hold.
pub struct Emulated {
    hardware: Hardware,
    flush_ticks: u64,
    fence_ticks: u64,
    read_ticks: u64,
    cached_lines: Box<[AtomicU64]>,
}

impl Emulated {
    /// Calibrates the time-stamp counter (10 ms) and adds `latencies` to `hardware`.
    pub fn new(hardware: Hardware, latencies: Latencies) -> Self {
        let ticks = |ns: u64, per_ns: f64| (ns as f64 * per_ns).round() as u64;
        let per_ns = ticks_per_nanosecond();
        let lines = if latencies.read_ns == 0 { 0 } else { MODELLED_CACHE_BYTES / LINE };
        Self {
            hardware,
            flush_ticks: ticks(latencies.flush_ns, per_ns),
            fence_ticks: ticks(latencies.fence_ns, per_ns),
            read_ticks: ticks(latencies.read_ns, per_ns),
            cached_lines: (0..lines).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Charges for a read of the line that holds `address`, and lets the modelled cache hold it.
    #[inline]
    fn touch(&self, address: usize) {
        if self.read_ticks == 0 {
            return;
        }
        let line = (address / LINE) as u64;
        let place = &self.cached_lines[line as usize % self.cached_lines.len()];
        if place.load(Ordering::Relaxed) != line {
            place.store(line, Ordering::Relaxed);
            spin(self.read_ticks);
        }
    }
}

fn ticks_per_nanosecond() -> f64 {
    let (start, ticks) = (Instant::now(), instructions::timestamp());
    while start.elapsed() < Duration::from_millis(10) {
        std::hint::spin_loop();
    }
    (instructions::timestamp() - ticks) as f64 / start.elapsed().as_nanos() as f64
}

#[inline]
fn spin(ticks: u64) {
    if ticks > 0 {
        let start = instructions::timestamp();
        while instructions::timestamp().wrapping_sub(start) < ticks {
            std::hint::spin_loop();
        }
    }
}

impl Media for Emulated {
    const COUNTS_READS: bool = true;

    fn region(&self) -> &Region {
        self.hardware.region()
    }
    fn simd(&self) -> SimdLevel {
        self.hardware.simd()
    }
    fn rtm(&self) -> Option<Rtm> {
        self.hardware.rtm()
    }
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        self.touch(cell.address());
        self.hardware.load(cell)
    }
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        self.hardware.store(cell, value);
    }
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        self.touch(cell.address());
        self.hardware.compare_exchange(cell, current, new)
    }
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        self.touch(line.0[0].address());
        self.hardware.match_line(line, byte)
    }
    fn prefetch<T: Persistent>(&self, object: &T) {
        self.hardware.prefetch(object);
    }
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>) {
        self.hardware.flush(site, cell);
        spin(self.flush_ticks);
    }
    fn flush_object<T: Persistent>(&self, site: Site, object: &T) {
        self.hardware.flush_object(site, object);
        spin(self.flush_ticks * lines_of(object).count() as u64);
    }
    fn fence(&self, site: Site) {
        self.hardware.fence(site);
        spin(self.fence_ticks);
    }
    fn order(&self, site: Site) {
        self.hardware.order(site);
    }
    fn line_atomicity(&self) -> LineAtomicity {
        self.hardware.line_atomicity()
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        let promised = self.hardware.write_line(site, line, words);
        spin(self.flush_ticks);
        promised
    }
    fn relax(&self) {
        self.hardware.relax();
    }
    fn end_operation(&self) {
        self.hardware.end_operation();
    }
}
