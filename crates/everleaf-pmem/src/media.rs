//! The doors to persistent memory.

use crate::{
    Counter, DramSource, Line, MapError, PCell, Persistent, Region, SimdLevel, Site, Word,
};

/// Where nodes live, and the only way to reach them.
///
/// The order in which stores become durable is decided by the doors below and by nothing else (the
/// full model is in `docs/persistence-model.md`): stores to one line become durable in their order;
/// stores to different lines in any order and at any time, unless a [`flush`](Media::flush) of the
/// line and after it a [`fence`](Media::fence) of the same thread stand in between. An aligned
/// 8-byte store is power-fail atomic.
pub trait Media: Send + Sync + 'static {
    /// Whether this media wants to know of every word read: then bytes that are lent as a slice are
    /// loaded through it as well. It may also decide which thread runs, so nobody may hold a
    /// blocking lock across an access.
    const OBSERVES_READS: bool = false;

    /// The mapped memory.
    fn region(&self) -> &Region;

    /// The widest vector compare that this media may use.
    fn simd(&self) -> SimdLevel;

    /// Whether trees on this media may run transactions of the processor on their volatile parts,
    /// and it has them. Not where accesses are recorded: the processor aborts a transaction when it
    /// likes, and a recording must be the same every time.
    fn has_rtm(&self) -> bool {
        false
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

    /// Asks for a line ahead of its use; a hint, never a promise.
    fn prefetch<T: Persistent>(&self, object: &T);

    /// Writes the line that holds `cell` back towards persistence; complete at the next fence. One
    /// flush.
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>);

    /// Flushes every line that `object` touches: `ceil` of its size by 64 bytes flushes when
    /// line-aligned.
    fn flush_object<T: Persistent>(&self, site: Site, object: &T);

    /// Orders: every flush of this thread before it is durable when it returns. One fence.
    fn fence(&self, site: Site);

    /// Keeps the stores before it and after it to *one line* apart, in this order. No instruction
    /// on x86: such stores become durable in the order in which they became visible.
    fn order(&self, site: Site);

    /// Writes a whole line such that, under the assumption `atomic-line`, a power failure leaves it
    /// whole or not at all; without that assumption any subset of its words. Visible on return;
    /// durable after the next fence.
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]);

    /// One turn of a spin loop.
    fn relax(&self);

    /// Marks the end of an operation of the index; the counting media closes its tally of distinct
    /// lines here.
    fn end_operation(&self);

    /// Lengthens the region in place; see [`Region::grow`]. What the new memory holds must not be
    /// relied on.
    ///
    /// # Errors
    /// As [`Region::grow`].
    fn grow(&self, new_len: u64) -> Result<(), MapError> {
        self.region().grow(new_len)
    }

    /// Adds `n` to a counter; nothing unless this media counts.
    #[inline(always)]
    fn count(&self, _counter: Counter, _n: u64) {}
}
