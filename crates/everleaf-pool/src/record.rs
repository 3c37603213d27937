//! Records: byte strings that never change once published, checked whenever they are read.

use std::ops::Range;

use everleaf_pmem::{LINE, Media, PCell, PPtr, WORD, persistent, site};

use crate::classes::Class;
use crate::layout::CHUNK;
use crate::{Corruption, Pool, PoolError};

/// The longest record: 1 GiB of value, a key, and some more.
pub const MAX_RECORD_BYTES: u64 = (1 << 30) + (1 << 17);

/// Bytes before a record's content: its length (low half) and the CRC-32C of length and content
/// (high half).
pub(crate) const RECORD_HEADER_BYTES: u64 = WORD as u64;

persistent! {
    /// A byte string in the pool, reached through the [`Pool`] only. A record is aligned to 8
    /// bytes; the alignment of this type, which exists to give pointers a type, is nominal.
    pub struct Record {
        /// Low half: length of the content, and bit 31 if a cell of a structure owns the record
        /// and no entry of an index leads to it. High half: CRC-32C of the low half's 4 bytes and
        /// the content.
        pub header: PCell,
    }
}

/// Whose a record is: recovery asks an index about those of entries, and about no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An entry of an index, or a batch or an epoch that ends before anything is asked.
    Entry,
    /// A cell of a structure: a key's record, or a bound's.
    Cell,
}

impl Owner {
    const BIT: u32 = 1 << 31;

    /// The low half of the header of a record of so many bytes.
    const fn low_half(self, bytes: u32) -> u32 {
        match self {
            Self::Entry => bytes,
            Self::Cell => bytes | Self::BIT,
        }
    }

    /// Of a header.
    pub const fn of(header: u64) -> Self {
        if header as u32 & Self::BIT == 0 { Self::Entry } else { Self::Cell }
    }
}

/// The length in a header.
#[inline(always)]
pub(crate) const fn length_in(header: u64) -> u64 {
    (header as u32 & !Owner::BIT) as u64
}

/// The checksum in a header.
pub(crate) const fn checksum_in(header: u64) -> u32 {
    (header >> 32) as u32
}

/// The checksum of a record before its content.
pub(crate) fn sum_of_low_half(header: u64) -> u32 {
    Checksum::of_low_half(header as u32).0
}

const _: () = assert!(MAX_RECORD_BYTES < Owner::BIT as u64);

/// Bytes of content that are put together at a time when a record is written.
const STAGED_BYTES: usize = 8 * LINE;

/// The checksum of a record, part by part. CRC-32C and not the more common CRC-32, because
/// processors have an instruction for it: a short record is checked in the time of a hit in the
/// cache, and every reading checks one.
#[derive(Clone, Copy)]
struct Checksum(u32);

/// What each byte of a low half adds to its checksum: a look at these is shorter than a call for
/// four bytes, and every reading of a record begins with them.
static LOW_HALVES: [[u32; 256]; 4] = low_halves();

const fn low_halves() -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut at = 0;
    while at < 4 * 256 {
        let (place, byte) = (at / 256, at % 256);
        let (mut sum, mut bit) = ((byte as u32) << (8 * place), 0);
        while bit < 32 {
            sum = sum >> 1 ^ if sum & 1 == 1 { CASTAGNOLI } else { 0 };
            bit += 1;
        }
        tables[place][byte] = sum;
        at += 1;
    }
    tables
}

/// The polynomial of CRC-32C, its bits reversed.
const CASTAGNOLI: u32 = 0x82f6_3b78;

impl Checksum {
    #[inline]
    fn of_low_half(low: u32) -> Self {
        let bytes = (!low).to_le_bytes();
        let parts = LOW_HALVES.iter().zip(bytes).map(|(table, byte)| table[usize::from(byte)]);
        Self(!parts.fold(0, |sum, part| sum ^ part))
    }

    #[inline]
    fn and(self, content: &[u8]) -> Self {
        Self(crc32c::crc32c_append(self.0, content))
    }
}

/// Whether content fits its header.
#[inline]
fn is_intact(header: u64, content: &[u8]) -> bool {
    Checksum::of_low_half(header as u32).and(content).0 == checksum_in(header)
}

/// Bytes of the concatenated parts, if a record may have so many.
pub(crate) fn content_bytes(parts: &[&[u8]]) -> Result<u64, PoolError> {
    let bytes = parts.iter().map(|part| part.len() as u64).sum();
    if bytes > MAX_RECORD_BYTES {
        return Err(PoolError::TooLarge { bytes, max_bytes: MAX_RECORD_BYTES });
    }
    Ok(bytes)
}

impl<M: Media> Pool<M> {
    /// Writes a record into an unpublished block and flushes its lines; durable at the next fence.
    /// One flush a line.
    pub(crate) fn write_record(
        &self,
        offset: u64,
        owner: Owner,
        parts: &[&[u8]],
    ) -> Result<(), PoolError> {
        let cells = self.store_record(offset, owner, parts)?;
        let in_first_line = (LINE / WORD - (offset as usize % LINE) / WORD).min(cells.len());
        let (first, others) = cells.split_at(in_first_line);
        for line in std::iter::once(first).chain(others.chunks(LINE / WORD)) {
            self.media().flush(site!("pool.record.write"), &line[0]);
        }
        Ok(())
    }

    /// Writes a record into an unpublished block, without a flush; its cells.
    pub(crate) fn store_record(
        &self,
        offset: u64,
        owner: Owner,
        parts: &[&[u8]],
    ) -> Result<&[PCell], PoolError> {
        let bytes = content_bytes(parts)?;
        let low_half = owner.low_half(bytes as u32);
        let words = (RECORD_HEADER_BYTES + bytes).div_ceil(WORD as u64) as usize;
        let cells = self
            .media()
            .region()
            .cells(offset, words)
            .ok_or_else(|| PoolError::corrupt(offset, Corruption::Pointer))?;
        let (mut staged, mut filled) = ([0u8; STAGED_BYTES], 0);
        let (mut checksum, mut rest) = (Checksum::of_low_half(low_half), &cells[1..]);
        let mut write = |content: &mut [u8; STAGED_BYTES], filled: usize| {
            let (words, behind) = rest.split_at(filled.div_ceil(WORD));
            content[filled..words.len() * WORD].fill(0);
            for (cell, word) in words.iter().zip(content.as_chunks::<WORD>().0) {
                self.media().store(cell, u64::from_le_bytes(*word));
            }
            rest = behind;
            checksum = checksum.and(&content[..filled]);
        };
        for part in parts {
            let mut left = *part;
            while !left.is_empty() {
                let (now, later) = left.split_at(left.len().min(STAGED_BYTES - filled));
                staged[filled..filled + now.len()].copy_from_slice(now);
                (filled, left) = (filled + now.len(), later);
                if filled == STAGED_BYTES {
                    write(&mut staged, filled);
                    filled = 0;
                }
            }
        }
        write(&mut staged, filled);
        self.media().store(&cells[0], u64::from(low_half) | u64::from(checksum.0) << 32);
        Ok(cells)
    }

    /// The bytes of a record, after a check of its place, its length and its checksum. Only for
    /// [`RecordGuard`](crate::RecordGuard), which bounds how long they are lent.
    pub(crate) fn lend_record(&self, pointer: PPtr<Record>) -> Result<&[u8], PoolError> {
        let (bytes, cells) = self.record_cells(pointer)?;
        let content = self.lend_part(pointer, 0..bytes)?;
        if !is_intact(self.media().load(&cells[0]), content) {
            return Err(PoolError::corrupt(pointer.offset(), Corruption::Record));
        }
        Ok(content)
    }

    /// Like [`lend_record`](Pool::lend_record) without the checksum.
    #[inline]
    pub(crate) fn lend_record_unverified(&self, pointer: PPtr<Record>) -> Result<&[u8], PoolError> {
        self.lend_part(pointer, 0..self.record_cells(pointer)?.0)
    }

    /// A part of a record's bytes, which the caller knows to lie within it; without the checksum.
    #[inline]
    pub(crate) fn lend_part(
        &self,
        pointer: PPtr<Record>,
        part: Range<usize>,
    ) -> Result<&[u8], PoolError> {
        let start = pointer.offset() + RECORD_HEADER_BYTES + part.start as u64;
        // SAFETY: the bytes lie within one block (or run) of a record chunk; cells are never
        // written there but by `write_record`, before the block is published. The caller is a
        // `RecordGuard`, so no block that was published when it was made is used again before the
        // slice is gone (`chunks/deferred_frees.rs`).
        let content = unsafe { self.media().region().bytes(start, part.len()) };
        self.note_record_read(pointer.offset(), part.end as u64);
        content.ok_or_else(|| PoolError::corrupt(pointer.offset(), Corruption::Record))
    }

    /// The words of a record, loaded one by one: its length in bytes, and its cells.
    #[inline]
    pub(crate) fn record_cells(
        &self,
        pointer: PPtr<Record>,
    ) -> Result<(usize, &[PCell]), PoolError> {
        let offset = pointer.offset();
        let max_bytes = self.record_block_bytes(offset)?;
        let header = self
            .media()
            .region()
            .cells(offset, 1)
            .ok_or_else(|| PoolError::corrupt(offset, Corruption::Pointer))?;
        let bytes = length_in(self.media().load(&header[0]));
        if bytes > max_bytes - RECORD_HEADER_BYTES {
            return Err(PoolError::corrupt(offset, Corruption::Record));
        }
        let words = (RECORD_HEADER_BYTES + bytes).div_ceil(WORD as u64) as usize;
        let cells = self
            .media()
            .region()
            .cells(offset, words)
            .ok_or_else(|| PoolError::corrupt(offset, Corruption::Pointer))?;
        Ok((bytes as usize, cells))
    }

    /// A copy of the bytes of a record, after a check of its checksum. Nothing is lent, as in
    /// [`key_is`](Pool::key_is).
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the pointer leads to no record or the bytes do not match their
    /// checksum.
    pub fn copy_record(&self, pointer: PPtr<Record>) -> Result<Box<[u8]>, PoolError> {
        let (bytes, cells) = self.record_cells(pointer)?;
        let header = self.media().load(&cells[0]);
        let mut copy: Vec<u8> =
            cells[1..].iter().flat_map(|cell| self.media().load(cell).to_le_bytes()).collect();
        copy.truncate(bytes);
        if is_intact(header, &copy) {
            Ok(copy.into())
        } else {
            Err(PoolError::corrupt(pointer.offset(), Corruption::Record))
        }
    }

    /// Checks the checksum of a record. Nothing is lent, as in [`key_is`](Pool::key_is).
    ///
    /// # Errors
    /// As [`copy_record`](Pool::copy_record); so also when the block is reused meanwhile.
    pub fn verify_record(&self, pointer: PPtr<Record>) -> Result<(), PoolError> {
        let (bytes, cells) = self.record_cells(pointer)?;
        let header = self.media().load(&cells[0]);
        let mut checksum = Checksum::of_low_half(header as u32);
        let mut left = bytes;
        let mut line = [0; LINE];
        for cells in cells[1..].chunks(LINE / WORD) {
            for (place, cell) in line.chunks_exact_mut(WORD).zip(cells) {
                place.copy_from_slice(&self.media().load(cell).to_le_bytes());
            }
            let here = left.min(LINE);
            checksum = checksum.and(&line[..here]);
            left -= here;
        }
        if checksum.0 == checksum_in(header) {
            Ok(())
        } else {
            Err(PoolError::corrupt(pointer.offset(), Corruption::Record))
        }
    }

    /// A copy of the record in a block of `block_bytes` bytes, whose chunk's shadow is not asked:
    /// opening a pool looks at blocks before it is known which of them are allocated. And whose it
    /// is.
    pub(crate) fn copy_within(
        &self,
        offset: u64,
        block_bytes: u64,
    ) -> Result<(Owner, Vec<u8>), PoolError> {
        let damaged = || PoolError::corrupt(offset, Corruption::Record);
        let cells = self
            .media()
            .region()
            .cells(offset, (block_bytes / WORD as u64) as usize)
            .ok_or_else(damaged)?;
        let header = self.media().load(cells.first().ok_or_else(damaged)?);
        let bytes = length_in(header) as usize;
        if bytes as u64 > MAX_RECORD_BYTES {
            return Err(damaged());
        }
        let words = cells[1..].get(..bytes.div_ceil(WORD)).ok_or_else(damaged)?;
        let mut content: Vec<u8> =
            words.iter().flat_map(|cell| self.media().load(cell).to_le_bytes()).collect();
        content.truncate(bytes);
        if is_intact(header, &content) { Ok((Owner::of(header), content)) } else { Err(damaged()) }
    }

    /// Prefetches what tells the allocator of the block of a record: for who is about to replace
    /// the record. Of any other offset it may prefetch something else, or nothing.
    #[inline]
    pub fn prefetch_block(&self, record: PPtr<Record>) {
        if !M::COUNTS_READS
            && let Ok(line) = self.chunks().line(self.media(), record.offset() / CHUNK)
        {
            self.media().prefetch(line);
        }
    }

    /// Prefetches a record behind its first line, which is read, and what tells the allocator of
    /// its block: for who is about to read it, or to replace it.
    pub fn prefetch_record(&self, record: PPtr<Record>) {
        /// The rest of what is longer comes by itself.
        const LINES: u64 = 8;
        let (region, offset) = (self.media().region(), record.offset());
        let Some([header]) = region.cells(offset, 1).filter(|_| !M::COUNTS_READS) else { return };
        let lines = length_in(self.media().load(header)).div_ceil(LINE as u64).min(LINES);
        for line in 1..=lines {
            if let Some([cell]) = region.cells(offset.saturating_add(line * LINE as u64), 1) {
                self.media().prefetch(cell);
            }
        }
        self.prefetch_block(record);
    }

    /// Lets counting and tracing media know of the lines behind a lent slice.
    #[inline(always)]
    fn note_record_read(&self, offset: u64, bytes: u64) {
        if M::COUNTS_READS {
            let words = (RECORD_HEADER_BYTES + bytes).div_ceil(WORD as u64) as usize;
            for cell in self.media().region().cells(offset, words).unwrap_or_default() {
                self.media().load(cell);
            }
        }
    }

    /// Bytes of the block that starts at `offset`, which must belong to a record.
    #[inline]
    fn record_block_bytes(&self, offset: u64) -> Result<u64, PoolError> {
        let class = self.chunks().record_class(self.media(), offset)?;
        match class {
            Some(class) if Class::begins_at(class.index() as u8, offset) => Ok(class.block_bytes()),
            Some(_) => Err(PoolError::corrupt(offset, Corruption::Pointer)),
            None => self.chunks().record_run_bytes(self.media(), offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_low_half_is_that_of_its_bytes() {
        for low in (0..32).map(|bit| 1 << bit).chain([0, 116, 4096, 0x8000_0010, u32::MAX]) {
            assert_eq!(Checksum::of_low_half(low).0, crc32c::crc32c(&low.to_le_bytes()), "{low}");
        }
    }
}
