//! What the tests of stores share.

use std::path::Path;

use everleaf::{
    CreateOptions, Engine, EngineParameters, KeyType, OpenOptions, OwnedKey, Result, Store,
};
use everleaf_engines::all;
use tempfile::TempDir;

/// A folder in memory where the system has one, else in the usual place; it removes itself.
pub fn folder() -> TempDir {
    let shm = Path::new("/dev/shm");
    let made = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// Leaves of four slots, one leaf group a chunk: splits and groups come after a few keys.
pub fn tiny(key_type: KeyType) -> CreateOptions {
    let parameters = EngineParameters::default().leaf_slots(4).inner_keys(4).group_bytes(4096);
    CreateOptions::new()
        .engine(Engine::FPTREE)
        .key_type(key_type)
        .size_bytes(256 << 10)
        .max_size_bytes(1 << 30)
        .engines(all())
        .parameters(parameters)
}

/// How stores are opened: the engines of the laboratory are there, and all sizes.
pub fn opening() -> OpenOptions {
    OpenOptions::new().engines(all())
}

/// As [`Store::open`].
pub fn open(path: impl AsRef<Path>) -> Result<Store> {
    opening().open(path)
}

/// As [`Store::open_read_only`].
pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store> {
    opening().read_only(true).open(path)
}

/// A key of either kind for a small number; the byte strings have common prefixes, many lengths,
/// and sort unlike the numbers.
pub fn key(key_type: KeyType, n: u64) -> OwnedKey {
    match key_type {
        KeyType::U64 => OwnedKey::U64(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        KeyType::Bytes => {
            let mut bytes = format!("{}", n / 3).into_bytes();
            bytes
                .extend(std::iter::repeat_n([0, b'a', 0xff][n as usize % 3], (n % 7 + 1) as usize));
            OwnedKey::from(bytes)
        }
    }
}

/// Bytes that tell one value from another, wherever it is cut.
pub fn value(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}
