//! How a region gets its memory: what is there is mapped, what is added is allocated, mapped and
//! faulted in. What a new file has is not: it may be long before all of it is used.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::device::Device;
use super::{HUGE_PAGE, MapError, Mapping, PAGE, Region, file, round_up};
use crate::Medium;

/// Holes that are mapped one by one. A process has 65,530 mappings; a file in more pieces than this
/// is read into memory.
const MAX_HOLES: usize = 1000;

/// What backs a part of the reservation.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// Fresh memory, zeroed.
    Memory,
    /// The file at the same offset, stores reaching it.
    Shared(&'a File),
    /// The file at the same offset, stores staying here.
    Private(&'a File),
}

impl Region {
    /// Lengthens the region in place to `new_len` bytes; the new part is allocated, mapped, faulted
    /// in, and reads as zeros if the file had nothing there. The file's new length is as durable as
    /// a flushed store on return. Threads that grow a region at once wait for each other; one that
    /// finds it long enough does nothing.
    ///
    /// # Errors
    /// [`MapError::DiskFull`], [`MapError::MaxSize`], of an image [`MapError::Truncated`]; the
    /// region is unchanged then, and the file has the length that it had.
    pub fn grow(&self, new_len: u64) -> Result<(), MapError> {
        self.extend(new_len)
    }

    pub(super) fn extend(&self, new_len: u64) -> Result<(), MapError> {
        let _growing = self.memory.growing.lock();
        let old_len = self.len();
        let new_len = round_up(new_len, PAGE);
        if new_len <= old_len {
            return Ok(());
        }
        if new_len > self.max_len {
            return Err(MapError::MaxSize { requested_bytes: new_len, max_bytes: self.max_len });
        }
        let added = new_len - old_len;
        match (&self.memory.file, self.memory.mapping, self.memory.backing.device) {
            (Some(_), Mapping::Shared, Some(device)) => {
                if new_len > device.bytes {
                    return Err(MapError::DiskFull { requested_bytes: added });
                }
                self.fault_in(old_len, added);
            }
            (Some(file), Mapping::Shared, None) => {
                let had_bytes = file::length(file)?;
                self.extend_file(file, old_len, added)
                    .inspect_err(|_| file::cut_back(file, had_bytes))?;
            }
            // Memory in its place would show zeros where it is given back.
            (Some(file), Mapping::Image, _) => {
                let found_bytes = file::length(file)?;
                if found_bytes < new_len {
                    return Err(MapError::Truncated { found_bytes, expected_bytes: new_len });
                }
                self.map_image(file, old_len, added)?;
            }
            _ => {
                self.map(old_len, added, Source::Memory)?;
                self.fault_in(old_len, added);
            }
        }
        self.memory.len.store(new_len, Ordering::Release);
        self.bound_read_ahead(old_len);
        Ok(())
    }

    /// Lets the system read what is asked for of a file, and nothing around it, where the region is
    /// longer than so many bytes, or grows beyond. Of a file that does not fit into memory the
    /// pages around drive out others, which are read again: dozens for each that is wanted. The
    /// price: the system (Linux from 6.3 on) no longer looks which of its pages were used lately
    /// when it needs memory. A hint, for the page cache only, which is not taken back;
    /// [`will_need`](Region::will_need) reads ahead all the same.
    ///
    /// ```
    /// use everleaf_pmem::Region;
    ///
    /// let region = Region::create(tempfile::tempfile()?, 1 << 20, 64 << 20)?;
    /// region.read_ahead_up_to(16 << 20); // when it has grown to more, single pages
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_ahead_up_to(&self, bytes: u64) {
        let _growing = self.memory.growing.lock();
        self.memory.read_ahead.store(bytes, Ordering::Relaxed);
        self.bound_read_ahead(0);
    }

    /// What is mapped from `start` on is new. If the bound is passed only now, all is advised.
    fn bound_read_ahead(&self, start: u64) {
        let bound = self.memory.read_ahead.load(Ordering::Relaxed);
        let is_cached = self.memory.mapping == Mapping::Image
            || self.memory.backing.medium == Medium::PageCache;
        if is_cached && self.len() > bound {
            let start = if start > bound { start } else { 0 };
            self.advise(start, self.len() - start, libc::MADV_RANDOM);
        }
    }

    /// Lengthens the file and maps what was added, all of it allocated. On tmpfs huge pages are
    /// asked for before there are small ones, which would have to be copied.
    fn extend_file(&self, file: &File, offset: u64, bytes: u64) -> Result<(), MapError> {
        if self.memory.backing.medium == Medium::Tmpfs {
            file::lengthen(file, offset + bytes)?;
            self.map(offset, bytes, Source::Shared(file))?;
            self.fault_in(offset, bytes);
            return file::allocate(file, offset, bytes);
        }
        file::allocate(file, offset, bytes)?;
        if self.memory.backing.medium == Medium::Dax {
            // Elsewhere only the process can die, and the caller would wait for all that was ever
            // stored and not written back.
            let action = "syncing the grown file";
            self.memory
                .syncs
                .attempt(action, || file.sync_all())
                .map_err(|error| MapError::system(action)(error.into()))?;
        }
        self.map(offset, bytes, Source::Shared(file))?;
        self.fault_in(offset, bytes);
        Ok(())
    }

    /// Maps what a file has. To be written: it has no holes. To be read: as it is, but for holes on
    /// tmpfs, each page of which would have to be allocated when it is read, which ends in a SIGBUS
    /// where there is no room. Memory stands in for those. A DAX device cannot be mapped privately.
    pub(super) fn map_existing(&self, len: u64) -> Result<(), MapError> {
        let bytes = round_up(len, PAGE);
        let Some(file) = self.memory.file.as_ref().filter(|_| bytes > 0) else { return Ok(()) };
        match (self.memory.mapping, self.memory.backing.device, self.memory.backing.medium) {
            (Mapping::Shared, Some(_), _) => {}
            (Mapping::Shared, None, _) => self.map(0, bytes, Source::Shared(file))?,
            (Mapping::Private, Some(device), _) => {
                self.map(0, bytes, Source::Memory)?;
                copy_from_device(file, device, self.unpublished(bytes))?;
            }
            (Mapping::Private, None, Medium::Tmpfs) => match file::holes(file, bytes, MAX_HOLES) {
                Some(holes) => {
                    self.map(0, bytes, Source::Private(file))?;
                    for pages in holes.iter().map(whole_pages).filter(|p| !p.is_empty()) {
                        self.map(pages.start, pages.end - pages.start, Source::Memory)?;
                    }
                }
                None => {
                    self.map(0, bytes, Source::Memory)?;
                    file.read_exact_at(&mut self.unpublished(bytes)[..len as usize], 0)
                        .map_err(MapError::system("reading the pool"))?;
                }
            },
            (Mapping::Private, None, _) => self.map(0, bytes, Source::Private(file))?,
            (Mapping::Image, ..) => self.map_image(file, 0, bytes)?,
        }
        self.memory.len.store(bytes, Ordering::Release);
        Ok(())
    }

    /// Maps a DAX device that is to be written once, as far as it may ever be used: its mappings
    /// begin and end at multiples of its alignment, which a growth need not.
    pub(super) fn map_device(&self) -> Result<(), MapError> {
        match (&self.memory.file, self.memory.mapping, self.memory.backing.device) {
            (Some(file), Mapping::Shared, Some(device)) => {
                self.map(0, device.mapped_bytes(self.max_len), Source::Shared(file))
            }
            _ => Ok(()),
        }
    }

    /// The first bytes of the region as memory that only the caller knows of.
    #[expect(clippy::mut_from_ref, reason = "the region is not handed out before it is mapped")]
    fn unpublished(&self, bytes: u64) -> &mut [u8] {
        assert_eq!(self.len(), 0, "nothing of the region was handed out");
        // SAFETY: called once, while the region is made, for memory that was just mapped to be read
        // and written and that is not reachable through the region, whose length is 0.
        unsafe { std::slice::from_raw_parts_mut(self.memory.reservation.base(), bytes as usize) }
    }

    /// Maps `[offset, offset + bytes)` at its place in the reservation, over whatever is there.
    pub(super) fn map(&self, offset: u64, bytes: u64, source: Source<'_>) -> Result<(), MapError> {
        assert!(offset >= self.len(), "what was handed out stays");
        let (descriptor, kind) = match source {
            Source::Memory => (-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS),
            Source::Private(file) => (file.as_raw_fd(), libc::MAP_PRIVATE),
            Source::Shared(file) if self.memory.backing.medium == Medium::Dax => {
                (file.as_raw_fd(), libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC)
            }
            Source::Shared(file) => (file.as_raw_fd(), libc::MAP_SHARED),
        };
        let file_offset = if descriptor < 0 { 0 } else { offset as libc::off_t };
        // SAFETY: MAP_FIXED replaces a part of our own reservation that was never handed out: it
        // lies beyond `len` (asserted above), which changes only under the lock that the caller
        // holds, or before the region is handed out. It ends within the reservation: the callers
        // stay below `max_len`, or below that rounded up to the alignment, which was reserved.
        let at = unsafe {
            libc::mmap(
                self.memory.reservation.base().add(offset as usize).cast(),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                kind | libc::MAP_FIXED | libc::MAP_NORESERVE,
                descriptor,
                file_offset,
            )
        };
        if at == libc::MAP_FAILED { Err(MapError::last("mapping the pool")) } else { Ok(()) }
    }

    /// Hints: huge pages where the medium has them, and no page fault in the first operations in
    /// what a growth adds: it is used next. Failure costs only speed.
    fn fault_in(&self, offset: u64, bytes: u64) {
        let is_new = offset == 0;
        let (start, end) = (round_up(offset, HUGE_PAGE), (offset + bytes) / HUGE_PAGE * HUGE_PAGE);
        let huge = |advice| start < end && self.advise(start, end - start, advice);
        match self.memory.backing.medium {
            Medium::Anonymous => _ = huge(libc::MADV_HUGEPAGE),
            // A huge page is made of small ones, at least one; what is a hole costs no copy. One in
            // each is six times as fast as all.
            Medium::Tmpfs => {
                let touch = |at| self.advise(at, PAGE, libc::MADV_POPULATE_WRITE);
                _ = (start..end).step_by(HUGE_PAGE as usize).all(touch)
                    && huge(libc::MADV_COLLAPSE);
            }
            Medium::PageCache if !is_new => _ = huge(libc::MADV_COLLAPSE),
            Medium::PageCache | Medium::Dax | Medium::VolatileDax => {}
        }
        if self.file().is_some() && !is_new {
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

    /// Whether the system took the advice.
    pub(super) fn advise(&self, offset: u64, bytes: u64, advice: libc::c_int) -> bool {
        // SAFETY: the range lies in our own mapping; none of the hints used here changes what it
        // holds, but for those of `revert`, which stand for stores: the memory consists of atomic
        // cells, and who lends it as bytes keeps others from storing to it.
        unsafe {
            libc::madvise(
                self.base().add(offset as usize).cast_mut().cast(),
                bytes as usize,
                advice,
            ) == 0
        }
    }
}

/// The pages that lie wholly in a hole.
fn whole_pages(hole: &Range<u64>) -> Range<u64> {
    round_up(hole.start, PAGE)..hole.end / PAGE * PAGE
}

/// Reads the first bytes of a DAX device: a mapping is the only way to do so.
pub(super) fn copy_from_device(
    file: &File,
    device: Device,
    into: &mut [u8],
) -> Result<(), MapError> {
    let mapped_bytes = device.mapped_bytes(into.len() as u64) as usize;
    if mapped_bytes < into.len() {
        let source = io::ErrorKind::UnexpectedEof.into();
        return Err(MapError::System { action: "reading the DAX device", source });
    }
    // SAFETY: a fresh mapping at an address of the kernel's choice, at least as long as `into`,
    // read once and removed.
    unsafe {
        let (read, shared, none) = (libc::PROT_READ, libc::MAP_SHARED, std::ptr::null_mut());
        let at = libc::mmap(none, mapped_bytes, read, shared, file.as_raw_fd(), 0);
        if at == libc::MAP_FAILED {
            return Err(MapError::last("mapping the DAX device"));
        }
        std::ptr::copy_nonoverlapping(at.cast::<u8>(), into.as_mut_ptr(), into.len());
        libc::munmap(at, mapped_bytes);
    }
    Ok(())
}
