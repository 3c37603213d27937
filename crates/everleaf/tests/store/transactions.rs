//! Transactions: one moment for all that is read and written. The anomalies have the names that the
//! literature gives them.

use std::time::Duration;

use everleaf::{Clock, CreateOptions, Engine, Error, KeyType, Result, Scan, Store, Transaction};
use tempfile::TempDir;

fn store_of(engine: Engine) -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions::new().size_bytes(4 << 20).engine(engine);
    let store = options.create(folder.path().join("a.pool")).unwrap();
    (folder, store)
}

fn store() -> (TempDir, Store) {
    store_of(Engine::FPTREE_C)
}

fn text(value: Option<Vec<u8>>) -> Option<String> {
    value.map(|value| String::from_utf8(value).unwrap())
}

fn conflicts<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::Conflict)), "{result:?}");
}

#[test]
fn reads_see_what_the_transaction_has_written() -> Result<()> {
    let (_folder, store) = store();
    store.put_many([("a", "1"), ("b", "2"), ("d", "4")])?;
    let mut tx = store.begin()?;
    tx.put("c", "3")?;
    tx.delete("b")?;
    assert!(!tx.put_if_absent("a", "9")?);
    assert_eq!(text(tx.remove("d")?).as_deref(), Some("4"));
    assert_eq!((tx.get("b")?, tx.contains_key("d")?), (None, false));
    let keys = |entries: Vec<everleaf::Entry>| -> Vec<String> {
        entries.into_iter().map(|(key, _)| key.to_string()).collect()
    };
    assert_eq!(keys(tx.range("a"..)?), ["a", "c"]);
    assert_eq!(keys(tx.scan(Scan::all().backward(), 1)?), ["c"]);
    assert_eq!(keys(tx.prefix("c")?), ["c"]);
    assert!(tx.range("z".."b")?.is_empty(), "the ends are the wrong way round");
    assert_eq!(store.len()?, 3, "nothing is written before the commit");
    tx.commit()?;
    assert_eq!(keys(store.iter().collect::<Result<_>>()?), ["a", "c"]);
    drop(store.begin()?.put("never", ""));
    assert!(!store.contains_key("never")?);
    Ok(())
}

/// Both read, both write what follows from it: one of the writes would be lost.
#[test]
fn no_update_is_lost() -> Result<()> {
    let (_folder, store) = store();
    store.put("counter", "1")?;
    let (mut one, mut other) = (store.begin()?, store.begin()?);
    for tx in [&mut one, &mut other] {
        let count: u64 = text(tx.get("counter")?).unwrap().parse().unwrap();
        tx.put("counter", (count + 1).to_string())?;
    }
    one.commit()?;
    conflicts(other.commit());
    assert_eq!(text(store.get("counter")?).as_deref(), Some("2"));
    Ok(())
}

/// Each reads both and writes the other's: together they break what each has kept.
#[test]
fn writes_are_not_skewed() -> Result<()> {
    let (_folder, store) = store();
    store.put_many([("on call: ann", "yes"), ("on call: bob", "yes")])?;
    let (mut ann, mut bob) = (store.begin()?, store.begin()?);
    for (tx, leaves) in [(&mut ann, "on call: ann"), (&mut bob, "on call: bob")] {
        let both = tx.get("on call: ann")?.zip(tx.get("on call: bob")?).unwrap();
        assert_eq!(both, (b"yes".to_vec(), b"yes".to_vec()));
        tx.put(leaves, "no")?;
    }
    bob.commit()?;
    conflicts(ann.commit());
    Ok(())
}

/// Each finds a range empty and puts a key into it.
#[test]
fn no_phantom_appears_in_a_range() -> Result<()> {
    let (_folder, store) = store();
    store.put_many([("a", ""), ("c", "")])?;
    let (mut one, mut other) = (store.begin()?, store.begin()?);
    for (tx, key) in [(&mut one, "b1"), (&mut other, "b2")] {
        assert!(tx.range("b".."c")?.is_empty());
        tx.put(key, "")?;
    }
    one.commit()?;
    conflicts(other.commit());
    // The same of a key that is only absent.
    let (mut one, mut other) = (store.begin()?, store.begin()?);
    for (tx, key, wanted) in [(&mut one, "x", "y"), (&mut other, "y", "x")] {
        assert!(!tx.contains_key(wanted)?);
        tx.put(key, "")?;
    }
    other.commit()?;
    conflicts(one.commit());
    // What lies behind the last entry that was asked for was not read.
    let mut tx = store.begin()?;
    assert_eq!(tx.scan(Scan::of("b"..), 1)?.len(), 1);
    store.put("b9", "")?;
    tx.put("z", "")?;
    tx.commit()
}

/// One of two keys is read before another thread changes both, the other one afterwards.
#[test]
fn reads_are_not_skewed() -> Result<()> {
    let (_folder, store) = store();
    store.put_many([("x", "50"), ("y", "50"), ("z", "")])?;
    for ranges in [false, true] {
        let mut tx = store.begin()?;
        assert!(tx.get("x")?.is_some());
        store.put_many([("x", if ranges { "1" } else { "0" }), ("y", "100")])?;
        if ranges {
            conflicts(tx.range("y".."z"));
        } else {
            conflicts(tx.get("y"));
        }
        conflicts(tx.get("z"));
        conflicts(tx.commit());
    }
    // What was read is read again as it was, though nothing of it may be committed then.
    let mut tx = store.begin()?;
    assert_eq!(text(tx.get("x")?).as_deref(), Some("1"));
    store.put("x", "2")?;
    assert_eq!(text(tx.get("x")?).as_deref(), Some("1"));
    tx.put("w", "")?;
    conflicts(tx.commit());
    Ok(())
}

/// A change of other keys, of another range, or back to what was there, is not a conflict.
#[test]
fn what_is_still_so_is_no_conflict() -> Result<()> {
    let (_folder, store) = store();
    store.put_many((0..100).map(|i| (format!("{i:03}"), i.to_string())))?;
    let mut tx = store.begin()?;
    assert_eq!(tx.range("010".."020")?.len(), 10);
    assert!(tx.contains_key("050")? && !tx.contains_key("none")?);
    for i in (0..10).chain(20..50) {
        store.put(format!("{i:03}"), "another")?; // All locks of keys are met.
    }
    store.put_many((0..3000).map(|i| (format!("x{i}"), "")))?;
    store.put("015", "16")?;
    store.put("015", "15")?;
    store.put("none", "")?;
    store.delete("none")?;
    assert_eq!(text(tx.get("051")?).as_deref(), Some("51"), "read after all of that");
    assert_eq!(tx.range("060".."070")?.len(), 10);
    tx.put("done", "")?;
    tx.commit()?;
    assert!(store.contains_key("done")?);
    Ok(())
}

#[test]
fn a_transaction_has_one_time() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual(1_000_000);
    let options = CreateOptions::new().size_bytes(1 << 20).clock(clock.clone());
    let store = options.create(folder.path().join("a.pool"))?;
    store.put_for("short", "", Duration::from_secs(1))?;
    let mut tx = store.begin()?;
    clock.advance(Duration::from_secs(2));
    assert!(tx.contains_key("short")?, "it had not expired when the transaction began");
    tx.commit()?; // It has written nothing.
    let mut tx = store.begin()?;
    tx.put_for("mine", "", Duration::from_secs(1))?;
    clock.advance(Duration::from_secs(2));
    assert!(tx.contains_key("mine")?, "so it is of what it writes itself");
    tx.commit()?;
    assert!(!store.contains_key("short")? && !store.contains_key("mine")?);
    // They are in the pool still, and had expired when this one began.
    let mut tx = store.begin()?;
    assert!(!tx.contains_key("short")? && tx.get("mine")?.is_none());
    assert!(tx.range("a"..)?.is_empty() && tx.put_if_absent("short", "again")?);
    tx.commit()
}

#[test]
fn what_was_read_and_has_expired_by_the_commit_is_a_conflict() -> Result<()> {
    const LIFE: Duration = Duration::from_secs(1);
    type Work = fn(&mut Transaction) -> Result<()>;
    let works: [(&str, Work); 8] = [
        ("touch", |tx| tx.touch("session", LIFE).map(drop)),
        ("persist", |tx| tx.persist("session").map(drop)),
        ("update", |tx| tx.update("session", |old| old.map(<[u8]>::to_vec)).map(drop)),
        ("compare and swap", |tx| {
            tx.compare_and_swap("session", Some(b"of ann"), Some(b"of bob")).map(drop)
        }),
        ("insert", |tx| tx.insert("session", "of bob").map(drop)),
        ("remove", |tx| tx.remove("session").map(drop)),
        ("a read, and a write of another key", |tx| {
            assert!(tx.contains_key("session")?);
            tx.put("other", "").map(drop)
        }),
        ("a range, and a write of another key", |tx| {
            assert_eq!(tx.range("s"..)?.len(), 1);
            tx.put("other", "").map(drop)
        }),
    ];
    for engine in Engine::available().filter(|engine| engine.has_keys(KeyType::Bytes)) {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(1_000_000);
        let options = CreateOptions::new().engine(engine).clock(clock.clone());
        let store = options.create(folder.path().join("a.pool"))?;
        for (name, work) in works {
            store.clear()?;
            store.put_for("session", "of ann", LIFE)?;
            let mut tx = store.begin()?;
            work(&mut tx)?;
            clock.advance(LIFE - Duration::from_millis(1));
            tx.commit()?;
            store.clear()?;
            store.put_for("session", "of ann", LIFE)?;
            let mut tx = store.begin()?;
            work(&mut tx)?;
            clock.advance(LIFE);
            assert!(!store.contains_key("session")?, "others see that it is absent");
            assert!(matches!(tx.commit(), Err(Error::Conflict)), "{engine}, {name}");
            assert_eq!(store.len()?, 0, "{engine}, {name}");
        }
        store.put_for("session", "of ann", LIFE)?;
        let mut runs = 0;
        let touched = store.transaction(|tx| {
            runs += 1;
            let touched = tx.touch("session", LIFE)?;
            tx.put("other", "")?;
            clock.advance(LIFE);
            Ok(touched)
        })?;
        assert_eq!((runs, touched), (2, false), "{engine}");
    }
    Ok(())
}

#[test]
fn trees_take_part_and_those_that_are_dropped_refuse() -> Result<()> {
    let (_folder, store) = store();
    let numbers = store.typed_tree::<u64, String>("numbers")?;
    let names = store.tree("names")?;
    numbers.put(7, "seven")?;
    store.transaction(|tx| {
        let seven = tx.on(&numbers)?.get(7)?.unwrap_or_default();
        assert!(tx.on(&numbers)?.put_if_absent(8, "eight")?);
        assert_eq!(tx.on(&numbers)?.range(7..)?.len(), 2);
        tx.on(&names)?.put(seven, "7")?;
        tx.put("names", "1")?;
        Ok(())
    })?;
    assert_eq!(text(names.get("seven")?).as_deref(), Some("7"));
    assert_eq!(numbers.get(8)?.as_deref(), Some("eight"));

    let mut tx = store.begin()?;
    tx.on(&names)?.put("eight", "8")?;
    store.drop_tree("names")?;
    assert!(matches!(tx.on(&names)?.get("seven"), Err(Error::TreeDropped)));
    assert!(matches!(tx.commit(), Err(Error::TreeDropped)));

    let (_other_folder, other) = self::store();
    assert!(matches!(store.begin()?.on(other.default_tree()).err(), Some(Error::OtherStore)));
    Ok(())
}

#[test]
fn a_closure_runs_again_until_nothing_comes_in_between() -> Result<()> {
    let (_folder, store) = store();
    store.put("key", "0")?;
    let mut runs = 0;
    let seen = store.transaction(|tx| {
        runs += 1;
        let seen = text(tx.get("key")?);
        if runs <= 3 {
            store.put("key", runs.to_string())?;
        }
        tx.put("other", "")?;
        Ok(seen)
    })?;
    assert_eq!((runs, seen.as_deref()), (4, Some("3")));

    let mut runs = 0;
    let never = store.transaction(|tx| -> Result<()> {
        runs += 1;
        tx.get("key")?;
        store.put("key", format!("again {runs}"))?;
        tx.put("other", "never")?;
        Ok(())
    });
    conflicts(never);
    assert_eq!(runs, 64);

    #[derive(Debug)]
    enum Refusal {
        Poor,
        Store(#[allow(dead_code, reason = "for Debug")] Error),
    }
    impl From<Error> for Refusal {
        fn from(error: Error) -> Self {
            Self::Store(error)
        }
    }
    let poor = store.try_transaction(|tx| {
        tx.put("other", "never")?;
        Err::<(), _>(Refusal::Poor)
    });
    assert!(matches!(poor, Err(Refusal::Poor)), "{poor:?}");
    assert_eq!(text(store.get("other")?).as_deref(), Some(""));
    Ok(())
}

/// Threads move money between accounts, and look whether it is all there, by keys and by a range.
fn money_is_neither_made_nor_lost(engine: Engine) -> Result<()> {
    const ACCOUNTS: u64 = 8;
    const EACH: u64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions::new().size_bytes(4 << 20).engine(engine).key_type(KeyType::U64);
    let store = options.create(folder.path().join("a.pool"))?;
    store.put_many((0..ACCOUNTS).map(|account| (account, EACH.to_le_bytes())))?;
    let amount = |tx: &mut Transaction, account: u64| -> Result<u64> {
        Ok(u64::from_le_bytes(tx.get(account)?.unwrap().try_into().unwrap()))
    };
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                let mut random = thread + 1;
                for turn in 0..400 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (from, to) = (random >> 33 & 7, random >> 43 & 7);
                    if turn % 10 == 0 {
                        let sum = store.transaction(|tx| -> Result<u64> {
                            let amounts = tx.range(..)?.into_iter().map(|(_, value)| value);
                            Ok(amounts.map(|v| u64::from_le_bytes(v.try_into().unwrap())).sum())
                        });
                        assert_eq!(sum.unwrap(), ACCOUNTS * EACH);
                        continue;
                    }
                    let moved = store.transaction(|tx| -> Result<()> {
                        let amounts: Vec<u64> =
                            (0..ACCOUNTS).map(|at| amount(tx, at)).collect::<Result<_>>()?;
                        assert_eq!(amounts.iter().sum::<u64>(), ACCOUNTS * EACH, "one moment");
                        let (has, had) = (amounts[from as usize], amounts[to as usize]);
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
    let all = store.iter().map(|entry| Ok(entry?.1)).collect::<Result<Vec<_>>>()?;
    let amounts = all.into_iter().map(|value| u64::from_le_bytes(value.try_into().unwrap()));
    assert_eq!(amounts.sum::<u64>(), ACCOUNTS * EACH);
    Ok(())
}

#[test]
fn money_is_neither_made_nor_lost_by_any_engine() -> Result<()> {
    Engine::available().try_for_each(money_is_neither_made_nor_lost)
}
