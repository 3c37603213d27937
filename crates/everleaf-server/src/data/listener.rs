//! Who is told of changes of keys, once they are in the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

/// Why a key has gone by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Its time was over.
    Expired,
    /// There was no room.
    Evicted,
}

/// Who is told. It must not call the store: the locks of the keys are held.
pub trait Listener: Send + Sync {
    /// Keys have changed, by the client of this number; 0: by no Redis client.
    fn changed(&self, rows: &[&[u8]], by: u64);

    /// Databases were emptied.
    fn emptied(&self);

    /// A key has gone by itself.
    fn gone(&self, row: &[u8], why: Gone);
}

/// The place of who is told.
#[derive(Default)]
pub struct Listening {
    /// Whether changes are to be told: looked at for each write.
    is_on: AtomicBool,
    listener: RwLock<Option<Arc<dyn Listener>>>,
}

impl Listening {
    /// From now on this one is told.
    pub fn set(&self, listener: Arc<dyn Listener>) {
        *self.listener.write() = Some(listener);
    }

    /// Whether changes are told, and databases that are emptied; what goes by itself always is.
    pub fn turn(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::SeqCst);
    }

    /// Whether changes are told.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::SeqCst)
    }

    pub(super) fn tell(&self, tell: impl FnOnce(&dyn Listener)) {
        if let Some(listener) = &*self.listener.read() {
            tell(&**listener);
        }
    }
}
