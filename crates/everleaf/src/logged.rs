//! Pools with a log beside them: the folder `POOL.log`. Where it is and how it is made and found;
//! what is in it: everleaf-log.
//!
//! ```text
//! N1  the folder, locked, with a file that says that it is unfinished, and a log in it, all of it
//!     synced; then the folder around it is synced, and the link to it, where the folder is
//!     elsewhere
//! N2  the pool is laid out, and a checkpoint writes it to its file, which has no name yet
//! N3  the file gets its name, and the folder around it is synced (everleaf-pool, F3, F4)
//! N4  the folder is no longer unfinished, and synced; only now somebody may write to the pool
//! ```
//!
//! A crash before N3 leaves a folder that is unfinished and that no process has locked. The next
//! attempt to make the pool removes it; so it does with a link to such a folder. A crash between N3
//! and N4 leaves a pool, and an opening to write does N4. A log that is not unfinished is never
//! taken over: if its pool is not here it may be all that is left of acknowledged writes, and it is
//! named in the error that the next attempt gives.
//!
//! If a step fails, the pool loses its name first, and then the log goes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf_index::Contract;
use everleaf_log::{
    Base, Disk, Folder, Log, LogError, LogOptions, NewFolder, ServedPool, new_uuid, read_damaged,
    read_only, read_unidentified,
};
use everleaf_pmem::{Cpu, Mapped, Region};
use everleaf_pool::{
    DamagedFile, Format, LOG_STAMP_OFFSET, LockedFile, PoolError, folder_of_new, uuid_of,
};

use crate::core::attached::Terms;
use crate::durability::{DurabilityContext, choice_of};
use crate::memory::{bound_read_ahead, half_of_memory};
use crate::store_parts::PoolIdentity;
use crate::{CreateOptions, DurabilityMode, Engine, Error, OpenOptions, Store, registry};

/// Changed pages may take as much at least: a pool has some that change all the time.
const MIN_MEMORY: u64 = 1 << 20;

/// Where the log of a pool is.
pub(crate) fn folder_of(pool: &Path) -> PathBuf {
    let mut name = OsString::from(pool);
    name.push(".log");
    name.into()
}

/// N4: the log stays, if there is one, since its pool has its name, durably. If it fails both go.
pub(crate) fn keep_log(new: Option<NewFolder>, pool: &Path) -> Result<(), Error> {
    let Some(mut new) = new else { return Ok(()) };
    new.keep().map_err(|source| {
        let _ = fs::remove_file(pool); // Before its log: it would be refused without.
        io_failed("syncing", &folder_of(pool))(source)
    })
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
    options.growth = Some(LogOptions::for_pool);
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

/// Makes a store in a file that was allocated and has no name yet, which will be `path`. Its log is
/// removed unless it is [kept](keep_log).
pub(crate) fn create(
    options: &CreateOptions,
    path: &Path,
    region: Region,
) -> Result<(Store, NewFolder), Error> {
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
    NewFolder::remove_abandoned(&beside);
    let new = NewFolder::make(&folder).and_then(|new| new.belonging_to(&file));
    let mut new = new.map_err(|source| made(source, &folder))?;
    if chosen {
        new.link_from(&beside, &folder).map_err(|source| made(source, &beside))?;
    }
    let pool = served_pool(path, &file)?;
    let base = base_of(new_uuid(), max_bytes, file, false);
    let disk = new.folder();
    let how = log_options(bytes, options.engine, mode, None, &disk);
    let media = Log::create(&base, disk.clone(), bytes, how).map_err(failed(&folder))?;
    disk.note_pool(&pool).map_err(io_failed("noting the pool in", &folder))?;
    new.sync_name().map_err(io_failed("syncing", &folder))?; // N1
    let ground = DurabilityContext::with_log(options.engine);
    let (store, pool) =
        options.make(options.engines, media, ground, PoolIdentity::As(base.uuid))?;
    if let Some(log) = Log::of(pool.media()) {
        log.checkpoint().map_err(failed(&folder))?; // N2
    }
    Ok((bound_read_ahead((store, pool)), new))
}

/// The file of a pool as its log knows it.
fn base_of(uuid: u128, max_bytes: u64, file: File, read_whole: bool) -> Base {
    let file = Arc::new(file);
    Base { file, uuid, max_bytes, stamp_offset: LOG_STAMP_OFFSET, read_whole }
}

/// The file of a pool that is, or will be, at `path`, as its log notes it.
fn served_pool(path: &Path, file: &File) -> Result<ServedPool, Error> {
    let whole = path.canonicalize().or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        // It has no name yet, or none any more.
        let folder = folder_of_new(path).map_err(io::Error::other)?.canonicalize()?;
        Ok(folder.join(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?))
    });
    let served = whole.and_then(|path| ServedPool::new(&path, file));
    served.map_err(io_failed("finding", path))
}

/// The log of an open pool: where it is, its folder, and what it is to note.
fn open_folder(
    path: &Path,
    (file, uuid): (&File, Option<u128>),
    writable: bool,
) -> Result<(PathBuf, Folder, ServedPool), Error> {
    let pool = served_pool(path, file)?;
    let folder = folder_of(pool.path()); // Not beside a link to the pool.
    let disk = Folder::open(&folder, writable).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => failed(&folder)(LogError::Missing),
        io::ErrorKind::WouldBlock => failed(&folder)(LogError::Locked),
        io::ErrorKind::NotADirectory => failed(&folder)(LogError::NotAFolder),
        _ => io_failed("opening", &folder)(source),
    })?;
    let disk = disk.belonging_to(file).map_err(io_failed("reading", path))?;
    // A file that is damaged or not to be read does not say.
    let is_same =
        |other: &Path| uuid_of(other).ok().map(|found| uuid.is_none_or(|uuid| uuid == found));
    let other = disk.serves_another(&pool, folder_of, is_same);
    match other.map_err(io_failed("reading", &folder))? {
        Some(pool) => Err(failed(&folder)(LogError::Copied { pool })),
        None => Ok((folder, disk, pool)),
    }
}

/// Opens the store in a locked file that has a log beside it.
pub(crate) fn open(
    options: &OpenOptions,
    path: &Path,
    locked: LockedFile,
    start: Instant,
) -> Result<Store, Error> {
    let format = locked.format().clone();
    let code = registry::check_format(options.known_engines(), &format)?;
    let engine = Engine::of(code.entry);
    let terms = terms(options, engine, &format)?;
    locked.check_length()?;
    let (uuid, max_bytes) = (locked.uuid(), locked.max_bytes());
    let file = locked.into_file();
    let (folder, disk, pool) = open_folder(path, (&file, Some(uuid)), !options.read_only)?;
    // What the log adds to the file makes no other pool of it.
    let same = |of_memory: &Format, terms| match *of_memory == format {
        true => Ok((code, terms)),
        false => {
            Err(Error::corrupt(0, "the log makes another format of the pool than its file has"))
        }
    };
    if options.read_only {
        let lock = file.try_clone().map_err(io_failed("opening", path))?;
        let base = base_of(uuid, max_bytes, file, options.prefault);
        let region = read_only(&base, &disk).map_err(failed(&folder))?;
        let media = Mapped::new(region, &Cpu::detect()).map_err(PoolError::Map)?;
        let opened = options.open_as(media, start, |of_memory| same(of_memory, terms), Some(lock));
        return opened.map(bound_read_ahead);
    }
    let bytes = file.metadata().map_err(io_failed("reading", path))?.len();
    let base = base_of(uuid, max_bytes, file, options.prefault);
    let how = log_options(bytes, engine, terms.mode, options.memory_bytes, &disk);
    let disk = Arc::new(disk);
    let media = Log::open(&base, disk.clone(), how).map_err(failed(&folder))?;
    disk.note_pool(&pool).map_err(io_failed("noting the pool in", &folder))?;
    let opened = options.open_as(media, start, |of_memory| same(of_memory, terms), None);
    opened.map(bound_read_ahead)
}

/// The terms for a pool of this format.
fn terms(options: &OpenOptions, engine: Engine, format: &Format) -> Result<Terms, Error> {
    let ground = DurabilityContext::with_log(engine);
    let writable = !options.read_only;
    let mode = ground.of_opening(choice_of(format)?, options.durability, writable)?;
    Ok(options.terms(ground, ground.weakened(mode, options.relaxed_durability)))
}

/// What file and log of a damaged pool hold together, in memory, and what is missing of the log, if
/// anything is: of a damaged one what stands before the damage is taken. The file alone counts
/// where the log cannot be reached.
pub(crate) fn open_damaged(
    path: &Path,
    file: &DamagedFile,
) -> Result<(Region, Option<String>), Error> {
    let is_lost = file.format().is_none();
    let own = file.file(path)?;
    let uuid = (!is_lost).then(|| file.uuid());
    let (folder, disk) = match open_folder(path, (&own, uuid), false) {
        Ok((folder, disk, _)) => (folder, disk),
        Err(Error::Log { path, source }) if matches!(*source, LogError::Locked) => {
            return Err(Error::Log { path, source });
        }
        // Nothing says that there was one.
        Err(Error::Log { source, .. }) if is_lost && matches!(*source, LogError::Missing) => {
            return Ok((file.map(path)?, None));
        }
        Err(why) => return Ok((file.map(path)?, Some(why.to_string()))),
    };
    let base = base_of(file.uuid(), file.max_bytes(), own, false);
    let read = if is_lost { read_unidentified } else { read_damaged };
    let (region, why) = read(&base, &disk).map_err(failed(&folder))?;
    let told = |why| match why {
        LogError::OtherTime if is_lost => format!(
            "{}: nothing that is left of the first page shows that this log is the pool's own, and \
             all that it holds was taken: if it is another pool's, values are wrong",
            folder.display()
        ),
        why => failed(&folder)(why).to_string(),
    };
    Ok((region, why.map(told)))
}
