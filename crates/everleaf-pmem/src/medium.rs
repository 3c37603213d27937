//! What the memory behind a pool can promise.

use std::fmt;

/// The kind of memory that a pool is mapped from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Medium {
    /// A file on a DAX file system, mapped with `MAP_SYNC`, or a DAX device that the kernel knows
    /// to be persistent: persistent memory itself.
    Dax,
    /// A DAX device that the kernel does not know to be persistent: high-bandwidth or CXL memory,
    /// say. Gone when the machine restarts.
    VolatileDax,
    /// A file on tmpfs: DRAM, shared between processes, gone when the machine restarts.
    Tmpfs,
    /// A file in the page cache of an ordinary file system.
    PageCache,
    /// Memory of this process only.
    Anonymous,
}

/// The strongest failure that acknowledged data survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Durability {
    /// Nothing: private memory.
    None,
    /// The process may be killed at any instruction; the operating system must live on.
    ProcessCrash,
    /// Power may fail at any instruction.
    PowerFail,
}

/// Why a file is not mapped as persistent memory although the device below it could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum DaxHint {
    /// The file system does not use DAX.
    MountWithDax,
    /// The file system uses DAX, but the device keeps nothing without a sync: `MAP_SYNC` is
    /// refused (virtio-pmem).
    NoSynchronousMapping,
}

impl Medium {
    /// What this medium can promise at best. `power-fail` is claimed for `MAP_SYNC` and persistent
    /// DAX devices only.
    pub const fn durability(self) -> Durability {
        match self {
            Medium::Dax => Durability::PowerFail,
            Medium::VolatileDax | Medium::Tmpfs | Medium::PageCache => Durability::ProcessCrash,
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
            Medium::VolatileDax => "volatile DAX",
            Medium::Tmpfs => "tmpfs",
            Medium::PageCache => "page cache",
            Medium::Anonymous => "anonymous memory",
        })
    }
}

impl fmt::Display for DaxHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DaxHint::MountWithDax => {
                "its device is persistent memory: mount the file system with `-o dax` for \
                 power-fail durability"
            }
            DaxHint::NoSynchronousMapping => {
                "its device has DAX but no synchronous mappings (MAP_SYNC), as virtio-pmem: give \
                 the machine an NVDIMM for power-fail durability"
            }
        })
    }
}
