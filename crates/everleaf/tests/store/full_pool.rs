//! A pool that is full keeps what it has and goes on once there is room.

use std::collections::BTreeMap;

use crate::common::{folder, key, tiny, value};
use everleaf::{KeyType, OwnedKey, Store};

fn expect(store: &Store, model: &BTreeMap<OwnedKey, Vec<u8>>) {
    let found: BTreeMap<_, _> = store.iter().collect::<Result<_, _>>().unwrap();
    assert!(found == *model, "{} keys, {} expected", found.len(), model.len());
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "{outcome:?}");
}

#[test]
fn a_full_pool_loses_nothing_and_takes_writes_after_removals() {
    let folder = folder();
    for key_type in [KeyType::U64, KeyType::Bytes] {
        for bytes in [0, 30, 1000, 20_000] {
            let path = folder.path().join(format!("{key_type:?}-{bytes}.pool"));
            let store = tiny(key_type)
                .size_bytes(128 << 10)
                .max_size_bytes(512 << 10)
                .create(&path)
                .unwrap();
            let mut model = BTreeMap::new();
            let mut next = 0;
            let fill = |next: &mut u64, model: &mut BTreeMap<_, _>| loop {
                let (key, value) = (key(key_type, *next), value(*next, bytes));
                match store.put(&key, &value) {
                    Ok(replaced) => assert_eq!(replaced, model.insert(key, value).is_some()),
                    Err(error) => break assert!(error.is_full(), "{error}"),
                }
                *next += 1;
            };
            fill(&mut next, &mut model);
            assert!(next > 10, "only {next} keys of {bytes} bytes fitted");
            expect(&store, &model);
            for n in 0..next {
                // A replacement needs room for both values and may be refused; then the old one
                // stays.
                let (key, value) = (key(key_type, n), value(n + 1, bytes));
                match store.put(&key, &value) {
                    Ok(replaced) => assert_eq!(replaced, model.insert(key, value).is_some()),
                    Err(error) => assert!(error.is_full(), "{error}"),
                }
            }
            expect(&store, &model);
            for n in (0..next).filter(|n| n % 3 != 1) {
                let key = key(key_type, n);
                assert_eq!(store.delete(&key).unwrap(), model.remove(&key).is_some());
            }
            expect(&store, &model);
            let (kept, before) = (model.len(), next);
            fill(&mut next, &mut model);
            assert!(next > before, "no room came back from {kept} removals");
            expect(&store, &model);
            assert!(std::fs::metadata(&path).unwrap().len() <= 512 << 10);
            drop(store);
            expect(&crate::common::open(&path).unwrap(), &model);
        }
    }
}

/// A closure that does not end holds what others replace. The pool grows for that up to a bound;
/// then writes are refused with a sentence, whether it could grow further or not, until the closure
/// has ended.
#[test]
fn a_reader_that_does_not_end_is_named_and_what_it_holds_is_bounded() {
    let folder = folder();
    for (name, max_bytes) in [("grows", 1 << 30), ("full", 4 << 20)] {
        let path = folder.path().join(name);
        let store = tiny(KeyType::U64).max_size_bytes(max_bytes).create(&path).unwrap();
        store.put(1_u64, b"shown").unwrap();
        store.put(2_u64, [0; 4000]).unwrap();
        let (entered, is_entered) = std::sync::mpsc::channel();
        let (end, is_ended) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let store = &store;
            scope.spawn(move || {
                let there = store.get_with(1_u64, |shown| {
                    entered.send(()).unwrap();
                    is_ended.recv().unwrap();
                    assert_eq!(shown, b"shown");
                });
                assert!(there.unwrap().is_some());
            });
            is_entered.recv().unwrap();
            store.put(1_u64, b"other").unwrap();
            let refused = (0..20_000_u32)
                .find_map(|n| store.put(2_u64, [n as u8; 4000]).err().map(|error| (n, error)));
            let (last, error) = refused.expect("what is held is bounded");
            assert!(error.is_full() && error.to_string().contains("a reader"), "{error}");
            assert_eq!(store.get(2_u64).unwrap().unwrap(), [(last.wrapping_sub(1)) as u8; 4000]);
            assert!(std::fs::metadata(&path).unwrap().len() <= 64 << 20);
            store.delete(1_u64).unwrap();
            end.send(()).unwrap();
        });
        for n in 0..20_000_u32 {
            store.put(2_u64, [n as u8; 4000]).unwrap();
        }
        assert!(store.check().unwrap().ok);
    }
}
