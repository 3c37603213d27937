//! Making pool files.
//!
//! A new pool has no name before it is whole. So a crash in between leaves nothing, or at worst a
//! hidden file, and never a file under the pool's name that is not a pool and that blocks the name.
//!
//! ```text
//! F1  a file without a name, locked, all of it allocated       Crash: the system takes it away.
//! F2  the pool is laid out in it, and synced                   Crash: as before.
//! F3  COMMIT the file gets its name, unless there is one       Crash: the name is there or not.
//! F4  the folder is synced                                     Crash: the pool is there.
//! ```
//!
//! Where the file system has no files without names, or does not name them later, the file has a
//! hidden one till F3. A crash leaves that, and the next attempt to make the pool removes it
//! (`naming`).
//!
//! A DAX device is its own name: a pool that is there is never overwritten, and what was cut off
//! before its magic word was written is not a pool.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use everleaf_pmem::Region;
use rustix::fs::{AtFlags, CWD, linkat};

use crate::PoolError;
use crate::file::{first_words, io_error, is_device, lock, open_existing};
use crate::layout::{CHUNK, MAGIC, MIN_POOL_BYTES};
use crate::naming::{
    ParentFolder, create_locked, folder_of_new, hidden_name, is_unsupported, named,
    remove_abandoned, rename_new,
};

/// Makes a pool file of `size` bytes that may grow to `max_size`: allocates all of it, locks it,
/// maps it, has `lay_out` make a pool of it, and gives it its name. It is durable when this
/// returns, as far as its medium goes; if anything fails, no file is left. What `lay_out` makes is
/// dropped, and `lay_out` called once more, where the file system does not name such a file.
///
/// # Errors
/// [`PoolError::Exists`], [`PoolError::NoFolder`], [`PoolError::DeviceInUse`],
/// [`PoolError::NotAFile`], [`PoolError::TooSmall`], or what the system says (a full disk above
/// all); and those of `lay_out`.
pub fn create_file<T, E: From<PoolError>>(
    path: &Path,
    size: u64,
    max_size: u64,
    mut lay_out: impl FnMut(Region) -> Result<T, E>,
) -> Result<T, E> {
    if size < MIN_POOL_BYTES {
        return Err(PoolError::TooSmall { bytes: size, min_bytes: MIN_POOL_BYTES }.into());
    }
    let size = size.checked_next_multiple_of(CHUNK).unwrap_or(u64::MAX / CHUNK * CHUNK);
    let region = |file| Region::create(file, size, max_size.max(size)).map_err(PoolError::Map);
    if is_device(path) {
        return lay_out(region(vacant_device(path)?)?);
    }
    check_new_path(path)?;
    remove_abandoned(path);
    if let Some((mut new, file)) = NewFile::unnamed(path)? {
        let made = lay_out(region(file)?)?;
        if new.publish()? {
            return Ok(made);
        }
    }
    let (mut new, file) = NewFile::hidden(path)?; // F1
    let made = lay_out(region(file)?)?; // F2
    new.publish()?;
    Ok(made)
}

/// A DAX device without a pool, locked.
fn vacant_device(path: &Path) -> Result<File, PoolError> {
    let device = open_existing(path, true)?;
    lock(&device, path, libc::LOCK_EX)?;
    if first_words(&device, path)?.first() == Some(&MAGIC) {
        return Err(PoolError::DeviceInUse { path: path.into() });
    }
    Ok(device)
}

/// A file that has not got its name yet.
struct NewFile<'a> {
    path: &'a Path,
    parent: ParentFolder,
    file: File,
    /// The name that it has till then; none where the file system can do without.
    hidden: Option<PathBuf>,
}

impl<'a> NewFile<'a> {
    /// A file without a name, where the file system has such files and can name them later. The
    /// file is handed out as well: it stays locked as long as either is open.
    fn unnamed(path: &'a Path) -> Result<Option<(Self, File)>, PoolError> {
        let parent = ParentFolder::of(path)?;
        let Some(file) = unnamed_in(folder_of_new(path)?) else { return Ok(None) };
        Self::locked(Self { path, parent, file, hidden: None }).map(Some)
    }

    /// The same with a hidden name.
    fn hidden(path: &'a Path) -> Result<(Self, File), PoolError> {
        let parent = ParentFolder::of(path)?;
        let hidden = hidden_name(folder_of_new(path)?, path.file_name().unwrap_or_default());
        let file = create_locked(&hidden)?;
        Self::locked(Self { path, parent, file, hidden: Some(hidden) })
    }

    fn locked(self) -> Result<(Self, File), PoolError> {
        lock(&self.file, self.path, libc::LOCK_EX)?;
        let handed_out = self.file.try_clone().map_err(io_error("creating", self.path))?;
        Ok((self, handed_out))
    }

    /// F3 and F4. False if the file system does not name such files after all.
    fn publish(&mut self) -> Result<bool, PoolError> {
        match &self.hidden {
            None => match link(&self.file, self.path) {
                Err(error) if is_unsupported(&error) => return Ok(false),
                linked => linked.map_err(named(self.path))?,
            },
            Some(hidden) => rename_new(hidden, self.path)?,
        }
        self.hidden = None;
        let synced = self.parent.sync();
        if synced.is_err() {
            let _ = std::fs::remove_file(self.path); // What was said to have failed is gone.
        }
        synced.map(|()| true)
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = std::fs::remove_file(hidden);
        }
    }
}

/// Refuses what cannot be the place of a new file.
///
/// # Errors
/// [`PoolError::NotAFile`], [`PoolError::Exists`], [`PoolError::NoFolder`].
pub fn check_new_path(path: &Path) -> Result<(), PoolError> {
    if path.file_name().is_none() || ends_in_slash(path) {
        return Err(PoolError::NotAFile { path: path.into(), what: "a folder" });
    }
    match path.symlink_metadata() {
        Ok(_) => Err(PoolError::Exists { path: path.into() }),
        Err(_) => folder_of_new(path).map(drop),
    }
}

/// A new file without a name, where the file system has such files and can name them later.
fn unnamed_in(folder: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder).ok()?;
    Path::new(&descriptor_path(&file)).exists().then_some(file)
}

/// The way to an open file that has no name.
fn descriptor_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives an open file a name, unless there is one.
fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(linkat(CWD, descriptor_path(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    fn refused(path: &Path) -> PoolError {
        create_file(path, 64 << 10, 64 << 10, |_| Ok::<_, PoolError>(())).unwrap_err()
    }

    #[test]
    fn a_pool_has_no_name_before_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.pool");
        let cut = create_file(&path, 64 << 10, 64 << 10, |region| {
            assert_eq!(region.len(), 64 << 10);
            assert!(!path.exists());
            Err::<(), _>(PoolError::TooSmall { bytes: 0, min_bytes: 0 })
        });
        assert!(cut.is_err());
        assert_eq!(names_in(folder.path()), 0, "nothing is left");
        create_file(&path, 64 << 10, 64 << 10, |_| Ok::<_, PoolError>(())).unwrap();
        assert_eq!((names_in(folder.path()), path.metadata().unwrap().len()), (1, 64 << 10));
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.pool");
        let late = create_file(&path, 64 << 10, 64 << 10, |_| {
            std::fs::write(&path, b"of another process").unwrap();
            Ok::<_, PoolError>(())
        });
        assert!(matches!(late, Err(PoolError::Exists { .. })), "{late:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"of another process");
        assert_eq!(names_in(folder.path()), 1);
    }

    #[test]
    fn without_unnamed_files_a_hidden_name_serves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.pool");
        drop(NewFile::hidden(&path).unwrap());
        assert_eq!(names_in(folder.path()), 0);
        let (mut new, _file) = NewFile::hidden(&path).unwrap();
        remove_abandoned(&path);
        assert!(!path.exists() && names_in(folder.path()) == 1, "it is being made");
        assert!(new.publish().unwrap() && path.exists() && names_in(folder.path()) == 1);
        let (mut late, _file) = NewFile::hidden(&path).unwrap();
        assert!(matches!(late.publish(), Err(PoolError::Exists { .. })));
        drop(late);
        assert_eq!(names_in(folder.path()), 1);
    }

    #[test]
    fn what_cannot_be_a_new_file_is_refused_before_anything_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.pool");
        assert!(matches!(refused(folder.path()), PoolError::Exists { .. }));
        assert!(matches!(refused(&folder.path().join("new/")), PoolError::NotAFile { .. }));
        assert!(matches!(refused(&folder.path().join("none/p.pool")), PoolError::NoFolder { .. }));
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(matches!(refused(&path), PoolError::Exists { .. }));
        assert_eq!(names_in(folder.path()), 1);
        let path = folder.path().join("huge.pool");
        let huge = create_file(&path, u64::MAX, u64::MAX, |_| Ok::<_, PoolError>(()));
        assert!(huge.is_err() && !path.exists());
    }
}
