//! Pools and dumps that are there whole or not at all under their name: made under another one
//! beside it, and renamed when they are complete.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use everleaf_log::NewFolder;
use everleaf_pmem::Process;
use everleaf_pool::{
    ParentFolder, check_new_path, create_locked, remove_abandoned, rename_new, unfinished_name,
};

use crate::Error;
use crate::logged::keep_log;

/// A file that is being made. Dropped before it is [finished](Unfinished::finish) it is removed; a
/// process that is killed leaves it, under a name that says what it is, and the next one that makes
/// the same file removes it.
pub(crate) struct Unfinished {
    path: PathBuf,
    part: PathBuf,
    parent: ParentFolder,
    /// The file, open and so locked till it has its name.
    lock: Option<File>,
    /// What was made beside it for it: the log of a pool.
    folder: Option<NewFolder>,
    /// A forked process removes nothing of its parent's.
    made_by: Process,
}

impl Unfinished {
    /// What will be at `path`, where nothing may be.
    pub fn of(path: &Path) -> Result<Self, Error> {
        check_new_path(path)?;
        let (parent, part) = (ParentFolder::of(path)?, unfinished_name(path, &thread_number()));
        remove_abandoned(path);
        let made_by = Process::current();
        Ok(Self { path: path.into(), part, parent, lock: None, folder: None, made_by })
    }

    /// What it will be called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file that was made as its [part](Unfinished::part), locked as long as it is open, and a
    /// folder that goes with it: removed if it is not finished.
    pub fn owns(&mut self, file: File, folder: Option<NewFolder>) {
        (self.lock, self.folder) = (Some(file), folder);
    }

    /// Makes it as an ordinary file.
    pub fn create(&mut self) -> Result<&File, Error> {
        Ok(self.lock.insert(create_locked(&self.part)?))
    }

    /// Where it is made.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Gives it its name, unless another process took it meanwhile. Durable when this returns;
    /// neither the file nor the folder is left if it fails.
    pub fn finish(mut self) -> Result<(), Error> {
        rename_new(&self.part, &self.path)?;
        let _locked = self.lock.take();
        self.parent.sync().inspect_err(|_| {
            let _ = fs::remove_file(&self.path); // What was said to have failed is gone.
        })?;
        keep_log(self.folder.take(), &self.path)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.made_by.is_current() && self.lock.is_some() {
            let _ = fs::remove_file(&self.part); // It is of no use.
        }
    }
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
    use std::io::Write;

    use everleaf_pool::PoolError;

    use super::*;

    fn made(path: &Path, content: &[u8]) -> Unfinished {
        let mut unfinished = Unfinished::of(path).unwrap();
        unfinished.create().unwrap().write_all(content).unwrap();
        unfinished
    }

    #[test]
    fn it_has_its_name_when_it_is_finished_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whole");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let unfinished = made(&path, b"content");
        assert!(!path.exists() && names() == 1);
        drop(unfinished);
        assert_eq!(names(), 0);
        let unfinished = made(&path, b"content");
        unfinished.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), names()), (b"content".to_vec(), 1));
    }

    #[test]
    fn two_threads_that_make_the_same_file_do_not_take_each_others_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wanted by two");
        let unfinished = made(&path, b"whole");
        let other =
            std::thread::scope(|scope| scope.spawn(|| made(&path, b"half of it")).join().unwrap());
        unfinished.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert!(matches!(other.finish(), Err(Error::Pool(PoolError::Exists { .. }))));
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()),
            (b"whole".to_vec(), 1)
        );
    }

    #[test]
    fn what_has_the_name_already_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        let unfinished = made(&path, b"new");
        fs::write(&path, b"old").unwrap();
        assert!(matches!(unfinished.finish(), Err(Error::Pool(PoolError::Exists { .. }))));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert!(matches!(Unfinished::of(&path), Err(Error::Pool(PoolError::Exists { .. }))));
    }
}
