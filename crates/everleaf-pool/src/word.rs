//! Words that check themselves: 48 bits of content, 16 bits of checksum.

use everleaf_pmem::Word;

/// Bits of content in a [`Sealed`] word.
pub(crate) const SEALED_BITS: u32 = 48;

/// A p-atomic word that carries its own checksum. Neither the all-zero word nor the all-ones word
/// is one: a page that was lost, and reads as zeros, is damage and not an empty table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed(u64);

impl Sealed {
    /// Content 0.
    pub const ZERO: Self = Self::of(0);

    /// Seals `content`, which must fit into 48 bits: every caller packs bounded fields.
    pub const fn of(content: u64) -> Self {
        debug_assert!(content >> SEALED_BITS == 0);
        Self(content | (checksum(content) << SEALED_BITS))
    }

    /// The content, or none if the word is damaged.
    #[inline(always)]
    pub const fn open(self) -> Option<u64> {
        // What most words of a table hold needs no checksum.
        if self.0 == Self::ZERO.0 {
            return Some(0);
        }
        let content = self.0 & ((1 << SEALED_BITS) - 1);
        if checksum(content) == self.0 >> SEALED_BITS { Some(content) } else { None }
    }
}

/// 16 bits that a change of the content changes (a multiplicative mix), not 0 for 0.
const fn checksum(content: u64) -> u64 {
    let mixed = (content ^ (content >> 23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 48) ^ CHECKSUM_OF_ZERO
}

/// What is mixed into every checksum.
const CHECKSUM_OF_ZERO: u64 = 0x5ea1;

impl Word for Sealed {
    fn into_word(self) -> u64 {
        self.0
    }
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_round_trip_and_blank_memory_is_damage() {
        assert_eq!(Sealed::from_word(0).open(), None);
        assert_eq!(Sealed::from_word(u64::MAX).open(), None);
        assert_eq!(Sealed::ZERO.open(), Some(0));
        for content in [0, 1, 2, 0xffff_ffff_ffff, 0x8000_0000_0000, 12345] {
            assert_eq!(Sealed::of(content).open(), Some(content));
        }
    }

    #[test]
    fn every_flip_of_one_bit_is_seen() {
        for content in [0, 1, 2, 3, 0x1000, 0xffff_ffff_ffff, 0x1234_5678_9abc] {
            for bit in 0..64 {
                assert_eq!(
                    Sealed::from_word(Sealed::of(content).into_word() ^ (1 << bit)).open(),
                    None,
                    "{content:#x} bit {bit}"
                );
            }
        }
    }
}
