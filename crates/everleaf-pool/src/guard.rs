//! Reading records as byte slices: a guard, and what it lends.

use std::marker::PhantomData;
use std::ops::Deref;

use everleaf_pmem::{Media, PPtr};

use crate::lease::slot_of_thread;
use crate::reader_pins::{PIN_SLOTS, Pin};
use crate::{Pool, PoolError, Record};

/// While it lives, the memory of no record that its thread can reach is used again: so records can
/// be read as byte slices, which live no longer than it does.
///
/// Records are found after the guard was made, by pointers that are read from a structure of the
/// pool: a record that was freed before may be another one by now, or be written at this moment.
/// That is asked of the caller and not checked. The table's bit would not tell: it is set after a
/// record can be found (an epoch's records have none until the epoch ends), and a look at it is a
/// miss of the cache for each record that is read.
///
/// Made and dropped in some nanoseconds. Memory that is freed meanwhile comes back when the guard
/// is gone, so a guard that is held for long is [renewed](RecordGuard::renew) from time to time.
///
/// # Examples
/// ```
/// use everleaf_pmem::{Cpu, Mapped, Media, PCell, PPtr, Region, persistent};
/// use everleaf_pool::{Format, KeyType, Pool, Record};
///
/// persistent! {
///     struct Index {
///         entry: PCell<PPtr<Record>>,
///     }
/// }
/// let format = Format { engine: "example".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
/// let region = Region::anonymous(1 << 20, 1 << 20)?;
/// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
/// let (mut worker, entry) = (pool.worker()?, &pool.index_root::<Index>()?.entry);
/// worker.alloc_record_into(entry, &[b"first"])?;
///
/// let records = pool.pin();
/// let first = records.record(pool.media().load(entry))?;
/// worker.free_from(entry)?;
/// worker.alloc_record_into(entry, &[b"other"])?;
/// assert_eq!(first, b"first");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # fn lent<M: everleaf_pmem::Media>(
/// #     pool: &everleaf_pool::Pool<M>,
/// #     pointer: everleaf_pmem::PPtr<everleaf_pool::Record>,
/// # ) -> Result<(), everleaf_pool::PoolError> {
/// let bytes = pool.pin().record(pointer)?; // The guard is gone at the end of this line.
/// println!("{bytes:?}");
/// # Ok(())
/// # }
/// ```
pub struct RecordGuard<'p, M: Media> {
    pool: &'p Pool<M>,
    pin: Pin,
    /// Not `Send`: the thread that reads is the one that is pinned.
    of_thread: PhantomData<*const ()>,
}

impl<M: Media> Pool<M> {
    /// Lets the calling thread read records until the guard is dropped.
    #[inline]
    pub fn pin(&self) -> RecordGuard<'_, M> {
        let pin = self.chunks().pin(slot_of_thread(self.media(), PIN_SLOTS));
        RecordGuard { pool: self, pin, of_thread: PhantomData }
    }
}

impl<M: Media> RecordGuard<'_, M> {
    /// The bytes of a record, after a check of its place, its length and its checksum.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the pointer leads to no record or the bytes do not match their
    /// checksum.
    #[inline]
    pub fn record(&self, pointer: PPtr<Record>) -> Result<&[u8], PoolError> {
        self.pool.lend_record(pointer)
    }

    /// Like [`record`](RecordGuard::record) without the checksum: for a compare with bytes that are
    /// known, where damage shows as a difference.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the pointer leads to no record or its length does not fit its
    /// block.
    #[inline]
    pub fn record_unverified(&self, pointer: PPtr<Record>) -> Result<&[u8], PoolError> {
        self.pool.lend_record_unverified(pointer)
    }

    /// The key of a record, of an entry's or of one that is a key and nothing else; without the
    /// checksum, for a caller that has another check of the key.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if the pointer leads to no record, its length does not fit its block,
    /// or it has no key.
    #[inline]
    pub fn key_unverified(&self, pointer: PPtr<Record>) -> Result<&[u8], PoolError> {
        self.pool.lend_key_unverified(pointer)
    }

    /// As a new guard in place of this one: what was freed before no longer waits for it. Nothing
    /// is lent at this moment, as the borrow checker sees to.
    pub fn renew(&mut self) {
        let pin = self.pool.chunks().pin(slot_of_thread(self.pool.media(), PIN_SLOTS));
        self.pool.chunks().unpin(&std::mem::replace(&mut self.pin, pin));
    }
}

impl<M: Media> Deref for RecordGuard<'_, M> {
    type Target = Pool<M>;
    #[inline(always)]
    fn deref(&self) -> &Pool<M> {
        self.pool
    }
}

impl<M: Media> Drop for RecordGuard<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.pool.chunks().unpin(&self.pin);
    }
}
