//! Opening a tree by several threads, in two stages: they look at all leaves (each family has a
//! pass of its own), and they build the inner nodes above what they have found, a range of the
//! leaves at a time.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_index::Result;
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::sample_sort::{InOrder, PartitionedLeaves, SortBuffer};
use crate::image::Image;
use crate::inner::Bottom;
use crate::inner_nodes::{Building, InnerNodes};
use crate::key::TreeKey;

/// Inner nodes on their way up.
pub struct NodeBuild<'n, K: TreeKey> {
    leaves: PartitionedLeaves<K>,
    leftmost: u64,
    /// Ranges that were taken.
    taken: AtomicUsize,
    nodes: &'n Building<K>,
}

/// What is above the range with this number.
pub type BuiltRange = (usize, Result<Bottom>);

impl<'n, K: TreeKey> NodeBuild<'n, K> {
    /// Begins to build these nodes over these leaves.
    ///
    /// # Errors
    /// [`IndexError::Pool`](everleaf_index::IndexError::Pool) when there is no memory.
    pub fn begin(
        nodes: &'n Building<K>,
        leaves: PartitionedLeaves<K>,
        leftmost: u64,
    ) -> Result<Self> {
        nodes.plan(leftmost, leaves.len(), leaves.ranges())?;
        Ok(Self { leaves, leftmost, taken: AtomicUsize::new(0), nodes })
    }

    /// What each thread does: takes a range whenever it is done with one, and makes the nodes
    /// above it.
    pub fn work<M: Media>(&self, pool: &Pool<M>) -> Vec<BuiltRange> {
        self.nodes.fault_in();
        let mut buffer = SortBuffer::new();
        let take =
            || Some(self.taken.fetch_add(1, Relaxed)).filter(|range| *range < self.leaves.ranges());
        let above = |range| {
            let bottom =
                |length, leaves: InOrder<'_, K, M>| self.nodes.bottom(range, length, leaves);
            (range, self.leaves.in_order(range, &mut buffer, pool, self.leftmost, bottom))
        };
        std::iter::from_fn(take).map(above).collect()
    }
}

/// The inner nodes, from what all threads have made.
///
/// # Errors
/// [`IndexError::Corrupt`](everleaf_index::IndexError::Corrupt) if damage was met.
pub fn end<K: TreeKey>(nodes: Building<K>, built: Vec<Vec<BuiltRange>>) -> Result<InnerNodes<K>> {
    let mut built = built.into_iter().flatten().collect::<Vec<_>>();
    built.sort_unstable_by_key(|(range, _)| *range);
    let bottoms: Result<Vec<_>, _> = built.into_iter().map(|(_, bottom)| bottom).collect();
    nodes.end(bottoms?)
}

/// The inner nodes above the leaves of an image, and the leftmost leaf.
///
/// # Errors
/// [`IndexError::Pool`](everleaf_index::IndexError::Pool) when there is no memory.
pub fn from_image<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    image: &Image<'_, K, M>,
    inner_keys: u64,
) -> Result<(InnerNodes<K>, u64)> {
    let nodes = Building::begin(inner_keys, pool.media().dram())?;
    let leftmost = image.leaves().next().unwrap_or(0);
    let (mut parts, mut bottoms) = (image.parts(), Vec::new());
    nodes.plan(leftmost, image.leaves().len(), parts.left())?;
    nodes.expect_separators(image.words_of_bounds());
    nodes.fault_in();
    while let Some(part) = parts.next() {
        // The leftmost leaf is planned.
        let others = part.entries::<K>().skip(usize::from(bottoms.is_empty()));
        bottoms.push(nodes.bottom(bottoms.len(), part.leaves(), others)?);
    }
    Ok((nodes.end(bottoms)?, leftmost))
}

#[cfg(test)]
mod tests {
    use everleaf_crash::Dram;
    use everleaf_index::{Direction, U64Keys};
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::dram_pool;
    use super::super::sample_sort::LeafBound;
    use super::super::sample_sort::{Partition, Splitters};
    use super::*;

    type Lists = Vec<Vec<LeafBound<()>>>;

    /// Builds nodes of so many children above these leaves, by so many threads.
    fn built(
        pool: &Pool<Dram>,
        lists: &Lists,
        threads: u64,
        inner_keys: u64,
    ) -> Result<InnerNodes<U64Keys>> {
        let some = || lists.iter().flatten().step_by(7).copied().collect();
        let splitters = Splitters::among(pool, lists.iter().map(Vec::len).sum(), some);
        let add = |list: &Vec<LeafBound<()>>| {
            let mut partition = Partition::none(&splitters, list.len());
            list.iter().for_each(|leaf| partition.add(*leaf, &splitters, pool));
            partition
        };
        let leaves =
            PartitionedLeaves::of(lists.iter().map(add).collect(), splitters.buckets(), inner_keys);
        let leftmost = leaves.leftmost(pool).unwrap_or(64);
        let nodes = Building::begin(inner_keys, pool.media().dram())?;
        let build = NodeBuild::begin(&nodes, leaves, leftmost)?;
        let made = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| build.work(pool))).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        end(nodes, made)
    }

    /// Leaves whose bounds are these, some of them in each of some lists.
    fn lists(bounds: &[u64], random: &mut StdRng) -> Lists {
        let count = random.random_range(1..20);
        let skewed = random.random_range(0..3);
        let mut lists: Lists = vec![Vec::new(); count];
        for (place, prefix) in bounds.iter().enumerate() {
            let list = match skewed {
                0 => random.random_range(0..count),
                1 => place * count / bounds.len(),
                _ => random.random_range(0..count) / random.random_range(1..=count),
            };
            lists[list].push(LeafBound {
                prefix: *prefix,
                bound: (),
                offset: (place as u64 + 1) * 1024,
            });
        }
        lists
    }

    #[test]
    fn nodes_lead_to_all_leaves_in_order_whoever_found_them() {
        let pool = dram_pool::<U64Keys>(1 << 20);
        let seed = 11;
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        for round in 0..600 {
            let count =
                [0, 1, 2, 65, 130, 1000, 3000].map(|most| random.random_range(0..=most))[round % 7];
            let mut bounds: Vec<u64> =
                (0..count).map(|_| random.random_range(0..1 << 40)).collect();
            bounds.sort_unstable();
            bounds.dedup();
            let (duplicates, threads) =
                (round % 3 == 0 && !bounds.is_empty(), random.random_range(1..5));
            let inner_keys = [4, 64][random.random_range(0..2)];
            if duplicates {
                bounds.push(bounds[random.random_range(0..bounds.len())]);
            }
            let nodes = built(&pool, &lists(&bounds, &mut random), threads, inner_keys);
            if duplicates {
                let error = nodes.err().map(|error| error.to_string()).unwrap_or_default();
                assert!(error.contains("same lower bound"), "round {round}: {error}");
                continue;
            }
            let nodes = nodes.unwrap();
            assert_eq!(nodes.check(), Vec::<String>::new(), "round {round}");
            let mut walk = nodes.start(Direction::Forward);
            let first = walk.current();
            let found = std::iter::successors(Some(first), |_| walk.step(Direction::Forward));
            let expected: Vec<_> = (1..=bounds.len().max(1) as u64)
                .map(|leaf| if bounds.is_empty() { 64 } else { leaf * 1024 })
                .collect();
            assert!(found.eq(expected), "round {round}");
        }
    }
}
