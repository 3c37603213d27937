//! Sizes on offer, and the trees that have them.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};

use super::SortedTree;
use super::layout::{DEFAULT_SLOTS, Discipline, SLOTS, Shape};
use super::shifted;
use crate::support::key::TreeKey;

/// How nodes are searched and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Rings: searched by halves, in the one contiguous part that can hold the key
    /// ([`ring`](super::ring)).
    CircTree,
    /// Rings: searched from the first entry on.
    Linear,
    /// Rings whose first entry stays where it is: the volatile twin of an ordinary B+-tree.
    Array,
    /// Shifted arrays with a terminator ([`shifted`](super::shifted)).
    FastFair,
}

/// Sizes, fixed when the pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Entries in a node: 4, 8, 16, 32, 64, 128 or 256, of 16 bytes each. The paper's: 32 to 256.
    pub node_slots: u64,
}

impl Default for Parameters {
    /// The tuned size.
    fn default() -> Self {
        Self { node_slots: DEFAULT_SLOTS }
    }
}

impl Parameters {
    /// As they stand in the header of a pool.
    pub const fn pack(self) -> [u64; 8] {
        [self.node_slots, 0, 0, 0, 0, 0, 0, 0]
    }

    /// From the header of a pool.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] for what is not on offer.
    pub fn unpack(packed: [u64; 8]) -> Result<Self, IndexError> {
        let parameters = Self { node_slots: packed[0] };
        parameters.validate()?;
        Ok(parameters)
    }

    /// Whether the sizes are on offer.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] names the first that is not.
    pub fn validate(self) -> Result<(), IndexError> {
        if SLOTS.contains(&self.node_slots) {
            return Ok(());
        }
        Err(IndexError::Parameter {
            parameter: "leaf_slots",
            value: self.node_slots,
            offered: format!("{SLOTS:?}"),
        })
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

/// Opens the tree in a pool, left by `shutdown`. After a clean shutdown this takes the same time
/// for every size.
///
/// # Errors
/// [`IndexError::Parameter`] if the pool's parameters are not on offer, [`IndexError::Corrupt`] or
/// [`IndexError::Pool`] if damage is met, or if a fresh pool has no room for a node.
///
/// # Examples
/// ```
/// use everleaf_index::{Index, U64Keys};
/// use everleaf_pmem::{Cpu, Hardware, Region};
/// use everleaf_pool::{Format, KeyType, Pool, Shutdown};
/// use everleaf_trees::sorted::{Parameters, Variant, create};
///
/// let format = Format {
///     engine: "circtree".into(),
///     key_type: KeyType::U64,
///     parameters: Parameters::default().pack(),
/// };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Hardware::new(region, &Cpu::detect())?, &format)?;
/// let tree = create::<U64Keys, _>(&pool, Variant::CircTree)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.get(7)?, Some(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
    shutdown: Shutdown,
) -> Result<Box<dyn Index<K>>, IndexError> {
    let parameters = Parameters::unpack(pool.format().parameters)?;
    let discipline = match variant {
        Variant::CircTree | Variant::Linear => Discipline::Ring,
        Variant::Array => Discipline::Array,
        Variant::FastFair => shifted::begin_session(pool)?,
    };
    let shape = Shape { slots: parameters.node_slots as usize, discipline };
    Ok(Box::new(SortedTree::<K, M>::open(pool, shape, variant == Variant::Linear, shutdown)?))
}
