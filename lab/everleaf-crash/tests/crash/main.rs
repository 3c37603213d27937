//! The explorer from outside. One program, because each is compiled and linked apart.

mod after_recovery;
mod buffered;
mod cost;
mod explorer;
mod lazily;
mod left_behind;
mod model;
mod operations_on_threads;
mod paths;
mod programs;
mod structures;
mod threads;
mod toys;
