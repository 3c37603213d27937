//! The benchmarks from outside. One program, because each is compiled and linked apart.

mod compare;
mod evidence;
mod figures;
mod hot_path;
mod micro;
mod model;
mod peers;
mod recovery;
mod stores;
mod ycsb;
