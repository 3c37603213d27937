//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;

use everleaf_index::{Index, IndexError, Result, Serialized};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::CddsTree;
use super::layout::Shape;
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{Choice, EngineParameters, GROUP_UNIT, Offer, Parameters as Sizes};
use everleaf_tree::{EngineCode, EngineEntry, TreeFamily, engine_code, engine_entry};

/// Slots that a node may have: 16 to 128 are 512 bytes to 4 KiB of entries of 32 bytes.
const SLOTS: &[u64] = &[4, 8, 16, 32, 64, 128, 256];

/// Entries in an array of so many bytes, each with a key, two versions and a value.
pub(crate) const fn slots_of(bytes: u32) -> u32 {
    bytes / 32
}

/// Slots of a node, and bytes that are taken from the pool at a time: those of the trees that it is
/// compared with.
pub static OFFER: Offer = Offer {
    tuned: Sizes { leaf_slots: 32, inner_keys: 0, value_words: 1, group_bytes: 256 << 10 },
    leaf_slots: Choice::OneOf(SLOTS),
    inner_keys: Choice::Tuned,
    value_words: Choice::OneOf(&[1]),
    group_bytes: Choice::Groups(GROUP_UNIT),
};

/// Parameters of the tree.
pub const PARAMETERS: &[&str] = &[EngineParameters::LEAF_SLOTS, EngineParameters::GROUP_BYTES];

/// Sizes, fixed when the pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Slots of a node.
    pub slots: u64,
    /// Bytes that are taken from the pool at a time: a multiple of 4096 up to 1 GiB.
    pub group_bytes: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        let Sizes { leaf_slots, group_bytes, .. } = OFFER.tuned;
        Self { slots: leaf_slots, group_bytes }
    }
}

impl Parameters {
    /// As they stand in the header of a pool. Values have one word.
    pub fn pack(self) -> [u64; 8] {
        let Self { slots, group_bytes } = self;
        OFFER.pack(Sizes { leaf_slots: slots, group_bytes, ..OFFER.tuned })
    }
}

/// The tree of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant;

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        &OFFER
    }
}

/// CDDS B-tree: a sorted B+-tree in persistent memory whose entries have versions: `u64`
/// keys only.
pub static CDDS: EngineEntry = engine_entry!(Variant, {
    name: "cdds",
    parameters: PARAMETERS,
    bytes_keys: false,
    slots_of_bytes: slots_of,
});

/// The code of the family, for all sizes.
pub const fn engines<M: Media>() -> [EngineCode<M>; 1] {
    [engine_code!(
        CDDS,
        |format| Variant.unpack(format.parameters).map(drop),
        |pool, _| open(pool),
        u64
    )]
}

/// Opens the tree in a pool of `u64` keys whose format has its [`Parameters`]; makes an empty tree
/// in a fresh pool, where a crash on the way leaves an empty tree or none. How the pool was left
/// makes no difference: all entries are looked at.
///
/// # Errors
/// [`IndexError::Parameter`] if the pool's parameters are not on offer, [`IndexError::Corrupt`] or
/// [`IndexError::Pool`] if damage is met, or if a fresh pool has no room for a group of nodes.
///
/// # Examples
/// ```
/// use everleaf_index::{Contract, Index, U64Keys};
/// use everleaf_pmem::{Cpu, Mapped, Region};
/// use everleaf_pool::{Format, KeyType, Pool};
/// use everleaf_baselines::cdds::{Parameters, open};
///
/// let parameters = Parameters { group_bytes: 4096, ..Parameters::default() };
/// let format =
///     Format { engine: "cdds".into(), key_type: KeyType::U64, parameters: parameters.pack() };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
/// let tree = open::<U64Keys, _>(&pool)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.update(7, 71)?, Some(70));
/// assert_eq!(tree.get(7)?, Some(71));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(pool: &Arc<Pool<M>>) -> Result<Box<dyn Index<K>>> {
    let Sizes { leaf_slots, group_bytes, .. } = OFFER.unpack(pool.format().parameters)?;
    let shape = Shape::new(leaf_slots).ok_or_else(|| IndexError::Parameter {
        parameter: "leaf_slots",
        value: leaf_slots,
        offered: format!("{SLOTS:?}"),
    })?;
    Ok(Box::new(Serialized::new(CddsTree::<K, M>::open(pool, shape, group_bytes)?)))
}
