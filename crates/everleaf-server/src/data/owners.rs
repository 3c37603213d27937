//! The keys of collections by their ids, for who finds a part and needs its key. All keys are
//! looked through when one is first asked for; from then on writers keep this up.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::{Error, Scan};
use parking_lot::Mutex;

use super::record::collection_of;
use super::rows::{Pending, deleted_of, key_of, keys_prefix};
use super::stored::Stored;

/// The keys of all collections.
#[derive(Default)]
pub struct Owners {
    keys: Mutex<HashMap<u64, Vec<u8>>>,
    /// Whether they were asked for.
    are_known: AtomicBool,
}

impl Owners {
    /// Keys were written.
    pub fn note(&self, pending: &Pending) {
        if !self.are_known.load(Ordering::Acquire) {
            return;
        }
        let mut keys = self.keys.lock();
        for (row, value) in pending {
            if let Some(id) = deleted_of(row) {
                keys.remove(&id);
            } else if key_of(row).is_some()
                && let Some((_, collection)) = value.as_deref().and_then(collection_of)
            {
                keys.insert(collection.id, row.clone());
            }
        }
    }

    /// A collection was removed.
    pub fn forget(&self, id: u64) {
        self.keys.lock().remove(&id);
    }

    /// The key whose collection this is. All keys are looked through the first time: then nobody
    /// else writes.
    pub fn of(&self, id: u64, rows: &Stored) -> Result<Option<Vec<u8>>, Error> {
        if !self.are_known.load(Ordering::Acquire) {
            let mut keys = self.keys.lock();
            rows.scan_with(Scan::all().with_prefix(keys_prefix(None)), |row, value| {
                if let Some((_, collection)) = collection_of(value) {
                    keys.insert(collection.id, row.to_vec());
                }
                ControlFlow::Continue(())
            })?;
            self.are_known.store(true, Ordering::Release);
        }
        Ok(self.keys.lock().get(&id).cloned())
    }
}
