//! Damage is an error or a violation, never a panic and never an endless loop.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, Direction, Index, IndexError, U64Keys};
use everleaf_pmem::{LINE, Line, Media, PCell};
use everleaf_pool::{Audit, Pool, Shutdown};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::super::encode::{Bases, Encoded, Kind, Overwritten, Words, encode};
use super::super::layout::{ClfAnchor, Root};
use super::{
    ENCODED, ENCODED_SHADOW, SHADOW, TINY, Tested, assert_sound, format_of, opened, opened_after,
};
use everleaf_tree::key::TestKey;

const BYTES: u64 = 128 << 10;

type Opened<K> = (Arc<Pool<Traced>>, Box<dyn Index<K>>);

/// A tree of some 60 keys in a pool that was not closed.
fn grown<K: TestKey>(parameters: Tested) -> Opened<K> {
    let traced = Traced::new(BYTES, BYTES, 7).unwrap();
    traced.record(false, false);
    let pool = Pool::create(traced, &format_of::<K>(parameters)).unwrap();
    let tree = opened::<K, _>(&pool);
    for i in 0..80 {
        let key = K::make(i * 37 % 100);
        tree.insert(K::borrow(&key), i).unwrap();
        if i % 5 == 0 {
            tree.remove(K::borrow(&key)).unwrap();
        }
    }
    assert_sound(&pool, &*tree);
    (pool, tree)
}

fn reopened<K: TestKey>(pool: &Pool<Traced>) -> Result<Opened<K>, IndexError> {
    let media = Traced::from_image(&pool.media().image(), BYTES, 3).unwrap();
    media.record(false, false);
    let (pool, _) = Pool::open(media)?;
    let tree = opened_after::<K, _>(&pool, Shutdown::Crash)?;
    Ok((pool, tree))
}

fn refused<K: TestKey>(pool: &Pool<Traced>, part: &str) {
    let error = reopened::<K>(pool).map(drop).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

fn problems<K: TestKey>(tree: &dyn Index<K>) -> String {
    match tree.check(&mut Audit::new()) {
        Ok(report) => report.violations.join("; "),
        Err(e) => e.to_string(),
    }
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

/// Everything that a user can do; whatever becomes of it, it ends.
fn use_all<K: TestKey>(tree: &dyn Index<K>) {
    let _ = problems(tree);
    for direction in [Direction::Forward, Direction::Backward] {
        let all = &mut |_: K::Ref<'_>, _: &[u64]| ControlFlow::Continue(());
        let _ = tree.scan(Bound::Unbounded, direction, all);
    }
    for i in 0..120 {
        let key = K::make(i);
        let key = K::borrow(&key);
        let _ = match i % 4 {
            0 => tree.insert(key, 1).map(|_| None),
            1 => tree.remove(key),
            2 => tree.upsert(key, 1),
            _ => tree.get(key),
        };
    }
    let _ = problems(tree);
}

#[test]
fn live_slots_that_cannot_be_are_found() {
    let (pool, tree) = grown::<U64Keys>(TINY);
    let mut offset = pool.media().load(root(&pool)).offset();
    for _ in 0..pool.media().load(root(&pool)).height() {
        let line: &Line = pool.media().region().at(offset).unwrap();
        offset = Encoded::new(words(&pool, line), Kind::Inner).unwrap().child(0) * LINE as u64;
    }
    let live = &pool.media().region().cells(offset, 1).unwrap()[0];
    let right = pool.media().load(live);
    pool.media().store(live, 8);
    assert!(problems(&*tree).contains("I1"));
    refused::<U64Keys>(&pool, "live slots that it has no room for");
    use_all(&*tree);
    pool.media().store(live, 0);
    assert!(problems(&*tree).contains("I5"), "{}", problems(&*tree));
    pool.media().store(live, right);
}

#[test]
fn inner_nodes_that_lead_astray_are_found() {
    let (pool, tree) = grown::<U64Keys>(TINY);
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
        refused::<U64Keys>(&pool, part);
        assert!(!problems(&*tree).is_empty());
        for direction in [Direction::Forward, Direction::Backward] {
            let all = &mut |_: u64, _: &[u64]| ControlFlow::Continue(());
            let _ = tree.scan(Bound::Unbounded, direction, all);
        }
    }
    keys.reverse();
    assert!(keys.len() > 1);
    store(&pool, top(&pool), encode(&keys, &children, Bases::default(), Kind::Inner).unwrap());
    assert!(problems(&*tree).contains("I2"));
    store(&pool, top(&pool), right);
    assert_eq!(problems(&*tree), "");
    pool.media().store(root(&pool), Root::new(here * LINE as u64, 63));
    refused::<U64Keys>(&pool, "the index is damaged");
    use_all(&*tree);
    pool.media().store(root(&pool), Root::new(u64::MAX << 6, 3));
    refused::<U64Keys>(&pool, "the tree leads to no node");
    use_all(&*tree);
}

#[test]
fn a_line_that_is_being_overwritten_is_restored_from_its_log_or_refused() {
    let (pool, tree) = grown::<U64Keys>(TINY);
    let anchor = pool.index_root::<ClfAnchor>().unwrap();
    let right = words(&pool, top(&pool));
    let log = pool.pointer_to(&anchor.log).offset();
    let cut = [Overwritten::new(log).into_word(), 7, 7, 7, 7, 7, 7, 7];
    store(&pool, &anchor.log, right);
    store(&pool, top(&pool), cut);
    assert!(problems(&*tree).contains("I1"));
    assert!(tree.get(1).unwrap_err().to_string().contains("in the middle of a change"));
    let (again, recovered) = reopened::<U64Keys>(&pool).unwrap();
    assert_eq!((words(&again, top(&again)), recovered.len()), (right, tree.len()));
    assert_sound(&again, &*recovered);
    store(&pool, top(&pool), [Overwritten::new(log + 64).into_word(), 7, 7, 7, 7, 7, 7, 7]);
    refused::<U64Keys>(&pool, "its log cannot be read");
    store(&pool, top(&pool), cut);
    store(&pool, &anchor.log, cut);
    refused::<U64Keys>(&pool, "its log cannot be read");
    store(&pool, &anchor.log, right);
    let child = parts_of(right).1[0] * LINE as u64;
    if pool.media().load(root(&pool)).height() > 1 {
        store(&pool, pool.media().region().at(child).unwrap(), cut);
        refused::<U64Keys>(&pool, "two nodes were left");
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
    let (pool, tree) = grown::<U64Keys>(ENCODED);
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
        assert!(problems(&*tree).contains(part), "{part}: {}", problems(&*tree));
        let _ = reopened::<U64Keys>(&pool);
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
    assert_eq!(problems(&*reopened::<U64Keys>(&pool).unwrap().1), "");
    let (pool, tree) = grown::<U64Keys>(ENCODED);
    let anchor = pool.index_root::<ClfAnchor>().unwrap();
    let leaf: &Line = pool.media().region().at(first_leaf(&pool)).unwrap();
    let right = words(&pool, leaf);
    store(&pool, &anchor.log, right);
    let log = pool.pointer_to(&anchor.log).offset();
    store(&pool, leaf, [Overwritten::new(log).into_word(), 7, 7, 7, 7, 7, 7, 7]);
    assert_eq!(reopened::<U64Keys>(&pool).unwrap().1.len(), tree.len());
    // The log of an inner node is none of a leaf.
    store(&pool, &anchor.log, words(&pool, top(&pool)));
    refused::<U64Keys>(&pool, "its log cannot be read");
}

/// Words of the pool overwritten at random: whatever is done then ends, with any outcome but a
/// panic.
fn fuzz<K: TestKey>(parameters: Tested, seed: u64) {
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (pool, _tree) = grown::<K>(parameters);
    let image = pool.media().image();
    // Where there is something: damage elsewhere would be met by nobody.
    let places: Vec<usize> = (0..image.len()).filter(|at| image[*at] != 0).collect();
    let mut opened_though_damaged = 0;
    for _ in 0..300 {
        let mut damaged = image.clone();
        for _ in 0..random.random_range(1..4) {
            let at = places[random.random_range(0..places.len())];
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
        let Ok(tree) = opened_after::<K, _>(&pool, Shutdown::Crash) else { continue };
        opened_though_damaged += 1;
        use_all(&*tree);
    }
    assert!(opened_though_damaged > 10, "damage was to be met by operations too");
}

#[test]
fn random_damage_never_panics() {
    fuzz::<U64Keys>(TINY, 1);
    fuzz::<U64Keys>(Tested { leaf_slots: 15, ..TINY }, 2);
    fuzz::<U64Keys>(ENCODED, 5);
    fuzz::<U64Keys>(ENCODED_SHADOW, 6);
    fuzz::<BytesKeys>(SHADOW, 7);
    fuzz::<BytesKeys>(TINY, 3);
    fuzz::<BytesKeys>(Tested { leaf_slots: 7, ..TINY }, 4);
}
