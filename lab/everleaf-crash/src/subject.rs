//! What is explored.

use everleaf_pmem::Site;

use crate::{Acknowledges, Promise, Traced};

/// An operation and the way it takes: `("insert", "split of a leaf")`.
pub type Path = (&'static str, &'static str);

/// The path of all recoveries.
pub const RECOVERY: Path = ("recovery", "any");

/// Anything that lives on persistent memory and says what it promises: a tree, an allocator, a toy
/// of three lines.
///
/// The explorer runs the operations once on recorded memory, then builds every state that a power
/// failure could have left at any moment in between, and asks the subject to recover each of them
/// and to check what it finds. All methods must be deterministic: an image is recovered more than
/// once.
///
/// A [`Traced`] is a handle; a subject may keep as many clones in its state as it likes, and must
/// let all of them go when the state is dropped.
pub trait Subject: Sized {
    /// The opened structure, with whatever it keeps in DRAM.
    type State;

    /// Lays out a fresh structure on `media`, whose words hold garbage, and runs the operations
    /// that only prepare. Nothing in here is explored, but what it leaves without flush and fence
    /// stays at the mercy of the crash.
    ///
    /// # Errors
    /// One sentence; the exploration cannot begin then.
    fn prepare(&self, media: Traced) -> Result<Self::State, String>;

    /// Operations to be explored, in their order.
    fn operation_count(&self) -> usize;

    /// Runs one operation; when it returns, the operation is acknowledged. An operation that is
    /// refused in the ordinary way (insert of a present key) is not an error.
    ///
    /// # Errors
    /// One sentence; the exploration cannot go on then.
    fn run(&self, state: &mut Self::State, operation: usize) -> Result<(), String>;

    /// The thread that runs an operation. Operations run one after another all the same, but a
    /// fence completes the flushes of its own thread only: what an operation leaves without a fence
    /// is still at the mercy of the crash when the next one runs on another thread. Preparations
    /// and recoveries run on thread 0.
    fn thread(&self, _operation: usize) -> u16 {
        0
    }

    /// Opens what a crash left.
    ///
    /// # Errors
    /// What could not be recovered: a violation. So is a panic.
    fn recover(&self, image: Traced) -> Result<Self::State, String>;

    /// What is acknowledged when an operation has returned: everything (the default) by a strict
    /// structure. A buffered structure acknowledges everything with `sync`, whole epochs with what
    /// ends them, and nothing with any other operation; it must also have
    /// [`completed`](Self::completed).
    fn acknowledges(&self, _operation: usize) -> Acknowledges {
        Acknowledges::Everything
    }

    /// Checks a recovered state: its invariants, and that it holds what was promised: so many
    /// operations as [`Promise::boundaries`] has one of, each of them whole, and nothing else. Then
    /// it should run some more operations and check again: a state may look right and be a trap.
    /// What it writes is not explored.
    ///
    /// # Errors
    /// Which invariant broke: a violation. So is a panic.
    fn verify(&self, state: &mut Self::State, promise: &Promise) -> Result<(), String>;

    /// How many operations a recovered state holds: the greatest of [`Promise::boundaries`] that it
    /// agrees with. With this the explorer goes on from a recovery that returned before its own
    /// writes were durable, and from one that leaves work for the first access to the structure: a
    /// crash right then must not undo these operations, and the next one is run, on a recovery of
    /// its own, and crashed in. Whether work was left is seen by whether this writes; otherwise it
    /// must not. `None` (the default) where the question has no answer.
    fn completed(&self, _state: &mut Self::State, _promise: &Promise) -> Option<usize> {
        None
    }

    /// Whether this operation is a crash: then it is not run, but the memory is cut down to what is
    /// durable for certain, recovered (the recovery being explored like an operation), and the
    /// exploration goes on with the recovered state.
    fn is_crash(&self, _operation: usize) -> bool {
        false
    }

    /// Every barrier that the subject declares, so that those which the exploration never reached
    /// can be named.
    fn sites(&self) -> Vec<Site> {
        Vec::new()
    }

    /// The operation, of whichever layer, that a barrier belongs to, where the structure is made of
    /// layers. The last fence of an operation makes it durable for its caller and orders nothing
    /// within it, so its [swap](crate::Mutant::SwappedGroups) would exchange two operations; it is
    /// not made. `None` (the default): there is one layer, and all of its barriers belong together.
    fn operation_of(&self, _site: Site) -> Option<&'static str> {
        None
    }

    /// The way that an operation takes when all run one after another, where they have several: a
    /// barrier may be needed on one and not on another ([`Report::survivors_on`]). Recoveries are a
    /// path of their own, [`RECOVERY`].
    ///
    /// [`Report::survivors_on`]: crate::Report::survivors_on
    fn path(&self, _operation: usize) -> Path {
        ("operation", "any")
    }

    /// The operation in words, for counterexamples.
    fn describe_operation(&self, operation: usize) -> String {
        format!("operation {operation}")
    }

    /// What a 64-byte line of the memory holds (`line` is its offset divided by 64), for
    /// counterexamples.
    fn describe_line(&self, _line: u64) -> Option<String> {
        None
    }

    /// The same subject with some of its operations only (ascending indices), for smaller
    /// counterexamples. `None` (the default) if the operations cannot stand without each other.
    fn subset(&self, _operations: &[usize]) -> Option<Self> {
        None
    }
}
