//! Opening and locking pool files. Making them: `new_file`.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use everleaf_pmem::{MapError, Mapping, Region, WORD, Word, length_of, read_start};

use crate::chunks::{Extent, is_chunk_line};
use crate::header::{IdentityImage, uuid_in};
use crate::layout::{CHUNK, ChunkLine, FIRST_EXTENT_CHUNK, Header, MAX_EXTENTS};
use crate::word::Sealed;
use crate::{Corruption, Format, PoolError};

/// How a pool file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To read and write; no other process may have it open.
    ReadWrite,
    /// To read: the file is never written; if recovery is needed it happens in a private mapping.
    /// Several readers may share it.
    ReadOnly,
}

/// The address space that a pool reserves if nothing else is said: 1 TiB, less where the system has
/// less to give.
pub const DEFAULT_MAX_BYTES: u64 = 1 << 40;

/// Locks and maps a pool file after a look at its header.
///
/// # Errors
/// [`PoolError::Missing`], [`PoolError::NotAFile`], [`PoolError::Locked`], [`PoolError::NotAPool`],
/// [`PoolError::Newer`], [`PoolError::Corrupt`], a truncated file, or what the system says.
pub fn open_file(path: &Path, mode: OpenMode) -> Result<Region, PoolError> {
    lock_file(path, mode)?.map()
}

/// Locks a pool file and reads its header.
///
/// # Errors
/// As [`open_file`].
pub fn lock_file(path: &Path, mode: OpenMode) -> Result<LockedFile, PoolError> {
    let file = open_locked(path, mode)?;
    let words = first_words(&file, path)?;
    let identity = identity_in(&words, &file, path)?;
    identity.features.check(mode == OpenMode::ReadWrite).map_err(PoolError::Newer)?;
    Ok(LockedFile { file, mode, words, identity })
}

fn open_locked(path: &Path, mode: OpenMode) -> Result<File, PoolError> {
    let writable = mode == OpenMode::ReadWrite;
    loop {
        let file = open_existing(path, writable)?;
        lock(&file, path, if writable { libc::LOCK_EX } else { libc::LOCK_SH })?;
        if is_at(&file, path)? {
            return Ok(file);
        } // Another file has taken its place between opening and locking.
    }
}

/// A pool file that is open and locked, and what its header says.
pub struct LockedFile {
    file: File,
    mode: OpenMode,
    words: Vec<u64>,
    identity: IdentityImage,
}

impl LockedFile {
    /// What was decided when the pool was created.
    pub fn format(&self) -> &Format {
        &self.identity.format
    }

    /// The pool's identity.
    pub fn uuid(&self) -> u128 {
        self.identity.uuid
    }

    /// Bytes that the pool may grow to.
    pub fn max_bytes(&self) -> u64 {
        self.identity.max_bytes
    }

    /// Maps it.
    ///
    /// # Errors
    /// A damaged header, a truncated file, or what the system says.
    pub fn map(self) -> Result<Region, PoolError> {
        let shared = self.mode == OpenMode::ReadWrite;
        let mapping = if shared { Mapping::Shared } else { Mapping::Private };
        self.check_length()?;
        let bytes = pool_bytes(&self.words)?;
        Ok(Region::open(self.file, bytes, self.identity.max_bytes, mapping)?)
    }

    /// Whether the file is as long as its header says. Of a pool with a log the header may be one
    /// that the log corrects: if it cannot be read nothing is said.
    ///
    /// # Errors
    /// A truncated file, or what the system says.
    pub fn check_length(&self) -> Result<(), PoolError> {
        let found_bytes = length_of(&self.file)?;
        match pool_bytes(&self.words) {
            Ok(expected_bytes) if found_bytes < expected_bytes => {
                Err(MapError::Truncated { found_bytes, expected_bytes }.into())
            }
            _ => Ok(()),
        }
    }

    /// The file; it is locked as long as it is open.
    pub fn into_file(self) -> File {
        self.file
    }
}

/// Locks a damaged pool file, to be read, whatever its header says.
///
/// # Errors
/// As [`open_file`], but for what is damaged: an error of the system is never taken for damage.
pub fn lock_damaged_file(path: &Path) -> Result<DamagedFile, PoolError> {
    let file = open_locked(path, OpenMode::ReadOnly)?;
    let words = first_words(&file, path)?;
    let identity = match identity_in(&words, &file, path) {
        Err(why @ (PoolError::NotAPool { .. } | PoolError::Corrupt { .. })) => Err(why),
        identity => Ok(identity?),
    };
    if let Ok(identity) = &identity {
        identity.features.check(false).map_err(PoolError::Newer)?;
    }
    let found_bytes = length_of(&file)?;
    Ok(DamagedFile { file, words, identity, found_bytes })
}

/// A damaged pool file that is open and locked, and what can be read of its header.
pub struct DamagedFile {
    file: File,
    words: Vec<u64>,
    /// Why every other opening refuses it, if the header cannot be read.
    identity: Result<IdentityImage, PoolError>,
    found_bytes: u64,
}

impl DamagedFile {
    /// What was decided when the pool was created; none if that is lost.
    pub fn format(&self) -> Option<&Format> {
        self.identity.as_ref().ok().map(|identity| &identity.format)
    }

    /// What stands where the pool's identity is, which may be damaged.
    pub fn uuid(&self) -> u128 {
        uuid_in(&self.words)
    }

    /// Bytes that the pool may grow to; 0 if that is lost.
    pub fn max_bytes(&self) -> u64 {
        self.identity.as_ref().map_or(0, |identity| identity.max_bytes)
    }

    /// Bytes that the file has.
    pub fn found_bytes(&self) -> u64 {
        self.found_bytes
    }

    /// The file, which is locked as long as one of these is open.
    ///
    /// # Errors
    /// As the system reports.
    pub fn file(&self, path: &Path) -> Result<File, PoolError> {
        self.file.try_clone().map_err(io_error("opening", path))
    }

    /// Maps as much of it as there is, the last chunk even if only a part of it is there; the file
    /// is not written.
    ///
    /// # Errors
    /// What the system says.
    pub fn map(&self, path: &Path) -> Result<Region, PoolError> {
        let there = self.found_bytes.next_multiple_of(CHUNK);
        let length = pool_bytes(&self.words).unwrap_or(there).min(there);
        let max_bytes = self.max_bytes().max(length);
        Ok(Region::open(self.file(path)?, length, max_bytes, Mapping::Private)?)
    }

    /// Why every other opening refuses the file, if its header cannot be read.
    pub fn into_refusal(self) -> Option<PoolError> {
        self.identity.err()
    }
}

/// The identity of the pool at `path`, which may be open in any process.
///
/// # Errors
/// As [`open_file`], but that no lock is waited for.
pub fn uuid_of(path: &Path) -> Result<u128, PoolError> {
    let file = open_existing(path, false)?;
    let words = first_words(&file, path)?;
    Ok(identity_in(&words, &file, path)?.uuid)
}

/// The words of the first chunk.
pub(crate) fn first_words(file: &File, path: &Path) -> Result<Vec<u64>, PoolError> {
    let mut bytes = vec![0; CHUNK as usize];
    read_start(file, &mut bytes).map_err(|error| match error {
        MapError::Truncated { .. } => PoolError::NotAPool { path: path.into() },
        error => error.into(),
    })?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    Ok(bytes.chunks_exact(8).map(word).collect())
}

fn identity_in(words: &[u64], file: &File, path: &Path) -> Result<IdentityImage, PoolError> {
    match IdentityImage::read(words) {
        Err(None) if has_table(file)? => Err(PoolError::corrupt(0, Corruption::Header)),
        Err(None) => Err(PoolError::NotAPool { path: path.into() }),
        identity => identity.map_err(|error| error.expect("none was handled")),
    }
}

/// Whether the first extent begins where it must, with a line of its table: a pool that has lost
/// its first page is a damaged one.
fn has_table(file: &File) -> Result<bool, PoolError> {
    let mut bytes = vec![0; (FIRST_EXTENT_CHUNK * CHUNK) as usize + size_of::<ChunkLine>()];
    match read_start(file, &mut bytes) {
        Err(MapError::Truncated { .. }) => return Ok(false),
        read => read?,
    }
    let line = bytes[(FIRST_EXTENT_CHUNK * CHUNK) as usize..].as_chunks::<WORD>().0;
    Ok(is_chunk_line(line.iter().map(|word| Sealed::from_word(u64::from_le_bytes(*word)))))
}

/// The length that the header's extents add up to.
fn pool_bytes(header: &[u64]) -> Result<u64, PoolError> {
    let first = std::mem::offset_of!(Header, extents) / WORD;
    let words = header[first..first + MAX_EXTENTS].iter().map(|word| Sealed::from_word(*word));
    let end_of = |extent: Result<Extent, _>| extent.map(|extent| extent.end());
    let end = Extent::listed(words).map(end_of).try_fold(FIRST_EXTENT_CHUNK, |_, end| end)?;
    let too_long = || PoolError::corrupt((first * WORD) as u64, Corruption::Header);
    end.checked_mul(CHUNK).ok_or_else(too_long)
}

/// Opens what is there, if it can hold a pool. Never waits: a pipe would until another process
/// opens it.
pub(crate) fn open_existing(path: &Path, writable: bool) -> Result<File, PoolError> {
    let mut options = OpenOptions::new();
    options.read(true).write(writable).custom_flags(libc::O_NONBLOCK);
    let opened = options.open(path).and_then(|file| Ok((file.metadata()?, file)));
    let refused = |metadata: &Metadata| {
        unfit(metadata).map(|what| PoolError::NotAFile { path: path.into(), what })
    };
    match opened {
        Ok((metadata, file)) => refused(&metadata).map_or(Ok(file), Err),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(PoolError::Missing { path: path.into() })
        }
        // Folders and sockets are refused by the system already, but not in these words.
        Err(e) => {
            let refused = std::fs::metadata(path).ok().as_ref().and_then(refused);
            Err(refused.unwrap_or_else(|| not_opened(path, writable, e)))
        }
    }
}

fn not_opened(path: &Path, writable: bool, source: io::Error) -> PoolError {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match source.kind() {
        PermissionDenied | ReadOnlyFilesystem if writable => {
            PoolError::NotWritable { path: path.into(), source }
        }
        _ => io_error("opening", path)(source),
    }
}

/// What it is that cannot hold a pool; none for regular files and DAX devices.
fn unfit(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_char_device() && is_dax(metadata.rdev()) => None,
        () if kind.is_char_device() => Some("a character device without persistent memory"),
        () if kind.is_dir() => Some("a folder"),
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () if kind.is_block_device() => Some("a block device"),
        () => Some("no file"),
    }
}

/// Whether a character device is persistent memory, as the kernel files it.
fn is_dax(device: u64) -> bool {
    let subsystem =
        format!("/sys/dev/char/{}:{}/subsystem", libc::major(device), libc::minor(device));
    std::fs::canonicalize(subsystem).is_ok_and(|subsystem| subsystem.ends_with("dax"))
}

/// Whether the path leads to this file still; one without a name may be reached through /proc.
pub(crate) fn is_at(file: &File, path: &Path) -> Result<bool, PoolError> {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let opened = file.metadata().map_err(io_error("reading", path))?;
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => Ok(identity(opened) == identity(found.map_err(io_error("reading", path))?)),
    }
}

pub(crate) fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.file_type().is_char_device())
}

/// Locks a file. A process that is being started has copies of this one's descriptors until it
/// runs its program, so a file that was closed here may be locked for a moment still: the lock is
/// tried for a tenth of a second.
pub(crate) fn lock(file: &File, path: &Path, kind: libc::c_int) -> Result<(), PoolError> {
    const PAUSE: Duration = Duration::from_millis(2);
    lock_or(file, path, kind, || std::thread::sleep(PAUSE))
}

/// The same with what is done between two times.
fn lock_or(
    file: &File,
    path: &Path,
    kind: libc::c_int,
    mut pause: impl FnMut(),
) -> Result<(), PoolError> {
    const TIMES: u32 = 50;
    for _ in 0..TIMES {
        match lock_once(file, path, kind) {
            Err(PoolError::Locked { .. }) => pause(),
            done => return done,
        }
    }
    lock_once(file, path, kind)
}

fn lock_once(file: &File, path: &Path, kind: libc::c_int) -> Result<(), PoolError> {
    // SAFETY: plain system call on an open descriptor. The lock goes with the last descriptor, so a
    // killed process leaves none.
    if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::Interrupted => lock_once(file, path, kind),
        io::ErrorKind::WouldBlock => {
            Err(PoolError::Locked { path: path.into(), here: is_locked_here(file) })
        }
        _ => Err(io_error("locking", path)(error)),
    }
}

/// Whether this process has locked the file by another descriptor, by the system's list of locks:
/// a line is `1: FLOCK ADVISORY WRITE PROCESS DEVICE:INODE 0 EOF`, the device in hexadecimal. It
/// only decides what an error says.
fn is_locked_here(file: &File) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let (process, inode) = (std::process::id().to_string(), format!(":{}", metadata.ino()));
    let is_ours = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&"FLOCK")
            && words.get(4) == Some(&process.as_str())
            && words.get(5).is_some_and(|file| file.ends_with(&inode))
    };
    std::fs::read_to_string("/proc/locks").is_ok_and(|locks| locks.lines().any(is_ours))
}

pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PoolError {
    move |source| PoolError::Io { action, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_a_process_being_started_holds_for_a_moment_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let opened = || OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let (first, second) = (opened(), opened());
        lock_once(&first, &path, libc::LOCK_EX).unwrap();
        let (mut first, mut times) = (Some(first), 0);
        let pause = || {
            times += 1;
            first = first.take().filter(|_| times < 3);
        };
        lock_or(&second, &path, libc::LOCK_EX, pause).unwrap();
        assert_eq!(times, 3);
        let refused = lock_or(&opened(), &path, libc::LOCK_EX, || {});
        assert!(matches!(refused, Err(PoolError::Locked { .. })), "{refused:?}");
    }
}
