//! Pools and dumps that are there whole or not at all under their name: made under another one
//! beside it, and renamed when they are complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use everleaf_log::NewFolder;
use everleaf_pmem::Process;
use everleaf_pool::{PoolError, folder_of_new};

use crate::Error;

/// A file that is being made. Dropped before it is [finished](Unfinished::finish) it is removed; a
/// process that is killed leaves it, under a name that says what it is.
pub(crate) struct Unfinished {
    path: PathBuf,
    part: PathBuf,
    /// What was made beside it for it: the log of a pool.
    folder: Option<NewFolder>,
    /// A forked process removes nothing of its parent's.
    made_by: Process,
}

impl Unfinished {
    /// What will be at `path`, where nothing may be.
    pub fn of(path: &Path) -> Result<Self, Error> {
        if path.symlink_metadata().is_ok() {
            return Err(PoolError::Exists { path: path.into() }.into());
        }
        folder_of_new(path)?;
        Ok(Self::instead_of(path))
    }

    /// What will replace the file at `path`.
    pub fn instead_of(path: &Path) -> Self {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(thread_number());
        name.push(".unfinished");
        let part = path.with_file_name(name);
        let _ = fs::remove_file(&part); // Of a thread that had this number before.
        Self { path: path.into(), part, folder: None, made_by: Process::current() }
    }

    /// What it will be called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder goes with it: removed if it is not finished.
    pub fn owns_folder(&mut self, folder: NewFolder) {
        self.folder = Some(folder);
    }

    /// Where it is made.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Gives it its name, unless another process took it meanwhile.
    pub fn finish(mut self) -> Result<(), Error> {
        // A second link, because a renaming would replace what is there; not all file systems have
        // links.
        let named = match fs::hard_link(&self.part, &self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && is_absent(&self.path) => {
                fs::rename(&self.part, &self.path)
            }
            linked => linked,
        };
        named.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => PoolError::Exists { path: self.path.clone() },
            _ => PoolError::Io { action: "naming", path: self.path.clone(), source },
        })?;
        self.folder.take().into_iter().for_each(NewFolder::keep);
        self.sync_folder();
        Ok(())
    }

    /// Gives it its name, and takes that from what has had it.
    pub fn replace(self) -> Result<(), Error> {
        let failed = |source| PoolError::Io { action: "naming", path: self.path.clone(), source };
        fs::rename(&self.part, &self.path).map_err(failed)?;
        self.sync_folder();
        Ok(())
    }

    fn sync_folder(&self) {
        if let Some(Ok(folder)) = self.path.parent().map(File::open) {
            // What cannot be synced is not kept over a power failure anyway.
            let _ = folder.sync_all();
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.made_by.is_current() {
            let _ = fs::remove_file(&self.part); // It has its other name by now, or is of no use.
        }
    }
}

/// Whether it is certain that nothing has this name.
fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The number that the system gives this thread, which no other one has, of whatever process; the
/// first thread has that of its process. Two threads that make a file of the same name must not
/// take each other's part for their own.
fn thread_number() -> OsString {
    let link = fs::read_link("/proc/thread-self"); // PID/task/NUMBER
    let number = link.ok().and_then(|link| link.file_name().map(OsString::from));
    number.unwrap_or_else(|| std::process::id().to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_its_name_when_it_is_finished_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whole");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let unfinished = Unfinished::of(&path).unwrap();
        fs::write(unfinished.part(), b"content").unwrap();
        assert!(!path.exists() && names() == 1);
        drop(unfinished);
        assert_eq!(names(), 0);
        let unfinished = Unfinished::of(&path).unwrap();
        fs::write(unfinished.part(), b"content").unwrap();
        unfinished.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"content".to_vec(), 1));
    }

    #[test]
    fn two_threads_that_make_the_same_file_do_not_take_each_others_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wanted by two");
        let unfinished = Unfinished::of(&path).unwrap();
        fs::write(unfinished.part(), b"whole").unwrap();
        let other = std::thread::scope(|scope| {
            scope.spawn(|| Unfinished::of(&path).unwrap()).join().unwrap()
        });
        fs::write(other.part(), b"half of it").unwrap();
        unfinished.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert!(matches!(other.finish(), Err(Error::Pool(PoolError::Exists { .. }))));
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()),
            (b"whole".to_vec(), 1)
        );
    }

    #[test]
    fn what_is_replaced_is_there_until_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replaced");
        fs::write(&path, b"old").unwrap();
        let unfinished = Unfinished::instead_of(&path);
        fs::write(unfinished.part(), b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        unfinished.replace().unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()),
            (b"new".to_vec(), 1)
        );
    }

    #[test]
    fn what_has_the_name_already_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        let unfinished = Unfinished::of(&path).unwrap();
        fs::write(unfinished.part(), b"new").unwrap();
        fs::write(&path, b"old").unwrap();
        assert!(matches!(unfinished.finish(), Err(Error::Pool(PoolError::Exists { .. }))));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert!(matches!(Unfinished::of(&path), Err(Error::Pool(PoolError::Exists { .. }))));
    }
}
