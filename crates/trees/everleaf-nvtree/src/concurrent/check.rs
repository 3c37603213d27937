//! The invariants of the family's page, for a tree that threads share. No other operation may run
//! meanwhile. Writes nothing.

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::ConcurrentNvTree;
use crate::check::Checked;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Checks everything, and reports every block that the tree has.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let records = self.pool.pin();
        let owned = |(bound, leaf)| Ok((leaf, K::to_owned(K::read_bound(&records, bound)?)));
        let places = self.parents.entries().into_iter().map(owned);
        let places = places.collect::<Result<Vec<_>>>()?;
        let state = self.stock.state(self.pool.media());
        let limbo = state.limbo.iter().map(|(_, leaf)| *leaf).collect();
        let (pool, shape, groups, keys) = (&*self.pool, self.shape, &state.groups, self.count());
        let checked = Checked::<K, M> { pool, shape, places, groups, limbo, keys };
        checked.check(self.parents.check(), audit)
    }
}
