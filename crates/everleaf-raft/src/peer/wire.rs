//! Frames of the peer port: what two nodes, or a node and a client, send each other.
//!
//! A frame is `length (u32) · kind (u8) · crc32c of these five bytes and the body (u32) · body`,
//! all little-endian. The length is looked at before the rest is read, and memory grows with what
//! has come, so a sender of nonsense takes no more than it sends.
//!
//! Small messages are encoded by postcard: it is the compact serde format that is maintained (its
//! wire format is specified and fixed since 1.0). Entries of the log have bytes of their own
//! (`entry.rs`), and a part of a snapshot is bytes of a dump.

use std::io::{self, ErrorKind};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::entry::EntryBytes;
use crate::types::{C, Entry, LogId, Vote};

/// The version of what is said after the hellos; another one is refused.
pub const PROTOCOL: u16 = 1;

/// What is read and written.
pub trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for S {}

/// What a leader sends to followers.
pub type Append = openraft::raft::AppendEntriesRequest<C>;

/// Bytes of a body: a group of 64 MiB, which is the longest, and what is around it.
pub const MAX_BODY: usize = 72 << 20;
const HEAD: usize = 9;

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A [`Request`](crate::peer::message::Request) or a [`Reply`](crate::peer::message::Reply), by
    /// postcard.
    Message = 1,
    /// Entries to append: see [`encode_append`].
    Append = 2,
    /// Bytes of a dump; none: its end.
    Part = 3,
    /// A sentence: why the other side was not listened to. The connection ends.
    Refusal = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Message, Self::Append, Self::Part, Self::Refusal]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// A kind and a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// What came is none of ours, or was damaged on its way.
pub fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{what}; the connection is closed"))
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(head), body)
}

/// Writes a frame, and lets it go.
///
/// # Errors
/// As the system reports; [`ErrorKind::InvalidInput`] of a body that is too long.
pub async fn write_frame<W>(to: &mut W, kind: Kind, body: &[u8]) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    if body.len() > MAX_BODY {
        return Err(io::Error::new(ErrorKind::InvalidInput, "a message is longer than 72 MiB"));
    }
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[4] = kind as u8;
    let sum = checksum(&head[..5], body);
    head[5..].copy_from_slice(&sum.to_le_bytes());
    to.write_all(&head).await?;
    to.write_all(body).await?;
    to.flush().await
}

/// Reads a frame, of no more than `limit` bytes.
///
/// # Errors
/// As the system reports; [`ErrorKind::InvalidData`] of what is no frame.
pub async fn read_frame<R>(from: &mut R, limit: usize) -> io::Result<Frame>
where
    R: AsyncRead + Unpin,
{
    let mut head = [0; HEAD];
    from.read_exact(&mut head).await?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (length, sum) = (word(0) as usize, word(5));
    if length > limit {
        return Err(damaged("a message is longer than it may be"));
    }
    let kind = Kind::of(head[4]).ok_or_else(|| damaged("a message is of an unknown kind"))?;
    let mut body = Vec::with_capacity(length.min(64 << 10));
    from.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if checksum(&head[..5], &body) != sum {
        return Err(damaged("a message was damaged on its way"));
    }
    Ok(Frame { kind, body })
}

/// A small message as bytes.
///
/// # Errors
/// [`ErrorKind::InvalidData`]: none of ours gives it.
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(message).map_err(|error| damaged(&format!("no message: {error}")))
}

/// The message that all of the bytes are.
///
/// # Errors
/// [`ErrorKind::InvalidData`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(damaged("a message is not understood")),
    }
}

/// What stands before the entries of an append request.
#[derive(Serialize, Deserialize)]
struct AppendHead {
    vote: Vote,
    prev: Option<LogId>,
    commit: Option<LogId>,
    entries: u32,
}

/// An append request: the length of its head, the head, and each entry behind its length.
///
/// # Errors
/// As [`encode`].
pub fn encode_append(request: &Append) -> io::Result<Vec<u8>> {
    let head = encode(&AppendHead {
        vote: request.vote,
        prev: request.prev_log_id,
        commit: request.leader_commit,
        entries: request.entries.len() as u32,
    })?;
    let mut body = Vec::new();
    add_part(&mut body, &head);
    let mut bytes = Vec::new();
    for entry in &request.entries {
        bytes.clear();
        entry.write_to(&mut bytes);
        add_part(&mut body, &bytes);
    }
    Ok(body)
}

/// What [`encode_append`] has made.
///
/// # Errors
/// [`ErrorKind::InvalidData`].
pub fn decode_append(mut body: &[u8]) -> io::Result<Append> {
    let head: AppendHead = decode(take_part(&mut body)?)?;
    let mut entries = Vec::new();
    for _ in 0..head.entries {
        let entry = Entry::read(take_part(&mut body)?);
        entries.push(entry.map_err(|error| damaged(&error.to_string()))?);
    }
    if !body.is_empty() {
        return Err(damaged("a message is longer than its entries"));
    }
    Ok(Append { vote: head.vote, prev_log_id: head.prev, entries, leader_commit: head.commit })
}

fn add_part(body: &mut Vec<u8>, part: &[u8]) {
    body.extend((part.len() as u32).to_le_bytes());
    body.extend(part);
}

fn take_array<'a, const N: usize>(body: &mut &'a [u8]) -> io::Result<&'a [u8; N]> {
    let (array, rest) =
        body.split_first_chunk().ok_or_else(|| damaged("a message ends too early"))?;
    *body = rest;
    Ok(array)
}

fn take_part<'a>(body: &mut &'a [u8]) -> io::Result<&'a [u8]> {
    let length = u32::from_le_bytes(*take_array(body)?) as usize;
    let (part, rest) =
        body.split_at_checked(length).ok_or_else(|| damaged("a message ends too early"))?;
    *body = rest;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;
    use proptest::prelude::*;

    use super::*;
    use crate::rows::Rows;
    use crate::types::{Group, LeaderId};

    fn wait_for<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn written(kind: Kind, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        wait_for(write_frame(&mut bytes, kind, body)).unwrap();
        bytes
    }

    fn log_id(index: u64) -> LogId {
        LogId { leader_id: LeaderId { term: 3, node_id: 1 }, index }
    }

    fn append(groups: &[(Vec<u8>, Option<Vec<u8>>)]) -> Append {
        let entry = |(index, (key, value)): (usize, &(Vec<u8>, Option<Vec<u8>>))| {
            let mut rows = Rows::new();
            rows.push(key, value.as_deref());
            let group = Group { reign: 1, number: index as u64, clock_ms: 5, rows };
            Entry { log_id: log_id(index as u64 + 8), payload: EntryPayload::Normal(group) }
        };
        Append {
            vote: Vote::new_committed(3, 1),
            prev_log_id: Some(log_id(7)),
            entries: groups.iter().enumerate().map(entry).collect(),
            leader_commit: None,
        }
    }

    #[test]
    fn a_length_is_refused_before_anything_is_read() {
        let head = [&u32::MAX.to_le_bytes()[..], &[1; 5]].concat();
        let error = wait_for(read_frame(&mut &head[..], MAX_BODY)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        // A length that is allowed takes no memory before it comes.
        let head = [&(MAX_BODY as u32).to_le_bytes()[..], &[1; 9]].concat();
        let error = wait_for(read_frame(&mut &head[..], MAX_BODY)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    proptest! {
        #[test]
        fn frames_come_as_they_were_written(body: Vec<u8>, kind in 1_u8..=4) {
            let kind = Kind::of(kind).unwrap();
            let bytes = written(kind, &body);
            let frame = wait_for(read_frame(&mut &bytes[..], MAX_BODY)).unwrap();
            prop_assert_eq!(frame, Frame { kind, body });
        }

        #[test]
        fn no_byte_of_a_frame_changes_unseen(
            body in proptest::collection::vec(any::<u8>(), 0..200),
            at: proptest::sample::Index,
            bit in 0_u8..8,
        ) {
            let mut bytes = written(Kind::Append, &body);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(wait_for(read_frame(&mut &bytes[..], MAX_BODY)).is_err());
        }

        #[test]
        fn nonsense_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = wait_for(read_frame(&mut &bytes[..], 1 << 16));
            let _ = decode_append(&bytes);
            let _ = decode::<crate::peer::message::Request>(&bytes);
            let _ = decode::<crate::peer::message::Reply>(&bytes);
        }

        #[test]
        fn entries_come_as_they_were_sent(
            rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
            cut: proptest::sample::Index,
        ) {
            let request = append(&rows);
            let body = encode_append(&request).unwrap();
            let came = decode_append(&body).unwrap();
            prop_assert_eq!(came.vote, request.vote);
            prop_assert_eq!(came.prev_log_id, request.prev_log_id);
            prop_assert_eq!(came.entries, request.entries);
            prop_assert!(decode_append(&body[..cut.index(body.len())]).is_err());
        }
    }
}
