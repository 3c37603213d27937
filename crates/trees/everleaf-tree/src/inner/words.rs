//! The packed words that readers watch: that of a node, and that of the root.

use crate::latch::LatchWord;

/// The count of a node, and its latch: 8 bits count, 1 bit lock, 55 bits version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWord(u64);

impl NodeWord {
    const COUNT: u64 = (1 << 8) - 1;
    /// The greatest count.
    pub(super) const MAX_COUNT: usize = Self::COUNT as usize;
    /// That of a node that was never used: no slots, not locked.
    #[cfg(test)]
    pub const EMPTY: Self = Self(0);

    /// Slots in use.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        (self.0 & Self::COUNT) as usize
    }

    /// The same with another count.
    pub(super) fn with_count(self, count: usize) -> Self {
        debug_assert!(count <= Self::MAX_COUNT);
        Self(self.0 & !Self::COUNT | count as u64)
    }
}

impl LatchWord for NodeWord {
    const LOCK: u64 = 1 << 8;

    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }
}

/// Where the tree begins: 32 bits the root node, 6 bits height, 26 bits version. One word, so that
/// root and height are read together; the version, so that a thread that saw an earlier root
/// notices, even if the same node is the root again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RootWord(pub(super) u64);

impl RootWord {
    const HEIGHT_SHIFT: u32 = 32;
    const HEIGHT: u64 = (1 << 6) - 1;
    const VERSION_SHIFT: u32 = 38;
    /// There is no node, only one child.
    pub(super) const NO_NODE: Self = Self(0);

    /// Levels of nodes.
    #[inline(always)]
    pub(super) fn height(self) -> u32 {
        (self.0 >> Self::HEIGHT_SHIFT & Self::HEIGHT) as u32
    }

    /// The root node; 0 and meaningless if the height is 0.
    #[inline(always)]
    pub(super) fn node(self) -> u32 {
        self.0 as u32
    }

    /// The word that follows this one.
    pub(super) fn replaced_by(self, node: u32, height: u32) -> Self {
        debug_assert!(u64::from(height) <= Self::HEIGHT);
        let version = (self.0 >> Self::VERSION_SHIFT).wrapping_add(1);
        Self(
            version << Self::VERSION_SHIFT
                | u64::from(height) << Self::HEIGHT_SHIFT
                | u64::from(node),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn node_words_round_trip(
            bits: u64,
            count in 0..=NodeWord::MAX_COUNT,
            other in 0..=NodeWord::MAX_COUNT,
        ) {
            let word = NodeWord::from_bits(bits).with_count(count);
            prop_assert_eq!((word.count(), word.is_locked()), (count, bits >> 8 & 1 == 1));
            prop_assert_eq!(word.with_count(other).with_count(count), word);
            let changed = word.with_count(other);
            prop_assert_eq!((changed.count(), changed.is_locked()), (other, word.is_locked()));
            prop_assert!(word.locked().is_locked() && !word.unlocked().is_locked());
            prop_assert_eq!(word.locked().unlocked(), word.unlocked());
            let next = word.next_version();
            prop_assert_eq!((next.count(), next.is_locked()), (count, word.is_locked()));
            prop_assert_eq!(next.bits() >> 9, ((word.bits() >> 9) + 1) % (1 << 55), "goes round");
        }

        #[test]
        fn root_words_round_trip(bits: u64, node: u32, height in 0u32..64) {
            let word = RootWord(bits);
            let next = word.replaced_by(node, height);
            prop_assert_eq!((next.node(), next.height()), (node, height));
            prop_assert_ne!(next, word);
            let again = next.replaced_by(word.node(), word.height());
            prop_assert_ne!(again, word, "the same root again is another word");
        }
    }

    #[test]
    fn an_unused_node_is_empty_and_not_locked() {
        assert_eq!((NodeWord::EMPTY.count(), NodeWord::EMPTY.is_locked()), (0, false));
        assert_eq!((RootWord::NO_NODE.height(), RootWord::NO_NODE.node()), (0, 0));
    }
}
