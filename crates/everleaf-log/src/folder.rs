//! A folder of a real file system.
//!
//! Once it is open it is reached by its descriptor only, and so is the folder around a new one: a
//! path may lead to another folder by then, of another pool.
//!
//! What is in it is input, as the file of a pool is. Only files are opened, and no link is
//! followed; opening never waits, as it would for a pipe. A new file replaces what has its name,
//! and is not written into that.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everleaf_pmem::Process;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::control;
use crate::disk::{Disk, DiskFile, Space};
use crate::ownership::Ownership;
use crate::segment::{self, segment_number};

/// Times that the lock is tried, and the pause between two. A process that is being started has
/// copies of this one's descriptors until it runs its program, so a folder that was closed here may
/// be locked for a moment still.
const LOCK_TIMES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// A file in the folder of a log whose pool has no name yet. Where no process has such a folder
/// locked, nobody was ever told that anything in it is durable.
const UNFINISHED: &str = "unfinished";

/// The note of the pool that a log serves: see `served_pool`.
pub(crate) const NOTE: &str = "pool";
/// The name that it has while it is written.
pub(crate) const NEW_NOTE: &str = "pool.new";

/// Zeros that are written at a time: more are no faster, and take memory.
const ZEROS: usize = 64 << 10;

/// A folder, and the files in it. It is locked as long as it is open.
#[derive(Debug)]
pub struct Folder {
    folder: File,
    writable: bool,
    /// What new files get; none: what the system gives to those of this process.
    ownership: Option<Ownership>,
}

impl Folder {
    /// The folder at `path`, which exists; its files are opened to be written if `writable`. It is
    /// locked against others who write, and if `writable` against others who read.
    ///
    /// # Errors
    /// As the system reports; [`io::ErrorKind::WouldBlock`] if it is locked,
    /// [`io::ErrorKind::NotADirectory`] if it is something else.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        let folder = Self::locked(open_folder(path)?, writable)?;
        if writable {
            folder.unmark()?; // Its pool has a name, or it would not have been asked for.
        }
        Ok(folder)
    }

    /// The same; new files get owner, group and permission bits of the pool's file, as far as this
    /// process may give them.
    ///
    /// # Errors
    /// As the system reports.
    pub fn belonging_to(self, pool: &File) -> io::Result<Self> {
        Ok(Self { ownership: Some(Ownership::of(&pool.metadata()?)), ..self })
    }

    /// Whether it is [`UNFINISHED`], or not even that. If something in it is no log's, it is not:
    /// somebody else calls a file so.
    fn is_unfinished(&self) -> io::Result<bool> {
        let names = self.names()?;
        let is_marked = names.iter().any(|name| name == UNFINISHED);
        Ok(names.is_empty() || is_marked && names.iter().all(|name| is_of_a_log(name)))
    }

    /// It is not [`UNFINISHED`] any more, durably.
    fn unmark(&self) -> io::Result<()> {
        match self.remove(UNFINISHED) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| self.sync()),
        }
    }

    fn locked(folder: File, writable: bool) -> io::Result<Self> {
        let operation = match writable {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        match lock(&folder, operation) {
            // Some file systems lock no folder. The lock of the pool's file stands before this.
            Ok(()) | Err(Errno::BADF | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOLCK) => {
                Ok(Self { folder, writable, ownership: None })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file in it.
    fn file(&self, name: &str, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(mode)) {
            Ok(file) => {
                let file = File::from(file);
                let kind = FileType::from_raw_mode(file.metadata()?.mode());
                if kind == FileType::RegularFile { Ok(file) } else { Err(no_file(name, kind)) }
            }
            Err(error) => Err(self.refused(name, error)),
        }
    }

    /// What the system has refused: no file, in these words.
    fn refused(&self, name: &str, error: Errno) -> io::Error {
        let found = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
            Ok(kind) if kind != FileType::RegularFile => no_file(name, kind),
            _ => error.into(),
        }
    }

    /// Whether something is this folder.
    pub(crate) fn is(&self, found: &fs::Metadata) -> io::Result<bool> {
        Ok(identity(&self.folder.metadata()?) == identity(found))
    }
}

/// Whether a log makes files of this name.
fn is_of_a_log(name: &str) -> bool {
    [UNFINISHED, control::NAME, NOTE, NEW_NOTE].contains(&name)
        || segment_number(name).is_some()
        || name == segment::UNFINISHED
        || name.starts_with(segment::SPARE)
}

/// That what has this name is no file.
fn no_file(name: &str, kind: FileType) -> io::Error {
    let what = match kind {
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    let advice = "remove it, restore the pool from a backup, or salvage what can be read";
    io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is {what}, not a file; {advice}"))
}

impl Disk for Folder {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            // A name of other bytes is none of ours.
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_file = matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown);
            if self.writable && name.starts_with("segment") && !is_file {
                return Err(no_file(name, entry.file_type())); // It is in the way.
            }
            if !matches!(name, "." | "..") {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let flags = if self.writable { OFlags::RDWR } else { OFlags::RDONLY };
        Ok(Arc::new(self.file(name, flags, 0)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        match self.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Until it has those of the pool, nobody else has rights.
        let mode = if self.ownership.is_some() { 0o600 } else { 0o666 };
        let file = self.file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)?;
        self.ownership.map_or(Ok(()), |ownership| ownership.give_to(&file))?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.folder, from, &self.folder, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
        removed.map_err(|error| self.refused(name, error))
    }

    fn sync(&self) -> io::Result<()> {
        sync_names(&self.folder)
    }

    fn space(&self) -> Option<Space> {
        DiskFile::space(&self.folder)
    }
}

fn lock(folder: &File, operation: FlockOperation) -> Result<(), Errno> {
    for _ in 0..LOCK_TIMES {
        match rustix::fs::flock(folder, operation) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            done => return done,
        }
    }
    Err(Errno::WOULDBLOCK)
}

/// Makes the names in a folder durable.
fn sync_names(folder: &File) -> io::Result<()> {
    match folder.sync_all() {
        // Some file systems have nothing to be synced there.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

/// A folder that is being made, for a log whose pool has no name yet, which a file in it says.
/// Unless it is [kept](NewFolder::keep), what is in it is removed when this is dropped, and the
/// folder too if it has its name still.
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
    /// A new folder at `path`, locked. What an ended process has left there unfinished is removed.
    ///
    /// # Errors
    /// As the system reports; [`io::ErrorKind::AlreadyExists`].
    pub fn make(path: &Path) -> io::Result<Self> {
        const TIMES: u32 = 10;
        for _ in 1..TIMES {
            match Self::make_once(path) {
                // It was taken for abandoned before it was locked.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => return done,
            }
        }
        Self::make_once(path)
    }

    fn make_once(path: &Path) -> io::Result<Self> {
        Self::remove_abandoned(path);
        let (around, name) = place_of(path)?;
        rustix::fs::mkdirat(&around, name, Mode::from_raw_mode(0o777))?;
        let opened = open_in(&around, name).and_then(|folder| Folder::locked(folder, true));
        let folder = Arc::new(opened.inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&around, name, AtFlags::REMOVEDIR); // If it is empty.
        })?);
        let (made_by, name) = (Process::current(), name.into());
        let new = Self { folder, made_by, around, name, link: None, kept: false };
        new.folder.create(UNFINISHED)?;
        Ok(new)
    }

    /// Removes the folder at `path`, or where a link there leads, and the link, if it is unfinished
    /// or empty, and no process has it locked.
    pub fn remove_abandoned(path: &Path) {
        let Ok(mut found) = Self::of(path) else { return };
        let locked = lock(&found.folder.folder, FlockOperation::NonBlockingLockExclusive);
        // Only now: its pool may have got its name until then.
        let abandoned = locked.is_ok() && found.folder.is_unfinished().unwrap_or(false);
        // A link is made when there is a log: one to an empty folder is the user's.
        let is_link = found.link.is_some();
        let is_users = is_link && found.folder.names().is_ok_and(|names| names.is_empty());
        found.kept = !abandoned || is_users;
    }

    /// The same; it and what is made in it get owner, group and permission bits of the pool's file,
    /// as far as this process may give them.
    ///
    /// # Errors
    /// As the system reports.
    pub fn belonging_to(mut self, pool: &File) -> io::Result<Self> {
        let ownership = Ownership::of(&pool.metadata()?);
        ownership.give_to(&self.folder.folder)?;
        let folder = self.folder.folder.try_clone()?;
        self.folder = Arc::new(Folder { folder, writable: true, ownership: Some(ownership) });
        Ok(self)
    }

    /// Makes a symbolic link to it at `path`. Where it is, `make` was told as `place`. Beside the
    /// link, or below, it is a relative one: it leads to the copy if both are copied.
    ///
    /// # Errors
    /// As the system reports; [`io::ErrorKind::AlreadyExists`].
    pub fn link_from(&mut self, path: &Path, place: &Path) -> io::Result<()> {
        let (around, name) = place_of(path)?;
        let place = place.canonicalize()?;
        let beside = around_of(path).canonicalize()?;
        let target = place.strip_prefix(beside).unwrap_or(&place);
        rustix::fs::symlinkat(target, &around, name)?;
        self.link = Some((around, name.into()));
        Ok(())
    }

    /// The folder at `path`, or where a link there leads, unlocked.
    fn of(path: &Path) -> io::Result<Self> {
        let place = path.canonicalize()?;
        let (around, name) = place_of(&place)?;
        let link = if path.is_symlink() { Some(place_of(path)?) } else { None };
        let link = link.map(|(around, name)| (around, name.into()));
        let folder = open_in(&around, name)?;
        let folder = Arc::new(Folder { folder, writable: true, ownership: None });
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

    /// It stays: its pool has its name. Unless this succeeds the folder is removed when
    /// this is dropped.
    ///
    /// # Errors
    /// As the system reports.
    pub fn keep(&mut self) -> io::Result<()> {
        self.folder.unmark()?;
        self.kept = true;
        Ok(())
    }

    /// What says that it is unfinished goes last.
    fn remove(&self) -> io::Result<()> {
        for name in self.folder.names()?.iter().filter(|name| *name != UNFINISHED) {
            self.folder.remove(name)?;
        }
        if let Some((around, name)) = &self.link {
            // Nothing but a link: a folder that has its name by now stays.
            rustix::fs::readlinkat(around, name.as_os_str(), Vec::new())?;
            rustix::fs::unlinkat(around, name.as_os_str(), AtFlags::empty())?;
        }
        let _ = self.folder.remove(UNFINISHED); // It may be gone already.
        let (found, made) = (open_in(&self.around, &self.name)?, &self.folder.folder);
        if identity(&found.metadata()?) == identity(&made.metadata()?) {
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
    Ok((open_folder(around_of(path))?, name))
}

/// The folder that `path` is in.
fn around_of(path: &Path) -> &Path {
    let around = path.parent().filter(|around| !around.as_os_str().is_empty());
    around.unwrap_or(Path::new("."))
}

/// Opens a folder, or where a link leads; what is no folder is refused, and not waited for.
fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// What tells a file from all others that are there.
fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
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
        let zeros = vec![0; ZEROS.min(length.saturating_sub(had) as usize)];
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
        fs::write(moved.join(UNFINISHED), "").unwrap();
        NewFolder::remove_abandoned(&moved);
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
        let mut new = linked();
        new.folder().create("control").unwrap();
        new.keep().unwrap();
        drop(new);
        assert_eq!(link.canonicalize().unwrap(), place.canonicalize().unwrap());
        let again = NewFolder::make(&around.path().join("other")).unwrap().link_from(&link, &place);
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        NewFolder::remove_abandoned(&link);
        assert!(place.exists() && link.is_symlink(), "it is the log of a pool");
        fs::write(place.join(UNFINISHED), "").unwrap();
        NewFolder::remove_abandoned(&link);
        assert!(!place.exists() && !link.is_symlink());
    }

    #[test]
    fn a_folder_that_an_ended_process_has_left_unfinished_makes_room_for_a_new_one() {
        let around = tempfile::tempdir().unwrap();
        let path = around.path().join("log");
        let refused = || {
            let refused = NewFolder::make(&path).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        };
        let mut new = NewFolder::make(&path).unwrap();
        new.folder().create("control").unwrap();
        refused(); // It is being made.
        new.keep().unwrap();
        drop(new);
        refused(); // It is the log of a pool.
        fs::write(path.join(UNFINISHED), "").unwrap();
        let new = NewFolder::make(&path).unwrap();
        assert_eq!(new.folder().names().unwrap(), [UNFINISHED]);
        drop(new);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_with_something_else_in_it_is_left_alone_whatever_its_names_are() {
        let around = tempfile::tempdir().unwrap();
        let (path, link) = (around.path().join("mine"), around.path().join("a.pool.log"));
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        NewFolder::remove_abandoned(&link);
        assert!(path.exists() && link.is_symlink(), "a link to an empty folder");
        for name in [UNFINISHED, "control", "thesis"] {
            fs::write(path.join(name), "").unwrap();
        }
        for path in [&path, &link] {
            NewFolder::remove_abandoned(path);
            let refused = NewFolder::make(path).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        }
        assert!(link.is_symlink() && fs::read_dir(&path).unwrap().count() == 3);
    }

    #[test]
    fn what_is_opened_to_be_written_is_finished() {
        let around = tempfile::tempdir().unwrap();
        let mark = around.path().join(UNFINISHED);
        fs::write(&mark, "").unwrap();
        drop(Folder::open(around.path(), false).unwrap());
        assert!(mark.exists());
        drop(Folder::open(around.path(), true).unwrap());
        assert!(!mark.exists());
    }

    #[test]
    fn an_open_folder_is_reached_whatever_its_path_leads_to() {
        let around = tempfile::tempdir().unwrap();
        let (path, moved) = (around.path().join("log"), around.path().join("moved"));
        let mut new = NewFolder::make(&path).unwrap();
        let folder = new.folder();
        new.keep().unwrap();
        drop(new);
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
