//! Batches of any size and content, on the engines that take part in them and on one that does
//! not.

use everleaf_engines::all;
use std::collections::BTreeMap;

use crate::common::{folder, key, value};
use everleaf::internal::create_on;
use everleaf::{CreateOptions, Engine, EngineParameters, KeyType, OwnedKey, Store};
use everleaf_crash::{Event, Traced};

type Model = BTreeMap<OwnedKey, Vec<u8>>;

const ENGINES: [Engine; 4] = [
    Engine::FPTREE,
    Engine::FPTREE_C,
    Engine::of(&everleaf_engines::PTREE),
    Engine::CLFTREE_APPEND,
];

/// Leaves of few slots, where the engine has them.
fn options(engine: Engine, key_type: KeyType, slots: u32) -> CreateOptions {
    let mut parameters = EngineParameters::default();
    if (engine.entry().pack)(&parameters.leaf_slots(slots), 1).is_ok() {
        parameters = parameters.leaf_slots(slots);
    }
    if engine.entry().parameters.contains(&EngineParameters::GROUP_BYTES) {
        parameters = parameters.group_bytes(4096);
    }
    CreateOptions::new()
        .engine(engine)
        .key_type(key_type)
        .engines(everleaf_engines::all())
        .parameters(parameters)
}

/// Numbers that a seed leads to.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % limit
    }
}

fn expect(store: &Store, model: &Model) {
    let found: Vec<_> = store.iter().map(|entry| entry.unwrap()).collect();
    let expected: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert!(found == expected, "{} entries and not {}", found.len(), expected.len());
    let outcome = store.check().unwrap();
    assert!(outcome.ok && outcome.keys == model.len() as u64, "{outcome:?}");
}

/// Writes one batch into a store and a model: puts and removals of keys below `keys`.
fn write(store: &Store, model: &mut Model, key_type: KeyType, random: &mut Random, keys: u64) {
    let mut batch = store.batch();
    let share = random.below(5);
    for _ in 0..1 + random.below(300) {
        let n = random.below(keys);
        // The greatest number of all is a key as well.
        let key = if n == 0 && key_type == KeyType::U64 {
            OwnedKey::U64(u64::MAX)
        } else {
            key(key_type, n)
        };
        if random.below(5) < share {
            batch.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let bytes = [5, 44, 200, 5000][random.below(41) as usize / 13];
            let value = value(random.below(1 << 30), bytes);
            batch.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    batch.commit().unwrap();
}

#[test]
fn batches_of_puts_and_removals_do_what_they_say() {
    let folder = folder();
    for engine in ENGINES {
        for key_type in [KeyType::U64, KeyType::Bytes] {
            for slots in [4, 8] {
                let seed = u64::from(slots);
                println!("{engine}, {key_type:?}, {slots} slots, seed {seed}");
                let path = folder.path().join(format!("{engine}{key_type:?}{slots}.pool"));
                let store = options(engine, key_type, slots).size_bytes(16 << 20);
                let store = store.create(&path).unwrap();
                let (mut model, mut random) = (Model::new(), Random(seed));
                for round in 0..60 {
                    write(&store, &mut model, key_type, &mut random, 600);
                    if round % 10 == 0 {
                        expect(&store, &model);
                    }
                }
                expect(&store, &model);
                store.close().unwrap();
                let store = crate::common::opening().open(&path).unwrap();
                expect(&store, &model);
            }
        }
    }
}

/// The batch has happened when the index has no room for one of its keys.
#[test]
fn a_batch_that_the_index_refuses_midway_is_taken_back() {
    for engine in &ENGINES[..3] {
        for key_type in [KeyType::U64, KeyType::Bytes] {
            let media = Traced::new(128 << 10, 128 << 10, 3).unwrap();
            let (store, pool) = create_on(all(), &options(*engine, key_type, 4), media).unwrap();
            let mut model = Model::new();
            for n in 0..40 {
                let (key, value) = (key(key_type, n), value(n, 10));
                store.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            // Ever fewer: first there is no room for the records, then none for the leaves.
            let mut midway = 0;
            for puts in (1..2500u64).rev().step_by(61) {
                let mut batch = store.batch();
                for n in 0..puts {
                    batch.put(key(key_type, n + 5), value(n, 10)).unwrap();
                }
                for n in 0..5 {
                    batch.delete(key(key_type, n)).unwrap();
                }
                pool.media().take_events();
                match batch.commit() {
                    Ok(_) => break,
                    Err(error) => assert!(error.is_full(), "{error}"),
                }
                let committed = |event: &Event| match event {
                    Event::Fence { site } => site.name() == "pool.batch.B2.fence",
                    _ => false,
                };
                midway += usize::from(pool.media().take_events().iter().any(committed));
                expect(&store, &model);
            }
            println!("{engine}, {key_type:?}: {midway} batches were refused midway");
            assert!(midway > 1, "{engine} {key_type:?}");
        }
    }
}

#[test]
fn threads_write_batches_of_different_keys_into_the_same_leaves() {
    const THREADS: u64 = 3;
    let folder = folder();
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let path = folder.path().join(format!("{key_type:?}.pool"));
        let store = options(Engine::FPTREE_C, key_type, 8).size_bytes(16 << 20);
        let store = store.create(&path).unwrap();
        let models = std::thread::scope(|scope| {
            let write = |thread: u64| {
                let (mut model, mut random) = (Model::new(), Random(thread));
                for round in 0..40 {
                    let mut batch = store.batch();
                    for _ in 0..200 {
                        let key = key(key_type, random.below(400) * THREADS + thread);
                        if random.below(3) == 0 {
                            batch.delete(&key).unwrap();
                            model.remove(&key);
                        } else {
                            let value = value(round, random.below(100) as usize);
                            batch.put(&key, &value).unwrap();
                            model.insert(key, value);
                        }
                    }
                    batch.commit().unwrap();
                    let single = key(key_type, (400 + round % 20) * THREADS + thread);
                    store.put(&single, b"by itself").unwrap();
                    assert!(model.iter().all(|(key, value)| {
                        store.get(key).unwrap().as_deref() == Some(value.as_slice())
                    }));
                    store.delete(&single).unwrap();
                }
                model
            };
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        expect(&store, &models.into_iter().flatten().collect());
    }
}
