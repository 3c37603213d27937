//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;

use everleaf_index::{Index, IndexError, Result, Serialized};
use everleaf_pmem::Media;
use everleaf_pool::{Format, KeyType, Pool, Shutdown};

use super::concurrent::ConcurrentFpTree;
use super::layout::{Fixed, Flexible, MAX_VALUE_WORDS, SLOTS, Shape};
use super::serial::FpTree;
use everleaf_tree::inner_nodes::{CAPACITIES, DEFAULT_CAPACITY};
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{
    Choice, EngineParameters, GROUP_UNIT, ONE_RECORD, Offer, Parameters,
};
use everleaf_tree::{EngineCode, EngineEntry, Opening, TreeFamily};
use everleaf_tree::{engine_code, engine_entry};

/// Which tree of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// With fingerprints.
    FpTree,
    /// Without fingerprints, keys and values apart.
    PTree,
    /// With fingerprints, for many threads.
    Concurrent,
}

/// The tuned sizes of the serial trees. The paper's: 4096 children an inner node.
const SERIAL: Parameters = Parameters {
    leaf_slots: 56,
    inner_keys: DEFAULT_CAPACITY,
    value_words: 1,
    group_bytes: 256 << 10,
};

static FPTREE_OFFER: Offer = Offer {
    tuned: SERIAL,
    leaf_slots: Choice::OneOf(SLOTS),
    inner_keys: Choice::OneOf(CAPACITIES),
    value_words: Choice::From(1, MAX_VALUE_WORDS as u64),
    group_bytes: Choice::Groups(GROUP_UNIT),
};
static PTREE_OFFER: Offer =
    Offer { tuned: Parameters { leaf_slots: 32, ..SERIAL }, ..FPTREE_OFFER };
/// A leaf at a time: a common stock of leaves would be what threads wait for.
static CONCURRENT_OFFER: Offer = Offer {
    tuned: Parameters { group_bytes: 0, ..SERIAL },
    group_bytes: Choice::Tuned,
    ..FPTREE_OFFER
};

/// The sizes that a tree has on offer.
pub fn offer(variant: Variant) -> &'static Offer {
    match variant {
        Variant::FpTree => &FPTREE_OFFER,
        Variant::PTree => &PTREE_OFFER,
        Variant::Concurrent => &CONCURRENT_OFFER,
    }
}

/// Parameters of the trees for one thread at a time.
pub const PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS, EngineParameters::GROUP_BYTES];

/// Parameters of the concurrent tree, which has no leaf groups.
pub const CONCURRENT_PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS];

/// FPTree: leaves in persistent memory with fingerprints, inner nodes in DRAM; one writer at a
/// time.
pub static FPTREE: EngineEntry = engine_entry!(Variant::FpTree, {
    name: "fptree",
    parameters: PARAMETERS,
    max_value_words: 14,
    one_record: true,
});

/// FPTree for many writers (selective concurrency).
pub static FPTREE_C: EngineEntry = engine_entry!(Variant::Concurrent, {
    name: "fptree-c",
    parameters: CONCURRENT_PARAMETERS,
    concurrent: true,
    max_value_words: 14,
    one_record: true,
});

/// PTree: FPTree without fingerprints, keys and values apart.
pub static PTREE: EngineEntry = engine_entry!(Variant::PTree, {
    name: "ptree",
    parameters: PARAMETERS,
    max_value_words: 14,
    one_record: true,
});

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        offer(self)
    }
}

/// FPTree: fingerprints, keys beside their values, 56 entries of one word.
type Tuned = Fixed<true, 56, 1>;
/// PTree: 32 entries of one word.
type TunedPTree = Fixed<false, 32, 1>;

/// The engines that a user would choose.
pub const fn engines<M: Media>() -> [EngineCode<M>; 2] {
    [
        engine_code!(
            FPTREE,
            |format| check::<Tuned>(format, &FPTREE_OFFER),
            open_serial::<_, M, Tuned>
        ),
        engine_code!(
            FPTREE_C,
            |format| check::<Tuned>(format, &CONCURRENT_OFFER),
            open_concurrent::<_, M, Tuned>
        ),
    ]
}

/// The code of the product's engines on its media, compiled here and nowhere else.
#[cfg(not(test))] // The tests have other media.
pub static SHIPPED: [EngineCode<everleaf_pmem::Mapped>; 2] = engines();

/// The baseline, and trees whose leaves have other sizes, for the laboratory: as values, which cost
/// a multiplication an access.
pub const fn laboratory<M: Media>() -> [EngineCode<M>; 4] {
    [
        engine_code!(
            PTREE,
            |format| check::<TunedPTree>(format, &PTREE_OFFER),
            open_serial::<_, M, TunedPTree>
        ),
        engine_code!(
            PTREE,
            |format| check::<Flexible<false>>(format, &PTREE_OFFER),
            open_serial::<_, M, Flexible<false>>
        ),
        engine_code!(
            FPTREE,
            |format| check::<Flexible<true>>(format, &FPTREE_OFFER),
            open_serial::<_, M, Flexible<true>>
        ),
        engine_code!(
            FPTREE_C,
            |format| check::<Flexible<true>>(format, &CONCURRENT_OFFER),
            open_concurrent::<_, M, Flexible<true>>
        ),
    ]
}

/// Makes an empty tree in a fresh pool whose format has its sizes. A crash on the way
/// leaves an empty tree or none, and [`open`] makes one of either.
///
/// # Errors
/// As [`open`].
pub fn create<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
) -> Result<Box<dyn Index<K>>> {
    open(pool, variant, Shutdown::Clean)
}

/// Opens the tree in a pool, left by `shutdown`: ends what a crash cut, and builds the inner nodes.
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
/// use everleaf_fptree::{Parameters, Variant, create, offer};
///
/// let parameters = Parameters { group_bytes: 4096, ..offer(Variant::FpTree).tuned };
/// let format = Format {
///     engine: "fptree".into(),
///     key_type: KeyType::U64,
///     parameters: offer(Variant::FpTree).pack(parameters),
/// };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
/// let tree = create::<U64Keys, _>(&pool, Variant::FpTree)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.get(7)?, Some(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
    shutdown: Shutdown,
) -> Result<Box<dyn Index<K>>> {
    open_with(pool, variant, shutdown.into())
}

/// As [`open`], and [`create`] on a fresh pool, with everything that can be chosen.
///
/// # Errors
/// As [`open`].
pub fn open_with<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
    opening: Opening,
) -> Result<Box<dyn Index<K>>> {
    let tuned = check::<Tuned>(pool.format(), offer(variant)).is_ok();
    match variant {
        Variant::FpTree if tuned => open_serial::<K, M, Tuned>(pool, opening),
        Variant::FpTree => open_serial::<K, M, Flexible<true>>(pool, opening),
        Variant::Concurrent if tuned => open_concurrent::<K, M, Tuned>(pool, opening),
        Variant::Concurrent => open_concurrent::<K, M, Flexible<true>>(pool, opening),
        Variant::PTree if check::<TunedPTree>(pool.format(), &PTREE_OFFER).is_ok() => {
            open_serial::<K, M, TunedPTree>(pool, opening)
        }
        Variant::PTree => open_serial::<K, M, Flexible<false>>(pool, opening),
    }
}

/// Refuses a format whose leaves are of another shape.
fn check<S: Shape>(format: &Format, offer: &Offer) -> Result<()> {
    shape_of::<S>(format, offer).map(drop)
}

/// The shape of leaves that a format says, and all sizes.
fn shape_of<S: Shape>(format: &Format, offer: &Offer) -> Result<(S, Parameters)> {
    let sizes = offer.unpack(format.parameters)?;
    let (slots, words) = (sizes.leaf_slots as usize, sizes.value_words as usize);
    let one_record = format.key_type == KeyType::Bytes && format.parameters[ONE_RECORD] == 1;
    let shape = S::of(slots, words, one_record).ok_or_else(|| IndexError::Parameter {
        parameter: "leaf_slots",
        value: sizes.leaf_slots,
        offered: S::offered(),
    })?;
    Ok((shape, sizes))
}

fn open_serial<K: TreeKey, M: Media, S: Shape>(
    pool: &Arc<Pool<M>>,
    opening: Opening,
) -> Result<Box<dyn Index<K>>> {
    let (shape, sizes) = shape_of(pool.format(), &FPTREE_OFFER)?;
    let tree = FpTree::<K, M, S>::open(pool, shape, sizes, opening)?;
    Ok(Box::new(Serialized::new(tree)))
}

fn open_concurrent<K: TreeKey, M: Media, S: Shape>(
    pool: &Arc<Pool<M>>,
    opening: Opening,
) -> Result<Box<dyn Index<K>>> {
    let (shape, sizes) = shape_of(pool.format(), &CONCURRENT_OFFER)?;
    Ok(Box::new(ConcurrentFpTree::<K, M, S>::open(pool, shape, sizes, opening)?))
}
