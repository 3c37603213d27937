//! The bytes of a value record: `[head: u32][expiry: u64, where the head says so][key][value]`,
//! little-endian; a `u64` key is 8 bytes, big-endian.
//!
//! The key stands in the record so that recovery can find out whether a record is linked, and so
//! that a damaged index word can never show the value of another key. The head says that this is a
//! value, so that one can be told from a key's record where the index is lost.

use crate::Key;
use crate::backend::{Found, NewValue};

/// The bytes in front of the value.
pub(crate) enum KeyBytes<'a> {
    Word([u8; 8]),
    Slice(&'a [u8]),
}

impl<'a> KeyBytes<'a> {
    pub(crate) fn of(key: Key<'a>) -> Self {
        match key {
            Key::U64(key) => Self::Word(key.to_be_bytes()),
            Key::Bytes(key) => Self::Slice(key),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Word(bytes) => bytes,
            Self::Slice(bytes) => bytes,
        }
    }
}

/// The first word of a record: the length of the key in the low 17 bits, bit 23 for an expiry, the
/// high byte to say that it is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head(u32);

impl Head {
    const VALUE: u32 = (b'V' as u32) << 24;
    const EXPIRES: u32 = 1 << 23;
    const KEY_BYTES: u32 = (1 << 17) - 1;

    /// Keys have at most 64 KiB.
    fn of(key_bytes: usize, expires: bool) -> Self {
        let expires = if expires { Self::EXPIRES } else { 0 };
        Self(Self::VALUE | expires | (key_bytes as u32 & Self::KEY_BYTES))
    }

    /// None if it is no head: bits that this version does not know are no value of this version.
    fn read(word: [u8; 4]) -> Option<Self> {
        let word = u32::from_le_bytes(word);
        (word & !(Self::EXPIRES | Self::KEY_BYTES) == Self::VALUE).then_some(Self(word))
    }

    fn key_bytes(self) -> usize {
        (self.0 & Self::KEY_BYTES) as usize
    }

    fn expires(self) -> bool {
        self.0 & Self::EXPIRES != 0
    }
}

/// What stands before the key.
pub(crate) struct Front {
    bytes: [u8; 12],
    length: usize,
}

impl Front {
    pub(crate) fn of(key: &KeyBytes<'_>, new: NewValue<'_>) -> Self {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(
            &Head::of(key.as_slice().len(), new.expires_ms.is_some()).0.to_le_bytes(),
        );
        bytes[4..].copy_from_slice(&new.expires_ms.unwrap_or(0).to_le_bytes());
        Self { bytes, length: if new.expires_ms.is_some() { 12 } else { 4 } }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A record taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueRecord<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expires_ms: Option<u64>,
}

impl<'a> ValueRecord<'a> {
    /// None if this is no value, or the length of the key does not fit the record.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, mut rest) = bytes.split_first_chunk::<4>()?;
        let head = Head::read(*head)?;
        let mut expires_ms = None;
        if head.expires() {
            let (expires, behind) = rest.split_first_chunk::<8>()?;
            (expires_ms, rest) = (Some(u64::from_le_bytes(*expires)), behind);
        }
        let (key, value) = rest.split_at_checked(head.key_bytes())?;
        Some(Self { key, value, expires_ms })
    }

    pub(crate) fn found(&self) -> Found<'a> {
        Found { value: self.value, expires_ms: self.expires_ms }
    }
}

/// The key whose bytes these are.
pub(crate) fn key_of_bytes(bytes: &[u8], key_type: crate::KeyType) -> Option<Key<'_>> {
    match key_type {
        crate::KeyType::U64 => Some(Key::U64(u64::from_be_bytes(bytes.try_into().ok()?))),
        crate::KeyType::Bytes => Some(Key::Bytes(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyType;

    #[test]
    fn records_round_trip_and_damaged_lengths_are_refused() {
        let longest = vec![7; crate::MAX_KEY_BYTES];
        for (key, key_type) in [
            (Key::U64(258), KeyType::U64),
            (Key::Bytes(b""), KeyType::Bytes),
            (Key::Bytes(b"k"), KeyType::Bytes),
            (Key::Bytes(&longest), KeyType::Bytes),
        ] {
            for expires_ms in [None, Some(0), Some(u64::MAX)] {
                let bytes = KeyBytes::of(key);
                let front = Front::of(&bytes, NewValue { value: b"value", expires_ms });
                let record = [front.as_slice(), bytes.as_slice(), b"value".as_slice()].concat();
                let parsed = ValueRecord::parse(&record).unwrap();
                assert_eq!((parsed.value, parsed.expires_ms), (&b"value"[..], expires_ms));
                assert_eq!(key_of_bytes(parsed.key, key_type), Some(key));
            }
        }
        assert_eq!(ValueRecord::parse(b"\x04\x00\x00Vkey"), None, "longer than the record");
        assert_eq!(ValueRecord::parse(b"\x03\x00\x80Vkey"), None, "no room for the expiry");
        assert_eq!(ValueRecord::parse(b"\x03\x00\x00Wkey"), None, "no value");
        assert_eq!(ValueRecord::parse(b"\x03\x00\x40Vkey"), None, "an unknown bit");
        assert_eq!(ValueRecord::parse(b"\x01\x00"), None);
        assert_eq!(key_of_bytes(b"seven b", KeyType::U64), None);
    }
}
