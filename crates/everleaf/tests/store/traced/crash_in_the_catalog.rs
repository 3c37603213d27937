//! A tree whose types are recorded, when the power fails: it is there with its keys, and either
//! nothing is known of its types or everything.

use everleaf_crash::{Event, Traced};
use everleaf_engines::all;

use super::crash_in_a_write::{Durable, GARBAGE_SEED};
use crate::common::{opening, tiny};
use everleaf::internal::{create_on, open_on, types_of};
use everleaf::{Error, KeyType, Store};

const POOL_BYTES: u64 = 192 << 10;

/// What an image may hold after a crash in the opening of the tree `t` as one of `String` and
/// `u32`; whether its types are known.
fn recovers(image: &[u64], entries: usize, may_be_absent: bool) -> bool {
    let media = Traced::from_image(image, POOL_BYTES, GARBAGE_SEED).unwrap();
    let (store, _pool) = open_on(all(), &opening(), media).unwrap();
    let names = types_of(&store, b"t").unwrap();
    let known = match &names {
        None => {
            assert!(may_be_absent, "the tree is gone");
            false
        }
        Some([Some(key), Some(value)]) => {
            assert_eq!((key.as_str(), value.as_str()), ("String", "u32"));
            assert!(matches!(store.typed_tree::<String, i32>("t"), Err(Error::OtherTypes { .. })));
            true
        }
        Some([None, None]) => {
            assert!(!may_be_absent, "it was made with its types, and has none");
            false
        }
        names => panic!("half of the names are there: {names:?}"),
    };
    let tree = store.typed_tree::<String, u32>("t").unwrap();
    assert_eq!(tree.iter().map(Result::unwrap).count(), entries);
    assert!(types_of(&store, b"t").unwrap().is_some_and(|names| names.iter().all(Option::is_some)));
    tree.put("goes on", 1).unwrap();
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "{outcome:?}");
    known
}

/// Goes through what is left at each moment of the opening; there are states of both kinds.
fn explore(prepare: impl Fn(&Store), entries: usize, may_be_absent: bool) {
    let media = Traced::new(POOL_BYTES, POOL_BYTES, GARBAGE_SEED).unwrap();
    let (store, pool) = create_on(all(), &tiny(KeyType::Bytes), media).unwrap();
    prepare(&store);
    pool.media().take_events();
    let mut durable = Durable::new(pool.media().image());
    store.typed_tree::<String, u32>("t").unwrap();
    let (mut known, mut states) = (0, 0);
    let events = pool.media().take_events();
    assert!(events.iter().any(|event| matches!(event, Event::Fence { .. })));
    for event in events {
        for image in durable.images_before(&event) {
            known += u32::from(recovers(&image, entries, may_be_absent));
            states += 1;
        }
        durable.apply(event);
    }
    assert!(states > 10 && known > 0 && known < states, "{known} of {states}");
    // What has returned is durable.
    assert!(
        durable
            .images_before(&Event::EndOperation)
            .iter()
            .all(|image| { recovers(image, entries, may_be_absent) })
    );
}

#[test]
fn crash_in_the_first_opening_by_types_leaves_the_tree_with_their_names_or_without() {
    for entries in [0, 3, 9] {
        let prepare = |store: &Store| {
            let tree = store.tree("t").unwrap();
            for n in 0..entries {
                tree.put(format!("key {n}"), [n as u8; 4]).unwrap();
            }
        };
        explore(prepare, entries, false);
    }
}

#[test]
fn crash_in_the_making_of_a_typed_tree_leaves_it_with_the_names_or_not_there() {
    for others in 0..5 {
        let prepare = |store: &Store| {
            for n in 0..others {
                store.tree(format!("tree {n}")).unwrap();
            }
        };
        explore(prepare, 0, true);
    }
}
