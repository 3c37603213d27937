//! The pass over the heads of all leaves when a tree is opened: what is live, what is free, what a
//! crash left behind. Several threads look at a part of the leaves at a time, and each partitions
//! what it has found into buckets. [`build`](everleaf_tree::opening::build) goes on from there.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PPtr, planted};
use everleaf_pool::Pool;

use super::layout::{LeafHead, Shape, SlotSet};
use super::leaf::Leaf;
use everleaf_tree::inner_nodes::Building;
use everleaf_tree::key::TreeKey;
use everleaf_tree::opening::sample_sort::{Beginning, Partition, Splitters};
use everleaf_tree::opening::sample_sort::{LeafBound, LeafBoundOf};

/// Below so many leaves a second thread costs more than it saves.
const LEAVES_PER_THREAD: u64 = 8192;
/// Heads of leaves that are prefetched ahead of their use.
const PREFETCH_LEAVES: usize = 16;
/// Leaves that a thread has buffer for at first: a megabyte, or little more.
const MAX_AT_FIRST: usize = 1 << 16;
/// Places where some leaves are looked at beforehand, to find splitters.
const SAMPLED_PLACES: usize = 64;
/// Places that leaves are looked for at, for each thread: enough that threads end together.
const PLACES_PER_THREAD: usize = 128;

/// Threads that are worth their start for a pass over so many leaves.
pub(super) fn threads_for(leaves: u64) -> usize {
    // How many processors there are is asked of the system, in files: that takes longer than to
    // look at a thousand leaves.
    if leaves < 2 * LEAVES_PER_THREAD {
        return 1;
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    (leaves / LEAVES_PER_THREAD).clamp(1, processors) as usize
}

/// Places that are worth being told apart for so many threads.
pub(super) fn places_for(threads: usize) -> usize {
    if threads > 1 { threads * PLACES_PER_THREAD } else { 1 }
}

/// A pointer where none should be.
pub(super) enum Stray {
    Key { leaf_offset: u64, slot: usize },
    Bound { leaf_offset: u64 },
}

/// What a pass over the leaves found.
pub(super) struct Survey<K: TreeKey> {
    /// Leaves of the tree, as each thread has partition them.
    pub leaves: Vec<Partition<K>>,
    /// Leaves without a key, ascending.
    pub free: Vec<u64>,
    /// Pointers to be removed.
    pub strays: Vec<Stray>,
    /// Live slots.
    pub keys: u64,
}

impl<K: TreeKey> Survey<K> {
    /// One that has found nothing.
    fn empty() -> Self {
        Self { leaves: Vec::new(), free: Vec::new(), strays: Vec::new(), keys: 0 }
    }

    /// What all threads have found.
    ///
    /// # Errors
    /// That of one of them.
    pub fn of_all(parts: Vec<Result<Self>>) -> Result<Self> {
        let mut whole = Self::empty();
        for part in parts {
            let mut part = part?;
            whole.leaves.append(&mut part.leaves);
            whole.free.append(&mut part.free);
            whole.strays.append(&mut part.strays);
            whole.keys += part.keys;
        }
        whole.free.sort_unstable();
        Ok(whole)
    }
}

/// The pass over the leaves, by so many threads.
pub(super) struct Pass<'p, M: Media, S: Shape, T> {
    pub pool: &'p Pool<M>,
    pub shape: S,
    /// Whether dead slots and bounds may hold what a crash left.
    pub strays: bool,
    /// Threads that look, at least one.
    pub threads: usize,
    /// Where leaves are: a thread takes the next place whenever it is done with one.
    pub places: Vec<T>,
    /// Leaves at most.
    pub most: usize,
    taken: AtomicUsize,
    /// Leaves of the tree that were found so far, about: what a thread still has to look at is
    /// missing.
    found: AtomicUsize,
}

impl<'p, M: Media, S: Shape, T> Pass<'p, M, S, T> {
    pub fn new(
        pool: &'p Pool<M>,
        shape: S,
        strays: bool,
        threads: usize,
        places: Vec<T>,
        most: usize,
    ) -> Self {
        Self {
            pool,
            shape,
            strays,
            threads: threads.max(1),
            places,
            most,
            taken: AtomicUsize::new(0),
            found: AtomicUsize::new(0),
        }
    }

    /// Where buckets part: `some` gives leaves from so many places all over the pool.
    pub fn splitters<K: TreeKey>(&self, some: impl FnOnce(usize) -> Vec<u64>) -> Splitters<K> {
        Splitters::among(self.pool, self.most, || self.live_of::<K>(&some(SAMPLED_PLACES)))
    }

    /// Those of these leaves that are of the tree. What is damaged is passed over: the look at all
    /// leaves meets it.
    fn live_of<K: TreeKey>(&self, leaves: &[u64]) -> Vec<LeafBoundOf<K>> {
        let media = self.pool.media();
        leaves[..leaves.len().min(PREFETCH_LEAVES)]
            .iter()
            .for_each(|leaf| prefetch_head(media, *leaf));
        let live = |(number, offset): (usize, &u64)| {
            leaves
                .get(number + PREFETCH_LEAVES)
                .into_iter()
                .for_each(|leaf| prefetch_head(media, *leaf));
            let leaf = Leaf::at(media.region(), *offset, self.shape).ok()?;
            if leaf.live(media).is_empty() {
                None
            } else {
                let word = media.load(&leaf.head.lower_bound);
                LeafBound::of::<K, M>(self.pool, word, *offset, &Beginning::none()).ok()
            }
        };
        leaves.iter().enumerate().filter_map(live).collect()
    }

    /// What one of the threads does: calls `each` with every place that it takes, and partitions
    /// what it finds. The one that came first also takes memory for `nodes` as leaves are found,
    /// while the others look at more places.
    pub fn look<K: TreeKey>(
        &self,
        splitters: &Splitters<K>,
        nodes: &Building<K>,
        each: impl Fn(&T, &mut Surveyor<'_, K, M, S>) -> Result<()>,
    ) -> Result<Survey<K>> {
        // Half as much again as an equal part, within reason: a pool may be full of other things
        // than leaves.
        let buffer = (self.most / self.threads * 3 / 2).min(MAX_AT_FIRST);
        let (leaves, ahead, found) =
            (Partition::none(splitters, buffer), [0; PREFETCH_LEAVES], Survey::empty());
        let Self { pool, shape, strays, .. } = *self;
        let mut surveyor =
            Surveyor { pool, shape, strays, splitters, ahead, visited: 0, leaves, live: 0, found };
        let mut came_first = false;
        while let Some((number, place)) = self.take() {
            came_first |= number == 0;
            let before = surveyor.live;
            each(place, &mut surveyor)?;
            let new = surveyor.live - before;
            let found = self.found.fetch_add(new, Relaxed) + new;
            if came_first {
                nodes.expect(found); // Never more than is planned in the end.
            }
        }
        surveyor.end()
    }

    /// The next place, and which it is.
    fn take(&self) -> Option<(usize, &T)> {
        let number = self.taken.fetch_add(1, Relaxed);
        self.places.get(number).map(|place| (number, place))
    }
}

/// One thread's part of the pass.
pub(super) struct Surveyor<'p, K: TreeKey, M: Media, S: Shape> {
    pool: &'p Pool<M>,
    shape: S,
    strays: bool,
    splitters: &'p Splitters<K>,
    /// Leaves that were prefetched, in a ring; 0 for none.
    ahead: [u64; PREFETCH_LEAVES],
    visited: usize,
    leaves: Partition<K>,
    /// How many these are.
    live: usize,
    found: Survey<K>,
}

impl<K: TreeKey, M: Media, S: Shape> Surveyor<'_, K, M, S> {
    /// Prefetches the head of a leaf, and the bound of an earlier one, and looks at one whose head
    /// and bound were prefetched.
    #[inline(always)]
    pub fn visit(&mut self, offset: u64) -> Result<()> {
        prefetch_head(self.pool.media(), offset);
        if K::RECORDS && !M::COUNTS_READS {
            let half = self.visited + PREFETCH_LEAVES / 2;
            self.prefetch_bound(self.ahead[half % PREFETCH_LEAVES]);
        }
        let earlier = std::mem::replace(&mut self.ahead[self.visited % PREFETCH_LEAVES], offset);
        self.visited += 1;
        if earlier == 0 { Ok(()) } else { self.look(earlier) }
    }

    /// Prefetches what the bound of a leaf is read from; 0 is not a leaf.
    #[inline(always)]
    fn prefetch_bound(&self, offset: u64) {
        let media = self.pool.media();
        if let Some(head) = media.region().get(PPtr::<LeafHead>::at(offset)).filter(|_| offset != 0)
        {
            K::prefetch_bound(media, K::bound_word(media.load(&head.lower_bound)));
        }
    }

    /// Looks at the rest.
    fn end(mut self) -> Result<Survey<K>> {
        self.ahead
            .into_iter()
            .filter(|offset| *offset != 0)
            .skip(usize::from(planted(214)))
            .try_for_each(|offset| self.look(offset))?;
        self.found.leaves.push(self.leaves);
        Ok(self.found)
    }

    #[inline(always)]
    fn look(&mut self, offset: u64) -> Result<()> {
        let (media, found) = (self.pool.media(), &mut self.found);
        let leaf = Leaf::at(media.region(), offset, self.shape)?;
        let live = leaf.live(media);
        if !live.minus(self.shape.all()).is_empty() {
            return Err(IndexError::Corrupt {
                offset,
                what: "a bitmap has bits beyond the slots of its leaf",
            });
        }
        if self.strays {
            find_strays::<K, M, S>(media, leaf, live, offset, &mut found.strays);
        }
        if live.is_empty() {
            found.free.push(offset);
            return Ok(());
        }
        found.keys += live.count() as u64;
        self.leaves.add(
            LeafBound::of::<K, M>(
                self.pool,
                media.load(&leaf.head.lower_bound),
                offset,
                &self.splitters.beginning,
            )?,
            self.splitters,
            self.pool,
        );
        self.live += 1;
        Ok(())
    }
}

/// Prefetches what is read of a leaf.
#[inline(always)]
fn prefetch_head<M: Media>(media: &M, offset: u64) {
    if let Some(head) = media.region().get(PPtr::<LeafHead>::at(offset)) {
        media.prefetch(&head.line0);
        media.prefetch(&head.lower_bound);
    }
}

/// Notes what a cut operation left in the dead slots of a leaf and in the bound of a free one.
fn find_strays<K: TreeKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    live: SlotSet,
    leaf_offset: u64,
    strays: &mut Vec<Stray>,
) {
    if leaf.shape().owns_keys::<K>() {
        for slot in leaf.shape().all().minus(live) {
            if media.load(leaf.key(slot)) != 0 {
                strays.push(Stray::Key { leaf_offset, slot });
            }
        }
    }
    if live.is_empty() && media.load(&leaf.head.lower_bound) != 0 {
        strays.push(Stray::Bound { leaf_offset });
    }
}

/// Of many leaves no bucket has far more than the others.
#[cfg(test)]
pub(super) fn assert_balanced<K: TreeKey>(splitters: &Splitters<K>, survey: Survey<K>) {
    let length =
        |bucket| survey.leaves.iter().map(|partition| partition.len_of(bucket)).sum::<usize>();
    let lengths: Vec<_> = (0..splitters.buckets()).map(length).collect();
    let mean = lengths.iter().sum::<usize>() / lengths.len();
    assert!(mean > 8 && lengths.len() > 8, "of {lengths:?}");
    assert!(lengths.iter().all(|length| *length <= 5 * mean), "{lengths:?}");
}
