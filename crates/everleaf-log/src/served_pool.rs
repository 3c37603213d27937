//! Which pool a log serves, as the file `pool` in its folder says.
//!
//! A folder that is copied may have a link in it that leads to the log of the original. Then two
//! pool files of one identity have one log, and what one of them writes the other one loses. So a
//! log notes the path of the pool's file, and its inode, and an opening refuses a pool if
//!
//! * the file that stands at the noted path is another one than the pool's,
//! * the name of a log beside that file leads to the folder that was opened, and
//! * that file has the same identity; or it cannot be read and has the noted inode.
//!
//! All of this is looked at when a pool is opened. The note is only where to look: one that is
//! missing (logs of 0.2.0 have none), damaged or out of date refuses nothing, because no other pool
//! stands there whose log this is. Then the pool is what the log serves from now on, and noted. The
//! number of a device may change when the system starts, and is not noted; files are compared by
//! device and inode as they are now. Nor is the folder noted: a copy of it is not where the name
//! beside the noted file leads.
//!
//! Where both files are others than the one that was noted, as after a restoration, the one at the
//! noted path counts; where this pool's has the noted inode and the other has not, this one does.
//!
//! ```text
//! W1  a file with the new note, synced      Crash: the note that was; the next one replaces it.
//! W2  it gets its name; the folder is synced      Crash: this note or the one that was.
//! ```
//!
//! A pool is noted when its log is made, and when an opening to write has succeeded and the note
//! says something else. A crash between the two leaves a note of the pool before: where that one
//! still stands and leads here, the opening was refused.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, is_full};
use crate::folder::{Folder, NEW_NOTE, NOTE};

/// No note is longer: a path has fewer bytes than half of this.
const LIMIT: u64 = 16 << 10;

/// The file of a pool, as a log notes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedPool {
    path: PathBuf,
    inode: u64,
    device: u64,
}

impl ServedPool {
    /// The file of a pool, which is or will be at `path`: an absolute one, without links.
    ///
    /// # Errors
    /// As the system reports.
    pub fn new(path: &Path, file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { path: path.into(), inode: metadata.ino(), device: metadata.dev() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn encode(&self) -> Vec<u8> {
        let mut note = format!("inode {}\npool ", self.inode).into_bytes();
        note.extend(self.path.as_os_str().as_bytes());
        note.push(b'\n');
        note
    }

    /// Path and inode in a note; none if it is not valid.
    fn decode(note: &[u8]) -> Option<(&Path, u64)> {
        let rest = note.strip_prefix(b"inode ")?.strip_suffix(b"\n")?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let inode = str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        let path = Path::new(OsStr::from_bytes(rest[end..].strip_prefix(b"\npool ")?));
        path.is_absolute().then_some((path, inode))
    }

    fn is(&self, file: &Metadata) -> bool {
        (self.device, self.inode) == (file.dev(), file.ino())
    }
}

impl Folder {
    /// The other pool file that this log serves, if there is one: that of which `pool` is a copy.
    /// `log_of` is the name of a log beside a file; `is_same` tells whether a file has the identity
    /// of `pool`, if it can be read.
    ///
    /// # Errors
    /// As the system reports.
    pub fn serves_another(
        &self,
        pool: &ServedPool,
        log_of: impl FnOnce(&Path) -> PathBuf,
        is_same: impl FnOnce(&Path) -> Option<bool>,
    ) -> io::Result<Option<PathBuf>> {
        let Some(note) = self.note() else { return Ok(None) };
        let Some((path, inode)) = ServedPool::decode(&note) else { return Ok(None) };
        // What cannot be looked at is not there for this process.
        let Ok(other) = fs::metadata(path) else { return Ok(None) };
        let Ok(leads_to) = fs::metadata(log_of(path)) else { return Ok(None) };
        let is_noted = other.ino() == inode;
        let shares = !pool.is(&other)
            && self.is(&leads_to)?
            && (is_noted || pool.inode != inode)
            && is_same(path).unwrap_or(is_noted);
        Ok(shares.then(|| path.into()))
    }

    /// Notes the pool that this log serves, durably, unless the note says so already.
    ///
    /// # Errors
    /// As the system reports. That the folder takes no file, for want of room or of the right, is
    /// none: a note that is missing or out of date refuses nothing.
    pub fn note_pool(&self, pool: &ServedPool) -> io::Result<()> {
        use io::ErrorKind::PermissionDenied;
        let note = pool.encode();
        if self.note().is_some_and(|found| found == note) {
            return Ok(());
        }
        let write = || -> io::Result<()> {
            let file = self.create(NEW_NOTE)?;
            file.write(0, &note)?;
            file.sync()?; // W1
            self.rename(NEW_NOTE, NOTE)?;
            Disk::sync(self) // W2
        };
        match write() {
            Err(error) if is_full(&error) || error.kind() == PermissionDenied => Ok(()),
            written => written,
        }
    }

    /// The note; none if there is none, or it cannot be read.
    fn note(&self) -> Option<Vec<u8>> {
        let file = self.open(NOTE).ok()?;
        let bytes = file.length().ok().filter(|bytes| *bytes <= LIMIT)?;
        let mut note = vec![0; bytes as usize];
        file.read(0, &mut note).is_ok().then_some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_round_trips_and_nothing_else_is_one() {
        for path in ["/a", "/with\nline/ends\n", "/pool /inode 7\npool /"] {
            let pool = ServedPool { path: path.into(), inode: 7, device: 1 };
            let note = pool.encode();
            assert_eq!(ServedPool::decode(&note), Some((Path::new(path), 7)));
            assert!((0..note.len()).all(|cut| {
                ServedPool::decode(&note[..cut])
                    .is_none_or(|(found, _)| path.starts_with(found.to_str().unwrap()))
            }));
        }
        for text in ["", "\n", "inode 1\n", "inode x\npool /a\n", "inode 1\npool a\n", "pool /a\n"]
        {
            assert_eq!(ServedPool::decode(text.as_bytes()), None, "{text}");
        }
    }
}
