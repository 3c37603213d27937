//! LMDB. Where it is enough that a write outlives the process, the map is written in place and
//! nothing is synced: what is committed lies in pages that the system shares. Else its defaults.

use std::ops::Bound;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, Error, MdbError, PutFlags, RoTxn, WithTls};

use super::{PeerError, bytes_of_folder};
use crate::key::BenchKey;
use crate::subject::Peer;
use crate::target::bytes::{ByteStore, Show, ShowEntry, ShowPlace};
use crate::{Acknowledged, BenchError, Made};

/// An environment with one database.
pub struct Lmdb {
    environment: Env,
    database: Database<Bytes, Bytes>,
    folder: Made,
}

/// Every system's pages fit into so much.
const PAGES: usize = 64 << 10;

/// Readers at a time: as many threads as a benchmark may have, and the one that looks at the
/// result.
const READERS: u32 = 128;

fn failed(error: Error) -> BenchError {
    PeerError::of(Peer::Lmdb)(error).into()
}

/// Opens what is in a new folder: the one unsafe call of the benchmarks, for which LMDB's binding
/// leaves no other way.
#[expect(
    unsafe_code,
    reason = "a map of a file is sound only while no other program changes the file, and LMDB \
        leaves that to its caller"
)]
fn open(folder: &Made, map_bytes: u64, acknowledged: Acknowledged) -> Result<Env, Error> {
    let mut options = EnvOpenOptions::new();
    options.map_size((map_bytes as usize).next_multiple_of(PAGES)).max_readers(READERS);
    let flags = match acknowledged {
        Acknowledged::Immediate => EnvFlags::empty(),
        _ => EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC,
    };
    folder.fill(|path| {
        // SAFETY: the folder was made for this environment, no other program has its name, and it
        // is opened once. A map that is written in place could be damaged by stray writes only, and
        // what is not synced is lost with the machine only, which takes the benchmark with it.
        unsafe { options.flags(flags).open(path) }
    })
}

impl Lmdb {
    /// An empty one, or the one that is there, which may grow to `map_bytes`.
    pub fn create(
        folder: Made,
        map_bytes: u64,
        acknowledged: Acknowledged,
    ) -> Result<Self, BenchError> {
        let environment = open(&folder, map_bytes, acknowledged).map_err(failed)?;
        let mut transaction = environment.write_txn().map_err(failed)?;
        let database = environment.create_database(&mut transaction, None).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(Self { environment, database, folder })
    }

    fn reader(&self) -> Result<RoTxn<'_, WithTls>, BenchError> {
        self.environment.read_txn().map_err(failed)
    }

    fn write(&self, key: &[u8], value: &[u8], flags: PutFlags) -> Result<bool, BenchError> {
        let mut transaction = self.environment.write_txn().map_err(failed)?;
        match self.database.put_with_flags(&mut transaction, flags, key, value) {
            Ok(()) => transaction.commit().map(|()| true).map_err(failed),
            Err(Error::Mdb(MdbError::KeyExist)) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}

impl<K: BenchKey> ByteStore<K> for Lmdb {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        let transaction = self.reader()?;
        let found = self.database.get(&transaction, key.bytes().as_ref()).map_err(failed)?;
        Ok(found.map(&mut *show).is_some())
    }
    fn get_many(&self, keys: &[K], show: &mut ShowPlace<'_>) -> Result<(), BenchError> {
        let transaction = self.reader()?;
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) =
                self.database.get(&transaction, key.bytes().as_ref()).map_err(failed)?
            {
                show(place, value);
            }
        }
        Ok(())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        self.write(key.bytes().as_ref(), value, PutFlags::NO_OVERWRITE)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        self.write(key.bytes().as_ref(), value, PutFlags::empty()).map(drop)
    }
    fn put_all(&self, keys: &[K], values: &[Vec<u8>]) -> Result<(), BenchError> {
        let mut transaction = self.environment.write_txn().map_err(failed)?;
        for (key, value) in keys.iter().zip(values) {
            let put = self.database.put(&mut transaction, key.bytes().as_ref(), value);
            put.map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        let mut transaction = self.environment.write_txn().map_err(failed)?;
        self.database.delete(&mut transaction, key.bytes().as_ref()).map_err(failed)?;
        transaction.commit().map_err(failed)
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        let transaction = self.reader()?;
        let bytes = key.bytes();
        let range = (Bound::Included(bytes.as_ref()), Bound::Unbounded);
        for entry in self.database.range(&transaction, &range).map_err(failed)?.take(records) {
            let (key, value) = entry.map_err(failed)?;
            show(key, value);
        }
        Ok(())
    }
    fn len(&self) -> u64 {
        self.reader().map_or(0, |transaction| self.database.len(&transaction).unwrap_or(0))
    }
    fn medium_bytes(&self) -> Option<u64> {
        bytes_of_folder(self.folder.path())
    }
}
