//! What is measured, as several commands ask for it.

use everleaf::Transactions;
use everleaf::internal::InjectedAborts;
use everleaf_bench::{BenchKeyType, Flush, MicroOptions, Order};

use super::basics::Basics;
use everleaf_cli::failure::Failure;
use everleaf_cli::rtm::Rtm;

/// An index and its keys.
#[derive(Debug, clap::Args)]
pub struct Subject {
    /// Operations of each phase, or keys of the index.
    #[arg(long, value_name = "N")]
    keys: u64,
    /// Bytes of a node's entry array, 16 for each entry of a pair of u64, 24 in NV-Trees and
    /// lcbtree, 32 in cdds; of `clftree` engines those of the whole leaf [default: the engine's].
    #[arg(long, value_name = "B")]
    node_bytes: Option<u32>,
    /// Entries of a leaf, instead of --node-bytes [default: the engine's].
    #[arg(long, value_name = "N", conflicts_with = "node_bytes")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    leaf_slots: Option<u32>,
    /// As in the engine's paper: clfB-trees flush entry and live bit apart, all lines of new
    /// leaves, each step of an inner node by the log; leaves of NV-Trees have no hashes.
    #[arg(long)]
    paper_order: bool,
    /// Log the ranges of a node that change, not the whole node (lcbtree).
    #[arg(long)]
    log_ranges: bool,
    #[command(flatten)]
    epochs: EpochOptions,
    /// Keys of an inner node [default: the engine's].
    #[arg(long, value_name = "N")]
    inner_keys: Option<u32>,
    /// Words of a value, 1 to 14.
    #[arg(long, value_name = "W", default_value_t = 1, conflicts_with = "value_bytes")]
    value_words: u32,
    /// Bytes of a value, at least 8: a multiple of 8 up to 112 for an index, any number for the
    /// store and its peers [default: 8].
    #[arg(long, value_name = "B")]
    value_bytes: Option<u32>,
    /// The sequence of inserted keys.
    #[arg(long, default_value = "random")]
    order: KeyOrder,
    /// Kind of keys.
    #[arg(long, default_value = "u64")]
    key_type: KeyKind,
    /// Bits of the keys, which are numbers, 1 to 64.
    #[arg(long, value_name = "B", default_value_t = 64)]
    key_bits: u32,
    /// Keys have a normal distribution with this standard deviation [default: uniform].
    #[arg(long, value_name = "D")]
    key_deviation: Option<u64>,
    /// The flush instruction.
    #[arg(long, default_value = "auto")]
    flush: FlushKind,
    #[command(flatten)]
    scheme: Scheme,
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// What engines with epochs are measured by.
#[derive(Debug, clap::Args)]
pub struct EpochOptions {
    /// Keep each value in a buffer of 32 bytes of the tree's own memory, which an update replaces,
    /// as in the paper (masstree, masstree-logging, masstree-transient).
    #[arg(long)]
    pub buffers: bool,
    /// End an epoch after exactly this many writes (masstree, masstree-logging) [default: every 64
    /// ms].
    #[arg(long, value_name = "N")]
    pub epoch_ops: Option<u64>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum KeyOrder {
    Random,
    Ascending,
    Descending,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum KeyKind {
    U64,
    String16,
}

/// What keeps threads apart, and what every benchmark is told.
#[derive(Debug, clap::Args)]
pub struct Scheme {
    /// Transactions of inner nodes, in fptree-c and in a store over it.
    #[arg(long, value_name = "WHICH", default_value = "off")]
    rtm: Rtm,
    #[command(flatten)]
    pub basics: Basics,
}

impl Scheme {
    /// As engines take it.
    ///
    /// # Errors
    /// As [`Rtm::with`].
    pub fn transactions(&self) -> Result<Transactions, Failure> {
        self.rtm.with(self.basics.seed, InjectedAborts::Nothing)
    }
}

/// A flush instruction by name.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum FlushKind {
    /// What the pool's medium needs.
    Auto,
    Clwb,
    Clflushopt,
    Clflush,
    None,
}

impl From<FlushKind> for Flush {
    fn from(kind: FlushKind) -> Self {
        match kind {
            FlushKind::Auto => Flush::Auto,
            FlushKind::Clwb => Flush::Clwb,
            FlushKind::Clflushopt => Flush::ClflushOpt,
            FlushKind::Clflush => Flush::Clflush,
            FlushKind::None => Flush::None,
        }
    }
}

impl Subject {
    /// As the benchmarks take them.
    pub fn options(&self, engine: &str) -> Result<MicroOptions, Failure> {
        Ok(MicroOptions {
            engine: engine.to_owned(),
            keys: self.keys,
            node_bytes: self.node_bytes,
            leaf_slots: self.leaf_slots,
            paper_order: self.paper_order,
            log_ranges: self.log_ranges,
            buffers: self.epochs.buffers,
            epoch_ops: self.epochs.epoch_ops,
            inner_keys: self.inner_keys,
            value_words: self.value_words,
            value_bytes: self.value_bytes,
            order: match self.order {
                KeyOrder::Random => Order::Random,
                KeyOrder::Ascending => Order::Ascending,
                KeyOrder::Descending => Order::Descending,
            },
            key_type: match self.key_type {
                KeyKind::U64 => BenchKeyType::U64,
                KeyKind::String16 => BenchKeyType::String16,
            },
            key_bits: self.key_bits,
            key_deviation: self.key_deviation,
            flush: self.flush.into(),
            transactions: self.scheme.transactions()?,
            seed: self.scheme.basics.seed,
            pool: self.scheme.basics.place()?,
            ..MicroOptions::default()
        })
    }
}
