//! What the table of engines has of this family: sizes on offer, and opening a tree.

use std::sync::Arc;

use everleaf_index::{Contract, Index, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};

use super::Masstree;
use super::layout::{DURABLE_WIDTH, WIDTH};
use everleaf_tree::key::slices::SliceKey;
use everleaf_tree::parameters::{Choice, EngineParameters, Offer, Parameters};
use everleaf_tree::{EngineCode, EngineEntry, Residence, TreeFamily, engine_code, engine_entry};

/// The least entries of a border node, and keys of an inner node. All nodes have the same room;
/// smaller numbers than the tuned ones are for tests, whose trees are then higher.
const LEAST: u64 = 3;
/// The word of a pool's parameters that says whether a node's first change in an epoch goes to the
/// external log too (1), and not to undo words in the node's own lines (0).
pub(super) const LOGS_ALL: usize = 2;
/// What the word of the entries has besides if values stand in buffers. A program that knows none
/// takes it for a size that is not on offer: it would take the places of buffers for values.
pub(super) const BUFFERS: u64 = 1 << 32;

/// Full nodes of the durable trees.
pub const TUNED: Parameters = Parameters {
    leaf_slots: DURABLE_WIDTH as u64,
    inner_keys: WIDTH as u64,
    value_words: 1,
    group_bytes: 0,
};

/// Entries of a border node, keys of an inner node.
pub static OFFER: Offer = offer(TUNED);
/// The same of the transient tree, whose border nodes have room for more.
static TRANSIENT: Offer = offer(Parameters { leaf_slots: WIDTH as u64, ..TUNED });

const fn offer(tuned: Parameters) -> Offer {
    Offer {
        tuned,
        leaf_slots: Choice::From(LEAST, tuned.leaf_slots),
        inner_keys: Choice::From(LEAST, tuned.inner_keys),
        value_words: Choice::Tuned,
        group_bytes: Choice::Tuned,
    }
}

/// Parameters of all of them.
pub const PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS, EngineParameters::BUFFERS];

/// The words of a header without the mark of buffers, and whether it was there.
fn unmarked(mut packed: [u64; 8]) -> ([u64; 8], bool) {
    let buffers = packed[0] & BUFFERS != 0;
    packed[0] &= !BUFFERS;
    (packed, buffers)
}

/// An engine of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// In DRAM: nothing of it is there after a crash, or when it is opened again.
    Transient,
    /// Durable at the ends of epochs.
    Durable,
    /// The same without undo words in nodes: all that changes goes to the external log.
    Logging,
}

impl TreeFamily for Variant {
    fn offer(self) -> &'static Offer {
        match self {
            Self::Transient => &TRANSIENT,
            Self::Durable | Self::Logging => &OFFER,
        }
    }

    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8]> {
        let mut words = self.offer().pack(self.offer().choose(chosen, value_words)?);
        words[LOGS_ALL] = u64::from(self == Self::Logging);
        words[0] |= if chosen.buffers { BUFFERS } else { 0 };
        Ok(words)
    }

    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters> {
        let (packed, buffers) = unmarked(packed);
        Ok(self.offer().shown(self.offer().unpack(packed)?).buffers(buffers))
    }
}

/// Durable Masstree: a trie of B+-trees, durable at the ends of epochs. By itself it
/// replaces values below 2^45 without a flush, and logs the node of larger ones; a store's
/// values are offsets.
pub static MASSTREE: EngineEntry = engine_entry!(Variant::Durable, {
    name: "masstree",
    parameters: PARAMETERS,
    contract: Contract::Buffered,
    concurrent: true,
});

/// Durable Masstree whose nodes have no undo words: the external log alone undoes.
pub static MASSTREE_LOGGING: EngineEntry = engine_entry!(Variant::Logging, {
    name: "masstree-logging",
    parameters: PARAMETERS,
    contract: Contract::Buffered,
    concurrent: true,
});

/// Masstree in DRAM: a trie of B+-trees.
pub static MASSTREE_TRANSIENT: EngineEntry = engine_entry!(Variant::Transient, {
    name: "masstree-transient",
    residence: Residence::Dram,
    parameters: PARAMETERS,
    concurrent: true,
});

/// The code of a durable variant: which it is stands in the pool.
macro_rules! code_of {
    ($entry:ident, $variant:expr) => {
        engine_code!(
            $entry,
            |format| $variant.unpack(format.parameters).map(drop),
            |pool, opening| open(pool, opening.shutdown == Shutdown::Crash)
        )
    };
}

/// The engine that a user would choose.
pub const fn engines<M: Media>() -> [EngineCode<M>; 1] {
    [code_of!(MASSTREE, Variant::Durable)]
}

/// The code of the product's engines on its media, compiled here and nowhere else.
#[cfg(not(test))] // The tests have other media.
pub static SHIPPED: [EngineCode<everleaf_pmem::Mapped>; 1] = engines();

/// The baseline of the paper, for the laboratory.
pub const fn laboratory<M: Media>() -> [EngineCode<M>; 1] {
    [code_of!(MASSTREE_LOGGING, Variant::Logging)]
}

/// The code of the laboratory's on the media of the product: as theirs, of other variants.
#[cfg(not(test))]
pub static LABORATORY: [EngineCode<everleaf_pmem::Mapped>; 1] = laboratory();

/// The twin that lives in DRAM: nothing of it is there when it is opened again.
pub const fn twins<M: Media>() -> [EngineCode<M>; 1] {
    [engine_code!(
        MASSTREE_TRANSIENT,
        |format| Variant::Transient.unpack(format.parameters).map(drop),
        |pool, _| create(pool)
    )]
}

/// Makes an empty transient tree in a fresh pool whose format has its sizes. It belongs
/// on the media `Dram`: nothing of it is there after a crash.
///
/// # Errors
/// [`IndexError::Parameter`](everleaf_index::IndexError::Parameter) if the pool's parameters are
/// not on offer, [`IndexError::Pool`](everleaf_index::IndexError::Pool) if it has no room.
///
/// # Examples
/// ```
/// use everleaf_index::{Contract, Index, U64Keys};
/// use everleaf_crash::Dram;
/// use everleaf_pmem::{Cpu, Region};
/// use everleaf_pool::{Format, KeyType, Pool};
/// use everleaf_masstree::{OFFER, TUNED, create};
///
/// let parameters = OFFER.pack(TUNED);
/// let format = Format { engine: "masstree-transient".into(), key_type: KeyType::U64, parameters };
/// let dram = Dram::new(Region::anonymous(1 << 20, 1 << 24)?, &Cpu::detect());
/// let tree = create::<U64Keys, _>(&Pool::create(dram, &format)?)?;
/// assert!(tree.insert(7, 70)?);
/// assert_eq!(tree.get(7)?, Some(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn create<K: SliceKey, M: Media>(pool: &Arc<Pool<M>>) -> Result<Box<dyn Index<K>>> {
    let (packed, buffers) = unmarked(pool.format().parameters);
    let parameters = TRANSIENT.unpack(packed)?;
    Ok(Box::new(Masstree::<K, M, false>::open(pool, parameters, buffers, false)?))
}

/// Makes or opens a durable tree, in a pool whose format has its sizes. After a crash it
/// is what it was at the end of the last epoch that ended; `sync` ends one.
///
/// # Values
/// A value is any word of 64 bits. Replacing one that is below 2^45, as offsets are, costs no flush
/// before the epoch ends. Replacing a larger one copies its node to the external log, if that was
/// not done in this epoch: six flushes and a fence. In a pool that is made with
/// [`EngineParameters::buffers`] each value stands in a buffer of its own, whose place always fits.
///
/// # Errors
/// [`IndexError::Parameter`](everleaf_index::IndexError::Parameter) if the pool's parameters are
/// not on offer, [`IndexError::Corrupt`](everleaf_index::IndexError::Corrupt) or
/// [`IndexError::Pool`](everleaf_index::IndexError::Pool) if damage is met, or if a fresh pool has
/// no room.
///
/// # Examples
/// ```
/// use everleaf_index::U64Keys;
/// use everleaf_pmem::{Cpu, Mapped, Region};
/// use everleaf_pool::{Format, KeyType, Pool};
/// use everleaf_masstree::{OFFER, TUNED, open};
///
/// let parameters = OFFER.pack(TUNED);
/// let format = Format { engine: "masstree".into(), key_type: KeyType::U64, parameters };
/// let media = Mapped::new(Region::anonymous(1 << 20, 1 << 24)?, &Cpu::detect())?;
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
) -> Result<Box<dyn Index<K>>> {
    let (packed, buffers) = unmarked(pool.format().parameters);
    let parameters = OFFER.unpack(packed)?;
    Ok(Box::new(Masstree::<K, M, true>::open(pool, parameters, buffers, crashed)?))
}
