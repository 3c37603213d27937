//! The operations on persistent memory.

use crate::{
    Counter, DramSource, Durability, DurablePoint, FlushInstruction, Line, LogCounts, MapError,
    MediaError, PCell, Persistent, Region, Rtm, SimdLevel, Site, Word, simd,
};

/// What a write of a whole line leaves if power fails before the next fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAtomicity {
    /// Any of its eight words, in any combination: each word is old or new.
    Words,
    /// The old line or the new one, under the assumption `atomic-line` of the model.
    Line,
}

/// Where nodes live, and the only way to reach them.
///
/// The order in which stores become durable is decided by the operations below and by nothing else
/// (the full model is in `docs/persistence-model.md`): stores to one line become durable in their
/// order; stores to different lines in any order and at any time, unless a [`flush`](Media::flush)
/// of the line and after it a [`fence`](Media::fence) of the same thread stand in between. An
/// aligned 8-byte store is power-fail atomic.
///
/// [`flush`](Media::flush) and [`fence`](Media::fence) cannot fail: they order, and the
/// instructions behind them have no way to report anything. What can fail is to reach the medium,
/// where a system call is needed for it: [`wait_durable`](Media::wait_durable) and
/// [`sync`](Media::sync) do, and return an error. So an operation in the middle of its persistence
/// steps needs no way back, and the caller that acknowledges it to a user asks first.
pub trait Media: Send + Sync + 'static {
    /// Whether this media wants to know of every word that is read. Then bytes that are lent as a
    /// slice are loaded through it as well, and words are not read for hints alone.
    const COUNTS_READS: bool = false;

    /// Whether this media decides which thread runs next. Then no thread may hold a blocking lock
    /// across an access: the thread that waits says so by [`relax`](Media::relax).
    const SCHEDULED: bool = false;

    /// The mapped memory.
    fn region(&self) -> &Region;

    /// The widest vector compare that this media may use.
    fn simd(&self) -> SimdLevel;

    /// Whether a run on this media must come out the same each time. Then nothing may depend on
    /// where a thread's stack happens to lie.
    #[inline(always)]
    fn is_repeatable(&self) -> bool {
        Self::SCHEDULED
    }

    /// The strongest failure that a store survives which was flushed and fenced here: what the
    /// medium promises, less where flushes are left out.
    fn durability(&self) -> Durability {
        self.region().medium().durability()
    }

    /// The transactions of the processor, where it has them and trees on this media may run them on
    /// their volatile parts. Not where accesses are recorded: the processor aborts a transaction
    /// when it likes, and a recording must be the same every time.
    fn rtm(&self) -> Option<Rtm> {
        None
    }

    /// Where the volatile parts of a tree take their memory from.
    fn dram(&self) -> DramSource<'_> {
        self.simd().into()
    }

    /// Reads a cell (acquire).
    fn load<T: Word>(&self, cell: &PCell<T>) -> T;

    /// Writes a cell (release). Visible at once; durable after a flush of its line and a fence, or
    /// earlier.
    fn store<T: Word>(&self, cell: &PCell<T>, value: T);

    /// Writes `new` if the cell holds `current` (acquire and release); otherwise returns what it
    /// holds. No fence.
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T>;

    /// Reads a whole line once: its first word, and a mask with bit `i` set where byte `i` of the
    /// line equals `byte`. Each word is read atomically; the line as a whole is not.
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64);

    /// Reads a whole line once: a mask with bit `i` set where word `i` of the line equals `word`,
    /// and one where it is 0. Each word is read atomically; the line as a whole is not.
    #[inline]
    fn match_word(&self, line: &Line, word: u64) -> (u64, u64) {
        simd::match_word_scalar(|i| self.load(&line.0[i]), word)
    }

    /// Asks for a line ahead of its use; a hint, never a promise.
    fn prefetch<T: Persistent>(&self, object: &T);

    /// Writes the line that holds `cell` back towards persistence; complete at the next fence. One
    /// flush. What other threads have stored to the line goes with it, if this thread has loaded
    /// something of the line since it learned of that ([`flush_lines`](Media::flush_lines) asks for
    /// no load).
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>);

    /// Flushes every line that `object` touches: `ceil` of its size by 64 bytes flushes when
    /// line-aligned.
    fn flush_object<T: Persistent>(&self, site: Site, object: &T);

    /// Flushes the lines at these offsets (bytes from the pool's base), as many flushes as there
    /// are: what an epoch has changed, at its end, by whichever thread. No fence.
    ///
    /// # Panics
    /// If an offset lies outside the region or is not a multiple of 8: a mistake of the program,
    /// which notes lines as it writes to them.
    #[inline]
    fn flush_lines(&self, site: Site, lines: impl Iterator<Item = u64>) {
        for offset in lines {
            let line = self.region().at::<PCell>(offset);
            self.flush(site, line.expect("lines are noted as they are written to"));
        }
    }

    /// The instruction that a flush is on this media; none where it needs none.
    fn flush_instruction(&self) -> FlushInstruction {
        FlushInstruction::None
    }

    /// Orders: when it returns, every flush of this thread before it comes before everything that
    /// this thread does later. On a media whose [`durable_point`](Media::durable_point) is always
    /// reached, it is durable then. One fence.
    fn fence(&self, site: Site);

    /// Keeps the stores before it and after it to *one line* apart, in this order. No instruction:
    /// such stores become durable in the order in which they become visible, and every
    /// [`store`](Media::store) is a release.
    fn order(&self, site: Site);

    /// What every [`write_line`](Media::write_line) of this media promises at least; it never
    /// changes. Where it is [`LineAtomicity::Words`], a structure that cannot bear a torn line
    /// writes a log first.
    fn line_atomicity(&self) -> LineAtomicity {
        LineAtomicity::Words
    }

    /// Writes a whole line, and flushes it if that is needed. Returns what this very write
    /// promises: never less than [`line_atomicity`](Media::line_atomicity), and more where a
    /// transaction of the processor was tried and succeeded.
    ///
    /// Visible to this thread on return and to the others after its next fence, or earlier: a lock
    /// that guards the line is released after the fence. Durable after that fence as well.
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity;

    /// Whether [`try_write_line`](Media::try_write_line) can succeed at all here. Where
    /// [`line_atomicity`](Media::line_atomicity) promises words only, what it writes is whole after
    /// a power failure by the assumption `atomic-line` and not otherwise.
    fn may_write_lines(&self) -> bool {
        self.line_atomicity() == LineAtomicity::Line
    }

    /// As [`write_line`](Media::write_line), but at once, or nothing: false if there is no way to,
    /// or if the processor has aborted each of some attempts.
    fn try_write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> bool {
        let promised = self.line_atomicity() == LineAtomicity::Line;
        if promised {
            self.write_line(site, line, words);
        }
        promised
    }

    /// One iteration of a spin loop.
    fn relax(&self);

    /// Marks the end of an operation of the index; the counting media closes its tally of distinct
    /// lines here.
    fn end_operation(&self);

    /// Whether a fence only orders here, so that a caller that promises durability must wait for it
    /// ([`wait_durable`](Media::wait_durable)). Elsewhere what was fenced is durable. It never
    /// changes.
    #[inline(always)]
    fn is_durable_later(&self) -> bool {
        false
    }

    /// The point at which all that was fenced so far is durable.
    #[inline(always)]
    fn durable_point(&self) -> DurablePoint {
        DurablePoint::REACHED
    }

    /// Whether what was fenced before `point` was drawn is durable; it does not wait.
    #[inline(always)]
    fn is_durable(&self, _point: DurablePoint) -> bool {
        true
    }

    /// Returns when what was fenced before `upto` was drawn is durable. Nothing to wait for where a
    /// fence is durable on return; where it is not, even [`DurablePoint::REACHED`] tells whether
    /// anything can be made durable still, and may hold a writer up that is ahead of the medium.
    /// The caller holds no lock.
    ///
    /// # Errors
    /// [`MediaError`]: it may not be durable, now and for ever.
    #[inline(always)]
    fn wait_durable(&self, _upto: DurablePoint) -> Result<(), MediaError> {
        Ok(())
    }

    /// Writes all that was stored to the file behind the region, and waits for it. Nothing to do on
    /// persistent memory, whose stores are durable already, and in DRAM.
    ///
    /// # Errors
    /// [`MediaError`]; after the first failure always, see [`SyncLatch`](crate::SyncLatch).
    fn sync(&self) -> Result<(), MediaError> {
        self.region().sync()
    }

    /// Writes what the medium still holds back beside what is durable, after the last store and the
    /// last [`sync`](Self::sync). What it fails to write is not lost.
    ///
    /// # Errors
    /// [`MediaError`].
    fn finish(&self) -> Result<(), MediaError> {
        Ok(())
    }

    /// Lengthens the region in place; see [`Region::grow`]. What the new memory holds must not be
    /// relied on.
    ///
    /// # Errors
    /// As [`Region::grow`].
    fn grow(&self, new_len: u64) -> Result<(), MapError> {
        self.region().grow(new_len)
    }

    /// What the log of this media has done; none if it has no log.
    fn log_counts(&self) -> Option<LogCounts> {
        None
    }

    /// Adds `n` to a counter; nothing unless this media counts.
    #[inline(always)]
    fn count(&self, _counter: Counter, _n: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpu, Mapped, site};

    fn hardware() -> Mapped {
        let region = Region::anonymous(4096, 4096).unwrap();
        Mapped::new(region, &Cpu::detect()).unwrap()
    }

    #[test]
    fn threads_block_on_hardware_and_nothing_is_counted_there() {
        const { assert!(!Mapped::COUNTS_READS && !Mapped::SCHEDULED) };
        assert!(!hardware().is_repeatable());
    }

    #[test]
    #[should_panic(expected = "noted as they are written")]
    fn a_line_outside_the_region_is_not_flushed() {
        hardware().flush_lines(site!("test.lines"), [4096].into_iter());
    }

    #[test]
    fn what_is_fenced_on_a_strict_media_is_durable() {
        let media = hardware();
        media.fence(site!("test.fence"));
        assert_eq!(media.durable_point(), DurablePoint::REACHED);
        assert!(media.wait_durable(media.durable_point()).is_ok() && media.sync().is_ok());
    }
}
