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

fn all<T>(entries: impl Iterator<Item = Result<T>>) -> Vec<T> {
    entries.map(Result::unwrap).collect()
}

fn conflicts<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::Conflict)), "{result:?}");
}

#[test]
fn reads_see_what_the_transaction_has_written() -> Result<()> {
    let (_folder, store) = store();
    store.put_many([("a", "1"), ("b", "2"), ("d", "4")])?;
    let tx = store.begin()?;
    tx.put("c", "3")?;
    tx.delete("b")?;
    assert!(!tx.put_if_absent("a", "9")?);
    assert_eq!(text(tx.remove("d")?).as_deref(), Some("4"));
    assert_eq!((tx.get("b")?, tx.contains_key("d")?), (None, false));
    let keys = |entries: Vec<everleaf::Entry>| -> Vec<String> {
        entries.into_iter().map(|(key, _)| key.to_string()).collect()
    };
    assert_eq!(keys(all(tx.range("a"..))), ["a", "c"]);
    assert_eq!(keys(tx.scan(Scan::all().backward(), 1)?), ["c"]);
    assert_eq!(keys(all(tx.prefix("c"))), ["c"]);
    assert!(all(tx.range("z".."b")).is_empty(), "the ends are the wrong way round");
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
        assert!(all(tx.range("b".."c")).is_empty());
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
    let tx = store.begin()?;
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
        let tx = store.begin()?;
        assert!(tx.get("x")?.is_some());
        store.put_many([("x", if ranges { "1" } else { "0" }), ("y", "100")])?;
        if ranges {
            conflicts(tx.range("y".."z").collect::<Result<Vec<_>>>());
        } else {
            conflicts(tx.get("y"));
        }
        conflicts(tx.get("z"));
        conflicts(tx.commit());
    }
    // What was read is read again as it was, though nothing of it may be committed then.
    let tx = store.begin()?;
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
    let tx = store.begin()?;
    assert_eq!(tx.range("010".."020").count(), 10);
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
    assert_eq!(tx.range("060".."070").count(), 10);
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
    let tx = store.begin()?;
    clock.advance(Duration::from_secs(2));
    assert!(tx.contains_key("short")?, "it had not expired when the transaction began");
    tx.commit()?; // It has written nothing.
    let tx = store.begin()?;
    tx.put_for("mine", "", Duration::from_secs(1))?;
    clock.advance(Duration::from_secs(2));
    assert!(tx.contains_key("mine")?, "so it is of what it writes itself");
    tx.commit()?;
    assert!(!store.contains_key("short")? && !store.contains_key("mine")?);
    // They are in the pool still, and had expired when this one began.
    let tx = store.begin()?;
    assert!(!tx.contains_key("short")? && tx.get("mine")?.is_none());
    assert!(all(tx.range("a"..)).is_empty() && tx.put_if_absent("short", "again")?);
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
            assert_eq!(tx.range("s"..).count(), 1);
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
        assert_eq!(tx.on(&numbers)?.range(7..).count(), 2);
        tx.on(&names)?.put(seven, "7")?;
        tx.put("names", "1")?;
        Ok(())
    })?;
    assert_eq!(text(names.get("seven")?).as_deref(), Some("7"));
    assert_eq!(numbers.get(8)?.as_deref(), Some("eight"));

    let tx = store.begin()?;
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
                            let entries = tx.range(..).collect::<Result<Vec<_>>>()?;
                            let amounts = entries.into_iter().map(|(_, value)| value);
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

#[test]
fn several_trees_are_at_hand_at_a_time_and_written_while_a_range_is_read() -> Result<()> {
    let (_folder, store) = store();
    let stock = store.typed_tree::<String, u64>("stock")?;
    let (gone, kept) = (store.tree("gone")?, store.tree("kept")?);
    stock.put_many((0..2000u64).map(|n| (format!("{n:04}"), n % 3)))?;
    let counted = store.transaction(|tx| {
        let (stock, gone, kept) = (tx.on(&stock)?, tx.on(&gone)?, tx.on(&kept)?);
        let mut counted = 0;
        for entry in stock.iter() {
            let (article, count) = entry?;
            counted += 1;
            match count {
                0 => drop((stock.delete(&article)?, gone.put(article.as_str(), "")?)),
                _ => drop(kept.put(article.as_str(), "")?),
            }
        }
        assert_eq!(stock.iter().count(), kept.iter().count());
        Ok(counted)
    })?;
    assert_eq!((counted, gone.len()?, kept.len()?, stock.len()?), (2000, 667, 1333, 1333));
    Ok(())
}

#[test]
fn ranges_are_read_from_both_ends_and_no_further_than_they_are_asked() -> Result<()> {
    let (_folder, store) = store();
    store.put_many((0..1000u64).map(|n| (format!("{n:03}"), n.to_le_bytes())))?;
    let tx = store.begin()?;
    tx.put("0005", "own")?.delete("001")?;
    let keys = |entries: Vec<everleaf::Entry>| -> Vec<String> {
        entries.into_iter().map(|(key, _)| key.to_string()).collect()
    };
    let mut own: Vec<String> = (0..1000).map(|n| format!("{n:03}")).collect();
    own.retain(|key| key != "001");
    own.insert(1, "0005".to_owned());
    assert_eq!(keys(all(tx.iter())), own);
    assert_eq!(keys(all(tx.iter().rev())), own.iter().rev().cloned().collect::<Vec<_>>());
    for taken in [1, 7, 40, 600] {
        let mut range = tx.range("010".."990");
        let mut both = Vec::new();
        for _ in 0..taken {
            both.extend(range.next().transpose()?);
        }
        let back = all(range.by_ref().rev());
        both.extend(back.into_iter().rev());
        assert_eq!(keys(both), own[10..990], "{taken}");
        assert!(range.next().is_none() && range.next_back().is_none());
    }
    assert_eq!(keys(all(tx.prefix("99"))).len(), 10);
    assert_eq!(keys(all(tx.prefix("99").rev()))[9], "990");
    // What is behind the entries that were read is written by others, and is no conflict.
    let reader = store.begin()?;
    assert_eq!(reader.iter().next().transpose()?.unwrap().0, "000");
    reader.put("seen", "")?;
    store.put("500", "another")?;
    reader.commit()?;
    let reader = store.begin()?;
    assert_eq!(reader.iter().count(), 1001);
    reader.put("seen", "")?;
    store.put("500", "a third")?;
    conflicts(reader.commit());
    Ok(())
}

#[test]
fn what_was_written_since_a_savepoint_is_taken_back_and_later_savepoints_are_gone() -> Result<()> {
    let (_folder, store) = store();
    let tree = store.tree("t")?;
    store.put("a", "1")?;
    let tx = store.begin()?;
    tx.put("before", "")?;
    let first = tx.savepoint();
    tx.put("a", "2")?.put("a", "3")?.delete("before")?;
    tx.on(&tree)?.put("k", "v")?;
    let second = tx.savepoint();
    tx.put("a", "4")?;
    tx.rollback_to(&second)?;
    assert_eq!(text(tx.get("a")?).as_deref(), Some("3"));
    tx.put("a", "5")?;
    tx.rollback_to(&first)?;
    assert_eq!(text(tx.get("a")?).as_deref(), Some("1"));
    assert!(tx.contains_key("before")? && tx.on(&tree)?.iter().next().is_none());
    let gone = tx.rollback_to(&second).unwrap_err();
    assert_eq!(
        gone.to_string(),
        "the savepoint is gone, as the transaction went back to an earlier one, or it is of \
        another transaction; take another one"
    );
    let other = store.begin()?;
    assert!(matches!(other.rollback_to(&first), Err(Error::SavepointGone)));
    other.savepoint();
    assert!(matches!(other.rollback_to(&first), Err(Error::SavepointGone)));
    other.put("other", "")?;
    other.rollback();
    tx.rollback_to(&first)?; // It can be used again.
    tx.put("after", "")?;
    tx.commit()?;
    let keys: Vec<String> = store.keys().map(|key| key.unwrap().to_string()).collect();
    assert_eq!(keys, ["a", "after", "before"]);
    assert_eq!(text(store.get("a")?).as_deref(), Some("1"));
    Ok(())
}

/// Savepoints beside a model: a copy of the map at each of them.
#[test]
fn savepoints_at_random_agree_with_copies_of_a_map() -> Result<()> {
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (_folder, store) = store();
    for _ in 0..50 {
        let tx = store.begin()?;
        let mut map: std::collections::BTreeMap<u8, u8> = std::collections::BTreeMap::new();
        let mut savepoints = Vec::new();
        for _ in 0..40 {
            match random.random_range(0..10) {
                0 | 1 => savepoints.push((tx.savepoint(), map.clone())),
                2 if !savepoints.is_empty() => {
                    let at = random.random_range(0..savepoints.len());
                    let later = savepoints.split_off(at + 1);
                    tx.rollback_to(&savepoints[at].0)?;
                    map.clone_from(&savepoints[at].1);
                    for (savepoint, _) in later {
                        assert!(matches!(tx.rollback_to(&savepoint), Err(Error::SavepointGone)));
                    }
                }
                3 | 4 => {
                    let key = random.random_range(0..8);
                    tx.delete([key])?;
                    map.remove(&key);
                }
                _ => {
                    let (key, value) = (random.random_range(0..8), random.random());
                    tx.put([key], [value])?;
                    map.insert(key, value);
                }
            }
            let found = all(tx.iter().map(|entry| Ok((entry?.0[0], 0))));
            assert_eq!(found, map.keys().map(|key| (*key, 0)).collect::<Vec<_>>());
        }
        for (key, value) in &map {
            assert_eq!(tx.get([*key])?.unwrap(), [*value]);
        }
        tx.rollback();
    }
    Ok(())
}

/// Ranges that are read from both ends while the transaction writes and goes back, beside a model:
/// each key comes once and in order, with a value that it had meanwhile, and what was not written
/// meanwhile comes for sure.
#[test]
fn ranges_at_random_show_each_key_once_while_the_transaction_writes() -> Result<()> {
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use std::collections::{BTreeMap, BTreeSet};
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (_folder, store) = store();
    let tree = store.typed_tree::<u16, u32>("t")?;
    for round in 0..60 {
        tree.clear()?;
        let count = [5, 40, 700][round % 3];
        let stored: BTreeMap<u16, u32> = (0..count).map(|_| (random.random(), 0)).collect();
        tree.put_many(&stored)?;
        let tx = store.begin()?;
        let on = tx.on(&tree)?;
        let (mut map, mut savepoints) = (stored.clone(), Vec::new());
        let (mut written, mut had) = (BTreeSet::new(), BTreeSet::new());
        let bounds: [u16; 2] = random.random();
        let bounds = bounds[0].min(bounds[1])..bounds[0].max(bounds[1]);
        let mut range = on.range(bounds.clone());
        let (mut front, mut back, mut ended) = (Vec::new(), Vec::new(), false);
        let writes = random.random_range(0..4);
        while !ended {
            for _ in 0..writes {
                let near = stored.range(random.random::<u16>()..).next();
                let key = near.map_or(7, |(key, _)| *key).saturating_add(random.random_range(0..2));
                match random.random_range(0..8) {
                    0 => savepoints.push((tx.savepoint(), map.clone())),
                    1 if !savepoints.is_empty() => {
                        savepoints.truncate(random.random_range(1..=savepoints.len()));
                        let (savepoint, copy) = &savepoints[savepoints.len() - 1];
                        tx.rollback_to(savepoint)?;
                        map.clone_from(copy);
                    }
                    2 | 3 => {
                        on.delete(key)?;
                        map.remove(&key);
                    }
                    _ => {
                        let value = random.random();
                        on.put(key, value)?;
                        map.insert(key, value);
                    }
                }
                written.insert(key);
                had.extend(map.get(&key).map(|value| (key, *value)));
            }
            for _ in 0..random.random_range(1..20) {
                let (entry, end) = match random.random() {
                    true => (range.next(), &mut front),
                    false => (range.next_back(), &mut back),
                };
                ended = entry.is_none();
                end.extend(entry.transpose()?);
            }
        }
        assert!(range.next().is_none() && range.next_back().is_none());
        front.extend(back.into_iter().rev());
        assert!(front.is_sorted_by(|(one, _), (other, _)| one < other), "{front:?}");
        for (key, value) in &front {
            assert!(bounds.contains(key), "{key} of {bounds:?}");
            let was = stored.get(key) == Some(value) || had.contains(&(*key, *value));
            assert!(was, "{key} had never {value}");
        }
        let shown: BTreeSet<u16> = front.iter().map(|(key, _)| *key).collect();
        for key in stored.keys().filter(|key| bounds.contains(key) && !written.contains(key)) {
            assert!(shown.contains(key), "{key} is left out");
        }
        assert_eq!(on.iter().collect::<Result<BTreeMap<_, _>>>()?, map);
        assert_eq!(on.iter().rev().collect::<Result<BTreeMap<_, _>>>()?, map);
        tx.commit()?;
        assert_eq!(tree.iter().collect::<Result<BTreeMap<_, _>>>()?, map);
    }
    Ok(())
}
