//! Damage is an error or a violation, never a panic and never an endless loop.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, Direction, Index, IndexError, U64Keys};
use everleaf_pmem::{Media, PCell, PPtr};
use everleaf_pool::{Audit, Pool};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::super::layout::{NODES, Shape, Slots, WbAnchor};
use super::super::open;
use super::{BOTH, TINY, Variant, assert_sound, format_of, opened};
use everleaf_tree::key::TreeKey;
use everleaf_tree::redo::Target;

const BYTES: u64 = 256 << 10;

type Opened<K> = (Arc<Pool<Traced>>, Box<dyn Index<K>>);

/// A tree of some 60 keys in a pool that was not closed.
fn grown(variant: Variant) -> Opened<U64Keys> {
    let traced = Traced::new(BYTES, BYTES, 7).unwrap();
    traced.record(false, false);
    let pool = Pool::create(traced, &format_of::<U64Keys>(variant, TINY)).unwrap();
    let tree = opened::<U64Keys, _>(&pool, variant);
    for i in 0..80 {
        tree.insert(i * 37 % 100, i).unwrap();
        if i % 5 == 0 {
            tree.remove(i * 37 % 100).unwrap();
        }
    }
    assert_sound(&pool, &*tree);
    (pool, tree)
}

fn reopened(pool: &Pool<Traced>, variant: Variant) -> Result<Opened<U64Keys>, IndexError> {
    let media = Traced::from_image(&pool.media().image(), BYTES, 3).unwrap();
    media.record(false, false);
    let (pool, _) = Pool::open(media)?;
    let tree = open(&pool, variant)?;
    Ok((pool, tree))
}

fn refused(pool: &Pool<Traced>, variant: Variant, part: &str) {
    let error = reopened(pool, variant).map(drop).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

fn problems<K: TreeKey>(tree: &dyn Index<K>) -> String {
    match tree.check(&mut Audit::new()) {
        Ok(report) => report.violations.join("; "),
        Err(e) => e.to_string(),
    }
}

/// Each operation with many keys: with any outcome but a panic.
fn use_all(tree: &dyn Index<U64Keys>) {
    for key in 0..200 {
        let _ = (tree.get(key), tree.upsert(key, key), tree.remove(key + 3));
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let _ = tree.scan(Bound::Unbounded, direction, &mut |_, _| ControlFlow::Continue(()));
    }
}

fn cells(pool: &Pool<Traced>, offset: u64, count: usize) -> &[PCell] {
    pool.media().region().cells(offset, count).unwrap()
}

fn shape(variant: Variant) -> Shape {
    Shape::new(variant == Variant::Bitmap, 4, 1).unwrap()
}

/// The words of the root, and of its second child.
fn root_and_child(pool: &Pool<Traced>, variant: Variant) -> [&[PCell]; 2] {
    let (media, shape) = (pool.media(), shape(variant));
    let root = media.load(&pool.index_root::<WbAnchor>().unwrap().root).offset();
    let root = cells(pool, root, shape.node_words());
    let slots = Slots::from_words([media.load(&root[0])].into_iter());
    let place = usize::from(slots.places()[1]);
    let child = media.load(&root[shape.entry_index(1, place) + 1]);
    [root, cells(pool, child, shape.node_words())]
}

#[test]
fn a_count_and_a_level_that_cannot_be_are_found() {
    for variant in BOTH {
        let (pool, tree) = grown(variant);
        let (media, [_, child]) = (pool.media(), root_and_child(&pool, variant));
        let level = &child[shape(variant).level_index()];
        let (array, right) = (media.load(&child[0]), media.load(level));
        media.store(&child[0], array & !255 | 5);
        assert!(problems(&*tree).contains("more entries than slots"), "{}", problems(&*tree));
        use_all(&*reopened(&pool, variant).unwrap().1);
        media.store(&child[0], array);
        for wrong in [right + 1, 24, u64::MAX] {
            media.store(level, wrong);
            assert!(problems(&*tree).contains("level"), "{}", problems(&*tree));
            use_all(&*reopened(&pool, variant).unwrap().1);
        }
        media.store(level, right);
        media.store(&child[0], array & !255);
        assert!(problems(&*tree).contains("I4"));
        media.store(&child[0], array);
        assert_eq!(problems(&*tree), "");
    }
}

#[test]
fn places_that_no_entry_has_and_places_that_two_have_are_found() {
    for variant in BOTH {
        let (pool, tree) = grown(variant);
        let (media, [root, _]) = (pool.media(), root_and_child(&pool, variant));
        let array = media.load(&root[0]);
        let first = array >> 8 & 255;
        for wrong in [4, 255, first] {
            media.store(&root[0], array & !(255 << 16) | wrong << 16);
            assert!(problems(&*tree).contains("I2"), "{}", problems(&*tree));
            use_all(&*reopened(&pool, variant).unwrap().1);
        }
        media.store(&root[0], array);
        assert_eq!(problems(&*tree), "");
    }
    let (pool, tree) = grown(Variant::Bitmap);
    let (media, [root, _]) = (pool.media(), root_and_child(&pool, Variant::Bitmap));
    let bitmap = media.load(&root[8]);
    media.store(&root[8], bitmap ^ 2);
    assert!(problems(&*tree).contains("I2: the bitmap"));
    media.store(&root[8], bitmap & !1);
    assert!(problems(&*tree).contains("the slot array of an inner node is not valid"));
    refused(&pool, Variant::Bitmap, "the slot array of an inner node is not valid");
}

#[test]
fn an_inner_node_that_leads_astray_is_found() {
    for variant in BOTH {
        let (pool, tree) = grown(variant);
        let (media, [root, child]) = (pool.media(), root_and_child(&pool, variant));
        let (root_offset, child) = (
            pool.media().region().pointer_to(&root[0]).offset(),
            pool.media().region().pointer_to(&child[0]).offset(),
        );
        let entries = &root[shape(variant).entry_index(1, 0)..];
        let pointer = entries.iter().find(|cell| media.load(*cell) == child).unwrap();
        let first = media.load(&entries[1]);
        for (leads, part) in
            [(first, "twice"), (u64::MAX - 63, "outside the pool"), (root_offset, "level")]
        {
            media.store(pointer, leads);
            assert!(problems(&*tree).contains(part), "{}", problems(&*tree));
            let (_, damaged) = reopened(&pool, variant).unwrap();
            assert!(damaged.len() < 1000);
            use_all(&*damaged);
        }
        media.store(pointer, child);
        assert_eq!(problems(&*tree), "");
    }
}

#[test]
fn keys_out_of_order_are_found() {
    for variant in BOTH {
        let (pool, tree) = grown(variant);
        let (media, [root, _]) = (pool.media(), root_and_child(&pool, variant));
        let slots = Slots::from_words([media.load(&root[0])].into_iter());
        let key = &root[shape(variant).entry_index(1, usize::from(slots.places()[1]))];
        let right = media.load(key);
        for wrong in [0, u64::MAX] {
            media.store(key, wrong);
            assert!(problems(&*tree).contains("I3"), "{}", problems(&*tree));
            use_all(&*reopened(&pool, variant).unwrap().1);
        }
        media.store(key, right);
        assert_eq!(problems(&*tree), "");
    }
}

#[test]
fn free_nodes_that_are_in_the_tree_and_heads_that_count_wrong_are_found() {
    for variant in BOTH {
        let (pool, tree) = grown(variant);
        let (media, anchor) = (pool.media(), pool.index_root::<WbAnchor>().unwrap());
        let (free, root) = (media.load(&anchor.free), media.load(&anchor.root));
        media.store(&anchor.free, root);
        assert!(problems(&*tree).contains("I5"), "{}", problems(&*tree));
        use_all(&*reopened(&pool, variant).unwrap().1);
        media.store(&anchor.free, free);
        let run = pool.runs(NODES).unwrap()[0];
        let head = &cells(&pool, run.offset, 1)[0];
        let taken = media.load(head);
        media.store(head, taken - 1);
        assert!(problems(&*tree).contains("I5"));
        for wrong in [0, 4096, u64::MAX] {
            media.store(head, wrong);
            refused(&pool, variant, "the head of a run");
        }
        media.store(head, taken);
        assert_eq!(problems(&*tree), "");
        media.store(&anchor.root, PPtr::NULL);
        media.store(&anchor.log[0], 0);
        refused(&pool, variant, "the tree has no root any more");
    }
}

#[test]
fn a_log_that_goes_astray_is_refused_before_anything_is_stored() {
    for variant in BOTH {
        let (pool, _tree) = grown(variant);
        let (media, anchor) = (pool.media(), pool.index_root::<WbAnchor>().unwrap());
        let root = media.load(&anchor.root).offset();
        let place = &cells(&pool, root, 1)[0];
        let right = media.load(place);
        let set = |words: &[u64]| {
            anchor.log.iter().zip(words).for_each(|(cell, word)| media.store(cell, *word));
        };
        let good = Target::new(root, 1).into_word();
        let run_end = pool.runs(NODES).unwrap()[0];
        for wrong in [
            Target::new(root, 0),
            Target::new(root, 200),
            Target::new(64, 1),
            Target::new(run_end.offset + run_end.bytes - 8, 2),
            Target::from_word(u64::MAX),
        ] {
            set(&[4, good, 99, wrong.into_word(), 0]);
            refused(&pool, variant, "a record of the log");
            set(&[1000]);
            refused(&pool, variant, "more records than room");
        }
        assert_eq!(media.load(place), right, "nothing was stored");
        set(&[0]);
        assert!(reopened(&pool, variant).is_ok());
    }
}

/// Words of the pool overwritten at random: whatever is done then ends, with any outcome but a
/// panic.
fn fuzz<K: TreeKey>(
    variant: Variant,
    seed: u64,
    with_key: impl Fn(u64, &mut dyn FnMut(K::Ref<'_>)),
) {
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let traced = Traced::new(BYTES, BYTES, 7).unwrap();
    traced.record(false, false);
    let pool = Pool::create(traced, &format_of::<K>(variant, TINY)).unwrap();
    let tree = opened::<K, _>(&pool, variant);
    for i in 0..60 {
        with_key(i * 37 % 100, &mut |key| _ = tree.insert(key, i).unwrap());
        if i % 5 == 0 {
            with_key(i * 37 % 100, &mut |key| _ = tree.remove(key).unwrap());
        }
    }
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
        let Ok(tree) = open::<K, _>(&pool, variant) else { continue };
        opened_though_damaged += 1;
        let _ = problems(&*tree);
        for direction in [Direction::Forward, Direction::Backward] {
            let _ = tree.scan(Bound::Unbounded, direction, &mut |_, _| ControlFlow::Continue(()));
        }
        for i in 0..100 {
            with_key(random.random_range(0..100), &mut |key| {
                let _ = match i % 4 {
                    0 => tree.insert(key, 1).map(drop),
                    1 => tree.remove(key).map(drop),
                    2 => tree.upsert(key, 1).map(drop),
                    _ => tree.get(key).map(drop),
                };
            });
        }
        let _ = (problems(&*tree), tree.len());
    }
    assert!(opened_though_damaged > 10, "damage was to be met by operations too");
}

#[test]
fn random_damage_never_panics() {
    for (seed, variant) in (1..5).zip(BOTH.into_iter().cycle()) {
        fuzz::<U64Keys>(variant, seed, |number, see| see(number));
        fuzz::<BytesKeys>(variant, seed, |number, see| see(format!("key {number}").as_bytes()));
    }
}
