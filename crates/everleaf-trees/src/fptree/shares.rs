//! Leaves in the order of their lower bounds, for several threads at a time: from the lists that threads have put in order come shares of all leaves.

use std::cmp::Ordering;

use everleaf_index::IndexError;
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::key::LeafKey;
use super::layout::Shape;
use super::leaf::Leaf;

/// Leaves of a share, about: so few that they stay in a processor's cache while they are put in order, and that threads end together.
const SHARE: usize = if cfg!(test) { 64 } else { 4096 };
/// Inner nodes above a share, at least: its last one may be almost empty.
const NODES_PER_SHARE: usize = 16;
/// Leaves that are looked at for each share, to find where shares part.
const SAMPLES_PER_SHARE: usize = 4;

/// A leaf of the tree: its bound, as a prefix for quick comparison and what else is needed of it.
#[derive(Clone, Copy)]
pub(super) struct Live<W> {
    pub prefix: u64,
    pub bound: W,
    pub offset: u64,
}

/// One whose keys are of kind `K`.
pub(super) type LiveOf<K> = Live<<K as LeafKey>::BoundWord>;

impl<W: Copy> Live<W> {
    /// The one at `offset`.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if the record of its bound is damaged.
    pub fn of<K: LeafKey<BoundWord = W>, M: Media, S: Shape>(
        pool: &Pool<M>,
        leaf: Leaf<'_, S>,
        offset: u64,
    ) -> Result<Self, IndexError> {
        let word = pool.media().load(&leaf.head.lower_bound);
        Ok(Self { prefix: K::prefix(K::read_bound(pool, word)?), bound: K::bound_word(word), offset })
    }

    fn lower_bound<K: LeafKey<BoundWord = W>, M: Media>(self, pool: &Pool<M>) -> K::Ref<'_> {
        K::known_bound(pool, self.prefix, self.bound)
    }

    /// By their bounds.
    #[inline(always)]
    pub fn compare<K: LeafKey<BoundWord = W>, M: Media>(&self, other: &Self, pool: &Pool<M>) -> Ordering {
        let by_prefix = self.prefix.cmp(&other.prefix);
        if K::RECORDS && by_prefix.is_eq() {
            K::cmp_keys(self.lower_bound::<K, M>(pool), other.lower_bound::<K, M>(pool))
        } else {
            by_prefix
        }
    }
}

/// The leaves of a tree: some lists, each ascending. They are parted into shares, each above the one before it, so that threads can take one at a time.
pub(super) struct Leaves<K: LeafKey> {
    lists: Vec<Vec<LiveOf<K>>>,
    /// Where the shares part, ascending.
    splitters: Vec<LiveOf<K>>,
}

impl<K: LeafKey> Leaves<K> {
    /// The leaves of these lists, which will be below inner nodes of so many children. One list is one share; of several all shares are about equally long,
    /// whatever is in which list.
    pub fn part<M: Media>(pool: &Pool<M>, lists: Vec<Vec<LiveOf<K>>>, inner_keys: u64) -> Self {
        let (several, share) = (lists.len() > 1, SHARE.max(NODES_PER_SHARE.saturating_mul(inner_keys as usize)));
        let lists = lists.into_iter().filter(|list| !list.is_empty()).collect();
        let mut leaves = Self { lists, splitters: Vec::new() };
        if several {
            leaves.splitters = leaves.find_splitters(pool, leaves.len().div_ceil(share).max(1));
        }
        leaves
    }

    fn find_splitters<M: Media>(&self, pool: &Pool<M>, shares: usize) -> Vec<LiveOf<K>> {
        let (lists, step) = (self.lists.len(), (self.len() / (shares * SAMPLES_PER_SHARE)).max(1));
        // At equal distances, and so of each list in proportion to its length; of no two lists at the same places, since these may be alike.
        let some_of = |(number, list): (usize, &Vec<LiveOf<K>>)| {
            list.iter().skip(step * number / lists).step_by(step).copied().collect::<Vec<_>>()
        };
        let mut some: Vec<_> = self.lists.iter().enumerate().flat_map(some_of).collect();
        some.sort_unstable_by(|a, b| a.compare::<K, M>(b, pool));
        (1..shares).filter_map(|share| some.get(share * some.len() / shares).copied()).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lists.iter().map(Vec::len).sum()
    }

    /// How many shares there are.
    pub fn shares(&self) -> usize {
        self.splitters.len() + 1
    }

    /// Where the leaf with the least bound is.
    pub fn leftmost<M: Media>(&self, pool: &Pool<M>) -> Option<u64> {
        let least = self.lists.iter().filter_map(|list| list.first());
        least.min_by(|a, b| a.compare::<K, M>(b, pool)).map(|leaf| leaf.offset)
    }

    /// Calls `each` with the number of the leaves of a share, and with their lower bounds, ascending, and where they are, but for the leftmost leaf. `room`:
    /// for the leaves, if they are of more than one list.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if two leaves have the same lower bound (they are of one share). That of `each`.
    pub fn in_order<'p, M: Media, R>(
        &self,
        share: usize,
        room: &mut Room<K>,
        pool: &'p Pool<M>,
        leftmost: u64,
        each: impl FnOnce(usize, InOrder<'_, 'p, K, M>) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        let leaves = self.of_share(share, room, pool);
        // One of the first two may be the leftmost, which `each` does not see. All others it finds.
        if let Some(twins) = twins::<K, M>(&leaves[..leaves.len().min(2)], pool) {
            return Err(twins);
        }
        let made = each(leaves.len(), InOrder { leaves: leaves.iter(), pool, leftmost });
        made.map_err(|error| twins::<K, M>(leaves, pool).unwrap_or(error))
    }

    /// The leaves of a share, ascending.
    fn of_share<'a, M: Media>(&'a self, share: usize, Room(room): &'a mut Room<K>, pool: &Pool<M>) -> &'a [LiveOf<K>] {
        if let [list] = &self.lists[..] {
            return self.part_of(list, share, pool);
        }
        room.clear();
        self.lists.iter().for_each(|list| room.extend_from_slice(self.part_of(list, share, pool)));
        room.sort_by(|a, b| a.compare::<K, M>(b, pool)); // A stable sort merges what ascends already.
        room
    }

    /// The part of a list that belongs to a share.
    fn part_of<'a, M: Media>(&self, list: &'a [LiveOf<K>], share: usize, pool: &Pool<M>) -> &'a [LiveOf<K>] {
        let begin = |splitter: &LiveOf<K>| list.partition_point(|leaf| leaf.compare::<K, M>(splitter, pool).is_lt());
        let start = share.checked_sub(1).map_or(0, |before| begin(&self.splitters[before]));
        &list[start..self.splitters.get(share).map_or(list.len(), begin)]
    }
}

/// Where a thread puts the leaves of one share after another in order.
pub(super) struct Room<K: LeafKey>(Vec<LiveOf<K>>);

impl<K: LeafKey> Room<K> {
    /// An empty one.
    pub fn new() -> Self {
        Self(Vec::new())
    }
}

/// Two leaves that have the same bound, as damage.
fn twins<K: LeafKey, M: Media>(ascending: &[LiveOf<K>], pool: &Pool<M>) -> Option<IndexError> {
    let pair = ascending.windows(2).find(|pair| pair[0].compare::<K, M>(&pair[1], pool).is_eq())?;
    Some(IndexError::Corrupt { offset: pair[1].offset, what: "two leaves have the same lower bound" })
}

/// Leaves with their lower bounds, ascending.
pub(super) struct InOrder<'s, 'p, K: LeafKey, M: Media> {
    leaves: std::slice::Iter<'s, LiveOf<K>>,
    pool: &'p Pool<M>,
    leftmost: u64,
}

impl<'p, K: LeafKey, M: Media> Iterator for InOrder<'_, 'p, K, M> {
    type Item = (K::Ref<'p>, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let leaf = self.leaves.find(|leaf| leaf.offset != self.leftmost)?;
        Some((leaf.lower_bound::<K, M>(self.pool), leaf.offset))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everleaf_index::U64Keys;
    use everleaf_pmem::Dram;
    use proptest::prelude::*;

    use super::*;
    use crate::fptree::tests::{TINY, dram_pool};

    fn pool() -> Arc<Pool<Dram>> {
        dram_pool::<U64Keys>(TINY, 1 << 20)
    }

    /// Lists of leaves with these bounds, each at an offset of its own.
    fn leaves(pool: &Pool<Dram>, bounds: &[Vec<u64>]) -> Leaves<U64Keys> {
        let mut offset = 0;
        let mut leaf = |prefix: &u64| {
            offset += 1024;
            Live { prefix: *prefix, bound: (), offset }
        };
        let mut lists: Vec<Vec<_>> = bounds.iter().map(|list| list.iter().map(&mut leaf).collect()).collect();
        lists.iter_mut().for_each(|list| list.sort_unstable_by_key(|leaf| leaf.prefix));
        Leaves::part(pool, lists, 4)
    }

    /// The bounds in all shares, one share after the other.
    fn in_order(pool: &Pool<Dram>, leaves: &Leaves<U64Keys>, leftmost: u64) -> Result<Vec<Vec<u64>>, IndexError> {
        let mut room = Room::new();
        let mut bounds_of = |share| {
            leaves.in_order(share, &mut room, pool, leftmost, |_, shown| {
                let bounds: Vec<_> = shown.map(|(bound, _)| bound).collect();
                let ascend = bounds.is_sorted_by(|a, b| a < b);
                if ascend { Ok(bounds) } else { Err(IndexError::Corrupt { offset: 0, what: "they do not ascend" }) }
            })
        };
        (0..leaves.shares()).map(&mut bounds_of).collect()
    }

    proptest! {
        #[test]
        fn shares_hold_every_leaf_in_order(mut bounds in prop::collection::btree_set(any::<u64>(), 0..2000), threads in 1usize..9, pattern: [u8; 16]) {
            let pool = pool();
            // Neighbours are in one list or in several, as the pattern has it.
            let mut lists = vec![Vec::new(); threads];
            let list_of = |place: usize| usize::from(pattern[place / 100 % 16]) + if pattern[place / 500 % 16] % 2 == 0 { place } else { 0 };
            bounds.iter().enumerate().for_each(|(place, bound)| lists[list_of(place) % threads].push(*bound));
            let leaves = leaves(&pool, &lists);
            let leftmost = leaves.leftmost(&pool);
            prop_assert_eq!(leftmost.is_none(), bounds.is_empty());
            let shares = in_order(&pool, &leaves, leftmost.unwrap_or_default()).unwrap();
            bounds.pop_first(); // The leftmost is not shown.
            let longest = shares.iter().map(Vec::len).max().unwrap();
            prop_assert!(threads == 1 || longest <= SHARE * (SAMPLES_PER_SHARE + threads + 1) / SAMPLES_PER_SHARE, "{} of {}", longest, bounds.len());
            prop_assert!(shares.concat().into_iter().eq(bounds));
        }
    }

    /// The lengths of the shares, ascending.
    fn lengths(pool: &Pool<Dram>, leaves: &Leaves<U64Keys>) -> Vec<usize> {
        let mut room = Room::new();
        let length = |share| leaves.in_order(share, &mut room, pool, 0, |length, _| Ok(length)).unwrap();
        let mut lengths: Vec<_> = (0..leaves.shares()).map(length).collect();
        lengths.sort_unstable();
        lengths
    }

    #[test]
    fn shares_are_about_equally_long_whatever_is_in_which_list() {
        let pool = pool();
        for lists in [2, 3, 8, 16, 64, 70] {
            let all = lists * 16 * SHARE as u64;
            let interleaved = (0..lists).map(|list| (list..all).step_by(lists as usize).collect()).collect::<Vec<Vec<_>>>();
            let one_after_another = (0..lists).map(|list| (list * all / lists..(list + 1) * all / lists).collect()).collect();
            let in_the_last = (1..lists).map(|_| Vec::new()).chain([(0..all).collect()]).collect();
            for (name, bounds) in
                [("interleaved", interleaved), ("one after another", one_after_another), ("in the last", in_the_last)]
            {
                let lengths = lengths(&pool, &leaves(&pool, &bounds));
                let (shares, longest) = (lengths.len(), lengths[lengths.len() - 1]);
                assert_eq!((shares, lengths.iter().sum::<usize>()), (all as usize / SHARE, all as usize), "{lists} lists {name}");
                assert!(longest <= 2 * SHARE, "{lists} lists {name}: {longest}");
            }
        }
    }

    #[test]
    fn lists_so_short_that_no_sample_is_of_them_are_one_share() {
        let pool = pool();
        let bounds: Vec<Vec<u64>> = (0..200).map(|list| if list < 199 { vec![list] } else { Vec::new() }).collect();
        assert_eq!(lengths(&pool, &leaves(&pool, &bounds)).iter().sum::<usize>(), 199);
    }

    #[test]
    fn above_a_share_are_so_many_nodes_that_few_of_them_are_not_full() {
        let pool = pool();
        let list = |first: u64| {
            (first..100_000).step_by(2).map(|prefix| Live { prefix, bound: (), offset: (prefix + 1) * 1024 }).collect()
        };
        for inner_keys in [4, 64, 128, 4096] {
            let leaves = Leaves::<U64Keys>::part(&pool, vec![list(0), list(1)], inner_keys);
            assert_eq!(leaves.shares(), 100_000_usize.div_ceil(16 * inner_keys as usize), "{inner_keys}");
        }
    }

    #[test]
    fn twins_are_found_wherever_they_are() {
        let pool = pool();
        for lists in 1..4 {
            for twin in [0, 1, 500, 998, 999] {
                let mut bounds: Vec<_> =
                    (0..lists).map(|list| (list..1000).step_by(lists as usize).collect()).collect::<Vec<Vec<_>>>();
                let leftmost = leaves(&pool, &bounds).leftmost(&pool).unwrap();
                assert_eq!(in_order(&pool, &leaves(&pool, &bounds), leftmost).unwrap().concat().len(), 999);
                bounds.last_mut().unwrap().push(twin);
                let leaves = leaves(&pool, &bounds);
                let error = in_order(&pool, &leaves, leaves.leftmost(&pool).unwrap()).unwrap_err();
                assert!(error.to_string().contains("the same lower bound"), "{twin} in {lists} lists: {error}");
            }
        }
    }
}
