//! The volatile inner part of a B+-tree whose leaves are persistent: a B+-tree in DRAM from
//! separators to words that lead to leaves ("children"). It is thrown away at a crash and built
//! anew from the leaves ([`Inner::build`]).
//!
//! The separator of a child is its lower bound; a child covers the keys from its separator up to
//! the next one. Every slot of a node has a separator, the first one too (it repeats what the
//! parent says), so nodes are plain sorted arrays: `find` is "the last slot whose separator is at
//! most the key". See `nodes` for the layout: one search reads a line of separators and the line of
//! children beside it. A number needs no way from the root: `directory` says where it may be, and
//! `heads` whether it is there.
//!
//! There are two handles. One thread changes an [`Inner`] (`&mut self`), many read it (`&self`)
//! while it does not; there is nothing to wait for and nothing to validate. Many threads read and
//! change a [`SharedInner`], by optimistic latches in the words of the nodes, or in transactions.
//! Nodes, searches and changes are the same code: all words are relaxed atomics, plain moves on
//! x86, and changes tell `latches` what they touch.
//!
//! Invariants (tested by [`Inner::check`] under these numbers):
//! - I1: a node has 1 to `CAPACITY` slots; their separators ascend strictly.
//! - I2: the separator of a node in its parent is that of its first slot; the first of all is the
//!   smallest key.
//! - I3: words, prefixes, pivots and heads are what the separators say; what is unused of them
//!   is padding.
//! - I4: all leaves are equally deep, and `len` is their number.
//! - I5: every node is reachable once or free; every kept string belongs to exactly one slot above
//!   a leaf.
//! - I6: while no change is under way, no node is locked and no memory is promised.
//! - I7: the head of a bottom node of numbers says which ones it covers, that of any other node
//!   none.
//!
//! Map of the files: `nodes` `heads` `words` `prefix` (layout) · `directory` (from the side) ·
//! `memory` `allocate` · `search` `entries` (one node) · `insert` `remove` `build` `latches` (the
//! tree) · `cursor` (steps from child to child) · `check` · `shared` (the handle for many threads).

mod allocate;
mod build;
mod check;
mod cursor;
mod directory;
mod entries;
mod heads;
mod insert;
mod latches;
mod memory;
mod nodes;
mod prefix;
mod remove;
mod search;
mod shared;
#[cfg(test)]
mod tests;
mod words;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crossbeam_utils::CachePadded;
use everleaf_pmem::{DramSource, MapError};

pub use build::{Bottom, Building};
pub use cursor::Cursor;
pub use shared::{ConflictCounts, Prepared, SharedInner, Sought, Ticket};
#[cfg(test)]
pub use words::NodeWord;

use crate::key::{KeepError, TreeKey};
use directory::Directory;
use entries::Entry;
use heads::Head;
use latches::{Alone, Latches};
use nodes::Nodes;
use search::Search;
use words::RootWord;

/// Keys that [`Inner::find_many`] takes down the tree together.
pub const BATCH: usize = 16;
/// Addresses reserved for nodes: memory is taken as it is needed.
const RESERVED_BYTES: u64 = 64 << 30;
/// A bound of the height: every split of the root doubles the number of nodes below it, and node
/// numbers have 32 bits.
const MAX_HEIGHT: usize = 32;

/// Why the inner nodes could not be changed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InnerError {
    /// No memory.
    #[error(
        "the index needs more memory than the system gives; free some, or raise the limit: {0}"
    )]
    Memory(#[from] MapError),
    /// The separator is there already, or does not follow the one before it when a tree is built.
    #[error("two leaves have the same lower bound, or lower bounds do not ascend; check the pool")]
    Order,
    /// The separator is too long.
    #[error("a lower bound has {bytes} bytes, more than the limit of {max_bytes}; check the pool")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
}

impl From<KeepError> for InnerError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Memory(source) => Self::Memory(source),
            KeepError::TooLong { bytes, max_bytes } => Self::TooLong { bytes, max_bytes },
        }
    }
}

/// The inner nodes of a tree over keys of kind `K`; nodes have up to `CAPACITY` children (4, 8, 16,
/// 32, 64).
///
/// ```
/// use everleaf_index::U64Keys;
/// use everleaf_pmem::Cpu;
/// use everleaf_tree::inner::Inner;
///
/// let mut inner = Inner::<U64Keys, 64>::new(Cpu::detect().simd(), 1000)?;
/// inner.insert(50, 2000)?;
/// assert_eq!((inner.find(49), inner.find(50), inner.find(u64::MAX)), (1000, 2000, 2000));
/// assert!(inner.remove(70), "the child that covers 70 goes, its range falls to the one before");
/// assert_eq!(inner.find(50), 1000);
/// # Ok::<(), everleaf_tree::inner::InnerError>(())
/// ```
#[derive(Debug)]
pub struct Inner<K: TreeKey, const CAPACITY: usize> {
    nodes: Nodes<K, CAPACITY>,
    directory: Directory,
    separators: K::Separators,
    /// A [`RootWord`]: the root node and the levels of nodes.
    root: AtomicU64,
    /// The only child while there is no node.
    only_child: AtomicU64,
    /// Changed with every child: apart from what readers read.
    len: CachePadded<AtomicU64>,
}

/// The nodes from the root (at depth 0) to the one above a child, and the slot taken in each.
#[derive(Clone, Copy, Debug)]
struct Path([(u32, u32); MAX_HEIGHT]);

impl<K: TreeKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// A tree of one child that covers all keys.
    ///
    /// # Errors
    /// [`InnerError::Memory`] when the system has no addresses.
    pub fn new<'d>(dram: impl Into<DramSource<'d>>, first_child: u64) -> Result<Self, InnerError> {
        let dram = dram.into();
        let directory = Directory::new(dram)?;
        if K::RECORDS {
            directory.turn_off();
        }
        Ok(Self {
            nodes: Nodes::new(dram)?,
            directory,
            separators: K::separators(dram)?,
            root: AtomicU64::new(RootWord::NO_NODE.0),
            only_child: AtomicU64::new(first_child),
            len: CachePadded::new(AtomicU64::new(1)),
        })
    }

    #[inline(always)]
    fn root(&self) -> RootWord {
        RootWord(self.root.load(Relaxed))
    }

    /// Makes this the root; 0 and 0 if there is no node. Release: a thread that sees it sees the
    /// node.
    fn set_root(&self, node: u32, height: u32) {
        self.root.store(self.root().replaced_by(node, height).0, Release);
    }

    /// The root node as a child, or the only child; and the levels of nodes.
    #[inline(always)]
    fn top(&self) -> (u64, u32) {
        let root = self.root();
        (
            if root.height() == 0 { self.only_child.load(Relaxed) } else { u64::from(root.node()) },
            root.height(),
        )
    }

    /// The child that covers `key`.
    #[inline(always)]
    pub fn find(&self, key: K::Ref<'_>) -> u64 {
        self.find_by_directory(key).unwrap_or_else(|| self.find_by_descent(key))
    }

    /// The child that covers a number, by the bottom node to which the directory leads; none if
    /// that does not cover it.
    #[inline(always)]
    fn find_by_directory(&self, key: K::Ref<'_>) -> Option<u64> {
        if K::RECORDS {
            return None;
        }
        let number = K::word(key, 0);
        let (node, head) = self.covering_node(number)?;
        Some(self.nodes.search_by_head(self.nodes.lines(node), head, number))
    }

    /// The bottom node that covers a number, as far as the directory knows.
    #[inline(always)]
    fn covering_node(&self, number: u64) -> Option<(u32, Head<'_>)> {
        let head_of = |node: u32| Some((node, self.nodes.head_of(node.into())?));
        let nodes = self.directory.look_up(number).map(Nodes::<K, CAPACITY>::node_at);
        let mut nodes = nodes.into_iter().filter_map(head_of);
        nodes.find(|(_, head)| head.covers(number))
    }

    /// The child that covers `key`, from the root.
    fn find_by_descent(&self, key: K::Ref<'_>) -> u64 {
        let (mut child, height) = self.top();
        for level in (0..height).rev() {
            let node = child as u32;
            child = self.nodes.pass(&self.separators, self.nodes.lines(node), node, key, level);
        }
        child
    }

    /// The children that cover `keys`, in their order. Keys go down together, [`BATCH`] at a time,
    /// so that they wait for memory together. Stops at the end of the shorter slice.
    pub fn find_many(&self, keys: &[K::Ref<'_>], children: &mut [u64]) {
        for (keys, children) in keys.chunks(BATCH).zip(children.chunks_mut(BATCH)) {
            match self.directory.is_empty() {
                true => self.descend_many(keys, children),
                false => self.find_many_by_directory(keys, children),
            }
        }
    }

    /// The children of numbers: by the directory, and of those that it does not know one by one.
    fn find_many_by_directory(&self, keys: &[K::Ref<'_>], children: &mut [u64]) {
        let mut entered = [None; BATCH];
        for (key, entered) in keys.iter().zip(&mut entered) {
            let number = K::word(*key, 0);
            *entered = self.covering_node(number).map(|(node, head)| {
                let lines = self.nodes.lines(node);
                (lines, self.nodes.begin_search_by_head(lines, head, number))
            });
        }
        for ((key, child), entered) in keys.iter().zip(children).zip(entered) {
            *child = match entered {
                Some((lines, block)) => self.nodes.search_from(lines, block, K::word(*key, 0)),
                None => self.find_by_descent(*key),
            };
        }
    }

    /// The children of keys, from the root.
    fn descend_many(&self, keys: &[K::Ref<'_>], children: &mut [u64]) {
        let (top, height) = self.top();
        children.fill(top);
        for level in (0..height).rev() {
            let mut searches = [Search::Slot(0); BATCH];
            for ((child, key), begin_search) in children.iter().zip(keys).zip(&mut searches) {
                let node = *child as u32;
                let lines = self.nodes.lines(node);
                *begin_search = self.nodes.begin_search(&self.separators, lines, node, *key);
            }
            for ((child, key), begin_search) in children.iter_mut().zip(keys).zip(searches) {
                let node = *child as u32;
                let found = self.nodes.finish_search(&self.separators, node, *key, begin_search);
                *child = found.1;
                if level > 0 {
                    self.nodes.prefetch_beginning(*child as u32);
                }
            }
        }
    }

    /// The way to the child that covers `key`. The nodes above the last one must not change
    /// meanwhile.
    fn path(&self, key: K::Ref<'_>, latches: &mut impl Latches) -> (Path, u64) {
        let mut path = Path([(0, 0); MAX_HEIGHT]);
        let (mut child, height) = self.top();
        for (depth, step) in path.0[..height as usize].iter_mut().enumerate() {
            let node = child as u32;
            if depth + 1 == height as usize {
                latches.change(node);
            }
            let (slot, next) =
                self.nodes.search(&self.separators, self.nodes.lines(node), node, key);
            *step = (node, slot as u32);
            child = next;
        }
        (path, child)
    }

    /// Puts another child in the place of the one that covers `key`, and returns that one.
    pub fn replace(&mut self, key: K::Ref<'_>, child: u64) -> u64 {
        let (path, old) = self.path(key, &mut Alone);
        match self.height() {
            0 => self.only_child.store(child, Relaxed),
            height => {
                let (node, slot) = path.0[height as usize - 1];
                self.nodes.set_child(node, slot as usize, child);
            }
        }
        old
    }

    /// Number of children; at least 1.
    pub fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    /// Never: there is always a child.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Levels of inner nodes; 0 while there is one child.
    pub fn height(&self) -> u32 {
        self.root().height()
    }

    /// Inner nodes in use.
    pub fn inner_nodes(&self) -> u64 {
        u64::from(self.nodes.live_nodes())
    }

    /// Bytes of DRAM taken: all that is mapped for nodes and separators, and this handle.
    pub fn dram_bytes(&self) -> u64 {
        self.nodes.dram_bytes()
            + self.directory.dram_bytes()
            + K::separator_bytes(&self.separators)
            + size_of::<Self>() as u64
    }
}
