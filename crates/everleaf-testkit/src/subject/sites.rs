//! Which barriers a configuration of an engine can reach at all.

use everleaf::{Engine, EngineParameters, registry};
use everleaf_pmem::Site;

use super::{EngineSubject, Level};
use crate::ScriptKeys;

/// Only where keys are records.
const BYTES: &[&str] = &[
    "fptree.group.G1.bound",
    "fptree.group.G1.keys",
    "fptree.insert.P1.refused",
    "fptree.split.S1.fence",
    "fptree.split.S4.",
    "fptree.update.W3.",
    "fptree.recover.R1.",
    "fptree.recover.R3.",
    "fptree.recover.R5.",
    "fptree.split.C4.",
    "fptree.recover.R7.",
    "circtree.insert.P4.",
    "circtree.remove.P1.order",
    "fastfair.insert.Z2.order",
    "fastfair.remove.X1.order",
    "fastfair.remove.D0.",
];
/// Only where something is allocated that is no run: keys, values, or leaves one by one.
const BLOCKS: &[&str] = &["pool.exchange.", "pool.chunk.", "pool.intent.", "pool.recover."];
/// Only where keys are words.
const U64: &[&str] = &[
    "fptree.remove.P1.fence",
    "fptree.split.S2.bound",
    "fptree.recover.R2.fence",
    "fptree.recover.R6.",
    "circtree.insert.E0.",
    "sorted.merge.M0.",
];
/// Only where keys or values are records.
const RECORDS: &[&str] = &["pool.record."];
/// Only where leaves come in groups.
const GROUPS: &[&str] = &["pool.run."];
/// Only with fingerprints.
const FPTREE: &[&str] =
    &["fptree.insert.P2.order", "fptree.split.S2.fingerprints", "fptree.update.W2.order"];
/// Only where keys and values are apart.
const PTREE: &[&str] =
    &["fptree.insert.P1.value", "fptree.split.S2.values", "fptree.update.W1.value"];
const ONE_WORD: &[&str] = &["fptree.update.P1."];
const WIDE: &[&str] = &["fptree.update.W"];
/// Only where a node's entries are more than one line.
const LINES: &[&str] = &[
    "circtree.shift.S2.line",
    "circtree.shift.S2.fence",
    "sorted.recover.B2.fence",
    "fastfair.insert.F0.",
    "fastfair.insert.F1.line",
    "fastfair.insert.F1.fence",
    "fastfair.remove.D2.line",
    "fastfair.remove.D2.fence",
];
/// Only where another medium, or an engine with further roots, comes into it: the pool's own tests
/// reach them.
const POOL: &[&str] = &["pool.rescue.", "pool.root."];
/// Only below a store.
const STORE: &[&str] = &["pool.link.", "pool.batch.", "pool.recover.batch."];

impl EngineSubject {
    /// The barriers that this engine, with these keys and values, can execute.
    pub(super) fn reachable_sites(&self) -> Vec<Site> {
        let bytes = self.scenario.keys == ScriptKeys::Bytes;
        let ptree = self.engine == Engine::PTree;
        let wide = self.value_words > 1;
        let groups = self.engine.parameters().contains(&EngineParameters::GROUP_BYTES);
        let records = bytes || self.level == Level::Store;
        let excluded = [
            (BYTES, !bytes),
            (U64, bytes),
            (RECORDS, !records),
            (BLOCKS, groups && !records),
            (&["pool.exchange."], groups && !bytes),
            (GROUPS, !groups),
            (FPTREE, ptree),
            (PTREE, !ptree),
            (ONE_WORD, wide),
            (WIDE, !wide),
            (LINES, self.parameters.leaf_slots == Some(4)),
            (POOL, true),
            (STORE, self.level == Level::Index),
            // Here the record's allocation flushes the whole entry.
            (&["fptree.insert.P1.entry"], ptree && bytes),
        ];
        let names =
            |list: &[&str], site: &Site| list.iter().any(|name| site.name().starts_with(name));
        let possible =
            |site: &&Site| !excluded.iter().any(|(list, excluded)| *excluded && names(list, site));
        let declared = registry::sites(self.engine).iter().chain(everleaf_pool::SITES);
        declared.filter(possible).copied().collect()
    }
}
