//! Crashes at every event of every operation. More of it, and all barriers, are explored with the
//! other engines.

use std::convert::identity;

use everleaf_conformance::explore::{inserts, is_never_lost, options, removes, scenarios};
use everleaf_index::U64Keys;

use super::{BOTH, Parameters, TINY, Variant, Wb};

#[test]
fn no_crash_state_is_lost() {
    // A node that was free is taken again, and is free until that is committed.
    let again = [
        [inserts([10, 20, 30, 40, 50, 60, 70]), removes([10, 20, 30, 40])].concat(),
        inserts([80, 15, 16, 17]),
    ];
    for scenario in scenarios().into_iter().chain([again]) {
        for variant in BOTH {
            for leaf_slots in [4, if variant == Variant::Slot { 7 } else { 10 }] {
                let tested = Wb(variant, Parameters { leaf_slots, ..TINY });
                is_never_lost::<U64Keys>(tested, identity, scenario.clone(), &options());
            }
        }
    }
}
