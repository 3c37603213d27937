//! Damage is an error or a violation, never a panic and never an endless loop.

use std::ops::Bound;

use everleaf_conformance::damage::{self, cells, fuzz};
use everleaf_conformance::{Opened, image_of, opened, problems, scanned, traced_pool};
use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, Direction, IndexError, U64Keys};
use everleaf_pmem::{Media, PPtr};
use everleaf_pool::{Pool, Shutdown};
use everleaf_tree::key::TestKey;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::super::layout::{LEAVES, LeafHead, SlotSet, SplitLog};
use super::{Parameters, TINY, Tested, Variant};
use crate::{Opening, open_with};

const BYTES: u64 = 128 << 10;
const SERIAL: Tested = Tested(Variant::FpTree, TINY);

fn grown<K: TestKey>() -> Opened<K, Traced> {
    damage::grown(SERIAL, BYTES, K::make)
}

fn reopened(pool: &Pool<Traced>) -> Result<Opened<U64Keys, Traced>, IndexError> {
    damage::reopened(SERIAL, pool)
}

fn refused(pool: &Pool<Traced>, part: &str) {
    damage::refused::<U64Keys>(SERIAL, pool, part);
}

/// Offsets of the leaves with keys.
fn live_leaves(pool: &Pool<Traced>, leaf_bytes: u64) -> Vec<u64> {
    let media = pool.media();
    let runs = pool.runs(LEAVES).unwrap();
    let leaves = runs
        .iter()
        .flat_map(|run| (0..run.bytes / leaf_bytes).map(|i| run.offset + i * leaf_bytes));
    leaves
        .filter(|leaf| !media.load(head(pool, *leaf).line0.0[0].view::<SlotSet>()).is_empty())
        .collect()
}

fn head(pool: &Pool<Traced>, leaf: u64) -> &LeafHead {
    pool.node(PPtr::at(leaf)).unwrap()
}

const TINY_LEAF: u64 = 192;

#[test]
fn bits_beyond_the_slots_are_found() {
    let (pool, tree) = grown::<U64Keys>();
    let leaf = live_leaves(&pool, TINY_LEAF)[1];
    let bitmap = &head(&pool, leaf).line0.0[0];
    pool.media().store(bitmap, pool.media().load(bitmap) | 1 << 20);
    assert!(problems(&pool, &*tree).iter().any(|sentence| sentence.contains("I1")));
    for i in 0..200 {
        let _ = tree.upsert(U64Keys::make(i), i);
    }
    refused(&pool, "beyond the slots");
}

#[test]
fn equal_lower_bounds_are_found() {
    let (pool, tree) = grown::<U64Keys>();
    let leaves = live_leaves(&pool, TINY_LEAF);
    let media = pool.media();
    media.store(
        &head(&pool, leaves[1]).lower_bound,
        media.load(&head(&pool, leaves[2]).lower_bound),
    );
    assert!(!problems(&pool, &*tree).is_empty());
    refused(&pool, "same lower bound");
}

#[test]
fn a_log_that_leads_nowhere_or_says_the_impossible_is_found() {
    let (pool, tree) = grown::<U64Keys>();
    let leaves = live_leaves(&pool, TINY_LEAF);
    let log = pool.index_root::<SplitLog>().unwrap();
    let media = pool.media();
    let set = |left: SlotSet, new_set: SlotSet, new: u64, current: u64| {
        media.store(&log.left_bitmap, left);
        media.store(&log.new_bitmap, new_set);
        media.store(&log.new, PPtr::at(new));
        media.store(&log.current, PPtr::at(current));
    };
    let two = SlotSet::first(2);
    for (new, current) in
        [(leaves[0], 64), (leaves[0], leaves[1] + 64), (u64::MAX - 63, leaves[0]), (0, leaves[0])]
    {
        set(two, two, new, current);
        refused(&pool, "leads to no leaf");
        assert!(problems(&pool, &*tree).iter().any(|sentence| sentence.contains("I9")));
    }
    for (left, new_set, new) in [
        (SlotSet::EMPTY, two, leaves[1]),
        (two, SlotSet::EMPTY, leaves[1]),
        (SlotSet::first(60), two, leaves[1]),
        (two, SlotSet::first(4), leaves[1]),
        (two, two, leaves[0]),
    ] {
        set(left, new_set, new, leaves[0]);
        refused(&pool, "impossible");
    }
}

#[test]
fn keys_out_of_order_wrong_fingerprints_and_lost_leaves_are_found() {
    let (pool, tree) = grown::<U64Keys>();
    let media = pool.media();
    let leaf = live_leaves(&pool, TINY_LEAF)[1];
    let key = &cells(&pool, leaf + 128, 1)[0];
    let kept = media.load(key);
    media.store(key, kept ^ 1 << 63);
    let found = problems(&pool, &*tree).join(" ");
    assert!(found.contains("I2") && found.contains("I3"), "{found}");
    media.store(key, kept);
    assert_eq!(problems(&pool, &*tree), Vec::<String>::new());
    let bitmap = head(&pool, leaf).line0.0[0].view::<SlotSet>();
    media.store(bitmap, SlotSet::EMPTY);
    let found = problems(&pool, &*tree).join(" ");
    assert!(found.contains("I6") && found.contains("I10"), "{found}");
}

#[test]
fn a_full_leaf_with_keys_of_another_range_is_not_split() {
    let (pool, tree) = grown::<U64Keys>();
    let media = pool.media();
    let leaves = live_leaves(&pool, TINY_LEAF);
    let bound = |leaf: u64| media.load(&head(&pool, leaf).lower_bound);
    let mut bounds: Vec<(u64, u64)> = leaves.iter().map(|leaf| (bound(*leaf), *leaf)).collect();
    bounds.sort_unstable();
    drop(tree);
    // The last leaf takes over keys of the first one, and still holds the greatest.
    media.store(&head(&pool, bounds.last().unwrap().1).lower_bound, 1);
    let (_pool, tree) = reopened(&pool).unwrap();
    let mut refused = 0;
    for key in 0..100 {
        match tree.upsert(key, key) {
            Ok(_) => assert_eq!(tree.get(key).unwrap(), Some(key), "what was inserted is found"),
            Err(error) => {
                assert!(error.to_string().contains("keys of another leaf"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_damaged_key_record_is_an_error_and_no_missing_key() {
    let (pool, tree) = grown::<BytesKeys>();
    let media = pool.media();
    let leaf = live_leaves(&pool, TINY_LEAF)[2];
    let record = media.load(&cells(&pool, leaf + 128, 1)[0]);
    let key = pool.copy_record(PPtr::at(record)).unwrap().to_vec();
    assert!(tree.get(&key).unwrap().is_some());
    let byte = &cells(&pool, record + 8, 1)[0];
    media.store(byte, media.load(byte) ^ 1);
    assert!(tree.get(&key).is_err());
    assert!(scanned(&*tree, Bound::Unbounded, Direction::Forward, usize::MAX).is_err());
    assert!(problems(&pool, &*tree).iter().any(|sentence| sentence.contains("I3")));
}

/// Pools in which bounds of leaves became those of others, or words anything: several threads find
/// it, or open what is left, and none panics.
fn damage_is_met_by_threads<K: TestKey>(variant: Variant, seed: u64) {
    println!("seed {seed}");
    const BYTES: u64 = 1 << 20;
    let mut random = StdRng::seed_from_u64(seed);
    let tested = Tested(variant, TINY);
    let pool = traced_pool::<K>(tested, BYTES);
    let tree = opened::<K>(tested, &pool);
    for i in 0..900 {
        tree.insert_words(K::borrow(&K::make(i * 7919 % 900)), &[i]).unwrap(); // Some are alike.
    }
    let media = pool.media();
    let leaves = if variant == Variant::Concurrent {
        pool.nodes(LEAVES).unwrap()
    } else {
        live_leaves(&pool, TINY_LEAF)
    };
    drop(tree);
    let image = media.image();
    let word_of = |leaf: u64| (leaf as usize + everleaf_pmem::LINE) / everleaf_pmem::WORD;
    let (mut refused, mut went_on) = (0, 0);
    for (round, threads) in [1, 2, 3, 9].into_iter().cycle().take(160).enumerate() {
        let mut damaged = image.clone();
        let [one, other] = [(); 2].map(|()| random.random_range(0..leaves.len()));
        let twins = round % 2 == 0 && one != other;
        match twins {
            true => damaged[word_of(leaves[one])] = image[word_of(leaves[other])],
            false => (0..5)
                .for_each(|_| damaged[random.random_range(0..image.len())] = random.next_u64()),
        }
        let Ok((pool, _)) = Pool::open(image_of(&damaged)) else { continue };
        let opening = Opening { threads: Some(threads), ..Shutdown::Crash.into() };
        match open_with::<K, _>(&pool, variant, opening) {
            Ok(tree) => {
                assert!(!twins, "round {round}: two leaves with one bound");
                let _ = problems(&pool, &*tree);
                let _ = scanned(&*tree, Bound::Unbounded, Direction::Forward, usize::MAX);
                went_on += 1;
            }
            Err(error) => {
                assert!(
                    !twins || error.to_string().contains("same lower bound"),
                    "round {round}: {error}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 70 && went_on > 5, "{refused} refused, {went_on} opened");
}

#[test]
fn damage_is_met_by_any_number_of_threads() {
    for variant in [Variant::FpTree, Variant::Concurrent] {
        damage_is_met_by_threads::<U64Keys>(variant, 5);
        damage_is_met_by_threads::<BytesKeys>(variant, 6);
    }
}

#[test]
fn random_damage_never_panics() {
    // Values of one word are damaged through the store, by its own tests.
    fuzz::<U64Keys>(
        Tested(Variant::FpTree, Parameters { value_words: 3, ..TINY }),
        BYTES,
        U64Keys::make,
        2,
    );
    fuzz::<BytesKeys>(
        Tested(Variant::FpTree, Parameters { value_words: 2, ..TINY }),
        BYTES,
        BytesKeys::make,
        4,
    );
}
