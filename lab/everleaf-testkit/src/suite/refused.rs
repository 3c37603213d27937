//! A write that a full pool refuses when the record of its value is written already.

use everleaf::Engine;
use everleaf_crash::Traced;

use super::case::{Case, CaseSubject};
use crate::Level::Store;
use crate::ScriptKeys::U64;
use crate::families::lines;
use crate::{Key, Operation, engine_sites};

/// Bytes of the pool.
const POOL_BYTES: u64 = 64 << 10;
/// Keys are inserted from this one downwards: each leaf that is split keeps its upper half.
const GREATEST: u64 = 1000;
/// The keys of values that take the room: most of it, and a last chunk.
const RUN: u64 = 2000;
const CHUNK: u64 = 2001;
/// The value of `CHUNK`.
const THREE_KIB: u64 = 3 << 32;

/// The record of a new key takes the last chunk, as the first of its size; then there is no leaf
/// for the split. The next record is written beside it, into the same chunk: the refusal must leave
/// nothing behind that is not fenced.
pub(super) fn refused_splits(engine: Engine) -> Vec<Case> {
    if !engine_sites(engine).any(|site| site.name().contains(".link.")) {
        return Vec::new(); // It splits under an intent.
    }
    if engine_sites(engine).any(|site| site.name().starts_with("sorted.")) {
        return Vec::new(); // Its nodes are blocks: a chunk of them has room when none is free.
    }
    let (run, leaves) = filled(engine);
    if leaves < u64::from(engine.entry().min_leaf_slots) {
        return Vec::new(); // No leaf is full yet when there is no room for another record.
    }
    let script = format!("insert {RUN} {run}\ninsert {CHUNK} {THREE_KIB}\n")
        + &lines((0..leaves).map(|i| format!("insert {} 3", GREATEST - i)))
        + &format!(
            "remove {CHUNK}\nreopen\nexplore\nrefused insert {} 1\nupdate {GREATEST} 4\nupdate {} \
            7\nremove {RUN}\ninsert {} 1\n",
            GREATEST - leaves,
            GREATEST - 1,
            GREATEST - leaves,
        );
    let name = "a split that a full pool refuses";
    vec![
        Case::scripted(name, engine, Store, U64, 1, &script)
            .in_pool(POOL_BYTES, POOL_BYTES)
            .with_budget(8),
    ]
}

/// The largest value of `RUN` beside which there is room for that of `CHUNK` and for one key, and
/// how many keys there is room for.
fn filled(engine: Engine) -> (u64, u64) {
    let empty = Case::scripted("an empty store", engine, Store, U64, 1, "get 1\n");
    let CaseSubject::Engine(subject) = empty.subject else { unreachable!("it is scripted") };
    for run in (1..POOL_BYTES >> 10).rev().map(|kib| kib << 32) {
        let store = Traced::new(POOL_BYTES, POOL_BYTES, 1).map_err(|e| e.to_string());
        let store = store.and_then(|media| subject.create(media));
        let store = store.unwrap_or_else(|e| panic!("an empty store: {e}"));
        let insert = |key, value| store.apply(&Operation::Insert(Key::U64(key), value)).is_ok();
        if insert(RUN, run) && insert(CHUNK, THREE_KIB) && insert(GREATEST, 3) {
            return (run, 1 + (1..GREATEST).take_while(|i| insert(GREATEST - i, 3)).count() as u64);
        }
    }
    panic!("a pool of {POOL_BYTES} bytes has no room for a key")
}
