//! Whether what is asked for makes sense, and what it comes to.

use crate::Phase;
use crate::keys::{KeySequence, MAX_DEVIATION};
use crate::options::MicroOptions;
use crate::{Acknowledged, BenchError, Subject};

/// Which threads work on which index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// All threads share one index.
    Shared,
    /// Every thread has an index with its part of the keys, and its part of the operations.
    Separate,
    /// Every thread has an index with all keys, and does all operations.
    Copies,
}

impl Sharing {
    /// What follows the name of an engine whose threads have an index each.
    const SUFFIXES: [(&str, Self); 2] = [(":separate", Self::Separate), (":copies", Self::Copies)];

    /// The engine in `name`, `name:separate` or `name:copies`.
    pub fn of_name(name: &str) -> (&str, Self) {
        let stripped =
            |(suffix, sharing): (&str, Self)| Some((name.strip_suffix(suffix)?, sharing));
        Self::SUFFIXES.into_iter().find_map(stripped).unwrap_or((name, Self::Shared))
    }
}

/// Refuses a number of threads that is not offered.
pub(crate) fn within_threads(threads: u32) -> Result<(), BenchError> {
    within("threads", threads.into(), 1, MAX_THREADS)
}

/// The part of each thread, in equal parts, so that the operations are as many in all as those of
/// threads that share an index.
pub(crate) fn divide(options: &MicroOptions) -> Result<MicroOptions, BenchError> {
    within_threads(options.threads)?;
    let (threads, parts) = (options.threads, u64::from(options.threads));
    for (option, value) in
        [("keys", options.keys), ("warm", options.warm), ("scans", options.scans.unwrap_or(0))]
    {
        if !value.is_multiple_of(parts) {
            return Err(BenchError::UnequalParts { option, value, threads });
        }
    }
    let scans = options.scans.map(|scans| scans / parts);
    Ok(MicroOptions {
        keys: options.keys / parts,
        warm: options.warm / parts,
        scans,
        threads: 1,
        ..options.clone()
    })
}

/// What each thread does, if all of them do everything.
pub(crate) fn copy(options: &MicroOptions) -> Result<MicroOptions, BenchError> {
    within_threads(options.threads)?;
    Ok(MicroOptions { threads: 1, ..options.clone() })
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
    /// Values that are replaced in an epoch at most: what they were waits for its end.
    pub replaced: u64,
    /// Bytes of the operations that are drawn at a time, and of what they are drawn from.
    pub drawn_bytes: u64,
}

/// Refuses a value outside of what is offered.
pub(crate) fn within(
    option: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), BenchError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(BenchError::OutOfRange { option, value, least, most })
    }
}

/// Refuses to end epochs where nothing has any.
pub(crate) fn need_epochs<'n>(
    epoch_ops: Option<u64>,
    engines: impl Iterator<Item = &'n str>,
) -> Result<(), BenchError> {
    let Some(writes) = epoch_ops else { return Ok(()) };
    within("epoch-ops", writes, 1, MOST)?;
    for engine in engines {
        if engine.parse::<Subject>()?.has_epochs() {
            return Ok(());
        }
    }
    Err(BenchError::NoEpochs)
}

/// Values that an epoch ended by time replaces at most: more than 64 threads do in it.
pub(crate) const MAX_REPLACED: u64 = 4 << 20;
/// Rounds that are still worth their time.
pub(crate) const MAX_ROUNDS: u64 = 1000;
/// Keys that are put together.
const MAX_BATCH: u64 = 10_000;
/// Operations and keys beyond which arithmetic would overflow; far beyond what a machine holds.
pub(crate) const MOST: u64 = 1 << 40;
/// As many as a pool has workers.
pub(crate) const MAX_THREADS: u64 = 64;
/// More is a matter of the memory's bandwidth alone.
pub(crate) const MAX_VALUE_BYTES: u64 = 1 << 20;

/// How many operations of a mixture insert.
pub(crate) const fn inserts_of_mixture(operations: u64, percent: u32) -> u64 {
    (operations as u128 * percent as u128 / 100) as u64
}

/// Words of an index's value: those of `--value-bytes`, if they are whole and few enough.
/// `btreemap` and `stx` also have boxes of any size.
fn words_of_value(subject: Subject, options: &MicroOptions) -> Result<u32, BenchError> {
    let Some(bytes) = options.value_bytes else { return Ok(options.value_words) };
    within("value-bytes", bytes.into(), 8, MAX_VALUE_BYTES)?;
    let words = bytes / 8;
    if !subject.has_words() || subject.is_map() || bytes.is_multiple_of(8) && words <= 14 {
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
        within("batch", options.batch.into(), 1, MAX_BATCH)?;
        within("mixed-inserts", options.mixed_inserts.into(), 0, 100)?;
        within("value-words", options.value_words.into(), 1, 14)?;
        within("key-bits", options.key_bits.into(), 1, 64)?;
        within("phases", options.phases.len() as u64, 1, 1000)?;
        for (option, ns) in [
            ("flush-ns", options.flush_ns),
            ("fence-ns", options.fence_ns),
            ("read-ns", options.read_ns),
        ] {
            within(option, ns, 0, 1_000_000_000)?;
        }
        if let Some(deviation) = options.key_deviation {
            within("key-deviation", deviation, 1, MAX_DEVIATION)?;
            within("key-bits", options.key_bits.into(), 64, 64)?;
        }
        if Sharing::of_name(&options.engine).1 != Sharing::Shared {
            return Err(BenchError::SeparateAlone { name: options.engine.clone() });
        }
        let subject: Subject = options.engine.parse()?;
        let plain = options.acknowledged == Acknowledged::Process && options.batch == 1;
        if subject.has_words() && !plain {
            return Err(BenchError::NotAStore { engine: subject });
        }
        if options.threads > 1 && !subject.is_concurrent() {
            return Err(BenchError::SerialEngine { engine: subject, threads: options.threads });
        }
        let mut options = options.clone();
        options.value_words = words_of_value(subject, &options)?;
        let options = &options;
        let (total_keys, peak_keys) = Self::follow_keys(options)?;
        let available = if options.key_bits == 64 { u64::MAX } else { 1 << options.key_bits };
        if total_keys > available {
            return Err(BenchError::TooFewBits {
                bits: options.key_bits,
                available,
                needed: total_keys,
            });
        }
        Ok(Self {
            subject,
            options: options.clone(),
            total_keys,
            peak_keys,
            // A phase of the counting run is one epoch.
            replaced: options.keys.min(options.epoch_ops.unwrap_or(MOST)),
            // A key, and whether it is inserted.
            drawn_bytes: options.keys.max(options.operations(Phase::Scan))
                * (options.key_type.bytes() + 2),
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

    /// Entries of a leaf: those that are given, or that `--node-bytes` stands for.
    pub fn leaf_slots(&self) -> Result<Option<u32>, BenchError> {
        let bytes = match self.options.node_bytes {
            Some(bytes) if bytes == 0 || !bytes.is_multiple_of(16) => {
                return Err(BenchError::NodeBytes { bytes });
            }
            bytes => bytes,
        };
        let slots_of = |bytes| match self.subject {
            Subject::Index(engine) | Subject::Store(engine) => {
                (engine.entry().slots_of_bytes)(bytes)
            }
            _ => bytes / 16,
        };
        Ok(self.options.leaf_slots.or(bytes.map(slots_of)))
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
    fn bytes_of_a_node_are_those_of_its_array() {
        for (bytes, slots, of_nv_tree) in
            [(512, 32, 21), (1024, 64, 42), (2048, 128, 85), (4096, 256, 170)]
        {
            for (engine, expected) in [("fptree", slots), ("nvtree", of_nv_tree)] {
                let node_bytes = Some(bytes);
                let engine = engine.into();
                let options =
                    MicroOptions { engine, keys: 100, node_bytes, ..MicroOptions::default() };
                let plan = Plan::new(&options).unwrap();
                assert_eq!(plan.leaf_slots().unwrap(), Some(expected));
            }
        }
    }

    #[test]
    fn phases_without_keys_are_refused_before_any_work() {
        let sentence = refused(|o| o.phases = vec![Phase::Find]);
        assert_eq!(
            sentence,
            "phase find needs keys and there are none: put insert before it, or warm up with --warm"
        );
        let sentence = refused(|o| (o.phases, o.warm) = (vec![Phase::Delete], 99));
        assert_eq!(
            sentence,
            "phase delete removes 100 keys and there are only 99: insert more before it, or warm \
            up with --warm"
        );
        assert!(
            refused(|o| o.phases = vec![Phase::Insert, Phase::Delete, Phase::Scan])
                .contains("phase scan")
        );
        assert!(refused(|o| o.phases = vec![Phase::Mixed, Phase::Insert]).contains("phase mixed"));
        refused(|o| o.phases.clear());
    }

    #[test]
    fn keys_are_counted_through_the_phases() {
        let phases = vec![
            Phase::Insert,
            Phase::Insert,
            Phase::Delete,
            Phase::Find,
            Phase::Delete,
            Phase::Insert,
        ];
        let options = MicroOptions { keys: 100, warm: 50, phases, ..MicroOptions::default() };
        let plan = Plan::new(&options).unwrap();
        assert_eq!((plan.total_keys, plan.peak_keys), (350, 250));
        let options = MicroOptions { keys: 101, phases: vec![Phase::Mixed; 2], ..options };
        let plan = Plan::new(&options).unwrap();
        assert_eq!((plan.total_keys, plan.peak_keys), (150, 150));
    }

    #[test]
    fn too_few_bits_are_refused() {
        assert_eq!(
            refused(|o| o.key_bits = 6),
            "100 distinct keys do not fit into 6 bits, which have 64: give more --key-bits"
        );
        assert!(
            Plan::new(&MicroOptions { keys: 128, key_bits: 7, ..MicroOptions::default() }).is_ok()
        );
        refused(|o| (o.key_bits, o.warm) = (7, 29));
    }

    #[test]
    fn serial_engines_take_one_thread() {
        let sentence = refused(|o| (o.engine, o.threads) = ("btreemap".into(), 2));
        assert_eq!(
            sentence,
            "engine btreemap is for one thread: leave out --threads 2, or choose a concurrent \
            engine"
        );
    }

    #[test]
    fn values_outside_of_what_is_offered_are_refused() {
        assert_eq!(refused(|o| o.keys = 0), format!("--keys 0 is out of range: give 1 to {MOST}"));
        refused(|o| o.threads = 0);
        refused(|o| o.value_words = 15);
        refused(|o| o.key_bits = 65);
        refused(|o| o.read_ns = u64::MAX);
        assert!(refused(|o| o.key_deviation = Some(0)).contains("--key-deviation 0"));
        assert!(
            refused(|o| (o.key_deviation, o.key_bits) = (Some(9), 63)).contains("--key-bits 63")
        );
        assert!(refused(|o| o.engine = "bogus".into()).contains("bogus"));
        assert!("bogus".parse::<Phase>().unwrap_err().to_string().contains("insert, find"));
    }
}
