//! What is asked for.

use everleaf::Engine;
use everleaf::{DurabilityMode, Transactions};
use everleaf_pmem::{Cpu, FlushInstruction, MapError};
use serde::Serialize;

use crate::{BenchError, Scratch};

/// Keys that `multiget` asks for at a time.
pub const MULTIGET_KEYS: usize = 16;
/// Records that a scan visits.
pub const SCAN_RECORDS: usize = 100;

/// Something to do `keys` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Insert new distinct keys.
    Insert,
    /// Look up present keys drawn at random, one at a time.
    Find,
    /// Look up present keys drawn at random, [`MULTIGET_KEYS`] at a time; an operation is a key.
    Multiget,
    /// Replace the values of present keys drawn at random.
    Update,
    /// Remove present keys in random order, each once.
    Delete,
    /// Visit [`SCAN_RECORDS`] records from a present key drawn at random; an operation is a scan.
    Scan,
    /// Insert and look up in random sequence: half of the operations, or so many percent, insert
    /// new distinct keys, the others look up keys drawn at random from those that were present
    /// before the phase.
    Mixed,
}

impl Phase {
    /// All phases.
    pub const ALL: [Phase; 7] = [
        Phase::Insert,
        Phase::Find,
        Phase::Multiget,
        Phase::Update,
        Phase::Delete,
        Phase::Scan,
        Phase::Mixed,
    ];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Insert => "insert",
            Phase::Find => "find",
            Phase::Multiget => "multiget",
            Phase::Update => "update",
            Phase::Delete => "delete",
            Phase::Scan => "scan",
            Phase::Mixed => "mixed",
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Phase {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        let known = Self::ALL.into_iter().find(|phase| phase.name() == name);
        known.ok_or_else(|| BenchError::UnknownPhase { name: name.into() })
    }
}

/// The sequence in which keys are inserted, while warming up too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// A random permutation of all keys of `key_bits` bits.
    #[default]
    Random,
    /// 0, 1, 2, ...
    Ascending,
    /// ..., 2, 1, 0.
    Descending,
}

/// The kind of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BenchKeyType {
    /// `u64`.
    #[default]
    U64,
    /// Byte strings of 16: the number of the key in hexadecimal digits.
    String16,
}

impl BenchKeyType {
    /// Bytes of a key.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            BenchKeyType::U64 => 8,
            BenchKeyType::String16 => 16,
        }
    }
}

/// The flush instruction of the timed run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// What the pool's medium needs: on tmpfs none, and no fence either.
    #[default]
    Auto,
    /// `clwb` and fences, whatever the medium.
    Clwb,
    /// `clflushopt` and fences, whatever the medium.
    ClflushOpt,
    /// `clflush` and fences, whatever the medium.
    Clflush,
    /// Neither flushes nor fences, whatever the medium.
    None,
}

impl Flush {
    /// The instruction, if it is not for the medium to say.
    pub(crate) const fn forced(self) -> Option<FlushInstruction> {
        match self {
            Flush::Auto => None,
            Flush::Clwb => Some(FlushInstruction::Clwb),
            Flush::ClflushOpt => Some(FlushInstruction::ClflushOpt),
            Flush::Clflush => Some(FlushInstruction::Clflush),
            Flush::None => Some(FlushInstruction::None),
        }
    }

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Flush::Auto => "auto",
            Flush::Clwb => "clwb",
            Flush::ClflushOpt => "clflushopt",
            Flush::Clflush => "clflush",
            Flush::None => "none",
        }
    }

    /// Refuses an instruction that the processor lacks, before any work is done.
    pub(crate) fn require(self, cpu: &Cpu) -> Result<(), BenchError> {
        match self.forced() {
            Some(forced) if !cpu.has(forced) => {
                Err(MapError::Unsupported { instruction: self.name(), purpose: "the forced flush" }
                    .into())
            }
            _ => Ok(()),
        }
    }
}

/// What a write of a store waits for before it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledged {
    /// It outlives the process: the store has no log, peers do not sync.
    #[default]
    Process,
    /// The same; what is lost with the machine is bounded by an interval where the store offers
    /// that.
    Buffered,
    /// It outlives the machine: synced, alone or with others.
    Immediate,
}

impl Acknowledged {
    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Buffered => "buffered",
            Self::Immediate => "immediate",
        }
    }

    /// The same as the store calls it.
    pub(crate) const fn mode(self) -> DurabilityMode {
        match self {
            Self::Process => DurabilityMode::Process,
            Self::Buffered => DurabilityMode::buffered(),
            Self::Immediate => DurabilityMode::Immediate,
        }
    }
}

/// What `bench micro` measures.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroOptions {
    /// Name of an engine: an index, `btreemap`, `store`, or another peer.
    pub engine: String,
    /// Operations of each phase.
    pub keys: u64,
    /// Keys inserted before the first phase.
    pub warm: u64,
    /// Bytes of a node's entry array, 16 for each slot, and 24 in NV-Tree; none is the engine's
    /// default.
    pub node_bytes: Option<u32>,
    /// Entries of a leaf, instead.
    pub leaf_slots: Option<u32>,
    /// Whether as much is flushed as in the engine's paper.
    pub paper_order: bool,
    /// Whether a redo log has ranges and not whole nodes, where the engine offers it.
    pub log_ranges: bool,
    /// Whether each value stands in a buffer of its own, in the engines of Masstree.
    pub buffers: bool,
    /// An epoch of an index that has epochs ends after so many writes, and not by time.
    pub epoch_ops: Option<u64>,
    /// Keys of an inner node; none is the engine's default.
    pub inner_keys: Option<u32>,
    /// Words of a value, 1 to 14.
    pub value_words: u32,
    /// Bytes of a value instead, at least 8. An index has whole words; the store and its peers have
    /// any number.
    pub value_bytes: Option<u32>,
    /// Percent of a mixture that insert.
    pub mixed_inserts: u32,
    /// Threads that share the index.
    pub threads: u32,
    /// What is done, in this order.
    pub phases: Vec<Phase>,
    /// Operations of a phase of scans, where they are not as many as of the others: each visits
    /// many records.
    pub scans: Option<u64>,
    /// Sequence of inserted keys.
    pub order: Order,
    /// Kind of keys.
    pub key_type: BenchKeyType,
    /// Keys are numbers of so many bits, 1 to 64.
    pub key_bits: u32,
    /// Keys are drawn from a normal distribution around 2^63 with this standard deviation, and not
    /// from all numbers alike; then they have 64 bits.
    pub key_deviation: Option<u64>,
    /// Flush instruction.
    pub flush: Flush,
    /// Which transactions keep threads apart, in engines that know any.
    pub transactions: Transactions,
    /// Nanoseconds added to each flush.
    pub flush_ns: u64,
    /// Nanoseconds added to each fence.
    pub fence_ns: u64,
    /// Nanoseconds added to each read of persistent memory that misses a modelled cache.
    pub read_ns: u64,
    /// What a write of a store or a peer waits for. Stores wait on a disk only.
    pub acknowledged: Acknowledged,
    /// Keys that are inserted or replaced by one call, all or none of them; an operation is a key.
    /// Of stores and peers.
    pub batch: u32,
    /// Bytes of the cache of a peer that has one.
    pub cache_bytes: u64,
    /// Decides all that is random.
    pub seed: u64,
    /// Where the pool is made (and removed); none is /dev/shm, or the temporary folder if there is
    /// no room.
    pub pool: Scratch,
}

impl Default for MicroOptions {
    fn default() -> Self {
        Self {
            engine: Engine::DEFAULT.name().into(),
            keys: 1_000_000,
            warm: 0,
            node_bytes: None,
            leaf_slots: None,
            paper_order: false,
            log_ranges: false,
            buffers: false,
            epoch_ops: None,
            inner_keys: None,
            value_words: 1,
            value_bytes: None,
            mixed_inserts: 50,
            threads: 1,
            phases: vec![
                Phase::Insert,
                Phase::Find,
                Phase::Multiget,
                Phase::Update,
                Phase::Scan,
                Phase::Delete,
            ],
            scans: None,
            order: Order::default(),
            key_type: BenchKeyType::default(),
            key_bits: u64::BITS,
            key_deviation: None,
            flush: Flush::default(),
            transactions: Transactions::default(),
            flush_ns: 0,
            fence_ns: 0,
            read_ns: 0,
            acknowledged: Acknowledged::default(),
            batch: 1,
            cache_bytes: 1 << 30,
            seed: 1,
            pool: Scratch::default(),
        }
    }
}

impl MicroOptions {
    /// Operations of a phase.
    pub fn operations(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Scan => self.scans.unwrap_or(self.keys),
            _ => self.keys,
        }
    }
}

/// What `bench compare` measures.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// Names of engines; the others are compared with the first. A name may come twice: that shows
    /// the noise. After the name may stand `:separate`: then every thread has an index of its own,
    /// in a pool of its own, with its part of the keys; or `:copies`: then the index of every
    /// thread is as large as the one that they would share, and each does all operations. This is
    /// what the hardware gives where nothing is shared, for single-threaded engines too.
    pub engines: Vec<String>,
    /// How often all of them are filled and measured anew, each time with a seed of its own.
    pub rounds: u32,
    /// Operations of a turn, of all threads together; scans, which visit many records, are a tenth
    /// as many. None is 48,000, or 4,800 if stores of bytes are among the engines: some hundredths
    /// of a second.
    pub turn: Option<u64>,
    /// All but the engine.
    pub micro: MicroOptions,
}

/// What `bench recovery` measures.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveryOptions {
    /// Numbers of threads that rebuild what the index keeps in DRAM; each is measured.
    pub threads: Vec<u32>,
    /// How often each is measured.
    pub rounds: u32,
    /// The index is closed before each opening, which is left a clean shutdown then; else it is
    /// left as a killed process leaves it.
    pub clean: bool,
    /// Where it is closed: with the image of its inner nodes, if the engine has any.
    pub image: bool,
    /// The engine, its sizes, its keys, the flush instruction and the place. Added latencies are
    /// those of the opening; warm-up, threads and phases do not apply.
    pub micro: MicroOptions,
}
