//! Tests of the family: against the model, with damage, in a full pool, by counting.

mod counters;
mod damage;
mod full;
mod model;

use std::sync::Arc;

use everleaf_conformance::TestedTree;
use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Format, Pool};
use everleaf_tree::Opening;
use everleaf_tree::key::TestKey;

use super::{Parameters, Variant, open, pack};

/// The smallest sizes: every few operations change the list of leaves, spread parents, take or give
/// back a group.
pub(crate) const TINY: Parameters =
    Parameters { leaf_slots: 4, inner_keys: 4, value_words: 1, group_bytes: 4096 };

/// Both trees of the family.
pub(crate) const VARIANTS: [Variant; 2] = [Variant::Serial, Variant::Concurrent];

/// A tree and its sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tested {
    pub variant: Variant,
    pub parameters: Parameters,
    /// Whether leaves have hashes of their keys.
    pub hashed: bool,
}

/// One with hashes.
pub(crate) fn tested(variant: Variant, parameters: Parameters) -> Tested {
    Tested { variant, parameters, hashed: true }
}

impl<K: TestKey> TestedTree<K> for Tested {
    fn format(self) -> Format {
        let parameters = pack(self.parameters, self.hashed);
        Format { engine: "nvtree".into(), key_type: K::KEY_TYPE, parameters }
    }

    fn open<M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open(pool, self.variant, opening)
    }
}

/// The key of the low bits of a number: the greatest numbers have the greatest keys.
pub(crate) fn ascending<K: TestKey>(number: u64) -> K::Owned {
    K::ascending(number as u16)
}
