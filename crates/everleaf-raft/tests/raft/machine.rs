//! Pools on simulated disks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use everleaf::{CreateOptions, OpenOptions, Store, internal};
use everleaf_log::{Base, Log, LogOptions, SimulatedDisk};
use everleaf_raft::{Entry, Group, LogId, Place, Rows};
use openraft::EntryPayload;
use parking_lot::Mutex;

/// Bytes of a pool at first, and at most.
const POOL: (u64, u64) = (1 << 20, 16 << 20);

fn base(disk: &SimulatedDisk) -> Base {
    let file = disk.first_file();
    Base { file, uuid: 1, max_bytes: POOL.1, stamp_offset: 232, read_whole: false }
}

/// Short segments, so that tests come to use many; no thread but those of the test.
fn log_options() -> LogOptions {
    let mut options = LogOptions::for_pool(POOL.0);
    (options.segment_bytes, options.log_bytes) = (32 << 10, 100 << 10);
    options.background = false;
    options
}

/// A pool on an empty disk.
pub fn create(disk: &SimulatedDisk) -> Store {
    disk.nameless();
    let media = Log::create(&base(disk), Arc::new(disk.clone()), POOL.0, log_options()).unwrap();
    let options = CreateOptions::new().size_bytes(POOL.0);
    let (store, pool) = internal::create_on(internal::SHIPPED, &options, media).unwrap();
    Log::of(pool.media()).unwrap().checkpoint().unwrap();
    store
}

/// What is on a disk.
///
/// # Errors
/// A sentence.
pub fn open(disk: &SimulatedDisk) -> Result<Store, String> {
    let media = Log::open(&base(disk), Arc::new(disk.clone()), log_options());
    let media = media.map_err(|error| format!("the log is refused: {error}"))?;
    let opened = internal::open_on(internal::SHIPPED, &OpenOptions::new(), media);
    opened.map(|opened| opened.0).map_err(|error| format!("the pool is refused: {error}"))
}

/// Numbers from a seed.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, ways: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % ways as u64) as usize
    }
}

pub fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(openraft::impls::leader_id_adv::LeaderId { term, node_id: 1 }, index)
}

/// An entry with a row that tells it from others.
pub fn entry(term: u64, index: u64) -> Entry {
    let mut rows = Rows::new();
    rows.push(b"row", Some(format!("{term} {index}").as_bytes()));
    let group = Group { rows, ..Group::default() };
    Entry { log_id: log_id(term, index), payload: EntryPayload::Normal(group) }
}

/// The disks of a machine: one for each pool. Names are durable at once.
#[derive(Clone, Default)]
pub struct Machine(Arc<Mutex<BTreeMap<String, SimulatedDisk>>>);

impl Machine {
    /// Each disk as something leaves it.
    pub fn after(&self, mut of: impl FnMut(&SimulatedDisk) -> SimulatedDisk) -> Self {
        let disks = self.0.lock().iter().map(|(name, disk)| (name.clone(), of(disk))).collect();
        Self(Arc::new(Mutex::new(disks)))
    }

    /// Calls before each operation of a pool's disk.
    pub fn watch(&self, name: &str, watch: impl Fn() + Send + Sync + 'static) {
        let disk = self.0.lock().get(name).cloned();
        disk.unwrap().watch(move |_| watch());
    }
}

impl Place for Machine {
    fn create(&self, name: &str) -> everleaf::Result<Store> {
        let disk = SimulatedDisk::new();
        self.0.lock().insert(name.to_owned(), disk.clone());
        Ok(create(&disk))
    }

    fn open(&self, name: &str) -> everleaf::Result<Store> {
        let disk = self.0.lock().get(name).cloned();
        open(&disk.ok_or(everleaf::Error::Closed)?).map_err(|what| everleaf::Error::Dump { what })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().remove(name);
        Ok(())
    }

    fn names(&self) -> io::Result<BTreeSet<String>> {
        Ok(self.0.lock().keys().cloned().collect())
    }
}
