//! The pass over the heads of all leaves when a tree is opened: what is live, what is free, what a crash left behind. Several threads look at a part of the
//! leaves at a time, and deal them out to shares by their lower bounds, which [`raise`](super::raise) takes from here.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_index::IndexError;
use everleaf_pmem::Media;
use everleaf_pool::Pool;
use parking_lot::Mutex;

use super::key::LeafKey;
use super::layout::{Shape, SlotSet};
use super::leaf::Leaf;

/// Below so many leaves a second thread costs more than it saves.
const LEAVES_PER_THREAD: u64 = 8192;
/// Heads of leaves that are asked for ahead of their use.
const PREFETCH_LEAVES: usize = 16;
/// Shares of the leaves for each thread: whoever is done with one takes the next.
const SHARES_PER_THREAD: usize = 6;
/// More are not made for the sake of that: it is looked through all of them for each leaf.
const MOST_SHARES: usize = 32;
/// Leaves that a list has room for at first: a megabyte, or little more.
const MOST_AT_FIRST: usize = 1 << 16;
/// Places that leaves are looked for at, for each thread: enough that its samples tell where shares part, and that threads end together.
const PLACES_PER_THREAD: usize = 128;

/// Threads that are worth their start for a pass over so many leaves.
pub(super) fn threads_for(leaves: u64) -> usize {
    // How many processors there are is asked of the system, in files: that takes longer than to look at a thousand leaves.
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

/// A leaf of the tree: its bound, as a prefix for quick comparison and what else is needed of it.
#[derive(Clone, Copy)]
struct Live<W> {
    prefix: u64,
    bound: W,
    offset: u64,
}

/// One whose keys are of kind `K`.
type LiveOf<K> = Live<<K as LeafKey>::BoundWord>;

impl<W: Copy> Live<W> {
    fn of<K: LeafKey<BoundWord = W>, M: Media, S: Shape>(
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

    #[inline(always)]
    fn compare<K: LeafKey<BoundWord = W>, M: Media>(&self, other: &Self, pool: &Pool<M>) -> Ordering {
        let by_prefix = self.prefix.cmp(&other.prefix);
        if K::RECORDS && by_prefix.is_eq() {
            K::cmp_keys(self.lower_bound::<K, M>(pool), other.lower_bound::<K, M>(pool))
        } else {
            by_prefix
        }
    }
}

/// A pointer where none should be.
pub(super) enum Stray {
    Key { leaf_offset: u64, slot: usize },
    Bound { leaf_offset: u64 },
}

/// What a pass over the leaves found.
pub(super) struct Survey<K: LeafKey> {
    /// Leaves of the tree.
    pub leaves: Leaves<K>,
    /// Leaves without a key, ascending.
    pub free: Vec<u64>,
    /// Pointers to be removed.
    pub strays: Vec<Stray>,
    /// Live slots.
    pub keys: u64,
}

impl<K: LeafKey> Survey<K> {
    /// One that has found nothing, with lists for so many shares and room for so many leaves in each.
    fn empty(shares: usize, room: usize) -> Self {
        let shares = (0..shares).map(|_| Mutex::new(vec![Vec::with_capacity(room)])).collect();
        let leaves = Leaves { shares, least: Vec::new() };
        Self { leaves, free: Vec::new(), strays: Vec::new(), keys: 0 }
    }

    /// What all threads have found.
    ///
    /// # Errors
    /// That of one of them.
    pub fn of_all(parts: Vec<Result<Self, IndexError>>) -> Result<Self, IndexError> {
        let mut whole = Self::empty(0, 0);
        for part in parts {
            let mut part = part?;
            whole.leaves.append(part.leaves);
            whole.free.append(&mut part.free);
            whole.strays.append(&mut part.strays);
            whole.keys += part.keys;
        }
        whole.free.sort_unstable();
        Ok(whole)
    }
}

/// The pass over the leaves, by so many threads.
pub(super) struct Pass<'p, K: LeafKey, M: Media, S: Shape, T> {
    pub pool: &'p Pool<M>,
    pub shape: S,
    /// Whether dead slots may hold what a crash left.
    pub slots: bool,
    /// Threads that look, at least one.
    pub threads: usize,
    /// Where leaves are: a thread takes the next place whenever it is done with one.
    pub places: Vec<T>,
    /// Leaves at most.
    pub most: usize,
    taken: AtomicUsize,
    /// Where the shares part.
    splitters: OnceLock<Vec<LiveOf<K>>>,
}

impl<'p, K: LeafKey, M: Media, S: Shape, T> Pass<'p, K, M, S, T> {
    pub fn new(pool: &'p Pool<M>, shape: S, slots: bool, threads: usize, places: Vec<T>, most: usize) -> Self {
        let (taken, splitters) = (AtomicUsize::new(0), OnceLock::new());
        Self { pool, shape, slots, threads: threads.max(1), places, most, taken, splitters }
    }

    /// What one of the threads does: calls `each` with every place that it takes. `sample`: some leaves, which the first of several threads looks at.
    pub fn look(
        &self,
        sample: impl Fn(&[T]) -> Vec<u64>,
        each: impl Fn(&T, &mut Surveyor<'_, K, M, S>) -> Result<(), IndexError>,
    ) -> Result<Survey<K>, IndexError> {
        let part = || if self.threads > 1 { self.part(sample(&self.places)) } else { Vec::new() };
        let splitters = self.splitters.get_or_init(part);
        let shares = splitters.len() + 1;
        // Half as much again as an equal part, within reason: a pool may be full of other things than leaves.
        let room = (self.most / self.threads / shares * 3 / 2).min(MOST_AT_FIRST);
        let ahead = VecDeque::with_capacity(PREFETCH_LEAVES + 1);
        let found = Survey::empty(shares, room);
        let mut surveyor = Surveyor { pool: self.pool, shape: self.shape, slots: self.slots, splitters, ahead, found };
        while let Some(place) = self.places.get(self.taken.fetch_add(1, Relaxed)) {
            each(place, &mut surveyor)?;
        }
        surveyor.rest()?;
        Ok(surveyor.found)
    }

    /// Guesses from some leaves where equal shares part.
    fn part(&self, sample: Vec<u64>) -> Vec<LiveOf<K>> {
        let (pool, shares) = (self.pool, (self.threads * SHARES_PER_THREAD).min(MOST_SHARES).max(self.threads));
        let look = |offset| {
            let leaf = Leaf::at(pool.media().region(), offset, self.shape).ok()?;
            if leaf.live(pool.media()).is_empty() { None } else { LiveOf::<K>::of::<K, M, S>(pool, leaf, offset).ok() }
        };
        let mut sample: Vec<_> = sample.into_iter().filter_map(look).collect();
        sample.sort_unstable_by(|a, b| a.compare::<K, M>(b, pool));
        (1..shares).filter_map(|share| sample.get(share * sample.len() / shares).copied()).collect()
    }
}

/// One thread's part of the pass.
pub(super) struct Surveyor<'s, K: LeafKey, M: Media, S: Shape> {
    pool: &'s Pool<M>,
    shape: S,
    slots: bool,
    splitters: &'s [LiveOf<K>],
    ahead: VecDeque<u64>,
    found: Survey<K>,
}

impl<K: LeafKey, M: Media, S: Shape> Surveyor<'_, K, M, S> {
    /// Asks for the head of a leaf, and looks at one that was asked for earlier.
    #[inline(always)]
    pub fn visit(&mut self, offset: u64) -> Result<(), IndexError> {
        if let Ok(leaf) = Leaf::at(self.pool.media().region(), offset, self.shape) {
            leaf.prefetch_head(self.pool.media());
            self.pool.media().prefetch(&leaf.head.lower_bound);
        }
        self.ahead.push_back(offset);
        match self.ahead.len() {
            ..=PREFETCH_LEAVES => Ok(()),
            _ => self.ahead.pop_front().map_or(Ok(()), |earlier| self.look(earlier)),
        }
    }

    fn rest(&mut self) -> Result<(), IndexError> {
        std::mem::take(&mut self.ahead).into_iter().try_for_each(|offset| self.look(offset))
    }

    fn look(&mut self, offset: u64) -> Result<(), IndexError> {
        let (media, found) = (self.pool.media(), &mut self.found);
        let leaf = Leaf::at(media.region(), offset, self.shape)?;
        let live = leaf.live(media);
        if !live.minus(self.shape.all()).is_empty() {
            return Err(IndexError::Corrupt { offset, what: "a bitmap has bits beyond the slots of its leaf" });
        }
        if self.slots {
            find_strays(media, leaf, live, self.shape, offset, &mut found.strays);
        }
        if live.is_empty() {
            found.free.push(offset);
            return Ok(());
        }
        found.keys += live.count() as u64;
        let leaf = LiveOf::<K>::of::<K, M, S>(self.pool, leaf, offset)?;
        // Straight code first: bounds come in no order, so that each branch of a search would be guessed wrong every other time.
        let below = self.splitters.iter().filter(|splitter| splitter.prefix < leaf.prefix).count();
        let not_above = |splitter: &&LiveOf<K>| splitter.compare::<K, M>(&leaf, self.pool).is_le();
        let share = below + self.splitters[below..].iter().take_while(not_above).count();
        found.leaves.shares[share].get_mut()[0].push(leaf);
        match found.leaves.least.first_mut() {
            None => found.leaves.least.push(leaf),
            Some(least) if leaf.compare::<K, M>(least, self.pool).is_lt() => *least = leaf,
            Some(_) => {}
        }
        Ok(())
    }
}

/// Notes what a cut operation left in the dead slots of a leaf and in the bound of a free one.
fn find_strays<M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    live: SlotSet,
    shape: S,
    leaf_offset: u64,
    strays: &mut Vec<Stray>,
) {
    for slot in shape.all().minus(live) {
        if media.load(leaf.key(slot)) != 0 {
            strays.push(Stray::Key { leaf_offset, slot });
        }
    }
    if live.is_empty() && media.load(&leaf.head.lower_bound) != 0 {
        strays.push(Stray::Bound { leaf_offset });
    }
}

/// The leaves of the tree in shares, each above the one before it; within a share those that each thread has found. The locks are for who puts a share in
/// order; nobody waits at one.
pub(super) struct Leaves<K: LeafKey> {
    shares: Vec<Mutex<Vec<Vec<LiveOf<K>>>>>,
    /// The least that each thread has found.
    least: Vec<LiveOf<K>>,
}

impl<K: LeafKey> Leaves<K> {
    fn append(&mut self, other: Self) {
        self.least.extend(other.least);
        self.shares.resize_with(self.shares.len().max(other.shares.len()), Mutex::default);
        for (share, mut found) in self.shares.iter_mut().zip(other.shares) {
            share.get_mut().append(found.get_mut());
        }
    }

    /// Leaves in each share.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.shares.iter().map(|share| share.lock().iter().map(Vec::len).sum())
    }

    /// Where the leaf with the least bound is.
    pub fn leftmost<M: Media>(&self, pool: &Pool<M>) -> Option<u64> {
        self.least.iter().min_by(|a, b| a.compare::<K, M>(b, pool)).map(|leaf| leaf.offset)
    }

    /// Puts a share in order, and calls `each` with its length and the lower bounds of its leaves, but for the leftmost leaf, with where these are.
    pub fn in_order<'p, M: Media, R>(
        &self,
        number: usize,
        pool: &'p Pool<M>,
        leftmost: u64,
        each: impl FnOnce(usize, InOrder<'_, 'p, K, M>) -> R,
    ) -> R {
        let mut share = self.shares[number].lock();
        let mut parts = std::mem::take(&mut *share);
        parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        parts.for_each(|part| all.extend(part));
        all.sort_unstable_by(|a, b| a.compare::<K, M>(b, pool));
        share.push(all);
        each(share[0].len(), InOrder { leaves: share[0].iter(), pool, leftmost })
    }

    /// Two leaves that have the same bound, as damage. After all shares were put in order.
    pub fn twins<M: Media>(&self, pool: &Pool<M>) -> Option<IndexError> {
        let all: Vec<_> = self.shares.iter().flat_map(|share| share.lock().concat()).collect();
        let pair = all.windows(2).find(|pair| pair[0].compare::<K, M>(&pair[1], pool).is_eq())?;
        Some(IndexError::Corrupt { offset: pair[1].offset, what: "two leaves have the same lower bound" })
    }
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
