//! Hardware with hooks: what counting and emulating media have in common.

use crate::cpu::{Rtm, SimdLevel};
use crate::hardware::lines_of;
use crate::{
    Counter, Durability, Hardware, Line, LineAtomicity, Media, PCell, Persistent, Region, Site,
    Word,
};

/// What an [`Instrumented`] media does at each operation, beside the operation. Places are byte
/// offsets from the pool's base. Two hooks in a pair are both called, the first one first.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use everleaf_pmem::{Cpu, Hardware, Hook, Instrumented, Media, Region, Site, site};
///
/// /// Counts fences.
/// #[derive(Default)]
/// struct Fences(AtomicU64);
///
/// impl Hook for Fences {
///     fn after_fence(&self, _site: Site) {
///         self.0.fetch_add(1, Relaxed);
///     }
/// }
///
/// let hardware = Hardware::new(Region::anonymous(4096, 4096)?, &Cpu::detect())?;
/// let media = Instrumented::with_hook(hardware, Fences::default());
/// media.fence(site!("example.fence"));
/// assert_eq!(media.hook().0.load(Relaxed), 1);
/// # Ok::<(), everleaf_pmem::MapError>(())
/// ```
pub trait Hook: Send + Sync + 'static {
    /// As [`Media::REPEATABLE`].
    const REPEATABLE: bool = false;

    /// Right before a word, or the line that begins there, is read. An exchange reads too.
    #[inline(always)]
    fn before_load(&self, _offset: u64) {}
    /// Right after a word was stored to, or exchanged.
    #[inline(always)]
    fn after_store(&self, _offset: u64) {}
    /// After the line that holds `offset` was flushed.
    #[inline(always)]
    fn after_flush(&self, _site: Site, _offset: u64) {}
    /// After a fence.
    #[inline(always)]
    fn after_fence(&self, _site: Site) {}
    /// After a whole line was written.
    #[inline(always)]
    fn after_line_write(&self, _offset: u64) {}
    /// At the end of an operation of the index.
    #[inline(always)]
    fn after_operation(&self) {}
    /// When an index reports an event.
    #[inline(always)]
    fn count(&self, _counter: Counter, _n: u64) {}
}

impl<A: Hook, B: Hook> Hook for (A, B) {
    const REPEATABLE: bool = A::REPEATABLE || B::REPEATABLE;

    fn before_load(&self, offset: u64) {
        self.0.before_load(offset);
        self.1.before_load(offset);
    }
    fn after_store(&self, offset: u64) {
        self.0.after_store(offset);
        self.1.after_store(offset);
    }
    fn after_flush(&self, site: Site, offset: u64) {
        self.0.after_flush(site, offset);
        self.1.after_flush(site, offset);
    }
    fn after_fence(&self, site: Site) {
        self.0.after_fence(site);
        self.1.after_fence(site);
    }
    fn after_line_write(&self, offset: u64) {
        self.0.after_line_write(offset);
        self.1.after_line_write(offset);
    }
    fn after_operation(&self) {
        self.0.after_operation();
        self.1.after_operation();
    }
    fn count(&self, counter: Counter, n: u64) {
        self.0.count(counter, n);
        self.1.count(counter, n);
    }
}

/// [`Hardware`] with a [`Hook`]. A type of its own, so that a run on `Hardware` holds no
/// instruction of any hook.
pub struct Instrumented<H: Hook> {
    hardware: Hardware,
    hook: H,
}

impl<H: Hook> Instrumented<H> {
    /// `hardware`, with `hook` called at every operation.
    pub fn with_hook(hardware: Hardware, hook: H) -> Self {
        Self { hardware, hook }
    }

    /// The hook.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    #[inline(always)]
    fn offset(&self, address: usize) -> u64 {
        self.hardware.region().offset_of(address)
    }
}

impl<H: Hook> Media for Instrumented<H> {
    const COUNTS_READS: bool = true;
    const REPEATABLE: bool = H::REPEATABLE;

    fn region(&self) -> &Region {
        self.hardware.region()
    }
    fn simd(&self) -> SimdLevel {
        self.hardware.simd()
    }
    fn durability(&self) -> Durability {
        self.hardware.durability()
    }
    fn rtm(&self) -> Option<Rtm> {
        self.hardware.rtm()
    }
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        self.hook.before_load(self.offset(cell.address()));
        self.hardware.load(cell)
    }
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        self.hardware.store(cell, value);
        self.hook.after_store(self.offset(cell.address()));
    }
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        let offset = self.offset(cell.address());
        self.hook.before_load(offset);
        let outcome = self.hardware.compare_exchange(cell, current, new);
        if outcome.is_ok() {
            self.hook.after_store(offset);
        }
        outcome
    }
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        self.hook.before_load(self.offset(line.0[0].address()));
        self.hardware.match_line(line, byte)
    }
    fn prefetch<T: Persistent>(&self, object: &T) {
        self.hardware.prefetch(object);
    }
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>) {
        self.hardware.flush(site, cell);
        self.hook.after_flush(site, self.offset(cell.address()));
    }
    fn flush_object<T: Persistent>(&self, site: Site, object: &T) {
        self.hardware.flush_object(site, object);
        for line in lines_of(object) {
            self.hook.after_flush(site, self.offset(line));
        }
    }
    fn fence(&self, site: Site) {
        self.hardware.fence(site);
        self.hook.after_fence(site);
    }
    fn order(&self, site: Site) {
        self.hardware.order(site);
    }
    fn line_atomicity(&self) -> LineAtomicity {
        self.hardware.line_atomicity()
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        let promised = self.hardware.write_line(site, line, words);
        self.hook.after_line_write(self.offset(line.0[0].address()));
        promised
    }
    fn relax(&self) {
        self.hardware.relax();
    }
    fn end_operation(&self) {
        self.hardware.end_operation();
        self.hook.after_operation();
    }
    fn count(&self, counter: Counter, n: u64) {
        self.hook.count(counter, n);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::{Cpu, LINE, site};

    /// Writes down what it is told.
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Notes {
        fn note(&self, what: &str, at: impl std::fmt::Debug) {
            self.0.lock().push(format!("{what} {at:?}"));
        }
    }

    impl Hook for Notes {
        const REPEATABLE: bool = true;

        fn before_load(&self, offset: u64) {
            self.note("load", offset);
        }
        fn after_store(&self, offset: u64) {
            self.note("store", offset);
        }
        fn after_flush(&self, site: Site, offset: u64) {
            self.note(site.name(), offset / LINE as u64);
        }
        fn after_fence(&self, site: Site) {
            self.note("fence", site);
        }
        fn after_line_write(&self, offset: u64) {
            self.note("line", offset);
        }
        fn after_operation(&self) {
            self.note("end", ());
        }
        fn count(&self, counter: Counter, n: u64) {
            self.note(&format!("{n}"), counter);
        }
    }

    /// Wants nothing.
    struct Nothing;
    impl Hook for Nothing {}

    #[test]
    fn each_hook_of_a_pair_is_called_at_every_operation() {
        let region = Region::anonymous(4096, 4096).unwrap();
        let hardware = Hardware::new(region, &Cpu::detect()).unwrap();
        let pair = ((Notes::default(), Nothing), Notes::default());
        let media = Instrumented::with_hook(hardware, pair);
        let line = media.region().at::<Line>(128).unwrap();
        media.load(&line.0[1]);
        media.store(&line.0[2], 5);
        assert_eq!(media.compare_exchange(&line.0[2], 5, 6), Ok(()));
        assert_eq!(media.compare_exchange(&line.0[2], 5, 7), Err(6));
        media.match_line(line, 0);
        media.flush(site!("test.word"), &line.0[7]);
        media.flush_object(site!("test.lines"), media.region().at::<[Line; 2]>(192).unwrap());
        media.flush_lines(site!("test.epoch"), [640].into_iter());
        media.fence(site!("test.fence"));
        media.order(site!("test.order"));
        media.write_line(site!("test.line"), line, [9; 8]);
        media.end_operation();
        media.count(Counter::LeafSplits, 3);
        let expected = [
            "load 136",
            "store 144",
            "load 144",
            "store 144",
            "load 144",
            "load 128",
            "test.word 2",
            "test.lines 3",
            "test.lines 4",
            "test.epoch 10",
            "fence test.fence",
            "line 128",
            "end ()",
            "3 LeafSplits",
        ];
        let ((first, _), second) = media.hook();
        assert_eq!(*first.0.lock(), expected);
        assert_eq!(*second.0.lock(), expected);
    }

    #[test]
    fn a_pair_is_repeatable_if_one_of_it_must_be() {
        const { assert!(<Instrumented<(Nothing, Notes)>>::REPEATABLE) };
        const { assert!(!<Instrumented<(Nothing, Nothing)>>::REPEATABLE) };
    }
}
