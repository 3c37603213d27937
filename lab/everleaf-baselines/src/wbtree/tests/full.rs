//! A full pool: what needs no room is done, the rest is refused, and nothing is lost.

use everleaf_index::U64Keys;

use super::{BOTH, Parameters, TINY, Variant, assert_sound, dram_pool, opened};

fn fill_up(variant: Variant, parameters: Parameters) {
    let pool = dram_pool::<U64Keys>(variant, parameters, 96 << 10);
    let tree = opened::<U64Keys, _>(&pool, variant);
    let numbers: Vec<u64> = (0..20_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut present = Vec::new();
    for number in &numbers {
        match tree.insert(*number, *number) {
            Ok(inserted) => assert!(inserted),
            Err(error) => {
                assert!(error.to_string().contains("full"), "{error}");
                break;
            }
        }
        present.push(*number);
    }
    assert!(present.len() < numbers.len(), "{parameters:?}: it was to fill up");
    assert_sound(&pool, &*tree);
    for number in &numbers[present.len()..][..200] {
        if tree.insert(*number, *number).is_ok() {
            present.push(*number);
        }
    }
    assert_sound(&pool, &*tree);
    for round in 0..3 {
        for number in &present {
            let old = tree.update(*number, round).unwrap();
            assert_eq!(old, Some(if round == 0 { *number } else { round - 1 }));
        }
    }
    assert_sound(&pool, &*tree);
    drop(tree);
    let tree = opened::<U64Keys, _>(&pool, variant);
    assert_eq!(tree.len(), present.len() as u64);
    for number in &present {
        assert_eq!(tree.remove(*number).unwrap(), Some(2));
    }
    assert_sound(&pool, &*tree);
    assert_eq!((tree.len(), tree.statistics().leaves), (0, 0));
    for number in &present[..present.len() / 2] {
        assert!(tree.insert(*number, 1).unwrap());
    }
    assert_sound(&pool, &*tree);
}

#[test]
fn a_full_pool_refuses_insertions_only_and_loses_nothing() {
    for variant in BOTH {
        fill_up(variant, TINY);
    }
    fill_up(Variant::Slot, Parameters { leaf_slots: 7, ..TINY });
    fill_up(Variant::Bitmap, Parameters { leaf_slots: 63, ..TINY });
}
