//! Damage is an error or a violation, never a panic and never an endless loop.

use std::ops::{Bound, ControlFlow};

use everleaf_conformance::damage::{self, cells, finds, fuzz, refused, reopened, violations};
use everleaf_conformance::{Opened, assert_sound};
use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, Direction, Index, U64Keys};
use everleaf_pmem::{LINE, Line, Media, PCell};
use everleaf_pool::Pool;
use everleaf_tree::key::TestKey;

use super::super::encode::{Bases, Encoded, Kind, Overwritten, Words, encode};
use super::super::layout::{ClfAnchor, Root};
use super::{ENCODED, ENCODED_SHADOW, SHADOW, TINY, Tested};

const BYTES: u64 = 128 << 10;

fn grown(tested: Tested) -> Opened<U64Keys, Traced> {
    damage::grown(tested, BYTES, U64Keys::make)
}

fn use_all(tree: &dyn Index<U64Keys>) {
    damage::use_all(tree, U64Keys::make);
}

fn root(pool: &Pool<Traced>) -> &PCell<Root> {
    &pool.index_root::<ClfAnchor>().unwrap().root
}

/// The topmost inner node.
fn top(pool: &Pool<Traced>) -> &Line {
    pool.media().region().at(pool.media().load(root(pool)).offset()).unwrap()
}

fn words(pool: &Pool<Traced>, line: &Line) -> Words {
    std::array::from_fn(|word| pool.media().load(&line.0[word]))
}

fn store(pool: &Pool<Traced>, line: &Line, words: Words) {
    line.0.iter().zip(words).for_each(|(cell, word)| pool.media().store(cell, word));
}

/// Keys and children of the topmost inner node.
fn parts(pool: &Pool<Traced>, kind: Kind) -> (Vec<u64>, Vec<u64>) {
    let line = Encoded::new(words(pool, top(pool)), kind).unwrap();
    let keys = (0..line.keys()).map(|key| line.key(key)).collect();
    (keys, (0..line.children()).map(|child| line.child(child)).collect())
}

#[test]
fn live_slots_that_cannot_be_are_found() {
    let (pool, tree) = grown(TINY);
    let mut offset = pool.media().load(root(&pool)).offset();
    for _ in 0..pool.media().load(root(&pool)).height() {
        let line: &Line = pool.media().region().at(offset).unwrap();
        offset = Encoded::new(words(&pool, line), Kind::Inner).unwrap().child(0) * LINE as u64;
    }
    let live = &cells(&pool, offset, 1)[0];
    pool.media().store(live, 0);
    finds(&*tree, "I5");
    pool.media().store(live, 8);
    finds(&*tree, "I1");
    refused::<U64Keys>(TINY, &pool, "live slots that it has no room for");
    use_all(&*tree);
}

#[test]
fn inner_nodes_that_lead_astray_are_found() {
    let (pool, tree) = grown(TINY);
    // As many children as always fit.
    let (mut keys, mut children) = parts(&pool, Kind::Inner);
    keys.truncate(2);
    children.truncate(3);
    let right = words(&pool, top(&pool));
    let here = pool.media().load(root(&pool)).offset() / LINE as u64;
    for (child, part) in [
        (children[0], "twice"),
        (here, "twice"),
        (1, "leads to no node"),
        (u64::MAX >> 1, "outside the pool"),
        (BYTES / LINE as u64, "leads to no node"),
    ] {
        let mut astray = children.clone();
        astray[1] = child;
        store(&pool, top(&pool), encode(&keys, &astray, Bases::default(), Kind::Inner).unwrap());
        refused::<U64Keys>(TINY, &pool, part);
        assert!(!violations(&*tree).is_empty());
        for direction in [Direction::Forward, Direction::Backward] {
            let all = &mut |_: u64, _: &[u64]| ControlFlow::Continue(());
            let _ = tree.scan(Bound::Unbounded, direction, all);
        }
    }
    keys.reverse();
    assert!(keys.len() > 1);
    store(&pool, top(&pool), encode(&keys, &children, Bases::default(), Kind::Inner).unwrap());
    finds(&*tree, "I2");
    store(&pool, top(&pool), right);
    assert_eq!(violations(&*tree), "");
    pool.media().store(root(&pool), Root::new(here * LINE as u64, 63));
    refused::<U64Keys>(TINY, &pool, "the index is damaged");
    use_all(&*tree);
    pool.media().store(root(&pool), Root::new(u64::MAX << 6, 3));
    refused::<U64Keys>(TINY, &pool, "the tree leads to no node");
    use_all(&*tree);
}

#[test]
fn a_line_that_is_being_overwritten_is_restored_from_its_log_or_refused() {
    let (pool, tree) = grown(TINY);
    let anchor = pool.index_root::<ClfAnchor>().unwrap();
    let right = words(&pool, top(&pool));
    let log = pool.pointer_to(&anchor.log).offset();
    let cut = [Overwritten::new(log).into_word(), 7, 7, 7, 7, 7, 7, 7];
    store(&pool, &anchor.log, right);
    store(&pool, top(&pool), cut);
    finds(&*tree, "I1");
    assert!(tree.get(1).unwrap_err().to_string().contains("in the middle of a change"));
    let (again, recovered) = reopened::<U64Keys>(TINY, &pool).unwrap();
    assert_eq!((words(&again, top(&again)), recovered.len()), (right, tree.len()));
    assert_sound(&again, &*recovered);
    store(&pool, top(&pool), [Overwritten::new(log + 64).into_word(), 7, 7, 7, 7, 7, 7, 7]);
    refused::<U64Keys>(TINY, &pool, "its log cannot be read");
    store(&pool, top(&pool), cut);
    store(&pool, &anchor.log, cut);
    refused::<U64Keys>(TINY, &pool, "its log cannot be read");
    store(&pool, &anchor.log, right);
    let child = parts_of(right).1[0] * LINE as u64;
    if pool.media().load(root(&pool)).height() > 1 {
        store(&pool, pool.media().region().at(child).unwrap(), cut);
        refused::<U64Keys>(TINY, &pool, "two nodes were left");
    }
}

fn parts_of(words: Words) -> (Vec<u64>, Vec<u64>) {
    let line = Encoded::new(words, Kind::Inner).unwrap();
    let keys = (0..line.keys()).map(|key| line.key(key)).collect();
    (keys, (0..line.children()).map(|child| line.child(child)).collect())
}

/// Where the first leaf is.
fn first_leaf(pool: &Pool<Traced>) -> u64 {
    let mut offset = pool.media().load(root(pool)).offset();
    for _ in 0..pool.media().load(root(pool)).height() {
        let line: &Line = pool.media().region().at(offset).unwrap();
        offset = parts_of(words(pool, line)).1[0] * LINE as u64;
    }
    offset
}

#[test]
fn encoded_leaves_that_are_damaged_are_found() {
    let (pool, tree) = grown(ENCODED);
    let leaf: &Line = pool.media().region().at(first_leaf(&pool)).unwrap();
    let right = words(&pool, leaf);
    let line = Encoded::new(right, Kind::Leaf).unwrap();
    let [key, next] = [0, 1].map(|slot| line.key(slot));
    let leaf_of = |keys: &[u64]| encode(keys, keys, Bases::default(), Kind::Leaf).unwrap();
    for (damaged, part) in [
        ([0; 8], "I1"),
        (words(&pool, top(&pool)), "I1"),
        (leaf_of(&[]), "I5"),
        (leaf_of(&[key, key]), "have one key"),
        (leaf_of(&[next, key]), "do not ascend"),
        (leaf_of(&[key, u64::MAX]), "out of range"),
    ] {
        store(&pool, leaf, damaged);
        finds(&*tree, part);
        let _ = reopened::<U64Keys>(ENCODED, &pool);
    }
    // A split would take separators from beyond the range of the leaf.
    for (keys, part) in [
        ([key, key, key], "do not ascend"),
        ([key, u64::MAX - 1, u64::MAX], "keys of another leaf"),
    ] {
        let words = encode(&keys, &[u64::MAX >> 1, 0, 1], Bases::default(), Kind::Leaf);
        store(&pool, leaf, words.unwrap());
        let new = key + 1 + u64::from(key + 1 == next);
        let refused = (0..8).find_map(|i| tree.insert(new + i, 1 << (62 - i)).err());
        assert!(refused.unwrap().to_string().contains(part), "{part}");
    }
    store(&pool, leaf, right);
    // What was inserted meanwhile is gone.
    assert_eq!(violations(&*reopened::<U64Keys>(ENCODED, &pool).unwrap().1), "");
    let (pool, tree) = grown(ENCODED);
    let anchor = pool.index_root::<ClfAnchor>().unwrap();
    let leaf: &Line = pool.media().region().at(first_leaf(&pool)).unwrap();
    let right = words(&pool, leaf);
    store(&pool, &anchor.log, right);
    let log = pool.pointer_to(&anchor.log).offset();
    store(&pool, leaf, [Overwritten::new(log).into_word(), 7, 7, 7, 7, 7, 7, 7]);
    assert_eq!(reopened::<U64Keys>(ENCODED, &pool).unwrap().1.len(), tree.len());
    // The log of an inner node is none of a leaf.
    store(&pool, &anchor.log, words(&pool, top(&pool)));
    refused::<U64Keys>(ENCODED, &pool, "its log cannot be read");
}

#[test]
fn random_damage_never_panics() {
    fuzz::<U64Keys>(TINY, BYTES, U64Keys::make, 1);
    fuzz::<U64Keys>(Tested { leaf_slots: 15, ..TINY }, BYTES, U64Keys::make, 2);
    fuzz::<U64Keys>(ENCODED, BYTES, U64Keys::make, 5);
    fuzz::<U64Keys>(ENCODED_SHADOW, BYTES, U64Keys::make, 6);
    fuzz::<BytesKeys>(SHADOW, BYTES, BytesKeys::make, 7);
    fuzz::<BytesKeys>(TINY, BYTES, BytesKeys::make, 3);
    fuzz::<BytesKeys>(Tested { leaf_slots: 7, ..TINY }, BYTES, BytesKeys::make, 4);
}
