//! Mapped that counts or has added latencies: one type, so that a tree is compiled once for both,
//! and a type of its own, so that a run on `Mapped` holds no instruction of either.

use everleaf_pmem::{
    Counter, Durability, LINE, Line, LineAtomicity, Mapped, Media, PCell, Persistent, Region, Rtm,
    SimdLevel, Site, Word,
};

use super::counting::{Counting, Counts};
use super::latency::{AddedLatency, Latencies};

/// [`Mapped`] that counts what happens, or to which latencies are added. Which of them is chosen
/// when it is made: a run that counts is not timed.
///
/// ```
/// use everleaf_crash::Instrumented;
/// use everleaf_pmem::{Cpu, Mapped, Media, Region, site};
///
/// let hardware = Mapped::new(Region::anonymous(4096, 4096)?, &Cpu::detect())?;
/// let media = Instrumented::counting(hardware);
/// media.fence(site!("example.fence"));
/// assert_eq!(media.counts().fences[&site!("example.fence")], 1);
/// # Ok::<(), everleaf_pmem::MapError>(())
/// ```
pub struct Instrumented {
    hardware: Mapped,
    hook: Hook,
}

/// What is done at each operation, beside the operation.
enum Hook {
    Count(Counting),
    Delay(AddedLatency),
}

impl Instrumented {
    /// `hardware` that counts what happens on it.
    pub fn counting(hardware: Mapped) -> Self {
        let counting = Counting::new(hardware.region().max_len());
        Self { hardware, hook: Hook::Count(counting) }
    }

    /// `hardware` with added latencies: a spin after each flush and fence, and before each read of
    /// a line that a [`CacheModel`](crate::CacheModel) does not hold. Takes 10 ms to calibrate.
    pub fn delaying(hardware: Mapped, added: Latencies) -> Self {
        Self { hardware, hook: Hook::Delay(AddedLatency::new(added)) }
    }

    /// Everything counted since it was made or last reset; zeros where it does not count.
    pub fn counts(&self) -> Counts {
        match &self.hook {
            Hook::Count(counting) => counting.counts(),
            Hook::Delay(_) => Counts::default(),
        }
    }

    /// Counts from zero; lines that are dirty stay so. Nothing else may be counted meanwhile.
    pub fn reset(&self) {
        if let Hook::Count(counting) = &self.hook {
            counting.reset();
        }
    }

    #[inline(always)]
    fn offset<T: Persistent>(&self, object: &T) -> u64 {
        self.hardware.region().pointer_to(object).offset()
    }

    #[inline]
    fn before_load(&self, offset: u64) {
        match &self.hook {
            Hook::Count(counting) => counting.before_load(offset),
            Hook::Delay(added) => added.before_load(offset),
        }
    }

    #[inline]
    fn after_store(&self, offset: u64) {
        if let Hook::Count(counting) = &self.hook {
            counting.after_store(offset);
        }
    }

    #[inline]
    fn after_flush(&self, site: Site, offset: u64) {
        match &self.hook {
            Hook::Count(counting) => counting.after_flush(site, offset),
            Hook::Delay(added) => added.after_flush(),
        }
    }
}

impl Media for Instrumented {
    const COUNTS_READS: bool = true;

    fn region(&self) -> &Region {
        self.hardware.region()
    }
    fn simd(&self) -> SimdLevel {
        self.hardware.simd()
    }
    fn is_repeatable(&self) -> bool {
        matches!(self.hook, Hook::Count(_))
    }
    fn durability(&self) -> Durability {
        self.hardware.durability()
    }
    fn rtm(&self) -> Option<Rtm> {
        self.hardware.rtm()
    }
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        self.before_load(self.offset(cell));
        self.hardware.load(cell)
    }
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        self.hardware.store(cell, value);
        self.after_store(self.offset(cell));
    }
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        let offset = self.offset(cell);
        self.before_load(offset);
        self.hardware.compare_exchange(cell, current, new)?;
        self.after_store(offset);
        Ok(())
    }
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        self.before_load(self.offset(line));
        self.hardware.match_line(line, byte)
    }
    fn match_word(&self, line: &Line, word: u64) -> (u64, u64) {
        self.before_load(self.offset(line));
        self.hardware.match_word(line, word)
    }
    fn prefetch<T: Persistent>(&self, object: &T) {
        self.hardware.prefetch(object);
    }
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>) {
        self.hardware.flush(site, cell);
        self.after_flush(site, self.offset(cell));
    }
    fn flush_object<T: Persistent>(&self, site: Site, object: &T) {
        self.hardware.flush_object(site, object);
        for line in lines_of(self.region(), object) {
            self.after_flush(site, line * LINE as u64);
        }
    }
    fn fence(&self, site: Site) {
        self.hardware.fence(site);
        match &self.hook {
            Hook::Count(counting) => counting.after_fence(site),
            Hook::Delay(added) => added.after_fence(),
        }
    }
    fn order(&self, site: Site) {
        self.hardware.order(site);
    }
    fn line_atomicity(&self) -> LineAtomicity {
        self.hardware.line_atomicity()
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        let promised = self.hardware.write_line(site, line, words);
        match &self.hook {
            Hook::Count(counting) => counting.after_line_write(self.offset(line)),
            Hook::Delay(added) => added.after_flush(),
        }
        promised
    }
    fn may_write_lines(&self) -> bool {
        self.hardware.may_write_lines()
    }
    fn try_write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> bool {
        let written = self.hardware.try_write_line(site, line, words);
        match &self.hook {
            _ if !written => {}
            Hook::Count(counting) => counting.after_line_write(self.offset(line)),
            Hook::Delay(added) => added.after_flush(),
        }
        written
    }
    fn relax(&self) {
        self.hardware.relax();
    }
    fn end_operation(&self) {
        self.hardware.end_operation();
        if let Hook::Count(counting) = &self.hook {
            counting.after_operation();
        }
    }
    fn count(&self, counter: Counter, n: u64) {
        if let Hook::Count(counting) = &self.hook {
            counting.count(counter, n);
        }
    }
}

/// The lines that an object of a region touches: byte offsets divided by 64.
pub(super) fn lines_of<T: Persistent>(
    region: &Region,
    object: &T,
) -> impl Iterator<Item = u64> + use<T> {
    let start = region.pointer_to(object).offset();
    start / LINE as u64..(start + size_of::<T>() as u64).div_ceil(LINE as u64)
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, PPtr, site};

    use super::*;
    use crate::{CacheModel, Dram, Traced};

    fn counted() -> Instrumented {
        let region = Region::anonymous(1 << 16, 16 << 20).unwrap();
        Instrumented::counting(Mapped::new(region, &Cpu::detect()).unwrap())
    }

    fn line(media: &Instrumented, index: u64) -> &Line {
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

    #[test]
    fn an_exchange_reads_and_stores_only_if_it_succeeds() {
        let media = counted();
        let a = line(&media, 1);
        media.store(&a.0[2], 5);
        media.flush(site!("test.flush"), &a.0[0]);
        assert_eq!(media.compare_exchange(&a.0[2], 4, 6), Err(5));
        media.flush(site!("test.failed"), &a.0[0]);
        assert_eq!(media.compare_exchange(&a.0[2], 5, 6), Ok(()));
        media.flush(site!("test.exchanged"), &a.0[0]);
        media.end_operation();
        let counts = media.counts();
        let flushed = [(site!("test.exchanged"), 1), (site!("test.flush"), 1)];
        assert_eq!((counts.lines_flushed, counts.pm_lines_read), (flushed.into(), 1));
    }

    #[test]
    fn every_line_of_an_object_and_of_an_epoch_is_a_flush() {
        let media = counted();
        media.flush_object(site!("test.lines"), media.region().at::<[Line; 2]>(192).unwrap());
        media.flush_lines(site!("test.epoch"), (0..5).map(|line| line * 64));
        media.order(site!("test.order"));
        let counts = media.counts();
        assert_eq!(counts.flushes, [(site!("test.epoch"), 5), (site!("test.lines"), 2)].into());
        assert!(counts.fences.is_empty());
    }

    #[test]
    fn a_line_misses_when_it_is_first_read_and_when_another_took_its_place() {
        let region = Region::anonymous(2 * CacheModel::BYTES, 4 * CacheModel::BYTES).unwrap();
        let media = Instrumented::counting(Mapped::new(region, &Cpu::detect()).unwrap());
        let word = |offset: u64| &media.region().get::<Line>(PPtr::at(offset)).unwrap().0[3];
        let misses = |offsets: &[u64]| {
            media.reset();
            offsets.iter().for_each(|offset| _ = media.load(word(*offset)));
            media.end_operation();
            (media.counts().pm_line_misses, media.counts().pm_lines_read)
        };
        let (a, far) = (640, 640 + CacheModel::BYTES);
        assert_eq!(misses(&[a, a, 704]), (2, 2));
        assert_eq!(misses(&[a, 704]), (0, 2), "the cache keeps what it holds");
        assert_eq!(misses(&[far, a, far]), (3, 2), "they share a place");
        media.store(word(128), 1);
        media.flush(site!("test.flush"), word(128));
        assert_eq!(media.counts().pm_line_misses, 3, "stores are not asked about");
    }

    #[test]
    fn where_latencies_are_added_nothing_is_counted() {
        let region = Region::anonymous(4096, 4096).unwrap();
        let hardware = Mapped::new(region, &Cpu::detect()).unwrap();
        let media = Instrumented::delaying(hardware, Latencies::default());
        media.flush(site!("test.flush"), &line(&media, 1).0[0]);
        media.fence(site!("test.fence"));
        let counts = media.counts();
        assert!(counts.flushes.is_empty() && counts.fences.is_empty());
    }

    #[test]
    fn a_run_is_repeatable_where_it_counts_and_not_where_it_is_timed() {
        const { assert!(Instrumented::COUNTS_READS && !Instrumented::SCHEDULED) };
        const { assert!(Traced::COUNTS_READS && Traced::SCHEDULED) };
        const { assert!(!Dram::COUNTS_READS && !Dram::SCHEDULED) };
        let region = || Region::anonymous(4096, 4096).unwrap();
        let hardware = || Mapped::new(region(), &Cpu::detect()).unwrap();
        assert!(Instrumented::counting(hardware()).is_repeatable());
        assert!(!Instrumented::delaying(hardware(), Latencies::default()).is_repeatable());
        assert!(Traced::new(4096, 4096, 1).unwrap().is_repeatable());
        assert!(!Dram::new(region(), &Cpu::detect()).is_repeatable());
    }
}
