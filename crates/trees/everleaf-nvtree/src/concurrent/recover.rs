//! Opening: what the tree for one thread does, with inner nodes that threads share.

use std::sync::Arc;

use everleaf_index::{InnerFrom, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Workers};

use super::parents::Parents;
use super::stock::Stock;
use super::{ConcurrentNvTree, LOCKS, WORKERS};
use crate::layout::Shape;
use crate::recover::Leaves;
use everleaf_tree::Opening;
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::Parameters;
use everleaf_tree::version_locks::VersionLocks;

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Opens what the pool holds; an empty tree if it is fresh.
    ///
    /// # Errors
    /// As [`Leaves::find`]; [`IndexError::Pool`](everleaf_index::IndexError::Pool) when there is no
    /// memory.
    pub fn open(
        pool: &Arc<Pool<M>>,
        shape: Shape,
        parameters: Parameters,
        opening: Opening,
        locks: usize,
    ) -> Result<Self> {
        let workers = Workers::new(Arc::clone(pool), WORKERS);
        let mut worker = workers.lease()?;
        let (fanout, dram) = (parameters.inner_keys as usize, pool.media().dram());
        let (parents, groups, keys_found, inner_from) =
            match Leaves::in_image::<K, M>(pool, &opening, shape, parameters)? {
                Ok((image, groups)) => {
                    let parents = Parents::build(fanout, dram, image.of_numbers().map(Ok))?;
                    (parents, groups, image.keys, InnerFrom::Image)
                }
                Err(why) => {
                    let Opening { shutdown, .. } = opening;
                    let found =
                        Leaves::find::<K, M>(pool, &mut worker, shape, parameters, shutdown)?;
                    let bounds = found.bounds::<K, M>(pool, shape).map(|bound| {
                        let (bound, leaf) = bound?;
                        Ok((K::word(K::borrow(&bound), 0), leaf))
                    });
                    let parents = Parents::build(fanout, dram, bounds)?;
                    (parents, found.groups, found.keys, InnerFrom::Leaves(why))
                }
            };
        drop(worker);
        let parents = if M::SCHEDULED { parents.keeping_nothing() } else { parents };
        Ok(Self {
            pool: Arc::clone(pool),
            parents,
            locks: VersionLocks::new(locks.min(LOCKS)).map_err(everleaf_pool::PoolError::Map)?,
            stock: Stock::new(workers, shape, groups),
            shape,
            parameters,
            keys_found,
            inner_from,
            patience: Default::default(),
            restarts: Default::default(),
            keys: Default::default(),
        })
    }
}
