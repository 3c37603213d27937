//! Creating, locking and opening pool files.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use everleaf_pmem::{Mapping, Region};

use crate::chunks::Extent;
use crate::header::IdentityImage;
use crate::layout::{CHUNK, FIRST_EXTENT_CHUNK, MAX_EXTENTS, MIN_POOL_BYTES};
use crate::word::Sealed;
use crate::{Corruption, PoolError};

/// How a pool file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To read and write; nobody else may have it open.
    ReadWrite,
    /// To read: the file is never written; if recovery is needed it happens in a private mapping.
    /// Several readers may share it.
    ReadOnly,
}

/// The address space that a pool reserves if nothing else is said: 1 TiB, less where the system has
/// less to give.
pub const DEFAULT_MAX_BYTES: u64 = 1 << 40;

/// Makes a pool file of `size` bytes that may grow to `max_size`, allocates all of it, locks it,
/// and maps it. The file is no pool before [`Pool::create`](crate::Pool::create) has laid it out.
///
/// # Errors
/// [`PoolError::Exists`], [`PoolError::NotAFile`], [`PoolError::TooSmall`], or what the system says
/// (a full disk above all); no file is left then.
pub fn create_file(path: &Path, size: u64, max_size: u64) -> Result<Region, PoolError> {
    if size < MIN_POOL_BYTES {
        return Err(PoolError::TooSmall { bytes: size, min_bytes: MIN_POOL_BYTES });
    }
    let size = size.div_ceil(CHUNK) * CHUNK;
    let file = match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && is_device(path) => {
            open_existing(path, true)?
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            return Err(PoolError::Exists { path: path.into() });
        }
        Err(e) => return Err(io_error("creating", path)(e)),
    };
    let made = lock(&file, path, libc::LOCK_EX)
        .and_then(|()| Ok(Region::create(file, size, max_size.max(size))?));
    if made.is_err() && !is_device(path) {
        let _ = std::fs::remove_file(path);
    }
    made
}

/// Locks and maps a pool file after a look at its header.
///
/// # Errors
/// [`PoolError::Missing`], [`PoolError::NotAFile`], [`PoolError::Locked`], [`PoolError::NotAPool`],
/// [`PoolError::NewerVersion`], [`PoolError::Corrupt`], a truncated file, or what the system says.
pub fn open_file(path: &Path, mode: OpenMode) -> Result<Region, PoolError> {
    let writable = mode == OpenMode::ReadWrite;
    let file = loop {
        let file = open_existing(path, writable)?;
        lock(&file, path, if writable { libc::LOCK_EX } else { libc::LOCK_SH })?;
        if is_at(&file, path) {
            break file;
        } // Another file has taken its place between opening and locking.
    };
    let mut bytes = vec![0; CHUNK as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => PoolError::NotAPool { path: path.into() },
        _ => io_error("reading", path)(e),
    })?;
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")))
        .collect();
    let identity = IdentityImage::read(&words)
        .map_err(|e| e.unwrap_or(PoolError::NotAPool { path: path.into() }))?;
    let mapping = if writable { Mapping::Shared } else { Mapping::Private };
    Ok(Region::open(file, pool_bytes(&words)?, identity.max_bytes, mapping)?)
}

/// Maps as much of a damaged pool file as there is, to be read; the file is not written.
///
/// # Errors
/// As [`open_file`] if the identity cannot be read.
pub fn open_damaged_file(path: &Path) -> Result<Region, PoolError> {
    let file = open_existing(path, false)?;
    lock(&file, path, libc::LOCK_SH)?;
    let not_a_pool = || PoolError::NotAPool { path: path.into() };
    let mut bytes = vec![0; CHUNK as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|_| not_a_pool())?;
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")))
        .collect();
    let identity = IdentityImage::read(&words).map_err(|e| e.unwrap_or_else(not_a_pool))?;
    let there = file.metadata().map_err(io_error("reading", path))?.len() / CHUNK * CHUNK;
    let length = pool_bytes(&words).unwrap_or(there).min(there);
    Ok(Region::open(file, length, identity.max_bytes.max(length), Mapping::Private)?)
}

/// The length that the header's extents add up to.
fn pool_bytes(header: &[u64]) -> Result<u64, PoolError> {
    let extents = std::mem::offset_of!(crate::layout::Header, extents) / 8;
    let mut end = FIRST_EXTENT_CHUNK;
    for (i, word) in header[extents..extents + MAX_EXTENTS].iter().enumerate() {
        let extent = Extent::unseal(<Sealed as everleaf_pmem::Word>::from_word(*word), end);
        let extent =
            extent.ok_or_else(|| PoolError::corrupt((extents + i) as u64 * 8, Corruption::Word))?;
        if extent.chunks == 0 {
            break;
        }
        end = extent.end();
    }
    end.checked_mul(CHUNK).ok_or_else(|| PoolError::corrupt(extents as u64 * 8, Corruption::Header))
}

/// Opens what is there, if it can hold a pool. Never waits: a pipe would until somebody else opens
/// it.
fn open_existing(path: &Path, writable: bool) -> Result<File, PoolError> {
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
        Err(e) => Err(std::fs::metadata(path)
            .ok()
            .as_ref()
            .and_then(refused)
            .unwrap_or_else(|| io_error("opening", path)(e))),
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
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(identity).ok() == std::fs::metadata(path).map(identity).ok()
}

fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.file_type().is_char_device())
}

fn lock(file: &File, path: &Path, kind: libc::c_int) -> Result<(), PoolError> {
    // SAFETY: plain system call on an open descriptor. The lock goes with the last descriptor, so a
    // killed process leaves none.
    if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock => Err(PoolError::Locked { path: path.into() }),
        _ => Err(io_error("locking", path)(error)),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PoolError {
    move |source| PoolError::Io { action, path: path.into(), source }
}

/// The identity of this boot of the machine, in three words of 48 bits; zeros where the kernel does
/// not tell.
pub(crate) fn boot_id() -> [u64; 3] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let id = u128::from_str_radix(&digits, 16).unwrap_or(0);
    std::array::from_fn(|i| (id >> (48 * i)) as u64 & ((1 << 48) - 1))
}
