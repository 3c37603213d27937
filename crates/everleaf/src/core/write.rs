//! One write of a batch.

use super::tree_liveness::TreeLiveness;
use super::value::NewExpiry;
use crate::OwnedKey;

/// When a write of a batch takes place, and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Insert,
    Update,
    /// The value that is there stays, and expires as it is said.
    Touch,
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
    pub(crate) expiry: NewExpiry,
}

impl Write {
    /// Removes a key.
    pub(crate) fn removal(life: TreeLiveness, key: OwnedKey) -> Self {
        Self { life, key, kind: Kind::Delete, value: Box::default(), expiry: NewExpiry::NEVER }
    }
}
