//! Roots: where structures of the pool begin, by name.
//!
//! A root is a node of a kind of its own, to which a place in the header leads. Each structure that
//! outlives a session has one: the index, the log of a store, the image of an engine's inner nodes.
//! They are found by their names, so none has to know of the others. The root `index` is there from
//! the pool's creation; the others are made once and stay.
//!
//! ```text
//! T1  the new root := zeros, flush; the name of a free place
//!     Crash: the place is free, whatever its name says.
//! T2  COMMIT the place leads to the root: an exchange, see worker.rs
//! ```
//!
//! A *mark* says that the pool has something, and takes no memory: a root of its name that leads to
//! what the root `index` leads to. Of it both steps are stores to one line. It can be taken away
//! again:
//!
//! ```text
//! T3  COMMIT the place leads nowhere: it is free, whatever its name says
//! ```

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_pmem::{LINE, Media, PCell, Persistent, Word, planted, site, unless_planted};
use parking_lot::Mutex;

use crate::chunks::{Block, lock_relaxing};
use crate::layout::{CHUNK, Header, INDEX_ROOT_OFFSET, MAX_ROOTS};
use crate::word::Sealed;
use crate::{Corruption, NodeKind, Pool, PoolError, Worker};

/// Where the table of roots is in the header.
const TABLE_OFFSET: u64 = std::mem::offset_of!(Header, roots) as u64;
/// Bytes of a place: name and offset.
const PLACE_BYTES: u64 = 16;

/// The name of a root: one to six bytes of ASCII.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RootName(u64);

impl RootName {
    /// The root that every pool has: 4 KiB of the index.
    pub const INDEX: Self = Self::new("index");

    /// This name.
    ///
    /// # Panics
    /// If the name has not one to six bytes of ASCII; at compile time where it stands in a
    /// constant.
    pub const fn new(name: &str) -> Self {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty() && bytes.len() <= 6 && name.is_ascii(), "one to six ASCII bytes");
        let (mut word, mut i) = (0, bytes.len());
        while i > 0 {
            i -= 1;
            word = word << 8 | bytes[i] as u64;
        }
        Self(word)
    }
}

impl fmt::Display for RootName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.to_le_bytes();
        let name = bytes.iter().take_while(|byte| **byte != 0);
        name.map(|byte| char::from(*byte)).try_for_each(|c| write!(f, "{c}"))
    }
}

impl fmt::Debug for RootName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootName({self})")
    }
}

/// A root as it is known in DRAM. The name is stored last.
#[derive(Default)]
struct Known {
    name: AtomicU64,
    offset: AtomicU64,
    bytes: AtomicU64,
}

/// The roots of an open pool, by their places in the header.
#[derive(Default)]
pub(crate) struct Roots {
    known: [Known; MAX_ROOTS],
    making: Mutex<()>,
}

impl Roots {
    fn set(&self, place: usize, name: u64, offset: u64, bytes: u64) {
        let known = &self.known[place];
        known.offset.store(offset, Ordering::Relaxed);
        known.bytes.store(bytes, Ordering::Relaxed);
        known.name.store(name, Ordering::Release);
    }

    #[inline(always)]
    fn find(&self, name: RootName) -> Option<(u64, u64)> {
        let known = self.known.iter().find(|known| known.name.load(Ordering::Acquire) == name.0)?;
        Some((known.offset.load(Ordering::Relaxed), known.bytes.load(Ordering::Relaxed)))
    }

    /// The offsets of the roots that are blocks or runs: all but the one that every pool has.
    pub fn blocks(&self) -> impl Iterator<Item = u64> + '_ {
        let offsets = self.known.iter().map(|known| known.offset.load(Ordering::Relaxed));
        offsets.filter(|offset| *offset != 0 && *offset != INDEX_ROOT_OFFSET)
    }
}

/// The place in the table of roots whose offset is the word at `offset`.
pub(crate) fn place_of(offset: u64) -> Option<u64> {
    let within = offset.checked_sub(TABLE_OFFSET)?;
    let place = within / PLACE_BYTES;
    (within % PLACE_BYTES == PLACE_BYTES / 2 && place < MAX_ROOTS as u64).then_some(place)
}

const _: () = assert!(TABLE_OFFSET.is_multiple_of(PLACE_BYTES), "name and offset share a line");

impl<M: Media> Pool<M> {
    /// The root of this name.
    ///
    /// # Errors
    /// [`PoolError::NoRoot`] if there is none, [`PoolError::TooLarge`] if a `T` does not fit into
    /// it.
    #[inline(always)]
    pub fn root<T: Persistent>(&self, name: RootName) -> Result<&T, PoolError> {
        let (offset, max_bytes) = self.roots().find(name).ok_or(PoolError::NoRoot { name })?;
        let bytes = size_of::<T>() as u64;
        if bytes > max_bytes {
            return Err(PoolError::TooLarge { bytes, max_bytes });
        }
        let root = self.media().region().at(offset);
        root.ok_or_else(|| PoolError::corrupt(offset, Corruption::Pointer))
    }

    /// The root that every pool has, 4 KiB of the index: zeros after creation. No look-up.
    ///
    /// # Errors
    /// As [`root`](Pool::root).
    #[inline(always)]
    pub fn index_root<T: Persistent>(&self) -> Result<&T, PoolError> {
        let bytes = size_of::<T>() as u64;
        if bytes > CHUNK {
            return Err(PoolError::TooLarge { bytes, max_bytes: CHUNK });
        }
        let root = self.media().region().at(INDEX_ROOT_OFFSET);
        root.ok_or_else(|| PoolError::corrupt(INDEX_ROOT_OFFSET, Corruption::Pointer))
    }

    /// Whether there is a root of this name.
    pub fn has_root(&self, name: RootName) -> bool {
        self.roots().find(name).is_some()
    }

    /// What a destination holds that leads to `block`: an offset, sealed in the table of roots.
    pub(crate) fn destination_word(&self, destination: u64, block: Option<Block>) -> u64 {
        let offset = block.map_or(0, |block| block.offset);
        if place_of(destination).is_some() { Sealed::of(offset).into_word() } else { offset }
    }

    /// Lays out the table of roots of a new pool; flushed by the caller.
    pub(crate) fn lay_out_roots(&self, header: &Header) {
        for word in &header.roots {
            self.media().store(word, Sealed::ZERO);
        }
        self.media().store(&header.roots[0], Sealed::of(RootName::INDEX.0));
        self.media().store(&header.roots[1], Sealed::of(INDEX_ROOT_OFFSET));
        self.roots().set(0, RootName::INDEX.0, INDEX_ROOT_OFFSET, CHUNK);
    }

    /// Learns which roots there are, after what was cut has been settled.
    pub(crate) fn add_roots(&self) -> Result<(), PoolError> {
        let header = self.header()?;
        let (places, _) = header.roots.as_chunks::<2>();
        for (place, [name, pointer]) in places.iter().enumerate() {
            let at = TABLE_OFFSET + place as u64 * PLACE_BYTES;
            let damaged = || PoolError::corrupt(at, Corruption::Word);
            let offset = self.media().load(pointer).open().ok_or_else(damaged)?;
            let bytes = match offset {
                0 => continue,
                INDEX_ROOT_OFFSET => CHUNK,
                _ => self.chunks().node_bytes(self.media(), offset, NodeKind::ROOT)?,
            };
            let name = self.media().load(name).open().filter(|name| *name != 0);
            let name = name.ok_or_else(damaged)?;
            self.roots().set(place, name, offset, bytes);
        }
        Ok(())
    }
}

impl<M: Media> Pool<M> {
    /// Gives the pool a mark of this name: a root that takes no memory, because it leads to what
    /// the root `index` leads to. [`has_root`](Pool::has_root) tells whether it is there; it stays
    /// until it is [cleared](Pool::clear_mark). 1 flush and 1 fence, nothing if it is there.
    ///
    /// # Errors
    /// [`PoolError::RootsExhausted`].
    ///
    /// # Examples
    /// ```
    /// use everleaf_pmem::{Cpu, Mapped, Region};
    /// use everleaf_pool::{Format, KeyType, Pool, RootName};
    ///
    /// const SORTED: RootName = RootName::new("sorted");
    ///
    /// let engine = "example".to_owned();
    /// let format = Format { engine, key_type: KeyType::U64, parameters: [0; 8] };
    /// let region = Region::anonymous(1 << 20, 1 << 20)?;
    /// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
    /// assert!(!pool.has_root(SORTED));
    /// pool.set_mark(SORTED)?;
    /// assert!(pool.has_root(SORTED));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_mark(&self, name: RootName) -> Result<(), PoolError> {
        let media = self.media();
        let _one_at_a_time = lock_relaxing(&self.roots().making, media);
        if self.has_root(name) {
            return Ok(());
        }
        let place = self.free_place()?;
        let header = self.header()?;
        // T1, and T2 COMMIT in the same line. Crash in between: the place is free.
        let pointer = &header.roots[2 * place + 1];
        planted!(141, media.store(pointer, Sealed::of(INDEX_ROOT_OFFSET)));
        media.store(&header.roots[2 * place], Sealed::of(name.0));
        media.order(site!("pool.mark.T1.order"));
        media.store(pointer, Sealed::of(INDEX_ROOT_OFFSET));
        media.flush(site!("pool.mark.T2.place"), pointer);
        media.fence(site!("pool.mark.T2.fence"));
        self.roots().set(place, name.0, INDEX_ROOT_OFFSET, CHUNK);
        Ok(())
    }

    /// Takes a mark away. 1 flush and 1 fence, nothing if it is not there.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`].
    ///
    /// # Examples
    /// ```
    /// use everleaf_pmem::{Cpu, Mapped, Region};
    /// use everleaf_pool::{Format, KeyType, Pool, RootName};
    ///
    /// const SORTED: RootName = RootName::new("sorted");
    ///
    /// let engine = "example".to_owned();
    /// let format = Format { engine, key_type: KeyType::U64, parameters: [0; 8] };
    /// let region = Region::anonymous(1 << 20, 1 << 20)?;
    /// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
    /// pool.set_mark(SORTED)?;
    /// pool.clear_mark(SORTED)?;
    /// assert!(!pool.has_root(SORTED));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear_mark(&self, name: RootName) -> Result<(), PoolError> {
        let media = self.media();
        let _one_at_a_time = lock_relaxing(&self.roots().making, media);
        let is_mark = |known: &Known| {
            known.name.load(Ordering::Relaxed) == name.0
                && known.offset.load(Ordering::Relaxed) == INDEX_ROOT_OFFSET
        };
        let marks = &self.roots().known[1..]; // The first place is that of the root `index`.
        let Some(place) = marks.iter().position(is_mark).map(|place| place + 1) else {
            return Ok(());
        };
        let pointer = &self.header()?.roots[2 * place + 1];
        // T3 COMMIT.
        media.store(pointer, Sealed::ZERO);
        media.flush(site!("pool.unmark.T3.place"), pointer);
        media.fence(site!("pool.unmark.T3.fence"));
        self.roots().set(place, 0, 0, 0);
        Ok(())
    }

    /// Whether the pool on `media` has a mark of this name, before it is opened: nothing is
    /// written, whatever a crash has left. False where there is no pool.
    ///
    /// # Examples
    /// ```
    /// use everleaf_pmem::{Cpu, Mapped, Region};
    /// use everleaf_pool::{Format, KeyType, Pool, RootName};
    ///
    /// const SORTED: RootName = RootName::new("sorted");
    ///
    /// let engine = "example".to_owned();
    /// let format = Format { engine, key_type: KeyType::U64, parameters: [0; 8] };
    /// let region = Region::anonymous(1 << 20, 1 << 20)?;
    /// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
    /// pool.set_mark(SORTED)?;
    /// assert!(Pool::has_mark_on(pool.media(), SORTED));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_mark_on(media: &M, name: RootName) -> bool {
        // Of a mark both words are stores to one line: no recovery changes what they say.
        let words = media.region().cells(TABLE_OFFSET, 2 * MAX_ROOTS).unwrap_or_default();
        let open = |cell: &PCell| media.load(cell.view::<Sealed>()).open();
        let (places, _) = words.as_chunks::<2>();
        places.iter().any(|[place_name, pointer]| {
            open(place_name) == Some(name.0) && open(pointer) == Some(INDEX_ROOT_OFFSET)
        })
    }

    fn free_place(&self) -> Result<usize, PoolError> {
        let is_free = |known: &Known| known.name.load(Ordering::Relaxed) == 0;
        let place = self.roots().known.iter().position(is_free);
        place.ok_or(PoolError::RootsExhausted { places: MAX_ROOTS })
    }
}

impl<M: Media> Worker<M> {
    /// Makes a root of this name for a `T`, all zeros, unless it is there. It is there for good. 5
    /// flushes and one for each line of it, 2 fences. After a crash it is there wholly or not at
    /// all.
    ///
    /// # Errors
    /// [`PoolError::RootsExhausted`], [`PoolError::PoolFull`]; nothing has changed then.
    /// [`PoolError::TooLarge`] if there is one that is too small. [`PoolError::Corrupt`].
    ///
    /// # Examples
    /// ```
    /// use everleaf_pmem::{Cpu, Mapped, Media, PCell, Region, persistent};
    /// use everleaf_pool::{Format, KeyType, Pool, RootName};
    ///
    /// persistent! {
    ///     struct Epochs {
    ///         failed: [PCell; 8],
    ///     }
    /// }
    /// const EPOCHS: RootName = RootName::new("epochs");
    ///
    /// let engine = "example".to_owned();
    /// let format = Format { engine, key_type: KeyType::U64, parameters: [0; 8] };
    /// let region = Region::anonymous(1 << 20, 1 << 20)?;
    /// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
    /// pool.worker()?.create_root::<Epochs>(EPOCHS)?;
    /// assert_eq!(pool.media().load(&pool.root::<Epochs>(EPOCHS)?.failed[7]), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_root<T: Persistent>(&mut self, name: RootName) -> Result<(), PoolError> {
        let pool = std::sync::Arc::clone(&self.pool);
        let media = pool.media();
        let _one_at_a_time = lock_relaxing(&pool.roots().making, media);
        if pool.has_root(name) {
            return pool.root::<T>(name).map(|_| ());
        }
        let place = pool.free_place()?;
        let bytes = (size_of::<T>() as u64).next_multiple_of(LINE as u64);
        let block = self.reserve(Some(NodeKind::ROOT), bytes, LINE as u64)?;
        // T1. Durable with the fence of A1. Crash: the place is free. The name shares a line with
        // what T2 stores, so it is durable no later.
        unless_planted!(140, pool.fill(site!("pool.root.T1.content"), block.offset, bytes, 0)?);
        let header = pool.header()?;
        media.store(&header.roots[2 * place], Sealed::of(name.0));
        // T2 COMMIT.
        self.exchange(header.roots[2 * place + 1].as_word(), None, Some(block))?;
        pool.roots().set(place, name.0, block.offset, bytes);
        Ok(())
    }
}
