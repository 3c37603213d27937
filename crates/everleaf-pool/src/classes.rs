//! Sizes of blocks, kinds of nodes, and what a chunk is used for.

use everleaf_pmem::Persistent;

use crate::Record;
use crate::layout::CHUNK;
use crate::word::{SEALED_BITS, Sealed};

/// Block sizes in bytes: for k blocks a chunk, 4096/k rounded down to 16.
const SIZES: [u64; 28] = [
    16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256, 288, 304, 336, 368, 400, 448,
    512, 576, 672, 816, 1024, 1360, 2048, 4096,
];

/// All sizes are multiples of this.
const UNIT: usize = 16;

/// The first class whose blocks hold so many units.
const FIRST_FOR_UNITS: [u8; CHUNK as usize / UNIT + 1] = {
    let mut first = [0; CHUNK as usize / UNIT + 1];
    let mut units = 0;
    while units < first.len() {
        let mut class = 0;
        while SIZES[class] < (units * UNIT) as u64 {
            class += 1;
        }
        first[units] = class as u8;
        units += 1;
    }
    first
};

/// Words of 64 bits that hold a bit for each place where a block may begin.
const PLACE_WORDS: usize = CHUNK as usize / UNIT / 64;

/// Of each class the places of a chunk where its blocks begin, a bit for each 16 bytes. A look at
/// a cached word instead of a division.
static STARTS: [[u64; PLACE_WORDS]; SIZES.len()] = {
    let mut starts = [[0; PLACE_WORDS]; SIZES.len()];
    let mut class = 0;
    while class < SIZES.len() {
        let mut block = 0;
        while (block + 1) * SIZES[class] <= CHUNK {
            let place = (block * SIZES[class]) as usize / UNIT;
            starts[class][place / 64] |= 1 << (place % 64);
            block += 1;
        }
        class += 1;
    }
    starts
};

/// Which structure a node belongs to. Structures that share a pool choose different kinds: then a
/// pointer of the one that leads into a node of the other is an error, and each lists its own nodes
/// and runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeKind(u8);

impl NodeKind {
    /// How many kinds a pool tells apart, its own roots among them: the byte that is looked at for
    /// every pointer holds a kind and a class.
    pub const COUNT: usize = 7;
    /// The roots of a pool, see [`RootName`](crate::RootName).
    pub(crate) const ROOT: Self = Self(0);

    /// The kind with this number, from 1 to 6.
    ///
    /// # Panics
    /// If there is no such kind; at compile time where it stands in a constant.
    pub const fn new(number: u8) -> Self {
        assert!(number > 0 && (number as usize) < Self::COUNT, "kinds have the numbers 1 to 6");
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    fn from_number(number: u64) -> Option<Self> {
        (number < Self::COUNT as u64).then_some(Self(number as u8))
    }
}

/// The beginning of a node of some structure: what a typed pointer leads to.
///
/// # Examples
/// ```
/// use everleaf_pmem::{PCell, persistent};
/// use everleaf_pool::{Node, NodeKind};
///
/// persistent! {
///     struct Leaf {
///         words: [PCell; 8],
///     }
/// }
/// impl Node for Leaf {
///     const KIND: NodeKind = NodeKind::new(1);
/// }
/// ```
pub trait Node: Persistent {
    /// The kind of its nodes.
    const KIND: NodeKind;
}

/// What a block holds: a [`Record`], or a [`Node`] of its kind.
pub trait Content: 'static {
    /// The kind of node; none for records.
    const NODE: Option<NodeKind>;
}

impl Content for Record {
    const NODE: Option<NodeKind> = None;
}

impl<T: Node + 'static> Content for T {
    const NODE: Option<NodeKind> = Some(T::KIND);
}

/// An index into the list of block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(u8);

impl Class {
    pub const COUNT: usize = SIZES.len();

    /// The smallest class for `bytes` whose blocks are aligned to `align`; none if a run is needed.
    pub fn for_bytes(bytes: u64, align: u64) -> Option<Self> {
        debug_assert!(align.is_power_of_two());
        let first = *FIRST_FOR_UNITS.get(bytes.div_ceil(UNIT as u64) as usize)?;
        let aligned = |class: &u8| SIZES[usize::from(*class)] & (align - 1) == 0;
        (first..SIZES.len() as u8).find(aligned).map(Self)
    }

    /// The index of the smallest class whose blocks hold `bytes`; [`COUNT`](Self::COUNT) if
    /// none does.
    pub const fn min_index_for(bytes: usize) -> u8 {
        if bytes > CHUNK as usize {
            Self::COUNT as u8
        } else {
            FIRST_FOR_UNITS[bytes.div_ceil(UNIT)]
        }
    }

    /// Whether a block of the class with this index begins at `offset`.
    #[inline(always)]
    pub fn begins_at(index: u8, offset: u64) -> bool {
        let within = (offset % CHUNK) as usize;
        let place = within / UNIT;
        within.is_multiple_of(UNIT)
            && STARTS[usize::from(index)][place / 64] >> (place % 64) & 1 == 1
    }

    pub const fn sizes() -> &'static [u64] {
        &SIZES
    }

    pub fn from_index(index: u64) -> Option<Self> {
        (index < SIZES.len() as u64).then_some(Self(index as u8))
    }

    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub const fn block_bytes(self) -> u64 {
        SIZES[self.0 as usize]
    }

    pub const fn blocks(self) -> usize {
        (CHUNK / self.block_bytes()) as usize
    }

    /// Bytes of all blocks of a chunk.
    pub const fn all_bytes(self) -> u64 {
        self.blocks() as u64 * self.block_bytes()
    }
}

/// What a chunk is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Nothing.
    Free,
    /// Blocks of a class, for nodes of a kind.
    NodeBlocks(NodeKind, Class),
    /// Blocks of a class, for records.
    RecordBlocks(Class),
    /// The first of so many chunks that hold nodes of a kind.
    NodeRun(NodeKind, u64),
    /// The first of so many chunks that hold one record.
    RecordRun(u64),
}

impl Usage {
    /// Lists of chunks of blocks that are kept apart: one for records, one for each kind of node.
    pub const LISTS: usize = 1 + NodeKind::COUNT;
    /// Bits of the tag of a descriptor.
    const TAG_BITS: u32 = 4;
    /// Bits of the kind of node, behind the tag.
    const KIND_BITS: u32 = 8;

    /// The blocks that `content` goes into.
    pub const fn blocks(content: Option<NodeKind>, class: Class) -> Self {
        match content {
            Some(kind) => Usage::NodeBlocks(kind, class),
            None => Usage::RecordBlocks(class),
        }
    }

    /// The run that `content` goes into.
    pub const fn run(content: Option<NodeKind>, chunks: u64) -> Self {
        match content {
            Some(kind) => Usage::NodeRun(kind, chunks),
            None => Usage::RecordRun(chunks),
        }
    }

    /// The descriptor word: a tag in the low 4 bits, above it the kind of nodes if it is nodes,
    /// then the class or the length.
    pub const fn seal(self) -> Sealed {
        let (tag, argument) = match self {
            Usage::Free => (0, 0),
            Usage::NodeBlocks(kind, class) => (1, of_kind(kind, class.0 as u64)),
            Usage::RecordBlocks(class) => (2, class.0 as u64),
            Usage::NodeRun(kind, chunks) => (3, of_kind(kind, chunks)),
            Usage::RecordRun(chunks) => (4, chunks),
        };
        debug_assert!(argument < 1 << (SEALED_BITS - Self::TAG_BITS));
        Sealed::of(argument << Self::TAG_BITS | tag)
    }

    /// The usage that a descriptor word stands for; none if it is damaged.
    pub fn unseal(word: Sealed) -> Option<Self> {
        let content = word.open()?;
        let argument = content >> Self::TAG_BITS;
        let kind = NodeKind::from_number(argument & ((1 << Self::KIND_BITS) - 1));
        let of_kind = argument >> Self::KIND_BITS;
        match content & ((1 << Self::TAG_BITS) - 1) {
            0 if argument == 0 => Some(Usage::Free),
            1 => Some(Usage::NodeBlocks(kind?, Class::from_index(of_kind)?)),
            2 => Class::from_index(argument).map(Usage::RecordBlocks),
            3 if of_kind > 0 => Some(Usage::NodeRun(kind?, of_kind)),
            4 if argument > 0 => Some(Usage::RecordRun(argument)),
            _ => None,
        }
    }

    /// Chunks that this usage covers from its first one on.
    pub const fn chunks(self) -> u64 {
        match self {
            Usage::NodeRun(_, chunks) | Usage::RecordRun(chunks) => chunks,
            _ => 1,
        }
    }

    /// The class of the blocks of a chunk of blocks.
    pub const fn class(self) -> Option<Class> {
        match self {
            Usage::NodeBlocks(_, class) | Usage::RecordBlocks(class) => Some(class),
            _ => None,
        }
    }

    /// The kind of the nodes in it.
    pub const fn node_kind(self) -> Option<NodeKind> {
        match self {
            Usage::NodeBlocks(kind, _) | Usage::NodeRun(kind, _) => Some(kind),
            _ => None,
        }
    }

    /// Whether records are in it.
    pub const fn is_of_records(self) -> bool {
        matches!(self, Usage::RecordBlocks(_) | Usage::RecordRun(_))
    }

    /// Whether such a chunk or run holds `content`.
    pub fn holds(self, content: Option<NodeKind>) -> bool {
        match content {
            Some(kind) => self.node_kind() == Some(kind),
            None => self.is_of_records(),
        }
    }

    /// The list that a chunk of such blocks is kept in, below [`LISTS`](Self::LISTS), and its
    /// class.
    pub const fn list(self) -> Option<(usize, Class)> {
        match self {
            Usage::RecordBlocks(class) => Some((0, class)),
            Usage::NodeBlocks(kind, class) => Some((1 + kind.0 as usize, class)),
            _ => None,
        }
    }
}

const fn of_kind(kind: NodeKind, argument: u64) -> u64 {
    argument << Usage::KIND_BITS | kind.0 as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_round_trip() {
        let class = Class::for_bytes(100, 8).unwrap();
        for usage in [
            Usage::Free,
            Usage::NodeBlocks(NodeKind::new(6), class),
            Usage::NodeBlocks(NodeKind::ROOT, class),
            Usage::RecordBlocks(class),
            Usage::NodeRun(NodeKind::new(1), 1 << 30),
            Usage::RecordRun(1 << 30),
        ] {
            assert_eq!(Usage::unseal(usage.seal()), Some(usage));
        }
        assert_eq!(Usage::unseal(Sealed::of(7)), None);
        for impossible in [1 | 200 << 12, 1 | 7 << 4, 3 | 1 << 4, 3 | 7 << 4 | 1 << 12, 4] {
            assert_eq!(Usage::unseal(Sealed::of(impossible)), None, "{impossible:#x}");
        }
    }

    #[test]
    fn classes_fit_and_align() {
        for bytes in 1..=CHUNK {
            let class = Class::for_bytes(bytes, 8).unwrap();
            let smaller = SIZES[..class.index()].iter().max().is_some_and(|size| *size >= bytes);
            assert!(
                !smaller
                    && class.block_bytes() >= bytes
                    && class.blocks() <= crate::layout::MAX_BLOCKS
                    && class.blocks() >= 1
            );
            assert!(Class::for_bytes(bytes, 64).unwrap().block_bytes().is_multiple_of(64));
        }
        assert!(
            Class::for_bytes(CHUNK + 1, 8).is_none() && Class::for_bytes(u64::MAX, 8).is_none()
        );
        for class in 0..Class::COUNT as u8 {
            let begins = (0..CHUNK).filter(|offset| Class::begins_at(class, 3 * CHUNK + offset));
            let bytes = SIZES[usize::from(class)];
            assert!(begins.eq((0..CHUNK / bytes).map(|block| block * bytes)), "{bytes}");
        }
        assert_eq!(usize::from(Class::min_index_for(CHUNK as usize + 1)), Class::COUNT);
        assert!(SIZES.is_sorted() && SIZES.iter().all(|size| size.is_multiple_of(UNIT as u64)));
    }
}
