//! Listening at an address, and the streams that come of it.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::Address;
use crate::shared::Ends;

/// The pause after a connection could not be accepted, for want of file descriptors mostly.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A socket that connections come from.
pub enum Listener {
    /// Of the network.
    Tcp(TcpListener),
    /// Of the file system.
    Unix(UnixListener),
}

/// A connection that belongs to no runtime yet.
pub enum Stream {
    /// Of the network.
    Tcp(std::net::TcpStream),
    /// Of the file system.
    Unix(std::os::unix::net::UnixStream),
}

impl Listener {
    /// Listens.
    pub async fn bind(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(address) => Self::Tcp(TcpListener::bind(address).await?),
            Address::Unix(path) => {
                remove_dead_socket(path)?;
                Self::Unix(UnixListener::bind(path)?)
            }
        })
    }

    /// Where it listens: the port is known also where the system chose it.
    pub fn address(&self, asked: &Address) -> io::Result<Address> {
        Ok(match self {
            Self::Tcp(listener) => Address::Tcp(listener.local_addr()?),
            Self::Unix(_) => asked.clone(),
        })
    }

    /// The same for who is told of connections.
    pub fn ends(&self) -> Ends {
        let (local, file) = match self {
            Self::Tcp(listener) => {
                let address = listener.local_addr().ok();
                (address.map(|address| address.to_string()), listener.as_raw_fd())
            }
            Self::Unix(listener) => {
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                (path.map(|path| format!("{}:0", path.display())), listener.as_raw_fd())
            }
        };
        let local = local.unwrap_or_default();
        Ends { peer: local.clone(), local, file }
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
                Stream::Tcp(stream.into_std()?)
            }
            Self::Unix(listener) => Stream::Unix(listener.accept().await?.0.into_std()?),
        })
    }
}

/// Lets the system ask after a client that says nothing, so that the connection of one whose
/// machine is gone ends.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    /// Silence after which it is asked, and between two times.
    const SILENCE: Duration = Duration::from_secs(300);
    const PAUSE: Duration = Duration::from_secs(100);
    /// Questions without an answer that end it.
    const TIMES: u32 = 3;
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, PAUSE)?;
    sockopt::set_tcp_keepcnt(stream, TIMES)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// A server that was killed leaves its socket behind: no process listens at it.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
