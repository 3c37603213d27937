//! What a write costs, in flushes and fences, as the documentation of `Store` says.

use crate::common::{self, value};
use everleaf::internal::create_on;
use everleaf::{CreateOptions, Engine, KeyType, Store};
use everleaf_crash::{Event, Traced};
use everleaf_engines::all;

/// Flushes and fences of one write.
fn cost(store: &Store, media: &Traced, write: impl FnOnce(&Store)) -> (usize, usize) {
    media.take_events();
    write(store);
    let events = media.take_events();
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    (
        count(|event| matches!(event, Event::Flush { .. })),
        count(|event| matches!(event, Event::Fence { .. })),
    )
}

#[test]
fn costs_of_writes_with_u64_keys_are_as_documented() {
    let media = Traced::new(1 << 20, 1 << 20, 3).unwrap();
    let (store, pool) =
        create_on(all(), &CreateOptions::new().key_type(KeyType::U64), media).unwrap();
    // Afterwards every chunk that the writes below need is in use, and no leaf is full.
    (0..20u64).for_each(|key| assert!(!store.put(key, value(key, 40)).unwrap()));
    // Header 8, key length 4, key 8, value 44: one line.
    let one_line = value(1, 44);
    let in_line = |store: &Store| assert!(!store.put(100u64, &one_line).unwrap());
    assert_eq!(cost(&store, pool.media(), in_line), (1 + 4, 2), "insertion");
    assert_eq!(
        cost(&store, pool.media(), |store| assert!(store.put(100u64, &one_line).unwrap())),
        (1 + 3, 2),
        "replacement, both records in one chunk"
    );
    assert_eq!(
        cost(&store, pool.media(), |store| assert!(store.delete(100u64).unwrap())),
        (3, 2),
        "removal"
    );
    assert_eq!(
        cost(&store, pool.media(), |store| assert!(!store.put_if_absent(1u64, b"").unwrap())),
        (0, 0),
        "refusal"
    );
    assert_eq!(
        cost(&store, pool.media(), |store| assert!(!store.delete(100u64).unwrap())),
        (0, 0),
        "nothing to remove"
    );
    assert_eq!(
        cost(&store, pool.media(), |store| assert!(store.get(1u64).unwrap().is_some())),
        (0, 0),
        "reading"
    );
}

/// A put, a replacement in the same chunk, and a removal of keys of 16 bytes with values of 100:
/// apart from splits, leaves that are emptied, and chunks.
fn costs_of_byte_strings(engine: Engine) -> [(usize, usize); 3] {
    let media = Traced::new(1 << 20, 1 << 20, 3).unwrap();
    let options = CreateOptions::new().engine(engine).key_type(KeyType::Bytes);
    let (store, pool) = create_on(all(), &options, media).unwrap();
    let key = |n: u64| format!("{n:016}");
    (0..20).for_each(|n| assert!(!store.put(key(n), value(n, 100)).unwrap()));
    [
        cost(&store, pool.media(), |store| assert!(!store.put(key(50), value(1, 100)).unwrap())),
        cost(&store, pool.media(), |store| assert!(store.put(key(50), value(2, 100)).unwrap())),
        cost(&store, pool.media(), |store| assert!(store.delete(key(50)).unwrap())),
    ]
}

/// An entry has one record, of two lines: header 8, head 4, key 16, value 100.
#[test]
fn costs_of_writes_with_byte_string_keys_are_as_documented() {
    for engine in [Engine::FPTREE_C, Engine::FPTREE, Engine::CLFTREE_APPEND] {
        assert_eq!(costs_of_byte_strings(engine), [(2 + 4, 2), (2 + 3, 2), (3, 2)], "{engine}");
    }
    // The key's array is apart from that of the values.
    assert_eq!(
        costs_of_byte_strings(Engine::of(&everleaf_engines::PTREE)),
        [(2 + 5, 2), (2 + 3, 2), (3, 2)]
    );
}

/// The key of a new entry is a record of its own: the store's record is linked under an intent.
#[test]
fn costs_of_writes_where_keys_have_records_of_their_own() {
    let media = Traced::new(1 << 20, 1 << 20, 3).unwrap();
    let options = CreateOptions::new().engine(Engine::NVTREE).key_type(KeyType::Bytes);
    let (store, pool) = create_on(all(), &options, media).unwrap();
    let key = |n: u64| common::key(KeyType::Bytes, n);
    (0..20u64).for_each(|n| assert!(!store.put(key(n), value(n, 30)).unwrap()));
    let one_line = value(1, 30);
    let costs = [
        cost(&store, pool.media(), |store| assert!(!store.put(key(100), &one_line).unwrap())),
        cost(&store, pool.media(), |store| assert!(store.put(key(100), &one_line).unwrap())),
        cost(&store, pool.media(), |store| assert!(store.delete(key(100)).unwrap())),
    ];
    assert_eq!(costs, [(2 + 9, 6), (2 + 6, 5), (5, 5)], "added, replaced, removed");
}

/// Nodes that are sorted: one line of entries, so nothing moves between lines. In a ring a new
/// entry needs no fence beside those of its own.
#[test]
fn costs_of_writes_of_sorted_trees_with_u64_keys() {
    for (engine, costs) in [
        (Engine::CIRCTREE, [(1 + 4, 2), (1 + 3, 2), (3, 2)]),
        (Engine::of(&everleaf_engines::FASTFAIR), [(1 + 3, 2), (1 + 3, 2), (3, 2)]),
    ] {
        let media = Traced::new(1 << 20, 1 << 20, 3).unwrap();
        let options = CreateOptions::new().engine(engine).key_type(KeyType::U64);
        let (store, pool) = create_on(all(), &options, media).unwrap();
        (0..20u64).for_each(|key| assert!(!store.put(key, value(key, 44)).unwrap()));
        let found = [
            cost(&store, pool.media(), |store| assert!(!store.put(50u64, value(1, 44)).unwrap())),
            cost(&store, pool.media(), |store| assert!(store.put(50u64, value(2, 44)).unwrap())),
            cost(&store, pool.media(), |store| assert!(store.delete(50u64).unwrap())),
        ];
        assert_eq!(found, costs, "{engine}");
    }
}

#[test]
fn a_batch_of_a_hundred_costs_less_than_a_hundred_writes() {
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let options = CreateOptions::new().key_type(key_type);
        let (store, pool) =
            create_on(all(), &options, Traced::new(4 << 20, 4 << 20, 3).unwrap()).unwrap();
        // Every third key is there already, spread over the leaves.
        let key = |n: u64| common::key(key_type, n);
        let prepare = |from: u64| {
            (0..600).for_each(|n| _ = store.put(key(from + n * 3), value(n, 44)).unwrap())
        };
        prepare(0);
        let one_by_one = cost(&store, pool.media(), |store| {
            (0..100).for_each(|n| _ = store.put(key(n), value(n, 44)).unwrap());
        });
        let together = cost(&store, pool.media(), |store| {
            let mut batch = store.batch();
            (900..1000).for_each(|n| _ = batch.put(key(n), value(n, 44)).unwrap());
            batch.commit().unwrap();
        });
        println!(
            "{key_type:?}: 100 puts, {one_by_one:?} flushes and fences; a batch of 100, \
            {together:?}"
        );
        if key_type == KeyType::U64 {
            assert!(
                together.0 * 10 <= one_by_one.0 * 9 && together.1 * 10 <= one_by_one.1 * 9,
                "{one_by_one:?} {together:?}"
            );
            assert_eq!((one_by_one, together), ((495, 200), (243, 4)));
        } else {
            // Leaves that are split.
            assert_eq!((one_by_one, together), ((504, 200), (308, 37)));
        }
    }
}

/// What a batch of a hundred puts costs where no leaf is full.
fn cost_of_a_batch(engine: Engine, key_type: KeyType, kind: &str) -> (usize, usize) {
    let options = CreateOptions::new().engine(engine).key_type(key_type);
    let media = Traced::new(4 << 20, 4 << 20, 3).unwrap();
    let (store, pool) = create_on(all(), &options, media).unwrap();
    let key = |n: u64| common::key(key_type, n.wrapping_mul(0x9e37_79b9) % 100_000);
    (0..4000).for_each(|n| _ = store.put(key(n), value(n, 44)).unwrap());
    // There is room for these, in leaves and in chunks.
    (5000..5200).for_each(|n| _ = store.put(key(n), value(n, 44)).unwrap());
    (5000..5200).for_each(|n| assert!(store.delete(key(n)).unwrap()));
    cost(&store, pool.media(), |_| {
        let mut batch = store.batch();
        for n in 0..100 {
            match kind {
                "replaced" => _ = batch.put(key(n), value(n, 44)).unwrap(),
                "mixed" if n % 4 == 0 => _ = batch.delete(key(n)).unwrap(),
                _ => _ = batch.put(key(5000 + n), value(n, 44)).unwrap(),
            }
        }
        batch.commit().unwrap();
    })
}

#[test]
fn a_batch_of_a_hundred_puts_is_four_fences_where_no_leaf_is_full() {
    for engine in [Engine::FPTREE_C, Engine::FPTREE] {
        for key_type in [KeyType::U64, KeyType::Bytes] {
            let costs = ["new", "replaced", "mixed"].map(|kind| {
                let cost = cost_of_a_batch(engine, key_type, kind);
                println!("{engine}, {key_type:?}, {kind}: {cost:?} flushes and fences");
                cost
            });
            // Many records of byte-string keys are of two lines.
            let expected = match key_type {
                KeyType::U64 => [(305, 4), (233, 4), (267, 5)],
                KeyType::Bytes => [(379, 4), (285, 4), (316, 5)],
            };
            assert_eq!(costs, expected, "{engine} {key_type:?}");
        }
    }
}
