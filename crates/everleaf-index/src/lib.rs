//! The one interface of all engines: [`Index`], an ordered map from keys to one or more 8-byte
//! words.
//!
//! Engines for one thread implement [`SerialIndex`] (`&mut self` for writes) and stand behind the
//! one lock of [`Serialized`]; concurrent engines implement [`Index`] themselves. [`Model`] is the
//! reference that every engine is compared with.
//!
//! Map of the files: `key` (kinds of keys) · `index` (the traits) · `contract` (when what was
//! acknowledged is durable, and the guard of an epoch) · `serialized` (one lock for single-threaded
//! engines) · `timer` (ends epochs) · `model` (the reference) · `error` · `statistics`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod contract;
mod error;
mod index;
mod key;
mod model;
mod serialized;
mod statistics;
mod timer;

pub use contract::{Contract, EpochGuard, EpochPart, Epochs};
pub use error::{IndexError, Result};
pub use index::{BatchSteps, Changes, Index, LinkSteps, Links, SerialIndex, Start, Visit, Visitor};
pub use key::{BytesKeys, Direction, KeyKind, MAX_KEY_BYTES, U64Keys};
pub use model::Model;
pub use serialized::Serialized;
pub use statistics::{
    CheckReport, Concurrency, Conflicts, EpochStatistics, IndexStatistics, InnerFrom, NoImage,
};
pub use timer::EpochTimer;
