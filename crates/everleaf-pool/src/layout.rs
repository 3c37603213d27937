//! Every byte of the pool's own structures.
//!
//! ```text
//! chunk 0   header: identity (checksummed, immutable), state line, extents, table of roots
//! chunk 1   intents: one line for each of 64 workers
//! chunk 2   the root `index`: 4 KiB that belong to the index (micro-logs, its own root)
//! chunk 3.. extents: each a table of one line a chunk, then the chunks
//! ```

use std::mem::offset_of;

use everleaf_pmem::{LINE, PCell, WORD, persistent};

use crate::word::{SEALED_BITS, Sealed};

/// Bytes in a chunk: the unit of typing and of growth.
pub(crate) const CHUNK: u64 = 4096;
/// The first eight bytes of every pool, "Everleaf" read as a little-endian word.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(POOL_MAGIC);
/// The first bytes of every pool.
pub const POOL_MAGIC: [u8; 8] = *b"Everleaf";
/// Version of this layout.
pub(crate) const FORMAT_VERSION: u64 = 5;
/// Words of the identity that the checksum covers (all but itself).
pub(crate) const IDENTITY_WORDS: usize = 23;
/// How many extents a pool can have.
pub(crate) const MAX_EXTENTS: usize = 456;
/// Workers that a pool serves at a time.
pub(crate) const WORKER_SLOTS: usize = 64;
/// First chunk of the first extent.
pub(crate) const FIRST_EXTENT_CHUNK: u64 = 3;
/// Words of a chunk's line that hold the bitmap of its blocks.
pub(crate) const BITMAP_WORDS: usize = 7;
/// Blocks that one chunk can hold.
pub(crate) const MAX_BLOCKS: usize = BITMAP_WORDS * SEALED_BITS as usize;
/// The smallest pool.
pub(crate) const MIN_POOL_BYTES: u64 = 64 << 10;

/// Offset of the intent lines.
pub(crate) const INTENTS_OFFSET: u64 = CHUNK;
/// Offset of the root that every pool has.
pub(crate) const INDEX_ROOT_OFFSET: u64 = 2 * CHUNK;
/// Where a log marks the pool's file.
pub const LOG_STAMP_OFFSET: u64 = offset_of!(Header, log_stamp) as u64;
/// How many roots a pool can have.
pub const MAX_ROOTS: usize = 12;

persistent! {
    /// What never changes after creation. `magic` is written last, so a creation that was cut off
    /// is not a pool.
    pub(crate) struct Identity {
        /// "Everleaf".
        pub magic: PCell,
        /// Version of the format.
        pub version: PCell,
        /// Random, the low half first.
        pub uuid: [PCell; 2],
        /// Name of the engine, zero padded.
        pub engine: [PCell; 3],
        /// 0: u64, 1: bytes.
        pub key_type: PCell,
        /// Sizes of the engine's nodes, in an order of its own. The last word but one: 1 where an
        /// entry has one record, which begins with its key; else 0. The last word: the durability
        /// that was chosen for the store; 0: none, 1: immediate, 2: buffered (and above the lowest
        /// byte the milliseconds), 3: process; plus 4: a log stands beside the pool.
        pub parameters: [PCell; 8],
        /// The length that the pool may grow to.
        pub max_bytes: PCell,
        /// The least release that reads and writes it, 0 for 0.2.0, and its features, a bit each:
        /// those that all may ignore, that readers may ignore, and that nobody may.
        pub features: [PCell; 4],
        /// Zero.
        pub _reserved: [PCell; 2],
        /// CRC-32 of the words before it.
        pub checksum: PCell,
    }

    /// The state line, the extents, and the table of roots.
    pub(crate) struct Header {
        /// See there.
        pub identity: Identity,
        /// 1: closed. 2: open, or left so by a crash. 3: the same, by a session on persistent
        /// memory. 4: as 2, and a sync of the file has failed.
        pub state: PCell<Sealed>,
        /// The boot id under which the pool was opened last, 48 bits a word; zeros if it was not
        /// known. Of a closed pool a seal may stand here: a number, a checksum, and "sealed".
        pub boot_id: [PCell<Sealed>; 3],
        /// The last epoch that ended durably; 0 if the engine has no epochs.
        pub epoch: PCell<Sealed>,
        /// Zeros. Where a log stands beside the pool, the file has here, and nowhere else, the
        /// session, number and checksum of a group that the log must lead to, and in the upper half
        /// of the last word with how many groups up to it the log must begin at the latest.
        pub log_stamp: [PCell; 3],
        /// Of each extent the chunks, its table included (30 bits), and above, if its table has
        /// lines for more, the chunks of that; 0 ends the list.
        pub extents: [PCell<Sealed>; MAX_EXTENTS],
        /// Of each root its name (up to six bytes, the first one lowest) and its offset; the place
        /// is free if the offset is 0.
        pub roots: [PCell<Sealed>; 2 * MAX_ROOTS],
    }

    /// What a worker is about to do; see `worker.rs` for the order in which its words are written.
    pub(crate) struct Intent {
        /// 0: nothing; 1: a link; 3: a batch, whose log is `new`; 5: the end of the epoch whose
        /// number is `old`, and whose log is `new`; else the offset of the destination of an
        /// exchange. Written last, cleared first.
        pub tag: PCell<Sealed>,
        /// The block that is replaced: its offset.
        pub old: PCell<Sealed>,
        /// 0, or if it is a run: the descriptor of its first chunk.
        pub old_extent: PCell<Sealed>,
        /// The block that replaces it: its offset.
        pub new: PCell<Sealed>,
        /// As `old_extent`.
        pub new_extent: PCell<Sealed>,
        /// Whatever the tag: offsets of blocks of records whose bits a crash may have left wrong;
        /// 0: none. Never cleared, see `doubt.rs`.
        pub doubt: [PCell<Sealed>; 2],
        /// Nothing.
        pub _reserved: [PCell; 1],
    }

    /// One line a chunk in an extent's table. Descriptor and bitmap share the line: what was stored
    /// first is durable first.
    pub(crate) struct ChunkLine {
        /// What the chunk is used for.
        pub descriptor: PCell<Sealed>,
        /// Bit set: block allocated. 48 blocks a word.
        pub bitmap: [PCell<Sealed>; BITMAP_WORDS],
    }
}

/// The pool was closed.
pub(crate) const STATE_CLEAN: u64 = 1;
/// The pool is open, or was when the process died, in a session whose stores reach persistent
/// memory late or never: what it holds is to be trusted under the same boot of the machine only.
pub(crate) const STATE_OPEN: u64 = 2;
/// The pool is open, or was, in a session on persistent memory with every flush: what it holds is
/// what the model of crashes allows, whichever boot left it.
pub(crate) const STATE_OPEN_PERSISTENT: u64 = 3;
/// A sync of the pool's file has failed, in a session as [`STATE_OPEN`] says. The system may take
/// pages for written that it could not write: all of them are to be written again.
pub(crate) const STATE_SYNC_FAILED: u64 = 4;
/// Tag of an intent whose destination is an entry of an index; no offset of a cell, because it is
/// odd.
pub(crate) const LINK_TAG: u64 = 1;
/// Tag of an intent whose `new` is the log of a batch.
pub(crate) const BATCH_TAG: u64 = 3;
/// Tag of an intent whose `new` is the log of an epoch, whose number is in the place of `old`.
pub(crate) const EPOCH_TAG: u64 = 5;

const _: () = {
    assert!(size_of::<Identity>() == (IDENTITY_WORDS + 1) * WORD);
    // The header fills its chunk: the table of roots ends it.
    assert!(size_of::<Header>() == CHUNK as usize);
    // State and boot id, or seal, are in one line: what is stored first is durable first.
    assert!(offset_of!(Header, state) / LINE == offset_of!(Header, epoch) / LINE);
    // A root's name and offset are in one line.
    assert!(offset_of!(Header, roots).is_multiple_of(2 * WORD));
    // An intent is one line, so that its tag is durable no earlier than the other words; so
    // is a chunk's line.
    assert!(size_of::<Intent>() == LINE && size_of::<ChunkLine>() == LINE);
    assert!(WORKER_SLOTS * LINE == CHUNK as usize);
    assert!(MAX_BLOCKS >= CHUNK as usize / 16);
};
