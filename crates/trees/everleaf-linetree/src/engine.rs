//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::LineTree;
use super::own::OwnRecords;
use everleaf_tree::inner_nodes::{CAPACITIES, DEFAULT_CAPACITY};
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{
    Choice, EngineParameters, GROUP_UNIT, ONE_RECORD, Offer, Parameters,
};
use everleaf_tree::{Opening, TreeFamily};

/// Slots that a leaf may have: four to a line.
const SLOTS: &[u64] = &[8, 24, 60];

/// Sizes of leaves and inner nodes, and bytes that are taken from the pool at a time.
pub static OFFER: Offer = Offer {
    tuned: Parameters {
        leaf_slots: 60,
        inner_keys: DEFAULT_CAPACITY,
        value_words: 1,
        group_bytes: 256 << 10,
    },
    leaf_slots: Choice::OneOf(SLOTS),
    inner_keys: Choice::OneOf(CAPACITIES),
    value_words: Choice::OneOf(&[1]),
    group_bytes: Choice::Groups(GROUP_UNIT),
};

/// Parameters of the tree.
pub const PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS, EngineParameters::GROUP_BYTES];

/// The tree of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant;

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        &OFFER
    }

    fn one_record(self) -> bool {
        true
    }

    fn open<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open(pool, opening)
    }
}

/// Opens the tree in a pool whose format has its sizes; makes an empty tree in a
/// fresh pool, where a crash on the way leaves an empty tree or none.
///
/// # Errors
/// [`IndexError::Parameter`] if the pool's parameters are not on offer, [`IndexError::Corrupt`] or
/// [`IndexError::Pool`] if damage is met, or if a fresh pool has no room for a group of leaves.
///
/// # Examples
/// ```
/// use everleaf_index::{Index, U64Keys};
/// use everleaf_pmem::{Cpu, Mapped, Region};
/// use everleaf_pool::{Format, KeyType, Pool, Shutdown};
/// use everleaf_linetree::{OFFER, open};
///
/// let parameters = OFFER.pack(OFFER.tuned);
/// let format = Format { engine: "linetree".into(), key_type: KeyType::U64, parameters };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
/// let tree = open::<U64Keys, _>(&pool, Shutdown::Clean.into())?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.update(7, 71)?, Some(70));
/// assert_eq!(tree.get(7)?, Some(71));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    opening: Opening,
) -> Result<Box<dyn Index<K>>, IndexError> {
    let parameters = OFFER.unpack(pool.format().parameters)?;
    match parameters.leaf_slots {
        8 => open_lines::<K, M, 2>(pool, parameters, opening),
        24 => open_lines::<K, M, 6>(pool, parameters, opening),
        _ => open_lines::<K, M, 15>(pool, parameters, opening),
    }
}

/// With so many lines of entries in a leaf.
fn open_lines<K: TreeKey, M: Media, const LINES: usize>(
    pool: &Arc<Pool<M>>,
    parameters: Parameters,
    opening: Opening,
) -> Result<Box<dyn Index<K>>, IndexError> {
    let tree = LineTree::<K, M, LINES>::open(pool, parameters, opening)?;
    match K::RECORDS && pool.format().parameters[ONE_RECORD] == 0 {
        true => Ok(Box::new(OwnRecords::over(tree)?)),
        false => Ok(Box::new(tree)),
    }
}
