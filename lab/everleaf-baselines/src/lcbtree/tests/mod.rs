//! Tests of the family: against the model, with damage, in a full pool, by counting, and with
//! crashes.

mod counters;
mod crash;
mod damage;
mod full;
mod model;

use std::sync::Arc;

use everleaf_conformance::TestedTree;
use everleaf_index::{Index, IndexError, U64Keys};
use everleaf_pmem::Media;
use everleaf_pool::{Format, KeyType, Pool};
use everleaf_tree::Opening;

use super::{Logging, Parameters, open};

/// The smallest sizes: every few operations split a node, empty one, take or give back a group.
pub(super) const TINY: Parameters =
    Parameters { slots: 4, group_bytes: 4096, logging: Logging::WholeNodes };

pub(super) const BOTH: [Logging; 2] = [Logging::WholeNodes, Logging::Ranges];

impl TestedTree<U64Keys> for Parameters {
    fn format(self) -> Format {
        Format { engine: "lcbtree".into(), key_type: KeyType::U64, parameters: self.pack() }
    }

    fn open<M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        _: Opening,
    ) -> Result<Box<dyn Index<U64Keys>>, IndexError> {
        open(pool)
    }
}
