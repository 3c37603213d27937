//! The engines of the product, by their names.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use everleaf_index::{Contract, IndexError};
use everleaf_pmem::Mapped;
use everleaf_pool::{Format, KeyType};
use everleaf_tree::parameters::ONE_RECORD;
use everleaf_tree::{EngineCode, EngineEntry, EngineParameters, Engines, Residence};

use crate::Error;

#[cfg(not(any(
    feature = "fptree",
    feature = "linetree",
    feature = "nvtree",
    feature = "clftree",
    feature = "circtree",
    feature = "masstree"
)))]
compile_error!("everleaf needs an engine; turn on its feature `fptree`, or another engine's");

/// The families of this build. Their code is in their crates.
static FAMILIES: &[&[EngineCode<Mapped>]] = &[
    #[cfg(feature = "fptree")]
    &everleaf_fptree::SHIPPED,
    #[cfg(feature = "linetree")]
    &everleaf_linetree::SHIPPED,
    #[cfg(feature = "nvtree")]
    &everleaf_nvtree::SHIPPED,
    #[cfg(feature = "clftree")]
    &everleaf_clftree::SHIPPED,
    #[cfg(feature = "circtree")]
    &everleaf_circtree::SHIPPED,
    #[cfg(feature = "masstree")]
    &everleaf_masstree::SHIPPED,
];

/// The engines of this build, on the media that users run on.
pub const SHIPPED: Engines<Mapped> = Engines::of(FAMILIES);

/// A tree design: what keeps the keys of a store in order. An engine is there if the feature of its
/// family is on; `all-engines` turns all on.
#[derive(Clone, Copy)]
pub struct Engine(&'static EngineEntry);

/// Declares the engines of a feature.
macro_rules! engines {
    ($($feature:literal { $($(#[$meta:meta])* $name:ident = $entry:path;)* })*) => {
        impl Engine {
            $($(
                $(#[$meta])*
                #[cfg(feature = $feature)]
                pub const $name: Engine = Engine(&$entry);
            )*)*
        }
    };
}

engines! {
    "fptree" {
        /// FPTree: leaves in persistent memory with fingerprints, inner nodes in DRAM; one writer
        /// at a time.
        FPTREE = everleaf_fptree::FPTREE;
        /// FPTree for many writers (selective concurrency).
        FPTREE_C = everleaf_fptree::FPTREE_C;
    }
    "linetree" {
        /// Line tree: entries that commit themselves within their line; for many writers.
        LINETREE = everleaf_linetree::LINETREE;
    }
    "nvtree" {
        /// NV-Tree: append-only leaves in persistent memory, inner nodes in one array in DRAM.
        NVTREE = everleaf_nvtree::NVTREE;
        /// NV-Tree for many writers of `u64` keys; of byte strings one at a time.
        NVTREE_C = everleaf_nvtree::NVTREE_C;
    }
    "clftree" {
        /// clfB-tree with leaves that are appended to: inner nodes are encoded into one line.
        CLFTREE_APPEND = everleaf_clftree::CLFTREE_APPEND;
        /// clftree-append with leaves that are encoded into one line as well: `u64` keys only.
        CLFTREE_ENCODED = everleaf_clftree::CLFTREE_ENCODED;
    }
    "circtree" {
        /// Circ-Tree: sorted circular nodes.
        CIRCTREE = everleaf_circtree::CIRCTREE;
    }
    "masstree" {
        /// Durable Masstree: a trie of B+-trees, durable at the ends of epochs.
        MASSTREE = everleaf_masstree::MASSTREE;
    }
}

/// The engines of the product, each with its feature.
const FEATURES: [(&str, &str); 9] = [
    ("fptree", "fptree"),
    ("fptree-c", "fptree"),
    ("linetree", "linetree"),
    ("nvtree", "nvtree"),
    ("nvtree-c", "nvtree"),
    ("clftree-append", "clftree"),
    ("clftree-encoded", "clftree"),
    ("circtree", "circtree"),
    ("masstree", "masstree"),
];

/// The engines of the laboratory, of which older releases have made pools.
const LABORATORY: [&str; 11] = [
    "ptree",
    "clftree-inplace",
    "clftree-shadow",
    "clftree-encoded-shadow",
    "circtree-ls",
    "fastfair",
    "masstree-logging",
    "wbtree-slot",
    "wbtree-bitmap",
    "cdds",
    "lcbtree",
];

/// What opens a pool of an engine that this build does not have.
pub(crate) fn what_has(name: &str) -> String {
    match FEATURES.iter().find(|(engine, _)| *engine == name) {
        Some((_, feature)) => format!("build with the feature {feature} of the crate everleaf"),
        None if LABORATORY.contains(&name) => {
            "open it with the laboratory's program: everleaf-lab dump".to_owned()
        }
        None => "open it with the release that made it".to_owned(),
    }
}

impl Engine {
    /// The engine of a pool for which none is chosen: the best that many threads may share.
    #[cfg(feature = "fptree")]
    pub const DEFAULT: Self = Self::FPTREE_C;
    /// The engine of a pool for which none is chosen: the first of this build.
    #[cfg(not(feature = "fptree"))]
    pub const DEFAULT: Self = Self(FAMILIES[0][0].entry);

    /// The engine that an entry tells of.
    #[doc(hidden)] // For the laboratory, which has more.
    pub const fn of(entry: &'static EngineEntry) -> Self {
        Self(entry)
    }

    /// The engines of this build, in the order of tables.
    pub fn available() -> impl Iterator<Item = Self> {
        FAMILIES.iter().copied().flatten().map(|code| Self(code.entry))
    }

    /// The name on the command line, in JSON and in the header of pools.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Whether several threads write at the same time; otherwise writers wait for each other.
    pub const fn is_concurrent(self) -> bool {
        self.0.concurrent
    }

    /// When the effect of a call is durable.
    pub const fn contract(self) -> Contract {
        self.0.contract
    }

    /// Whether keys may be of this type.
    pub const fn has_keys(self, key_type: KeyType) -> bool {
        self.0.bytes_keys || matches!(key_type, KeyType::U64)
    }

    /// All that tables say of it.
    #[doc(hidden)] // For the laboratory.
    pub const fn entry(self) -> &'static EngineEntry {
        self.0
    }

    /// Refuses keys of a type that it does not have.
    pub(crate) fn check_keys(self, key_type: KeyType) -> Result<(), Error> {
        let refused = Error::NoByteStrings { engine: self };
        if self.has_keys(key_type) { Ok(()) } else { Err(refused) }
    }

    /// Refuses parameters that it does not know.
    #[doc(hidden)] // For the laboratory.
    pub fn check(self, chosen: &EngineParameters) -> Result<(), Error> {
        match chosen.given().find(|name| !self.0.parameters.contains(name)) {
            Some(parameter) => Err(Error::UnknownParameter { parameter, engine: self }),
            None => Ok(()),
        }
    }

    /// The format of a pool in which it keeps values of so many words.
    pub(crate) fn format(
        self,
        key_type: KeyType,
        chosen: &EngineParameters,
        value_words: usize,
    ) -> Result<Format, Error> {
        self.check_keys(key_type)?;
        if self.0.residence == Residence::Process {
            return Err(Error::unknown_engine(self.name()));
        }
        self.check(chosen)?;
        let parameters = (self.0.pack)(chosen, value_words as u64)?;
        Ok(Format { engine: self.name().to_owned(), key_type, parameters })
    }

    /// The same of a store, whose values are the offsets of records that have the keys.
    pub(crate) fn store_format(
        self,
        key_type: KeyType,
        chosen: &EngineParameters,
    ) -> Result<Format, Error> {
        let mut format = self.format(key_type, chosen, 1)?;
        format.parameters[ONE_RECORD] = u64::from(self.0.one_record && key_type == KeyType::Bytes);
        Ok(format)
    }

    /// The sizes of nodes that the header of a pool says.
    pub(crate) fn unpack(self, packed: [u64; 8]) -> Result<EngineParameters, IndexError> {
        let (value, parameter) = (packed[ONE_RECORD], "one_record");
        if value > u64::from(self.0.one_record) {
            let offered = if self.0.one_record { "0, 1" } else { "0" }.to_owned();
            return Err(IndexError::Parameter { parameter, value, offered });
        }
        (self.0.unpack)(packed)
    }
}

impl PartialEq for Engine {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Engine {}

impl Hash for Engine {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
    type Err = Error;

    /// Finds an engine of this build by its name.
    fn from_str(name: &str) -> Result<Self, Error> {
        Self::available()
            .find(|engine| engine.name() == name)
            .ok_or_else(|| Error::unknown_engine(name))
    }
}

/// By its name, for another process.
#[cfg(feature = "control")]
impl serde::Serialize for Engine {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

#[cfg(feature = "control")]
impl<'de> serde::Deserialize<'de> for Engine {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_round_trip_are_distinct_and_all_have_a_feature() {
        let names: Vec<&str> = Engine::available().map(Engine::name).collect();
        for engine in Engine::available() {
            assert_eq!(engine.name().parse::<Engine>().unwrap(), engine);
            assert!(engine.name().len() <= 24, "{engine} does not fit the header of a pool");
            assert!(what_has(engine.name()).contains("the feature"));
        }
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(names.contains(&Engine::default().name()) && Engine::default().is_concurrent());
    }

    #[test]
    fn an_unknown_engine_and_one_of_the_laboratory_are_refused_with_what_there_is() {
        let sentence = "engine bogus is not available in this release; choose one of fptree, \
            fptree-c, linetree, nvtree, nvtree-c, clftree-append, clftree-encoded, circtree, \
            masstree";
        for name in ["bogus", "stx", "wbtree-slot"] {
            let error = name.parse::<Engine>().unwrap_err();
            assert_eq!(error.to_string(), sentence.replace("bogus", name));
        }
    }

    #[test]
    fn a_parameter_of_another_engine_is_refused_by_name() {
        let parameters = EngineParameters::default().group_bytes(4096);
        let error = Engine::FPTREE_C.format(KeyType::U64, &parameters, 1).unwrap_err().to_string();
        assert_eq!(error, "engine fptree-c has no parameter group-bytes; leave it out");
        assert!(Engine::FPTREE.format(KeyType::U64, &parameters, 1).is_ok());
    }

    #[test]
    fn byte_strings_are_refused_by_the_engine_that_has_none() {
        let error = Engine::CLFTREE_ENCODED.check_keys(KeyType::Bytes).unwrap_err().to_string();
        let sentence = "engine clftree-encoded has u64 keys only; choose these, or another engine \
            for byte strings";
        assert_eq!(error, sentence);
        assert!(Engine::available().all(|engine| engine.check_keys(KeyType::U64).is_ok()));
    }

    #[test]
    fn what_records_entries_have_is_said_by_the_pool_and_refused_where_there_is_no_code() {
        let chosen = EngineParameters::default();
        for engine in Engine::available().filter(|engine| engine.has_keys(KeyType::Bytes)) {
            let mut packed = engine.store_format(KeyType::Bytes, &chosen).unwrap().parameters;
            assert_eq!(packed[ONE_RECORD], u64::from(engine.entry().one_record), "{engine}");
            assert!(engine.unpack(packed).is_ok());
            packed[ONE_RECORD] += 1;
            assert!(engine.unpack(packed).is_err(), "{engine}");
            assert_eq!(
                engine.store_format(KeyType::U64, &chosen).unwrap(),
                engine.format(KeyType::U64, &chosen, 1).unwrap()
            );
        }
    }
}
