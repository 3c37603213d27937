//! The bytes of a value record: `[head: u32][expiry: u64, where the head says so][key][value]`,
//! little-endian; a `u64` key is 8 bytes, big-endian.
//!
//! The key stands in the record so that recovery can find out whether a record is linked, and so
//! that a damaged index word can never show the value of another key; and an index of one record an
//! entry has it nowhere else. The pool knows the head, [`EntryHead`]: there keys are compared.

use everleaf_pool::EntryHead;

use crate::Key;
use crate::core::value::TimedValue;

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

/// What stands before the key.
pub(crate) struct Front {
    bytes: [u8; 12],
    length: usize,
}

impl Front {
    pub(crate) fn of(key: &KeyBytes<'_>, new: TimedValue<'_>) -> Self {
        let mut bytes = [0; 12];
        let head = EntryHead::of(key.as_slice().len(), new.expires_ms.is_some());
        bytes[..4].copy_from_slice(&head.to_bytes());
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
    /// None if this is not a value, or the length of the key does not fit the record.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, expiry) = bytes.split_first_chunk::<4>()?;
        let head = EntryHead::read(u32::from_le_bytes(*head))?;
        let expires = if head.expires() { expiry.first_chunk::<8>() } else { None };
        let (key, value) = (bytes.get(head.key())?, bytes.get(head.key().end..)?);
        Some(Self { key, value, expires_ms: expires.map(|bytes| u64::from_le_bytes(*bytes)) })
    }

    pub(crate) fn found(&self) -> TimedValue<'a> {
        TimedValue { value: self.value, expires_ms: self.expires_ms }
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
                let front = Front::of(&bytes, TimedValue { value: b"value", expires_ms });
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
