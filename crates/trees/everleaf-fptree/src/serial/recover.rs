//! Opening: the micro-log first, then one pass over the heads of all leaves, from which the inner
//! nodes are built.
//!
//! | crash state | found as | action |
//! |---|---|---|
//! | before the log of a split is valid, or after it is retired | `current` null | nothing |
//! | split, S1 to S2 | left full, new empty | forget it: copied pointers (records of keys) become null, the log is retired |
//! | split, within S3 | left full, new as logged; or left as logged, new empty | both bitmaps as logged, then as the next |
//! | split, S3 to S5 | both as logged | moved pointers (records of keys) become null, the log is retired |
//! | update, W1 to W2 (records of keys) | a dead slot's pointer that a live slot has | it becomes null |
//! | insertion P1, removal P1 (records of keys) | a dead slot's pointer that no live slot has | its record is freed |
//! | removal P2, split S0 (byte-string keys) | a free leaf's bound | its record is freed |
//! | removal of the last keys of the leftmost leaf | the least bound of a live leaf is not the minimum | it becomes the minimum |
//!
//! Every action may be cut by a crash and is then done again by the next recovery. Where entries
//! have one record no key word is a pointer, and a dead slot means nothing.

use std::sync::Arc;

use everleaf_index::{IndexError, InnerFrom, NoImage, Result};
use everleaf_pmem::{Media, PPtr, planted, site, unless_planted};
use everleaf_pool::{Pool, Run, Shutdown, Worker};

use super::{FpTree, groups};
use crate::layout::{LEAVES, LeafHead, Shape, SlotSet, SplitLog};
use crate::leaf::Leaf;
use crate::recover::{lower_to_minimum, remove_stray};
use crate::survey::{Pass, Survey, threads_for};
use everleaf_tree::Opening;
use everleaf_tree::groups::{Group, Groups, leaves_of};
use everleaf_tree::image::{self, NO_LEAF};
use everleaf_tree::inner_nodes::{Building, InnerNodes};
use everleaf_tree::key::TreeKey;
use everleaf_tree::opening::build::{self, NodeBuild};
use everleaf_tree::opening::sample_sort::PartitionedLeaves;
use everleaf_tree::opening::sample_sort::Splitters;
use everleaf_tree::parallel::in_two_stages;
use everleaf_tree::parameters::Parameters;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Opens what the pool holds; an empty tree if it is fresh. After a clean shutdown the slots of
    /// byte-string keys need no look, and no leaf where an image of the inner nodes is taken.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or a fresh pool has no
    /// buffer for one group of leaves.
    pub fn open(
        pool: &Arc<Pool<M>>,
        shape: S,
        parameters: Parameters,
        opening: Opening,
    ) -> Result<Self> {
        let mut worker = pool.worker()?;
        let runs = pool.runs(LEAVES)?;
        recover_split::<K, M, S>(pool, &runs, shape)?;
        let (found, inner_from) = match in_image(pool, &runs, shape, parameters, &opening)? {
            Ok(found) => (found, InnerFrom::Image),
            Err(why) => {
                let found = in_leaves(pool, &mut worker, &runs, shape, parameters, opening)?;
                (found, InnerFrom::Leaves(why))
            }
        };
        let (pool, Found { inner, groups, leftmost, keys }) = (Arc::clone(pool), found);
        Ok(Self { pool, worker, inner, groups, shape, parameters, leftmost, keys, inner_from })
    }
}

/// What the pool holds of a tree.
struct Found<K: TreeKey> {
    inner: InnerNodes<K>,
    groups: Groups,
    leftmost: u64,
    keys: u64,
}

/// By the image that the close before has stored; or why that is not taken.
fn in_image<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    runs: &[Run],
    shape: S,
    parameters: Parameters,
    opening: &Opening,
) -> Result<Result<Found<K>, NoImage>> {
    let image = match image::read::<K, M>(pool, (opening.shutdown, opening.seal), parameters, 1) {
        Ok(image) => image,
        Err(why) => return Ok(Err(why)),
    };
    let (leaf_bytes, group_bytes) = (shape.leaf_bytes(), parameters.group_bytes);
    let around = Groups::around(LEAVES, runs, image.leaves(), leaf_bytes, group_bytes);
    let Some(groups) = around else {
        return Ok(Err(NoImage::Damaged(NO_LEAF)));
    };
    let (inner, leftmost) = build::from_image(pool, &image, parameters.inner_keys)?;
    Ok(Ok(Found { inner, groups, leftmost, keys: image.keys }))
}

/// By the heads of all leaves.
fn in_leaves<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    runs: &[Run],
    shape: S,
    Parameters { inner_keys, group_bytes, .. }: Parameters,
    Opening { shutdown, threads, .. }: Opening,
) -> Result<Found<K>> {
    let pass = pass(pool, runs, shape, K::RECORDS && shutdown == Shutdown::Crash, threads);
    let splitters = pass.splitters::<K>(|places| sample_leaves(runs, shape, places));
    let nodes = Building::begin(inner_keys, pool.media().dram())?;
    let between = |parts| {
        let Survey { leaves, mut free, strays, keys } = Survey::<K>::of_all(parts)?;
        for stray in &strays {
            remove_stray::<K, M, S>(pool, worker, shape, stray)?;
        }
        let used = |run: &Run| {
            let before = |offset| free.partition_point(|leaf| *leaf < offset);
            run.bytes / shape.leaf_bytes()
                - (before(run.offset + run.bytes) - before(run.offset)) as u64
        };
        let groups = runs.iter().map(|run| Group { run: *run, used: used(run) }).collect();
        free.reverse(); // The stack gives the lowest first.
        let mut groups = Groups::new(LEAVES, groups, free, shape.leaf_bytes(), group_bytes);
        let leaves = PartitionedLeaves::of(leaves, splitters.buckets(), inner_keys);
        let leftmost = match leaves.leftmost(pool) {
            Some(leftmost) => leftmost,
            None => groups::take::<K, M, S>(&mut groups, worker, shape)?,
        };
        Ok::<_, IndexError>((NodeBuild::begin(&nodes, leaves, leftmost)?, leftmost, groups, keys))
    };
    let ((_, leftmost, groups, keys), built) = in_two_stages(
        pass.threads,
        || look(&pass, &splitters, &nodes),
        between,
        |(build, ..)| build.work(pool),
    )?;
    let inner = build::end(nodes, built)?;
    let first = Leaf::at(pool.media().region(), leftmost, shape)?;
    lower_to_minimum::<K, M, S>(pool, worker, first)?;
    Ok(Found { inner, groups, leftmost, keys })
}

/// The leaf that a logged pointer leads to: it must be one of a run's.
fn logged_leaf<'p, M: Media, S: Shape>(
    pool: &'p Pool<M>,
    runs: &[Run],
    shape: S,
    pointer: PPtr<LeafHead>,
) -> Result<Leaf<'p, S>> {
    let offset = pointer.offset();
    let inside =
        |run: &&Run| offset >= run.offset && offset - run.offset + shape.leaf_bytes() <= run.bytes;
    match runs.iter().find(inside) {
        Some(run) if (offset - run.offset).is_multiple_of(shape.leaf_bytes()) => {
            Leaf::at(pool.media().region(), offset, shape)
        }
        _ => Err(IndexError::Corrupt { offset, what: "the micro-log of a split leads to no leaf" }),
    }
}

/// Ends or forgets the split that a crash cut.
fn recover_split<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    runs: &[Run],
    shape: S,
) -> Result<()> {
    let media = pool.media();
    let log = pool.index_root::<SplitLog>()?;
    let current = media.load(&log.current);
    if current.is_null() {
        return Ok(());
    }
    let left = logged_leaf(pool, runs, shape, current)?;
    let new = logged_leaf(pool, runs, shape, media.load(&log.new))?;
    let (left_bitmap, new_bitmap) = (media.load(&log.left_bitmap), media.load(&log.new_bitmap));
    let all = shape.all();
    let sound =
        |bitmap: SlotSet| !bitmap.is_empty() && bitmap != all && bitmap.minus(all).is_empty();
    if !sound(left_bitmap) || !sound(new_bitmap) || current == media.load(&log.new) {
        return Err(IndexError::Corrupt {
            offset: current.offset(),
            what: "the micro-log of a split is impossible",
        });
    }
    match (left.live(media), new.live(media)) {
        // S1 to S2: nothing was committed.
        (live, SlotSet::EMPTY) if live == all => {
            if shape.owns_keys::<K>() {
                // R1: copied pointers become null; left has them. Crash: the log is still valid.
                for slot in all.filter(|_| !planted(210)) {
                    media.store(new.key(slot), 0);
                }
                new.flush_keys(media, site!("fptree.recover.R1.forget"), all);
                media.fence(site!("fptree.recover.R1.fence"));
            }
        }
        // S3 to S5: committed, perhaps not wholly durable.
        (live, added)
            if (live == all || live == left_bitmap)
                && (added.is_empty() || added == new_bitmap) =>
        {
            // R2: both bitmaps. Crash: the log is still valid, and one of them tells that the split
            // was committed.
            media.store(new.bitmap(), new_bitmap);
            media.flush(site!("fptree.recover.R2.new"), new.bitmap());
            unless_planted!(208, media.store(left.bitmap(), left_bitmap));
            media.flush(site!("fptree.recover.R2.left"), left.bitmap());
            if !shape.owns_keys::<K>() {
                // Records: R3 fences before the log is retired.
                media.fence(site!("fptree.recover.R2.fence"));
            } else {
                // R3: dead slots forget what the new leaf has. Crash: the log is still valid, and
                // one of the bitmaps tells that the split was committed. Not every dead slot's
                // pointer: one may be a cut insertion's.
                let held = |word: u64| {
                    new_bitmap.into_iter().any(|slot| media.load(new.key(slot)) == word)
                };
                for slot in all.minus(left_bitmap) {
                    if held(media.load(left.key(slot))) {
                        media.store(left.key(slot), 0);
                    }
                }
                left.flush_keys(media, site!("fptree.recover.R3.forget"), all.minus(left_bitmap));
                media.fence(site!("fptree.recover.R3.fence"));
            }
        }
        _ => {
            return Err(IndexError::Corrupt {
                offset: current.offset(),
                what: "a split that was cut left impossible bitmaps",
            });
        }
    }
    // R4: the log is retired. Crash: it is gone, or all of the above is done again.
    unless_planted!(209, media.store(&log.current, PPtr::NULL));
    media.flush(site!("fptree.recover.R4.log"), &log.current);
    media.fence(site!("fptree.recover.R4.fence"));
    Ok(())
}

/// Two neighbours at each of so many places at equal distances.
fn sample_leaves<S: Shape>(runs: &[Run], shape: S, places: usize) -> Vec<u64> {
    let all: u64 = runs.iter().map(|run| run.bytes / shape.leaf_bytes()).sum();
    let step = all.div_ceil(places.max(1) as u64).max(1);
    let (mut some, mut next) = (Vec::new(), 0);
    for run in runs {
        let leaves = run.bytes / shape.leaf_bytes();
        while next < leaves {
            some.extend(
                (next..leaves.min(next + 2)).map(|leaf| run.offset + leaf * shape.leaf_bytes()),
            );
            next += step;
        }
        next -= leaves;
    }
    some
}

/// The pass over the heads of all leaves, which are in the runs of groups.
fn pass<'p, M: Media, S: Shape>(
    pool: &'p Pool<M>,
    runs: &[Run],
    shape: S,
    strays: bool,
    threads: Option<usize>,
) -> Pass<'p, M, S, Run> {
    let leaves: u64 = runs.iter().map(|run| run.bytes / shape.leaf_bytes()).sum();
    Pass::new(
        pool,
        shape,
        strays,
        threads.unwrap_or_else(|| threads_for(leaves)),
        runs.to_vec(),
        leaves as usize,
    )
}

/// What each thread does in it.
fn look<K: TreeKey, M: Media, S: Shape>(
    pass: &Pass<'_, M, S, Run>,
    splitters: &Splitters<K>,
    nodes: &Building<K>,
) -> Result<Survey<K>> {
    let leaf_bytes = pass.shape.leaf_bytes();
    let leaves = |run: &Run| leaves_of(*run, leaf_bytes);
    pass.look(splitters, nodes, |run, surveyor| {
        // The run is one of nodes; its length is the pool's word.
        pass.pool.node(PPtr::<LeafHead>::at(run.offset))?;
        leaves(run).try_for_each(|leaf| surveyor.visit(leaf))
    })
}

#[cfg(test)]
mod tests {
    use everleaf_index::{Index, U64Keys};
    use everleaf_pool::Shutdown;

    use super::*;
    use crate::layout::Flexible;
    use crate::survey::assert_balanced;
    use crate::tests::{TINY, Tested};
    use crate::{Variant, open_with};
    use everleaf_conformance::dram_pool;

    fn shape() -> Flexible<true> {
        Flexible::of(TINY.leaf_slots as usize, TINY.value_words as usize, false).unwrap()
    }

    #[test]
    fn leaves_are_sampled_at_equal_distances_in_all_runs() {
        let leaf = shape().leaf_bytes();
        let lengths = [1, 0, 3, 100, 2, 1000];
        let runs: Vec<_> = lengths
            .iter()
            .enumerate()
            .map(|(i, leaves)| Run { offset: (i as u64 + 1) << 30, bytes: leaves * leaf + 1 })
            .collect();
        let all: Vec<u64> = runs.iter().flat_map(|run| leaves_of(*run, leaf)).collect();
        for places in [1, 2, 7, 64, 553, 100_000] {
            let step = all.len().div_ceil(places);
            let some = sample_leaves(&runs, shape(), places);
            let found: Vec<_> =
                some.iter().map(|offset| all.binary_search(offset).unwrap()).collect();
            assert!(
                found.first() == Some(&0) && found.is_sorted() && found.len() <= 2 * places,
                "{places}: {found:?}"
            );
            assert!(found.windows(2).all(|pair| pair[1] - pair[0] <= step), "{places}: {found:?}");
            assert!(
                found.last().is_some_and(|last| last + step >= all.len()),
                "{places}: {found:?}"
            );
        }
        assert_eq!(sample_leaves(&[], shape(), 64), [0_u64; 0]);
    }

    #[test]
    fn buckets_are_balanced_though_half_of_the_leaves_are_free() {
        let pool = dram_pool::<U64Keys>(Tested(Variant::FpTree, TINY), 8 << 20);
        let tree: Box<dyn Index<U64Keys>> =
            open_with(&pool, Variant::FpTree, Shutdown::Clean.into()).unwrap();
        let keys = || (0..8000_u64).map(|i| i * 4801 % 8000);
        keys().for_each(|key| assert!(tree.insert(key, 1).unwrap()));
        keys()
            .filter(|key| key / 16 % 2 == 0)
            .for_each(|key| assert!(tree.remove(key).unwrap().is_some()));
        drop(tree);
        let runs = pool.runs(LEAVES).unwrap();
        let pass = pass(&pool, &runs, shape(), false, Some(1));
        let splitters = pass.splitters::<U64Keys>(|places| sample_leaves(&runs, shape(), places));
        let nodes = Building::begin(TINY.inner_keys, pool.media().dram()).unwrap();
        assert_balanced(&splitters, look(&pass, &splitters, &nodes).unwrap());
    }
}
