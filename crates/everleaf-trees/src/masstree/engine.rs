//! What the table of engines has of this family.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};

use super::layout::{DURABLE_WIDTH, WIDTH};
use super::parameters::{Parameters, create, open};
use crate::engine::{EngineParameters, Needs, Opening, TreeFamily};
use crate::support::key::TreeKey;

/// Parameters of all of them.
pub const PARAMETERS: &[&str] = &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS];

/// An engine of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// In DRAM: nothing of it is there after a crash, or when it is opened again.
    Transient,
    /// Durable at the ends of epochs.
    Durable,
    /// The same without undo words in nodes: all that changes goes to the external log.
    Logging,
}

/// What must be so that its barriers can be executed.
pub const NEEDS: &[(&str, Needs)] = &[
    ("masstree.recover.R1", Needs::ManyEpochs),
    ("masstree.forget", Needs::ManyEpochs),
    ("masstree.recover.R2.record", Needs::BytesKeys),
    ("masstree.undo.V", Needs::BytesKeys),
];

/// The same where the log alone undoes: only a node that was recovered in an epoch has undo words
/// in it.
pub const NEEDS_LOGGING: &[(&str, Needs)] = &[
    ("masstree.recover.R1", Needs::OtherEngine),
    ("masstree.undo.U1", Needs::OtherEngine),
    ("masstree.undo.U2", Needs::OtherEngine),
    ("masstree.forget", Needs::ManyEpochs),
    ("masstree.recover.R2.record", Needs::BytesKeys),
    ("masstree.undo.V", Needs::BytesKeys),
];

impl Variant {
    /// Entries that a border node has room for.
    const fn width(self) -> u64 {
        match self {
            Self::Transient => WIDTH as u64,
            Self::Durable | Self::Logging => DURABLE_WIDTH as u64,
        }
    }
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
            leaf_slots: chosen.leaf_slots.map_or(self.width(), u64::from),
            inner_keys: chosen.inner_keys.map_or(tuned.inner_keys, u64::from),
            logs_in_line: self != Self::Logging,
        };
        parameters.validate(self.width())?;
        Ok(parameters.pack())
    }

    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters, IndexError> {
        let sizes = Parameters::unpack(packed)?;
        sizes.validate(self.width())?;
        let parameters = EngineParameters::default().leaf_slots(sizes.leaf_slots as u32);
        Ok(parameters.inner_keys(sizes.inner_keys as u32))
    }

    fn open<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        match self {
            Self::Transient => create(pool),
            Self::Durable | Self::Logging => open(pool, opening.shutdown == Shutdown::Crash),
        }
    }
}
