//! Transactions that run alone: those that meet other writers again and again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::folder;
use everleaf::internal::transaction_alone;
use everleaf::{CreateOptions, Engine, Error, KeyType, Result, Store, Transaction};
use tempfile::TempDir;

/// Turns that no test outlasts, that hardly any outlasts, and that are over at once.
const PATIENCES: [Duration; 3] =
    [Duration::from_secs(6), Duration::from_micros(50), Duration::ZERO];

fn store_of(engine: Engine) -> (TempDir, Store) {
    let folder = folder();
    let options = CreateOptions::new().size_bytes(8 << 20).engine(engine).key_type(KeyType::U64);
    let store = options.create(folder.path().join("a.pool")).unwrap();
    (folder, store)
}

fn store() -> (TempDir, Store) {
    store_of(Engine::FPTREE_C)
}

fn number(value: Option<Vec<u8>>) -> u64 {
    u64::from_le_bytes(value.unwrap().try_into().unwrap())
}

fn read(tx: &mut Transaction, key: u64) -> Result<u64> {
    tx.get(key).map(number)
}

/// Runs alone from the first attempt on.
fn alone<R>(
    store: &Store,
    patience: Duration,
    work: impl FnMut(&mut Transaction) -> Result<R>,
) -> Result<R> {
    transaction_alone(store, 0, patience, work)
}

fn next(random: &mut u64) -> u64 {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

/// Writers put rounds of numbers into keys of their own, one key after the other, without a pause.
/// Transactions read all of the keys, by themselves or as a range, and write what they have seen.
fn reads_beside_writers(engine: Engine, seed: u64) {
    const TRANSACTIONS: u64 = 20;
    let mut random = seed;
    let writers = 1 + next(&mut random) % 2;
    let keys = if random & 1 << 40 == 0 { 2000 } else { 100 + next(&mut random) % 1900 };
    let ranges = next(&mut random).is_multiple_of(2);
    println!("{engine}, seed {seed}: {writers} writers, {keys} keys, ranges: {ranges}");
    let (_folder, store) = store_of(engine);
    let of = |writer: u64| writer * keys..(writer + 1) * keys;
    let last = writers * keys;
    store.put_many((0..=last).map(|key| (key, 0_u64.to_le_bytes()))).unwrap();
    let (done, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (store, done, puts) = (&store, &done, &puts);
            scope.spawn(move || {
                for round in 1_u64.. {
                    for key in of(writer) {
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                        store.put(key, round.to_le_bytes()).unwrap();
                        puts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let ended = catch_unwind(AssertUnwindSafe(|| {
            for turn in 0..TRANSACTIONS {
                let seen = store.transaction(|tx| -> Result<Vec<u64>> {
                    let seen: Vec<u64> = if ranges {
                        let value = |entry: Result<(_, Vec<u8>)>| Ok(number(Some(entry?.1)));
                        tx.range(..last).map(value).collect::<Result<_>>()?
                    } else {
                        (0..last).map(|key| read(tx, key)).collect::<Result<_>>()?
                    };
                    tx.put(last, turn.to_le_bytes())?;
                    Ok(seen)
                });
                let seen = seen.unwrap_or_else(|error| panic!("transaction {turn}: {error}"));
                for writer in 0..writers {
                    let rounds = &seen[writer as usize * keys as usize..][..keys as usize];
                    assert!(rounds.is_sorted_by(|a, b| a >= b), "of one moment");
                    assert!(rounds[0] - rounds[rounds.len() - 1] <= 1, "of one moment");
                }
                // The writers go on.
                let before = puts.load(Ordering::Relaxed);
                while puts.load(Ordering::Relaxed) <= before + writers {
                    std::thread::yield_now();
                }
            }
        }));
        done.store(true, Ordering::Relaxed);
        ended.unwrap();
    });
    assert_eq!(number(store.get(last).unwrap()), TRANSACTIONS - 1);
}

#[test]
fn a_transaction_that_reads_much_beside_writers_without_a_pause_never_commits() {
    for seed in 1..=4 {
        reads_beside_writers(Engine::FPTREE_C, seed);
    }
}

#[test]
fn nor_does_it_on_any_other_engine() {
    for (engine, seed) in Engine::available().zip(5..) {
        reads_beside_writers(engine, seed);
    }
}

/// What comes in between is written by the closure itself, so that every run repeats.
#[test]
fn alone_no_anomaly_happens_either() -> Result<()> {
    for patience in PATIENCES {
        let (_folder, store) = store();
        let put = |key: u64, value: u64| store.put(key, value.to_le_bytes()).map(drop);
        (0..10).try_for_each(|key| put(key, 50))?;
        // Lost update.
        let mut runs = 0;
        alone(&store, patience, |tx| {
            runs += 1;
            let seen = read(tx, 0)?;
            if runs == 1 {
                let mut other = store.begin()?;
                let seen = read(&mut other, 0)?;
                other.put(0_u64, (seen + 1).to_le_bytes())?;
                other.commit()?;
            }
            tx.put(0_u64, (seen + 1).to_le_bytes()).map(drop)
        })?;
        assert_eq!((runs, number(store.get(0)?)), (2, 52));
        // Write skew.
        let mut runs = 0;
        alone(&store, patience, |tx| {
            runs += 1;
            let sum = read(tx, 1)? + read(tx, 2)?;
            if runs == 1 {
                transaction_alone(&store, 0, patience, |other| -> Result<()> {
                    assert_eq!(read(other, 1)? + read(other, 2)?, 100);
                    other.put(2_u64, 0_u64.to_le_bytes()).map(drop)
                })?;
            }
            if sum == 100 { tx.put(1_u64, 0_u64.to_le_bytes()).map(drop) } else { Ok(()) }
        })?;
        assert_eq!((runs, number(store.get(1)?), number(store.get(2)?)), (2, 50, 0));
        // Phantom: a range that was empty, and a key that was absent.
        for ranges in [true, false] {
            let (key, mut runs) = (if ranges { 20_u64 } else { 30 }, 0);
            alone(&store, patience, |tx| {
                runs += 1;
                let empty = match ranges {
                    true => tx.range(key..key + 5).next().transpose()?.is_none(),
                    false => !tx.contains_key(key)?,
                };
                if runs == 1 {
                    put(key, 1)?;
                }
                if empty { tx.put(key + 1, 2_u64.to_le_bytes()).map(drop) } else { Ok(()) }
            })?;
            assert_eq!((runs, store.get(key + 1)?), (2, None));
        }
        // Read skew.
        let mut runs = 0;
        let sum = alone(&store, patience, |tx| {
            runs += 1;
            let first = read(tx, 3)?;
            if runs == 1 {
                store.put_many([(3_u64, 0_u64.to_le_bytes()), (4, 100_u64.to_le_bytes())])?;
            }
            Ok(first + read(tx, 4)?)
        })?;
        assert_eq!((runs, sum), (2, 100));
        // What is still so is not a conflict.
        let mut runs = 0;
        alone(&store, patience, |tx| {
            runs += 1;
            assert_eq!(read(tx, 5)?, 50);
            put(5, 51)?;
            put(5, 50)?;
            put(6, 51)?;
            tx.put(7_u64, 1_u64.to_le_bytes()).map(drop)
        })?;
        assert_eq!((runs, number(store.get(7)?)), (1, 1));
    }
    Ok(())
}

/// Threads that all want to be alone, or none, move money and count it.
fn money_is_neither_made_nor_lost(engine: Engine, patience: Duration) {
    const ACCOUNTS: u64 = 8;
    let (_folder, store) = store_of(engine);
    store.put_many((0..ACCOUNTS).map(|account| (account, 100_u64.to_le_bytes()))).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let mut random = thread;
                for turn in 0..100 {
                    let [from, to] = [(); 2].map(|()| next(&mut random) % ACCOUNTS);
                    let beside = if (turn + thread) % 3 == 0 { 8 } else { 0 };
                    let moved = transaction_alone(store, beside, patience, |tx| {
                        let amounts: Vec<u64> = match turn % 10 {
                            0 => tx
                                .range(..)
                                .map(|entry| Ok(number(Some(entry?.1))))
                                .collect::<Result<_>>()?,
                            _ => (0..ACCOUNTS).map(|at| read(tx, at)).collect::<Result<_>>()?,
                        };
                        assert_eq!(amounts.iter().sum::<u64>(), ACCOUNTS * 100, "one moment");
                        let [has, had] = [from, to].map(|account| amounts[account as usize]);
                        if from != to && has > 0 {
                            tx.put(from, (has - 1).to_le_bytes())?;
                            tx.put(to, (had + 1).to_le_bytes())?;
                        }
                        Ok(())
                    });
                    match moved {
                        Ok(()) | Err(Error::Conflict) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let sum: u64 = store.iter().map(|entry| number(Some(entry.unwrap().1))).sum();
    assert_eq!(sum, ACCOUNTS * 100);
}

#[test]
fn alone_money_is_neither_made_nor_lost() {
    for engine in Engine::available() {
        PATIENCES.into_iter().for_each(|patience| money_is_neither_made_nor_lost(engine, patience));
    }
}

/// In each case other threads write afterwards, and a transaction runs alone.
#[test]
fn a_closure_that_panics_or_refuses_alone_holds_nobody_up() -> Result<()> {
    let (_folder, store) = store();
    let fails: [&dyn Fn() -> Result<()>; 2] =
        [&|| panic!("of the closure"), &|| Err(Error::Aborted)];
    for fail in fails {
        let failed = catch_unwind(AssertUnwindSafe(|| {
            alone(&store, PATIENCES[0], |tx| {
                tx.put(1_u64, "never")?;
                fail()
            })
        }));
        assert!(failed.map_or(true, |result| matches!(result, Err(Error::Aborted))));
        std::thread::scope(|scope| scope.spawn(|| store.put(2, "")).join().unwrap())?;
        alone(&store, PATIENCES[0], |tx| tx.put(3_u64, "").map(drop))?;
    }
    assert!(!store.contains_key(1)?);
    Ok(())
}

/// It waits for a writer which waits for it to end.
#[test]
fn a_closure_that_does_not_end_alone_holds_writers_up_no_longer_than_they_have_patience()
-> Result<()> {
    let (_folder, store) = store();
    let mut runs = 0;
    let seen = alone(&store, Duration::from_millis(20), |tx| {
        runs += 1;
        let seen = tx.get(1)?;
        if runs == 1 {
            let (written, wait) = channel();
            let other = store.clone();
            let writer = std::thread::spawn(move || {
                other.put(1, "by another thread").map(drop).unwrap();
                // This one wants to be alone as well.
                alone(&other, Duration::from_millis(20), |tx| tx.put(2_u64, "").map(drop)).unwrap();
                written.send(()).unwrap();
            });
            wait.recv().unwrap();
            writer.join().unwrap();
        }
        tx.put(3_u64, "")?;
        Ok(seen)
    })?;
    assert_eq!((runs, seen.as_deref()), (2, Some(&b"by another thread"[..])));
    assert!(store.contains_key(2)? && store.contains_key(3)?);
    Ok(())
}

#[test]
fn a_closure_may_call_the_store_alone() -> Result<()> {
    let folder = folder();
    let store = CreateOptions::new().size_bytes(4 << 20).create(folder.path().join("a.pool"))?;
    store.tree("old")?.put("key", "")?;
    for patience in PATIENCES {
        alone(&store, patience, |tx| {
            tx.put("a", "1")?;
            store.put("b", "2")?;
            store.put_many([("c", "3"), ("d", "4")])?;
            store.transaction(|inner| inner.put("e", "5").map(drop))?;
            alone(&store, patience, |inner| inner.put("f", "6").map(drop))?;
            let snapshot = store.snapshot()?;
            assert_eq!(snapshot.iter().count(), 5);
            store.tree("new")?.put("key", "")?;
            store.drop_tree("new")?;
            store.check()?;
            store.sync()
        })?;
        assert_eq!(store.iter().count(), 6);
        store.clear()?;
    }
    // What it writes itself, and not by the transaction, is a conflict each time.
    let mut runs = 0;
    let never = alone(&store, Duration::from_secs(1), |tx| {
        runs += 1;
        tx.get("key")?;
        store.put("key", format!("again {runs}"))?;
        tx.put("other", "never").map(drop)
    });
    assert!(matches!(never, Err(Error::Conflict)) && runs == 64);
    // It closes the store.
    let closed = alone(&store, Duration::from_secs(1), |tx| {
        tx.put("other", "never")?;
        store.clone().close()
    });
    assert!(matches!(closed, Ok(()) | Err(Error::Closed)), "{closed:?}");
    Ok(())
}
