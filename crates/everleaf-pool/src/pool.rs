//! Laying out, opening and closing a pool.

use std::sync::Arc;

use everleaf_pmem::{
    Durability, Features, LINE, Line, MapError, Mapping, Media, Medium, PCell, PPtr, Persistent,
    Site, Word, planted, site, unless_planted,
};
use parking_lot::Mutex;

use crate::batch::PendingBatch;
use crate::boot::{UNKNOWN_BOOT, boot_id, is_other_boot, is_this_boot};
use crate::chunks::{Chunks, Extent, is_chunk_line};
use crate::doubt::Doubt;
use crate::header::{Format, IdentityImage};
use crate::layout::{
    CHUNK, ChunkLine, Header, INDEX_ROOT_OFFSET, INTENTS_OFFSET, Intent, MAGIC, MAX_EXTENTS,
    MIN_POOL_BYTES, STATE_CLEAN, STATE_OPEN, STATE_OPEN_PERSISTENT, STATE_SYNC_FAILED,
    WORKER_SLOTS,
};
use crate::recover::{PendingLink, named_by, recover_intents};
use crate::reserve::Drawing;
use crate::roots::{Roots, place_of};
use crate::seal::Seal;
use crate::word::Sealed;
use crate::{Corruption, Node, PoolError, Worker};

/// How the pool was left the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Shutdown {
    /// It was closed.
    Clean,
    /// It was not.
    Crash,
}

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// How the pool was left.
    pub shutdown: Shutdown,
    /// What the close has left for the index, if the pool was closed with it.
    pub seal: Option<Seal>,
    /// Links to be resolved by their owner.
    pub pending_links: Vec<PendingLink>,
    /// Batches to be completed by their owner.
    pub pending_batches: Vec<PendingBatch>,
    /// Blocks that are in doubt: their owner calls [`Pool::end_doubts`] last.
    pub doubts: Vec<Doubt>,
}

/// A run of memory for nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first byte, a multiple of 4096.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

/// How full a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Bytes of the pool.
    pub total_bytes: u64,
    /// Bytes in allocated blocks and runs, and in the pool's own tables.
    pub used_bytes: u64,
    /// Bytes that can be allocated before the pool grows.
    pub free_bytes: u64,
    /// Those of them that are blocks in chunks which are in use, and so serve one size only.
    pub free_in_blocks_bytes: u64,
    /// Those of them that are held back for what frees memory.
    pub reserve_bytes: u64,
    /// Bytes that the pool may grow to.
    pub max_bytes: u64,
}

/// A pool on some media.
pub struct Pool<M: Media> {
    media: M,
    format: Format,
    uuid: u128,
    chunks: Chunks,
    roots: Roots,
    pub(crate) slots: Mutex<u64>,
    pub(crate) growing: Mutex<()>,
    pub(crate) drawing: Drawing,
}

/// What the state word says of the session that opened the pool last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// It closed the pool.
    Closed,
    /// It left the pool open, and its stores may have reached persistent memory in any mixture.
    Open,
    /// As `Open`, and a sync of the file has failed.
    SyncFailed,
    /// It left the pool open, and wrote to persistent memory, with every flush; the machine was
    /// started again since.
    OpenPersistent,
    /// The same under this boot, or under one that is not known: what it had stored and not flushed
    /// when it died may be in the caches of the processor, where it is visible and not durable.
    OpenInCaches,
}

impl<M: Media> Pool<M> {
    /// Lays out an empty pool over the whole region of `media`, whatever it holds. The magic word
    /// is written last, so a pool whose creation was cut off is none.
    ///
    /// # Errors
    /// [`PoolError::TooSmall`]; or as the medium reports.
    pub fn create(media: M, format: &Format) -> Result<Arc<Self>, PoolError> {
        let uuid = if media.region().file().is_some() { uuid::Uuid::new_v4().as_u128() } else { 0 };
        Self::create_as(media, format, uuid)
    }

    /// As [`create`](Pool::create), with an identity that was chosen by the caller.
    ///
    /// # Errors
    /// Those of [`create`](Pool::create).
    pub fn create_as(media: M, format: &Format, uuid: u128) -> Result<Arc<Self>, PoolError> {
        let bytes = media.region().len();
        if bytes < MIN_POOL_BYTES {
            return Err(PoolError::TooSmall { bytes, min_bytes: MIN_POOL_BYTES });
        }
        let (format, max_bytes) = (format.clone(), media.region().max_len());
        let identity = IdentityImage { format, uuid, max_bytes, features: Features::default() };
        let pool = Self::over(media, &identity)?;
        pool.lay_out(bytes)?;
        let header = pool.header()?;
        identity.write_body(&pool.media, &header.identity);
        pool.media.flush_object(site!("pool.create.identity"), &header.identity);
        pool.media.fence(site!("pool.create.identity.fence"));
        pool.media.store(&header.identity.magic, MAGIC);
        pool.media.flush(site!("pool.create.magic"), &header.identity.magic);
        pool.media.fence(site!("pool.create.magic.fence"));
        pool.sync()?;
        Ok(Arc::new(pool))
    }

    /// Empties intents, roots and extents, adds the extents that fill the region, and
    /// marks the pool open. A pool that was there before is none from the first fence on; what is
    /// not fenced here is with the identity.
    fn lay_out(&self, bytes: u64) -> Result<(), PoolError> {
        let header = self.header()?;
        self.media.store(&header.identity.magic, 0);
        self.media.flush(site!("pool.create.void"), &header.identity.magic);
        self.media.fence(site!("pool.create.void.fence"));
        for extent in &header.extents {
            self.media.store(extent, Sealed::ZERO);
        }
        self.lay_out_roots(header);
        self.media.store(&header.epoch, Sealed::ZERO);
        self.write_state(header);
        let first = std::mem::offset_of!(Header, state) as u64;
        let lines = (first..size_of::<Header>() as u64).step_by(LINE);
        self.media.flush_lines(site!("pool.create.header"), lines);
        self.fill(site!("pool.create.intents"), INTENTS_OFFSET, CHUNK, Sealed::ZERO)?;
        self.fill(site!("pool.create.index"), INDEX_ROOT_OFFSET, CHUNK, 0)?;
        self.add_first_extents(bytes / CHUNK)
    }

    /// Stores `word` in every word of whole lines, and flushes them.
    pub(crate) fn fill<W: Word>(
        &self,
        site: Site,
        offset: u64,
        bytes: u64,
        word: W,
    ) -> Result<(), PoolError> {
        for line in (offset..offset + bytes).step_by(size_of::<Line>()) {
            let line = self
                .media
                .region()
                .at::<Line>(line)
                .ok_or_else(|| PoolError::corrupt(line, Corruption::Pointer))?;
            for cell in &line.0 {
                self.media.store(cell.view(), word);
            }
            self.media.flush(site, &line.0[0]);
        }
        Ok(())
    }

    fn over(media: M, identity: &IdentityImage) -> Result<Self, PoolError> {
        let chunks = Chunks::new(media.region().max_len())?;
        Ok(Self {
            media,
            format: identity.format.clone(),
            uuid: identity.uuid,
            chunks,
            roots: Roots::default(),
            slots: Mutex::new(0),
            growing: Mutex::new(()),
            drawing: Drawing::default(),
        })
    }

    fn identity_on(media: &M) -> Result<IdentityImage, PoolError> {
        let corrupt = || PoolError::corrupt(0, Corruption::Header);
        let cells = media.region().cells(0, size_of::<Header>() / 8).ok_or_else(corrupt)?;
        let words: Vec<u64> = cells.iter().map(|cell| media.load(cell)).collect();
        IdentityImage::read(&words).map_err(|e| e.unwrap_or_else(corrupt))
    }

    /// Opens what `media` holds: checks the header, marks the pool open, undoes or completes what
    /// workers were doing when a crash came. The cost does not depend on the size of the pool.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], [`PoolError::Newer`], [`PoolError::OlderVersion`],
    /// [`PoolError::OtherBoot`], or as the medium reports.
    pub fn open(media: M) -> Result<(Arc<Self>, Opened), PoolError> {
        let (pool, opened, ()) = Self::open_if(media, |_| Ok::<_, PoolError>(()))?;
        Ok((pool, opened))
    }

    /// As [`open`](Pool::open), if the caller can use a pool of this format: before that nothing is
    /// written. What `accept` makes of the format is handed back.
    ///
    /// # Errors
    /// As there, or what `accept` returns.
    pub fn open_if<T, E: From<PoolError>>(
        media: M,
        accept: impl FnOnce(&Format) -> Result<T, E>,
    ) -> Result<(Arc<Self>, Opened, T), E> {
        let identity = Self::identity_on(&media)?;
        let accepted = accept(&identity.format)?;
        let pool = Self::over(media, &identity)?;
        pool.add_extents()?;
        let left = pool.check_state()?;
        let seal = if left == Left::Closed { Seal::on(&pool)? } else { None };
        pool.begin_session(left)?;
        // After a clean shutdown doubts are old: every bit is right.
        let mut doubts = if left == Left::Closed { Vec::new() } else { pool.keep_doubts()? };
        let (pending_links, pending_batches) = recover_intents(&pool)?;
        pool.drop_doubts(&mut doubts, &named_by(&pending_links, &pending_batches))?;
        pool.add_roots()?;
        let shutdown = if left == Left::Closed { Shutdown::Clean } else { Shutdown::Crash };
        let opened = Opened { shutdown, seal, pending_links, pending_batches, doubts };
        Ok((Arc::new(pool), opened, accepted))
    }

    /// Opens what can be opened of a damaged pool, in memory that no other process sees: whatever
    /// its state, whichever boot of the machine left it, and however much of its tables can be
    /// read. What could not be opened is returned. If the identity is damaged, [`Format::is_lost`].
    /// `found_bytes` are there; a file may end within its last chunk, which shows zeros behind.
    ///
    /// # Errors
    /// As [`open`](Pool::open) if there is neither an identity nor a table of chunks, or the
    /// version is another one.
    pub fn open_damaged(
        media: M,
        found_bytes: u64,
    ) -> Result<(Arc<Self>, Opened, Vec<PoolError>), PoolError> {
        let (identity, lost) = match Self::identity_on(&media) {
            Err(lost @ PoolError::Corrupt { .. }) => {
                (IdentityImage::lost(media.region().max_len()), Some(lost))
            }
            identity => (identity?, None),
        };
        let pool = Self::over(media, &identity)?;
        let mut complaints: Vec<PoolError> = Vec::new();
        complaints.extend(pool.add_extents_there(found_bytes).err());
        if let Some(lost) = lost {
            if pool.chunks.extent_count() == 0 {
                return Err(lost);
            }
            complaints.insert(0, lost);
        }
        // As after a clean shutdown: an index that is damaged would say of a record that is in
        // use that it is not.
        let closed = pool.media.load(&pool.header()?.state).open() == Some(STATE_CLEAN);
        let doubts = if closed { Ok(Vec::new()) } else { pool.keep_doubts() };
        let mut doubts = doubts.unwrap_or_else(|error| {
            complaints.push(error);
            Vec::new()
        });
        let (pending_links, pending_batches) = recover_intents(&pool).unwrap_or_else(|error| {
            complaints.push(error);
            Default::default()
        });
        let named = named_by(&pending_links, &pending_batches);
        complaints.extend(pool.drop_doubts(&mut doubts, &named).err());
        complaints.extend(pool.add_roots().err());
        let (shutdown, seal) = (Shutdown::Crash, None);
        let opened = Opened { shutdown, seal, pending_links, pending_batches, doubts };
        Ok((Arc::new(pool), opened, complaints))
    }

    fn add_extents(&self) -> Result<(), PoolError> {
        let words = self.header()?.extents.iter().map(|cell| self.media.load(cell));
        for extent in Extent::listed(words) {
            let extent = extent?;
            if extent.end() > self.media.region().len() / CHUNK {
                let place = std::mem::offset_of!(Header, extents) as u64;
                return Err(PoolError::corrupt(place, Corruption::Header));
            }
            self.chunks.add_extent(extent);
        }
        Ok(())
    }

    /// As [`add_extents`](Pool::add_extents), of a file that may have lost its end: an extent
    /// begins with its table, so what is left of it can be read. Those that the header does not
    /// tell of any more are found by their tables.
    fn add_extents_there(&self, found_bytes: u64) -> Result<(), PoolError> {
        let words = self.header()?.extents.iter().map(|cell| self.media.load(cell));
        let (there, mut end) = (self.media.region().len() / CHUNK, 0);
        for extent in Extent::listed(words) {
            let extent = extent.inspect_err(|_| self.find_extents(there))?;
            end = extent.end();
            if extent.start < there {
                self.chunks.add_extent(extent.cut_off_at(there));
            }
        }
        let expected_bytes = end * CHUNK;
        if expected_bytes <= found_bytes {
            return Ok(());
        }
        Err(MapError::Truncated { found_bytes, expected_bytes }.into())
    }

    /// Adds the extents behind those that are known, as their tables tell: each has a line of words
    /// that check themselves for each of its chunks, and then the next one begins.
    fn find_extents(&self, there: u64) {
        loop {
            let start = self.chunks.end();
            let table = Extent::exact(start, there.saturating_sub(start));
            let is_line = |chunk: &u64| self.is_chunk_line(table.line_pointer(*chunk));
            let chunks = (start..there).take_while(is_line).count() as u64;
            if chunks == 0 || self.chunks.extent_count() == MAX_EXTENTS {
                return;
            }
            self.chunks.add_extent(Extent::exact(start, chunks));
        }
    }

    /// Whether there is a line of a table.
    fn is_chunk_line(&self, line: PPtr<ChunkLine>) -> bool {
        let line: Option<&ChunkLine> = self.media.region().get(line);
        line.is_some_and(|line| {
            let words = line.bitmap.iter().chain([&line.descriptor]);
            is_chunk_line(words.map(|word| self.media.load(word)))
        })
    }

    /// How the pool was left, and whether what it holds can be trusted. What counts is how the
    /// session wrote that left it, not the medium of now: the file may have been mounted in another
    /// way since, or copied.
    fn check_state(&self) -> Result<Left, PoolError> {
        let header = self.header()?;
        let place = std::mem::offset_of!(Header, state) as u64;
        let left_by = header.boot_id.each_ref().map(|part| self.media.load(part).open());
        match self.media.load(&header.state).open() {
            Some(STATE_CLEAN) => Ok(Left::Closed),
            Some(STATE_OPEN_PERSISTENT) => {
                let has_file = self.media.region().file().is_some();
                let in_caches = is_this_boot(left_by) || has_file && !is_other_boot(left_by);
                Ok(if in_caches { Left::OpenInCaches } else { Left::OpenPersistent })
            }
            Some(state @ (STATE_OPEN | STATE_SYNC_FAILED)) => {
                if is_this_boot(left_by) {
                    let failed = state == STATE_SYNC_FAILED;
                    return Ok(if failed { Left::SyncFailed } else { Left::Open });
                }
                let session = match self.media.region().medium() {
                    Medium::Tmpfs => "on tmpfs",
                    Medium::PageCache => "on an ordinary file",
                    Medium::VolatileDax => "on volatile memory",
                    _ => "on an ordinary file, or without flushes",
                };
                Err(PoolError::OtherBoot { certain: is_other_boot(left_by), session })
            }
            _ => Err(PoolError::corrupt(place, Corruption::Word)),
        }
    }

    /// Whether what this session stores, flushes and fences survives all that the model of crashes
    /// knows. Memory without a file stands for persistent memory: either nothing of it outlives the
    /// process, or its stores are recorded.
    fn is_persistent(&self) -> bool {
        self.media.region().file().is_none() || self.media.durability() == Durability::PowerFail
    }

    /// Marks the pool open, before its first change.
    ///
    /// ```text
    /// left      this session     what is done
    /// closed    any              open := this session's            flush, fence, sync
    /// 3         persistent       open := 3                         flush, fence, sync
    /// 3, alive  persistent       every line is written back, fence; then open := 3
    ///                            Crash before: as it was left.
    /// 3         another          open := 2, this boot              flush, fence, sync
    ///                            Crash: what follows is not taken for persistent.
    /// 2         another          open := 2, this boot (as it was)  flush, fence
    /// 2         persistent       every line is written back, fence; then open := 3
    ///                            Crash before: the boot still counts.
    /// 4         another          every page is stored to, sync; then as 2
    ///                            Crash before: as it was left.
    /// 4         persistent       refused: the pages that were not written are gone
    /// ```
    ///
    /// "Alive" is a machine that was not started again since: what a killed process had stored and
    /// not flushed is visible. Recovery would act on it, durably, before it is durable itself.
    ///
    /// The sync matters on the page cache: after a crash of the system the file must claim neither
    /// to be closed nor to be left by a session on persistent memory.
    fn begin_session(&self, left: Left) -> Result<(), PoolError> {
        if matches!(left, Left::Open | Left::OpenInCaches) && self.is_persistent() {
            let lines = (0..self.chunks.end() * CHUNK).step_by(LINE);
            self.media.flush_lines(site!("pool.write_back.lines"), lines);
            self.media.fence(site!("pool.write_back.fence"));
        }
        if left == Left::SyncFailed {
            if self.is_persistent() {
                return Err(PoolError::SyncFailed);
            }
            self.dirty_all_pages()?;
        }
        let header = self.header()?;
        unless_planted!(135, self.write_state(header));
        self.media.flush(site!("pool.open.state"), &header.state);
        self.media.fence(site!("pool.open.fence"));
        if left == Left::Open { Ok(()) } else { self.sync() }
    }

    /// Makes the system write every page again: after a failed sync it may take pages for written
    /// that it could not write. What they hold is what the sessions before have left there.
    fn dirty_all_pages(&self) -> Result<(), PoolError> {
        if self.media.region().mapping() == Mapping::Private {
            return Ok(()); // Nothing is written to the file.
        }
        for page in (0..self.chunks.end() * CHUNK).step_by(CHUNK as usize) {
            let damaged = || PoolError::corrupt(page, Corruption::Pointer);
            let first: &PCell = self.media.region().at(page).ok_or_else(damaged)?;
            let word = self.media.load(first);
            // A store of what is there already; no other thread uses the pool yet.
            let _ = self.media.compare_exchange(first, word, word);
        }
        self.sync()
    }

    /// The boot id first, then the state: they share a line. A seal ends with it.
    fn write_state(&self, header: &Header) {
        unless_planted!(134, self.write_boot_id(header));
        let state = if self.is_persistent() { STATE_OPEN_PERSISTENT } else { STATE_OPEN };
        self.media.store(&header.state, Sealed::of(state));
    }

    /// The boot under which this session writes.
    fn write_boot_id(&self, header: &Header) {
        let boot_id = self.media.region().file().and_then(|_| boot_id()).unwrap_or(UNKNOWN_BOOT);
        for (cell, part) in header.boot_id.iter().zip(boot_id) {
            self.media.store(cell, Sealed::of(part));
        }
    }

    /// As [`close_with`](Pool::close_with), without a seal.
    ///
    /// # Errors
    /// Those of [`close_with`](Pool::close_with).
    pub fn close(&self) -> Result<(), PoolError> {
        self.close_with(None)
    }

    /// Syncs the file, then marks it cleanly closed, with what the index has left for the next
    /// opening, and syncs again. Nothing may be written afterwards. A seal is left out while a
    /// worker is in use: who has it could write.
    ///
    /// A session that leaves flushes out on persistent memory does not mark the pool: it is not
    /// known when its stores leave the caches of the processor. Until the machine restarts the pool
    /// opens as after a crash of the process.
    ///
    /// ```text
    /// C1  what the seal speaks of is durable (the index has done that), sync
    ///     Crash: as the session left it.
    /// C2  state := clean
    ///     Crash: closed, and without a seal: the boot id stands in its place.
    /// C3  COMMIT the seal, in the same line, its mark last; flush, fence, sync
    ///     Crash: before the mark as C2.
    /// ```
    ///
    /// The state comes first: a seal in the place of the boot id would make an open pool one of
    /// another boot.
    ///
    /// # Errors
    /// As the medium reports, and ever after a [`sync`](Pool::sync) has failed; the pool then
    /// counts as crashed.
    pub fn close_with(&self, seal: Option<Seal>) -> Result<(), PoolError> {
        planted!(136, self.media.store(&self.header()?.state, Sealed::of(STATE_CLEAN)));
        self.sync()?;
        if self.media.region().medium() == Medium::Dax && !self.is_persistent() {
            return Ok(());
        }
        let header = self.header()?;
        self.media.store(&header.state, Sealed::of(STATE_CLEAN));
        if let Some(seal) = seal.filter(|_| *self.slots.lock() == 0) {
            seal.store(self, header);
        }
        self.media.flush(site!("pool.close.state"), &header.state);
        self.media.fence(site!("pool.close.fence"));
        self.sync()?;
        Ok(self.media.finish()?)
    }

    /// Writes a pool on the page cache to its file; nothing to do on persistent memory, whose
    /// stores are durable already. A failure is remembered: the system may have dropped what it
    /// could not write, so no later sync can make up for it. The next session writes all pages
    /// again.
    ///
    /// # Errors
    /// [`PoolError::Media`], now and ever after. What was not synced before must be taken as lost
    /// by a crash of the system.
    pub fn sync(&self) -> Result<(), PoolError> {
        self.media.sync().map_err(|error| {
            // For the next session, which would not hear of it: its syncs may succeed.
            if let Ok(header) = self.header() {
                self.write_boot_id(header); // A seal may stand there.
                self.media.store(&header.state, Sealed::of(STATE_SYNC_FAILED));
            }
            error.into()
        })
    }

    // ---- reaching things
    // ------------------------------------------------------------------------------------------

    /// The media.
    #[inline(always)]
    pub fn media(&self) -> &M {
        &self.media
    }

    /// What was decided at creation.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The pool's identity, random; zero for pools without a file.
    pub fn uuid(&self) -> u128 {
        self.uuid
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    pub(crate) fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    pub(crate) fn header(&self) -> Result<&Header, PoolError> {
        self.media.region().at::<Header>(0).ok_or_else(|| PoolError::corrupt(0, Corruption::Header))
    }

    pub(crate) fn intent(&self, slot: usize) -> Result<&Intent, PoolError> {
        let offset = INTENTS_OFFSET + (slot * size_of::<Intent>()) as u64;
        self.media
            .region()
            .at(offset)
            .ok_or_else(|| PoolError::corrupt(offset, Corruption::Pointer))
    }

    /// The node that a pointer leads to, after a check of its bounds, its alignment, the kind of
    /// nodes there, and that a block begins there (within a run any place is right): one look at a
    /// cached byte.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the pointer does not lead to a node of this kind.
    #[inline(always)]
    pub fn node<T: Node>(&self, pointer: PPtr<T>) -> Result<&T, PoolError> {
        if let Some(node) = self.media.region().get(pointer)
            && self.chunks.is_node::<T, M>(&self.media, pointer.offset())?
        {
            return Ok(node);
        }
        Err(PoolError::corrupt(pointer.offset(), Corruption::Pointer))
    }

    /// Bytes of the block or run that a pointer leads to.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if it does not lead to the beginning of a node of this kind.
    pub fn node_bytes<T: Node>(&self, pointer: PPtr<T>) -> Result<u64, PoolError> {
        self.chunks.node_bytes(&self.media, pointer.offset(), T::KIND)
    }

    /// The persistent pointer to an object of this pool.
    #[inline(always)]
    pub fn pointer_to<T: Persistent>(&self, object: &T) -> PPtr<T> {
        self.media.region().pointer_to(object)
    }

    /// The cell at `offset`, which may be a destination: of a root in the header, or beyond the
    /// pool's own structures.
    pub(crate) fn cell(&self, offset: u64) -> Result<&PCell, PoolError> {
        let may_be = offset >= INDEX_ROOT_OFFSET || place_of(offset).is_some();
        let cell = may_be.then(|| self.media.region().get(PPtr::<PCell>::at(offset))).flatten();
        cell.ok_or_else(|| PoolError::corrupt(offset, Corruption::Pointer))
    }

    /// A handle for one thread.
    ///
    /// # Errors
    /// [`PoolError::WorkersExhausted`] if 64 are in use.
    pub fn worker(self: &Arc<Self>) -> Result<Worker<M>, PoolError> {
        let mut slots = self.slots.lock();
        let slot = (!*slots).trailing_zeros() as usize;
        if slot >= WORKER_SLOTS {
            return Err(PoolError::WorkersExhausted { slots: WORKER_SLOTS });
        }
        *slots |= 1 << slot;
        Ok(Worker::new(Arc::clone(self), slot))
    }
}
