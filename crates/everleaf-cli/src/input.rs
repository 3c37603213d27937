//! Files that commands read: by name, or standard input.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::failure::Failure;

/// Opens a file, or standard input for `-`; and its name for messages.
pub fn open(file: &Path) -> Result<(File, String), Failure> {
    let name = match is_standard(file) {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    };
    let refuse = |error| Failure::failed(format!("{name} cannot be read: {error}"));
    if is_standard(file) {
        // Not by way of its buffer: what waits for more must know what is there.
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(refuse)?;
        return Ok((File::from(input), name));
    }
    let opened = File::open(file).map_err(refuse)?;
    if opened.metadata().map_err(refuse)?.is_dir() {
        return Err(Failure::failed(format!("{name} is a folder; give a file")));
    }
    Ok((opened, name))
}

/// Whether the name stands for standard input.
fn is_standard(file: &Path) -> bool {
    file.as_os_str() == "-"
}
