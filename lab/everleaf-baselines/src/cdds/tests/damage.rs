//! Damage is an error or a violation, never a panic and never an endless loop.

use std::convert::identity;
use std::ops::{Bound, ControlFlow};

use everleaf_conformance::damage::{self, cells, finds, fuzz, reopened, use_all, violations};
use everleaf_conformance::{Opened, image_of};
use everleaf_crash::Traced;
use everleaf_index::{Direction, U64Keys};
use everleaf_pmem::{Media, PCell, Word};
use everleaf_pool::Pool;

use super::super::layout::{CddsRoot, Child, Current, LIVE};
use super::super::open;
use super::TINY;

const BYTES: u64 = 128 << 10;

fn grown() -> Opened<U64Keys, Traced> {
    damage::grown(TINY, BYTES, identity)
}

fn refused(pool: &Pool<Traced>, part: &str) {
    damage::refused(TINY, pool, part);
}

fn anchor(pool: &Pool<Traced>) -> &CddsRoot {
    pool.index_root().unwrap()
}

/// The root.
fn root(pool: &Pool<Traced>) -> Child {
    let (media, anchor) = (pool.media(), anchor(pool));
    media.load(&anchor.roots[media.load(&anchor.current).root()])
}

/// The words of a node.
fn node(pool: &Pool<Traced>, child: Child) -> &[PCell] {
    cells(pool, child.offset(), 16)
}

/// The live entries of a node: key, start, end and value of each.
fn live(pool: &Pool<Traced>, child: Child) -> Vec<&[PCell]> {
    let is_live = |entry: &&[PCell]| {
        pool.media().load(&entry[1]) != 0 && pool.media().load(&entry[2]) == LIVE
    };
    node(pool, child).chunks(4).filter(is_live).collect()
}

/// The child of a live entry.
fn child(pool: &Pool<Traced>, entry: &[PCell]) -> Child {
    pool.media().load(entry[3].view())
}

/// A leaf with two live entries, of which one is behind all others.
fn leaf(pool: &Pool<Traced>) -> Child {
    let is_last = |node: Child, entry: &[PCell]| {
        let mut slots = cells(pool, node.offset(), 16).chunks(4).rev();
        let last = slots.find(|slot| pool.media().load(&slot[1]) != 0);
        last.is_some_and(|last| std::ptr::eq(last, entry))
    };
    let mut nodes = vec![root(pool)];
    while let Some(node) = nodes.pop() {
        let entries = live(pool, node);
        if node.level() > 0 {
            nodes.extend(entries.into_iter().map(|entry| child(pool, entry)));
        } else if entries.len() == 2 && is_last(node, entries[1]) {
            return node;
        }
    }
    panic!("there is such a leaf")
}

#[test]
fn versions_that_the_tree_never_had_are_found() {
    let (pool, tree) = grown();
    let leaf = leaf(&pool);
    let (media, version) = (pool.media(), pool.media().load(&anchor(&pool).current).version());
    let entry = live(&pool, leaf)[0];
    let right = [1, 2].map(|word| media.load(&entry[word]));
    // One of the version to come is what a crash leaves; that is for recovery.
    for (word, wrong) in [(1, version + 2), (2, version + 2), (2, right[0]), (2, 1)] {
        media.store(&entry[word], wrong);
        finds(&*tree, "I2");
        refused(&pool, "a version that the tree never had");
        media.store(&entry[word], right[word - 1]);
        assert_eq!(violations(&*tree), "");
    }
    assert!(reopened(TINY, &pool).is_ok());
}

#[test]
fn entries_out_of_order_are_found() {
    let (pool, tree) = grown();
    let leaf = leaf(&pool);
    let (media, entries) = (pool.media(), live(&pool, leaf));
    let keys = [media.load(&entries[0][0]), media.load(&entries[1][0])];
    media.store(&entries[0][0], keys[1]);
    media.store(&entries[1][0], keys[0]);
    finds(&*tree, "I2");
    refused(&pool, "do not ascend");
    media.store(&entries[0][0], keys[0]);
    media.store(&entries[1][0], u64::MAX);
    finds(&*tree, "I3");
    media.store(&entries[1][0], keys[1]);
    assert_eq!(violations(&*tree), "");
    // Two entries of a key, one of which should have ended.
    media.store(&entries[1][0], keys[0]);
    let start = media.load(&entries[1][1]);
    media.store(&entries[1][1], media.load(&entries[0][1]) + 1);
    finds(&*tree, "I2: two entries");
    media.store(&entries[1][0], keys[1]);
    media.store(&entries[1][1], start);
    assert_eq!(violations(&*tree), "");
    // One that has ended, out of order, and not between two copies of the one before it.
    let end = media.load(&entries[1][2]);
    media.store(&entries[1][2], start + 1);
    media.store(&entries[1][0], keys[0] - 1);
    refused(&pool, "do not ascend");
    media.store(&entries[1][0], keys[1]);
    media.store(&entries[1][2], end);
    assert_eq!(violations(&*tree), "");
    // An empty slot before an entry is what a crash leaves, too; not at rest.
    media.store(&node(&pool, leaf)[1], 0);
    finds(&*tree, "I1: an entry is behind an empty slot");
    use_all(&*tree, identity);
}

#[test]
fn a_leaf_without_a_free_slot_is_found() {
    let (pool, tree) = grown();
    let leaf = leaf(&pool);
    let key = pool.media().load(&live(&pool, leaf)[0][0]);
    for (number, entry) in node(&pool, leaf).chunks(4).enumerate() {
        pool.media().store(&entry[0], key + number as u64);
        pool.media().store(&entry[1], 1);
        pool.media().store(&entry[2], LIVE);
    }
    finds(&*tree, "I4: no slot is free");
    let error = tree.update(key, 1).unwrap_err();
    assert!(error.to_string().contains("a leaf has no free slot"), "{error}");
    use_all(&*tree, identity);
}

#[test]
fn an_inner_node_that_leads_astray_is_found() {
    let (pool, tree) = grown();
    let (media, root) = (pool.media(), root(&pool));
    let entries = live(&pool, root);
    let (first, second) = (child(&pool, entries[0]), child(&pool, entries[1]));
    let outside = Child::new(u64::MAX - 127, first.level());
    let elsewhere = Child::new(first.offset() + 64, first.level());
    let above = Child::new(second.offset(), root.level());
    for (leads, part) in [
        (first, "twice"),
        (outside, "outside the pool"),
        (elsewhere, "leads to no node"),
        (above, "not of the level below"),
        (Child::new(second.offset(), 63), "of no level"),
    ] {
        media.store(entries[1][3].view(), leads);
        refused(&pool, part);
        assert!(!violations(&*tree).is_empty());
        tree.scan(Bound::Unbounded, Direction::Backward, &mut |_, _| ControlFlow::Continue(()))
            .map_or_else(drop, drop);
        (0..200).for_each(|key| _ = tree.get(key));
    }
    media.store(entries[1][3].view(), second);
    assert_eq!(violations(&*tree), "");
    // It leads nowhere.
    for entry in live(&pool, first) {
        media.store(&entry[2], media.load(&entry[1]) + 1);
    }
    finds(&*tree, "I4");
    if first.level() > 0 {
        refused(&pool, "leads nowhere");
    }
    use_all(&*tree, identity);
}

#[test]
fn a_tree_that_has_lost_its_root_or_its_version_is_refused_and_not_taken_for_a_fresh_one() {
    let (pool, _tree) = grown();
    let (media, anchor) = (pool.media(), anchor(&pool));
    let (current, root) = (media.load(&anchor.current), root(&pool));
    let place = &anchor.roots[current.root()];
    media.store(place, Child::NULL);
    refused(&pool, "the tree has no root any more");
    media.store(&anchor.roots[1 - current.root()], Child::NULL);
    refused(&pool, "the tree has no root any more");
    media.store(place, root);
    media.store(&anchor.roots[1 - current.root()], root);
    for word in [0, 1] {
        media.store(&anchor.current, Current::from_word(word));
        refused(&pool, "the tree has no version any more");
    }
    media.store(&anchor.current, Current::from_word((u64::MAX - 1) | current.root() as u64));
    refused(&pool, "of a version that no tree has");
    // An older version takes what came since for what was not committed, by one; not by more.
    media.store(&anchor.current, Current::from_word(current.into_word() - (5 << 1)));
    refused(&pool, "a version that the tree never had");
    media.store(&anchor.current, current);
    assert!(reopened(TINY, &pool).is_ok());
}

#[test]
fn nothing_is_stored_where_one_of_two_nodes_is_damaged() {
    let (pool, _tree) = grown();
    let (media, version) = (pool.media(), pool.media().load(&anchor(&pool).current).version());
    let leaf = leaf(&pool);
    let entries = live(&pool, leaf);
    // One entry ends with the version to come, another one with one that comes later.
    media.store(&entries[0][2], version + 1);
    media.store(&entries[1][2], version + 2);
    let (pool, _) = Pool::open(image_of(&media.image())).unwrap();
    assert!(open::<U64Keys, _>(&pool).is_err());
    let word = pool.media().load(&live_or_ended(&pool, leaf, version + 1)[2]);
    assert_eq!(word, version + 1, "nothing was stored");
}

/// The entry of a node that ends with a version.
fn live_or_ended(pool: &Pool<Traced>, child: Child, end: u64) -> &[PCell] {
    let mut entries = node(pool, child).chunks(4);
    entries.find(|entry| pool.media().load(&entry[2]) == end).unwrap()
}

#[test]
fn random_damage_never_panics() {
    (1..5).for_each(|seed| fuzz(TINY, BYTES, identity, seed));
}
