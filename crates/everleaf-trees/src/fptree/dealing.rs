//! Leaves are dealt into shares while they are found, each share above the one before it, so that
//! threads can put one share after another in order and no two lists are to be merged: a
//! samplesort. Of a tree of up to ten million keys a share is short enough to stay in a processor's
//! cache. Where shares part is known beforehand, from some of the leaves.

use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::{DramLine, LINE, Media, SimdLevel, WORD, prefetch};
use everleaf_pool::Pool;

use super::key::LeafKey;
use super::shares::{Live, LiveOf};

/// Leaves of a share, about.
const SHARE: usize = if cfg!(test) { 64 } else { 4096 };
/// Shares at most: to deal into more takes longer than it saves.
const MOST_SHARES: usize = 64;
/// Leaves of a share that lie together: a kilobyte of `u64` keys.
const BLOCK: usize = 64;
const LINE_WORDS: usize = LINE / WORD;
const _: () =
    assert!(MOST_SHARES <= LINE_WORDS * LINE_WORDS, "two counts in a line of words find any share");

/// Where shares part.
pub(super) struct Splitters<K: LeafKey> {
    /// Each share but the first begins with one of these leaves, ascending.
    leaves: Vec<LiveOf<K>>,
    /// Their prefixes, eight to a line; behind these a line with the last prefix of each full one.
    /// A share is found by two counts, without a branch to be guessed.
    prefixes: Vec<DramLine>,
    simd: SimdLevel,
}

impl<K: LeafKey> Splitters<K> {
    /// For so many leaves, at most; `some`, about evenly chosen among all, are only asked for if
    /// they are worth more than one share.
    pub fn among<M: Media>(
        pool: &Pool<M>,
        leaves: usize,
        some: impl FnOnce() -> Vec<LiveOf<K>>,
    ) -> Self {
        let shares = leaves.div_ceil(SHARE).clamp(1, MOST_SHARES);
        let mut some = if shares > 1 { some() } else { Vec::new() };
        some.sort_unstable_by(|a, b| a.compare::<K, M>(b, pool));
        let leaves: Vec<_> = (1..shares)
            .filter_map(|share| some.get(share * some.len() / shares).copied())
            .collect();
        let mut prefixes: Vec<_> = leaves
            .chunks(LINE_WORDS)
            .map(|leaves| line_of(leaves.iter().map(|leaf| leaf.prefix)))
            .collect();
        prefixes.push(line_of(
            leaves.chunks_exact(LINE_WORDS).map(|leaves| leaves[LINE_WORDS - 1].prefix),
        ));
        Self { leaves, prefixes, simd: pool.media().dram().simd }
    }

    /// How many shares there are.
    pub fn shares(&self) -> usize {
        self.leaves.len() + 1
    }

    /// The share that a leaf belongs to. Leaves with the same bound belong to the same.
    #[inline(always)]
    fn share_of<M: Media>(&self, leaf: &LiveOf<K>, pool: &Pool<M>) -> usize {
        let Some((lasts, lines)) = self.prefixes.split_last() else { return 0 };
        let line = lasts.count_at_most(self.simd, leaf.prefix);
        let before = lines.get(line).map_or(0, |words| words.count_at_most(self.simd, leaf.prefix));
        let share = (line * LINE_WORDS + before).min(self.leaves.len());
        // Not for the order, which leaves of one prefix keep in any one share, but for the balance:
        // strings that begin alike would all fall into one.
        let alike = K::RECORDS && share > 0 && self.leaves[share - 1].prefix == leaf.prefix;
        if alike {
            self.leaves.partition_point(|splitter| splitter.compare::<K, M>(leaf, pool).is_le())
        } else {
            share
        }
    }
}

/// These words, filled up with `u64::MAX`, which only the prefix `u64::MAX` counts: `share_of` cuts
/// that off.
fn line_of(words: impl Iterator<Item = u64>) -> DramLine {
    let line = DramLine::filled(u64::MAX);
    line.0.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
    line
}

/// Leaves that one thread has found.
pub(super) struct Dealt<K: LeafKey> {
    /// Of all shares, in blocks.
    leaves: Vec<LiveOf<K>>,
    shares: Vec<Blocks>,
}

/// Where the leaves of a share are.
#[derive(Clone, Default)]
struct Blocks {
    /// Where each block begins. All are full but the last.
    starts: Vec<usize>,
    /// Where the next leaf belongs, unless a block ends there.
    next: usize,
}

impl Blocks {
    fn len(&self) -> usize {
        self.starts.last().map_or(0, |last| (self.starts.len() - 1) * BLOCK + self.next - last)
    }
}

impl<K: LeafKey> Dealt<K> {
    /// None yet, with room for so many.
    pub fn none(splitters: &Splitters<K>, room: usize) -> Self {
        let shares = splitters.shares();
        Self {
            leaves: Vec::with_capacity(room + shares * BLOCK),
            shares: vec![Blocks::default(); shares],
        }
    }

    /// Puts a leaf into its share.
    #[inline(always)]
    pub fn deal<M: Media>(&mut self, leaf: LiveOf<K>, splitters: &Splitters<K>, pool: &Pool<M>) {
        let share = splitters.share_of(&leaf, pool);
        let blocks = &mut self.shares[share];
        if blocks.next.is_multiple_of(BLOCK) {
            blocks.next = self.leaves.len();
            blocks.starts.push(blocks.next);
            self.leaves.resize(
                blocks.next + BLOCK,
                Live { prefix: 0, bound: K::bound_word(0), offset: 0 },
            );
        }
        self.leaves[blocks.next] = leaf;
        blocks.next += 1;
    }

    /// How many leaves of a share there are.
    pub fn len_of(&self, share: usize) -> usize {
        self.shares[share].len()
    }

    /// The leaves of a share, in no order, a block at a time. The next one is asked for.
    pub fn blocks_of(&self, share: usize) -> impl Iterator<Item = &[LiveOf<K>]> {
        let Blocks { starts, next } = &self.shares[share];
        let block = move |(number, start): (usize, &usize)| {
            let ahead =
                starts.get(number + 1).map_or(&[][..], |ahead| &self.leaves[*ahead..ahead + BLOCK]);
            ahead.iter().step_by(LINE / size_of::<LiveOf<K>>()).for_each(prefetch);
            let end = if number + 1 < starts.len() { start + BLOCK } else { *next };
            &self.leaves[*start..end]
        };
        starts.iter().enumerate().map(block)
    }
}

#[cfg(test)]
mod tests {
    use everleaf_index::{BytesKeys, U64Keys};
    use everleaf_pmem::PPtr;
    use proptest::prelude::*;

    use super::*;
    use crate::fptree::layout::SplitLog;
    use crate::fptree::tests::{TINY, dram_pool};

    fn leaf(prefix: u64) -> LiveOf<U64Keys> {
        Live { prefix, bound: (), offset: prefix ^ 1 }
    }

    proptest! {
        #[test]
        fn every_leaf_is_in_the_share_of_its_bound(
            samples in prop::collection::vec(prop_oneof![any::<u64>(), 0..20_u64, u64::MAX - 20..=u64::MAX], 0..200),
            bounds in prop::collection::vec(prop_oneof![any::<u64>(), 0..20_u64, u64::MAX - 20..=u64::MAX], 0..1000),
            shares in 1..80_usize,
        ) {
            let pool = dram_pool::<U64Keys>(TINY, 1 << 20);
            let some = || samples.iter().map(|bound| leaf(*bound)).collect();
            let splitters = Splitters::<U64Keys>::among(&pool, shares * SHARE, some);
            let wanted = if samples.is_empty() { 1 } else { shares.min(MOST_SHARES) };
            prop_assert_eq!(splitters.shares(), wanted);
            let parting: Vec<u64> = splitters.leaves.iter().map(|splitter| splitter.prefix).collect();
            prop_assert!(parting.is_sorted());
            let mut dealt = Dealt::none(&splitters, 0);
            bounds.iter().for_each(|bound| dealt.deal(leaf(*bound), &splitters, &pool));
            for share in 0..splitters.shares() {
                let expected: Vec<u64> =
                    bounds.iter().copied().filter(|bound| parting.partition_point(|part| part <= bound) == share).collect();
                let found: Vec<u64> = dealt.blocks_of(share).flatten().map(|leaf| leaf.prefix).collect();
                prop_assert_eq!(dealt.len_of(share), expected.len());
                prop_assert_eq!(found, expected, "share {}", share);
            }
        }
    }

    #[test]
    fn byte_strings_that_begin_alike_part_by_all_of_their_bytes() {
        let pool = dram_pool::<BytesKeys>(TINY, 8 << 20);
        let mut worker = pool.worker().unwrap();
        let cell = pool.index_root::<SplitLog>().unwrap().left_bitmap.view();
        let strings: Vec<String> =
            (0..400).map(|number| format!("the same {:03}", number * 7 % 400)).collect();
        let mut placed = |key: &String| {
            BytesKeys::place(&mut worker, cell, key.as_bytes()).unwrap();
            let bound = pool.media().load(cell);
            pool.media().store(cell, 0);
            Live { prefix: BytesKeys::prefix(key.as_bytes()), bound, offset: 0 }
        };
        let leaves: Vec<_> = strings.iter().map(&mut placed).collect();
        let splitters = Splitters::<BytesKeys>::among(&pool, 4 * SHARE, || leaves.clone());
        let mut dealt = Dealt::none(&splitters, 0);
        leaves.iter().for_each(|leaf| dealt.deal(*leaf, &splitters, &pool));
        for share in 0..4 {
            let mut found: Vec<_> = dealt
                .blocks_of(share)
                .flatten()
                .map(|leaf| pool.record(PPtr::at(leaf.bound)).unwrap())
                .collect();
            found.sort_unstable();
            let expected: Vec<_> = (share * 100..share * 100 + 100)
                .map(|number| format!("the same {number:03}"))
                .collect();
            assert!(
                found.iter().copied().eq(expected.iter().map(|key| key.as_bytes())),
                "share {share}: {}",
                found.len()
            );
        }
    }

    #[test]
    fn nobody_looks_for_samples_where_one_share_is_enough() {
        let pool = dram_pool::<U64Keys>(TINY, 1 << 20);
        for leaves in [0, 1, SHARE] {
            let splitters = Splitters::<U64Keys>::among(&pool, leaves, || {
                panic!("one share for {leaves} leaves")
            });
            assert_eq!(splitters.shares(), 1);
        }
    }
}
