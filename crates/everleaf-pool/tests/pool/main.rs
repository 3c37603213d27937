//! The pool from outside. One program, because each is compiled and linked apart.

mod common;
mod cut_links;
mod epochs;
mod full_disk;
mod growth;
mod guards;
mod interleaved;
mod pool;
mod reserve;
mod sessions;
mod workers;
