//! Opening a tree by several threads, in two stages: they look at all leaves ([`survey`](super::survey)), and they raise the inner nodes above what they
//! have found, a share of the leaves at a time.

use everleaf_index::IndexError;
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::inner::{Building, InnerNodes};
use super::key::LeafKey;
use super::survey::Leaves;
use crate::support::inner::Bottom;
use crate::support::parallel::HeaviestFirst;

/// Inner nodes on their way up.
pub(super) struct Raising<K: LeafKey> {
    leaves: Leaves<K>,
    leftmost: u64,
    shares: HeaviestFirst,
    nodes: Building<K>,
}

/// What is above the share with this number.
type Raised = (usize, Result<Bottom, IndexError>);

impl<K: LeafKey> Raising<K> {
    /// Nodes with room for so many children over these leaves.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] for a capacity that is not offered; [`IndexError::Pool`] when there is no memory.
    pub fn begin<M: Media>(pool: &Pool<M>, leaves: Leaves<K>, leftmost: u64, inner_keys: u64) -> Result<Self, IndexError> {
        let lengths: Vec<_> = leaves.lengths().collect();
        let nodes = Building::begin(inner_keys, pool.media().dram(), leftmost, lengths.iter().sum(), lengths.len())?;
        Ok(Self { leaves, leftmost, shares: HeaviestFirst::new(lengths.into_iter()), nodes })
    }

    /// What each thread does: takes a share whenever it is done with one, puts it in order, and makes the nodes above it.
    pub fn work<M: Media>(&self, pool: &Pool<M>) -> Vec<Raised> {
        self.nodes.fault_in();
        let above = |share| {
            self.leaves.in_order(share, pool, self.leftmost, |length, leaves| (share, self.nodes.bottom(share, length, leaves)))
        };
        std::iter::from_fn(|| self.shares.take()).map(above).collect()
    }

    /// The inner nodes, from what all threads have made.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if two leaves have the same lower bound, or damage was met.
    pub fn end<M: Media>(self, pool: &Pool<M>, raised: Vec<Vec<Raised>>) -> Result<InnerNodes<K>, IndexError> {
        let mut raised = raised.into_iter().flatten().collect::<Vec<_>>();
        raised.sort_unstable_by_key(|(share, _)| *share);
        let bottoms: Result<Vec<_>, _> = raised.into_iter().map(|(_, bottom)| bottom).collect();
        let built = bottoms.and_then(|bottoms| self.nodes.end(bottoms));
        built.map_err(|error| self.leaves.twins(pool).unwrap_or(error))
    }
}
