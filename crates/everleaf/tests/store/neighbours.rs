//! What one caller must not do to another: writers beside readers of their key, writers beside the
//! readers of a snapshot.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::folder;
use everleaf::{CreateOptions, Error, PoolError, Store};

fn store(folder: &tempfile::TempDir) -> Store {
    CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a.pool")).unwrap()
}

/// Writes that have to get their turn, and reads after which it is clear that they do not.
const WRITES: u64 = 20;
const ENOUGH_READS: u64 = 40_000;

#[test]
fn a_writer_gets_its_turn_beside_readers_of_its_key() {
    let folder = folder();
    let store = store(&folder);
    store.put("key", b"value").unwrap();
    let (reads, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed)
                    && reads.fetch_add(1, Ordering::Relaxed) < ENOUGH_READS
                {
                    // Others read meanwhile: there is hardly a moment when none does.
                    store
                        .get_with("key", |_| {
                            std::thread::sleep(std::time::Duration::from_micros(200))
                        })
                        .unwrap();
                }
            });
        }
        while written.load(Ordering::Relaxed) < WRITES
            && reads.load(Ordering::Relaxed) < ENOUGH_READS
        {
            store.put("key", b"another").unwrap();
            written.fetch_add(1, Ordering::Relaxed);
        }
        done.store(true, Ordering::Relaxed);
    });
    println!("{WRITES} writes beside {} reads", reads.load(Ordering::Relaxed));
    assert_eq!(written.load(Ordering::Relaxed), WRITES, "after {ENOUGH_READS} reads");
}

#[test]
fn whoever_reads_a_value_of_a_snapshot_keeps_no_writer_waiting() {
    let folder = folder();
    let store = store(&folder);
    store.put("key", b"value").unwrap();
    let snapshot = store.snapshot().unwrap();
    for before in [&b"value"[..], b"value"] {
        // The first time it is read from the index, the second time from what the writer kept of
        // it.
        let shown = snapshot.get_with("key", |value| {
            std::thread::scope(|scope| {
                assert!(scope.spawn(|| store.put("key", b"new").unwrap()).join().unwrap())
            });
            value.to_vec()
        });
        assert_eq!(shown.unwrap().as_deref(), Some(before));
    }
}

#[test]
fn two_copies_to_one_name_are_one_whole_copy_and_one_refusal() {
    let folder = folder();
    let store = store(&folder);
    for n in 0..1000u64 {
        store.put(n.to_be_bytes(), [1; 100]).unwrap();
    }
    let path = folder.path().join("copy.pool");
    let (met, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    // It begins while the first one is at work, and is at work when that ends.
    let second = || {
        store.copy_with(&path, |_| {
            met.store(true, Ordering::Release);
            while !ended.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            ControlFlow::Continue(())
        })
    };
    std::thread::scope(|scope| {
        let mut other = None;
        let first = store.copy_with(&path, |_| {
            let other = other.get_or_insert_with(|| scope.spawn(second));
            while !met.load(Ordering::Acquire) && !other.is_finished() {
                std::thread::yield_now();
            }
            ControlFlow::Continue(())
        });
        let found = crate::common::open_read_only(&path).and_then(|copy| copy.len());
        ended.store(true, Ordering::Release);
        let second = other.unwrap().join().unwrap();
        assert!(matches!(first, Ok(progress) if progress.entries == 1000), "{first:?}");
        assert!(matches!(found, Ok(1000)), "{found:?}");
        assert!(matches!(second, Err(Error::Pool(PoolError::Exists { .. }))), "{second:?}");
    });
    assert_eq!(crate::common::open(&path).unwrap().len().unwrap(), 1000);
}
