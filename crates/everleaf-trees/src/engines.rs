//! The table of engines. A new engine is an entry here and a module: nothing else lists engines.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use everleaf_index::{BytesKeys, Contract, Index, IndexError, U64Keys};
use everleaf_pmem::{Layout, Media, Transactions};
use everleaf_pool::{KeyType, Pool};

use crate::{cdds, clftree, fptree, lcbtree, linetree, masstree, nvtree, sorted, wbtree};
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;
use everleaf_tree::parameters::{EngineParameters, ONE_RECORD};
use everleaf_tree::{EngineEntry, Opening, Residence, TreeFamily, slots_of_array};

/// Makes of the entries the names, the table, and what chooses the code by the name. Peers have no
/// code here.
macro_rules! engines {
    (
        trees { $( $(#[$meta:meta])* $engine:ident = $variant:expr, { $($entry:tt)* } )* }
        peers { $( $(#[$peer_meta:meta])* $peer:ident { $($peer_entry:tt)* } )* }
    ) => {
        /// A tree design that this release has, or a peer of the benchmarks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Engine {
            $( $(#[$meta])* $engine, )*
            $( $(#[$peer_meta])* $peer, )*
        }

        /// The table, in the order of the names.
        const ENTRIES: &[EngineEntry] = &[
            $( EngineEntry { $($entry)* }, )*
            $( EngineEntry { $($peer_entry)* }, )*
        ];

        impl Engine {
            /// All engines, in the order of the table.
            pub const ALL: [Engine; ENTRIES.len()] =
                [$(Engine::$engine,)* $(Engine::$peer,)*];

            /// The parameters as the header of a pool has them, in which values have
            /// `value_words` words.
            ///
            /// # Errors
            /// [`EngineError::NotAvailable`] of a peer, [`EngineError::UnknownParameter`], or
            /// [`IndexError::Parameter`] for a size that is not on offer.
            pub fn pack(
                self,
                chosen: &EngineParameters,
                value_words: usize,
            ) -> Result<[u64; 8], EngineError> {
                self.check(chosen)?;
                match self {
                    $( Self::$engine => Ok($variant.pack(chosen, value_words as u64)?), )*
                    $( Self::$peer => Err(EngineError::not_available(self.name())), )*
                }
            }

            /// The sizes of nodes that the header of a pool says.
            ///
            /// # Errors
            /// As [`pack`](Self::pack).
            pub fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters, EngineError> {
                self.check_records(packed)?;
                match self {
                    $( Self::$engine => Ok($variant.unpack(packed)?), )*
                    $( Self::$peer => Err(EngineError::not_available(self.name())), )*
                }
            }

            /// Whether the entries of a store over byte strings have one record each, which has key
            /// and value. Else each key has a record of its own besides.
            pub fn one_record(self) -> bool {
                match self {
                    $( Self::$engine => $variant.one_record(), )*
                    $( Self::$peer => false, )*
                }
            }

            /// Makes an empty index in a fresh pool whose format has parameters that were
            /// [packed](Self::pack). A crash on the way leaves an empty index or none, and
            /// [`open`](Self::open) makes one of either.
            ///
            /// # Errors
            /// As [`open`](Self::open).
            pub fn create<K: TreeKey, M: Media>(
                self,
                pool: &Arc<Pool<M>>,
                transactions: Transactions,
            ) -> Result<Box<dyn Index<K>>, EngineError> {
                self.check_keys(if K::RECORDS { KeyType::Bytes } else { KeyType::U64 })?;
                match self {
                    $( Self::$engine => Ok($variant.create(pool, transactions)?), )*
                    $( Self::$peer => Err(EngineError::not_available(self.name())), )*
                }
            }

            /// Opens the index in a pool: ends what a crash cut, and builds what is in DRAM.
            ///
            /// # Errors
            /// [`EngineError::NotAvailable`] of a peer, [`EngineError::NoByteStrings`],
            /// [`IndexError::Parameter`] if the pool's parameters are not on offer,
            /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or if a fresh pool
            /// has no room for the first node.
            pub fn open<K: TreeKey, M: Media>(
                self,
                pool: &Arc<Pool<M>>,
                opening: Opening,
            ) -> Result<Box<dyn Index<K>>, EngineError> {
                self.check_keys(if K::RECORDS { KeyType::Bytes } else { KeyType::U64 })?;
                self.check_records(pool.format().parameters)?;
                match self {
                    $( Self::$engine => Ok($variant.open(pool, opening)?), )*
                    $( Self::$peer => Err(EngineError::not_available(self.name())), )*
                }
            }
        }
    };
}

engines! {
    trees {
        /// FPTree: leaves in persistent memory with fingerprints, inner nodes in DRAM; one writer
        /// at a time.
        FpTree = fptree::Variant::FpTree, {
            name: "fptree",
            residence: Residence::Pool,
            parameters: fptree::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: true,
            max_value_words: 14,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// FPTree for many writers (selective concurrency).
        FpTreeConcurrent = fptree::Variant::Concurrent, {
            name: "fptree-c",
            residence: Residence::Pool,
            parameters: fptree::engine::CONCURRENT_PARAMETERS,
            contract: Contract::Strict,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 14,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// Line tree: entries that commit themselves within their line; for many writers.
        LineTree = linetree::Variant, {
            name: "linetree",
            residence: Residence::Pool,
            parameters: linetree::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 8,
            slots_of_bytes: slots_of_array,
        }
        /// PTree: FPTree without fingerprints, keys and values apart.
        PTree = fptree::Variant::PTree, {
            name: "ptree",
            residence: Residence::Pool,
            parameters: fptree::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: true,
            max_value_words: 14,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// NV-Tree: append-only leaves in persistent memory, inner nodes in one array in DRAM.
        NvTree = nvtree::Variant::Serial, {
            name: "nvtree",
            residence: Residence::Pool,
            parameters: nvtree::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: true,
            max_value_words: 14,
            min_leaf_slots: 4,
            slots_of_bytes: nvtree::engine::slots_of,
        }
        /// NV-Tree for many writers of `u64` keys; of byte strings one at a time.
        NvTreeConcurrent = nvtree::Variant::Concurrent, {
            name: "nvtree-c",
            residence: Residence::Pool,
            parameters: nvtree::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 14,
            min_leaf_slots: 4,
            slots_of_bytes: nvtree::engine::slots_of,
        }
        /// clfB-tree with leaves that are appended to: inner nodes are encoded into one line.
        ClfTreeAppend = clftree::Variant::Append, {
            name: "clftree-append",
            residence: Residence::Pool,
            parameters: clftree::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 3,
            slots_of_bytes: clftree::engine::slots_of,
        }
        /// clftree-append with inner nodes that are always written by a log of one line.
        ClfTreeInPlace = clftree::Variant::InPlace, {
            name: "clftree-inplace",
            residence: Residence::Pool,
            parameters: clftree::engine::IN_PLACE_PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 3,
            slots_of_bytes: clftree::engine::slots_of,
        }
        /// clftree-append with leaves that are encoded into one line as well: `u64` keys only.
        ClfTreeEncoded = clftree::Variant::Encoded, {
            name: "clftree-encoded",
            residence: Residence::Pool,
            parameters: clftree::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: false,
            max_value_words: 1,
            min_leaf_slots: clftree::engine::ENCODED_SLOTS,
            slots_of_bytes: clftree::engine::encoded_slots_of,
        }
        /// clftree-append with inner nodes that are copied, by short-circuit shadowing.
        ClfTreeShadow = clftree::Variant::Shadow, {
            name: "clftree-shadow",
            residence: Residence::Pool,
            parameters: clftree::engine::IN_PLACE_PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 3,
            slots_of_bytes: clftree::engine::slots_of,
        }
        /// clftree-encoded with leaves and inner nodes that are copied likewise.
        ClfTreeEncodedShadow = clftree::Variant::EncodedShadow, {
            name: "clftree-encoded-shadow",
            residence: Residence::Pool,
            parameters: clftree::engine::IN_PLACE_PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: false,
            max_value_words: 1,
            min_leaf_slots: clftree::engine::ENCODED_SLOTS,
            slots_of_bytes: clftree::engine::encoded_slots_of,
        }
        /// LCB+Tree: an ordinary B+-tree in persistent memory with a redo log: `u64` keys only.
        LcbTree = lcbtree::Variant, {
            name: "lcbtree",
            residence: Residence::Pool,
            parameters: lcbtree::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: false,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: lcbtree::engine::slots_of,
        }
        /// CDDS B-tree: a sorted B+-tree in persistent memory whose entries have versions: `u64`
        /// keys only.
        Cdds = cdds::Variant, {
            name: "cdds",
            residence: Residence::Pool,
            parameters: cdds::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: false,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: cdds::engine::slots_of,
        }
        /// wB+-tree whose nodes have a slot array of one word: seven entries.
        WbTreeSlot = wbtree::Variant::Slot, {
            name: "wbtree-slot",
            residence: Residence::Pool,
            parameters: wbtree::PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: true,
            max_value_words: 14,
            min_leaf_slots: 4,
            slots_of_bytes: wbtree::engine::slot_only_slots_of,
        }
        /// wB+-tree whose nodes have a bitmap and a slot array of one line.
        WbTreeBitmap = wbtree::Variant::Bitmap, {
            name: "wbtree-bitmap",
            residence: Residence::Pool,
            parameters: wbtree::PARAMETERS,
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: true,
            max_value_words: 14,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// Circ-Tree: sorted circular nodes.
        CircTree = sorted::Variant::CircTree, {
            name: "circtree",
            residence: Residence::Pool,
            parameters: sorted::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// Circ-Tree with linear search through the whole node.
        CircTreeLinear = sorted::Variant::Linear, {
            name: "circtree-ls",
            residence: Residence::Pool,
            parameters: sorted::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// FAST+FAIR: sorted arrays, shifts whose every step is consistent.
        FastFair = sorted::Variant::FastFair, {
            name: "fastfair",
            residence: Residence::Pool,
            parameters: sorted::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// Durable Masstree: a trie of B+-trees, durable at the ends of epochs. By itself it
        /// replaces values below 2^45 without a flush, and logs the node of larger ones; a store's
        /// values are offsets.
        Masstree = masstree::Variant::Durable, {
            name: "masstree",
            residence: Residence::Pool,
            parameters: masstree::engine::PARAMETERS,
            contract: Contract::Buffered,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// Durable Masstree whose nodes have no undo words: the external log alone undoes.
        MasstreeLogging = masstree::Variant::Logging, {
            name: "masstree-logging",
            residence: Residence::Pool,
            parameters: masstree::engine::PARAMETERS,
            contract: Contract::Buffered,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// A standard B+-tree in DRAM: sorted arrays.
        VolatileStandard = sorted::Variant::Array, {
            name: "volatile-std",
            residence: Residence::Dram,
            parameters: sorted::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// A circular B+-tree in DRAM.
        VolatileCircular = sorted::Variant::CircTree, {
            name: "volatile-circ",
            residence: Residence::Dram,
            parameters: sorted::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
        /// Masstree in DRAM: a trie of B+-trees.
        MasstreeTransient = masstree::Variant::Transient, {
            name: "masstree-transient",
            residence: Residence::Dram,
            parameters: masstree::engine::PARAMETERS,
            contract: Contract::Strict,
            concurrent: true,
            bytes_keys: true,
            max_value_words: 1,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
    }
    peers {
        /// The standard library's `BTreeMap`: it persists nothing, so no pool can be made of it.
        BTreeMap {
            name: "btreemap",
            residence: Residence::Process,
            parameters: &[],
            contract: Contract::Strict,
            concurrent: false,
            bytes_keys: true,
            max_value_words: 14,
            min_leaf_slots: 4,
            slots_of_bytes: slots_of_array,
        }
    }
}

/// Who has the code of the engines for a media. It is compiled where this is implemented, once,
/// and not wherever an index is made.
pub trait Engines<M: Media>: Sync {
    /// As [`Engine::create`].
    ///
    /// # Errors
    /// As there.
    fn create_u64(
        &self,
        engine: Engine,
        pool: &Arc<Pool<M>>,
        transactions: Transactions,
    ) -> Result<Box<dyn Index<U64Keys>>, EngineError>;

    /// As [`Engine::create`].
    ///
    /// # Errors
    /// As there.
    fn create_bytes(
        &self,
        engine: Engine,
        pool: &Arc<Pool<M>>,
        transactions: Transactions,
    ) -> Result<Box<dyn Index<BytesKeys>>, EngineError>;

    /// As [`Engine::open`].
    ///
    /// # Errors
    /// As there.
    fn open_u64(
        &self,
        engine: Engine,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<U64Keys>>, EngineError>;

    /// As [`Engine::open`].
    ///
    /// # Errors
    /// As there.
    fn open_bytes(
        &self,
        engine: Engine,
        pool: &Arc<Pool<M>>,
        opening: Opening,
    ) -> Result<Box<dyn Index<BytesKeys>>, EngineError>;
}

/// Lets `Who` be the [`Engines`] of a media. `engines_on!(Who, Media)` compiles all engines for it,
/// here and now; `engines_on!(Who, Media, Other)` takes those of another.
#[macro_export]
macro_rules! engines_on {
    ($who:ty, $media:ty $(, $other:path)?) => {
        impl $crate::Engines<$media> for $who {
            $crate::engines_on!(@create_u64 create U64Keys, $media, Transactions $(, $other)?);
            $crate::engines_on!(@create_bytes create BytesKeys, $media, Transactions $(, $other)?);
            $crate::engines_on!(@open_u64 open U64Keys, $media, Opening $(, $other)?);
            $crate::engines_on!(@open_bytes open BytesKeys, $media, Opening $(, $other)?);
        }
    };
    (@$name:ident $what:ident $keys:ident, $media:ty, $how:ident $(, $other:path)?) => {
        fn $name(
            &self,
            engine: $crate::Engine,
            pool: &std::sync::Arc<$crate::Pool<$media>>,
            how: $crate::$how,
        ) -> Result<Box<dyn $crate::Index<$crate::$keys>>, $crate::EngineError> {
            $crate::engines_on!(@@ engine $what $name pool how $(, $other)?)
        }
    };
    (@@ $engine:ident $what:ident $name:ident $pool:ident $how:ident) => {
        $engine.$what($pool, $how)
    };
    (@@ $engine:ident $what:ident $name:ident $pool:ident $how:ident, $other:path) => {
        $crate::Engines::$name(&$other, $engine, $pool, $how)
    };
}

/// The engines of the product, on the media that users run on.
#[derive(Clone, Copy, Debug)]
pub struct Shipped;

#[cfg(not(test))] // The tests of this crate open engines themselves: it would be compiled twice.
engines_on!(Shipped, everleaf_pmem::Mapped);

/// The persistent structures of all families, for docs/format.md.
pub fn layouts() -> Vec<Layout> {
    let families = [fptree::layouts(), sorted::layouts(), nvtree::layouts()];
    let single = [linetree::layouts(), clftree::layouts(), lcbtree::layouts(), cdds::layouts()];
    let more = [single.concat(), masstree::layouts()];
    [families.concat(), more.concat(), image::layouts(), wbtree::layouts()].concat()
}

/// Name of the engine of a pool for which none is chosen.
pub const DEFAULT_ENGINE: &str = Engine::DEFAULT.name();

impl Engine {
    /// The engine of a pool for which none is chosen: the best that many threads may share.
    pub const DEFAULT: Engine = Engine::FpTreeConcurrent;

    /// Its line of the table.
    pub const fn entry(self) -> &'static EngineEntry {
        &ENTRIES[self as usize]
    }

    /// The name on the command line, in JSON and in the header of pools.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Whether pools can be made of it, and opened again.
    pub const fn is_available(self) -> bool {
        matches!(self.entry().residence, Residence::Pool)
    }

    /// Whether several threads write at the same time; otherwise writers wait for each other.
    pub const fn is_concurrent(self) -> bool {
        self.entry().concurrent
    }

    /// When the effect of a call is durable.
    pub const fn contract(self) -> Contract {
        self.entry().contract
    }

    /// The engines that pools can be made of.
    pub fn available() -> impl Iterator<Item = Engine> {
        Self::ALL.into_iter().filter(|engine| engine.is_available())
    }

    /// The engines that are measured beside those of pools: nothing of them persists.
    pub fn volatile() -> impl Iterator<Item = Engine> {
        Self::ALL.into_iter().filter(|engine| !engine.is_available())
    }

    /// The parameters that it takes, as they are named on the command line without the dashes.
    pub const fn parameters(self) -> &'static [&'static str] {
        self.entry().parameters
    }

    /// Whether it is the twin of an engine in plain memory: made on the media `Dram` and measured,
    /// never a pool that is opened again.
    pub const fn is_volatile_twin(self) -> bool {
        matches!(self.entry().residence, Residence::Dram)
    }

    /// Whether it is a map in the memory of the process, without a pool.
    pub const fn is_map(self) -> bool {
        matches!(self.entry().residence, Residence::Process)
    }

    /// Entries of a small leaf, the smallest that makes sense.
    pub const fn min_leaf_slots(self) -> u32 {
        self.entry().min_leaf_slots
    }

    /// Entries of a leaf of so many bytes, as `--node-bytes` counts them.
    pub fn slots_of_bytes(self, bytes: u32) -> u32 {
        (self.entry().slots_of_bytes)(bytes)
    }

    /// Words that a value may have.
    pub const fn max_value_words(self) -> usize {
        self.entry().max_value_words
    }

    /// Whether keys may be of this type.
    pub const fn has_keys(self, key_type: KeyType) -> bool {
        self.entry().bytes_keys || matches!(key_type, KeyType::U64)
    }

    /// Refuses keys of a type that it does not have.
    ///
    /// # Errors
    /// [`EngineError::NoByteStrings`].
    pub fn check_keys(self, key_type: KeyType) -> Result<(), EngineError> {
        let refused = EngineError::NoByteStrings { engine: self };
        if self.has_keys(key_type) { Ok(()) } else { Err(refused) }
    }

    /// As [`pack`](Self::pack), for an index whose values are the offsets of a store's records:
    /// these have the keys.
    ///
    /// # Errors
    /// Those of [`pack`](Self::pack).
    pub fn pack_for_store(
        self,
        chosen: &EngineParameters,
        key_type: KeyType,
    ) -> Result<[u64; 8], EngineError> {
        let mut words = self.pack(chosen, 1)?;
        words[ONE_RECORD] = u64::from(self.one_record() && key_type == KeyType::Bytes);
        Ok(words)
    }

    /// Refuses what the header of a pool says of the records of entries, if there is no code for
    /// it.
    fn check_records(self, packed: [u64; 8]) -> Result<(), EngineError> {
        let (value, parameter) = (packed[ONE_RECORD], "one_record");
        if value <= u64::from(self.one_record()) {
            return Ok(());
        }
        let offered = if self.one_record() { "0, 1" } else { "0" }.to_owned();
        Err(IndexError::Parameter { parameter, value, offered }.into())
    }

    /// Itself if a pool can be made of it.
    ///
    /// # Errors
    /// [`EngineError::NotAvailable`] says which there are.
    pub fn require_available(self) -> Result<Self, EngineError> {
        if self.is_available() { Ok(self) } else { Err(EngineError::not_available(self.name())) }
    }

    /// Refuses parameters that it does not know.
    ///
    /// # Errors
    /// [`EngineError::UnknownParameter`] names the first one.
    pub fn check(self, parameters: &EngineParameters) -> Result<(), EngineError> {
        match parameters.given().find(|name| !self.parameters().contains(name)) {
            Some(parameter) => Err(EngineError::UnknownParameter { parameter, engine: self }),
            None => Ok(()),
        }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = EngineError;

    /// Finds an engine by its name, also one that no pool can be made of.
    fn from_str(name: &str) -> Result<Self, EngineError> {
        Self::ALL
            .into_iter()
            .find(|engine| engine.name() == name)
            .ok_or_else(|| EngineError::not_available(name))
    }
}

/// An engine could not be chosen, made or opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No engine of this name, or none that a pool can be made of.
    #[error("engine {name} is not available in this release; choose one of {available}")]
    NotAvailable {
        /// The name.
        name: String,
        /// The engines that pools can be made of.
        available: String,
    },
    /// A parameter that the engine does not have.
    #[error("engine {engine} has no parameter {parameter}; leave it out")]
    UnknownParameter {
        /// The parameter, as it is named on the command line.
        parameter: &'static str,
        /// The engine.
        engine: Engine,
    },
    /// Byte strings as keys of an engine that has `u64` keys only.
    #[error("engine {engine} has u64 keys only; choose these, or another engine for byte strings")]
    NoByteStrings {
        /// The engine.
        engine: Engine,
    },
    /// What its index says.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl EngineError {
    fn not_available(name: &str) -> Self {
        let available = Engine::available().map(Engine::name).collect::<Vec<_>>().join(", ");
        Self::NotAvailable { name: name.to_owned(), available }
    }
}

#[cfg(test)]
mod one_record;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_default_engine_can_be_had() {
        assert_eq!(Engine::default().name(), DEFAULT_ENGINE);
        assert!(Engine::default().is_available() && Engine::default().is_concurrent());
    }

    #[test]
    fn names_round_trip_and_are_distinct() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse::<Engine>().unwrap(), engine);
            assert!(engine.name().len() <= 24, "{engine} does not fit the header of a pool");
        }
        let names: BTreeSet<&str> = Engine::ALL.into_iter().map(Engine::name).collect();
        assert_eq!(names.len(), Engine::ALL.len());
    }

    #[test]
    fn an_unknown_engine_and_one_to_come_are_refused_with_what_there_is() {
        let sentence = "engine bogus is not available in this release; choose one of fptree, \
            fptree-c, linetree, ptree, nvtree, nvtree-c, clftree-append, clftree-inplace, \
            clftree-encoded, clftree-shadow, clftree-encoded-shadow, lcbtree, cdds, \
            wbtree-slot, wbtree-bitmap, circtree, circtree-ls, fastfair, masstree, \
            masstree-logging";
        for name in ["bogus", "stx"] {
            let error = name.parse::<Engine>().unwrap_err();
            assert_eq!(error.to_string(), sentence.replace("bogus", name));
        }
        for engine in Engine::volatile() {
            let error = engine.require_available().unwrap_err();
            assert_eq!(error.to_string(), sentence.replace("bogus", engine.name()));
        }
    }

    #[test]
    fn a_parameter_of_another_engine_is_refused_by_name() {
        let parameters = EngineParameters::default().leaf_slots(8);
        assert!(Engine::FpTree.check(&parameters).is_ok());
        let refused = |engine: Engine, parameters: EngineParameters| {
            engine.check(&parameters).unwrap_err().to_string()
        };
        assert_eq!(
            refused(Engine::FpTreeConcurrent, parameters.group_bytes(4096)),
            "engine fptree-c has no parameter group-bytes; leave it out"
        );
        assert_eq!(
            refused(Engine::BTreeMap, parameters),
            "engine btreemap has no parameter leaf-slots; leave it out"
        );
        assert!(Engine::BTreeMap.check(&EngineParameters::default()).is_ok());
    }

    #[test]
    fn byte_strings_are_refused_by_the_engine_that_has_none() {
        let error = Engine::ClfTreeEncoded.check_keys(KeyType::Bytes).unwrap_err().to_string();
        let sentence = "engine clftree-encoded has u64 keys only; choose these, or another engine \
            for byte strings";
        assert_eq!(error, sentence);
        assert!(Engine::ALL.into_iter().all(|engine| engine.check_keys(KeyType::U64).is_ok()));
    }

    #[test]
    fn the_parameters_of_a_pool_are_those_that_it_was_made_with() {
        for engine in Engine::ALL.into_iter().filter(|engine| *engine != Engine::BTreeMap) {
            let least = engine.min_leaf_slots();
            let mut chosen = EngineParameters::default().leaf_slots(least);
            if engine.parameters().contains(&EngineParameters::INNER_KEYS) {
                chosen = chosen.inner_keys(4);
            }
            if engine.parameters().contains(&EngineParameters::GROUP_BYTES) {
                chosen = chosen.group_bytes(8192);
            }
            let packed = engine.pack(&chosen, 1).unwrap();
            assert_eq!(engine.unpack(packed).unwrap(), chosen, "{engine}");
            assert!(engine.pack(&chosen, engine.max_value_words()).is_ok(), "{engine}");
            assert!(engine.pack(&chosen, engine.max_value_words() + 1).is_err(), "{engine}");
        }
        assert!(Engine::BTreeMap.pack(&EngineParameters::default(), 1).is_err());
    }

    #[test]
    fn what_records_entries_have_is_said_by_the_pool_and_refused_where_there_is_no_code() {
        let chosen = EngineParameters::default();
        for engine in Engine::available() {
            let of = |key_type| engine.pack_for_store(&chosen, key_type).unwrap();
            let mut packed = of(KeyType::Bytes);
            assert_eq!(packed[ONE_RECORD], u64::from(engine.one_record()), "{engine}");
            assert_eq!(of(KeyType::U64), engine.pack(&chosen, 1).unwrap());
            assert!(engine.unpack(packed).is_ok());
            packed[ONE_RECORD] += 1;
            assert!(engine.unpack(packed).is_err(), "{engine}");
        }
    }
}
