//! How a connection of the peer port begins: both sides say who they are, and prove that they know
//! the cluster's secret without telling it.
//!
//! ```text
//! dialler  -> hello: magic (8) · version (2) · cluster (16) · node (8) · challenge (16)
//! listener -> hello of its own · HMAC-SHA-256(secret, "listener" · both hellos)
//! dialler  -> HMAC-SHA-256(secret, "dialler" · both hellos)
//! listener -> an empty message, or a refusal with a sentence
//! ```
//! The first 10 bytes stay as they are in every version, so that two versions can tell each other
//! apart. A client that is no node has the number 0, and one that does not know the cluster yet
//! gives 0 for it: whoever knows the secret may ask.

use std::fmt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use uuid::Uuid;

use crate::peer::peer_error::PeerError;
use crate::peer::wire::{Frame, Kind, PROTOCOL, read_frame, write_frame};

const MAGIC: [u8; 8] = *b"evlfpeer";
const HELLO: usize = 50;
const PROOF: usize = 32;
/// A refusal is a sentence.
const MAX_REFUSAL: usize = 1024;
/// What a request by HTTP begins with.
const HTTP: [&[u8]; 6] = [b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"DELE"];
const TO_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    connection: close\r\n\r\nThis is the peer port of an Everleaf cluster, which does not speak \
    HTTP; use `everleaf cluster status`.\n";

/// What all nodes of a cluster, and whoever operates it, know.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret") // It is nobody's.
    }
}

impl Secret {
    /// A new one: 244 random bits, as text.
    pub fn random() -> Self {
        let text = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        Self(text.into_bytes())
    }

    /// The first line of a file.
    ///
    /// # Errors
    /// A sentence, if there is none, or one of fewer than 16 bytes.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text = std::fs::read(path)
            .map_err(|error| format!("the secret {name} cannot be read: {error}"))?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        match line.len() {
            16..=1024 => Ok(Self(line.to_vec())),
            _ => Err(format!("{name} holds no secret: its first line needs 16 to 1024 bytes")),
        }
    }

    /// Its text, for a file.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    fn mac(&self, side: &[u8], hellos: [&[u8]; 2]) -> Hmac<Sha256> {
        // Any length is a key of HMAC.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!());
        [side, hellos[0], hellos[1]].iter().for_each(|part| mac.update(part));
        mac
    }
}

/// Who one side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the protocol.
    pub version: u16,
    /// The cluster; 0: not known yet.
    pub cluster: Uuid,
    /// The node; 0: a client.
    pub node: u64,
    challenge: Uuid,
}

impl Hello {
    /// A new one, with a challenge of its own.
    pub fn of(cluster: Uuid, node: u64) -> Self {
        Self { version: PROTOCOL, cluster, node, challenge: Uuid::new_v4() }
    }

    fn bytes(&self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes[10..26].copy_from_slice(self.cluster.as_bytes());
        bytes[26..34].copy_from_slice(&self.node.to_le_bytes());
        bytes[34..].copy_from_slice(self.challenge.as_bytes());
        bytes
    }

    /// None: it is not one of ours.
    fn parse(bytes: &[u8; HELLO]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (version, rest) = rest.split_first_chunk()?;
        let (cluster, rest) = rest.split_first_chunk()?;
        let (node, challenge) = rest.split_first_chunk()?;
        Some(Self {
            version: u16::from_le_bytes(*version),
            cluster: Uuid::from_bytes(*cluster),
            node: u64::from_le_bytes(*node),
            challenge: Uuid::from_slice(challenge).ok()?,
        })
    }

    /// Whether two may talk: of one version and, as far as both know, of one cluster.
    fn suits(&self, other: &Self) -> Result<(), PeerError> {
        if other.version != self.version {
            return Err(PeerError::Version { theirs: other.version });
        }
        let known = !self.cluster.is_nil() && !other.cluster.is_nil();
        if known && self.cluster != other.cluster {
            return Err(PeerError::Cluster { theirs: other.cluster, ours: self.cluster });
        }
        Ok(())
    }
}

/// Begins as the side that has connected; who the other side is.
///
/// # Errors
/// [`PeerError`]: who may not be talked to, and why.
pub async fn dial<S>(stream: &mut S, me: Hello, secret: &Secret) -> Result<Hello, PeerError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mine = me.bytes();
    stream.write_all(&mine).await?;
    stream.flush().await?;
    let mut theirs = [0; HELLO];
    stream.read_exact(&mut theirs).await?;
    let other = Hello::parse(&theirs).ok_or(PeerError::NotAPeer)?;
    me.suits(&other)?;
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    let expected = secret.mac(b"listener", [&mine, &theirs]);
    expected.verify_slice(&proof).map_err(|_| PeerError::Secret)?;
    stream.write_all(&secret.mac(b"dialler", [&mine, &theirs]).finalize().into_bytes()).await?;
    stream.flush().await?;
    match read_frame(stream, MAX_REFUSAL).await? {
        Frame { kind: Kind::Message, .. } => Ok(other),
        Frame { body, .. } => Err(PeerError::Refused(String::from_utf8_lossy(&body).into_owned())),
    }
}

/// Begins as the side that listens; `admit` says whom it does not talk to.
///
/// # Errors
/// As [`dial`]; the other side has been told.
pub async fn accept<S>(
    stream: &mut S,
    me: Hello,
    secret: &Secret,
    admit: impl FnOnce(&Hello) -> Result<(), PeerError>,
) -> Result<Hello, PeerError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let other = read_hello(stream).await?;
    let (mine, theirs) = (me.bytes(), other.bytes());
    let proof = secret.mac(b"listener", [&theirs, &mine]).finalize().into_bytes();
    stream.write_all(&[&mine[..], &proof].concat()).await?;
    stream.flush().await?;
    me.suits(&other)?; // It has seen the same.
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    let expected = secret.mac(b"dialler", [&theirs, &mine]);
    let admitted = expected.verify_slice(&proof).map_err(|_| PeerError::Secret);
    match admitted.and_then(|()| admit(&other)) {
        Ok(()) => write_frame(stream, Kind::Message, &[]).await?,
        Err(error) => {
            write_frame(stream, Kind::Refusal, error.to_string().as_bytes()).await?;
            return Err(error);
        }
    }
    Ok(other)
}

/// A hello, unless what comes is something else, which is answered if it is HTTP.
async fn read_hello<S>(stream: &mut S) -> Result<Hello, PeerError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut bytes = [0; HELLO];
    stream.read_exact(&mut bytes[..4]).await?;
    if HTTP.iter().any(|method| bytes.starts_with(method)) {
        stream.write_all(TO_HTTP).await?;
        stream.shutdown().await?;
        return Err(PeerError::Http);
    }
    if bytes[..4] != MAGIC[..4] {
        return Err(PeerError::NotAPeer);
    }
    stream.read_exact(&mut bytes[4..]).await?;
    Hello::parse(&bytes).ok_or(PeerError::NotAPeer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What both sides say when they begin so.
    async fn meet(
        dialler: (Hello, &Secret),
        listener: (Hello, &Secret),
        admit: fn(&Hello) -> Result<(), PeerError>,
    ) -> (Result<Hello, PeerError>, Result<Hello, PeerError>) {
        let (mut one, mut other) = tokio::io::duplex(1 << 16);
        let listen = async {
            let accepted = accept(&mut other, listener.0, listener.1, admit).await;
            drop(other);
            accepted
        };
        let dial = async {
            let dialled = dial(&mut one, dialler.0, dialler.1).await;
            drop(one);
            dialled
        };
        tokio::join!(dial, listen)
    }

    #[tokio::test]
    async fn nodes_of_a_cluster_know_each_other_and_nobody_else() {
        let (secret, cluster) = (Secret::random(), Uuid::new_v4());
        let (one, two) = (Hello::of(cluster, 1), Hello::of(cluster, 2));
        let everybody = |_: &Hello| Ok(());
        let (dialled, accepted) = meet((one, &secret), (two, &secret), everybody).await;
        assert_eq!((dialled.unwrap(), accepted.unwrap()), (two, one));
        let client = Hello::of(Uuid::nil(), 0);
        assert!(meet((client, &secret), (two, &secret), everybody).await.0.is_ok());

        let wrong = Secret::random();
        let (dialled, accepted) = meet((one, &wrong), (two, &secret), everybody).await;
        assert!(matches!(dialled, Err(PeerError::Secret)), "{dialled:?}");
        assert!(accepted.is_err());

        let stranger = Hello::of(Uuid::new_v4(), 1);
        let (dialled, accepted) = meet((stranger, &secret), (two, &secret), everybody).await;
        assert!(matches!(dialled, Err(PeerError::Cluster { .. })), "{dialled:?}");
        assert!(matches!(accepted, Err(PeerError::Cluster { .. })), "{accepted:?}");

        let later = Hello { version: PROTOCOL + 1, ..one };
        let (dialled, accepted) = meet((later, &secret), (two, &secret), everybody).await;
        assert!(matches!(dialled, Err(PeerError::Version { theirs: PROTOCOL })), "{dialled:?}");
        assert!(matches!(accepted, Err(PeerError::Version { .. })), "{accepted:?}");

        let removed = |peer: &Hello| Err(PeerError::Removed { node: peer.node });
        let (dialled, _) = meet((one, &secret), (two, &secret), removed).await;
        assert!(
            matches!(&dialled, Err(PeerError::Refused(why)) if why.contains("node 1 was removed"))
        );
    }

    #[tokio::test]
    async fn a_proof_is_worth_nothing_in_another_connection() {
        let (secret, cluster) = (Secret::random(), Uuid::new_v4());
        let (mut one, mut other) = tokio::io::duplex(1 << 16);
        let listener = Hello::of(cluster, 2);
        let listen =
            tokio::spawn(async move { accept(&mut other, listener, &secret, |_| Ok(())).await });
        // Who does not know the secret sends back the proof that it has got.
        one.write_all(&Hello::of(cluster, 1).bytes()).await.unwrap();
        let mut answer = [0; HELLO + PROOF];
        one.read_exact(&mut answer).await.unwrap();
        one.write_all(&answer[HELLO..]).await.unwrap();
        assert!(matches!(listen.await.unwrap(), Err(PeerError::Secret)));
    }

    #[test]
    fn a_file_without_a_secret_is_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(Secret::read(&path).is_err_and(|why| why.contains("cannot be read")));
        std::fs::write(&path, "short\n").unwrap();
        assert!(Secret::read(&path).is_err_and(|why| why.contains("holds no secret")));
        let secret = Secret::random();
        std::fs::write(&path, [secret.text(), b"\nmore"].concat()).unwrap();
        assert_eq!(Secret::read(&path).unwrap().text(), secret.text());
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
