//! Small files that a server is started with: passwords, names, keys.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// No such file is longer.
const MAX_BYTES: u64 = 1 << 20;

/// All of a file. A pipe that nobody has open to write, which another program would wait for, is
/// empty; one with a writer is read to its end.
///
/// # Errors
/// As the system reports; [`io::ErrorKind::FileTooLarge`] beyond a MiB.
pub fn read_setting_file(path: &Path) -> io::Result<Vec<u8>> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file: File = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?; // Only opening must not wait.
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 1 MiB"));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn pipes_without_a_writer_and_endless_files_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read_setting_file(&path).unwrap(), b"");
        let endless = read_setting_file(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
        assert!(read_setting_file(folder.path()).is_err());
        // What a shell makes of `<(program)`.
        let (read, mut write) = io::pipe().unwrap();
        let named = format!("/dev/fd/{}", read.as_raw_fd());
        let writer = std::thread::spawn(move || write.write_all(b"secret"));
        assert_eq!(read_setting_file(Path::new(&named)).unwrap(), b"secret");
        writer.join().unwrap().unwrap();
    }
}
