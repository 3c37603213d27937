//! Small stores, and what is done with any of them.

use everleaf::internal::create_on;
use everleaf::{Clock, CreateOptions, Engine, EngineParameters, KeyType, OwnedKey, Scan, Store};
use everleaf_engines::all;
use everleaf_pmem::{Cpu, Mapped, Region};

/// Keys that a store is filled with.
const KEYS: u64 = 40;
/// More than any store here can hold: a scan that shows as many has no end.
const MAX_ENTRIES: usize = 10_000;
/// Bytes that a store in memory has.
const BYTES: u64 = 1 << 20;

/// A pool of small nodes, so that a few keys make a tree.
pub fn options(engine: Engine, key_type: KeyType) -> CreateOptions {
    let has = |name| engine.entry().parameters.contains(&name);
    let mut parameters = EngineParameters::default().leaf_slots(engine.entry().min_leaf_slots);
    parameters.inner_keys = has(EngineParameters::INNER_KEYS).then_some(4);
    parameters.group_bytes = has(EngineParameters::GROUP_BYTES).then_some(4096);
    CreateOptions::new().engine(engine).key_type(key_type).engines(all()).parameters(parameters)
}

/// An empty store in memory.
pub fn in_memory(key_type: KeyType, clock: &Clock) -> Store {
    let region = Region::anonymous(BYTES, BYTES).expect("some memory");
    let media = Mapped::new(region, &Cpu::detect()).expect("a processor that flushes");
    let options = options(Engine::default(), key_type).clock(clock.clone());
    create_on(all(), &options, media).expect("an empty store").0
}

/// The n-th key.
fn key(key_type: KeyType, n: u64) -> OwnedKey {
    match key_type {
        KeyType::U64 => OwnedKey::U64(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        KeyType::Bytes => {
            OwnedKey::from([b"key", &b"-longer"[..n as usize % 8], &[n as u8]].concat())
        }
    }
}

/// Puts keys, replaces some and removes some.
pub fn fill(store: &Store) {
    let key_type = store.key_type();
    for step in 0..2 * KEYS {
        let key = key(key_type, step * 31 % KEYS);
        let value = vec![step as u8; if step % KEYS == 11 { 5000 } else { step as usize % 70 }];
        let done = match step % 5 {
            4 => store.delete(&key).map(drop),
            _ => store.put(&key, value).map(drop),
        };
        done.expect("there is room");
    }
    if key_type == KeyType::Bytes {
        let tree = store.tree("named").expect("a tree");
        tree.put("key", "value").expect("there is room");
    }
}

/// Reads everything. What is wrong is an error, but keys come in order and end.
pub fn read(store: &Store) {
    (0..KEYS).for_each(|n| drop(store.get(key(store.key_type(), n))));
    for backward in [false, true] {
        let scan = if backward { Scan::all().backward() } else { Scan::all() };
        let keys: Vec<OwnedKey> =
            store.scan(scan).take(MAX_ENTRIES).map_while(Result::ok).map(|entry| entry.0).collect();
        assert!(keys.len() < MAX_ENTRIES, "a scan without an end");
        let in_order = |pair: &[OwnedKey]| (pair[0] < pair[1]) != backward && pair[0] != pair[1];
        assert!(keys.windows(2).all(in_order), "a scan out of order");
    }
    let _ = (store.check(), store.statistics(), store.tree_names());
}

/// Writes in all ways, and closes.
pub fn write(store: Store) {
    let key_type = store.key_type();
    for n in [0, 3, 11, KEYS + 1, KEYS + 2] {
        let _ = store.put(key(key_type, n), [7; 50]);
        let _ = (store.delete(key(key_type, n + 1)), store.get(key(key_type, n)));
    }
    let mut batch = store.batch();
    for n in 0..5 {
        let _ = batch.put(key(key_type, n), [8; 20]);
    }
    let _ = (batch.commit(), store.tree("named"), store.remove_expired(), store.sync());
    read(&store);
    let _ = store.close();
}
