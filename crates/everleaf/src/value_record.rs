//! The bytes of a value record: `[key length: u32, little-endian][key][value]`; a `u64` key is 8 bytes, big-endian.
//!
//! The key stands in the record so that recovery can find out whether a record is linked, and so that a damaged index word can never
//! show the value of another key.

use crate::Key;

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

    /// The length that stands before the key. Keys have at most 64 KiB.
    pub(crate) fn length_prefix(&self) -> [u8; 4] {
        (self.as_slice().len() as u32).to_le_bytes()
    }
}

/// A record taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueRecord<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> ValueRecord<'a> {
    /// None if the length of the key does not fit the record.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (key, value) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        Some(Self { key, value })
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
        for (key, key_type) in
            [(Key::U64(258), KeyType::U64), (Key::Bytes(b""), KeyType::Bytes), (Key::Bytes(b"k"), KeyType::Bytes)]
        {
            let bytes = KeyBytes::of(key);
            let record = [&bytes.length_prefix(), bytes.as_slice(), b"value".as_slice()].concat();
            let parsed = ValueRecord::parse(&record).unwrap();
            assert_eq!(parsed.value, b"value");
            assert_eq!(key_of_bytes(parsed.key, key_type), Some(key));
        }
        assert_eq!(ValueRecord::parse(b"\xff\xff\xff\xffkey"), None);
        assert_eq!(ValueRecord::parse(b"\x01\x00"), None);
        assert_eq!(key_of_bytes(b"seven b", KeyType::U64), None);
    }
}
