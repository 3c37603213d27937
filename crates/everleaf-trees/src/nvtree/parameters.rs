//! Sizes on offer, and the trees that have them.

use std::sync::Arc;

use everleaf_index::{Index, IndexError, Serialized};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};

use super::NvTree;
use super::layout::{MAX_VALUE_WORDS, Shape};
use crate::support::key::TreeKey;

/// Slots that a leaf may have: 21, 42, 85 and 170 are 512 bytes to 4 KiB of elements of 24 bytes.
pub(super) const SLOTS: &[u64] = &[4, 8, 16, 21, 32, 42, 64, 85, 128, 170, 256, 1024];
/// Children that an inner node may have.
const FANOUTS: &[u64] = &[4, 8, 32, 64, 128, 256];
/// The unit in which the pool gives memory for groups of leaves.
pub(super) const GROUP_UNIT: u64 = 4096;
/// The largest group.
const MAX_GROUP_BYTES: u64 = 1 << 30;

/// Sizes, fixed when the pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Elements in a leaf: 4, 8, 16, 21, 32, 42, 64, 85, 128, 170, 256 or 1024.
    pub leaf_slots: u64,
    /// Children of an inner node: 4, 8, 32, 64, 128 or 256.
    pub inner_keys: u64,
    /// Words in a value: 1 to 14.
    pub value_words: u64,
    /// Bytes that are taken from the pool at a time: a multiple of 4096 up to 1 GiB, or as many as
    /// two leaves need.
    pub group_bytes: u64,
}

impl Default for Parameters {
    /// The sizes that measured best in the FPTree paper, table 1: 32 elements, 128 children.
    fn default() -> Self {
        Self { leaf_slots: 32, inner_keys: 128, value_words: 1, group_bytes: 256 << 10 }
    }
}

impl Parameters {
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
        if !FANOUTS.contains(&self.inner_keys) {
            return refuse("inner_keys", self.inner_keys, format!("{FANOUTS:?}"));
        }
        if !(1..=MAX_VALUE_WORDS as u64).contains(&self.value_words) {
            return refuse("value_words", self.value_words, format!("1 to {MAX_VALUE_WORDS}"));
        }
        let whole = self.group_bytes > 0 && self.group_bytes.is_multiple_of(GROUP_UNIT);
        if !whole || self.group_bytes > MAX_GROUP_BYTES {
            let offered =
                format!("the multiples of {GROUP_UNIT} from {GROUP_UNIT} to {MAX_GROUP_BYTES}");
            return refuse("group_bytes", self.group_bytes, offered);
        }
        Ok(())
    }
}

/// Opens the tree in a pool whose format has its [`Parameters`], left by `shutdown`; makes an empty
/// tree in a fresh pool, where a crash on the way leaves an empty tree or none.
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
/// use everleaf_trees::nvtree::{Parameters, open};
///
/// let parameters = Parameters { group_bytes: 4096, ..Parameters::default() };
/// let format = Format {
///     engine: "nvtree".into(),
///     key_type: KeyType::U64,
///     parameters: parameters.pack(),
/// };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Hardware::new(region, &Cpu::detect())?, &format)?;
/// let tree = open::<U64Keys, _>(&pool, Shutdown::Clean)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.update(7, 71)?, Some(70));
/// assert_eq!(tree.get(7)?, Some(71));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    shutdown: Shutdown,
) -> Result<Box<dyn Index<K>>, IndexError> {
    let parameters = Parameters::unpack(pool.format().parameters)?;
    let (slots, words) = (parameters.leaf_slots as usize, parameters.value_words as usize);
    let shape = Shape::new(slots, words).ok_or_else(|| IndexError::Parameter {
        parameter: "leaf_slots",
        value: parameters.leaf_slots,
        offered: format!("{SLOTS:?}"),
    })?;
    let tree = NvTree::<K, M>::open(pool, shape, parameters, shutdown)?;
    Ok(Box::new(Serialized::new(tree)))
}
