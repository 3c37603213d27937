//! A folder of a real file system.
//!
//! Once it is open it is reached by its descriptor only, and so is the folder around a new one: a
//! path may lead to another folder by then, of another pool.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everleaf_pmem::Process;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::disk::{Disk, DiskFile, PIECE, Space};

/// Times that the lock is tried, and the pause between two. A process that is being started has
/// copies of this one's descriptors until it runs its program, so a folder that was closed here may
/// be locked for a moment still.
const LOCK_TIMES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// A folder, and the files in it. It is locked as long as it is open.
#[derive(Debug)]
pub struct Folder {
    folder: File,
    writable: bool,
}

impl Folder {
    /// The folder at `path`, which exists; its files are opened to be written if `writable`. It is
    /// locked against others who write, and if `writable` against others who read.
    ///
    /// # Errors
    /// As the system reports; [`io::ErrorKind::WouldBlock`] if it is locked.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        Self::locked(File::open(path)?, writable)
    }

    fn locked(folder: File, writable: bool) -> io::Result<Self> {
        let operation = match writable {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        for _ in 0..LOCK_TIMES {
            match rustix::fs::flock(&folder, operation) {
                // Some file systems lock no folder. The lock of the pool's file stands before this.
                Ok(()) | Err(Errno::BADF | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOLCK) => {
                    return Ok(Self { folder, writable });
                }
                Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::WOULDBLOCK.into())
    }

    /// Opens a file in it.
    fn file(&self, name: &str, flags: OFlags) -> io::Result<Arc<dyn DiskFile>> {
        let mode = Mode::from_raw_mode(0o666); // Less the mask of the process.
        let file = rustix::fs::openat(&self.folder, name, flags | OFlags::CLOEXEC, mode)?;
        Ok(Arc::new(File::from(file)))
    }
}

impl Disk for Folder {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_str().ok().filter(|name| !matches!(*name, "." | ".."));
            names.extend(name.map(str::to_owned));
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(name, if self.writable { OFlags::RDWR } else { OFlags::RDONLY })
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(name, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.folder, from, &self.folder, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        sync_names(&self.folder)
    }

    fn space(&self) -> Option<Space> {
        DiskFile::space(&self.folder)
    }
}

/// Makes the names in a folder durable.
fn sync_names(folder: &File) -> io::Result<()> {
    match folder.sync_all() {
        // Some file systems have nothing to be synced there.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

/// A folder that is being made. Unless it is [kept](NewFolder::keep), what is in it is removed when
/// this is dropped, and the folder too if it has its name still.
#[derive(Debug)]
pub struct NewFolder {
    folder: Arc<Folder>,
    /// A forked process removes nothing of its parent's.
    made_by: Process,
    around: File,
    name: OsString,
    /// A link to it: the folder that the link is in, and its name.
    link: Option<(File, OsString)>,
    kept: bool,
}

impl NewFolder {
    /// A new folder at `path`, locked.
    ///
    /// # Errors
    /// As the system reports; [`io::ErrorKind::AlreadyExists`].
    pub fn make(path: &Path) -> io::Result<Self> {
        let (around, name) = place_of(path)?;
        rustix::fs::mkdirat(&around, name, Mode::from_raw_mode(0o777))?;
        let folder = Arc::new(Folder::locked(open_in(&around, name)?, true)?);
        let (made_by, name) = (Process::current(), name.into());
        Ok(Self { folder, made_by, around, name, link: None, kept: false })
    }

    /// Makes a symbolic link to it at `path`. Where it is, `make` was told as `place`.
    ///
    /// # Errors
    /// As the system reports; [`io::ErrorKind::AlreadyExists`].
    pub fn link_from(&mut self, path: &Path, place: &Path) -> io::Result<()> {
        let (around, name) = place_of(path)?;
        rustix::fs::symlinkat(&place.canonicalize()?, &around, name)?;
        self.link = Some((around, name.into()));
        Ok(())
    }

    /// The folder at `path`, or where a link there leads, which was made for what is still being
    /// made. It stays unlocked.
    ///
    /// # Errors
    /// As the system reports.
    pub fn of(path: &Path) -> io::Result<Self> {
        let place = path.canonicalize()?;
        let (around, name) = place_of(&place)?;
        let link = if path.is_symlink() { Some(place_of(path)?) } else { None };
        let link = link.map(|(around, name)| (around, name.into()));
        let folder = Arc::new(Folder { folder: open_in(&around, name)?, writable: true });
        let (made_by, name) = (Process::current(), name.into());
        Ok(Self { folder, made_by, around, name, link, kept: false })
    }

    /// The folder.
    pub fn folder(&self) -> Arc<Folder> {
        Arc::clone(&self.folder)
    }

    /// Makes its name durable, and the link to it.
    ///
    /// # Errors
    /// As the system reports.
    pub fn sync_name(&self) -> io::Result<()> {
        sync_names(&self.around)?;
        self.link.as_ref().map_or(Ok(()), |(around, _)| sync_names(around))
    }

    /// It stays.
    pub fn keep(mut self) {
        self.kept = true;
    }

    fn remove(&self) -> io::Result<()> {
        for name in self.folder.names()? {
            self.folder.remove(&name)?;
        }
        let (found, made) = (open_in(&self.around, &self.name)?, &self.folder.folder);
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        if let Some((around, name)) = &self.link {
            // Nothing but a link: a folder that has its name by now stays.
            rustix::fs::readlinkat(around, name.as_os_str(), Vec::new())?;
            rustix::fs::unlinkat(around, name.as_os_str(), AtFlags::empty())?;
        }
        if identity(found.metadata()?) == identity(made.metadata()?) {
            rustix::fs::unlinkat(&self.around, &self.name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.kept && self.made_by.is_current() {
            let _ = self.remove(); // What is left is named by whoever wants its place.
        }
    }
}

/// The folder around `path`, and the name that `path` has in it.
fn place_of(path: &Path) -> io::Result<(File, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let around = path.parent().filter(|around| !around.as_os_str().is_empty());
    Ok((File::open(around.unwrap_or(Path::new(".")))?, name))
}

/// Opens a folder in a folder; a link is none.
fn open_in(around: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(around, name.as_bytes(), flags, Mode::empty())?.into())
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    /// Writes zeros: an extent that was allocated and never written costs twice the time of a sync
    /// when it is written the first time.
    fn allocate(&self, length: u64) -> io::Result<()> {
        let had = self.metadata()?.len();
        let zeros = vec![0; PIECE.min(length.saturating_sub(had) as usize)];
        let mut end = had;
        while end < length {
            let piece = zeros.len().min((length - end) as usize);
            if let Err(error) = self.write_all_at(&zeros[..piece], end) {
                let _ = self.set_len(had); // What was said to have failed is gone.
                return Err(error);
            }
            end += piece as u64;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    /// The lock of the file is this one's too.
    fn to_map(&self) -> io::Result<Option<File>> {
        self.try_clone().map(Some)
    }

    fn space(&self) -> Option<Space> {
        let (found, device) = (rustix::fs::fstatvfs(self).ok()?, self.metadata().ok()?.dev());
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        // Some file systems do not count.
        (found.f_blocks > 0).then_some(Space {
            device,
            free_bytes: bytes(found.f_bavail),
            total_bytes: bytes(found.f_blocks),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_that_lost_its_name_takes_no_other_folder_with_it() {
        let around = tempfile::tempdir().unwrap();
        let (path, moved) = (around.path().join("log"), around.path().join("moved"));
        let new = NewFolder::make(&path).unwrap();
        new.folder().create("control").unwrap();
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        drop(new);
        assert!(path.exists() && fs::read_dir(&moved).unwrap().next().is_none());
        drop(NewFolder::of(&moved).unwrap());
        assert!(path.exists() && !moved.exists());
    }

    #[test]
    fn a_new_folder_and_the_link_to_it_go_together() {
        let around = tempfile::tempdir().unwrap();
        let (place, link) = (around.path().join("place"), around.path().join("a.pool.log"));
        let linked = || {
            let mut new = NewFolder::make(&place).unwrap();
            new.link_from(&link, &place).unwrap();
            new.sync_name().unwrap();
            new
        };
        drop(linked());
        assert!(!place.exists() && !link.is_symlink());
        linked().keep();
        assert_eq!(link.canonicalize().unwrap(), place.canonicalize().unwrap());
        let again = NewFolder::make(&around.path().join("other")).unwrap().link_from(&link, &place);
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(NewFolder::of(&link).unwrap());
        assert!(!place.exists() && !link.is_symlink());
    }

    #[test]
    fn an_open_folder_is_reached_whatever_its_path_leads_to() {
        let around = tempfile::tempdir().unwrap();
        let (path, moved) = (around.path().join("log"), around.path().join("moved"));
        let new = NewFolder::make(&path).unwrap();
        let folder = new.folder();
        new.keep();
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        folder.create("one").unwrap().write(0, b"content").unwrap();
        folder.rename("one", "two").unwrap();
        assert_eq!(folder.names().unwrap(), ["two"]);
        assert_eq!(folder.open("two").unwrap().length().unwrap(), 7);
        assert!(Folder::open(&moved, false).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock));
        folder.remove("two").unwrap();
        folder.sync().unwrap();
        assert!(folder.open("two").is_err_and(|e| e.kind() == io::ErrorKind::NotFound));
        assert!(fs::read_dir(&path).unwrap().next().is_none());
        drop(folder);
        assert!(Folder::open(&moved, true).unwrap().names().unwrap().is_empty());
    }
}
