//! Opening: one pass over the heads of all leaves, by several threads, from which the inner nodes
//! are built. No entry is read.
//!
//! | crash state | found as | action |
//! |---|---|---|
//! | a new leaf, before S2 | a leaf that is not live | it is free |
//! | a new leaf, after S2 | a live leaf | none: the leaf before it ends where it begins |
//! | the end of a leaf, after D1 | `dying`, and the bounds differ | `dying` becomes null (O2) |
//! | the end of a leaf, after D2 | `dying`, that leaf is live and has the same bound | the leaf is free (O1) |
//! | the end of a leaf, after D3 | a leaf that is not live | it is free |
//! | byte strings: a new leaf with its bound, or the end of a leaf, after D3 | a leaf that is not live, with `spare` | that is freed |
//! | byte strings: a new leaf, after S2 | `from` | what both leaves have is taken out of the old one (O3) |
//! | creation | no leaf in a half of all keys | an empty one becomes its first |
//!
//! Every action may be cut by a crash and is then done again by the next recovery.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use everleaf_index::{IndexError, InnerFrom, NoImage, Result};
use everleaf_pmem::{Media, PPtr, TransactionalMemory, Transactions, site, unless_planted};
use everleaf_pool::{Pool, PoolError, Run, Worker, Workers};

use super::layout::{HALF, LEAVES, LIVE, Leaf, LeafHead, half_of, leaf_bytes};
use super::leaf_memory::{Stock, take_from_pool};
use super::publish::publish;
use super::split_halves::Draft;
use super::{LOCKS, LineTree, WORKERS, leaf_at};
use everleaf_tree::Opening;
use everleaf_tree::groups::{Group, Groups, leaves_of};
use everleaf_tree::image::{self, NO_LEAF};
use everleaf_tree::inner_nodes::{Building, InnerNodes};
use everleaf_tree::key::TreeKey;
use everleaf_tree::opening::build::{self, NodeBuild};
use everleaf_tree::opening::sample_sort::{
    Beginning, LeafBound, LeafBoundOf, Partition, PartitionedLeaves, Splitters,
};
use everleaf_tree::operations::Restarts;
use everleaf_tree::parallel::in_two_stages;
use everleaf_tree::parameters::Parameters;
use everleaf_tree::scan_orders::ScanOrders;
use everleaf_tree::shared_nodes::SharedNodes;
use everleaf_tree::version_locks::VersionLocks;

/// Below so many leaves a second thread costs more than it saves.
const LEAVES_PER_THREAD: u64 = 8192;
/// Heads of leaves that are prefetched ahead of their use.
const PREFETCH_LEAVES: usize = 16;
/// Runs of which some leaves are looked at beforehand, to find splitters.
const SAMPLED_RUNS: usize = 64;
/// The first leaves of the two halves of all keys begin so.
const FIRSTS: [u64; 2] = [0, HALF];

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Opens what the pool holds; an empty tree if it is fresh. No leaf is looked at where an image
    /// of the inner nodes is taken.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or a fresh pool has no
    /// room for a group of leaves.
    pub fn open(pool: &Arc<Pool<M>>, parameters: Parameters, opening: Opening) -> Result<Self> {
        let workers = Workers::new(Arc::clone(pool), WORKERS);
        let runs = pool.runs(LEAVES)?;
        let (found, inner_from) = match in_image::<K, M>(pool, &runs, parameters, opening)? {
            Ok(found) => (found, InnerFrom::Image),
            Err(why) => {
                let mut worker = workers.lease()?;
                let threads = opening.threads.unwrap_or_else(|| threads_for::<LINES>(&runs));
                let pass = Pass::<M, LINES> { pool, runs: &runs, taken: AtomicUsize::new(0) };
                let found = pass.in_leaves::<K>(&mut worker, threads.max(1), parameters)?;
                (found, InnerFrom::Leaves(why))
            }
        };
        let leaves = found.groups.all().iter().map(|group| group.used).sum();
        Ok(Self {
            pool: Arc::clone(pool),
            inner: SharedNodes::new(found.inner, TransactionalMemory::new(Transactions::Off, None)),
            locks: VersionLocks::new(LOCKS).map_err(PoolError::Map)?,
            orders: ScanOrders::new(leaf_bytes(LINES), pool.media().region().max_len()),
            stock: Stock::new(workers, found.groups),
            parameters,
            keys_found: found.keys.map_or_else(OnceLock::new, OnceLock::from),
            inner_from,
            leaves: AtomicU64::new(leaves),
            restarts: Restarts::default(),
        })
    }
}

/// Threads that are worth their start for a pass over all leaves.
fn threads_for<const LINES: usize>(runs: &[Run]) -> usize {
    let leaves = runs.iter().map(|run| run.bytes).sum::<u64>() / leaf_bytes(LINES);
    // How many processors there are takes longer to ask than a thousand leaves to look at.
    if leaves < 2 * LEAVES_PER_THREAD {
        return 1;
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    (leaves / LEAVES_PER_THREAD).clamp(1, processors) as usize
}

/// What the pool holds of a tree.
struct Tree<K: TreeKey> {
    inner: InnerNodes<K>,
    groups: Groups,
    /// Keys, where that is known.
    keys: Option<u64>,
}

/// By the image that the close before has stored; or why that is not taken.
fn in_image<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    runs: &[Run],
    parameters: Parameters,
    Opening { shutdown, seal, .. }: Opening,
) -> Result<Result<Tree<K>, NoImage>> {
    let image = match image::read::<K, M>(pool, (shutdown, seal), parameters, 0) {
        Ok(image) => image,
        Err(why) => return Ok(Err(why)),
    };
    let leaf_bytes = leaf_bytes(lines_of(parameters));
    let around = Groups::around(LEAVES, runs, image.leaves(), leaf_bytes, parameters.group_bytes);
    let Some(groups) = around else { return Ok(Err(NoImage::Damaged(NO_LEAF))) };
    let (inner, _) = build::from_image(pool, &image, parameters.inner_keys)?;
    Ok(Ok(Tree { inner, groups, keys: Some(image.keys) }))
}

/// Lines of a leaf, without its head.
fn lines_of(parameters: Parameters) -> usize {
    parameters.leaf_slots as usize / super::layout::ENTRIES
}

/// The pass over the heads of all leaves. A thread takes the next run whenever it is done with one.
pub(super) struct Pass<'p, M: Media, const LINES: usize> {
    pub pool: &'p Pool<M>,
    runs: &'p [Run],
    taken: AtomicUsize,
}

/// What a thread has found.
struct Survey<K: TreeKey> {
    /// Live leaves.
    leaves: Partition<K>,
    /// Leaves that are not live.
    free: Vec<u64>,
    /// Live leaves that may be dead.
    dying: Vec<u64>,
    /// Live leaves whose split may have been cut (byte strings).
    cut: Vec<u64>,
    /// Live leaves of each half, and of these the first ones.
    halves: [[u64; 2]; 2],
}

impl<M: Media, const LINES: usize> Pass<'_, M, LINES> {
    pub(super) fn leaf(&self, offset: u64) -> Result<&Leaf<LINES>> {
        leaf_at(self.pool, offset)
    }

    /// By the heads of all leaves.
    fn in_leaves<K: TreeKey>(
        &self,
        worker: &mut Worker<M>,
        threads: usize,
        Parameters { inner_keys, group_bytes, .. }: Parameters,
    ) -> Result<Tree<K>> {
        let (pool, bytes) = (self.pool, leaf_bytes(LINES));
        let most = self.runs.iter().map(|run| (run.bytes / bytes) as usize).sum();
        let splitters = Splitters::<K>::among(pool, most, || self.sample::<K>());
        let nodes = Building::begin(inner_keys, pool.media().dram())?;
        let between = |surveys: Vec<Result<Survey<K>>>| {
            let surveys = surveys.into_iter().collect::<Result<Vec<_>, _>>()?;
            let mut found = self.settle(surveys, &splitters)?;
            if K::RECORDS {
                self.settle_records::<K>(worker, &found.survey.free, &found.survey.cut)?;
            }
            let mut groups = self.groups(&mut found.survey.free, group_bytes);
            for first in found.missing()? {
                let offset = match groups.pop() {
                    Some(offset) => offset,
                    None => take_from_pool(&mut groups, worker)?,
                };
                publish(pool.media(), self.leaf(offset)?, &Draft::EMPTY, first, PPtr::NULL);
                found.survey.add(pool, offset, first, &splitters)?;
            }
            let leaves = PartitionedLeaves::of(found.leaves(), splitters.buckets(), inner_keys);
            let leftmost = leaves.leftmost(pool).unwrap_or(0);
            Ok::<_, IndexError>((NodeBuild::begin(&nodes, leaves, leftmost)?, groups))
        };
        let ((_, groups), built) = in_two_stages(
            threads,
            || self.look(&splitters),
            between,
            |(build, _)| build.work(pool),
        )?;
        Ok(Tree { inner: build::end(nodes, built)?, groups, keys: None })
    }

    /// Some live leaves from all over the pool. What is damaged is passed over: the look at all
    /// leaves meets it.
    fn sample<K: TreeKey>(&self) -> Vec<LeafBoundOf<K>> {
        let (media, bytes) = (self.pool.media(), leaf_bytes(LINES));
        let sampled = self.runs.iter().step_by(self.runs.len().div_ceil(SAMPLED_RUNS).max(1));
        let leaves = sampled.flat_map(|run| leaves_of(*run, bytes).take(PREFETCH_LEAVES));
        let bound = |offset| {
            let head =
                &self.leaf(offset).ok().filter(|leaf| media.load(&leaf.head.live) == LIVE)?.head;
            let word = media.load(&head.lower_bound);
            LeafBound::of::<K, M>(self.pool, word, offset, &Beginning::none()).ok()
        };
        leaves.filter_map(bound).collect()
    }

    /// What one of the threads does.
    fn look<K: TreeKey>(&self, splitters: &Splitters<K>) -> Result<Survey<K>> {
        let media = self.pool.media();
        let mut found = Survey::none(splitters);
        while let Some(run) = self.runs.get(self.taken.fetch_add(1, Ordering::Relaxed)) {
            let leaves = leaves_of(*run, leaf_bytes(LINES));
            let mut ahead = leaves.clone().skip(PREFETCH_LEAVES);
            for offset in leaves {
                if let Some(Ok(leaf)) = ahead.next().map(|offset| self.leaf(offset)) {
                    media.prefetch(&leaf.head);
                }
                let head = &self.leaf(offset)?.head;
                let live = media.load(&head.live);
                if K::RECORDS && live == LIVE && !media.load(&head.from).is_null() {
                    found.cut.push(offset);
                }
                match live {
                    0 => found.free.push(offset),
                    LIVE if !media.load(&head.dying).is_null() => found.dying.push(offset),
                    LIVE => {
                        found.add(self.pool, offset, media.load(&head.lower_bound), splitters)?
                    }
                    _ => return Err(IndexError::Corrupt { offset, what: NOT_LIVE }),
                }
            }
        }
        Ok(found)
    }

    /// The live leaf that a word of another one leads to, if it leads to one.
    pub(super) fn live_leaf(
        &self,
        pointer: PPtr<LeafHead>,
        of_offset: u64,
    ) -> Option<&Leaf<LINES>> {
        let offset = pointer.offset();
        let is_leaf = self.runs.iter().any(|run| {
            offset.checked_sub(run.offset).is_some_and(|within| {
                within.is_multiple_of(leaf_bytes(LINES))
                    && within / leaf_bytes(LINES) < run.bytes / leaf_bytes(LINES)
            })
        });
        let leaf = self.leaf(offset).ok().filter(|_| is_leaf && offset != of_offset);
        leaf.filter(|leaf| self.pool.media().load(&leaf.head.live) == LIVE)
    }

    /// Ends what a crash has cut of the ends of leaves.
    fn settle<K: TreeKey>(
        &self,
        surveys: Vec<Survey<K>>,
        splitters: &Splitters<K>,
    ) -> Result<Found<K>> {
        let media = self.pool.media();
        let mut found = Found::of(surveys, splitters);
        let dying = std::mem::take(&mut found.survey.dying);
        let is_dead = |offset: u64, head: &LeafHead| {
            let next = self.live_leaf(media.load(&head.dying), offset).map(|leaf| &leaf.head);
            next.is_some_and(|next| media.load(&next.lower_bound) == media.load(&head.lower_bound))
        };
        let mut dead = Vec::new();
        for offset in &dying {
            if is_dead(*offset, &self.leaf(*offset)?.head) {
                dead.push(*offset);
            }
        }
        for offset in &dying {
            let head = &self.leaf(*offset)?.head;
            if dead.contains(offset) {
                if dead.contains(&media.load(&head.dying).offset()) {
                    return Err(IndexError::Corrupt { offset: *offset, what: DEAD_INTO_DEAD });
                }
                // O1: as D3. Crash: done again.
                media.store(&head.live, 0);
                media.flush(site!("linetree.recover.O1.live"), &head.live);
                found.survey.free.push(*offset);
            } else {
                // O2: it lives on. Were it not forgotten, that neighbour could die, and serve again
                // as its left neighbour, and die once more, into this leaf: then each of the two
                // would be dead because of the other. Flushed, for a clean close flushes nothing,
                // and an opening by its image does not do this again. Crash: done again.
                unless_planted!(380, media.store(&head.dying, PPtr::NULL));
                media.flush(site!("linetree.recover.O2.dying"), &head.dying);
                found.survey.add(self.pool, *offset, media.load(&head.lower_bound), splitters)?;
            }
        }
        if !dying.is_empty() {
            media.fence(site!("linetree.recover.O2.fence"));
        }
        Ok(found)
    }

    /// The groups, with these free leaves.
    fn groups(&self, free: &mut Vec<u64>, group_bytes: u64) -> Groups {
        let mut free = std::mem::take(free);
        free.sort_unstable();
        let used = |run: &Run| {
            let before = |offset| free.partition_point(|leaf| *leaf < offset);
            let free = before(run.offset + run.bytes) - before(run.offset);
            run.bytes / leaf_bytes(LINES) - free as u64
        };
        let groups = self.runs.iter().map(|run| Group { run: *run, used: used(run) }).collect();
        free.reverse(); // The stack gives the lowest first.
        Groups::new(LEAVES, groups, free, leaf_bytes(LINES), group_bytes)
    }
}

/// What is wrong with a leaf that is taken over by one that is taken over.
const DEAD_INTO_DEAD: &str = "two leaves have ended, one into the other";
/// What is wrong with a leaf that is neither live nor free.
const NOT_LIVE: &str = "a leaf is neither live nor free";

impl<K: TreeKey> Survey<K> {
    fn none(splitters: &Splitters<K>) -> Self {
        let leaves = Partition::none(splitters, 0);
        Self { leaves, free: Vec::new(), dying: Vec::new(), cut: Vec::new(), halves: [[0; 2]; 2] }
    }

    /// Adds a live leaf.
    #[inline(always)]
    fn add<M: Media>(
        &mut self,
        pool: &Pool<M>,
        offset: u64,
        lower_bound: u64,
        splitters: &Splitters<K>,
    ) -> Result<()> {
        let [leaves, firsts] = &mut self.halves[(lower_bound / HALF) as usize];
        *leaves += 1;
        *firsts += u64::from(lower_bound == half_of(lower_bound));
        let bound = LeafBound::of::<K, M>(pool, lower_bound, offset, &splitters.beginning)?;
        self.leaves.add(bound, splitters, pool);
        Ok(())
    }
}

/// What all threads have found.
struct Found<K: TreeKey> {
    /// What others than this thread have found of the live leaves.
    others: Vec<Partition<K>>,
    /// The rest.
    survey: Survey<K>,
}

impl<K: TreeKey> Found<K> {
    fn of(surveys: Vec<Survey<K>>, splitters: &Splitters<K>) -> Self {
        let mut found = Self { others: Vec::new(), survey: Survey::none(splitters) };
        for mut survey in surveys {
            found.survey.free.append(&mut survey.free);
            found.survey.dying.append(&mut survey.dying);
            found.survey.cut.append(&mut survey.cut);
            let halves = found.survey.halves.as_flattened_mut().iter_mut();
            halves.zip(survey.halves.as_flattened()).for_each(|(sum, part)| *sum += part);
            found.others.push(survey.leaves);
        }
        found
    }

    /// The lower bounds of the first leaves that there are not yet: those of halves without a leaf.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if a half has leaves, but no first one.
    fn missing(&self) -> Result<Vec<u64>> {
        let is_headless = |[leaves, firsts]: &[u64; 2]| *leaves > 0 && *firsts == 0;
        if self.survey.halves.iter().any(is_headless) {
            let what = "the first leaf does not begin with the least key";
            return Err(IndexError::Corrupt { offset: 0, what });
        }
        let firsts = if K::RECORDS { &FIRSTS[..1] } else { &FIRSTS };
        let halves = firsts.iter().copied().zip(&self.survey.halves);
        Ok(halves.filter(|(_, [leaves, _])| *leaves == 0).map(|(first, _)| first).collect())
    }

    /// All live leaves, as they were found.
    fn leaves(mut self) -> Vec<Partition<K>> {
        self.others.push(self.survey.leaves);
        self.others
    }
}
