//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;
use std::time::Duration;

use everleaf_index::{Index, IndexError, Result, Serialized};
use everleaf_pmem::Media;
use everleaf_pool::{Format, Pool};

use super::NvTree;
use super::concurrent::{ConcurrentNvTree, LOCKS};
use super::layout::{MAX_VALUE_WORDS, Shape};
use super::recover;
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{Choice, EngineParameters, GROUP_UNIT, Offer, Parameters};
use everleaf_tree::{EngineCode, EngineEntry, Opening, TreeFamily, engine_code, engine_entry};

/// Slots that a leaf may have: 21, 42, 85 and 170 are 512 bytes to 4 KiB of elements of 24 bytes.
const SLOTS: &[u64] = &[4, 8, 16, 21, 32, 42, 64, 85, 128, 170, 256, 1024];

/// Elements in an array of so many bytes, each with a mark, a key and a value.
pub const fn slots_of(bytes: u32) -> u32 {
    bytes / 24
}

/// The sizes that measured best in the FPTree paper, table 1: 32 elements, 128 children.
pub const TUNED: Parameters =
    Parameters { leaf_slots: 32, inner_keys: 128, value_words: 1, group_bytes: 256 << 10 };

/// Elements of a leaf, children of an inner node, words of a value, bytes of a group of leaves (or
/// as many as two leaves need).
pub static OFFER: Offer = Offer {
    tuned: TUNED,
    leaf_slots: Choice::OneOf(SLOTS),
    inner_keys: Choice::OneOf(&[4, 8, 32, 64, 128, 256]),
    value_words: Choice::From(1, MAX_VALUE_WORDS as u64),
    group_bytes: Choice::Groups(GROUP_UNIT),
};

/// Parameters of the tree.
pub const PARAMETERS: &[&str] = &[
    EngineParameters::LEAF_SLOTS,
    EngineParameters::INNER_KEYS,
    EngineParameters::GROUP_BYTES,
    EngineParameters::PAPER_ORDER,
];

/// What the word of the slots has besides if leaves with room for them have hashes. It has not in
/// the order of the slides, nor in pools of before there were any. A program that knows no hashes
/// takes it for a size that is not on offer: it would append elements without hashes, which nobody
/// would find.
const HASHED: u64 = 1 << 32;

/// Which tree of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// For one thread at a time.
    Serial,
    /// For many threads.
    Concurrent,
}

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        &OFFER
    }

    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8]> {
        Ok(pack(OFFER.choose(chosen, value_words)?, !chosen.paper_order))
    }

    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters> {
        let (sizes, _) = unpack(packed)?;
        Ok(OFFER.shown(sizes).paper_order(packed[0] & HASHED == 0))
    }
}

/// NV-Tree: append-only leaves in persistent memory, inner nodes in one array in DRAM.
pub static NVTREE: EngineEntry = engine_entry!(Variant::Serial, {
    name: "nvtree",
    parameters: PARAMETERS,
    max_value_words: 14,
    slots_of_bytes: slots_of,
});

/// NV-Tree for many writers of `u64` keys; of byte strings one at a time.
pub static NVTREE_C: EngineEntry = engine_entry!(Variant::Concurrent, {
    name: "nvtree-c",
    parameters: PARAMETERS,
    concurrent: true,
    max_value_words: 14,
    slots_of_bytes: slots_of,
});

/// The engines of the family, of all sizes.
pub const fn engines<M: Media>() -> [EngineCode<M>; 2] {
    [
        engine_code!(NVTREE, check, |pool, opening| open(pool, Variant::Serial, opening)),
        engine_code!(NVTREE_C, check, |pool, opening| open(pool, Variant::Concurrent, opening)),
    ]
}

/// Refuses sizes that are not on offer.
fn check(format: &Format) -> Result<()> {
    unpack(format.parameters).map(drop)
}

/// The code of the product's engines on its media, compiled here and nowhere else.
#[cfg(not(test))] // The tests have other media.
pub static SHIPPED: [EngineCode<everleaf_pmem::Mapped>; 2] = engines();

/// Opens the tree in a pool whose format has its [`Parameters`], as it was left; makes an empty
/// tree in a fresh pool, where a crash on the way leaves an empty tree or none. What is durable is
/// the same of both variants. Byte-string keys always have the tree for one thread, behind a lock.
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
/// use everleaf_nvtree::{Parameters, TUNED, Variant, open, pack};
///
/// let parameters = Parameters { group_bytes: 4096, ..TUNED };
/// let format = Format {
///     engine: "nvtree-c".into(),
///     key_type: KeyType::U64,
///     parameters: pack(parameters, true),
/// };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
/// let tree = open::<U64Keys, _>(&pool, Variant::Concurrent, Shutdown::Clean)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.update(7, 71)?, Some(70));
/// assert_eq!(tree.get(7)?, Some(71));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
    opening: impl Into<Opening>,
) -> Result<Box<dyn Index<K>>> {
    let (opening, (parameters, shape)) = (opening.into(), sizes_of(pool)?);
    if variant == Variant::Concurrent && !K::RECORDS {
        let tree = ConcurrentNvTree::<K, M>::open(pool, shape, parameters, opening, LOCKS)?;
        return Ok(Box::new(tree));
    }
    let tree = NvTree::<K, M>::open(pool, shape, parameters, opening)?;
    if variant == Variant::Concurrent && M::SCHEDULED {
        let pool = Arc::clone(pool);
        return Ok(Box::new(Serialized::waiting(tree, move || pool.media().relax())));
    }
    Ok(Box::new(Serialized::new(tree)))
}

/// Parameters as they stand in the header of a pool; `hashed`: whether leaves that have room for
/// them have a byte of hash of each element.
pub fn pack(sizes: Parameters, hashed: bool) -> [u64; 8] {
    let mut words = OFFER.pack(sizes);
    words[0] |= if hashed { HASHED } else { 0 };
    words
}

/// From the header of a pool.
fn unpack(mut words: [u64; 8]) -> Result<(Parameters, Shape)> {
    let hashed = words[0] & HASHED != 0;
    words[0] &= !HASHED;
    let sizes = OFFER.unpack(words)?;
    let (slots, value_words) = (sizes.leaf_slots as usize, sizes.value_words as usize);
    let shape = Shape::new(slots, value_words, hashed);
    let shape = shape.ok_or_else(|| IndexError::Parameter {
        parameter: "leaf_slots",
        value: sizes.leaf_slots,
        offered: format!("{SLOTS:?}"),
    })?;
    Ok((sizes, shape))
}

/// The sizes that the format of a pool has.
pub(super) fn sizes_of<M: Media>(pool: &Pool<M>) -> Result<(Parameters, Shape)> {
    unpack(pool.format().parameters)
}

/// How long all inner nodes of the tree in a pool take to be built from its leaves, and after that
/// from their parents, as is done where no spread makes room. It is what the benchmarks ask for;
/// nothing is written to the pool, which is open and is not changed meanwhile.
///
/// # Errors
/// [`IndexError::Parameter`] if the pool has another tree, [`IndexError::Corrupt`] or
/// [`IndexError::Pool`] if damage is met or there is no memory.
pub fn rebuild_times<K: TreeKey, M: Media>(pool: &Pool<M>) -> Result<[Duration; 2]> {
    recover::rebuild_times::<K, M>(pool, sizes_of(pool)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_knows_no_hashes_refuses_leaves_that_have_them() {
        // It reads the sizes, and nothing else of the header.
        assert!(OFFER.unpack(pack(TUNED, true)).is_err());
        assert_eq!(OFFER.unpack(pack(TUNED, false)).unwrap(), TUNED);
        for hashed in [false, true] {
            let (sizes, shape) = unpack(pack(TUNED, hashed)).unwrap();
            assert_eq!((sizes, shape.is_hashed()), (TUNED, hashed));
            let chosen = Variant::Serial.unpack(pack(TUNED, hashed)).unwrap();
            assert_eq!(chosen.paper_order, !hashed);
            assert_eq!(Variant::Serial.pack(&chosen, 1).unwrap(), pack(TUNED, hashed));
        }
    }
}
