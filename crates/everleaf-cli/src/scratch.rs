//! The pool that the tour makes for itself, and removes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use everleaf::{CreateOptions, Store};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::signals::before_the_end;

/// Where such pools are made if there is room: memory, so that no disk is worn.
const SHARED_MEMORY: &str = "/dev/shm";
/// How long a signal waits for a pool that is being made.
const PATIENCE: Duration = Duration::from_secs(1);

/// The file of such a pool. It is removed when this is dropped, and before a signal ends the
/// process, with its log, if it has one, and the folder that was made for it.
#[derive(Debug)]
pub struct ScratchPool {
    path: PathBuf,
    made: Arc<Mutex<Vec<PathBuf>>>,
}

impl ScratchPool {
    /// Makes a pool at the path that was asked for, which must not exist, or else on /dev/shm, or
    /// else (there is no such place, or no room) in the temporary folder.
    pub fn create(
        path: Option<PathBuf>,
        options: &CreateOptions,
    ) -> Result<(Self, Store), Failure> {
        let made = Arc::new(Mutex::new(Vec::<PathBuf>::new()));
        let swept = Arc::clone(&made);
        before_the_end(move |end| {
            let made = swept.try_lock_for(PATIENCE);
            made.iter().flat_map(|made| made.iter()).for_each(|path| remove(path.as_path()));
            end();
        })?;
        if let Some(path) = path {
            return Self::create_at(path, None, made, options);
        }
        match Self::create_in(Path::new(SHARED_MEMORY), &made, options) {
            Ok(made) => Ok(made),
            Err(Failure::Usage(sentence)) => Err(Failure::Usage(sentence)),
            Err(_) => Self::create_in(&std::env::temp_dir(), &made, options),
        }
    }

    fn create_in(
        place: &Path,
        made: &Arc<Mutex<Vec<PathBuf>>>,
        options: &CreateOptions,
    ) -> Result<(Self, Store), Failure> {
        let folder = tempfile::Builder::new().prefix("everleaf-").tempdir_in(place);
        let folder = folder.map_err(|error| {
            Failure::failed(format!("no folder can be made in {}: {error}", place.display()))
        })?;
        let path = folder.path().join("scratch.pool");
        Self::create_at(path, Some(folder), Arc::clone(made), options)
    }

    fn create_at(
        path: PathBuf,
        folder: Option<TempDir>,
        made: Arc<Mutex<Vec<PathBuf>>>,
        options: &CreateOptions,
    ) -> Result<(Self, Store), Failure> {
        let mut list = made.lock(); // A signal that comes now waits until all of it is listed.
        let store = options.create(&path)?; // What another process has there is refused.
        *list = vec![path.clone(), log_of(&path)];
        list.extend(folder.map(TempDir::keep));
        drop(list);
        Ok((Self { path, made }, store))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchPool {
    fn drop(&mut self) {
        self.made.lock().drain(..).for_each(|path| remove(&path));
    }
}

/// The folder of a pool's log.
fn log_of(pool: &Path) -> PathBuf {
    let mut name = pool.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

/// What cannot be removed is left: the tour has shown what it shows.
fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}
