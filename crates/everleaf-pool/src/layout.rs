//! Every byte of the pool's own structures.
//!
//! ```text
//! chunk 0   header: identity (checksummed, immutable), state line, extents
//! chunk 1   intents: one line for each of 64 workers
//! chunk 2   anchor: 4 KiB that belong to the index (micro-logs, roots)
//! chunk 3.. extents: each a table of one line a chunk, then the chunks
//! ```

use everleaf_pmem::{Field, LINE, Layout, PCell, WORD, persistent};

use crate::Record;
use crate::classes::Class;
use crate::word::{SEALED_BITS, Sealed};

/// Bytes in a chunk: the unit of typing and of growth.
pub(crate) const CHUNK: u64 = 4096;
/// The first eight bytes of every pool, "Everleaf" read as a little-endian word.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(POOL_MAGIC);
/// The first bytes of every pool.
pub const POOL_MAGIC: [u8; 8] = *b"Everleaf";
/// Version of this layout.
pub(crate) const FORMAT_VERSION: u64 = 2;
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
/// Offset of the anchor.
pub(crate) const ANCHOR_OFFSET: u64 = 2 * CHUNK;

persistent! {
    /// What never changes after creation. `magic` is written last, so a creation that was cut off
    /// is no pool.
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
        /// Sizes of the engine's nodes, in an order of its own.
        pub parameters: [PCell; 8],
        /// The length that the pool may grow to.
        pub max_bytes: PCell,
        /// Zero.
        pub _reserved: [PCell; 6],
        /// CRC-32 of the words before it.
        pub checksum: PCell,
    }

    /// The state line and the extents.
    pub(crate) struct Header {
        /// See there.
        pub identity: Identity,
        /// 1: closed. 2: open, or left so by a crash.
        pub state: PCell<Sealed>,
        /// The boot id under which the pool was opened last, 48 bits a word.
        pub boot_id: [PCell<Sealed>; 3],
        /// Nothing.
        pub _reserved: [PCell; 4],
        /// Of each extent the chunks, its table included (30 bits), and above, if its table has
        /// lines for more, the chunks of that; 0 ends the list.
        pub extents: [PCell<Sealed>; MAX_EXTENTS],
    }

    /// What a worker is about to do; see `worker.rs` for the order in which its words are written.
    pub(crate) struct Intent {
        /// 0: nothing; 1: a link; 3: a batch, whose log is `new`; else the offset of the
        /// destination of an exchange. Written last, cleared first.
        pub tag: PCell<Sealed>,
        /// The block that is replaced: its offset.
        pub old: PCell<Sealed>,
        /// 0, or if it is a run: the descriptor of its first chunk.
        pub old_extent: PCell<Sealed>,
        /// The block that replaces it: its offset.
        pub new: PCell<Sealed>,
        /// As `old_extent`.
        pub new_extent: PCell<Sealed>,
        /// Nothing.
        pub _reserved: [PCell; 3],
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

/// What docs/format.md shows of the pool: its parts, its own structures, and the sizes of blocks.
pub fn layouts() -> (Vec<Layout>, &'static [u64]) {
    let part = |name: &str, offset: u64, bytes: u64, what: &str| Field {
        name: name.to_owned(),
        kind: "bytes".to_owned(),
        offset: offset as usize,
        bytes: bytes as usize,
        what: what.to_owned(),
    };
    let pool = Layout {
        name: "Pool",
        bytes: MIN_POOL_BYTES as usize,
        fields: vec![
            part(
                "header",
                0,
                size_of::<Header>() as u64,
                "`Header`; the rest of the chunk is nothing.",
            ),
            part(
                "intents",
                INTENTS_OFFSET,
                (WORKER_SLOTS * size_of::<Intent>()) as u64,
                "64 of `Intent`, one a worker.",
            ),
            part("anchor", ANCHOR_OFFSET, CHUNK, "The index's own; zeros at first."),
            part(
                "extents",
                FIRST_EXTENT_CHUNK * CHUNK,
                MIN_POOL_BYTES - FIRST_EXTENT_CHUNK * CHUNK,
                "To the end, at least so many bytes.",
            ),
        ],
    };
    let structures = [
        Identity::layout(),
        Header::layout(),
        Intent::layout(),
        ChunkLine::layout(),
        Record::layout(),
    ];
    (std::iter::once(pool).chain(structures).collect(), Class::sizes())
}

/// The pool was closed.
pub(crate) const STATE_CLEAN: u64 = 1;
/// The pool is open, or was when the process died.
pub(crate) const STATE_OPEN: u64 = 2;
/// Tag of an intent whose destination is an entry of an index; no offset of a cell, because it is
/// odd.
pub(crate) const LINK_TAG: u64 = 1;
/// Tag of an intent whose `new` is the log of a batch.
pub(crate) const BATCH_TAG: u64 = 3;

const _: () = {
    assert!(size_of::<Identity>() == (IDENTITY_WORDS + 1) * WORD);
    // The whole header fits into its chunk.
    assert!(
        size_of::<Header>() == CHUNK as usize - 4 * LINE || size_of::<Header>() <= CHUNK as usize
    );
    // An intent is one line, so that its tag is durable no earlier than the words it speaks of; so
    // is a chunk's line.
    assert!(size_of::<Intent>() == LINE && size_of::<ChunkLine>() == LINE);
    assert!(WORKER_SLOTS * LINE == CHUNK as usize);
    assert!(MAX_BLOCKS >= CHUNK as usize / 16);
};
