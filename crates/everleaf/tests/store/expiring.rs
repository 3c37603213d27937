//! The room of expired values is found without a look at anything else, and taken when it is
//! needed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::common::{self, folder, key, value};
use everleaf::{Clock, CreateOptions, Engine, Expiry, KeyType, OwnedKey, Result, Store, Tree};

const LIFE: Duration = Duration::from_secs(1);

fn engines() -> impl Iterator<Item = (Engine, KeyType)> {
    let kinds = |engine: Engine| {
        let kinds = [KeyType::U64, KeyType::Bytes].into_iter();
        kinds.filter(move |of| engine.has_keys(*of)).map(move |of| (engine, of))
    };
    Engine::available().flat_map(kinds)
}

fn create(path: &Path, (engine, key_type): (Engine, KeyType), clock: &Clock) -> Store {
    let options = CreateOptions::new().engine(engine).key_type(key_type).clock(clock.clone());
    options.size_bytes(2 << 20).max_size_bytes(2 << 20).create(path).unwrap()
}

fn open(path: &Path, clock: &Clock) -> Store {
    crate::common::opening().clock(clock.clone()).open(path).unwrap()
}

/// What a sweep has looked at, and what it has removed.
fn swept(store: &Store) -> (u64, u64) {
    let swept = store.remove_expired().unwrap();
    (swept.looked_at, swept.removed)
}

fn entries(store: &Store) -> u64 {
    store.statistics().unwrap().entries
}

#[test]
fn a_sweep_looks_at_what_has_expired_and_at_nothing_else() {
    let folder = folder();
    for (engine, key_type) in engines() {
        let clock = Clock::manual(1000);
        let path = folder.path().join(format!("{engine}-{key_type:?}.pool"));
        let store = create(&path, (engine, key_type), &clock);
        let key = |n| key(key_type, n);
        (0..1000).for_each(|n| _ = store.put(key(n), value(n, 20)).unwrap());
        (1000..1010).for_each(|n| _ = store.put_for(key(n), value(n, 20), LIFE).unwrap());
        (1010..1020).for_each(|n| _ = store.put_for(key(n), value(n, 20), 2 * LIFE).unwrap());
        assert_eq!(swept(&store), (0, 0), "{engine}");
        clock.advance(LIFE);
        // Of these none has expired.
        store.put(key(1000), "stays").unwrap();
        store.put_for(key(1001), "longer", 2 * LIFE).unwrap();
        store.delete(key(1002)).unwrap();
        assert_eq!(swept(&store), (7, 7), "{engine}");
        assert_eq!(swept(&store), (0, 0), "{engine}");
        clock.advance(LIFE);
        assert_eq!(swept(&store), (10, 10), "{engine}");
        assert_eq!((entries(&store), store.len().unwrap()), (1002, 1002));
        assert!(store.check().unwrap().ok);
    }
}

#[test]
fn a_value_that_has_expired_is_absent_for_what_follows_it_in_its_batch() {
    let folder = folder();
    for (engine, key_type) in engines() {
        let path = folder.path().join(format!("{engine}-{key_type:?}.pool"));
        let store = create(&path, (engine, key_type), &Clock::manual(1000));
        let (added, replaced) = (key(key_type, 1), key(key_type, 2));
        let mut batch = store.batch();
        for key in [&added, &replaced] {
            batch.put_until(key, "old", SystemTime::UNIX_EPOCH + LIFE).unwrap();
        }
        batch.put_if_absent(&added, "new").unwrap();
        batch.replace(&replaced, "new").unwrap();
        assert_eq!(batch.commit().unwrap(), [true, true, true, false], "{engine}");
        let found = [&added, &replaced].map(|key| store.get(key).unwrap());
        assert_eq!(found, [Some(b"new".to_vec()), None], "{engine}");
    }
}

/// The same values by all ways, in the store's own tree and in others.
fn write_by_all_ways(store: &Store, trees: &[Tree]) -> Result<u64> {
    let mut written = 0;
    for tree in trees {
        let key = |n| key(tree.key_type(), n);
        tree.put_for(key(0), "alone", LIFE)?;
        let mut batch = tree.batch();
        batch.put_for(key(1), "together", LIFE)?.put(key(2), "stays")?;
        batch.commit()?;
        store.transaction(|tx| {
            tx.on(tree)?.put_for(key(3), "in a transaction", LIFE)?;
            Ok(())
        })?;
        tree.put_for(key(4), "replaced", LIFE)?;
        tree.put(key(4), "stays")?;
        written += 3;
    }
    Ok(written)
}

#[test]
fn values_of_all_trees_are_found_after_a_close_and_after_a_crash() -> Result<()> {
    let folder = folder();
    for (engine, key_type) in engines() {
        let clock = Clock::manual(1000);
        let path = folder.path().join(format!("{engine}-{key_type:?}.pool"));
        let mut store = create(&path, (engine, key_type), &clock);
        for crash in [false, true] {
            let mut trees = vec![store.default_tree().clone()];
            if key_type == KeyType::Bytes {
                trees.extend([store.tree("names")?, store.tree_with("numbers", KeyType::U64)?]);
                let dropped = store.tree("dropped")?;
                write_by_all_ways(&store, &[dropped])?;
                store.drop_tree("dropped")?;
            }
            let expire = write_by_all_ways(&store, &trees)?;
            drop(trees);
            if crash {
                store.sync()?;
                let image = folder.path().join("image.pool");
                std::fs::copy(&path, &image).unwrap();
                drop(store);
                std::fs::rename(&image, &path).unwrap();
            } else {
                store.close()?;
            }
            store = open(&path, &clock);
            assert_eq!(swept(&store), (0, 0), "nothing has expired yet");
            let before = entries(&store);
            clock.advance(LIFE);
            assert_eq!(swept(&store), (expire, expire), "{engine}, {key_type:?}, crash: {crash}");
            assert_eq!(entries(&store), before - expire);
            assert!(store.check()?.ok);
        }
    }
    Ok(())
}

#[test]
fn the_sweeper_of_a_store_that_was_opened_finds_old_values_before_its_first_long_pause() {
    let folder = folder();
    let (path, clock) = (folder.path().join("a.pool"), Clock::manual(1000));
    let store = create(&path, (Engine::FPTREE, KeyType::U64), &clock);
    (0..5000).for_each(|n| _ = store.put_for(n, "", LIFE).unwrap());
    store.close().unwrap();
    clock.advance(LIFE);
    let store = open(&path, &clock);
    store.sweep_every(Some(Duration::from_secs(3600))).unwrap();
    while entries(&store) > 0 {
        std::thread::yield_now();
    }
}

/// Puts until one is refused; how many were done.
fn fill(put: impl Fn(u64) -> Result<bool>) -> u64 {
    for n in 0.. {
        if let Err(error) = put(n) {
            assert!(error.is_full(), "{error}");
            return n;
        }
    }
    unreachable!("a pool is full some time");
}

#[test]
fn a_full_pool_of_expired_values_takes_new_ones() {
    let folder = folder();
    for (engine, key_type) in engines() {
        for reopened in [false, true] {
            let clock = Clock::manual(1000);
            let path = folder.path().join(format!("{engine}-{key_type:?}-{reopened}.pool"));
            let mut store = create(&path, (engine, key_type), &clock);
            store.put(key(key_type, u64::MAX / 2), "stays").unwrap();
            let put = |store: &Store, n| store.put_for(key(key_type, n), value(n, 300), LIFE);
            let fitted = fill(|n| put(&store, n));
            if reopened {
                store.close().unwrap();
                store = open(&path, &clock);
            }
            clock.advance(LIFE);
            for n in 0..3 * fitted {
                let done = put(&store, fitted + n);
                assert!(done.is_ok(), "{engine}, {key_type:?}, {n} of {fitted}: {done:?}");
                if n % 100 == 0 {
                    clock.advance(LIFE);
                }
            }
            let mut batch = store.batch();
            clock.advance(LIFE);
            for n in 0..50 {
                batch.put(key(key_type, 10 * fitted + n), value(n, 300)).unwrap();
            }
            let done = batch.commit();
            assert!(done.is_ok(), "{engine}, {key_type:?}, reopened: {reopened}: {done:?}");
            assert!(store.len().unwrap() >= 51);
            assert!(store.check().unwrap().ok);
        }
    }
}

#[test]
fn a_full_pool_of_values_that_have_not_expired_refuses_and_loses_none() {
    let folder = folder();
    let (path, clock) = (folder.path().join("a.pool"), Clock::manual(1000));
    let store = create(&path, (Engine::FPTREE, KeyType::Bytes), &clock);
    let fitted = fill(|n| store.put_for(format!("{n}"), value(n, 300), LIFE));
    let snapshot = store.snapshot().unwrap();
    assert!(store.put("more", value(0, 3000)).unwrap_err().is_full());
    assert_eq!(store.len().unwrap(), fitted);
    clock.advance(LIFE);
    store.put("more", value(0, 3000)).unwrap();
    assert_eq!(snapshot.len().unwrap(), fitted, "they have not expired for it");
    assert!(snapshot.get("0").unwrap().is_some());
}

#[test]
fn threads_write_while_others_sweep_and_a_store_is_opened_again_and_again() {
    let folder = folder();
    for (engine, key_type) in
        [(Engine::FPTREE_C, KeyType::Bytes), (Engine::MASSTREE, KeyType::Bytes)]
    {
        let clock = Clock::manual(1000);
        let path = folder.path().join(format!("{engine}.pool"));
        let mut store = create(&path, (engine, key_type), &clock);
        for round in 0..10 {
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writers: Vec<_> = (0..3)
                    .map(|writer| {
                        let (store, clock) = (&store, &clock);
                        scope.spawn(move || {
                            for n in 0..1500_u64 {
                                let key = format!("{:03}", (n * 7919 + writer * 31 + round) % 500);
                                match n % 5 {
                                    0 => store.put_for(&key, "short", LIFE / 1000),
                                    1 => store.put_for(&key, "long", 1000 * LIFE),
                                    2 => store.put(&key, "stays"),
                                    3 => store.delete(&key),
                                    _ => store.put_for(&key, "gone", Duration::ZERO),
                                }
                                .unwrap();
                                if n % 50 == 0 {
                                    clock.advance(LIFE / 1000);
                                }
                            }
                        })
                    })
                    .collect();
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !done.load(Ordering::Relaxed) {
                            store.remove_expired().unwrap();
                        }
                    });
                }
                writers.into_iter().for_each(|writer| writer.join().unwrap());
                done.store(true, Ordering::Relaxed);
            });
            clock.advance(LIFE);
            store.remove_expired().unwrap();
            assert_eq!(entries(&store), store.len().unwrap(), "none is forgotten");
            assert!(store.check().unwrap().ok);
            store.close().unwrap();
            store = open(&path, &clock);
        }
        clock.advance(1000 * LIFE);
        store.remove_expired().unwrap();
        let stays = store.iter().all(|entry| entry.unwrap().1 == b"stays");
        assert!(stays && entries(&store) == store.len().unwrap());
    }
}

#[test]
fn threads_take_the_room_of_what_has_expired_and_none_is_refused() {
    let folder = folder();
    for engine in [Engine::FPTREE_C, Engine::MASSTREE] {
        let clock = Clock::manual(1000);
        let path = folder.path().join(format!("{engine}.pool"));
        let store = create(&path, (engine, KeyType::Bytes), &clock);
        let fitted = fill(|n| store.put_for(format!("old {n}"), value(n, 300), LIFE));
        clock.advance(LIFE);
        // Together they take half of the room; what others are about to remove is waited for.
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..fitted / 8 {
                        let done = store.put(format!("new {thread} {n}"), value(n, 300));
                        assert!(done.is_ok(), "{engine}, {n} of {fitted}: {done:?}");
                    }
                });
            }
        });
        assert_eq!(store.len().unwrap(), 4 * (fitted / 8), "{engine}");
        assert!(store.check().unwrap().ok);
    }
}

/// What changes a value in place leaves its expiry alone; what puts one does not.
#[test]
fn an_expiry_stays_with_a_value_that_is_changed() {
    let folder = folder();
    for (engine, key_type) in engines() {
        let clock = Clock::manual(1000);
        let path = folder.path().join(format!("keeps-{engine}-{key_type:?}.pool"));
        let store = create(&path, (engine, key_type), &clock);
        let at = |n| key(key_type, n);
        let ttl = |n| store.ttl(at(n)).unwrap();
        store.put_for(at(1), "1", LIFE).unwrap();
        store.update(at(1), |old| old.map(|old| [old, b"1"].concat())).unwrap();
        assert_eq!(ttl(1), Some(Some(LIFE)), "{engine}");
        assert!(store.compare_and_swap(at(1), Some(b"11"), Some(b"2")).unwrap());
        assert_eq!(ttl(1), Some(Some(LIFE)), "{engine}");
        // A snapshot, whose writers go another way, sees no difference.
        let snapshot = store.snapshot().unwrap();
        store.update(at(1), |_| Some("3")).unwrap();
        assert_eq!((snapshot.ttl(at(1)).unwrap(), ttl(1)), (Some(Some(LIFE)), Some(Some(LIFE))));
        drop(snapshot);
        assert!(store.touch(at(1), 3 * LIFE).unwrap());
        assert_eq!(ttl(1), Some(Some(3 * LIFE)), "{engine}");
        clock.advance(2 * LIFE);
        assert_eq!(ttl(1), Some(Some(LIFE)), "{engine}");
        assert!(store.persist(at(1)).unwrap());
        assert_eq!((ttl(1), store.get(at(1)).unwrap().as_deref()), (Some(None), Some(&b"3"[..])));
        clock.advance(2 * LIFE);
        assert_eq!(store.len().unwrap(), 1, "{engine}");
        // What has expired is absent: its expiry is not that of the value which comes.
        assert!(store.touch(at(1), LIFE).unwrap());
        clock.advance(LIFE);
        assert!(!store.touch(at(1), LIFE).unwrap() && !store.persist(at(1)).unwrap());
        assert!(!store.compare_and_swap(at(1), Some(b"3"), Some(b"4")).unwrap());
        store.update(at(1), |old| old.is_none().then_some("5")).unwrap();
        assert_eq!(ttl(1), Some(None), "{engine}");
        assert_eq!(ttl(2), None, "{engine}");
        store.put_for(at(1), "6", LIFE).unwrap();
        store.put(at(1), "7").unwrap();
        assert_eq!(ttl(1), Some(None), "{engine}");
        let in_transaction = store.transaction(|tx| {
            let touched = tx.touch(at(1), 2 * LIFE)?;
            tx.update(at(1), |_| Some("8"))?;
            let swapped = tx.compare_and_swap(at(1), Some(b"8"), Some(b"9"))?;
            Ok((touched, swapped, tx.touch(at(2), LIFE)?, tx.persist(at(2))?))
        });
        assert_eq!(in_transaction.unwrap(), (true, true, false, false), "{engine}");
        assert_eq!(ttl(1), Some(Some(2 * LIFE)), "{engine}");
        store.transaction(|tx| tx.persist(at(1))).unwrap();
        assert_eq!(ttl(1), Some(None), "{engine}");
        store.touch(at(1), LIFE).unwrap();
        clock.advance(LIFE);
        assert_eq!(swept(&store), (1, 1), "{engine}");
        assert!(store.check().unwrap().ok, "{engine}");
    }
}

#[test]
fn a_life_is_of_whole_milliseconds_rounded_up() -> Result<()> {
    let folder = folder();
    let store = CreateOptions::new().clock(Clock::manual(1000)).create(folder.path().join("a"))?;
    let (ms, typed) = (Duration::from_millis, store.default_tree().typed::<String, String>()?);
    for (life, left) in [
        (Duration::ZERO, None),
        (Duration::from_nanos(1), Some(ms(1))),
        (ms(1), Some(ms(1))),
        (Duration::from_nanos(1_000_001), Some(ms(2))),
        (Duration::MAX, Some(ms(u64::MAX - 1000))),
    ] {
        let ways: [(&str, &dyn Fn() -> Result<()>); 9] = [
            ("put", &|| store.put_for("key", "", life).map(drop)),
            ("typed put", &|| typed.put_for("key", "", life).map(drop)),
            ("any write", &|| store.with_expiry(Expiry::After(life)).put("key", "").map(drop)),
            ("touch", &|| store.touch("key", life).map(drop)),
            ("typed touch", &|| typed.touch("key", life).map(drop)),
            ("batch", &|| {
                let mut batch = store.batch();
                batch.put_for("key", "", life)?;
                batch.commit().map(drop)
            }),
            ("touch in a batch", &|| {
                let mut batch = store.batch();
                batch.touch("key", life)?;
                batch.commit().map(drop)
            }),
            ("transaction", &|| store.transaction(|tx| tx.put_for("key", "", life).map(drop))),
            ("touch in one", &|| store.transaction(|tx| tx.touch("key", life).map(drop))),
        ];
        for (way, write) in ways {
            store.put("key", "")?;
            write()?;
            assert_eq!(store.ttl("key")?, left.map(Some), "{way}, {life:?}");
        }
    }
    Ok(())
}

/// A write of a value to a key.
type Way = fn(&Store, &Tree, &OwnedKey) -> Result<()>;

/// All of them, and when what they store expires if nothing is said.
const WAYS: [(&str, Expiry, Way); 16] = [
    ("put", Expiry::Never, |_, on, key| on.put(key, "new").map(drop)),
    ("insert", Expiry::Never, |_, on, key| on.insert(key, "new").map(drop)),
    ("put_if_absent", Expiry::Never, |_, on, key| on.put_if_absent(key, "new").map(drop)),
    ("replace", Expiry::Never, |_, on, key| on.replace(key, "new").map(drop)),
    ("put_many", Expiry::Never, |_, on, key| on.put_many([(key, "new")])),
    ("extend", Expiry::Never, |_, on, key| on.extend([(key, "new")])),
    ("update", Expiry::Kept, |_, on, key| on.update(key, |_| Some("new")).map(drop)),
    ("compare_and_swap", Expiry::Kept, |_, on, key| {
        let old = on.get(key)?;
        on.compare_and_swap(key, old.as_deref(), Some(b"new")).map(drop)
    }),
    ("entry", Expiry::Kept, |_, on, key| {
        let change = |value: &mut Vec<u8>| *value = b"new".to_vec();
        on.entry(key).and_modify(change).or_insert("new").map(drop)
    }),
    ("batch", Expiry::Never, |store, on, key| {
        let mut batch = store.batch();
        batch.put(common::key(on.key_type(), 2), "")?.on(on)?.put(key, "new")?;
        batch.commit().map(drop)
    }),
    ("batch of the tree", Expiry::Never, |_, on, key| {
        let mut batch = on.batch();
        batch.replace(key, "old")?.put_if_absent(key, "new")?.replace(key, "new")?;
        batch.commit().map(drop)
    }),
    ("transaction", Expiry::Never, |store, on, key| {
        store.transaction(|tx| tx.on(on)?.put(key, "new").map(drop))
    }),
    ("insert in a transaction", Expiry::Never, |store, on, key| {
        store.transaction(|tx| tx.on(on)?.insert(key, "new").map(drop))
    }),
    ("update in a transaction", Expiry::Kept, |store, on, key| {
        store.transaction(|tx| tx.on(on)?.update(key, |_| Some("new")).map(drop))
    }),
    ("compare_and_swap in a transaction", Expiry::Kept, |store, on, key| {
        store.transaction(|tx| {
            let old = tx.on(on)?.get(key)?;
            tx.on(on)?.compare_and_swap(key, old.as_deref(), Some(b"new")).map(drop)
        })
    }),
    ("two updates in a transaction", Expiry::Kept, |store, on, key| {
        store.transaction(|tx| {
            tx.on(on)?.update(key, |_| Some("newer"))?;
            tx.on(on)?.update(key, |_| Some("new")).map(drop)
        })
    }),
];

#[test]
fn every_write_sets_keeps_or_clears_an_expiry_as_it_is_told() -> Result<()> {
    let folder = folder();
    for (engine, key_type) in engines() {
        let clock = Clock::manual(1000);
        let path = folder.path().join(format!("told-{engine}-{key_type:?}.pool"));
        let store = create(&path, (engine, key_type), &clock);
        let moment = |life| SystemTime::UNIX_EPOCH + Duration::from_millis(clock.now_ms()) + life;
        let (key, tree) = (key(key_type, 1), store.default_tree());
        for (way, usual, write) in WAYS {
            for told in [
                None,
                Some(Expiry::Never),
                Some(Expiry::After(3 * LIFE)),
                Some(Expiry::At(moment(5 * LIFE))),
                Some(Expiry::Kept),
            ] {
                for life in [None, Some(Duration::ZERO), Some(2 * LIFE), Some(Duration::MAX)] {
                    store.delete(&key)?;
                    if let Some(life) = life {
                        store.put_for(&key, "old", life)?;
                    }
                    let before = store.ttl(&key)?;
                    let on = told.map_or(tree.clone(), |told| tree.with_expiry(told));
                    write(&store, &on, &key)?;
                    let done = store.get(&key)?.is_some_and(|value| value == b"new");
                    let expected = match told.unwrap_or(usual) {
                        _ if !done => before,
                        Expiry::Never => Some(None),
                        Expiry::After(life) => Some(Some(life)),
                        Expiry::At(_) => Some(Some(5 * LIFE)),
                        Expiry::Kept => before.or(Some(None)),
                    };
                    assert_eq!(store.ttl(&key)?, expected, "{engine}, {way}, {told:?}, {life:?}");
                }
            }
        }
        // What a write says by itself comes before what the tree says.
        let kept = store.with_expiry(Expiry::Kept);
        kept.put_for(&key, "", LIFE)?;
        assert_eq!(store.ttl(&key)?, Some(Some(LIFE)));
        assert!(kept.touch(&key, 2 * LIFE)?);
        assert_eq!(store.ttl(&key)?, Some(Some(2 * LIFE)));
        assert!(store.with_expiry(Expiry::After(LIFE)).persist(&key)?);
        assert_eq!(store.ttl(&key)?, Some(None));
        // What a transaction has written itself is what is there.
        store.put_for(&key, "", LIFE)?;
        store.transaction(|tx| {
            tx.on(&kept)?.delete(&key)?.put(&key, "")?;
            Ok(())
        })?;
        assert_eq!(store.ttl(&key)?, Some(None));
        store.transaction(|tx| {
            tx.put_for(&key, "", 7 * LIFE)?.on(&kept)?.put(&key, "")?;
            Ok(())
        })?;
        assert_eq!(store.ttl(&key)?, Some(Some(7 * LIFE)));
        assert!(store.check()?.ok, "{engine}");
    }
    Ok(())
}

#[test]
fn trees_with_types_are_told_likewise() -> Result<()> {
    let folder = folder();
    let clock = Clock::manual(1000);
    let store = create(&folder.path().join("a.pool"), (Engine::FPTREE_C, KeyType::Bytes), &clock);
    let counts = store.typed_tree::<String, u64>("counts")?;
    let ttl = || counts.ttl("a").map(Option::flatten);
    counts.put_for("a", 1, LIFE)?;
    counts.update("a", |count| count.map(|count| count + 1))?;
    counts.entry("a").and_modify(|count| *count += 1).or_insert(1)?;
    assert!(counts.compare_and_swap("a", Some(&3), Some(&4))?);
    store.transaction(|tx| tx.on(&counts)?.update("a", |count| count.map(|count| count + 1)))?;
    counts.with_expiry(Expiry::Kept).put("a", 6)?;
    assert_eq!((counts.get("a")?, ttl()?), (Some(6), Some(LIFE)));
    let longer = counts.with_expiry(Expiry::After(2 * LIFE));
    store.transaction(|tx| tx.on(&longer)?.update("a", |count| count.map(|count| count + 1)))?;
    assert_eq!((counts.get("a")?, ttl()?), (Some(7), Some(2 * LIFE)));
    let mut batch = store.batch();
    batch.on(&counts)?.persist("a")?.touch("b", LIFE)?.put("b", 1)?.touch("b", LIFE)?;
    assert_eq!(batch.commit()?, [true, false, true, true]);
    assert_eq!((ttl()?, counts.ttl("b")?), (None, Some(Some(LIFE))));
    Ok(())
}

#[test]
fn a_batch_touches_what_is_there_after_the_writes_before() -> Result<()> {
    let folder = folder();
    for (engine, key_type) in engines() {
        let clock = Clock::manual(1000);
        let path = folder.path().join(format!("touches-{engine}-{key_type:?}.pool"));
        let store = create(&path, (engine, key_type), &clock);
        let at = |n| key(key_type, n);
        for (n, life) in [(1, LIFE), (2, LIFE), (3, Duration::ZERO), (4, LIFE), (5, LIFE)] {
            store.put_for(at(n), value(n, 300), life)?;
        }
        let mut batch = store.batch();
        batch.touch(at(1), 2 * LIFE)?.persist(at(2))?.touch(at(3), LIFE)?.touch(at(6), LIFE)?;
        batch.delete(at(4))?.persist(at(4))?;
        batch.put(at(5), "new")?.touch(at(5), 3 * LIFE)?.touch(at(5), 2 * LIFE)?;
        let done = [true, true, false, false, true, false, true, true, true];
        assert_eq!(batch.commit()?, done, "{engine}");
        let ttls: Vec<_> = (1..=6).map(|n| store.ttl(at(n)).unwrap()).collect();
        let longer = Some(Some(2 * LIFE));
        assert_eq!(ttls, [longer, Some(None), None, None, longer, None], "{engine}");
        assert_eq!(store.get(at(1))?, Some(value(1, 300)), "{engine}");
        assert_eq!(store.get(at(2))?, Some(value(2, 300)), "{engine}");
        assert_eq!(store.get(at(5))?.as_deref(), Some(&b"new"[..]), "{engine}");
        clock.advance(2 * LIFE);
        assert_eq!(swept(&store), (3, 3), "{engine}");
        assert!(store.check()?.ok && store.len()? == 1, "{engine}");
    }
    Ok(())
}

#[test]
fn a_key_that_is_touched_and_changed_at_a_time_loses_neither_its_expiry_nor_a_change() {
    const CHANGES: u64 = 3000;
    let folder = folder();
    for engine in Engine::available().filter(|engine| engine.has_keys(KeyType::U64)) {
        let path = folder.path().join(format!("touched-{engine}.pool"));
        let store = create(&path, (engine, KeyType::U64), &Clock::manual(1000));
        let count = store.default_tree().typed::<u64, u64>().unwrap();
        count.put_for(7, 0, LIFE).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..CHANGES {
                    match n % 3 {
                        0 => drop(count.update(7, |count| Some(count? + 1)).unwrap()),
                        1 => drop(count.entry(7).and_modify(|count| *count += 1).or_insert(0)),
                        _ => {
                            drop(store.transaction(|tx| {
                                tx.on(&count)?.update(7, |count| Some(count? + 1))
                            }))
                        }
                    }
                }
            });
            scope.spawn(|| {
                for n in 1..=CHANGES {
                    let life = Duration::from_secs(n);
                    let touched = match n % 3 {
                        0 => count.touch(7, life).unwrap(),
                        1 => count.persist(7).unwrap(),
                        _ => {
                            let mut batch = store.batch();
                            batch.touch(7, life).unwrap();
                            batch.commit().unwrap() == [true]
                        }
                    };
                    assert!(touched, "{engine}");
                    let left = count.ttl(7).unwrap().unwrap();
                    assert_eq!(left, (n % 3 != 1).then_some(life), "{engine}: it stays");
                }
            });
        });
        assert_eq!(count.get(7).unwrap(), Some(CHANGES), "{engine}");
        let life = Duration::from_secs(CHANGES);
        assert_eq!(count.ttl(7).unwrap(), Some(Some(life)), "{engine}");
    }
}
