//! The format stays: stores and dumps that releases have written are opened, checked, read, written
//! and closed by this one.
//!
//! Each folder of `fixtures` that is named here holds what the code of one release has made, and is
//! never made anew: `format-5-log-3` that of 0.2.0, `format-5-log-4` that of 0.3.0.
//! A release that adds to the format adds a folder, and its name here:
//!
//! ```sh
//! EVERLEAF_FIXTURES=NAME cargo test -p everleaf --test store kept_formats::make -- --ignored
//! ```
//!
//! `ENGINE.gz` has the files of the engine's stores, of both kinds of keys, with and without a log,
//! closed and killed in the middle of batches; `bytes.dump` and `u64.dump.gz` are dumps; `list`
//! says what is in each: how many entries, and a checksum of all that a reader sees.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::folder;
use crate::logged::{copy_both, log_of, ordinary};
use everleaf::statistics::InnerFrom;
use everleaf::{CreateOptions, DurabilityMode, Engine, KeyType, OwnedKey, Shutdown, Store, Tree};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};

/// What is kept, a folder for each release that has changed the format or added to it.
const KEPT: [&str; 2] = ["format-5-log-3", "format-5-log-4"];
/// The engines of users.
const ENGINES: [&str; 9] = [
    "fptree",
    "fptree-c",
    "linetree",
    "nvtree",
    "nvtree-c",
    "clftree-append",
    "clftree-encoded",
    "circtree",
    "masstree",
];
/// How the process is called that is killed: this test, by these variables.
const WRITER: &str = "kept_formats::write_until_killed";
const POOL: &str = "EVERLEAF_FIXTURE_POOL";
const SET: &str = "EVERLEAF_FIXTURES";

fn set(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// One store.
#[derive(Clone, Copy)]
struct Kept {
    engine: &'static str,
    key_type: KeyType,
    log: bool,
    killed: bool,
}

impl Kept {
    fn of(engine: &'static str) -> impl Iterator<Item = Self> {
        let kinds = if engine == "clftree-encoded" { 1 } else { 2 };
        let kinds = [KeyType::U64, KeyType::Bytes].into_iter().take(kinds);
        kinds.flat_map(move |key_type| {
            [(false, false), (false, true), (true, false), (true, true)].map(|(log, killed)| Self {
                engine,
                key_type,
                log,
                killed,
            })
        })
    }

    fn name(self) -> String {
        let keys = if self.key_type == KeyType::U64 { "u64" } else { "bytes" };
        let log = if self.log { "log" } else { "no-log" };
        format!("{} {keys} {log} {}", self.engine, if self.killed { "killed" } else { "closed" })
    }

    fn create(self, path: &Path) -> Store {
        let engine: Engine = self.engine.parse().unwrap();
        let mode = match (self.engine, self.log) {
            ("masstree", _) => DurabilityMode::buffered(),
            (_, true) => DurabilityMode::Immediate,
            (_, false) => DurabilityMode::Process,
        };
        let options = CreateOptions::new().engine(engine).key_type(self.key_type);
        options.size_bytes(64 << 10).max_size_bytes(1 << 30).durability(mode).create(path).unwrap()
    }
}

fn key(key_type: KeyType, i: u64) -> OwnedKey {
    match key_type {
        KeyType::U64 => OwnedKey::U64(i * i * 1_000_003),
        // Some begin with ff, one is empty, some are long.
        KeyType::Bytes => {
            let begin: &[u8] = if i.is_multiple_of(9) { b"\xff\0" } else { b"key" };
            let digits = i.to_string().repeat(1 + i as usize % 11);
            OwnedKey::from(if i == 0 { Vec::new() } else { [begin, digits.as_bytes()].concat() })
        }
    }
}

fn value(i: u64) -> Vec<u8> {
    format!("value {i} ").repeat(i as usize % 5).into_bytes()
}

/// Everything that a store can hold, but for what makes it grow.
fn fill(store: &Store) {
    let key_type = store.key_type();
    let key = |i| key(key_type, i);
    let later = UNIX_EPOCH + Duration::from_millis(9_000_000_000_000);
    store.put_many((0..60).map(|i| (key(i), value(i)))).unwrap();
    for i in (0..60).step_by(7) {
        store.delete(key(i)).unwrap();
        store.put(key(i + 1), value(i + 90)).unwrap();
        store.put_until(key(i + 2), value(i), later + Duration::from_millis(i)).unwrap();
    }
    store.put_for(key(200), "is gone when it is read", Duration::from_millis(1)).unwrap();
    store.transaction(|tx| tx.put(key(201), "of a transaction").map(drop)).unwrap();
    let mut batch = store.batch();
    batch.put(key(202), "of a batch").unwrap().delete(key(1)).unwrap();
    batch.commit().unwrap();
    if key_type == KeyType::Bytes {
        let (herbs, squares) =
            (store.tree("herbs").unwrap(), store.tree_with("squares", KeyType::U64).unwrap());
        herbs.put_many((0..6).map(|i| (key(i), value(i)))).unwrap();
        squares.put_many((0..6).map(|i| (i * i, i.to_string()))).unwrap();
        squares.put_until(7, "expires", later).unwrap();
        let typed = store.typed_tree::<(String, i64), u32>("typed").unwrap();
        typed.put(("ann", -5), 31).unwrap();
        typed.put(("bob", 1 << 40), 27).unwrap();
        store.tree("dropped").unwrap().put("a", "b").unwrap();
        store.drop_tree("dropped").unwrap();
    }
}

/// Makes the pool longer than it was made.
fn grow(store: &Store) {
    let begins = store.statistics().unwrap().total_bytes;
    for i in 300..500 {
        store.put(key(store.key_type(), i), vec![i as u8; i as usize * 10]).unwrap();
        if store.statistics().unwrap().total_bytes > begins {
            return;
        }
    }
    panic!("it does not grow");
}

/// One batch of the writer that is killed, across trees where there are some.
fn write_batch(store: &Store, i: u64) {
    let mut batch = store.batch();
    for at in 210..214 {
        batch.put(key(store.key_type(), at), i.to_string().repeat(20)).unwrap();
    }
    let herbs = (store.key_type() == KeyType::Bytes).then(|| store.tree("herbs").unwrap());
    if let Some(herbs) = herbs {
        batch.on(&herbs).unwrap().put("batch", i.to_string()).unwrap();
    }
    batch.commit().unwrap();
}

/// What a reader sees: how many entries, and a checksum of all.
fn seen(store: &Store) -> (u64, u32) {
    let (mut entries, mut text) = (0, String::new());
    let mut show = |tree: &Tree, name: &[u8]| {
        text += &format!("{name:?} {:?} {}\n", tree.key_type(), tree.len().unwrap());
        for entry in tree.iter() {
            let (key, value) = entry.unwrap();
            let expires = tree.expiry(&key).unwrap().unwrap();
            let expires = expires.map(|at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap());
            assert_eq!(tree.get(&key).unwrap().as_ref(), Some(&value), "{key:?}");
            text += &format!("{key:?} {value:?} {expires:?}\n");
            entries += 1;
        }
    };
    show(store.default_tree(), b"");
    for name in store.tree_names().unwrap() {
        show(&store.tree(&name).unwrap(), &name);
    }
    if store.key_type() == KeyType::Bytes {
        let typed = store.typed_tree::<(String, i64), u32>("typed").unwrap();
        assert_eq!(typed.get(("ann", -5)).unwrap(), Some(31));
        assert_eq!(typed.get(("bob", 1 << 40)).unwrap(), Some(27));
    }
    (entries, crc32fast::hash(text.as_bytes()))
}

/// The files of an engine's stores, which share most of what they hold: each 64 bytes that there
/// are stand once, and a file is a list of numbers of these, and how often each is repeated.
#[derive(Default)]
struct Archive {
    lines: Vec<u8>,
    numbers: HashMap<[u8; 64], u32>,
    files: Vec<u8>,
}

impl Archive {
    fn add(&mut self, name: &str, path: &Path) {
        let content = fs::read(path).unwrap();
        let (lines, rest) = content.as_chunks::<64>();
        assert_eq!(rest, b"", "{name}");
        let runs: Vec<_> = lines.chunk_by(|a, b| a == b).collect();
        writeln!(self.files, "{name}\t{}", runs.len()).unwrap();
        for run in runs {
            let next = self.numbers.len() as u32;
            let number = *self.numbers.entry(run[0]).or_insert(next);
            if number == next {
                self.lines.extend(run[0]);
            }
            let words = [number, run.len() as u32].map(u32::to_le_bytes);
            self.files.extend(words.as_flattened());
        }
    }

    fn write(&self, path: &Path) {
        let bytes = [&(self.numbers.len() as u64).to_le_bytes(), &self.lines[..], &self.files];
        fs::write(path, compressed(&bytes.concat())).unwrap();
    }

    fn read(path: &Path) -> BTreeMap<String, Vec<u8>> {
        let bytes = unpacked(path);
        let (count, rest) = bytes.split_first_chunk().unwrap();
        let (lines, mut rest) = rest.split_at(64 * u64::from_le_bytes(*count) as usize);
        let mut files = BTreeMap::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (name, runs) = std::str::from_utf8(&rest[..end]).unwrap().split_once('\t').unwrap();
            let (runs, behind) = rest[end + 1..].split_at(8 * runs.parse::<usize>().unwrap());
            let mut content = Vec::new();
            for run in runs.as_chunks::<8>().0 {
                let [number, count] =
                    [0, 4].map(|at| u32::from_le_bytes(*run[at..].first_chunk().unwrap()) as usize);
                content.extend(lines[64 * number..][..64].repeat(count));
            }
            files.insert(name.to_owned(), content);
            rest = behind;
        }
        files
    }
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn unpacked(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// The folder of the log's note has the path of the machine that made it; nothing needs it.
fn files_of_log(pool: &Path) -> Vec<(String, PathBuf)> {
    let Ok(files) = fs::read_dir(log_of(pool)) else { return Vec::new() };
    let named = |file: fs::DirEntry| (file.file_name().into_string().unwrap(), file.path());
    let mut files: Vec<_> = files.map(|file| named(file.unwrap())).collect();
    files.retain(|(name, _)| name != "pool");
    files.sort();
    files
}

/// Makes a folder of fixtures.
#[test]
#[ignore = "writes into the repository"]
fn make() {
    let set = set(&std::env::var(SET).expect("the name of the folder in EVERLEAF_FIXTURES"));
    fs::create_dir(&set).expect("a new folder: what is kept is never made anew");
    let disk = ordinary().expect("the temporary folder is on a disk");
    let memory = folder();
    let mut list = String::new();
    for engine in ENGINES {
        let mut archive = Archive::default();
        for kept in Kept::of(engine) {
            let place = if kept.log { disk.path() } else { memory.path() };
            // The store that is killed is the one that was closed before.
            let (path, copy) = (place.join("a.pool"), place.join("copy.pool"));
            if kept.killed {
                kill(kept, &path)
            } else {
                make_closed(kept, &path)
            }
            archive.add(&kept.name(), &path);
            fs::copy(&path, &copy).unwrap();
            for (name, file) in files_of_log(&path) {
                archive.add(&format!("{}/{name}", kept.name()), &file);
            }
            if kept.log {
                fs::remove_file(&copy).unwrap();
                copy_both(&path, &copy);
                let _ = fs::remove_file(log_of(&copy).join("pool"));
            }
            let (entries, sum) = seen(&Store::open(&copy).unwrap());
            list += &format!("{}\t{entries}\t{sum:08x}\n", kept.name());
            for path in [&copy, &path].into_iter().take(1 + usize::from(kept.killed)) {
                fs::remove_file(path).unwrap();
                let _ = fs::remove_dir_all(log_of(path));
            }
        }
        archive.write(&set.join(format!("{engine}.gz")));
    }
    for key_type in [KeyType::Bytes, KeyType::U64] {
        let path = memory.path().join("dumped");
        let store = CreateOptions::new().key_type(key_type).create(&path).unwrap();
        fill(&store);
        std::thread::sleep(Duration::from_millis(5)); // One entry expires.
        let mut dump = Vec::new();
        store.dump(&mut dump).unwrap();
        let (entries, sum) = seen(&store);
        let name = if key_type == KeyType::Bytes { "bytes.dump" } else { "u64.dump.gz" };
        list += &format!("{name}\t{entries}\t{sum:08x}\n");
        let packed = if name.ends_with(".gz") { compressed(&dump) } else { dump };
        fs::write(set.join(name), packed).unwrap();
        store.close().unwrap();
        fs::remove_file(path).unwrap();
    }
    fs::write(set.join("list"), list).unwrap();
}

fn make_closed(kept: Kept, path: &Path) {
    let store = kept.create(path);
    let ((), written) = store.unsynced(|| {
        fill(&store);
        grow(&store);
    });
    written.wait().unwrap();
    store.close().unwrap();
}

/// Kills a process that writes batches. Where a batch that is under way can be seen in the file, by
/// its intent, one is.
fn kill(kept: Kept, path: &Path) {
    let epochs = kept.engine == "masstree";
    let in_batch = || {
        let intents = &fs::read(path).unwrap()[4096..8192];
        intents.as_chunks::<64>().0.iter().any(|intent| intent[..6] == [3, 0, 0, 0, 0, 0])
    };
    for _ in 0..200 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args([WRITER, "--exact", "--ignored", "--nocapture"])
            .env(POOL, path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut output, mut begun) = (writer.stdout.take().unwrap(), Vec::new());
        while !begun.ends_with(b"writing\n") {
            let mut byte = [0];
            output.read_exact(&mut byte).unwrap();
            begun.extend(byte);
        }
        std::thread::sleep(Duration::from_millis(if epochs { 150 } else { 2 }));
        writer.kill().unwrap();
        writer.wait().unwrap();
        if kept.log || epochs || in_batch() {
            return;
        }
    }
    panic!("no batch was cut");
}

#[test]
#[ignore = "is killed by the test that makes fixtures"]
fn write_until_killed() {
    let Some(path) = std::env::var_os(POOL) else { return };
    let store = Store::open(path).unwrap();
    println!("writing");
    for i in 0.. {
        write_batch(&store, i);
        if store.engine().name() == "masstree" {
            std::thread::sleep(Duration::from_millis(15)); // Some batches an epoch.
        }
    }
}

/// The boot of this machine, which a pool that was killed on no disk must have been open under, as
/// the words of its header (docs/format.md).
fn boot_words() -> [u64; 3] {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let id = u128::from_str_radix(&id.trim().replace('-', ""), 16).unwrap();
    [0, 48, 96].map(|shift| {
        let c = (id >> shift) as u64 & ((1 << 48) - 1);
        let m = (c ^ c >> 23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let check = ((m ^ m >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 48) ^ 0x5ea1;
        c | check << 48
    })
}

/// Puts the files of a store into a folder.
fn lay_out(kept: Kept, files: &BTreeMap<String, Vec<u8>>, path: &Path) {
    let mut pool = files[&kept.name()].clone();
    if kept.killed && !kept.log {
        let words = boot_words().map(u64::to_le_bytes);
        pool[200..224].copy_from_slice(words.as_flattened());
    }
    fs::write(path, pool).unwrap();
    if kept.log {
        fs::create_dir(log_of(path)).unwrap();
    }
    let prefix = kept.name() + "/";
    for (name, content) in files.range(prefix.clone()..) {
        let Some(name) = name.strip_prefix(&prefix) else { break };
        fs::write(log_of(path).join(name), content).unwrap();
    }
}

/// Opens a store as it was left, and goes on with it.
fn go_on(kept: Kept, path: &Path, expected: (u64, u32)) {
    let name = kept.name();
    let read_only = Store::open_read_only(path).unwrap();
    assert_eq!(seen(&read_only), expected, "{name}, read only");
    drop(read_only);
    let store = Store::open(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let statistics = store.statistics().unwrap();
    assert_eq!(statistics.engine.name(), kept.engine);
    assert_eq!(statistics.shutdown == Shutdown::Clean, !kept.killed, "{name}");
    if !kept.killed && !matches!(statistics.inner_from, InnerFrom::Pool) {
        assert_eq!(statistics.inner_from, InnerFrom::Image, "{name}");
    }
    let checked = store.check().unwrap();
    assert!(checked.ok && checked.leaked_blocks == 0, "{name}: {:?}", checked.violations);
    assert_eq!(seen(&store), expected, "{name}");
    let key = |i| key(kept.key_type, i);
    for i in 600..620 {
        store.put(key(i), value(i)).unwrap();
        store.put(key(303), value(i)).unwrap();
    }
    write_batch(&store, 1 << 40);
    for i in 600..620 {
        assert!(store.delete(key(i)).unwrap());
    }
    grow(&store);
    let expected = seen(&store);
    store.close().unwrap();
    let store = Store::open(path).unwrap();
    assert_eq!(seen(&store), expected, "{name}, written");
    assert!(store.check().unwrap().ok, "{name}");
}

fn list(set: &Path) -> BTreeMap<String, (u64, u32)> {
    let list = fs::read_to_string(set.join("list")).unwrap();
    let line = |line: &str| {
        let [name, entries, sum] = line.split('\t').collect::<Vec<_>>()[..] else { panic!() };
        let sum = u32::from_str_radix(sum, 16).unwrap();
        (name.to_owned(), (entries.parse().unwrap(), sum))
    };
    list.lines().map(line).collect()
}

#[test]
fn what_earlier_releases_left_is_opened_checked_read_and_written() {
    let (memory, disk) = (folder(), ordinary());
    for set in KEPT.map(set) {
        let list = list(&set);
        std::thread::scope(|scope| {
            for engine in ENGINES {
                let (list, set, memory, disk) = (&list, &set, memory.path(), disk.as_ref());
                scope.spawn(move || {
                    let files = Archive::read(&set.join(format!("{engine}.gz")));
                    for kept in Kept::of(engine) {
                        let place = if kept.log { disk.map(|d| d.path()) } else { Some(memory) };
                        let Some(place) = place else { continue }; // No disk, no log.
                        let path = place.join(kept.name());
                        lay_out(kept, &files, &path);
                        go_on(kept, &path, list[&kept.name()]);
                        fs::remove_file(&path).unwrap();
                        let _ = fs::remove_dir_all(log_of(&path));
                    }
                });
            }
        });
    }
}

#[test]
fn what_earlier_releases_dumped_is_restored_and_dumped_as_it_was() {
    let folder = folder();
    for (set, number) in KEPT.map(set).iter().zip(0..) {
        for (name, key_type) in [("bytes.dump", KeyType::Bytes), ("u64.dump.gz", KeyType::U64)] {
            let (path, mut again) = (set.join(name), Vec::new());
            let dump =
                if name.ends_with(".gz") { unpacked(&path) } else { fs::read(path).unwrap() };
            let path = folder.path().join(format!("{number} {name}"));
            let store = CreateOptions::new().key_type(key_type).create(path).unwrap();
            store.restore(&*dump).unwrap();
            store.dump(&mut again).unwrap();
            assert!(again == dump, "{name} is dumped otherwise");
            assert_eq!(seen(&store), list(set)[name], "{name}");
        }
    }
}
