//! The engines by name.

use std::fmt;
use std::str::FromStr;

use everleaf_pool::KeyType;

use crate::Error;

/// A tree design. Every name is known; [`Engine::is_available`] says which ones this release can
/// make a pool of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// FPTree: leaves in persistent memory with fingerprints, inner nodes in DRAM; one writer at a
    /// time.
    FpTree,
    /// FPTree for many writers (selective concurrency).
    #[default]
    FpTreeConcurrent,
    /// PTree: FPTree without fingerprints, keys and values apart.
    PTree,
    /// NV-Tree: append-only leaves, inner nodes that can be rebuilt.
    NvTree,
    /// NV-Tree for many writers.
    NvTreeConcurrent,
    /// clfB-tree with encoded leaves.
    ClfTreeEncoded,
    /// clfB-tree with append-only leaves.
    ClfTreeAppend,
    /// clfB-tree whose parents are updated in place.
    ClfTreeInPlace,
    /// Circ-Tree: sorted circular nodes.
    CircTree,
    /// Circ-Tree with linear search through the whole node.
    CircTreeLinear,
    /// Durable Masstree: epochs and in-cache-line logging.
    Masstree,
    /// wBTree with slot arrays only.
    WbTreeSlot,
    /// wBTree with bitmap and slot array.
    WbTreeBitmap,
    /// CDDS B-tree: versioned entries.
    Cdds,
    /// FAST+FAIR: sorted arrays, shifts whose every step is consistent.
    FastFair,
    /// A log-based consistent B+-tree.
    LcbTree,
    /// A standard B+-tree in DRAM.
    VolatileStandard,
    /// A circular B+-tree in DRAM.
    VolatileCircular,
    /// A B+-tree in DRAM with small nodes.
    Stx,
    /// Masstree in DRAM.
    MasstreeTransient,
    /// Masstree with external logging only.
    MasstreeLogging,
    /// The standard library's `BTreeMap`, the peer of the benchmarks: it persists nothing, so no
    /// pool can be made of it.
    BTreeMap,
}

/// Name of the engine of a pool for which none is chosen.
pub const DEFAULT_ENGINE: &str = "fptree-c";

/// Parameters of the FPTree family.
const FPTREE_PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS, EngineParameters::GROUP_BYTES];

/// Parameters of the concurrent FPTree, which has no leaf groups.
const CONCURRENT_FPTREE_PARAMETERS: &[&str] =
    &[EngineParameters::LEAF_SLOTS, EngineParameters::INNER_KEYS];

/// Parameters of Circ-Tree and FAST+FAIR, whose nodes are all alike.
const SORTED_PARAMETERS: &[&str] = &[EngineParameters::LEAF_SLOTS];

impl Engine {
    /// All engines, in the order of their names in the documentation.
    pub const ALL: [Engine; 22] = [
        Engine::FpTree,
        Engine::FpTreeConcurrent,
        Engine::PTree,
        Engine::NvTree,
        Engine::NvTreeConcurrent,
        Engine::ClfTreeEncoded,
        Engine::ClfTreeAppend,
        Engine::ClfTreeInPlace,
        Engine::CircTree,
        Engine::CircTreeLinear,
        Engine::Masstree,
        Engine::WbTreeSlot,
        Engine::WbTreeBitmap,
        Engine::Cdds,
        Engine::FastFair,
        Engine::LcbTree,
        Engine::VolatileStandard,
        Engine::VolatileCircular,
        Engine::Stx,
        Engine::MasstreeTransient,
        Engine::MasstreeLogging,
        Engine::BTreeMap,
    ];

    /// The name on the command line, in JSON and in the header of pools.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::FpTree => "fptree",
            Engine::FpTreeConcurrent => "fptree-c",
            Engine::PTree => "ptree",
            Engine::NvTree => "nvtree",
            Engine::NvTreeConcurrent => "nvtree-c",
            Engine::ClfTreeEncoded => "clftree-encoded",
            Engine::ClfTreeAppend => "clftree-append",
            Engine::ClfTreeInPlace => "clftree-inplace",
            Engine::CircTree => "circtree",
            Engine::CircTreeLinear => "circtree-ls",
            Engine::Masstree => "masstree",
            Engine::WbTreeSlot => "wbtree-slot",
            Engine::WbTreeBitmap => "wbtree-bitmap",
            Engine::Cdds => "cdds",
            Engine::FastFair => "fastfair",
            Engine::LcbTree => "lcbtree",
            Engine::VolatileStandard => "volatile-std",
            Engine::VolatileCircular => "volatile-circ",
            Engine::Stx => "stx",
            Engine::MasstreeTransient => "masstree-transient",
            Engine::MasstreeLogging => "masstree-logging",
            Engine::BTreeMap => "btreemap",
        }
    }

    /// Whether this release can make and open pools of it.
    pub const fn is_available(self) -> bool {
        matches!(
            self,
            Engine::FpTree
                | Engine::FpTreeConcurrent
                | Engine::PTree
                | Engine::CircTree
                | Engine::CircTreeLinear
                | Engine::FastFair
        )
    }

    /// Whether several threads write at the same time; otherwise writers wait for each other.
    pub const fn is_concurrent(self) -> bool {
        matches!(
            self,
            Engine::FpTreeConcurrent
                | Engine::NvTreeConcurrent
                | Engine::CircTree
                | Engine::CircTreeLinear
                | Engine::FastFair
                | Engine::VolatileStandard
                | Engine::VolatileCircular
                | Engine::Masstree
                | Engine::MasstreeTransient
                | Engine::MasstreeLogging
        )
    }

    /// The engines that this release can make pools of.
    pub fn available() -> impl Iterator<Item = Engine> {
        Self::ALL.into_iter().filter(|engine| engine.is_available())
    }

    /// The parameters that it takes, as they are named on the command line without the dashes.
    pub const fn parameters(self) -> &'static [&'static str] {
        match self {
            Engine::FpTree | Engine::PTree => FPTREE_PARAMETERS,
            Engine::FpTreeConcurrent => CONCURRENT_FPTREE_PARAMETERS,
            _ if self.is_sorted() => SORTED_PARAMETERS,
            _ => &[],
        }
    }

    /// Whether it is one of those whose nodes, all alike, keep their entries sorted, and that have
    /// one code: Circ-Tree, FAST+FAIR, their twins.
    const fn is_sorted(self) -> bool {
        matches!(
            self,
            Engine::CircTree
                | Engine::CircTreeLinear
                | Engine::FastFair
                | Engine::VolatileStandard
                | Engine::VolatileCircular
        )
    }

    /// Whether it is the twin of an engine in plain memory: made on the media `Dram` and measured,
    /// never a pool that is opened again.
    pub const fn is_volatile_twin(self) -> bool {
        matches!(self, Engine::VolatileStandard | Engine::VolatileCircular)
    }

    /// Words that a value may have.
    pub const fn most_value_words(self) -> usize {
        if self.is_sorted() { 1 } else { 14 }
    }

    /// Itself if a pool can be made of it.
    pub fn require_available(self) -> Result<Self, Error> {
        if self.is_available() { Ok(self) } else { Err(Error::unavailable(self.name())) }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = Error;

    /// Finds an engine by its name, available or not.
    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|engine| engine.name() == name)
            .ok_or_else(|| Error::unavailable(name))
    }
}

/// Sizes of an engine's nodes. What is not set is the engine's own default (its tuned size).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineParameters {
    /// Entries in a leaf; in any node where all nodes are alike (Circ-Tree, FAST+FAIR).
    pub leaf_slots: Option<u32>,
    /// Keys in an inner node.
    pub inner_keys: Option<u32>,
    /// Bytes of persistent memory that are taken from the pool at a time for leaves.
    pub group_bytes: Option<u64>,
}

impl EngineParameters {
    /// Name of [`leaf_slots`](Self::leaf_slots).
    pub const LEAF_SLOTS: &'static str = "leaf-slots";
    /// Name of [`inner_keys`](Self::inner_keys).
    pub const INNER_KEYS: &'static str = "inner-keys";
    /// Name of [`group_bytes`](Self::group_bytes).
    pub const GROUP_BYTES: &'static str = "group-bytes";

    /// Sets the entries in a leaf.
    #[must_use]
    pub fn leaf_slots(mut self, slots: u32) -> Self {
        self.leaf_slots = Some(slots);
        self
    }

    /// Sets the keys in an inner node.
    #[must_use]
    pub fn inner_keys(mut self, keys: u32) -> Self {
        self.inner_keys = Some(keys);
        self
    }

    /// Sets the bytes taken from the pool at a time.
    #[must_use]
    pub fn group_bytes(mut self, bytes: u64) -> Self {
        self.group_bytes = Some(bytes);
        self
    }

    /// Refuses what `engine` does not know.
    ///
    /// # Errors
    /// [`Error::UnknownParameter`] names the first one.
    pub fn check_for(&self, engine: Engine) -> Result<(), Error> {
        let given = [
            (Self::LEAF_SLOTS, self.leaf_slots.is_some()),
            (Self::INNER_KEYS, self.inner_keys.is_some()),
            (Self::GROUP_BYTES, self.group_bytes.is_some()),
        ];
        match given.into_iter().find(|(name, given)| *given && !engine.parameters().contains(name))
        {
            Some((parameter, _)) => Err(Error::UnknownParameter { parameter, engine }),
            None => Ok(()),
        }
    }
}

/// How a kind of key is called on the command line and in JSON.
pub const fn key_type_name(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::U64 => "u64",
        KeyType::Bytes => "bytes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_engine_can_be_had() {
        assert_eq!(Engine::default().name(), DEFAULT_ENGINE);
        assert!(Engine::default().is_available());
    }

    #[test]
    fn names_round_trip_and_are_distinct() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse::<Engine>().unwrap(), engine);
            assert!(engine.name().len() <= 24, "{engine} does not fit the header of a pool");
        }
    }

    #[test]
    fn an_unknown_engine_and_one_to_come_are_refused_with_what_there_is() {
        let sentence = "engine bogus is not available in this release; choose one of fptree, \
            fptree-c, ptree, circtree, circtree-ls, fastfair";
        assert_eq!("bogus".parse::<Engine>().unwrap_err().to_string(), sentence);
        let error = Engine::Masstree.require_available().unwrap_err();
        assert_eq!(error.to_string(), sentence.replace("bogus", "masstree"));
        assert!(Engine::BTreeMap.require_available().is_err(), "nothing in it persists");
    }

    #[test]
    fn a_parameter_of_another_engine_is_refused_by_name() {
        let parameters = EngineParameters::default().leaf_slots(8);
        assert!(parameters.check_for(Engine::FpTree).is_ok());
        let error = parameters.group_bytes(4096).check_for(Engine::FpTreeConcurrent).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--group-bytes is no parameter of engine fptree-c; leave it out"
        );
        let error = parameters.check_for(Engine::BTreeMap).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--leaf-slots is no parameter of engine btreemap; leave it out"
        );
        assert!(EngineParameters::default().check_for(Engine::BTreeMap).is_ok());
    }
}
