//! Every persistent byte.
//!
//! ```text
//! line  node, transient           border node, durable       inner node
//! 0     version  stamp  free_next  free_undo  meta  perm_undo  perm  next
//! 1, 2  keys 0 to 14               keys 0 to 13               keys 0 to 14
//! 3     values 0 to 7              InCLL1, values 0 to 6      children 0 to 7
//! 4     values 8 to 14             values 7 to 13, InCLL2     children 8 to 15
//! ```
//!
//! All nodes have the same five lines, so the root of a layer changes between border and inner node
//! where it stands, and no pointer to it is ever out of date.
//!
//! Stamp and undo words stand in the line of what they undo: they are durable in the order in which
//! they are written, without a flush between them.

use std::mem::offset_of;

use everleaf_pmem::{LINE, PCell, PPtr, WORD, Word, persistent};
use everleaf_pool::NodeKind;

pub use everleaf_tree::key::slices::LONGER;

/// Entries of a border node in DRAM, and keys of an inner node (the paper's, and Masstree's).
pub const WIDTH: usize = 15;
/// Entries of a durable border node: two words are undo entries (section 4.1).
pub const DURABLE_WIDTH: usize = 14;
/// Children of an inner node.
pub const FANOUT: usize = WIDTH + 1;
/// Bytes of a node.
pub const NODE_BYTES: u64 = 5 * LINE as u64;
/// Words of a node's body.
const BODY: usize = 32;
/// Where values, or children, begin in the body.
const SECOND_HALF: usize = 16;
/// The first undo entry of a value, in line 3.
const UNDO_1: usize = 16;
/// The second one, in line 4.
const UNDO_2: usize = 31;
/// Entries that the first undo entry serves: those of its line.
pub const ENTRIES_OF_UNDO_1: usize = 7;

persistent! {
    /// A border node or an inner node.
    pub struct Node {
        /// The lock and the version. Volatile: it means nothing after a crash.
        pub version: PCell<Version>,
        /// The epoch for which the undo words of this line hold.
        pub stamp: PCell<Stamp>,
        /// The next free block, while this is one.
        pub free_next: PCell,
        /// What `free_next` was before the epoch of the stamp.
        pub free_undo: PCell,
        /// Which kind of node; length codes of a border node, or how many keys an inner node has.
        pub meta: PCell<Meta>,
        /// What `perm` was before the epoch of the stamp (InCLLp).
        pub perm_undo: PCell<Permutation>,
        /// Which entries of a border node are live, in which order.
        pub perm: PCell<Permutation>,
        /// The border node to the right.
        pub next: PCell<PPtr<Node>>,
        /// Keys; values and undo entries, or children.
        pub body: [PCell; BODY],
    }

    /// The first line of any block of the allocator: a node, a record, free memory.
    pub struct Block {
        /// The version of a node. No other block writes it: versions of a place only grow.
        pub version: PCell<Version>,
        /// As in a node.
        pub stamp: PCell<Stamp>,
        /// As in a node.
        pub free_next: PCell,
        /// As in a node.
        pub free_undo: PCell,
        /// The value of a record, or in a buffer.
        pub value: PCell,
        /// What it was before the epoch of the stamp.
        pub value_undo: PCell,
        /// The length of a record's suffix in bytes.
        pub length: PCell,
        /// The first bytes of the suffix, which goes on behind.
        pub bytes: PCell,
    }

    /// A list of free blocks of one size. The undo words hold for the epoch of the stamp.
    pub struct FreeList {
        /// Blocks that may be handed out.
        pub head: PCell,
        /// See above.
        pub head_undo: PCell,
        /// Blocks that were freed in this epoch, or in the last one that freed any.
        pub pending: PCell,
        /// See above.
        pub pending_undo: PCell,
        /// The last of them.
        pub tail: PCell,
        /// See above.
        pub tail_undo: PCell,
        /// The epoch.
        pub stamp: PCell<Stamp>,
        /// Nothing.
        pub _reserved: PCell,
    }

    /// Memory that was never handed out.
    pub struct Fresh {
        /// The next free byte of the run.
        pub at: PCell,
        /// What it was before the epoch of the stamp.
        pub at_undo: PCell,
        /// The end of the run.
        pub end: PCell,
        /// As above.
        pub end_undo: PCell,
        /// The epoch.
        pub stamp: PCell<Stamp>,
        /// Nothing.
        pub _reserved: [PCell; 3],
    }

    /// Free memory that one thread at a time takes from.
    pub struct Arena {
        /// See there.
        pub fresh: Fresh,
        /// One for each size.
        pub lists: [FreeList; CLASSES],
    }

    /// The first line of a run of memory.
    pub struct RunHead {
        /// 1: an arena takes from it, or has.
        pub taken: PCell,
        /// What it was before the epoch of the stamp.
        pub taken_undo: PCell,
        /// The epoch.
        pub stamp: PCell<Stamp>,
        /// Nothing.
        pub _reserved: [PCell; 5],
    }

    /// The index's own page of the pool.
    pub struct Anchor {
        /// Where the arenas are, and behind them the root; 0 before the index was made.
        pub arenas: PCell,
        /// How many arenas there are.
        pub arena_count: PCell,
        /// How many ranges of failed epochs there are.
        pub failed_count: PCell,
        /// Nothing.
        pub _reserved: PCell,
        /// The last two epochs that ended, each with the numbers of keys, border nodes and inner
        /// nodes at its end, and in one line with them: the later one counts.
        pub ended: [[PCell; ENDED]; 2],
        /// Nothing.
        pub _reserved_too: [PCell; 4],
        /// Ranges of failed epochs, ascending: the last epoch before, and the last one of each.
        pub failed: [PCell; 2 * FAILED_RANGES],
    }

    /// A node as it was before it changed, in the external log. Each line ends with the epoch:
    /// where one does not, the line was not written in it.
    pub struct Logged {
        /// Seven words and the epoch: the words of the node, its place, nothing.
        pub lines: [[PCell; 8]; LOGGED_LINES],
    }
}

/// Words of what is kept of an epoch that ended.
pub const ENDED: usize = 4;
/// Ranges of failed epochs that there is room for: one a crash.
pub const FAILED_RANGES: usize = 248;
/// Lines of a node in the external log.
pub const LOGGED_LINES: usize = 6;
/// Words of a node.
pub const NODE_WORDS: usize = NODE_BYTES as usize / WORD;
/// Words of a line of the external log without the epoch.
pub const LOGGED_WORDS: usize = 7;
/// Lines of a node.
pub const NODE_LINES: usize = NODE_BYTES as usize / LINE;

/// The kind of the pool's runs that arenas take from.
pub const KIND: NodeKind = NodeKind::new(1);
/// The kind of the pool's runs that the external log is in.
pub const LOG_KIND: NodeKind = NodeKind::new(2);

impl everleaf_pool::Node for Node {
    const KIND: NodeKind = KIND;
}
impl everleaf_pool::Node for RunHead {
    const KIND: NodeKind = KIND;
}
impl everleaf_pool::Node for Logged {
    const KIND: NodeKind = LOG_KIND;
}
impl everleaf_pool::Node for Block {
    const KIND: NodeKind = KIND;
}
impl everleaf_pool::Node for Arena {
    const KIND: NodeKind = KIND;
}

/// Sizes of blocks, in bytes: whole lines.
pub const SIZES: [u64; CLASSES] = [
    64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 2048, 2560, 3072, 4096,
    6144, 8192, 12288, 16384, 24576, 32768, 49152, 69632,
];
/// How many sizes.
pub const CLASSES: usize = 26;
/// Bytes of a record before its suffix.
pub const RECORD_HEAD: u64 = 56;
/// Bytes of a buffer of a value: a block without more lines. Behind the four words of its header 32
/// bytes are the value's, as in the paper (section 6); a value is the first word of them.
pub const BUFFER_BYTES: u64 = size_of::<Block>() as u64;

/// The class of a block of at least `bytes`.
pub fn class_for(bytes: u64) -> Option<usize> {
    let class = SIZES.partition_point(|size| *size < bytes);
    (class < CLASSES).then_some(class)
}

const _: () = {
    assert!(size_of::<Node>() as u64 == NODE_BYTES && SIZES[4] == NODE_BYTES);
    // The undo words of line 0 and what they undo are in one line: they are durable in order.
    assert!(std::mem::offset_of!(Node, body) == LINE && size_of::<Block>() == LINE);
    assert!(size_of::<FreeList>() == LINE && size_of::<Fresh>() == LINE);
    assert!(size_of::<RunHead>() == LINE);
    // The header of a node and that of a block are the same words.
    assert!(std::mem::offset_of!(Node, stamp) == std::mem::offset_of!(Block, stamp));
    assert!(std::mem::offset_of!(Node, free_next) == std::mem::offset_of!(Block, free_next));
    assert!(std::mem::offset_of!(Node, free_undo) == std::mem::offset_of!(Block, free_undo));
    assert!(std::mem::offset_of!(Block, bytes) as u64 == RECORD_HEAD);
    assert!(BUFFER_BYTES - std::mem::offset_of!(Block, value) as u64 == 32);
    assert!(SIZES[0] == BUFFER_BYTES);
    // A value and its undo entry share a line: entries 0 to 6 with the first one in line 3, the
    // others with the second one in line 4.
    assert!((UNDO_1 * WORD) / LINE == ((UNDO_1 + ENTRIES_OF_UNDO_1) * WORD) / LINE);
    assert!(((UNDO_1 + 1 + ENTRIES_OF_UNDO_1) * WORD) / LINE == (UNDO_2 * WORD) / LINE);
    assert!(UNDO_1 + 1 + DURABLE_WIDTH == UNDO_2 && SECOND_HALF + FANOUT == BODY);
    assert!(NODE_LINES + 1 < 8);
    // The anchor fits into its page; what commits an epoch is in one line.
    assert!(size_of::<Anchor>() == 4096 && offset_of!(Anchor, ended) == LINE / 2);
    // One flush for each of both, and the first is durable with the place of the arenas.
    assert!(ENDED * WORD * 2 == LINE && offset_of!(Anchor, failed) == 2 * LINE);
    assert!(std::mem::offset_of!(Anchor, failed_count) < LINE);
    assert!(LOGGED_LINES * LOGGED_WORDS > NODE_WORDS && size_of::<Logged>() == LOGGED_LINES * LINE);
    // Border nodes hold all keys of one slice (nine lengths and a longer one), and one more.
    assert!(DURABLE_WIDTH > LONGER as usize + 1);
};

impl Arena {
    /// Where the list of a class is in an arena at a place.
    pub const fn place_of(arena: u64, class: usize) -> u64 {
        arena + (std::mem::offset_of!(Self, lists) + class * size_of::<FreeList>()) as u64
    }
}

impl Node {
    /// The key of an entry, or of an inner node.
    #[inline(always)]
    pub fn key(&self, slot: usize) -> &PCell {
        &self.body[slot]
    }

    /// The value of an entry.
    #[inline(always)]
    pub fn value<const DURABLE: bool>(&self, slot: usize) -> &PCell {
        &self.body[SECOND_HALF + usize::from(DURABLE) + slot]
    }

    /// The undo entry of a durable entry's value, in the line of the value.
    #[inline(always)]
    pub fn value_undo(&self, slot: usize) -> &PCell<ValueUndo> {
        self.undo_of_half(usize::from(slot >= ENTRIES_OF_UNDO_1))
    }

    /// The first (0) or the second (1) of them.
    #[inline(always)]
    pub fn undo_of_half(&self, half: usize) -> &PCell<ValueUndo> {
        self.body[[UNDO_1, UNDO_2][half]].view()
    }

    /// A word of the node.
    pub fn word(&self, index: usize) -> &PCell {
        match index {
            0 => self.version.as_word(),
            1 => self.stamp.as_word(),
            2 => &self.free_next,
            3 => &self.free_undo,
            4 => self.meta.as_word(),
            5 => self.perm_undo.as_word(),
            6 => self.perm.as_word(),
            7 => self.next.as_word(),
            in_body => &self.body[in_body - 8],
        }
    }

    /// A child of an inner node.
    #[inline(always)]
    pub fn child(&self, index: usize) -> &PCell<PPtr<Node>> {
        self.body[SECOND_HALF + index].view()
    }
}

/// One opening of a tree, as versions name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run(u64);

impl Run {
    /// What is in a node that no opening has looked at.
    pub const NONE: Self = Self(0);

    /// By the low bits of a number.
    pub const fn new(number: u64) -> Self {
        Self(number << Version::RUN & Version::OF_RUN)
    }
}

/// The lock of a node, the run that it is of, and the count of its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl Version {
    const LOCKED: u64 = 1;
    /// Readers wait: several words are being changed that must be seen together.
    const CHANGING: u64 = 2;
    /// An entry was removed: the next insertion may take its slot, which readers must notice.
    const RECYCLED: u64 = 4;
    const BORDER: u64 = 8;
    const DELETED: u64 = 16;
    const RUN: u32 = 8;
    const OF_RUN: u64 = 0xffff << Self::RUN;
    const ONE: u64 = 1 << 24;

    /// Of a node that no thread has seen.
    pub const fn fresh(border: bool, run: Run) -> Self {
        Self(run.0 | if border { Self::BORDER } else { 0 })
    }
    /// Of a node in memory that was a node before: other than all that were seen there.
    pub const fn reborn(self, border: bool, run: Run) -> Self {
        Self((self.0 & !(Self::ONE - 1)).wrapping_add(Self::ONE) | Self::fresh(border, run).0)
    }
    /// Whether it was written in this run. Where it was not, nobody has the lock that it shows.
    #[inline(always)]
    pub const fn is_of(self, run: Run) -> bool {
        (self.0 ^ run.0) & Self::OF_RUN == 0
    }
    #[inline(always)]
    pub const fn is_locked(self) -> bool {
        self.0 & Self::LOCKED != 0
    }
    #[inline(always)]
    pub const fn is_changing(self) -> bool {
        self.0 & Self::CHANGING != 0
    }
    #[inline(always)]
    pub const fn is_recycled(self) -> bool {
        self.0 & Self::RECYCLED != 0
    }
    #[inline(always)]
    pub const fn is_border(self) -> bool {
        self.0 & Self::BORDER != 0
    }
    #[inline(always)]
    pub const fn is_deleted(self) -> bool {
        self.0 & Self::DELETED != 0
    }
    #[must_use]
    pub const fn locked(self) -> Self {
        Self(self.0 | Self::LOCKED)
    }
    #[must_use]
    pub const fn changing(self) -> Self {
        Self((self.0 | Self::CHANGING) & !Self::RECYCLED)
    }
    #[must_use]
    pub const fn recycled(self) -> Self {
        Self(self.0 | Self::RECYCLED)
    }
    #[must_use]
    pub const fn deleted(self) -> Self {
        Self(self.changing().0 | Self::DELETED)
    }
    /// Of the other kind.
    #[must_use]
    pub const fn of_kind(self, border: bool) -> Self {
        Self(self.0 & !Self::BORDER | Self::fresh(border, Run::NONE).0)
    }
    /// Unlocked; a change counts.
    #[must_use]
    pub const fn released(self) -> Self {
        let bump = if self.is_changing() { Self::ONE } else { 0 };
        Self((self.0 & !(Self::LOCKED | Self::CHANGING)).wrapping_add(bump))
    }
    /// Whether anything was changed since `seen` that a reader must notice.
    #[inline(always)]
    pub const fn differs(self, seen: Self) -> bool {
        (self.0 ^ seen.0) & !(Self::LOCKED | Self::RECYCLED) != 0
    }
}

/// The live entries of a border node in the order of their keys, and behind them the free ones: a
/// count and fifteen slots of four bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation(u64);

impl Permutation {
    /// No entry is live; slots are taken in their order.
    pub const EMPTY: Self = Self(0xedcb_a987_6543_2100);

    /// The first `count` slots are live.
    pub const fn first(count: usize) -> Self {
        Self(Self::EMPTY.0 | count as u64)
    }
    #[inline(always)]
    pub const fn count(self) -> usize {
        (self.0 & 15) as usize
    }
    /// The slot at a position; positions from the count on are free slots.
    #[inline(always)]
    pub const fn slot(self, position: usize) -> usize {
        (self.0 >> (4 * (position + 1)) & 15) as usize
    }
    /// The slots at the positions from `from` to `to` one further each, and the one at `to` at
    /// `from`.
    const fn rotated(self, from: usize, to: usize) -> Self {
        let below = (1u64 << (4 * (from + 1))) - 1;
        let through = if to == 14 { u64::MAX } else { (1u64 << (4 * (to + 2))) - 1 };
        let moved = (self.0 & through & !below) << 4 & through;
        Self(self.0 & (below | !through) | moved | (self.slot(to) as u64) << (4 * (from + 1)))
    }
    /// The free slot at the position `free` becomes the entry at `position`.
    #[must_use]
    pub const fn inserted(self, position: usize, free: usize) -> Self {
        Self(self.rotated(position, free).0 + 1)
    }
    /// The entry at `position` becomes the last free slot of a node with `width` slots.
    #[must_use]
    pub const fn removed(self, position: usize, width: usize) -> Self {
        let slot = self.slot(position) as u64;
        let below = (1u64 << (4 * (position + 1))) - 1;
        let through = if width == 15 { u64::MAX } else { (1u64 << (4 * (width + 1))) - 1 };
        let moved = (self.0 & through & !below) >> 4 & !below;
        Self((self.0 & (below | !through) | moved | slot << (4 * width)) - 1)
    }
    /// The first `count` entries stay.
    #[must_use]
    pub const fn truncated(self, count: usize) -> Self {
        Self(self.0 & !15 | count as u64)
    }
    /// Whether a slot is live. The lowest nibble that is the slot's is found without a branch.
    #[inline(always)]
    pub const fn has(self, slot: usize) -> bool {
        const ONES: u64 = 0x1111_1111_1111_1111;
        let apart = (self.0 >> 4) ^ (slot as u64 * ONES);
        let zeros = apart.wrapping_sub(ONES) & !apart & (ONES << 3);
        ((zeros.trailing_zeros() / 4) as usize) < self.count()
    }
    /// Whether it names each of `width` slots once.
    pub fn is_sound(self, width: usize) -> bool {
        let named = (0..width).fold(0u64, |mask, position| mask | 1 << self.slot(position));
        self.count() <= width && named == (1 << width) - 1
    }
}

/// Which kind of node, and what its entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta(u64);

impl Meta {
    const KIND: u32 = 60;
    const BORDER: u64 = 1;
    const INNER: u64 = 2;

    /// A border node; all length codes are 0.
    pub const fn border() -> Self {
        Self(Self::BORDER << Self::KIND)
    }
    /// An inner node with `keys` keys.
    pub const fn inner(keys: usize) -> Self {
        Self(Self::INNER << Self::KIND | keys as u64)
    }
    /// Whether it is a border node; none if it is damaged.
    pub const fn is_border(self) -> Option<bool> {
        match self.0 >> Self::KIND {
            Self::BORDER => Some(true),
            Self::INNER if self.0 & ((1 << Self::KIND) - 1) <= WIDTH as u64 => Some(false),
            _ => None,
        }
    }
    /// Keys of an inner node.
    #[inline(always)]
    pub const fn keys(self) -> usize {
        (self.0 & 15) as usize
    }
    /// The length code of an entry.
    #[inline(always)]
    pub const fn code(self, slot: usize) -> u8 {
        (self.0 >> (4 * slot) & 15) as u8
    }
    #[must_use]
    pub const fn with_code(self, slot: usize, code: u8) -> Self {
        Self(self.0 & !(15 << (4 * slot)) | (code as u64) << (4 * slot))
    }
}

/// A moment of this run: an epoch, and how many times what it changed was written back before its
/// end (E0 in `epochs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(u64);

impl Moment {
    const PASS: u32 = 48;
    /// An epoch is not written back more often before its end.
    pub const MAX_PASSES: u64 = (1 << (56 - Self::PASS)) - 1;

    /// When an epoch begins.
    pub const fn first(epoch: u64) -> Self {
        Self(epoch & ((1 << Self::PASS) - 1))
    }
    /// As a word.
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }
    /// The word.
    pub const fn word(self) -> u64 {
        self.0
    }
    /// The epoch.
    #[inline(always)]
    pub const fn epoch(self) -> u64 {
        Self::first(self.0).0
    }
    /// How often the epoch was written back before.
    pub const fn pass(self) -> u64 {
        self.0 >> Self::PASS
    }
    /// When the epoch has been written back once more.
    #[must_use]
    pub const fn next_pass(self) -> Self {
        Self(self.0 + (1 << Self::PASS))
    }
}

/// The moment of the last note of a line; its undo words hold for the epoch. The low byte says what
/// was done in it. After a crash only the epoch means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    const MOMENT: u32 = 8;
    const LINES: u64 = (1 << NODE_LINES) - 1;
    const LOGGED: u64 = 1 << NODE_LINES;
    const CROSSED: u64 = 1 << (NODE_LINES + 1);

    /// Of a block that was never used.
    pub const NEVER: Self = Self(1);

    /// Of an epoch, in which the first line was written.
    #[inline(always)]
    pub const fn of(now: Moment) -> Self {
        Self(now.0 << Self::MOMENT | 1)
    }
    /// Of an epoch in which the node needs no undo (any more).
    pub const fn logged(now: Moment) -> Self {
        Self(Self::of(now).0 | Self::LOGGED | Self::LINES)
    }
    /// The epoch.
    #[inline(always)]
    pub const fn epoch(self) -> u64 {
        self.moment().epoch()
    }
    /// When the line was noted last.
    #[inline(always)]
    pub const fn moment(self) -> Moment {
        Moment(self.0 >> Self::MOMENT)
    }
    /// The same, noted again in the epoch. The lines stay: an earlier note may still be read.
    #[must_use]
    pub const fn noted(self, now: Moment) -> Self {
        Self(now.0 << Self::MOMENT | self.0 & ((1 << Self::MOMENT) - 1))
    }
    /// Whether the node needs no undo any more in this epoch.
    #[inline(always)]
    pub const fn is_logged(self) -> bool {
        self.0 & Self::LOGGED != 0
    }
    /// Of an epoch whose high bits the stamp before did not have, and may be durable without this
    /// one: undo entries of values would be taken for those of another epoch.
    #[must_use]
    pub const fn crossed(self) -> Self {
        Self(self.0 | Self::CROSSED)
    }
    /// Whether it is such a one.
    #[inline(always)]
    pub const fn is_crossed(self) -> bool {
        self.0 & Self::CROSSED != 0
    }
    /// The same with one more line that was written, by its number.
    #[must_use]
    #[inline(always)]
    pub const fn with_line(self, line: usize) -> Self {
        Self(self.0 | 1 << line)
    }
    /// Whether a line was written.
    #[inline(always)]
    pub const fn has_line(self, line: usize) -> bool {
        self.0 >> line & 1 != 0
    }
}

/// What the value of an entry was before an epoch (InCLL1 and InCLL2, packed as in Figure 1, but
/// for values of 45 bits of any alignment): which of the seven entries of the line, the value, and
/// the low bits of the epoch. The high ones are those of the node's stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueUndo(u64);

impl ValueUndo {
    /// No entry.
    pub const NONE: Self = Self(7);
    const INDEX_BITS: u32 = 3;
    const EPOCH: u32 = 48;
    const VALUE_BITS: u32 = Self::EPOCH - Self::INDEX_BITS;

    /// None if the value has too many bits.
    pub const fn of(slot: usize, value: u64, epoch: u64) -> Option<Self> {
        if value >> Self::VALUE_BITS != 0 {
            return None;
        }
        let index = (slot % ENTRIES_OF_UNDO_1) as u64;
        Some(Self(epoch << Self::EPOCH | value << Self::INDEX_BITS | index))
    }
    /// The slot and the value, in this half of the entries.
    pub const fn entry(self, half: usize) -> Option<(usize, u64)> {
        let index = (self.0 & 7) as usize;
        if index == 7 {
            return None;
        }
        let value = self.0 << (u64::BITS - Self::EPOCH) >> (u64::BITS - Self::VALUE_BITS);
        Some((half * ENTRIES_OF_UNDO_1 + index, value))
    }
    /// The epoch, which has its high bits in common with another one.
    pub const fn epoch(self, beside: u64) -> u64 {
        let bits = u64::BITS - Self::EPOCH;
        beside >> bits << bits | self.0 >> Self::EPOCH
    }
    /// Whether two epochs have the high bits in common that are not in the word.
    pub const fn in_common(a: u64, b: u64) -> bool {
        let bits = u64::BITS - Self::EPOCH;
        a >> bits == b >> bits
    }
}

/// What the value word of a key that goes on after its slice leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// The record of one key.
    Record(u64),
    /// The root of a layer.
    Layer(u64),
}

impl Onward {
    #[inline(always)]
    pub const fn of(word: u64) -> Self {
        if word & 1 == 0 { Self::Record(word) } else { Self::Layer(word & !1) }
    }
    pub const fn word(self) -> u64 {
        match self {
            Self::Record(offset) => offset,
            Self::Layer(offset) => offset | 1,
        }
    }
}

macro_rules! word {
    ($($name:ident),*) => { $(
        impl Word for $name {
            #[inline(always)]
            fn into_word(self) -> u64 {
                self.0
            }
            #[inline(always)]
            fn from_word(word: u64) -> Self {
                Self(word)
            }
        }
    )* };
}
word!(Version, Permutation, Meta, Stamp, ValueUndo);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn permutations_do_what_a_list_does(
            width in 3usize..=15, steps in prop::collection::vec((0usize..15, 0usize..15), 0..60)
        ) {
            let mut perm = Permutation::EMPTY;
            let (mut live, mut free): (Vec<usize>, Vec<usize>) = (vec![], (0..width).collect());
            for (a, b) in steps {
                if a % 2 == 0 && !free.is_empty() {
                    let (position, choice) = (b % (live.len() + 1), a / 2 % free.len());
                    perm = perm.inserted(position, live.len() + choice);
                    live.insert(position, free.remove(choice));
                } else if !live.is_empty() {
                    let position = b % live.len();
                    perm = perm.removed(position, width);
                    free.push(live.remove(position));
                }
                prop_assert!(perm.is_sound(width));
                prop_assert_eq!(perm.count(), live.len());
                let slots: Vec<usize> = (0..width).map(|position| perm.slot(position)).collect();
                prop_assert_eq!(slots, [live.clone(), free.clone()].concat());
                prop_assert!((0..width).all(|slot| perm.has(slot) == live.contains(&slot)));
            }
        }

        #[test]
        fn metas_keep_their_codes(codes in prop::collection::vec(0u8..=LONGER, 15)) {
            let meta = codes.iter().enumerate().fold(Meta::border(), |meta, (slot, code)| {
                meta.with_code(slot, 15).with_code(slot, *code)
            });
            prop_assert!(codes.iter().enumerate().all(|(slot, code)| meta.code(slot) == *code));
            prop_assert_eq!(meta.is_border(), Some(true));
        }

        #[test]
        fn undo_entries_keep_what_they_undo(
            slot in 0usize..DURABLE_WIDTH, value in 0u64..1 << 45, epoch in 0u64..1 << 48
        ) {
            let (undo, half) = (ValueUndo::of(slot, value, epoch).unwrap(), slot / 7);
            prop_assert_eq!(undo.entry(half), Some((slot, value)));
            prop_assert_eq!(undo.epoch(epoch & !0xffff | 5), epoch);
            prop_assert_eq!(ValueUndo::of(slot, value | 1 << 45, epoch), None);
            prop_assert_eq!(ValueUndo::NONE.entry(half), None);
            prop_assert!(ValueUndo::in_common(epoch, epoch ^ 0xffff));
            prop_assert!(!ValueUndo::in_common(epoch, epoch ^ 0x1_0000));
            let now = Moment::first(epoch);
            let stamp = Stamp::of(now).with_line(3);
            prop_assert!(stamp.epoch() == epoch && !stamp.is_logged());
            prop_assert!(stamp.has_line(0) && !stamp.has_line(1) && stamp.has_line(3));
            prop_assert!(Stamp::logged(now).is_logged() && Stamp::logged(now).has_line(4));
            let last = (0..Moment::MAX_PASSES).fold(now, |now, _| now.next_pass());
            prop_assert!(last.epoch() == epoch && last.pass() == Moment::MAX_PASSES);
            prop_assert!(stamp.noted(last).moment() == last && stamp.noted(last).has_line(3));
            prop_assert!(stamp.noted(last).noted(now) == stamp);
            prop_assert!(stamp.crossed().is_crossed() && !stamp.is_crossed());
            prop_assert!(stamp.crossed().epoch() == epoch && !stamp.crossed().is_logged());
        }

        #[test]
        fn versions_tell_changes_and_nothing_else(word: u64) {
            let seen = Version(word).released();
            prop_assert!(!seen.is_locked() && !seen.is_changing());
            prop_assert!(!seen.locked().differs(seen) && !seen.recycled().differs(seen));
            prop_assert!(!seen.locked().released().differs(seen));
            prop_assert!(seen.locked().changing().differs(seen));
            prop_assert!(seen.locked().changing().released().differs(seen));
            let run = Run::new(word >> 32);
            prop_assert!(seen.deleted().released().is_deleted());
            prop_assert!(seen.reborn(true, run).differs(seen) && seen.reborn(true, run).is_of(run));
            prop_assert!(seen.reborn(true, run).locked().changing().released().is_of(run));
            let other = Run::new((word >> 32) ^ 1 << (word % 16));
            prop_assert!(!Version::fresh(true, run).is_of(other));
            prop_assert!(!seen.changing().is_recycled() && seen.of_kind(true).is_border());
        }
    }

    #[test]
    fn every_record_of_a_key_has_a_class() {
        for bytes in [1, 64, 65, 320, 321, RECORD_HEAD + (64 << 10)] {
            assert!(SIZES[class_for(bytes).unwrap()] >= bytes);
        }
        assert!(class_for(1 << 20).is_none() && SIZES.is_sorted());
        assert!(SIZES.iter().all(|size| size.is_multiple_of(LINE as u64)));
    }
}
