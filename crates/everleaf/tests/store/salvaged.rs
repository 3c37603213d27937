//! Pools whose file lost its end, or is damaged: every record that is whole is saved, and nothing
//! that was never written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use everleaf::{
    CreateOptions, DurabilityMode, Engine, Error, KeyType, OwnedKey, Salvaged, salvage,
    salvage_with,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::common::{folder, key, value};
use crate::logged::{log_of, ordinary};

const KEYS: u32 = 4000;
/// What every value begins with; the number of its key follows.
const MARK: &[u8] = b"a value: ";

type Content = BTreeMap<OwnedKey, Vec<u8>>;
/// Where values end in a file.
type Ends = BTreeMap<OwnedKey, usize>;

/// A pool that grew several times, its longest value in the middle; no value occurs twice.
fn grown(path: &Path, engine: Engine, key_type: KeyType) -> Content {
    let options = CreateOptions::new().engine(engine).key_type(key_type).size_bytes(256 << 10);
    let store = options.create(path).unwrap();
    let mut written = Content::new();
    for n in 0..KEYS {
        let bytes = if n == KEYS / 2 { 200_000 } else { n as usize % 300 };
        let (n, number) = (u64::from(n), n.to_le_bytes());
        written.insert(key(key_type, n), [MARK, &number, &value(n, bytes)].concat());
    }
    let entries: Vec<_> = written.iter().collect();
    for some in entries.chunks(100) {
        store.put_many(some.iter().map(|(key, value)| (*key, value.as_slice()))).unwrap();
    }
    let statistics = store.statistics().unwrap();
    assert!(
        statistics.total_bytes > 1 << 20 && statistics.entries == u64::from(KEYS),
        "{statistics:?}"
    );
    store.close().unwrap();
    written
}

/// Where each value ends in the file.
fn ends(file: &[u8], written: &Content) -> Ends {
    let starts = file.windows(MARK.len()).enumerate().filter(|(_, bytes)| *bytes == MARK);
    let numbered = starts.map(|(start, _)| (&file[start + MARK.len()..][..4], start));
    let starts: BTreeMap<&[u8], usize> = numbered.collect();
    let end = |value: &Vec<u8>| starts[&value[MARK.len()..][..4]] + value.len();
    written.iter().map(|(key, value)| (key.clone(), end(value))).collect()
}

fn shorten(path: &Path, bytes: usize) {
    File::options().write(true).open(path).unwrap().set_len(bytes as u64).unwrap();
}

/// Salvages a file of this length; nothing that is wrong, and all that is there.
fn saved(path: &Path, written: &Content, ends: &Ends) -> Salvaged {
    let bytes = fs::metadata(path).unwrap().len() as usize;
    let new = path.with_extension("new");
    let salvaged = salvage(path, &new).unwrap();
    let store = crate::common::open(&new).unwrap();
    assert!(store.check().unwrap().ok);
    let found: Content = store.iter().collect::<Result<_, _>>().unwrap();
    assert!(found.iter().all(|(key, value)| written.get(key) == Some(value)));
    let there = ends.iter().filter(|(_, end)| **end <= bytes);
    let lost = there.clone().filter(|(key, _)| !found.contains_key(*key)).count();
    assert_eq!(lost, 0, "of {} that are in {bytes} bytes: {salvaged:?}", there.count());
    store.close().unwrap();
    fs::remove_file(&new).unwrap();
    let _ = fs::remove_dir_all(log_of(&new));
    salvaged
}

fn every_length(path: &Path, engine: Engine, key_type: KeyType) {
    let written = grown(path, engine, key_type);
    let whole = fs::read(path).unwrap();
    let ends = ends(&whole, &written);
    assert_eq!(saved(path, &written, &ends).unreadable, 0);
    let lengths = [1, 2, 3, 5, 9, 17].map(|pages| whole.len() - pages * 4096);
    let parts = (1..12).rev().map(|part| whole.len() / 12 * part - part % 2 * 99);
    // Just behind the last value of all, and of the last that is in a chunk by itself.
    let last = [ends.values().max(), ends.values().filter(|end| **end % 4096 < 2048).max()];
    let parts = parts.chain(last.into_iter().flatten().copied());
    let least = [260 << 10, 256 << 10, 100_000, 16 << 10, 12 << 10, 4096];
    let lengths = lengths.into_iter().chain(parts).chain(least);
    // The last value of all may end where the file does.
    let mut lengths: Vec<usize> = lengths.filter(|bytes| *bytes < whole.len()).collect();
    lengths.sort_unstable();
    for bytes in lengths.into_iter().rev() {
        shorten(path, bytes);
        let salvaged = saved(path, &written, &ends);
        let told = salvaged.complaints.first().is_some_and(|told| told.contains("truncated"));
        assert!(told, "{engine}, {bytes} bytes of {}: {salvaged:?}", whole.len());
    }
}

#[test]
fn all_that_is_left_of_a_grown_pool_is_salvaged_however_short_its_file_is() {
    for engine in Engine::available() {
        for key_type in [KeyType::U64, KeyType::Bytes] {
            if engine.has_keys(key_type) {
                every_length(&folder().path().join("a.pool"), engine, key_type);
            }
        }
    }
}

#[test]
fn all_that_is_left_of_a_grown_pool_with_a_log_is_salvaged() {
    for (engine, key_type) in
        [(Engine::default(), KeyType::Bytes), (Engine::MASSTREE, KeyType::U64)]
    {
        let Some(folder) = ordinary() else { return };
        every_length(&folder.path().join("a.pool"), engine, key_type);
    }
}

#[test]
fn what_was_written_last_to_a_pool_that_was_closed_is_salvaged_without_the_index() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let engine = Engine::FPTREE_C;
    let options = CreateOptions::new().engine(engine).durability(DurabilityMode::Process);
    let store = options.size_bytes(1 << 20).create(&path).unwrap();
    (0..20).for_each(|n| assert!(!store.put(format!("key {n}"), "value").unwrap()));
    store.close().unwrap();
    let mut file = fs::read(&path).unwrap();
    // The leaf is where a word leads to the record of the last key; without its bitmap it is empty,
    // and nothing shows that.
    let key = file.windows(6).rposition(|bytes| bytes == b"key 19").unwrap();
    let words: Vec<u64> =
        file.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let leads = |word: &u64| (key as u64 - 40..=key as u64).contains(word);
    let entry = words[3 * 512..].iter().position(leads).unwrap() + 3 * 512;
    let leaf = entry * 8 / 1024 * 1024;
    file[leaf..leaf + 8].fill(0);
    fs::write(&path, file).unwrap();
    assert_eq!(crate::common::open_read_only(&path).unwrap().get("key 19").unwrap(), None);
    let salvaged = salvage(&path, path.with_extension("new")).unwrap();
    assert_eq!((salvaged.from_index, salvaged.from_records), (0, 20), "{salvaged:?}");
}

#[test]
fn a_log_that_may_be_another_pools_is_told_where_the_first_page_is_lost() {
    let Some(folder) = ordinary() else { return };
    let at = |name: &str| folder.path().join(name);
    let stores = ["a", "b"].map(|name| {
        let store = CreateOptions::new().size_bytes(1 << 20).create(at(name)).unwrap();
        (0..50).for_each(|n| assert!(!store.put(format!("{name} {n}"), "value").unwrap()));
        store
    });
    for (pool, log, lost, told) in
        [("a", "a", 0..8, false), ("a", "a", 0..4096, true), ("a", "b", 0..4096, true)]
    {
        let path = at(&format!("{pool} {log} {}", lost.end));
        fs::copy(at(pool), &path).unwrap();
        fs::create_dir(log_of(&path)).unwrap();
        for file in fs::read_dir(log_of(&at(log))).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), log_of(&path).join(file.file_name())).unwrap();
        }
        spoil(&path, 0, &vec![0; lost.end]);
        let salvaged = salvage(&path, path.with_extension("new")).unwrap();
        let tells = |told: &String| told.contains("this log is the pool's own");
        assert_eq!(salvaged.complaints.iter().any(tells), told, "{salvaged:?}");
        assert!(salvaged.complaints.iter().any(|told| told.contains("first page is damaged")));
        if log == "a" {
            assert_eq!(crate::common::open(path.with_extension("new")).unwrap().len().unwrap(), 50);
        }
    }
    drop(stores);
}

/// Pages of zeros and of noise.
fn page(noise: bool) -> Vec<u8> {
    if noise { value(3, 4096) } else { vec![0; 4096] }
}

fn spoil(path: &Path, at: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
fn a_pool_whose_first_page_is_lost_is_salvaged_by_its_tables() {
    let disk = ordinary();
    for engine in Engine::available() {
        for key_type in [KeyType::U64, KeyType::Bytes] {
            if !engine.has_keys(key_type) {
                continue;
            }
            let folder = if engine == Engine::default() { &disk } else { &Some(folder()) };
            let Some(folder) = folder else { continue };
            let path = folder.path().join(format!("{engine} {key_type:?}"));
            let mut written = grown(&path, engine, key_type);
            let store = crate::common::open(&path).unwrap();
            for n in 0..500 {
                let (gone, other) = (key(key_type, n), key(key_type, n + 1000));
                store.delete(&gone).unwrap();
                written.remove(&gone);
                let longer = value(n, 500);
                store.put(&other, &longer).unwrap();
                written.insert(other, longer);
            }
            store.close().unwrap();
            for noise in [false, true] {
                spoil(&path, 0, &page(noise));
                let salvaged = saved(&path, &written, &Ends::new());
                assert_eq!((salvaged.from_index, salvaged.from_records), (0, written.len() as u64));
                let told = |what: &str| salvaged.complaints.iter().any(|told| told.contains(what));
                assert!(told("first page is damaged"), "{engine}: {salvaged:?}");
            }
        }
    }
}

/// Harms a file; what was done, and whether the first page is as it was.
fn harm(path: &Path, random: &mut StdRng) -> (String, bool) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut story = String::new();
    let mut bytes = file.metadata().unwrap().len();
    if random.random() {
        bytes = random.random_range(4..=bytes / 4096) * 4096 + random.random_range(0..4096);
        file.set_len(bytes).unwrap();
        story += &format!("{bytes} bytes left, ");
    }
    let count = [0, 1, 10, 200][random.random_range(0..4)];
    let from = if random.random_range(0..4) == 0 { 0 } else { 4096 };
    let mut places: Vec<u64> = (0..count).map(|_| random.random_range(from..bytes)).collect();
    for at in &places {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *at).unwrap();
        file.write_all_at(&[byte[0] ^ random.random_range(1..=255)], *at).unwrap();
    }
    story += &format!("{count} bytes");
    for _ in 0..random.random_range(0..4) {
        let (at, noise) = (random.random_range(from / 4096..bytes / 4096) * 4096, random.random());
        file.write_all_at(&page(noise), at).unwrap();
        story += &format!(", page {at:#x}, noise {noise}");
        places.push(at);
    }
    (story, places.iter().all(|at| *at >= 4096))
}

/// Where the values are that are in a file as they were.
fn whole_ones(file: &[u8], written: &Content, ends: &Ends, path: &Path) -> Ends {
    let found = fs::read(path).unwrap();
    let is_whole = |key: &OwnedKey, end: usize| {
        // The record's header, its head and its key stand before the value.
        let start = end - written[key].len() - 40;
        found.get(start..end) == Some(&file[start..end])
    };
    ends.iter()
        .filter(|(key, end)| is_whole(key, **end))
        .map(|(k, end)| (k.clone(), *end))
        .collect()
}

fn damaged_pools(pools: u64) {
    let disk = ordinary();
    for engine in Engine::available() {
        for key_type in [KeyType::U64, KeyType::Bytes] {
            if !engine.has_keys(key_type) {
                continue;
            }
            let logs = [Engine::default(), Engine::MASSTREE].contains(&engine);
            let folder = if logs { &disk } else { &Some(folder()) };
            let Some(folder) = folder else { continue };
            let path = folder.path().join(format!("{engine} {key_type:?}"));
            let written = grown(&path, engine, key_type);
            let file = fs::read(&path).unwrap();
            let ends = ends(&file, &written);
            for seed in 0..pools {
                fs::write(&path, &file).unwrap();
                let (story, first_page) = harm(&path, &mut StdRng::seed_from_u64(seed));
                println!("{engine}, {key_type:?} keys, seed {seed}: {story}");
                let whole = whole_ones(&file, &written, &ends, &path);
                // Without the header a table that is damaged as well leads to nothing.
                match first_page {
                    true => _ = saved(&path, &written, &whole),
                    false => nothing_wrong(&path, &written),
                }
            }
        }
    }
}

#[test]
fn texts_of_eight_bytes_are_no_numbers_where_the_kind_of_keys_is_lost() {
    let folder = folder();
    let path = folder.path().join("dates.pool");
    let store = CreateOptions::new().size_bytes(1 << 20).create(&path).unwrap();
    store.put_many((1..=9).map(|n| (format!("2024010{n}"), "a day"))).unwrap();
    store.close().unwrap();
    spoil(&path, 0, &page(false));
    let new = path.with_extension("new");
    salvage(&path, &new).unwrap();
    assert_eq!(
        crate::common::open(&new).unwrap().get("20240107").unwrap().as_deref(),
        Some(&b"a day"[..])
    );
}

#[test]
fn a_search_for_records_is_told_of_before_it_finds_any_and_can_be_ended() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = CreateOptions::new().size_bytes(1 << 20).create(&path).unwrap();
    store.put_many((0..500).map(|n: u64| (format!("key {n}"), "value"))).unwrap();
    store.close().unwrap();
    spoil(&path, 0, &page(false));
    let (new, mut told) = (path.with_extension("new"), Vec::new());
    let ended = salvage_with(&path, &new, |progress| {
        told.push(progress.entries);
        ControlFlow::Break(())
    });
    assert!(matches!(ended, Err(Error::Aborted)) && !new.exists());
    assert_eq!(told, [0]);
}

/// Whatever is salvaged was written, if anything is.
fn nothing_wrong(path: &Path, written: &Content) {
    let is_refused = |error| matches!(error, Error::Pool(_));
    let new = path.with_extension("new");
    match salvage(path, &new) {
        Ok(_) => {
            fs::remove_file(&new).unwrap();
            let _ = fs::remove_dir_all(log_of(&new));
            saved(path, written, &Ends::new());
        }
        Err(error) => assert!(is_refused(error) && !new.exists()),
    }
}

#[test]
fn nothing_wrong_is_salvaged_of_damaged_pools_and_every_record_that_is_whole() {
    damaged_pools(6);
}

#[test]
#[ignore = "minutes; for changes of salvage"]
fn many_damaged_pools() {
    damaged_pools(200);
}
