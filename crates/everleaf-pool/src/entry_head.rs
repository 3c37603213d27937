//! The front of an entry's record: where its key is. A record that an entry of an index leads to is
//! `[head: u32][expiry: u64, where the head says so][key][value]`, little-endian; a record that a
//! cell owns is a key and nothing else. So whoever has a record that has a key finds the key,
//! without being told which of the two it is.

use std::ops::Range;

use crate::record::Owner;

/// The first four bytes of an entry's record: the length of the key in the low 17 bits, bit 23 for
/// an expiry, the high byte to say that a value stands behind the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead(u32);

impl EntryHead {
    const VALUE: u32 = (b'V' as u32) << 24;
    const EXPIRES: u32 = 1 << 23;
    const KEY_BYTES: u32 = (1 << 17) - 1;

    /// Of a record with a key of so many bytes, at most 64 KiB.
    pub const fn of(key_bytes: usize, expires: bool) -> Self {
        let expires = if expires { Self::EXPIRES } else { 0 };
        Self(Self::VALUE | expires | (key_bytes as u32 & Self::KEY_BYTES))
    }

    /// None if it is no head: bits that this version does not know are no head of this version.
    #[inline(always)]
    pub const fn read(word: u32) -> Option<Self> {
        if word & !(Self::EXPIRES | Self::KEY_BYTES) == Self::VALUE {
            Some(Self(word))
        } else {
            None
        }
    }

    /// As it stands in the record.
    pub const fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    /// Whether an expiry stands between the head and the key.
    pub const fn expires(self) -> bool {
        self.0 & Self::EXPIRES != 0
    }

    /// Where in the record the key is.
    #[inline(always)]
    pub const fn key(self) -> Range<usize> {
        let start = if self.expires() { 12 } else { 4 };
        start..start + (self.0 & Self::KEY_BYTES) as usize
    }
}

/// Where in its content the key of a record is, of which these are the length and the first four
/// bytes; none if it has none.
#[inline(always)]
pub(crate) fn key_within(owner: Owner, content_bytes: usize, head: u32) -> Option<Range<usize>> {
    match owner {
        Owner::Cell => Some(0..content_bytes),
        Owner::Entry => {
            EntryHead::read(head).map(EntryHead::key).filter(|k| k.end <= content_bytes)
        }
    }
}
