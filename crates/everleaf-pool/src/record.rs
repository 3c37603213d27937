//! Records: byte strings that never change once published.

use everleaf_pmem::{PCell, persistent};

/// The longest record: 1 GiB of value, a key, and some room.
pub const MAX_RECORD_BYTES: u64 = (1 << 30) + (1 << 17);

persistent! {
    /// A byte string in the pool; only ever reached through [`Pool::record`](crate::Pool::record). The line alignment of this type is
    /// nominal: a record is 8-byte aligned.
    pub struct Record {
        /// Length (low half) and CRC-32 of length and bytes (high half).
        pub header: PCell,
    }
}
