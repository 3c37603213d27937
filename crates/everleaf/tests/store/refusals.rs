//! Every call refuses what it cannot do with an error that a program can match on, and leaves the
//! store as it was: keys of the other kind, keys and values that are too long, writes to a store
//! that was opened to read, anything on a store that is closed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use crate::common::{folder, tiny};
use everleaf::{
    Error, IndexError, KeyType, MAX_KEY_BYTES, MAX_VALUE_BYTES, OwnedKey, PoolError, Scan, Store,
    Tree, View,
};

/// A call by its name, and what came of it.
type Outcomes = Vec<(&'static str, Result<(), Error>)>;

/// Every call that takes a key and a value.
fn writes(tree: &Tree, key: &OwnedKey, value: &[u8]) -> Outcomes {
    let mut batch = tree.batch();
    let (soon, second) = (SystemTime::now() + Duration::from_secs(60), Duration::from_secs(1));
    vec![
        ("put", tree.put(key, value).map(drop)),
        ("put_until", tree.put_until(key, value, soon).map(drop)),
        ("put_for", tree.put_for(key, value, second).map(drop)),
        ("insert", tree.insert(key, value).map(drop)),
        ("put_if_absent", tree.put_if_absent(key, value).map(drop)),
        ("replace", tree.replace(key, value).map(drop)),
        ("compare_and_swap", tree.compare_and_swap(key, None, Some(value)).map(drop)),
        ("put_many", tree.put_many([(key, value)])),
        (
            "batch put",
            batch
                .put(key, value)
                .map(drop)
                .and_then(|()| std::mem::replace(&mut batch, tree.batch()).commit().map(drop)),
        ),
        (
            "batch put_if_absent",
            batch
                .put_if_absent(key, value)
                .map(drop)
                .and_then(|()| std::mem::replace(&mut batch, tree.batch()).commit().map(drop)),
        ),
        (
            "batch replace",
            batch.replace(key, value).map(drop).and_then(|()| batch.commit().map(drop)),
        ),
    ]
}

/// Every other call that takes a key: those that remove, and those that read.
fn removals_and_reads(tree: &Tree, key: &OwnedKey) -> (Outcomes, Outcomes) {
    let mut batch = tree.batch();
    let removals = vec![
        ("delete", tree.delete(key).map(drop)),
        ("remove", tree.remove(key).map(drop)),
        ("update", tree.update(key, |_| None::<Vec<u8>>).map(drop)),
        ("compare_and_swap to none", tree.compare_and_swap(key, Some(b"value"), None).map(drop)),
        ("batch delete", batch.delete(key).map(drop).and_then(|()| batch.commit().map(drop))),
    ];
    (removals, reads(&tree.view(), key))
}

fn reads(view: &View, key: &OwnedKey) -> Outcomes {
    vec![
        ("get", view.get(key).map(drop)),
        ("get_with", view.get_with(key, <[u8]>::len).map(drop)),
        ("get_many", view.get_many([key]).map(drop)),
        ("prefetch", view.prefetch([key])),
        ("contains_key", view.contains_key(key).map(drop)),
        ("expiry", view.expiry(key).map(drop)),
    ]
}

/// Calls whose keys are bounds: they may be longer than any key.
fn ranges(tree: &Tree, key: &OwnedKey) -> Outcomes {
    let from = || Scan::all().starting_at(key.clone());
    vec![
        ("scan", tree.scan(from()).next().transpose().map(drop)),
        ("range", tree.range(key.clone()..).next().transpose().map(drop)),
        ("scan_with", tree.scan_with(from(), |_, _| ControlFlow::Continue(()))),
        ("count_in", tree.count_in(from()).map(drop)),
        ("delete_range", tree.delete_range(key.clone()..).map(drop)),
        ("delete_in", tree.delete_in(from()).map(drop)),
    ]
}

fn all_are(outcomes: Outcomes, what: &str, is: impl Fn(&Error) -> bool) {
    for (call, outcome) in outcomes {
        match outcome {
            Err(error) if is(&error) => assert!(!error.to_string().is_empty()),
            other => panic!("{call} with {what}: {other:?}"),
        }
    }
}

fn content(store: &Store) -> BTreeMap<OwnedKey, Vec<u8>> {
    store.iter().collect::<Result<_, _>>().unwrap()
}

/// Keys of the other kind, long keys, long values: for the store itself and for a tree in it.
fn refuses_wrong_keys_and_sizes(store: &Store, tree: &Tree, present: &OwnedKey) {
    let (before, of_tree) = (content(store), tree.len().unwrap());
    let other =
        if tree.key_type() == KeyType::Bytes { OwnedKey::U64(7) } else { OwnedKey::from("seven") };
    let kind = tree.key_type();
    let is_other =
        |error: &Error| matches!(error, Error::WrongKeyType { expected } if *expected == kind);
    let (removals, reads) = removals_and_reads(tree, &other);
    let calls = [writes(tree, &other, b"value"), removals, reads, ranges(tree, &other)];
    calls.into_iter().for_each(|outcomes| all_are(outcomes, "a key of the other kind", is_other));
    if tree.key_type() == KeyType::Bytes {
        let long = OwnedKey::from(vec![b'k'; MAX_KEY_BYTES + 1]);
        let is_long = |error: &Error| matches!(error, Error::Index(IndexError::KeyTooLong { .. }));
        let (removals, reads) = removals_and_reads(tree, &long);
        let calls = [writes(tree, &long, b"value"), removals, reads];
        calls.into_iter().for_each(|outcomes| all_are(outcomes, "a long key", is_long));
        // A bound is not a key: nothing lies behind this one.
        for (call, outcome) in ranges(tree, &OwnedKey::from(vec![0xff; MAX_KEY_BYTES + 9])) {
            outcome.unwrap_or_else(|error| panic!("{call}: {error}"));
        }
    }
    let value = vec![0; MAX_VALUE_BYTES as usize + 1]; // Never touched, so never in memory.
    all_are(writes(tree, present, &value), "a long value", |error| {
        matches!(error, Error::ValueTooLong { .. })
    });
    assert!(
        content(store) == before && tree.len().unwrap() == of_tree,
        "what was refused changed something"
    );
    assert!(store.check().unwrap().ok, "what was refused left something");
}

#[test]
fn every_call_refuses_wrong_keys_and_sizes() {
    let folder = folder();
    for key_type in [KeyType::Bytes, KeyType::U64] {
        let store =
            tiny(key_type).create(folder.path().join(format!("{key_type:?}.pool"))).unwrap();
        let present =
            if key_type == KeyType::Bytes { OwnedKey::from("key") } else { OwnedKey::U64(1) };
        store.put(&present, b"value").unwrap();
        refuses_wrong_keys_and_sizes(&store, store.default_tree(), &present);
        if key_type == KeyType::U64 {
            assert!(
                matches!(store.tree("a"), Err(Error::NoTrees))
                    && store.existing_tree("a").unwrap().is_none()
            );
            continue;
        }
        for of_tree in [KeyType::Bytes, KeyType::U64] {
            let tree = store.tree_with(format!("{of_tree:?}"), of_tree).unwrap();
            let present =
                if of_tree == KeyType::Bytes { OwnedKey::from("key") } else { OwnedKey::U64(1) };
            tree.put(&present, b"value").unwrap();
            refuses_wrong_keys_and_sizes(&store, &tree, &present);
        }
        let long = vec![b't'; MAX_KEY_BYTES];
        assert!(matches!(store.tree(&long), Err(Error::Index(IndexError::KeyTooLong { .. }))));
        assert!(matches!(store.tree_with("Bytes", KeyType::U64), Err(Error::WrongKeyType { .. })));
        let other = tiny(KeyType::Bytes).create(folder.path().join("other.pool")).unwrap();
        assert!(matches!(store.batch().on(&other.tree("Bytes").unwrap()), Err(Error::OtherStore)));
    }
}

/// Every call that changes a store as a whole.
fn changes_of_the_whole(store: &Store) -> Outcomes {
    vec![
        ("pop_first", store.pop_first().map(drop)),
        ("pop_last", store.pop_last().map(drop)),
        ("tree, new", store.tree("new").map(drop)),
        ("drop_tree", store.drop_tree("there").map(drop)),
        ("remove_expired", store.remove_expired().map(drop)),
        ("restore", store.restore_with(&mut &b""[..], |_| ControlFlow::Continue(())).map(drop)),
    ]
}

#[test]
fn a_store_that_was_opened_to_read_refuses_every_write_and_reads() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = tiny(KeyType::Bytes).create(&path).unwrap();
    store.put("key", b"value").unwrap();
    store.tree("there").unwrap().put("key", b"of the tree").unwrap();
    store.close().unwrap();
    let file = std::fs::read(&path).unwrap();
    let store = crate::common::open_read_only(&path).unwrap();
    let before = content(&store);
    let key = OwnedKey::from("key");
    let (removals, reads) = removals_and_reads(store.default_tree(), &key);
    let deletions = ranges(store.default_tree(), &key).split_off(4);
    for outcomes in [
        writes(store.default_tree(), &key, b"new"),
        removals,
        deletions,
        changes_of_the_whole(&store),
    ] {
        all_are(outcomes, "a store opened to read", |error| {
            matches!(error, Error::ReadOnly | Error::NoSuchTree { .. })
        });
    }
    for (call, outcome) in reads.into_iter().chain(ranges(store.default_tree(), &key).drain(..4)) {
        outcome.unwrap_or_else(|error| panic!("{call}: {error}"));
    }
    assert_eq!(store.snapshot().unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(
        store.tree("there").unwrap().get("key").unwrap().as_deref(),
        Some(&b"of the tree"[..])
    );
    assert!(content(&store) == before);
    drop(store);
    assert!(std::fs::read(&path).unwrap() == file, "the file was written");
}

#[test]
fn a_closed_store_refuses_everything() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = tiny(KeyType::Bytes).create(&path).unwrap();
    let tree = store.tree("there").unwrap();
    tree.put("key", b"value").unwrap();
    let snapshot = store.snapshot().unwrap();
    store.close().unwrap();
    let key = OwnedKey::from("key");
    let (removals, reads_of_tree) = removals_and_reads(&tree, &key);
    for outcomes in [
        writes(&tree, &key, b"new"),
        removals,
        reads_of_tree,
        ranges(&tree, &key),
        reads(&snapshot.view(), &key),
    ] {
        all_are(outcomes, "a closed store", |error| matches!(error, Error::Closed));
    }
    assert!(matches!(tree.first(), Err(Error::Closed)) && matches!(tree.len(), Err(Error::Closed)));
    let store = crate::common::open(&path).unwrap();
    assert_eq!(store.tree("there").unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_pool_that_is_locked_damaged_foreign_or_missing_is_refused_by_every_way_to_open_it() {
    let folder = folder();
    let on = &mut |_: &everleaf::Progress| ControlFlow::Continue(());
    let path = |name: &str| folder.path().join(name);
    let store = tiny(KeyType::Bytes).create(path("locked.pool")).unwrap();
    store.put("key", b"value").unwrap();
    std::fs::write(path("foreign.pool"), "no pool, but long enough to be looked at".repeat(1000))
        .unwrap();
    std::fs::write(path("empty.pool"), "").unwrap();
    std::fs::create_dir(path("folder.pool")).unwrap();
    for name in ["locked.pool", "foreign.pool", "empty.pool", "folder.pool", "missing.pool"] {
        let is_right = |error: &Error| match name {
            "locked.pool" => matches!(error, Error::Pool(PoolError::Locked { .. })),
            "missing.pool" => matches!(error, Error::Pool(PoolError::Missing { .. })),
            _ => matches!(
                error,
                Error::Pool(PoolError::NotAPool { .. } | PoolError::NotAFile { .. })
            ),
        };
        let outcomes = vec![
            ("open", crate::common::open(path(name)).map(drop)),
            ("open_read_only", crate::common::open_read_only(path(name)).map(drop)),
            (
                "salvage",
                everleaf::salvage_with(path(name), path("rescued.pool"), &mut *on).map(drop),
            ),
        ];
        all_are(outcomes, name, is_right);
        assert!(!path("rescued.pool").exists(), "{name}");
    }
    // What exists is never overwritten.
    let exists = |error: &Error| matches!(error, Error::Pool(PoolError::Exists { .. }));
    let outcomes = vec![
        ("create", Store::create(path("foreign.pool")).map(drop)),
        ("copy", store.copy_with(path("foreign.pool"), &mut *on).map(drop)),
    ];
    all_are(outcomes, "a file that exists", exists);
    assert!(std::fs::read(path("foreign.pool")).unwrap().starts_with(b"no pool"));
    assert_eq!(store.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_closure_that_is_shown_something_cannot_call_its_store() {
    let folder = folder();
    let store_at = |name: &str| tiny(KeyType::Bytes).create(folder.path().join(name)).unwrap();
    let (store, other) = (store_at("a.pool"), store_at("other.pool"));
    store.put("key", b"value").unwrap();
    store.tree("there").unwrap().put("key", b"of the tree").unwrap();
    let (key, before) = (OwnedKey::from("key"), content(&store));
    let call_everything = || {
        let (removals, reads) = removals_and_reads(store.default_tree(), &key);
        let whole = vec![
            ("check", store.check().map(drop)),
            ("statistics", store.statistics().map(drop)),
            ("sync", store.sync()),
            ("snapshot", store.snapshot().map(drop)),
            ("len", store.len().map(drop)),
            ("existing_tree", store.existing_tree("there").map(drop)),
            ("sweep_every", store.sweep_every(Some(Duration::from_secs(1)))),
            ("close", store.clone().close()),
        ];
        let scans = ranges(store.default_tree(), &key);
        let changes = changes_of_the_whole(&store);
        for outcomes in
            [writes(store.default_tree(), &key, b"new"), removals, reads, scans, whole, changes]
        {
            all_are(outcomes, "a closure", |error| matches!(error, Error::WithinClosure));
        }
        other.put("of another store", b"value").unwrap();
    };
    assert!(store.get_with("key", |_| call_everything()).unwrap().is_some());
    let mut shown = 0;
    let visit = |_: everleaf::Key<'_>, _: &[u8]| {
        shown += 1;
        call_everything();
        ControlFlow::Continue(())
    };
    store.scan_with(Scan::all(), visit).unwrap();
    let mut watched = 0;
    let watch = |_: &everleaf::Progress| {
        watched += 1;
        call_everything();
        ControlFlow::Continue(())
    };
    assert!(store.check_with(watch).unwrap().ok);
    // Nor in a closure of another store, within its own.
    let nested = store.get_with("key", |_| {
        other.get_with("of another store", |_| {
            assert!(matches!(store.put("key", b"new"), Err(Error::WithinClosure)));
            assert!(matches!(other.put("key", b"new"), Err(Error::WithinClosure)));
        })
    });
    assert!(nested.unwrap().unwrap().unwrap().is_some());
    assert_eq!((shown, other.len().unwrap()), (1, 1));
    assert!(watched > 0);
    // A closure that panics has ended too; so has one of another store.
    let panics = || store.get_with("key", |_| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    store
        .get_with("key", |_| other.get_with("of another store", |_| ()))
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(content(&store) == before && store.check().unwrap().ok);
    store.put("key", b"new").unwrap();
    // A snapshot shows copies: nothing is held.
    let shown = store.snapshot().unwrap().get_with("key", |_| store.put("key", b"newer"));
    assert!(shown.unwrap().unwrap().unwrap());
}

#[test]
fn a_store_that_is_dropped_in_its_own_closure_is_closed_when_that_has_ended() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = tiny(KeyType::Bytes).create(&path).unwrap();
    store.put("key", b"value").unwrap();
    store.sweep_every(Some(Duration::from_millis(1))).unwrap();
    let tree = store.default_tree().clone();
    tree.get_with("key", move |_| drop(store)).unwrap().unwrap();
    let opened = (0..10_000).find_map(|_| match crate::common::open(&path) {
        Err(Error::Pool(PoolError::Locked { .. })) => {
            std::thread::sleep(Duration::from_millis(1));
            None
        }
        opened => Some(opened.unwrap()),
    });
    let store = opened.expect("the pool is locked for ten seconds");
    assert_eq!(store.statistics().unwrap().shutdown, everleaf::Shutdown::Clean);
    assert!(matches!(tree.get("key"), Err(Error::Closed)));
}
