//! Sizes on offer, and the trees that have them.

use std::sync::Arc;

use everleaf_index::{Index, IndexError, Serialized};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};

use super::concurrent::ConcurrentFpTree;
use super::inner::{CAPACITIES, DEFAULT_CAPACITY};
use super::layout::{Fixed, Flexible, MAX_VALUE_WORDS, Shape};
use super::serial::FpTree;
use crate::engine::Opening;
use crate::support::key::TreeKey;

/// Slots that a leaf may have.
const SLOTS: &[u64] = &[4, 8, 16, 32, 48, 56];
/// The unit in which the pool gives memory for groups of leaves.
pub(super) const GROUP_UNIT: u64 = 4096;
/// The largest group.
const MAX_GROUP_BYTES: u64 = 1 << 30;

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

/// Sizes, fixed when the pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Entries in a leaf: 4, 8, 16, 32, 48 or 56.
    pub leaf_slots: u64,
    /// Children of an inner node: 4, 32, 64, 128 or 4096.
    pub inner_keys: u64,
    /// Words in a value: 1 to 14.
    pub value_words: u64,
    /// Bytes that are taken from the pool at a time: a multiple of 4096 up to 1 GiB; 0: a leaf at a
    /// time (always so in the concurrent tree, where a common stock of leaves would be what threads
    /// wait for).
    pub group_bytes: u64,
}

impl Parameters {
    /// The tuned sizes. The paper's: 4096 children an inner node.
    pub const fn defaults(variant: Variant) -> Self {
        let leaf_slots = match variant {
            Variant::FpTree | Variant::Concurrent => 56,
            Variant::PTree => 32,
        };
        let group_bytes = match variant {
            Variant::FpTree | Variant::PTree => 256 << 10,
            Variant::Concurrent => 0,
        };
        Self { leaf_slots, inner_keys: DEFAULT_CAPACITY, value_words: 1, group_bytes }
    }

    /// As they stand in the header of a pool.
    pub const fn pack(self) -> [u64; 8] {
        [self.leaf_slots, self.inner_keys, self.value_words, self.group_bytes, 0, 0, 0, 0]
    }

    /// From the header of a pool.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] for what is not on offer.
    pub fn unpack(packed: [u64; 8]) -> Result<Self, IndexError> {
        let [leaf_slots, inner_keys, value_words, group_bytes, ..] = packed;
        let parameters = Self { leaf_slots, inner_keys, value_words, group_bytes };
        parameters.validate()?;
        Ok(parameters)
    }

    /// Whether the sizes are on offer.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] names the first that is not.
    pub fn validate(self) -> Result<(), IndexError> {
        let refuse = |parameter, value, offered: String| {
            Err(IndexError::Parameter { parameter, value, offered })
        };
        if !SLOTS.contains(&self.leaf_slots) {
            return refuse("leaf_slots", self.leaf_slots, format!("{SLOTS:?}"));
        }
        if !CAPACITIES.contains(&self.inner_keys) {
            return refuse("inner_keys", self.inner_keys, format!("{CAPACITIES:?}"));
        }
        if !(1..=MAX_VALUE_WORDS as u64).contains(&self.value_words) {
            return refuse("value_words", self.value_words, format!("1 to {MAX_VALUE_WORDS}"));
        }
        let whole = self.group_bytes.is_multiple_of(GROUP_UNIT);
        if !whole || self.group_bytes > MAX_GROUP_BYTES {
            return refuse(
                "group_bytes",
                self.group_bytes,
                format!("the multiples of {GROUP_UNIT} up to {MAX_GROUP_BYTES}"),
            );
        }
        Ok(())
    }
}

/// Makes an empty tree in a fresh pool whose format has its [`Parameters`]. A crash on the way
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
/// use everleaf_pmem::{Cpu, Hardware, Region};
/// use everleaf_pool::{Format, KeyType, Pool, Shutdown};
/// use everleaf_trees::fptree::{Parameters, Variant, create};
///
/// let parameters = Parameters { group_bytes: 4096, ..Parameters::defaults(Variant::FpTree) };
/// let format = Format {
///     engine: "fptree".into(),
///     key_type: KeyType::U64,
///     parameters: parameters.pack(),
/// };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Hardware::new(region, &Cpu::detect())?, &format)?;
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
    let parameters = Parameters::unpack(pool.format().parameters)?;
    let (slots, words) = (parameters.leaf_slots as usize, parameters.value_words as usize);
    let offered = || IndexError::Parameter {
        parameter: "leaf_slots",
        value: parameters.leaf_slots,
        offered: format!("{SLOTS:?}"),
    };
    // The default sizes are compiled in; every other one is a value, which costs a multiplication
    // an access.
    match (variant, slots, words) {
        (Variant::FpTree, 56, 1) => open_shape(pool, Fixed::<true, 56, 1>, parameters, opening),
        (Variant::Concurrent, 56, 1) => {
            open_concurrent(pool, Fixed::<true, 56, 1>, parameters, opening)
        }
        (Variant::Concurrent, ..) => open_concurrent(
            pool,
            Flexible::<true>::new(slots, words).ok_or_else(offered)?,
            parameters,
            opening,
        ),
        (Variant::PTree, 32, 1) => open_shape(pool, Fixed::<false, 32, 1>, parameters, opening),
        (Variant::FpTree, ..) => open_shape(
            pool,
            Flexible::<true>::new(slots, words).ok_or_else(offered)?,
            parameters,
            opening,
        ),
        (Variant::PTree, ..) => open_shape(
            pool,
            Flexible::<false>::new(slots, words).ok_or_else(offered)?,
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
    let Opening { shutdown, threads, .. } = opening;
    let tree = FpTree::<K, M, S>::open(
        pool,
        shape,
        parameters.inner_keys,
        parameters.group_bytes,
        shutdown,
        threads,
    )?;
    Ok(Box::new(Serialized::new(tree)))
}

fn open_concurrent<K: TreeKey, M: Media, S: Shape>(
    pool: &Arc<Pool<M>>,
    shape: S,
    parameters: Parameters,
    opening: Opening,
) -> Result<Box<dyn Index<K>>, IndexError> {
    Ok(Box::new(ConcurrentFpTree::<K, M, S>::open(pool, shape, parameters.inner_keys, opening)?))
}
