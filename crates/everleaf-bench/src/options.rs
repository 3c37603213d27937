//! What is asked for, and whether it makes sense.

use everleaf::{DEFAULT_ENGINE, Engine, Transactions};
use everleaf_pmem::{Cpu, FlushInstruction, MapError};
use serde::Serialize;

use crate::keys::{KeySequence, MOST_DEVIATION};
use crate::{BenchError, Scratch, Subject};

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
    /// Insert and look up in random sequence: half of the operations, or so many percent, insert new distinct keys, the others look up keys drawn at random
    /// from those that were present before the phase.
    Mixed,
}

impl Phase {
    /// All phases.
    pub const ALL: [Phase; 7] =
        [Phase::Insert, Phase::Find, Phase::Multiget, Phase::Update, Phase::Delete, Phase::Scan, Phase::Mixed];

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
                Err(MapError::Unsupported { instruction: self.name(), purpose: "the forced flush" }.into())
            }
            _ => Ok(()),
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
    /// Bytes of a node's entry array, 16 for each slot; none is the engine's default.
    pub node_bytes: Option<u32>,
    /// Keys of an inner node; none is the engine's default.
    pub inner_keys: Option<u32>,
    /// Words of a value, 1 to 14.
    pub value_words: u32,
    /// Bytes of a value instead, at least 8. An index has whole words; the store and its peers have any number.
    pub value_bytes: Option<u32>,
    /// Percent of a mixture that insert.
    pub mixed_inserts: u32,
    /// Threads that share the index.
    pub threads: u32,
    /// What is done, in this order.
    pub phases: Vec<Phase>,
    /// Operations of a phase of scans, where they are not as many as of the others: each visits many records.
    pub scans: Option<u64>,
    /// Sequence of inserted keys.
    pub order: Order,
    /// Kind of keys.
    pub key_type: BenchKeyType,
    /// Keys are numbers of so many bits, 1 to 64.
    pub key_bits: u32,
    /// Keys are drawn from a normal distribution around 2^63 with this standard deviation, and not from all numbers alike; then they have 64 bits.
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
    /// Decides all that is random.
    pub seed: u64,
    /// Where the pool is made (and removed); none is /dev/shm, or the temporary folder if there is no room.
    pub pool: Scratch,
}

impl Default for MicroOptions {
    fn default() -> Self {
        Self {
            engine: DEFAULT_ENGINE.into(),
            keys: 1_000_000,
            warm: 0,
            node_bytes: None,
            inner_keys: None,
            value_words: 1,
            value_bytes: None,
            mixed_inserts: 50,
            threads: 1,
            phases: vec![Phase::Insert, Phase::Find, Phase::Multiget, Phase::Update, Phase::Scan, Phase::Delete],
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
    /// Names of engines; the others are compared with the first. A name may come twice: that shows the noise. After the name may stand
    /// `:separate`: then every thread has an index of its own, in a pool of its own, with its part of the keys. This is what the hardware
    /// gives where nothing is shared, for single-threaded engines too.
    pub engines: Vec<String>,
    /// How often each is measured.
    pub rounds: u32,
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
    /// The index is closed before each opening, which is left a clean shutdown then; else it is left as a killed process leaves it.
    pub clean: bool,
    /// The engine, its sizes, its keys, the flush instruction and the place. Added latencies are those of the opening; warm-up, threads and phases do
    /// not apply.
    pub micro: MicroOptions,
}

/// What follows the name of an engine whose threads have an index each.
const SEPARATE: &str = ":separate";

/// The engine in `name:separate`; none if it is the name of an engine alone.
pub(crate) fn separate_name(name: &str) -> Option<&str> {
    name.strip_suffix(SEPARATE)
}

/// Refuses a number of threads that is not offered.
pub(crate) fn within_threads(threads: u32) -> Result<(), BenchError> {
    within("threads", threads.into(), 1, MOST_THREADS)
}

/// The part of each thread, in equal parts, so that the operations are as many in all as those of threads that share an index.
pub(crate) fn divide(options: &MicroOptions) -> Result<MicroOptions, BenchError> {
    within_threads(options.threads)?;
    let (threads, parts) = (options.threads, u64::from(options.threads));
    for (option, value) in [("keys", options.keys), ("warm", options.warm), ("scans", options.scans.unwrap_or(0))] {
        if !value.is_multiple_of(parts) {
            return Err(BenchError::UnequalParts { option, value, threads });
        }
    }
    let scans = options.scans.map(|scans| scans / parts);
    Ok(MicroOptions { keys: options.keys / parts, warm: options.warm / parts, scans, threads: 1, ..options.clone() })
}

/// Options that were looked through.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub subject: Subject,
    pub options: MicroOptions,
    /// Keys that are inserted all in all.
    pub total_keys: u64,
    /// Keys that are in the index at most.
    pub peak_keys: u64,
    /// Bytes of the operations that are drawn at a time, and of what they are drawn from.
    pub drawn_bytes: u64,
}

/// Refuses a value outside of what is offered.
pub(crate) fn within(option: &'static str, value: u64, least: u64, most: u64) -> Result<(), BenchError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(BenchError::OutOfRange { option, value, least, most }) }
}

/// Rounds that are still worth their time.
pub(crate) const MOST_ROUNDS: u64 = 1000;
/// Operations and keys beyond which arithmetic would overflow; far beyond what a machine holds.
pub(crate) const MOST: u64 = 1 << 40;
/// As many as a pool has workers.
const MOST_THREADS: u64 = 64;
/// More is a matter of the memory's bandwidth alone.
pub(crate) const MOST_VALUE_BYTES: u64 = 1 << 20;

/// How many operations of a mixture insert.
pub(crate) const fn inserts_of_mixture(operations: u64, percent: u32) -> u64 {
    (operations as u128 * percent as u128 / 100) as u64
}

/// Words of an index's value: those of `--value-bytes`, if they are whole and few enough. `btreemap` also has boxes of any size.
fn words_of_value(subject: Subject, options: &MicroOptions) -> Result<u32, BenchError> {
    let Some(bytes) = options.value_bytes else { return Ok(options.value_words) };
    within("value-bytes", bytes.into(), 8, MOST_VALUE_BYTES)?;
    let words = bytes / 8;
    if !subject.has_words() || subject == Subject::Index(Engine::BTreeMap) || bytes.is_multiple_of(8) && words <= 14 {
        return Ok(words.clamp(1, 14));
    }
    Err(BenchError::ValueBytes { engine: subject })
}

impl Plan {
    /// Finds everything that is wrong before any work is done.
    pub fn new(options: &MicroOptions) -> Result<Self, BenchError> {
        within("keys", options.keys, 1, MOST)?;
        within("warm", options.warm, 0, MOST)?;
        within("scans", options.operations(Phase::Scan), 1, MOST)?;
        within_threads(options.threads)?;
        within("mixed-inserts", options.mixed_inserts.into(), 0, 100)?;
        within("value-words", options.value_words.into(), 1, 14)?;
        within("key-bits", options.key_bits.into(), 1, 64)?;
        within("phases", options.phases.len() as u64, 1, 1000)?;
        for (option, ns) in [("flush-ns", options.flush_ns), ("fence-ns", options.fence_ns), ("read-ns", options.read_ns)] {
            within(option, ns, 0, 1_000_000_000)?;
        }
        if let Some(deviation) = options.key_deviation {
            within("key-deviation", deviation, 1, MOST_DEVIATION)?;
            within("key-bits", options.key_bits.into(), 64, 64)?;
        }
        if separate_name(&options.engine).is_some() {
            return Err(BenchError::SeparateAlone { name: options.engine.clone() });
        }
        let subject: Subject = options.engine.parse()?;
        if options.threads > 1 && !subject.is_concurrent() {
            return Err(BenchError::SerialEngine { engine: subject, threads: options.threads });
        }
        let mut options = options.clone();
        options.value_words = words_of_value(subject, &options)?;
        let options = &options;
        let (total_keys, peak_keys) = Self::follow_keys(options)?;
        let available = if options.key_bits == 64 { u64::MAX } else { 1 << options.key_bits };
        if total_keys > available {
            return Err(BenchError::TooFewBits { bits: options.key_bits, available, needed: total_keys });
        }
        Ok(Self {
            subject,
            options: options.clone(),
            total_keys,
            peak_keys,
            // A key, and whether it is inserted.
            drawn_bytes: options.keys.max(options.operations(Phase::Scan)) * (options.key_type.bytes() + 2),
        })
    }

    /// Counts keys through the phases: how many are ever inserted, and how many are there at most.
    fn follow_keys(options: &MicroOptions) -> Result<(u64, u64), BenchError> {
        let (mut total, mut present) = (options.warm, options.warm);
        let mut peak = present;
        for &phase in &options.phases {
            match phase {
                Phase::Insert => (total, present) = (total + options.keys, present + options.keys),
                Phase::Delete if present < options.keys => {
                    return Err(BenchError::TooFewPresent { keys: options.keys, present });
                }
                Phase::Delete => present -= options.keys,
                _ if present == 0 => return Err(BenchError::NothingPresent { phase }),
                Phase::Mixed => {
                    let inserts = inserts_of_mixture(options.keys, options.mixed_inserts);
                    (total, present) = (total + inserts, present + inserts);
                }
                _ => {}
            }
            peak = peak.max(present);
        }
        Ok((total, peak))
    }

    /// The keys that are inserted, in their order.
    pub fn sequence(&self, seed: u64) -> KeySequence {
        let options = &self.options;
        let sequence = KeySequence::new(options.order, options.key_bits, self.total_keys, seed);
        options.key_deviation.map_or(sequence, |deviation| sequence.normal(deviation, seed))
    }

    /// Bytes of a value.
    pub fn value_bytes(&self) -> usize {
        self.options.value_bytes.unwrap_or(8 * self.options.value_words) as usize
    }

    /// Entries of a leaf that `--node-bytes` stands for.
    pub fn leaf_slots(&self) -> Result<Option<u32>, BenchError> {
        match self.options.node_bytes {
            Some(bytes) if bytes == 0 || !bytes.is_multiple_of(16) => Err(BenchError::NodeBytes { bytes }),
            bytes => Ok(bytes.map(|bytes| bytes / 16)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut MicroOptions)) -> String {
        let mut options = MicroOptions { keys: 100, ..MicroOptions::default() };
        change(&mut options);
        let error = Plan::new(&options).unwrap_err();
        assert!(error.is_wrong_usage(), "{error}");
        error.to_string()
    }

    #[test]
    fn phases_without_keys_are_refused_before_any_work() {
        let sentence = refused(|o| o.phases = vec![Phase::Find]);
        assert_eq!(sentence, "phase find needs keys and there are none: put insert before it, or warm up with --warm");
        let sentence = refused(|o| (o.phases, o.warm) = (vec![Phase::Delete], 99));
        assert_eq!(
            sentence,
            "phase delete removes 100 keys and there are only 99: insert more before it, or warm up with --warm"
        );
        assert!(refused(|o| o.phases = vec![Phase::Insert, Phase::Delete, Phase::Scan]).contains("phase scan"));
        assert!(refused(|o| o.phases = vec![Phase::Mixed, Phase::Insert]).contains("phase mixed"));
        refused(|o| o.phases.clear());
    }

    #[test]
    fn keys_are_counted_through_the_phases() {
        let phases = vec![Phase::Insert, Phase::Insert, Phase::Delete, Phase::Find, Phase::Delete, Phase::Insert];
        let options = MicroOptions { keys: 100, warm: 50, phases, ..MicroOptions::default() };
        let plan = Plan::new(&options).unwrap();
        assert_eq!((plan.total_keys, plan.peak_keys), (350, 250));
        let options = MicroOptions { keys: 101, phases: vec![Phase::Mixed; 2], ..options };
        let plan = Plan::new(&options).unwrap();
        assert_eq!((plan.total_keys, plan.peak_keys), (150, 150));
    }

    #[test]
    fn too_few_bits_are_refused() {
        assert_eq!(refused(|o| o.key_bits = 6), "100 distinct keys do not fit into 6 bits, which have 64: give more --key-bits");
        assert!(Plan::new(&MicroOptions { keys: 128, key_bits: 7, ..MicroOptions::default() }).is_ok());
        refused(|o| (o.key_bits, o.warm) = (7, 29));
    }

    #[test]
    fn serial_engines_take_one_thread() {
        let sentence = refused(|o| (o.engine, o.threads) = ("btreemap".into(), 2));
        assert_eq!(sentence, "engine btreemap is for one thread: leave out --threads 2, or choose a concurrent engine");
    }

    #[test]
    fn values_outside_of_what_is_offered_are_refused() {
        assert_eq!(refused(|o| o.keys = 0), format!("--keys 0 is out of range: give 1 to {MOST}"));
        refused(|o| o.threads = 0);
        refused(|o| o.value_words = 15);
        refused(|o| o.key_bits = 65);
        refused(|o| o.read_ns = u64::MAX);
        assert!(refused(|o| o.key_deviation = Some(0)).contains("--key-deviation 0"));
        assert!(refused(|o| (o.key_deviation, o.key_bits) = (Some(9), 63)).contains("--key-bits 63"));
        assert!(refused(|o| o.engine = "bogus".into()).contains("bogus"));
        assert!("bogus".parse::<Phase>().unwrap_err().to_string().contains("insert, find"));
    }
}
