//! Pools whose log is damaged: refused, and what can be saved of them.

use std::path::{Path, PathBuf};

use everleaf::{CreateOptions, Error, LogError, Medium, salvage};

fn log_of(pool: &Path) -> PathBuf {
    let mut name = pool.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

fn copy_both(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    std::fs::create_dir(log_of(to)).unwrap();
    for file in std::fs::read_dir(log_of(from)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), log_of(to).join(file.file_name())).unwrap();
    }
}

/// A pool with several segments, as a killed process leaves it; how many keys it had.
fn killed(path: &Path) -> Option<u32> {
    let live = path.with_extension("live");
    let store = CreateOptions::new().size_bytes(1 << 20).create(&live).unwrap();
    if store.statistics().unwrap().medium != Medium::PageCache {
        return None;
    }
    let mut keys = 0;
    let mut put = || {
        store.put(key(keys), vec![keys as u8; 1000]).unwrap();
        keys += 1;
    };
    while segments(&live).len() < 4 {
        put(); // Without a checkpoint: that comes after four.
    }
    (0..9).for_each(|_| put());
    copy_both(&live, path); // Nobody writes meanwhile.
    Some(keys)
}

fn key(i: u32) -> String {
    format!("key{i:05}")
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(log_of(path)).unwrap().map(|file| file.unwrap().path());
    let name = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
    let mut numbered: Vec<PathBuf> =
        files.filter(|file| name(file).starts_with("segment-0")).collect();
    numbered.sort();
    numbered
}

/// Of the keys the first so many are there, in the order in which they were written.
fn saved(damaged: &Path, new: &Path) -> (u32, Vec<String>) {
    let found = salvage(damaged, new).unwrap();
    let store = crate::common::open(new).unwrap();
    assert!(store.check().unwrap().ok);
    let there = (0..).take_while(|i| store.get(key(*i)).unwrap().is_some()).count() as u32;
    drop(store);
    (there, found.complaints)
}

#[test]
fn a_segment_that_is_missing_is_refused_and_what_stands_before_it_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let Some(keys) = killed(&path) else { return };
    let count = segments(&path).len();
    assert!(count > 2, "{count} segments");
    let mut before = 0;
    for missing in 0..count {
        let pool = folder.path().join(format!("{missing}.pool"));
        copy_both(&path, &pool);
        std::fs::remove_file(&segments(&pool)[missing]).unwrap();
        for read_only in [true, false] {
            let refused = crate::common::opening().read_only(read_only).open(&pool).unwrap_err();
            let Error::Log { source, .. } = refused else { panic!("{refused}") };
            assert!(matches!(*source, LogError::Damaged { .. }), "{source}");
        }
        let (there, complaints) = saved(&pool, &folder.path().join(format!("{missing}.new")));
        assert!(complaints[0].contains("the segment is missing"), "{complaints:?}");
        assert!(there >= before && there < keys, "{there} of {keys}, {before} before");
        before = there;
    }
    assert!(before > keys / 2, "{before} of {keys}");
}

#[test]
fn a_pool_without_readable_control_blocks_is_refused_and_saved_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let Some(keys) = killed(&path) else { return };
    let control = log_of(&path).join("control");
    let mut bytes = std::fs::read(&control).unwrap();
    bytes.chunks_mut(4096).for_each(|block| block[40] ^= 1);
    std::fs::write(&control, bytes).unwrap();
    let refused = crate::common::open(&path).unwrap_err().to_string();
    assert!(refused.contains("control file cannot be read"), "{refused}");
    assert_eq!(saved(&path, &folder.path().join("b.pool")).0, keys);
}
