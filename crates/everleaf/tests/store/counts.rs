//! How many keys there are: everything that tells it says the same.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::folder;
use everleaf::{
    Clock, CreateOptions, Engine, KeyType, OwnedKey, Result, Scan, Shutdown, Store, Tree,
};

const START_MS: u64 = 1_000_000;

/// The keys of a tree that `get` finds, of those that there ever were.
fn got(tree: &Tree, ever: &[OwnedKey]) -> u64 {
    ever.iter().filter(|key| tree.get(key).unwrap().is_some()).count() as u64
}

/// All keys that a test ever writes.
fn ever(key_type: KeyType) -> Vec<OwnedKey> {
    let of = |n: u64| match key_type {
        KeyType::U64 => OwnedKey::U64(n),
        KeyType::Bytes if n.is_multiple_of(3) => {
            OwnedKey::from([&[0xff][..], &n.to_be_bytes()].concat())
        }
        KeyType::Bytes => OwnedKey::from(n.to_string().into_bytes()),
    };
    (0..600).map(of).collect()
}

/// Compares all that tells how many keys a store has, and gives that.
fn agreed(store: &Store, folder: &Path, clock: &Clock) -> u64 {
    let mut trees = vec![store.default_tree().clone()];
    for name in store.tree_names().unwrap() {
        trees.extend(store.existing_tree(name).unwrap());
    }
    let mut sum = 0;
    for tree in &trees {
        let count = got(tree, &ever(tree.key_type()));
        assert_eq!(tree.iter().count() as u64, count, "scan");
        assert_eq!(tree.count_in(Scan::all()).unwrap(), count, "count of a range");
        assert_eq!(tree.len().unwrap(), count, "len");
        assert_eq!(tree.is_empty().unwrap(), count == 0);
        sum += count;
    }
    assert_eq!(store.len_of_all_trees().unwrap(), sum, "info");
    let snapshot = store.snapshot().unwrap();
    let of_snapshot = |tree: &Tree| snapshot.of(tree).unwrap().len().unwrap();
    assert_eq!(trees.iter().map(of_snapshot).sum::<u64>(), sum, "a snapshot");
    drop(snapshot);
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "{outcome:?}");
    assert_eq!(outcome.keys, sum, "check");
    // What was copied and what is restored from a dump.
    let mut dump = Vec::new();
    assert_eq!(store.dump(&mut dump).unwrap().entries, sum, "dump");
    let copy = folder.join("copy.pool");
    assert_eq!(store.copy(&copy).unwrap().entries, sum, "copy");
    let opened = crate::common::opening().clock(clock.clone()).open(&copy).unwrap();
    assert_eq!(opened.len_of_all_trees().unwrap(), sum, "the copy");
    drop(opened);
    std::fs::remove_file(&copy).unwrap();
    let other = folder.join("restored.pool");
    let options = CreateOptions::new().size_bytes(4 << 20).clock(clock.clone());
    let restored = options.key_type(trees[0].key_type()).create(&other).unwrap();
    assert_eq!(restored.len_of_all_trees().unwrap(), 0, "counted before anything is there");
    assert_eq!(restored.restore(&*dump).unwrap().entries, sum, "restore");
    assert_eq!(restored.len_of_all_trees().unwrap(), sum, "what was restored");
    drop(restored);
    std::fs::remove_file(&other).unwrap();
    sum
}

/// Writes of every kind, some of values that expire at other times than others.
fn write(store: &Store, tree: &Tree, seed: u64) -> Result<()> {
    let keys = ever(tree.key_type());
    let mut random = seed;
    let mut next = move |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..400 {
        let key = &keys[next(keys.len() as u64) as usize];
        let life = Duration::from_secs(1 + next(20));
        match next(8) {
            0 | 1 => _ = tree.put(key, "stays")?,
            2 | 3 => _ = tree.put_for(key, "goes", life)?,
            4 => _ = tree.delete(key)?,
            5 => _ = tree.put_if_absent(key, "was not there")?,
            6 => {
                let mut batch = tree.batch();
                for _ in 0..3 {
                    let key = &keys[next(keys.len() as u64) as usize];
                    match next(3) {
                        0 => _ = batch.put(key, "together")?,
                        1 => _ = batch.put_for(key, "together, goes", life)?,
                        _ => _ = batch.delete(key)?,
                    }
                }
                batch.commit()?;
            }
            _ => store.transaction(|tx| {
                let tx = tx.on(tree)?;
                let present = tx.contains_key(key)?;
                if present {
                    tx.delete(key)?
                } else {
                    tx.put_for(key, "goes", life)?
                };
                Ok(())
            })?,
        }
    }
    Ok(())
}

fn everything_agrees(engine: Engine, key_type: KeyType, seed: u64) -> Result<()> {
    println!("{engine}, {key_type:?}, seed {seed}");
    let folder = folder();
    let path = folder.path().join("a.pool");
    let clock = Clock::manual(START_MS);
    let options = CreateOptions::new().size_bytes(4 << 20).engine(engine).key_type(key_type);
    let mut store = options.clock(clock.clone()).create(&path)?;
    let step = Duration::from_secs(7);
    for round in 0..4 {
        let mut trees = vec![store.default_tree().clone()];
        if key_type == KeyType::Bytes {
            trees.push(store.tree("names")?);
            trees.push(store.tree_with("numbers", KeyType::U64)?);
            let dropped = store.tree("dropped")?;
            write(&store, &dropped, seed)?;
            store.drop_tree("dropped")?;
            store.tree("empty")?;
        }
        // Counted before, and not counted before: after an opening.
        for counted in [false, true] {
            for (tree, n) in trees.iter().zip(0..) {
                write(&store, tree, seed * 100 + round * 10 + n)?;
            }
            clock.advance(step);
            assert!(agreed(&store, folder.path(), &clock) > 0, "counted before: {counted}");
        }
        let before = agreed(&store, folder.path(), &clock);
        if round >= 2 {
            // What has expired is removed: that changes no count.
            let names = store.tree_names()?.len() as u64;
            store.sweep_every(Some(Duration::from_secs(3600)))?;
            while store.statistics()?.entries > before + names {
                std::thread::yield_now();
            }
            store.sweep_every(None)?;
            assert_eq!(agreed(&store, folder.path(), &clock), before, "swept");
        }
        drop(trees);
        let crash = round % 2 == 0;
        if crash {
            store.sync()?;
            let image = folder.path().join("image.pool");
            std::fs::copy(&path, &image).unwrap();
            drop(store);
            std::fs::rename(&image, &path).unwrap();
        } else {
            store.close()?;
        }
        store = crate::common::opening().clock(clock.clone()).open(&path)?;
        let shutdown = store.statistics()?.shutdown;
        assert_eq!(shutdown, if crash { Shutdown::Crash } else { Shutdown::Clean });
        assert_eq!(agreed(&store, folder.path(), &clock), before, "after a crash: {crash}");
    }
    Ok(())
}

#[test]
fn expired_values_and_names_of_trees_are_counted_by_some_and_not_by_others() -> Result<()> {
    for (engine, seed) in [(Engine::FPTREE_C, 1), (Engine::MASSTREE, 2)] {
        for key_type in [KeyType::Bytes, KeyType::U64] {
            everything_agrees(engine, key_type, seed)?;
        }
    }
    Ok(())
}

/// Writers add and remove while everything is counted for the first time.
#[test]
fn counting_beside_writers_misses_none_of_what_they_do() -> Result<()> {
    for turn in 0..20 {
        let folder = folder();
        let path = folder.path().join("a.pool");
        let store = CreateOptions::new().size_bytes(4 << 20).create(&path)?;
        store.put_many((0..2000).map(|n| (format!("{n:05}"), "")))?;
        // What a store has made itself it need not count.
        store.close()?;
        let store = crate::common::opening().open(&path)?;
        let names = store.tree("names")?;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (tree, done) = (if writer == 0 { &names } else { store.default_tree() }, &done);
                scope.spawn(move || {
                    for n in 0.. {
                        let key = format!("{:05}{writer}", (n * 7919 + turn) % 3000);
                        if tree.contains_key(&key).unwrap() {
                            tree.delete(&key).unwrap();
                        } else if n % 2 == 0 {
                            tree.put(&key, "").unwrap();
                        } else {
                            tree.put_for(&key, "", Duration::from_secs(1 << 20)).unwrap();
                        }
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            assert!(store.len().unwrap() >= 2000);
            assert!(names.len().unwrap() <= 3000);
            done.store(true, Ordering::Relaxed);
        });
        let [own, named] = [store.default_tree(), &names].map(|tree| {
            let count = tree.iter().count() as u64;
            assert_eq!(tree.len().unwrap(), count);
            count
        });
        assert_eq!(store.len_of_all_trees()?, own + named);
    }
    Ok(())
}

/// More entries than an opening counts at once: a clean close stores how many there are.
#[test]
fn a_clean_close_stores_the_counts_and_the_next_opening_takes_them() -> Result<()> {
    const MANY: u64 = 12_000;
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let folder = folder();
        let path = folder.path().join("a.pool");
        let clock = Clock::manual(START_MS);
        let store = CreateOptions::new()
            .size_bytes(4 << 20)
            .key_type(key_type)
            .clock(clock.clone())
            .create(&path)?;
        let key = |n: u64| match key_type {
            KeyType::U64 => OwnedKey::U64(n),
            KeyType::Bytes => OwnedKey::from(n.to_string().into_bytes()),
        };
        for n in 0..MANY {
            store.put(key(n), b"")?;
        }
        store.put_for(key(0), b"", Duration::from_secs(10))?;
        store.close()?;
        let mut expected = MANY;
        for round in 1..4 {
            let read_only =
                crate::common::opening().read_only(true).clock(clock.clone()).open(&path)?;
            assert_eq!(read_only.len()?, expected);
            drop(read_only);
            let store = crate::common::opening().clock(clock.clone()).open(&path)?;
            assert_eq!(store.len()?, expected);
            store.delete(key(round))?;
            store.put(key(MANY + round), b"")?;
            store.put(key(2 * MANY + round), b"")?;
            clock.advance(Duration::from_secs(6));
            // The key that expires is gone in the second round.
            expected = MANY + round - u64::from(round >= 2);
            let outcome = store.check()?;
            assert!(outcome.ok && outcome.keys == expected, "{outcome:?}");
            store.close()?;
        }
    }
    Ok(())
}
