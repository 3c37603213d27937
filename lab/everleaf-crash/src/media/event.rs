//! What is recorded of an access to persistent memory.

use everleaf_pmem::Site;

/// One access, in program order. Offsets are bytes from the pool's base; lines are offsets divided
/// by 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// An ordinary p-atomic store.
    Store {
        /// Where.
        offset: u64,
        /// What stood there.
        old: u64,
        /// What stands there now.
        new: u64,
    },
    /// A word of an unordered store (a part of a whole-line write): durable in any subset until
    /// fenced.
    UnorderedStore {
        /// The barrier that wrote it.
        site: Site,
        /// Where.
        offset: u64,
        /// What stood there.
        old: u64,
        /// What stands there now.
        new: u64,
    },
    /// A read, recorded only when asked for.
    Load {
        /// Where.
        offset: u64,
    },
    /// A flush of a line.
    Flush {
        /// Its name.
        site: Site,
        /// The line.
        line: u64,
    },
    /// A fence.
    Fence {
        /// Its name.
        site: Site,
    },
    /// Two stores to one line are kept apart here.
    Order {
        /// Its name.
        site: Site,
    },
    /// The region was lengthened; the new length is durable.
    Grow {
        /// The new length in bytes.
        len: u64,
    },
    /// An operation of the index ended.
    EndOperation,
}
