//! RocksDB. Its log is written without a sync, which is its default: the system has each write
//! before it returns, so it outlives the process.

use ::rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Direction, Error, IteratorMode, Options,
    WriteBatch, WriteOptions,
};

use super::{PeerError, bytes_of_folder};
use crate::key::BenchKey;
use crate::subject::Peer;
use crate::target::bytes::{ByteStore, Show, ShowEntry};
use crate::{Acknowledged, BenchError, Made};

/// A database.
pub struct RocksDb {
    database: DB,
    folder: Made,
    writes: WriteOptions,
}

fn failed(error: Error) -> BenchError {
    PeerError::of(Peer::RocksDb)(error).into()
}

impl RocksDb {
    /// An empty one, or the one that is there.
    pub fn create(
        folder: Made,
        acknowledged: Acknowledged,
        cache_bytes: u64,
    ) -> Result<Self, BenchError> {
        let mut writes = WriteOptions::default();
        writes.set_sync(acknowledged == Acknowledged::Immediate);
        let (mut options, mut blocks) = (Options::default(), BlockBasedOptions::default());
        blocks.set_block_cache(&Cache::new_lru_cache(cache_bytes as usize));
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        options.set_block_based_table_factory(&blocks);
        let database =
            folder.fill(|path| DB::open(&options, path.join("database"))).map_err(failed)?;
        Ok(Self { database, folder, writes })
    }
}

impl<K: BenchKey> ByteStore<K> for RocksDb {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        Ok(self
            .database
            .get_pinned(key.bytes())
            .map_err(failed)?
            .map(|value| show(&value))
            .is_some())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        self.database.put_opt(key.bytes(), value, &self.writes).map(|()| true).map_err(failed)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        self.database.put_opt(key.bytes(), value, &self.writes).map_err(failed)
    }
    fn put_all(&self, keys: &[K], values: &[Vec<u8>]) -> Result<(), BenchError> {
        let mut batch = WriteBatch::default();
        keys.iter().zip(values).for_each(|(key, value)| batch.put(key.bytes(), value));
        self.database.write_opt(batch, &self.writes).map_err(failed)
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        self.database.delete_opt(key.bytes(), &self.writes).map_err(failed)
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        let start = key.bytes();
        for entry in self
            .database
            .iterator(IteratorMode::From(start.as_ref(), Direction::Forward))
            .take(records)
        {
            let (key, value) = entry.map_err(failed)?;
            show(&key, &value);
        }
        Ok(())
    }
    fn len(&self) -> u64 {
        self.database.iterator(IteratorMode::Start).filter(Result::is_ok).count() as u64
    }
    fn medium_bytes(&self) -> Option<u64> {
        bytes_of_folder(self.folder.path())
    }
}
