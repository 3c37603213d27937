//! Laying out, opening and closing a pool.

use std::sync::Arc;

use everleaf_pmem::{LINE, Line, Media, Medium, PCell, PPtr, Persistent, WORD, Word, site};
use parking_lot::Mutex;

use crate::batch::PendingBatch;
use crate::boot::{UNKNOWN_BOOT, boot_id, is_this_boot};
use crate::chunks::{Chunks, Extent};
use crate::header::{Format, IdentityImage};
use crate::layout::{
    ANCHOR_OFFSET, CHUNK, FIRST_EXTENT_CHUNK, Header, INTENTS_OFFSET, Intent, MAGIC,
    MIN_POOL_BYTES, STATE_CLEAN, STATE_OPEN, WORKER_SLOTS,
};
use crate::recover::recover_intents;
use crate::word::Sealed;
use crate::{Corruption, PoolError, Record, Worker};

/// How the pool was left the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// It was closed.
    Clean,
    /// It was not.
    Crash,
}

/// A record that was being linked, or unlinked, when the crash came. The owner looks whether the
/// index holds `new` (or, where `new` is null, whether it no longer holds `old`) and calls
/// [`Worker::resolve_link`] before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingLink {
    pub(crate) slot: usize,
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
    /// Links to be resolved by their owner.
    pub pending_links: Vec<PendingLink>,
    /// Batches to be completed by their owner.
    pub pending_batches: Vec<PendingBatch>,
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
pub struct Space {
    /// Bytes of the pool.
    pub total_bytes: u64,
    /// Bytes in allocated blocks and runs, and in the pool's own tables.
    pub used_bytes: u64,
    /// Bytes that can be allocated before the pool grows.
    pub free_bytes: u64,
    /// Those of them that are blocks in chunks which are in use, and so serve one size only.
    pub free_in_blocks_bytes: u64,
    /// Bytes that the pool may grow to.
    pub max_bytes: u64,
}

/// A pool on some media.
pub struct Pool<M: Media> {
    media: M,
    format: Format,
    uuid: u128,
    chunks: Chunks,
    pub(crate) slots: Mutex<u64>,
    pub(crate) growing: Mutex<()>,
}

impl<M: Media> Pool<M> {
    /// Lays out an empty pool over the whole region of `media`, whatever it holds. The magic word
    /// is written last, so a pool whose creation was cut off is none.
    ///
    /// # Errors
    /// [`PoolError::TooSmall`]; or as the medium reports.
    pub fn create(media: M, format: &Format) -> Result<Arc<Self>, PoolError> {
        let bytes = media.region().len();
        if bytes < MIN_POOL_BYTES {
            return Err(PoolError::TooSmall { bytes, min_bytes: MIN_POOL_BYTES });
        }
        let uuid = if media.region().file().is_some() { uuid::Uuid::new_v4().as_u128() } else { 0 };
        let identity =
            IdentityImage { format: format.clone(), uuid, max_bytes: media.region().max_len() };
        let pool = Self::over(media, &identity);
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

    /// Empties intents, anchor and extents, adds the extents that the region has room for, and
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
        self.write_state(header, STATE_OPEN);
        self.media.flush(site!("pool.create.header"), &header.state);
        for line in header.extents.chunks(LINE / WORD) {
            self.media.flush(site!("pool.create.header"), &line[0]);
        }
        self.fill(INTENTS_OFFSET, CHUNK, Sealed::ZERO)?;
        self.fill(ANCHOR_OFFSET, CHUNK, 0)?;
        self.add_first_extents(bytes / CHUNK)
    }

    /// Stores `word` in every word of whole lines, and flushes them.
    pub(crate) fn fill<W: Word>(&self, offset: u64, bytes: u64, word: W) -> Result<(), PoolError> {
        for line in (offset..offset + bytes).step_by(size_of::<Line>()) {
            let line = self
                .media
                .region()
                .at::<Line>(line)
                .ok_or_else(|| PoolError::corrupt(line, Corruption::Pointer))?;
            for cell in &line.0 {
                self.media.store(cell.view(), word);
            }
            self.media.flush(site!("pool.grow.table"), &line.0[0]);
        }
        Ok(())
    }

    fn over(media: M, identity: &IdentityImage) -> Self {
        let chunks = Chunks::new(media.region().max_len());
        Self {
            media,
            format: identity.format.clone(),
            uuid: identity.uuid,
            chunks,
            slots: Mutex::new(0),
            growing: Mutex::new(()),
        }
    }

    /// What was decided when the pool on `media` was created. Nothing is written: whoever cannot
    /// use such a pool leaves it as it is.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], [`PoolError::NewerVersion`], [`PoolError::OlderVersion`].
    pub fn format_on(media: &M) -> Result<Format, PoolError> {
        Ok(Self::identity_on(media)?.format)
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
    /// [`PoolError::Corrupt`], [`PoolError::NewerVersion`], [`PoolError::OtherBoot`], or as the
    /// medium reports.
    pub fn open(media: M) -> Result<(Arc<Self>, Opened), PoolError> {
        let identity = Self::identity_on(&media)?;
        let pool = Self::over(media, &identity);
        pool.add_extents()?;
        let shutdown = pool.check_state()?;
        let header = pool.header()?;
        pool.write_state(header, STATE_OPEN);
        pool.media.flush(site!("pool.open.state"), &header.state);
        pool.media.fence(site!("pool.open.fence"));
        if shutdown == Shutdown::Clean {
            // Before the first change: after a crash of the system the file must not claim to be
            // clean.
            pool.sync()?;
        }
        let (pending_links, pending_batches) = recover_intents(&pool)?;
        Ok((Arc::new(pool), Opened { shutdown, pending_links, pending_batches }))
    }

    /// Opens what can be opened of a damaged pool, in memory that nobody else sees: whatever its
    /// state, whichever boot of the machine left it, and however much of its tables can be read.
    /// What could not be is told.
    ///
    /// # Errors
    /// As [`open`](Pool::open) if the identity cannot be read: then nothing is known of the pool.
    pub fn open_damaged(media: M) -> Result<(Arc<Self>, Opened, Vec<PoolError>), PoolError> {
        let identity = Self::identity_on(&media)?;
        let pool = Self::over(media, &identity);
        let mut complaints: Vec<PoolError> = pool.add_extents().err().into_iter().collect();
        let (pending_links, pending_batches) = recover_intents(&pool).unwrap_or_else(|error| {
            complaints.push(error);
            Default::default()
        });
        Ok((
            Arc::new(pool),
            Opened { shutdown: Shutdown::Crash, pending_links, pending_batches },
            complaints,
        ))
    }

    fn add_extents(&self) -> Result<(), PoolError> {
        let header = self.header()?;
        let mut end = FIRST_EXTENT_CHUNK;
        for (i, cell) in header.extents.iter().enumerate() {
            let place = (std::mem::offset_of!(Header, extents) + i * 8) as u64;
            let extent = Extent::unseal(self.media.load(cell), end)
                .ok_or_else(|| PoolError::corrupt(place, Corruption::Word))?;
            if extent.chunks == 0 {
                break;
            }
            end = extent.end();
            if end > self.media.region().len() / CHUNK {
                return Err(PoolError::corrupt(place, Corruption::Header));
            }
            self.chunks.add_extent(extent);
        }
        Ok(())
    }

    /// How the pool was left, and whether what it holds can be trusted on this medium.
    fn check_state(&self) -> Result<Shutdown, PoolError> {
        let header = self.header()?;
        let place = std::mem::offset_of!(Header, state) as u64;
        match self.media.load(&header.state).open() {
            Some(STATE_CLEAN) => Ok(Shutdown::Clean),
            Some(STATE_OPEN) => {
                let medium = self.media.region().medium();
                let kept = matches!(medium, Medium::Dax | Medium::Anonymous);
                let left_by: [Option<u64>; 3] =
                    std::array::from_fn(|i| self.media.load(&header.boot_id[i]).open());
                if !kept && !is_this_boot(left_by) {
                    let medium = match medium {
                        Medium::Tmpfs => "tmpfs",
                        Medium::VolatileDax => "volatile memory",
                        _ => "an ordinary file",
                    };
                    return Err(PoolError::OtherBoot { medium });
                }
                Ok(Shutdown::Crash)
            }
            _ => Err(PoolError::corrupt(place, Corruption::Word)),
        }
    }

    /// Boot id first, then the state. Where the boot id matters only the process can die, so the
    /// order of the program suffices.
    fn write_state(&self, header: &Header, state: u64) {
        let has_file = self.media.region().file().is_some();
        let boot_id = if has_file { boot_id() } else { None }.unwrap_or(UNKNOWN_BOOT);
        for (cell, part) in header.boot_id.iter().zip(boot_id) {
            self.media.store(cell, Sealed::of(part));
        }
        self.media.store(&header.state, Sealed::of(state));
    }

    /// Syncs the file, then marks it cleanly closed and syncs again. Nothing may be written
    /// afterwards.
    ///
    /// # Errors
    /// As the medium reports; the pool then counts as crashed.
    pub fn close(&self) -> Result<(), PoolError> {
        self.sync()?;
        let header = self.header()?;
        self.media.store(&header.state, Sealed::of(STATE_CLEAN));
        self.media.flush(site!("pool.close.state"), &header.state);
        self.media.fence(site!("pool.close.fence"));
        self.sync()
    }

    /// Writes a pool on the page cache to its file; nothing to do on persistent memory, whose
    /// stores are durable already.
    ///
    /// # Errors
    /// As the system reports; what was not synced before must then be taken as lost by a crash of
    /// the system.
    pub fn sync(&self) -> Result<(), PoolError> {
        self.media.sync().map_err(|error| PoolError::Io {
            action: "syncing",
            path: "the pool".into(),
            source: error.into(),
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

    /// The index's own 4 KiB in the header region (micro-logs, roots): zero words after creation.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the region is too short, [`PoolError::TooLarge`] if `T` is larger
    /// than 4 KiB.
    pub fn anchor<T: Persistent>(&self) -> Result<&T, PoolError> {
        let bytes = size_of::<T>() as u64;
        if bytes > CHUNK {
            return Err(PoolError::TooLarge { bytes, max_bytes: CHUNK });
        }
        self.media
            .region()
            .at(ANCHOR_OFFSET)
            .ok_or_else(|| PoolError::corrupt(ANCHOR_OFFSET, Corruption::Pointer))
    }

    /// The node that a pointer leads to, after a check of its bounds, alignment and chunk type: one
    /// look at a cached byte.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the pointer does not lead to memory for nodes.
    #[inline(always)]
    pub fn node<T: Persistent>(&self, pointer: PPtr<T>) -> Result<&T, PoolError> {
        if let Some(node) = self.media.region().get(pointer)
            && self.chunks.is_node(&self.media, pointer.offset(), size_of::<T>() as u64)?
        {
            return Ok(node);
        }
        Err(PoolError::corrupt(pointer.offset(), Corruption::Pointer))
    }

    /// The persistent pointer to an object of this pool.
    #[inline(always)]
    pub fn pointer_to<T: Persistent>(&self, object: &T) -> PPtr<T> {
        self.media.region().pointer_to(object)
    }

    /// The cell at `offset`, wherever it is beyond the header.
    pub(crate) fn cell(&self, offset: u64) -> Result<&PCell, PoolError> {
        let cell = if offset < ANCHOR_OFFSET {
            None
        } else {
            self.media.region().get(PPtr::<PCell>::at(offset))
        };
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
