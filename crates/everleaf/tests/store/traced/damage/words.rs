//! Damage of single words: what a checksum covers is always found, and an index word never leads to
//! another key's value.

use std::path::Path;

use everleaf::{Error, KeyType, OwnedKey};

use super::harm::SEALED_ZERO;
use super::images::open;
use crate::common::{folder, key, tiny, value};

const KEYS: u64 = 60;

/// Words of the identity, all of them under one checksum, and the state after them.
const GUARDED_HEADER_WORDS: usize = 25;
/// Where the lengths of the extents begin.
const EXTENTS_WORD: usize = 32;
/// The table of the first extent: a line for each chunk that follows it.
const TABLE_WORD: usize = 3 * 512;

fn intact(path: &Path, key_type: KeyType) -> Vec<u8> {
    let store = tiny(key_type).create(path).unwrap();
    (0..KEYS).for_each(|n| assert!(!store.put(key(key_type, n), value(n, 40)).unwrap()));
    store.close().unwrap();
    std::fs::read(path).unwrap()
}

/// Whether a pool with one flipped bit is refused when it is opened, or found damaged by a check.
fn found(words: &mut [u64], at: usize, bit: usize) -> (bool, bool) {
    words[at] ^= 1 << bit;
    let opened = open(words).0;
    words[at] ^= 1 << bit;
    let sound = opened.as_ref().is_ok_and(|store| store.check().is_ok_and(|outcome| outcome.ok));
    (opened.is_err(), !sound)
}

#[test]
fn every_flipped_bit_of_header_allocator_and_records_is_found() {
    let folder = folder();
    for key_type in [KeyType::U64, KeyType::Bytes] {
        let bytes = intact(&folder.path().join(format!("{key_type:?}.pool")), key_type);
        let mut words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let unused = found(&mut words, GUARDED_HEADER_WORDS + 4, 0);
        assert_eq!(
            unused,
            (false, false),
            "a reserved word; what is tested below is not found damaged whatever is done"
        );
        let extent = (words[EXTENTS_WORD] & 0xffff_ffff_ffff) as usize;
        for bit in 0..64 {
            for at in (0..GUARDED_HEADER_WORDS).chain([EXTENTS_WORD]) {
                assert!(found(&mut words, at, bit).0, "bit {bit} of word {at} of the header");
            }
        }
        // The table describes itself in its first line, which is never read. Of the other lines: a
        // bit of every descriptor, and of every word of a bitmap that counts blocks; another one in
        // each.
        for at in TABLE_WORD + 8..TABLE_WORD + extent * 8 {
            let (refused, noticed) = found(&mut words, at, at * 7 % 64);
            assert!(
                if at % 8 == 0 { refused } else { noticed || words[at] == SEALED_ZERO },
                "a bit of word {at}, in the table"
            );
        }
        for n in 0..KEYS {
            let record = record_of(&bytes, key_type, n) / 8;
            for at in record..record + 6 {
                assert!(
                    found(&mut words, at, (at * 11 + n as usize) % 64).1,
                    "a bit of word {at}, in the record of key {n}"
                );
            }
        }
    }
}

/// Where the record of the n-th key begins: header, head of the value, key, value.
fn record_of(pool: &[u8], key_type: KeyType, n: u64) -> usize {
    let key = match key(key_type, n) {
        OwnedKey::U64(number) => number.to_be_bytes().to_vec(),
        OwnedKey::Bytes(bytes) => bytes.into_vec(),
    };
    let head = key.len() as u32 | u32::from(b'V') << 24;
    let content = [head.to_le_bytes().as_slice(), &key, &value(n, 40)].concat();
    (0..pool.len() - content.len() - 8)
        .step_by(8)
        .find(|at| pool[*at + 8..].starts_with(&content))
        .unwrap()
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
    let (mine, other) =
        (record_of(&bytes, KeyType::U64, 3) as u64, record_of(&bytes, KeyType::U64, 4) as u64);
    let mut damaged = bytes.clone();
    // The live entry of key 3, and those that splits left behind in dead slots.
    for at in
        (8..bytes.len()).step_by(8).filter(|at| word(*at) == mine && word(at - 8) == number(3))
    {
        damaged[at..at + 8].copy_from_slice(&other.to_le_bytes());
    }
    assert_ne!(damaged, bytes);
    std::fs::write(&path, &damaged).unwrap();
    let store = crate::common::open(&path).unwrap();
    let (mine, other) = (number(3), number(4));
    for error in [
        store.get(mine).unwrap_err(),
        store.put(mine, b"new").unwrap_err(),
        store.delete(mine).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::Index(_)) && error.to_string().contains("another key"),
            "{error}"
        );
    }
    assert!(store.iter().any(|entry| entry.is_err_and(|error| error.is_corruption())));
    assert_eq!(
        store.get(other).unwrap().unwrap(),
        value(4, 40),
        "the other key's record was not freed"
    );
    let outcome = store.check().unwrap();
    assert!(
        !outcome.ok
            && outcome.leaked_blocks == 1
            && outcome.violations.iter().any(|v| v.starts_with("S1")),
        "{outcome:?}"
    );
}
