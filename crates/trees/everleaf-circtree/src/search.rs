//! Finding: down from the root, in each node through one contiguous part of its entries.
//!
//! Nothing shared is written. A node is read between two looks at its version, and its child's
//! version is looked at before the second of them: so the child's range was right at that moment,
//! and stays so while the child's version does, because a thread that changes what a node covers
//! has it locked.

use std::cmp::Ordering;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, planted};
use everleaf_pool::Pool;

use super::layout::{Anchor, MAX_LEVELS, State};
use super::node::Node;
use super::{ROOT, SortedTree};
use everleaf_tree::key::TreeKey;
use everleaf_tree::version_locks::{self, Seen};
use everleaf_tree::wait::wait;

/// A leaf that covers a key while its version holds.
#[derive(Clone, Copy)]
pub(super) struct Located<'t> {
    pub node: Node<'t>,
    pub state: State,
    pub seen: Seen<'t>,
}

/// A leaf that was locked for a key.
pub(super) struct LockedLeaf<'t> {
    pub node: Node<'t>,
    pub state: State,
    /// How many of its keys are at most the key.
    pub rank: usize,
    pub present: bool,
    pub guard: version_locks::LockGuard<'t>,
}

impl LockedLeaf<'_> {
    /// The value of the key, if it is present.
    #[inline(always)]
    pub fn value<M: Media>(&self, media: &M) -> Option<u64> {
        self.present.then(|| self.node.entry(media, self.state, self.rank - 1).1)
    }
}

/// Where to go in each node on the way down.
#[derive(Clone, Copy)]
pub(super) enum Destination<R> {
    /// To the leaf that covers this key.
    To(R),
    /// To the leaf with the greatest keys below this one.
    Before(R),
    /// To the last leaf.
    Last,
}

/// The nodes from the root to a leaf, and the greatest lower bound on the way: the leaf's own, none
/// for the first leaf. The bound is a key word of a node above, and what that was when the word was
/// read: a record may be another key's once the node has changed, while the leaf has not.
#[derive(Clone, Copy)]
pub(super) struct Path<'t> {
    pub nodes: [u64; MAX_LEVELS],
    pub length: usize,
    pub low: Option<(u64, Seen<'t>)>,
}

impl Path<'_> {
    pub const EMPTY: Self = Self { nodes: [0; MAX_LEVELS], length: 0, low: None };
}

/// What one node on the way says.
pub(super) enum Descent {
    Child {
        offset: u64,
        low: Option<u64>,
    },
    Leaf,
    /// A step that was cut is to be ended first.
    Interrupted,
}

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// The leaf to which the way leads.
    #[inline]
    pub(super) fn descend(&self, destination: Destination<K::Ref<'_>>) -> Result<Located<'_>> {
        let mut path = None;
        loop {
            match self.try_descend(destination, &mut path)? {
                Some(located) => return Ok(located),
                None => self.restarted(),
            }
        }
    }

    /// The nodes that lead to that leaf; exact if the caller keeps the structure from being
    /// changed.
    pub(super) fn path(
        &self,
        destination: Destination<K::Ref<'_>>,
    ) -> Result<(Path<'_>, Located<'_>)> {
        loop {
            let mut path = Some(Path::EMPTY);
            match (self.try_descend(destination, &mut path)?, path) {
                (Some(located), Some(path)) => return Ok((path, located)),
                _ => self.restarted(),
            }
        }
    }

    /// None if a node changed meanwhile.
    #[inline]
    fn try_descend<'t>(
        &'t self,
        destination: Destination<K::Ref<'_>>,
        path: &mut Option<Path<'t>>,
    ) -> Result<Option<Located<'t>>> {
        let media = self.pool.media();
        let relax = wait(self.pool.media());
        let mut above = self.locks.read(&relax, ROOT);
        let mut offset = media.load(&self.pool.index_root::<Anchor>()?.root).offset();
        let mut level = None;
        loop {
            let seen = self.locks.read(&relax, offset);
            if !above.is_current() && !planted(251) {
                return Ok(None);
            }
            let turned = self.turn(offset, level, destination);
            if !seen.is_current() {
                return Ok(None); // What was read, or the error that was met, is nothing.
            }
            let (node, state, turn) = turned?;
            if let Some(path) = path {
                let full = IndexError::Corrupt { offset, what: "the tree has too many levels" };
                *path.nodes.get_mut(path.length).ok_or(full)? = offset;
                path.length += 1;
            }
            match turn {
                Descent::Leaf => return Ok(Some(Located { node, state, seen })),
                Descent::Interrupted => {
                    self.recover_unchanged(node, seen)?;
                    return Ok(None);
                }
                Descent::Child { offset: child, low } => {
                    if let (Some(path), Some(low)) = (path.as_mut(), low) {
                        path.low = Some((low, seen));
                    }
                    above = seen;
                    (offset, level) = (child, Some(state.level));
                }
            }
        }
    }

    /// Reads one node on the way; `above`: the level of the one before.
    #[inline(always)]
    pub(super) fn turn(
        &self,
        offset: u64,
        above: Option<u8>,
        destination: Destination<K::Ref<'_>>,
    ) -> Result<(Node<'_>, State, Descent)> {
        let media = self.pool.media();
        let node = self.node(offset)?;
        node.prefetch(media);
        let state = node.state(media)?;
        if above.is_some_and(|above| above != state.level + 1) {
            return Err(IndexError::Corrupt {
                offset,
                what: "a node is not of the level below the one that leads to it",
            });
        }
        if self.is_interrupted(node, state) {
            return Ok((node, state, Descent::Interrupted));
        }
        if state.level == 0 {
            return Ok((node, state, Descent::Leaf));
        }
        if state.count == 0 {
            return Err(IndexError::Corrupt { offset, what: "an inner node leads nowhere" });
        }
        // The first key is never compared with: what leads here is not less.
        let position = match destination {
            Destination::To(key) => self.rank(node, state, key)?.saturating_sub(1),
            Destination::Before(key) => self.rank_below(node, state, key)?.saturating_sub(1),
            Destination::Last => usize::from(state.count) - 1,
        };
        let (low, child) = node.entry(media, state, position);
        Ok((node, state, Descent::Child { offset: child, low: (position > 0).then_some(low) }))
    }

    /// Whether a crash has left something in a node that is to be ended first.
    #[inline(always)]
    pub(super) fn is_interrupted(&self, node: Node<'_>, state: State) -> bool {
        node.is_interrupted(state) || K::RECORDS && self.pool.media().load(&node.head.key) != 0
    }

    /// The node at a place that another node knows.
    #[inline(always)]
    pub(super) fn node(&self, offset: u64) -> Result<Node<'_>> {
        Node::at(&self.pool, offset, self.shape)
    }

    /// How many keys of a node at rest are at most `key`.
    #[inline(always)]
    pub(super) fn rank(&self, node: Node<'_>, state: State, key: K::Ref<'_>) -> Result<usize> {
        if self.linear {
            linear_rank::<K, M>(&self.pool, node, state, key)
        } else {
            rank::<K, M>(&self.pool, node, state, key)
        }
    }

    /// How many are less.
    pub(super) fn rank_below(
        &self,
        node: Node<'_>,
        state: State,
        key: K::Ref<'_>,
    ) -> Result<usize> {
        let rank = self.rank(node, state, key)?;
        Ok(rank - usize::from(self.is_at(node, state, rank, key)?))
    }

    /// Whether the last of so many keys is `key` itself.
    #[inline(always)]
    pub(super) fn is_at(
        &self,
        node: Node<'_>,
        state: State,
        rank: usize,
        key: K::Ref<'_>,
    ) -> Result<bool> {
        if rank == 0 {
            return Ok(false);
        }
        let word = self.pool.media().load(node.key(node.slot(state, rank - 1)));
        let equal = K::compare(&self.pool, word, key)?.is_eq();
        if !equal {
            K::verify(&self.pool, word)?; // A damaged key is an error, and no missing one.
        }
        Ok(equal)
    }

    /// The value of a key.
    #[inline]
    pub(super) fn find(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        loop {
            let Located { node, state, seen } = self.descend(Destination::To(key))?;
            let found = self.find_in(node, state, key);
            if seen.is_current() || planted(250) {
                return found;
            }
            self.restarted();
        }
    }

    #[inline(always)]
    pub(super) fn find_in(
        &self,
        node: Node<'_>,
        state: State,
        key: K::Ref<'_>,
    ) -> Result<Option<u64>> {
        let rank = self.rank(node, state, key)?;
        Ok(if self.is_at(node, state, rank, key)? {
            Some(node.entry(self.pool.media(), state, rank - 1).1)
        } else {
            None
        })
    }

    /// Locks the leaf that covers `key`, unless `wanted` does not want it, given whether the key is
    /// there.
    #[inline]
    pub(super) fn lock_leaf(
        &self,
        key: K::Ref<'_>,
        wanted: impl Fn(bool) -> bool,
    ) -> Result<Option<LockedLeaf<'_>>> {
        loop {
            let Located { node, state, seen } = self.descend(Destination::To(key))?;
            let read = self
                .rank(node, state, key)
                .and_then(|rank| Ok((rank, self.is_at(node, state, rank, key)?)));
            if !matches!(read, Ok((_, present)) if wanted(present)) {
                if seen.is_current() {
                    return read.map(|_| None);
                }
            } else if let Some(guard) = seen.try_lock() {
                // It was the same all the time, so what was read counts.
                return read
                    .map(|(rank, present)| Some(LockedLeaf { node, state, rank, present, guard }));
            }
            self.restarted();
        }
    }
}

/// Searches the one contiguous part of the ring that can hold the key (the paper's section 5.1):
/// where the entries are in two parts, the key at slot 0 says in which.
#[inline(always)]
fn rank<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    node: Node<'_>,
    state: State,
    key: K::Ref<'_>,
) -> Result<usize> {
    let media = pool.media();
    let (base, count, slots) = (usize::from(state.base), usize::from(state.count), node.slots());
    let at_most = |slot: usize| {
        Ok::<_, IndexError>(K::compare(pool, media.load(node.key(slot)), key)? != Ordering::Greater)
    };
    let (mut start, mut length, mut before) = (base, count, 0);
    if base + count > slots {
        let first = slots - base;
        (start, length, before) =
            if at_most(0)? { (0, count - first, first) } else { (base, first, 0) };
    }
    let part = start;
    let mut probes = 0;
    while length > 1 {
        let half = length / 2;
        start += if at_most(start + half - 1)? { half } else { 0 };
        length -= half;
        probes += 1;
    }
    if state.level == 0 {
        media.count(Counter::LeafProbes, probes + length as u64);
    }
    before += start - part;
    Ok(if length > 0 && at_most(start)? { before + 1 } else { before })
}

/// Searches from the first entry on, around the ring.
fn linear_rank<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    node: Node<'_>,
    state: State,
    key: K::Ref<'_>,
) -> Result<usize> {
    let media = pool.media();
    let count = usize::from(state.count);
    let mut rank = 0;
    while rank < count
        && K::compare(pool, media.load(node.key(node.slot(state, rank))), key)? != Ordering::Greater
    {
        rank += 1;
    }
    media.count(Counter::LeafProbes, if state.level == 0 { count.min(rank + 1) as u64 } else { 0 });
    Ok(rank)
}
