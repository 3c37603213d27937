//! Stores on an engine that is durable at the ends of epochs, with a log beside the pool: on a
//! simulated disk whose power fails, and in real files.
//!
//! Only `sync` commits here; `check` ends an epoch without a commit, so that others follow one
//! that is not durable. The log is short: checkpoints come in the middle of epochs.

use everleaf_engines::all;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf::internal;
use everleaf::{CreateOptions, Durability, DurabilityMode, Engine, Error, KeyType, Store};
use everleaf_log::{Log, LogOptions, SimulatedDisk};
use everleaf_pmem::{Mapped, Media};
use everleaf_pool::Pool;

use crate::logged::{
    Model, base, content, copy_both, create_as, log_of, log_options, options, ordinary, write,
};

const SELDOM: DurabilityMode =
    DurabilityMode::Buffered { interval_ms: DurabilityMode::MAX_INTERVAL_MS };
const ENGINES: [Engine; 2] = [Engine::MASSTREE, Engine::of(&everleaf_engines::MASSTREE_LOGGING)];
/// Writes of the program.
const WRITES: u32 = 60;

/// Nodes of three entries, so that nodes split and go, and the external log is used.
fn small(engine: Engine) -> CreateOptions {
    let mut options = options(engine).durability(SELDOM);
    options.parameters = options.parameters.leaf_slots(3).inner_keys(3);
    options
}

/// A checkpoint after ten blocks.
fn how() -> LogOptions {
    let mut options = log_options();
    (options.segment_bytes, options.log_bytes) = (16 << 10, 40 << 10);
    options.memory_bytes = MEMORY.get();
    options
}

thread_local! {
    /// Of pools that this thread makes and opens.
    static MEMORY: Cell<u64> = const { Cell::new(u64::MAX) };
}

fn create(engine: Engine, disk: &SimulatedDisk) -> (Store, Arc<Pool<Mapped>>) {
    create_as(&small(engine), how(), disk, Arc::new(disk.clone()))
}

/// What a power failure may leave: the states at ends of epochs, from the last one that a `sync`
/// has acknowledged on.
#[derive(Clone, Debug, Default)]
struct Promise {
    state: Model,
    boundaries: Vec<Model>,
}

impl Promise {
    fn of_new() -> Self {
        Self { state: Model::new(), boundaries: vec![Model::new()] }
    }

    /// An end begins.
    fn ends(&mut self) {
        self.boundaries.push(self.state.clone());
    }

    fn is_acknowledged(&mut self) {
        self.boundaries = vec![self.state.clone()];
    }

    /// Writes from one number to another, until one is refused. Every ninth is followed by a sync,
    /// some others by an end that is not committed.
    fn run(&mut self, store: &Store, from: u32, to: u32) -> Result<(), Error> {
        for i in from..to {
            write(i, Some(store), &mut self.state)?;
            if i % 9 == 8 {
                self.ends();
                store.sync()?;
                self.is_acknowledged();
            } else if i % 9 == 3 || i % 9 == 5 {
                self.ends();
                assert!(store.check()?.ok);
            }
        }
        self.ends(); // The store is closed when it is dropped.
        Ok(())
    }

    /// Opens what was left; the state that is there must be one of those.
    fn judge(&self, disk: &SimulatedDisk) -> Result<(Store, Model), String> {
        let store = open(disk)?;
        let found = content(&store).map_err(|error| error.to_string())?;
        if !self.boundaries.contains(&found) {
            let keys = |model: &Model| -> Vec<String> {
                model.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
            };
            let of: Vec<_> = self.boundaries.iter().map(keys).collect();
            return Err(format!("found {:?}, which is none of {of:?}", keys(&found)));
        }
        let outcome = store.check().map_err(|error| error.to_string())?;
        if outcome.ok { Ok((store, found)) } else { Err(format!("{:?}", outcome.violations)) }
    }
}

fn open(disk: &SimulatedDisk) -> Result<Store, String> {
    let media = Log::open(&base(disk), Arc::new(disk.clone()), how());
    let media = media.map_err(|error| format!("the log: {error}"))?;
    let opened = internal::open_on(all(), &crate::common::opening(), media);
    opened.map(|(store, _)| store).map_err(|error| format!("the pool: {error}"))
}

/// Numbers from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, ways: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        (self.0 >> 33) as usize % ways
    }
}

/// What the power may leave: only what is durable, all that was written, and two by chance.
fn outcomes(disk: &SimulatedDisk, chance: &mut Chance) -> Vec<SimulatedDisk> {
    let mut left = vec![disk.after_power_failure(|_| 0), disk.after_power_failure(|ways| ways - 1)];
    left.extend((0..2).map(|_| disk.after_power_failure(|ways| chance.below(ways))));
    left
}

/// The power fails before this operation of the disk, in the recovery, and in the session after.
fn cut_at(engine: Engine, writes: u32, cut: u64, seen: &mut u64) -> Result<(), String> {
    let disk = SimulatedDisk::new();
    let store = create(engine, &disk).0;
    disk.cut_before(disk.operations() + cut);
    let mut promise = Promise::of_new();
    let cut_short = promise.run(&store, 0, writes).is_err();
    if cut_short {
        // Who was refused asks again.
        assert!(store.sync().is_err() && store.put("more", b"more").is_err());
        assert!(store.sync().is_err(), "nothing is acknowledged after a failure");
    }
    drop(store);
    let mut chance = Chance(cut);
    for (outcome, left) in outcomes(&disk, &mut chance).into_iter().enumerate() {
        let at = |error| format!("outcome {outcome}: {error}");
        // The power fails in the recovery, of the log or of the epochs.
        let again = left.after_kill();
        again.cut_before(chance.below(40) as u64);
        drop(open(&again));
        for left in outcomes(&again, &mut chance) {
            let judged = promise.judge(&left).map_err(|e| at(format!("in recovery: {e}")))?;
            drop(judged);
            *seen += 1;
        }
        // The next session is cut as well.
        let (store, found) = promise.judge(&left).map_err(at)?;
        left.cut_before(left.operations() + 3 + chance.below(60) as u64);
        let mut next = Promise { state: found.clone(), boundaries: vec![found] };
        let from = chance.below(20) as u32;
        let _ = next.run(&store, from, from + 12);
        drop(store);
        for left in outcomes(&left, &mut chance) {
            let judged = next.judge(&left).map_err(|e| at(format!("the session after: {e}")))?;
            drop(judged);
            *seen += 1;
        }
    }
    // The process alone dies; what the next one shows is durable.
    let killed = disk.after_kill();
    let (store, served) = promise.judge(&killed)?;
    let left = killed.after_power_failure(|_| 0);
    drop(store);
    let served = Promise { boundaries: vec![served], ..promise };
    served.judge(&left).map(drop).map_err(|error| format!("served and lost: {error}"))
}

fn explore(engine: Engine, writes: u32, stride: usize) {
    let whole = SimulatedDisk::new();
    let (store, pool) = create(engine, &whole);
    let first = whole.operations();
    Promise::of_new().run(&store, 0, writes).unwrap();
    let operations = whole.operations() - first;
    let (statistics, counts) = (store.statistics().unwrap(), pool.media().log_counts().unwrap());
    assert!(statistics.height > 1, "{statistics:?}");
    assert!(counts.checkpoints > 1 && counts.syncs > counts.checkpoints, "{counts:?}");
    let mut seen = 0;
    for cut in (0..operations).step_by(stride) {
        cut_at(engine, writes, cut, &mut seen)
            .unwrap_or_else(|e| panic!("{engine}, cut {cut} of {operations}: {e}"));
    }
    println!("{engine}: {operations} operations, {seen} states; {counts:?}");
}

#[test]
fn a_power_failure_leaves_the_end_of_an_epoch_and_all_that_was_synced() {
    ENGINES.into_iter().for_each(|engine| explore(engine, WRITES, 2));
}

/// Then checkpoints capture and write what a running epoch has changed.
#[test]
fn the_same_where_memory_is_so_scarce_that_pages_go_to_the_file_before_their_epoch_ends() {
    MEMORY.set(12 * 4096);
    ENGINES.into_iter().for_each(|engine| explore(engine, WRITES, 41));
}

#[test]
#[ignore = "minutes"]
fn a_power_failure_before_every_operation_of_the_disk() {
    ENGINES.into_iter().for_each(|engine| explore(engine, 4 * WRITES, 1));
}

#[test]
fn nothing_is_acknowledged_after_a_sync_has_failed() {
    for engine in ENGINES {
        for successes in 0..12 {
            let disk = SimulatedDisk::new();
            let store = create(engine, &disk).0;
            disk.fail_sync_after(successes);
            let mut promise = Promise::of_new();
            promise.run(&store, 0, WRITES).unwrap_err();
            for i in 0..3 {
                // The next sync of the disk would succeed, without what the failed one has dropped.
                assert!(store.sync().is_err() && store.put("more", [i]).is_err());
            }
            assert!(store.close().is_err());
            let mut chance = Chance(successes);
            let mut left = outcomes(&disk, &mut chance);
            left.push(disk.after_kill());
            for left in left {
                promise.judge(&left).map(drop).unwrap_or_else(|error| {
                    panic!("{engine}, sync {successes}: {error}");
                });
            }
        }
    }
}

/// What a power failure leaves of a pool in a real file: what is written at this moment, which a
/// copy has too. What was not written is in memory.
fn copied(path: &std::path::Path, name: &str) -> Store {
    let copy = path.with_file_name(name);
    copy_both(path, &copy);
    crate::common::opening().durability(SELDOM).open(copy).unwrap()
}

#[test]
fn a_pool_on_an_ordinary_disk_has_a_log_and_a_sync_is_durable_when_it_returns() {
    let Some(folder) = ordinary() else { return };
    for (n, engine) in ENGINES.into_iter().enumerate() {
        let path = folder.path().join(format!("{n}.pool"));
        let numbers = options(engine).key_type(KeyType::U64);
        let store = numbers.clone().durability(SELDOM).create(&path).unwrap();
        let statistics = store.statistics().unwrap();
        assert_eq!(statistics.durability, Durability::PowerFail);
        assert_eq!((statistics.durability_mode, statistics.log), (SELDOM, true));
        assert!(log_of(&path).is_dir());
        for key in 0..3000_u64 {
            store.put(key, key.to_le_bytes()).unwrap();
        }
        assert_eq!(copied(&path, &format!("{n}.before")).len().unwrap(), 0);
        store.sync().unwrap();
        (3000..3500_u64).for_each(|key| drop(store.put(key, key.to_le_bytes())));
        let after = copied(&path, &format!("{n}.after"));
        assert_eq!(after.len().unwrap(), 3000);
        assert_eq!(after.get(2999).unwrap().as_deref(), Some(&2999_u64.to_le_bytes()[..]));
        assert!(after.check().unwrap().ok);
        store.close().unwrap();
        assert_eq!(crate::common::open_read_only(&path).unwrap().len().unwrap(), 3500);
        // By default the choice is the same as on other media.
        let plain = folder.path().join(format!("{n}.plain"));
        let statistics = numbers.create(&plain).unwrap().statistics().unwrap();
        assert_eq!(
            (statistics.durability_mode, statistics.log),
            (DurabilityMode::buffered(), true)
        );
        for mode in [DurabilityMode::Immediate, DurabilityMode::Process] {
            let refused = numbers.clone().durability(mode).create(folder.path().join("refused"));
            assert!(matches!(refused, Err(Error::DurabilityOfEngine { .. })));
            assert!(!folder.path().join("refused.log").exists());
        }
    }
}

#[test]
fn an_epoch_is_durable_soon_without_a_sync() {
    let Some(folder) = ordinary() else { return };
    let path = folder.path().join("a.pool");
    let often = DurabilityMode::Buffered { interval_ms: 5 };
    let store = options(Engine::MASSTREE).durability(often).create(&path).unwrap();
    store.put("key", "value").unwrap();
    let begun = Instant::now();
    let mut copies = 0;
    while copied(&path, &format!("{copies}.copy")).len().unwrap() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no epoch was committed");
        copies += 1;
    }
}
