//! Which barriers a configuration of an engine can reach at all.

use everleaf::{Contract, EngineParameters};
use everleaf_pmem::Site;

use super::{EngineSubject, Level};
use crate::families::{Needs, has_images, needs_of};
use crate::{POOL_SITES, ScriptKeys, engine_sites};

/// Only where something is allocated that is not a run: keys, values, or leaves one by one.
const BLOCKS: &[&str] = &["pool.exchange.", "pool.chunk.", "pool.intent.", "pool.recover."];
/// Only where keys or values are records.
const RECORDS: &[&str] = &["pool.record."];
/// Only where leaves come in groups.
const GROUPS: &[&str] = &["pool.run."];
/// Only where another medium comes into it: explored with the allocator, and by the pool's own
/// tests. And only where a full pool has chunks of several sizes while a batch is staged beside
/// other workers.
const POOL: &[&str] = &["pool.write_back.", "pool.batch.B1.given", "pool.unmark."];
/// Only where values expire.
const EXPIRY: &[&str] = &["pool.mark."];
/// Only where inner nodes have an image: it has a root, and the close a seal.
const IMAGES: &[&str] = &["pool.root.", "pool.close.C3."];
/// Only below a store.
const STORE: &[&str] =
    &["pool.link.", "pool.doubt.", "pool.batch.", "pool.recover.batch.", "pool.recover.doubt."];
/// Only where a batch changes its index entry by entry.
const ENTRIES: &[&str] = &["pool.batch.B4.fence"];
/// Only of engines that are durable at the ends of epochs.
const EPOCHS: &[&str] = &["pool.epoch.", "pool.recover.epoch."];
/// Of these engines only below a store.
const EPOCHS_OF_RECORDS: &[&str] = &[
    "pool.epoch.E2",
    "pool.epoch.E4",
    "pool.epoch.E5",
    "pool.recover.epoch.",
    "pool.record.",
    "pool.chunk.",
    "pool.intent.",
];
/// Never of these engines: nothing of them is linked.
const LINKS: &[&str] = &[
    "pool.exchange.",
    "pool.link.",
    "pool.doubt.",
    "pool.batch.",
    "pool.recover.blocks",
    "pool.recover.retire",
    "pool.recover.batch.",
    "pool.recover.doubt.",
];

impl EngineSubject {
    /// The barriers that this engine, with these keys and values, can execute.
    pub(super) fn reachable_sites(&self) -> Vec<Site> {
        let of_index = engine_sites(self.engine)
            .filter(|site| needs_of(self.engine, *site).all(|needs| self.has(needs)));
        let groups = self.engine.entry().parameters.contains(&EngineParameters::GROUP_BYTES);
        let bytes = self.scenario.keys == ScriptKeys::Bytes;
        let records = bytes || self.level == Level::Store;
        let epochs = self.engine.contract() == Contract::Buffered;
        let index = self.level == Level::Index;
        let images = has_images(self.engine);
        let excluded = [
            (RECORDS, !epochs && !records),
            (BLOCKS, !epochs && groups && !records && !images),
            (&["pool.exchange."], groups && !bytes && !images),
            (IMAGES, !images),
            (GROUPS, !epochs && !groups),
            (POOL, true),
            (EXPIRY, !self.scenario.has_expiry()),
            (STORE, !epochs && index),
            (ENTRIES, engine_sites(self.engine).any(|site| site.name().contains(".batch."))),
            (EPOCHS, !epochs),
            (EPOCHS_OF_RECORDS, epochs && index),
            (LINKS, epochs),
        ];
        let names =
            |list: &[&str], site: &Site| list.iter().any(|name| site.name().starts_with(name));
        let possible =
            |site: &Site| !excluded.iter().any(|(list, excluded)| *excluded && names(list, site));
        of_index.chain(POOL_SITES.iter().copied()).filter(possible).collect()
    }

    /// Whether a barrier that needs this can be executed.
    fn has(&self, needs: Needs) -> bool {
        let bytes = self.scenario.keys == ScriptKeys::Bytes;
        let key_records = bytes && !(self.level == Level::Store && self.engine.entry().one_record);
        match needs {
            Needs::KeyRecords => key_records,
            Needs::NoKeyRecords => !key_records,
            Needs::BytesKeys => bytes,
            Needs::U64Keys => !bytes,
            Needs::OneWord => self.value_words == 1,
            Needs::SeveralWords => self.value_words > 1,
            Needs::SeveralLines => self.parameters.leaf_slots.is_none_or(|slots| slots > 4),
            Needs::WholeLines => self.whole_lines,
            Needs::Store => self.level == Level::Store,
            Needs::Threads => self.scenario.has_threads(),
            Needs::OtherEngine | Needs::ManyEpochs => false,
        }
    }
}
