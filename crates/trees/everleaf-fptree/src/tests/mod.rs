//! Tests of the family: against the model, under crashes, with damage, by counting.

mod batches;
mod counters;
mod crash;
mod damage;
mod model;

use std::sync::Arc;

use everleaf_conformance::TestedTree;
use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Format, Pool};
use everleaf_tree::Opening;
use everleaf_tree::key::TestKey;

use super::{Parameters, Variant, offer, open_with};

/// The smallest sizes: every few operations split a leaf, an inner node, take or give back a group.
pub(super) const TINY: Parameters =
    Parameters { leaf_slots: 4, inner_keys: 4, value_words: 1, group_bytes: 4096 };

pub(super) const VARIANTS: [Variant; 3] = [Variant::FpTree, Variant::PTree, Variant::Concurrent];

/// A tree and its sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tested(pub Variant, pub Parameters);

impl<K: TestKey> TestedTree<K> for Tested {
    fn format(self) -> Format {
        let parameters = offer(Variant::FpTree).pack(self.1);
        Format { engine: "fptree".into(), key_type: K::KEY_TYPE, parameters }
    }

    fn open<M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open_with(pool, self.0, opening)
    }
}
