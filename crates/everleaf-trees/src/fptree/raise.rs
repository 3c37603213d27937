//! Opening a tree by several threads, in two stages: they look at all leaves ([`survey`](super::survey)), and they raise the inner nodes above what they
//! have found, a share of the leaves at a time.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_index::IndexError;
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::inner::{Building, InnerNodes};
use super::key::LeafKey;
use super::shares::{InOrder, Leaves, Room};
use crate::support::inner::Bottom;

/// Inner nodes on their way up.
pub(super) struct Raising<K: LeafKey> {
    leaves: Leaves<K>,
    leftmost: u64,
    /// Shares that were taken.
    taken: AtomicUsize,
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
        let nodes = Building::begin(inner_keys, pool.media().dram(), leftmost, leaves.len(), leaves.shares())?;
        Ok(Self { leaves, leftmost, taken: AtomicUsize::new(0), nodes })
    }

    /// What each thread does: takes a share whenever it is done with one, and makes the nodes above it.
    pub fn work<M: Media>(&self, pool: &Pool<M>) -> Vec<Raised> {
        self.nodes.fault_in();
        let mut room = Room::new();
        let take = || Some(self.taken.fetch_add(1, Relaxed)).filter(|share| *share < self.leaves.shares());
        let above = |share| {
            let bottom = |length, leaves: InOrder<'_, '_, K, M>| self.nodes.bottom(share, length, leaves);
            (share, self.leaves.in_order(share, &mut room, pool, self.leftmost, bottom))
        };
        std::iter::from_fn(take).map(above).collect()
    }

    /// The inner nodes, from what all threads have made.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if damage was met.
    pub fn end(self, raised: Vec<Vec<Raised>>) -> Result<InnerNodes<K>, IndexError> {
        let mut raised = raised.into_iter().flatten().collect::<Vec<_>>();
        raised.sort_unstable_by_key(|(share, _)| *share);
        let bottoms: Result<Vec<_>, _> = raised.into_iter().map(|(_, bottom)| bottom).collect();
        self.nodes.end(bottoms?)
    }
}
