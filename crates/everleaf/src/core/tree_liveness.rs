//! Whether a named tree is still there: a handle of a dropped tree must neither read nor write the
//! tree that has its number next.
//!
//! Every operation asks under the lock that all operations share. Who drops a tree first ends its
//! life, and then has that lock alone for a moment: so what began before has ended, and what begins
//! afterwards is refused. Only then are the keys of the tree removed and its number is free.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;

/// How long a handle is of use: as long as its tree, or as long as its store is open.
#[derive(Clone, Debug)]
pub struct TreeLiveness(Option<Arc<AtomicBool>>);

impl TreeLiveness {
    /// Of the store's own keys, and of what looks at all keys.
    pub(crate) const OF_STORE: Self = Self(None);

    /// Of a named tree.
    pub(crate) fn of_tree() -> Self {
        Self(Some(Arc::new(AtomicBool::new(false))))
    }

    /// The tree is dropped.
    pub(crate) fn end(&self) {
        if let Some(ended) = &self.0 {
            ended.store(true, Ordering::Release);
        }
    }

    /// Asked within each operation.
    ///
    /// # Errors
    /// [`Error::TreeDropped`].
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Some(ended) if ended.load(Ordering::Acquire) => Err(Error::TreeDropped),
            _ => Ok(()),
        }
    }
}
