//! The handle for many threads: optimistic lock coupling (Leis, Haubenschild, Neumann, "Optimistic
//! Lock Coupling", 2019) on the nodes of [`Inner`].
//!
//! **Readers never write.** A descent loads the word of a node, searches the node, loads the word
//! of the child, and then asks whether the node's word is still the same; if not it starts again.
//! Until it has asked, what it read may be nonsense: numbers are checked before they are followed,
//! loops are bounded. A *find_unvalidated* is one attempt of this whose last question is left to
//! the caller, which asks it after it has read something of the child. What a descent returns comes
//! with a [`Ticket`]: as long as the bottom node's word has not changed, its child covers the key.
//! (The upper bound of a node's last child stands further up, but falls only by a change of this
//! node: a split of that child.)
//!
//! **From the side.** A number needs no descent: the [directory](super::directory) leads to a
//! bottom node, whose [head](super::heads) says whether the node covers it; head, node and ticket
//! then hang on the one word of that node. What a node covers shrinks only by a change of itself.
//! Where it grows by a change of its neighbour (the neighbour's first child goes), it is changed as
//! well, so that the directory finds those keys too. A node that is taken covers nothing until all
//! of it is written, and the store that says what it covers releases that: so a reader with an old
//! number finds nothing, or the whole.
//!
//! **Writers.** A child that comes or goes in a node that neither splits nor merges, and is not its
//! first, locks this one node: an exchange that succeeds only if the node is what the descent has
//! seen. It waits for nothing while it holds the lock. All else takes the *structure lock*, goes
//! down again, and locks every node before it changes it or decides by it; all are unlocked at the
//! end. There is one such writer at a time, and the nodes above the bottom ones change by it alone,
//! so it needs to wait for bottom nodes only, and cannot deadlock. A reader that meets a node which
//! was already changed waits for its lock, and then finds that the node above has changed too, or
//! has not seen any of the change.
//!
//! **Transactions**, where they are on ([`SharedInner::with_transactions`]), take the place of
//! both. A descent that is a transaction reads no versions and never starts again: it is the
//! descent of one thread, and what it finds was so at one moment. A change is the descent and all
//! that it changes, of however many nodes, in one transaction; it locks the nodes and unlocks them
//! with new versions inside, which is seen by the versions only. The structure lock is the
//! fallback lock: every transaction reads it first, and a change that its transactions gave up
//! takes it, whatever its size. A descent that gave up goes by versions. Batches always go by
//! versions: the 16 descents of one overlap, and one transaction of all would be lost for any of
//! them.
//!
//! No lock is held across an operation of the media: its holder touches only DRAM. `relax` is
//! called in every turn of a wait for a node.
//!
//! **What the caller must hold.** The tree knows nothing of leaves. A thread that inserts a
//! separator has locked the leaf that is split; one that removes a child has locked its leaf, and
//! the one to the left where the protocol of the leaves wants it.
//!
//! Map of the files: `find` (descents, batches) · `seek` (for scans) · `change` (insertion and
//! removal) · `held` (nodes that are locked) · `transactional` (all of it as transactions).

mod change;
mod find;
mod held;
mod seek;
#[cfg(test)]
mod tests;
mod transactional;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::CachePadded;
use everleaf_index::Direction;
use everleaf_pmem::{DramLine, DramSource, TransactionalMemory, Transactions};
use parking_lot::{Mutex, MutexGuard};

pub use change::Prepared;
pub use seek::Sought;

use super::words::{NodeWord, RootWord};
use super::{Inner, InnerError};
use crate::key::TreeKey;
use crate::latch::{self, LatchWord};

/// The inner nodes of a tree that many threads read and change. See [`Inner`] for keys and
/// capacities.
///
/// `relax` is called in every turn of a wait; `std::hint::spin_loop` will do, a tree hands on that
/// of its media.
///
/// ```
/// use everleaf_index::U64Keys;
/// use everleaf_pmem::Cpu;
/// use everleaf_tree::inner::SharedInner;
///
/// let relax = std::hint::spin_loop;
/// let inner = SharedInner::<U64Keys, 64>::new(Cpu::detect().simd(), 1000)?;
/// let (leaf, ticket) = inner.find(&relax, 70);
/// // The leaf at 1000 is full. Before its upper half is durable at 2000, what can fail is done:
/// let prepared = inner.prepare(&relax, 50, leaf)?;
/// inner.insert(&relax, prepared, 2000);
/// assert!(!ticket.is_current(), "the node that led to the leaf has changed");
/// assert_eq!((inner.find(&relax, 49).0, inner.find(&relax, 70).0), (1000, 2000));
/// assert!(inner.remove(&relax, 70));
/// assert_eq!(inner.find(&relax, 70).0, 1000);
/// # Ok::<(), everleaf_tree::inner::InnerError>(())
/// ```
#[derive(Debug)]
pub struct SharedInner<K: TreeKey, const CAPACITY: usize> {
    tree: Inner<K, CAPACITY>,
    transactions: TransactionalMemory,
    /// Held by a thread that changes more than one node; with transactions, by one that changes a
    /// node without one.
    structure: CachePadded<Mutex<()>>,
    conflicts: CachePadded<Conflicts>,
}

/// What a descent has seen last: a word that changes as soon as its answer may no longer hold.
#[derive(Clone, Copy, Debug)]
pub struct Ticket<'t> {
    /// The word of the bottom node; that of the root where there is no node.
    atom: &'t AtomicU64,
    seen: u64,
}

impl<'t> Ticket<'t> {
    /// Whether the answer that came with the ticket still holds. Loads before it are done before it
    /// is decided. One load, of a line that the descent has read.
    #[inline(always)]
    pub fn is_current(self) -> bool {
        latch::is_still(self.atom, self.seen)
    }
}

/// Touched only where threads met.
#[derive(Debug, Default)]
struct Conflicts {
    restarts: AtomicU64,
    node_waits: AtomicU64,
    structure_changes: AtomicU64,
    structure_waits: AtomicU64,
}

/// How often threads met, since the tree was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConflictCounts {
    /// Descents that started again because a node changed under them.
    pub restarts: u64,
    /// Turns of waiting for the lock of a node.
    pub node_waits: u64,
    /// Changes of more than one node (splits, merges, the root).
    pub structure_changes: u64,
    /// Of these, those that found another one under way.
    pub structure_waits: u64,
}

/// A node in a descent, and the word that it had when the descent reached it: unlocked.
#[derive(Clone, Copy, Debug)]
struct Visited<'t> {
    node: u32,
    lines: &'t [DramLine],
    atom: &'t AtomicU64,
    seen: NodeWord,
}

impl<'t> Visited<'t> {
    #[inline(always)]
    fn ticket(self) -> Ticket<'t> {
        Ticket { atom: self.atom, seen: self.seen.bits() }
    }
}

impl<K: TreeKey, const CAPACITY: usize> From<Inner<K, CAPACITY>> for SharedInner<K, CAPACITY> {
    fn from(tree: Inner<K, CAPACITY>) -> Self {
        let transactions = TransactionalMemory::new(Transactions::Off, None);
        Self {
            tree,
            transactions,
            structure: CachePadded::default(),
            conflicts: CachePadded::default(),
        }
    }
}

impl<K: TreeKey, const CAPACITY: usize> SharedInner<K, CAPACITY> {
    /// A tree of one child that covers all keys.
    ///
    /// # Errors
    /// As [`Inner::new`].
    pub fn new<'d>(dram: impl Into<DramSource<'d>>, first_child: u64) -> Result<Self, InnerError> {
        Inner::new(dram, first_child).map(Self::from)
    }

    /// Builds the tree over a first child and the others with their separators, ascending.
    ///
    /// # Errors
    /// As [`Inner::build`].
    pub fn build<'a, 'd>(
        dram: impl Into<DramSource<'d>>,
        first_child: u64,
        others: impl Iterator<Item = (K::Ref<'a>, u64)>,
        fill_percent: usize,
    ) -> Result<Self, InnerError> {
        Inner::build(dram, first_child, others, fill_percent).map(Self::from)
    }

    /// A ticket that is never current: the root word of no tree.
    pub fn stale_ticket(&self) -> Ticket<'_> {
        Ticket { atom: &self.tree.root, seen: u64::MAX }
    }

    #[inline(always)]
    fn ticket_of_root(&self, root: RootWord) -> Ticket<'_> {
        Ticket { atom: &self.tree.root, seen: root.0 }
    }

    #[cold]
    fn restarted(&self, relax: &impl Fn()) {
        self.conflicts.restarts.fetch_add(1, Relaxed);
        relax();
    }

    #[cold]
    fn wait_for_node(&self, relax: &impl Fn()) {
        self.conflicts.node_waits.fetch_add(1, Relaxed);
        relax();
    }

    /// From here on only this thread changes more than one node, and no transaction is under way.
    /// Its holder never calls a media, so it is soon free.
    fn lock_structure(&self) -> MutexGuard<'_, ()> {
        self.conflicts.structure_changes.fetch_add(1, Relaxed);
        let locked = self.structure.try_lock().unwrap_or_else(|| {
            self.conflicts.structure_waits.fetch_add(1, Relaxed);
            self.structure.lock()
        });
        self.transactions.settle();
        locked
    }

    /// Number of children; at least 1.
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Never: there is always a child.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Levels of inner nodes; 0 while there is one child.
    pub fn height(&self) -> u32 {
        self.tree.height()
    }

    /// Inner nodes in use.
    pub fn inner_nodes(&self) -> u64 {
        self.tree.inner_nodes()
    }

    /// Bytes of DRAM taken.
    pub fn dram_bytes(&self) -> u64 {
        self.tree.dram_bytes() + (size_of::<Self>() - size_of::<Inner<K, CAPACITY>>()) as u64
    }

    /// How often threads met.
    pub fn conflicts(&self) -> ConflictCounts {
        let Conflicts { restarts, node_waits, structure_changes, structure_waits } =
            &*self.conflicts;
        ConflictCounts {
            restarts: restarts.load(Relaxed),
            node_waits: node_waits.load(Relaxed),
            structure_changes: structure_changes.load(Relaxed),
            structure_waits: structure_waits.load(Relaxed),
        }
    }

    /// Every violation of the invariants, as sentences; empty if all is well. While no thread
    /// changes the tree: else it reports what is under way.
    pub fn check(&self) -> Vec<String> {
        self.tree.check()
    }

    /// Shows every child in order. While no thread changes the tree: else some may be left out or
    /// shown twice.
    pub fn for_each_child(&self, mut visit: impl FnMut(u64)) {
        let mut cursor = self.tree.start(Direction::Forward);
        visit(cursor.child());
        while let Some(child) = cursor.step(Direction::Forward) {
            visit(child);
        }
    }
}
