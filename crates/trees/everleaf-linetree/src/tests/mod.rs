//! Tests of the family: against the model, in a full pool, by counting, by threads, and with
//! crashes.

mod counters;
mod crash;
mod full;
mod model;
mod strings;
mod threads;

use std::sync::Arc;

use everleaf_conformance::TestedTree;
use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Format, Pool};
use everleaf_tree::Opening;
use everleaf_tree::key::TestKey;
use everleaf_tree::parameters::Parameters;

use super::{OFFER, open};

/// A tree by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tested(pub Parameters);

/// The smallest sizes: every few operations split a leaf, end one, take or give back a group.
pub(super) const TINY: Tested = of_slots(8);

/// The same with leaves of so many slots.
pub(super) const fn of_slots(leaf_slots: u64) -> Tested {
    Tested(Parameters { leaf_slots, inner_keys: 4, value_words: 1, group_bytes: 4096 })
}

impl<K: TestKey> TestedTree<K> for Tested {
    fn format(self) -> Format {
        let parameters = OFFER.pack(self.0);
        Format { engine: "linetree".into(), key_type: K::KEY_TYPE, parameters }
    }

    fn open<M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open(pool, opening)
    }
}
