//! What is explored with several threads.

use std::fmt::Debug;

use everleaf_pmem::Site;

use crate::{Acknowledges, Traced};

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One operation alone.
    Alone(usize),
    /// Threads that run concurrently, each its operations in their order. The step ends when all
    /// have ended.
    Concurrent(Vec<ThreadOperations>),
    /// A crash: the memory is cut down to what is durable for certain and recovered, and the
    /// program goes on with that.
    Crash,
}

/// The operations of one thread in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadOperations {
    /// The thread's number, from 1 to 32,767. What runs alone, and what is run after a recovery,
    /// has numbers of its own beyond these, so that none of its fences completes what another has
    /// flushed; 0 prepares and recovers.
    pub thread: u16,
    /// Its operations, by index.
    pub operations: Vec<usize>,
}

/// The greatest number of a thread.
pub(crate) const MAX_THREAD: u16 = i16::MAX as u16;

/// The thread of an operation that runs alone.
fn alone(operation: usize) -> u16 {
    MAX_THREAD + 1 + (operation % usize::from(MAX_THREAD)) as u16
}

impl Step {
    /// Its threads and their operations.
    pub(crate) fn threads(&self) -> Vec<ThreadOperations> {
        match self {
            Step::Alone(operation) => {
                vec![ThreadOperations { thread: alone(*operation), operations: vec![*operation] }]
            }
            Step::Concurrent(threads) => threads.clone(),
            Step::Crash => Vec::new(),
        }
    }
}

/// Anything that lives on persistent memory and is used by several threads at a time.
///
/// It says what an operation does to the *content* when operations run one after another
/// ([`apply`](Self::apply)); the explorer asks of every interleaving, and of every crash in it,
/// that what was returned and what is there can be explained by some such order: durable
/// linearizability, see `docs/persistence-model.md`.
///
/// The memory hands on the turn at each access, so the code under test must not hold a blocking
/// lock across an access, and must call [`relax`](everleaf_pmem::Media::relax) in every loop that
/// waits for another thread. All methods must be deterministic: hash tables with random seeds and
/// clocks are not.
pub trait ConcurrentSubject: Sized + Sync {
    /// The opened structure, with whatever it keeps in DRAM.
    type State: Sync;
    /// What the structure holds, as its user sees it.
    type Content: Clone + Ord + Debug;
    /// What an operation returns to its caller.
    type Outcome: Clone + Eq + Debug + Send;

    /// The program.
    fn steps(&self) -> Vec<Step>;

    /// Lays out a fresh structure on `media`, whose words hold garbage, and runs the operations
    /// that only prepare.
    ///
    /// # Errors
    /// One sentence; the exploration cannot begin then.
    fn prepare(&self, media: Traced) -> Result<Self::State, String>;

    /// Runs one operation; when it returns, it is acknowledged.
    ///
    /// # Errors
    /// What went wrong: a violation. So is a panic.
    fn run(&self, state: &Self::State, operation: usize) -> Result<Self::Outcome, String>;

    /// Opens what a crash left.
    ///
    /// # Errors
    /// What could not be recovered: a violation. So is a panic.
    fn recover(&self, image: Traced) -> Result<Self::State, String>;

    /// Checks the invariants and returns the content. No other thread runs. What it writes is not
    /// explored: that it writes shows that a recovery has left work behind.
    ///
    /// # Errors
    /// Which invariant broke: a violation. So is a panic.
    fn content(&self, state: &Self::State) -> Result<Self::Content, String>;

    /// Runs some more operations on a recovered state and checks again: a state may look right and
    /// be a trap (a lock that is never released). What it writes is not explored.
    ///
    /// # Errors
    /// What went wrong: a violation. So is a panic.
    fn go_on(&self, _state: &mut Self::State) -> Result<(), String> {
        Ok(())
    }

    /// What an operation does if nothing else runs: the specification.
    fn apply(&self, content: &mut Self::Content, operation: usize) -> Self::Outcome;

    /// What is acknowledged when an operation has returned, as of a
    /// [`Subject`](crate::Subject::acknowledges). Of a buffered structure a crash must leave a
    /// *consistent cut*: what some order of the operations leaves right after one that ends an
    /// epoch, with all that came before it and nothing else.
    fn acknowledges(&self, _operation: usize) -> Acknowledges {
        Acknowledges::Everything
    }

    /// Every barrier that the subject declares, so that those which the exploration never reached
    /// can be named.
    fn sites(&self) -> Vec<Site> {
        Vec::new()
    }

    /// The operation in words, for counterexamples.
    fn describe_operation(&self, operation: usize) -> String {
        format!("operation {operation}")
    }

    /// The same program with some of its operations only (ascending indices), numbered anew; steps
    /// and threads that have none are left out. For smaller counterexamples. `None` (the default)
    /// if the operations cannot stand without each other.
    fn subset(&self, _operations: &[usize]) -> Option<Self> {
        None
    }

    /// A content in words, for counterexamples.
    fn describe_content(&self, content: &Self::Content) -> String {
        format!("{content:?}")
    }

    /// What a 64-byte line of the memory holds (`line` is its offset divided by 64), for
    /// counterexamples.
    fn describe_line(&self, _line: u64) -> Option<String> {
        None
    }
}
