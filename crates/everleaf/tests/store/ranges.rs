//! Ranges: both directions, bounds, prefixes, and iteration beside writes.

use std::ops::Bound;

use crate::common::{folder, tiny, value};
use everleaf::{Error, Key, KeyType, OwnedKey, Range, Scan, Store};

fn store(key_type: KeyType) -> (tempfile::TempDir, Store) {
    let folder = folder();
    let store = tiny(key_type).create(folder.path().join("a.pool")).unwrap();
    (folder, store)
}

fn bytes(range: Range<'_>) -> Vec<Vec<u8>> {
    let key = |entry: Result<(OwnedKey, Vec<u8>), Error>| match entry.unwrap().0 {
        OwnedKey::Bytes(key) => key.into_vec(),
        OwnedKey::U64(key) => panic!("{key} is no byte string"),
    };
    range.map(key).collect()
}

fn numbers(range: Range<'_>) -> Vec<u64> {
    let key = |entry: Result<(OwnedKey, Vec<u8>), Error>| match entry.unwrap().0.as_ref() {
        Key::U64(key) => key,
        key => panic!("{key} is no number"),
    };
    range.map(key).collect()
}

#[test]
fn bounds_of_every_kind_in_both_directions() {
    let (_folder, store) = store(KeyType::U64);
    let present: Vec<u64> = (0..400).map(|i| i * 10).chain([u64::MAX]).collect();
    present.iter().for_each(|key| assert!(store.put_if_absent(*key, value(*key, 10)).unwrap()));
    assert_eq!(numbers(store.iter()), present);
    assert_eq!(numbers(store.range(20u64..50)), [20, 30, 40]);
    assert_eq!(numbers(store.range(20u64..=50)), [20, 30, 40, 50]);
    assert_eq!(numbers(store.range(3985u64..)), [3990, u64::MAX]);
    assert_eq!(numbers(store.range(..=u64::MAX)).len(), present.len());
    assert_eq!(numbers(store.range((Bound::Excluded(20u64), Bound::Included(30)))), [30]);
    assert_eq!(numbers(store.range(21u64..30)), [0u64; 0]);
    #[allow(clippy::reversed_empty_ranges)]
    let upside_down = store.range(50u64..20);
    assert_eq!(numbers(upside_down), [0u64; 0]);
    assert_eq!(
        numbers(store.scan(Scan::all().starting_at(20u64).ending_before(50u64).backward())),
        [40, 30, 20]
    );
    let backward: Vec<u64> = present.iter().rev().copied().collect();
    assert_eq!(numbers(store.scan(Scan::all().backward())), backward);
    assert_eq!(
        numbers(store.scan(Scan::all().backward())),
        store.iter().rev().map(|e| number(e.unwrap().0)).collect::<Vec<_>>()
    );
}

fn number(key: OwnedKey) -> u64 {
    match key {
        OwnedKey::U64(key) => key,
        OwnedKey::Bytes(_) => panic!("no number"),
    }
}

#[test]
fn both_ends_of_one_iterator_meet() {
    let (_folder, store) = store(KeyType::U64);
    (0..1000u64).for_each(|key| assert!(store.put_if_absent(key, key.to_le_bytes()).unwrap()));
    for pattern in [0b01u32, 0b0011, 0b0111_0001, 0b1111_1110] {
        let mut range = store.range(100u64..900);
        let (mut front, mut back) = (100, 900);
        for turn in 0..800 {
            let (key, value) = if pattern >> (turn % 8) & 1 == 1 {
                back -= 1;
                let (key, value) = range.next_back().unwrap().unwrap();
                assert_eq!(key, OwnedKey::U64(back));
                (back, value)
            } else {
                let (key, value) = range.next().unwrap().unwrap();
                assert_eq!(key, OwnedKey::U64(front));
                front += 1;
                (front - 1, value)
            };
            assert_eq!(value, key.to_le_bytes());
        }
        assert!(range.next().is_none() && range.next_back().is_none());
    }
}

#[test]
fn prefixes_and_their_edges() {
    let (_folder, store) = store(KeyType::Bytes);
    let keys: [&[u8]; 12] = [
        b"",
        b"\0",
        b"a",
        b"a\0",
        b"a\xff",
        b"a\xff\xff",
        b"ab",
        b"b",
        b"\xfe\xff",
        b"\xff",
        b"\xff\x00",
        b"\xff\xff\xff",
    ];
    keys.iter().for_each(|key| assert!(store.put_if_absent(*key, key).unwrap()));
    let of = |prefix: &[u8]| {
        let mut with_prefix: Vec<_> =
            keys.iter().filter(|key| key.starts_with(prefix)).map(|key| key.to_vec()).collect();
        with_prefix.sort();
        with_prefix
    };
    for prefix in [
        b"".as_slice(),
        b"\0",
        b"a",
        b"a\xff",
        b"a\xff\xff",
        b"a\xff\xff\xff",
        b"b",
        b"c",
        b"\xfe",
        b"\xff",
        b"\xff\xff",
    ] {
        assert_eq!(bytes(store.prefix(prefix)), of(prefix), "{}", Key::from(prefix));
        let mut backward = of(prefix);
        backward.reverse();
        assert_eq!(
            bytes(store.scan(Scan::all().with_prefix(prefix).backward())),
            backward,
            "{}",
            Key::from(prefix)
        );
    }
    assert_eq!(
        bytes(store.scan(Scan::all().with_prefix("a").starting_at("a\0").ending_before("ab"))),
        [b"a\0".to_vec()]
    );
    assert_eq!(bytes(store.scan(Scan::all().with_prefix("a").starting_at("b"))), [b""; 0]);
}

#[test]
fn keys_of_the_other_kind_are_the_first_item() {
    let (_folder, numbers) = store(KeyType::U64);
    numbers.put(1u64, b"one").unwrap();
    let mut range = numbers.prefix("a");
    assert!(matches!(range.next(), Some(Err(Error::WrongKeyType { expected: KeyType::U64 }))));
    assert!(range.next().is_none() && range.next_back().is_none(), "after an error it ends");
    assert!(
        matches!(numbers.range(..="a").next(), Some(Err(Error::WrongKeyType { .. }))),
        "the end that is not sought first"
    );
}

#[test]
fn iteration_beside_writes_keeps_order_and_misses_nothing_that_stays() {
    let (_folder, store) = store(KeyType::U64);
    // Multiples of three stay; what is between comes and goes in every other step.
    (0..1000u64).for_each(|i| assert!(store.put_if_absent(i * 3, b"stays").unwrap()));
    for backward in [false, true] {
        let scan = if backward { Scan::all().backward() } else { Scan::all() };
        let mut seen = Vec::new();
        for (i, entry) in store.scan(scan).enumerate() {
            let key = number(entry.unwrap().0);
            seen.push(key);
            let at = (i as u64).wrapping_mul(7919) % 1000 * 3;
            store.put(at + 1, b"comes").unwrap();
            store.delete(((i as u64).wrapping_mul(104_729) % 1000) * 3 + 1).unwrap();
            store.put(at, b"stays").unwrap();
        }
        if backward {
            seen.reverse();
        }
        assert!(seen.is_sorted_by(|a, b| a < b), "in order, no key twice");
        let staying: Vec<u64> = seen.into_iter().filter(|key| key % 3 == 0).collect();
        assert_eq!(staying, (0..1000).map(|i| i * 3).collect::<Vec<_>>());
    }
    assert!(store.check().unwrap().ok);
}

#[test]
fn a_range_of_long_values_is_fetched_in_small_batches() {
    let (_folder, store) = store(KeyType::U64);
    (0..8u64).for_each(|key| assert!(store.put_if_absent(key, value(key, 900 << 10)).unwrap()));
    let mut range = store.iter();
    range.next().unwrap().unwrap();
    // Two values exceed a MiB, so the third was not fetched yet and its removal is seen.
    store.delete(2u64).unwrap();
    store.put(3u64, b"short").unwrap();
    let rest: Vec<_> = range.map(Result::unwrap).collect();
    assert_eq!(
        rest.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(),
        [1, 3, 4, 5, 6, 7].map(OwnedKey::U64)
    );
    assert_eq!(rest[1].1, b"short");
    assert_eq!(rest[2].1, value(4, 900 << 10));
}
