//! All records that can be found in a pool, however much of its chunk table is damaged.
//!
//! A chunk whose line is damaged may hold blocks of any size, or begin a run, of which only the
//! header of its record tells the length. That header may be anything: to check every length that
//! stands at the beginning of such a chunk, the pool would be read as often as it has such chunks.
//! So the checksum of a long record is taken from sums over all bytes before its beginning and
//! before its end, which are kept for each chunk: each byte is read once.

use std::ops::ControlFlow;

use everleaf_pmem::{Media, WORD};

use crate::chunks::Chunks;
use crate::classes::{Class, Usage};
use crate::layout::CHUNK;
use crate::record::{Owner, RECORD_HEADER_BYTES, checksum_in, length_in, sum_of_low_half};
use crate::{MAX_RECORD_BYTES, Pool, PoolError};

/// What a search for records meets.
#[derive(Debug)]
pub enum Found {
    /// A copy of a record.
    Record(Vec<u8>),
    /// Why a record, or a chunk, cannot be read.
    Damage(PoolError),
    /// A chunk that is in use was looked through.
    Chunk,
}

type Visit<'v> = dyn FnMut(Found) -> ControlFlow<()> + 'v;

impl<M: Media> Pool<M> {
    /// Shows copies of all allocated records that no cell owns, as the chunk table alone has them,
    /// until `visit` breaks. Of a chunk whose line is damaged every record that matches its
    /// checksum is shown, last of all, whether it was in use or not. Reads the pool once, and what
    /// is behind the first damaged line at most three times.
    pub fn for_each_record(&self, mut visit: impl FnMut(Found) -> ControlFlow<()>) {
        let (mut damaged, mut flow) = (Vec::new(), ControlFlow::Continue(()));
        self.chunks().for_each_usage(self.media(), |chunk, line, usage| {
            if flow.is_continue() {
                let mut visit = |found| {
                    if flow.is_continue() {
                        flow = visit(found);
                    }
                };
                let looked = usage.and_then(|usage| match usage {
                    Usage::RecordRun(chunks) => {
                        self.show(chunk * CHUNK, chunks * CHUNK, &mut visit);
                        Ok(())
                    }
                    Usage::RecordBlocks(class) => {
                        let bytes = class.block_bytes();
                        Chunks::for_each_block(self.media(), chunk, line, class, |offset| {
                            self.show(offset, bytes, &mut visit);
                        })
                    }
                    _ => Ok(()),
                });
                if let Err(error) = looked {
                    damaged.push(chunk);
                    visit(Found::Damage(error));
                }
                visit(Found::Chunk);
            }
        });
        if flow.is_continue() {
            // That it was ended early is known to whoever has ended it.
            let _ = self.find_records(&damaged, &mut visit);
        }
    }

    fn show(&self, offset: u64, bytes: u64, visit: &mut impl FnMut(Found)) {
        match self.copy_within(offset, bytes) {
            Ok((Owner::Cell, _)) => {}
            Ok((Owner::Entry, content)) => visit(Found::Record(content)),
            Err(error) => visit(Found::Damage(error)),
        }
    }

    /// The records that begin in some chunks, which ascend: blocks of any size, or runs.
    fn find_records(&self, chunks: &[u64], visit: &mut Visit<'_>) -> ControlFlow<()> {
        let step = Class::sizes()[0]; // Of which all sizes are multiples.
        let mut sums =
            Sums { pool: self, first: chunks.first().copied().unwrap_or(0), upto: vec![0] };
        let mut offset = 0;
        for start in chunks.iter().map(|chunk| chunk * CHUNK) {
            // A run that was found may have taken it.
            offset = offset.max(start);
            while offset < start + CHUNK {
                let whole = offset == start && sums.is_long_record(offset);
                let end = if whole { self.chunks().end() * CHUNK } else { start + CHUNK };
                let found = self.copy_within(offset, end - offset).ok();
                let bytes = found.as_ref().map_or(0, |(_, content)| WORD + content.len()) as u64;
                if let Some((Owner::Entry, content)) = found {
                    visit(Found::Record(content))?;
                }
                offset += bytes.next_multiple_of(step).max(step);
            }
            visit(Found::Chunk)?;
        }
        ControlFlow::Continue(())
    }
}

/// Checksums of all bytes from one chunk on.
struct Sums<'p, M: Media> {
    pool: &'p Pool<M>,
    first: u64,
    /// Of each chunk, the first one first, the CRC-32C of what is before it.
    upto: Vec<u32>,
}

impl<M: Media> Sums<'_, M> {
    /// Whether a record begins at `offset` that is longer than a chunk.
    fn is_long_record(&mut self, offset: u64) -> bool {
        let Some([header]) = self.pool.media().region().cells(offset, 1) else { return false };
        let header = self.pool.media().load(header);
        let (bytes, start) = (length_in(header), offset + RECORD_HEADER_BYTES);
        let may_be = (CHUNK..=MAX_RECORD_BYTES).contains(&(start - offset + bytes))
            && start + bytes <= self.pool.chunks().end() * CHUNK;
        let sums = || Some((self.before(start)?, self.before(start + bytes)?));
        let Some((before, to)) = may_be.then(sums).flatten() else { return false };
        // A checksum of two parts is linear in that of the first: the low half of the header takes
        // the place of all that is before the content.
        let other = crc32c::crc32c_combine(before ^ sum_of_low_half(header), 0, bytes as usize);
        to ^ other == checksum_in(header)
    }

    /// The sum of what is before `offset`, which is not before the first chunk.
    fn before(&mut self, offset: u64) -> Option<u32> {
        let chunk = offset / CHUNK;
        let mut next = self.first + self.upto.len() as u64 - 1;
        while next < chunk {
            self.upto.push(self.and(*self.upto.last()?, next * CHUNK, CHUNK as usize)?);
            next += 1;
        }
        let sum = *self.upto.get((chunk - self.first) as usize)?;
        self.and(sum, chunk * CHUNK, (offset % CHUNK) as usize)
    }

    /// A sum, and so many bytes of a chunk more.
    fn and(&self, sum: u32, offset: u64, bytes: usize) -> Option<u32> {
        let cells = self.pool.media().region().cells(offset, bytes.div_ceil(WORD))?;
        let mut content = [0; CHUNK as usize];
        for (place, cell) in content.as_chunks_mut::<WORD>().0.iter_mut().zip(cells) {
            *place = self.pool.media().load(cell).to_le_bytes();
        }
        Some(crc32c::crc32c_append(sum, &content[..bytes]))
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Mapped, Region};

    use super::*;
    use crate::{Format, KeyType};

    /// A pool whose chunk table says nothing any more.
    fn without_a_table(bytes: u64) -> std::sync::Arc<Pool<Mapped>> {
        let engine = "example".to_owned();
        let format = Format { engine, key_type: KeyType::Bytes, parameters: [0; 8] };
        let region = Region::anonymous(bytes, bytes).unwrap();
        let pool = Pool::create(Mapped::new(region, &Cpu::detect()).unwrap(), &format).unwrap();
        for chunk in 4..pool.chunks().end() {
            let line = 3 * CHUNK + (chunk - 3) * 64;
            pool.fill(everleaf_pmem::site!("test"), line, 64, 0).unwrap();
        }
        pool
    }

    fn found_in(pool: &Pool<Mapped>) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        pool.for_each_record(|found| {
            if let Found::Record(content) = found {
                records.push(content);
            }
            ControlFlow::Continue(())
        });
        records
    }

    #[test]
    fn records_of_every_length_are_found_without_a_table() {
        let pool = without_a_table(1 << 20);
        let (mut chunk, mut written) = (8, Vec::new());
        for bytes in [0, 1, 4087, 4088, 4089, 4096, 8184, 8185, 50_001, 300_000] {
            let content: Vec<u8> = (0..bytes).map(|at| (at * 31 % 251) as u8 | 1).collect();
            pool.write_record(chunk * CHUNK, Owner::Entry, &[&content]).unwrap();
            chunk += (8 + bytes as u64).div_ceil(CHUNK);
            written.push(content);
        }
        assert_eq!(found_in(&pool), written);
    }

    #[test]
    fn each_byte_is_summed_up_once_whatever_lengths_stand_at_the_beginning_of_chunks() {
        let pool = without_a_table(4 << 20);
        let end = pool.chunks().end();
        for chunk in 4 + end / 64..end {
            let header = ((end - chunk - 1) * CHUNK) | (7 << 32);
            let cell = &pool.media().region().cells(chunk * CHUNK, 1).unwrap()[0];
            pool.media().store(cell, header);
        }
        let mut sums = Sums { pool: &*pool, first: 4, upto: vec![0] };
        assert!((4..end).all(|chunk| !sums.is_long_record(chunk * CHUNK)));
        assert!(sums.upto.len() as u64 <= end);
        assert!(found_in(&pool).is_empty());
    }
}
