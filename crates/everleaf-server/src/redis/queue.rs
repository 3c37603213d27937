//! What waits for EXEC: requests, and the keys that are watched until then.

use std::collections::HashMap;
use std::sync::Arc;

use super::command::{Command, Named};
use crate::data::{Database, Held, key_row};

/// What a request is about.
#[derive(Clone, Copy)]
pub enum Asked {
    /// The store.
    Store(&'static Command),
    /// The connection.
    Connection,
}

/// Requests of a transaction that wait for EXEC.
#[derive(Default)]
pub struct Queue {
    pub(super) requests: Vec<(Asked, Vec<Vec<u8>>)>,
    pub(super) bytes: usize,
    /// A request of it was refused, so nothing of it will be done.
    pub(super) refused: bool,
}

/// Keys that are watched, by their rows.
#[derive(Default)]
pub struct Watched {
    pub(super) keys: HashMap<Vec<u8>, Seen>,
    /// Held as long as there are any.
    pub(super) watching: Option<Arc<()>>,
    pub(super) bytes: usize,
}

/// What a key was when it was watched.
pub struct Seen {
    pub(super) version: u64,
    /// Whether it was there: one that is there no more has expired, or its database was emptied.
    pub(super) there: bool,
}

impl Queue {
    /// The words of the requests.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Vec<Vec<u8>>> {
        self.requests.iter().map(|(_, args)| args)
    }

    /// Locks what the requests read and write, and what is watched: keys, or everything where a
    /// request names no keys. None as in [`Database::lock_keys`].
    pub(super) fn lock<'d>(
        &self,
        data: &'d Database,
        database: u8,
        watched: &Watched,
        (waits, alone): (bool, bool),
    ) -> Option<Held<'d>> {
        if alone {
            return data.lock_everything(waits);
        }
        let mut rows: Vec<Vec<u8>> = Vec::new();
        for (asked, args) in &self.requests {
            let Asked::Store(command) = asked else { continue };
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            match command.keys.of(&args) {
                // A key has one lock, whatever database is selected.
                Named::Keys(keys) => rows.extend(keys.iter().map(|key| key_row(database, key))),
                Named::Nothing | Named::Everything => return data.lock_everything(waits),
            }
        }
        data.lock_rows(rows.iter().chain(watched.keys.keys()).map(Vec::as_slice), waits)
    }
}
