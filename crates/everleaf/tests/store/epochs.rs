//! Stores on an engine that is durable at the ends of epochs: what a crash leaves, what `sync`
//! promises, and that nothing a caller does keeps an epoch from ending.

use everleaf_engines::all;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf::internal::{create_on, open_on};
use everleaf::{
    Clock, CreateOptions, DurabilityMode, Engine, Error, KeyType, OwnedKey, Scan, Store,
};
use everleaf_crash::{Event, Traced};

use crate::common::{folder, key, value};

const POOL_BYTES: u64 = 1 << 20;
/// Longer than any test: only `sync` ends epochs.
const SELDOM: DurabilityMode =
    DurabilityMode::Buffered { interval_ms: DurabilityMode::MAX_INTERVAL_MS };

fn options(key_type: KeyType) -> CreateOptions {
    CreateOptions::new().engine(Engine::MASSTREE).key_type(key_type).size_bytes(POOL_BYTES)
}

type Content = BTreeMap<OwnedKey, Vec<u8>>;

fn content(store: &Store) -> Content {
    let content: Content = store.iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(store.len().unwrap(), content.len() as u64);
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "{outcome:?}");
    content
}

/// What a killed process leaves of the pool at `path`.
fn killed(path: &Path) -> Store {
    killed_at(path, &Clock::system())
}

/// The same, where values expire by this clock.
fn killed_at(path: &Path, clock: &Clock) -> Store {
    let image = path.with_extension("killed.pool");
    std::fs::copy(path, &image).unwrap();
    crate::common::opening().durability(SELDOM).clock(clock.clone()).open(image).unwrap()
}

#[test]
fn only_buffered_is_offered_and_it_is_the_default() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    for mode in [DurabilityMode::Immediate, DurabilityMode::Process] {
        let refused = options(KeyType::Bytes).durability(mode).create(&path).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "engine masstree completes its writes in epochs and offers no durability {mode}; \
                 choose `buffered`, or leave the choice out"
            )
        );
        assert!(!path.exists());
    }
    let store = options(KeyType::Bytes).create(&path).unwrap();
    assert_eq!(store.capabilities().durability_mode, DurabilityMode::buffered());
    assert_eq!(store.statistics().unwrap().epochs.ended, 0);
    store.put("a", "1").unwrap();
    store.sync().unwrap();
    assert!(store.statistics().unwrap().epochs.ended > 0);
    store.close().unwrap();
    let refused =
        crate::common::opening().durability(DurabilityMode::Process).open(&path).unwrap_err();
    assert!(matches!(refused, Error::DurabilityOfEngine { .. }), "{refused}");
    let store = crate::common::opening().durability(SELDOM).open(&path).unwrap();
    assert_eq!(store.capabilities().durability_mode, SELDOM);
}

#[test]
fn a_crash_goes_back_to_the_last_sync_with_trees_lengths_and_expiry() {
    let (folder, clock) = (folder(), Clock::manual(1_000_000));
    let path = folder.path().join("a.pool");
    let options = options(KeyType::Bytes).durability(SELDOM).clock(clock.clone());
    let store = options.create(&path).unwrap();
    let (colours, gone) = (store.tree("colours").unwrap(), store.tree("gone").unwrap());
    (0..300).for_each(|n| drop(store.put(key(KeyType::Bytes, n), value(n, n as usize * 9))));
    colours.put("red", "1").unwrap();
    gone.put("x", "y").unwrap();
    store.put_for("short", "s", Duration::from_secs(5)).unwrap();
    store.sync().unwrap();
    let synced = content(&store);

    (0..300).step_by(3).for_each(|n| assert!(store.delete(key(KeyType::Bytes, n)).unwrap()));
    (200..400).for_each(|n| drop(store.put(key(KeyType::Bytes, n), value(n + 1, 700))));
    colours.put("red", "2").unwrap();
    colours.put("blue", "2").unwrap();
    store.drop_tree("gone").unwrap();
    store.tree("new").unwrap().put("a", "b").unwrap();
    store.put_for("short", "s", Duration::from_secs(500)).unwrap();
    let mut batch = store.batch();
    for n in 0..50 {
        batch.put(key(KeyType::Bytes, n), "batched").unwrap();
    }
    batch.commit().unwrap();

    let found = killed_at(&path, &clock);
    assert!(content(&found) == synced);
    assert_eq!(found.tree_names().unwrap(), [b"colours".to_vec(), b"gone".to_vec()]);
    let tree = |name: &str| found.existing_tree(name).unwrap().unwrap();
    assert_eq!(tree("colours").get("red").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!((tree("colours").len().unwrap(), tree("gone").len().unwrap()), (1, 1));
    assert_eq!(found.expiry("short").unwrap(), store_expiry(1_005));
    // It goes on, and goes back once more.
    found.put("later", "1").unwrap();
    found.sync().unwrap();
    found.put("later", "2").unwrap();
    let again = killed_at(&path.with_extension("killed.pool"), &clock);
    assert_eq!(again.get("later").unwrap().as_deref(), Some(&b"1"[..]));
    // The first one has lost nothing of what it had.
    assert_eq!(store.tree_names().unwrap(), [b"colours".to_vec(), b"new".to_vec()]);
    let now = content(&store);
    store.close().unwrap();
    assert!(content(&crate::common::opening().clock(clock).open(&path).unwrap()) == now);
}

fn store_expiry(seconds: u64) -> Option<Option<std::time::SystemTime>> {
    Some(Some(std::time::UNIX_EPOCH + Duration::from_secs(seconds)))
}

#[test]
fn a_pool_that_a_crash_left_can_be_read_without_being_written() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = options(KeyType::U64).durability(SELDOM).create(&path).unwrap();
    (0..100).for_each(|n| drop(store.put(key(KeyType::U64, n), value(n, 40))));
    store.sync().unwrap();
    let synced = content(&store);
    (0..100).for_each(|n| drop(store.put(key(KeyType::U64, n), value(n + 7, 50))));
    let image = folder.path().join("b.pool");
    std::fs::copy(&path, &image).unwrap();
    let before = std::fs::read(&image).unwrap();
    let reader = crate::common::open_read_only(&image).unwrap();
    assert!(content(&reader) == synced);
    assert!(matches!(reader.put(key(KeyType::U64, 1), ""), Err(Error::ReadOnly)));
    reader.sync().unwrap();
    drop(reader);
    assert!(std::fs::read(&image).unwrap() == before);
}

#[test]
fn an_epoch_ends_by_itself() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let options = options(KeyType::U64).durability(DurabilityMode::Buffered { interval_ms: 1 });
    let store = options.create(&path).unwrap();
    let ended = || store.statistics().unwrap().epochs.ended;
    for round in 1..4 {
        let before = ended();
        store.put(round, "value").unwrap();
        while ended() == before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Calls made within a callback end an epoch: a callback that kept it open would wait for ever.
#[test]
fn callbacks_iterators_and_idle_threads_keep_no_epoch_from_ending() {
    let folder = folder();
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let path = folder.path().join(format!("{key_type:?}.pool"));
        let store = options(key_type).durability(SELDOM).create(&path).unwrap();
        (0..200).for_each(|n| drop(store.put(key(key_type, n), value(n, 20))));
        let write = |n: u64| {
            store.put(key(key_type, n), value(n, 90)).unwrap();
            store.sync().unwrap();
        };
        let aside = |n: u64| std::thread::scope(|scope| scope.spawn(|| write(n)).join().unwrap());
        let mut iterator = store.iter();
        assert!(iterator.next().is_some());
        let snapshot = store.snapshot().unwrap();
        store.get_with(key(key_type, 0), |_| aside(7)).unwrap().unwrap();
        let mut n = 10;
        let shown = store.scan_with(Scan::all(), |_, _| {
            aside(n);
            n += 1;
            if n < 14 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        shown.unwrap();
        let swapped = store.update(key(key_type, 0), |value| {
            aside(8);
            value.map(<[u8]>::to_vec)
        });
        swapped.unwrap();
        let counted = snapshot.scan_with(Scan::all(), |_, _| {
            aside(9);
            ControlFlow::Break(())
        });
        counted.unwrap();
        assert!(iterator.count() > 100);
    }
}

#[test]
fn what_was_there_before_a_sync_returned_is_there_after_a_crash() {
    const THREADS: u64 = 4;
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = options(KeyType::U64).durability(SELDOM).create(&path).unwrap();
    // Keys of a thread ascend; it returns how many were there when its last sync began.
    let write = |thread: u64| {
        let mut synced = 0;
        for n in 0..400 {
            let key = n * THREADS + thread;
            if n % 10 == 9 {
                store.put_many([(key, value(key, 30)), (key + (1 << 32), value(key, 30))]).unwrap();
            } else {
                store.put(key, value(key, 30)).unwrap();
            }
            if n % 37 == 36 {
                store.sync().unwrap();
                synced = n + 1;
            }
        }
        synced
    };
    let synced: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let ended = store.statistics().unwrap().epochs.ended;
    assert!(ended > 0 && ended <= THREADS * 10, "many share an end: {ended}");
    let found = killed(&path);
    let keys: Vec<u64> = content(&found).into_keys().map(|key| key.as_u64().unwrap()).collect();
    for thread in 0..THREADS {
        let low = |key: &&u64| **key < 1 << 32;
        let of = keys.iter().filter(low).filter(|key| **key % THREADS == thread);
        let of: Vec<u64> = of.map(|key| key / THREADS).collect();
        assert!(of.iter().copied().eq(0..of.len() as u64), "thread {thread}: a beginning is left");
        assert!(of.len() as u64 >= synced[thread as usize]);
        for n in (9..400).step_by(10) {
            let partner = n * THREADS + thread + (1 << 32);
            assert_eq!(keys.contains(&partner), n < of.len() as u64, "a batch in part");
        }
    }
}

#[test]
fn a_full_pool_keeps_what_it_has_and_goes_on_after_removals() {
    let folder = folder();
    for (key_type, bytes) in [(KeyType::U64, 30), (KeyType::Bytes, 900), (KeyType::U64, 20_000)] {
        let path = folder.path().join(format!("{key_type:?}-{bytes}.pool"));
        let options = options(key_type).size_bytes(128 << 10).max_size_bytes(512 << 10);
        let store = options.durability(SELDOM).create(&path).unwrap();
        let mut model = Content::new();
        let fill = |from: u64, model: &mut Content| {
            for n in from.. {
                let (key, value) = (key(key_type, n), value(n, bytes));
                match store.put(&key, &value) {
                    Ok(_) => drop(model.insert(key, value)),
                    Err(error) => {
                        assert!(error.is_full(), "{error}");
                        return n;
                    }
                }
            }
            unreachable!("the pool is never full")
        };
        let end = fill(0, &mut model);
        assert!(content(&store) == model && end > 10);
        // A batch that does not fit is not there in part.
        let many = (end..end + 2000).map(|n| (key(key_type, n), value(n, bytes)));
        let refused = store.put_many(many).unwrap_err();
        assert!(refused.is_full(), "{refused}");
        assert!(content(&store) == model);
        for n in (0..end).filter(|n| n % 3 != 1) {
            let key = key(key_type, n);
            assert_eq!(store.delete(&key).unwrap(), model.remove(&key).is_some());
        }
        // What these retire is used again, although nobody calls sync.
        for round in 0..20 {
            for n in (1..end).step_by(3) {
                let (key, value) = (key(key_type, n), value(n + round, bytes));
                store.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        let before = model.len();
        fill(end, &mut model);
        assert!(model.len() > before && content(&store) == model);
        store.close().unwrap();
        assert!(content(&crate::common::open(&path).unwrap()) == model);
    }
}

#[test]
fn writing_neither_flushes_nor_fences() {
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let media = Traced::new(POOL_BYTES, POOL_BYTES, 7).unwrap();
        let (store, pool) = create_on(all(), &options(key_type), media).unwrap();
        let short = |n: u64| match key_type {
            KeyType::U64 => OwnedKey::U64(n * 1000),
            KeyType::Bytes => OwnedKey::from(format!("{n:04}").into_bytes()),
        };
        (0..8).for_each(|n| assert!(!store.put(short(n), "a value").unwrap()));
        store.sync().unwrap();
        pool.media().take_events();
        assert!(store.put(short(3), "another").unwrap());
        assert!(!store.put(short(9), "a new one").unwrap());
        assert!(store.delete(short(5)).unwrap());
        let barrier = |event: &Event| matches!(event, Event::Flush { .. } | Event::Fence { .. });
        let barriers: Vec<Event> = pool.media().take_events().into_iter().filter(barrier).collect();
        assert!(barriers.is_empty(), "{barriers:?}");
        // Nothing of it was durable: a crash takes it back.
        let (found, _pool) = open_on(
            all(),
            &crate::common::opening(),
            Traced::from_image(&pool.media().image(), POOL_BYTES, 7).unwrap(),
        )
        .unwrap();
        assert_eq!(content(&found).len(), 8);
        assert_eq!(found.get(short(3)).unwrap().as_deref(), Some(&b"a value"[..]));
    }
}

#[test]
fn a_panic_of_the_caller_leaves_the_epoch_as_it_was() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = Arc::new(options(KeyType::U64).durability(SELDOM).create(&path).unwrap());
    store.put(1, "before").unwrap();
    store.sync().unwrap();
    let panicking = Arc::clone(&store);
    // The caller's own panic is before the first change: nothing was left midway.
    let panicked = std::thread::spawn(move || {
        let _ = panicking.update(1, |_| -> Option<Vec<u8>> { panic!("a caller's own") });
    });
    assert!(panicked.join().is_err());
    store.put(2, "after").unwrap();
    store.sync().unwrap();
    assert_eq!(content(&killed(&path)).len(), 2);
}

/// How long syncs take beside threads that write batches, transactions and single keys all the
/// time, and how long each of these may take. What makes them long is tested in the engine, by
/// counting.
#[test]
#[ignore = "a minute, or EVERLEAF_SECONDS, and it prints times: with --ignored --nocapture"]
fn syncs_beside_batches_and_transactions() {
    let folder = folder();
    let options = options(KeyType::U64).max_size_bytes(1 << 30);
    let store = options.create(folder.path().join("a.pool")).unwrap();
    let seconds = std::env::var("EVERLEAF_SECONDS").map_or(60, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    // What is done again and again; how often, and the longest time it took.
    let repeat = |work: &dyn Fn(u64)| {
        let (mut done, mut worst) = (0, Duration::ZERO);
        while Instant::now() < end {
            let begun = Instant::now();
            work(done);
            (done, worst) = (done + 1, worst.max(begun.elapsed()));
        }
        format!("{done}, the longest {worst:?}")
    };
    let batch_of = |count: u64, first: u64| {
        let mut batch = store.batch();
        for n in 0..count {
            batch.put((first + n * 7919) % 20_000, b"in a batch").unwrap();
        }
        batch.commit().unwrap();
    };
    let transaction = |first: u64| {
        let keys = (0..10).map(|n| (first + n * 104_729) % 20_000);
        let put = store.transaction(|tx| {
            for key in keys.clone() {
                let seen = tx.get(key)?;
                tx.put(key, seen.map_or(1, |seen| seen.len()).to_le_bytes())?;
            }
            Ok::<(), Error>(())
        });
        assert!(matches!(put, Ok(()) | Err(Error::Conflict)), "{put:?}");
    };
    let put_alone = |n: u64| store.put(20_000 + n % 20_000, b"alone").is_ok();
    let works: [(&str, &(dyn Fn(u64) + Sync)); 5] = [
        ("batches of 10,000", &|first| batch_of(10_000, first)),
        ("batches of 100", &|first| batch_of(100, first)),
        ("transactions", &transaction),
        ("puts of other keys", &|n| assert!(put_alone(n))),
        ("syncs", &|_| store.sync().unwrap()),
    ];
    std::thread::scope(|scope| {
        for (name, work) in works {
            scope.spawn(move || println!("{name}: {}", repeat(work)));
        }
    });
    assert!(store.check().unwrap().ok);
}
