//! What an engine is to those that use it by name: what the table of engines says of each, and what
//! a family of trees gives to it.

use std::sync::Arc;

use everleaf_index::{Contract, Index, IndexError};
use everleaf_pmem::{Media, Transactions};
use everleaf_pool::{Opened, Pool, Seal, Shutdown};

use crate::key::TreeKey;
use crate::parameters::{EngineParameters, Offer};

/// Where an engine's index lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// In a pool that is opened again.
    Pool,
    /// In a pool on the media `Dram`: a twin of another engine in plain memory, made to be measured
    /// and never opened again.
    Dram,
    /// In the memory of the process: no pool can be made of it. A peer of the benchmarks.
    Process,
}

/// One line of the table of engines.
#[derive(Clone, Copy, Debug)]
pub struct EngineEntry {
    /// The name on the command line, in JSON and in the header of pools.
    pub name: &'static str,
    /// Where its index lives.
    pub residence: Residence,
    /// The parameters that it takes, as they are named on the command line without the dashes.
    pub parameters: &'static [&'static str],
    /// When the effect of a call is durable.
    pub contract: Contract,
    /// Whether several threads write at the same time; otherwise writers wait for each other.
    pub concurrent: bool,
    /// Whether keys may be byte strings; else they are `u64` only.
    pub bytes_keys: bool,
    /// Words that a value may have.
    pub max_value_words: usize,
    /// Entries of a small leaf, the smallest that makes sense: what tests and explorations use.
    pub min_leaf_slots: u32,
    /// Entries of a leaf of so many bytes, as `--node-bytes` counts them.
    pub slots_of_bytes: fn(u32) -> u32,
}

/// Entries of 16 bytes in an array of so many bytes: what `--node-bytes` is to most engines.
pub const fn slots_of_array(bytes: u32) -> u32 {
    bytes / 16
}

/// What is decided anew each time an index is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// How the pool was left.
    pub shutdown: Shutdown,
    /// What the close has left: by it an image of inner nodes is taken.
    pub seal: Option<Seal>,
    /// How many threads look at the leaves; none: as many as there are processors for that much
    /// work.
    pub threads: Option<usize>,
    /// Which transactions the engine uses, if it knows any. Without any it has version locks.
    pub transactions: Transactions,
}

impl From<Shutdown> for Opening {
    /// Left so and without a seal, and opened with as many threads as there are processors for, and
    /// version locks.
    fn from(shutdown: Shutdown) -> Self {
        Self { shutdown, seal: None, threads: None, transactions: Transactions::Off }
    }
}

impl From<&Opened> for Opening {
    /// Left as the opening of the pool has found it, else as above.
    fn from(opened: &Opened) -> Self {
        Self { seal: opened.seal, ..Self::from(opened.shutdown) }
    }
}

/// What a family of trees gives to the table, for each of its variants.
pub trait TreeFamily: Copy {
    /// The sizes of nodes that it has on offer.
    fn offer(self) -> &'static Offer;

    /// The parameters as the header of a pool has them, in which values have so many words.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] names the first that is not on offer.
    fn pack(self, chosen: &EngineParameters, value_words: u64) -> Result<[u64; 8], IndexError> {
        Ok(self.offer().pack(self.offer().choose(chosen, value_words)?))
    }

    /// The parameters that the header of a pool has.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters, IndexError> {
        Ok(self.offer().shown(self.offer().unpack(packed)?))
    }

    /// Whether the entries of a store over byte strings have one record each, which has key and
    /// value. Else each key has a record of its own besides.
    fn one_record(self) -> bool {
        false
    }

    /// Makes an empty index in a fresh pool whose format has parameters that were
    /// [packed](Self::pack). A crash on the way leaves an empty index or none, and
    /// [`open`](Self::open) makes one of either.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn create<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        transactions: Transactions,
    ) -> Result<Box<dyn Index<K>>, IndexError> {
        self.open(pool, Opening { transactions, ..Opening::from(Shutdown::Clean) })
    }

    /// Opens the index in a pool: ends what a crash cut, and builds what is in DRAM.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] if the pool's parameters are not on offer, [`IndexError::Corrupt`]
    /// or [`IndexError::Pool`] if damage is met, or if a fresh pool has no room for the first node.
    fn open<K: TreeKey, M: Media>(
        self,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<K>>, IndexError>;
}
