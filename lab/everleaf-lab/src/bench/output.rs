//! Files that a benchmark writes when it is done.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use everleaf_bench::{Made, Scratch};

use everleaf_cli::failure::{Failure, Outcome};

/// A file that is opened before the work, so that it is known that it can be written, and filled
/// after it. If the work fails, or a signal ends it, a file that was there is as it was, and one
/// that was not is gone again.
pub struct Output {
    file: File,
    made: Made,
}

impl Output {
    /// Opens it. What is in it stays until it is written.
    pub fn open(scratch: &Scratch, path: &Path) -> Result<Self, Failure> {
        let made = scratch.file_at(path);
        match made.fill(|path| File::options().create(true).append(true).open(path)) {
            Ok(file) => Ok(Self { file, made }),
            Err(error) => {
                made.leave(); // It may be another process's by now.
                Err(unwritable(path, &error))
            }
        }
    }

    /// Puts these bytes in place of what is in it. It stays.
    pub fn write(mut self, bytes: &[u8]) -> Outcome {
        let written = self.replace(bytes);
        written.map_err(|error| unwritable(self.made.path(), &error))?;
        self.made.leave();
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?; // Not of a device or a pipe.
        }
        self.file.write_all(bytes)
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", path.display()))
}
