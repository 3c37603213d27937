//! The command line from outside. One program, because each is compiled and linked apart.

mod backup;
mod bad_input;
mod bench;
mod commands;
mod common;
mod explore_scripts;
mod inspect;
mod kill;
mod load;
mod scan;
mod signals;
mod tour;
mod trees;
