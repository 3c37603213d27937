//! Pools that a command makes for itself, and removes.

use std::path::{Path, PathBuf};

use everleaf::{CreateOptions, Store};
use tempfile::TempDir;

use crate::failure::Failure;

/// Where pools of this kind are made if there is room: memory, so that no disk is worn.
const SHARED_MEMORY: &str = "/dev/shm";

/// The file of such a pool. It is removed when this is dropped.
#[derive(Debug)]
pub struct ScratchPool {
    path: PathBuf,
    /// The folder that was made for it, unless its path was given.
    _folder: Option<TempDir>,
}

impl ScratchPool {
    /// Makes a pool at `wanted`, which must not exist, or else on /dev/shm, or else (there is no such place, or no room) in the
    /// temporary folder.
    pub fn create(wanted: Option<&Path>, options: &CreateOptions) -> Result<(Self, Store), Failure> {
        if let Some(path) = wanted {
            let store = options.create(path)?;
            return Ok((Self { path: path.to_path_buf(), _folder: None }, store));
        }
        match Self::create_in(Path::new(SHARED_MEMORY), options) {
            Ok(made) => Ok(made),
            Err(Failure::Usage(sentence)) => Err(Failure::Usage(sentence)),
            Err(_) => Self::create_in(&std::env::temp_dir(), options),
        }
    }

    fn create_in(folder: &Path, options: &CreateOptions) -> Result<(Self, Store), Failure> {
        let made = tempfile::Builder::new().prefix("everleaf-").tempdir_in(folder);
        let made = made.map_err(|error| Failure::failed(format!("no folder can be made in {}: {error}", folder.display())))?;
        let path = made.path().join("scratch.pool");
        let store = options.create(&path)?;
        Ok((Self { path, _folder: Some(made) }, store))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchPool {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        let _ = std::fs::remove_file(&self.path);
    }
}
