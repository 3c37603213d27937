//! The process that opened something: a forked one must leave it alone. And the one at the other
//! end of a socket.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Forks between the first process and this one: what forks is the process, so this is its.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process in which it was made.
///
/// What a store has in memory is copied by a fork, but not its threads, and its locks on files are
/// shared: two processes would take themselves for the only one that writes.
///
/// # Examples
/// ```
/// let opened_by = everleaf_pmem::Process::current();
/// assert!(opened_by.is_current()); // false in a process that is forked from now on
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// The process that calls. Its forks are noticed from now on, unless the system has no memory
    /// to note that; those by `_Fork` or a bare `clone` system call never are.
    pub fn current() -> Self {
        extern "C" fn forked() {
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        static NOTICED: AtomicBool = AtomicBool::new(false);
        // Two threads may both do so: numbers of processes differ nevertheless. A `Once` could be
        // copied by a fork in the middle, and nobody would ever end it.
        if !NOTICED.load(Ordering::Acquire) {
            // SAFETY: the handler, which runs in the forked process before `fork` returns there,
            // only changes an atomic.
            unsafe { libc::pthread_atfork(None, None, Some(forked)) };
            NOTICED.store(true, Ordering::Release);
        }
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is the process that calls. One load.
    #[inline]
    pub fn is_current(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

/// The process that listened or connected at the other end of a socket of the file system.
///
/// # Examples
/// ```
/// use everleaf_pmem::Peer;
///
/// let (one, _other) = std::os::unix::net::UnixStream::pair()?;
/// assert_eq!(Peer::of(&one)?.process, Some(std::process::id()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number; none where it has none that this process could see, as behind a container.
    pub process: Option<u32>,
    /// The user that it ran as.
    pub user: u32,
}

impl Peer {
    /// That of a connection.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(socket: &UnixStream) -> io::Result<Self> {
        let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut bytes = size_of_val(&peer) as libc::socklen_t;
        // SAFETY: the option is written to `peer`, which has as many bytes, and whatever is written
        // is one: it consists of numbers.
        let got = unsafe {
            let (option, length) = (&raw mut peer, &raw mut bytes);
            let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
            libc::getsockopt(socket.as_raw_fd(), level, name, option.cast(), length)
        };
        if got != 0 {
            return Err(io::Error::last_os_error());
        }
        let process = u32::try_from(peer.pid).ok().filter(|number| *number != 0);
        Ok(Self { process, user: peer.uid })
    }
}
