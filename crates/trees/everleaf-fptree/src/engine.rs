//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;

use everleaf_index::{Index, IndexError, Serialized};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};

use super::concurrent::ConcurrentFpTree;
use super::layout::{Fixed, Flexible, MAX_VALUE_WORDS, Shape};
use super::serial::FpTree;
use everleaf_tree::inner_nodes::{CAPACITIES, DEFAULT_CAPACITY};
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{
    Choice, EngineParameters, GROUP_UNIT, ONE_RECORD, Offer, Parameters,
};
use everleaf_tree::{Opening, TreeFamily};

/// Slots that a leaf may have.
const SLOTS: &[u64] = &[4, 8, 16, 32, 48, 56];

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

static FPTREE: Offer = Offer {
    tuned: SERIAL,
    leaf_slots: Choice::OneOf(SLOTS),
    inner_keys: Choice::OneOf(CAPACITIES),
    value_words: Choice::From(1, MAX_VALUE_WORDS as u64),
    group_bytes: Choice::Groups(GROUP_UNIT),
};
static PTREE: Offer = Offer { tuned: Parameters { leaf_slots: 32, ..SERIAL }, ..FPTREE };
/// A leaf at a time: a common stock of leaves would be what threads wait for.
static CONCURRENT: Offer =
    Offer { tuned: Parameters { group_bytes: 0, ..SERIAL }, group_bytes: Choice::Tuned, ..FPTREE };

/// The sizes that a tree has on offer.
pub fn offer(variant: Variant) -> &'static Offer {
    match variant {
        Variant::FpTree => &FPTREE,
        Variant::PTree => &PTREE,
        Variant::Concurrent => &CONCURRENT,
    }
}

/// Parameters of the trees for one thread at a time.
pub const PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS, EngineParameters::GROUP_BYTES];

/// Parameters of the concurrent tree, which has no leaf groups.
pub const CONCURRENT_PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS];

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        offer(self)
    }

    fn one_record(self) -> bool {
        true
    }

    fn open<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        open_with(pool, self, opening)
    }
}

/// Makes an empty tree in a fresh pool whose format has its sizes. A crash on the way
/// leaves an empty tree or none, and [`open`] makes one of either.
///
/// # Errors
/// As [`open`].
pub fn create<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
) -> Result<Box<dyn Index<K>>, IndexError> {
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
) -> Result<Box<dyn Index<K>>, IndexError> {
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
) -> Result<Box<dyn Index<K>>, IndexError> {
    let parameters = offer(variant).unpack(pool.format().parameters)?;
    let (slots, words) = (parameters.leaf_slots as usize, parameters.value_words as usize);
    let one_record = K::RECORDS && pool.format().parameters[ONE_RECORD] == 1;
    let offered = || IndexError::Parameter {
        parameter: "leaf_slots",
        value: parameters.leaf_slots,
        offered: format!("{SLOTS:?}"),
    };
    // The default sizes are compiled in; every other one is a value, which costs a multiplication
    // an access.
    match (variant, slots, words) {
        (Variant::FpTree, 56, 1) => {
            open_shape(pool, Fixed::<true, 56, 1> { one_record }, parameters, opening)
        }
        (Variant::Concurrent, 56, 1) => {
            open_concurrent(pool, Fixed::<true, 56, 1> { one_record }, parameters, opening)
        }
        (Variant::Concurrent, ..) => open_concurrent(
            pool,
            Flexible::<true>::new(slots, words, one_record).ok_or_else(offered)?,
            parameters,
            opening,
        ),
        (Variant::PTree, 32, 1) => {
            open_shape(pool, Fixed::<false, 32, 1> { one_record }, parameters, opening)
        }
        (Variant::FpTree, ..) => open_shape(
            pool,
            Flexible::<true>::new(slots, words, one_record).ok_or_else(offered)?,
            parameters,
            opening,
        ),
        (Variant::PTree, ..) => open_shape(
            pool,
            Flexible::<false>::new(slots, words, one_record).ok_or_else(offered)?,
            parameters,
            opening,
        ),
    }
}

fn open_shape<K: TreeKey, M: Media, S: Shape>(
    pool: &Arc<Pool<M>>,
    shape: S,
    parameters: Parameters,
    opening: Opening,
) -> Result<Box<dyn Index<K>>, IndexError> {
    let tree = FpTree::<K, M, S>::open(pool, shape, parameters, opening)?;
    Ok(Box::new(Serialized::new(tree)))
}

fn open_concurrent<K: TreeKey, M: Media, S: Shape>(
    pool: &Arc<Pool<M>>,
    shape: S,
    parameters: Parameters,
    opening: Opening,
) -> Result<Box<dyn Index<K>>, IndexError> {
    Ok(Box::new(ConcurrentFpTree::<K, M, S>::open(pool, shape, parameters, opening)?))
}
