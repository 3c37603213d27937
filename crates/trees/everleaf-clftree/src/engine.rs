//! What the table of engines has of this family.

use everleaf_index::Result;
use everleaf_pmem::{LINE, Media};

use super::encode::MAX_ENTRIES;
use super::layout::Shape;
use super::parameters::{Parameters, Variant, open};
use everleaf_tree::parameters::{EngineParameters, Offer};
use everleaf_tree::{EngineCode, EngineEntry, TreeFamily, engine_code, engine_entry};

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

    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8]> {
        let sizes = self.sizes().choose(chosen, value_words)?;
        let parameters = Parameters {
            leaf_slots: sizes.leaf_slots,
            group_bytes: sizes.group_bytes,
            atomic_line: chosen.atomic_line,
            paper_order: chosen.paper_order,
        };
        Ok(parameters.pack())
    }

    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters> {
        let Parameters { atomic_line, paper_order, .. } = Parameters::unpack(packed, self)?;
        let sizes = self.sizes().shown(self.sizes().unpack(packed)?);
        Ok(sizes.atomic_line(atomic_line).paper_order(paper_order))
    }
}

/// clfB-tree with leaves that are appended to: inner nodes are encoded into one line.
pub static CLFTREE_APPEND: EngineEntry = engine_entry!(Variant::Append, {
    name: "clftree-append",
    parameters: PARAMETERS,
    min_leaf_slots: 3,
    slots_of_bytes: slots_of,
    one_record: true,
});

/// clftree-append with leaves that are encoded into one line as well: `u64` keys only.
pub static CLFTREE_ENCODED: EngineEntry = engine_entry!(Variant::Encoded, {
    name: "clftree-encoded",
    parameters: PARAMETERS,
    bytes_keys: false,
    min_leaf_slots: ENCODED_SLOTS,
    slots_of_bytes: encoded_slots_of,
});

/// clftree-append with inner nodes that are always written by a log of one line.
pub static CLFTREE_INPLACE: EngineEntry = engine_entry!(Variant::InPlace, {
    name: "clftree-inplace",
    parameters: IN_PLACE_PARAMETERS,
    min_leaf_slots: 3,
    slots_of_bytes: slots_of,
    one_record: true,
});

/// clftree-append with inner nodes that are copied, by short-circuit shadowing.
pub static CLFTREE_SHADOW: EngineEntry = engine_entry!(Variant::Shadow, {
    name: "clftree-shadow",
    parameters: IN_PLACE_PARAMETERS,
    min_leaf_slots: 3,
    slots_of_bytes: slots_of,
    one_record: true,
});

/// clftree-encoded with leaves and inner nodes that are copied likewise.
pub static CLFTREE_ENCODED_SHADOW: EngineEntry = engine_entry!(Variant::EncodedShadow, {
    name: "clftree-encoded-shadow",
    parameters: IN_PLACE_PARAMETERS,
    bytes_keys: false,
    min_leaf_slots: ENCODED_SLOTS,
    slots_of_bytes: encoded_slots_of,
});

/// The code of a variant: all have the same, for all sizes.
macro_rules! code_of {
    ($entry:ident, $variant:expr $(, $keys:ident)?) => {
        engine_code!(
            $entry,
            |format| Parameters::unpack(format.parameters, $variant).map(drop),
            |pool, opening| open(pool, $variant, opening.shutdown)
            $(, $keys)?
        )
    };
}

/// The engines that a user would choose.
pub const fn engines<M: Media>() -> [EngineCode<M>; 2] {
    [code_of!(CLFTREE_APPEND, Variant::Append), code_of!(CLFTREE_ENCODED, Variant::Encoded, u64)]
}

/// The code of the product's engines on its media, compiled here and nowhere else.
#[cfg(not(test))] // The tests have other media.
pub static SHIPPED: [EngineCode<everleaf_pmem::Mapped>; 2] = engines();

/// The others of the paper, for the laboratory.
pub const fn laboratory<M: Media>() -> [EngineCode<M>; 3] {
    [
        code_of!(CLFTREE_INPLACE, Variant::InPlace),
        code_of!(CLFTREE_SHADOW, Variant::Shadow),
        code_of!(CLFTREE_ENCODED_SHADOW, Variant::EncodedShadow, u64),
    ]
}

/// The code of the laboratory's on the media of the product: as theirs, of other variants.
#[cfg(not(test))]
pub static LABORATORY: [EngineCode<everleaf_pmem::Mapped>; 3] = laboratory();
