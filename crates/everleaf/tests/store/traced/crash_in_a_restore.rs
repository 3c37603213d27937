//! A restore that is cut by a crash leaves the pool empty, or complete, or refused until it is
//! restored again: from states that a power failure can leave within it, and within the restore
//! that begins anew over what a cut one has left.

use crate::common::{key, tiny, value};
use crate::traced::crash_in_a_write::{Content, Durable, GARBAGE_SEED, content};
use everleaf::internal::{create_on, open_on, open_to_restore_on};
use everleaf::{CreateOptions, Engine, Error, KeyType, Store};
use everleaf_crash::{Event, Traced};
use everleaf_engines::all;

const POOL_BYTES: u64 = 256 << 10;
const KEYS: u64 = 6;
/// Events in which the mark comes, or goes.
const NEAR: usize = 20;

fn options(engine: Engine, key_type: KeyType) -> CreateOptions {
    let tiny = tiny(key_type).size_bytes(POOL_BYTES);
    if engine == Engine::FPTREE {
        return tiny;
    }
    CreateOptions::new().engine(engine).key_type(key_type).size_bytes(POOL_BYTES)
}

fn media() -> Traced {
    Traced::new(POOL_BYTES, 4 * POOL_BYTES, GARBAGE_SEED).unwrap()
}

/// A store with some keys, with a tree that has a name if it can have any, as a dump.
fn dump_from(first: u64, key_type: KeyType) -> (Vec<u8>, Content) {
    let (store, _pool) = create_on(all(), &options(Engine::FPTREE, key_type), media()).unwrap();
    for n in first..first + KEYS {
        store.put(key(key_type, n), value(n, 30)).unwrap();
    }
    if key_type == KeyType::Bytes {
        store.tree(format!("from {first}")).unwrap().put("key", "value").unwrap();
    }
    let mut dump = Vec::new();
    store.dump(&mut dump).unwrap();
    (dump, content(&store))
}

/// What a crash has left.
#[derive(Default)]
struct Left {
    empty: usize,
    refused: usize,
    complete: usize,
}

impl Left {
    /// Opens an image; one that is refused is restored.
    fn judge(&mut self, image: &[u64], dump: &[u8], whole: &Content) {
        let from_image = || Traced::from_image(image, 4 * POOL_BYTES, GARBAGE_SEED).unwrap();
        let opened = open_on(all(), &crate::common::opening(), from_image());
        let read = open_on(all(), &crate::common::opening().read_only(true), from_image());
        assert_eq!(opened.is_ok(), read.is_ok(), "readers and writers are told the same");
        let is_whole = |store: &Store| {
            let outcome = store.check().unwrap();
            assert!(outcome.ok, "{outcome:?}");
            content(store) == *whole && store.len_of_all_trees().unwrap() >= whole.len() as u64
        };
        match opened {
            Ok((store, _pool)) if store.statistics().unwrap().entries == 0 => self.empty += 1,
            Ok((store, _pool)) => {
                assert!(is_whole(&store), "a part of a dump is served");
                self.complete += 1;
            }
            Err(Error::BeingRestored) => {
                let (store, _pool) = open_to_restore_on(all(), from_image()).unwrap();
                store.restore(dump).unwrap();
                assert!(is_whole(&store));
                self.refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Restores into what an image holds, and judges what crashes leave: all states where the mark
/// comes and goes, each `step`-th of the others. An image of the middle.
fn explore(image: &[u64], dump: &[u8], whole: &Content, step: usize) -> (Left, Vec<u64>) {
    let media = Traced::from_image(image, 4 * POOL_BYTES, GARBAGE_SEED).unwrap();
    let (store, pool) = open_to_restore_on(all(), media).unwrap();
    pool.media().take_events();
    let (mut durable, mut left) = (Durable::new(pool.media().image()), Left::default());
    store.restore(dump).unwrap();
    let events = pool.media().take_events();
    let fences = events.iter().filter(|event| matches!(event, Event::Fence { .. })).count();
    let (mut middle, mut fence, mut states) = (Vec::new(), 0, 0);
    let last = events.len();
    for (at, event) in events.into_iter().enumerate() {
        let images = durable.images_before(&event);
        let near_an_end = at < NEAR || at + NEAR > last;
        for image in &images {
            if near_an_end || states % step == 0 {
                left.judge(image, dump, whole);
            }
            states += 1;
        }
        fence += usize::from(matches!(event, Event::Fence { .. }));
        if fence == fences / 2 && middle.is_empty() {
            middle = images.into_iter().next().unwrap_or_default();
        }
        durable.apply(event);
    }
    left.judge(&pool.media().image(), dump, whole);
    (left, middle)
}

fn crash_in_a_restore(engine: Engine, key_type: KeyType, step: usize) {
    let (dump, whole) = dump_from(0, key_type);
    let (store, pool) = create_on(all(), &options(engine, key_type), media()).unwrap();
    store.close().unwrap();
    let (left, middle) = explore(&pool.media().image(), &dump, &whole, step);
    assert!(left.empty > 0 && left.refused > 5 && left.complete > 0, "{engine} {key_type:?}");
    // Another dump: it begins where the first one was cut, and removes what stands.
    let (dump, whole) = dump_from(100, key_type);
    let (left, _) = explore(&middle, &dump, &whole, step);
    assert!(left.empty == 0 && left.refused > 5 && left.complete > 0, "{engine} {key_type:?}");
}

#[test]
fn crash_in_a_restore_leaves_nothing_or_all_of_it_or_a_pool_that_is_refused() {
    for key_type in [KeyType::U64, KeyType::Bytes] {
        crash_in_a_restore(Engine::FPTREE, key_type, 1);
    }
}

#[test]
fn crash_in_a_restore_of_an_engine_of_epochs_leaves_nothing_or_all_of_it_or_a_refused_pool() {
    crash_in_a_restore(Engine::MASSTREE, KeyType::Bytes, 5);
}
