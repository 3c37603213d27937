//! Salvage: everything that can still be read of a damaged pool, in a new one.
//!
//! First the index is asked, as far as it can be opened and scanned. Where it has gaps, or leads to
//! fewer values than there are, the records are gone through, as the chunk table tells of them.
//! Each value carries its key and a checksum. The damaged file is not written; recovery happens in
//! private memory.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use everleaf_index::{BytesKeys, Direction, U64Keys};
use everleaf_pmem::{Cpu, Mapped, Region};
use everleaf_pool::{
    DamagedFile, Found, KeyType, Opened, Pool, PoolError, Shutdown, lock_damaged_file,
};

use crate::core::backend::{BEING_RESTORED, Condition};
use crate::core::entry_batches::{BATCH_BYTES, BATCH_ENTRIES, Fetched};
use crate::core::keyspace::{CatalogEntry, Space};
use crate::core::link::{OpenStore, value_record};
use crate::core::progress::{Progress, Watch, report};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value_record::{KeyBytes, ValueRecord, key_of_bytes};
use crate::durability::{choice_of, has_log};
use crate::registry::SHIPPED;
use crate::transfer::store_all;
use crate::unfinished::Unfinished;
use crate::{CreateOptions, Error, OwnedKey, Store, StoreKey, logged, registry};

/// Sentences that are kept of what could not be read.
const MAX_SENTENCES: usize = 1000;
/// What the name of a tree whose own is lost begins with; its number follows.
const LOST_TREE: &str = "salvaged-";
/// The size that the new pool has at first.
const NEW_BYTES: u64 = 1 << 20;

/// What a salvage found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// Entries that the index led to.
    pub from_index: u64,
    /// Entries that it did not lead to, and whose records were found. Among them may be one that
    /// was being replaced or removed when the pool was damaged.
    pub from_records: u64,
    /// Entries, blocks and tables that could not be read.
    pub unreadable: u64,
    /// Why not, each a sentence; at most a thousand of them.
    pub complaints: Vec<String>,
}

impl Salvaged {
    fn complain(&mut self, error: impl std::fmt::Display) {
        self.unreadable += 1;
        if self.complaints.len() < MAX_SENTENCES {
            self.complaints.push(error.to_string());
        }
    }
}

/// Copies what can be read of the pool at `damaged` to a new pool at `new`, and tells what could
/// not be. The damaged file is not written. It may also be a sound one that is refused because the
/// machine restarted while it was open. The new pool has the engine, the sizes of nodes and the
/// chosen durability of the old one, as [`Store::copy`] does. A named tree whose name is lost is
/// called `salvaged-` and a number, and has byte-string keys. If the first page is damaged, the new
/// pool has the default engine, and keys are numbers if each has eight bytes.
///
/// # Errors
/// What keeps anything from being read (the file is missing, no pool, or open elsewhere) or the new
/// pool from being made; no new file is left then.
///
/// # Examples
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let (path, new) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
/// # let store = everleaf::Store::create(&path)?;
/// # store.put("key", "value")?;
/// # drop(store);
/// let salvaged = everleaf::salvage(&path, &new)?;
/// assert_eq!((salvaged.from_index, salvaged.unreadable), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn salvage(damaged: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<Salvaged, Error> {
    salvage_with(damaged, new, |_| ControlFlow::Continue(()))
}

/// As [`salvage`], with a callback, which is told how far it has come and may end it.
///
/// # Errors
/// As [`salvage`]; [`Error::Aborted`].
pub fn salvage_with(
    damaged: impl AsRef<Path>,
    new: impl AsRef<Path>,
    mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Salvaged, Error> {
    salvage_to(damaged.as_ref(), new.as_ref(), &mut watch)
}

/// What there is to be read; and what is missing of the log beside the pool, if anything is.
fn region_of(path: &Path, file: &DamagedFile) -> Result<(Region, Option<String>), Error> {
    match file.format() {
        Some(format) if !has_log(format) => Ok((file.map(path)?, None)),
        _ => logged::open_damaged(path, file),
    }
}

/// Not generic, so that it is compiled here, once.
fn salvage_to(damaged: &Path, new_path: &Path, watch: &mut Watch<'_>) -> Result<Salvaged, Error> {
    let file = lock_damaged_file(damaged)?; // Until the end.
    let (region, without_log) = region_of(damaged, &file)?;
    let media = Mapped::new(region, &Cpu::detect()).map_err(PoolError::Map)?;
    let (pool, opened, complaints) = match Pool::open_damaged(media, file.found_bytes()) {
        // It is refused in the words of every other opening.
        Err(why @ PoolError::Corrupt { .. }) => {
            return Err(file.into_refusal().unwrap_or(why).into());
        }
        found => found?,
    };
    let key_type = key_type_of(&pool, watch)?;
    let engine = pool.format().engine.parse().unwrap_or_default();
    let parameters = registry::parameters_of(engine, pool.format());
    let options =
        CreateOptions::new().key_type(key_type).with_tree(engine, parameters).size_bytes(NEW_BYTES);
    let mut unfinished = Unfinished::of(new_path)?;
    // The name is dropped before the pool: see `copy_to`. A choice that cannot be read is none.
    let chosen = choice_of(pool.format()).ok().flatten();
    let (new, unfinished) = (options.create_part_as(&mut unfinished, chosen)?, unfinished);
    let mut work =
        Work { new: &new, salvaged: Salvaged::default(), progress: Progress::default(), watch };
    without_log.iter().for_each(|error| work.salvaged.complain(error));
    complaints.iter().for_each(|error| work.salvaged.complain(error));
    if pool.has_root(BEING_RESTORED) {
        work.salvaged.complain(Error::BeingRestored);
    }
    if pool.format().is_lost() {
        let keys = if key_type == KeyType::U64 { "numbers" } else { "byte strings" };
        work.salvaged.complain(format!(
            "the first page is damaged, which tells the engine and the kind of keys: they are \
             taken for {keys}, and the new pool has the engine {engine}; if its log is not beside \
             it, or cannot be read, values may be older ones"
        ));
    }
    work.save(&pool, &opened)?;
    let salvaged = work.salvaged;
    new.close()?;
    unfinished.finish()?;
    Ok(salvaged)
}

/// Shows all that is found without the index, up to an error.
fn search(
    pool: &Pool<Mapped>,
    mut show: impl FnMut(Found) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut searched = Ok(());
    pool.for_each_record(|found| {
        searched = show(found);
        if searched.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    searched
}

/// The kind of keys. Where the pool does not tell, they are numbers if all have their length and
/// some are no text.
fn key_type_of(pool: &Pool<Mapped>, watch: &mut Watch<'_>) -> Result<KeyType, Error> {
    if !pool.format().is_lost() {
        return Ok(pool.format().key_type);
    }
    let (mut have_length, mut are_text) = (true, true);
    search(pool, |found| match found {
        Found::Record(bytes) => {
            if let Some(found) = ValueRecord::parse(&bytes) {
                have_length &= found.key.len() == size_of::<u64>();
                are_text &= found.key.iter().all(|byte| (b' '..=b'~').contains(byte));
            }
            Ok(())
        }
        Found::Damage(_) => Ok(()), // It is met again.
        Found::Chunk => report(watch, &Progress::default()),
    })?;
    Ok(if have_length && !are_text { KeyType::U64 } else { KeyType::Bytes })
}

struct Work<'w> {
    new: &'w Store,
    salvaged: Salvaged,
    progress: Progress,
    watch: &'w mut Watch<'w>,
}

impl Work<'_> {
    /// Nothing is waited for: the new pool has no name before it is closed, and all of it durable.
    fn save(&mut self, pool: &Arc<Pool<Mapped>>, opened: &Opened) -> Result<(), Error> {
        let new = self.new;
        let gather = || match new.key_type() {
            KeyType::U64 => self.gather::<U64Keys>(pool, opened),
            KeyType::Bytes => self.gather::<BytesKeys>(pool, opened),
        };
        let (saved, _waits_for_close) = new.unsynced(gather);
        saved
    }

    fn gather<K: StoreKey>(
        &mut self,
        pool: &Arc<Pool<Mapped>>,
        opened: &Opened,
    ) -> Result<(), Error> {
        if !pool.format().is_lost() {
            self.gather_index::<K>(pool, opened)?;
        }
        let looks_whole = self.salvaged.unreadable == 0;
        let from_index = self.salvaged.from_index;
        if looks_whole && self.values_in(pool)?.is_some_and(|values| values <= from_index) {
            return Ok(());
        }
        self.gather_records::<K>(pool)?;
        if looks_whole && self.salvaged.from_records > 0 {
            self.salvaged.complain("the index does not lead to all values");
        }
        if K::TYPE == KeyType::Bytes { self.name_lost_trees() } else { Ok(()) }
    }

    /// How many values there are; none if not everything can be read.
    fn values_in(&mut self, pool: &Pool<Mapped>) -> Result<Option<u64>, Error> {
        let (mut values, mut damaged) = (0, false);
        search(pool, |found| {
            match found {
                Found::Record(bytes) => values += u64::from(ValueRecord::parse(&bytes).is_some()),
                Found::Damage(_) => damaged = true,
                Found::Chunk => return report(self.watch, &self.progress),
            }
            Ok(())
        })?;
        Ok((!damaged).then_some(values))
    }

    /// Gives a name to trees whose entry in the catalog could not be read. Without a name
    /// the tree that is made next would be given their number, and what is in them.
    fn name_lost_trees(&mut self) -> Result<(), Error> {
        let catalog = self.new.catalog()?;
        let mut named = BTreeSet::new();
        for entry in catalog.iter() {
            named.extend(CatalogEntry::read(&entry?.1).map(|entry| entry.number));
        }
        let mut next = Some(0);
        while let Some(number) = next {
            let from = Space::Named(number, KeyType::Bytes).encode_bound(Bound::Unbounded, true)?;
            let mut found = None;
            self.new.backend().scan(
                &TreeLiveness::OF_STORE,
                from.as_ref().map(OwnedKey::as_ref),
                Direction::Forward,
                true,
                &mut |key, _| {
                    found = Space::of_encoded(key);
                    ControlFlow::Break(())
                },
            )?;
            let Some(Space::Named(number, _)) = found else { return Ok(()) };
            if !named.contains(&number) {
                // Its keys may have been numbers: as byte strings they can be read in either case.
                let entry = CatalogEntry::untyped(number, KeyType::Bytes);
                let mut name = format!("{LOST_TREE}{number}");
                while !catalog.put_if_absent(&name, entry.to_bytes())? {
                    name.push('-');
                }
                let lost = "the name of a tree is lost, and the kind of its keys";
                self.salvaged.complain(format!(
                    "{lost}; what is left of it is in the tree {name}, with byte-string keys"
                ));
            }
            next = number.checked_add(1);
        }
        Ok(())
    }

    /// All that the index leads to. The error is one of the new pool, or the watcher's.
    fn gather_index<K: StoreKey>(
        &mut self,
        pool: &Arc<Pool<Mapped>>,
        opened: &Opened,
    ) -> Result<(), Error> {
        let index = match registry::open_index::<K, _>(SHIPPED, pool, Shutdown::Crash) {
            Ok((index, _)) => index,
            Err(error) => {
                self.salvaged.complain(error);
                return Ok(());
            }
        };
        let live = OpenStore::<Mapped, K>::new(index, Arc::clone(pool));
        if let Err(error) = live.resolve_writes(opened) {
            self.salvaged.complain(error);
        }
        let (mut batch, mut bytes): (Vec<Fetched>, usize) = (Vec::new(), 0);
        let (mut previous, mut failed) = (None, Ok(()));
        let scanned = live.index.scan(Bound::Unbounded, Direction::Forward, &mut |key, words| {
            let key = K::widen(key);
            if previous.as_ref().is_some_and(|previous: &OwnedKey| previous.as_ref() >= key) {
                self.salvaged.complain("the keys of the index are out of order");
                return ControlFlow::Break(()); // It may go round in circles.
            }
            previous = Some(key.to_owned());
            let records = live.pin_records();
            let offset = words.first().copied().unwrap_or(0);
            match value_record(&records, offset, &KeyBytes::of(key)) {
                Ok(ValueRecord { value, expires_ms, .. }) => {
                    bytes += KeyBytes::of(key).as_slice().len() + value.len();
                    batch.push(Fetched { key: key.to_owned(), value: value.to_vec(), expires_ms });
                }
                Err(error) => self.salvaged.complain(format!("key {key}: {error}")),
            }
            if batch.len() >= BATCH_ENTRIES || bytes >= BATCH_BYTES {
                bytes = 0;
                failed = self.take(std::mem::take(&mut batch));
            }
            if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        failed?;
        self.take(batch)?;
        scanned.unwrap_or_else(|error| self.salvaged.complain(error));
        // An index that is damaged may not lead to a record that is in use, and would free it.
        if self.salvaged.unreadable == 0
            && let Err(error) = live.resolve_doubts(&opened.doubts)
        {
            self.salvaged.complain(error);
        }
        Ok(())
    }

    fn take(&mut self, batch: Vec<Fetched>) -> Result<(), Error> {
        self.salvaged.from_index += batch.len() as u64;
        batch.iter().for_each(|entry| self.progress.add(entry));
        store_all(self.new.backend(), batch)?;
        report(self.watch, &self.progress)
    }

    /// All records that are values, of keys that are still missing.
    fn gather_records<K: StoreKey>(&mut self, pool: &Arc<Pool<Mapped>>) -> Result<(), Error> {
        search(pool, |found| match found {
            Found::Record(bytes) => self.take_record::<K>(&bytes),
            Found::Damage(error) => {
                self.salvaged.complain(error);
                Ok(())
            }
            Found::Chunk => report(self.watch, &self.progress),
        })
    }

    fn take_record<K: StoreKey>(&mut self, bytes: &[u8]) -> Result<(), Error> {
        // Others are keys, and logs of batches.
        let Some(found) = ValueRecord::parse(bytes) else { return Ok(()) };
        let Some(key) =
            key_of_bytes(found.key, K::TYPE).filter(|key| Space::of_encoded(*key).is_some())
        else {
            return Ok(());
        };
        let (backend, value) = (self.new.backend(), Some(found.found().into()));
        let written = backend.write(&TreeLiveness::OF_STORE, key, Condition::Absent, value)?;
        if written.done {
            self.salvaged.from_records += 1;
            self.progress.add(&Fetched {
                key: key.to_owned(),
                value: found.value.to_vec(),
                expires_ms: found.expires_ms,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn records_without_an_index_are_saved_with_few_syncs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let create =
            |name| CreateOptions::new().size_bytes(1 << 20).create(folder.path().join(name));
        let store = create("a.pool").unwrap();
        let keys = 3000;
        store.put_many((0..keys).map(|n: u64| (n.to_be_bytes(), [1; 20]))).unwrap();
        store.close().unwrap();
        let index = [0xff; 4096];
        File::options().write(true).open(&path).unwrap().write_all_at(&index, 2 * 4096).unwrap();

        let new = create("b.pool").unwrap();
        let syncs = || new.statistics().unwrap().log_counts.map(|counts| counts.syncs);
        let before = syncs();
        let file = lock_damaged_file(&path).unwrap();
        let (region, _) = region_of(&path, &file).unwrap();
        let media = Mapped::new(region, &Cpu::detect()).unwrap();
        let (pool, opened, _) = Pool::open_damaged(media, file.found_bytes()).unwrap();
        let (salvaged, progress) = (Salvaged::default(), Progress::default());
        let watch = &mut |_: &Progress| ControlFlow::Continue(());
        let mut work = Work { new: &new, salvaged, progress, watch };
        work.save(&pool, &opened).unwrap();
        assert_eq!((work.salvaged.from_index, work.salvaged.from_records), (0, keys));
        assert_eq!(new.len().unwrap(), keys);
        // Syncs are there where there is a log; some that growth waits for.
        let waited = syncs().zip(before).map(|(after, before)| after - before);
        assert!(waited.is_none_or(|syncs| syncs < 50), "{waited:?}");
    }
}
