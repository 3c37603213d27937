//! The pass over the heads of all leaves when a tree is opened: what is live, what is free, what a crash left behind. Several threads look at a part of the
//! leaves each, and deal them out to shares by their lower bounds; then each thread sorts a share and builds the inner nodes above it.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::marker::PhantomData;

use everleaf_index::IndexError;
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::key::LeafKey;
use super::layout::{Shape, SlotSet};
use super::leaf::Leaf;
use crate::support::parallel::each_on_a_thread;

/// Below so many leaves a second thread costs more than it saves.
const LEAVES_PER_THREAD: u64 = 8192;
/// Heads of leaves that are asked for ahead of their use.
const PREFETCH_LEAVES: usize = 16;
/// Places at which it is looked, for each thread, to find where the shares part.
const SAMPLES: usize = 128;

/// Threads that are worth their start for a pass over so many leaves.
pub(super) fn threads_for(leaves: u64) -> usize {
    // How many processors there are is asked of the system, in files: that takes longer than to look at a thousand leaves.
    if leaves < 2 * LEAVES_PER_THREAD {
        return 1;
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    (leaves / LEAVES_PER_THREAD).clamp(1, processors) as usize
}

/// Some of the places, evenly spread.
pub(super) fn spread<T>(places: &[T], threads: usize) -> impl Iterator<Item = &T> {
    places.iter().step_by(places.len().div_ceil(SAMPLES * threads).max(1))
}

/// A leaf of the tree: its bound as a prefix for quick comparison and as the word in line 1.
#[derive(Clone, Copy)]
struct Live {
    prefix: u64,
    bound: u64,
    offset: u64,
}

impl Live {
    fn of<K: LeafKey, M: Media, S: Shape>(pool: &Pool<M>, leaf: Leaf<'_, S>, offset: u64) -> Result<Self, IndexError> {
        let bound = pool.media().load(&leaf.head.lower_bound);
        Ok(Self { prefix: K::prefix(K::read_bound(pool, bound)?), bound, offset })
    }

    /// The record was found intact when the prefix was taken.
    fn lower_bound<K: LeafKey, M: Media>(self, pool: &Pool<M>) -> K::Ref<'_> {
        K::read_bound(pool, self.bound).unwrap_or(K::least())
    }

    #[inline(always)]
    fn compare<K: LeafKey, M: Media>(&self, other: &Self, pool: &Pool<M>) -> Ordering {
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
#[derive(Default)]
pub(super) struct Survey {
    /// Leaves of the tree.
    pub leaves: Leaves,
    /// Leaves without a key, in the order of the pass.
    pub free: Vec<u64>,
    /// Pointers to be removed.
    pub strays: Vec<Stray>,
    /// Live slots.
    pub keys: u64,
}

/// Looks at leaves.
pub(super) struct Surveyor<'p, K: LeafKey, M: Media, S: Shape> {
    pool: &'p Pool<M>,
    shape: S,
    /// Whether dead slots may hold what a crash left.
    slots: bool,
    /// Where the shares part.
    splitters: Vec<Live>,
    ahead: VecDeque<u64>,
    found: Survey,
    key: PhantomData<K>,
}

impl<'p, K: LeafKey, M: Media, S: Shape> Surveyor<'p, K, M, S> {
    /// One that deals leaves out to as many shares as there are threads. `sample`: leaves from which it guesses where the shares part.
    pub fn new(pool: &'p Pool<M>, shape: S, slots: bool, threads: usize, sample: &mut dyn Iterator<Item = u64>) -> Self {
        let mut splitters = Vec::new();
        if threads > 1 {
            let look = |offset| {
                let leaf = Leaf::at(pool.media().region(), offset, shape).ok()?;
                if leaf.live(pool.media()).is_empty() { None } else { Live::of::<K, M, S>(pool, leaf, offset).ok() }
            };
            let mut sample: Vec<Live> = sample.filter_map(look).collect();
            sample.sort_unstable_by(|a, b| a.compare::<K, M>(b, pool));
            splitters.extend((1..threads).filter_map(|share| sample.get(share * sample.len() / threads)));
        }
        let (ahead, found) = (VecDeque::with_capacity(PREFETCH_LEAVES + 1), Survey::default());
        Self { pool, shape, slots, splitters, ahead, found, key: PhantomData }
    }

    /// One of the threads, with room for its part of all leaves, and in one share for those of the other threads too: they will be put behind its own.
    fn thread(&self, number: usize, leaves: usize) -> Self {
        let shares = self.splitters.len() + 1;
        let room = |share| if share == number { leaves / shares * 9 / 8 } else { leaves / shares / shares * 9 / 8 };
        let shares = (0..shares).map(|share| vec![Vec::with_capacity(room(share))]).collect();
        let leaves = Leaves { shares, least: Vec::new() };
        let found = Survey { leaves, ..Survey::default() };
        Self { splitters: self.splitters.clone(), ahead: VecDeque::with_capacity(PREFETCH_LEAVES + 1), found, ..*self }
    }

    /// Calls `each` with every place that holds leaves, of which there are `leaves` at most; one thread a share.
    pub fn in_parts<T: Sync>(
        self,
        places: &[T],
        leaves: usize,
        each: impl Fn(&T, &mut Self) -> Result<(), IndexError> + Sync,
    ) -> Result<Survey, IndexError> {
        let threads = self.splitters.len() + 1;
        let (each, template) = (&each, &self);
        let survey = |number, part: &[T]| {
            let mut surveyor = template.thread(number, leaves);
            part.iter().try_for_each(|place| each(place, &mut surveyor))?;
            surveyor.rest()?;
            Ok::<_, IndexError>(surveyor.found)
        };
        let survey = &survey;
        let parts = places.chunks(places.len().div_ceil(threads).max(1)).enumerate();
        let parts = parts.map(|(number, part)| move || survey(number, part));
        let mut whole = Survey::default();
        for part in each_on_a_thread(parts.collect()) {
            let mut part = part?;
            whole.leaves.append(part.leaves);
            whole.free.append(&mut part.free);
            whole.strays.append(&mut part.strays);
            whole.keys += part.keys;
        }
        Ok(whole)
    }

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
        let leaf = Live::of::<K, M, S>(self.pool, leaf, offset)?;
        let share = self.splitters.partition_point(|splitter| splitter.compare::<K, M>(&leaf, self.pool).is_le());
        found.leaves.shares[share][0].push(leaf);
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

/// The leaves of the tree in shares, each above the one before it; within a share those that each thread has found.
#[derive(Default)]
pub(super) struct Leaves {
    shares: Vec<Vec<Vec<Live>>>,
    /// The least that each thread has found.
    least: Vec<Live>,
}

impl Leaves {
    fn append(&mut self, other: Self) {
        self.least.extend(other.least);
        self.shares.resize_with(self.shares.len().max(other.shares.len()), Vec::new);
        for (share, mut found) in self.shares.iter_mut().zip(other.shares) {
            share.append(&mut found);
        }
    }

    pub fn len(&self) -> usize {
        self.shares.iter().flatten().map(Vec::len).sum()
    }

    /// Where the leaf with the least bound is.
    pub fn leftmost<K: LeafKey, M: Media>(&self, pool: &Pool<M>) -> Option<u64> {
        self.least.iter().min_by(|a, b| a.compare::<K, M>(b, pool)).map(|leaf| leaf.offset)
    }

    /// The lower bounds of all leaves but the leftmost, and where these are, a share each. A share is put in order by the thread that asks for it.
    pub fn in_order<'s, K: LeafKey, M: Media>(
        &'s mut self,
        pool: &'s Pool<M>,
        leftmost: u64,
    ) -> Vec<impl FnOnce() -> InOrder<'s, K, M> + Send> {
        self.shares.iter_mut().map(|share| put_in_order(share, pool, leftmost)).collect()
    }

    /// Two leaves that have the same bound, as damage. After the shares were put in order.
    pub fn twins<K: LeafKey, M: Media>(&self, pool: &Pool<M>) -> Option<IndexError> {
        let all: Vec<&Live> = self.shares.iter().flatten().flatten().collect();
        let pair = all.windows(2).find(|pair| pair[0].compare::<K, M>(pair[1], pool).is_eq())?;
        Some(IndexError::Corrupt { offset: pair[1].offset, what: "two leaves have the same lower bound" })
    }
}

fn put_in_order<'s, K: LeafKey, M: Media>(
    share: &'s mut Vec<Vec<Live>>,
    pool: &'s Pool<M>,
    leftmost: u64,
) -> impl FnOnce() -> InOrder<'s, K, M> + Send {
    move || {
        let mut parts = std::mem::take(share);
        parts.sort_by_key(|part| std::cmp::Reverse(part.capacity()));
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        parts.for_each(|part| all.extend(part));
        all.sort_unstable_by(|a, b| a.compare::<K, M>(b, pool));
        *share = vec![all];
        InOrder { leaves: share[0].iter(), pool, leftmost, key: PhantomData }
    }
}

/// Leaves with their lower bounds, ascending.
pub(super) struct InOrder<'s, K, M: Media> {
    leaves: std::slice::Iter<'s, Live>,
    pool: &'s Pool<M>,
    leftmost: u64,
    key: PhantomData<K>,
}

impl<'s, K: LeafKey, M: Media> Iterator for InOrder<'s, K, M> {
    type Item = (K::Ref<'s>, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let leaf = self.leaves.find(|leaf| leaf.offset != self.leftmost)?;
        Some((leaf.lower_bound::<K, M>(self.pool), leaf.offset))
    }
}
