//! Power-fail safety on ordinary disks: the stream of flushes as a redo log.
//!
//! An engine's flushes and fences say which line must be durable before which. With a [`Log`] the
//! working image of a pool lies in private memory; a flush copies what is new in its line into the
//! open *group*, and a fence only orders. A group is written and synced as a whole, all or nothing,
//! so a prefix of the log is an image that persistent memory could have held. A caller that
//! promises durability waits once, for the group that holds its last flush, and everybody who waits
//! meanwhile is served by one sync.
//!
//! The crate stands above everleaf-pmem and beside everleaf-pool. It needs nothing of either but
//! the trait [`Media`](everleaf_pmem::Media) and cells of a region, so it has no unsafe code; and
//! files, checksums and threads do not belong into the crate of the instructions.
//!
//! # Invariants
//!
//! * I1: what a group holds depends on groups before it only. A capture copies its line under the
//!   latch of the line's stripe, and reads there which group is open; stores take the same latch.
//! * I2: the file of the pool holds only what durable groups hold. A checkpoint copies lines that
//!   have no uncaptured word, and waits for the group that is open afterwards.
//! * I3: a block of the log that may have been acknowledged is written again only when I4 has set
//!   its segment free, and the segment has another number, durably.
//! * I4: a segment is set free, to be removed or used again, when a durable control block says that
//!   the log begins behind it. From there on the numbers of the segments have no gap, each knows
//!   its own length, and each group its segment: what else stands in one is not a group of the log.
//! * I5: nothing is served that exists in the page cache only. Opening copies the valid log into
//!   segments of a session of its own and syncs them first.
//! * I6: after the first error nothing more is logged, and nothing more is acknowledged.
//!
//! Map of the files: `disk` (what is asked of a disk) · `folder` (a real one) · `ownership`
//! (whose its files are) · `served_pool` (which pool it serves) · `simulated` (one whose power
//! fails) · `error` · `group` (the header of a group) · `payload` (its lines) · `segment` (the
//! files of groups) · `spares` (before they have a number) · `control` (where the log begins) ·
//! `writer` (appending) · `reader` (one group after the other) · `lines` (what is new in each
//! line) · `latch` (who has it) · `options` (lengths and times) · `core` (captures, group commit) ·
//! `base` (the file of the pool) · `checkpoint` · `memory` (how much the image takes) · `recover` ·
//! `replay` · `salvage` (what a damaged log holds) · `media` (the media) · `thread` (what happens
//! meanwhile) · `signals` (by which it is told).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod base;
mod checkpoint;
mod control;
mod core;
mod disk;
mod error;
mod folder;
mod group;
mod latch;
mod lines;
mod media;
mod memory;
mod options;
mod ownership;
mod payload;
mod reader;
mod recover;
mod replay;
mod salvage;
mod segment;
mod served_pool;
mod signals;
mod simulated;
mod spares;
#[cfg(test)]
mod tests;
mod thread;
mod weak;
mod writer;

pub use self::base::Base;
pub use self::disk::{Disk, DiskFile, Space};
pub use self::error::{Damage, LogError};
pub use self::folder::{Folder, NewFolder};
pub use self::media::Log;
pub use self::options::LogOptions;
pub use self::replay::read_only;
pub use self::salvage::{read_damaged, read_unidentified};
pub use self::served_pool::ServedPool;
pub use self::simulated::{SimulatedDisk, SimulatedFile};
#[doc(hidden)]
pub use self::weak::Weak;

/// A random identity for a pool and its log.
pub fn new_uuid() -> u128 {
    uuid::Uuid::new_v4().as_u128()
}
