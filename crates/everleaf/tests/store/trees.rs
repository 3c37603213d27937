//! Named trees that met damage, or an error, halfway.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{folder, tiny};
use everleaf::{CreateOptions, Error, KeyType, Store, salvage, salvage_with};

/// A store with two trees, each of whose values says where it is.
fn filled(path: &Path) {
    let store = CreateOptions::new().size_bytes(1 << 20).create(path).unwrap();
    for name in ["herbs", "trees"] {
        let tree = store.tree(name).unwrap();
        for n in 0..300 {
            tree.put(format!("{n:03}"), format!("{name}, number {n}").as_bytes()).unwrap();
        }
    }
    store.put("own", b"of the store").unwrap();
    store.close().unwrap();
}

/// Changes the last byte wherever these ones stand; where that is.
fn harm(path: &Path, bytes: &[u8]) -> Vec<u64> {
    let pool = std::fs::read(path).unwrap();
    let found = pool.windows(bytes.len()).enumerate().filter(|(_, found)| *found == bytes);
    let places: Vec<u64> = found.map(|(at, _)| (at + bytes.len() - 1) as u64).collect();
    assert!(!places.is_empty());
    flip(path, &places);
    places
}

/// Changes these bytes, or changes them back, also under a store that is open: it sees the pages of
/// the file.
fn flip(path: &Path, places: &[u64]) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    for at in places {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x20], *at).unwrap();
    }
}

#[test]
fn a_drop_that_meets_damage_does_not_keep_the_store_from_being_opened() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    filled(&path);
    harm(&path, b"herbs, number 200");
    let store = crate::common::open(&path).unwrap();
    assert!(store.drop_tree("herbs").unwrap_err().is_corruption());
    assert!(
        store.existing_tree("herbs").unwrap().is_none(),
        "from the first moment on it is not there"
    );
    drop(store);
    let store = crate::common::open(&path).unwrap();
    assert_eq!(store.tree_names().unwrap(), [b"trees"]);
    assert_eq!((store.len().unwrap(), store.tree("trees").unwrap().len().unwrap()), (1, 300));
    assert!(
        store.tree("herbs").is_err_and(|error| error.is_corruption()),
        "its name is free when it is gone"
    );
    // A caller that removes what is damaged by its key can drop the rest.
    assert!(store.drop_tree("herbs").is_err());
}

#[test]
fn a_tree_whose_drop_was_cut_is_made_anew_and_what_is_put_into_it_stays() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    filled(&path);
    let harmed = harm(&path, b"herbs, number 200");
    let store = crate::common::open(&path).unwrap();
    assert!(store.drop_tree("herbs").unwrap_err().is_corruption());
    flip(&path, &harmed);
    let herbs = store.tree_with("herbs", KeyType::U64).unwrap();
    assert!(herbs.is_empty().unwrap());
    herbs.put(7, b"new").unwrap();
    store.close().unwrap();
    let store = crate::common::open(&path).unwrap();
    assert_eq!(
        store.tree_with("herbs", KeyType::U64).unwrap().get(7).unwrap().as_deref(),
        Some(&b"new"[..])
    );
}

#[test]
fn a_tree_whose_name_is_lost_is_salvaged_under_another() {
    let folder = folder();
    let (path, new) = (folder.path().join("a.pool"), folder.path().join("new.pool"));
    filled(&path);
    // The catalog's entry of the first tree: head, key, number 0, byte-string keys, not being
    // dropped.
    harm(&path, b"V\xff\x02herbs\0\0\x01\0");
    assert!(
        crate::common::open(&path).unwrap().tree("herbs").is_err_and(|error| error.is_corruption())
    );
    let salvaged = salvage(&path, &new).unwrap();
    assert!(
        salvaged.complaints.iter().any(|complaint| complaint.contains("salvaged-0")),
        "{salvaged:?}"
    );
    let store = crate::common::open(&new).unwrap();
    assert_eq!(store.tree_names().unwrap(), [&b"salvaged-0"[..], b"trees"]);
    assert_eq!(store.tree("herbs").unwrap().len().unwrap(), 0, "a new tree is empty");
    let rescued = store.tree("salvaged-0").unwrap();
    assert_eq!(
        [&rescued, &store.tree("trees").unwrap(), store.default_tree()]
            .map(|tree| tree.len().unwrap()),
        [300, 300, 1]
    );
    assert_eq!(rescued.get("007").unwrap().as_deref(), Some(&b"herbs, number 7"[..]));
    assert!(store.check().unwrap().ok);
    // Once more: the name that would be given is taken.
    store.close().unwrap();
    let again = folder.path().join("again.pool");
    harm(&new, b"V\xff\x02trees\x01\0\x01\0");
    salvage(&new, &again).unwrap();
    let names = crate::common::open(&again).unwrap().tree_names().unwrap();
    assert_eq!(names, [&b"herbs"[..], b"salvaged-0", b"salvaged-1"]);
}

#[test]
fn long_values_are_salvaged_a_few_at_a_time() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = CreateOptions::new().size_bytes(1 << 20).create(&path).unwrap();
    for n in 0..20u64 {
        store.put(n.to_be_bytes(), vec![n as u8; 1 << 20]).unwrap();
    }
    store.close().unwrap();
    let mut steps = 0;
    salvage_with(&path, folder.path().join("new.pool"), |_| {
        steps += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(steps >= 20, "{steps} steps for 20 MiB");
}

#[test]
fn long_work_can_be_watched_and_stopped() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    filled(&path);
    let store = crate::common::open(&path).unwrap();
    let mut seen = Vec::new();
    let outcome = store.check_with(|progress| {
        seen.push((progress.entries, progress.of_entries));
        ControlFlow::Continue(())
    });
    assert!(outcome.unwrap().ok);
    assert_eq!(seen, [(0, Some(603)), (256, Some(603)), (512, Some(603))]);
    for at in [0, 256] {
        let stopped = store.check_with(|progress| match progress.entries {
            entries if entries == at => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert!(matches!(stopped, Err(Error::Aborted)));
    }
    assert_eq!(store.len().unwrap(), 1, "it goes on");
}

/// A tree, dropped while there is a handle of it, and the next one, which has its number.
fn dropped_and_made(store: &Store) -> (everleaf::Tree, everleaf::Tree) {
    let old = store.tree("old").unwrap();
    old.put("key", b"of the old tree").unwrap();
    assert!(store.drop_tree("old").unwrap());
    let new = store.tree("new").unwrap();
    new.put("key", b"of the new tree").unwrap();
    (old, new)
}

#[test]
fn a_handle_of_a_dropped_tree_neither_reads_nor_writes_the_next_one() {
    let folder = folder();
    let store = CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a")).unwrap();
    let (old, new) = dropped_and_made(&store);
    let refused = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::TreeDropped)), "{result:?}");
    };
    refused(old.get("key").map(drop));
    refused(old.get_many(["key"]).map(drop));
    refused(old.expiry("key").map(drop));
    refused(old.len().map(drop));
    refused(old.first().map(drop));
    refused(old.iter().next().unwrap().map(drop));
    refused(old.scan_with(.., |_, _| ControlFlow::Continue(())));
    refused(old.view().get("key").map(drop));
    refused(old.put("key", b"").map(drop));
    refused(old.put_if_absent("another", b"").map(drop));
    refused(old.delete("key").map(drop));
    refused(old.delete_range("a".."z").map(drop));
    refused(old.put_many([("another", "")]).map(drop));
    let mut batch = store.batch();
    batch.put("own", b"").unwrap();
    batch.on(&old).unwrap().put("key", b"").unwrap();
    refused(batch.commit().map(drop));
    refused(store.snapshot().unwrap().of(&old).map(drop));
    assert_eq!(store.get("own").unwrap(), None, "all of a batch or nothing");
    assert_eq!(new.get("key").unwrap().as_deref(), Some(&b"of the new tree"[..]));
    assert_eq!(new.len().unwrap(), 1);
    // A handle of the same tree by another call is one of the new tree's.
    store.existing_tree("new").unwrap().unwrap().put("key", b"changed").unwrap();
    assert_eq!(new.get("key").unwrap().as_deref(), Some(&b"changed"[..]));
}

#[test]
fn a_snapshot_has_what_was_in_a_tree_that_is_dropped_after_it() {
    let folder = folder();
    let store = CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a")).unwrap();
    let tree = store.tree("old").unwrap();
    tree.put("key", b"of the old tree").unwrap();
    let snapshot = store.snapshot().unwrap();
    let seen = snapshot.of(&tree).unwrap();
    assert!(store.drop_tree("old").unwrap());
    store.tree("new").unwrap().put("key", b"of the new tree").unwrap();
    assert_eq!(seen.get("key").unwrap().as_deref(), Some(&b"of the old tree"[..]));
    assert_eq!(seen.iter().count(), 1);
}

#[test]
fn what_threads_write_while_a_tree_is_dropped_is_in_no_later_tree() {
    let folder = folder();
    let store = CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a")).unwrap();
    for round in 0..200_u64 {
        let tree = store.tree("tree").unwrap();
        assert_eq!(tree.iter().count(), 0, "round {round}: the tree is new");
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let tree = &tree;
                scope.spawn(move || {
                    for n in 0.. {
                        match tree.put(format!("{thread} {}", n % 50), b"value") {
                            Ok(_) => {}
                            Err(Error::TreeDropped) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            std::thread::yield_now();
            assert!(store.drop_tree("tree").unwrap());
        });
        assert_eq!(store.len().unwrap(), 0);
    }
    assert!(store.check().unwrap().ok);
}

#[test]
fn a_store_that_was_opened_to_read_says_that_there_is_no_such_tree() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = tiny(KeyType::Bytes).create(&path).unwrap();
    store.tree("there").unwrap().put("k", "v").unwrap();
    store.close().unwrap();
    let store = crate::common::open_read_only(&path).unwrap();
    let refused = [
        store.tree("n\u{f6}t\n").map(drop),
        store.tree_with("n\u{f6}t\n", KeyType::U64).map(drop),
        store.typed_tree::<String, u64>("n\u{f6}t\n").map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::NoSuchTree { .. }));
        let sentence = error.to_string();
        assert!(sentence.starts_with("there is no tree `n\u{f6}t\\n`, and"), "{sentence}");
    }
    assert!(store.existing_tree("not").unwrap().is_none());
    assert_eq!(store.tree("there").unwrap().get("k").unwrap().as_deref(), Some(&b"v"[..]));
    assert!(matches!(store.tree("there").unwrap().put("k", "w"), Err(Error::ReadOnly)));
    assert!(matches!(store.tree_with("there", KeyType::U64), Err(Error::WrongKeyType { .. })));
}
