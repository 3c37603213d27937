//! Crashes at every event of every operation, under the model that tears lines and under the
//! assumption that it does not. More of it, and all barriers, are explored with the other engines.

use everleaf_conformance::explore::{
    self, Op, Scenario, explored, inserts, is_never_lost, removes,
};
use everleaf_crash::{Assumptions, Options};
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pmem::LineAtomicity;
use everleaf_tree::key::TestKey;

use super::{ENCODED, ENCODED_SHADOW, SHADOW, TINY, Tested, ascending};
use Op::{Insert, Remove, Update};

const ATOMIC_LINE: Assumptions = Assumptions { eadr: false, atomic_line: true };

fn keeps<K: TestKey>(tested: Tested, scenario: Scenario) {
    for assumptions in [Assumptions::default(), ATOMIC_LINE] {
        let options = Options { assumptions, ..explore::options() };
        is_never_lost::<K>(tested, ascending::<K>, scenario.clone(), &options);
    }
}

/// Leaves of one key end in turns below two inner nodes: the log has another one each time.
fn in_turns() -> Scenario {
    let odd = (0..20).map(|i| (2 * i + 1) * 1000);
    let turns = [3, 37, 5, 35, 7].map(|i| i * 1000 + 1000);
    [[inserts((1..41).map(|i| i * 1000)), removes(odd)].concat(), removes(turns)]
}

fn scenarios() -> Vec<Scenario> {
    let far = |i: u64| i * 1000;
    vec![
        [
            inserts([50, 30]),
            [inserts([40, 10, 20]), vec![Update(10, 7), Remove(40), Update(60, 1), Insert(5)]]
                .concat(),
        ],
        [inserts([10, 20, 30, 40]), inserts([50, 60, 15, 12])],
        [inserts([10, 20, 30, 40, 50, 60]), removes([10, 20, 60, 50, 40, 30])],
        [inserts((1..16).map(far)), [inserts((16..20).map(far)), removes([1000, 2000])].concat()],
        [inserts((1..60).map(far)), removes((1..8).map(far))],
        in_turns(),
    ]
}

#[test]
fn no_crash_state_is_lost() {
    for scenario in scenarios() {
        keeps::<U64Keys>(TINY, scenario.clone());
        keeps::<BytesKeys>(TINY, scenario);
    }
    let seven = Tested { leaf_slots: 7, ..TINY };
    let scenario = [inserts([10, 20, 30]), inserts([40, 50, 60, 70, 80, 15])];
    keeps::<U64Keys>(seven, scenario.clone());
    keeps::<BytesKeys>(seven, scenario);
}

/// Encoded leaves that are split into two and three, emptied, and taken out; values that need more
/// bytes, and fewer.
#[test]
fn no_crash_state_of_encoded_leaves_is_lost() {
    let far = |i: u64| i * 1000;
    let wide = |numbers: [u64; 3]| numbers.map(|number| Update(number, u64::MAX >> 1)).to_vec();
    let of_bytes = inserts((1..8).map(far));
    let scenarios = [
        [inserts([50, 30]), [inserts([40, 10]), removes([40, 50, 10, 30]), inserts([9])].concat()],
        [of_bytes.clone(), inserts((8..12).map(far))],
        [of_bytes.clone(), [wide([3000, 5000, 1000]), removes([3000, 1000, 2000])].concat()],
        [inserts((1..40).map(far)), [inserts([1, 2, 3, 4, 5, 6]), removes([1000, 2000])].concat()],
        [inserts((1..30).map(far)), removes((1..12).map(far))],
    ];
    for scenario in scenarios.into_iter().chain([in_turns()]) {
        keeps::<U64Keys>(ENCODED, scenario.clone());
        keeps::<U64Keys>(ENCODED_SHADOW, scenario);
    }
}

#[test]
fn no_crash_state_of_copied_lines_is_lost() {
    for scenario in scenarios() {
        keeps::<U64Keys>(SHADOW, scenario.clone());
        keeps::<BytesKeys>(SHADOW, scenario);
    }
}

#[test]
fn whole_lines_that_are_believed_and_torn_lose_the_tree() {
    let options = Options { promised: Some(LineAtomicity::Line), ..explore::options() };
    let explored = |tested: Tested, scenario| {
        explored::<U64Keys>(tested, ascending::<U64Keys>, scenario, &options)
    };
    let report = explored(TINY, scenarios().remove(1));
    println!("{}", report.violations[0]);
    assert!(!report.violations.is_empty());
    let leaf = explored(ENCODED, [inserts([50, 30]), inserts([40, 10])]);
    println!("{}", leaf.violations[0]);
    assert!(!leaf.violations.is_empty());
}
