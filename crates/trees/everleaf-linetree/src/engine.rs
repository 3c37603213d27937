//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;

use everleaf_index::{Index, IndexError, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Format, KeyType, Pool};

use super::LineTree;
use super::own_records::OwnRecords;
use everleaf_tree::inner_nodes::{CAPACITIES, DEFAULT_CAPACITY};
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{
    Choice, EngineParameters, GROUP_UNIT, ONE_RECORD, Offer, Parameters,
};
use everleaf_tree::{EngineCode, EngineEntry, Opening, TreeFamily, engine_code, engine_entry};

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

/// Line tree: entries that commit themselves within their line; for many writers.
pub static LINETREE: EngineEntry = engine_entry!(Variant, {
    name: "linetree",
    parameters: PARAMETERS,
    concurrent: true,
    min_leaf_slots: 8,
    one_record: true,
});

/// The tree of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant;

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        &OFFER
    }
}

/// The engines that a user would choose.
pub const fn engines<M: Media>() -> [EngineCode<M>; 1] {
    [engine_code!(LINETREE, check_for_stores, open_lines::<_, M, 15>)]
}

/// The code of the product's engines on its media, compiled here and nowhere else.
#[cfg(not(test))] // The tests have other media.
pub static SHIPPED: [EngineCode<everleaf_pmem::Mapped>; 1] = engines();

/// Trees with smaller leaves, and trees that own the records of their keys: for the laboratory.
pub const fn laboratory<M: Media>() -> [EngineCode<M>; 3] {
    [
        engine_code!(LINETREE, |format| check(format, &[8]), open_any::<_, M, 2>),
        engine_code!(LINETREE, |format| check(format, &[24]), open_any::<_, M, 6>),
        engine_code!(LINETREE, |format| check(format, &[60]), open_any::<_, M, 15>),
    ]
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
/// use everleaf_index::{Contract, Index, U64Keys};
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
) -> Result<Box<dyn Index<K>>> {
    match OFFER.unpack(pool.format().parameters)?.leaf_slots {
        8 => open_any::<K, M, 2>(pool, opening),
        24 => open_any::<K, M, 6>(pool, opening),
        _ => open_any::<K, M, 15>(pool, opening),
    }
}

/// Refuses a format whose leaves have other slots than these.
fn check(format: &Format, slots: &'static [u64]) -> Result<()> {
    let sizes = OFFER.unpack(format.parameters)?;
    Offer { leaf_slots: Choice::OneOf(slots), ..OFFER }.check(sizes)
}

/// Refuses leaves of other sizes than the tuned one, and byte strings whose records are not a
/// store's.
fn check_for_stores(format: &Format) -> Result<()> {
    check(format, &[60])?;
    match owns_records(format) {
        true => Err(IndexError::Parameter {
            parameter: "one_record",
            value: 0,
            offered: "1".to_owned(),
        }),
        false => Ok(()),
    }
}

/// Whether the tree owns the records of its keys.
fn owns_records(format: &Format) -> bool {
    format.key_type == KeyType::Bytes && format.parameters[ONE_RECORD] == 0
}

/// With so many lines of entries in a leaf.
fn open_lines<K: TreeKey, M: Media, const LINES: usize>(
    pool: &Arc<Pool<M>>,
    opening: Opening,
) -> Result<Box<dyn Index<K>>> {
    let parameters = OFFER.unpack(pool.format().parameters)?;
    Ok(Box::new(LineTree::<K, M, LINES>::open(pool, parameters, opening)?))
}

/// The same, with or without records of its own.
fn open_any<K: TreeKey, M: Media, const LINES: usize>(
    pool: &Arc<Pool<M>>,
    opening: Opening,
) -> Result<Box<dyn Index<K>>> {
    if !owns_records(pool.format()) {
        return open_lines::<K, M, LINES>(pool, opening);
    }
    let parameters = OFFER.unpack(pool.format().parameters)?;
    let tree = LineTree::<K, M, LINES>::open(pool, parameters, opening)?;
    Ok(Box::new(OwnRecords::over(tree)?))
}
