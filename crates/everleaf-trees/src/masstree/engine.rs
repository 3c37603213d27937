//! What the table of engines has of this family.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::parameters::{Parameters, create};
use crate::engine::{EngineParameters, Opening, TreeFamily};
use crate::support::key::TreeKey;

/// Parameters of all of them.
pub const PARAMETERS: &[&str] = &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS];

/// An engine of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// In DRAM: nothing of it is there after a crash, or when it is opened again.
    Transient,
}

impl TreeFamily for Variant {
    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8], IndexError> {
        if value_words != 1 {
            return Err(IndexError::Parameter {
                parameter: "value_words",
                value: value_words,
                offered: "1".to_owned(),
            });
        }
        let tuned = Parameters::default();
        let parameters = Parameters {
            leaf_slots: chosen.leaf_slots.map_or(tuned.leaf_slots, u64::from),
            inner_keys: chosen.inner_keys.map_or(tuned.inner_keys, u64::from),
            ..tuned
        };
        parameters.validate()?;
        Ok(parameters.pack())
    }

    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters, IndexError> {
        let sizes = Parameters::unpack(packed)?;
        let parameters = EngineParameters::default().leaf_slots(sizes.leaf_slots as u32);
        Ok(parameters.inner_keys(sizes.inner_keys as u32))
    }

    fn open<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        _opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        create(pool)
    }
}
