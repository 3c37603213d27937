//! Their engines and ours, and opening. Whatever its name, an engine is the default one of a store:
//! a concurrent tree with ordered keys, so that it does what all of theirs do. What one of theirs
//! refuses and a program may rely on, it refuses as well: transactions and iterators.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use everleaf::{CreateOptions, DurabilityMode, Error, PoolError, Store};
use everleaf_c::boundary::{give_handle, string, taken};

use crate::config::Config;
use crate::status::number::{COMPARATOR_MISMATCH, NOT_SUPPORTED, OK, WRONG_ENGINE_NAME};
use crate::status::{Fault, Result, guard};
use crate::{Comparator, status};

/// An engine, and what it has in pmemkv.
pub(crate) struct Engine {
    name: &'static str,
    kind: Kind,
    /// Looks at the comparator.
    ordered: bool,
    pub(crate) iterators: bool,
    pub(crate) transactions: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Keeps nothing.
    Blackhole,
    /// A pool that outlives the process.
    Persistent,
    /// A file without a name, in the folder `path`.
    Volatile,
}
use Kind::{Blackhole, Persistent, Volatile};

const ENGINES: [Engine; 9] = [
    engine("blackhole", Blackhole, false, true, false),
    engine("cmap", Persistent, false, true, false),
    engine("csmap", Persistent, true, true, false),
    engine("radix", Persistent, false, true, true),
    engine("robinhood", Persistent, false, false, false),
    engine("stree", Persistent, true, true, false),
    engine("tree3", Persistent, false, false, false),
    engine("vcmap", Volatile, false, true, false),
    engine("vsmap", Volatile, true, true, false),
];

const fn engine(
    name: &'static str,
    kind: Kind,
    ordered: bool,
    iterators: bool,
    transactions: bool,
) -> Engine {
    Engine { name, kind, ordered, iterators, transactions }
}

/// The least that pmemkv takes: of libpmemobj's pools and of memkind's.
const MIN_PERSISTENT: u64 = 8 << 20;
const MIN_VOLATILE: u64 = 16 << 20;

/// An opened database.
pub struct Db {
    pub(crate) engine: &'static Engine,
    /// None of a blackhole.
    pub(crate) store: Option<Store>,
}

/// Opens a database. The config is freed, whatever this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_open(
    engine: *const c_char,
    config: *mut Config,
    db: *mut *mut Db,
) -> c_int {
    // SAFETY: the caller's contract.
    let config = unsafe { taken(config) };
    guard("pmemkv_open", || {
        if db.is_null() {
            return Err(Fault::argument("there is no place for the database: NULL was given"));
        }
        // SAFETY: the caller's contract.
        let engine = named(unsafe { string(engine) }?)?;
        let store = match (engine.kind, config) {
            (Blackhole, _) => None,
            (_, None) => {
                let name = engine.name;
                let sentence = format!("Config cannot be null for the '{name}' engine");
                return Err(Fault::argument(sentence));
            }
            (Persistent, Some(config)) => Some(persistent(engine, &config)?),
            (Volatile, Some(config)) => Some(volatile(engine, &config)?),
        };
        // SAFETY: the caller's contract.
        unsafe { give_handle(db, Db { engine, store }) }?;
        Ok(OK)
    })
}

fn named(name: &CStr) -> Result<&'static Engine> {
    let found = ENGINES.iter().find(|engine| engine.name.as_bytes() == name.to_bytes());
    found.ok_or_else(|| {
        let (name, names) = (name.to_string_lossy(), ENGINES.map(|engine| engine.name).join(", "));
        let sentence = format!("Unknown engine name \"{name}\". Available engines: {names}");
        Fault::new(WRONG_ENGINE_NAME, sentence)
    })
}

fn persistent(engine: &Engine, config: &Config) -> Result<Store> {
    let path = config.text(c"path")?;
    let path = match (path, config.object(c"oid")?) {
        (Some(path), None) => path_of(path),
        (Some(_), Some(_)) => {
            return Err(Fault::argument("Config contains both: \"path\" and \"oid\""));
        }
        (None, Some(_)) => {
            let sentence = "an \"oid\" lies in a pool of libpmemobj, which is not read here; give \
                            a \"path\"";
            return Err(Fault::new(NOT_SUPPORTED, sentence));
        }
        (None, None) => return Err(missing("path")),
    };
    let if_missing = config.is_set(c"create_if_missing")?;
    // Some bindings use the old name.
    let create = config.is_set(c"create_or_error_if_exists")? || config.is_set(c"force_create")?;
    if if_missing && create {
        return Err(Fault::argument(
            "Both flags set in config: \"create_if_missing\" and \"create_or_error_if_exists\"",
        ));
    }
    if !create {
        match Store::open(path) {
            Err(Error::Pool(PoolError::Missing { .. })) if if_missing => {}
            opened => {
                let store = opened.map_err(Fault::argument)?;
                check_order(engine, config, store.is_empty()?)?;
                return Ok(store);
            }
        }
    }
    check_order(engine, config, true)?;
    let size = size(config, MIN_PERSISTENT)?;
    let options = CreateOptions::new().size_bytes(size).max_size_bytes(size);
    options.create(path).map_err(Fault::argument)
}

/// Its file has no name any more when this returns, so nothing is left of it, whatever happens.
fn volatile(engine: &Engine, config: &Config) -> Result<Store> {
    check_order(engine, config, true)?;
    let size = size(config, MIN_VOLATILE)?;
    let folder = path_of(config.text(c"path")?.ok_or_else(|| missing("path"))?);
    let folder = tempfile::tempdir_in(folder).map_err(|error| {
        Fault::argument(format!("{} is no folder to write to: {error}", folder.display()))
    })?;
    let options = CreateOptions::new()
        .size_bytes(MIN_VOLATILE)
        .max_size_bytes(size)
        .durability(DurabilityMode::Process);
    options.create(folder.path().join("volatile.pool")).map_err(Fault::argument)
}

fn size(config: &Config, least: u64) -> Result<u64> {
    let size = config.uint(c"size")?.ok_or_else(|| missing("size"))?;
    if size < least {
        return Err(Fault::argument(format!("the size is {size}; give at least {least} bytes")));
    }
    Ok(size)
}

fn missing(item: &str) -> Fault {
    Fault::argument(format!("Config does not contain item with key: \"{item}\""))
}

fn path_of(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// Refuses all orders but that of bytes; what is in a pool has that one.
fn check_order(engine: &Engine, config: &Config, is_empty: bool) -> Result<()> {
    let Some(comparator) = config.object(c"comparator")?.filter(|_| engine.ordered) else {
        return Ok(());
    };
    // SAFETY: under this name nothing else is put.
    let name = unsafe { &(*comparator.cast::<Comparator>()).name };
    if name.as_c_str() == Comparator::BINARY {
        return Ok(());
    }
    let (status, sentence) = if is_empty {
        let sentence = format!(
            "the comparator {} cannot be used: keys are ordered by their bytes; encode them so \
             that their bytes have the order",
            name.to_string_lossy()
        );
        (NOT_SUPPORTED, sentence)
    } else {
        let binary = Comparator::BINARY.to_string_lossy();
        (COMPARATOR_MISMATCH, format!("Comparator with name: \"{binary}\" expected"))
    };
    Err(Fault::new(status, sentence))
}

/// Closes a database. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_close(db: *mut Db) {
    status::guard("pmemkv_close", || {
        // SAFETY: the caller's contract.
        if let Some(store) = unsafe { taken(db) }.and_then(|db| db.store) {
            store.close()?;
        }
        Ok(OK)
    });
}
