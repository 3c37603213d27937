//! What the table of engines has of this family.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::{LINE, Media};
use everleaf_pool::Pool;

use super::encode::MAX_ENTRIES;
use super::layout::Shape;
use super::parameters::{Parameters, Variant, open};
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{EngineParameters, Offer};
use everleaf_tree::{Opening, TreeFamily};

/// Parameters of the tree that writes inner nodes at once where it may.
pub const PARAMETERS: &[&str] = &[
    EngineParameters::LEAF_SLOTS,
    EngineParameters::GROUP_BYTES,
    EngineParameters::ASSUME,
    EngineParameters::PAPER_ORDER,
];
/// Parameters of the tree that always writes them by the log.
pub const IN_PLACE_PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::GROUP_BYTES, EngineParameters::PAPER_ORDER];

/// Entries of a leaf of so many bytes.
pub const fn slots_of(leaf_bytes: u32) -> u32 {
    Shape::slots_of(leaf_bytes)
}

/// Entries of an encoded leaf, which has 64 bytes; what is not on offer for any other number.
pub const fn encoded_slots_of(leaf_bytes: u32) -> u32 {
    if leaf_bytes as usize == LINE { MAX_ENTRIES as u32 } else { 0 }
}

/// Entries of an encoded leaf at most.
pub const ENCODED_SLOTS: u32 = MAX_ENTRIES as u32;

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        self.sizes()
    }

    /// Encoded leaves have `u64` keys only.
    fn one_record(self) -> bool {
        !self.is_encoded()
    }

    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8], IndexError> {
        let sizes = self.sizes().choose(chosen, value_words)?;
        let parameters = Parameters {
            leaf_slots: sizes.leaf_slots,
            group_bytes: sizes.group_bytes,
            atomic_line: chosen.atomic_line,
            paper_order: chosen.paper_order,
        };
        Ok(parameters.pack())
    }

    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters, IndexError> {
        let Parameters { atomic_line, paper_order, .. } = Parameters::unpack(packed, self)?;
        let sizes = self.sizes().shown(self.sizes().unpack(packed)?);
        Ok(sizes.atomic_line(atomic_line).paper_order(paper_order))
    }

    fn open<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open(pool, self, opening.shutdown)
    }
}
