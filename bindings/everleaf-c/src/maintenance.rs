//! What concerns a whole store: expired values, copies, dumps, checks, statistics.

use std::ffi::c_char;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, ErrorKind};

use crate::StoreHandle;
use crate::boundary::{Failure, Status, give, guard, handle, offer, path};

/// Removes the values that have expired, of all trees, and gives their room back. `removed`, how
/// many there were, may be NULL. After an opening it may have to wait until the pool was read once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_remove_expired(
    store: *const StoreHandle,
    removed: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { offer(removed, handle(store)?.store()?.remove_expired()?.removed) };
        Ok(Status::EverleafOk)
    })
}

/// Copies the store, all trees included, as it is now, to a new pool, while others go on reading
/// and writing: EVERLEAF_EXISTS if there is a file. The copy is durable on return; if this fails
/// there is none. `entries`, how many were copied, may be NULL. What others replace meanwhile is
/// kept in DRAM, up to 4 GiB; beyond that it fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_copy(
    store: *const StoreHandle,
    pool: *const c_char,
    entries: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { offer(entries, handle(store)?.store()?.copy(path(pool)?)?.entries) };
        Ok(Status::EverleafOk)
    })
}

/// As `everleaf_copy`, to a new file that `everleaf_restore` and `everleaf restore` read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_dump(
    store: *const StoreHandle,
    dump: *const c_char,
    entries: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        unsafe { offer(entries, handle(store)?.store()?.dump_file(path(dump)?)?.entries) };
        Ok(Status::EverleafOk)
    })
}

/// Fills a pool, which is there, empty, and open nowhere, from what `everleaf_dump` wrote. What was
/// restored is durable on return. If the dump is damaged the pool is empty again; if a crash comes
/// the pool is refused until it is restored anew. `entries`, how many there were, may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_restore(
    pool: *const c_char,
    dump: *const c_char,
    entries: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let (pool, dump) = unsafe { (path(pool)?, path(dump)?) };
        let file = File::open(dump).map_err(|error| Failure {
            status: match error.kind() {
                ErrorKind::NotFound => Status::EverleafMissing,
                _ => Status::EverleafError,
            },
            sentence: format!("{}: {error}; give the path of a dump", dump.display()),
        })?;
        let restored = everleaf::restore(pool, BufReader::new(file))?;
        // SAFETY: the header's contract.
        unsafe { offer(entries, restored.entries) };
        Ok(Status::EverleafOk)
    })
}

/// Reads and checks the whole pool; others wait meanwhile. EVERLEAF_CORRUPT if anything is wrong:
/// the sentence to it has a line for each thing. `keys`, how many the trees have, may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_check(store: *const StoreHandle, keys: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let found = unsafe { handle(store) }?.store()?.check()?;
        if !found.ok {
            let mut wrong = found.violations;
            if found.leaked_blocks > 0 {
                wrong.push(format!("blocks that nothing leads to: {}", found.leaked_blocks));
            }
            return Err(Failure { status: Status::EverleafCorrupt, sentence: wrong.join("\n") });
        }
        // SAFETY: the header's contract.
        unsafe { offer(keys, found.keys) };
        Ok(Status::EverleafOk)
    })
}

/// How large a store is, and what it keeps of a write. The texts end with a zero byte.
#[repr(C)]
pub struct Statistics {
    /// The engine.
    pub engine: [c_char; 32],
    /// The strongest failure that writes survive: `power-fail`, `process-crash` or `none`.
    pub durability: [c_char; 32],
    /// When a write that has returned is durable: as `durability` of `everleaf_options`.
    pub durability_mode: [c_char; 32],
    /// Whether there is a log beside the pool.
    pub log: bool,
    /// Entries of a leaf that are used, on average: 0 to 1. -1: the engine cannot tell.
    pub fill: f64,
    /// The keys of all trees, those of expired values included, and the names of the trees.
    pub entries: u64,
    /// Levels of the index, its leaves included.
    pub height: u64,
    /// Leaves of the index.
    pub leaves: u64,
    /// Inner nodes of the index.
    pub inner_nodes: u64,
    /// Bytes of DRAM that the index takes.
    pub dram_bytes: u64,
    /// Bytes of the pool that are in use.
    pub used_bytes: u64,
    /// Bytes of the pool that are free, without growing it.
    pub free_bytes: u64,
    /// Bytes of the pool.
    pub total_bytes: u64,
    /// Bytes that the pool may grow to.
    pub max_bytes: u64,
}

/// Tells how large a store is now. It reads a line of memory for each 4 KiB of the pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_get_statistics(
    store: *const StoreHandle,
    statistics: *mut Statistics,
) -> Status {
    guard(|| {
        // SAFETY: the header's contract.
        let found = unsafe { handle(store) }?.store()?.statistics()?;
        let told = Statistics {
            engine: text(&found.engine),
            durability: text(&found.durability),
            durability_mode: text(&found.durability_mode),
            log: found.log,
            fill: found.fill.unwrap_or(-1.0),
            entries: found.entries,
            height: found.height.into(),
            leaves: found.leaves,
            inner_nodes: found.inner_nodes,
            dram_bytes: found.dram_bytes,
            used_bytes: found.used_bytes,
            free_bytes: found.free_bytes,
            total_bytes: found.total_bytes,
            max_bytes: found.max_bytes,
        };
        // SAFETY: the header's contract.
        unsafe { give(statistics, told)? };
        Ok(Status::EverleafOk)
    })
}

/// With a zero byte behind it, cut if it is too long.
fn text<const BYTES: usize>(of: &dyn Display) -> [c_char; BYTES] {
    let mut text = [0; BYTES];
    for (place, byte) in text[..BYTES - 1].iter_mut().zip(of.to_string().bytes()) {
        *place = byte as c_char;
    }
    text
}
