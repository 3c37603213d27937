//! Signals that do not kill at once.
//!
//! What a command makes for itself may go at any moment: a thread that waits for the signal removes
//! it ([`before_the_end`]). What becomes a file of the user's is made by the library, which removes
//! it when its work is aborted: so the signal aborts the work ([`Ending`]). Either way the process
//! then dies by the signal, so that the process that waits for it sees why.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::Error;
use everleaf::internal::Watch;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, pipe};

use crate::failure::{Failure, Outcome};
use crate::progress::{entries_bar, show_entries};
use crate::truncation;

/// Catches the signals of files that have become too long or too short, which would kill without a
/// word.
pub fn prepare() -> Outcome {
    survive_file_size_limit().and_then(|()| truncation::told()).map_err(unusable)
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail with an error, which is told
/// as a full disk is, instead of killing the process. The signal is caught and not ignored:
/// programs that this one starts find it as it was.
fn survive_file_size_limit() -> io::Result<()> {
    let caught = Arc::new(AtomicBool::new(false)); // Never asked: the write itself reports it.
    signal_hook::flag::register(SIGXFSZ, caught).map(drop)
}

/// Calls `sweep` when a signal ends the process; it removes what does not stay, and then calls what
/// it is given, which lets the signal take effect. Asked for once in a command.
pub fn before_the_end(
    sweep: impl FnOnce(&mut dyn FnMut()) + Send + 'static,
) -> Result<(), Failure> {
    let mut signals = Signals::new(ending_signals()).map_err(unusable)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            sweep(&mut || drop(emulate_default_handler(signal)));
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop).map_err(unusable)
}

/// Signals that end long work, and the process when that has removed what it was making. A second
/// one of a kind ends the process at once.
pub struct Ending {
    came: Vec<(i32, Arc<AtomicBool>)>,
    /// Can be read from when one has come.
    wakes: UnixStream,
}

impl Ending {
    /// From here on they are waited for, as long as the process lives.
    pub fn awaited() -> Result<&'static Self, Failure> {
        Self::registered().map(|ending| &*Box::leak(Box::new(ending))).map_err(unusable)
    }

    fn registered() -> io::Result<Self> {
        let (wakes, sender) = UnixStream::pair()?;
        let mut came = Vec::new();
        for signal in ending_signals() {
            let flag = Arc::new(AtomicBool::new(false));
            // First: the first signal finds the flag clear.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
            pipe::register(signal, sender.try_clone()?)?;
            came.push((signal, flag));
        }
        Ok(Self { came, wakes })
    }

    /// Does the work, with a bar, and returns what came of it. A signal aborts the work at its next
    /// step; the process dies by it when the work has returned. What was complete by then stays.
    pub fn during<T>(
        &self,
        work: impl FnOnce(&mut Watch<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let bar = entries_bar();
        let done = work(&mut |progress| {
            show_entries(&bar, progress);
            if self.signal().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        if done.is_err() {
            self.take_effect();
        }
        done
    }

    /// Ends the process by the signal, if one has come.
    pub fn take_effect(&self) {
        if let Some(signal) = self.signal() {
            drop(emulate_default_handler(signal));
        }
    }

    /// The same input, whose reading fails once a signal has come: it may be waited for without
    /// end. Not to be put above a buffer, which this knows nothing of.
    pub fn input<R: Read + AsFd>(&'static self, input: R) -> impl Read + use<R> {
        UnlessEnded { input, ending: self }
    }

    /// The signal that has come.
    pub fn signal(&self) -> Option<i32> {
        self.came.iter().find(|(_, came)| came.load(Ordering::Relaxed)).map(|(signal, _)| *signal)
    }
}

/// See [`Ending::input`].
struct UnlessEnded<R> {
    input: R,
    ending: &'static Ending,
}

impl<R: Read + AsFd> Read for UnlessEnded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut either = [
                PollFd::new(&self.input, PollFlags::IN),
                PollFd::new(&self.ending.wakes, PollFlags::IN),
            ];
            let ready = poll(&mut either, None);
            if self.ending.signal().is_some() {
                return Err(io::Error::other("a signal came"));
            }
            match ready {
                Ok(_) => return self.input.read(buffer),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Those that end a process, but for those that it was started to ignore.
fn ending_signals() -> impl Iterator<Item = i32> {
    let ignored = ignored_signals();
    [SIGHUP, SIGINT, SIGTERM].into_iter().filter(move |signal| ignored & 1 << (signal - 1) == 0)
}

/// The signals that this process was started to ignore, by `nohup` for instance: a bit each, the
/// lowest is signal 1. It goes on ignoring them.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Signals cannot be caught.
pub fn unusable(error: io::Error) -> Failure {
    Failure::failed(format!("signals cannot be caught: {error}"))
}
