//! Damage is an error or a violation, never a panic and never an endless loop.

use std::convert::identity;

use everleaf_conformance::Opened;
use everleaf_conformance::damage::{self, cells, finds, fuzz, violations};
use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, Index, IndexError, U64Keys};
use everleaf_pmem::{Media, PCell, PPtr};
use everleaf_pool::Pool;
use everleaf_tree::redo::Target;

use super::super::layout::{NODES, Shape, Slots, WbAnchor};
use super::model::string;
use super::{BOTH, TINY, Variant, Wb};

const BYTES: u64 = 256 << 10;

fn grown(variant: Variant) -> Opened<U64Keys, Traced> {
    damage::grown(Wb(variant, TINY), BYTES, identity)
}

fn reopened(pool: &Pool<Traced>, variant: Variant) -> Result<Opened<U64Keys, Traced>, IndexError> {
    damage::reopened(Wb(variant, TINY), pool)
}

fn refused(pool: &Pool<Traced>, variant: Variant, part: &str) {
    damage::refused::<U64Keys>(Wb(variant, TINY), pool, part);
}

fn use_all(tree: &dyn Index<U64Keys>) {
    damage::use_all(tree, identity);
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
        finds(&*tree, "more entries than slots");
        use_all(&*reopened(&pool, variant).unwrap().1);
        media.store(&child[0], array);
        for wrong in [right + 1, 24, u64::MAX] {
            media.store(level, wrong);
            finds(&*tree, "level");
            use_all(&*reopened(&pool, variant).unwrap().1);
        }
        media.store(level, right);
        media.store(&child[0], array & !255);
        finds(&*tree, "I4");
        media.store(&child[0], array);
        assert_eq!(violations(&*tree), "");
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
            finds(&*tree, "I2");
            use_all(&*reopened(&pool, variant).unwrap().1);
        }
        media.store(&root[0], array);
        assert_eq!(violations(&*tree), "");
    }
    let (pool, tree) = grown(Variant::Bitmap);
    let (media, [root, _]) = (pool.media(), root_and_child(&pool, Variant::Bitmap));
    let bitmap = media.load(&root[8]);
    media.store(&root[8], bitmap ^ 2);
    finds(&*tree, "I2: the bitmap");
    media.store(&root[8], bitmap & !1);
    finds(&*tree, "the slot array of an inner node is not valid");
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
            finds(&*tree, part);
            let (_, damaged) = reopened(&pool, variant).unwrap();
            assert!(damaged.len() < 1000);
            use_all(&*damaged);
        }
        media.store(pointer, child);
        assert_eq!(violations(&*tree), "");
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
            finds(&*tree, "I3");
            use_all(&*reopened(&pool, variant).unwrap().1);
        }
        media.store(key, right);
        assert_eq!(violations(&*tree), "");
    }
}

#[test]
fn free_nodes_that_are_in_the_tree_and_heads_that_count_wrong_are_found() {
    for variant in BOTH {
        let (pool, tree) = grown(variant);
        let (media, anchor) = (pool.media(), pool.index_root::<WbAnchor>().unwrap());
        let (free, root) = (media.load(&anchor.free), media.load(&anchor.root));
        media.store(&anchor.free, root);
        finds(&*tree, "I5");
        use_all(&*reopened(&pool, variant).unwrap().1);
        media.store(&anchor.free, free);
        let run = pool.runs(NODES).unwrap()[0];
        let head = &cells(&pool, run.offset, 1)[0];
        let taken = media.load(head);
        media.store(head, taken - 1);
        finds(&*tree, "I5");
        for wrong in [0, 4096, u64::MAX] {
            media.store(head, wrong);
            refused(&pool, variant, "the head of a run");
        }
        media.store(head, taken);
        assert_eq!(violations(&*tree), "");
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

#[test]
fn random_damage_never_panics() {
    for (seed, variant) in (1..5).zip(BOTH.into_iter().cycle()) {
        fuzz::<U64Keys>(Wb(variant, TINY), BYTES, identity, seed);
        fuzz::<BytesKeys>(Wb(variant, TINY), BYTES, string, seed);
    }
}
