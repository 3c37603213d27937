//! What happens when the file of an open pool is truncated: the pages that are gone cannot be read
//! or written any more, and the thread that touches one gets the signal SIGBUS.
//!
//! A sentence says so then, and the exit code is that of a failure. The handler of the signal wakes
//! a thread that looks which file has become shorter than its mapping, and then waits without end:
//! it must not return, as the instruction would be repeated, and the standard library's handler,
//! which runs first, has given the signal its usual effect back. So a second thread that meets the
//! signal in the same moment may still end the process without a word. Where no file has become
//! shorter the signal has another cause, and takes effect as if it were not caught.

use std::collections::HashMap;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::SIGBUS;
use signal_hook::low_level::{emulate_default_handler, exit, pipe};

use crate::failure;

/// From here on a truncated file ends the process with a sentence.
pub fn told() -> io::Result<()> {
    let (mut came, sender) = UnixStream::pair()?;
    pipe::register(SIGBUS, sender)?;
    let full = wait_in_handler()?;
    let modes = tcgetattr(io::stdin()).ok();
    let wait = move || {
        if came.read_exact(&mut [0]).is_ok() {
            end(modes);
        }
        drop(full);
    };
    std::thread::Builder::new().name("truncation".into()).spawn(wait).map(drop)
}

/// Makes the handler of the signal wait without end: it writes to a pipe that is full, and whose
/// other end, which this returns, is not read.
fn wait_in_handler() -> io::Result<PipeReader> {
    let (reader, mut writer) = io::pipe()?;
    pipe::register(SIGBUS, writer.try_clone()?)?;
    // Now a write to it does not wait.
    while writer.write(&[0; 4096]).is_ok() {}
    let flags = fcntl_getfl(&writer)?;
    fcntl_setfl(&writer, flags.difference(OFlags::NONBLOCK))?;
    Ok(reader)
}

/// Ends the process. It takes no lock of the standard streams, which the other thread may hold.
fn end(modes: Option<Termios>) {
    let Some(file) = truncated_file() else {
        let _ = emulate_default_handler(SIGBUS);
        return;
    };
    if let Some(modes) = modes {
        restore_terminal(&modes);
    }
    let sentence = format!(
        "everleaf: {} was truncated while it was open, and what it held is lost; restore it from a \
         backup\n",
        file.display()
    );
    // Nobody is left to be told if this fails.
    let _ = rustix::io::write(io::stderr(), sentence.as_bytes());
    exit(i32::from(failure::code()));
}

/// Gives the terminal the modes that it had, if it has others: a line was being edited.
fn restore_terminal(modes: &Termios) {
    const NO_BRACKETED_PASTE: &[u8] = b"\x1b[?2004l\r\n";
    let input = io::stdin();
    let edited = tcgetattr(input.as_fd()).is_ok_and(|now| now.local_modes != modes.local_modes);
    if edited {
        let _ = tcsetattr(input.as_fd(), OptionalActions::Now, modes);
        let _ = rustix::io::write(io::stdout(), NO_BRACKETED_PASTE);
    }
}

/// An open file that is shorter than what is mapped of it.
fn truncated_file() -> Option<PathBuf> {
    let mapped = mapped_bytes(&std::fs::read_to_string("/proc/self/maps").ok()?);
    let page = rustix::param::page_size() as u64;
    std::fs::read_dir("/proc/self/fd").ok()?.find_map(|descriptor| {
        let descriptor = descriptor.ok()?.path();
        let path = std::fs::read_link(&descriptor).ok()?;
        let mapped = *mapped.get(path.to_str()?)?;
        let bytes = std::fs::metadata(&descriptor).ok()?.len();
        (bytes.next_multiple_of(page) < mapped).then_some(path)
    })
}

/// How many bytes of each file are mapped, counted from its beginning, by the list of mappings.
fn mapped_bytes(mappings: &str) -> HashMap<String, u64> {
    let mut bytes = HashMap::new();
    for mapping in mappings.lines() {
        let Some((path, end)) = mapping_of_file(mapping) else { continue };
        let most = bytes.entry(path.to_owned()).or_insert(0);
        *most = end.max(*most);
    }
    bytes
}

/// The file of a mapping, and where in it the mapping ends:
/// `7f0a4c000000-7f0a4c100000 rw-s 00001000 fe:00 12 /home/ann/words.pool`.
fn mapping_of_file(mapping: &str) -> Option<(&str, u64)> {
    let path = &mapping[mapping.find('/')?..];
    let mut fields = mapping.split(' ');
    let (from, to) = fields.next()?.split_once('-')?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let offset = number(fields.nth(1)?)?;
    let bytes = number(to)?.checked_sub(number(from)?)?;
    Path::new(path).is_absolute().then_some((path, offset.checked_add(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_by_file() {
        let mappings = "\
            7f00-7f00ff ---p 00000000 00:00 0 \n\
            1000-3000 rw-s 00001000 fe:00 12                         /home/ann/a b.pool\n\
            9000-a000 r--p 00000000 fe:00 12                         /home/ann/a b.pool\n\
            b000-c000 r-xp 00000000 fe:00 13                         /bin/everleaf\n\
            d000-e000 rw-p 00000000 00:00 0                          [stack]\n";
        let mapped = mapped_bytes(mappings);
        assert_eq!(mapped.len(), 2);
        assert_eq!((mapped["/home/ann/a b.pool"], mapped["/bin/everleaf"]), (0x3000, 0x1000));
    }

    #[test]
    fn no_file_of_a_test_is_truncated() {
        assert_eq!(truncated_file(), None);
    }
}
