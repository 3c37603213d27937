//! The pool below the trees.

/// See [`Family::equivalent_mutants`](super::Family::equivalent_mutants).
pub(super) const EQUIVALENT_MUTANTS: &[(&str, &str)] = &[(
    "swap pool.recover.retire.fence",
    "where the next worker's intent follows, it speaks of other blocks, so either may be settled \
    first (clfB-trees free a record next, by the same slot: there it is missed); that it is \
    durable before \
     the slot serves a worker again is what the fence is for: left out, it is missed",
)];

/// See [`Family::may_be_idle`](super::Family::may_be_idle).
pub(super) const MAY_BE_IDLE: &[&str] = &["pool.rescue.lines", "pool.run.R1.fence"];
