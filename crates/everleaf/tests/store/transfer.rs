//! Dumps, copies and salvages: what comes out is what was in, or a sentence.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{folder, key, tiny, value};
use everleaf::{Clock, Engine, Error, KeyType, OwnedKey, PoolError, Store, salvage};

type Content = Vec<(OwnedKey, Vec<u8>)>;

fn content(store: &Store) -> Content {
    store.iter().collect::<Result<_, _>>().unwrap()
}

/// Values of many sizes, one that expires, one that has, and named trees.
fn filled(path: &std::path::Path, key_type: KeyType, clock: &Clock) -> Store {
    let store =
        tiny(key_type).engine(everleaf::Engine::NVTREE).clock(clock.clone()).create(path).unwrap();
    (0..500).for_each(|n| {
        store.put(key(key_type, n), value(n, (n * 7 % 900) as usize)).unwrap();
    });
    store.put(key(key_type, 600), value(1, 200_000)).unwrap();
    store.put_for(key(key_type, 700), b"lives", Duration::from_secs(1000)).unwrap();
    store.put_for(key(key_type, 701), b"dies", Duration::from_secs(1)).unwrap();
    clock.advance(Duration::from_secs(2));
    if key_type == KeyType::Bytes {
        (0..50).for_each(|n| {
            store.tree("words").unwrap().put(key(key_type, n), b"w").unwrap();
        });
        (0..50).for_each(|n| {
            store.tree_with("numbers", KeyType::U64).unwrap().put(n, b"n").unwrap();
        });
    }
    store
}

fn expect_same(found: &Store, expected: &Store) {
    assert_eq!(content(found), content(expected));
    let names = expected.tree_names().unwrap();
    assert_eq!(found.tree_names().unwrap(), names);
    for name in names {
        let (found, expected) = (
            found.existing_tree(&name).unwrap().unwrap(),
            expected.existing_tree(&name).unwrap().unwrap(),
        );
        assert!(found.iter().map(Result::unwrap).eq(expected.iter().map(Result::unwrap)));
    }
    for n in [0, 700] {
        let key = key(expected.key_type(), n);
        assert_eq!(found.expiry(&key).unwrap(), expected.expiry(&key).unwrap());
    }
    let outcome = found.check().unwrap();
    assert!(outcome.ok, "{outcome:?}");
}

#[test]
fn a_dump_restores_into_every_engine_and_is_the_same_when_dumped_again() {
    let folder = folder();
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let clock = Clock::manual(1000);
        let store = filled(&folder.path().join(format!("{key_type:?}.pool")), key_type, &clock);
        let mut dump = Vec::new();
        let dumped = store.dump(&mut dump).unwrap();
        let names = store.tree_names().unwrap().len() as u64;
        assert_eq!(dumped.entries, dumped.of_entries.unwrap() - 1 - names, "one has expired");
        for engine in Engine::available().filter(|engine| engine.has_keys(key_type)) {
            let path = folder.path().join(format!("{key_type:?}-{engine}.pool"));
            let options = everleaf::CreateOptions::new()
                .engine(engine)
                .key_type(key_type)
                .size_bytes(1 << 20);
            let restored = options.clock(clock.clone()).create(&path).unwrap();
            assert_eq!(restored.restore(&mut &*dump).unwrap().entries, dumped.entries);
            expect_same(&restored, &store);
            let mut again = Vec::new();
            restored.dump(&mut again).unwrap();
            assert!(again == dump);
            assert!(matches!(restored.restore(&mut &*dump), Err(Error::NotEmpty)));
        }
    }
}

#[test]
fn a_tree_is_dumped_alone_and_has_its_name_and_kind_of_keys_where_it_is_restored() {
    let folder = folder();
    let clock = Clock::manual(1000);
    let store = filled(&folder.path().join("a.pool"), KeyType::Bytes, &clock);
    store.tree("empty").unwrap();
    let go_on = |_: &everleaf::Progress| ControlFlow::Continue(());
    for (name, keys) in [("words", 50), ("numbers", 50), ("empty", 0)] {
        let mut dump = Vec::new();
        let dumped = store.dump_tree_with(name, &mut dump, go_on).unwrap().unwrap();
        assert_eq!(dumped.entries, keys, "{name}");
        let path = folder.path().join(format!("{name}.dump"));
        store.dump_tree_file_with(name, &path, go_on).unwrap().unwrap();
        assert!(std::fs::read(&path).unwrap() == dump, "{name}");
        let restored =
            tiny(KeyType::Bytes).clock(clock.clone()).create(path.with_extension("pool")).unwrap();
        restored.restore(&*dump).unwrap();
        assert_eq!((restored.len().unwrap(), restored.len_of_all_trees().unwrap()), (0, keys));
        assert_eq!(restored.tree_names().unwrap(), [name.as_bytes()]);
        let [found, expected] = [&restored, &store].map(|of| of.existing_tree(name).unwrap());
        let (found, expected) = (found.unwrap(), expected.unwrap());
        assert_eq!(found.key_type(), expected.key_type());
        assert!(found.iter().map(Result::unwrap).eq(expected.iter().map(Result::unwrap)));
        restored.tree("another").unwrap().put("k", "v").unwrap();
        assert_eq!(found.len().unwrap(), keys, "a new tree has a number of its own");
    }
    assert!(store.dump_tree_with("nosuch", &mut Vec::new(), go_on).unwrap().is_none());
    let numbers = tiny(KeyType::U64).create(folder.path().join("n.pool")).unwrap();
    assert!(numbers.dump_tree_with("words", &mut Vec::new(), go_on).unwrap().is_none());
}

/// The number of a tree that is dropped is that of the tree which is made next: a dump finds the
/// keys of its own tree.
#[test]
fn the_dump_of_a_tree_holds_no_key_of_one_that_is_made_while_it_is_dropped() {
    let folder = folder();
    let store = tiny(KeyType::Bytes).create(folder.path().join("a.pool")).unwrap();
    let store = &store;
    let go_on = |_: &everleaf::Progress| ControlFlow::Continue(());
    let dump_often = || {
        let mut dump = Vec::new();
        for round in 0..200 {
            dump.clear();
            while store.dump_tree_with("b", &mut dump, go_on).unwrap().is_none() {}
            let path = folder.path().join(format!("{round}.pool"));
            let restored = tiny(KeyType::Bytes).create(path).unwrap();
            restored.restore(&*dump).unwrap();
            let keys = restored.len_of_all_trees().unwrap();
            let tree = restored.existing_tree("b").unwrap().expect("it has its name");
            assert_eq!(tree.prefix("b").count() as u64, keys, "no key but its own");
        }
    };
    std::thread::scope(|scope| {
        let dumping = scope.spawn(dump_often);
        while !dumping.is_finished() {
            for name in ["a", "b"] {
                let tree = store.tree(name).unwrap();
                for n in 0..9 {
                    tree.put(format!("{name}{n}"), name).unwrap();
                }
                store.drop_tree(name).unwrap();
            }
        }
    });
}

#[test]
fn a_damaged_or_cut_dump_is_refused_and_leaves_the_pool_empty_and_usable() {
    let folder = folder();
    let clock = Clock::manual(1000);
    let store = filled(&folder.path().join("a.pool"), KeyType::Bytes, &clock);
    let mut dump = Vec::new();
    store.dump(&mut dump).unwrap();
    let target =
        tiny(KeyType::Bytes).clock(clock.clone()).create(folder.path().join("b.pool")).unwrap();
    let mut damages: Vec<Vec<u8>> =
        (0..dump.len()).step_by(dump.len() / 60).map(|cut| dump[..cut].to_vec()).collect();
    for at in
        (0..dump.len()).step_by(dump.len() / 150).chain(0..40).chain(dump.len() - 30..dump.len())
    {
        let mut flipped = dump.clone();
        flipped[at] ^= 1 << (at % 8);
        damages.push(flipped);
    }
    damages.push([&*dump, b"more"].concat());
    damages.push(b"something else altogether".to_vec());
    for damaged in damages {
        let error = target.restore(&mut &*damaged).unwrap_err();
        assert!(matches!(error, Error::Dump { .. } | Error::WrongKeyType { .. }), "{error}");
        assert_eq!(target.statistics().unwrap().entries, 0);
    }
    let numbers = tiny(KeyType::U64).create(folder.path().join("n.pool")).unwrap();
    assert!(matches!(
        numbers.restore(&mut &*dump),
        Err(Error::WrongKeyType { expected: KeyType::U64 })
    ));
    let stopped = target.restore_with(&mut &*dump, |progress| match progress.entries {
        0..300 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    assert!(matches!(stopped, Err(Error::Aborted)) && target.statistics().unwrap().entries == 0);
    target.restore(&mut &*dump).unwrap();
    assert_eq!(content(&target).len(), content(&store).len());
}

#[test]
fn a_copy_is_the_same_and_compact_and_one_that_fails_leaves_no_file() {
    let folder = folder();
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let clock = Clock::manual(1000);
        let store = filled(&folder.path().join(format!("{key_type:?}.pool")), key_type, &clock);
        (0..400).filter(|n| n % 4 != 0).for_each(|n| {
            store.delete(key(key_type, n)).unwrap();
        });
        let path = folder.path().join(format!("{key_type:?}-copy.pool"));
        assert!(matches!(store.copy_with(&path, |_| ControlFlow::Break(())), Err(Error::Aborted)));
        assert!(!path.exists());
        store.copy(&path).unwrap();
        assert!(matches!(store.copy(&path), Err(Error::Pool(PoolError::Exists { .. }))));
        let copy = crate::common::opening().clock(clock.clone()).open(&path).unwrap();
        expect_same(&copy, &store);
        let (before, after) = (store.statistics().unwrap(), copy.statistics().unwrap());
        assert_eq!(before.engine, after.engine);
        assert!(
            after.used_bytes < before.used_bytes && after.fill > before.fill,
            "{before:?} {after:?}"
        );
    }
}

#[test]
fn a_copy_of_a_store_that_is_written_to_is_a_state_that_existed() {
    let folder = folder();
    let store = everleaf::CreateOptions::new()
        .size_bytes(4 << 20)
        .create(folder.path().join("a.pool"))
        .unwrap();
    // Write i of a writer puts i under key i % 2000 and removes key (i + 700) % 2000: what there is
    // tells how many there were.
    let name = |writer: u64, n: u64| format!("{writer}/{:04}", n % 2000);
    let write = |writer: u64, i: u64| {
        let mut batch = store.batch();
        batch.put(name(writer, i), i.to_le_bytes().repeat(20)).unwrap();
        batch.delete(name(writer, i + 700)).unwrap();
        batch.commit().unwrap();
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (write, stop) = (&write, &stop);
            scope.spawn(move || {
                (0..).take_while(|_| !stop.load(Ordering::Relaxed)).for_each(|i| write(writer, i))
            });
        }
        for round in 0..5 {
            while store.len().unwrap() < 2600 {
                std::thread::yield_now();
            }
            let path = folder.path().join(format!("{round}.pool"));
            let copied = store.copy(&path);
            if copied.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            copied.unwrap();
            let copy = crate::common::open(&path).unwrap();
            assert!(copy.check().unwrap().ok);
            for writer in 0..2 {
                let found: BTreeMap<OwnedKey, Vec<u8>> =
                    copy.prefix(format!("{writer}/")).collect::<Result<_, _>>().unwrap();
                let number = |value: &Vec<u8>| u64::from_le_bytes(value[..8].try_into().unwrap());
                let last = found.values().map(number).max().unwrap_or(0);
                let mut expected = BTreeMap::new();
                for i in last.saturating_sub(2000)..=last {
                    expected.insert(OwnedKey::from(name(writer, i)), i.to_le_bytes().repeat(20));
                    expected.remove(&OwnedKey::from(name(writer, i + 700)));
                }
                if found != expected {
                    stop.store(true, Ordering::Relaxed);
                }
                assert!(found == expected, "round {round}, writer {writer}, after write {last}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_snapshot_that_is_held_too_long_is_lost_and_the_writers_go_on() {
    let folder = folder();
    let store = tiny(KeyType::U64).create(folder.path().join("a.pool")).unwrap();
    (0..100u64).for_each(|n| {
        store.put(n, value(n, 1000)).unwrap();
    });
    let snapshot = store.snapshot_with_limit(50_000).unwrap();
    for n in 0..100u64 {
        store.put(n, b"new").unwrap();
        store.put(n, b"newer").unwrap();
    }
    assert!(matches!(snapshot.get(1u64), Err(Error::SnapshotLost { limit_bytes: 50_000 })));
    assert!(snapshot.iter().any(|entry| matches!(entry, Err(Error::SnapshotLost { .. }))));
    let view = {
        let short = store.snapshot().unwrap();
        short.of(store.default_tree()).unwrap()
    };
    assert!(matches!(view.get(1u64), Err(Error::SnapshotLost { .. })), "its snapshot is over");
    assert_eq!(store.get(1u64).unwrap().as_deref(), Some(&b"newer"[..]));
    drop(store);
    assert!(matches!(snapshot.get(1u64), Err(Error::Closed | Error::SnapshotLost { .. })));
}

#[test]
fn all_of_a_sound_pool_is_salvaged_and_most_of_a_damaged_one() {
    let folder = folder();
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let (path, new) = (folder.path().join("a.pool"), folder.path().join("new.pool"));
        let clock = Clock::system();
        let store = filled(&path, key_type, &clock);
        let (before, keys) = (content(&store), store.statistics().unwrap().entries);
        drop(store);
        let salvaged = salvage(&path, &new).unwrap();
        assert_eq!(
            (salvaged.from_index, salvaged.from_records, salvaged.unreadable),
            (keys, 0, 0),
            "{salvaged:?}"
        );
        assert_eq!(content(&crate::common::open(&new).unwrap()), before);
        std::fs::remove_file(&new).unwrap();

        // Whatever is hit, in one page in fifty, nothing wrong comes out, and most of what is
        // elsewhere does.
        let sound = std::fs::read(&path).unwrap();
        for round in 0..20u64 {
            let mut damaged = sound.clone();
            for page in (3..sound.len() / 4096)
                .filter(|page| (*page as u64 * 0x9e37_79b9 + round * 7).is_multiple_of(50))
            {
                damaged[page * 4096 + 64..page * 4096 + 1024].fill(round as u8);
            }
            std::fs::write(&path, &damaged).unwrap();
            let salvaged = salvage(&path, &new).unwrap();
            let rescued = crate::common::open(&new).unwrap();
            assert!(rescued.check().unwrap().ok);
            let found = content(&rescued);
            assert!(
                found.iter().all(|entry| before.contains(entry)),
                "round {round}: an entry that never was"
            );
            assert!(
                salvaged.unreadable > 0 || found.len() == before.len(),
                "round {round}: {salvaged:?}"
            );
            assert!(
                found.len() * 2 > before.len(),
                "round {round}: {} of {}: {salvaged:?}",
                found.len(),
                before.len()
            );
            drop(rescued);
            std::fs::remove_file(&new).unwrap();
        }
        std::fs::write(&path, b"Everleaf but not a pool").unwrap();
        assert!(salvage(&path, &new).is_err() && !new.exists());
        std::fs::remove_file(&path).unwrap();
    }
}
