//! SQLite: one table of blobs, `WITHOUT ROWID`, with a write-ahead log. Where it is enough that a
//! write outlives the process, nothing is synced: the log lies in the system's buffers.
//!
//! A connection serves one thread at a time; there are as many as threads ask for at once.

use parking_lot::Mutex;
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::{PeerError, bytes_of_folder};
use crate::key::BenchKey;
use crate::subject::Peer;
use crate::target::bytes::{ByteStore, Show, ShowEntry, ShowPlace};
use crate::{Acknowledged, BenchError, Made};

const PUT: &str = "INSERT INTO records VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";

/// A database with one table.
pub struct Sqlite {
    idle: Mutex<Vec<Connection>>,
    folder: Made,
    synchronous: &'static str,
    cache_bytes: u64,
}

fn failed(error: rusqlite::Error) -> BenchError {
    PeerError::of(Peer::Sqlite)(error).into()
}

impl Sqlite {
    /// An empty one, or the one that is there.
    pub fn create(
        folder: Made,
        acknowledged: Acknowledged,
        cache_bytes: u64,
    ) -> Result<Self, BenchError> {
        let synchronous = match acknowledged {
            Acknowledged::Immediate => "FULL",
            _ => "OFF",
        };
        let made = Self { idle: Mutex::default(), folder, synchronous, cache_bytes };
        made.with(|connection| {
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, value BLOB) \
                 WITHOUT ROWID",
            )
        })?;
        Ok(made)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = self.folder.fill(|path| Connection::open(path.join("database")))?;
        connection.busy_timeout(std::time::Duration::from_secs(60))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", self.synchronous)?;
        connection.pragma_update(None, "cache_size", -((self.cache_bytes >> 10) as i64))?;
        Ok(connection)
    }

    /// Does something with a connection that nobody else has.
    fn with<R>(
        &self,
        action: impl FnOnce(&Connection) -> rusqlite::Result<R>,
    ) -> Result<R, BenchError> {
        let idle = self.idle.lock().pop();
        let connection = idle.map_or_else(|| self.connect(), Ok).map_err(failed)?;
        let done = action(&connection).map_err(failed);
        self.idle.lock().push(connection);
        done
    }

    /// Runs a statement once; how many rows it has changed.
    fn change(&self, statement: &str, key: &[u8], value: &[u8]) -> Result<usize, BenchError> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(statement)?;
            if statement.parameter_count() == 1 {
                statement.execute([key])
            } else {
                statement.execute([key, value])
            }
        })
    }
}

/// Shows the value of a key, if it is there.
fn show_value(
    statement: &mut CachedStatement<'_>,
    key: &[u8],
    show: impl FnOnce(&[u8]),
) -> rusqlite::Result<bool> {
    let found = statement.query_row([key], |row| {
        show(row.get_ref(0)?.as_blob()?);
        Ok(())
    });
    found.optional().map(|found| found.is_some())
}

const GET: &str = "SELECT value FROM records WHERE key = ?1";

impl<K: BenchKey> ByteStore<K> for Sqlite {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        self.with(|connection| {
            show_value(&mut connection.prepare_cached(GET)?, key.bytes().as_ref(), show)
        })
    }
    fn get_many(&self, keys: &[K], show: &mut ShowPlace<'_>) -> Result<(), BenchError> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(GET)?;
            keys.iter().enumerate().try_for_each(|(place, key)| {
                show_value(&mut statement, key.bytes().as_ref(), |value| show(place, value))
                    .map(drop)
            })
        })
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        let insert = "INSERT OR IGNORE INTO records VALUES (?1, ?2)";
        self.change(insert, key.bytes().as_ref(), value).map(|rows| rows > 0)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        self.change(PUT, key.bytes().as_ref(), value).map(drop)
    }
    fn put_all(&self, keys: &[K], values: &[Vec<u8>]) -> Result<(), BenchError> {
        self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let mut put = transaction.prepare_cached(PUT)?;
            for (key, value) in keys.iter().zip(values) {
                put.execute([key.bytes().as_ref(), value])?;
            }
            drop(put);
            transaction.commit()
        })
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        let delete = "DELETE FROM records WHERE key = ?1";
        self.change(delete, key.bytes().as_ref(), &[]).map(drop)
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        let scan = "SELECT key, value FROM records WHERE key >= ?1 ORDER BY key LIMIT ?2";
        self.with(|connection| {
            let mut statement = connection.prepare_cached(scan)?;
            let mut rows = statement.query((key.bytes().as_ref(), records as i64))?;
            while let Some(row) = rows.next()? {
                show(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            }
            Ok(())
        })
    }
    fn len(&self) -> u64 {
        let count = "SELECT count(*) FROM records";
        let rows = self.with(|connection| connection.query_row(count, (), |row| row.get(0)));
        rows.map_or(0, |rows: i64| rows as u64)
    }
    fn medium_bytes(&self) -> Option<u64> {
        bytes_of_folder(self.folder.path())
    }
}
