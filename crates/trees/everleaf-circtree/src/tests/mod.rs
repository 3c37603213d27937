//! Tests of the family: against the model, by counting, of single steps in every state of a node,
//! of what changes of the structure leave to others.

mod changes;
mod counters;
mod model;
mod steps;
mod threads;

use std::sync::Arc;

use everleaf_conformance::TestedTree;
use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Format, KeyType, Pool};
use everleaf_tree::Opening;
use everleaf_tree::key::TestKey;
use everleaf_tree::parameters::Parameters;

use super::{OFFER, TUNED, Variant, open};

pub(super) fn format(key_type: KeyType, node_slots: u64) -> Format {
    let parameters = OFFER.pack(Parameters { leaf_slots: node_slots, ..TUNED });
    Format { engine: "circtree".into(), key_type, parameters }
}

/// A tree with so many slots a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tested(pub Variant, pub u64);

impl<K: TestKey> TestedTree<K> for Tested {
    fn format(self) -> Format {
        format(K::KEY_TYPE, self.1)
    }

    fn open<M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open(pool, self.0, opening.shutdown)
    }
}

/// The key of the low bits of a number: the greatest numbers have the greatest keys.
pub(super) fn ascending<K: TestKey>(number: u64) -> K::Owned {
    K::ascending(number as u16)
}
