//! How many keys each named tree has: counted once, when it is first asked, and kept up by the
//! writers from then on.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_index::Direction;
use everleaf_pmem::Media;
use parking_lot::Mutex;

use super::Attached;
use crate::keyspace::Space;
use crate::life::Life;
use crate::{Error, Key, KeyType, OwnedKey, StoreKey};

#[derive(Default)]
pub(super) struct Counts {
    /// Whether the keys have been counted, so that writers keep the counts up.
    known: AtomicBool,
    /// Keys of each space but the store's own.
    by_space: Mutex<HashMap<Space, u64>>,
}

impl Counts {
    /// A key came, or went.
    pub(super) fn changed(&self, key: Key<'_>, was_linked: bool, is_linked: bool) {
        if was_linked == is_linked || !self.known.load(Ordering::Acquire) {
            return;
        }
        let Some(space @ (Space::Named(..) | Space::Catalog)) = Space::of_encoded(key) else {
            return;
        };
        let mut counts = self.by_space.lock();
        let count = counts.entry(space).or_default();
        *count = if is_linked { *count + 1 } else { count.saturating_sub(1) };
    }
}

impl<M: Media, K: StoreKey> Attached<M, K> {
    pub(super) fn count_keys(&self, life: &Life, space: Space) -> Result<u64, Error> {
        if space == Space::Numbers {
            return self.read_durable(|live| Ok(live.index.len()));
        }
        if !self.counts.known.load(Ordering::Acquire) {
            self.count_others()?;
        }
        let wanted = if let Space::Named(number, _) = space {
            Space::Named(number, KeyType::Bytes)
        } else {
            space
        };
        self.read_durable(|live| {
            life.check()?;
            let counts = self.counts.by_space.lock();
            Ok(match space {
                Space::Own => live.index.len().saturating_sub(counts.values().sum()),
                _ => counts.get(&wanted).copied().unwrap_or(0),
            })
        })
    }

    /// Alone, so that no writer comes or goes in between.
    fn count_others(&self) -> Result<(), Error> {
        let from = Space::Own.encode_bound(Bound::Unbounded, false)?;
        let behind = from.as_ref().map(OwnedKey::as_ref);
        let Bound::Excluded(first) = behind else { return Ok(()) };
        self.alone(|live| {
            let mut counts = HashMap::new();
            let mut count = |key: K::Ref<'_>, _: &[u64]| {
                if let Some(space) = Space::of_encoded(K::widen(key)) {
                    *counts.entry(space).or_insert(0) += 1;
                }
                ControlFlow::Continue(())
            };
            live.index.scan(Bound::Included(K::narrow(first)?), Direction::Forward, &mut count)?;
            *self.counts.by_space.lock() = counts;
            self.counts.known.store(true, Ordering::Release);
            Ok(())
        })
    }
}
