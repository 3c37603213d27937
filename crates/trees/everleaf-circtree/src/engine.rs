//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;

use everleaf_index::{Index, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};

use super::SortedTree;
use super::layout::{DEFAULT_SLOTS, Discipline, SLOTS, Shape};
use super::shifted;
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{Choice, EngineParameters, Offer, Parameters};
use everleaf_tree::{EngineCode, EngineEntry, Residence, TreeFamily, engine_code, engine_entry};

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
    /// Shifted arrays with a terminator ([`shifted`]).
    FastFair,
}

/// The tuned size of a node.
pub const TUNED: Parameters =
    Parameters { leaf_slots: DEFAULT_SLOTS, inner_keys: 0, value_words: 1, group_bytes: 0 };

/// Entries of a node, of 16 bytes each. The paper's: 32 to 256.
pub static OFFER: Offer = Offer {
    tuned: TUNED,
    leaf_slots: Choice::OneOf(SLOTS),
    inner_keys: Choice::Tuned,
    value_words: Choice::Tuned,
    group_bytes: Choice::Tuned,
};

/// Parameters of all of them: their nodes are alike.
pub const PARAMETERS: &[&str] = &[EngineParameters::LEAF_SLOTS];

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        &OFFER
    }
}

/// Circ-Tree: sorted circular nodes.
pub static CIRCTREE: EngineEntry = engine_entry!(Variant::CircTree, {
    name: "circtree",
    parameters: PARAMETERS,
    concurrent: true,
});

/// Circ-Tree with linear search through the whole node.
pub static CIRCTREE_LS: EngineEntry = engine_entry!(Variant::Linear, {
    name: "circtree-ls",
    parameters: PARAMETERS,
    concurrent: true,
});

/// FAST+FAIR: sorted arrays, shifts whose every step is consistent.
pub static FASTFAIR: EngineEntry = engine_entry!(Variant::FastFair, {
    name: "fastfair",
    parameters: PARAMETERS,
    concurrent: true,
});

/// A standard B+-tree in DRAM: sorted arrays.
pub static VOLATILE_STD: EngineEntry = engine_entry!(Variant::Array, {
    name: "volatile-std",
    residence: Residence::Dram,
    parameters: PARAMETERS,
    concurrent: true,
});

/// A circular B+-tree in DRAM.
pub static VOLATILE_CIRC: EngineEntry = engine_entry!(Variant::CircTree, {
    name: "volatile-circ",
    residence: Residence::Dram,
    parameters: PARAMETERS,
    concurrent: true,
});

/// The code of a variant: all have the same, for all sizes.
macro_rules! code_of {
    ($entry:ident, $variant:expr) => {
        engine_code!($entry, |format| OFFER.unpack(format.parameters).map(drop), |pool, opening| {
            open(pool, $variant, opening.shutdown)
        })
    };
}

/// The engine that a user would choose.
pub const fn engines<M: Media>() -> [EngineCode<M>; 1] {
    [code_of!(CIRCTREE, Variant::CircTree)]
}

/// The code of the product's engines on its media, compiled here and nowhere else.
#[cfg(not(test))] // The tests have other media.
pub static SHIPPED: [EngineCode<everleaf_pmem::Mapped>; 1] = engines();

/// The baselines of the paper, for the laboratory.
pub const fn laboratory<M: Media>() -> [EngineCode<M>; 2] {
    [code_of!(CIRCTREE_LS, Variant::Linear), code_of!(FASTFAIR, Variant::FastFair)]
}

/// The code of the laboratory's on the media of the product: as theirs, of other variants.
#[cfg(not(test))]
pub static LABORATORY: [EngineCode<everleaf_pmem::Mapped>; 2] = laboratory();

/// Twins that live in DRAM: nothing of them is there when it is opened again.
pub const fn twins<M: Media>() -> [EngineCode<M>; 2] {
    [code_of!(VOLATILE_STD, Variant::Array), code_of!(VOLATILE_CIRC, Variant::CircTree)]
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

/// Opens the tree in a pool, left by `shutdown`. After a clean shutdown this takes the same time
/// for every size.
///
/// # Errors
/// [`IndexError::Parameter`](everleaf_index::IndexError::Parameter) if the pool's parameters are
/// not on offer, [`IndexError::Corrupt`](everleaf_index::IndexError::Corrupt) or
/// [`IndexError::Pool`](everleaf_index::IndexError::Pool) if damage is met, or if a fresh pool has
/// no room for a node.
///
/// # Examples
/// ```
/// use everleaf_index::{Contract, Index, U64Keys};
/// use everleaf_pmem::{Cpu, Mapped, Region};
/// use everleaf_pool::{Format, KeyType, Pool, Shutdown};
/// use everleaf_circtree::{OFFER, TUNED, Variant, create};
///
/// let format = Format {
///     engine: "circtree".into(),
///     key_type: KeyType::U64,
///     parameters: OFFER.pack(TUNED),
/// };
/// let region = Region::anonymous(1 << 20, 1 << 24)?;
/// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
/// let tree = create::<U64Keys, _>(&pool, Variant::CircTree)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.get(7)?, Some(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    variant: Variant,
    shutdown: Shutdown,
) -> Result<Box<dyn Index<K>>> {
    let parameters = OFFER.unpack(pool.format().parameters)?;
    let discipline = match variant {
        Variant::CircTree | Variant::Linear => Discipline::Ring,
        Variant::Array => Discipline::Array,
        Variant::FastFair => shifted::begin_session(pool)?,
    };
    let shape = Shape { slots: parameters.leaf_slots as usize, discipline };
    Ok(Box::new(SortedTree::<K, M>::open(pool, shape, variant == Variant::Linear, shutdown)?))
}
