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
//! Where the file system has no files without names, the file has a hidden one till F3, and a crash
//! leaves that.
//!
//! A DAX device is its own name: a pool that is there is never overwritten, and what was cut off
//! before its magic word was written is not a pool.

use std::ffi::{CString, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use everleaf_pmem::Region;

use crate::PoolError;
use crate::file::{first_words, io_error, is_device, lock, open_existing};
use crate::layout::{CHUNK, MAGIC, MIN_POOL_BYTES};

/// Makes a pool file of `size` bytes that may grow to `max_size`: allocates all of it, locks it,
/// maps it, has `lay_out` make a pool of it, and gives it its name. It is durable when this
/// returns, as far as its medium goes; if anything fails, no file is left.
///
/// # Errors
/// [`PoolError::Exists`], [`PoolError::NoFolder`], [`PoolError::DeviceInUse`],
/// [`PoolError::NotAFile`], [`PoolError::TooSmall`], or what the system says (a full disk above
/// all); and those of `lay_out`.
pub fn create_file<T, E: From<PoolError>>(
    path: &Path,
    size: u64,
    max_size: u64,
    lay_out: impl FnOnce(Region) -> Result<T, E>,
) -> Result<T, E> {
    if size < MIN_POOL_BYTES {
        return Err(PoolError::TooSmall { bytes: size, min_bytes: MIN_POOL_BYTES }.into());
    }
    let size = size.checked_next_multiple_of(CHUNK).unwrap_or(u64::MAX / CHUNK * CHUNK);
    let region = |file| Region::create(file, size, max_size.max(size)).map_err(PoolError::Map);
    if is_device(path) {
        return lay_out(region(vacant_device(path)?)?);
    }
    let (new, file) = NewFile::make(path)?; // F1
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

/// The folder that a new file will be in, which must be there.
///
/// # Errors
/// [`PoolError::NoFolder`].
pub fn folder_of_new(path: &Path) -> Result<&Path, PoolError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    match folder.metadata() {
        // A pipe there would be waited for.
        Ok(found) if !found.is_dir() => Err(PoolError::NoFolder { path: folder.into() }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(PoolError::NoFolder { path: folder.into() })
        }
        _ => Ok(folder), // What else is wrong with it the system says when it is used.
    }
}

/// A file that has not got its name yet.
struct NewFile<'a> {
    path: &'a Path,
    folder: File,
    file: File,
    /// The name that it has till then; none where the file system can do without.
    hidden: Option<PathBuf>,
}

impl<'a> NewFile<'a> {
    /// The file is handed out as well: it stays locked as long as either is open.
    fn make(path: &'a Path) -> Result<(Self, File), PoolError> {
        let failed = |source| io_error("creating", path)(source);
        let Some(name) = path.file_name().filter(|_| !ends_in_slash(path)) else {
            return Err(PoolError::NotAFile { path: path.into(), what: "a folder" });
        };
        if path.symlink_metadata().is_ok() {
            return Err(PoolError::Exists { path: path.into() });
        }
        let folder = folder_of_new(path)?;
        let opened = File::open(folder).map_err(failed)?;
        let (file, hidden) = match unnamed_in(folder) {
            Some(file) => (file, None),
            None => {
                let mut hidden = OsString::from(".");
                hidden.push(name);
                hidden.push(format!(".{}", uuid::Uuid::new_v4().simple()));
                let hidden = folder.join(hidden);
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true);
                (options.open(&hidden).map_err(failed)?, Some(hidden))
            }
        };
        let handed_out = file.try_clone();
        let new = Self { path, folder: opened, file, hidden };
        lock(&new.file, path, libc::LOCK_EX)?;
        Ok((new, handed_out.map_err(failed)?))
    }

    /// F3 and F4.
    fn publish(mut self) -> Result<(), PoolError> {
        let named = match &self.hidden {
            None => link(&self.file, self.path),
            Some(hidden) => rename(hidden, self.path),
        };
        named.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => PoolError::Exists { path: self.path.into() },
            _ => io_error("creating", self.path)(error),
        })?;
        self.hidden = None;
        match self.folder.sync_all() {
            // Some file systems have nothing to be synced there.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                let _ = std::fs::remove_file(self.path); // What was said to have failed is gone.
                Err(io_error("syncing the folder of", self.path)(error))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = std::fs::remove_file(hidden);
        }
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
    let (from, to) = (CString::new(descriptor_path(file))?, c_path(path)?);
    let (here, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: plain system call on two strings that end in zero.
    done(unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), flags) })
}

/// Gives a file another name, unless there is one.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (c_path(from)?, c_path(to)?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: plain system call on two strings that end in zero.
    done(unsafe { libc::renameat2(here, from.as_ptr(), here, to.as_ptr(), flags) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn done(status: libc::c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
        let (path, hidden) = (folder.path().join("p.pool"), folder.path().join(".p.pool.1"));
        let new = |path| {
            let file = File::create(&hidden).unwrap();
            let folder = File::open(folder.path()).unwrap();
            NewFile { path, folder, file, hidden: Some(hidden.clone()) }
        };
        drop(new(&path));
        assert_eq!(names_in(folder.path()), 0);
        match new(&path).publish() {
            Ok(()) => assert!(path.exists() && !hidden.exists()),
            Err(error) => panic!("{error}"),
        }
        assert!(matches!(new(&path).publish(), Err(PoolError::Exists { .. })));
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
