//! What the table of engines has of this family.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::parameters::{Parameters, Variant, open};
use crate::engine::{EngineParameters, Needs, Opening, TreeFamily};
use crate::support::key::TreeKey;

/// Parameters of all of them: their nodes are alike.
pub const PARAMETERS: &[&str] = &[EngineParameters::LEAF_SLOTS];

/// What barriers need, by how their names begin.
pub const NEEDS: &[(&str, Needs)] = &[
    ("circtree.insert.E0.", Needs::U64Keys),
    ("circtree.insert.P4.", Needs::BytesKeys),
    ("circtree.remove.P1.order", Needs::BytesKeys),
    ("circtree.shift.S2.line", Needs::SeveralLines),
    ("circtree.shift.S2.fence", Needs::SeveralLines),
    ("fastfair.insert.F0.", Needs::SeveralLines),
    ("fastfair.insert.F1.line", Needs::SeveralLines),
    ("fastfair.insert.F1.fence", Needs::SeveralLines),
    ("fastfair.insert.Z2.order", Needs::BytesKeys),
    ("fastfair.remove.X1.order", Needs::BytesKeys),
    ("fastfair.remove.D0.", Needs::BytesKeys),
    ("fastfair.remove.D2.line", Needs::SeveralLines),
    ("fastfair.remove.D2.fence", Needs::SeveralLines),
    ("sorted.merge.M0.", Needs::U64Keys),
    ("sorted.recover.B2.fence", Needs::SeveralLines),
];

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
        let parameters =
            Parameters { node_slots: chosen.leaf_slots.map_or(tuned.node_slots, u64::from) };
        parameters.validate()?;
        Ok(parameters.pack())
    }

    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters, IndexError> {
        let sizes = Parameters::unpack(packed)?;
        Ok(EngineParameters::default().leaf_slots(sizes.node_slots as u32))
    }

    fn open<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open(pool, self, opening.shutdown)
    }
}
