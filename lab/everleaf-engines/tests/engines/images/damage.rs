//! Images that are damaged, of another close, or of something else: they are never taken.

use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, InnerFrom, NoImage, U64Keys};
use everleaf_pmem::{LINE, WORD};
use everleaf_pool::{Audit, Pool};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use everleaf_tree::image::{HEAD_WORDS, IMAGE, ImageHead, ImageRoot};

use super::*;

fn root_of(pool: &Pool<Traced>) -> usize {
    let root = pool.root::<ImageRoot>(IMAGE).unwrap();
    pool.pointer_to(root).offset() as usize / WORD
}

/// The checksum of an image.
fn checksum_of(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    u64::from(crc32c::crc32c(&bytes))
}

#[test]
fn a_damaged_image_is_reported_and_never_taken() {
    each(is_reported_if_damaged::<U64Keys>, is_reported_if_damaged::<BytesKeys>);
}

fn is_reported_if_damaged<K: TestKey>(engine: Engine) {
    let seed = 5;
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let made = small::<K>(engine);
    let model = filled(&*made.1, 200);
    let pool = Arc::clone(&made.0);
    let whole = closed(made);
    let (at, words) = place(&pool);
    let (root, seal) = (root_of(&pool), STATE / WORD + 1);
    let places = (at..at + words).chain([root]).chain(seal..seal + 3);
    for (number, word) in places.enumerate() {
        for damage in [1 << random.random_range(0..64), random.random(), u64::MAX] {
            let mut damaged = whole.clone();
            damaged[word] ^= damage;
            let found = opened::<K>(engine, &damaged);
            let why = from(&*found.1);
            assert!(matches!(why, InnerFrom::Leaves(_)), "{engine}, word {word}: {why}");
            assert_eq!(content(&*found.1), model, "{engine}, word {word}");
            if number % 17 == 0 && word != root {
                assert_holds(&found, &model);
                // What is closed again has an image again.
                let again = opened::<K>(engine, &closed(found));
                assert_eq!(from(&*again.1), InnerFrom::Image);
                assert_holds(&again, &model);
            }
        }
    }
}

#[test]
fn a_pool_whose_root_of_the_image_is_damaged_is_closed_without_an_image() {
    each(is_closed_without_its_root::<U64Keys>, is_closed_without_its_root::<BytesKeys>);
}

fn is_closed_without_its_root<K: TestKey>(engine: Engine) {
    let made = small::<K>(engine);
    let model = filled(&*made.1, 200);
    let (pool, mut image) = (Arc::clone(&made.0), closed(made));
    for leads in [8, 64, 4096, BYTES, u64::MAX, u64::MAX - 63] {
        image[root_of(&pool)] = leads;
        let found = opened::<K>(engine, &image);
        assert_eq!(content(&*found.1), model);
        let again = opened::<K>(engine, &closed(found));
        assert_eq!(from(&*again.1), InnerFrom::Leaves(NoImage::None), "{engine}: {leads:#x}");
        assert_eq!(content(&*again.1), model);
    }
}

/// Puts the seal and the image of one pool into another.
fn transplanted(from: &[u64], place: (usize, usize), to: &mut [u64], into: usize) {
    to[into..into + place.1].copy_from_slice(&from[place.0..place.0 + place.1]);
    let seal = STATE / WORD + 1;
    to[seal..seal + 3].copy_from_slice(&from[seal..seal + 3]);
}

#[test]
fn an_image_of_another_close_is_not_taken() {
    each(of_another_close::<U64Keys>, of_another_close::<BytesKeys>);
}

fn of_another_close<K: TestKey>(engine: Engine) {
    let made = small::<K>(engine);
    filled(&*made.1, 200);
    let pool = Arc::clone(&made.0);
    let first = closed(made);
    let (at, words) = place(&pool);
    let again = opened::<K>(engine, &first);
    for key in 0..20 {
        assert!(insert(&*again.1, key * 5 + 2, 1));
    }
    let model = content(&*again.1);
    let second = closed(again);
    // The image of the first close, with the seal of the second, and the other way round.
    let mut stale = second.clone();
    stale[at..at + words].copy_from_slice(&first[at..at + words]);
    let mut stale_seal = second.clone();
    let seal = STATE / WORD + 1;
    stale_seal[seal..seal + 3].copy_from_slice(&first[seal..seal + 3]);
    for stale in [stale, stale_seal] {
        let found = opened::<K>(engine, &stale);
        let from = from(&*found.1);
        let expected = matches!(from, InnerFrom::Leaves(NoImage::Stale | NoImage::Damaged(_)));
        assert!(expected, "{engine}: {from}");
        assert_holds(&found, &model);
    }
}

#[test]
fn an_image_of_another_pool_engine_or_size_is_not_taken_and_of_another_fanout_is() {
    each(of_another_pool::<U64Keys>, of_another_pool::<BytesKeys>);
}

fn of_another_pool<K: TestKey>(engine: Engine) {
    let other = if engine == &NVTREE { &FPTREE } else { &NVTREE };
    let four = sizes(engine, 4, 4);
    let foreign = |what| InnerFrom::Leaves(NoImage::Foreign(what));
    for (engine_of, sizes, uuid, expected) in [
        (engine, four, 2, foreign("another pool")),
        (other, sizes(other, 4, 4), 1, foreign("another engine")),
        (engine, sizes(engine, 8, 4), 1, foreign("leaves of other sizes")),
        (engine, sizes(engine, 4, 64), 1, InnerFrom::Image),
    ] {
        // What is compared comes before what would be found of so few leaves.
        let keys = if expected == InnerFrom::Image { 200 } else { 60 };
        let image_of = |made: Opened<K>, keys| {
            let (model, pool) = (filled(&*made.1, keys), Arc::clone(&made.0));
            let image = closed(made);
            (model, place(&pool), image)
        };
        let (_, from_place, giver) = image_of(made(engine_of, sizes, uuid, BYTES), keys);
        let (model, (at, _), mut taker) = image_of(small::<K>(engine), 200);
        transplanted(&giver, from_place, &mut taker, at);
        let found = opened::<K>(engine, &taker);
        assert_eq!(from(&*found.1), expected, "{engine} from {engine_of}");
        assert_holds(&found, &model);
    }
}

#[test]
fn an_entry_that_leads_to_no_leaf_or_to_one_twice_is_found_though_the_checksum_is_right() {
    each(finds_wrong_entries::<U64Keys>, finds_wrong_entries::<BytesKeys>);
}

fn finds_wrong_entries<K: TestKey>(engine: Engine) {
    let made = small::<K>(engine);
    let model = filled(&*made.1, 200);
    let (pool, whole) = (Arc::clone(&made.0), closed(made));
    let (at, words) = place(&pool);
    let seal = STATE / WORD + 1;
    let entry = at + HEAD_WORDS + 2 * 3;
    let of_bound = if K::RECORDS { u64::MAX } else { whole[entry + 2] };
    for (word, value) in [
        (entry + 1, whole[entry + 3]),
        (entry + 1, whole[entry + 1] + LINE as u64),
        (entry + 1, BYTES),
        (entry + 1, 64),
        (entry + 1, u64::MAX),
        (entry, of_bound),
        (at + HEAD_WORDS, 1),
    ] {
        let mut damaged = whole.clone();
        damaged[word] = value;
        damaged[seal + 1] = sealed(checksum_of(&damaged[at..at + words]));
        let found = opened::<K>(engine, &damaged);
        let why = from(&*found.1);
        assert!(
            matches!(why, InnerFrom::Leaves(NoImage::Damaged(what)) if !what.contains("sum")),
            "{engine}, word {word}: {why}"
        );
        assert_holds(&found, &model);
    }
}

/// The content of a closed pool whose image says that the tree has so many keys.
fn with_count(pool: &Pool<Traced>, whole: &[u64], keys: u64) -> Vec<u64> {
    let ((at, words), mut counted) = (place(pool), whole.to_vec());
    counted[at + std::mem::offset_of!(ImageHead, keys) / WORD] = keys;
    counted[STATE / WORD + 2] = sealed(checksum_of(&counted[at..at + words]));
    counted
}

#[test]
fn a_count_that_the_leaves_cannot_have_is_found_though_the_checksum_is_right() {
    each(finds_impossible_counts::<U64Keys>, finds_impossible_counts::<BytesKeys>);
}

fn finds_impossible_counts<K: TestKey>(engine: Engine) {
    let made = small::<K>(engine);
    let model = filled(&*made.1, 200);
    let (pool, whole) = (Arc::clone(&made.0), closed(made));
    let leaves = leaves_of(&pool);
    for keys in [0, leaves - 2, 4 * leaves + 1, u64::MAX] {
        let found = opened::<K>(engine, &with_count(&pool, &whole, keys));
        let why = from(&*found.1);
        let expected = matches!(why, InnerFrom::Leaves(NoImage::Damaged(_)));
        assert!(expected, "{engine}, {keys} keys in {leaves} leaves: {why}");
        assert_holds(&found, &model);
    }
}

#[test]
fn a_wrong_count_of_an_image_is_found_by_the_check_and_never_panics() {
    each(finds_a_wrong_count::<U64Keys>, finds_a_wrong_count::<BytesKeys>);
}

fn finds_a_wrong_count<K: TestKey>(engine: Engine) {
    let made = small::<K>(engine);
    let model = filled(&*made.1, 200);
    let (pool, whole) = (Arc::clone(&made.0), closed(made));
    let leaves = leaves_of(&pool);
    let (_, tree) = opened::<K>(engine, &with_count(&pool, &whole, leaves));
    assert_eq!((from(&*tree), tree.len()), (InnerFrom::Image, leaves), "{engine}");
    let problems = tree.check(&mut Audit::new()).unwrap().violations;
    assert!(problems.join("").contains("I10"), "{engine}: {problems:?}");
    for (key, value) in &model {
        assert_eq!(tree.remove(K::borrow(key)).unwrap(), Some(*value), "{engine}");
    }
    assert_eq!((content(&*tree), tree.len()), (Keys::<K>::new(), 0), "{engine}");
}

/// A word of the header: content and check, as docs/format.md says.
fn sealed(content: u64) -> u64 {
    let mixed = (content ^ (content >> 23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let check = ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 48) ^ 0x5ea1;
    content | check << 48
}

#[test]
fn an_image_of_another_kind_of_keys_is_not_taken() {
    each(of_other_keys::<U64Keys, BytesKeys>, of_other_keys::<BytesKeys, U64Keys>);
}

fn of_other_keys<K: TestKey, O: TestKey>(engine: Engine) {
    let (giver, made) = (small::<O>(engine), small::<K>(engine));
    filled(&*giver.1, 60);
    let (model, pool, pool_of_giver) =
        (filled(&*made.1, 200), Arc::clone(&made.0), Arc::clone(&giver.0));
    let (giver, mut taker) = (closed(giver), closed(made));
    transplanted(&giver, place(&pool_of_giver), &mut taker, place(&pool).0);
    let found = opened::<K>(engine, &taker);
    let expected = InnerFrom::Leaves(NoImage::Foreign("another kind of keys"));
    assert_eq!(from(&*found.1), expected, "{engine}");
    assert_holds(&found, &model);
}
