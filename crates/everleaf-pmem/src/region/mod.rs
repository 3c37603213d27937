//! Mapped memory: an address range reserved once, backed by a file (or by nothing) up to a length
//! that can grow in place.
//!
//! Map of the files: this one (the region, and what is reached in it) · `reservation` (addresses) ·
//! `growth` (mapping and lengthening) · `image` (memory that is a file's but for what was stored) ·
//! `file` (length, room and holes of a file) · `device` (what the kernel tells of the memory behind
//! it) · `error`.

mod device;
mod error;
mod file;
mod growth;
mod image;
mod reservation;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use self::device::Backing;
pub use self::error::MapError;
use self::reservation::Reservation;
use crate::{DaxHint, MediaError, Medium, PCell, PPtr, Persistent, SyncLatch, WORD};

/// Bytes of a huge page; bases and large growth steps are aligned to it.
const HUGE_PAGE: u64 = 2 << 20;
/// Bytes of an ordinary page.
const PAGE: u64 = 4096;
/// The largest region, and the most that one can ask to grow to: 16 TiB. More than that, or "no
/// limit", means this.
pub const MAX_REGION_BYTES: u64 = 16 << 40;

/// How a file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Stores reach the file.
    Shared,
    /// Stores stay in this process: the file is never written (read-only opening, `check`).
    Private,
    /// Stores stay in this process, and a page that was never stored to shows what the file holds:
    /// its owner writes pages there that were ([`Region::image`]).
    Image,
}

/// A range of memory in which persistent structures live.
///
/// All accesses go through [`PCell`]s handed out by [`get`](Region::get) and
/// [`cells`](Region::cells) after a check of bounds and alignment, so no damaged pointer leads
/// outside.
///
/// The length is looked at for each pointer that is followed, so each handle has one of its own,
/// which may be behind.
#[derive(Debug)]
pub struct Region {
    base: *const u8,
    max_len: u64,
    /// What this handle has seen of the length.
    seen: AtomicU64,
    memory: Arc<Memory>,
}

/// What the handles of a region share.
#[derive(Debug)]
struct Memory {
    reservation: Reservation,
    len: AtomicU64,
    /// Held by the thread that lengthens the region: two would map over each other's part.
    growing: Mutex<()>,
    file: Option<File>,
    mapping: Mapping,
    backing: Backing,
    syncs: SyncLatch,
    /// Up to this length the system reads ahead.
    read_ahead: AtomicU64,
}

// SAFETY: the memory is only handed out as shared references to atomic cells (or, unsafely, as
// bytes that no thread writes); the mapping lives as long as a handle.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}
// SAFETY: as above.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Region {
    /// Memory of this process, zeroed, `len` bytes that can grow to `max_len`.
    ///
    /// # Errors
    /// [`MapError::System`] when the system has no memory or address space.
    pub fn anonymous(len: u64, max_len: u64) -> Result<Self, MapError> {
        let region = Self::reserve(None, Mapping::Private, Backing::ANONYMOUS, 0, max_len)?;
        region.extend(len)?;
        Ok(region)
    }

    /// The memory of a new file, or of a DAX device, whatever it holds: `len` bytes are allocated
    /// for it (never a hole, so never a SIGBUS), and it can grow to `max_len`.
    ///
    /// # Errors
    /// [`MapError::NoRoom`] or [`MapError::DiskFull`] when there is no room,
    /// [`MapError::TooLarge`], [`MapError::System`] otherwise.
    pub fn create(file: File, len: u64, max_len: u64) -> Result<Self, MapError> {
        let backing = Backing::of(&file)?;
        let free_bytes = match backing.device {
            Some(device) => Some(device.bytes),
            None => file::free_bytes(&file)?,
        };
        match free_bytes {
            // On tmpfs all memory would be taken before the last page is refused.
            Some(free_bytes) if len > free_bytes => {
                return Err(MapError::NoRoom { requested_bytes: len, free_bytes });
            }
            _ => {}
        }
        let region = Self::reserve(Some(file), Mapping::Shared, backing, len, max_len)?;
        region.extend(len)?;
        Ok(region)
    }

    /// The first `len` bytes of an existing file or DAX device.
    ///
    /// A file that was copied with holes gets room for them before it is mapped to be written. One
    /// that is only read needs no room, not even in a tmpfs that is full.
    ///
    /// # Errors
    /// [`MapError::Truncated`] when the file is shorter, [`MapError::Sparse`] when it has holes
    /// that cannot be filled, [`MapError::TooLarge`]. The file is unchanged then.
    pub fn open(file: File, len: u64, max_len: u64, mapping: Mapping) -> Result<Self, MapError> {
        let backing = Backing::of(&file)?;
        let found_bytes = match backing.device {
            Some(device) => device.bytes,
            None => file::length(&file)?,
        };
        // Behind the end of a file a private page shows zeros.
        let private = mapping == Mapping::Private;
        if (if private { round_up(found_bytes, PAGE) } else { found_bytes }) < len {
            return Err(MapError::Truncated { found_bytes, expected_bytes: len });
        }
        if mapping == Mapping::Shared && backing.device.is_none() {
            file::fill_holes(&file, len)?;
        }
        let region = Self::reserve(Some(file), mapping, backing, len, max_len.max(len))?;
        region.map_existing(len)?;
        Ok(region)
    }

    fn reserve(
        file: Option<File>,
        mapping: Mapping,
        backing: Backing,
        len: u64,
        max_len: u64,
    ) -> Result<Self, MapError> {
        let align = backing.device.map_or(PAGE, |device| device.align);
        let reservation = Reservation::new(len, max_len, align)?;
        let max_len = reservation.usable_bytes();
        let (len, growing) = (AtomicU64::new(0), Mutex::new(()));
        let (syncs, read_ahead) = (SyncLatch::default(), AtomicU64::new(u64::MAX));
        let memory =
            Memory { reservation, len, growing, file, mapping, backing, syncs, read_ahead };
        let base = memory.reservation.base().cast_const();
        let region = Self { base, max_len, seen: AtomicU64::new(0), memory: Arc::new(memory) };
        region.map_device()?;
        Ok(region)
    }

    /// Another handle of the same memory, for who reads and writes it beside the owner of this one.
    /// The memory stays mapped until both are gone.
    #[must_use]
    pub fn share(&self) -> Self {
        let (seen, memory) = (AtomicU64::new(self.len()), Arc::clone(&self.memory));
        Self { base: self.base, max_len: self.max_len, seen, memory }
    }

    /// Makes a region without a file hold these words and nothing else, without mapping anything
    /// anew where it has been as long before. What it held is forgotten: `self` is exclusive, so
    /// there are no references to it.
    ///
    /// # Errors
    /// As [`grow`](Region::grow).
    ///
    /// # Panics
    /// If there is a file, which would keep its length, or another handle.
    pub fn replace(&mut self, words: &[u64]) -> Result<(), MapError> {
        assert!(self.memory.file.is_none(), "a file would keep its length");
        let bytes = size_of_val(words);
        let memory = Arc::get_mut(&mut self.memory).expect("there is no other handle");
        let len = memory.len.get_mut();
        *len = round_up(bytes as u64, PAGE).min(*len);
        *self.seen.get_mut() = *len;
        self.grow(bytes as u64)?;
        // SAFETY: the first `len` bytes of the mapping can be written, and `self` is exclusive, so
        // there is no reference into them. `words` lie elsewhere: they are borrowed as well.
        unsafe {
            std::ptr::copy_nonoverlapping(
                words.as_ptr().cast::<u8>(),
                self.base().cast_mut(),
                bytes,
            );
        }
        Ok(())
    }

    /// Where the region begins; aligned to a huge page.
    #[inline(always)]
    pub(crate) fn base(&self) -> *const u8 {
        self.base
    }

    /// Bytes that may be used now.
    pub fn len(&self) -> u64 {
        self.memory.len.load(Ordering::Acquire)
    }

    /// Whether the first `end` bytes may be used.
    #[inline(always)]
    fn reaches(&self, end: u64) -> bool {
        end <= self.seen.load(Ordering::Acquire) || self.reaches_now(end)
    }

    /// As [`reaches`](Region::reaches), where it was shorter when this handle looked last.
    #[cold]
    #[inline(never)]
    fn reaches_now(&self, end: u64) -> bool {
        let len = self.len();
        self.seen.fetch_max(len, Ordering::AcqRel);
        end <= len
    }

    /// Whether nothing is mapped yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the region can grow to.
    pub fn max_len(&self) -> u64 {
        self.max_len
    }

    /// What the memory is.
    pub fn medium(&self) -> Medium {
        self.memory.backing.medium
    }

    /// Whether the persistence domain of the memory includes the processor's caches (eADR), as the
    /// kernel tells of the device that the region lies on. False where it does not tell.
    pub fn caches_persist(&self) -> bool {
        self.memory.backing.caches_persist
    }

    /// What could be done to have persistent memory here, where the device below the file offers
    /// it.
    pub fn dax_hint(&self) -> Option<DaxHint> {
        self.memory.backing.hint
    }

    /// How the file is mapped.
    pub fn mapping(&self) -> Mapping {
        self.memory.mapping
    }

    /// The file behind the region, if there is one. That of an [`image`](Region::image) is its
    /// owner's.
    pub fn file(&self) -> Option<&File> {
        self.memory.file.as_ref().filter(|_| self.memory.mapping != Mapping::Image)
    }

    /// Writes everything to the file's medium (fsync). Nothing to do on DAX, where there is no
    /// file, or where the mapping is private.
    ///
    /// # Errors
    /// [`MediaError`]; after the first failure always, see [`SyncLatch`].
    pub fn sync(&self) -> Result<(), MediaError> {
        match (&self.memory.file, self.memory.mapping) {
            (Some(file), Mapping::Shared) if self.reaches_page_cache() => {
                self.memory.syncs.attempt("syncing the file", || file.sync_all())
            }
            _ => Ok(()),
        }
    }

    /// Whether stores wait in the page cache to be written back. A DAX device refuses to be synced.
    fn reaches_page_cache(&self) -> bool {
        !matches!(self.memory.backing.medium, Medium::Dax | Medium::VolatileDax)
    }

    /// The object that `pointer` leads to; none if it is null, misaligned, or not wholly inside the
    /// region.
    #[inline(always)]
    pub fn get<T: Persistent>(&self, pointer: PPtr<T>) -> Option<&T> {
        let offset = pointer.offset();
        let aligned = offset.is_multiple_of(align_of::<T>() as u64);
        let inside = offset.checked_add(size_of::<T>() as u64).is_some_and(|end| self.reaches(end));
        if offset == 0 || !aligned || !inside {
            return None;
        }
        // SAFETY: inside the mapping, aligned, and T is made of atomic cells for which any bit
        // pattern is valid.
        Some(unsafe { &*self.base().add(offset as usize).cast::<T>() })
    }

    /// Like [`get`](Region::get), but offset 0 (the header) is allowed.
    pub fn at<T: Persistent>(&self, offset: u64) -> Option<&T> {
        if offset == 0 && self.reaches(size_of::<T>() as u64) {
            // SAFETY: as in `get`; the base is aligned to a huge page.
            return Some(unsafe { &*self.base().cast::<T>() });
        }
        self.get(PPtr::at(offset))
    }

    /// `count` cells starting at `offset`; none unless aligned and inside.
    #[inline(always)]
    pub fn cells(&self, offset: u64, count: usize) -> Option<&[PCell]> {
        let bytes = (count as u64).checked_mul(WORD as u64)?;
        let inside = offset.checked_add(bytes).is_some_and(|end| self.reaches(end));
        if !offset.is_multiple_of(WORD as u64) || !inside {
            return None;
        }
        // SAFETY: inside the mapping, aligned, atomic cells.
        Some(unsafe {
            std::slice::from_raw_parts(self.base().add(offset as usize).cast::<PCell>(), count)
        })
    }

    /// `count` bytes starting at `offset`; none unless inside.
    ///
    /// # Safety
    /// No thread may store into these bytes while the slice is alive: they belong to a published
    /// record, and a guard keeps the record's block from being reused.
    #[inline(always)]
    pub unsafe fn bytes(&self, offset: u64, count: usize) -> Option<&[u8]> {
        if offset.checked_add(count as u64).is_none_or(|end| !self.reaches(end)) {
            return None;
        }
        // SAFETY: inside the mapping; the caller keeps writers away.
        Some(unsafe { std::slice::from_raw_parts(self.base().add(offset as usize), count) })
    }

    /// The persistent pointer to an object of this region.
    ///
    /// # Panics
    /// If `object` lies elsewhere: a mistake of the programmer, never of data.
    #[inline(always)]
    pub fn pointer_to<T: Persistent>(&self, object: &T) -> PPtr<T> {
        PPtr::at(self.offset_of((object as *const T).addr()))
    }

    /// The offset of an address inside the region.
    #[inline(always)]
    pub(crate) fn offset_of(&self, address: usize) -> u64 {
        let offset = (address as u64).wrapping_sub(self.base().addr() as u64);
        assert!(offset < self.max_len, "the object does not live in this region");
        offset
    }
}

/// Bytes that a file has, or a DAX device.
///
/// # Errors
/// [`MapError::System`].
pub fn length_of(file: &File) -> Result<u64, MapError> {
    match Backing::of(file)?.device {
        Some(device) => Ok(device.bytes),
        None => file::length(file),
    }
}

/// Reads the first bytes of a file, or of a DAX device, which knows no other way than a mapping.
///
/// # Errors
/// [`MapError::Truncated`] where there are fewer, [`MapError::System`].
pub fn read_start(file: &File, bytes: &mut [u8]) -> Result<(), MapError> {
    let (expected_bytes, found_bytes) = (bytes.len() as u64, length_of(file)?);
    if found_bytes < expected_bytes {
        return Err(MapError::Truncated { found_bytes, expected_bytes });
    }
    match Backing::of(file)?.device {
        Some(device) => growth::copy_from_device(file, device, bytes),
        None => file.read_exact_at(bytes, 0).map_err(MapError::system("reading the file")),
    }
}

/// Up to a multiple of `to`; down, where no greater one fits.
const fn round_up(bytes: u64, to: u64) -> u64 {
    match bytes.checked_next_multiple_of(to) {
        Some(rounded) => rounded,
        None => u64::MAX / to * to,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::Line;

    #[test]
    fn references_are_given_only_inside_and_aligned() {
        let region = Region::anonymous(8192, 1 << 20).unwrap();
        assert!(region.get::<Line>(PPtr::NULL).is_none());
        assert!(region.get::<Line>(PPtr::at(64)).is_some());
        assert!(region.get::<Line>(PPtr::at(72)).is_none(), "misaligned");
        assert!(region.get::<Line>(PPtr::at(8192 - 64)).is_some());
        assert!(region.get::<Line>(PPtr::at(8192)).is_none(), "outside");
        assert!(region.get::<Line>(PPtr::at(u64::MAX - 63)).is_none(), "overflow");
        assert!(
            region.cells(8184, 1).is_some()
                && region.cells(8184, 2).is_none()
                && region.cells(0, usize::MAX).is_none()
        );
        region.grow(16384).unwrap();
        assert!(region.get::<Line>(PPtr::at(8192)).is_some());
        assert!(matches!(region.grow(2 << 20), Err(MapError::MaxSize { .. })));
    }

    #[test]
    fn another_handle_reaches_what_was_added_and_keeps_the_memory() {
        let region = Region::anonymous(8192, 1 << 20).unwrap();
        let other = region.share();
        assert!(other.get::<Line>(PPtr::at(8192)).is_none());
        region.grow(16384).unwrap();
        let added = other.cells(8192, 1).unwrap();
        region.cells(8192, 1).unwrap()[0].store(7, Ordering::Release);
        assert!(other.len() == 16384 && other.cells(16384, 1).is_none());
        other.grow(32768).unwrap();
        assert!(region.get::<Line>(PPtr::at(16384)).is_some());
        drop(region);
        assert_eq!(added[0].load(Ordering::Acquire), 7);
    }

    #[test]
    fn pointers_round_trip() {
        let region = Region::anonymous(8192, 8192).unwrap();
        let line = region.get::<Line>(PPtr::at(128)).unwrap();
        assert_eq!(region.pointer_to(line), PPtr::at(128));
    }

    fn new_file() -> File {
        tempfile::tempfile().unwrap()
    }

    #[test]
    fn threads_that_grow_a_region_at_once_lose_nothing_that_was_stored() {
        const STEP: u64 = 4 * PAGE;
        for region in [
            Region::anonymous(STEP, 64 << 20).unwrap(),
            Region::create(new_file(), STEP, 64 << 20).unwrap(),
        ] {
            let grow = |thread: u64| {
                for round in 1..100 {
                    region.grow((round * 4 + thread) * STEP).unwrap();
                    let end = region.len();
                    let mine = end - STEP + thread * WORD as u64;
                    region.cells(mine, 1).unwrap()[0].store(mine, Ordering::Release);
                    assert_eq!(region.cells(mine, 1).unwrap()[0].load(Ordering::Acquire), mine);
                    // What others stored in what was handed out is there still, or not yet.
                    for other in 0..4 {
                        let at = end - STEP + other * WORD as u64;
                        let there = region.cells(at, 1).unwrap()[0].load(Ordering::Acquire);
                        assert!(there == 0 || there == at);
                    }
                }
            };
            std::thread::scope(|scope| (0..4).for_each(|t| _ = scope.spawn(move || grow(t))));
        }
    }

    #[test]
    fn a_maximum_without_limit_is_bounded() {
        for region in [
            Region::anonymous(PAGE, u64::MAX).unwrap(),
            Region::create(new_file(), PAGE, u64::MAX).unwrap(),
        ] {
            assert!(region.max_len() <= MAX_REGION_BYTES && region.max_len() >= 64 << 20);
            assert!(matches!(region.grow(u64::MAX), Err(MapError::MaxSize { .. })));
            region.grow(2 * PAGE).unwrap();
            region.cells(PAGE, 1).unwrap()[0].store(7, Ordering::Relaxed);
        }
        let file = new_file();
        file.set_len(PAGE).unwrap();
        let opened = Region::open(file, PAGE, u64::MAX, Mapping::Private).unwrap();
        assert!(opened.max_len() <= MAX_REGION_BYTES);
        let refused = Region::create(new_file(), u64::MAX, u64::MAX);
        assert!(matches!(refused, Err(MapError::NoRoom { .. } | MapError::TooLarge { .. })));
    }

    #[test]
    fn a_growth_does_not_shorten_a_file_that_is_longer() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            let Ok(file) = tempfile::tempfile_in(&folder) else { continue };
            file.set_len(64 * PAGE).unwrap();
            let region =
                Region::open(file.try_clone().unwrap(), PAGE, 1 << 20, Mapping::Shared).unwrap();
            region.grow(2 * PAGE).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 64 * PAGE, "{}", folder.display());
            file::cut_back(&file, 64 * PAGE);
            assert_eq!(file.metadata().unwrap().len(), 64 * PAGE);
            file::cut_back(&file, 2 * PAGE);
            assert_eq!(file.metadata().unwrap().len(), 2 * PAGE);
            file::cut_back(&file, 4 * PAGE);
            assert_eq!(file.metadata().unwrap().len(), 2 * PAGE, "it never lengthens");
        }
    }

    /// A file of `pages` pages that has data in every second one.
    fn with_holes(folder: &std::path::Path, pages: u64) -> File {
        let file = tempfile::tempfile_in(folder).unwrap();
        file.set_len(pages * PAGE).unwrap();
        for page in (0..pages).step_by(2) {
            file.write_all_at(&[0xa5; PAGE as usize], page * PAGE).unwrap();
        }
        file
    }

    #[test]
    fn holes_read_as_zeros_and_are_filled_before_a_write() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            if !folder.is_dir() {
                continue;
            }
            // Few holes are mapped one by one, many are not.
            for pages in [64, 4096] {
                let file = with_holes(&folder, pages);
                let open = |mapping| {
                    let file = file.try_clone().unwrap();
                    Region::open(file, pages * PAGE, pages * PAGE, mapping).unwrap()
                };
                let blocks = || file.metadata().unwrap().blocks();
                let before = blocks();
                let region = open(Mapping::Private);
                let first =
                    |page: u64| region.cells(page * PAGE, 1).unwrap()[0].load(Ordering::Relaxed);
                for page in 0..pages {
                    let expected = if page % 2 == 0 { 0xa5a5_a5a5_a5a5_a5a5 } else { 0 };
                    assert_eq!(first(page), expected, "page {page} of {pages}");
                    region.cells(page * PAGE, 1).unwrap()[0].store(1, Ordering::Relaxed);
                }
                assert_eq!(blocks(), before, "reading took room in {}", folder.display());
                let mut byte = [0];
                file.read_exact_at(&mut byte, 0).unwrap();
                assert_eq!(byte, [0xa5], "a private mapping writes nothing");
                open(Mapping::Shared);
                assert!(blocks() * 512 >= pages * PAGE, "holes are filled in {}", folder.display());
            }
        }
    }
}
