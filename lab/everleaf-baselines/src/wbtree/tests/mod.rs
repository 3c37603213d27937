//! Tests of the family: against the model, with damage, in a full pool, by counting, and with
//! crashes.

mod counters;
mod crash;
mod damage;
mod full;
mod model;
mod opening;

use std::sync::Arc;

use everleaf_conformance::TestedTree;
use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Format, Pool};
use everleaf_tree::key::TestKey;
use everleaf_tree::parameters::Parameters;
use everleaf_tree::{Opening, TreeFamily};

use super::{Variant, open};

pub(super) const BOTH: [Variant; 2] = [Variant::Slot, Variant::Bitmap];

/// The smallest sizes: every few operations split a node, empty one, or take a group.
pub(super) const TINY: Parameters =
    Parameters { leaf_slots: 4, inner_keys: 0, value_words: 1, group_bytes: 4096 };

/// A variant and its sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wb(pub Variant, pub Parameters);

impl<K: TestKey> TestedTree<K> for Wb {
    fn format(self) -> Format {
        let Self(variant, parameters) = self;
        let engine = if variant == Variant::Slot { "wbtree-slot" } else { "wbtree-bitmap" };
        let parameters = variant.offer().pack(parameters);
        Format { engine: engine.into(), key_type: K::KEY_TYPE, parameters }
    }

    fn open<M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        _: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open(pool, self.0)
    }
}
