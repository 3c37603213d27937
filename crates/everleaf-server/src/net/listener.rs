//! Listening at an address, and the streams that come of it.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use tokio::net::{TcpListener, UnixListener};

use crate::Address;

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

    /// The next connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream.into_std()?)
            }
            Self::Unix(listener) => Stream::Unix(listener.accept().await?.0.into_std()?),
        })
    }
}

/// A server that was killed leaves its socket behind: no process listens at it.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}
