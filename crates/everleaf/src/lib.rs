//! Everleaf: an embedded, ordered key-value store for persistent memory that restarts in milliseconds and loses nothing.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod attached;
mod backend;
mod check;
mod engine;
mod error;
mod key;
mod link;
mod options;
pub mod registry;
mod scan;
mod statistics;
mod store;
mod value_record;

pub use engine::{DEFAULT_ENGINE, Engine, EngineParameters, key_type_name};
pub use error::{Error, MAX_VALUE_BYTES};
pub use everleaf_index::{BytesKeys, Direction, IndexError, MAX_KEY_BYTES, U64Keys};
pub use everleaf_pmem::{Durability, FlushInstruction, Medium};
pub use everleaf_pool::{KeyType, PoolError, Shutdown};
pub use key::{Key, OwnedKey, StoreKey};
pub use options::{CreateOptions, DEFAULT_SIZE_BYTES, FlushChoice, OpenOptions};
pub use scan::{Entry, Range, Scan};
pub use statistics::{Capabilities, CheckOutcome, Contract, Statistics};
pub use store::Store;
