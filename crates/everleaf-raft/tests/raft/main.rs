//! A node's log and state: against openraft's suite, on disks whose power fails, and as several
//! nodes whose network loses, delays and doubles messages.

mod disk;
mod disks;
mod folder;
mod groups;
mod machine;
mod model;
mod state;
mod suite;
