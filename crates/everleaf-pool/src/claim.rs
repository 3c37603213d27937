//! Places that are to become free: which keys lead to what lies there.

use std::sync::Arc;

use everleaf_pmem::{Media, PPtr};

use crate::chunks::{Chunks, ClaimedChunks};
use crate::classes::Usage;
use crate::layout::CHUNK;
use crate::record::RECORD_HEADER_BYTES;
use crate::{Pool, PoolError, Worker, Workers};

/// Some chunks in a row that hold nothing but records, and that no worker allocates from until this
/// is dropped. What is empty by then is free.
pub struct Claim<M: Media> {
    pool: Arc<Pool<M>>,
    claimed: ClaimedChunks,
}

/// Chunks of a record of so many bytes.
fn chunks_of(bytes: u64) -> u64 {
    bytes.saturating_add(RECORD_HEADER_BYTES).div_ceil(CHUNK)
}

impl<M: Media> Claim<M> {
    /// Claims a place where a record of so many bytes fits when the records there are gone. The
    /// search begins at the offset `from` and goes once around. None: there is no such place.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the table of chunks is damaged.
    pub fn of(pool: &Arc<Pool<M>>, from: u64, bytes: u64) -> Result<Option<Self>, PoolError> {
        let claimed = pool.chunks().claim(pool.media(), from / CHUNK, chunks_of(bytes))?;
        Ok(claimed.map(|claimed| Self { pool: Arc::clone(pool), claimed }))
    }

    /// Whether a record of so many bytes would fit if it were the only one.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn is_possible(pool: &Pool<M>, bytes: u64) -> Result<bool, PoolError> {
        pool.chunks().has_place(pool.media(), chunks_of(bytes))
    }

    /// Shows the keys of the records that lie there, unverified, as far as they can be read. One
    /// that is freed meanwhile may be among them.
    pub fn for_each_key(&self, mut visit: impl FnMut(&[u8])) {
        let (pool, chunks) = (&self.pool, self.claimed.chunks.clone());
        let records = pool.pin();
        let mut show = |offset| records.key_unverified(PPtr::at(offset)).map(&mut visit);
        pool.chunks().for_each_usage_in(pool.media(), chunks, |chunk, line, usage| {
            // What is damaged is left for a check.
            match usage {
                Ok(Usage::RecordRun(_)) => _ = show(chunk * CHUNK),
                Ok(Usage::RecordBlocks(class)) => {
                    let _ = Chunks::for_each_block(pool.media(), chunk, line, class, |offset| {
                        let _ = show(offset);
                    });
                }
                _ => {}
            }
        });
    }
}

impl<M: Media> Drop for Claim<M> {
    fn drop(&mut self) {
        // A damaged table is reported by the next operation or check.
        let _ = self.pool.chunks().end_claim(self.pool.media(), &self.claimed);
    }
}

impl<M: Media> Worker<M> {
    /// Gives up the chunks that this worker allocates from, so that others can claim them.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub(crate) fn give_up_chunks(&mut self) -> Result<(), PoolError> {
        let owned: Vec<u64> = self.owned.iter_mut().flatten().filter_map(Option::take).collect();
        let (chunks, media) = (self.pool.chunks(), self.pool.media());
        owned.iter().try_for_each(|chunk| chunks.disown(media, *chunk))?;
        chunks.disown_spares(media, self.slot)
    }
}

impl<M: Media> Workers<M> {
    /// Those that no thread has give up the chunks that they allocate from.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the allocator's words are damaged.
    pub fn give_up_chunks(&self) -> Result<(), PoolError> {
        self.for_each_idle(Worker::give_up_chunks)
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Mapped, Region};

    use super::*;
    use crate::{Format, KeyType};

    #[test]
    fn a_free_chunk_is_not_claimed_twice() {
        let media =
            Mapped::new(Region::anonymous(64 << 10, 1 << 20).unwrap(), &Cpu::detect()).unwrap();
        let format = Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
        let pool = Pool::create(media, &format).unwrap();
        let mut worker = pool.worker().unwrap();
        let mut link = |old, parts: Option<&[&[u8]]>| {
            let new = worker.begin_link(old, parts).unwrap();
            worker.end_link(true).unwrap();
            new
        };
        // Two with chunks of their own, and two chunks between them that become free again.
        let [last, between, first] =
            [100, 5000, 1000].map(|bytes| link(PPtr::NULL, Some(&[&vec![7; bytes]])));
        let [first_chunk, free_chunk] = [first, between].map(|record| record.offset() / CHUNK);
        assert_eq!((first_chunk + 1, free_chunk + 2), (free_chunk, last.offset() / CHUNK));
        link(between, None);
        drop(worker);
        let claim = |from| Claim::of(&pool, from * CHUNK, CHUNK + 100).unwrap().unwrap();
        let claimed = claim(first_chunk);
        assert_eq!(claimed.claimed.chunks, first_chunk..free_chunk + 1);
        assert_eq!(claim(free_chunk).claimed.chunks, free_chunk + 1..free_chunk + 3);
        drop(claimed);
        assert_eq!(claim(free_chunk).claimed.chunks, free_chunk..free_chunk + 3);
    }
}
