//! The store from outside. One program, because each is compiled and linked apart.

mod all_calls;
mod alone;
mod beside_writers;
mod common;
mod counts;
mod damaged_log;
mod epochs;
mod epochs_on_disk;
mod expiring;
mod files;
mod first_lines;
mod format;
mod full_pool;
mod limits;
mod logged;
mod making_room;
mod model;
mod moved_logs;
mod neighbours;
mod older_formats;
mod ranges;
mod refusals;
mod traced;
mod transactions;
mod transfer;
mod trees;
