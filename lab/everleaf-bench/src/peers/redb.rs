//! redb. A commit without `Durability::Immediate` is gone when the process dies, so that is what
//! each operation pays for; on tmpfs its sync is a system call that does nothing.

use std::ops::Bound;

use ::redb::{Database, Durability, ReadableDatabase, ReadableTableMetadata, TableDefinition};

use super::{PeerError, bytes_of_folder};
use crate::key::BenchKey;
use crate::subject::Peer;
use crate::target::bytes::{ByteStore, Show, ShowEntry, ShowPlace};
use crate::{Acknowledged, BenchError, Made};

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("records");

/// The table as a write transaction has it.
type Table<'t> = ::redb::Table<'t, &'static [u8], &'static [u8]>;

/// A database with one table.
pub struct Redb {
    database: Database,
    folder: Made,
    durability: Durability,
}

fn failed<E: Into<::redb::Error>>(error: E) -> BenchError {
    PeerError::of(Peer::Redb)(error.into()).into()
}

impl Redb {
    /// An empty one, or the one that is there.
    pub fn create(
        folder: Made,
        acknowledged: Acknowledged,
        cache_bytes: u64,
    ) -> Result<Self, BenchError> {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes as usize);
        let database = folder.fill(|path| builder.create(path.join("database"))).map_err(failed)?;
        let mut made = Self { database, folder, durability: Durability::Immediate };
        made.change(|_| Ok(()))?; // So that the table is there.
        if acknowledged == Acknowledged::Buffered {
            made.durability = Durability::None;
        }
        Ok(made)
    }

    /// Does `change` and commits it.
    fn change<R>(
        &self,
        change: impl FnOnce(&mut Table<'_>) -> Result<R, ::redb::StorageError>,
    ) -> Result<R, BenchError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(self.durability).map_err(failed)?;
        let outcome = {
            let mut table = transaction.open_table(TABLE).map_err(failed)?;
            change(&mut table).map_err(failed)?
        };
        transaction.commit().map_err(failed)?;
        Ok(outcome)
    }

    fn table(&self) -> Result<::redb::ReadOnlyTable<&'static [u8], &'static [u8]>, BenchError> {
        self.database.begin_read().map_err(failed)?.open_table(TABLE).map_err(failed)
    }
}

impl<K: BenchKey> ByteStore<K> for Redb {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        // Owned: what `get` returns does not keep its transaction, whose pages a writer then frees.
        let found = self.table()?.get_owned(key.bytes().as_ref()).map_err(failed)?;
        Ok(found.map(|value| show(value.value())).is_some())
    }
    fn get_many(&self, keys: &[K], show: &mut ShowPlace<'_>) -> Result<(), BenchError> {
        let table = self.table()?;
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = table.get_owned(key.bytes().as_ref()).map_err(failed)? {
                show(place, value.value());
            }
        }
        Ok(())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        self.change(|table| Ok(table.insert(key.bytes().as_ref(), value)?.is_none()))
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        self.change(|table| table.insert(key.bytes().as_ref(), value).map(drop))
    }
    fn put_all(&self, keys: &[K], values: &[Vec<u8>]) -> Result<(), BenchError> {
        self.change(|table| {
            let mut all = keys.iter().zip(values);
            all.try_for_each(|(key, value)| {
                table.insert(key.bytes().as_ref(), &value[..]).map(drop)
            })
        })
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        self.change(|table| table.remove(key.bytes().as_ref()).map(drop))
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        let (table, start) = (self.table()?, key.bytes());
        let range = (Bound::Included(start.as_ref()), Bound::Unbounded);
        for entry in table.range::<&[u8]>(range).map_err(failed)?.take(records) {
            let (key, value) = entry.map_err(failed)?;
            show(key.value(), value.value());
        }
        Ok(())
    }
    fn len(&self) -> u64 {
        self.table().ok().and_then(|table| table.len().ok()).unwrap_or(0)
    }
    fn medium_bytes(&self) -> Option<u64> {
        bytes_of_folder(self.folder.path())
    }
}
