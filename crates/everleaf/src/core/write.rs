//! One write of a batch.

use super::life::TreeLiveness;
use crate::OwnedKey;

/// When a write of a batch takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Insert,
    Update,
    Delete,
}

/// One write of a batch. Its key is the index's.
#[derive(Clone, Debug)]
pub struct Write {
    /// Of the tree that the key is of.
    pub(crate) life: TreeLiveness,
    pub(crate) key: OwnedKey,
    pub(crate) kind: Kind,
    pub(crate) value: Box<[u8]>,
    pub(crate) expires_ms: Option<u64>,
}
