//! Room for what makes room.
//!
//! Some free chunks are held back from everything that makes the pool fuller: the *reserve*. So a
//! full pool still takes what frees memory, or takes no more than it frees: the log of a batch that
//! removes, and a record that replaces one whose block it would fit into.
//!
//! The reserve is a rule over the number of free chunks, and nothing of it is in the file. An
//! ordinary allocation gets a free chunk while more than the reserve are left. The thread that
//! [draws](Pool::draw_on_reserve) on the reserve gets the others too, one thread at a time, always
//! as runs: a chunk that was drawn holds one record, and is free as a whole when that goes.
//!
//! A record that replaces another one would stay in the reserve, and the block of the old one would
//! be anybody's. So it does not stay: when the old record is freed, the new one moves to its
//! [place](Place), which is kept from all workers meanwhile. Then the pool is as full as it was
//! before, and the reserve is whole, whatever sizes have replaced each other.
//!
//! ```text
//! V1  the new record is linked from the reserve: a link, or a batch    as there
//!     Crash: before it or after it. After it the record stays in the chunk that was drawn, until
//!     it is replaced or removed.
//! V2  the same record is linked in the place of the old one            a link
//!     Crash: it is in the reserve or in its place.
//! ```
//! A thread that reads the old record for longer than it is waited for keeps the new one in the
//! reserve.

use std::thread::ThreadId;

use everleaf_pmem::{Media, PPtr};
use parking_lot::{Mutex, MutexGuard};

use crate::chunks::{Block, lock_relaxing};
use crate::classes::{Class, Usage};
use crate::layout::CHUNK;
use crate::record::{Owner, RECORD_HEADER_BYTES, content_bytes};
use crate::{EpochWorker, NodeKind, Pool, PoolError, Record, Run, Worker};

/// Who draws on the reserve.
#[derive(Default)]
pub(crate) struct Drawing {
    turn: Mutex<()>,
    thread: Mutex<Option<ThreadId>>,
}

/// While this is held, records, logs of batches and of epochs that this thread allocates come from
/// the reserve where the pool has no other room for them. Another thread that wants to draw waits.
pub struct Reserve<'p, M: Media> {
    pool: &'p Pool<M>,
    _turn: MutexGuard<'p, ()>,
}

/// The block of a record that is being replaced, kept from all workers for the one that replaces
/// it.
pub struct Place<'p, M: Media> {
    pool: &'p Pool<M>,
    block: Block,
}

impl<M: Media> Pool<M> {
    /// Lets this thread allocate from the reserve. Only for what takes no more memory than it
    /// frees.
    pub fn draw_on_reserve(&self) -> Reserve<'_, M> {
        let turn = lock_relaxing(&self.drawing.turn, self.media());
        *self.drawing.thread.lock() = Some(std::thread::current().id());
        Reserve { pool: self, _turn: turn }
    }

    fn draws(&self) -> bool {
        *self.drawing.thread.lock() == Some(std::thread::current().id())
    }

    /// Whether a record of so many bytes fits into the block or the run of `old`; false if there is
    /// none.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if `old` is not a record.
    pub fn takes_no_more(&self, old: PPtr<Record>, bytes: u64) -> Result<bool, PoolError> {
        if old.is_null() {
            return Ok(false);
        }
        let usage = match self.chunks().block_at(self.media(), old.offset(), None)?.run {
            Some(run) => run,
            None => self.chunks().usage(self.media(), old.offset() / CHUNK)?,
        };
        let room = usage.class().map_or(usage.chunks() * CHUNK, Class::block_bytes);
        Ok(RECORD_HEADER_BYTES + bytes <= room)
    }

    /// Whether a record lies in a chunk that was drawn from the reserve: only there a run is a
    /// single chunk.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if it is not a record.
    pub fn is_drawn(&self, record: PPtr<Record>) -> Result<bool, PoolError> {
        let block = self.chunks().block_at(self.media(), record.offset(), None)?;
        Ok(block.run == Some(Usage::RecordRun(1)))
    }
}

impl<M: Media> Reserve<'_, M> {
    /// Keeps the block of `old`, which is going to be replaced; none if it is a run, which leaves
    /// whole chunks.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if it is not a record.
    pub fn keep(&self, old: PPtr<Record>) -> Result<Option<Place<'_, M>>, PoolError> {
        let block = self.pool.chunks().block_at(self.pool.media(), old.offset(), None)?;
        if block.run.is_some() {
            return Ok(None);
        }
        self.pool.chunks().keep_place(self.pool.media(), block)?;
        Ok(Some(Place { pool: self.pool, block }))
    }
}

impl<M: Media> Drop for Reserve<'_, M> {
    fn drop(&mut self) {
        *self.pool.drawing.thread.lock() = None;
    }
}

impl<M: Media> Place<'_, M> {
    /// Whether the old record is freed and no thread reads it any more; threads that do are given
    /// some time.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn is_left(&self) -> Result<bool, PoolError> {
        let (chunks, media) = (self.pool.chunks(), self.pool.media());
        if chunks.is_in_use(media, self.block)? {
            return Ok(false);
        }
        chunks.wait_for_readers(media, || {
            chunks.reclaim_all(media)?;
            Ok(!chunks.is_read(self.block))
        })
    }
}

impl<M: Media> Drop for Place<'_, M> {
    fn drop(&mut self) {
        // A damaged table is reported by the next operation or check.
        let _ = self.pool.chunks().let_go_of_place(self.pool.media(), self.block);
    }
}

impl<M: Media> Worker<M> {
    /// Memory for the record of an entry, and the record in it.
    pub(crate) fn reserve_entry(&mut self, parts: &[&[u8]]) -> Result<Block, PoolError> {
        let bytes = RECORD_HEADER_BYTES + content_bytes(parts)?;
        let run = Usage::RecordRun(bytes.div_ceil(CHUNK));
        let block = match self.place.take() {
            Some(place) => place,
            None => self.reserve(None, bytes, 8).or_else(|full| self.draw(run, full))?,
        };
        self.pool.write_record(block.offset, Owner::Entry, parts)?;
        Ok(block)
    }

    /// A run from the reserve if this thread draws on it, after `refused`.
    pub(crate) fn draw(&self, run: Usage, refused: PoolError) -> Result<Block, PoolError> {
        if matches!(refused, PoolError::Corrupt { .. }) || !self.pool.draws() {
            return Err(refused);
        }
        self.pool.chunks().take_run(self.pool.media(), run, 0)?.ok_or(refused)
    }

    /// V2: as [`begin_link`](Worker::begin_link); the new record goes to the place, which is
    /// [left](Place::is_left).
    ///
    /// # Errors
    /// Those of [`begin_link`](Worker::begin_link).
    pub fn begin_return(
        &mut self,
        old: PPtr<Record>,
        parts: &[&[u8]],
        place: &Place<'_, M>,
    ) -> Result<PPtr<Record>, PoolError> {
        self.place = Some(place.block);
        let begun = self.begin_link(old, Some(parts));
        self.place = None;
        begun
    }

    /// As [`alloc_run`](Worker::alloc_run), of `bytes`, or of `least` bytes from the reserve, to be
    /// given back soon; and whether it was drawn from there.
    ///
    /// # Errors
    /// Those of [`alloc_run`](Worker::alloc_run).
    pub fn alloc_run_or_draw(
        &mut self,
        kind: NodeKind,
        bytes: u64,
        least: u64,
        prepare: impl FnOnce(&Pool<M>, Run) -> Result<(), PoolError>,
    ) -> Result<(Run, bool), PoolError> {
        let usage = |bytes: u64| Usage::NodeRun(kind, bytes.div_ceil(CHUNK).max(1));
        let (block, drawn) = match self.reserve_run(usage(bytes)) {
            Ok(block) => (block, false),
            Err(refused) => (self.draw(usage(least), refused)?, true),
        };
        Ok((self.publish_run(block, prepare)?, drawn))
    }
}

impl<M: Media> EpochWorker<M> {
    /// As [`alloc_record`](EpochWorker::alloc_record), in a place that is [left](Place::is_left).
    ///
    /// # Errors
    /// Those of [`alloc_record`](EpochWorker::alloc_record).
    pub fn alloc_record_at(
        &mut self,
        parts: &[&[u8]],
        place: &Place<'_, M>,
    ) -> Result<PPtr<Record>, PoolError> {
        self.worker.place = Some(place.block);
        let allocated = self.alloc_record(parts);
        self.worker.place = None;
        allocated
    }
}
