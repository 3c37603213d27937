//! What the memory behind a pool can promise.

use std::fmt;

/// The kind of memory that a pool is mapped from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A file on a DAX file system, mapped with `MAP_SYNC`, or a DAX device: persistent memory
    /// itself.
    Dax,
    /// A file on tmpfs: DRAM, shared between processes, gone when the machine restarts.
    Tmpfs,
    /// A file in the page cache of an ordinary file system.
    PageCache,
    /// Memory of this process only.
    Anonymous,
}

/// The strongest failure that acknowledged data survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: private memory.
    None,
    /// The process may be killed at any instruction; the operating system must live on.
    ProcessCrash,
    /// Power may fail at any instruction.
    PowerFail,
}

impl Medium {
    /// What this medium can promise at best. `power-fail` is claimed for `MAP_SYNC` and device DAX
    /// only.
    pub const fn durability(self) -> Durability {
        match self {
            Medium::Dax => Durability::PowerFail,
            Medium::Tmpfs | Medium::PageCache => Durability::ProcessCrash,
            Medium::Anonymous => Durability::None,
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::None => "none",
            Durability::ProcessCrash => "process-crash",
            Durability::PowerFail => "power-fail",
        })
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Medium::Dax => "DAX",
            Medium::Tmpfs => "tmpfs",
            Medium::PageCache => "page cache",
            Medium::Anonymous => "anonymous memory",
        })
    }
}
