//! What can go wrong in a benchmark.

use std::io;
use std::path::PathBuf;

use everleaf_index::IndexError;
use everleaf_pmem::MapError;
use everleaf_pool::PoolError;

use crate::peers::PeerError;
use crate::serve::Served;
use crate::ycsb::{Record, Workload};
use crate::{Phase, Subject};

/// A benchmark could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// An engine that there is not, or a parameter that it does not have.
    #[error(transparent)]
    Store(#[from] everleaf::Error),
    /// An engine that there is not.
    #[error("there is no engine {}; choose among {choices}, or give store:E for the store over \
        engine E", shown(.name))]
    UnknownEngine {
        /// What was asked for.
        name: String,
        /// What there is.
        choices: String,
    },
    /// A peer that this build lacks.
    #[error("{what} is not in this build: build with --features {feature}")]
    NotBuilt {
        /// The peer.
        what: &'static str,
        /// The feature that it needs.
        feature: &'static str,
    },
    /// A phase that there is not.
    #[error(
        "there is no phase {name}; choose among insert, find, multiget, update, delete, scan, mixed"
    )]
    UnknownPhase {
        /// What was asked for.
        name: String,
    },
    /// Something else that there is not.
    #[error("there is no {what} {name}; choose among {choices}")]
    Unknown {
        /// What sort of thing.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        choices: String,
    },
    /// A deviation that is none.
    #[error(
        "--deviation {deviation} is out of range: give a part of all records, above 0 and up to 10"
    )]
    Deviation {
        /// What was given.
        deviation: f64,
    },
    /// A record whose value has a size that is not offered.
    #[error("--record {record} is out of range: give 8 to {most} bytes of a value")]
    RecordBytes {
        /// What was given.
        record: Record,
        /// The most that is offered.
        most: u64,
    },
    /// An option outside of its range.
    #[error("--{option} {value} is out of range: give {least} to {most}")]
    OutOfRange {
        /// The option.
        option: &'static str,
        /// What was given (of a list, its length).
        value: u64,
        /// The least that is offered.
        least: u64,
        /// The most that is offered.
        most: u64,
    },
    /// A node size that is not a number of entries.
    #[error("--node-bytes {bytes} is no multiple of 16, the size of an entry: give a multiple")]
    NodeBytes {
        /// What was given.
        bytes: u32,
    },
    /// Several threads for an engine that takes one.
    #[error(
        "engine {engine} is for one thread: leave out --threads {threads}, or choose a concurrent \
        engine"
    )]
    SerialEngine {
        /// The engine.
        engine: Subject,
        /// What was given.
        threads: u32,
    },
    /// Separate indexes where one engine is looked at.
    #[error(
        "{name} stands for an index for each thread, against which a shared one is compared: use \
        it in bench compare --engines"
    )]
    SeparateAlone {
        /// What was given.
        name: String,
    },
    /// Operations that cannot be shared in equal parts.
    #[error(
        "--{option} {value} is no multiple of --threads {threads}, and separate indexes take equal \
        parts: give a multiple"
    )]
    UnequalParts {
        /// The option.
        option: &'static str,
        /// What was given.
        value: u64,
        /// Threads.
        threads: u32,
    },
    /// A size of values that an index does not have.
    #[error(
        "engine {engine} holds words: give --value-bytes as a multiple of 8 from 8 to 112, or \
        choose store or another peer"
    )]
    ValueBytes {
        /// The engine.
        engine: Subject,
    },
    /// A record that an index does not have.
    #[error(
        "engine {engine} holds words, which --record {record} is not: give 8/B or 16/B with B a \
        multiple of 8 from 8 to 112, or choose store or another peer"
    )]
    RecordWords {
        /// The engine.
        engine: Subject,
        /// What was given.
        record: Record,
    },
    /// More distinct keys than there are numbers.
    #[error(
        "{needed} distinct keys do not fit into {bits} bits, which have {available}: give more \
        --key-bits"
    )]
    TooFewBits {
        /// Bits of a key.
        bits: u32,
        /// How many keys there are.
        available: u64,
        /// How many are needed.
        needed: u64,
    },
    /// A phase needs present keys and there are none.
    #[error(
        "phase {phase} needs keys and there are none: put insert before it, or warm up with --warm"
    )]
    NothingPresent {
        /// The phase.
        phase: Phase,
    },
    /// More keys are to be deleted than there are.
    #[error(
        "phase delete removes {keys} keys and there are only {present}: insert more before it, or \
        warm up with --warm"
    )]
    TooFewPresent {
        /// Keys to delete.
        keys: u64,
        /// Keys that are there.
        present: u64,
    },
    /// Nothing to compare.
    #[error("a comparison takes at least one engine, and one number of threads")]
    NothingToCompare,
    /// No recovery to measure.
    #[error("a measurement of recoveries takes at least one number of threads")]
    NothingToRecover,
    /// Something else than an index where an index is looked at.
    #[error(
        "this looks at an index by itself, which {engine} is not: choose an index engine such as \
        fptree"
    )]
    NotAnIndex {
        /// What was given.
        engine: Subject,
    },
    /// An index where a store is asked for.
    #[error(
        "--durability, --batch and --reopen are for stores, which {engine} is not: choose store, \
        or a peer such as lmdb"
    )]
    NotAStore {
        /// What was given.
        engine: Subject,
    },
    /// Nothing has epochs.
    #[error(
        "--epoch-ops ends epochs, and no engine here has any: choose masstree or masstree-logging, \
        or leave it out"
    )]
    NoEpochs,
    /// Nothing can be counted.
    #[error(
        "{engine} lives in no pool, so nothing can be counted: choose an index engine or store"
    )]
    NoPool {
        /// The engine.
        engine: Subject,
    },
    /// Nothing to recover from.
    #[error("{engine} persists nothing, so there is nothing to recover: choose another engine")]
    NothingPersists {
        /// The engine.
        engine: Subject,
    },
    /// The medium or the memory is too small.
    #[error(
        "this benchmark needs about {needed} MiB {place}, where {available} MiB are free: use \
        fewer keys or operations, or name another place with --pool"
    )]
    NoRoom {
        /// Where.
        place: String,
        /// MiB needed.
        needed: u64,
        /// MiB there.
        available: u64,
    },
    /// The pool's folder cannot be used.
    #[error("{action} {path}: {source}", path = .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The engine gave wrong answers: what it was asked for is in the index, or is not.
    #[error(
        "engine {engine} answered wrongly: {right} of {asked} operations of phase {phase} had the \
        outcome that they must have; please report this"
    )]
    WrongAnswers {
        /// The engine.
        engine: Subject,
        /// The phase.
        phase: Phase,
        /// Operations.
        asked: u64,
        /// Operations with the right outcome.
        right: u64,
    },
    /// Operations of a workload had other outcomes than they must have.
    #[error(
        "engine {engine} answered wrongly: {right} of {asked} operations of workload {workload} \
        had the outcome that they must have; please report this"
    )]
    WrongOutcomes {
        /// The engine.
        engine: Subject,
        /// The workload.
        workload: Workload,
        /// Operations.
        asked: u64,
        /// Operations with the right outcome.
        right: u64,
    },
    /// The engine returned values that were never given to it.
    #[error("engine {engine} returned wrong values in phase {phase}; please report this")]
    WrongValues {
        /// The engine.
        engine: Subject,
        /// The phase.
        phase: Phase,
    },
    /// A server that has nothing to say by the protocols that were asked for, or too much.
    #[error("{server} takes no part: give --protocol memcached or redis, the one that it speaks")]
    Unspoken {
        /// The server.
        server: Served,
    },
    /// A program that is started is not there.
    #[error("{program} is not there: install it, so that PATH leads to it, or leave it out")]
    NoProgram {
        /// Its name.
        program: &'static str,
    },
    /// A server failed.
    #[error("{action} the server {server}: {source}")]
    Server {
        /// What was tried.
        action: &'static str,
        /// Which.
        server: Served,
        /// What happened.
        source: io::Error,
    },
    /// A peer failed.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A plot could not be drawn.
    #[error("the plots of this figure could not be drawn; please report this")]
    Plot,
    /// This build draws no plots.
    #[error("plots are not in this build: build with --features plots")]
    NoPlots,
    /// An operation failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The pool could not be made.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The media could not be made.
    #[error(transparent)]
    Map(#[from] MapError),
}

impl From<std::convert::Infallible> for BenchError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// A name as it was given.
fn shown(name: &str) -> &str {
    if name.is_empty() { "without a name" } else { name }
}

impl BenchError {
    /// Whether the options are to blame (exit code 2 of the command line), and not the machine or
    /// the engine.
    pub fn is_wrong_usage(&self) -> bool {
        match self {
            Self::UnknownEngine { .. }
            | Self::NotBuilt { .. }
            | Self::NoPlots
            | Self::ValueBytes { .. }
            | Self::RecordWords { .. }
            | Self::UnknownPhase { .. }
            | Self::Unknown { .. }
            | Self::Deviation { .. }
            | Self::RecordBytes { .. }
            | Self::OutOfRange { .. }
            | Self::NodeBytes { .. }
            | Self::SerialEngine { .. }
            | Self::SeparateAlone { .. }
            | Self::UnequalParts { .. }
            | Self::TooFewBits { .. }
            | Self::NothingPresent { .. }
            | Self::TooFewPresent { .. }
            | Self::NothingToCompare
            | Self::NothingToRecover
            | Self::NothingPersists { .. }
            | Self::NotAnIndex { .. }
            | Self::NotAStore { .. }
            | Self::NoEpochs
            | Self::NoPool { .. }
            | Self::Unspoken { .. }
            | Self::NoProgram { .. }
            | Self::Index(IndexError::Parameter { .. })
            | Self::Map(MapError::Unsupported { .. }) => true,
            Self::Store(error) => is_choice(error),
            Self::Peer(_)
            | Self::Plot
            | Self::NoRoom { .. }
            | Self::Server { .. }
            | Self::Io { .. }
            | Self::WrongAnswers { .. }
            | Self::WrongOutcomes { .. }
            | Self::WrongValues { .. }
            | Self::Index(_)
            | Self::Pool(_)
            | Self::Map(_) => false,
        }
    }
}

/// Whether other options would have avoided it.
fn is_choice(error: &everleaf::Error) -> bool {
    use everleaf::Error;
    let of_parameter = matches!(error, Error::Index(IndexError::Parameter { .. }));
    of_parameter || matches!(error, Error::UnknownEngine { .. } | Error::UnknownParameter { .. })
}
