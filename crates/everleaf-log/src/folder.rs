//! A folder of a real file system.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, PIECE};

/// A folder, and the files in it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Opened to be synced.
    folder: File,
    writable: bool,
}

impl Folder {
    /// The folder at `path`, which exists; its files are opened to be written if `writable`.
    ///
    /// # Errors
    /// As the system reports.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        let folder = File::open(path)?;
        Ok(Self { path: path.into(), folder, writable })
    }

    /// A new folder at `path`, its name not yet durable.
    ///
    /// # Errors
    /// As the system reports; [`io::ErrorKind::AlreadyExists`].
    pub fn create(path: &Path) -> io::Result<Self> {
        std::fs::create_dir(path)?;
        Self::open(path, true)
    }
}

impl Disk for Folder {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(self.writable).open(self.path.join(name))?;
        Ok(Arc::new(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Arc::new(options.open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        match self.folder.sync_all() {
            // Some file systems have nothing to be synced there.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }
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
}

/// An open file as the base of a log.
pub fn base_file(file: File) -> Arc<dyn DiskFile> {
    Arc::new(file)
}
