//! What is written on the first day with a store: each of these lines compiles, and does what it
//! does elsewhere.

use std::ops::ControlFlow;

use crate::common::folder;
use everleaf::{CreateOptions, Error, Key, KeyType, OwnedKey, Result, Store, Tree};

fn store(folder: &tempfile::TempDir) -> Store {
    CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a.pool")).unwrap()
}

#[test]
fn keys_and_values_are_what_is_at_hand() {
    let folder = folder();
    let store = store(&folder);
    let boxed: Box<[u8]> = Box::from(*b"boxed");
    store.put("key", "value").unwrap();
    store.put(7u32.to_be_bytes(), "array").unwrap();
    store.put(String::from("owned"), String::from("owned")).unwrap();
    store.put(&boxed, &boxed).unwrap();
    store.put(boxed.clone(), vec![1, 2, 3]).unwrap();
    store.put(vec![1u8], [1u8]).unwrap();
    for key in ["a", "b"].iter() {
        store.put(key, key).unwrap();
    }
    let some = |value: &str| Some(value.as_bytes().to_vec());
    assert_eq!(store.get_many(["a", "b"]).unwrap(), [some("a"), some("b")]);
    assert_eq!(store.get_many(["a".to_string()]).unwrap(), [some("a")]);
    let numbers = store.tree_with("numbers", KeyType::U64).unwrap();
    numbers.put(1, "one").unwrap();
    assert_eq!(numbers.get_many([1u64]).unwrap(), [some("one")]);
    assert_eq!(numbers.get_many([1, 2]).unwrap(), [some("one"), None]);
    assert_eq!(store.tree("numbers").unwrap().key_type(), KeyType::U64, "the tree's own kind");
}

#[test]
fn ranges_are_what_is_at_hand() {
    let folder = folder();
    let store = store(&folder);
    store.put_many([("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
    let count = |range: everleaf::Range<'_>| range.map(Result::unwrap).count();
    let (from, to) = (String::from("a"), String::from("c"));
    let (first, last) = (b"a".to_vec(), b"b".to_vec());
    assert_eq!(count(store.range(..)), 3);
    assert_eq!(count(store.range(b"a"..b"b")), 1);
    assert_eq!(count(store.range(&from..&to)), 2);
    assert_eq!(count(store.range(&first..=&last)), 2);
    assert_eq!(count(store.range(from.clone()..)), 3);
    assert_eq!(count(store.range(..="b")), 2);
    assert_eq!(count((&store).into_iter()), 3);
    assert_eq!(store.keys().rev().collect::<Result<Vec<_>>>().unwrap(), ["c", "b", "a"]);
    assert_eq!(store.delete_range(..).unwrap(), 3);
    assert!(store.is_empty().unwrap());
}

#[test]
fn keys_that_come_out_show_compare_and_convert() {
    let folder = folder();
    let store = store(&folder);
    store.put("ann", "1").unwrap();
    let (key, value) = store.first().unwrap().unwrap();
    assert_eq!(key.as_bytes(), Some(&b"ann"[..]));
    assert!(key == "ann" && key == *b"ann" && value == b"1");
    assert_eq!(format!("{key}"), "ann");
    assert_eq!(format!("{:?}", store.keys().next().unwrap().unwrap()), "\"ann\"");
    assert!(matches!(u64::try_from(&key), Err(Error::WrongKeyType { .. })));
    assert_eq!(u64::try_from(OwnedKey::from(7)).unwrap(), 7);
    assert_eq!(String::try_from(key).unwrap(), "ann");
    assert_eq!(Key::from("ann"), "ann");
}

#[test]
fn whole_stores_are_copied_without_a_callback_or_with_a_plain_one() {
    let folder = folder();
    let store = store(&folder);
    store.put("key", "value").unwrap();
    store.copy(folder.path().join("b.pool")).unwrap();
    let mut steps = 0;
    store
        .copy_with(folder.path().join("c.pool"), |_| {
            steps += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(steps, 1);
}

#[test]
fn writes_mean_what_they_mean_elsewhere() {
    let folder = folder();
    let store = store(&folder);
    let mut batch = store.batch();
    batch.put("a", "1").unwrap().put("b", "2").unwrap().delete("c").unwrap();
    batch.commit().unwrap();
    assert_eq!(store.insert("a", "3").unwrap(), Some(b"1".to_vec()), "it overwrites");
    assert!(!store.put_if_absent("a", "4").unwrap() && !store.replace("c", "4").unwrap());
    assert_eq!(store.update("a", |old| old.map(<[u8]>::to_vec)).unwrap(), Some(b"3".to_vec()));
    assert_eq!(store.update("a", |_| None::<Vec<u8>>).unwrap(), None);
    assert!(!store.contains_key("a").unwrap());
    assert_eq!(store.retain(|key, _| key != "b").unwrap(), 1);
    store.put("d", "").unwrap();
    assert_eq!((store.clear().unwrap(), store.len().unwrap()), (1, 0));
}

#[test]
fn a_store_is_cloned_into_threads_and_closes_with_the_last_clone() {
    fn is_shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    let folder = folder();
    let store = store(&folder);
    is_shared(&store);
    is_shared(&store.tree("tree").unwrap());
    let tree: Tree<String, u64> = store.typed_tree("counts").unwrap();
    is_shared(&tree);
    let threads = (0..2).map(|_| {
        let (store, tree) = (store.clone(), tree.clone());
        std::thread::spawn(move || {
            for _ in 0..100 {
                tree.update("count", |count| Some(count.unwrap_or(0) + 1)).unwrap();
            }
            store.put("done", "").unwrap();
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(tree.get("count").unwrap(), Some(200), "no update is lost");
    let clone = store.clone();
    drop(store);
    assert!(clone.contains_key("done").unwrap());
    drop(clone);
    assert!(matches!(tree.get("count"), Err(Error::Closed)));
    assert_eq!(Store::open_or_create(folder.path().join("a.pool")).unwrap().len().unwrap(), 1);
}

#[test]
fn a_range_seeks_and_peeks_in_both_directions() {
    let folder = folder();
    let store = store(&folder);
    let numbers = store.tree_with("numbers", KeyType::U64).unwrap();
    numbers.put_many((0..1000u64).map(|n| (n * 2, ""))).unwrap();
    let mut range = numbers.iter();
    for wanted in [0u64, 1, 7, 255, 257, 999, 1500] {
        range.seek(wanted).unwrap();
        let found = wanted.next_multiple_of(2);
        assert_eq!(range.peek().unwrap().unwrap().0, found);
        assert_eq!(range.next().unwrap().unwrap().0, found);
    }
    assert_eq!(range.next_back().unwrap().unwrap().0, 1998);
    range.seek(1996u64).unwrap();
    assert_eq!(range.next().unwrap().unwrap().0, 1996);
    assert!(range.next().is_none() && range.peek().unwrap().is_none());
    let mut down = numbers.scan(everleaf::Scan::all().backward());
    for wanted in [1997u64, 1501, 3] {
        down.seek(wanted).unwrap();
        assert_eq!(down.next().unwrap().unwrap().0, wanted - 1);
    }
    assert!(down.seek("text").is_err());
}

#[test]
fn what_is_stored_as_another_type_is_an_error() {
    let folder = folder();
    let store = store(&folder);
    store.tree("ages").unwrap().put("ann", "thirty-one").unwrap();
    let ages = store.typed_tree::<String, u32>("ages").unwrap();
    assert!(matches!(ages.get("ann"), Err(Error::WrongType { .. })));
    assert!(matches!(ages.iter().next(), Some(Err(Error::WrongType { .. }))));
    assert!(matches!(ages.update("ann", |age| age), Err(Error::WrongType { .. })));
    assert_eq!(ages.len().unwrap(), 1, "and it stays");
    let refused = store.typed_tree::<u64, u32>("ages").unwrap_err();
    assert!(matches!(refused, Error::WrongKeyType { expected: KeyType::Bytes }), "{refused}");
}

#[test]
fn trees_with_types_take_what_is_at_hand() {
    #[derive(Debug)]
    struct Iterators<'s> {
        _entries: everleaf::TypedRange<'s, Vec<u8>, String>,
        _keys: everleaf::TypedKeys<'s, Vec<u8>>,
        _batch: everleaf::Batch,
    }
    let folder = folder();
    let store = store(&folder);
    let tree = store.typed_tree::<Vec<u8>, String>("bytes").unwrap();
    tree.put(b"array", "value").unwrap();
    tree.put(b"slice".as_slice(), "value").unwrap();
    assert!(tree.contains_key(b"array").unwrap());
    let snapshot = store.snapshot().unwrap();
    let mut keys = Vec::new();
    for entry in &snapshot.of(&tree).unwrap() {
        keys.push(entry.unwrap().0);
    }
    assert_eq!(keys, [b"array", b"slice"]);
    let iterators = Iterators { _entries: tree.iter(), _keys: tree.keys(), _batch: store.batch() };
    assert!(format!("{iterators:?}").contains("Forward"));
    let words = store.tree("words").unwrap();
    words.put_many([("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
    assert_eq!(words.count_in("a".."c").unwrap(), 2);
    assert_eq!(words.keys_in("b"..).count(), 2);
    assert_eq!(words.delete_in(..="a").unwrap(), 1);
}
