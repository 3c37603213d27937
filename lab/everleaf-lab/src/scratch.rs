//! Pools that a command makes for itself, and removes.

use std::path::{Path, PathBuf};

use everleaf::{CreateOptions, Store};
use everleaf_bench::{Made, Scratch};
use everleaf_cli::failure::Failure;
use everleaf_cli::signals::before_the_end;

use crate::failure::failure;

/// Where pools of this kind are made if there is room: memory, so that no disk is worn.
const SHARED_MEMORY: &str = "/dev/shm";

/// A place for pools that do not stay: `pool`, or one of its own. They are removed before a signal
/// that ends the process does so. Asked for once in a command.
pub fn swept(pool: Option<PathBuf>) -> Result<Scratch, Failure> {
    let scratch = Scratch::at(pool);
    let swept = scratch.clone();
    before_the_end(move |end| swept.end(end))?;
    Ok(scratch)
}

/// The file of such a pool. It is removed when this is dropped, with its log, if it has one, and
/// the folder that was made for it.
#[derive(Debug)]
pub struct ScratchPool {
    file: Made,
    _log: Made,
    _folder: Option<Made>,
}

impl ScratchPool {
    /// Makes a pool at the path that was asked for, which must not exist, or else on /dev/shm, or
    /// else (there is no such place, or no room) in the temporary folder.
    pub fn create(scratch: &Scratch, options: &CreateOptions) -> Result<(Self, Store), Failure> {
        if let Some(path) = scratch.named() {
            return Self::create_at(path, None, scratch, options);
        }
        match Self::create_in(Path::new(SHARED_MEMORY), scratch, options) {
            Ok(made) => Ok(made),
            Err(Failure::Usage(sentence)) => Err(Failure::Usage(sentence)),
            Err(_) => Self::create_in(&std::env::temp_dir(), scratch, options),
        }
    }

    /// Makes a pool at the path that was asked for, or else in the temporary folder.
    pub fn create_on_disk(
        scratch: &Scratch,
        options: &CreateOptions,
    ) -> Result<(Self, Store), Failure> {
        match scratch.named() {
            Some(path) => Self::create_at(path, None, scratch, options),
            None => Self::create_in(&std::env::temp_dir(), scratch, options),
        }
    }

    fn create_in(
        place: &Path,
        scratch: &Scratch,
        options: &CreateOptions,
    ) -> Result<(Self, Store), Failure> {
        let folder = scratch.folder_in(place, "everleaf-").map_err(failure)?;
        let path = folder.path().join("scratch.pool");
        Self::create_at(&path, Some(folder), scratch, options)
    }

    fn create_at(
        path: &Path,
        folder: Option<Made>,
        scratch: &Scratch,
        options: &CreateOptions,
    ) -> Result<(Self, Store), Failure> {
        let (file, log) = (scratch.file_at(path), scratch.file_at(&log_of(path)));
        match file.fill(|path| options.create(path)) {
            Ok(store) => Ok((Self { file, _log: log, _folder: folder }, store)),
            Err(error) => {
                // They may be another process's by now.
                file.leave();
                log.leave();
                Err(error.into())
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

/// The folder of a pool's log.
fn log_of(pool: &Path) -> PathBuf {
    let mut name = pool.as_os_str().to_owned();
    name.push(".log");
    name.into()
}
