//! Creating, opening, growing and closing a pool.

use std::path::Path;
use std::sync::Arc;

use everleaf_pmem::{Media, PPtr, Persistent, Region};

use crate::{Audit, AuditReport, PoolError, Record, Worker};

/// The kind of key that a pool was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// `u64`.
    U64,
    /// Byte strings.
    Bytes,
}

/// What is decided when a pool is created and never changes: it stands in the checksummed part of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Name of the engine, at most 24 bytes.
    pub engine: String,
    /// Kind of keys.
    pub key_type: KeyType,
    /// Parameters of the engine, their meaning is the engine's own.
    pub parameters: [u64; 8],
}

/// How a pool file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To read and write; nobody else may have it open.
    ReadWrite,
    /// To read; the file is never written: if recovery is needed it happens in a private mapping.
    ReadOnly,
}

/// How the pool was left the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// It was closed.
    Clean,
    /// It was not.
    Crash,
}

/// A record that was being linked (or unlinked) when the crash came. The owner looks whether `new` is linked in its index and
/// calls [`Worker::resolve_link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingLink {
    /// Slot of the worker whose intent this is.
    pub slot: usize,
    /// The record that was to replace `old`; null if `old` was to be removed.
    pub new: PPtr<Record>,
    /// The record that was to be replaced or removed; null if there was none.
    pub old: PPtr<Record>,
}

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// How the pool was left.
    pub shutdown: Shutdown,
    /// Links to be resolved by their owner before anything else is done.
    pub pending_links: Vec<PendingLink>,
}

/// A run of node memory, as [`Worker::alloc_run`] gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

/// How full a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the pool.
    pub total_bytes: u64,
    /// Bytes in allocated blocks and runs, and of the pool's own tables.
    pub used_bytes: u64,
    /// Bytes that can be allocated without growing.
    pub free_bytes: u64,
}

/// A pool on some media.
pub struct Pool<M: Media> {
    media: M,
    format: Format,
}

impl<M: Media> Pool<M> {
    /// Lays out an empty pool over the whole region of `media`, whose content is ignored.
    pub fn create(_media: M, _format: &Format) -> Result<Arc<Self>, PoolError> {
        todo!()
    }

    /// Opens what `media` holds: checks the header, recovers the allocator.
    pub fn open(_media: M) -> Result<(Arc<Self>, Opened), PoolError> {
        todo!()
    }

    /// The media.
    #[inline(always)]
    pub fn media(&self) -> &M {
        &self.media
    }

    /// What was decided at creation.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The index's own 4 KiB in the header region (micro-logs, roots): all zero words after creation. `T` must fit.
    pub fn anchor<T: Persistent>(&self) -> &T {
        todo!()
    }

    /// The node that a pointer leads to, after a check of its bounds, alignment and chunk type.
    #[inline(always)]
    pub fn node<T: Persistent>(&self, _pointer: PPtr<T>) -> Result<&T, PoolError> {
        todo!()
    }

    /// The bytes of a record, after a check of its place, its length and its checksum. The caller keeps the record from being
    /// freed while the slice lives: the guard is the lock of a serial engine, or the reclamation epoch of a concurrent one.
    pub fn record(&self, _pointer: PPtr<Record>) -> Result<&[u8], PoolError> {
        todo!()
    }

    /// Like [`record`](Pool::record) without the checksum, for compares whose mismatch is verified afterwards.
    pub fn record_unverified(&self, _pointer: PPtr<Record>) -> Result<&[u8], PoolError> {
        todo!()
    }

    /// A handle for one thread.
    pub fn worker(self: &Arc<Self>) -> Result<Worker<M>, PoolError> {
        todo!()
    }

    /// Every run of nodes, in the order of their offsets.
    pub fn runs(&self) -> Result<Vec<Run>, PoolError> {
        todo!()
    }

    /// How full the pool is.
    pub fn space(&self) -> Space {
        todo!()
    }

    /// Compares what owners reach with what is allocated.
    pub fn finish_audit(&self, _audit: Audit) -> AuditReport {
        todo!()
    }

    /// Syncs the file, then marks it cleanly closed. Nothing may be written afterwards.
    pub fn close(&self) -> Result<(), PoolError> {
        todo!()
    }
}

/// Makes a pool file (an existing one is refused) and maps it, locked.
pub fn create_file(_path: &Path, _size: u64, _max_size: u64) -> Result<Region, PoolError> {
    todo!()
}

/// Locks and maps a pool file after a look at its header.
pub fn open_file(_path: &Path, _mode: OpenMode) -> Result<Region, PoolError> {
    todo!()
}
