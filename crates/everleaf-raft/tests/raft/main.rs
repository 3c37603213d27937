//! A node's log and state: against openraft's suite, on disks whose power fails, and as several
//! nodes whose network loses, delays and doubles messages.

mod disk;
mod folder;
mod machine;
mod state;
mod suite;
