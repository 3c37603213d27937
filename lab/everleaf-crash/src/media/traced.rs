//! The recording media of the crash explorer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf_pmem::{
    Cpu, DramSource, FlushInstruction, LINE, Line, LineAtomicity, MapError, Mapped, Media, PCell,
    Persistent, Region, SimdLevel, Site, SpareArenas, WORD, Word,
};
use parking_lot::Mutex;

use super::instrumented::lines_of;
use super::reads::{ReadSet, Reads};
use super::watch::Watch;
use super::{Event, Scheduler};

/// 2^64 divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Memory whose every access is recorded. Words that were never written through the media hold
/// garbage drawn from a seed, so that nothing can rely on fresh memory being zero.
///
/// A `Traced` is a handle: a clone is the same memory and the same record, so that the explorer can
/// keep one while a pool owns the other.
#[derive(Clone)]
pub struct Traced {
    shared: Arc<Shared>,
}

struct Shared {
    hardware: Mapped,
    garbage_seed: u64,
    /// Each with the thread that made it.
    events: Mutex<Vec<(u16, Event)>>,
    scheduler: Option<Arc<dyn Scheduler>>,
    records_stores: AtomicBool,
    records_loads: AtomicBool,
    watch: Watch,
    reads: Reads,
    accesses_left: AtomicU64,
    line_atomicity: LineAtomicity,
    /// DRAM for the next tree.
    spare: Arc<SpareArenas>,
}

impl Traced {
    /// `len` bytes of garbage that can grow to `max_len`; records stores and barriers from the
    /// start.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn new(len: u64, max_len: u64, garbage_seed: u64) -> Result<Self, MapError> {
        let traced = Self::over(Region::anonymous(0, max_len)?, garbage_seed)?;
        traced.grow_with_garbage(len)?;
        Ok(traced)
    }

    /// Memory as a crash left it.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn from_image(image: &[u64], max_len: u64, garbage_seed: u64) -> Result<Self, MapError> {
        let mut region = Region::anonymous(0, max_len)?;
        region.replace(image)?;
        Self::over(region, garbage_seed)
    }

    fn over(region: Region, garbage_seed: u64) -> Result<Self, MapError> {
        let shared = Shared {
            hardware: Mapped::forced(region, &Cpu::detect(), FlushInstruction::None)?,
            garbage_seed,
            events: Mutex::default(),
            scheduler: None,
            records_stores: AtomicBool::new(true),
            records_loads: AtomicBool::new(false),
            watch: Watch::default(),
            reads: Reads::default(),
            accesses_left: AtomicU64::new(u64::MAX),
            line_atomicity: LineAtomicity::Words,
            spare: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The same memory, whose accesses wait until the scheduler lets their thread run. Refused
    /// (`None`) while another handle lives.
    pub fn with_scheduler(mut self, scheduler: Arc<dyn Scheduler>) -> Option<Self> {
        Arc::get_mut(&mut self.shared)?.scheduler = Some(scheduler);
        Some(self)
    }

    /// The same memory, which tells its users that line writes promise so much: `Words` at first.
    /// To be told `Line` only where crashes are explored under the assumption `atomic-line`.
    /// Refused (`None`) while another handle lives.
    pub fn with_line_atomicity(mut self, promised: LineAtomicity) -> Option<Self> {
        Arc::get_mut(&mut self.shared)?.line_atomicity = promised;
        Some(self)
    }

    /// The whole memory as it is visible now.
    pub fn image(&self) -> Vec<u64> {
        let (hardware, region) = (&self.shared.hardware, self.region());
        let cells = region.cells(0, region.len() as usize / WORD).expect("the region's own length");
        cells.iter().map(|cell| hardware.load(cell)).collect()
    }

    /// Makes this memory hold another image, as [`from_image`](Traced::from_image) would, without
    /// mapping anything anew; what was recorded is forgotten. Refused (`false`) while another
    /// handle lives, or if there is no memory.
    pub fn restore(&mut self, image: &[u64]) -> bool {
        let Some(shared) = Arc::get_mut(&mut self.shared) else { return false };
        if shared.hardware.region_mut().replace(image).is_err() {
            return false;
        }
        shared.events.get_mut().clear();
        shared.watch.end();
        self.record(true, false);
        self.limit_accesses(u64::MAX);
        true
    }

    /// Takes what was recorded since the last call.
    pub fn take_events(&self) -> Vec<Event> {
        // What is drained keeps its memory for the events to come.
        self.shared.events.lock().drain(..).map(|(_, event)| event).collect()
    }

    /// As [`take_events`](Traced::take_events), each with its thread: 0 without [`Scheduler`].
    pub fn take_events_of_threads(&self) -> Vec<(u16, Event)> {
        self.shared.events.lock().drain(..).collect()
    }

    /// Events recorded so far and not taken.
    pub fn event_count(&self) -> usize {
        self.shared.events.lock().len()
    }

    /// Switches the recording of stores and barriers, and of loads, on or off.
    pub fn record(&self, stores: bool, loads: bool) {
        self.shared.records_stores.store(stores, Ordering::Relaxed);
        self.shared.records_loads.store(loads, Ordering::Relaxed);
    }

    /// Notes, from now on, which of the words at these offsets are loaded before anything is stored
    /// there: execution depends on no others. The [image](Traced::image) is
    /// no load.
    pub fn watch_loads(&self, offsets: impl IntoIterator<Item = u64>) {
        self.shared.reads.begin();
        self.shared.watch.begin(offsets.into_iter().map(|offset| offset as usize / WORD));
    }

    /// As [`watch_loads`](Traced::watch_loads), of every word that there is now.
    pub fn watch_all_loads(&self) {
        self.shared.reads.begin();
        self.shared.watch.begin_all(self.region().len() as usize / WORD);
    }

    /// Ends the watch; returns the offsets of the watched words that were loaded before anything
    /// was stored there, in the order of their first loads.
    pub fn take_watched_loads(&self) -> Vec<u64> {
        self.shared.watch.end().into_iter().map(|word| (word * WORD) as u64).collect()
    }

    /// Moves the words that were loaded, and not stored to before since the last watch began, into
    /// a set.
    pub(crate) fn take_reads(&self, into: &mut ReadSet) {
        self.shared.reads.take(into);
    }

    /// Allows `accesses` more loads, stores and iterations of spin loops, then panics: a recovery
    /// from a damaged image may never end otherwise. The explorer catches the panic.
    pub fn limit_accesses(&self, accesses: u64) {
        self.shared.accesses_left.store(accesses, Ordering::Relaxed);
    }

    /// How many more are allowed.
    pub(crate) fn accesses_left(&self) -> u64 {
        self.shared.accesses_left.load(Ordering::Relaxed)
    }

    /// Not one atomic step: threads that race may count an access less, which a limit against
    /// endless loops can bear. What is dropped while the panic unwinds may still access memory: a
    /// second panic would be the end of the process.
    #[inline]
    fn count_access(&self) {
        let left = self.shared.accesses_left.load(Ordering::Relaxed);
        assert!(
            left > 0 || std::thread::panicking(),
            "more accesses to persistent memory than allowed: this seems never to end"
        );
        self.shared.accesses_left.store(left.saturating_sub(1), Ordering::Relaxed);
    }

    /// Waits until the access may be made, and tells which thread makes it.
    #[inline]
    fn schedule(&self, relaxes: bool) -> u16 {
        self.shared.scheduler.as_ref().map_or(0, |it| it.schedule(relaxes, self.event_count()))
    }

    #[inline]
    fn push(&self, thread: u16, event: Event) {
        if self.shared.records_stores.load(Ordering::Relaxed) {
            self.shared.events.lock().push((thread, event));
        }
    }

    #[inline]
    fn push_load<T: Word>(&self, thread: u16, cell: &PCell<T>) {
        self.count_access();
        self.shared.reads.load(self.word_of(cell));
        self.shared.watch.load(|| self.word_of(cell));
        if self.shared.records_loads.load(Ordering::Relaxed) {
            let offset = self.offset_of(cell);
            self.shared.events.lock().push((thread, Event::Load { offset }));
        }
    }

    #[inline]
    fn offset_of<T: Persistent>(&self, object: &T) -> u64 {
        self.region().pointer_to(object).offset()
    }

    #[inline]
    fn word_of<T: Word>(&self, cell: &PCell<T>) -> usize {
        self.offset_of(cell) as usize / WORD
    }

    /// Stores; returns what stood there, and what stands there now.
    #[inline]
    fn exchange<T: Word>(&self, cell: &PCell<T>, value: T) -> (u64, u64) {
        let old = self.shared.hardware.load(cell.as_word());
        self.shared.hardware.store(cell, value);
        (old, value.into_word())
    }

    fn grow_with_garbage(&self, new_len: u64) -> Result<(), MapError> {
        let region = self.region();
        let old_len = region.len();
        region.grow(new_len)?;
        let added = ((region.len() - old_len) as usize) / WORD;
        for (i, cell) in region.cells(old_len, added).expect("just grown").iter().enumerate() {
            let word = garbage(self.shared.garbage_seed, old_len / WORD as u64 + i as u64);
            self.shared.hardware.store(cell, word);
        }
        Ok(())
    }
}

/// A word that looks like nothing in particular (SplitMix64 of the seed and the place).
fn garbage(seed: u64, place: u64) -> u64 {
    let mut z = seed.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Media for Traced {
    const COUNTS_READS: bool = true;
    const SCHEDULED: bool = true;

    fn region(&self) -> &Region {
        self.shared.hardware.region()
    }
    fn simd(&self) -> SimdLevel {
        SimdLevel::SCALAR
    }
    fn dram(&self) -> DramSource<'_> {
        DramSource::with_spare(self.simd(), &self.shared.spare)
    }
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        let thread = self.schedule(false);
        self.push_load(thread, cell);
        self.shared.hardware.load(cell)
    }
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        let thread = self.schedule(false);
        self.count_access();
        self.shared.reads.store(self.word_of(cell));
        self.shared.watch.store(|| self.word_of(cell));
        let (old, new) = self.exchange(cell, value);
        self.push(thread, Event::Store { offset: self.offset_of(cell), old, new });
    }
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        let thread = self.schedule(false);
        self.push_load(thread, cell);
        self.shared.hardware.compare_exchange(cell, current, new)?;
        let (old, new) = (current.into_word(), new.into_word());
        self.push(thread, Event::Store { offset: self.offset_of(cell), old, new });
        Ok(())
    }
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        let words = line.0.each_ref().map(|cell| self.load(cell));
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).enumerate();
        (words[0], bytes.fold(0, |mask, (i, held)| mask | u64::from(held == byte) << i))
    }
    fn prefetch<T: Persistent>(&self, _object: &T) {}
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>) {
        let thread = self.schedule(false);
        self.push(thread, Event::Flush { site, line: self.offset_of(cell) / LINE as u64 });
    }
    fn flush_object<T: Persistent>(&self, site: Site, object: &T) {
        for line in lines_of(self.region(), object) {
            let thread = self.schedule(false);
            self.push(thread, Event::Flush { site, line });
        }
    }
    fn fence(&self, site: Site) {
        let thread = self.schedule(false);
        self.push(thread, Event::Fence { site });
    }
    fn order(&self, site: Site) {
        let thread = self.schedule(false);
        self.push(thread, Event::Order { site });
    }
    fn line_atomicity(&self) -> LineAtomicity {
        self.shared.line_atomicity
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        let thread = self.schedule(false);
        for (cell, new) in line.0.iter().zip(words) {
            self.shared.reads.store(self.word_of(cell));
            self.shared.watch.store(|| self.word_of(cell));
            let ((old, new), offset) = (self.exchange(cell, new), self.offset_of(cell));
            self.push(thread, Event::UnorderedStore { site, offset, old, new });
        }
        self.line_atomicity()
    }
    /// A quarter of all lines is not written, as if every transaction aborted: which ones, their
    /// content says, so that it is the same every time.
    fn try_write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> bool {
        let mixed = words.iter().fold(0u64, |mixed, word| (mixed ^ word).wrapping_mul(GOLDEN));
        let written = self.line_atomicity() == LineAtomicity::Line && mixed >> 62 != 0;
        if written {
            self.write_line(site, line, words);
        }
        written
    }
    fn relax(&self) {
        self.schedule(true);
        self.count_access();
        std::thread::yield_now();
    }
    fn end_operation(&self) {
        let thread = self.schedule(false);
        self.push(thread, Event::EndOperation);
    }
    fn grow(&self, new_len: u64) -> Result<(), MapError> {
        let thread = self.schedule(false);
        self.grow_with_garbage(new_len)?;
        self.push(thread, Event::Grow { len: self.region().len() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{PPtr, site};

    use super::*;

    fn word(media: &Traced, offset: u64) -> u64 {
        media.load(media.region().get::<PCell>(PPtr::at(offset)).unwrap())
    }

    #[test]
    fn a_clone_is_the_same_memory_and_the_same_record() {
        let media = Traced::new(4096, 4096, 1).unwrap();
        let other = media.clone();
        let old = word(&media, 64);
        media.store(media.region().get::<PCell>(PPtr::at(64)).unwrap(), 7);
        assert_eq!(word(&other, 64), 7);
        assert_eq!(other.take_events(), [Event::Store { offset: 64, old, new: 7 }]);
        assert_eq!(media.event_count(), 0);
    }

    #[test]
    fn memory_is_restored_to_images_of_any_length_unless_another_handle_lives() {
        let mut media = Traced::new(8192, 16384, 1).unwrap();
        let (long, short) = (vec![3; 1536], vec![5; 512]);
        let held = media.clone();
        assert!(!media.restore(&short));
        drop(held);
        for image in [&short, &long, &short] {
            assert!(media.restore(image));
            assert_eq!(media.image(), *image);
            assert_eq!(media.event_count(), 0);
        }
        media.grow(8192).unwrap();
        assert_ne!(
            word(&media, 4096),
            3,
            "grown memory is garbage and not what stood there before"
        );
        assert!(!media.restore(&vec![0; 1 << 20]), "longer than it can be");
    }

    #[test]
    fn lines_of_an_epoch_are_flushed_one_by_one_under_one_name() {
        let media = Traced::new(4096, 4096, 1).unwrap();
        media.flush_lines(site!("test.lines"), [0, 640, 64].into_iter());
        let flush = |line| Event::Flush { site: site!("test.lines"), line };
        assert_eq!(media.take_events(), [flush(0), flush(10), flush(1)]);
    }

    #[test]
    fn a_line_is_matched_byte_by_byte_and_its_words_are_loaded() {
        let media = Traced::new(4096, 4096, 1).unwrap();
        let line = media.region().at::<Line>(128).unwrap();
        (0..8).for_each(|i| media.store(&line.0[i as usize], 0x0102_0304_0506_0700 + i));
        media.take_events();
        media.record(true, true);
        let mask = (0..8).fold(0, |mask, i| mask | 1 << (i * 8 + 1));
        assert_eq!(media.match_line(line, 7), (0x0102_0304_0506_0700, mask | 1 << 56));
        let loads = [128, 136, 144, 152, 160, 168, 176, 184].map(|offset| Event::Load { offset });
        assert_eq!(media.take_events(), loads);
    }

    #[test]
    fn recorded_memory_promises_what_it_is_told_to() {
        let media = Traced::new(4096, 4096, 1).unwrap();
        let line = |media: &Traced| {
            let line = media.region().at::<Line>(64).unwrap();
            media.write_line(site!("test.line"), line, [1; 8])
        };
        assert_eq!((media.line_atomicity(), line(&media)), (LineAtomicity::Words, line(&media)));
        let media = media.with_line_atomicity(LineAtomicity::Line).unwrap();
        assert_eq!((media.line_atomicity(), line(&media)), (LineAtomicity::Line, line(&media)));
    }

    #[test]
    fn each_access_is_scheduled_and_carries_its_thread() {
        /// Hands out numbers, and notes what it was told.
        #[derive(Default)]
        struct Numbers(Mutex<Vec<(bool, usize)>>);
        impl Scheduler for Numbers {
            fn schedule(&self, relaxes: bool, events: usize) -> u16 {
                let mut told = self.0.lock();
                told.push((relaxes, events));
                told.len() as u16
            }
        }
        let scheduler = Arc::new(Numbers::default());
        let media = Traced::new(4096, 4096, 1).unwrap().with_scheduler(scheduler.clone()).unwrap();
        let line = media.region().get::<Line>(PPtr::at(64)).unwrap();
        media.store(&line.0[0], 1);
        media.load(&line.0[0]);
        media.write_line(site!("test.line"), line, [2; 8]);
        media.relax();
        media.fence(site!("test.fence"));
        media.match_line(line, 0);
        let threads: Vec<u16> =
            media.take_events_of_threads().into_iter().map(|(thread, _)| thread).collect();
        assert_eq!(threads, [1, 3, 3, 3, 3, 3, 3, 3, 3, 5]);
        let told = scheduler.0.lock();
        assert_eq!(told[..5], [(false, 0), (false, 1), (false, 1), (true, 9), (false, 9)]);
        assert_eq!(told.len(), 5 + 8);
    }

    #[test]
    fn watched_words_are_noted_at_their_first_load_unless_they_were_stored_before() {
        let mut media = Traced::new(4096, 4096, 1).unwrap();
        let line = |media: &Traced, use_it: &dyn Fn(&Line)| {
            use_it(media.region().get::<Line>(PPtr::at(64)).unwrap())
        };
        word(&media, 64); // Not yet.
        media.watch_loads([64, 72, 80, 88, 128, 136, 192]);
        line(&media, &|line| {
            media.load(&line.0[2]);
            media.store(&line.0[1], 5);
            media.load(&line.0[1]);
            media.load(&line.0[4]); // Not watched.
            let _ = media.compare_exchange(&line.0[3], 1, 2);
            media.load(&line.0[2]);
            media.load(&line.0[0]);
        });
        media.write_line(site!("test.line"), media.region().get(PPtr::at(128)).unwrap(), [7; 8]);
        word(&media, 136);
        assert_eq!(
            media.take_watched_loads(),
            [80, 88, 64],
            "the exchange failed, but it has loaded"
        );
        word(&media, 192);
        assert_eq!(media.take_watched_loads(), [], "the watch had ended");
        media.watch_loads([64]);
        assert!(media.restore(&[0; 512]));
        word(&media, 64);
        assert_eq!(media.take_watched_loads(), [], "other memory");
        media.watch_all_loads();
        [256, 128, 256].iter().for_each(|at| _ = word(&media, *at));
        assert_eq!(media.take_watched_loads(), [256, 128]);
    }

    #[test]
    fn a_limit_that_is_hit_is_hit_once() {
        struct Touches(Traced);
        impl Drop for Touches {
            fn drop(&mut self) {
                word(&self.0, 64); // A panic in here would abort.
            }
        }
        let media = Traced::new(4096, 4096, 1).unwrap();
        media.limit_accesses(0);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let touches = Touches(media.clone());
            word(&touches.0, 64)
        }));
        assert!(caught.is_err());
    }

    #[test]
    #[should_panic(expected = "never to end")]
    fn what_never_ends_is_ended() {
        let media = Traced::new(4096, 4096, 1).unwrap();
        media.limit_accesses(1000);
        while word(&media, 64) != 0 {}
    }
}
