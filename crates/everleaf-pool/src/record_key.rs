//! The key of a record, whichever of the two kinds it is (`entry_head.rs`).

use std::cmp::Ordering;

use everleaf_pmem::{Media, PCell, PPtr, WORD};

use crate::entry_head::key_within;
use crate::record::Owner;
use crate::{Corruption, Pool, PoolError, Record};

/// The key of a record, loaded word by word.
struct KeyWords<'p> {
    /// From the word on in which the key begins.
    cells: &'p [PCell],
    /// Bits of that word in front of the key: 0 or 32.
    shift: u32,
    bytes: usize,
}

impl KeyWords<'_> {
    /// Eight bytes of the key; behind its end anything.
    #[inline(always)]
    fn word<M: Media>(&self, media: &M, index: usize) -> u64 {
        let load = |index: usize| self.cells.get(index).map_or(0, |cell| media.load(cell));
        if self.shift == 0 {
            return load(index);
        }
        load(index) >> self.shift | load(index + 1) << (u64::BITS - self.shift)
    }
}

impl<M: Media> Pool<M> {
    /// Where the key of a record is within its content, and the words of the record.
    #[inline(always)]
    fn key_of(
        &self,
        pointer: PPtr<Record>,
    ) -> Result<(std::ops::Range<usize>, &[PCell]), PoolError> {
        let (bytes, cells) = self.record_cells(pointer)?;
        let owner = Owner::of(self.media().load(&cells[0]));
        let head = match owner {
            Owner::Cell => 0,
            Owner::Entry => cells.get(1).map_or(0, |cell| self.media().load(cell) as u32),
        };
        let key = key_within(owner, bytes, head)
            .ok_or_else(|| PoolError::corrupt(pointer.offset(), Corruption::Record))?;
        Ok((key, &cells[1..]))
    }

    #[inline(always)]
    fn key_words(&self, pointer: PPtr<Record>) -> Result<KeyWords<'_>, PoolError> {
        let (key, cells) = self.key_of(pointer)?;
        let shift = (key.start % WORD) as u32 * u8::BITS;
        Ok(KeyWords {
            cells: cells.get(key.start / WORD..).unwrap_or(&[]),
            shift,
            bytes: key.len(),
        })
    }

    /// Whether the key of a record is exactly this, without the record's checksum. Nothing is lent:
    /// every word is loaded through the media, so the record may be freed and its block reused
    /// meanwhile. A caller that does not exclude that must find out afterwards whether it has
    /// happened, and then ignore what this returned.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the pointer leads to no record, its length does not fit its block,
    /// or it has no key.
    #[inline]
    pub fn key_is(&self, pointer: PPtr<Record>, expected: &[u8]) -> Result<bool, PoolError> {
        let (media, key) = (self.media(), self.key_words(pointer)?);
        if key.bytes != expected.len() {
            return Ok(false);
        }
        let (words, rest) = expected.as_chunks::<WORD>();
        let same = |(index, word): (usize, &[u8; WORD])| {
            key.word(media, index) == u64::from_le_bytes(*word)
        };
        let whole = words.iter().enumerate().all(same);
        Ok(whole
            && (rest.is_empty() || key.word(media, words.len()).to_le_bytes().starts_with(rest)))
    }

    /// How the key of a record compares with another, without the record's checksum. Nothing is
    /// lent, as in [`key_is`](Pool::key_is).
    ///
    /// # Errors
    /// As [`key_is`](Pool::key_is).
    #[inline]
    pub fn compare_key(&self, pointer: PPtr<Record>, other: &[u8]) -> Result<Ordering, PoolError> {
        let (media, key) = (self.media(), self.key_words(pointer)?);
        let common = key.bytes.min(other.len());
        for (index, part) in other[..common].chunks(WORD).enumerate() {
            let order = key.word(media, index).to_le_bytes()[..part.len()].cmp(part);
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(key.bytes.cmp(&other.len()))
    }

    /// A copy of the key of a record, without the record's checksum. Nothing is lent, as in
    /// [`key_is`](Pool::key_is).
    ///
    /// # Errors
    /// As [`key_is`](Pool::key_is).
    pub fn copy_key_unverified(&self, pointer: PPtr<Record>) -> Result<Box<[u8]>, PoolError> {
        let key = self.key_words(pointer)?;
        let words = (0..key.bytes.div_ceil(WORD)).map(|index| key.word(self.media(), index));
        let mut copy: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        copy.truncate(key.bytes);
        Ok(copy.into())
    }

    /// The key of a record, without the record's checksum. Only for
    /// [`RecordGuard`](crate::RecordGuard), which bounds how long it is lent.
    #[inline]
    pub(crate) fn lend_key_unverified(&self, pointer: PPtr<Record>) -> Result<&[u8], PoolError> {
        self.lend_part(pointer, self.key_of(pointer)?.0)
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Mapped, Region};

    use super::*;
    use crate::entry_head::EntryHead;
    use crate::{Format, KeyType};

    #[test]
    fn keys_are_found_behind_heads_and_in_records_of_their_own() {
        let format = Format { engine: "e".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
        let region = Region::anonymous(1 << 20, 1 << 20).unwrap();
        let pool = Pool::create(Mapped::new(region, &Cpu::detect()).unwrap(), &format).unwrap();
        let mut worker = pool.worker().unwrap();
        for length in 0..40 {
            let key: Vec<u8> = (0..length).map(|byte| 200 - byte).collect();
            let [head, expiring] =
                [false, true].map(|expires| EntryHead::of(key.len(), expires).to_bytes());
            let forms: [(Owner, Vec<&[u8]>); 3] = [
                (Owner::Entry, vec![&head, &key, b"value"]),
                (Owner::Entry, vec![&expiring, &[7; 8], &key, b"value"]),
                (Owner::Cell, vec![&key]),
            ];
            for (owner, parts) in forms {
                let record = worker.begin_doubt(PPtr::NULL, Some(&parts)).unwrap().unwrap();
                pool.write_record(record.offset(), owner, &parts).unwrap();
                let records = pool.pin();
                assert_eq!(records.key_unverified(record).unwrap(), key);
                assert_eq!(*pool.copy_key_unverified(record).unwrap(), key);
                let mut others = vec![key.clone(), [&key[..], &[0]].concat()];
                others.extend((0..key.len()).map(|end| key[..end].to_vec()));
                for at in 0..key.len() {
                    for byte in [0, 255] {
                        others.push(key.clone());
                        others.last_mut().unwrap()[at] = byte;
                    }
                }
                for other in others {
                    assert_eq!(pool.key_is(record, &other).unwrap(), key == other);
                    assert_eq!(pool.compare_key(record, &other).unwrap(), key.cmp(&other));
                }
                worker.end_doubt().unwrap();
            }
            // No head, one that says more than there is, and one that a value cannot have.
            for content in [&b"\x00\x00\x00W"[..], &expiring, b"\x01\x00\x00V", b"V"] {
                let record = worker.begin_doubt(PPtr::NULL, Some(&[content])).unwrap().unwrap();
                assert!(pool.key_is(record, &key).is_err());
                assert!(pool.pin().key_unverified(record).is_err());
                worker.end_doubt().unwrap();
            }
        }
    }
}
