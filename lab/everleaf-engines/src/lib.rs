//! All engines of Everleaf, those of the papers' comparisons too, on the media of the laboratory:
//! here each tree is compiled for each of them, once, and nowhere else. On [`Mapped`] the product's
//! engines are those of the product.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub use everleaf_baselines::cdds::CDDS;
pub use everleaf_baselines::lcbtree::LCBTREE;
pub use everleaf_baselines::wbtree::{WBTREE_BITMAP, WBTREE_SLOT};
use everleaf_baselines::{cdds, lcbtree, wbtree};
pub use everleaf_circtree::{CIRCTREE, CIRCTREE_LS, FASTFAIR, VOLATILE_CIRC, VOLATILE_STD};
pub use everleaf_clftree::{
    CLFTREE_APPEND, CLFTREE_ENCODED, CLFTREE_ENCODED_SHADOW, CLFTREE_INPLACE, CLFTREE_SHADOW,
    InnerEncoding, inner_encodings,
};
use everleaf_crash::{Dram, Instrumented, Traced};
pub use everleaf_fptree::{FPTREE, FPTREE_C, PTREE};
pub use everleaf_linetree::LINETREE;
pub use everleaf_masstree::{MASSTREE, MASSTREE_LOGGING, MASSTREE_TRANSIENT};
pub use everleaf_nvtree::{NVTREE, NVTREE_C, rebuild_times};
use everleaf_pmem::{Layout, Mapped, Media};
use everleaf_tree::{EngineCode, EngineEntry, Engines, Residence, image};
use {everleaf_circtree as circtree, everleaf_clftree as clftree, everleaf_fptree as fptree};
use {everleaf_linetree as linetree, everleaf_masstree as masstree, everleaf_nvtree as nvtree};

/// The standard library's `BTreeMap`, a peer of the benchmarks: it persists nothing, so no pool can
/// be made of it.
pub static BTREEMAP: EngineEntry = EngineEntry {
    name: "btreemap",
    residence: Residence::Process,
    max_value_words: 14,
    ..EngineEntry::USUAL
};

/// Every engine, in the order of tables.
pub static ENTRIES: [&EngineEntry; 24] = [
    &FPTREE,
    &FPTREE_C,
    &LINETREE,
    &PTREE,
    &NVTREE,
    &NVTREE_C,
    &CLFTREE_APPEND,
    &CLFTREE_INPLACE,
    &CLFTREE_ENCODED,
    &CLFTREE_SHADOW,
    &CLFTREE_ENCODED_SHADOW,
    &LCBTREE,
    &CDDS,
    &WBTREE_SLOT,
    &WBTREE_BITMAP,
    &CIRCTREE,
    &CIRCTREE_LS,
    &FASTFAIR,
    &MASSTREE,
    &MASSTREE_LOGGING,
    &VOLATILE_STD,
    &VOLATILE_CIRC,
    &MASSTREE_TRANSIENT,
    &BTREEMAP,
];

/// The engines that pools can be made of.
pub fn pools() -> impl Iterator<Item = &'static EngineEntry> {
    ENTRIES.into_iter().filter(|entry| entry.is_available())
}

/// The engines that are measured beside those of pools: nothing of them persists.
pub fn volatile() -> impl Iterator<Item = &'static EngineEntry> {
    ENTRIES.into_iter().filter(|entry| !entry.is_available())
}

/// The engine of this name, if a pool can be made of it; else a sentence that says which there are.
///
/// # Errors
/// The sentence.
pub fn named(name: &str) -> Result<&'static EngineEntry, String> {
    pools().find(|entry| entry.name == name).ok_or_else(|| {
        let available = pools().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        let asked = match name {
            "" => "an engine without a name".to_owned(),
            name => format!("engine {name}"),
        };
        format!("{asked} is not available in this release; choose one of {available}")
    })
}

/// A media that engines are compiled for.
pub trait LaboratoryMedia: Media + Sized {
    /// What there is for it, family by family.
    fn families() -> &'static [&'static [EngineCode<Self>]];
}

/// The engines of a media.
pub fn all<M: LaboratoryMedia>() -> Engines<M> {
    Engines::of(M::families())
}

/// All engines, compiled here.
macro_rules! compiled_for {
    ($media:ty) => {
        impl LaboratoryMedia for $media {
            fn families() -> &'static [&'static [EngineCode<Self>]] {
                static FAMILIES: &[&[EngineCode<$media>]] = &[
                    &fptree::engines(),
                    &linetree::engines(),
                    &nvtree::engines(),
                    &clftree::engines(),
                    &circtree::engines(),
                    &masstree::engines(),
                    &fptree::laboratory(),
                    &linetree::laboratory(),
                    &clftree::laboratory(),
                    &circtree::laboratory(),
                    &masstree::laboratory(),
                    &lcbtree::engines(),
                    &cdds::engines(),
                    &wbtree::engines(),
                    &circtree::twins(),
                    &masstree::twins(),
                ];
                FAMILIES
            }
        }
    };
}

compiled_for!(Traced);
compiled_for!(Instrumented);

impl LaboratoryMedia for Mapped {
    fn families() -> &'static [&'static [EngineCode<Self>]] {
        static FAMILIES: &[&[EngineCode<Mapped>]] = &[
            &fptree::SHIPPED,
            &linetree::SHIPPED,
            &nvtree::SHIPPED,
            &clftree::SHIPPED,
            &circtree::SHIPPED,
            &masstree::SHIPPED,
            &clftree::LABORATORY,
            &circtree::LABORATORY,
            &masstree::LABORATORY,
            &fptree::laboratory(),
            &linetree::laboratory(),
            &lcbtree::engines(),
            &cdds::engines(),
            &wbtree::engines(),
        ];
        FAMILIES
    }
}

impl LaboratoryMedia for Dram {
    /// The twins.
    fn families() -> &'static [&'static [EngineCode<Self>]] {
        static FAMILIES: &[&[EngineCode<Dram>]] = &[&circtree::twins(), &masstree::twins()];
        FAMILIES
    }
}

/// The persistent structures of all families, for docs/format.md.
pub fn layouts() -> Vec<Layout> {
    let families = [fptree::layouts(), circtree::layouts(), nvtree::layouts()];
    let single = [linetree::layouts(), clftree::layouts(), lcbtree::layouts(), cdds::layouts()];
    let more = [single.concat(), masstree::layouts()];
    [families.concat(), more.concat(), image::layouts(), wbtree::layouts()].concat()
}
