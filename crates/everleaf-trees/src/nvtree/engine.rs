//! What the table of engines has of this family.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::parameters::{Parameters, open};
use crate::engine::{EngineParameters, Needs, Opening, TreeFamily};
use crate::support::key::TreeKey;

/// Parameters of the tree.
pub const PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS, EngineParameters::GROUP_BYTES];

/// What barriers need, by how their names begin.
pub const NEEDS: &[(&str, Needs)] = &[
    ("nvtree.group.G1.", Needs::BytesKeys),
    ("nvtree.split.S3.", Needs::BytesKeys),
    ("nvtree.recover.R3.", Needs::BytesKeys),
];

/// Which tree of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// For one thread at a time.
    Serial,
}

impl TreeFamily for Variant {
    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8], IndexError> {
        let tuned = Parameters::default();
        let parameters = Parameters {
            leaf_slots: chosen.leaf_slots.map_or(tuned.leaf_slots, u64::from),
            inner_keys: chosen.inner_keys.map_or(tuned.inner_keys, u64::from),
            group_bytes: chosen.group_bytes.unwrap_or(tuned.group_bytes),
            value_words,
        };
        parameters.validate()?;
        Ok(parameters.pack())
    }

    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters, IndexError> {
        let sizes = Parameters::unpack(packed)?;
        Ok(EngineParameters::default()
            .leaf_slots(sizes.leaf_slots as u32)
            .inner_keys(sizes.inner_keys as u32)
            .group_bytes(sizes.group_bytes))
    }

    fn open<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open(pool, opening.shutdown)
    }
}
