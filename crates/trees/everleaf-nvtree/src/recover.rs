//! Opening: the list of leaves is followed, every other leaf is free, and the inner nodes are built
//! from the lower bounds.
//!
//! | crash state | found as | action |
//! |---|---|---|
//! | creation, before its end | no first leaf | an empty leaf becomes it |
//! | append, before P2 is durable; u64 keys | an element behind the count | none: it is overwritten |
//! | the same; a new record | a key word behind the count, no other is equal | the record is freed |
//! | the same; a known record | a key word behind the count, equal to another | it becomes null |
//! | S1, L1; before S2, L2 are durable | leaves outside the list; u64 keys | none: they are free |
//! | the same; byte-string keys | pointers outside the list | as the next two |
//! | S2 to S4, U1 and behind; byte-string keys | the list has the record too | it becomes null |
//! | the same | the list has not | one pointer to each stays, and the record is freed with it |
//!
//! Every action may be cut by a crash and is then done again by the next recovery. u64 keys:
//! nothing is written but at creation.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf_index::{IndexError, InnerFrom, NoImage, Result};
use everleaf_pmem::{Media, PCell, PPtr, planted, site};
use everleaf_pool::{Pool, Run, Shutdown, Worker};

use super::inner::Inner;
use super::layout::{Fill, LEAVES, ListHead, Shape};
use super::leaf::Leaf;
use super::{NvTree, groups};
use everleaf_tree::Opening;
use everleaf_tree::fresh::require_fresh;
use everleaf_tree::groups::{Group, Groups, leaves_of};
use everleaf_tree::image::{self, Image, NO_LEAF};
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::Parameters;

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// Opens what the pool holds; an empty tree if it is fresh.
    ///
    /// # Errors
    /// As [`Leaves::find`].
    pub(super) fn open(
        pool: &Arc<Pool<M>>,
        shape: Shape,
        parameters: Parameters,
        opening: Opening,
    ) -> Result<Self> {
        let (mut worker, dram) = (pool.worker()?, pool.media().dram());
        let fanout = parameters.inner_keys as usize;
        let (inner, groups, keys, inner_from) =
            match Leaves::in_image::<K, M>(pool, &opening, shape, parameters)? {
                Ok((image, groups)) => {
                    let inner = match K::RECORDS {
                        true => Inner::build(fanout, dram, owned(&image).into_iter().map(Ok))?,
                        false => Inner::build_known(fanout, dram, image.of_numbers())?,
                    };
                    (inner, groups, image.keys, InnerFrom::Image)
                }
                Err(why) => {
                    let Opening { shutdown, .. } = opening;
                    let found =
                        Leaves::find::<K, M>(pool, &mut worker, shape, parameters, shutdown)?;
                    let inner = Inner::build(fanout, dram, found.bounds::<K, M>(pool, shape))?;
                    (inner, found.groups, found.keys, InnerFrom::Leaves(why))
                }
            };
        let pool = Arc::clone(pool);
        Ok(Self { pool, worker, inner, groups, shape, parameters, keys, inner_from })
    }
}

/// The lower bounds and the leaves of an image.
fn owned<K: TreeKey, M: Media>(image: &Image<'_, K, M>) -> Vec<(K::Owned, u64)> {
    let (mut owned, mut parts) = (Vec::with_capacity(image.leaves().len()), image.parts());
    while let Some(part) = parts.next() {
        owned.extend(part.entries::<K>().map(|(bound, leaf)| (K::to_owned(bound), leaf)));
    }
    owned
}

/// An image, and the memory of the leaves that it names.
type InImage<'p, K, M> = (Image<'p, K, M>, Groups);

/// What the pool holds of a tree.
pub(super) struct Leaves {
    /// Those of the list, in its order.
    list: Vec<u64>,
    pub groups: Groups,
    pub keys: u64,
}

impl Leaves {
    /// The image that the close before has stored, and the memory of leaves by it; or why it is not
    /// taken.
    ///
    /// # Errors
    /// [`IndexError::Pool`] if the table of chunks is damaged.
    pub fn in_image<'p, K: TreeKey, M: Media>(
        pool: &'p Pool<M>,
        opening: &Opening,
        shape: Shape,
        parameters: Parameters,
    ) -> Result<Result<InImage<'p, K, M>, NoImage>> {
        let image = match image::read::<K, M>(pool, (opening.shutdown, opening.seal), parameters, 1)
        {
            Ok(image) => image,
            Err(why) => return Ok(Err(why)),
        };
        let (runs, leaf_bytes) = (pool.runs(LEAVES)?, shape.leaf_bytes());
        let group_bytes = group_bytes(shape, parameters);
        let groups = Groups::around(LEAVES, &runs, image.leaves(), leaf_bytes, group_bytes);
        Ok(groups.map(|groups| (image, groups)).ok_or(NoImage::Damaged(NO_LEAF)))
    }

    /// Ends what a crash cut, and makes the first leaf of a fresh pool. After a clean shutdown no
    /// pointer needs a look.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or a fresh pool has no
    /// room for one group of leaves.
    pub fn find<K: TreeKey, M: Media>(
        pool: &Pool<M>,
        worker: &mut Worker<M>,
        shape: Shape,
        parameters: Parameters,
        shutdown: Shutdown,
    ) -> Result<Self> {
        let runs = pool.runs(LEAVES)?;
        let mut list = List::follow(pool, &runs, shape)?;
        if list.leaves.is_empty() {
            require_fresh(pool)?;
        }
        let free = list.others();
        if K::RECORDS && shutdown == Shutdown::Crash {
            clean::<K, M>(pool, worker, shape, &list.leaves, &free)?;
        }
        let leaf_bytes = shape.leaf_bytes();
        let groups = runs.iter().map(|run| Group { run: *run, used: list.used_in(*run) }).collect();
        let mut groups =
            Groups::new(LEAVES, groups, free, leaf_bytes, group_bytes(shape, parameters));
        if list.leaves.is_empty() {
            let [offset, _] = groups::take::<K, M>(&mut groups, worker, shape, 1, true)?;
            make_first(pool, Leaf::at(pool.media().region(), offset, shape)?)?;
            list.leaves.push(offset);
        }
        Ok(Self { list: list.leaves, groups, keys: list.keys })
    }

    /// The lower bounds of the leaves, and the leaves.
    pub fn bounds<K: TreeKey, M: Media>(
        &self,
        pool: &Pool<M>,
        shape: Shape,
    ) -> impl Iterator<Item = Result<(K::Owned, u64)>> {
        bounds_of::<K, M>(&self.list, pool, shape)
    }
}

/// The same of a list of leaves.
fn bounds_of<K: TreeKey, M: Media>(
    list: &[u64],
    pool: &Pool<M>,
    shape: Shape,
) -> impl Iterator<Item = Result<(K::Owned, u64)>> {
    list.iter().map(move |offset| {
        let leaf = Leaf::at(pool.media().region(), *offset, shape)?;
        let word = pool.media().load(&leaf.head.lower_bound);
        if list.first() == Some(offset) && word != 0 {
            return Err(leaf.damaged("the first leaf does not begin with the least key"));
        }
        Ok((K::to_owned(K::read_bound(&pool.pin(), word)?), *offset))
    })
}

/// How long all inner nodes take to be built from the leaves, and after that from their parents.
pub fn rebuild_times<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    (parameters, shape): (Parameters, Shape),
) -> Result<[Duration; 2]> {
    let (fanout, runs, dram) = (parameters.inner_keys, pool.runs(LEAVES)?, pool.media().dram());
    let start = Instant::now();
    let list = List::follow(pool, &runs, shape)?.leaves;
    let bounds = bounds_of::<K, M>(&list, pool, shape);
    let mut inner = Inner::<K>::build(fanout as usize, dram, bounds)?;
    let (from_leaves, start) = (start.elapsed(), Instant::now());
    inner.rebuild()?;
    Ok([from_leaves, start.elapsed()])
}

/// Bytes of a group: one of two leaves stays free.
fn group_bytes(shape: Shape, parameters: Parameters) -> u64 {
    parameters.group_bytes.max(2 * shape.leaf_bytes())
}

/// Makes an empty leaf the first one of a fresh pool.
fn make_first<M: Media>(pool: &Pool<M>, leaf: Leaf<'_>) -> Result<()> {
    let media = pool.media();
    let anchor = pool.index_root::<ListHead>()?;
    // R1: the leaf. Crash: nothing leads to it.
    media.store(&leaf.head.fill, Fill::EMPTY);
    media.store(&leaf.head.next, PPtr::NULL);
    media.store(&leaf.head.lower_bound, 0);
    media.flush(site!("nvtree.recover.R1.head"), &leaf.head.fill);
    media.fence(site!("nvtree.recover.R1.fence"));
    // R2 COMMIT: it is the first. Crash: it is, or another becomes it.
    media.store(&anchor.first, PPtr::at(leaf.offset()));
    media.flush(site!("nvtree.recover.R2.first"), &anchor.first);
    media.fence(site!("nvtree.recover.R2.fence"));
    Ok(())
}

/// The leaves of the list, in their order, and which of all leaves they are.
struct List<'r> {
    leaves: Vec<u64>,
    keys: u64,
    runs: &'r [Run],
    leaf_bytes: u64,
    /// By run, by number in the run.
    listed: Vec<Vec<bool>>,
}

impl<'r> List<'r> {
    /// Follows the list from its anchor.
    fn follow<M: Media>(pool: &Pool<M>, runs: &'r [Run], shape: Shape) -> Result<Self> {
        let media = pool.media();
        let leaf_bytes = shape.leaf_bytes();
        let listed = runs.iter().map(|run| vec![false; (run.bytes / leaf_bytes) as usize]);
        let mut list =
            Self { leaves: Vec::new(), keys: 0, runs, leaf_bytes, listed: listed.collect() };
        let mut next = media.load(&pool.index_root::<ListHead>()?.first);
        while !next.is_null() {
            list.reach(next.offset())?;
            let leaf = Leaf::at(media.region(), next.offset(), shape)?;
            next = media.load(&leaf.head.next);
            let skipped = planted(237) && next.is_null();
            list.keys += if skipped { 0 } else { leaf.fill(media)?.live() as u64 };
        }
        Ok(list)
    }

    /// Notes a leaf that the list leads to.
    fn reach(&mut self, offset: u64) -> Result<()> {
        let damaged = |what| IndexError::Corrupt { offset, what };
        let after = self.runs.partition_point(|run| run.offset <= offset);
        let run = after.checked_sub(1).ok_or(damaged("the list of leaves leads to no leaf"))?;
        let within = offset - self.runs[run].offset;
        let number = (within / self.leaf_bytes) as usize;
        match self.listed[run].get_mut(number) {
            Some(listed) if within.is_multiple_of(self.leaf_bytes) => {
                if std::mem::replace(listed, true) {
                    return Err(damaged("the list of leaves leads to one of them twice"));
                }
                self.leaves.push(offset);
                Ok(())
            }
            _ => Err(damaged("the list of leaves leads to no leaf")),
        }
    }

    /// Leaves of a run that are in the list.
    fn used_in(&self, run: Run) -> u64 {
        let run = self.runs.partition_point(|other| other.offset < run.offset);
        self.listed[run].iter().filter(|listed| **listed).count() as u64
    }

    /// All leaves outside the list, the greatest offset first: the lowest is taken first.
    fn others(&self) -> Vec<u64> {
        let mut others: Vec<u64> = self
            .runs
            .iter()
            .zip(&self.listed)
            .flat_map(|(run, listed)| leaves_of(*run, self.leaf_bytes).zip(listed))
            .filter_map(|(offset, listed)| (!listed).then_some(offset))
            .collect();
        others.reverse();
        others
    }
}

/// Removes the pointers that a cut operation has left behind counts and in leaves outside the list,
/// and frees the records that only they lead to.
fn clean<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    shape: Shape,
    listed: &[u64],
    others: &[u64],
) -> Result<()> {
    let media = pool.media();
    let mut strays: Vec<&PCell> = Vec::new();
    for offset in others {
        let leaf = Leaf::at(media.region(), *offset, shape)?;
        strays.push(&leaf.head.lower_bound);
        strays.extend((0..shape.slots()).map(|slot| leaf.key(slot)));
    }
    for offset in listed {
        let leaf = Leaf::at(media.region(), *offset, shape)?;
        let first = leaf.fill(media)?.count() + usize::from(planted(233));
        strays.extend((first..shape.slots()).map(|slot| leaf.key(slot)));
    }
    strays.retain(|cell| media.load(*cell) != 0);
    if strays.is_empty() {
        return Ok(());
    }
    let words: HashSet<u64> = strays.iter().map(|cell| media.load(*cell)).collect();
    let mut held = HashSet::new();
    for offset in listed {
        let leaf = Leaf::at(media.region(), *offset, shape)?;
        let keys = (0..leaf.fill(media)?.count()).map(|slot| media.load(leaf.key(slot)));
        let bound = media.load(&leaf.head.lower_bound);
        held.extend(keys.chain([bound]).filter(|word| words.contains(word)));
    }
    // R3: what the list has too, and all but one pointer to each other record, becomes null. Crash:
    // done again.
    let mut freed = Vec::new();
    for cell in strays {
        if held.insert(media.load(cell)) || planted(234) {
            freed.push(cell);
        } else {
            media.store(cell, 0);
            media.flush(site!("nvtree.recover.R3.forget"), cell);
        }
    }
    if freed.is_empty() {
        // Else the freeing fences before it changes anything.
        media.fence(site!("nvtree.recover.R3.fence"));
    }
    // R4: each with the one pointer that is left. Crash: those that are left are freed next time.
    freed.into_iter().try_for_each(|cell| K::discard(worker, cell))
}
