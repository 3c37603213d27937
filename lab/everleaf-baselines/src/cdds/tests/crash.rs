//! Crashes at every event of every operation. More of it, and all barriers, are explored with the
//! other engines.

use std::convert::identity;

use everleaf_conformance::explore::{
    Scenario, inserts, is_never_lost, options, removes, scenarios,
};

use super::{Parameters, TINY};

fn keeps(parameters: Parameters, scenario: Scenario) {
    is_never_lost(parameters, identity, scenario, &options());
}

#[test]
fn no_crash_state_is_lost() {
    for scenario in scenarios() {
        keeps(TINY, scenario.clone());
        keeps(Parameters { slots: 8, ..TINY }, scenario);
    }
}

/// A split puts two entries into the node above, one move after the other. The first may go over an
/// entry that has ended, in a line that is not durable yet when the second one's is: then the ended
/// entry stands behind one that is greater.
#[test]
fn an_ended_entry_between_two_moves_is_no_damage() {
    let top = |below: u64| u64::MAX - below;
    let prepare = [
        inserts([156, top(119), 10, top(164), 188, 3, 162, 128, 141, 173, top(44)]),
        removes([162]),
        inserts([top(99)]),
        removes([156]),
        inserts([160, 183, 198]),
    ];
    keeps(TINY, [prepare.concat(), inserts([top(169)])]);
}
