//! Arguments that commands of both programs take.

use everleaf::KeyType;

use crate::size::parse_size;

/// Kinds of keys, as they are called on the command line.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Keys {
    /// Byte strings of 0 to 64 KiB, in lexicographic order.
    Bytes,
    /// Numbers from 0 to 2^64 - 1, in numeric order.
    U64,
}

impl From<Keys> for KeyType {
    fn from(keys: Keys) -> Self {
        match keys {
            Keys::Bytes => Self::Bytes,
            Keys::U64 => Self::U64,
        }
    }
}

/// Parameters of engines; what is not given is what the engine is tuned for.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Engine parameters")]
pub struct EngineParameters {
    /// Entries of a leaf.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    leaf_slots: Option<u32>,
    /// Keys of an inner node.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    inner_keys: Option<u32>,
    /// Bytes of a group of leaves, which are allocated together.
    #[arg(long, value_name = "S", value_parser = parse_size, allow_hyphen_values = true)]
    group_bytes: Option<u64>,
    /// Log the ranges of a node that change, not the whole node (lcbtree).
    #[arg(long)]
    log_ranges: bool,
    /// Keep each value of the index in a buffer of the tree's own memory, as in the paper, for
    /// comparisons with it (masstree, masstree-logging).
    #[arg(long)]
    buffers: bool,
}

impl From<EngineParameters> for everleaf::EngineParameters {
    fn from(given: EngineParameters) -> Self {
        Self {
            leaf_slots: given.leaf_slots,
            inner_keys: given.inner_keys,
            group_bytes: given.group_bytes,
            log_ranges: given.log_ranges,
            buffers: given.buffers,
            ..Self::default()
        }
    }
}
