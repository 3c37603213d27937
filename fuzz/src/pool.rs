//! Pools of every engine, changed in any way.

use std::path::Path;
use std::sync::LazyLock;

use everleaf::{Engine, KeyType, OpenOptions, Store};
use everleaf_engines::all;
use tempfile::TempDir;

use crate::damage::{STAYS, change, changes, word};
use crate::store::{fill, options, read, write};

/// Bytes of a pool, and that it may grow to.
const BYTES: (u64, u64) = (160 << 10, 512 << 10);
/// The smallest pool.
const MIN_BYTES: usize = 64 << 10;
/// First bytes of inputs that are files: as they are, and with zeros behind them.
const FILE: u8 = 255;
const PADDED_FILE: u8 = 254;
/// Bytes of the header that a checksum behind them covers.
const IDENTITY: usize = 23 * 8;
/// What the length of a record stands beside, in its lower half.
const OWNER: u32 = 1 << 31;

/// A sound pool.
struct Image {
    bytes: Vec<u8>,
    /// The words that say something, and of these the headers of records.
    used: Vec<usize>,
    records: Vec<usize>,
}

/// All engines and kinds of keys, closed and killed.
static IMAGES: LazyLock<Vec<Image>> = LazyLock::new(|| {
    let types = [KeyType::U64, KeyType::Bytes];
    let kinds = Engine::available().flat_map(|engine| types.map(|keys| (engine, keys)));
    kinds.filter(|(engine, keys)| engine.has_keys(*keys)).flat_map(images).collect()
});

fn images((engine, key_type): (Engine, KeyType)) -> [Image; 2] {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let options = options(engine, key_type).size_bytes(BYTES.0).max_size_bytes(BYTES.1);
    let store = options.create(&path).expect("a pool");
    fill(&store);
    let killed = image(&path);
    store.close().expect("it closes");
    [image(&path), killed]
}

fn image(path: &Path) -> Image {
    let bytes = std::fs::read(path).expect("the pool's file");
    let empty = [0, 0x5ea1 << 48];
    let used: Vec<usize> =
        (0..bytes.len()).step_by(8).filter(|at| !empty.contains(&word(&bytes, *at))).collect();
    let is_record = |at: &usize| checksum(&bytes, *at) == Some((word(&bytes, *at) >> 32) as u32);
    let records = used.iter().copied().filter(is_record).collect();
    Image { bytes, used, records }
}

/// The checksum of the record at a place; none if it leads out of the file.
fn checksum(bytes: &[u8], at: usize) -> Option<u32> {
    let (header, behind) = bytes.get(at..)?.split_at_checked(8)?;
    let low = word(header, 0) as u32;
    let content = behind.get(..(low & !OWNER) as usize)?;
    Some(crc32c::crc32c_append(crc32c::crc32c(&low.to_le_bytes()), content))
}

/// The file that an input asks for.
fn file(input: &[u8]) -> Option<Vec<u8>> {
    let (kind, rest) = input.split_first()?;
    let mut bytes = rest.to_vec();
    match *kind {
        FILE => return Some(bytes),
        PADDED_FILE => {
            bytes.resize(bytes.len().max(MIN_BYTES), 0);
            return Some(bytes);
        }
        _ => {}
    }
    let image = &IMAGES[usize::from(kind & !STAYS) % IMAGES.len()];
    bytes.clone_from(&image.bytes);
    changes(rest).for_each(|step| change(&mut bytes, &image.used, step));
    if kind & STAYS == 0 && bytes.len() > IDENTITY + 8 {
        let crc = u64::from(crc32fast::hash(&bytes[..IDENTITY]));
        bytes[IDENTITY..IDENTITY + 8].copy_from_slice(&crc.to_le_bytes());
        for at in &image.records {
            if let Some(crc) = checksum(&bytes, *at) {
                bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }
    Some(bytes)
}

/// A folder in memory where the system has one.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// Opens a pool to read and to write it, does everything with it, and opens what that leaves.
pub fn open_and_use(input: &[u8]) {
    let Some(bytes) = file(input) else { return };
    let folder = folder();
    let path = folder.path().join("a.pool");
    std::fs::write(&path, &bytes).expect("room for a pool");
    if let Ok(store) = OpenOptions::new().engines(all()).read_only(true).open(&path) {
        read(&store);
        let _ = store.close();
    }
    assert!(std::fs::read(&path).is_ok_and(|now| now == bytes), "reading wrote to the file");
    for _ in 0..2 {
        let _ = OpenOptions::new().engines(all()).open(&path).map(write);
    }
}

/// Salvages a pool: what comes of it is sound.
pub fn salvage(input: &[u8]) {
    let Some(bytes) = file(input) else { return };
    let folder = folder();
    let (path, new) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
    std::fs::write(&path, &bytes).expect("room for a pool");
    let salvaged = everleaf::salvage(&path, &new);
    assert_eq!(salvaged.is_ok(), new.exists(), "a pool is left where nothing was salvaged");
    if salvaged.is_ok() {
        let store = Store::open(&new).expect("the new pool opens");
        read(&store);
        assert!(store.check().is_ok_and(|outcome| outcome.ok), "the new pool is sound");
    }
}
