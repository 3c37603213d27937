//! Records of a redo log, one behind the other: where words go, and the words. What is stored and
//! flushed when, and what commits a log, stands in the families.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PCell, WORD};
use everleaf_pool::Run;

/// Where the words of a record go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(u64);

impl Target {
    /// Bits of the number of words.
    pub const LENGTH_BITS: u32 = 16;

    /// So many words from this offset on, a multiple of 8.
    #[inline(always)]
    pub const fn new(offset: u64, words: usize) -> Self {
        Self(((offset / WORD as u64) << Self::LENGTH_BITS) | words as u64)
    }
    /// From the word that a record begins with; total.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }
    /// The word that a record begins with.
    #[inline(always)]
    pub const fn into_word(self) -> u64 {
        self.0
    }
    /// Bytes from the pool's base.
    #[inline(always)]
    pub const fn offset(self) -> u64 {
        (self.0 >> Self::LENGTH_BITS) * WORD as u64
    }
    /// Words of the record behind this one.
    #[inline(always)]
    pub const fn words(self) -> usize {
        (self.0 & ((1 << Self::LENGTH_BITS) - 1)) as usize
    }
    /// Whether the words lie in one node of these runs, each of which has nodes of so many bytes.
    pub fn is_in_a_node(self, runs: &[Run], node_bytes: u64) -> bool {
        let after = runs.partition_point(|run| run.offset <= self.offset());
        after.checked_sub(1).is_some_and(|run| {
            let within = self.offset() - runs[run].offset;
            let (number, start) = (within / node_bytes, within % node_bytes);
            number < runs[run].bytes / node_bytes
                && start + (self.words() * WORD) as u64 <= node_bytes
        })
    }
}

/// A record that was found in a log: its words, and where they go.
pub struct Record<'r> {
    /// Where its words go, as the log says it.
    pub target: Target,
    /// The cells there.
    pub places: &'r [PCell],
    /// Its words.
    pub words: &'r [PCell],
}

/// The records in a part of a log, which is at `offset`. All of them are looked at before any is
/// stored.
///
/// # Errors
/// [`IndexError::Corrupt`] if a record is none, or goes elsewhere than into `is_target`.
pub fn records_in<'r, M: Media>(
    media: &'r M,
    offset: u64,
    mut part: &'r [PCell],
    is_target: impl Fn(Target) -> bool,
) -> Result<Vec<Record<'r>>> {
    let damaged = |what| IndexError::Corrupt { offset, what };
    let mut found = Vec::new();
    while let Some((head, rest)) = part.split_first() {
        let target = Target::from_word(media.load(head));
        if target.words() == 0 || target.words() > rest.len() || !is_target(target) {
            return Err(damaged("a record of the log goes into no node"));
        }
        let (words, next) = rest.split_at(target.words());
        let places = media.region().cells(target.offset(), target.words());
        let places = places.ok_or(damaged("a record of the log goes beyond the pool"))?;
        found.push(Record { target, places, words });
        part = next;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_target_keeps_place_and_length(offset in 0..1u64 << 47, words in 0..1usize << 16) {
            let target = Target::from_word(Target::new(offset * 8, words).into_word());
            prop_assert_eq!((target.offset(), target.words()), (offset * 8, words));
        }
    }
}
