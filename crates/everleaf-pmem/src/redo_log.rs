//! What memory whose flushes go to a log asks of that log.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

use crate::{DurablePoint, Line, LogCounts, MapError, MediaError, PCell};

/// A log of what is flushed, which a [`Mapped`](crate::Mapped) memory hands its stores and flushes
/// to. It has a handle of the memory itself ([`Region::share`](crate::Region::share)), and makes
/// the stores: which are new, and which group they belong to, is decided together with them.
///
/// Offsets are in bytes, from the beginning of the region; lines are counted from there. The
/// methods that can fail say so once and for all: after the first failure nothing is acknowledged
/// any more.
pub trait RedoLog: Any + Debug + Send + Sync {
    /// Stores a word.
    fn store(&self, offset: u64, cell: &PCell, word: u64);

    /// Stores `new` if the cell holds `current`; else what it holds.
    ///
    /// # Errors
    /// The word that is there.
    fn compare_exchange(
        &self,
        offset: u64,
        cell: &PCell,
        current: u64,
        new: u64,
    ) -> Result<(), u64>;

    /// Stores a whole line, of which a crash leaves all or nothing, and captures it.
    fn write_line(&self, offset: u64, line: &Line, words: [u64; 8]);

    /// Captures what is new in these lines.
    fn capture(&self, lines: Range<u64>);

    /// The same for the lines at these offsets.
    ///
    /// # Panics
    /// If one lies outside the region: a mistake of the program.
    fn capture_at(&self, offsets: &mut dyn Iterator<Item = u64>);

    /// The point at which all that was captured so far is durable.
    fn point(&self) -> DurablePoint;

    /// Whether what was captured before `point` was drawn is durable.
    fn is_durable(&self, point: DurablePoint) -> bool;

    /// Returns when it is; the caller holds no lock.
    ///
    /// # Errors
    /// [`MediaError`].
    fn wait_durable(&self, upto: DurablePoint) -> Result<(), MediaError>;

    /// Makes all that was captured durable.
    ///
    /// # Errors
    /// [`MediaError`].
    fn sync(&self) -> Result<(), MediaError>;

    /// After the last store: the log becomes short. What fails is not lost.
    ///
    /// # Errors
    /// [`MediaError`].
    fn finish(&self) -> Result<(), MediaError>;

    /// Lengthens the file behind the memory, before the memory itself.
    ///
    /// # Errors
    /// As [`Region::grow`](crate::Region::grow).
    fn lengthen(&self, new_len: u64) -> Result<(), MapError>;

    /// What it has done.
    fn counts(&self) -> LogCounts;
}
