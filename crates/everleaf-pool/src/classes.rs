//! Sizes of blocks, and what a chunk is used for.

use crate::layout::CHUNK;
use crate::word::{SEALED_BITS, Sealed};

/// Block sizes in bytes: for k blocks a chunk, 4096/k rounded down to 16.
const SIZES: [u64; 28] = [
    16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256, 288, 304, 336, 368, 400, 448,
    512, 576, 672, 816, 1024, 1360, 2048, 4096,
];

/// All sizes are multiples of this.
const UNIT: usize = 16;

/// The first class that has room for so many units.
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
}

/// What a chunk is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Nothing.
    Free,
    /// Blocks of a class, for nodes.
    NodeBlocks(Class),
    /// Blocks of a class, for records.
    RecordBlocks(Class),
    /// The first of so many chunks that hold nodes.
    NodeRun(u64),
    /// The first of so many chunks that hold one record.
    RecordRun(u64),
}

impl Usage {
    /// The descriptor word: kind in the low 4 bits, class or length above.
    pub const fn seal(self) -> Sealed {
        let (kind, argument) = match self {
            Usage::Free => (0, 0),
            Usage::NodeBlocks(class) => (1, class.0 as u64),
            Usage::RecordBlocks(class) => (2, class.0 as u64),
            Usage::NodeRun(chunks) => (3, chunks),
            Usage::RecordRun(chunks) => (4, chunks),
        };
        debug_assert!(argument < 1 << (SEALED_BITS - 4));
        Sealed::of(argument << 4 | kind)
    }

    /// The usage that a descriptor word stands for; none if it is damaged.
    pub fn unseal(word: Sealed) -> Option<Self> {
        let content = word.open()?;
        let argument = content >> 4;
        match content & 0xf {
            0 if argument == 0 => Some(Usage::Free),
            1 => Class::from_index(argument).map(Usage::NodeBlocks),
            2 => Class::from_index(argument).map(Usage::RecordBlocks),
            3 if argument > 0 => Some(Usage::NodeRun(argument)),
            4 if argument > 0 => Some(Usage::RecordRun(argument)),
            _ => None,
        }
    }

    /// Chunks that this usage covers from its first one on.
    pub const fn chunks(self) -> u64 {
        match self {
            Usage::NodeRun(chunks) | Usage::RecordRun(chunks) => chunks,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_round_trip() {
        let class = Class::for_bytes(100, 8).unwrap();
        for usage in [
            Usage::Free,
            Usage::NodeBlocks(class),
            Usage::RecordBlocks(class),
            Usage::NodeRun(16),
            Usage::RecordRun(1 << 30),
        ] {
            assert_eq!(Usage::unseal(usage.seal()), Some(usage));
        }
        assert_eq!(Usage::unseal(Sealed::of(7)), None);
        assert_eq!(Usage::unseal(Sealed::of(1 | 200 << 4)), None);
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
        assert!(SIZES.is_sorted() && SIZES.iter().all(|size| size.is_multiple_of(UNIT as u64)));
    }
}
