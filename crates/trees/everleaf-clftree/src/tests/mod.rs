//! Tests of the family: against the model, with damage, in a full pool, by counting, and with
//! crashes.

mod counters;
mod crash;
mod damage;
mod full;
mod model;
mod shadow;

use std::sync::Arc;

use everleaf_conformance::TestedTree;
use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Format, Pool};
use everleaf_tree::Opening;
use everleaf_tree::key::TestKey;

use super::encode::MAX_ENTRIES;
use super::{Parameters, Variant, open};

/// The smallest sizes: every few operations change inner nodes, take or give back a run.
pub(super) const TINY: Tested =
    Tested { variant: Variant::Append, leaf_slots: 3, group_bytes: 4096, paper_order: false };

/// The same with inner nodes that are copied.
pub(super) const SHADOW: Tested = Tested { variant: Variant::Shadow, ..TINY };

/// Leaves of one encoded line.
pub(super) const ENCODED: Tested =
    Tested { variant: Variant::Encoded, leaf_slots: MAX_ENTRIES as u64, ..TINY };

/// The same with lines that are copied.
pub(super) const ENCODED_SHADOW: Tested = Tested { variant: Variant::EncodedShadow, ..ENCODED };

/// A tree and its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tested {
    pub variant: Variant,
    pub leaf_slots: u64,
    pub group_bytes: u64,
    pub paper_order: bool,
}

impl<K: TestKey> TestedTree<K> for Tested {
    fn format(self) -> Format {
        let Self { variant, leaf_slots, group_bytes, paper_order } = self;
        let engine = match variant {
            Variant::Append => "clftree-append",
            Variant::InPlace => "clftree-inplace",
            Variant::Shadow => "clftree-shadow",
            Variant::Encoded => "clftree-encoded",
            Variant::EncodedShadow => "clftree-encoded-shadow",
        };
        let parameters =
            Parameters { leaf_slots, group_bytes, paper_order, ..Parameters::default() };
        Format { engine: engine.into(), key_type: K::KEY_TYPE, parameters: parameters.pack() }
    }

    fn open<M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open(pool, self.variant, opening.shutdown)
    }
}

/// The key of the low bits of a number: the greatest numbers have the greatest keys.
pub(super) fn ascending<K: TestKey>(number: u64) -> K::Owned {
    K::ascending(number as u16)
}
