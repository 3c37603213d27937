//! Crashes at every event of every operation. More of it, and all barriers, are explored with the
//! other engines.

use std::convert::identity;

use everleaf_conformance::explore::{is_never_lost, options, scenarios};

use super::{BOTH, Parameters, TINY};

#[test]
fn no_crash_state_is_lost() {
    for (scenario, logging) in scenarios().iter().flat_map(|one| BOTH.map(|log| (one, log))) {
        for slots in [4, 8] {
            let parameters = Parameters { slots, logging, ..TINY };
            is_never_lost(parameters, identity, scenario.clone(), &options());
        }
    }
}
