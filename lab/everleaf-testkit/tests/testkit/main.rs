//! The scenarios on every engine. One program, because each is compiled and linked apart.

mod batches;
mod concurrent;
mod conformance;
mod disk;
mod explore;
mod linearizability;
mod pool_threads;
mod sources;
mod suite;
mod transactions;
