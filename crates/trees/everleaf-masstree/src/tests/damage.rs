//! Damaged nodes that threads meet: every operation ends, of one thread and of two.

use std::ops::{Bound, ControlFlow};
use std::panic::catch_unwind;
use std::sync::Arc;

use everleaf_conformance::{Opened, image_of};
use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, Direction, IndexError, U64Keys};
use everleaf_pmem::{Media, PCell, PPtr};
use everleaf_pool::{Audit, Format, KeyType, Pool};

use super::super::layout::{
    Anchor, Arena, FAILED_RANGES, LONGER, Moment, Node, Onward, Permutation, Run, Stamp, Version,
};
use super::super::{OFFER, open};
use super::SIZES;
use super::model::TestKey;

const BYTES: u64 = 512 << 10;
/// Accesses that all operations of a thread may make: thousands of keys, and no more.
const MAX_ACCESSES: u64 = 4_000_000;
const KEYS: u16 = 300;
/// Words of a node.
const NEXT_WORD: usize = 7;
const CHILD_WORD: usize = 24;

/// A pool of many small nodes and several layers, that was closed.
fn closed<K: TestKey>() -> Arc<Pool<Traced>> {
    closed_after::<K>(0)
}

/// The same, whose first epoch comes after this one.
fn closed_after<K: TestKey>(epoch: u64) -> Arc<Pool<Traced>> {
    let parameters = OFFER.pack(SIZES[0]);
    let format = Format { engine: "masstree".into(), key_type: KeyType::Bytes, parameters };
    let media = Traced::new(BYTES, BYTES, 3).unwrap();
    media.record(false, false);
    let pool = Pool::create(media, &format).unwrap();
    if epoch > 0 {
        pool.commit_epoch(epoch).unwrap();
    }
    let tree = open::<K, _>(&pool, false).unwrap();
    for n in 0..KEYS {
        tree.upsert(K::borrow(&K::make(n)), u64::from(n) << 7).unwrap();
    }
    tree.close().unwrap();
    pool
}

fn reopened<K: TestKey>(pool: &Pool<Traced>) -> Opened<K, Traced> {
    let (pool, _) = Pool::open(image_of(&pool.media().image())).unwrap();
    let tree = open::<K, _>(&pool, true).unwrap();
    (pool, tree)
}

fn node(pool: &Pool<Traced>, offset: u64) -> &Node {
    pool.node(PPtr::at(offset)).unwrap()
}

fn root(pool: &Pool<Traced>) -> u64 {
    let anchor = pool.index_root::<Anchor>().unwrap();
    let [arenas, count] = [&anchor.arenas, &anchor.arena_count].map(|c| pool.media().load(c));
    arenas + count * size_of::<Arena>() as u64
}

/// Nodes of the first layer on the way to its first border node, and the border nodes.
fn first_layer(pool: &Pool<Traced>) -> (Vec<u64>, Vec<u64>) {
    let media = pool.media();
    let (mut inner, mut border) = (Vec::new(), Vec::new());
    let mut at = root(pool);
    while media.load(&node(pool, at).meta).is_border() == Some(false) {
        inner.push(at);
        at = media.load(node(pool, at).child(0)).offset();
    }
    while at != 0 {
        border.push(at);
        at = media.load(&node(pool, at).next).offset();
    }
    (inner, border)
}

/// Everything that can be done, by so many threads; what it says of the damage.
fn everything_ends<K: TestKey>(damaged: &Pool<Traced>, threads: u64, what: &str) -> Vec<String> {
    let (pool, tree) = reopened::<K>(damaged);
    let media = pool.media();
    media.limit_accesses(threads * MAX_ACCESSES);
    let errors = std::thread::scope(|scope| {
        let of_thread = || {
            let mut errors = Vec::new();
            let mut note = |done: Result<(), IndexError>| {
                errors.extend(done.err().map(|error| error.to_string()));
            };
            for direction in [Direction::Forward, Direction::Backward] {
                let all = &mut |_: K::Ref<'_>, _: &[u64]| ControlFlow::Continue(());
                note(tree.scan(Bound::Unbounded, direction, all));
            }
            let keys: Vec<K::Owned> = (0..KEYS + 30).map(K::make).collect();
            let refs: Vec<K::Ref<'_>> = keys.iter().map(|key| K::borrow(key)).collect();
            note(tree.get_many(&refs, &mut vec![None; refs.len()]));
            refs.iter().for_each(|key| note(tree.get(*key).map(drop)));
            refs.iter().for_each(|key| note(tree.upsert(*key, 5).map(drop)));
            refs.iter().for_each(|key| note(tree.remove(*key).map(drop)));
            refs.iter().for_each(|key| note(tree.insert(*key, 6).map(drop)));
            note(tree.sync());
            errors
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(of_thread)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect(what)).collect::<Vec<_>>()
    });
    media.limit_accesses(MAX_ACCESSES);
    let _ = (tree.statistics(), tree.check(&mut Audit::new()));
    errors
}

fn both_end<K: TestKey>(damaged: &Pool<Traced>, what: &str) {
    for threads in [1, 2] {
        let errors = everything_ends::<K>(damaged, threads, what);
        assert!(errors.iter().any(|error| error.contains("damaged")), "{what}: {errors:?}");
    }
}

#[test]
fn a_chain_of_border_nodes_in_a_circle_ends_for_one_thread_and_for_two() {
    let pool = closed::<U64Keys>();
    let (_, border) = first_layer(&pool);
    for (from, to) in [(5, 5), (5, 4), (9, 0), (20, 3), (border.len() - 1, 0)] {
        let next = &node(&pool, border[from]).next;
        let right = pool.media().load(next);
        pool.media().store(next, PPtr::at(border[to]));
        both_end::<U64Keys>(&pool, &format!("border node {from} leads to {to}"));
        pool.media().store(next, right);
    }
}

#[test]
fn nodes_that_lead_to_those_above_end_for_one_thread_and_for_two() {
    let pool = closed::<U64Keys>();
    let (inner, border) = first_layer(&pool);
    let (media, last) = (pool.media(), inner.len() - 1);
    assert!(last >= 2, "{} levels", inner.len());
    for (from, to) in [(0, 0), (last, 0), (last, last), (last, 1), (1, 1)] {
        for index in [0, 1] {
            let child = node(&pool, inner[from]).child(index);
            let right = media.load(child);
            media.store(child, PPtr::at(inner[to]));
            both_end::<U64Keys>(&pool, &format!("child {index} of node {from} is {to}"));
            media.store(child, right);
        }
    }
    // One border node below two others: it is empty, and deleted, before the second one is.
    let child = node(&pool, inner[last]).child(1);
    media.store(child, PPtr::at(border[0]));
    both_end::<U64Keys>(&pool, "a border node is below two entries");
}

#[test]
fn a_node_that_looks_locked_in_this_run_is_nobodys_for_one_thread_and_for_two() {
    let pool = closed::<BytesKeys>();
    let (inner, border) = first_layer(&pool);
    let media = pool.media();
    // The next one is that of the crash.
    let first = pool.durable_epoch().unwrap() + 2;
    for offset in [inner[0], inner[inner.len() - 1], border[0], border[4]] {
        let node = node(&pool, offset);
        let (stamp, version) = (media.load(&node.stamp), media.load(&node.version));
        // The epochs that the next run begins with, and a later one.
        for epoch in [first, first + 1, first + 1000] {
            let fresh = Version::fresh(version.is_border(), Run::NONE);
            for version in [fresh, fresh.locked(), fresh.locked().changing(), fresh.deleted()] {
                media.store(&node.stamp, Stamp::of(Moment::first(epoch)));
                media.store(&node.version, version);
                both_end::<BytesKeys>(&pool, &format!("{version:?} of epoch {epoch}"));
            }
        }
        media.store(&node.stamp, stamp);
        media.store(&node.version, version);
    }
}

/// Entries of border nodes that lead to layers: the node, the slot.
fn layers(pool: &Pool<Traced>) -> Vec<(u64, usize)> {
    let media = pool.media();
    let mut entries = Vec::new();
    for offset in first_layer(pool).1 {
        let node = node(pool, offset);
        let (perm, meta) = (media.load(&node.perm), media.load(&node.meta));
        let slots = (0..perm.count()).map(|position| perm.slot(position));
        entries.extend(slots.filter(|slot| meta.code(*slot) == LONGER).map(|slot| (offset, slot)));
    }
    let leads = |(offset, slot): &(u64, usize)| {
        let word = media.load(node(pool, *offset).value::<true>(*slot));
        matches!(Onward::of(word), Onward::Layer(_))
    };
    entries.into_iter().filter(leads).collect()
}

#[test]
fn layers_that_lead_to_themselves_end_for_one_thread_and_for_two() {
    let pool = closed::<BytesKeys>();
    let (media, found) = (pool.media(), layers(&pool));
    assert!(found.len() > 1);
    for (offset, slot) in &found {
        let cell = node(&pool, *offset).value::<true>(*slot);
        let right = media.load(cell);
        media.store(cell, Onward::Layer(root(&pool)).word());
        both_end::<BytesKeys>(&pool, "a layer leads to the first one");
        media.store(cell, right);
    }
    let word = media.load(node(&pool, found[0].0).value::<true>(found[0].1));
    media.store(node(&pool, found[1].0).value::<true>(found[1].1), word);
    for threads in [1, 2] {
        everything_ends::<BytesKeys>(&pool, threads, "two entries lead to one layer");
    }
}

#[test]
fn an_unsound_node_is_an_error_at_the_first_look() {
    let pool = closed::<BytesKeys>();
    let (inner, border) = first_layer(&pool);
    let media = pool.media();
    let damaged = node(&pool, border[3]);
    let perm = media.load(&damaged.perm);
    for other in [Permutation::first(15), Permutation::first(14).truncated(0)] {
        let unsound = if other.count() == 0 { perm.truncated(14).removed(0, 14) } else { other };
        media.store(&damaged.perm, unsound);
        media.store(&damaged.perm_undo, unsound);
        both_end::<BytesKeys>(&pool, "a permutation");
    }
    media.store(&damaged.perm, perm);
    media.store(&damaged.perm_undo, perm);
    let key = node(&pool, inner[0]).key(0);
    media.store(key, u64::MAX);
    let errors = everything_ends::<BytesKeys>(&pool, 1, "keys that do not ascend");
    assert!(errors.iter().any(|error| error.contains("do not ascend")), "{errors:?}");
}

/// A closed pool with so many ranges of failed epochs that opening it looks at every node.
fn with_many_ranges<K: TestKey>() -> Arc<Pool<Traced>> {
    const RANGES: u64 = FAILED_RANGES as u64 - 2;
    let pool = closed_after::<K>(2 * RANGES);
    let (anchor, media) = (pool.index_root::<Anchor>().unwrap(), pool.media());
    for (word, cell) in (0..2 * RANGES).zip(&anchor.failed) {
        media.store(cell, word);
    }
    media.store(&anchor.failed_count, RANGES);
    pool
}

/// Opens a damaged pool after a crash, within so many accesses.
fn open_ends<K: TestKey>(damaged: &[u64]) -> Result<(), String> {
    let media = image_of(damaged);
    media.limit_accesses(MAX_ACCESSES);
    let (pool, _) = Pool::open(media.clone()).map_err(|error| error.to_string())?;
    let tree = open::<K, _>(&pool, true).map_err(|error| error.to_string())?;
    tree.scan(Bound::Unbounded, Direction::Forward, &mut |_, _| ControlFlow::Continue(()))
        .map_err(|error| error.to_string())
}

#[test]
fn an_opening_that_looks_at_every_node_ends_on_circles_of_all_kinds() {
    let pool = with_many_ranges::<BytesKeys>();
    let media = pool.media();
    open_ends::<BytesKeys>(&media.image()).unwrap();
    let (reopened, tree) = reopened::<BytesKeys>(&pool);
    let anchor = reopened.index_root::<Anchor>().unwrap();
    assert_eq!(reopened.media().load(&anchor.failed_count), 0, "it has looked at every node");
    drop(tree);
    let (inner, border) = first_layer(&pool);
    let last = inner.len() - 1;
    let mut damages: Vec<(&PCell, u64)> = Vec::new();
    let leads = |from: u64, to: u64| (node(&pool, from).word(CHILD_WORD), to);
    damages.extend([(0, 0), (last, 0), (last, last)].map(|(a, b)| leads(inner[a], inner[b])));
    damages.push((node(&pool, border[5]).word(NEXT_WORD), border[4]));
    for (offset, slot) in layers(&pool) {
        let word = Onward::Layer(root(&pool)).word();
        damages.push((node(&pool, offset).value::<true>(slot), word));
    }
    let mut errors = 0;
    for (cell, word) in damages {
        let right = media.load(cell);
        media.store(cell, word);
        errors += usize::from(open_ends::<BytesKeys>(&media.image()).is_err());
        media.store(cell, right);
    }
    assert!(errors >= 5, "{errors} are found");
}

/// Pointers that lead elsewhere, flipped bits and swapped words, in pools whose opening looks at
/// every node; of each kind of keys.
fn damaged_openings_end<K: TestKey>(pools: u64) {
    let image = with_many_ranges::<K>().media().image();
    let used: Vec<usize> = (512..image.len()).filter(|at| image[*at] != 0).collect();
    let bytes = BYTES;
    let is_place = |word: u64| word & !1 >= 4096 && word < bytes && word & 62 == 0;
    let places: Vec<usize> = used.iter().copied().filter(|at| is_place(image[*at])).collect();
    let mut refused = 0;
    for seed in 0..pools {
        let mut state = seed;
        let mut below = |ways: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (state >> 33) as usize % ways
        };
        let mut words = image.clone();
        match below(4) {
            0 => words[used[below(used.len())]] ^= 1 << below(64),
            1 => words[places[below(places.len())]] ^= 1 << (6 + below(11)),
            2 => words.swap(used[below(used.len())], used[below(used.len())]),
            _ => words[places[below(places.len())]] = image[places[below(places.len())]],
        }
        let ended = catch_unwind(|| open_ends::<K>(&words));
        let ended = ended.unwrap_or_else(|_| panic!("damage {seed} is never found"));
        refused += u64::from(ended.is_err());
    }
    println!("{refused} of {pools} damaged pools are refused");
    assert!(refused > pools / 20);
}

#[test]
fn openings_of_damaged_pools_that_look_at_every_node_end() {
    damaged_openings_end::<U64Keys>(60);
    damaged_openings_end::<BytesKeys>(60);
}

#[test]
#[ignore = "a minute: by name, with --ignored"]
fn openings_of_thousands_of_damaged_pools_end() {
    damaged_openings_end::<U64Keys>(2000);
    damaged_openings_end::<BytesKeys>(2000);
}
