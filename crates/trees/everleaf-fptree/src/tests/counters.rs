//! What operations cost, exactly.

use everleaf_conformance::Opened;
use everleaf_conformance::counting::{self, of, random};
use everleaf_crash::{Counts, Instrumented};
use everleaf_index::U64Keys;
use everleaf_pmem::Counter;

use super::{Parameters, Tested, Variant, offer};

fn counted(parameters: Parameters, variant: Variant) -> Opened<U64Keys, Instrumented> {
    counting::counted(Tested(variant, parameters))
}

pub(super) fn totals(counts: &Counts) -> (u64, u64) {
    (of(&counts.flushes, ""), of(&counts.fences, ""))
}

#[test]
fn operations_cost_what_the_page_says() {
    for (variant, insert_flushes) in [(Variant::FpTree, 2), (Variant::PTree, 3)] {
        let (pool, tree) = counted(offer(variant).tuned, variant);
        let cost = |operation: &mut dyn FnMut()| {
            pool.media().reset();
            operation();
            totals(&pool.media().counts())
        };
        for i in 0..20 {
            assert_eq!(
                cost(&mut || assert!(tree.insert(random(i), i).unwrap())),
                (insert_flushes, 2)
            );
        }
        assert_eq!(cost(&mut || assert!(!tree.insert(random(3), 3).unwrap())), (0, 0));
        assert_eq!(cost(&mut || assert_eq!(tree.update(random(3), 4).unwrap(), Some(3))), (1, 1));
        assert_eq!(cost(&mut || assert_eq!(tree.upsert(random(3), 5).unwrap(), Some(4))), (1, 1));
        assert_eq!(cost(&mut || assert_eq!(tree.get(random(3)).unwrap(), Some(5))), (0, 0));
        assert_eq!(cost(&mut || assert_eq!(tree.remove(random(3)).unwrap(), Some(5))), (1, 1));
    }
}

#[test]
fn a_split_costs_what_the_page_says() {
    let (pool, tree) = counted(offer(Variant::FpTree).tuned, Variant::FpTree);
    for i in 0..56 {
        assert!(tree.insert(random(i), i).unwrap());
    }
    pool.media().reset();
    assert!(tree.insert(random(56), 56).unwrap());
    let counts = pool.media().counts();
    let (flushes, fences) = totals(&counts);
    let entry_lines = flushes - 2 - 6;
    assert!((7..=14).contains(&entry_lines), "28 entries at home in 14 lines: {entry_lines}");
    assert_eq!(fences, 2 + 2);
    assert_eq!(counts.event(Counter::LeafSplits), 1);
}

#[test]
fn a_wide_update_costs_its_lines_and_one() {
    let parameters = Parameters { value_words: 7, ..offer(Variant::FpTree).tuned };
    let (pool, tree) = counted(parameters, Variant::FpTree);
    let mut old = [0; 7];
    assert!(tree.insert_words(9, &[1; 7]).unwrap());
    pool.media().reset();
    assert!(tree.update_words(9, &[2; 7], &mut old).unwrap());
    assert_eq!(totals(&pool.media().counts()), (2, 2), "an entry of eight words is one line");
}

/// Section 4.2, corrected: 1 + (m - 1) / 512 probes in a leaf with m keys.
#[test]
fn a_find_probes_one_key_and_reads_two_lines() {
    let (pool, tree) = counted(offer(Variant::FpTree).tuned, Variant::FpTree);
    const KEYS: u64 = 100_000;
    for i in 0..KEYS {
        assert!(tree.insert(random(i), i).unwrap());
    }
    pool.media().reset();
    for i in 0..KEYS {
        assert_eq!(tree.get(random(i)).unwrap(), Some(i));
    }
    let counts = pool.media().counts();
    let probes = counts.event(Counter::LeafProbes) as f64 / KEYS as f64;
    let lines = counts.pm_lines_read as f64 / KEYS as f64;
    assert!((1.04..=1.11).contains(&probes), "{probes} probes a find");
    assert!((2.0..=2.12).contains(&lines), "{lines} lines a find");

    pool.media().reset();
    let keys: Vec<u64> = (0..KEYS).map(random).collect();
    let mut values = vec![None; keys.len()];
    tree.get_many(&keys, &mut values).unwrap();
    assert!(values.iter().zip(0..).all(|(value, i)| *value == Some(i)));
    let counts = pool.media().counts();
    assert_eq!(
        counts.event(Counter::LeafProbes) as f64 / KEYS as f64,
        probes,
        "a batch probes as single finds do"
    );
    assert!(counts.pm_lines_read as f64 / KEYS as f64 <= lines + 0.01);
}
