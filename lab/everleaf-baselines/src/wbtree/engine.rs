//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;

use everleaf_index::{Index, IndexError, Result, Serialized};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::WbTree;
use super::layout::{LINE_SLOTS, MAX_VALUE_WORDS, Shape, WORD_SLOTS};
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{Choice, EngineParameters, GROUP_UNIT, Offer, Parameters};
use everleaf_tree::{EngineCode, EngineEntry, TreeFamily, engine_code, engine_entry};

/// What a node is at the least.
const MIN_SLOTS: u64 = 4;

/// The sizes on offer, with so many entries at most.
const fn offer(max_slots: usize, tuned_slots: u64) -> Offer {
    let (value_words, group_bytes) = (1, 256 << 10);
    Offer {
        tuned: Parameters { leaf_slots: tuned_slots, inner_keys: 0, value_words, group_bytes },
        leaf_slots: Choice::From(MIN_SLOTS, max_slots as u64),
        inner_keys: Choice::Tuned,
        value_words: Choice::From(1, MAX_VALUE_WORDS as u64),
        group_bytes: Choice::Groups(GROUP_UNIT),
    }
}

/// Entries of a node whose slot array is one word, bytes that are taken from the pool at a time.
pub static SLOT_OFFER: Offer = offer(WORD_SLOTS, WORD_SLOTS as u64);
/// The same of a node with a bitmap, whose slot array is one line.
pub static BITMAP_OFFER: Offer = offer(LINE_SLOTS, LINE_SLOTS as u64);

/// Parameters of the trees.
pub const PARAMETERS: &[&str] = &[EngineParameters::LEAF_SLOTS, EngineParameters::GROUP_BYTES];

/// Entries of a slot-only node for which there are so many bytes: 7 in any case are the most.
pub(crate) const fn slot_only_slots_of(bytes: u32) -> u32 {
    if bytes / 16 < WORD_SLOTS as u32 { bytes / 16 } else { WORD_SLOTS as u32 }
}

/// The trees of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Nodes with a slot array of one word.
    Slot,
    /// Nodes with a bitmap and a slot array of one line.
    Bitmap,
}

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        match self {
            Self::Slot => &SLOT_OFFER,
            Self::Bitmap => &BITMAP_OFFER,
        }
    }
}

/// wB+-tree whose nodes have a slot array of one word: seven entries.
pub static WBTREE_SLOT: EngineEntry = engine_entry!(Variant::Slot, {
    name: "wbtree-slot",
    parameters: PARAMETERS,
    max_value_words: 14,
    slots_of_bytes: slot_only_slots_of,
});

/// wB+-tree whose nodes have a bitmap and a slot array of one line.
pub static WBTREE_BITMAP: EngineEntry = engine_entry!(Variant::Bitmap, {
    name: "wbtree-bitmap",
    parameters: PARAMETERS,
    max_value_words: 14,
});

/// The code of the family, for all sizes.
pub const fn engines<M: Media>() -> [EngineCode<M>; 2] {
    [
        engine_code!(
            WBTREE_SLOT,
            |format| Variant::Slot.unpack(format.parameters).map(drop),
            |pool, _| open(pool, Variant::Slot)
        ),
        engine_code!(
            WBTREE_BITMAP,
            |format| Variant::Bitmap.unpack(format.parameters).map(drop),
            |pool, _| open(pool, Variant::Bitmap)
        ),
    ]
}

/// Opens the tree in a pool whose format has its parameters; makes an empty tree in a fresh pool,
/// where a crash on the way leaves an empty tree or none. The cost does not depend on the size of
/// the tree but for a line of each run of nodes; how the pool was left makes no difference.
///
/// # Errors
/// [`IndexError::Parameter`] if the pool's parameters are not on offer, [`IndexError::Corrupt`] or
/// [`IndexError::Pool`] if damage is met, or if a fresh pool has no room for a group of nodes.
///
/// # Examples
/// ```
/// use everleaf_index::{Contract, Index, U64Keys};
/// use everleaf_pmem::{Cpu, Mapped, Region};
/// use everleaf_pool::{Format, KeyType, Pool};
/// use everleaf_baselines::wbtree::{SLOT_OFFER, Variant, open};
///
/// let format = Format {
///     engine: "wbtree-slot".into(),
///     key_type: KeyType::U64,
///     parameters: SLOT_OFFER.pack(SLOT_OFFER.tuned),
/// };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
/// let tree = open::<U64Keys, _>(&pool, Variant::Slot)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.update(7, 71)?, Some(70));
/// assert_eq!(tree.get(7)?, Some(71));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
) -> Result<Box<dyn Index<K>>> {
    let Parameters { leaf_slots, value_words, group_bytes, .. } =
        variant.offer().unpack(pool.format().parameters)?;
    let has_bitmap = variant == Variant::Bitmap;
    let shape = Shape::new(has_bitmap, leaf_slots, value_words);
    let shape = shape.ok_or_else(|| IndexError::Parameter {
        parameter: "leaf_slots",
        value: leaf_slots,
        offered: format!("{MIN_SLOTS} and more"),
    })?;
    Ok(Box::new(Serialized::new(WbTree::<K, M>::open(pool, shape, group_bytes)?)))
}
