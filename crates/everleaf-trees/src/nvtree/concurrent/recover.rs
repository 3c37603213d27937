//! Opening: what the tree for one thread does, with inner nodes that threads share.

use std::sync::Arc;

use everleaf_index::IndexError;
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown, Workers};

use super::parents::Parents;
use super::stock::Stock;
use super::{ConcurrentNvTree, LOCKS, WORKERS};
use crate::nvtree::layout::Shape;
use crate::nvtree::recover::Leaves;
use crate::support::key::TreeKey;
use crate::support::parameters::Parameters;
use crate::support::version_locks::VersionLocks;

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Opens what the pool holds; an empty tree if it is fresh.
    ///
    /// # Errors
    /// As [`Leaves::find`]; [`IndexError::Pool`] when there is no memory.
    pub fn open(
        pool: &Arc<Pool<M>>,
        shape: Shape,
        parameters: Parameters,
        shutdown: Shutdown,
        locks: usize,
    ) -> Result<Self, IndexError> {
        let workers = Workers::new(Arc::clone(pool), WORKERS);
        let mut worker = workers.lease()?;
        let found = Leaves::find::<K, M>(pool, &mut worker, shape, parameters, shutdown)?;
        drop(worker);
        let bounds = found.bounds::<K, M>(pool, shape).map(|bound| {
            let (bound, leaf) = bound?;
            Ok((K::word(K::borrow(&bound), 0), leaf))
        });
        let fanout = parameters.inner_keys as usize;
        let parents = Parents::build(fanout, pool.media().dram(), bounds)?;
        let Leaves { groups, keys, .. } = found;
        Ok(Self {
            pool: Arc::clone(pool),
            parents,
            locks: VersionLocks::new(locks.min(LOCKS)).map_err(everleaf_pool::PoolError::Map)?,
            stock: Stock::new(workers, shape, groups),
            shape,
            keys_found: keys,
            patience: Default::default(),
            restarts: Default::default(),
            keys: Default::default(),
        })
    }
}
