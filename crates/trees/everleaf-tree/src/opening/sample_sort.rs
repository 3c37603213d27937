//! A sample sort of the leaves by their lower bounds, for opening a tree: threads partition the
//! leaves into *buckets* as they find them, each bucket above the one before it, so that threads
//! can put one bucket after another in order and no two lists are to be merged. Which leaves part
//! the buckets (*splitters*) is known beforehand, from a sample. A bucket is short enough to stay
//! in a processor's cache.
//!
//! Measured with 10 million keys (250,000 leaves): opening takes 19.5 ms with one thread and 11.0
//! ms with two, where sorting what each thread has found and merging the lists took 23.1 and 14.5
//! ms.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{DramLine, LINE, Media, SimdLevel, WORD, prefetch};
use everleaf_pool::{Pool, RecordGuard};

use crate::key::TreeKey;

/// Leaves of a bucket, about.
const BUCKET_LEAVES: usize = if cfg!(any(test, feature = "testing")) { 64 } else { 4096 };
/// Buckets at most: to add into more takes longer than it saves.
const MAX_BUCKETS: usize = 64;
/// Leaves of a bucket that lie together: a kilobyte of `u64` keys.
const BLOCK: usize = 64;
/// Bounds that are prefetched ahead of their use.
const PREFETCH_BOUNDS: usize = 16;
const LINE_WORDS: usize = LINE / WORD;
const _: () = assert!(
    MAX_BUCKETS <= LINE_WORDS * LINE_WORDS,
    "two counts in a line of words find any bucket"
);
/// Leaves above which a thread builds nodes at a time, at least.
const RANGE_LEAVES: usize = if cfg!(any(test, feature = "testing")) { 32 } else { 2048 };
/// Inner nodes above them, at least: the last one may be almost empty.
const NODES_PER_RANGE: usize = 16;

/// A leaf of the tree: its bound, as a prefix for quick comparison and what else is needed of it.
#[derive(Clone, Copy)]
pub struct LeafBound<W> {
    /// Of two bounds the smaller one has no greater prefix.
    pub prefix: u64,
    /// What else is needed of it.
    pub bound: W,
    /// Where the leaf is in the pool.
    pub offset: u64,
}

/// One whose keys are of kind `K`.
pub type LeafBoundOf<K> = LeafBound<<K as TreeKey>::BoundWord>;

impl<W: Copy> LeafBound<W> {
    /// The one at `offset`, whose lower bound has this word.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if the record of its bound is damaged.
    pub fn of<K: TreeKey<BoundWord = W>, M: Media>(
        pool: &Pool<M>,
        word: u64,
        offset: u64,
        beginning: &Beginning<K>,
    ) -> Result<Self> {
        let prefix = K::see_bound(pool, word, |key| beginning.prefix(key))?;
        Ok(Self { prefix, bound: K::bound_word(word), offset })
    }

    /// By their bounds.
    #[inline(always)]
    pub fn compare<K: TreeKey<BoundWord = W>, M: Media>(
        &self,
        other: &Self,
        pool: &Pool<M>,
    ) -> Ordering {
        let by_prefix = self.prefix.cmp(&other.prefix);
        if K::RECORDS && by_prefix.is_eq() {
            let records = pool.pin();
            let bound = |leaf: &Self| K::known_bound(&records, leaf.prefix, leaf.bound);
            K::cmp_keys(bound(self), bound(other))
        } else {
            by_prefix
        }
    }
}

/// Of byte strings what most bounds begin with: their prefixes are of the bytes behind it, so that
/// they tell bounds apart which all begin with `user:`. Of numbers nothing.
pub struct Beginning<K: TreeKey>(Option<(K::Owned, usize)>);

impl<K: TreeKey> Beginning<K> {
    /// Nothing: prefixes are of the first bytes.
    pub fn none() -> Self {
        Self(None)
    }

    /// What these begin with, but for a few at either end, which may be other things than the rest.
    fn of<M: Media>(ascending: &[LeafBoundOf<K>], pool: &Pool<M>) -> Self {
        let (few, records) = (ascending.len().div_ceil(16), pool.pin());
        let bound = |leaf: &LeafBoundOf<K>| K::known_bound(&records, leaf.prefix, leaf.bound);
        match ascending.get(few..ascending.len().saturating_sub(few)) {
            Some([first, .., last]) if K::RECORDS => {
                let (first, last) = (bound(first), bound(last));
                Self(Some((K::to_owned(first), K::common_prefix(first, last, usize::MAX))))
            }
            _ => Self::none(),
        }
    }

    /// The prefix of a bound: of two bounds the smaller one has no greater prefix. Those that begin
    /// otherwise come before or behind all others.
    #[inline(always)]
    pub fn prefix(&self, key: K::Ref<'_>) -> u64 {
        let Self(Some((begun, bytes))) = self else { return K::word(key, 0) };
        let begun = K::borrow(begun);
        if K::common_prefix(key, begun, *bytes) == *bytes {
            return K::word(key, *bytes);
        }
        if K::cmp_keys(key, begun).is_lt() { 0 } else { u64::MAX }
    }
}

/// Where buckets part.
pub struct Splitters<K: TreeKey> {
    /// What the prefixes of all leaves are behind.
    pub beginning: Beginning<K>,
    /// Each bucket but the first begins with one of these leaves, ascending.
    leaves: Vec<LeafBoundOf<K>>,
    /// Their prefixes, eight to a line; behind these a line with the last prefix of each full one.
    /// A bucket is found by two counts, without a branch to be guessed.
    prefixes: Vec<DramLine>,
    simd: SimdLevel,
}

impl<K: TreeKey> Splitters<K> {
    /// For so many leaves, at most; `some`, about evenly chosen among all, with the prefixes of no
    /// beginning, are only asked for if they are worth more than one bucket.
    pub fn among<M: Media>(
        pool: &Pool<M>,
        leaves: usize,
        some: impl FnOnce() -> Vec<LeafBoundOf<K>>,
    ) -> Self {
        let buckets = leaves.div_ceil(BUCKET_LEAVES).clamp(1, MAX_BUCKETS);
        let mut some = if buckets > 1 { some() } else { Vec::new() };
        some.sort_unstable_by(|a, b| a.compare::<K, M>(b, pool));
        let beginning = Beginning::of(&some, pool);
        let records = pool.pin();
        let leaves: Vec<_> = (1..buckets)
            .filter_map(|bucket| some.get(bucket * some.len() / buckets).copied())
            .map(|leaf| {
                let prefix = beginning.prefix(K::known_bound(&records, leaf.prefix, leaf.bound));
                LeafBound { prefix, ..leaf }
            })
            .collect();
        let mut prefixes: Vec<_> = leaves
            .chunks(LINE_WORDS)
            .map(|leaves| line_of(leaves.iter().map(|leaf| leaf.prefix)))
            .collect();
        prefixes.push(line_of(
            leaves.chunks_exact(LINE_WORDS).map(|leaves| leaves[LINE_WORDS - 1].prefix),
        ));
        Self { beginning, leaves, prefixes, simd: pool.media().dram().simd }
    }

    /// How many buckets there are.
    pub fn buckets(&self) -> usize {
        self.leaves.len() + 1
    }

    /// The bucket that a leaf belongs to. Leaves with the same bound belong to the same.
    #[inline(always)]
    fn bucket_of<M: Media>(&self, leaf: &LeafBoundOf<K>, pool: &Pool<M>) -> usize {
        let Some((lasts, lines)) = self.prefixes.split_last() else { return 0 };
        let line = lasts.count_at_most(self.simd, leaf.prefix);
        let before = lines.get(line).map_or(0, |words| words.count_at_most(self.simd, leaf.prefix));
        let bucket = (line * LINE_WORDS + before).min(self.leaves.len());
        // Not for the order, which leaves of one prefix keep in any one bucket, but for the
        // balance: strings that begin alike would all fall into one.
        let alike = K::RECORDS && bucket > 0 && self.leaves[bucket - 1].prefix == leaf.prefix;
        if alike {
            self.leaves.partition_point(|splitter| splitter.compare::<K, M>(leaf, pool).is_le())
        } else {
            bucket
        }
    }
}

/// These words, filled up with `u64::MAX`, which only the prefix `u64::MAX` counts: `bucket_of`
/// cuts that off.
fn line_of(words: impl Iterator<Item = u64>) -> DramLine {
    let line = DramLine::filled(u64::MAX);
    line.0.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
    line
}

/// Leaves that one thread has found.
pub struct Partition<K: TreeKey> {
    /// Of all buckets, in blocks.
    leaves: Vec<LeafBoundOf<K>>,
    buckets: Vec<Blocks>,
}

/// Where the leaves of a bucket are.
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

impl<K: TreeKey> Partition<K> {
    /// None yet, with buffer for so many.
    pub fn none(splitters: &Splitters<K>, buffer: usize) -> Self {
        let buckets = splitters.buckets();
        Self {
            leaves: Vec::with_capacity(buffer + buckets * BLOCK),
            buckets: vec![Blocks::default(); buckets],
        }
    }

    /// Puts a leaf into its bucket.
    #[inline(always)]
    pub fn add<M: Media>(
        &mut self,
        leaf: LeafBoundOf<K>,
        splitters: &Splitters<K>,
        pool: &Pool<M>,
    ) {
        let bucket = splitters.bucket_of(&leaf, pool);
        let blocks = &mut self.buckets[bucket];
        if blocks.next.is_multiple_of(BLOCK) {
            blocks.next = self.leaves.len();
            blocks.starts.push(blocks.next);
            self.leaves.resize(
                blocks.next + BLOCK,
                LeafBound { prefix: 0, bound: K::bound_word(0), offset: 0 },
            );
        }
        self.leaves[blocks.next] = leaf;
        blocks.next += 1;
    }

    /// How many leaves of a bucket there are.
    pub fn len_of(&self, bucket: usize) -> usize {
        self.buckets[bucket].len()
    }

    /// The leaves of a bucket, in no order, a block at a time. The next one is prefetched.
    pub fn blocks_of(&self, bucket: usize) -> impl Iterator<Item = &[LeafBoundOf<K>]> {
        let Blocks { starts, next } = &self.buckets[bucket];
        let block = move |(number, start): (usize, &usize)| {
            let ahead =
                starts.get(number + 1).map_or(&[][..], |ahead| &self.leaves[*ahead..ahead + BLOCK]);
            ahead.iter().step_by(LINE / size_of::<LeafBoundOf<K>>()).for_each(prefetch);
            let end = if number + 1 < starts.len() { start + BLOCK } else { *next };
            &self.leaves[*start..end]
        };
        starts.iter().enumerate().map(block)
    }
}

/// The leaves of a tree, in ranges, each above the one before it, so that threads can take one
/// at a time.
pub struct PartitionedLeaves<K: TreeKey> {
    /// Of each thread what it has found.
    partition: Vec<Partition<K>>,
    /// The buckets of each range.
    ranges: Vec<Range<usize>>,
    len: usize,
}

impl<K: TreeKey> PartitionedLeaves<K> {
    /// What threads have found of so many buckets. Neighbouring buckets are one range until it has
    /// leaves enough for `NODES_PER_RANGE` nodes of so many children.
    pub fn of(partition: Vec<Partition<K>>, buckets: usize, inner_keys: u64) -> Self {
        let least = RANGE_LEAVES.max(NODES_PER_RANGE.saturating_mul(inner_keys as usize));
        let mut leaves = Self { partition, ranges: Vec::new(), len: 0 };
        let (mut start, mut length) = (0, 0);
        for bucket in 0..buckets {
            length +=
                leaves.partition.iter().map(|partition| partition.len_of(bucket)).sum::<usize>();
            if length >= least || bucket + 1 == buckets {
                leaves.ranges.push(start..bucket + 1);
                leaves.len += length;
                (start, length) = (bucket + 1, 0);
            }
        }
        leaves
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many ranges there are, at least one.
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// The leaves of a bucket, in no order, some at a time.
    fn of_bucket(&self, bucket: usize) -> impl Iterator<Item = &[LeafBoundOf<K>]> {
        self.partition.iter().flat_map(move |partition| partition.blocks_of(bucket))
    }

    /// Where the leaf with the least bound is.
    pub fn leftmost<M: Media>(&self, pool: &Pool<M>) -> Option<u64> {
        let buckets = 0..self.ranges.last().map_or(0, |last| last.end);
        let min_of =
            |bucket| self.of_bucket(bucket).flatten().min_by(|a, b| a.compare::<K, M>(b, pool));
        buckets.into_iter().find_map(min_of).map(|leaf| leaf.offset)
    }

    /// Calls `each` with the number of the leaves of a range, and with their lower bounds,
    /// ascending, and where they are, but for the leftmost leaf. `buffer`: for the leaves.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if two leaves have the same lower bound (they are of one bucket).
    /// That of `each`.
    pub fn in_order<M: Media, R>(
        &self,
        range: usize,
        buffer: &mut SortBuffer<K>,
        pool: &Pool<M>,
        leftmost: u64,
        each: impl FnOnce(usize, InOrder<'_, K, M>) -> Result<R>,
    ) -> Result<R> {
        buffer.len = 0;
        self.ranges[range]
            .clone()
            .for_each(|bucket| buffer.append(|| self.of_bucket(bucket), pool));
        let leaves = &buffer.leaves[..buffer.len];
        // One of the first two may be the leftmost, which `each` does not see. All others it finds.
        if let Some(duplicates) = duplicates::<K, M>(&leaves[..leaves.len().min(2)], pool) {
            return Err(duplicates);
        }
        let records = pool.pin();
        let in_order = InOrder { leaves: leaves.iter(), records: &records, leftmost };
        let made = each(leaves.len(), in_order);
        made.map_err(|error| duplicates::<K, M>(leaves, pool).unwrap_or(error))
    }
}

/// Where a thread puts the leaves of a range in order, one bucket after the other.
pub struct SortBuffer<K: TreeKey> {
    /// SortBuffer for leaves; it is kept from one range to the next, and not cleared.
    leaves: Vec<LeafBoundOf<K>>,
    /// How many of it are leaves of the range.
    len: usize,
    /// For each step of the range of a bucket's prefixes how many leaves are of it; then, where
    /// they end in the bucket.
    steps: Vec<u32>,
}

impl<K: TreeKey> SortBuffer<K> {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "nobody asks")]
    pub fn new() -> Self {
        Self { leaves: Vec::new(), len: 0, steps: Vec::new() }
    }

    /// Adds leaves that are above all that are here. Each goes where its prefix lies between the
    /// least and the greatest, as far as that tells: where prefixes are spread evenly, that is next
    /// to its place, which takes half the time of a sort by comparisons. Those that go to one place
    /// are compared.
    fn append<'a, M: Media, I: Iterator<Item = &'a [LeafBoundOf<K>]>>(
        &mut self,
        leaves: impl Fn() -> I,
        pool: &Pool<M>,
    ) where
        LeafBoundOf<K>: 'a,
    {
        let (mut count, mut least, mut greatest) = (0, u64::MAX, 0);
        for some in leaves() {
            count += some.len();
            some.iter().for_each(|leaf| {
                (least, greatest) = (least.min(leaf.prefix), greatest.max(leaf.prefix))
            });
        }
        let Some(span) = greatest.checked_sub(least) else { return }; // There are none.
        // Fewer than twice as many steps as leaves. Of one leaf span and shift are 0, so no shift
        // is by 64.
        let shift = (u64::BITS - span.leading_zeros())
            .saturating_sub(count.next_power_of_two().trailing_zeros());
        let step_of = |leaf: &LeafBoundOf<K>| ((leaf.prefix - least) >> shift) as usize;
        let steps = &mut self.steps;
        steps.clear();
        steps.resize((span >> shift) as usize + 1, 0);
        leaves().for_each(|some| some.iter().for_each(|leaf| steps[step_of(leaf)] += 1));
        let mut end = 0;
        for step in &mut *steps {
            end += std::mem::replace(step, end);
        }
        let start = self.len;
        self.len += count;
        if self.leaves.len() < self.len {
            self.leaves
                .resize(self.len, LeafBound { prefix: 0, bound: K::bound_word(0), offset: 0 });
        }
        let buffer = &mut self.leaves[start..self.len];
        for some in leaves() {
            for leaf in some {
                let place = &mut steps[step_of(leaf)];
                buffer[*place as usize] = *leaf;
                *place += 1;
            }
        }
        let mut start = 0;
        for end in steps {
            let together = &mut buffer[start..*end as usize];
            if together.len() > 1 {
                together.sort_unstable_by(|a, b| a.compare::<K, M>(b, pool));
            }
            start = *end as usize;
        }
    }
}

/// Two leaves that have the same bound, as damage.
fn duplicates<K: TreeKey, M: Media>(
    ascending: &[LeafBoundOf<K>],
    pool: &Pool<M>,
) -> Option<IndexError> {
    let pair = ascending.windows(2).find(|pair| pair[0].compare::<K, M>(&pair[1], pool).is_eq())?;
    Some(IndexError::Corrupt {
        offset: pair[1].offset,
        what: "two leaves have the same lower bound",
    })
}

/// Leaves with their lower bounds, ascending.
pub struct InOrder<'s, K: TreeKey, M: Media> {
    leaves: std::slice::Iter<'s, LeafBoundOf<K>>,
    records: &'s RecordGuard<'s, M>,
    leftmost: u64,
}

impl<'s, K: TreeKey, M: Media> Iterator for InOrder<'s, K, M> {
    type Item = (K::Ref<'s>, u64);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(ahead) = self.leaves.as_slice().get(PREFETCH_BOUNDS) {
            K::prefetch_bound(self.records.media(), ahead.bound);
        }
        let leaf = self.leaves.find(|leaf| leaf.offset != self.leftmost)?;
        Some((K::known_bound(self.records, leaf.prefix, leaf.bound), leaf.offset))
    }
}

#[cfg(test)]
mod tests;
