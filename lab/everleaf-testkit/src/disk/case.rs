//! One exploration, and its pool: a store over a log on a simulated disk.

use everleaf_engines::all;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use everleaf::internal::{create_on, open_on};
use everleaf::{
    Clock, Contract, CreateOptions, DurabilityMode, Engine, KeyType, OpenOptions, Store,
};
use everleaf_log::{Base, Log, LogOptions, SimulatedDisk, Weak};
use everleaf_pmem::Mapped;
use everleaf_pool::{LOG_STAMP_OFFSET, Pool};

use crate::subject::sentence;
use crate::{EngineSubject, Key, ScriptKeys};

/// Bytes of a new pool, and that it may grow to.
const POOL: (u64, u64) = (64 << 10, 4 << 20);
/// Bytes of the segments of a log: of one session, of the next one, and so on.
const SEGMENT_BYTES: [u64; 3] = [16 << 10, 12 << 10, 32 << 10];
/// A checkpoint begins after two blocks of the log.
const LOG_BYTES: u64 = 8 << 10;
/// Memory of an image where it is scarce: twelve pages.
const SCARCE_BYTES: u64 = 12 << 12;
/// How often the threads behind a program of several threads commit and end epochs.
const OFTEN_MS: u32 = 2;

/// A program on a simulated disk that is cut before each operation of the disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskCase {
    /// The engine.
    pub engine: Engine,
    /// The type of its keys.
    pub keys: ScriptKeys,
    /// Whether a `sync` alone acknowledges; so it is with engines of epochs.
    pub buffered: bool,
    /// Whether two threads write and one reads.
    pub threads: bool,
    /// Whether the image of the pool may take few pages of memory only.
    pub scarce_memory: bool,
    /// Operations of the program; of two threads each does half of them.
    pub operations: usize,
    /// Of all that is drawn.
    pub seed: u64,
    /// Images that are tried at each cut, at least two; where there are more, a sample.
    pub images: u64,
    /// A rule of the log that is left out.
    pub without: Option<Weak>,
}

impl fmt::Display for DiskCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = if self.keys == ScriptKeys::U64 { "u64" } else { "bytes" };
        let mode = if self.buffered { "buffered" } else { "immediate" };
        let threads = if self.threads { ", threads" } else { "" };
        let scarce = if self.scarce_memory { ", scarce memory" } else { "" };
        let Self { engine, operations, seed, .. } = self;
        write!(
            f,
            "{engine}, {keys}, {mode}{threads}{scarce}, {operations} operations, seed {seed}"
        )?;
        self.without.map_or(Ok(()), |rule| write!(f, ", without {rule:?}"))
    }
}

/// An opened store, and its pool, as the way to the log.
pub(super) struct Opened {
    pub store: Store,
    pub pool: Arc<Pool<Mapped>>,
}

impl Opened {
    /// Whether the pool has become larger, and how many checkpoints its log has made.
    pub fn has_done(&self) -> Result<(bool, u64), String> {
        let statistics = self.store.statistics().map_err(sentence)?;
        let checkpoints = statistics.log_counts.map_or(0, |counts| counts.checkpoints);
        Ok((statistics.total_bytes > POOL.0, checkpoints))
    }
}

impl DiskCase {
    /// The programs of an engine for one seed: with keys of each type or of the given one, in each
    /// mode of durability, of one thread and of several.
    pub fn all(
        engine: Engine,
        keys: Option<ScriptKeys>,
        operations: usize,
        seed: u64,
        images: u64,
    ) -> Vec<Self> {
        let mut cases: Vec<Self> = Vec::new();
        for number in 0..8 {
            let case = Self {
                engine,
                keys: if number & 1 == 0 { ScriptKeys::U64 } else { ScriptKeys::Bytes },
                buffered: number & 2 != 0,
                threads: number & 4 != 0,
                scarce_memory: (cases.len() as u64 + seed).is_multiple_of(3),
                operations,
                seed,
                images,
                without: None,
            };
            let wanted = keys.is_none_or(|keys| keys == case.keys) && case.keys.are_of(engine);
            let kept = case.buffered || engine.contract() == Contract::Strict;
            if wanted && kept && (!case.threads || engine.is_concurrent()) {
                cases.push(case);
            }
        }
        cases
    }

    /// A key that no program has.
    pub(super) fn other_key(&self) -> Key {
        match self.keys {
            ScriptKeys::U64 => Key::U64(u64::MAX / 3),
            ScriptKeys::Bytes => Key::Bytes(b"afterwards".to_vec()),
        }
    }

    fn mode(&self) -> DurabilityMode {
        match (self.buffered, self.threads) {
            (false, _) => DurabilityMode::Immediate,
            (true, true) => DurabilityMode::Buffered { interval_ms: OFTEN_MS },
            // The program alone commits and ends epochs.
            (true, false) => {
                DurabilityMode::Buffered { interval_ms: DurabilityMode::MAX_INTERVAL_MS }
            }
        }
    }

    /// With threads of its own, the log is what it is to users.
    fn log(&self, session: usize, background: bool) -> LogOptions {
        let mut log = LogOptions::for_pool(POOL.0);
        log.segment_bytes = SEGMENT_BYTES[session % SEGMENT_BYTES.len()];
        log.log_bytes = LOG_BYTES;
        log.background = background;
        if background && self.buffered && self.engine.contract() == Contract::Strict {
            log.interval = Some(Duration::from_millis(OFTEN_MS.into()));
        }
        if self.scarce_memory {
            log.memory_bytes = SCARCE_BYTES;
        }
        self.without.map_or(log, |rule| log.without(rule))
    }

    fn base(disk: &SimulatedDisk) -> Base {
        let (_, max_bytes) = POOL;
        Base {
            file: disk.first_file(),
            uuid: 1,
            max_bytes,
            stamp_offset: LOG_STAMP_OFFSET,
            read_whole: false,
        }
    }

    /// A new pool on an empty disk.
    pub(super) fn create(&self, disk: &SimulatedDisk, clock: &Clock) -> Result<Opened, String> {
        disk.nameless();
        let (log, folder) = (self.log(0, self.threads), Arc::new(disk.clone()));
        let media = Log::create(&Self::base(disk), folder, POOL.0, log).map_err(sentence)?;
        let key_type = if self.keys == ScriptKeys::U64 { KeyType::U64 } else { KeyType::Bytes };
        let options = CreateOptions::new()
            .engine(self.engine)
            .key_type(key_type)
            .size_bytes(POOL.0)
            .parameters(EngineSubject::tiny_parameters(self.engine))
            .durability(self.mode())
            .clock(clock.clone());
        let (store, pool) = create_on(all(), &options, media).map_err(sentence)?;
        Log::of(pool.media()).unwrap().checkpoint().map_err(sentence)?;
        Ok(Opened { store, pool })
    }

    /// What is on a disk, in a session with this number.
    pub(super) fn open(
        &self,
        disk: &SimulatedDisk,
        clock: &Clock,
        session: usize,
    ) -> Result<Opened, String> {
        let (log, folder) = (self.log(session, false), Arc::new(disk.clone()));
        let media = Log::open(&Self::base(disk), folder, log);
        let media = media.map_err(|error| format!("the log is refused: {error}"))?;
        let opened = open_on(all(), &OpenOptions::new().clock(clock.clone()), media);
        let (store, pool) = opened.map_err(|error| format!("the pool is refused: {error}"))?;
        Ok(Opened { store, pool })
    }
}
