//! What stands behind a store, a tree and a view: the keys of one space, to be read and written.
//!
//! Keys are given as [`Key`](crate::Key) and values as bytes. The types that users have
//! ([`Store`](crate::Store), [`Tree`](crate::Tree), [`View`](crate::View)) say what can be given
//! for them.

mod read;
mod write;

use std::sync::Arc;

use everleaf_pool::KeyType;

use crate::core::backend::Backend;
use crate::core::images::Images;
use crate::core::keyspace::Space;
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::Expiry;

#[derive(Clone)]
pub(crate) struct Handle {
    backend: Arc<dyn Backend>,
    space: Space,
    life: TreeLiveness,
    /// When what is written by it expires; none: as is usual for each write.
    expiry: Option<Expiry>,
    /// The snapshot that is read; none: what is there now.
    images: Option<Arc<Images>>,
}

impl Handle {
    pub(crate) fn new(backend: Arc<dyn Backend>, space: Space, life: TreeLiveness) -> Self {
        Self { backend, space, life, expiry: None, images: None }
    }

    /// The same as a snapshot shows it, of which it may be read only. A tree that is dropped later
    /// is still in it.
    pub(crate) fn in_snapshot(&self, images: &Arc<Images>) -> Self {
        let (images, life) = (Some(Arc::clone(images)), TreeLiveness::OF_STORE);
        Self { images, life, ..self.clone() }
    }

    /// The same, and what is written by it expires so.
    pub(crate) fn with_expiry(&self, expiry: Expiry) -> Self {
        Self { expiry: Some(expiry), ..self.clone() }
    }

    pub(crate) fn expiry_of_writes(&self) -> Option<Expiry> {
        self.expiry
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    pub(crate) fn space(&self) -> Space {
        self.space
    }

    pub(crate) fn life(&self) -> &TreeLiveness {
        &self.life
    }

    pub(crate) fn key_type(&self) -> KeyType {
        self.space.key_type()
    }

    /// Whether both are of one opened store.
    pub(crate) fn is_of(&self, backend: &Arc<dyn Backend>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.backend), Arc::as_ptr(backend))
    }
}
