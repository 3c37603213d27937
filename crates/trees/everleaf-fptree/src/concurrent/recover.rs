//! Opening: the micro-logs first, then one pass over the heads of all leaves, from which the inner
//! nodes are built. The pool has settled its own intents before: what a log's word points to is
//! allocated.
//!
//! | crash state | found as | action |
//! |---|---|---|
//! | split, C0 to C2 | `new`, and `current` null or a full leaf | `bound` and `new` are freed, the log is retired |
//! | split, C3 to C5 | `new`, and `current` a leaf that is not full | moved pointers (records of keys) become null, the log is retired |
//! | split, within C5; or within the first action | `current` without `new` | the log is retired |
//! | first leaf, F1 | `new`, `current` null | as for a split |
//! | leaf that was emptied, D2 | `removed` | what its slots (records of keys) and its bound point to, then it, are freed |
//! | leaf that was emptied, P1 to D1; first leaf, F2 | a leaf without keys | as above |
//! | update, W1 to W2 (records of keys) | a dead slot's pointer that a live slot has | it becomes null |
//! | insertion P1, removal P1 (records of keys) | a dead slot's pointer that no live slot has | its record is freed |
//! | the leftmost leaf was empty | the least bound of a live leaf is not the minimum | it becomes the minimum |
//!
//! Every action may be cut by a crash and is then done again by the next recovery. Where entries
//! have one record no key word is a pointer, and a dead slot means nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use everleaf_index::{Concurrency, IndexError, InnerFrom, NoImage, Result};
use everleaf_pmem::{Media, PPtr, TransactionalMemory, planted, site};
use everleaf_pool::{Pool, PoolError, Shutdown, TablePart, Worker, Workers};

use super::remove::free_leaf;
use super::{ConcurrentFpTree, LOCKS, WORKERS, log_of};
use crate::layout::{LEAVES, LeafHead, Shape, SlotSet, WorkerLog, WorkerLogs};
use crate::leaf::Leaf;
use crate::recover::{lower_to_minimum, remove_stray};
use crate::survey::{Pass, Survey, places_for, threads_for};
use everleaf_tree::Opening;
use everleaf_tree::image::{self, NO_LEAF};
use everleaf_tree::inner_nodes::{Building, InnerNodes};
use everleaf_tree::key::TreeKey;
use everleaf_tree::opening::build::{self, NodeBuild};
use everleaf_tree::opening::sample_sort::PartitionedLeaves;
use everleaf_tree::opening::sample_sort::Splitters;
use everleaf_tree::operations::Restarts;
use everleaf_tree::parallel::in_two_stages;
use everleaf_tree::parameters::Parameters;
use everleaf_tree::scan_orders::ScanOrders;
use everleaf_tree::shared_nodes::SharedNodes;
use everleaf_tree::version_locks::VersionLocks;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Opens what the pool holds; an empty tree if it is fresh. After a clean shutdown the slots of
    /// byte-string keys need no look, and no leaf where an image of the inner nodes is taken.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or a fresh pool has no
    /// buffer for a leaf.
    pub fn open(
        pool: &Arc<Pool<M>>,
        shape: S,
        parameters: Parameters,
        opening: Opening,
    ) -> Result<Self> {
        let workers = Workers::new(Arc::clone(pool), WORKERS);
        let mut worker = workers.lease()?;
        recover_logs::<K, M, S>(pool, &mut worker, shape)?;
        let (found, inner_from) = match in_image(pool, parameters, &opening)? {
            Ok(found) => (found, InnerFrom::Image),
            Err(why) => {
                let found = in_leaves(pool, &mut worker, shape, parameters, opening)?;
                (found, InnerFrom::Leaves(why))
            }
        };
        drop(worker);
        let Found { inner, leftmost, leaves, keys } = found;
        let transactions = TransactionalMemory::new(opening.transactions, pool.media().rtm());
        let transactional = transactions.is_on();
        let concurrency = match (transactional, transactions.is_simulated()) {
            (false, _) => Concurrency::VersionLocks,
            (true, false) => Concurrency::Rtm,
            (true, true) => Concurrency::SimulatedRtm,
        };
        Ok(Self {
            pool: Arc::clone(pool),
            workers,
            inner: SharedNodes::new(inner, transactions),
            locks: VersionLocks::new(LOCKS).map_err(PoolError::Map)?,
            orders: ScanOrders::new(shape.leaf_bytes(), pool.media().region().max_len()),
            shape,
            parameters,
            transactional,
            concurrency,
            leftmost,
            keys_found: keys,
            inner_from,
            leaves: AtomicU64::new(leaves.max(1) as u64),
            restarts: Restarts::default(),
        })
    }
}

/// What the pool holds of a tree.
struct Found<K: TreeKey> {
    inner: InnerNodes<K>,
    leftmost: u64,
    leaves: usize,
    keys: u64,
}

/// By the image that the close before has stored; or why that is not taken.
fn in_image<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    parameters: Parameters,
    opening: &Opening,
) -> Result<Result<Found<K>, NoImage>> {
    let image = match image::read::<K, M>(pool, (opening.shutdown, opening.seal), parameters, 1) {
        Ok(image) => image,
        Err(why) => return Ok(Err(why)),
    };
    if !image.leads_to::<LeafHead>(pool) {
        return Ok(Err(NoImage::Damaged(NO_LEAF)));
    }
    let (inner, leftmost) = build::from_image(pool, &image, parameters.inner_keys)?;
    Ok(Ok(Found { inner, leftmost, leaves: image.leaves().len(), keys: image.keys }))
}

/// By the heads of all leaves.
fn in_leaves<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    shape: S,
    Parameters { inner_keys, .. }: Parameters,
    Opening { shutdown, threads, .. }: Opening,
) -> Result<Found<K>> {
    let pass = pass(pool, shape, K::RECORDS && shutdown == Shutdown::Crash, threads);
    let splitters = pass.splitters::<K>(|places| pool.sample_nodes(LEAVES, places));
    let nodes = Building::begin(inner_keys, pool.media().dram())?;
    let between = |parts| {
        let survey = Survey::<K>::of_all(parts)?;
        for stray in &survey.strays {
            remove_stray::<K, M, S>(pool, worker, shape, stray)?;
        }
        for offset in &survey.free {
            let leaf = Leaf::at(pool.media().region(), *offset, shape)?;
            free_leaf::<K, M, S>(worker, leaf, *offset)?;
        }
        let leaves = PartitionedLeaves::of(survey.leaves, splitters.buckets(), inner_keys);
        let leftmost = match leaves.leftmost(pool) {
            Some(leftmost) => leftmost,
            None => first_leaf::<K, M, S>(worker, shape)?,
        };
        let (keys, count) = (survey.keys, leaves.len());
        Ok::<_, IndexError>((NodeBuild::begin(&nodes, leaves, leftmost)?, leftmost, count, keys))
    };
    let ((_, leftmost, leaves, keys), built) = in_two_stages(
        pass.threads,
        || look(&pass, &splitters, &nodes),
        between,
        |(build, ..)| build.work(pool),
    )?;
    let inner = build::end(nodes, built)?;
    let first = Leaf::at(pool.media().region(), leftmost, shape)?;
    lower_to_minimum::<K, M, S>(pool, worker, first)?;
    Ok(Found { inner, leftmost, leaves, keys })
}

/// Ends what the workers' logs speak of.
fn recover_logs<K: TreeKey, M: Media, S: Shape>(
    pool: &Arc<Pool<M>>,
    worker: &mut Worker<M>,
    shape: S,
) -> Result<()> {
    let media = pool.media();
    for log in &pool.index_root::<WorkerLogs>()?.logs {
        let (current, new, removed) =
            (media.load(&log.current), media.load(&log.new), media.load(&log.removed));
        if !new.is_null() {
            let committed = match current.is_null() {
                true => None,
                false => Some(leaf_of(pool, current, shape)?)
                    .filter(|left| left.live(media) != shape.all() || planted(220)),
            };
            match committed {
                Some(left) => {
                    forget_moved::<K, M, S>(media, left, leaf_of(pool, new, shape)?, shape)
                }
                None => {
                    worker.free_from(&log.bound)?;
                    worker.free_from(&log.new)?;
                }
            }
        }
        if !new.is_null() || !current.is_null() {
            // R8: the log is retired, in the order of C5. Crash: it is gone, or some of the above
            // is done again.
            retire(media, log);
        }
        if !removed.is_null() {
            end_removed_leaf::<K, M, S>(pool, worker, shape, log, removed)?;
        }
    }
    Ok(())
}

fn retire<M: Media>(media: &M, log: &WorkerLog) {
    media.store(&log.bound, PPtr::NULL);
    media.store(&log.new, PPtr::NULL);
    media.order(site!("fptree.recover.R8.order"));
    media.store(&log.current, PPtr::NULL);
    media.flush(site!("fptree.recover.R8.log"), &log.current);
    media.fence(site!("fptree.recover.R8.fence"));
}

/// The leaf that a logged pointer leads to.
fn leaf_of<M: Media, S: Shape>(
    pool: &Pool<M>,
    pointer: PPtr<LeafHead>,
    shape: S,
) -> Result<Leaf<'_, S>> {
    pool.node(pointer)?;
    let leaf = Leaf::at(pool.media().region(), pointer.offset(), shape)?;
    if leaf.live(pool.media()).minus(shape.all()).is_empty() {
        return Ok(leaf);
    }
    Err(IndexError::Corrupt {
        offset: pointer.offset(),
        what: "a bitmap has bits beyond the slots of its leaf",
    })
}

/// Dead slots of the old leaf forget what the new leaf has. Not every dead slot's pointer: one may
/// be a cut insertion's.
fn forget_moved<K: TreeKey, M: Media, S: Shape>(
    media: &M,
    left: Leaf<'_, S>,
    new: Leaf<'_, S>,
    shape: S,
) {
    if !shape.owns_keys::<K>() {
        return;
    }
    // R7: as C4. Crash: the log is still valid.
    let moved = new.live(media);
    let held = |word: u64| moved.into_iter().any(|slot| media.load(new.key(slot)) == word);
    let forgotten =
        shape.all().minus(left.live(media)).filter(|slot| held(media.load(left.key(*slot))));
    let forgotten = forgotten.fold(SlotSet::EMPTY, SlotSet::with);
    if forgotten.is_empty() {
        return;
    }
    for slot in forgotten {
        media.store(left.key(slot), 0);
    }
    left.flush_keys(media, site!("fptree.recover.R7.forget"), forgotten);
    media.fence(site!("fptree.recover.R7.fence"));
}

/// Frees a leaf that was being freed.
fn end_removed_leaf<K: TreeKey, M: Media, S: Shape>(
    pool: &Arc<Pool<M>>,
    worker: &mut Worker<M>,
    shape: S,
    log: &WorkerLog,
    removed: PPtr<LeafHead>,
) -> Result<()> {
    let leaf = leaf_of(pool, removed, shape)?;
    if !leaf.live(pool.media()).is_empty() {
        return Err(IndexError::Corrupt {
            offset: removed.offset(),
            what: "a leaf with keys was to be freed",
        });
    }
    if shape.owns_keys::<K>() {
        for slot in shape.all() {
            K::discard(worker, leaf.key(slot))?;
        }
    }
    K::discard(worker, &leaf.head.lower_bound)?;
    Ok(worker.free_from(&log.removed)?)
}

/// The pass over the heads of all leaves, which any chunk of the pool may hold.
fn pass<M: Media, S: Shape>(
    pool: &Pool<M>,
    shape: S,
    strays: bool,
    threads: Option<usize>,
) -> Pass<'_, M, S, TablePart> {
    let buffer = pool.media().region().len() / shape.leaf_bytes();
    let threads = threads.unwrap_or_else(|| threads_for(buffer));
    Pass::new(pool, shape, strays, threads, pool.table_parts(places_for(threads)), buffer as usize)
}

/// What each thread does in it.
fn look<K: TreeKey, M: Media, S: Shape>(
    pass: &Pass<'_, M, S, TablePart>,
    splitters: &Splitters<K>,
    nodes: &Building<K>,
) -> Result<Survey<K>> {
    pass.look(splitters, nodes, |part, surveyor| {
        let mut visited = Ok(());
        pass.pool.for_each_node_in(LEAVES, part, |leaf| {
            if visited.is_ok() {
                visited = surveyor.visit(leaf);
            }
        })?;
        visited
    })
}

/// Makes the first leaf of an empty tree.
fn first_leaf<K: TreeKey, M: Media, S: Shape>(worker: &mut Worker<M>, shape: S) -> Result<u64> {
    let pool = Arc::clone(worker.pool());
    let media = pool.media();
    let log = log_of(&pool, worker.slot())?;
    // F1: an empty leaf. Crash: `new` without `current` is freed.
    worker.alloc_sized_node_into(&log.new, shape.leaf_bytes())?;
    let offset = media.load(&log.new).offset();
    let leaf = Leaf::at(media.region(), offset, shape)?;
    media.store(leaf.bitmap(), SlotSet::EMPTY);
    media.store(&leaf.head.lower_bound, 0);
    let site = site!("fptree.first.F1.leaf");
    media.flush(site, leaf.bitmap());
    media.flush(site, &leaf.head.lower_bound);
    if shape.owns_keys::<K>() {
        for slot in shape.all() {
            media.store(leaf.key(slot), 0);
        }
        leaf.flush_keys(media, site, shape.all());
    }
    media.fence(site!("fptree.first.F1.fence"));
    // F2 COMMIT: the log lets go of it. Crash: a leaf without keys, which is freed.
    media.store(&log.new, PPtr::NULL);
    media.flush(site!("fptree.first.F2.log"), &log.new);
    media.fence(site!("fptree.first.F2.fence"));
    Ok(offset)
}

#[cfg(test)]
mod tests {
    use everleaf_index::{Index, U64Keys};

    use super::*;
    use crate::concurrent::tests::{parameters, pool, tree};
    use crate::layout::Flexible;
    use crate::survey::assert_balanced;

    #[test]
    fn buckets_are_balanced_in_whatever_order_keys_came() {
        let parameters = parameters(4, 4, 1);
        let shape = Flexible::<true>::of(4, 1, false).unwrap();
        for step in [1, 4801] {
            let pool = pool::<U64Keys>(parameters, 8 << 20);
            let tree = tree::<U64Keys>(&pool, parameters, None);
            (0..8000_u64).for_each(|i| assert!(Index::insert(&tree, i * step % 8000, i).unwrap()));
            drop(tree);
            let pass = super::pass(&pool, shape, false, Some(1));
            let splitters = pass.splitters::<U64Keys>(|places| pool.sample_nodes(LEAVES, places));
            let nodes = Building::begin(4, pool.media().dram()).unwrap();
            assert_balanced(&splitters, look(&pass, &splitters, &nodes).unwrap());
        }
    }
}
