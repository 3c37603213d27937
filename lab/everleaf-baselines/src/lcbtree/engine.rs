//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;

use everleaf_index::{Index, IndexError, Result, Serialized};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::LcbTree;
use super::layout::Shape;
pub use super::redo::Logging;
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{Choice, EngineParameters, GROUP_UNIT, Offer, Parameters as Sizes};
use everleaf_tree::{EngineCode, EngineEntry, TreeFamily, engine_code, engine_entry};

/// Slots that a node may have: 21, 42, 85 and 170 are 512 bytes to 4 KiB of elements of 24 bytes.
const SLOTS: &[u64] = &[4, 8, 16, 21, 32, 42, 64, 85, 128, 170, 256, 1024];

/// Elements in an array of so many bytes, each with a mark, a key and a value.
pub(crate) const fn slots_of(bytes: u32) -> u32 {
    bytes / 24
}

/// Elements of a node, and bytes that are taken from the pool at a time: those of NV-Tree.
pub static OFFER: Offer = Offer {
    tuned: Sizes { leaf_slots: 32, inner_keys: 0, value_words: 1, group_bytes: 256 << 10 },
    leaf_slots: Choice::OneOf(SLOTS),
    inner_keys: Choice::Tuned,
    value_words: Choice::OneOf(&[1]),
    group_bytes: Choice::Groups(GROUP_UNIT),
};

/// The word of the header behind those of the sizes.
const LOG_RANGES: usize = 4;

/// Parameters of the tree.
pub const PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::GROUP_BYTES, EngineParameters::LOG_RANGES];

/// Sizes and the kind of log, fixed when the pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Elements of a node.
    pub slots: u64,
    /// Bytes that are taken from the pool at a time: a multiple of 4096 up to 1 GiB.
    pub group_bytes: u64,
    /// What the log has of a node that changes.
    pub logging: Logging,
}

impl Default for Parameters {
    fn default() -> Self {
        let Sizes { leaf_slots, group_bytes, .. } = OFFER.tuned;
        Self { slots: leaf_slots, group_bytes, logging: Logging::WholeNodes }
    }
}

impl Parameters {
    /// As they stand in the header of a pool. Values have one word.
    pub fn pack(self) -> [u64; 8] {
        let Self { slots, group_bytes, logging } = self;
        let mut words = OFFER.pack(Sizes { leaf_slots: slots, group_bytes, ..OFFER.tuned });
        words[LOG_RANGES] = (logging == Logging::Ranges).into();
        words
    }

    /// From the header of a pool.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] for what is not on offer.
    pub fn unpack(packed: [u64; 8]) -> Result<Self> {
        let Sizes { leaf_slots, group_bytes, .. } = OFFER.unpack(packed)?;
        let logging = match packed[LOG_RANGES] {
            0 => Logging::WholeNodes,
            1 => Logging::Ranges,
            value => {
                let (parameter, offered) = ("log_ranges", "0, 1".to_owned());
                return Err(IndexError::Parameter { parameter, value, offered });
            }
        };
        Ok(Self { slots: leaf_slots, group_bytes, logging })
    }
}

/// The tree of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant;

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        &OFFER
    }

    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8]> {
        let Sizes { leaf_slots: slots, group_bytes, .. } = OFFER.choose(chosen, value_words)?;
        let logging = if chosen.log_ranges { Logging::Ranges } else { Logging::WholeNodes };
        Ok(Parameters { slots, group_bytes, logging }.pack())
    }

    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters> {
        let logging = Parameters::unpack(packed)?.logging;
        Ok(OFFER.shown(OFFER.unpack(packed)?).log_ranges(logging == Logging::Ranges))
    }
}

/// LCB+Tree: an ordinary B+-tree in persistent memory with a redo log: `u64` keys only.
pub static LCBTREE: EngineEntry = engine_entry!(Variant, {
    name: "lcbtree",
    parameters: PARAMETERS,
    bytes_keys: false,
    slots_of_bytes: slots_of,
});

/// The code of the family, for all sizes.
pub const fn engines<M: Media>() -> [EngineCode<M>; 1] {
    [engine_code!(
        LCBTREE,
        |format| Variant.unpack(format.parameters).map(drop),
        |pool, _| open(pool),
        u64
    )]
}

/// Opens the tree in a pool of `u64` keys whose format has its [`Parameters`]; makes an empty tree
/// in a fresh pool, where a crash on the way leaves an empty tree or none. How the pool was left
/// makes no difference: the last operation is always done again.
///
/// # Errors
/// [`IndexError::Parameter`] if the pool's parameters are not on offer, [`IndexError::Corrupt`] or
/// [`IndexError::Pool`] if damage is met, or if a fresh pool has no room for the log and a group of
/// nodes.
///
/// # Examples
/// ```
/// use everleaf_index::{Contract, Index, U64Keys};
/// use everleaf_pmem::{Cpu, Mapped, Region};
/// use everleaf_pool::{Format, KeyType, Pool};
/// use everleaf_baselines::lcbtree::{Logging, Parameters, open};
///
/// let parameters =
///     Parameters { group_bytes: 4096, logging: Logging::Ranges, ..Parameters::default() };
/// let format = Format {
///     engine: "lcbtree".into(),
///     key_type: KeyType::U64,
///     parameters: parameters.pack(),
/// };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
/// let tree = open::<U64Keys, _>(&pool)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.update(7, 71)?, Some(70));
/// assert_eq!(tree.get(7)?, Some(71));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(pool: &Arc<Pool<M>>) -> Result<Box<dyn Index<K>>> {
    let parameters = Parameters::unpack(pool.format().parameters)?;
    let shape = Shape::new(parameters.slots).ok_or_else(|| IndexError::Parameter {
        parameter: "leaf_slots",
        value: parameters.slots,
        offered: format!("{SLOTS:?}"),
    })?;
    Ok(Box::new(Serialized::new(LcbTree::<K, M>::open(pool, shape, parameters)?)))
}
