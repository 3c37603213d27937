//! Pools with a log beside them: the folder `POOL.log`. Where it is and how it is made and found;
//! what is in it: everleaf-log.
//!
//! ```text
//! N1  the folder, and a log in it, all of it synced; then the folder around it is synced, and the
//!     link to it, where the folder is elsewhere
//! N2  the pool is laid out, and a checkpoint writes it to its file, which has no name yet
//! N3  the file gets its name (everleaf-pool, F3)
//! ```
//!
//! A crash before N3 leaves a folder that belongs to no pool; it is named in the error that the
//! next attempt gives. Nothing takes it over: a log whose pool is not here may be all that is left
//! of acknowledged writes.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf_index::Contract;
use everleaf_log::{
    Base, Disk, Folder, LogError, LogOptions, Logged, NewFolder, new_uuid, read_damaged, read_only,
    read_unidentified,
};
use everleaf_pmem::{Cpu, Hardware, Region};
use everleaf_pool::{
    Format, LOG_STAMP_OFFSET, LockedFile, PoolError, folder_of_new, lock_damaged_file,
};

use crate::core::attached::Terms;
use crate::durability::{DurabilityContext, choice_of};
use crate::held::PoolIdentity;
use crate::memory::half_of_memory;
use crate::{CreateOptions, DurabilityMode, Engine, Error, OpenOptions, Store, registry};

/// Changed pages may take as much at least: a pool has some that change all the time.
const MIN_MEMORY: u64 = 1 << 20;

/// Where the log of a pool is.
pub(crate) fn folder_of(pool: &Path) -> PathBuf {
    let mut name = OsString::from(pool);
    name.push(".log");
    name.into()
}

/// The same, of a pool that is still being made.
pub(crate) fn new_folder_of(pool: &Path) -> Result<NewFolder, Error> {
    let folder = folder_of(pool);
    NewFolder::of(&folder).map_err(io_failed("opening", &folder))
}

/// How the log of a pool of so many bytes is written if this was chosen. What an engine of epochs
/// writes is worth nothing before the epoch has ended: who ends it commits then.
fn log_options(
    bytes: u64,
    engine: Engine,
    mode: DurabilityMode,
    memory_bytes: Option<u64>,
    folder: &Folder,
) -> LogOptions {
    let interval = match (engine.contract(), mode) {
        (Contract::Strict, DurabilityMode::Buffered { interval_ms }) => {
            Some(Duration::from_millis(u64::from(interval_ms)))
        }
        _ => None,
    };
    let mut options = LogOptions::for_pool(bytes).on(folder.space());
    options.interval = interval;
    options.memory_bytes = memory_bytes.unwrap_or_else(half_of_memory).max(MIN_MEMORY);
    options
}

fn failed(path: &Path) -> impl Fn(LogError) -> Error {
    move |source| Error::Log { path: path.into(), source: Box::new(source) }
}

fn io_failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| PoolError::Io { action, path: path.into(), source }.into()
}

/// Makes a store in a file that was allocated and has no name yet, which will be `path`.
pub(crate) fn create(options: &CreateOptions, path: &Path, region: Region) -> Result<Store, Error> {
    let mode = DurabilityContext::with_log(options.engine).of_new(options.durability)?;
    let file = region.file().map(File::try_clone).transpose();
    let file = file.map_err(io_failed("opening", path))?;
    let file = file.ok_or_else(|| PoolError::Missing { path: path.into() })?;
    let (bytes, max_bytes) = (region.len(), region.max_len());
    drop(region);
    let beside = folder_of(path);
    let folder = options.log_folder.clone().unwrap_or_else(|| beside.clone());
    folder_of_new(&folder)?;
    let chosen = options.log_folder.is_some();
    let made = |source: io::Error, path: &Path| match source.kind() {
        // What is there is of no concern to us.
        io::ErrorKind::AlreadyExists if chosen && path == folder => {
            Error::LogFolderExists { folder: path.into() }
        }
        io::ErrorKind::AlreadyExists => Error::LogInTheWay { path: path.into() },
        _ => io_failed("creating", path)(source),
    };
    let mut new = NewFolder::make(&folder).map_err(|source| made(source, &folder))?;
    if chosen {
        new.link_from(&beside, &folder).map_err(|source| made(source, &beside))?;
    }
    let base = base_of(new_uuid(), max_bytes, file, false);
    let disk = new.folder();
    let how = log_options(bytes, options.engine, mode, None, &disk);
    let media = Logged::create(&base, disk, bytes, how).map_err(failed(&folder))?;
    new.sync_name().map_err(io_failed("syncing", &folder))?; // N1
    let ground = DurabilityContext::with_log(options.engine);
    let (store, pool) = options.make(media, ground, PoolIdentity::As(base.uuid))?;
    pool.media().checkpoint().map_err(failed(&folder))?; // N2
    new.keep();
    Ok(store)
}

/// The file of a pool as its log knows it.
fn base_of(uuid: u128, max_bytes: u64, file: File, read_whole: bool) -> Base {
    let file = Arc::new(file);
    Base { file, uuid, max_bytes, stamp_offset: LOG_STAMP_OFFSET, read_whole }
}

fn open_folder(path: &Path, writable: bool) -> Result<(PathBuf, Folder), Error> {
    // It stands beside the pool, not beside a link to the pool.
    let folder = folder_of(&path.canonicalize().unwrap_or_else(|_| path.into()));
    let disk = Folder::open(&folder, writable).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => failed(&folder)(LogError::Missing),
        io::ErrorKind::WouldBlock => failed(&folder)(LogError::Locked),
        _ => io_failed("opening", &folder)(source),
    })?;
    Ok((folder, disk))
}

/// Opens the store in a locked file that has a log beside it.
pub(crate) fn open(
    options: &OpenOptions,
    path: &Path,
    locked: LockedFile,
    start: Instant,
) -> Result<Store, Error> {
    let engine = registry::check_format(locked.format())?;
    let terms = terms(options, engine, locked.format())?;
    locked.check_length()?;
    let (folder, disk) = open_folder(path, !options.read_only)?;
    let (uuid, max_bytes) = (locked.uuid(), locked.max_bytes());
    let file = locked.into_file();
    if options.read_only {
        let lock = file.try_clone().map_err(io_failed("opening", path))?;
        let base = base_of(uuid, max_bytes, file, options.prefault);
        let region = read_only(&base, &disk).map_err(failed(&folder))?;
        let media = Hardware::new(region, &Cpu::detect()).map_err(PoolError::Map)?;
        return options.open_as(media, start, |_, _| Ok(terms), Some(lock)).map(|(store, _)| store);
    }
    let bytes = file.metadata().map_err(io_failed("reading", path))?.len();
    let base = base_of(uuid, max_bytes, file, options.prefault);
    let how = log_options(bytes, engine, terms.mode, options.memory_bytes, &disk);
    let media = Logged::open(&base, Arc::new(disk), how).map_err(failed(&folder))?;
    options.open_as(media, start, |_, _| Ok(terms), None).map(|(store, _)| store)
}

/// The terms for a pool of this format.
fn terms(options: &OpenOptions, engine: Engine, format: &Format) -> Result<Terms, Error> {
    let ground = DurabilityContext::with_log(engine);
    let writable = !options.read_only;
    let mode = ground.of_opening(choice_of(format)?, options.durability, writable)?;
    Ok(options.terms(ground, ground.weakened(mode, options.relaxed_durability)))
}

/// What file and log of a damaged pool hold together, in memory, and why the log is refused, if it
/// is: of such a one, what stands before the damage.
pub(crate) fn open_damaged(
    path: &Path,
    locked: LockedFile,
) -> Result<(Region, Option<Error>), Error> {
    let (folder, disk) = open_folder(path, false)?;
    let (uuid, max_bytes) = (locked.uuid(), locked.max_bytes());
    let base = base_of(uuid, max_bytes, locked.into_file(), false);
    let (region, why) = read_damaged(&base, &disk).map_err(failed(&folder))?;
    Ok((region, why.map(failed(&folder))))
}

/// The same of a file whose first page is lost.
pub(crate) fn open_unidentified(path: &Path) -> Result<Region, Error> {
    let file = lock_damaged_file(path)?;
    let (folder, disk) = open_folder(path, false)?;
    read_unidentified(&base_of(0, 0, file, false), &disk).map_err(failed(&folder))
}
