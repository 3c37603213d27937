//! fjall. By default each write is handed to the system before it returns, and so outlives the
//! process.

use std::ops::Bound;
use std::path::Path;

use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{PeerError, bytes_of_folder};
use crate::key::BenchKey;
use crate::subject::Peer;
use crate::target::bytes::{ByteStore, Show, ShowEntry};
use crate::{Acknowledged, BenchError, Made};

/// A database with one keyspace.
pub struct Fjall {
    keyspace: Keyspace,
    database: Database,
    folder: Made,
    acknowledged: Acknowledged,
}

fn failed(error: ::fjall::Error) -> BenchError {
    PeerError::of(Peer::Fjall)(error).into()
}

impl Fjall {
    /// An empty one, or the one that is there.
    pub fn create(
        folder: Made,
        acknowledged: Acknowledged,
        cache_bytes: u64,
    ) -> Result<Self, BenchError> {
        let make = |path: &Path| {
            let database =
                Database::builder(path.join("database")).cache_size(cache_bytes).open()?;
            let keyspace = database.keyspace("records", KeyspaceCreateOptions::default)?;
            Ok((database, keyspace))
        };
        let (database, keyspace) = folder.fill(make).map_err(failed)?;
        Ok(Self { keyspace, database, folder, acknowledged })
    }

    /// Syncs what was written, where that is waited for.
    fn written(&self, written: Result<(), ::fjall::Error>) -> Result<(), BenchError> {
        written.map_err(failed)?;
        match self.acknowledged {
            Acknowledged::Immediate => self.database.persist(PersistMode::SyncData).map_err(failed),
            _ => Ok(()),
        }
    }
}

impl<K: BenchKey> ByteStore<K> for Fjall {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        Ok(self.keyspace.get(key.bytes()).map_err(failed)?.map(|value| show(&value)).is_some())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        self.written(self.keyspace.insert(key.bytes().as_ref(), value)).map(|()| true)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        self.written(self.keyspace.insert(key.bytes().as_ref(), value))
    }
    fn put_all(&self, keys: &[K], values: &[Vec<u8>]) -> Result<(), BenchError> {
        let mut batch = self.database.batch();
        for (key, value) in keys.iter().zip(values) {
            batch.insert(&self.keyspace, key.bytes().as_ref(), &value[..]);
        }
        self.written(batch.commit())
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        self.written(self.keyspace.remove(key.bytes().as_ref()))
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        let range = (Bound::Included(key.bytes()), Bound::Unbounded);
        for entry in self.keyspace.range(range).take(records) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            show(&key, &value);
        }
        Ok(())
    }
    fn len(&self) -> u64 {
        self.keyspace.len().map_or(0, |keys| keys as u64)
    }
    fn medium_bytes(&self) -> Option<u64> {
        bytes_of_folder(self.folder.path())
    }
}
