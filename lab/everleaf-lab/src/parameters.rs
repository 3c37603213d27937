//! Sizes of nodes on the command line.

use everleaf_cli::size::parse_size;

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
