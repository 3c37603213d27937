//! Where the pool of a benchmark lives: memory by preference, the temporary folder otherwise, or a
//! named file.
//!
//! The file loses its name as soon as it is mapped, so nothing is left behind, whatever ends the
//! process.

use std::path::{Path, PathBuf};

use everleaf::{Contract, CreateOptions, DurabilityMode};
use everleaf_pmem::{Durability, Medium, Region};
use everleaf_pool::{PoolError, create_file};
use rustix::fs::{statfs, statvfs};

use crate::options::BenchKeyType;
use crate::plan::Plan;
use crate::{BenchError, Made, Order, Peer, Scratch, Subject};

const MIB: u128 = 1 << 20;
/// Bytes of a value's buffer and its header.
const BUFFER_BYTES: u128 = 64;
/// Bytes of a pool that is only looked at.
const SMALLEST_POOL: u64 = 64 << 10;
/// `f_type` of tmpfs.
const TMPFS: i64 = 0x0102_1994;
/// The folder that is memory on any Linux.
const SHARED_MEMORY: &str = "/dev/shm";
/// A pool that is wanted larger than estimated grows, up to so many times the estimate and a
/// gibibyte.
const GROWTH_FACTOR: u64 = 4;

/// The same pool without the log that it would get on an ordinary disk: it is the pool that is
/// measured. Engines of epochs have no choice: on an ordinary disk they have a log.
pub(crate) fn without_log(options: CreateOptions) -> CreateOptions {
    match options.engine.contract() {
        Contract::Strict => options.durability(DurabilityMode::Process),
        Contract::Buffered => options,
    }
}

/// What a run takes, estimated from above for trees with half-full nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Bytes of the pool, or of a peer's files; 0 if there are none.
    pub pool_bytes: u64,
    /// Bytes of memory beside the pool: inner nodes, keys drawn, tables of the counted run.
    pub dram_bytes: u64,
}

impl Need {
    /// Of whatever is measured.
    pub fn of(plan: &Plan) -> Self {
        match plan.subject {
            Subject::Stx | Subject::Peer(Peer::SkipMap) => Self::of_map(plan),
            Subject::Index(engine) if engine.entry().is_map() => Self::of_map(plan),
            Subject::Index(_) => Self::of_index(plan),
            Subject::Store(_) => Self::of_store(plan),
            Subject::Peer(_) => Self::of_files(plan),
        }
    }

    /// Of so many bytes; more than there are numbers for is more than any medium holds.
    fn bytes(pool: u128, dram: u128) -> Self {
        let narrow = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        Self { pool_bytes: narrow(pool), dram_bytes: narrow(dram) }
    }

    /// Of the store: the index, and a record with key and value, in a block that may be a quarter
    /// larger.
    fn of_store(plan: &Plan) -> Self {
        let index = Self::of_index(plan);
        let record_bytes =
            u128::from(plan.options.key_type.bytes()) + plan.value_bytes() as u128 + 24;
        let records = u128::from(plan.peak_keys) * (record_bytes * 5 / 4 + 8);
        Self::bytes(
            u128::from(index.pool_bytes) + records,
            u128::from(index.dram_bytes) + records / 8,
        )
    }

    /// Of a peer's files: pages that are half full, or tables of which two generations are there at
    /// a time, and their logs.
    fn of_files(plan: &Plan) -> Self {
        let record_bytes =
            u128::from(plan.options.key_type.bytes()) + plan.value_bytes() as u128 + 32;
        let records = u128::from(plan.peak_keys) * record_bytes;
        Self::bytes(
            records * 3 + 1024 * MIB,
            Self::drawn(plan) + records.min(1024 * MIB) + 256 * MIB,
        )
    }

    /// Of an index in a pool.
    fn of_index(plan: &Plan) -> Self {
        let (options, keys) = (&plan.options, u128::from(plan.peak_keys));
        let key_bytes = u128::from(options.key_type.bytes());
        // The record of a key and its header take a block of 32 or, with 24 bytes, of 48.
        let record_bytes = if options.key_type == BenchKeyType::U64 {
            0
        } else {
            (key_bytes + 8).next_multiple_of(16).max(32)
        };
        let entry_bytes = 8 + 8 * u128::from(options.value_words);
        // Random insertions leave nodes 69 percent full; ascending ones half full.
        let fill_percent = if options.order == Order::Random { 60 } else { 45 };
        // Buffers that were replaced in an epoch are not used again before its end.
        let buffers = if options.buffers { keys + u128::from(plan.replaced) } else { 0 };
        let pool_bytes = keys * (entry_bytes * 110 / fill_percent + record_bytes * 110 / 100)
            + buffers * BUFFER_BYTES
            + 8 * MIB;
        let counted = pool_bytes / 8;
        Self::bytes(pool_bytes, keys * (key_bytes / 4 + 1) + Self::drawn(plan) + counted + 16 * MIB)
    }

    /// Of both at the same time.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            pool_bytes: self.pool_bytes.saturating_add(other.pool_bytes),
            dram_bytes: self.dram_bytes.saturating_add(other.dram_bytes),
        }
    }

    /// Of so many at the same time.
    pub fn times(self, runs: u64) -> Self {
        Self::bytes(
            u128::from(self.pool_bytes) * u128::from(runs),
            u128::from(self.dram_bytes) * u128::from(runs),
        )
    }

    /// Of the peer, which lives in memory.
    fn of_map(plan: &Plan) -> Self {
        let (options, keys) = (&plan.options, u128::from(plan.peak_keys));
        let key_bytes = u128::from(options.key_type.bytes());
        // A string is a fat pointer and a block.
        let held_bytes =
            if options.key_type == BenchKeyType::U64 { 8 } else { 16 + key_bytes + 16 };
        let entry_bytes = held_bytes + 48 + plan.value_bytes() as u128;
        Self::bytes(0, keys * entry_bytes * 2 + Self::drawn(plan) + 16 * MIB)
    }

    /// Of the operations, and of the keys that are present in an order of their own.
    fn drawn(plan: &Plan) -> u128 {
        u128::from(plan.drawn_bytes) + u128::from(plan.peak_keys) * 8
    }
}

/// A place with room for a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    at: At,
    scratch: Scratch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    /// In this folder, under a name of its own.
    Folder(PathBuf),
    /// This file, which must not exist.
    File(PathBuf),
    /// This folder, as another process has left it; it stays.
    Left(PathBuf),
}

/// A folder's file system.
struct FileSystem {
    free_bytes: u64,
    is_memory: bool,
}

fn file_system(folder: &Path) -> Result<FileSystem, BenchError> {
    let failed = |source: rustix::io::Errno| BenchError::Io {
        action: "looking at",
        path: folder.into(),
        source: source.into(),
    };
    let space = statvfs(folder).map_err(failed)?;
    let is_memory = statfs(folder).map_err(failed)?.f_type as i64 == TMPFS;
    // A tmpfs mounted without a limit has 0 blocks: only memory bounds it.
    let free_bytes = if is_memory && space.f_blocks == 0 {
        u64::MAX
    } else {
        space.f_bavail.saturating_mul(space.f_frsize)
    };
    Ok(FileSystem { free_bytes, is_memory })
}

/// A new file that holds nothing yet. No page fault is measured.
fn new_file(path: &Path, bytes: u64, max_bytes: u64) -> Result<Region, PoolError> {
    create_file(path, bytes, max_bytes, Ok).inspect(Region::prefault)
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Bytes of memory that programs can still have, as the kernel estimates them; none if it does not.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Rounded up.
const fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// A twentieth of what is free stays free.
fn check_room(place: impl FnOnce() -> String, needed: u64, free: u64) -> Result<(), BenchError> {
    if needed <= free - free / 20 {
        return Ok(());
    }
    Err(BenchError::NoRoom { place: place(), needed: mebibytes(needed), available: free >> 20 })
}

impl Place {
    /// Finds a place for what is needed before any work is done; the user may have named one.
    pub fn find(need: Need, scratch: &Scratch) -> Result<Self, BenchError> {
        let at = At::find_among(
            need,
            scratch.named(),
            &[SHARED_MEMORY.into(), std::env::temp_dir()],
            available_memory().unwrap_or(u64::MAX),
        )?;
        Ok(Self { at, scratch: scratch.clone() })
    }

    /// The same for what waits for a disk: not where a sync does nothing.
    pub fn find_on_disk(need: Need, scratch: &Scratch) -> Result<Self, BenchError> {
        let memory = available_memory().unwrap_or(u64::MAX);
        let at = At::find_among(need, scratch.named(), &[std::env::temp_dir()], memory)?;
        Ok(Self { at, scratch: scratch.clone() })
    }

    /// The folder that another process has left.
    #[must_use]
    pub fn left(self, folder: &Path) -> Self {
        Self { at: At::Left(folder.into()), ..self }
    }

    /// Makes an empty folder for a peer's files, which goes with them when it is dropped.
    pub fn create_folder(&self) -> Result<Made, BenchError> {
        match &self.at {
            At::Folder(folder) => self.scratch.folder_in(folder, "everleaf-bench-"),
            At::File(path) if path.symlink_metadata().is_ok() => {
                let source = std::io::ErrorKind::AlreadyExists.into();
                Err(BenchError::Io { action: "making a folder at", path: path.clone(), source })
            }
            At::File(path) => {
                self.scratch.folder_in(folder_of(path), path.file_name().unwrap_or_default())
            }
            At::Left(folder) => Ok(self.scratch.file_at(folder)),
        }
    }

    /// What a pool here lies on.
    pub fn medium(&self) -> Result<Medium, BenchError> {
        Ok(self.create(SMALLEST_POOL)?.medium())
    }

    /// What the medium of a pool here promises.
    pub fn durability(&self) -> Result<Durability, BenchError> {
        Ok(self.medium()?.durability())
    }

    /// Whether files here live in memory, where a sync does nothing.
    pub fn is_memory(&self) -> bool {
        let folder = match &self.at {
            At::Folder(folder) | At::Left(folder) => folder,
            At::File(path) => folder_of(path),
        };
        file_system(folder).is_ok_and(|system| system.is_memory)
    }

    /// Makes and maps a file of `pool_bytes`, all of it allocated and faulted in, and takes its
    /// name away.
    pub fn create(&self, pool_bytes: u64) -> Result<Region, BenchError> {
        let max_bytes = pool_bytes * GROWTH_FACTOR + (1 << 30);
        // Name and folder go here.
        match &self.at {
            At::Folder(folder) | At::Left(folder) => {
                let own = self.scratch.folder_in(folder, "everleaf-bench-")?;
                Ok(own.fill(|path| new_file(&path.join("pool"), pool_bytes, max_bytes))?)
            }
            At::File(path) => {
                let own = self.scratch.file_at(path);
                let created = own.fill(|path| new_file(path, pool_bytes, max_bytes));
                if created.is_err() {
                    own.leave(); // It may be another process's by now.
                }
                Ok(created?)
            }
        }
    }
}

impl At {
    fn find_among(
        need: Need,
        named: Option<&Path>,
        folders: &[PathBuf],
        memory: u64,
    ) -> Result<Self, BenchError> {
        if need.pool_bytes == 0 {
            check_room(|| "of memory".into(), need.dram_bytes, memory)?;
            return Ok(Self::Folder(std::env::temp_dir()));
        }
        let room_in = |folder: &Path| {
            let system = file_system(folder)?;
            check_room(|| format!("in {}", folder.display()), need.pool_bytes, system.free_bytes)?;
            let in_memory =
                need.dram_bytes.saturating_add(if system.is_memory { need.pool_bytes } else { 0 });
            check_room(|| "of memory".into(), in_memory, memory)
        };
        if let Some(path) = named {
            room_in(folder_of(path))?;
            return Ok(Self::File(path.into()));
        }
        let mut refusal = None;
        for folder in folders {
            match room_in(folder) {
                Ok(()) => return Ok(Self::Folder(folder.clone())),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        Err(refusal.unwrap_or_else(|| BenchError::NoRoom {
            place: "in a temporary folder".into(),
            needed: mebibytes(need.pool_bytes),
            available: 0,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MicroOptions;

    fn need(keys: u64) -> Need {
        Need::of_index(
            &Plan::new(&MicroOptions {
                keys,
                phases: vec![crate::Phase::Insert],
                ..Default::default()
            })
            .unwrap(),
        )
    }

    #[test]
    fn a_run_that_is_too_large_is_refused_before_it_begins() {
        let huge = need(1 << 40);
        let folder = tempfile::tempdir().unwrap();
        let error = At::find_among(huge, None, &[folder.path().into()], u64::MAX).unwrap_err();
        assert!(
            matches!(&error, BenchError::NoRoom { place, .. } if place.starts_with("in ")),
            "{error}"
        );
        assert!(
            error.to_string().contains(
                "MiB are free: use fewer keys or operations, or name another place with --pool"
            ),
            "{error}"
        );
        let error = At::find_among(need(1000), None, &[folder.path().into()], 1 << 20).unwrap_err();
        assert!(
            matches!(&error, BenchError::NoRoom { place, .. } if place == "of memory"),
            "{error}"
        );
        assert!(!error.is_wrong_usage());
    }

    #[test]
    fn no_number_of_records_or_operations_wraps_around() {
        use crate::ycsb::{Record, Workload, YcsbOptions};
        let lmdb = crate::Peer::Lmdb.is_built().then_some("lmdb");
        for engine in ["btreemap", "skipmap", "store"].into_iter().chain(lmdb) {
            let options = |operations, keys| YcsbOptions {
                engines: vec![engine.into()],
                workload: Workload::E,
                distribution: Some(crate::ycsb::Distribution::Normal { deviation: 0.1 }),
                record: Record::U64(1 << 20),
                operations,
                rounds: 1,
                micro: MicroOptions { keys, ..Default::default() },
            };
            let need = |operations, keys| {
                Need::of(&options(operations, keys).plan(engine, 0).unwrap()).times(64)
            };
            let most = crate::plan::MOST;
            assert!(
                need(most, 1).dram_bytes >= most * 16 && need(1, most).dram_bytes >= most * 16,
                "{engine}"
            );
            let fields = YcsbOptions { record: Record::Fields, ..options(1_000_000, 1000) };
            assert!(
                Need::of(&fields.plan(engine, 0).unwrap()).dram_bytes >= 26_000_000,
                "{engine}: an operation has its key"
            );
            let sorted = Need::of(&options(1, 10_000_000).plan(engine, 0).unwrap());
            let scattered = YcsbOptions { distribution: None, ..options(1, 10_000_000) };
            let scattered = Need::of(&scattered.plan(engine, 0).unwrap());
            assert_eq!(
                sorted.dram_bytes - scattered.dram_bytes,
                80_000_000,
                "{engine}: places in the order of keys"
            );
        }
    }

    #[test]
    fn the_next_folder_is_taken_when_the_first_cannot_be() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("missing"), folder.path().into()];
        assert_eq!(
            At::find_among(need(10), None, &folders, u64::MAX).unwrap(),
            At::Folder(folder.path().into())
        );
        assert!(At::find_among(need(10), None, &folders[..1], u64::MAX).is_err());
    }

    #[test]
    fn a_pool_leaves_no_file_behind_and_takes_no_file_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("named.pool");
        let place = Place::find(need(10), &Scratch::at(Some(path.clone()))).unwrap();
        let region = place.create(1 << 20).unwrap();
        assert_eq!(region.len(), 1 << 20);
        let unnamed = Place { at: At::Folder(folder.path().into()), scratch: Scratch::default() }
            .create(1 << 20)
            .unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        drop((region, unnamed));
        std::fs::write(&path, "precious").unwrap();
        assert!(place.create(1 << 20).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn needs_grow_with_keys_and_values() {
        let of = |options: MicroOptions| Need::of_index(&Plan::new(&options).unwrap()).pool_bytes;
        let base = MicroOptions {
            phases: vec![crate::Phase::Insert],
            keys: 1 << 20,
            ..Default::default()
        };
        let entries = 16 << 20;
        assert!((entries..3 * entries).contains(&of(base.clone())));
        assert!(of(MicroOptions { value_words: 3, ..base.clone() }) > of(base.clone()) * 3 / 2);
        assert!(of(MicroOptions { warm: 1 << 20, ..base.clone() }) > of(base.clone()) * 3 / 2);
        assert!(
            of(MicroOptions { key_type: BenchKeyType::String16, ..base.clone() })
                > of(base) + (32 << 20)
        );
    }
}
