//! What a close leaves in the header for the index: by it the next session tells that something in
//! the pool is of that very close.
//!
//! It stands where an open pool has its boot id, in the line of the state. Of a closed pool nobody
//! reads that. Every opening to write stores the boot id, the state, flushes and fences before it
//! changes anything: so the seal is durably gone before the first change that follows, and needs no
//! barrier for that. See [`Pool::close_with`] for the order in which it is written.

use everleaf_pmem::{Media, planted, site};

use crate::layout::Header;
use crate::word::{SEALED_BITS, Sealed};
use crate::{Pool, PoolError};

/// The last word of a seal. The last word of a boot id has 32 bits.
const MARK: u64 = u64::from_le_bytes(*b"sealed\0\0");
const _: () = assert!(MARK >> 32 > 0 && MARK >> SEALED_BITS == 0);

/// What is known of something that was stored at a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    number: u64,
    checksum: u32,
}

impl Seal {
    /// The numbers that a seal can have are below this.
    pub const NUMBERS: u64 = 1 << SEALED_BITS;

    /// With the lower 48 bits of a number, and a checksum, both of which are the owner's.
    pub const fn new(number: u64, checksum: u32) -> Self {
        Self { number: number % Self::NUMBERS, checksum }
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.number
    }

    /// The checksum.
    pub const fn checksum(self) -> u32 {
        self.checksum
    }

    /// That of a closed pool, if it has one. A damaged word is none.
    pub(crate) fn on<M: Media>(pool: &Pool<M>) -> Result<Option<Self>, PoolError> {
        let cells = &pool.header()?.boot_id;
        let words = cells.each_ref().map(|cell| pool.media().load(cell).open());
        let [Some(number), Some(checksum), mark] = words else { return Ok(None) };
        if mark != Some(MARK) && !planted(133) {
            return Ok(None);
        }
        Ok(u32::try_from(checksum).ok().map(|checksum| Self { number, checksum }))
    }

    /// Stores it; flushed by the caller. The mark comes last: without it there is none.
    pub(crate) fn store<M: Media>(self, pool: &Pool<M>, header: &Header) {
        let media = pool.media();
        media.store(&header.boot_id[0], Sealed::of(self.number));
        media.store(&header.boot_id[1], Sealed::of(u64::from(self.checksum)));
        media.order(site!("pool.close.C3.order"));
        media.store(&header.boot_id[2], Sealed::of(MARK));
    }
}
