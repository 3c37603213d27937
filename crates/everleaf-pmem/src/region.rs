//! Mapped memory: an address range reserved once, backed by a file (or by nothing) up to a length
//! that can grow in place.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{MediaError, Medium, PCell, PPtr, Persistent, SyncLatch, WORD};

/// Bytes of a huge page; bases and large growth steps are aligned to it.
const HUGE_PAGE: u64 = 2 << 20;
/// Bytes of an ordinary page.
const PAGE: u64 = 4096;
/// The smallest reservation that is tried when the address space is scarce.
const SMALLEST_RESERVATION: u64 = 64 << 20;

/// Why memory could not be mapped or grown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The file system or the memory behind it is full.
    #[error(
        "the disk is full: {requested_bytes} more bytes could not be allocated for the pool; free \
        some space or choose another place"
    )]
    DiskFull {
        /// Bytes asked for.
        requested_bytes: u64,
    },
    /// The file system has less room than a new file is to have: known before anything of it is
    /// taken.
    #[error(
        "the disk is full: the pool is to have {requested_bytes} bytes, and {free_bytes} are free; \
        free some space or choose another size or place"
    )]
    NoRoom {
        /// Bytes asked for.
        requested_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// The pool may not grow beyond its address reservation.
    #[error(
        "the pool is full: {requested_bytes} bytes would exceed its maximum of {max_bytes} bytes; \
        create it with a larger --max-size"
    )]
    MaxSize {
        /// The length asked for.
        requested_bytes: u64,
        /// The largest length.
        max_bytes: u64,
    },
    /// The file is shorter than what must be mapped.
    #[error(
        "the file is truncated: it has {found_bytes} bytes and should have {expected_bytes}; \
        restore it from a backup"
    )]
    Truncated {
        /// Length of the file.
        found_bytes: u64,
        /// Length that its header speaks of.
        expected_bytes: u64,
    },
    /// The processor lacks an instruction that was asked for or that this medium needs.
    #[error(
        "this processor has no {instruction}, which {purpose} needs; choose another flush \
        instruction or medium"
    )]
    Unsupported {
        /// The instruction.
        instruction: &'static str,
        /// What it was wanted for.
        purpose: &'static str,
    },
    /// The operating system refused.
    #[error("{action} failed: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl MapError {
    fn last(action: &'static str) -> Self {
        Self::System { action, source: io::Error::last_os_error() }
    }
}

/// How a file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Stores reach the file.
    Shared,
    /// Stores stay in this process: the file is never written (read-only opening, `check`).
    Private,
}

/// A range of memory in which persistent structures live.
///
/// All accesses go through [`PCell`]s handed out by [`get`](Region::get) and
/// [`cells`](Region::cells) after a check of bounds and alignment, so no damaged pointer leads
/// outside.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    reservation: (usize, usize),
    max_len: u64,
    len: AtomicU64,
    file: Option<File>,
    mapping: Mapping,
    medium: Medium,
    syncs: SyncLatch,
}

// SAFETY: the memory is only handed out as shared references to atomic cells (or, unsafely, as
// bytes that nobody writes); the mapping lives as long as the region.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Memory of this process, zeroed, `len` bytes that can grow to `max_len`.
    ///
    /// # Errors
    /// [`MapError::System`] when the system has no memory or address space.
    pub fn anonymous(len: u64, max_len: u64) -> Result<Self, MapError> {
        Self::reserve(None, Mapping::Private, Medium::Anonymous, max_len)?.extended(len, false)
    }

    /// A new file's memory: `len` bytes are allocated for it (never a hole, so never a SIGBUS), and
    /// it can grow to `max_len`.
    ///
    /// # Errors
    /// [`MapError::NoRoom`] or [`MapError::DiskFull`] when there is no room, [`MapError::System`]
    /// otherwise.
    pub fn create(file: File, len: u64, max_len: u64) -> Result<Self, MapError> {
        let medium = Self::medium_of(&file)?;
        match free_bytes(&file)? {
            // On tmpfs all memory would be taken before the last page is refused.
            Some(free_bytes) if len > free_bytes => {
                return Err(MapError::NoRoom { requested_bytes: len, free_bytes });
            }
            _ => {}
        }
        Self::reserve(Some(file), Mapping::Shared, medium, max_len)?.extended(len, true)
    }

    /// The first `len` bytes of an existing file.
    ///
    /// # Errors
    /// [`MapError::Truncated`] when the file is shorter, [`MapError::DiskFull`] when it has holes
    /// that cannot be filled.
    pub fn open(file: File, len: u64, max_len: u64, mapping: Mapping) -> Result<Self, MapError> {
        let medium = Self::medium_of(&file)?;
        let found_bytes = file_length(&file)?;
        if found_bytes < len {
            return Err(MapError::Truncated { found_bytes, expected_bytes: len });
        }
        let metadata = file
            .metadata()
            .map_err(|source| MapError::System { action: "reading the file's size", source })?;
        if mapping == Mapping::Shared && metadata.is_file() && metadata.blocks() * 512 < len {
            allocate(&file, 0, len)?; // A copy made with holes would end in SIGBUS on a full disk.
        }
        Self::reserve(Some(file), mapping, medium, max_len.max(len))?.extended(len, false)
    }

    /// Reserves addresses, halving the wish while the system refuses.
    fn reserve(
        file: Option<File>,
        mapping: Mapping,
        medium: Medium,
        max_len: u64,
    ) -> Result<Self, MapError> {
        let mut wish = round_up(max_len.max(PAGE), PAGE);
        loop {
            let bytes = (wish + HUGE_PAGE) as usize;
            // SAFETY: a fresh anonymous mapping without access rights; it touches no existing
            // memory.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if start == libc::MAP_FAILED {
                if wish / 2 < SMALLEST_RESERVATION {
                    return Err(MapError::last("reserving addresses"));
                }
                wish = round_up(wish / 2, PAGE);
                continue;
            }
            let aligned = round_up(start as u64, HUGE_PAGE) as usize;
            let base = NonNull::new(start.cast::<u8>().wrapping_add(aligned - start as usize))
                .expect("mmap returns no null");
            return Ok(Self {
                base,
                reservation: (start as usize, bytes),
                max_len: wish,
                len: AtomicU64::new(0),
                file,
                mapping,
                medium,
                syncs: SyncLatch::default(),
            });
        }
    }

    fn extended(self, len: u64, allocate_file: bool) -> Result<Self, MapError> {
        self.extend(len, allocate_file)?;
        Ok(self)
    }

    /// Lengthens the region in place to `new_len` bytes; the new part is allocated, mapped, faulted
    /// in, and reads as zeros if the file had nothing there. The file's new length survives on
    /// return what stores to the medium survive. Only one thread may grow a region at a time (a
    /// second one finds nothing to do).
    ///
    /// # Errors
    /// [`MapError::DiskFull`], [`MapError::MaxSize`]; the region is unchanged then.
    pub fn grow(&self, new_len: u64) -> Result<(), MapError> {
        self.extend(new_len, true)
    }

    fn extend(&self, new_len: u64, allocate_file: bool) -> Result<(), MapError> {
        let old_len = self.len();
        let new_len = round_up(new_len, PAGE);
        if new_len <= old_len {
            return Ok(());
        }
        if new_len > self.max_len {
            return Err(MapError::MaxSize { requested_bytes: new_len, max_bytes: self.max_len });
        }
        let added = new_len - old_len;
        match &self.file {
            Some(file) if allocate_file && self.mapping == Mapping::Shared => {
                self.extend_file(file, old_len, added)?
            }
            file => {
                self.map(old_len, added, allocate_file)?;
                if allocate_file || file.is_none() {
                    self.settle(old_len, added);
                }
            }
        }
        self.len.store(new_len, Ordering::Release);
        Ok(())
    }

    /// Lengthens the file and maps what was added, all of it allocated. On tmpfs huge pages are
    /// asked for before there are small ones, which would have to be copied.
    fn extend_file(&self, file: &File, offset: u64, bytes: u64) -> Result<(), MapError> {
        if self.medium == Medium::Tmpfs {
            file.set_len(offset + bytes).map_err(|source| match source.kind() {
                io::ErrorKind::FileTooLarge | io::ErrorKind::StorageFull => {
                    MapError::DiskFull { requested_bytes: bytes }
                }
                _ => MapError::System { action: "lengthening the file", source },
            })?;
            self.map(offset, bytes, true)?;
            self.settle(offset, bytes);
            return allocate(file, offset, bytes);
        }
        allocate(file, offset, bytes)?;
        if self.medium == Medium::Dax {
            // Elsewhere only the process can die, and the caller would wait for all that was ever
            // stored and not written back.
            file.sync_all()
                .map_err(|source| MapError::System { action: "syncing the grown file", source })?;
        }
        self.map(offset, bytes, true)?;
        self.settle(offset, bytes);
        Ok(())
    }

    /// Maps `[offset, offset + bytes)` of the file at its place in the reservation.
    fn map(&self, offset: u64, bytes: u64, growing: bool) -> Result<(), MapError> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, kind) = match (&self.file, self.mapping) {
            (Some(file), Mapping::Shared) if self.medium == Medium::Dax => {
                (file.as_raw_fd(), libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC)
            }
            (Some(file), Mapping::Shared) => (file.as_raw_fd(), libc::MAP_SHARED),
            (Some(file), Mapping::Private) if !growing => (file.as_raw_fd(), libc::MAP_PRIVATE),
            _ => (-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
        };
        let file_offset = if fd < 0 { 0 } else { offset as libc::off_t };
        // SAFETY: MAP_FIXED replaces a part of our own reservation that was never handed out (it
        // lies beyond `len`).
        let at = unsafe {
            let address = self.base.as_ptr().add(offset as usize).cast();
            libc::mmap(
                address,
                bytes as usize,
                protection,
                kind | libc::MAP_FIXED | libc::MAP_NORESERVE,
                fd,
                file_offset,
            )
        };
        if at == libc::MAP_FAILED { Err(MapError::last("mapping the pool")) } else { Ok(()) }
    }

    /// Takes the end of a region without a file away again; what was there is forgotten. Nobody can
    /// hold a reference: `self` is exclusive.
    pub(crate) fn shorten(&mut self, new_len: u64) {
        debug_assert!(self.file.is_none(), "a file would keep its length");
        let len = self.len.get_mut();
        *len = round_up(new_len, PAGE).min(*len);
    }

    /// Hints: huge pages where the medium has them, and no page fault in the first operations.
    /// Failure costs only speed.
    fn settle(&self, offset: u64, bytes: u64) {
        let (start, end) = (round_up(offset, HUGE_PAGE), (offset + bytes) / HUGE_PAGE * HUGE_PAGE);
        let huge = |advice| start < end && self.advise(start, end - start, advice);
        match self.medium {
            Medium::Anonymous => _ = huge(libc::MADV_HUGEPAGE),
            // A huge page is made of small ones, at least one; what is a hole costs no copy. One in
            // each is six times as fast as all.
            Medium::Tmpfs => {
                let touch = |at| self.advise(at, PAGE, libc::MADV_POPULATE_WRITE);
                _ = (start..end).step_by(HUGE_PAGE as usize).all(touch)
                    && huge(libc::MADV_COLLAPSE);
            }
            Medium::PageCache => _ = huge(libc::MADV_COLLAPSE),
            Medium::Dax => {}
        }
        if self.file.is_some() {
            // On a full tmpfs this stops early; the allocation that follows says so, and nothing
            // beyond `len` is ever touched.
            self.advise(offset, bytes, libc::MADV_POPULATE_WRITE);
        }
    }

    /// Faults the whole region in, so that no later access waits for the kernel. About 0.1 ms a MiB
    /// of small pages.
    pub fn prefault(&self) {
        self.advise(0, self.len(), libc::MADV_POPULATE_WRITE);
    }

    /// Asks for huge pages below `bytes` although small ones were touched there before.
    pub(crate) fn collapse(&self, bytes: u64) {
        self.advise(0, bytes, libc::MADV_HUGEPAGE);
        self.advise(0, bytes, libc::MADV_COLLAPSE);
    }

    /// Where the region begins; aligned to a huge page.
    #[inline(always)]
    pub(crate) fn base(&self) -> *const u8 {
        self.base.as_ptr()
    }

    /// Whether the system took the advice.
    fn advise(&self, offset: u64, bytes: u64, advice: libc::c_int) -> bool {
        // SAFETY: the range lies in our own mapping; none of the hints used here changes what it
        // holds.
        unsafe {
            libc::madvise(self.base.as_ptr().add(offset as usize).cast(), bytes as usize, advice)
                == 0
        }
    }

    /// Bytes that may be used now.
    #[inline(always)]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
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
        self.medium
    }

    /// How the file is mapped.
    pub fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// The file behind the region, if there is one.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Writes everything to the file's medium (fsync). Nothing to do where there is no file or the
    /// mapping is private.
    ///
    /// # Errors
    /// [`MediaError`]; after the first failure always, see [`SyncLatch`].
    pub fn sync(&self) -> Result<(), MediaError> {
        match (&self.file, self.mapping) {
            (Some(file), Mapping::Shared) if self.medium != Medium::Dax => {
                self.syncs.attempt("syncing the file", || file.sync_all())
            }
            _ => Ok(()),
        }
    }

    /// The object that `pointer` leads to; none if it is null, misaligned, or not wholly inside the
    /// region.
    #[inline(always)]
    pub fn get<T: Persistent>(&self, pointer: PPtr<T>) -> Option<&T> {
        let offset = pointer.offset();
        let aligned = offset.is_multiple_of(align_of::<T>() as u64);
        let inside = offset.checked_add(size_of::<T>() as u64).is_some_and(|end| end <= self.len());
        if offset == 0 || !aligned || !inside {
            return None;
        }
        // SAFETY: inside the mapping, aligned, and T is made of atomic cells for which any bit
        // pattern is valid.
        Some(unsafe {
            self.base.as_ptr().add(offset as usize).cast::<T>().as_ref().unwrap_unchecked()
        })
    }

    /// Like [`get`](Region::get), but offset 0 (the header) is allowed.
    pub fn at<T: Persistent>(&self, offset: u64) -> Option<&T> {
        if offset == 0 && self.len() >= size_of::<T>() as u64 {
            // SAFETY: as in `get`; the base is aligned to a huge page.
            return Some(unsafe { &*self.base.as_ptr().cast::<T>() });
        }
        self.get(PPtr::at(offset))
    }

    /// `count` cells starting at `offset`; none unless aligned and inside.
    #[inline(always)]
    pub fn cells(&self, offset: u64, count: usize) -> Option<&[PCell]> {
        let bytes = (count as u64).checked_mul(WORD as u64)?;
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.len());
        if !offset.is_multiple_of(WORD as u64) || !inside {
            return None;
        }
        // SAFETY: inside the mapping, aligned, atomic cells.
        Some(unsafe {
            std::slice::from_raw_parts(
                self.base.as_ptr().add(offset as usize).cast::<PCell>(),
                count,
            )
        })
    }

    /// `count` bytes starting at `offset`; none unless inside.
    ///
    /// # Safety
    /// Nobody may store into these bytes while the slice is alive: they belong to a published
    /// record, and a guard keeps the record's block from being reused.
    #[inline(always)]
    pub unsafe fn bytes(&self, offset: u64, count: usize) -> Option<&[u8]> {
        if offset.checked_add(count as u64).is_none_or(|end| end > self.len()) {
            return None;
        }
        // SAFETY: inside the mapping; the caller keeps writers away.
        Some(unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset as usize), count) })
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
        let offset = (address as u64).wrapping_sub(self.base.as_ptr().addr() as u64);
        assert!(offset < self.max_len, "the object does not live in this region");
        offset
    }

    fn medium_of(file: &File) -> Result<Medium, MapError> {
        let metadata = file
            .metadata()
            .map_err(|source| MapError::System { action: "reading the file's type", source })?;
        if metadata.file_type().is_char_device() {
            return Ok(Medium::Dax);
        }
        // SAFETY: a zeroed statfs is a valid out-parameter; the descriptor is open.
        let kind = unsafe {
            let mut status: libc::statfs = std::mem::zeroed();
            if libc::fstatfs(file.as_raw_fd(), &mut status) != 0 {
                return Err(MapError::last("asking for the file system"));
            }
            status.f_type
        };
        if kind == libc::TMPFS_MAGIC as libc::__fsword_t {
            return Ok(Medium::Tmpfs);
        }
        Ok(if maps_synchronously(file) { Medium::Dax } else { Medium::PageCache })
    }
}

/// Whether the kernel maps this file with MAP_SYNC, that is, straight onto persistent memory.
fn maps_synchronously(file: &File) -> bool {
    // SAFETY: a fresh mapping at an address of the kernel's choice, removed at once and never
    // accessed.
    unsafe {
        let flags = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
        let at = libc::mmap(
            std::ptr::null_mut(),
            PAGE as usize,
            libc::PROT_READ,
            flags,
            file.as_raw_fd(),
            0,
        );
        at != libc::MAP_FAILED && libc::munmap(at, PAGE as usize) == 0
    }
}

fn file_length(file: &File) -> Result<u64, MapError> {
    let metadata = file
        .metadata()
        .map_err(|source| MapError::System { action: "reading the file's size", source })?;
    if !metadata.file_type().is_char_device() {
        return Ok(metadata.len());
    }
    let device = metadata.rdev();
    let path = format!("/sys/dev/char/{}:{}/size", libc::major(device), libc::minor(device));
    let invalid =
        |source| MapError::System { action: "reading the size of the DAX device", source };
    std::fs::read_to_string(path)
        .map_err(invalid)?
        .trim()
        .parse()
        .map_err(|e| invalid(io::Error::other(e)))
}

/// Bytes that the file system behind a file has left, those for its administrator included; none
/// where it does not tell, or nothing needs to be allocated.
fn free_bytes(file: &File) -> Result<Option<u64>, MapError> {
    let metadata = file
        .metadata()
        .map_err(|source| MapError::System { action: "reading the file's type", source })?;
    if !metadata.is_file() {
        return Ok(None);
    }
    // SAFETY: a zeroed statvfs is a valid out-parameter; the descriptor is open.
    let status = unsafe {
        let mut status: libc::statvfs = std::mem::zeroed();
        if libc::fstatvfs(file.as_raw_fd(), &mut status) != 0 {
            return Err(MapError::last("asking for the free space"));
        }
        status
    };
    // A tmpfs without a limit has 0 blocks.
    Ok((status.f_blocks > 0).then(|| status.f_bfree.saturating_mul(status.f_frsize)))
}

/// Allocates real blocks, so that a store into the mapping cannot fail later.
fn allocate(file: &File, offset: u64, bytes: u64) -> Result<(), MapError> {
    if file.metadata().is_ok_and(|m| m.file_type().is_char_device()) {
        return Ok(()); // A DAX device has the size it has.
    }
    // SAFETY: plain system call on an open descriptor.
    let status = unsafe {
        libc::posix_fallocate(file.as_raw_fd(), offset as libc::off_t, bytes as libc::off_t)
    };
    match status {
        0 => Ok(()),
        libc::ENOSPC | libc::EDQUOT | libc::ENOMEM | libc::EFBIG => {
            let _ = file.set_len(offset.max(file.metadata().map_or(0, |m| m.len().min(offset))));
            Err(MapError::DiskFull { requested_bytes: bytes })
        }
        code => Err(MapError::System {
            action: "allocating space for the pool",
            source: io::Error::from_raw_os_error(code),
        }),
    }
}

/// Up to a multiple of `to`; down, where no greater one fits.
const fn round_up(bytes: u64, to: u64) -> u64 {
    match bytes.checked_next_multiple_of(to) {
        Some(rounded) => rounded,
        None => u64::MAX / to * to,
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `reserve` mapped; no reference into it outlives `self`.
        unsafe { libc::munmap(self.reservation.0 as *mut libc::c_void, self.reservation.1) };
    }
}

#[cfg(test)]
mod tests {
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
    fn pointers_round_trip() {
        let region = Region::anonymous(8192, 8192).unwrap();
        let line = region.get::<Line>(PPtr::at(128)).unwrap();
        assert_eq!(region.pointer_to(line), PPtr::at(128));
    }
}
