//! What tests know of each family of trees, one file a family; nothing else here names an engine.
//! Below the trees stands the pool, which has a file too.
//!
//! Map of the files: `directed` (scenarios as data) · `fptree` `linetree` `nvtree` `clftree`
//! `lcbtree` `cdds` `sorted` `masstree` `wbtree` `pool`.

mod cdds;
mod clftree;
mod directed;
mod fptree;
mod lcbtree;
mod linetree;
mod masstree;
mod nvtree;
mod pool;
mod sorted;
mod wbtree;

use everleaf::Engine;
use everleaf_pmem::Site;

pub(crate) use directed::{Directed, inserts, lines, removes};

use crate::TREE_SITES;

/// A family.
pub(crate) struct Family {
    /// Its engines that persist.
    pub members: &'static [Member],
    /// Mutants in which no exploration breaks and that are right all the same, or are missed by
    /// explorations of the layer below alone, each with the reason. Every other survivor is a
    /// mistake: of the code, where a barrier is redundant, or of the scenarios. What follows a
    /// barrier is not the same in every engine: where something breaks, the mutant counts as
    /// killed.
    pub equivalent_mutants: &'static [(&'static str, &'static str)],
    /// Flushes and fences that may find nothing to do, since they cannot know what the session
    /// before has flushed, that the caller had nothing to prepare in a run, which lines of a block
    /// an epoch has written or another has flushed, that fresh memory holds by chance what is
    /// written there, that a batch has no blocks to complete, or that an epoch that failed had
    /// nothing in its log.
    pub may_be_idle: &'static [&'static str],
    /// Directed scenarios: they reach every barrier of an engine's index, and miss each that is
    /// left out.
    pub directed: fn(Engine) -> Vec<Directed>,
    /// What its threads can do to each other beside what those of every engine can: a name, the
    /// operations before, and those that meet.
    pub meetings: &'static [(&'static str, &'static str, &'static str)],
    /// What the full suite has beside them.
    pub more: fn(Engine) -> Vec<Directed>,
    /// Random scenarios have so many times fewer operations and images: recoveries have many
    /// steps, each of which is cut too.
    pub random_share: u64,
}

impl Family {
    /// One of which nothing special is to be said.
    const PLAIN: Self = Self {
        members: &[],
        equivalent_mutants: &[],
        may_be_idle: &[],
        directed: |_| Vec::new(),
        meetings: &[],
        more: |_| Vec::new(),
        random_share: 1,
    };
}

/// An engine of a family.
pub(crate) struct Member {
    /// Its name.
    pub engine: &'static str,
    /// The folders below `src` in whose files, and not in those of a folder within, its barriers
    /// stand.
    pub folders: &'static [&'static str],
    /// The barriers that not every configuration can execute, by how their names begin.
    pub needs: &'static [(&'static str, Needs)],
    /// How its threads meet.
    pub meetings: Meetings,
}

impl Member {
    /// One of which nothing special is to be said.
    const PLAIN: Self = Self { engine: "", folders: &[], needs: &[], meetings: Meetings::Plain };
}

/// How the meetings of threads are explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meetings {
    /// As they are.
    Plain,
    /// By simulated transactions too.
    ByTransactions,
    /// In fewer interleavings and images: every crash point has a multiple of them.
    Fewer,
}

/// What must be so that a barrier can be executed at all, for a search for barriers that are never
/// reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Byte-string keys.
    BytesKeys,
    /// Byte-string keys in records of their own: not below a store where entries have one record.
    KeyRecords,
    /// Other keys.
    NoKeyRecords,
    /// Keys that are words.
    U64Keys,
    /// Values of one word.
    OneWord,
    /// Wider values.
    SeveralWords,
    /// A node whose entries are more than one line: 4 entries are one.
    SeveralLines,
    /// A store above.
    Store,
    /// Several threads.
    Threads,
    /// A media that promises whole lines.
    WholeLines,
    /// Another engine of the same family.
    OtherEngine,
    /// Tens of thousands of epochs, or hundreds of crashes.
    ManyEpochs,
}

const FAMILIES: [&Family; 9] = [
    &fptree::FAMILY,
    &linetree::FAMILY,
    &nvtree::FAMILY,
    &clftree::FAMILY,
    &lcbtree::FAMILY,
    &cdds::FAMILY,
    &sorted::FAMILY,
    &masstree::FAMILY,
    &wbtree::FAMILY,
];

/// The family of an engine that persists, and what is said of the engine.
pub(crate) fn of(engine: Engine) -> Option<(&'static Family, &'static Member)> {
    let of_family = |family: &'static Family| {
        let member = family.members.iter().find(|member| member.engine == engine.name())?;
        Some((family, member))
    };
    FAMILIES.into_iter().find_map(of_family)
}

/// The folders in which the barriers of an engine stand; none of what does not persist.
pub fn folders(engine: Engine) -> &'static [&'static str] {
    of(engine).map_or(&[], |(_, member)| member.folders)
}

/// Every barrier of an engine's index, without those of the pool. None of what does not persist.
pub fn engine_sites(engine: Engine) -> impl Iterator<Item = Site> {
    let folders = folders(engine);
    TREE_SITES.iter().filter(move |(folder, _)| folders.contains(folder)).map(|(_, site)| *site)
}

/// Whether an engine's inner nodes have an image in the pool.
pub(crate) fn has_images(engine: Engine) -> bool {
    folders(engine).contains(&"tree")
}

/// What a barrier of an engine's index needs beside the engine.
pub(crate) fn needs_of(engine: Engine, site: Site) -> impl Iterator<Item = Needs> {
    let needs = of(engine).map_or([].as_slice(), |(_, member)| member.needs);
    let named = needs.iter().filter(move |(name, _)| site.name().starts_with(name));
    named.map(|(_, needs)| *needs)
}

/// The reason why this mutant, by its name, may survive.
pub fn why_equivalent(mutant: &str) -> Option<&'static str> {
    let families = FAMILIES.iter().flat_map(|family| family.equivalent_mutants);
    let known = families.chain(pool::EQUIVALENT_MUTANTS).find(|(name, _)| *name == mutant);
    known.map(|(_, reason)| *reason)
}

/// Whether a flush or a fence may find nothing to do.
pub fn may_be_idle(site: Site) -> bool {
    let families = FAMILIES.iter().flat_map(|family| family.may_be_idle);
    families.chain(pool::MAY_BE_IDLE).any(|name| *name == site.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_engines::pools;

    use crate::POOL_SITES;

    #[test]
    fn every_engine_that_persists_has_a_family_and_every_barrier_an_engine() {
        let missing: Vec<Engine> =
            pools().map(Engine::of).filter(|one| of(*one).is_none()).collect();
        assert_eq!(missing, []);
        for (folder, site) in TREE_SITES {
            assert!(pools().map(Engine::of).any(|one| folders(one).contains(folder)), "{site}");
        }
    }

    #[test]
    fn what_is_said_of_barriers_is_said_of_barriers_that_there_are() {
        let there_is = |name: &str| {
            let of_trees = TREE_SITES.iter().map(|(_, site)| site);
            of_trees.chain(POOL_SITES).any(|site| site.name().starts_with(name))
        };
        for family in FAMILIES {
            for (name, _) in family.members.iter().flat_map(|member| member.needs) {
                assert!(there_is(name), "{name}");
            }
            for (name, _) in family.equivalent_mutants {
                assert!(there_is(name.strip_prefix("swap ").unwrap_or(name)), "{name}");
            }
            assert!(family.may_be_idle.iter().all(|name| there_is(name)));
        }
    }
}
