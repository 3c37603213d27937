//! Damaged nodes that threads meet: every operation ends, of one thread and of two.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, Direction, Index, IndexError, U64Keys};
use everleaf_pmem::{Media, PPtr};
use everleaf_pool::{Audit, Format, KeyType, Pool};

use super::super::layout::{
    Anchor, Arena, LONGER, Moment, Node, Onward, Permutation, Run, Stamp, Version,
};
use super::super::{OFFER, open};
use super::SIZES;
use super::model::TestKey;

const BYTES: u64 = 512 << 10;
/// Accesses that all operations of a thread may make: thousands of keys, and no more.
const MOST_ACCESSES: u64 = 4_000_000;
const KEYS: u16 = 300;

type Opened<K> = (Arc<Pool<Traced>>, Box<dyn Index<K>>);

/// A pool of many small nodes and several layers, that was closed.
fn closed<K: TestKey>() -> Arc<Pool<Traced>> {
    let parameters = OFFER.pack(SIZES[0]);
    let format = Format { engine: "masstree".into(), key_type: KeyType::Bytes, parameters };
    let media = Traced::new(BYTES, BYTES, 3).unwrap();
    media.record(false, false);
    let pool = Pool::create(media, &format).unwrap();
    let tree = open::<K, _>(&pool, false).unwrap();
    for n in 0..KEYS {
        tree.upsert(K::borrow(&K::make(n)), u64::from(n) << 7).unwrap();
    }
    tree.close().unwrap();
    pool
}

fn reopened<K: TestKey>(pool: &Pool<Traced>) -> Opened<K> {
    let media = Traced::from_image(&pool.media().image(), BYTES, 3).unwrap();
    media.record(false, false);
    let (pool, _) = Pool::open(media).unwrap();
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
    media.limit_accesses(threads * MOST_ACCESSES);
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
    media.limit_accesses(MOST_ACCESSES);
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
