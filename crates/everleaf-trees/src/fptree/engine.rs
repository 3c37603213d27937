//! What the table of engines has of this family.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::parameters::{GROUP_UNIT, Parameters, Variant, open_with};
use crate::engine::{EngineParameters, Needs, Opening, TreeFamily};
use crate::support::key::TreeKey;

/// Parameters of the trees for one thread at a time.
pub const PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS, EngineParameters::GROUP_BYTES];

/// Parameters of the concurrent tree, which has no leaf groups.
pub const CONCURRENT_PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS];

/// What barriers need, by how their names begin: of a tree with fingerprints.
pub const NEEDS: &[(&str, Needs)] = &[
    ("fptree.group.G1.bound", Needs::BytesKeys),
    ("fptree.group.G1.keys", Needs::BytesKeys),
    ("fptree.insert.P1.refused", Needs::BytesKeys),
    ("fptree.insert.P1.value", Needs::OtherEngine),
    ("fptree.link.N", Needs::U64Keys),
    ("fptree.link.N1.value", Needs::OtherEngine),
    ("fptree.link.R", Needs::U64Keys),
    ("fptree.split.S1.fence", Needs::BytesKeys),
    ("fptree.split.S2.bound", Needs::U64Keys),
    ("fptree.split.S2.values", Needs::OtherEngine),
    ("fptree.split.S4.", Needs::BytesKeys),
    ("fptree.split.C4.", Needs::BytesKeys),
    ("fptree.update.P1.", Needs::OneWord),
    ("fptree.update.W", Needs::SeveralWords),
    ("fptree.update.W1.value", Needs::OtherEngine),
    ("fptree.update.W3.", Needs::BytesKeys),
    ("fptree.remove.P1.fence", Needs::U64Keys),
    ("fptree.recover.R1.", Needs::BytesKeys),
    ("fptree.recover.R2.fence", Needs::U64Keys),
    ("fptree.recover.R3.", Needs::BytesKeys),
    ("fptree.recover.R5.", Needs::BytesKeys),
    ("fptree.recover.R6.", Needs::U64Keys),
    ("fptree.recover.R7.", Needs::BytesKeys),
];

/// The same of PTree, which has no fingerprints, and whose keys and values are apart.
pub const PTREE_NEEDS: &[(&str, Needs)] = &[
    ("fptree.group.G1.bound", Needs::BytesKeys),
    ("fptree.group.G1.keys", Needs::BytesKeys),
    ("fptree.insert.P1.refused", Needs::BytesKeys),
    // Else the record's allocation flushes the whole entry.
    ("fptree.insert.P1.entry", Needs::U64Keys),
    ("fptree.insert.P2.order", Needs::OtherEngine),
    ("fptree.link.N", Needs::U64Keys),
    ("fptree.link.N2.order", Needs::OtherEngine),
    ("fptree.link.R", Needs::U64Keys),
    ("fptree.split.S1.fence", Needs::BytesKeys),
    ("fptree.split.S2.bound", Needs::U64Keys),
    ("fptree.split.S2.fingerprints", Needs::OtherEngine),
    ("fptree.split.S4.", Needs::BytesKeys),
    ("fptree.update.P1.", Needs::OneWord),
    ("fptree.update.W", Needs::SeveralWords),
    ("fptree.update.W2.order", Needs::OtherEngine),
    ("fptree.update.W3.", Needs::BytesKeys),
    ("fptree.remove.P1.fence", Needs::U64Keys),
    ("fptree.recover.R1.", Needs::BytesKeys),
    ("fptree.recover.R2.fence", Needs::U64Keys),
    ("fptree.recover.R3.", Needs::BytesKeys),
    ("fptree.recover.R5.", Needs::BytesKeys),
    ("fptree.recover.R6.", Needs::U64Keys),
];

impl TreeFamily for Variant {
    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8], IndexError> {
        if chosen.group_bytes == Some(0) {
            return Err(IndexError::Parameter {
                parameter: "group_bytes",
                value: 0,
                offered: format!("the multiples of {GROUP_UNIT} from {GROUP_UNIT} on"),
            });
        }
        let tuned = Parameters::defaults(self);
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
        let chosen = EngineParameters::default()
            .leaf_slots(sizes.leaf_slots as u32)
            .inner_keys(sizes.inner_keys as u32);
        Ok(if self == Self::Concurrent { chosen } else { chosen.group_bytes(sizes.group_bytes) })
    }

    fn open<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open_with(pool, self, opening)
    }
}
