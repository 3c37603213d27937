//! What users write who know `BTreeMap` and other stores: each of these lines compiles, and does
//! what it does there.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::folder;
use everleaf::{CreateOptions, Error, Result, Store, Tree};
use uuid::Uuid;

fn store() -> (tempfile::TempDir, Store) {
    let folder = folder();
    let store = CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a.pool"));
    (folder, store.unwrap())
}

#[test]
fn keys_are_of_the_types_at_hand() -> Result<()> {
    let (_folder, store) = store();
    let by_uuid = store.typed_tree::<Uuid, String>("by uuid")?;
    let id = Uuid::new_v4();
    by_uuid.put(id, "ann")?;
    by_uuid.put(Uuid::nil(), String::from("nobody"))?;
    assert_eq!(by_uuid.get(id)?.as_deref(), Some("ann"));
    assert_eq!(by_uuid.keys().collect::<Result<Vec<_>>>()?, [Uuid::nil(), id]);

    let by_size: Tree<usize, isize> = store.typed_tree("by size")?;
    let words = ["a", "bc"];
    by_size.put(words.len(), -2)?;
    assert_eq!(by_size.first()?, Some((2, -2)));

    let events = store.typed_tree::<(SystemTime, usize), SystemTime>("events")?;
    let (before, now) = (UNIX_EPOCH - Duration::from_millis(1500), SystemTime::now());
    events.extend([((now, 1), before), ((before, 2), now), ((UNIX_EPOCH, 3), now)])?;
    let order = events.keys().collect::<Result<Vec<_>>>()?;
    assert_eq!(order, [(before, 2), (UNIX_EPOCH, 3), (now, 1)]);
    assert_eq!(events.range((UNIX_EPOCH, 0)..).count(), 2);
    assert_eq!(events.prefix((before,)).next().transpose()?, Some(((before, 2), now)));

    let mixed = store.typed_tree::<(String, u8, Uuid, char), ()>("mixed")?;
    mixed.put(("ann", 1, id, 'x'), ())?;
    assert_eq!(mixed.first()?.unwrap().0, ("ann".to_owned(), 1, id, 'x'));
    Ok(())
}

#[test]
fn values_are_optional_and_have_parts() -> Result<()> {
    let (_folder, store) = store();
    let nicknames = store.typed_tree::<String, Option<String>>("nicknames")?;
    nicknames.put("ann", Some("annie".to_owned()))?;
    nicknames.put("bob", None)?;
    assert_eq!(nicknames.get("ann")?, Some(Some("annie".to_owned())));
    assert_eq!((nicknames.get("bob")?, nicknames.get("eve")?), (Some(None), None));

    let people = store.typed_tree::<u64, (String, u8, Option<Uuid>)>("people")?;
    people.put(1, ("ann", 31, None))?;
    people.put(2, &("bob".to_owned(), 33, Some(Uuid::nil())))?;
    assert_eq!(people.get(1)?, Some(("ann".to_owned(), 31, None)));
    let names: Vec<String> = people.iter().map(|e| Ok(e?.1.0)).collect::<Result<_>>()?;
    assert_eq!(names, ["ann", "bob"]);

    let files = store.typed_tree::<String, Vec<u8>>("files")?;
    files.put("a", "text")?;
    files.put("b", b"bytes")?;
    files.put("c", [1, 2, 3])?;
    files.put("d", vec![1, 2, 3])?;
    assert_eq!(files.get("a")?.as_deref(), Some(&b"text"[..]));
    Ok(())
}

#[test]
fn typed_trees_have_prefixes() -> Result<()> {
    let (_folder, store) = store();
    let words = store.typed_tree::<String, u64>("words")?;
    words.put_many([("lead", 1), ("leaf", 2), ("leaflet", 3), ("tree", 4)])?;
    let count = |prefix: &str| words.prefix(prefix).map(Result::unwrap).count();
    assert_eq!((count("lea"), count("leaf"), count("x"), count("")), (3, 2, 0, 4));
    assert_eq!(words.prefix(String::from("leaf")).next_back().transpose()?.unwrap().1, 3);

    let paths = store.typed_tree::<(String, String, u64), ()>("paths")?;
    let keys = [("a", "b", 1), ("a", "bc", 2), ("ab", "b", 3)];
    paths.extend(keys.map(|key| (key, ())))?;
    assert_eq!(paths.prefix(("a",)).count(), 2);
    assert_eq!(paths.prefix(("a", "b")).count(), 1, "a whole part");
    let pairs = store.typed_tree::<(String, String), ()>("pairs")?;
    pairs.extend([(("a", "b"), ()), (("a", "bc"), ()), (("a", "c"), ())])?;
    assert_eq!(pairs.prefix(("a", "b")).count(), 2, "of the last part the beginning");
    assert_eq!(pairs.view().prefix(("a",)).count(), 3);
    let hashes = store.typed_tree::<[u8; 4], ()>("hashes")?;
    hashes.put([1, 2, 3, 4], ())?;
    assert_eq!(hashes.prefix([1, 2]).count(), 1);

    store.transaction(|tx| {
        assert_eq!(tx.on(&words)?.prefix("leaf").count(), 2);
        assert_eq!(tx.on(&pairs)?.prefix(("a",)).count(), 3);
        Ok(())
    })
}

#[test]
fn a_transaction_has_the_calls_of_a_map() -> Result<()> {
    let (_folder, store) = store();
    let ages = store.typed_tree::<String, u8>("ages")?;
    store.put("1", "one")?;
    store.transaction(|tx| {
        assert_eq!(tx.insert("1", "eins")?, Some(b"one".to_vec()));
        assert!(tx.replace("1", "one")? && !tx.replace("9", "nine")?);
        tx.put("2", "two")?.put("3", "three")?.delete("4")?;
        assert_eq!(tx.first()?.unwrap().0, "1");
        assert_eq!(tx.last()?.unwrap().0, "3");
        assert_eq!(tx.iter().count(), 3);
        tx.update("2", |old| old.map(|text| [text, b"!"].concat()))?;
        assert!(tx.compare_and_swap("2", Some(b"two!"), None)?);
        assert!(!tx.compare_and_swap("2", Some(b"two!"), Some(b""))?);
        assert_eq!(tx.pop_last()?, Some(("3".into(), b"three".to_vec())));
        Ok(())
    })?;
    assert_eq!(store.iter().map(|e| e.unwrap().0).collect::<Vec<_>>(), ["1"]);

    let oldest = store.transaction(|tx| {
        let ages = tx.on(&ages)?;
        ages.put("ann", 31)?.put("bob", 33)?.put("eve", 29)?;
        assert_eq!(ages.insert("eve", 30)?, Some(29));
        assert_eq!(ages.update("ann", |age| age.map(|age| age + 1))?, Some(32));
        assert!(ages.compare_and_swap("ann", Some(&32), Some(&31))?);
        let found: Vec<_> = ages.range("b"..).collect::<Result<_>>()?;
        assert_eq!(found, [("bob".to_owned(), 33), ("eve".to_owned(), 30)]);
        assert_eq!((ages.remove("eve")?, ages.remove("eve")?), (Some(30), None));
        assert_eq!(ages.pop_first()?, Some(("ann".to_owned(), 31)));
        ages.last()
    })?;
    assert_eq!(oldest, Some(("bob".to_owned(), 33)));
    assert_eq!(ages.iter().collect::<Result<Vec<_>>>()?, [("bob".to_owned(), 33)]);

    // What is stored as another type is an error, and changes nothing.
    store.tree("ages")?.put("ann", "thirty-one")?;
    let wrong = store.transaction(|tx| tx.on(&ages)?.insert("ann", 31));
    assert!(matches!(wrong, Err(Error::WrongType { .. })), "{wrong:?}");
    Ok(())
}

#[test]
fn a_batch_has_the_calls_of_a_map() -> Result<()> {
    let (_folder, store) = store();
    let ages = store.typed_tree::<String, u8>("ages")?;
    let mut batch = store.batch();
    batch.insert("a", "1")?.insert("b", "2")?.remove("a")?.extend([("c", "3")])?;
    batch.on(&ages)?.insert("ann", 31)?.remove("bob")?.extend([("eve", 29)])?;
    assert_eq!(batch.len(), 7);
    assert_eq!(batch.commit()?, [true, true, true, true, true, false, true]);
    assert_eq!((store.len()?, ages.len()?), (2, 2));
    Ok(())
}

#[test]
fn an_entry_is_read_and_written_in_one_step() -> Result<()> {
    let (_folder, store) = store();
    let counts = store.typed_tree::<String, u64>("counts")?;
    let key = String::from("visits");
    assert_eq!(counts.entry(&key).key(), &&key);
    assert_eq!(counts.entry(&key).or_insert(5)?, 5);
    assert_eq!(counts.entry(&key).or_insert(7)?, 5);
    let mut seen = 0;
    let doubled = counts.entry(&key).and_modify(|count| *count *= 2).and_modify(|n| seen = *n);
    assert_eq!(doubled.or_default()?, 10);
    assert_eq!(seen, 10);
    assert_eq!(counts.entry("a").and_modify(|n| *n += 1).or_insert_with(|| 1)?, 1);
    assert_eq!(counts.entry("abc").or_insert_with_key(|key| key.len() as u64)?, 3);
    assert_eq!(counts.entry("abc").and_modify(|n| *n += 1).remove()?, Some(4));
    assert_eq!((counts.entry("abc").remove()?, counts.len()?), (None, 2));

    // An entry keeps its expiry, whether it is changed or not.
    counts.put_for("brief", 1, Duration::from_secs(100))?;
    counts.entry("brief").or_insert(2)?;
    let expiry = counts.expiry("brief")?;
    assert!(expiry.unwrap().is_some());
    counts.entry("brief").and_modify(|n| *n += 1).or_insert(2)?;
    assert_eq!((counts.get("brief")?, counts.expiry("brief")?), (Some(2), expiry));

    // Closures may call the store, and what they write to the key is not overwritten unseen.
    let made = counts.entry("raced").or_insert_with(|| {
        counts.put("raced", 1).unwrap();
        2
    })?;
    assert_eq!((made, counts.get("raced")?), (1, Some(1)));
    let mut runs = 0;
    let raced = counts.entry("raced").and_modify(|count| {
        runs += 1;
        if runs == 1 {
            counts.put("raced", 10).unwrap();
        }
        *count += 1;
    });
    assert_eq!(raced.or_insert(0)?, 11);
    assert_eq!((runs, counts.get("raced")?), (2, Some(11)));

    assert_eq!(store.entry("name").or_insert("ann")?, b"ann");
    let name = store.entry("name").and_modify(|name| name.push(b'e')).or_insert(b"")?;
    assert_eq!(name, b"anne");
    store.tree("counts")?.put("text", "no number")?;
    let wrong = counts.entry("text").or_insert(1);
    assert!(matches!(wrong, Err(Error::WrongType { .. })), "{wrong:?}");
    Ok(())
}

#[test]
fn what_comes_from_an_iterator_is_stored_by_batches() -> Result<()> {
    let (_folder, store) = store();
    let squares = store.typed_tree::<u64, u64>("squares")?;
    squares.extend((0..3000).map(|n| (n, n * n)))?;
    assert_eq!((squares.len()?, squares.get(2999)?), (3000, Some(2999 * 2999)));
    let map: BTreeMap<String, Vec<u8>> =
        [("a".to_owned(), vec![1]), ("b".to_owned(), vec![2])].into();
    store.extend(&map)?;
    let again: BTreeMap<String, Vec<u8>> = store
        .iter()
        .map(|entry| entry.and_then(|(key, value)| Ok((key.try_into()?, value))))
        .collect::<Result<_>>()?;
    assert_eq!(again, map);
    store.extend(std::iter::empty::<(&str, &str)>())?;

    // A refused entry leaves whole batches of those before it.
    let long = vec![b'x'; (1 << 16) + 1];
    let keys = (0..1500).map(|n| n.to_string().into_bytes()).chain([long]);
    let tree = store.tree("numbers")?;
    assert!(tree.extend(keys.map(|key| (key, ""))).is_err());
    assert_eq!(tree.len()?, 1024);
    Ok(())
}
