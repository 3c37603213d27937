//! The image of inner nodes that live in DRAM: what a clean close stores of them, so that the next
//! opening reads no leaf, and no record of a lower bound.
//!
//! It is a list of all leaves with their lower bounds, ascending, and the number of keys; the
//! bytes of byte strings stand behind the list (`bounds`). Inner nodes are built from it as they
//! are built from leaves, so neither their layout nor their fanout is part of it. What is free of
//! the runs of leaves is all that is not in the list.
//!
//! # When it is taken
//! The pool was closed with a [`Seal`] that has the number and the checksum of the image, and the
//! image is of this pool, of this engine, of these keys and sizes of leaves; its bounds ascend from
//! the least key; each entry leads to a leaf, and no two to the same one. Anything else is reported
//! ([`NoImage`]) and ignored, and the tree is built from its leaves.
//!
//! # Order of persistence
//! ```text
//! M1  its memory, if there is none or too little: the old is freed, then new is taken, each an
//!     exchange of what the root `image` leads to (the pool's A1 to A3)
//!     Crash: the pool is open, so no image is taken. Nothing leaks.
//! C1  the image: its next number, what it is of, its entries; flush, fence
//!     Crash: the pool is open; or, closed by a release that knows no image, it has no seal.
//! C2  the pool is marked closed, C3 COMMIT it gets the seal: see `Pool::close_with`
//! O1  the next opening to write stores its boot id over the seal, O2 marks the pool open, flushes
//!     and fences, before its first change
//!     Crash before O2: closed without a seal, or with half of one, whose number is of no image.
//! ```
//! A pool without room is closed without an image. Opening for reading writes nothing.
//!
//! The number is one more than that of the image before: half a seal, or one that was put back, is
//! of another number than the image.

mod bounds;

use std::marker::PhantomData;

use everleaf_index::{IndexError, NoImage, Result};
use everleaf_pmem::{LINE, Layout, Media, PCell, PPtr, WORD, persistent, planted, site};
use everleaf_pool::{
    Audit, KeyType, Node, NodeKind, Pool, PoolError, RootName, Seal, Shutdown, Worker,
};

use self::bounds::{Cut, Parts};
use crate::key::TreeKey;
use crate::parameters::Parameters;

/// The root that leads to it.
pub const IMAGE: RootName = RootName::new("image");
/// Of the kinds of nodes the last: families count theirs from the first.
const KIND: NodeKind = NodeKind::new(6);
/// Words of an entry: the lower bound of a leaf, or how that is cut, and the leaf's offset.
pub const ENTRY_WORDS: usize = 2;

persistent! {
    /// The root `image`.
    pub struct ImageRoot {
        /// The memory of the image; null: none.
        pub image: PCell<PPtr<ImageHead>>,
        /// Zero.
        pub _reserved: [PCell; 7],
    }

    /// How an image begins. Behind it are the entries, two words each: the lower bound of a leaf,
    /// or how that is cut, and the leaf's offset. Then come the bytes of bounds.
    pub struct ImageHead {
        /// Its number, as the seal has it; from 1 on.
        pub number: PCell,
        /// The pool's uuid, the low half first.
        pub uuid: [PCell; 2],
        /// Name of the engine, zero padded.
        pub engine: [PCell; 3],
        /// 0: u64; 1: byte strings.
        pub key_type: PCell,
        /// Slots of a leaf.
        pub leaf_slots: PCell,
        /// Words of a value.
        pub value_words: PCell,
        /// Keys in the tree.
        pub keys: PCell,
        /// Leaves in the tree.
        pub leaves: PCell,
        /// Bytes behind the entries.
        pub own_bytes: PCell,
        /// Zero.
        pub _reserved: [PCell; 4],
    }
}

impl Node for ImageHead {
    const KIND: NodeKind = KIND;
}

/// What docs/format.md shows of images.
pub fn layouts() -> Vec<Layout> {
    vec![ImageRoot::layout(), ImageHead::layout()]
}

/// Words before the entries.
pub const HEAD_WORDS: usize = size_of::<ImageHead>() / WORD;
const HEAD_BYTES: u64 = size_of::<ImageHead>() as u64;
const ENTRY_BYTES: u64 = (ENTRY_WORDS * WORD) as u64;
/// Words of the head that say what an image is of: from the uuid on.
const OF_WORDS: usize = 8;

const _: () = {
    assert!(size_of::<ImageRoot>() == LINE && HEAD_WORDS == 16);
    assert!(std::mem::offset_of!(ImageHead, uuid) == WORD);
    assert!(std::mem::offset_of!(ImageHead, keys) == (1 + OF_WORDS) * WORD);
};

/// An image that is taken.
pub struct Image<'p, K: TreeKey, M: Media> {
    media: &'p M,
    entries: &'p [[PCell; ENTRY_WORDS]],
    /// The cells behind the entries, and how many bytes they hold.
    own: (&'p [PCell], usize),
    /// Keys in the tree.
    pub keys: u64,
    kind: PhantomData<K>,
}

impl<'p, K: TreeKey, M: Media> Image<'p, K, M> {
    /// Whether each entry leads to a node of this type, and none to that of another.
    pub fn leads_to<T: Node>(&self, pool: &Pool<M>) -> bool {
        let mut leaves = Lines::none(self.media.region().len());
        let is_node = |leaf| pool.node(PPtr::<T>::at(leaf)).is_ok();
        self.leaves().all(|leaf| is_node(leaf) && leaves.add(leaf))
    }

    /// The leaves, at least one.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = u64> {
        self.entries.iter().map(|[_, leaf]| self.media.load(leaf))
    }

    /// The leaves and their lower bounds, which are numbers, ascending from 0.
    pub fn of_numbers(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.entries.iter().map(|[bound, leaf]| (self.media.load(bound), self.media.load(leaf)))
    }

    /// The leaves and their lower bounds, ascending from the least key.
    pub fn parts(&self) -> Parts<'p, K, M> {
        Parts::new(self.media, self.entries, self.own, self.media.region().len())
    }

    /// Words that the bounds take, where each begins a word of its own; of numbers none.
    pub fn words_of_bounds(&self) -> u64 {
        if !K::RECORDS {
            return 0;
        }
        let bytes = self.entries.iter().map(|[word, _]| Cut(self.media.load(word)).bytes());
        bytes.map(|bytes| bytes.div_ceil(WORD) as u64).sum()
    }

    fn is_ascending(&self) -> bool {
        if K::RECORDS {
            return self.parts().are_sound();
        }
        let mut bounds = self.of_numbers().map(|(bound, _)| bound).peekable();
        bounds.peek() == Some(&0) && bounds.is_sorted_by(|before, bound| before < bound)
    }
}

/// A set of lines of a pool, by their offsets.
pub struct Lines(Vec<u64>);

impl Lines {
    /// None of a pool of so many bytes.
    pub fn none(bytes: u64) -> Self {
        Self(vec![0; bytes.div_ceil(LINE as u64 * 64) as usize])
    }

    fn place(offset: u64) -> (usize, u64) {
        let line = offset / LINE as u64;
        ((line / 64) as usize, 1 << (line % 64))
    }

    /// Adds the line of an offset; false if it is outside, or there already.
    #[inline(always)]
    pub fn add(&mut self, offset: u64) -> bool {
        let (word, bit) = Self::place(offset);
        let Some(word) = self.0.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether the line of an offset is among them.
    #[inline(always)]
    pub fn contains(&self, offset: u64) -> bool {
        let (word, bit) = Self::place(offset);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}

/// What an image of this pool is of.
fn subject<M: Media>(pool: &Pool<M>, sizes: Parameters) -> [u64; OF_WORDS] {
    let (format, uuid) = (pool.format(), pool.uuid());
    let mut name = [0; 24];
    name.iter_mut().zip(format.engine.bytes()).for_each(|(place, byte)| *place = byte);
    let engine = |part| u64::from_le_bytes(std::array::from_fn(|byte| name[part * WORD + byte]));
    let key_type = u64::from(format.key_type == KeyType::Bytes);
    let (low, high) = (uuid as u64, (uuid >> 64) as u64);
    [low, high, engine(0), engine(1), engine(2), key_type, sizes.leaf_slots, sizes.value_words]
}

/// Stores an image of a tree with so many keys and leaves, durably but for the medium's sync. None
/// if there is no room. `entries` gives the bounds of all leaves, ascending, and the leaves; it is
/// asked twice for byte strings. What the image before has in the same place stays: it was durable
/// when this session began. 1 flush for each line that is new, 1 fence; those of two exchanges
/// where its memory is too small.
///
/// # Errors
/// The pool is damaged.
pub fn write<K: TreeKey, M: Media, I: Iterator<Item = (K::Owned, u64)>>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    sizes: Parameters,
    keys: u64,
    leaves: usize,
    entries: impl Fn() -> I,
) -> Result<Option<Seal>> {
    let own = bounds::own_bytes::<K>(entries());
    let behind = own.len().next_multiple_of(WORD) as u64;
    let bytes = HEAD_BYTES + leaves as u64 * ENTRY_BYTES + behind;
    let Some(Room { image, number, is_fresh }) = room(pool, worker, bytes) else {
        return Ok(None);
    };
    let media = pool.media();
    let cells = media.region().cells(image.offset(), (bytes as usize) / WORD);
    let cells = cells.ok_or(IndexError::Corrupt { offset: image.offset(), what: NO_MEMORY })?;
    let counts = [keys, leaves as u64, own.len() as u64, 0, 0, 0, 0];
    let head = [number].into_iter().chain(subject(pool, sizes)).chain(counts);
    let entries = bounds::cut::<K>(entries()).flatten();
    let mut words = head.chain(entries).chain(bounds::words(&own));
    // C1: all that is new. Crash: the pool is open, or has no seal.
    let mut checksum = Checksum::new();
    for (at, line) in (image.offset()..).step_by(LINE).zip(cells.chunks(LINE / WORD)) {
        let mut is_new = is_fresh;
        for (cell, word) in line.iter().zip(&mut words) {
            if media.load(cell) != word {
                media.store(cell, word);
                is_new = true;
            }
            checksum.add(word);
        }
        if is_new {
            media.flush_lines(site!("image.C1.body"), std::iter::once(at));
        }
    }
    media.fence(site!("image.C1.fence"));
    let is_whole = checksum.words == cells.len() && words.next().is_none();
    Ok(is_whole.then(|| Seal::new(number, checksum.end())))
}

/// What is wrong with an entry that leads to something else than a leaf of its own.
pub const NO_LEAF: &str = "it leads to something that is not a leaf, or to a leaf twice";
const NO_MEMORY: &str = "the memory of the image is outside the pool";

/// Where an image goes.
struct Room {
    image: PPtr<ImageHead>,
    /// Its number.
    number: u64,
    /// Whether the memory had something else before, which may not have been flushed.
    is_fresh: bool,
}

/// Memory for an image of so many bytes, and its number; none where there is no room, or what leads
/// to it is damaged: the audit tells of that.
fn room<M: Media>(pool: &Pool<M>, worker: &mut Worker<M>, bytes: u64) -> Option<Room> {
    worker.create_root::<ImageRoot>(IMAGE).ok()?;
    let root = pool.root::<ImageRoot>(IMAGE).ok()?;
    let image = pool.media().load(&root.image);
    let last = pool.node(image).map_or(0, |head| pool.media().load(&head.number));
    let number = last % (Seal::NUMBERS - 1) + u64::from(!planted(230));
    let is_large_enough = !image.is_null() && pool.node_bytes(image).ok()? >= bytes;
    if !is_large_enough {
        // M1.
        worker.free_from(&root.image).ok()?;
        worker.alloc_sized_node_into(&root.image, bytes).ok()?;
    }
    Some(Room { image: pool.media().load(&root.image), number, is_fresh: !is_large_enough })
}

/// The image that the close before has stored, if it is to be taken. Each leaf but the first has so
/// many keys at least.
///
/// # Errors
/// Why not.
pub fn read<'p, K: TreeKey, M: Media>(
    pool: &'p Pool<M>,
    (shutdown, seal): (Shutdown, Option<Seal>),
    sizes: Parameters,
    fewest: u64,
) -> Result<Image<'p, K, M>, NoImage> {
    if shutdown == Shutdown::Crash {
        return Err(NoImage::Crash);
    }
    let seal = seal.ok_or(NoImage::None)?;
    let media = pool.media();
    let lost = |_: PoolError| NoImage::Damaged("nothing leads to it");
    let image = media.load(&pool.root::<ImageRoot>(IMAGE).map_err(lost)?.image);
    let (head, bytes) = (pool.node(image).map_err(lost)?, pool.node_bytes(image).map_err(lost)?);
    if media.load(&head.number) != seal.number() {
        return Err(NoImage::Stale);
    }
    let (leaves, own_bytes) = (media.load(&head.leaves), media.load(&head.own_bytes));
    let room = (bytes - HEAD_BYTES) / ENTRY_BYTES;
    let behind = bytes - HEAD_BYTES - leaves.min(room) * ENTRY_BYTES;
    if leaves == 0 || leaves > room || own_bytes > behind {
        return Err(NoImage::Damaged("it is longer than its memory, or empty"));
    }
    let end_of_entries = HEAD_WORDS + leaves as usize * ENTRY_WORDS;
    let words = end_of_entries + own_bytes.div_ceil(WORD as u64) as usize;
    let cells = media.region().cells(image.offset(), words).ok_or(NoImage::Damaged(NO_MEMORY))?;
    let mut checksum = Checksum::new();
    cells.iter().for_each(|cell| checksum.add(media.load(cell)));
    if checksum.end() != seal.checksum() {
        return Err(NoImage::Damaged("its checksum is wrong"));
    }
    compare(std::array::from_fn(|at| media.load(&cells[1 + at])), subject(pool, sizes))?;
    let keys = media.load(&head.keys);
    if !(fewest * (leaves - 1)..=leaves.saturating_mul(sizes.leaf_slots)).contains(&keys) {
        return Err(NoImage::Damaged("its leaves cannot have as many keys as it says"));
    }
    let (entries, own) = cells[HEAD_WORDS..].split_at(end_of_entries - HEAD_WORDS);
    let (entries, own) = (entries.as_chunks().0, (own, own_bytes as usize));
    let image = Image { media, entries, own, keys, kind: PhantomData };
    if !image.is_ascending() {
        return Err(NoImage::Damaged("the lower bounds of leaves do not ascend"));
    }
    let end = media.region().len();
    let is_inside = |leaf: u64| leaf < end && leaf.is_multiple_of(LINE as u64);
    if !image.leaves().all(is_inside) {
        return Err(NoImage::Damaged("it leads out of the pool"));
    }
    Ok(image)
}

/// Whether what an image is of is what it should be of.
fn compare(found: [u64; OF_WORDS], expected: [u64; OF_WORDS]) -> Result<(), NoImage> {
    for (words, what) in [
        (0..2, "another pool"),
        (2..5, "another engine"),
        (5..6, "another kind of keys"),
        (6..8, "leaves of other sizes"),
    ] {
        if found[words.clone()] != expected[words] {
            return Err(NoImage::Foreign(what));
        }
    }
    Ok(())
}

/// Tells an audit of the memory of the image.
pub fn reach<M: Media>(pool: &Pool<M>, audit: &mut Audit) {
    let Ok(root) = pool.root::<ImageRoot>(IMAGE) else { return };
    let image = pool.media().load(&root.image);
    if !image.is_null() {
        audit.reach(image.offset());
    }
}

/// Words of which a checksum is taken at a time.
const STAGED: usize = 512;

/// CRC-32C of words, for which processors have an instruction.
struct Checksum {
    staged: [u8; STAGED * WORD],
    sum: u32,
    words: usize,
}

impl Checksum {
    fn new() -> Self {
        Self { staged: [0; STAGED * WORD], sum: 0, words: 0 }
    }

    #[inline(always)]
    fn add(&mut self, word: u64) {
        let at = self.words % STAGED * WORD;
        self.staged[at..at + WORD].copy_from_slice(&word.to_le_bytes());
        self.words += 1;
        if self.words.is_multiple_of(STAGED) {
            self.sum = crc32c::crc32c_append(self.sum, &self.staged);
        }
    }

    fn end(&self) -> u32 {
        crc32c::crc32c_append(self.sum, &self.staged[..self.words % STAGED * WORD])
    }
}
