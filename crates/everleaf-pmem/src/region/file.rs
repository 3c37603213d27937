//! What is asked of a pool's file: its length, its room on the disk, its holes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use super::MapError;

/// Bytes of a file, by its metadata.
pub(super) fn length(file: &File) -> Result<u64, MapError> {
    Ok(file.metadata().map_err(MapError::system("reading the file's size"))?.len())
}

/// Bytes that the file system behind a file has left, those for its administrator included; none
/// where it does not tell.
pub(super) fn free_bytes(file: &File) -> Result<Option<u64>, MapError> {
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

/// Whether the file system is tmpfs.
pub(super) fn is_on_tmpfs(file: &File) -> Result<bool, MapError> {
    // SAFETY: a zeroed statfs is a valid out-parameter; the descriptor is open.
    unsafe {
        let mut status: libc::statfs = std::mem::zeroed();
        if libc::fstatfs(file.as_raw_fd(), &mut status) != 0 {
            return Err(MapError::last("asking for the file system"));
        }
        Ok(status.f_type == libc::TMPFS_MAGIC as libc::__fsword_t)
    }
}

/// Allocates real blocks, so that a store into the mapping cannot fail later. Lengthens the file
/// where it is shorter. After an error it may be longer than before, and have more blocks.
pub(super) fn allocate(file: &File, offset: u64, bytes: u64) -> Result<(), MapError> {
    let full = || MapError::DiskFull { requested_bytes: bytes };
    let end = offset.checked_add(bytes).ok_or_else(full)?;
    if end > size_limit() && end > length(file)? {
        return Err(full()); // Beyond the limit the system would send a signal that kills.
    }
    loop {
        // SAFETY: plain system call on an open descriptor.
        let status = unsafe {
            libc::posix_fallocate(file.as_raw_fd(), offset as libc::off_t, bytes as libc::off_t)
        };
        match status {
            0 => return Ok(()),
            libc::EINTR => {}
            libc::ENOSPC | libc::EDQUOT | libc::ENOMEM | libc::EFBIG => return Err(full()),
            code => {
                let source = io::Error::from_raw_os_error(code);
                return Err(MapError::system("allocating space for the pool")(source));
            }
        }
    }
}

/// Lengthens a file without giving it blocks; one that is long enough stays as it is.
pub(super) fn lengthen(file: &File, to_bytes: u64) -> Result<(), MapError> {
    let had_bytes = length(file)?;
    if had_bytes >= to_bytes {
        return Ok(());
    }
    let full = || MapError::DiskFull { requested_bytes: to_bytes - had_bytes };
    if to_bytes > size_limit() {
        return Err(full());
    }
    file.set_len(to_bytes).map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge | io::ErrorKind::StorageFull => full(),
        _ => MapError::system("lengthening the file")(source),
    })
}

/// Undoes a growth that failed: a file that is longer than it was gets the length that it had. A
/// failure leaves it longer, which harms nothing.
pub(super) fn cut_back(file: &File, had_bytes: u64) {
    if length(file).is_ok_and(|now| now > had_bytes) {
        let _ = file.set_len(had_bytes);
    }
}

/// Fills the holes among the first `bytes` bytes of a file, so that no store can fail for want of
/// room. Costs two system calls where there is none.
///
/// # Errors
/// [`MapError::Sparse`] when there is no room; the file is not shortened.
pub(super) fn fill_holes(file: &File, bytes: u64) -> Result<(), MapError> {
    let metadata = file.metadata().map_err(MapError::system("reading the file's size"))?;
    let allocated_bytes = metadata.blocks().saturating_mul(512);
    let first_hole = seek(file, 0, libc::SEEK_HOLE).unwrap_or(bytes);
    // Neither tells all: what is allocated and was never written counts as a hole, and blocks
    // beyond the pool's end may make up for a hole in it.
    if allocated_bytes >= bytes && first_hole >= bytes {
        return Ok(());
    }
    allocate(file, 0, bytes).map_err(|error| match error {
        MapError::DiskFull { .. } => {
            let holes = holes(file, bytes, usize::MAX).unwrap_or_default();
            let in_holes: u64 = holes.iter().map(|hole| hole.end - hole.start).sum();
            MapError::Sparse { missing_bytes: in_holes.max(bytes.saturating_sub(allocated_bytes)) }
        }
        error => error,
    })
}

/// The holes among the first `bytes` bytes of a file, in order. None if there are more than `most`.
pub(super) fn holes(file: &File, bytes: u64, most: usize) -> Option<Vec<Range<u64>>> {
    let mut holes = Vec::new();
    let mut at = 0;
    while let Some(start) = seek(file, at, libc::SEEK_HOLE).filter(|start| *start < bytes) {
        if holes.len() == most {
            return None;
        }
        let end = seek(file, start, libc::SEEK_DATA).unwrap_or(bytes).min(bytes);
        holes.push(start..end);
        at = end.max(start + 1);
    }
    Some(holes)
}

/// The next hole, or data, at or behind `offset`; none if there is no such place, or the file
/// system cannot tell.
fn seek(file: &File, offset: u64, what: libc::c_int) -> Option<u64> {
    // SAFETY: plain system call on an open descriptor, whose position is never used.
    let at = unsafe { libc::lseek(file.as_raw_fd(), offset as libc::off_t, what) };
    u64::try_from(at).ok()
}

/// The length that files of this process may have.
fn size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the out-parameter is a valid rlimit.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}
