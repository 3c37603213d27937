//! The socket beside a pool: its name, how it is made, and who is at the other end.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use everleaf_pmem::Peer;
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::geteuid;

/// Connections that wait until the thread takes them.
const WAITING: i32 = 64;

/// A socket that this process listens at; it is removed when this is dropped.
pub struct Socket {
    pub listener: UnixListener,
    /// Absolute: the process may change its folder.
    path: PathBuf,
    /// Device and number of the file, by which it is known again.
    file: (u64, u64),
}

impl Socket {
    /// Makes the socket of a pool that this process has locked to write; why not, if it cannot.
    pub fn bind(pool: &Path) -> Result<Self, String> {
        let path = socket_of(pool);
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let address = address(&path).map_err(|error| failed(error.into()))?;
        make_way(&path)?;
        let new = || -> io::Result<UnixListener> {
            let socket = unix_socket(SocketFlags::CLOEXEC)?;
            // The file that binding makes has these rights from the first moment on.
            fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
            bind(&socket, &address)?;
            listen(&socket, WAITING)?;
            Ok(socket.into())
        };
        let listener = new().map_err(failed)?;
        let made = path.symlink_metadata().map_err(failed)?;
        let path = std::path::absolute(&path).map_err(failed)?;
        Ok(Self { listener, path, file: identity(&made) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok_and(|there| identity(&there) == self.file) {
            let _ = fs::remove_file(&self.path); // The next owner takes over what is left.
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Where the socket of a pool is; of a link to a pool, beside the pool.
fn socket_of(pool: &Path) -> PathBuf {
    let linked = pool.is_symlink().then(|| pool.canonicalize().ok()).flatten();
    let mut name = linked.unwrap_or_else(|| pool.into()).into_os_string();
    name.push(".sock");
    name.into()
}

fn address(path: &Path) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new(path)
}

fn unix_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes the socket that a killed owner has left. No other process makes it anew meanwhile: this
/// one has the pool locked.
fn make_way(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{shown}: {error}")),
        Ok(there) if !there.file_type().is_socket() => {
            Err(format!("{shown} is in the way, and is no socket; move it away"))
        }
        Ok(_) => match connected(path) {
            Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(|e| format!("{shown}: {e}")),
            Ok(_) | Err(Errno::AGAIN) => Err(format!(
                "another process listens at {shown}; end it, or let it listen elsewhere"
            )),
            Err(error) => Err(format!("{shown} is in the way: {}", io::Error::from(error))),
        },
    }
}

/// A connection, without waiting for one who listens and does not answer.
fn connected(path: &Path) -> Result<UnixStream, Errno> {
    let socket = unix_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    connect(&socket, &address(path)?)?;
    Ok(socket.into())
}

/// A connection to the process that has a pool open, and who it is; none if none listens. A socket
/// that somebody else has put there is not spoken to: it must be of this user, of root, or of the
/// owner of the pool.
pub(super) fn connect_to(pool: &Path) -> Option<(UnixStream, Peer)> {
    let path = socket_of(pool);
    let is_socket = path.symlink_metadata().is_ok_and(|there| there.file_type().is_socket());
    let stream = is_socket.then(|| connected(&path).ok()).flatten()?;
    stream.set_nonblocking(false).ok()?;
    let peer = Peer::of(&stream).ok()?;
    let owns_pool = || fs::metadata(pool).is_ok_and(|pool| pool.uid() == peer.user);
    (may_ask(&peer) || owns_pool()).then_some((stream, peer))
}

/// The process that has a pool open to write and answers there: its number and its program.
pub fn process_of(pool: &Path) -> Option<(u32, String)> {
    let (_, peer) = connect_to(pool)?;
    let number = peer.process?;
    let program = fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
    Some((number, program.trim_end().escape_debug().to_string()))
}

/// Whether the peer is of this user, or of root.
pub(super) fn is_trusted(stream: &UnixStream) -> bool {
    Peer::of(stream).is_ok_and(|peer| may_ask(&peer))
}

fn may_ask(peer: &Peer) -> bool {
    peer.user == geteuid().as_raw() || peer.user == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_the_users_alone_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let (pool, path) = (folder.path().join("p"), folder.path().join("p.sock"));
        let socket = Socket::bind(&pool).unwrap();
        assert_eq!(path.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(process_of(&pool).unwrap().0, std::process::id());
        assert!(Socket::bind(&pool).err().unwrap().contains("another process listens"));
        drop(socket);
        assert!(!path.exists() && process_of(&pool).is_none());
    }

    #[test]
    fn what_a_killed_owner_left_is_taken_over_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (pool, path) = (folder.path().join("p"), folder.path().join("p.sock"));
        drop(UnixListener::bind(&path).unwrap());
        drop(Socket::bind(&pool).unwrap());
        assert!(!path.exists());
        // Nothing is written through a link, and nothing of another kind goes.
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(Socket::bind(&pool).err().unwrap().contains("is no socket"));
        assert!(path.is_symlink() && !folder.path().join("elsewhere").exists());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(Socket::bind(&pool).err().unwrap().contains("is no socket"));
        assert!(path.is_dir() && process_of(&pool).is_none());
    }

    #[test]
    fn one_that_has_taken_its_place_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (pool, path) = (folder.path().join("p"), folder.path().join("p.sock"));
        let socket = Socket::bind(&pool).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        fs::write(&path, "another").unwrap();
        drop(socket);
        assert_eq!(fs::read(&path).unwrap(), b"another");
    }

    #[test]
    fn a_path_that_is_too_long_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("p".repeat(120));
        assert!(Socket::bind(&pool).err().unwrap().contains("too long"));
        assert!(process_of(&pool).is_none());
    }

    #[test]
    fn a_link_to_a_pool_leads_to_the_socket_of_the_pool() {
        let folder = tempfile::tempdir().unwrap();
        let (pool, link) = (folder.path().join("p"), folder.path().join("link"));
        fs::write(&pool, "").unwrap();
        std::os::unix::fs::symlink("p", &link).unwrap();
        let _socket = Socket::bind(&link).unwrap();
        assert!(folder.path().join("p.sock").exists() && process_of(&pool).is_some());
    }
}
