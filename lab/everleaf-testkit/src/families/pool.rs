//! The pool below the trees.

/// See [`Family::equivalent_mutants`](super::Family::equivalent_mutants).
pub(super) const EQUIVALENT_MUTANTS: &[(&str, &str)] = &[
    (
        "swap pool.recover.retire.fence",
        "where the next worker's intent follows, it speaks of other blocks, so either may be \
         settled first (clfB-trees free a record next, by the same slot: there it is missed); \
         that it is durable before the slot serves a worker again is what the fence is for: left \
         out, it is missed",
    ),
    (
        "swap pool.run.free.fence",
        "what a creation that was cut has left is free before or after the next attempt takes \
         memory: nothing leads to either, and a run that takes the same chunk is not swapped",
    ),
    ("pool.recover.epoch.end", ONE_WORKER),
    ("pool.recover.epoch.end.fence", ONE_WORKER),
];

/// What is durable of an intent that recovery has ended is overwritten before it can do harm, where
/// the next epoch ends by the same slot.
const ONE_WORKER: &str = "operations that run one after another end all epochs by one worker, \
     whose next intent is durable before memory changes hands: an intent that was ended twice does \
     harm where another worker ends the next epoch. The explorations of the pool (tests/pool/\
     epochs.rs) have two, and miss it";

/// See [`Family::may_be_idle`](super::Family::may_be_idle).
pub(super) const MAY_BE_IDLE: &[&str] = &[
    "pool.write_back.lines",
    "pool.run.R1.fence",
    "pool.epoch.E2.chunks",
    "pool.epoch.E2.records",
    "image.C1.body",
];
