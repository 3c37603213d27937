//! What a write costs, in flushes and fences, as the documentation of `Store` says.

mod common;

use common::value;
use everleaf::{CreateOptions, KeyType, Store};
use everleaf_pmem::{Event, Traced};

/// Flushes and fences of one write.
fn cost(store: &Store, media: &Traced, write: impl FnOnce(&Store)) -> (usize, usize) {
    media.take_events();
    write(store);
    let events = media.take_events();
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    (count(|event| matches!(event, Event::Flush { .. })), count(|event| matches!(event, Event::Fence { .. })))
}

#[test]
fn costs_of_writes_with_u64_keys_are_as_documented() {
    let media = Traced::new(1 << 20, 1 << 20, 3).unwrap();
    let (store, pool) = CreateOptions::new().key_type(KeyType::U64).create_on(media).unwrap();
    // Afterwards every chunk that the writes below need is in use, and no leaf is full.
    (0..20u64).for_each(|key| assert!(!store.put(key, &value(key, 40)).unwrap()));
    // Header 8, key length 4, key 8, value 44: one line.
    let one_line = value(1, 44);
    let in_line = |store: &Store| assert!(!store.put(100u64, &one_line).unwrap());
    assert_eq!(cost(&store, pool.media(), in_line), (1 + 5, 4), "insertion");
    assert_eq!(cost(&store, pool.media(), |store| assert!(store.put(100u64, &one_line).unwrap())), (1 + 5, 4), "replacement");
    assert_eq!(cost(&store, pool.media(), |store| assert!(store.delete(100u64).unwrap())), (4, 4), "removal");
    assert_eq!(cost(&store, pool.media(), |store| assert!(!store.insert(1u64, b"").unwrap())), (0, 0), "refusal");
    assert_eq!(cost(&store, pool.media(), |store| assert!(!store.delete(100u64).unwrap())), (0, 0), "nothing to remove");
    assert_eq!(cost(&store, pool.media(), |store| assert!(store.get(1u64).unwrap().is_some())), (0, 0), "reading");
}
