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
    /// Whether the first change of a node in an epoch is undone by words in the node's own lines
    /// (InCLL), not by the external log. Of the durable tree.
    pub logs_in_line: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { leaf_slots: WIDTH as u64, inner_keys: WIDTH as u64, logs_in_line: true }
    }
}

impl Parameters {
    /// As they stand in the header of a pool.
    pub const fn pack(self) -> [u64; 8] {
        [self.leaf_slots, self.inner_keys, !self.logs_in_line as u64, 0, 0, 0, 0, 0]
    }

    /// From the header of a pool.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] for what is not on offer.
    pub fn unpack(packed: [u64; 8]) -> Result<Self, IndexError> {
        let [leaf_slots, inner_keys, without_logs, ..] = packed;
        let parameters = Self { leaf_slots, inner_keys, logs_in_line: without_logs == 0 };
        parameters.validate(WIDTH as u64)?;
        Ok(parameters)
    }

    /// Whether the sizes are on offer, where border nodes have room for `width` entries.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] names the first that is not.
    pub fn validate(self, width: u64) -> Result<(), IndexError> {
        for (parameter, value, most) in
            [("leaf_slots", self.leaf_slots, width), ("inner_keys", self.inner_keys, WIDTH as u64)]
        {
            if !(LEAST..=most).contains(&value) {
                let offered = format!("{LEAST} to {most}");
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
/// use everleaf_crash::Dram;
/// use everleaf_pmem::{Cpu, Region};
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
    Ok(Box::new(Masstree::<K, M, false>::open(pool, parameters, false)?))
}

/// Makes or opens a durable tree, in a pool whose format has its [`Parameters`]. After a crash it
/// is what it was at the end of the last epoch that ended; `sync` ends one.
///
/// # Errors
/// [`IndexError::Parameter`] if the pool's parameters are not on offer, [`IndexError::Corrupt`] or
/// [`IndexError::Pool`] if damage is met, or if a fresh pool has no room.
///
/// # Examples
/// ```
/// use everleaf_index::U64Keys;
/// use everleaf_pmem::{Cpu, Hardware, Region};
/// use everleaf_pool::{Format, KeyType, Pool};
/// use everleaf_trees::masstree::{Parameters, open};
///
/// let parameters = Parameters::default().pack();
/// let format = Format { engine: "masstree".into(), key_type: KeyType::U64, parameters };
/// let media = Hardware::new(Region::anonymous(1 << 20, 1 << 24)?, &Cpu::detect())?;
/// let pool = Pool::create(media, &format)?;
/// let tree = open::<U64Keys, _>(&pool, false)?;
/// tree.insert(7, 70)?;
/// tree.sync()?;
/// tree.insert(8, 80)?;
/// drop(tree);
/// // As after a crash: the epoch of the second key has not ended.
/// let tree = open::<U64Keys, _>(&pool, true)?;
/// assert_eq!((tree.get(7)?, tree.get(8)?), (Some(70), None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: SliceKey, M: Media>(
    pool: &Arc<Pool<M>>,
    crashed: bool,
) -> Result<Box<dyn Index<K>>, IndexError> {
    let parameters = Parameters::unpack(pool.format().parameters)?;
    Ok(Box::new(Masstree::<K, M, true>::open(pool, parameters, crashed)?))
}
