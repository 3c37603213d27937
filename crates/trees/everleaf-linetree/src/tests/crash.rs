//! Crashes at every event of the histories that the first design fell by, and of those that the
//! second one was changed for. More of it, and all barriers, are explored with the other engines.

use std::convert::identity;

use everleaf_conformance::explore::{Op, inserts, is_never_lost, options, removes};
use everleaf_crash::Options;
use everleaf_index::{BytesKeys, U64Keys};

use super::super::layout::home;
use super::TINY;
use Op::{Insert, Remove, Update};

/// Every state that a crash can leave while the second operations run holds what they have done.
fn keeps<const N: usize>(prepare: Vec<Op>, explored: [Vec<Op>; N]) {
    let scenario = [prepare, explored.concat()];
    let options = |budget| Options { budget, recovery_budget: 6, recoveries: 256, ..options() };
    let bytes = |number: u64| number.to_be_bytes().into();
    is_never_lost::<U64Keys>(TINY, identity, scenario.clone(), &options(48));
    is_never_lost::<BytesKeys>(TINY, bytes, scenario, &options(12));
}

/// The multiples of ten up to so many: a leaf has eight.
fn tens(range: std::ops::RangeInclusive<u64>) -> Vec<Op> {
    inserts(range.map(|i| i * 10))
}

/// Keys from 100 on that have this line of two as their home.
fn at_home(line: usize) -> impl Iterator<Item = u64> {
    (100..).filter(move |key| home::<U64Keys, 2>(*key) == line)
}

#[test]
fn plain_operations() {
    let plain = [Update(10, 7), Remove(40), Update(60, 1), Insert(5), Update(60, 2), Remove(60)];
    keeps(inserts([50, 30]), [inserts([40, 10, 20]), plain.to_vec()]);
}

/// Flag and entry in two lines under one fence: here what an entry goes past is durable before it.
#[test]
fn an_entry_that_went_past_a_full_line_is_found_and_not_added_twice() {
    for line in [0, 1] {
        let mut keys = at_home(line);
        let four: Vec<u64> = keys.by_ref().take(3).collect();
        let past: Vec<u64> = keys.take(4).collect();
        let again = [Insert(past[1]), Remove(four[0]), Update(past[1], 5), Insert(past[3])];
        keeps(inserts(four), [inserts(past.clone()), again.to_vec()]);
    }
}

/// A key that went past a line stays reachable when the line gets room again.
#[test]
fn removals_from_a_full_line_hide_nothing_behind_it() {
    for line in [0, 1] {
        let keys: Vec<u64> = at_home(line).take(6).collect();
        let removed = removes(keys[..4].iter().copied());
        keeps(inserts(keys.clone()), [removed, inserts(keys[2..5].iter().copied())]);
    }
}

/// A is split, a key moves to B and is removed; B dies, and what A still has of it must stay dead.
#[test]
fn what_a_split_has_moved_never_lives_again() {
    let moved = [50, 60, 70, 80];
    let split = vec![Insert(45), Remove(45)];
    keeps(tens(1..=8), [split.clone(), removes(moved), inserts([55, 65])]);
    keeps([tens(1..=8), split].concat(), [removes(moved), inserts([60]), removes([10])]);
}

/// Lines that a split does not need have what a leaf held before it was free.
#[test]
fn a_leaf_that_serves_again_has_nothing_of_what_it_held() {
    let twice = [tens(1..=8), vec![Insert(45)], removes([50, 60, 70, 80])].concat();
    keeps(twice.clone(), [inserts([12, 14, 16, 18]), removes([30])]);
    keeps([twice, inserts([12, 14])].concat(), [inserts([16, 18, 19]), removes([10, 12])]);
}

/// Two leaves never have one bound: a leaf that was not published is free, whatever split follows.
#[test]
fn a_split_that_was_cut_is_made_again_at_the_same_key() {
    let again = [Insert(45), Insert(46), Remove(45), Insert(45)];
    keeps(tens(1..=8), [again.to_vec(), inserts([47, 48, 49])]);
}

/// The range of a leaf goes to the right, the first leaf's too; and on, when that dies as well.
#[test]
fn leaves_die_one_after_the_other() {
    let three = [tens(1..=8), inserts([45, 85, 90, 95])].concat();
    keeps(three.clone(), [removes([10, 20, 30, 40]), removes([45, 50, 60, 70, 80])]);
    keeps(three, [removes([80, 70, 60, 50, 45]), removes([40, 30, 20, 10]), inserts([1])]);
}

#[test]
fn ascending_keys_move_nothing() {
    keeps(tens(1..=8), [tens(9..=11), removes([90])]);
    let high = |i: u64| (1 << 63) + i;
    keeps(inserts((1..=8).map(high)), [inserts((9..=17).map(high))]);
}
