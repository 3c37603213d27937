//! What the log asks of a disk: few operations, so that another disk can stand in.

use std::fs::File;
use std::io;
use std::sync::Arc;

/// What a file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Which file system: two files with the same number share their room.
    pub device: u64,
    /// Bytes that this process may still take.
    pub free_bytes: u64,
    /// All bytes of it.
    pub total_bytes: u64,
}

/// A file. Positions and lengths are in bytes.
pub trait DiskFile: Send + Sync {
    /// Its length.
    ///
    /// # Errors
    /// As the system reports.
    fn length(&self) -> io::Result<u64>;

    /// Reads all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// As the system reports; where the file is shorter as well.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` to `offset`. Durable after a [`sync`](DiskFile::sync); until then a
    /// power failure leaves each sector of 512 bytes as it was or as it was written at any time
    /// since the last sync.
    ///
    /// # Errors
    /// As the system reports; any part may have been written then.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Lengthens the file to `length` with room on the disk for all of it. What was added reads as
    /// zeros. Durable after a sync. A file that is long enough stays as it is.
    ///
    /// # Errors
    /// As the system reports: a full disk above all. The file has its old length then.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Makes content and length durable.
    ///
    /// # Errors
    /// As the system reports. What was not durable before may then be lost although a later sync
    /// succeeds.
    fn sync(&self) -> io::Result<()>;

    /// The same file to be mapped: who maps it sees what is written here. None where it can only be
    /// read.
    ///
    /// # Errors
    /// As the system reports.
    fn to_map(&self) -> io::Result<Option<File>> {
        Ok(None)
    }

    /// The room of the file system that it is on; none where that is not known. A quota or a limit
    /// of the size of files may leave less.
    fn space(&self) -> Option<Space> {
        None
    }
}

/// A folder of files.
pub trait Disk: Send + Sync {
    /// The names in it.
    ///
    /// # Errors
    /// As the system reports.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The file of this name.
    ///
    /// # Errors
    /// As the system reports; [`io::ErrorKind::NotFound`] if there is none.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// A new, empty file; one that was there is replaced. Its name is durable after a
    /// [`sync`](Disk::sync).
    ///
    /// # Errors
    /// As the system reports.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name. Durable after a [`sync`](Disk::sync).
    ///
    /// # Errors
    /// As the system reports.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Durable after a [`sync`](Disk::sync).
    ///
    /// # Errors
    /// As the system reports.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes names durable.
    ///
    /// # Errors
    /// As the system reports.
    fn sync(&self) -> io::Result<()>;

    /// As that of a [file](DiskFile::space).
    fn space(&self) -> Option<Space> {
        None
    }
}

/// Whether there is no room, for whatever reason.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | FileTooLarge | QuotaExceeded)
}

/// Bytes that one write reaches at most; larger ones are cut into pieces.
pub(crate) const PIECE: usize = 1 << 20;
/// Bytes of a block: a group begins on one, and a disk damages no other than it writes.
pub(crate) const BLOCK: u64 = 4096;

/// Up to a whole block.
pub(crate) const fn to_block(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}
