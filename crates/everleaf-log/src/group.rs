//! The bytes of a group.
//!
//! ```text
//! header    96 bytes, see `Header`; its CRC covers the payload's
//! payload   what is new in lines, see `payload`
//! ```
//!
//! Numbers are little-endian. A group begins on a block of 4096 bytes.

use crate::disk::{BLOCK, to_block};

/// The first eight bytes of a group.
const MAGIC: u64 = u64::from_le_bytes(*b"ELgroup2");
/// Bytes of a header.
pub(crate) const HEADER: usize = 96;
/// Words of a line.
pub(crate) const WORDS: usize = 8;

/// What is new in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    /// Offset in the pool divided by 64.
    pub line: u64,
    /// Of captures of one line, the greater is the later.
    pub order: u64,
    /// Bit i: word i is given.
    pub mask: u8,
    pub words: [u64; WORDS],
}

/// What stands before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The pool's.
    pub uuid: u128,
    /// Random; one for each time the pool is opened to be written.
    pub session: u64,
    /// The session before.
    pub previous_session: u64,
    /// Whether the control block of this session is durable: so it may have acknowledged writes.
    pub served: bool,
    /// Whether it is the last one of its segment: the next segment is there, durably.
    pub closes: bool,
    /// The segment that it stands in.
    pub segment: u64,
    /// One more than that of the group before.
    pub number: u64,
    /// The checksum of the group before.
    pub before: u32,
    /// The greatest number that was known to be durable when it was written.
    pub synced_through: u64,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// CRC of the payload.
    pub payload_crc: u32,
}

impl Header {
    /// The bytes, and the group's checksum, which is their last four.
    pub(crate) fn encode(&self) -> ([u8; HEADER], u32) {
        let mut bytes = [0; HEADER];
        let mut at = 0;
        let mut put = |word: u64| {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            at += 8;
        };
        put(MAGIC);
        put(self.uuid as u64);
        put((self.uuid >> 64) as u64);
        put(self.session);
        put(self.previous_session);
        put(u64::from(self.served) | u64::from(self.closes) << 1);
        put(self.segment);
        put(self.number);
        put(self.synced_through);
        put(self.payload_bytes);
        put(u64::from(self.before) | u64::from(self.payload_crc) << 32);
        let crc = crc32c::crc32c(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    /// The header in `bytes` and its checksum; none if there is no valid one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, u32)> {
        let (bytes, _) = bytes.split_first_chunk::<HEADER>()?;
        let crc = u32::from_le_bytes(*bytes.last_chunk()?);
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next();
        if next()? != MAGIC || crc32c::crc32c(&bytes[..HEADER - 4]) != crc {
            return None;
        }
        let uuid = u128::from(next()?) | u128::from(next()?) << 64;
        let (session, previous_session, flags) = (next()?, next()?, next()?);
        let (segment, number, synced_through) = (next()?, next()?, next()?);
        let (payload_bytes, crcs) = (next()?, next()?);
        let (before, payload_crc) = (crcs as u32, (crcs >> 32) as u32);
        let header = Self {
            uuid,
            session,
            previous_session,
            served: flags & 1 != 0,
            closes: flags & 2 != 0,
            segment,
            number,
            before,
            synced_through,
            payload_bytes,
            payload_crc,
        };
        Some((header, crc))
    }

    /// Bytes that the group takes, to the next block; none for a length that no group has.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        let bytes = self.payload_bytes.checked_add(HEADER as u64)?;
        (bytes <= u64::MAX - BLOCK).then(|| to_block(bytes))
    }
}

/// One capture a line, lines ascending: of each word the last value.
pub(crate) fn merge(captures: &mut Vec<Capture>) {
    captures.sort_unstable_by_key(|capture| (capture.line, capture.order));
    captures.dedup_by(|later, earlier| {
        let same = later.line == earlier.line;
        if same {
            for word in (0..WORDS).filter(|word| later.mask & 1 << word != 0) {
                earlier.words[word] = later.words[word];
            }
            earlier.mask |= later.mask;
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(line: u64, order: u64, mask: u8, value: u64) -> Capture {
        Capture { line, order, mask, words: [value; WORDS] }
    }

    #[test]
    fn captures_of_a_line_become_one_with_the_last_value_of_each_word() {
        let mut captures =
            vec![capture(7, 3, 0b10, 30), capture(5, 9, 1, 5), capture(7, 1, 0b11, 10)];
        merge(&mut captures);
        assert_eq!(captures.len(), 2);
        assert_eq!((captures[0].line, captures[1].line, captures[1].mask), (5, 7, 0b11));
        assert_eq!(captures[1].words[..2], [10, 30]);
    }

    #[test]
    fn a_header_round_trips_and_every_flipped_bit_is_seen() {
        let header = Header {
            uuid: 1 << 100 | 7,
            session: 2,
            previous_session: 3,
            served: true,
            closes: false,
            segment: 4,
            number: 5,
            before: 6,
            synced_through: 4,
            payload_bytes: 5000,
            payload_crc: 8,
        };
        let (bytes, crc) = header.encode();
        assert_eq!(Header::decode(&bytes), Some((header, crc)));
        let last = Header { served: false, closes: true, ..header };
        assert_eq!(Header::decode(&last.encode().0).unwrap().0, last);
        assert_eq!(header.total_bytes(), Some(8192));
        for bit in 0..HEADER * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&flipped), None, "bit {bit}");
        }
    }
}
