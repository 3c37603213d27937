//! What a benchmark makes and takes away again, also when a signal ends the process.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use parking_lot::Mutex;

use crate::BenchError;

/// How often a folder is emptied while others still write into it, and the pause before the next
/// time.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// How long [`Scratch::end`] waits for files that are being made. Their names are there at once;
/// what takes longer is to give them their size.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where pools and folders are made that do not stay, and a list of those that are there now.
/// Clones share the list.
///
/// A program that wants nothing left behind when a signal ends the process gives a clone to the
/// thread that waits for the signal, and lets it call [`end`](Scratch::end).
///
/// # Examples
/// ```
/// use everleaf_bench::Scratch;
///
/// let folder = tempfile::tempdir()?;
/// let scratch = Scratch::default();
/// let made = scratch.folder_in(folder.path(), "part-")?;
/// scratch.end(|| assert!(!made.path().exists()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    named: Option<PathBuf>,
    made: Arc<Mutex<Vec<Listed>>>,
    /// Held while files are made by [`Made::fill`]. Taken before the list.
    filling: Arc<Mutex<()>>,
    /// Processes that were started. Taken before the list.
    started: Arc<Mutex<Vec<Arc<Mutex<Child>>>>>,
}

/// Something that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    path: PathBuf,
    /// A folder that goes only if nothing is in it: others may have put something there.
    only_empty: bool,
}

/// Where they are made is what tells two apart, not what is there at the moment.
impl PartialEq for Scratch {
    fn eq(&self, other: &Self) -> bool {
        self.named == other.named
    }
}

impl Scratch {
    /// At this path, which must not exist; none is /dev/shm, or the temporary folder if there is no
    /// room.
    pub fn at(named: Option<PathBuf>) -> Self {
        Self { named, ..Self::default() }
    }

    /// The path that was asked for.
    pub fn named(&self) -> Option<&Path> {
        self.named.as_deref()
    }

    /// Makes a folder whose name begins with `prefix`.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub fn folder_in(&self, folder: &Path, prefix: impl AsRef<OsStr>) -> Result<Made, BenchError> {
        let failed =
            |source| BenchError::Io { action: "making a folder in", path: folder.into(), source };
        let mut list = self.made.lock(); // There is no moment at which it is made and not listed.
        let path =
            tempfile::Builder::new().prefix(&prefix).tempdir_in(folder).map_err(failed)?.keep();
        let what = Listed { path, only_empty: false };
        list.push(what.clone());
        Ok(Made { what, scratch: self.clone(), listed: true, ours: true })
    }

    /// Makes this folder and those above it that are missing; the innermost comes first. They go
    /// with what is returned, unless it is left ([`Made::leave`]) or something else has been put
    /// into them.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub fn folders_at(&self, folder: &Path) -> Result<Vec<Made>, BenchError> {
        let failed =
            |source| BenchError::Io { action: "making the folder", path: folder.into(), source };
        let mut list = self.made.lock();
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .collect();
        fs::create_dir_all(folder).map_err(failed)?;
        let listed: Vec<Listed> =
            missing.iter().map(|path| Listed { path: (*path).into(), only_empty: true }).collect();
        list.extend(listed.iter().rev().cloned());
        drop(list);
        Ok(listed
            .into_iter()
            .map(|what| Made { what, scratch: self.clone(), listed: true, ours: true })
            .collect())
    }

    /// The file that is about to be made at `path`, with [`Made::fill`]. What is there already is
    /// not ours, and is left alone.
    pub fn file_at(&self, path: &Path) -> Made {
        let mut list = self.made.lock();
        let ours = path.symlink_metadata().is_err();
        let what = Listed { path: path.into(), only_empty: false };
        if ours {
            list.push(what.clone());
        }
        Made { what, scratch: self.clone(), listed: ours, ours }
    }

    /// Starts a process, which is killed when what is returned is dropped, and by
    /// [`end`](Self::end).
    ///
    /// # Errors
    /// Of the system.
    pub fn start(&self, command: &mut Command) -> io::Result<Started> {
        // There is no moment at which it runs and is not listed.
        let mut list = self.started.lock();
        let child = Arc::new(Mutex::new(command.spawn()?));
        list.push(Arc::clone(&child));
        Ok(Started { child, scratch: self.clone() })
    }

    /// Kills the processes, removes all that is there and then calls `end`, which should not
    /// return; nothing new is made meanwhile.
    pub fn end(&self, end: impl FnOnce()) {
        let started = self.started.lock();
        started.iter().for_each(|child| kill(&mut child.lock()));
        let _filled = self.filling.try_lock_for(PATIENCE);
        let list = self.made.lock();
        list.iter().rev().for_each(Listed::remove); // What is in a folder goes before it.
        end();
    }
}

/// A process that was started, and is killed when this is dropped, and by [`Scratch::end`].
#[derive(Debug)]
pub struct Started {
    child: Arc<Mutex<Child>>,
    scratch: Scratch,
}

impl Started {
    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.lock().id()
    }

    /// Whether it has ended by itself.
    ///
    /// # Errors
    /// Of the system.
    pub fn has_ended(&self) -> io::Result<bool> {
        Ok(self.child.lock().try_wait()?.is_some())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let mut list = self.scratch.started.lock();
        kill(&mut self.child.lock());
        list.retain(|child| !Arc::ptr_eq(child, &self.child));
    }
}

/// What has ended already is not a failure.
fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Something made that is removed when this is dropped, and by [`Scratch::end`].
#[derive(Debug)]
pub struct Made {
    what: Listed,
    scratch: Scratch,
    /// Whether it is on the list.
    listed: bool,
    /// Whether it is removed when this is dropped.
    ours: bool,
}

impl Made {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.what.path
    }

    /// Calls `make`, which makes the file or files in the folder. [`Scratch::end`] waits for it, so
    /// that no name appears after all were removed: some stores make the folder anew that they were
    /// told to make their files in.
    pub fn fill<T>(&self, make: impl FnOnce(&Path) -> T) -> T {
        let _filling = self.scratch.filling.lock();
        make(&self.what.path)
    }

    /// Takes it off the list and leaves it where it is.
    pub fn leave(mut self) {
        self.ours = false;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let mut list = self.scratch.made.lock();
        if self.ours {
            self.what.remove();
        }
        if let Some(place) = list.iter().position(|what| self.listed && *what == self.what) {
            list.remove(place);
        }
    }
}

impl Listed {
    fn remove(&self) {
        match self.only_empty {
            true => drop(fs::remove_dir(&self.path)),
            false => remove(&self.path),
        }
    }
}

/// What cannot be removed is no reason to lose a result.
fn remove(path: &Path) {
    if !path.is_dir() {
        let _ = fs::remove_file(path);
        return;
    }
    for _ in 0..ATTEMPTS {
        if fs::remove_dir_all(path).is_ok() {
            return;
        }
        sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_goes_with_its_owner_and_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let count = || fs::read_dir(folder.path()).unwrap().count();
        let scratch = Scratch::default();
        let made = scratch.folder_in(folder.path(), "a-").unwrap();
        let other = scratch.clone().folder_in(folder.path(), "b-").unwrap();
        fs::write(made.path().join("pool"), b"content").unwrap();
        drop(other);
        assert_eq!(count(), 1);
        let file = scratch.file_at(&folder.path().join("file"));
        fs::write(file.path(), b"content").unwrap();
        assert_eq!(count(), 2);
        scratch.end(|| assert_eq!(count(), 0));
        drop((made, file));
    }

    #[test]
    fn the_end_waits_for_what_is_being_made() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::default();
        let made = scratch.folder_in(folder.path(), "a-").unwrap();
        std::thread::scope(|scope| {
            let (begun, begins) = std::sync::mpsc::channel();
            let filling = &made;
            scope.spawn(move || {
                filling.fill(|path| {
                    begun.send(()).unwrap();
                    sleep(Duration::from_millis(20)); // Time for the end to come too early.
                    fs::create_dir_all(path.join("database")).unwrap();
                });
            });
            begins.recv().unwrap();
            scratch.end(|| assert!(!made.path().exists()));
        });
        assert!(!made.path().exists());
    }

    #[test]
    fn folders_for_files_that_stay_go_if_nothing_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("a"), folder.path().join("a/b"));
        let scratch = Scratch::default();
        drop(scratch.folders_at(&inner).unwrap());
        assert!(!outer.exists());
        let made = scratch.folders_at(&inner).unwrap();
        let file = scratch.file_at(&inner.join("file"));
        fs::write(file.path(), b"content").unwrap();
        scratch.end(|| assert!(!outer.exists()));
        drop((file, made));
        let made = scratch.folders_at(&inner).unwrap();
        fs::write(outer.join("of others"), b"content").unwrap();
        drop(made);
        assert!(!inner.exists() && outer.join("of others").exists());
        assert!(scratch.folders_at(&outer).unwrap().is_empty(), "it was there");
    }

    #[test]
    fn what_was_started_goes_with_its_owner_and_at_the_end() {
        let scratch = Scratch::default();
        let start = || scratch.start(Command::new("sleep").arg("600")).unwrap();
        let (first, second) = (start(), start());
        let is_there = |id: u32| Path::new(&format!("/proc/{id}")).exists();
        let (of_first, of_second) = (first.id(), second.id());
        drop(first);
        assert!(!is_there(of_first) && is_there(of_second) && !second.has_ended().unwrap());
        scratch.end(|| assert!(!is_there(of_second)));
        assert!(second.has_ended().unwrap());
    }

    #[test]
    fn what_was_there_before_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, b"content").unwrap();
        let scratch = Scratch::default();
        let file = scratch.file_at(&path);
        scratch.end(|| ());
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"content");
    }
}
