//! A write that is cut by a crash has happened wholly or not at all, and nothing leaks: recovery
//! from states that a power failure can leave within one write. (The crash explorer goes through
//! all of them; this is the store's own quick look.)

use everleaf_engines::all;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::common::{key, tiny, value};
use everleaf::internal::{create_on, open_on};
use everleaf::{Clock, Expiry, KeyType, OwnedKey, Store};
use everleaf_crash::{Event, Traced};

const POOL_BYTES: u64 = 192 << 10;
pub(super) const GARBAGE_SEED: u64 = 7;

pub(super) type Content = BTreeMap<OwnedKey, Vec<u8>>;

/// The content, and when each value expires.
type Timed = (Content, Vec<Option<SystemTime>>);

/// What is durable for sure, and what may be, by line in the order of the stores.
pub(super) struct Durable {
    image: Vec<u64>,
    pending: BTreeMap<u64, Vec<(u64, u64)>>,
    flushed: Vec<(u64, usize)>,
}

impl Durable {
    /// What an image holds, and nothing else.
    pub(super) fn new(image: Vec<u64>) -> Self {
        Self { image, pending: BTreeMap::new(), flushed: Vec::new() }
    }

    /// What a crash before this event may leave: all that there are at a fence, fewer elsewhere.
    pub(super) fn images_before(&self, event: &Event) -> Vec<Vec<u64>> {
        match event {
            Event::Flush { .. } => vec![self.visible()],
            Event::Fence { .. } | Event::EndOperation => self.evicted(),
            _ => Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, event: Event) {
        match event {
            Event::Store { offset, new, .. } => {
                self.pending.entry(offset / 64).or_default().push((offset, new))
            }
            Event::Flush { line, .. } => {
                self.flushed.push((line, self.pending.get(&line).map_or(0, Vec::len)))
            }
            Event::Fence { .. } => {
                let mut done = BTreeMap::new();
                for (line, stores) in std::mem::take(&mut self.flushed) {
                    let done = done.entry(line).or_insert(0);
                    *done = stores.max(*done);
                }
                for (line, stores) in done {
                    let pending = self
                        .pending
                        .get_mut(&line)
                        .map(|pending| pending.drain(..stores).collect::<Vec<_>>());
                    write(&mut self.image, pending.unwrap_or_default().iter());
                }
                self.pending.retain(|_, stores| !stores.is_empty());
            }
            Event::Order { .. } | Event::EndOperation => {}
            event => panic!("{event:?} is not expected here"),
        }
    }

    /// Everything that is visible: what a killed process leaves.
    fn visible(&self) -> Vec<u64> {
        let mut image = self.image.clone();
        self.pending.values().for_each(|stores| write(&mut image, stores.iter()));
        image
    }

    /// Nothing but what is fenced, and this with the stores to one line more.
    fn evicted(&self) -> Vec<Vec<u64>> {
        let one_more = self.pending.values().map(|stores| {
            let mut image = self.image.clone();
            write(&mut image, stores.iter());
            image
        });
        std::iter::once(self.image.clone()).chain(one_more).collect()
    }
}

fn write<'s>(image: &mut [u64], stores: impl Iterator<Item = &'s (u64, u64)>) {
    for (offset, new) in stores {
        image[*offset as usize / 8] = *new;
    }
}

pub(super) fn content(store: &Store) -> Content {
    store.iter().collect::<Result<_, _>>().unwrap()
}

fn timed(store: &Store) -> Timed {
    let expiry = |key| store.expiry(key).unwrap().unwrap();
    (content(store), store.keys().map(|key| expiry(key.unwrap())).collect())
}

/// Recovers `image` and compares; then writes go on.
fn recovers_to_either(image: &[u64], before: &Timed, after: &Timed, spare: &OwnedKey) {
    let media = Traced::from_image(image, POOL_BYTES, GARBAGE_SEED).unwrap();
    let clock = Clock::manual(0);
    let (store, _pool) =
        open_on(all(), &crate::common::opening().clock(clock.clone()), media).unwrap();
    let found = timed(&store);
    assert!(
        found == *before || found == *after,
        "neither before nor after: {:?}",
        found.0.keys().zip(&found.1).collect::<Vec<_>>()
    );
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "{outcome:?}");
    match store.put(spare, b"goes on") {
        Ok(_) => {
            assert_eq!(store.get(spare).unwrap().as_deref(), Some(b"goes on".as_slice()))
        }
        Err(error) => assert!(error.is_full(), "{error}"),
    }
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "after another write: {outcome:?}");
    // What expires is known, and nothing else goes.
    clock.advance(Duration::from_millis(u64::MAX / 2));
    let (stays, entries) = (store.len().unwrap(), store.statistics().unwrap().entries);
    assert_eq!(store.remove_expired().unwrap().removed, entries - stays);
    assert_eq!((store.len().unwrap(), store.statistics().unwrap().entries), (stays, stays));
}

fn explore(key_type: KeyType, prepare: impl Fn(&Store), write: impl Fn(&Store)) {
    let media = Traced::new(POOL_BYTES, POOL_BYTES, GARBAGE_SEED).unwrap();
    let (store, pool) = create_on(all(), &tiny(key_type), media).unwrap();
    prepare(&store);
    let before = timed(&store);
    pool.media().take_events();
    let image = pool.media().image();
    write(&store);
    let after = timed(&store);
    assert_ne!(before, after, "the write under test must change something");
    let events = pool.media().take_events();
    assert!(events.iter().any(|event| matches!(event, Event::Fence { .. })));
    let mut durable = Durable::new(image);
    let (mut states, spare) = (0, key(key_type, 1000));
    for event in events {
        for image in durable.images_before(&event) {
            recovers_to_either(&image, &before, &after, &spare);
            states += 1;
        }
        durable.apply(event);
    }
    assert!(states > 10, "only {states} states were looked at");
}

/// Lengths of values: within a line, some lines, and a run of chunks of its own.
const LENGTHS: [usize; 3] = [5, 300, 6000];

#[test]
fn crash_in_an_insertion_leaves_all_or_nothing() {
    for key_type in [KeyType::U64, KeyType::Bytes] {
        for bytes in LENGTHS {
            // The fifth key of a leaf of four slots splits it.
            for present in [0, 1, 4] {
                let prepare = |store: &Store| {
                    for n in 0..present {
                        store.put(key(key_type, n), value(n, 20)).unwrap();
                    }
                };
                explore(key_type, prepare, |store| {
                    assert!(!store.put(key(key_type, 9), value(9, bytes)).unwrap())
                });
            }
        }
    }
}

/// The pool has no mark before that.
#[test]
fn crash_in_the_first_value_that_expires_leaves_it_to_be_found_or_not_there() {
    const LIFE: Duration = Duration::from_secs(3600);
    for key_type in [KeyType::U64, KeyType::Bytes] {
        for present in [0, 4] {
            let prepare = |store: &Store| {
                for n in 0..present {
                    store.put(key(key_type, n), value(n, 20)).unwrap();
                }
            };
            explore(key_type, prepare, |store| {
                assert!(!store.put_for(key(key_type, 9), value(9, 300), LIFE).unwrap());
            });
            explore(key_type, prepare, |store| {
                let mut batch = store.batch();
                batch.put_for(key(key_type, 9), value(9, 20), LIFE).unwrap();
                batch.put(key(key_type, 10), value(10, 20)).unwrap();
                batch.commit().unwrap();
            });
        }
    }
}

#[test]
fn crash_in_a_write_that_keeps_sets_or_clears_an_expiry_leaves_all_or_nothing() {
    const LIFE: Duration = Duration::from_secs(3600);
    for key_type in [KeyType::U64, KeyType::Bytes] {
        for bytes in LENGTHS {
            let (kept, other) = (key(key_type, 9), key(key_type, 10));
            let prepare = |store: &Store| {
                store.put_for(&kept, value(1, 20), LIFE).unwrap();
                store.put(&other, value(2, bytes)).unwrap();
            };
            let stays = |store: &Store, write: &dyn Fn()| {
                let expiry = || store.expiry(&kept).unwrap().flatten();
                let before = expiry();
                write();
                assert!(before.is_some() && expiry() == before, "it is kept");
            };
            explore(key_type, prepare, |store| {
                stays(store, &|| drop(store.update(&kept, |_| Some(value(3, bytes))).unwrap()));
            });
            explore(key_type, prepare, |store| {
                stays(store, &|| {
                    let mut batch = store.with_expiry(Expiry::Kept).batch();
                    batch.put(&kept, value(3, bytes)).unwrap().touch(&other, LIFE).unwrap();
                    assert_eq!(batch.commit().unwrap(), [true, true]);
                });
            });
            explore(key_type, prepare, |store| assert!(store.touch(&other, LIFE).unwrap()));
            explore(key_type, prepare, |store| assert!(store.persist(&kept).unwrap()));
        }
    }
}

#[test]
fn crash_in_a_replacement_leaves_the_old_value_or_the_new_one() {
    for key_type in [KeyType::U64, KeyType::Bytes] {
        for (old, new) in [(5, 6), (300, 6000), (6000, 300), (6000, 9000)] {
            let prepare =
                |store: &Store| assert!(!store.put(key(key_type, 9), value(1, old)).unwrap());
            explore(key_type, prepare, |store| {
                assert!(store.put(key(key_type, 9), value(2, new)).unwrap())
            });
        }
    }
}

#[test]
fn crash_in_a_removal_leaves_all_or_nothing() {
    for key_type in [KeyType::U64, KeyType::Bytes] {
        for bytes in LENGTHS {
            for others in [0, 1, 6] {
                let prepare = |store: &Store| {
                    store.put(key(key_type, 9), value(9, bytes)).unwrap();
                    for n in 0..others {
                        store.put(key(key_type, n), value(n, 20)).unwrap();
                    }
                };
                explore(key_type, prepare, |store| {
                    assert!(store.delete(key(key_type, 9)).unwrap())
                });
            }
        }
    }
}

#[test]
fn crash_in_an_insertion_into_a_block_that_held_another_value_is_undone() {
    for key_type in [KeyType::U64, KeyType::Bytes] {
        // The new record lies where that of a removed key lay: until it is durable its place still
        // tells of the other key.
        let prepare = |store: &Store| {
            store.put(key(key_type, 3), value(3, 20)).unwrap();
            store.put(key(key_type, 4), value(4, 20)).unwrap();
            store.delete(key(key_type, 3)).unwrap();
        };
        explore(key_type, prepare, |store| {
            assert!(!store.put(key(key_type, 9), value(9, 20)).unwrap())
        });
    }
}

/// Values of so many bytes until none fits any more. The first keys are left out.
fn fill(store: &Store, key_type: KeyType, bytes: usize) {
    (100..).find(|n| store.put(key(key_type, *n), value(*n, bytes)).is_err());
}

#[test]
fn crash_in_a_write_that_draws_on_the_reserve_of_a_full_pool_leaves_all_or_nothing() {
    for key_type in [KeyType::U64, KeyType::Bytes] {
        for bytes in [300, 3000] {
            let prepare = |store: &Store| {
                for n in 0..4 {
                    store.put(key(key_type, n), value(n, bytes)).unwrap();
                }
                fill(store, key_type, bytes);
            };
            let same = |n: u64| value(n + 1, bytes);
            explore(key_type, prepare, |store| {
                assert!(store.put(key(key_type, 1), same(1)).unwrap());
                let space = store.statistics().unwrap();
                assert!(space.reserve_bytes >= 3 << 12, "it is whole again: {space:?}");
            });
            explore(key_type, prepare, |store| {
                let mut batch = store.batch();
                batch.put(key(key_type, 0), same(0)).unwrap();
                batch.put(key(key_type, 2), value(7, bytes / 2)).unwrap();
                batch.delete(key(key_type, 3)).unwrap();
                batch.commit().unwrap();
            });
        }
    }
}
