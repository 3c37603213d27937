//! Allocation: the order of persistence.

use std::sync::Arc;

use everleaf_pmem::{Media, PCell, PPtr, Persistent};

use crate::{Pool, PoolError, Record};

/// The handle of one thread: its intent slot and its caches.
pub struct Worker<M: Media> {
    pool: Arc<Pool<M>>,
}

impl<M: Media> Worker<M> {
    /// The pool.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// Allocates a node and writes its address to `dest`, which must be null and belong to a structure that recovery reaches.
    pub fn alloc_node_into<T: Persistent>(&mut self, _dest: &PCell<PPtr<T>>) -> Result<(), PoolError> {
        todo!()
    }

    /// Writes a record of the concatenated `parts` and then its address to `dest`, which must be null.
    pub fn alloc_record_into(&mut self, _dest: &PCell<PPtr<Record>>, _parts: &[&[u8]]) -> Result<(), PoolError> {
        todo!()
    }

    /// Frees the block that `dest` points to and makes `dest` null.
    pub fn free_from<T: 'static>(&mut self, _dest: &PCell<PPtr<T>>) -> Result<(), PoolError> {
        todo!()
    }

    /// Allocates a run of at least `bytes` for nodes. `prepare` gets its offset and usable length, initialises it, and flushes; then the
    /// run is published in the chunk table p-atomically: [`Pool::runs`] lists it from then on, so nothing else has to point to it.
    pub fn alloc_run(&mut self, _bytes: u64, _prepare: impl FnOnce(&Pool<M>, u64, u64)) -> Result<crate::Run, PoolError> {
        todo!()
    }

    /// Gives a run back.
    pub fn free_run(&mut self, _offset: u64) -> Result<(), PoolError> {
        todo!()
    }

    /// Durably notes the intent to replace the record `old` (or none) by a new record of the concatenated `parts` (or none), and writes
    /// the new record. The caller then changes its index durably and calls [`end_link`](Worker::end_link).
    pub fn begin_link(&mut self, _old: PPtr<Record>, _parts: Option<&[&[u8]]>) -> Result<PPtr<Record>, PoolError> {
        todo!()
    }

    /// Ends what [`begin_link`](Worker::begin_link) began: frees `old` if the index now holds `new`, else frees `new`.
    pub fn end_link(&mut self, _linked: bool) -> Result<(), PoolError> {
        todo!()
    }

    /// Ends a link that a crash cut.
    pub fn resolve_link(&mut self, _pending: crate::PendingLink, _linked: bool) -> Result<(), PoolError> {
        todo!()
    }
}
