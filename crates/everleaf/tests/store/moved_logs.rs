//! Pools and logs that are renamed, linked to, shared or copied while they are open.

use std::fs;
use std::os::unix::fs::symlink;

use everleaf::{CreateOptions, Error, KeyType, LogError, Store};

use crate::logged::{log_of, ordinary};

/// So many writes that the log begins anew several times.
const WRITES: u64 = 3000;

fn numbers() -> CreateOptions {
    CreateOptions::new().key_type(KeyType::U64).size_bytes(16 << 20)
}

fn write(store: &Store, seed: u8) {
    for key in 0..WRITES {
        store.put(key, [seed; 4000]).unwrap();
    }
    store.sync().unwrap();
}

fn assert_whole(store: &Store, seed: u8) {
    assert_eq!(store.len().unwrap(), WRITES);
    for entry in store.iter() {
        assert_eq!(entry.unwrap().1, [seed; 4000]);
    }
    assert!(store.check().unwrap().ok);
}

#[test]
fn a_pool_that_is_renamed_while_it_is_open_keeps_its_log_and_leaves_a_new_one_alone() {
    let Some(folder) = ordinary() else { return };
    let (path, moved) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
    numbers().create(&path).unwrap().close().unwrap();
    let bulk = || crate::common::opening().relaxed_durability(everleaf::DurabilityMode::buffered());
    let old = bulk().open(&path).unwrap();
    old.put(0, "before").unwrap();
    fs::rename(&path, &moved).unwrap();
    fs::rename(log_of(&path), log_of(&moved)).unwrap();
    numbers().create(&path).unwrap().close().unwrap();
    let new = bulk().open(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| write(&old, 1));
        scope.spawn(|| write(&new, 2));
    });
    old.close().unwrap();
    new.close().unwrap();
    assert_whole(&crate::common::open(&moved).unwrap(), 1);
    assert_whole(&crate::common::open(&path).unwrap(), 2);
}

#[test]
fn a_log_in_a_folder_of_its_own_is_found_again_and_removed_with_a_pool_that_failed() {
    let Some(folder) = ordinary() else { return };
    let (path, place) = (folder.path().join("a.pool"), folder.path().join("elsewhere"));
    let options = numbers().log_folder(&place);
    options.create(&path).unwrap().put(1, "one").unwrap();
    assert!(place.is_dir() && log_of(&path).is_symlink());
    assert_eq!(crate::common::open(&path).unwrap().get(1).unwrap().as_deref(), Some(&b"one"[..]));
    // The place is taken, or the link's; what is there stays.
    let other = folder.path().join("b.pool");
    fs::write(log_of(&other), "of nobody").unwrap();
    match options.create(&other) {
        Err(Error::LogFolderExists { folder }) => assert_eq!(folder, place),
        created => panic!("{created:?}"),
    }
    match numbers().log_folder(folder.path().join("new")).create(&other) {
        Err(Error::LogInTheWay { path }) => assert_eq!(path, log_of(&other)),
        created => panic!("{created:?}"),
    }
    assert!(!other.exists() && !folder.path().join("new").exists());
    assert_eq!(fs::read(log_of(&other)).unwrap(), b"of nobody");
    assert_eq!(crate::common::open(&path).unwrap().len().unwrap(), 1);
    let refused = options.durability(everleaf::DurabilityMode::Process).create(&other);
    assert!(matches!(refused, Err(Error::NoLog { .. })), "{refused:?}");
    // A link that leads nowhere is a log that is missing.
    fs::remove_dir_all(&place).unwrap();
    match crate::common::open(&path) {
        Err(Error::Log { source, .. }) => assert!(matches!(*source, LogError::Missing)),
        opened => panic!("{opened:?}"),
    }
}

#[test]
fn a_log_that_another_pool_has_open_is_not_opened() {
    let Some(folder) = ordinary() else { return };
    let (path, copy) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
    let store = numbers().create(&path).unwrap();
    store.put(1, "one").unwrap();
    fs::copy(&path, &copy).unwrap();
    symlink(log_of(&path), log_of(&copy)).unwrap();
    for read_only in [false, true] {
        match crate::common::opening().read_only(read_only).open(&copy) {
            Err(Error::Log { source, .. }) => assert!(matches!(*source, LogError::Locked)),
            opened => panic!("{opened:?}"),
        }
    }
    store.put(2, "two").unwrap();
    store.close().unwrap();
    assert_eq!(crate::common::open(&path).unwrap().len().unwrap(), 2);
}

#[test]
fn a_pool_is_opened_by_a_link_and_its_log_by_a_link() {
    let Some(folder) = ordinary() else { return };
    let (path, link) = (folder.path().join("a.pool"), folder.path().join("link"));
    let elsewhere = folder.path().join("elsewhere");
    numbers().create(&path).unwrap().close().unwrap();
    symlink(&path, &link).unwrap();
    fs::rename(log_of(&path), &elsewhere).unwrap();
    symlink(&elsewhere, log_of(&path)).unwrap();
    for key in 0..3 {
        let store = crate::common::open(&link).unwrap();
        store.put(key, "value").unwrap();
        store.close().unwrap();
    }
    assert_eq!(crate::common::open_read_only(&path).unwrap().len().unwrap(), 3);
    assert!(!log_of(&link).exists());
}

#[test]
fn a_file_whose_pages_are_of_different_times_is_refused_and_not_salvaged_as_complete() {
    let Some(folder) = ordinary() else { return };
    let (path, copy) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
    let store = numbers().create(&path).unwrap();
    (0..100).try_for_each(|key| store.put(key, [1; 100]).map(drop)).unwrap();
    store.close().unwrap();
    let before = fs::read(&path).unwrap();
    let store = crate::common::open(&path).unwrap();
    (0..200).try_for_each(|key| store.put(key, [2; 200]).map(drop)).unwrap();
    store.close().unwrap();
    // The first page was read before the checkpoint, the others and the log after it.
    let mut mixed = fs::read(&path).unwrap();
    mixed[..4096].copy_from_slice(&before[..4096]);
    fs::write(&copy, mixed).unwrap();
    fs::rename(log_of(&path), log_of(&copy)).unwrap();
    match crate::common::open(&copy) {
        Err(Error::Log { source, .. }) => assert!(matches!(*source, LogError::OtherTime)),
        opened => panic!("{opened:?}"),
    }
    let salvaged = everleaf::salvage(&copy, folder.path().join("c.pool")).unwrap();
    assert!(salvaged.unreadable > 0, "{salvaged:?}");
    assert!(salvaged.complaints[0].contains("does not match the pool"), "{salvaged:?}");
}
