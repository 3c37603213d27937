//! What figures show: the places along their axes, and what is measured there.

use crate::{Flush, MicroOptions};

/// The latency of DRAM, which the papers' least latencies are: an emulated one is what it is above
/// this.
pub const DRAM_NS: u64 = 90;

/// A kind of memory, and what its reads and writes take beyond DRAM.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    pub read_ns: u64,
    pub write_ns: u64,
}

/// What stands below.
#[derive(Clone, Copy, Debug)]
pub enum Axis {
    /// Latency of persistent memory, of reads and of flushes, DRAM's included.
    Latency(&'static [u64]),
    /// Latency of flushes alone, DRAM's included.
    WriteLatency(&'static [u64]),
    /// What is added to each flush.
    FlushLatency(&'static [u64]),
    /// What is added to each fence.
    FenceLatency(&'static [u64]),
    /// Bytes of a node's entry array.
    NodeBytes(&'static [u32]),
    /// Parts of all keys.
    KeysOver(&'static [u64]),
    /// Numbers of keys, those of them that are no more than all.
    KeysUpTo(&'static [u64]),
    /// 1, 2, 4, .. threads, up to as many as there are processors, and no more than this.
    ThreadsUpTo(u32),
    /// Bytes of a value.
    ValueBytes(&'static [u32]),
    /// Standard deviation of keys of a normal distribution.
    KeyDeviation(&'static [u64]),
    /// Percent of a mixture that insert.
    Inserts(&'static [u32]),
    /// Kinds of memory.
    Kinds(&'static [Kind]),
    /// Instructions that flush.
    Instructions(&'static [Flush]),
}

impl Axis {
    /// What is written there.
    pub const fn label(self) -> &'static str {
        match self {
            Axis::Latency(_) => "latency of persistent memory, ns",
            Axis::WriteLatency(_) => "latency of writes, ns",
            Axis::FlushLatency(_) => "added to a flush, ns",
            Axis::FenceLatency(_) => "added to a fence, ns",
            Axis::NodeBytes(_) => "bytes of a node",
            Axis::KeysOver(_) | Axis::KeysUpTo(_) => "keys",
            Axis::ThreadsUpTo(_) => "threads",
            Axis::ValueBytes(_) => "bytes of a value",
            Axis::KeyDeviation(_) => "standard deviation of the keys",
            Axis::Inserts(_) => "percent of operations that insert",
            Axis::Kinds(_) => "kind of memory",
            Axis::Instructions(_) => "instruction that flushes",
        }
    }

    /// A place in words.
    pub fn at(self, place: u64) -> String {
        match self {
            Axis::Latency(_) => format!("latency of {place} ns"),
            Axis::WriteLatency(_) => format!("writes of {place} ns"),
            Axis::FlushLatency(_) => format!("{place} ns added to a flush"),
            Axis::FenceLatency(_) => format!("{place} ns added to a fence"),
            Axis::NodeBytes(_) => format!("nodes of {place} bytes"),
            Axis::KeysOver(_) | Axis::KeysUpTo(_) => format!("{place} keys"),
            Axis::ThreadsUpTo(_) if place == 1 => "1 thread".into(),
            Axis::ThreadsUpTo(_) => format!("{place} threads"),
            Axis::ValueBytes(_) => format!("values of {place} bytes"),
            Axis::KeyDeviation(_) => format!("keys with a deviation of {place}"),
            Axis::Inserts(_) => format!("{place} percent insertions"),
            Axis::Kinds(_) | Axis::Instructions(_) => self
                .names()
                .and_then(|names| names.get(place as usize).cloned())
                .unwrap_or_default(),
        }
    }

    /// Whether places grow by factors.
    pub const fn is_logarithmic(self) -> bool {
        matches!(
            self,
            Axis::NodeBytes(_) | Axis::KeysOver(_) | Axis::KeysUpTo(_) | Axis::KeyDeviation(_)
        )
    }

    /// The names of its places, where they are not numbers.
    pub fn names(self) -> Option<Vec<String>> {
        match self {
            Axis::Kinds(kinds) => Some(kinds.iter().map(|kind| kind.name.to_owned()).collect()),
            Axis::Instructions(all) => {
                Some(all.iter().map(|flush| flush.name().to_owned()).collect())
            }
            _ => None,
        }
    }

    /// Its places, in a figure of so many keys.
    pub fn places(self, keys: u64) -> Vec<u64> {
        match self {
            Axis::Latency(places)
            | Axis::WriteLatency(places)
            | Axis::FlushLatency(places)
            | Axis::FenceLatency(places)
            | Axis::KeyDeviation(places) => places.to_vec(),
            Axis::NodeBytes(places) | Axis::ValueBytes(places) | Axis::Inserts(places) => {
                places.iter().map(|place| u64::from(*place)).collect()
            }
            Axis::KeysOver(parts) => {
                let mut places: Vec<u64> = parts.iter().map(|part| (keys / part).max(1)).collect();
                places.dedup(); // Of few keys several parts are one key.
                places
            }
            Axis::KeysUpTo(places) => {
                let places: Vec<u64> =
                    places.iter().copied().filter(|place| *place <= keys).collect();
                if places.is_empty() { vec![keys] } else { places }
            }
            Axis::Kinds(kinds) => (0..kinds.len() as u64).collect(),
            Axis::Instructions(all) => (0..all.len() as u64).collect(),
            Axis::ThreadsUpTo(most) => {
                let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
                let powers = std::iter::successors(Some(1), |threads| Some(threads * 2));
                powers.take_while(|threads| *threads <= processors.min(most.into())).collect()
            }
        }
    }

    /// The options at a place.
    pub fn apply(self, place: u64, options: &mut MicroOptions) {
        match self {
            Axis::Latency(_) => {
                let added = place.saturating_sub(DRAM_NS);
                (options.read_ns, options.flush_ns) = (added, added);
            }
            Axis::WriteLatency(_) => options.flush_ns = place.saturating_sub(DRAM_NS),
            Axis::FlushLatency(_) => options.flush_ns = place,
            Axis::FenceLatency(_) => options.fence_ns = place,
            Axis::NodeBytes(_) => options.node_bytes = Some(place as u32),
            Axis::KeysOver(_) | Axis::KeysUpTo(_) => {
                (options.keys, options.warm) = (place, if options.warm == 0 { 0 } else { place })
            }
            Axis::ThreadsUpTo(_) => options.threads = place as u32,
            Axis::ValueBytes(_) => options.value_bytes = Some(place as u32),
            Axis::KeyDeviation(_) => options.key_deviation = Some(place),
            Axis::Inserts(_) => options.mixed_inserts = place as u32,
            Axis::Kinds(kinds) => {
                let kind = kinds[place as usize];
                (options.read_ns, options.flush_ns) = (kind.read_ns, kind.write_ns);
            }
            Axis::Instructions(all) => options.flush = all[place as usize],
        }
    }
}

/// What stands to the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Mean time of an operation.
    MeanNs,
    /// Geometric mean of the times, each operation timed by itself.
    GeomeanNs,
    /// The time that one operation in a hundred exceeds.
    P99Ns,
    /// Operations a second.
    Throughput,
    /// Throughput to that of one thread.
    Speedup,
    /// What the latencies cost an operation beyond DRAM, by the counts.
    Modelled,
    /// Flushed lines of an operation.
    Flushes,
    /// Lines of persistent memory that an operation reads.
    LinesRead,
    /// Those of them that the modelled cache does not hold.
    Misses,
    /// Bytes flushed by an operation, of lines that held something new.
    BytesFlushed,
    /// Bytes of persistent memory that a key takes after the phase.
    PmBytes,
    /// Nodes that were copied to a log, by all operations together.
    NodesLogged,
}

impl Measure {
    pub const fn label(self) -> &'static str {
        match self {
            Measure::MeanNs | Measure::GeomeanNs | Measure::P99Ns => "ns/operation",
            Measure::Throughput => "operations/s",
            Measure::Speedup => "times one thread",
            Measure::Modelled => "ns/operation beyond DRAM, by count",
            Measure::Flushes => "flushes/operation",
            Measure::LinesRead => "lines read/operation",
            Measure::Misses => "misses/operation",
            Measure::BytesFlushed => "bytes flushed/operation",
            Measure::PmBytes => "bytes/key",
            Measure::NodesLogged => "nodes logged in the epoch",
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Measure::MeanNs => "time",
            Measure::GeomeanNs => "geometric mean",
            Measure::P99Ns => "99th percentile",
            Measure::Throughput => "throughput",
            Measure::Speedup => "speedup",
            Measure::Modelled => "cost of the latency, counted",
            Measure::Flushes => "flushes",
            Measure::LinesRead => "lines of persistent memory read",
            Measure::Misses => "misses of the modelled cache",
            Measure::BytesFlushed => "bytes flushed",
            Measure::PmBytes => "persistent memory",
            Measure::NodesLogged => "nodes logged",
        }
    }

    pub const fn is_counted(self) -> bool {
        matches!(
            self,
            Measure::Modelled
                | Measure::Flushes
                | Measure::LinesRead
                | Measure::Misses
                | Measure::BytesFlushed
                | Measure::NodesLogged
        )
    }

    /// Whether operations are timed one by one for it, in a run of its own.
    pub const fn is_of_latencies(self) -> bool {
        matches!(self, Measure::GeomeanNs | Measure::P99Ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_comes_twice() {
        assert_eq!(Axis::KeysOver(&[1000, 100, 10, 1]).places(100), [1, 10, 100]);
        assert_eq!(Axis::KeysOver(&[1000, 100, 10, 1]).places(5000), [5, 50, 500, 5000]);
        assert_eq!(Axis::ThreadsUpTo(1).places(100), [1]);
        assert_eq!(Axis::KeysUpTo(&[10, 100, 300]).places(299), [10, 100]);
        assert_eq!(Axis::KeysUpTo(&[10]).places(9), [9]);
    }
}
