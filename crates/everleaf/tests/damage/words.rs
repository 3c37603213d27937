//! A damaged pool gives errors: never a panic, and never the value of another key.

mod common;

use std::path::Path;

use common::{folder, key, tiny, value};
use everleaf::{Error, KeyType, OwnedKey, Store};

const KEYS: u64 = 60;

fn intact(path: &Path, key_type: KeyType) -> Vec<u8> {
    let store = tiny(key_type).create(path).unwrap();
    (0..KEYS).for_each(|n| assert!(!store.put(&key(key_type, n), &value(n, 40)).unwrap()));
    store.close().unwrap();
    std::fs::read(path).unwrap()
}

/// Reads everything there is to read. Values are right or an error; true if everything was right.
fn read_all(path: &Path, key_type: KeyType) -> bool {
    let Ok(store) = Store::open_read_only(path) else { return false };
    let mut right = true;
    for n in 0..KEYS {
        match store.get(&key(key_type, n)) {
            Ok(Some(found)) => assert_eq!(found, value(n, 40), "the value of another key, or a changed one"),
            Ok(None) => right = false,
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                right = false;
            }
        }
    }
    // An error ends a range; a key that is damaged has a record that is not its own.
    let of_its_key = |entry: (OwnedKey, Vec<u8>)| (0..KEYS).any(|n| entry == (key(key_type, n), value(n, 40)));
    for entry in store.iter() {
        match entry {
            Ok(entry) => assert!(of_its_key(entry), "a key that was never there, or another's value"),
            Err(_) => right = false,
        }
    }
    let _ = store.statistics();
    right & store.check().is_ok_and(|outcome| outcome.ok)
}

/// Writes what can be written; the outcome may be anything but a panic or a hang.
fn write_all(path: &Path, key_type: KeyType) {
    let Ok(store) = Store::open(path) else { return };
    for n in 0..2 * KEYS {
        let key = key(key_type, n);
        let _ = if n % 3 == 0 { store.delete(&key) } else { store.put(&key, &value(n, 100)) };
    }
    let _ = (store.check(), store.close());
}

#[test]
fn no_flipped_bit_shows_a_wrong_value() {
    let folder = folder();
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let path = folder.path().join(format!("{key_type:?}.pool"));
        let bytes = intact(&path, key_type);
        assert!(read_all(&path, key_type));
        // Every word in use, one bit each; free space is skipped.
        let mut noticed = 0;
        for word in (0..bytes.len() / 8).filter(|word| bytes[word * 8..word * 8 + 8] != [0; 8]) {
            let mut damaged = bytes.clone();
            damaged[word * 8 + word * 5 % 8] ^= 1 << (word % 8);
            std::fs::write(&path, &damaged).unwrap();
            noticed += u32::from(!read_all(&path, key_type));
            write_all(&path, key_type);
        }
        // 60 records of 8 words each; flips in dead slots and free blocks mean nothing.
        assert!(noticed >= 480, "only {noticed} flips were noticed");
    }
}

#[test]
fn an_index_word_that_leads_to_another_record_is_an_error() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let bytes = intact(&path, KeyType::U64);
    // Index words are the offsets of records, and a record holds its key after header and length.
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let number = |n: u64| match key(KeyType::U64, n) {
        OwnedKey::U64(number) => number,
        OwnedKey::Bytes(_) => unreachable!(),
    };
    let record_of = |n: u64| {
        let content = [8u32.to_le_bytes().as_slice(), &number(n).to_be_bytes(), &value(n, 40)].concat();
        (0..bytes.len() - content.len()).step_by(8).find(|at| bytes[*at + 8..].starts_with(&content)).unwrap() as u64
    };
    let (mine, other) = (record_of(3), record_of(4));
    let mut damaged = bytes.clone();
    // The live entry of key 3, and those that splits left behind in dead slots.
    for at in (8..bytes.len()).step_by(8).filter(|at| word(*at) == mine && word(at - 8) == number(3)) {
        damaged[at..at + 8].copy_from_slice(&other.to_le_bytes());
    }
    assert_ne!(damaged, bytes);
    std::fs::write(&path, &damaged).unwrap();
    let store = Store::open(&path).unwrap();
    let (mine, other) = (number(3), number(4));
    for error in [store.get(mine).unwrap_err(), store.put(mine, b"new").unwrap_err(), store.delete(mine).unwrap_err()] {
        assert!(matches!(&error, Error::Index(_)) && error.to_string().contains("another key"), "{error}");
    }
    assert!(store.iter().any(|entry| entry.is_err_and(|error| error.is_corruption())));
    assert_eq!(store.get(other).unwrap().unwrap(), value(4, 40), "the other key's record was not freed");
    let outcome = store.check().unwrap();
    assert!(!outcome.ok && outcome.leaked_blocks == 1 && outcome.violations.iter().any(|v| v.starts_with("S1")), "{outcome:?}");
}
