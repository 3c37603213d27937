//! Values of the store: what is durable of a key.
//!
//! ```text
//! 0   kind          1 string, 2 hash, 3 set, 4 sorted set, 5 list, 6 stream
//! 1   marks         bit 0: stale, bit 1: a client was told to make it anew
//! 2   zero          2 bytes
//! 4   flags         4 bytes, memcached's
//! 8   sequence      8 bytes: the number of the write that stored it
//! 16  cas           8 bytes: what `gets` tells; the sequence, unless a client chose it
//! 24  expires_ms    8 bytes: milliseconds since 1970; 0: never
//! 32                the bytes of a string, or of a collection
//!                   id (8), number of members (8), of a list its first position (8), and where
//!                   its positions have gaps the one behind its last (8); of a stream other
//!                   words follow the first two (`stream.rs`)
//! ```
//!
//! All words are little-endian. Everything that a reply tells of a key stands here, so it holds
//! right after a crash.

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;
const STALE: u8 = 1;
const WON: u8 = 2;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Bytes: what memcached knows.
    String = 1,
    /// Fields and their values.
    Hash = 2,
    /// Members.
    Set = 3,
    /// Members ordered by score.
    SortedSet = 4,
    /// Elements by position.
    List = 5,
    /// Entries by id.
    Stream = 6,
}

impl Kind {
    /// What a byte stands for.
    pub fn of(byte: u8) -> Option<Self> {
        const ALL: [Kind; 6] =
            [Kind::String, Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List, Kind::Stream];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// What TYPE calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::List => "list",
            Self::Stream => "stream",
        }
    }
}

/// What stands in front of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the key holds.
    pub kind: Kind,
    /// It was marked stale by `md` with flag I.
    pub stale: bool,
    /// Somebody was told to make it anew.
    pub won: bool,
    /// memcached's flags.
    pub flags: u32,
    /// The number of the write that stored it.
    pub sequence: u64,
    /// What `gets` tells.
    pub cas: u64,
    /// Milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

impl Header {
    /// The header of a new value.
    pub const fn new(kind: Kind, sequence: u64) -> Self {
        Self { kind, stale: false, won: false, flags: 0, sequence, cas: sequence, expires_ms: None }
    }

    /// The header of a value; none if it is damaged.
    pub fn read(value: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(value.get(at..at + 8)?.try_into().ok()?));
        let expires_ms = word(24)?;
        Some(Self {
            kind: Kind::of(*value.first()?)?,
            stale: value[1] & STALE != 0,
            won: value[1] & WON != 0,
            flags: u32::from_le_bytes(value.get(4..8)?.try_into().ok()?),
            sequence: word(8)?,
            cas: word(16)?,
            expires_ms: (expires_ms != 0).then_some(expires_ms),
        })
    }

    /// The header of a key that has expired long ago.
    pub const fn expired(&self) -> Self {
        Self { expires_ms: Some(1), ..*self }
    }

    /// The value: this header and `body`.
    pub fn with(&self, body: &[u8]) -> Vec<u8> {
        let mut value = Vec::with_capacity(HEADER_BYTES + body.len());
        let marks = (u8::from(self.stale) * STALE) | (u8::from(self.won) * WON);
        value.extend_from_slice(&[self.kind as u8, marks, 0, 0]);
        value.extend_from_slice(&self.flags.to_le_bytes());
        value.extend_from_slice(&self.sequence.to_le_bytes());
        value.extend_from_slice(&self.cas.to_le_bytes());
        value.extend_from_slice(&self.expires_ms.unwrap_or(0).to_le_bytes());
        value.extend_from_slice(body);
        value
    }
}

/// The body of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// What its parts' rows begin with.
    pub id: u64,
    /// Number of members.
    pub members: u64,
    /// The position of a list's first element, or one before it.
    pub first: u64,
    /// A position behind a list's last element, where elements were put between others or removed
    /// from between; 0: each element is one position behind the one before it.
    pub end: u64,
}

impl Collection {
    /// The body of a value; none if it is damaged.
    pub fn read(value: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let at = HEADER_BYTES + at;
            Some(u64::from_le_bytes(value.get(at..at + 8)?.try_into().ok()?))
        };
        let end = word(24).unwrap_or(0);
        Some(Self { id: word(0)?, members: word(8)?, first: word(16)?, end })
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let words = [self.id, self.members, self.first, self.end];
        let words = if self.end == 0 { &words[..3] } else { &words };
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// The header and the body of a value, if it is that of a collection.
pub fn collection_of(value: &[u8]) -> Option<(Header, Collection)> {
    let header = Header::read(value).filter(|header| header.kind != Kind::String)?;
    Some((header, Collection::read(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        let header = Header {
            kind: Kind::SortedSet,
            stale: true,
            won: true,
            flags: u32::MAX,
            sequence: 1 << 40,
            cas: u64::MAX,
            expires_ms: Some(1_700_000_000_123),
        };
        assert_eq!(Header::read(&header.with(b"body")), Some(header));
        assert_eq!(&header.with(b"body")[HEADER_BYTES..], b"body");
        let new = Header::new(Kind::String, 5);
        assert_eq!(Header::read(&new.with(b"")), Some(new));
        let collection = Collection { id: 1, members: 2, first: 1 << 63, end: 0 };
        for collection in [collection, Collection { end: u64::MAX, ..collection }] {
            assert_eq!(Collection::read(&new.with(&collection.bytes())), Some(collection));
        }
    }

    #[test]
    fn what_is_cut_or_of_no_kind_is_no_header() {
        let value = Header::new(Kind::String, 5).with(b"");
        (0..value.len()).for_each(|cut| assert_eq!(Header::read(&value[..cut]), None));
        assert_eq!(Header::read(&[0; HEADER_BYTES]), None);
        assert_eq!(Collection::read(&value), None);
    }
}
