//! Keys that clients have read and keep: they are told when one changes.
//!
//! A key is remembered before it is read. So a writer that commits behind the reading finds it, and
//! the client gets the message behind the reply.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::clients::{Client, Clients};
use crate::data::{Database, key_of};
use crate::resp::reply::Reply;

/// Keys that are remembered, as Redis begins with.
const KEYS: u64 = 1_000_000;
/// The channel of messages for clients of RESP2.
const CHANNEL: &str = "__redis__:invalidate";

/// How a client tracks keys.
#[derive(Clone, Debug, Default)]
pub struct Mode {
    /// It is told of all keys with these fronts; none: of those that it has read.
    pub fronts: Option<BTreeSet<Vec<u8>>>,
    /// Keys are remembered only where it has said so.
    pub opt_in: bool,
    /// They are, unless it has said so.
    pub opt_out: bool,
    /// It is not told of what it has changed itself.
    pub no_loop: bool,
    /// The client that is told instead; 0: itself.
    pub redirect: u64,
    /// That client is gone.
    pub is_broken: bool,
}

/// What all clients track.
pub struct Tracking {
    data: Arc<Database>,
    clients: Arc<Clients>,
    max_keys: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    modes: HashMap<u64, (Arc<Client>, Mode)>,
    keys: HashMap<Vec<u8>, BTreeSet<u64>>,
    /// Clients of all keys.
    items: u64,
}

/// A client that tracks, until this is dropped.
pub struct Tracked {
    all: Arc<Tracking>,
    id: u64,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let mut table = self.all.table.lock();
        table.modes.remove(&self.id);
        if table.modes.is_empty() {
            *table = Table::default();
            self.all.data.listening.turn(false);
        }
    }
}

impl Tracking {
    /// Nobody tracks anything.
    pub fn of(data: &Arc<Database>, clients: &Arc<Clients>) -> Self {
        let (data, clients) = (Arc::clone(data), Arc::clone(clients));
        Self { data, clients, max_keys: AtomicU64::new(KEYS), table: Mutex::default() }
    }

    /// A client tracks from now on.
    pub fn begin(self: &Arc<Self>, client: &Arc<Client>, mode: Mode) -> Tracked {
        let mut table = self.table.lock();
        table.modes.insert(client.id, (Arc::clone(client), mode));
        self.data.listening.turn(true);
        Tracked { all: Arc::clone(self), id: client.id }
    }

    /// How many keys are remembered at most; 0: any number.
    pub fn max_keys(&self) -> u64 {
        self.max_keys.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set_max_keys(&self, keys: u64) {
        self.max_keys.store(keys, Ordering::Relaxed);
        self.forget_some(&mut self.table.lock());
    }

    /// How many keys are remembered, of how many clients together, and how many fronts.
    pub fn counts(&self) -> [u64; 3] {
        let table = self.table.lock();
        let modes = table.modes.values();
        let fronts: BTreeSet<_> =
            modes.flat_map(|(_, mode)| mode.fronts.iter().flatten()).collect();
        [table.keys.len() as u64, table.items, fronts.len() as u64]
    }

    /// Whether the client that is told instead of this one is gone, as was found out.
    pub fn is_broken(&self, id: u64) -> bool {
        self.table.lock().modes.get(&id).is_some_and(|(_, mode)| mode.is_broken)
    }

    /// A client is about to read these keys.
    pub fn remember(&self, id: u64, keys: &[&[u8]]) {
        let mut table = self.table.lock();
        for key in keys {
            let is_new = table.keys.entry(key.to_vec()).or_default().insert(id);
            table.items += u64::from(is_new);
        }
        self.forget_some(&mut table);
    }

    /// Forgets keys beyond the limit, as if they had changed.
    fn forget_some(&self, table: &mut Table) {
        let limit = self.max_keys();
        while limit > 0 && table.keys.len() as u64 > limit {
            let Some(key) = table.keys.keys().next().cloned() else { return };
            self.invalidate(table, &key, 0);
        }
    }

    /// Tells the clients that have read a key.
    fn invalidate(&self, table: &mut Table, key: &[u8], by: u64) {
        let Some(ids) = table.keys.remove(key) else { return };
        table.items -= ids.len() as u64;
        for id in ids {
            let Some((client, mode)) = table.modes.get_mut(&id) else { continue };
            if mode.fronts.is_none() && !(mode.no_loop && id == by) {
                self.send(client, mode, Some(&[key]));
            }
        }
    }

    /// Keys have changed, by a client.
    pub fn changed(&self, rows: &[&[u8]], by: u64) {
        let keys: Vec<&[u8]> = rows.iter().filter_map(|row| Some(key_of(row)?.1)).collect();
        let mut table = self.table.lock();
        keys.iter().for_each(|key| self.invalidate(&mut table, key, by));
        for (id, (client, mode)) in &mut table.modes {
            if mode.no_loop && *id == by {
                continue;
            }
            for front in mode.fronts.clone().iter().flatten() {
                let found = keys.iter().filter(|key| key.starts_with(front));
                let found: Vec<&[u8]> = found.copied().collect();
                if !found.is_empty() {
                    self.send(client, mode, Some(&found));
                }
            }
        }
    }

    /// Everything may have changed.
    pub fn emptied(&self) {
        let mut table = self.table.lock();
        (table.keys, table.items) = (HashMap::new(), 0);
        table.modes.values_mut().for_each(|(client, mode)| self.send(client, mode, None));
    }

    /// Tells a client, or the one that is told instead, of keys; none: of all.
    fn send(&self, client: &Client, mode: &mut Mode, keys: Option<&[&[u8]]>) {
        if mode.redirect == 0 {
            if client.mailbox.is_three() {
                client.mailbox.put(message(true, keys));
            }
            return;
        }
        let Some(other) = self.clients.get(mode.redirect) else {
            mode.is_broken = true;
            if client.mailbox.is_three() {
                let mut bytes = Vec::new();
                let mut reply = Reply::to(&mut bytes, true);
                reply.push(2);
                reply.bulk("tracking-redir-broken");
                reply.integer(mode.redirect as i64);
                client.mailbox.put(bytes.into());
            }
            return;
        };
        let three = other.mailbox.is_three();
        if three || other.told_flags().has(b'P') {
            other.mailbox.put(message(three, keys));
        }
    }
}

/// What a client is told.
fn message(three: bool, keys: Option<&[&[u8]]>) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    let mut reply = Reply::to(&mut bytes, three);
    if three {
        reply.push(2);
        reply.bulk("invalidate");
    } else {
        reply.push(3);
        reply.bulk("message");
        reply.bulk(CHANNEL);
    }
    match keys {
        Some(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        None => reply.null(),
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use everleaf::{Clock, CreateOptions};

    use super::*;
    use crate::data::key_row;
    use crate::memory::MemoryBudget;

    #[test]
    fn keys_beyond_the_limit_are_forgotten_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = CreateOptions::new().create(folder.path().join("a.pool")).unwrap();
        let data = Arc::new(Database::over(store, Clock::system()).unwrap());
        let clients = Arc::<Clients>::default();
        let client = clients.enter(&MemoryBudget::of(1 << 30));
        client.mailbox.speak(true);
        let tracking = Arc::new(Tracking::of(&data, &clients));
        let tracked = tracking.begin(&client, Mode::default());
        tracking.set_max_keys(100);
        for at in 0..1000 {
            tracking.remember(client.id, &[format!("{at:04}").as_bytes()]);
        }
        assert_eq!(tracking.counts(), [100, 100, 0]);
        let all: Vec<Vec<u8>> =
            (0..1000).map(|at| key_row(0, format!("{at:04}").as_bytes())).collect();
        tracking.changed(&all.iter().map(Vec::as_slice).collect::<Vec<_>>(), 0);
        assert_eq!(tracking.counts(), [0, 0, 0]);
        let mut out = Vec::new();
        client.mailbox.take(&mut out, usize::MAX);
        let text = String::from_utf8(out).unwrap();
        let told: BTreeSet<&str> = text.split("$4\r\n").skip(1).map(|part| &part[..4]).collect();
        assert_eq!(told.len(), 1000);
        drop(tracked);
        tracking.remember(client.id, &[b"a"]);
        tracking.changed(&[&all[0][..]], 0);
        assert!(!client.mailbox.take(&mut Vec::new(), 1));
    }
}
