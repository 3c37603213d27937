//! Pools that grow, fill up, and are used for long: nothing is lost, and space does not grow
//! without bound.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::{folder, key, tiny, value};
use everleaf::{Clock, CreateOptions, Engine, KeyType, OwnedKey, Store};

fn expect(store: &Store, model: &BTreeMap<OwnedKey, Vec<u8>>) {
    let found: BTreeMap<_, _> = store.iter().collect::<Result<_, _>>().unwrap();
    assert!(found == *model, "{} keys, {} expected", found.len(), model.len());
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "{outcome:?}");
}

#[test]
fn a_pool_of_one_mebibyte_grows_as_it_is_filled() {
    let folder = folder();
    for engine in [Engine::FPTREE_C, Engine::FPTREE] {
        let path = folder.path().join(format!("{engine}.pool"));
        let store = CreateOptions::new().engine(engine).size_bytes(1 << 20).create(&path).unwrap();
        let mut model = BTreeMap::new();
        for n in 0..20_000 {
            let (key, value) = (key(KeyType::Bytes, n), value(n, (n % 3000) as usize));
            store.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        let statistics = store.statistics().unwrap();
        assert!(
            statistics.total_bytes > 30 << 20
                && statistics.total_bytes == std::fs::metadata(&path).unwrap().len()
        );
        expect(&store, &model);
        drop(store);
        expect(&crate::common::open(&path).unwrap(), &model);
    }
}

#[test]
fn a_batch_that_finds_no_room_changes_nothing_wherever_the_room_ends() {
    let folder = folder();
    for (key_type, bytes) in [(KeyType::U64, 200), (KeyType::Bytes, 30), (KeyType::Bytes, 6000)] {
        let options =
            tiny(key_type).engine(Engine::FPTREE_C).size_bytes(96 << 10).max_size_bytes(192 << 10);
        let mut options = options;
        options.parameters.group_bytes = None;
        let store =
            options.create(folder.path().join(format!("{key_type:?}{bytes}.pool"))).unwrap();
        let mut model = BTreeMap::new();
        let mut refused = 0;
        for round in 0..400u64 {
            let mut batch = store.batch();
            let mut after = model.clone();
            for n in round * 5..round * 5 + 8 {
                let (key, value) = (key(key_type, n), value(round + n, bytes));
                batch.put(&key, &value).unwrap();
                after.insert(key, value);
            }
            let gone = key(key_type, round * 2);
            batch.delete(&gone).unwrap();
            after.remove(&gone);
            match batch.commit() {
                Ok(_) => model = after,
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    refused += 1;
                    expect(&store, &model);
                    // A little room, so that the next one is refused at another place.
                    if let Some((key, _)) = model.pop_first() {
                        assert!(store.delete(&key).unwrap());
                    }
                }
            }
        }
        assert!(refused > 20, "only {refused} of {key_type:?}, {bytes}");
        expect(&store, &model);
        let mut large = store.batch();
        (0..2000).for_each(|n| _ = large.put(key(key_type, n), value(n, 400)).unwrap());
        assert!(large.commit().unwrap_err().is_full(), "larger than the pool");
        expect(&store, &model);
        while let Some((key, _)) = model.pop_first() {
            assert!(store.delete(&key).unwrap());
        }
        store
            .put_many(
                [(key(key_type, 1), b"again"), (key(key_type, 2), b"a2345")]
                    .iter()
                    .map(|(k, v)| (k, v)),
            )
            .unwrap();
    }
}

#[test]
fn a_hundred_cycles_of_filling_and_deleting_take_no_more_room_than_ten() {
    let folder = folder();
    for (key_type, bytes, what) in [
        (KeyType::U64, 8, "8/8"),
        (KeyType::Bytes, 100, "16/100"),
        (KeyType::Bytes, 1000, "24/1000"),
    ] {
        let path = folder.path().join(format!("{bytes}.pool"));
        let store =
            CreateOptions::new().key_type(key_type).size_bytes(1 << 20).create(&path).unwrap();
        let entry = |cycle: u64, n: u64| {
            (
                key(key_type, n * 977 + cycle % 3),
                value(n + cycle, bytes / 2 + (n + cycle) as usize % bytes),
            )
        };
        let mut sizes = Vec::new();
        for cycle in 0..100 {
            for n in 0..1000 {
                let (key, value) = entry(cycle, n);
                store.put(&key, &value).unwrap();
            }
            if cycle == 0 {
                let user: u64 = store
                    .iter()
                    .map(|e| e.map(|(_, value)| (value.len() + 8) as u64).unwrap())
                    .sum();
                println!(
                    "{what}: {:.2} bytes of the pool a byte",
                    store.statistics().unwrap().used_bytes as f64 / user as f64
                );
            }
            // Now half of them, now all but a few, now everything.
            for n in (0..1000).filter(|n| [n % 2 == 0, n % 10 != 0, true][cycle as usize % 3]) {
                store.delete(&entry(cycle, n).0).unwrap();
            }
            sizes.push(store.statistics().unwrap().total_bytes);
        }
        assert_eq!(sizes[99], sizes[9], "{what}: {sizes:?}");
        store.delete_range(..).unwrap();
        assert!(store.is_empty().unwrap() && store.check().unwrap().ok);
        let statistics = store.statistics().unwrap();
        assert!(
            statistics.used_bytes < 400 << 10,
            "{what}: {} bytes are in use by nothing",
            statistics.used_bytes
        );
    }
}

/// A file system of a few MiB that is gone at the end; none where one cannot be mounted.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(mebibytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"])
            .arg(folder.path());
        if !mount.stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success())
        {
            println!(
                "skipped: no small file system can be mounted here; to include it, run the test as \
                root"
            );
            return None;
        }
        Some(Self(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_fills_up_in_the_middle_of_growth_copy_or_dump_costs_nothing() {
    let Some(disk) = SmallDisk::mount(6) else { return };
    let path = disk.path("a.pool");
    let store = CreateOptions::new().size_bytes(1 << 20).create(&path).unwrap();
    let mut model = BTreeMap::new();
    for n in 0.. {
        let (key, value) = (key(KeyType::Bytes, n), value(n, 3000));
        match store.put(&key, &value) {
            Ok(_) => drop(model.insert(key, value)),
            Err(error) => {
                assert!(error.is_full() && error.to_string().contains("disk"), "{error}");
                break;
            }
        }
    }
    assert!(model.len() > 1000, "{}", model.len());
    expect(&store, &model);
    let on = &mut |_: &everleaf::Progress| ControlFlow::Continue(());
    let error = store.copy_with(disk.path("copy.pool"), &mut *on).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert!(!disk.path("copy.pool").exists());
    let mut dump = std::fs::File::create(disk.path("a.dump")).unwrap();
    let error = store.dump_with(&mut dump, &mut *on).unwrap_err();
    assert!(
        error.is_full() && matches!(error, everleaf::Error::Stream { action: "writing", .. }),
        "{error}"
    );
    std::fs::remove_file(disk.path("a.dump")).unwrap();
    // Usable: what is removed makes room for others.
    let last = model.pop_last().unwrap().0;
    assert!(store.delete(&last).unwrap());
    let first = model.keys().next().unwrap().clone();
    store.put(&first, b"small").unwrap();
    model.insert(first, b"small".to_vec());
    expect(&store, &model);
    drop(store);
    expect(&crate::common::open(&path).unwrap(), &model);
    // A copy that begins well and then finds the disk full.
    let store = crate::common::open(&path).unwrap();
    let keep = model.len() / 8;
    for key in model.keys().skip(keep).cloned().collect::<Vec<_>>() {
        store.delete(&key).unwrap();
        model.remove(&key);
    }
    filler(&disk.path("filler"));
    let copied = store.copy_with(disk.path("copy.pool"), &mut *on);
    assert!(copied.is_err_and(|error| error.is_full()) && !disk.path("copy.pool").exists());
    expect(&store, &model);
}

/// Takes what is left of a disk.
fn filler(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

#[test]
fn readers_see_all_of_a_batch_or_nothing() {
    let folder = folder();
    let store =
        CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a.pool")).unwrap();
    let keys: Vec<String> = (0..20).map(|n| format!("key{n:02}")).collect();
    let put_all = |i: u64| store.put_many(keys.iter().map(|key| (key, i.to_le_bytes()))).unwrap();
    put_all(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..3000).for_each(put_all));
        while !writer.is_finished() {
            let together = store.get_many(&keys).unwrap();
            assert!(together.iter().all(|value| *value == together[0]), "{together:?}");
            let scanned: Vec<_> = store.iter().map(|entry| entry.unwrap().1).collect();
            assert!(
                scanned.len() == 20 && scanned.iter().all(|value| *value == scanned[0]),
                "{scanned:?}"
            );
        }
    });
}

#[test]
fn what_has_expired_is_removed_in_the_background_and_a_closed_store_stops_that() {
    let folder = folder();
    let (path, clock) = (folder.path().join("a.pool"), Clock::manual(1000));
    let store =
        CreateOptions::new().size_bytes(1 << 20).clock(clock.clone()).create(&path).unwrap();
    for n in 0..500 {
        store.put_for(key(KeyType::Bytes, n), value(n, 300), Duration::from_secs(1)).unwrap();
    }
    store.put("stays", b"").unwrap();
    let used = store.statistics().unwrap().used_bytes;
    store.sweep_every(Some(Duration::from_millis(1))).unwrap();
    assert!(store.len().unwrap() > 400, "nothing has expired");
    clock.advance(Duration::from_secs(1));
    while store.statistics().unwrap().entries > 1 {
        std::thread::yield_now();
    }
    assert!(store.statistics().unwrap().used_bytes < used / 2);
    let tree = store.tree("beside").unwrap();
    store.close().unwrap();
    assert!(matches!(tree.put("late", b""), Err(everleaf::Error::Closed)));
    assert!(
        crate::common::open(&path).unwrap().check().unwrap().ok,
        "a tree that is still there does not keep the file"
    );
}
