//! LMDB. The map is written in place and nothing is synced: what is committed lies in pages that the system shares, so it outlives the process.

use ::lmdb::{Cursor, Database, DatabaseFlags, Environment, EnvironmentFlags, Error, RoTransaction, Transaction, WriteFlags};

use super::{PeerError, bytes_of_folder};
use crate::subject::Peer;
use crate::target::bytes::{ByteStore, PeerKey, Show, ShowEntry, ShowPlace};
use crate::{BenchError, Made};

/// An environment with one database.
pub struct Lmdb {
    environment: Environment,
    database: Database,
    folder: Made,
}

/// Readers at a time: as many threads as a benchmark may have, and the one that looks at the result.
const READERS: u32 = 128;

fn failed(error: Error) -> BenchError {
    PeerError::of(Peer::Lmdb)(error).into()
}

impl Lmdb {
    /// An empty one, which may grow to `map_bytes`.
    pub fn create(folder: Made, map_bytes: u64) -> Result<Self, BenchError> {
        let flags = EnvironmentFlags::WRITE_MAP | EnvironmentFlags::NO_SYNC | EnvironmentFlags::NO_META_SYNC;
        let mut builder = Environment::new();
        builder.set_flags(flags).set_map_size(map_bytes as usize).set_max_readers(READERS);
        let environment = folder.fill(|path| builder.open(path)).map_err(failed)?;
        let database = environment.create_db(None, DatabaseFlags::empty()).map_err(failed)?;
        Ok(Self { environment, database, folder })
    }

    fn reader(&self) -> Result<RoTransaction<'_>, BenchError> {
        self.environment.begin_ro_txn().map_err(failed)
    }

    fn write(&self, key: &[u8], value: &[u8], flags: WriteFlags) -> Result<bool, BenchError> {
        let mut transaction = self.environment.begin_rw_txn().map_err(failed)?;
        match transaction.put(self.database, &key, &value, flags) {
            Ok(()) => transaction.commit().map(|()| true).map_err(failed),
            Err(Error::KeyExist) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}

fn found(outcome: Result<&[u8], Error>) -> Result<Option<&[u8]>, BenchError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

impl<K: PeerKey> ByteStore<K> for Lmdb {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        let transaction = self.reader()?;
        Ok(found(transaction.get(self.database, &key.bytes()))?.map(&mut *show).is_some())
    }
    fn get_many(&self, keys: &[K], show: &mut ShowPlace<'_>) -> Result<(), BenchError> {
        let transaction = self.reader()?;
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = found(transaction.get(self.database, &key.bytes()))? {
                show(place, value);
            }
        }
        Ok(())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        self.write(key.bytes().as_ref(), value, WriteFlags::NO_OVERWRITE)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        self.write(key.bytes().as_ref(), value, WriteFlags::empty()).map(drop)
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        let mut transaction = self.environment.begin_rw_txn().map_err(failed)?;
        transaction.del(self.database, &key.bytes(), None).map_err(failed)?;
        transaction.commit().map_err(failed)
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        let transaction = self.reader()?;
        let mut cursor = transaction.open_ro_cursor(self.database).map_err(failed)?;
        for entry in cursor.iter_from(key.bytes()).take(records) {
            let (key, value) = entry.map_err(failed)?;
            show(key, value);
        }
        Ok(())
    }
    fn len(&self) -> u64 {
        self.environment.stat().map_or(0, |stat| stat.entries() as u64)
    }
    fn medium_bytes(&self) -> Option<u64> {
        bytes_of_folder(self.folder.path())
    }
}
