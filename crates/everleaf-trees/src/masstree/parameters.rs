//! Sizes on offer, and making a tree.

use std::sync::Arc;

use everleaf_index::{Index, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::Masstree;
use super::layout::WIDTH;
use crate::support::key::slices::SliceKey;

/// The least entries of a border node, and keys of an inner node.
const LEAST: u64 = 3;

/// How full nodes may be, fixed when the pool is created. All nodes have the same room; smaller
/// numbers are for tests, whose trees are then higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Entries in a border node, 3 to 15.
    pub leaf_slots: u64,
    /// Keys in an inner node, 3 to 15.
    pub inner_keys: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { leaf_slots: WIDTH as u64, inner_keys: WIDTH as u64 }
    }
}

impl Parameters {
    /// As they stand in the header of a pool.
    pub const fn pack(self) -> [u64; 8] {
        [self.leaf_slots, self.inner_keys, 0, 0, 0, 0, 0, 0]
    }

    /// From the header of a pool.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] for what is not on offer.
    pub fn unpack(packed: [u64; 8]) -> Result<Self, IndexError> {
        let parameters = Self { leaf_slots: packed[0], inner_keys: packed[1] };
        parameters.validate()?;
        Ok(parameters)
    }

    /// Whether the sizes are on offer.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] names the first that is not.
    pub fn validate(self) -> Result<(), IndexError> {
        for (parameter, value) in [("leaf_slots", self.leaf_slots), ("inner_keys", self.inner_keys)]
        {
            if !(LEAST..=WIDTH as u64).contains(&value) {
                let offered = format!("{LEAST} to {WIDTH}");
                return Err(IndexError::Parameter { parameter, value, offered });
            }
        }
        Ok(())
    }
}

/// Makes an empty transient tree in a fresh pool whose format has its [`Parameters`]. It belongs
/// on the media `Dram`: nothing of it is there after a crash.
///
/// # Errors
/// [`IndexError::Parameter`] if the pool's parameters are not on offer, [`IndexError::Pool`] if it
/// has no room.
///
/// # Examples
/// ```
/// use everleaf_index::{Index, U64Keys};
/// use everleaf_pmem::{Cpu, Dram, Region};
/// use everleaf_pool::{Format, KeyType, Pool};
/// use everleaf_trees::masstree::{Parameters, create};
///
/// let parameters = Parameters::default().pack();
/// let format = Format { engine: "masstree-transient".into(), key_type: KeyType::U64, parameters };
/// let dram = Dram::new(Region::anonymous(1 << 20, 1 << 24)?, &Cpu::detect());
/// let tree = create::<U64Keys, _>(&Pool::create(dram, &format)?)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.get(7)?, Some(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn create<K: SliceKey, M: Media>(pool: &Arc<Pool<M>>) -> Result<Box<dyn Index<K>>, IndexError> {
    let parameters = Parameters::unpack(pool.format().parameters)?;
    Ok(Box::new(Masstree::<K, M, false>::create(pool, parameters)?))
}
