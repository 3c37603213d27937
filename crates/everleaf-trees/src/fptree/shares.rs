//! Leaves in the order of their lower bounds, for several threads at a time: a stretch of
//! neighbouring [shares](super::dealing), of which each thread has found some leaves, is put in
//! order when it is wanted.

use std::cmp::Ordering;
use std::ops::Range;

use everleaf_index::IndexError;
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::dealing::Dealt;
use super::key::LeafKey;
use super::layout::Shape;
use super::leaf::Leaf;

/// Leaves that are raised together, at least.
const STRETCH: usize = if cfg!(test) { 32 } else { 2048 };
/// Inner nodes above them, at least: the last one may be almost empty.
const NODES_PER_STRETCH: usize = 16;

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
        Ok(Self {
            prefix: K::prefix(K::read_bound(pool, word)?),
            bound: K::bound_word(word),
            offset,
        })
    }

    fn lower_bound<K: LeafKey<BoundWord = W>, M: Media>(self, pool: &Pool<M>) -> K::Ref<'_> {
        K::known_bound(pool, self.prefix, self.bound)
    }

    /// By their bounds.
    #[inline(always)]
    pub fn compare<K: LeafKey<BoundWord = W>, M: Media>(
        &self,
        other: &Self,
        pool: &Pool<M>,
    ) -> Ordering {
        let by_prefix = self.prefix.cmp(&other.prefix);
        if K::RECORDS && by_prefix.is_eq() {
            K::cmp_keys(self.lower_bound::<K, M>(pool), other.lower_bound::<K, M>(pool))
        } else {
            by_prefix
        }
    }
}

/// The leaves of a tree, in stretches, each above the one before it, so that threads can take one
/// at a time.
pub(super) struct Leaves<K: LeafKey> {
    /// Of each thread what it has found.
    dealt: Vec<Dealt<K>>,
    /// The shares of each stretch.
    stretches: Vec<Range<usize>>,
    len: usize,
}

impl<K: LeafKey> Leaves<K> {
    /// What threads have found of so many shares. Neighbouring shares are one stretch until it has
    /// leaves enough for [`NODES_PER_STRETCH`] nodes of so many children.
    pub fn of(dealt: Vec<Dealt<K>>, shares: usize, inner_keys: u64) -> Self {
        let least = STRETCH.max(NODES_PER_STRETCH.saturating_mul(inner_keys as usize));
        let mut leaves = Self { dealt, stretches: Vec::new(), len: 0 };
        let (mut start, mut length) = (0, 0);
        for share in 0..shares {
            length += leaves.dealt.iter().map(|dealt| dealt.len_of(share)).sum::<usize>();
            if length >= least || share + 1 == shares {
                leaves.stretches.push(start..share + 1);
                leaves.len += length;
                (start, length) = (share + 1, 0);
            }
        }
        leaves
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many stretches there are, at least one.
    pub fn stretches(&self) -> usize {
        self.stretches.len()
    }

    /// The leaves of a share, in no order, some at a time.
    fn of_share(&self, share: usize) -> impl Iterator<Item = &[LiveOf<K>]> {
        self.dealt.iter().flat_map(move |dealt| dealt.blocks_of(share))
    }

    /// Where the leaf with the least bound is.
    pub fn leftmost<M: Media>(&self, pool: &Pool<M>) -> Option<u64> {
        let shares = 0..self.stretches.last().map_or(0, |last| last.end);
        let least_of =
            |share| self.of_share(share).flatten().min_by(|a, b| a.compare::<K, M>(b, pool));
        shares.into_iter().find_map(least_of).map(|leaf| leaf.offset)
    }

    /// Calls `each` with the number of the leaves of a stretch, and with their lower bounds,
    /// ascending, and where they are, but for the leftmost leaf. `room`: for the leaves.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if two leaves have the same lower bound (they are of one share).
    /// That of `each`.
    pub fn in_order<'p, M: Media, R>(
        &self,
        stretch: usize,
        room: &mut Room<K>,
        pool: &'p Pool<M>,
        leftmost: u64,
        each: impl FnOnce(usize, InOrder<'_, 'p, K, M>) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        room.len = 0;
        self.stretches[stretch]
            .clone()
            .for_each(|share| room.append(|| self.of_share(share), pool));
        let leaves = &room.leaves[..room.len];
        // One of the first two may be the leftmost, which `each` does not see. All others it finds.
        if let Some(twins) = twins::<K, M>(&leaves[..leaves.len().min(2)], pool) {
            return Err(twins);
        }
        let made = each(leaves.len(), InOrder { leaves: leaves.iter(), pool, leftmost });
        made.map_err(|error| twins::<K, M>(leaves, pool).unwrap_or(error))
    }
}

/// Where a thread puts the leaves of a stretch in order, one share after the other.
pub(super) struct Room<K: LeafKey> {
    /// Room for leaves; it is kept from one stretch to the next, and not cleared.
    leaves: Vec<LiveOf<K>>,
    /// How many of it are leaves of the stretch.
    len: usize,
    /// For each step of the range of a share's prefixes how many leaves are of it; then, where they
    /// end in the share.
    steps: Vec<u32>,
}

impl<K: LeafKey> Room<K> {
    /// An empty one.
    pub fn new() -> Self {
        Self { leaves: Vec::new(), len: 0, steps: Vec::new() }
    }

    /// Adds leaves that are above all that are here. Each goes where its prefix lies between the
    /// least and the greatest, as far as that tells: where prefixes are spread evenly, that is next
    /// to its place, which takes half the time of a sort by comparisons. Those that go to one place
    /// are compared.
    fn append<'a, M: Media, I: Iterator<Item = &'a [LiveOf<K>]>>(
        &mut self,
        leaves: impl Fn() -> I,
        pool: &Pool<M>,
    ) where
        LiveOf<K>: 'a,
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
        let step_of = |leaf: &LiveOf<K>| ((leaf.prefix - least) >> shift) as usize;
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
            self.leaves.resize(self.len, Live { prefix: 0, bound: K::bound_word(0), offset: 0 });
        }
        let room = &mut self.leaves[start..self.len];
        for some in leaves() {
            for leaf in some {
                let place = &mut steps[step_of(leaf)];
                room[*place as usize] = *leaf;
                *place += 1;
            }
        }
        let mut start = 0;
        for end in steps {
            let together = &mut room[start..*end as usize];
            if together.len() > 1 {
                together.sort_unstable_by(|a, b| a.compare::<K, M>(b, pool));
            }
            start = *end as usize;
        }
    }
}

/// Two leaves that have the same bound, as damage.
fn twins<K: LeafKey, M: Media>(ascending: &[LiveOf<K>], pool: &Pool<M>) -> Option<IndexError> {
    let pair = ascending.windows(2).find(|pair| pair[0].compare::<K, M>(&pair[1], pool).is_eq())?;
    Some(IndexError::Corrupt {
        offset: pair[1].offset,
        what: "two leaves have the same lower bound",
    })
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
    use crate::fptree::dealing::Splitters;
    use crate::fptree::tests::{TINY, dram_pool};

    fn pool() -> Arc<Pool<Dram>> {
        dram_pool::<U64Keys>(TINY, 1 << 20)
    }

    /// Leaves with these bounds, each at an offset of its own, dealt by so many threads; `some` of
    /// them tell where shares part.
    fn leaves(pool: &Pool<Dram>, bounds: &[Vec<u64>], some: &[u64]) -> Leaves<U64Keys> {
        let at = |prefix: u64, offset| Live { prefix, bound: (), offset };
        let splitters = Splitters::among(pool, bounds.concat().len(), || {
            some.iter().map(|prefix| at(*prefix, 0)).collect()
        });
        let mut offset = 0;
        let deal = |list: &Vec<u64>| {
            let mut dealt = Dealt::none(&splitters, list.len());
            for prefix in list {
                offset += 1024;
                dealt.deal(at(*prefix, offset), &splitters, pool);
            }
            dealt
        };
        Leaves::of(bounds.iter().map(deal).collect(), splitters.shares(), 4)
    }

    /// The bounds in all stretches, one stretch after the other.
    fn in_order(
        pool: &Pool<Dram>,
        leaves: &Leaves<U64Keys>,
        leftmost: u64,
    ) -> Result<Vec<Vec<u64>>, IndexError> {
        let mut room = Room::new();
        let mut bounds_of = |stretch| {
            leaves.in_order(stretch, &mut room, pool, leftmost, |_, shown| {
                let bounds: Vec<_> = shown.map(|(bound, _)| bound).collect();
                let ascend = bounds.is_sorted_by(|a, b| a < b);
                if ascend {
                    Ok(bounds)
                } else {
                    Err(IndexError::Corrupt { offset: 0, what: "they do not ascend" })
                }
            })
        };
        (0..leaves.stretches()).map(&mut bounds_of).collect()
    }

    proptest! {
        #[test]
        fn stretches_hold_every_leaf_in_order(
            mut bounds in prop::collection::btree_set(prop_oneof![any::<u64>(), 0..3000_u64, u64::MAX - 9..=u64::MAX], 0..2000),
            threads in 1usize..9,
            pattern: [u8; 16],
            few in 1..500_usize,
        ) {
            let pool = pool();
            // Neighbours are in one list or in several, as the pattern has it.
            let mut lists = vec![Vec::new(); threads];
            let list_of = |place: usize| usize::from(pattern[place / 100 % 16]) + if pattern[place / 500 % 16] % 2 == 0 { place } else { 0 };
            bounds.iter().enumerate().for_each(|(place, bound)| lists[list_of(place) % threads].push(*bound));
            lists.iter_mut().for_each(|list| list.sort_unstable_by_key(|bound| bound.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let some: Vec<u64> = bounds.iter().copied().step_by(few).collect();
            let leaves = leaves(&pool, &lists, &some);
            let leftmost = leaves.leftmost(&pool);
            prop_assert_eq!((leftmost.is_none(), leaves.len()), (bounds.is_empty(), bounds.len()));
            let stretches = in_order(&pool, &leaves, leftmost.unwrap_or_default()).unwrap();
            bounds.pop_first(); // The leftmost is not shown.
            prop_assert!(stretches.concat().into_iter().eq(bounds));
        }
    }

    /// The lengths of the stretches, in their order.
    fn lengths(pool: &Pool<Dram>, leaves: &Leaves<U64Keys>) -> Vec<usize> {
        let mut room = Room::new();
        let length =
            |stretch| leaves.in_order(stretch, &mut room, pool, 0, |length, _| Ok(length)).unwrap();
        (0..leaves.stretches()).map(length).collect()
    }

    #[test]
    fn stretches_are_about_equally_long_whoever_has_found_their_leaves() {
        let pool = pool();
        for threads in [1, 2, 3, 8, 64] {
            let all: u64 = 64 * 128;
            let share = |list: u64| list * all / threads;
            let interleaved = (0..threads)
                .map(|list| (list..all).step_by(threads as usize).collect())
                .collect::<Vec<Vec<_>>>();
            let one_after_another =
                (0..threads).map(|list| (share(list)..share(list + 1)).collect()).collect();
            let in_the_last =
                (1..threads).map(|_| Vec::new()).chain([(0..all).collect()]).collect();
            for (name, bounds) in [
                ("interleaved", interleaved),
                ("one after another", one_after_another),
                ("in the last", in_the_last),
            ] {
                let some: Vec<u64> = (0..all).step_by(60).collect();
                let lengths = lengths(&pool, &leaves(&pool, &bounds, &some));
                let longest = lengths.iter().max().unwrap();
                assert_eq!(
                    (lengths.len(), lengths.iter().sum::<usize>()),
                    (64, all as usize),
                    "{threads} lists {name}"
                );
                assert!(*longest <= 128 * 3 / 2, "{threads} lists {name}: {longest}");
            }
        }
    }

    #[test]
    fn shares_too_short_are_raised_together() {
        let pool = pool();
        let splitters = Splitters::<U64Keys>::among(&pool, 1 << 20, || {
            (0..64).map(|share| Live { prefix: share * 1000, bound: (), offset: 0 }).collect()
        });
        for inner_keys in [4, 64, 128, 4096] {
            let mut dealt = [(); 2].map(|()| Dealt::none(&splitters, 0));
            for bound in 0..64_000 {
                dealt[bound as usize % 2].deal(
                    Live { prefix: bound, bound: (), offset: 0 },
                    &splitters,
                    &pool,
                );
            }
            let leaves = Leaves::of(dealt.into(), splitters.shares(), inner_keys);
            let lengths = lengths_by_count(&leaves);
            let least = 16 * inner_keys as usize;
            let (last, others) = lengths.split_last().unwrap();
            assert!(
                others.iter().all(|length| (least..least.max(32) + 1000).contains(length)),
                "{inner_keys}: {lengths:?}"
            );
            assert_eq!(others.iter().sum::<usize>() + last, 64_000);
        }
    }

    /// How many leaves each stretch has, however they are ordered.
    fn lengths_by_count(leaves: &Leaves<U64Keys>) -> Vec<usize> {
        let count = |shares: &Range<usize>| {
            shares.clone().flat_map(|share| leaves.of_share(share)).map(<[_]>::len).sum()
        };
        leaves.stretches.iter().map(count).collect()
    }

    #[test]
    fn twins_are_found_wherever_they_are() {
        let pool = pool();
        for threads in 1..4 {
            for twin in [0, 1, 500, 998, 999] {
                let mut bounds: Vec<_> = (0..threads)
                    .map(|list| (list..1000).step_by(threads as usize).collect())
                    .collect::<Vec<Vec<_>>>();
                let some = [10, 300, 500, 700, 999];
                let sound = leaves(&pool, &bounds, &some);
                assert_eq!(
                    in_order(&pool, &sound, sound.leftmost(&pool).unwrap()).unwrap().concat().len(),
                    999
                );
                bounds.last_mut().unwrap().push(twin);
                let leaves = leaves(&pool, &bounds, &some);
                let error = in_order(&pool, &leaves, leaves.leftmost(&pool).unwrap()).unwrap_err();
                assert!(
                    error.to_string().contains("the same lower bound"),
                    "{twin} in {threads} lists: {error}"
                );
            }
        }
    }
}
