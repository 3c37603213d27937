//! A connection of the peer port, by TLS or not.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

use crate::peer::hello::{self, Hello, Secret};
use crate::peer::message::{Origin, Reply, Request};
use crate::peer::peer_error::PeerError;
use crate::peer::tls::Tls;
use crate::peer::wire::{Kind, MAX_BODY, Stream, damaged, decode, encode, read_frame, write_frame};

/// How long the beginning of a connection may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How to begin connections: the secret, and TLS.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The cluster's secret.
    pub secret: Secret,
    /// None: connections are not encrypted.
    pub tls: Option<Tls>,
}

impl Keys {
    /// Connects to a peer port; `expected`: the node that must listen there.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn connect(
        &self,
        address: &str,
        me: Hello,
        expected: Option<u64>,
    ) -> Result<Link, PeerError> {
        let connect = async {
            let unreachable =
                |source| PeerError::Unreachable { address: address.to_owned(), source };
            let tcp = TcpStream::connect(address).await.map_err(unreachable)?;
            tcp.set_nodelay(true)?;
            sockopt::set_socket_keepalive(&tcp, true).map_err(io::Error::from)?;
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let mut stream: Box<dyn Stream> = match &self.tls {
                Some(tls) => tls.connect(tcp, host.trim_matches(['[', ']'])).await?,
                None => Box::new(tcp),
            };
            let peer = hello::dial(&mut stream, me, &self.secret).await?;
            match expected {
                Some(expected) if expected != peer.node => Err(PeerError::OtherNode {
                    address: address.to_owned(),
                    expected,
                    found: peer.node,
                }),
                _ => Ok(Link { stream, peer }),
            }
        };
        let silent = |_| PeerError::Silent { address: address.to_owned() };
        tokio::time::timeout(PATIENCE, connect).await.map_err(silent)?
    }

    /// Begins with who has connected.
    ///
    /// # Errors
    /// [`PeerError`].
    pub async fn accept(
        &self,
        tcp: TcpStream,
        from: SocketAddr,
        me: Hello,
        admit: impl FnOnce(&Hello) -> Result<(), PeerError>,
    ) -> Result<Link, PeerError> {
        let accept = async {
            tcp.set_nodelay(true)?;
            sockopt::set_socket_keepalive(&tcp, true).map_err(io::Error::from)?;
            let mut stream: Box<dyn Stream> = match &self.tls {
                Some(tls) => tls.accept(tcp).await?,
                None => Box::new(tcp),
            };
            let peer = hello::accept(&mut stream, me, &self.secret, admit).await?;
            Ok(Link { stream, peer })
        };
        let silent = |_| PeerError::Silent { address: from.to_string() };
        tokio::time::timeout(PATIENCE, accept).await.map_err(silent)?
    }
}

/// A connection whose sides know each other.
pub struct Link {
    /// What is read and written.
    pub stream: Box<dyn Stream>,
    /// The other side.
    pub peer: Hello,
}

/// A client's connection that another node has accepted, and what is known of it.
pub type Relayed = (Origin, Box<dyn Stream>);

impl Link {
    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// As the system reports; what is no answer.
    pub async fn ask(&mut self, request: &Request) -> io::Result<Reply> {
        self.send(Kind::Message, &encode(request)?).await?;
        self.reply().await
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// As the system reports.
    pub async fn send(&mut self, kind: Kind, body: &[u8]) -> io::Result<()> {
        write_frame(&mut self.stream, kind, body).await
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// As the system reports; what is no answer.
    pub async fn reply(&mut self) -> io::Result<Reply> {
        let frame = read_frame(&mut self.stream, MAX_BODY).await?;
        match frame.kind {
            Kind::Message => decode(&frame.body),
            _ => Err(damaged("an answer of another kind came")),
        }
    }
}
