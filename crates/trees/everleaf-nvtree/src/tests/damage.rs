//! Damage is an error or a violation, never a panic and never an endless loop.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, Direction, Index, IndexError, U64Keys};
use everleaf_pmem::{Media, PPtr};
use everleaf_pool::{Audit, Pool, Shutdown};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::super::layout::{Fill, LeafHead, ListHead};
use super::super::open;
use super::{Parameters, TINY, VARIANTS, Variant, assert_sound, format_of, opened};
use everleaf_tree::key::TestKey;

const BYTES: u64 = 128 << 10;

type Opened<K> = (Arc<Pool<Traced>>, Box<dyn Index<K>>);

/// A tree of some 60 keys in a pool that was not closed.
fn grown<K: TestKey>(parameters: Parameters, variant: Variant) -> Opened<K> {
    let traced = Traced::new(BYTES, BYTES, 7).unwrap();
    traced.record(false, false);
    let pool = Pool::create(traced, &format_of::<K>(parameters)).unwrap();
    let tree = opened::<K, _>(&pool, variant);
    let words = parameters.value_words as usize;
    for i in 0..80 {
        let key = K::make(i * 37 % 100);
        tree.insert_words(K::borrow(&key), &vec![i; words]).unwrap();
        if i % 5 == 0 {
            tree.remove_words(K::borrow(&key), &mut vec![0; words]).unwrap();
        }
    }
    assert_sound(&pool, &*tree);
    (pool, tree)
}

fn reopened<K: TestKey>(pool: &Pool<Traced>, variant: Variant) -> Result<Opened<K>, IndexError> {
    let media = Traced::from_image(&pool.media().image(), BYTES, 3).unwrap();
    media.record(false, false);
    let (pool, _) = Pool::open(media)?;
    let tree = open::<K, _>(&pool, variant, Shutdown::Crash)?;
    Ok((pool, tree))
}

fn refused<K: TestKey>(pool: &Pool<Traced>, part: &str) {
    for variant in VARIANTS {
        let error = reopened::<K>(pool, variant).map(drop).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

fn problems<K: TestKey>(tree: &dyn Index<K>) -> String {
    match tree.check(&mut Audit::new()) {
        Ok(report) => report.violations.join("; "),
        Err(e) => e.to_string(),
    }
}

/// The leaves in the order of the list.
fn leaves(pool: &Pool<Traced>) -> Vec<u64> {
    let mut next = pool.media().load(&pool.index_root::<ListHead>().unwrap().first);
    let mut found = Vec::new();
    while !next.is_null() {
        found.push(next.offset());
        next = pool.media().load(&pool.node(next).unwrap().next);
    }
    found
}

fn head(pool: &Pool<Traced>, leaf: u64) -> &LeafHead {
    pool.node(PPtr::at(leaf)).unwrap()
}

#[test]
fn a_fill_that_cannot_be_is_found() {
    VARIANTS.into_iter().for_each(a_fill_that_cannot_be);
}

fn a_fill_that_cannot_be(variant: Variant) {
    let (pool, tree) = grown::<U64Keys>(TINY, variant);
    let leaf = leaves(&pool)[2];
    for fill in [Fill::all_live(5), Fill::EMPTY.with_removal()] {
        pool.media().store(&head(&pool, leaf).fill, fill);
        assert!(problems(&*tree).contains("I1"));
        refused::<U64Keys>(&pool, "more elements than slots");
        for i in 0..200 {
            let _ = tree.upsert(U64Keys::make(i), i);
        }
    }
    pool.media().store(&head(&pool, leaf).fill, Fill::EMPTY);
    assert!(problems(&*tree).contains("I9") && problems(&*tree).contains("I10"));
}

#[test]
fn a_list_that_leads_astray_or_in_a_circle_is_found() {
    VARIANTS.into_iter().for_each(a_list_that_leads_astray_or_in_a_circle);
}

fn a_list_that_leads_astray_or_in_a_circle(variant: Variant) {
    let (pool, tree) = grown::<U64Keys>(TINY, variant);
    let found = leaves(&pool);
    let media = pool.media();
    let next = &head(&pool, found[3]).next;
    let right = media.load(next);
    for (leads, part) in [
        (found[1], "twice"),
        (found[3], "twice"),
        (found[4] + 64, "leads to no leaf"),
        (64, "leads to no leaf"),
        (u64::MAX - 63, "leads to no leaf"),
    ] {
        media.store(next, PPtr::at(leads));
        refused::<U64Keys>(&pool, part);
        assert!(problems(&*tree).contains("I6"));
    }
    if variant == Variant::Concurrent {
        // What replaces a leaf that the list does not lead to would be lost.
        let key = media.load(&head(&pool, found[4]).lower_bound);
        let upsert = |value| tree.upsert(key, value).map(drop);
        let error = (0..9).find_map(|value| upsert(value).err()).map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("does not lead to a leaf")));
    }
    media.store(next, right);
    assert_eq!(problems(&*tree), "");
    media.store(&head(&pool, found[4]).lower_bound, 1);
    refused::<U64Keys>(&pool, "do not ascend");
    assert!(problems(&*tree).contains("I6"));
    media.store(&head(&pool, found[0]).lower_bound, 1);
    refused::<U64Keys>(&pool, "does not begin with the least key");
    assert!(problems(&*tree).contains("I5"));
}

#[test]
fn elements_of_other_keys_and_kinds_are_found() {
    VARIANTS.into_iter().for_each(elements_of_other_keys_and_kinds);
}

fn elements_of_other_keys_and_kinds(variant: Variant) {
    let (pool, tree) = grown::<U64Keys>(TINY, variant);
    let leaf = leaves(&pool)[2];
    let cells = pool.media().region().cells(leaf + 64, 3).unwrap();
    let [mark, key] = [0, 1].map(|word| pool.media().load(&cells[word]));
    pool.media().store(&cells[1], key ^ 1 << 63);
    assert!(problems(&*tree).contains("I3"));
    pool.media().store(&cells[1], key);
    assert_eq!(problems(&*tree), "");
    pool.media().store(&cells[0], 3);
    assert!(problems(&*tree).contains("I2"));
    assert!(tree.get(key).unwrap_err().to_string().contains("neither a key nor the removal"));
    pool.media().store(&cells[0], mark);
    let hashes = &pool.media().region().cells(leaf + 24, 1).unwrap()[0];
    let word = pool.media().load(hashes);
    pool.media().store(hashes, word ^ 1);
    assert!(problems(&*tree).contains("I2: the head has another key's hash for element 0"));
    pool.media().store(hashes, word);
    pool.media().store(&cells[0], mark ^ 3);
    assert!(problems(&*tree).contains("I4"));
}

#[test]
fn a_damaged_key_record_is_an_error_and_no_missing_key() {
    let (pool, tree) = grown::<BytesKeys>(TINY, Variant::Serial);
    let media = pool.media();
    let leaf = leaves(&pool)[2];
    let record = media.load(&media.region().cells(leaf + 72, 1).unwrap()[0]);
    let key = pool.copy_record(PPtr::at(record)).unwrap().to_vec();
    assert!(tree.get(&key).is_ok());
    let byte = &media.region().cells(record + 8, 1).unwrap()[0];
    media.store(byte, media.load(byte) ^ 1);
    assert!(tree.get(&key).is_err());
    assert!(problems(&*tree).contains("I2"));
}

/// Words of the pool overwritten at random: whatever is done then ends, with any outcome but a
/// panic.
fn fuzz<K: TestKey>(parameters: Parameters, variant: Variant, seed: u64) {
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (pool, _tree) = grown::<K>(parameters, variant);
    let image = pool.media().image();
    let mut opened_though_damaged = 0;
    let words = parameters.value_words as usize;
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
        let Ok(tree) = open::<K, _>(&pool, variant, Shutdown::Crash) else { continue };
        opened_though_damaged += 1;
        let _ = problems(&*tree);
        let all = &mut |_: K::Ref<'_>, _: &[u64]| ControlFlow::Continue(());
        let _ = tree.scan(Bound::Unbounded, Direction::Backward, all);
        let (value, mut old) = (vec![1; words], vec![0; words]);
        for i in 0..100 {
            let key = K::make(random.random_range(0..100));
            let key = K::borrow(&key);
            let _ = match i % 4 {
                0 => tree.insert_words(key, &value),
                1 => tree.remove_words(key, &mut old),
                2 => tree.upsert_words(key, &value, &mut old),
                _ => tree.get_words(key, &mut old),
            };
        }
        let _ = problems(&*tree);
    }
    assert!(opened_though_damaged > 10, "damage was to be met by operations too");
}

#[test]
fn random_damage_never_panics() {
    for variant in VARIANTS {
        fuzz::<U64Keys>(TINY, variant, 1);
        fuzz::<U64Keys>(Parameters { value_words: 3, ..TINY }, variant, 2);
    }
    fuzz::<BytesKeys>(TINY, Variant::Serial, 3);
    fuzz::<BytesKeys>(Parameters { value_words: 2, ..TINY }, Variant::Serial, 4);
}
