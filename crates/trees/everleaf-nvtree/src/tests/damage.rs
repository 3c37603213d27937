//! Damage is an error or a violation, never a panic and never an endless loop.

use everleaf_conformance::Opened;
use everleaf_conformance::damage::{self, cells, finds, fuzz, violations};
use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pmem::{Media, PPtr};
use everleaf_pool::Pool;
use everleaf_tree::key::TestKey;

use super::super::layout::{Fill, LeafHead, ListHead};
use super::{Parameters, TINY, VARIANTS, Variant, tested};

const BYTES: u64 = 128 << 10;

fn grown<K: TestKey>(variant: Variant) -> Opened<K, Traced> {
    damage::grown(tested(variant, TINY), BYTES, K::make)
}

fn refused(pool: &Pool<Traced>, part: &str) {
    VARIANTS
        .into_iter()
        .for_each(|variant| damage::refused::<U64Keys>(tested(variant, TINY), pool, part));
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
    let (pool, tree) = grown::<U64Keys>(variant);
    let leaf = leaves(&pool)[2];
    for fill in [Fill::all_live(5), Fill::EMPTY.with_removal()] {
        pool.media().store(&head(&pool, leaf).fill, fill);
        finds(&*tree, "I1");
        refused(&pool, "more elements than slots");
        for i in 0..200 {
            let _ = tree.upsert(U64Keys::make(i), i);
        }
    }
    pool.media().store(&head(&pool, leaf).fill, Fill::EMPTY);
    assert!(violations(&*tree).contains("I9") && violations(&*tree).contains("I10"));
}

#[test]
fn a_list_that_leads_astray_or_in_a_circle_is_found() {
    VARIANTS.into_iter().for_each(a_list_that_leads_astray_or_in_a_circle);
}

fn a_list_that_leads_astray_or_in_a_circle(variant: Variant) {
    let (pool, tree) = grown::<U64Keys>(variant);
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
        refused(&pool, part);
        finds(&*tree, "I6");
    }
    if variant == Variant::Concurrent {
        // What replaces a leaf that the list does not lead to would be lost.
        let key = media.load(&head(&pool, found[4]).lower_bound);
        let upsert = |value| tree.upsert(key, value).map(drop);
        let error = (0..9).find_map(|value| upsert(value).err()).map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("does not lead to a leaf")));
    }
    media.store(next, right);
    assert_eq!(violations(&*tree), "");
    media.store(&head(&pool, found[4]).lower_bound, 1);
    refused(&pool, "do not ascend");
    finds(&*tree, "I6");
    media.store(&head(&pool, found[0]).lower_bound, 1);
    refused(&pool, "does not begin with the least key");
    finds(&*tree, "I5");
}

#[test]
fn elements_of_other_keys_and_kinds_are_found() {
    VARIANTS.into_iter().for_each(elements_of_other_keys_and_kinds);
}

fn elements_of_other_keys_and_kinds(variant: Variant) {
    let (pool, tree) = grown::<U64Keys>(variant);
    let leaf = leaves(&pool)[2];
    let element = cells(&pool, leaf + 64, 3);
    let [mark, key] = [0, 1].map(|word| pool.media().load(&element[word]));
    pool.media().store(&element[1], key ^ 1 << 63);
    finds(&*tree, "I3");
    pool.media().store(&element[1], key);
    assert_eq!(violations(&*tree), "");
    pool.media().store(&element[0], 3);
    finds(&*tree, "I2");
    assert!(tree.get(key).unwrap_err().to_string().contains("neither a key nor the removal"));
    pool.media().store(&element[0], mark);
    let hashes = &cells(&pool, leaf + 24, 1)[0];
    let word = pool.media().load(hashes);
    pool.media().store(hashes, word ^ 1);
    finds(&*tree, "I2: the head has another key's hash for element 0");
    pool.media().store(hashes, word);
    pool.media().store(&element[0], mark ^ 3);
    finds(&*tree, "I4");
}

#[test]
fn a_damaged_key_record_is_an_error_and_no_missing_key() {
    let (pool, tree) = grown::<BytesKeys>(Variant::Serial);
    let media = pool.media();
    let leaf = leaves(&pool)[2];
    let record = media.load(&cells(&pool, leaf + 72, 1)[0]);
    let key = pool.copy_record(PPtr::at(record)).unwrap().to_vec();
    assert!(tree.get(&key).is_ok());
    let byte = &cells(&pool, record + 8, 1)[0];
    media.store(byte, media.load(byte) ^ 1);
    assert!(tree.get(&key).is_err());
    finds(&*tree, "I2");
}

#[test]
fn random_damage_never_panics() {
    for variant in VARIANTS {
        fuzz::<U64Keys>(tested(variant, TINY), BYTES, U64Keys::make, 1);
        fuzz::<U64Keys>(
            tested(variant, Parameters { value_words: 3, ..TINY }),
            BYTES,
            U64Keys::make,
            2,
        );
    }
    fuzz::<BytesKeys>(tested(Variant::Serial, TINY), BYTES, BytesKeys::make, 3);
    fuzz::<BytesKeys>(
        tested(Variant::Serial, Parameters { value_words: 2, ..TINY }),
        BYTES,
        BytesKeys::make,
        4,
    );
}
