//! The seam between [`Store`](crate::Store) and its trees, which know neither media nor kinds of
//! keys, and the parts that do.
//!
//! Keys are here as the index has them: [`keyspace`](crate::core::keyspace) makes them of what
//! callers give.

use std::any::Any;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

use everleaf_index::Direction;
use everleaf_pool::{KeyType, RootName};

use crate::core::deferred_waits::Waiting;
use crate::core::gate::Turn;
use crate::core::images::Images;
use crate::core::keyspace::Space;
use crate::core::progress::Watch;
use crate::core::read_set::{Bounds, Reads};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::{NewValue, TimedValue};
use crate::core::write::Write;
use crate::{
    Capabilities, CheckOutcome, DurabilityMode, Engine, EngineParameters, Error, Key, OwnedKey,
    Statistics,
};

/// The mark of a pool whose restore has begun and not ended.
pub(crate) const BEING_RESTORED: RootName = RootName::new("refill");

/// When a write takes place. An expired value counts as absent.
pub enum Condition<'c> {
    /// Whatever is there.
    Always,
    /// Only if the key is absent.
    Absent,
    /// Only if it is present.
    Present,
    /// Only if its value is still there, and had expired by then.
    Expired(u64),
    /// If this says so of the value. It runs under the lock of the key and must not call the store.
    If(&'c mut dyn FnMut(Option<&[u8]>) -> bool),
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Whether its condition held.
    pub done: bool,
    /// Whether the key was present.
    pub was_present: bool,
}

impl Condition<'_> {
    /// The same once more.
    pub(crate) fn reborrow(&mut self) -> Condition<'_> {
        match self {
            Self::Always => Condition::Always,
            Self::Absent => Condition::Absent,
            Self::Present => Condition::Present,
            Self::Expired(by_ms) => Condition::Expired(*by_ms),
            Self::If(test) => Condition::If(test),
        }
    }
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Moments of expiry that had passed: it looked at the keys of these, and at no others. A key
    /// that was written or removed meanwhile may be among them.
    pub looked_at: u64,
    /// Entries that had expired and were removed.
    pub removed: u64,
}

/// What a scan calls for each entry: the key and its value; `Break` ends the scan.
pub type Visit<'v> = dyn FnMut(Key<'_>, TimedValue<'_>) -> ControlFlow<()> + 'v;

/// Reading keys and ranges.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait Reading: Send + Sync {
    /// Shows the value where it lies, or a copy; returns whether there is one.
    fn get_with(
        &self,
        life: &TreeLiveness,
        key: Key<'_>,
        show: &mut dyn FnMut(TimedValue<'_>),
    ) -> Result<bool, Error>;
    /// Shows the values of those keys that are present, with their positions.
    fn get_many(
        &self,
        life: &TreeLiveness,
        keys: &[Key<'_>],
        show: &mut dyn FnMut(usize, TimedValue<'_>),
    ) -> Result<(), Error>;
    /// Brings what leads to keys into the processor's caches.
    fn prefetch(&self, life: &TreeLiveness, keys: &[Key<'_>]) -> Result<(), Error>;
    /// Visits entries from `from` on in `direction`, expired ones too if that is wanted. `visit`
    /// must not call the store.
    fn scan(
        &self,
        life: &TreeLiveness,
        from: Bound<Key<'_>>,
        direction: Direction,
        expired: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error>;
    /// Keys of one tree, or of all, whose values have not expired.
    fn keys_in(&self, life: &TreeLiveness, space: Option<Space>) -> Result<u64, Error>;
}

/// Writing a key, and writing many together.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait Writing: Send + Sync {
    /// Stores a value, or removes the key, if the condition holds.
    fn write(
        &self,
        life: &TreeLiveness,
        key: Key<'_>,
        condition: Condition<'_>,
        new: Option<NewValue<'_>>,
    ) -> Result<WriteOutcome, Error>;
    /// All of the writes or none; what became of each.
    fn apply(&self, writes: &[Write]) -> Result<Vec<WriteOutcome>, Error>;
}

/// Removing what has expired.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait Sweeping: Send + Sync {
    /// Returns when what expires is known, of all that was there when the store was opened.
    fn know_what_expires(&self) -> Result<(), Error>;
    /// Whether that is so now.
    fn knows_what_expires(&self) -> bool;
    /// Makes it so, unless it is, by a thread for which nobody waits; whether there is one.
    fn walk_in_background(self: Arc<Self>) -> bool;
    /// Removes a group of what is known and had expired by then; nothing looked at: there is no
    /// more.
    fn remove_some_expired(&self, by_ms: u64) -> Result<Swept, Error>;
}

/// What a transaction asks for.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait Transacting: Send + Sync {
    /// Nothing read yet, at this moment.
    fn begin_reads(&self) -> Result<Reads, Error>;
    /// Reads a key, at the moment of what was read so far.
    fn read_into(&self, reads: &mut Reads, life: &TreeLiveness, key: Key<'_>) -> Result<(), Error>;
    /// Reads entries of a range from one end, at the moment of what was read so far, and no more
    /// than so many; what is left of the range, if anything is.
    fn scan_into(
        &self,
        reads: &mut Reads,
        life: &TreeLiveness,
        range: Bounds,
        end: Direction,
        limit: usize,
    ) -> Result<Option<Bounds>, Error>;
    /// Keeps other threads from writing until the turn is dropped, at most so long; none where that
    /// is not done.
    fn run_alone(&self, patience: Duration) -> Option<Turn<'_>>;
    /// All of the writes, if everything that was read is still so; else none.
    fn commit(&self, reads: &Reads, writes: &[Write]) -> Result<(), Error>;
}

/// A place of the pool that holds nothing but records of one tree, until this is dropped: nothing
/// comes to lie there meanwhile, and what is empty then is free.
pub struct ClaimedPlace {
    /// Keys of the tree, of which the records there are or were.
    pub keys: Vec<OwnedKey>,
    pub(crate) _claim: Box<dyn Any>,
}

/// A store on some media, with some kind of keys and some engine. The methods mean what those of
/// the same name in [`Store`](crate::Store) mean.
#[allow(missing_docs, clippy::missing_errors_doc)]
pub trait Backend: Reading + Writing + Transacting + Sweeping {
    /// Whether it may be called here: not within a closure that it shows something to, and not in a
    /// process that was forked after it was opened.
    fn ready(&self) -> Result<(), Error>;
    fn engine(&self) -> Engine;
    fn key_type(&self) -> KeyType;
    /// The sizes of the engine's nodes.
    fn parameters(&self) -> EngineParameters;
    /// The time that values expire by, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// Returns when all operations that had begun have ended.
    fn wait_for_others(&self) -> Result<(), Error>;
    /// Begins to keep the values that writes replace, so that the state of this moment can be read.
    fn begin_snapshot(&self, limit_bytes: u64) -> Result<Arc<Images>, Error>;
    fn end_snapshot(&self, images: &Arc<Images>);
    fn statistics(&self) -> Result<Statistics, Error>;
    /// Claims a place for a record of so many bytes where only records of this tree lie; the search
    /// begins at an offset. None: the place that was found has others too, or there is none.
    fn claim_place(
        &self,
        space: Space,
        from: u64,
        bytes: u64,
    ) -> Result<Option<ClaimedPlace>, Error>;
    /// Whether a record of so many bytes would fit if it were the only one.
    fn has_place(&self, bytes: u64) -> Result<bool, Error>;
    fn capabilities(&self) -> Capabilities;
    /// The durability that was chosen when the pool was created, if one was.
    fn chosen_durability(&self) -> Result<Option<DurabilityMode>, Error>;
    fn check(&self, watch: &mut Watch<'_>) -> Result<CheckOutcome, Error>;
    /// What waits for points of a log ([`behind`](crate::core::behind)); none where nobody does.
    fn points(&self) -> Option<Arc<dyn Waiting>>;
    fn sync(&self) -> Result<(), Error>;
    /// Whether the pool has the mark of a restore that has not ended.
    fn is_being_restored(&self) -> Result<bool, Error>;
    /// Gives it the mark, or takes it away; durable on return.
    fn mark_being_restored(&self, marked: bool) -> Result<(), Error>;
    /// Closes cleanly; does nothing when done again. Every other call gives [`Error::Closed`]
    /// afterwards.
    fn close(&self) -> Result<(), Error>;
}
