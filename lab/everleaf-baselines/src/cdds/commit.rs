//! The commit of an operation: the tree is of the next version.

use everleaf_index::Result;
use everleaf_pmem::{Media, planted, site};

use super::CddsTree;
use super::layout::{CddsRoot, Child};
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> CddsTree<K, M> {
    /// The version of the operation under way.
    #[inline(always)]
    pub(super) fn next_version(&self) -> u64 {
        self.current.version() + 1
    }

    /// Commits what was flushed, with another root if there is one. 1 flush, 2 fences.
    ///
    /// # Errors
    /// [`IndexError::Pool`](everleaf_index::IndexError::Pool) if the pool is damaged.
    pub(super) fn commit(&mut self, root: Option<Child>) -> Result<()> {
        // Crash: all of this version is there, or not; the tree is of the one before.
        self.pool.media().fence(site!("cdds.commit.P1.fence"));
        self.commit_alone(root)
    }

    /// As [`commit`](Self::commit), of an operation that has flushed nothing. 1 flush, 1 fence.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub(super) fn commit_alone(&mut self, root: Option<Child>) -> Result<()> {
        let (media, anchor) = (self.pool.media(), self.pool.index_root::<CddsRoot>()?);
        let next = self.current.next(root.is_some());
        // P2 COMMIT: the root that did not count, then the word that makes it count, in one line.
        // Crash: as before it, or the operation is done.
        planted!(278, media.store(&anchor.current, next));
        if let Some(root) = root {
            media.store(&anchor.roots[next.root()], root);
            media.order(site!("cdds.commit.P2.order"));
            self.root = root;
        }
        media.store(&anchor.current, next);
        media.flush(site!("cdds.commit.P2.version"), &anchor.current);
        media.fence(site!("cdds.commit.P2.fence"));
        self.current = next;
        Ok(())
    }
}
