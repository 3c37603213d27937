//! Damage is an error or a violation, never a panic and never an endless loop.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::{Direction, Index, IndexError, U64Keys};
use everleaf_pmem::{Media, PCell, Word};
use everleaf_pool::{Audit, Pool};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::super::layout::{CddsRoot, Child, Current, LIVE};
use super::super::open;
use super::{TINY, assert_sound, format_of, opened};

const BYTES: u64 = 128 << 10;

type Opened = (Arc<Pool<Traced>>, Box<dyn Index<U64Keys>>);

/// A tree of some 60 keys in a pool that was not closed.
fn grown() -> Opened {
    let traced = Traced::new(BYTES, BYTES, 7).unwrap();
    traced.record(false, false);
    let pool = Pool::create(traced, &format_of(TINY)).unwrap();
    let tree = opened(&pool);
    for i in 0..80 {
        tree.insert(i * 37 % 100, i).unwrap();
        if i % 5 == 0 {
            tree.remove(i * 37 % 100).unwrap();
        }
    }
    assert_sound(&pool, &*tree);
    (pool, tree)
}

fn reopened(pool: &Pool<Traced>) -> Result<Opened, IndexError> {
    let media = Traced::from_image(&pool.media().image(), BYTES, 3).unwrap();
    media.record(false, false);
    let (pool, _) = Pool::open(media)?;
    let tree = open(&pool)?;
    Ok((pool, tree))
}

fn refused(pool: &Pool<Traced>, part: &str) {
    let error = reopened(pool).map(drop).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

fn problems(tree: &dyn Index<U64Keys>) -> String {
    match tree.check(&mut Audit::new()) {
        Ok(report) => report.violations.join("; "),
        Err(e) => e.to_string(),
    }
}

fn cells(pool: &Pool<Traced>, offset: u64, count: usize) -> &[PCell] {
    pool.media().region().cells(offset, count).unwrap()
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

/// Every operation, whatever it says.
fn use_it(tree: &dyn Index<U64Keys>) {
    (0..200).for_each(|key| _ = tree.upsert(key, key));
    (0..200).for_each(|key| _ = tree.remove(key * 7 % 200));
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
        assert!(problems(&*tree).contains("I2"), "{}", problems(&*tree));
        refused(&pool, "a version that the tree never had");
        media.store(&entry[word], right[word - 1]);
        assert_eq!(problems(&*tree), "");
    }
    assert!(reopened(&pool).is_ok());
}

#[test]
fn entries_out_of_order_are_found() {
    let (pool, tree) = grown();
    let leaf = leaf(&pool);
    let (media, entries) = (pool.media(), live(&pool, leaf));
    let keys = [media.load(&entries[0][0]), media.load(&entries[1][0])];
    media.store(&entries[0][0], keys[1]);
    media.store(&entries[1][0], keys[0]);
    assert!(problems(&*tree).contains("I2"), "{}", problems(&*tree));
    refused(&pool, "do not ascend");
    media.store(&entries[0][0], keys[0]);
    media.store(&entries[1][0], u64::MAX);
    assert!(problems(&*tree).contains("I3"), "{}", problems(&*tree));
    media.store(&entries[1][0], keys[1]);
    assert_eq!(problems(&*tree), "");
    // Two entries of a key, one of which should have ended.
    media.store(&entries[1][0], keys[0]);
    let start = media.load(&entries[1][1]);
    media.store(&entries[1][1], media.load(&entries[0][1]) + 1);
    assert!(problems(&*tree).contains("I2: two entries"), "{}", problems(&*tree));
    media.store(&entries[1][0], keys[1]);
    media.store(&entries[1][1], start);
    assert_eq!(problems(&*tree), "");
    // One that has ended, out of order, and not between two copies of the one before it.
    let end = media.load(&entries[1][2]);
    media.store(&entries[1][2], start + 1);
    media.store(&entries[1][0], keys[0] - 1);
    refused(&pool, "do not ascend");
    media.store(&entries[1][0], keys[1]);
    media.store(&entries[1][2], end);
    assert_eq!(problems(&*tree), "");
    // An empty slot before an entry is what a crash leaves, too; not at rest.
    media.store(&node(&pool, leaf)[1], 0);
    assert!(problems(&*tree).contains("I1: an entry is behind an empty slot"));
    use_it(&*tree);
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
    assert!(problems(&*tree).contains("I4: no slot is free"), "{}", problems(&*tree));
    let error = tree.update(key, 1).unwrap_err();
    assert!(error.to_string().contains("a leaf has no free slot"), "{error}");
    use_it(&*tree);
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
        assert!(!problems(&*tree).is_empty());
        tree.scan(Bound::Unbounded, Direction::Backward, &mut |_, _| ControlFlow::Continue(()))
            .map_or_else(drop, drop);
        (0..200).for_each(|key| _ = tree.get(key));
    }
    media.store(entries[1][3].view(), second);
    assert_eq!(problems(&*tree), "");
    // It leads nowhere.
    for entry in live(&pool, first) {
        media.store(&entry[2], media.load(&entry[1]) + 1);
    }
    assert!(problems(&*tree).contains("I4"), "{}", problems(&*tree));
    if first.level() > 0 {
        refused(&pool, "leads nowhere");
    }
    use_it(&*tree);
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
    assert!(reopened(&pool).is_ok());
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
    let image = media.image();
    let media = Traced::from_image(&image, BYTES, 3).unwrap();
    media.record(false, false);
    let (pool, _) = Pool::open(media).unwrap();
    assert!(open::<U64Keys, _>(&pool).is_err());
    let word = pool.media().load(&live_or_ended(&pool, leaf, version + 1)[2]);
    assert_eq!(word, version + 1, "nothing was stored");
}

/// The entry of a node that ends with a version.
fn live_or_ended(pool: &Pool<Traced>, child: Child, end: u64) -> &[PCell] {
    let mut entries = node(pool, child).chunks(4);
    entries.find(|entry| pool.media().load(&entry[2]) == end).unwrap()
}

/// Words of the pool overwritten at random: whatever is done then ends, with any outcome but a
/// panic.
fn fuzz(seed: u64) {
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (pool, _tree) = grown();
    let image = pool.media().image();
    let mut opened_though_damaged = 0;
    for _ in 0..300 {
        let mut damaged = image.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..damaged.len());
            damaged[at] = match random.random_range(0..4) {
                0 => 0,
                1 => damaged[at] ^ 1 << random.random_range(0..64),
                2 => damaged[random.random_range(0..image.len())],
                _ => random.next_u64(),
            };
        }
        let media = Traced::from_image(&damaged, BYTES, 3).unwrap();
        media.record(false, false);
        let Ok((pool, _)) = Pool::open(media) else { continue };
        let Ok(tree) = open(&pool) else { continue };
        opened_though_damaged += 1;
        let _ = problems(&*tree);
        let all = &mut |_: u64, _: &[u64]| ControlFlow::Continue(());
        let _ = tree.scan(Bound::Unbounded, Direction::Backward, all);
        for i in 0..100 {
            let key = random.random_range(0..100);
            let _ = match i % 4 {
                0 => tree.insert(key, 1).map(drop),
                1 => tree.remove(key).map(drop),
                2 => tree.upsert(key, 1).map(drop),
                _ => tree.get(key).map(drop),
            };
        }
        let _ = problems(&*tree);
    }
    assert!(opened_though_damaged > 10, "damage was to be met by operations too");
}

#[test]
fn random_damage_never_panics() {
    (1..5).for_each(fuzz);
}
