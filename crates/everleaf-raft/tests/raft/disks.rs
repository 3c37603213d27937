//! The pools of a node on simulated disks, whose power fails together.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use everleaf::internal::{SHIPPED, create_on, open_on};
use everleaf::{CreateOptions, DurabilityMode, Error, OpenOptions, Store};
use everleaf_log::{Base, Log, LogError, LogOptions, SimulatedDisk};
use everleaf_pool::LOG_STAMP_OFFSET;
use everleaf_raft::Place;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Bytes of a new pool, and that it may grow to.
const POOL: (u64, u64) = (64 << 10, 8 << 20);

/// Called before each operation of one of the disks.
type Watch = Arc<dyn Fn(&Disks) + Send + Sync>;

/// A disk for each pool.
#[derive(Clone, Default)]
pub struct Disks {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    disks: Mutex<BTreeMap<String, SimulatedDisk>>,
    watch: Mutex<Option<Watch>>,
    full: Mutex<bool>,
}

fn failed(error: LogError) -> Error {
    Error::Stream { action: "using the log", source: io::Error::other(error) }
}

fn how() -> LogOptions {
    let mut log = LogOptions::for_pool(POOL.0);
    (log.segment_bytes, log.log_bytes) = (32 << 10, 128 << 10);
    log.background = false;
    log
}

fn base(disk: &SimulatedDisk) -> Base {
    Base {
        file: disk.first_file(),
        uuid: 1,
        max_bytes: POOL.1,
        stamp_offset: LOG_STAMP_OFFSET,
        read_whole: false,
    }
}

impl Disks {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, name: &str) -> Option<SimulatedDisk> {
        self.inner.disks.lock().get(name).cloned()
    }

    fn map(&self, image: impl FnMut(&SimulatedDisk) -> SimulatedDisk) -> Self {
        let disks = self.inner.disks.lock();
        let images = disks.keys().cloned().zip(disks.values().map(image)).collect();
        Self { inner: Arc::new(Inner { disks: Mutex::new(images), ..Inner::default() }) }
    }

    /// What another process finds when this one is killed now.
    pub fn after_kill(&self) -> Self {
        self.map(SimulatedDisk::after_kill)
    }

    /// What a power failure leaves; `choose` says which of so many ways each thing went.
    pub fn after_power_failure(&self, mut choose: impl FnMut(usize) -> usize) -> Self {
        self.map(|disk| disk.after_power_failure(&mut choose))
    }

    /// One of the images that a power failure may leave: mostly what is durable, or mostly all.
    pub fn drawn(&self, rng: &mut StdRng) -> Self {
        let mut own = StdRng::seed_from_u64(rng.random());
        self.map(|disk| {
            let leans = own.random_range(0..4);
            disk.after_power_failure(|ways| match leans {
                0 => 0,
                1 => ways - 1,
                2 if own.random_ratio(7, 8) => 0,
                _ => own.random_range(0..ways),
            })
        })
    }

    /// Shows all disks before each operation of one of them.
    pub fn watch(&self, watch: impl Fn(&Disks) + Send + Sync + 'static) {
        *self.inner.watch.lock() = Some(Arc::new(watch));
        self.inner.disks.lock().values().for_each(|disk| self.watch_one(disk));
    }

    fn watch_one(&self, disk: &SimulatedDisk) {
        if let Some(watch) = self.inner.watch.lock().clone() {
            let all = Arc::downgrade(&self.inner);
            disk.watch(move |_| {
                if let Some(inner) = all.upgrade() {
                    watch(&Disks { inner });
                }
            });
        }
    }

    /// The power of all of them fails before so many operations more of each.
    pub fn cut_after(&self, operations: u64) {
        for disk in self.inner.disks.lock().values() {
            disk.cut_before(disk.operations() + operations);
        }
    }

    /// No file becomes longer.
    pub fn fill(&self) {
        *self.inner.full.lock() = true;
        for disk in self.inner.disks.lock().values() {
            disk.limit_room(disk.used_bytes(), true);
        }
    }

    /// Whether they were filled.
    pub fn are_full(&self) -> bool {
        *self.inner.full.lock()
    }

    /// They are not full any more.
    pub fn give_room(&self) {
        self.inner.disks.lock().values().for_each(|disk| disk.limit_room(u64::MAX, true));
    }

    /// Whether it has failed.
    pub fn are_off(&self) -> bool {
        self.inner.disks.lock().values().any(SimulatedDisk::is_off)
    }
}

impl Place for Disks {
    fn create(&self, name: &str) -> everleaf::Result<Store> {
        let disk = SimulatedDisk::new();
        disk.nameless();
        let media =
            Log::create(&base(&disk), Arc::new(disk.clone()), POOL.0, how()).map_err(failed)?;
        let seldom = DurabilityMode::Buffered { interval_ms: DurabilityMode::MAX_INTERVAL_MS };
        let mode = if name == "raft" { DurabilityMode::Immediate } else { seldom };
        let options = CreateOptions::new().size_bytes(POOL.0).durability(mode);
        let (store, pool) = create_on(SHIPPED, &options, media)?;
        Log::of(pool.media()).unwrap().checkpoint().map_err(failed)?;
        self.watch_one(&disk);
        self.inner.disks.lock().insert(name.to_owned(), disk);
        Ok(store)
    }

    fn open(&self, name: &str) -> everleaf::Result<Store> {
        let disk = self.get(name).ok_or(Error::Closed)?;
        let media = Log::open(&base(&disk), Arc::new(disk.clone()), how()).map_err(failed)?;
        Ok(open_on(SHIPPED, &OpenOptions::new(), media)?.0)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.disks.lock().remove(name);
        Ok(())
    }

    fn names(&self) -> io::Result<BTreeSet<String>> {
        Ok(self.inner.disks.lock().keys().cloned().collect())
    }
}
