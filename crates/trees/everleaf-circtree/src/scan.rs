//! Scans. Forward along the leaves' own chain, backward down from the root for each leaf; each leaf
//! is locked while it is shown.
//!
//! Within a leaf what is shown stood there at one moment; from leaf to leaf time goes on. So a scan
//! shows every key that was there all the time, none that was absent all the time, each at most
//! once and in order. A chain is left for a new way from the root where a leaf has changed before
//! its neighbour's version was read.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, IndexError, Result, Visitor};
use everleaf_pmem::{Media, planted};

use super::SortedTree;
use super::layout::State;
use super::node::Node;
use super::search::{Destination, Located, Path};
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::ScanRequest;
use everleaf_tree::wait::wait;

/// What became of one leaf.
enum Shown<Owned> {
    /// It had changed.
    Nothing,
    /// All of it that is within the bound; the last key.
    Whole(Option<Owned>),
    /// The visitor has enough.
    Enough,
}

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Visits entries in key order from `from` on. The visitor runs under the lock of a leaf: it
    /// must not call the tree.
    pub(super) fn scan_from(&self, scan: ScanRequest<'_, '_, K>) -> Result<()> {
        let ScanRequest { from, direction, visit } = scan;
        let bound = match from {
            Bound::Included(key) => Bound::Included(K::to_owned(key)),
            Bound::Excluded(key) => Bound::Excluded(K::to_owned(key)),
            Bound::Unbounded => Bound::Unbounded,
        };
        match direction {
            Direction::Forward => self.scan_forward(bound, visit),
            Direction::Backward => self.scan_backward(bound, visit),
        }
    }

    fn scan_forward(&self, mut bound: Bound<K::Owned>, visit: Visitor<'_, K>) -> Result<()> {
        'root: loop {
            let mut located = self.descend(match &bound {
                Bound::Included(key) | Bound::Excluded(key) => Destination::To(K::borrow(key)),
                Bound::Unbounded => Destination::To(K::least()),
            })?;
            let mut empty = 0;
            loop {
                self.prefetch_next(located.node);
                match self.show(located, &bound, Direction::Forward, visit)? {
                    Shown::Nothing => {
                        self.restarted();
                        continue 'root;
                    }
                    Shown::Enough => return Ok(()),
                    Shown::Whole(Some(last)) => (bound, empty) = (Bound::Excluded(last), 0),
                    Shown::Whole(None) => empty += 1,
                }
                if empty > self.max_nodes() {
                    return Err(IndexError::Corrupt {
                        offset: located.node.offset,
                        what: "the chain of leaves is a circle",
                    });
                }
                let next = self.pool.media().load(&located.node.head.next).offset();
                match self.follow(located, next)? {
                    None => {
                        self.restarted();
                        continue 'root;
                    }
                    Some(None) => return Ok(()),
                    Some(Some(there)) => located = there,
                }
            }
        }
    }

    /// Prefetches the right neighbour of a leaf, which is on its way while this one is shown. What
    /// it reads may be changing: nothing depends on it.
    #[inline(always)]
    fn prefetch_next(&self, node: Node<'_>) {
        let media = self.pool.media();
        if M::COUNTS_READS {
            return;
        }
        let next = media.load(&node.head.next).offset();
        if next != 0 {
            self.locks.prefetch_to_lock(next);
            self.prefetch_node(next);
        }
    }

    /// The right neighbour of a leaf: none if the leaf has changed; none of none if it is the last.
    fn follow(&self, located: Located<'_>, next: u64) -> Result<Option<Option<Located<'_>>>> {
        let seen = self.locks.read(&wait(self.pool.media()), next);
        if !located.seen.is_current() && !planted(252) {
            return Ok(None);
        }
        if next == 0 {
            return Ok(Some(None));
        }
        let read = self.node(next).and_then(|node| Ok((node, node.state(self.pool.media())?)));
        if !seen.is_current() {
            return Ok(None);
        }
        let (node, state) = read?;
        if state.level != 0 {
            return Err(IndexError::Corrupt {
                offset: next,
                what: "the chain of leaves leads to an inner node",
            });
        }
        if self.is_interrupted(node, state) {
            self.recover_unchanged(node, seen)?;
            return Ok(None);
        }
        Ok(Some(Some(Located { node, state, seen })))
    }

    fn scan_backward(&self, mut bound: Bound<K::Owned>, visit: Visitor<'_, K>) -> Result<()> {
        let mut border: Option<K::Owned> = None;
        loop {
            let (path, located) = self.path(match (&border, &bound) {
                (Some(border), _) => Destination::Before(K::borrow(border)),
                (None, Bound::Included(key) | Bound::Excluded(key)) => {
                    Destination::To(K::borrow(key))
                }
                (None, Bound::Unbounded) => Destination::Last,
            })?;
            let Some(low) = self.low_of(&path) else {
                self.restarted();
                continue;
            };
            match self.show(located, &bound, Direction::Backward, visit)? {
                Shown::Nothing => self.restarted(),
                Shown::Enough => return Ok(()),
                Shown::Whole(_) => {
                    let Some(low) = low? else { return Ok(()) };
                    if border.as_ref().is_some_and(|border| *border <= low) {
                        return Err(IndexError::Corrupt {
                            offset: located.node.offset,
                            what: "bounds of leaves do not descend",
                        });
                    }
                    bound = Bound::Excluded(low.clone());
                    border = Some(low);
                }
            }
        }
    }

    /// The lower bound of the leaf that a path leads to, as long as no thread changes the leaf; an
    /// error if its key is damaged. None if it cannot be told any more: the node above that has it
    /// has changed, and its record may be another key's.
    pub(super) fn low_of(&self, path: &Path<'_>) -> Option<Result<Option<K::Owned>>> {
        let Some((word, seen)) = path.low else { return Some(Ok(None)) };
        let low = K::copy(&self.pool, word);
        (!K::RECORDS || seen.is_current()).then(|| low.map(Some))
    }

    /// Locks a leaf, if its version still holds, and shows what it has within the bound.
    fn show(
        &self,
        located: Located<'_>,
        bound: &Bound<K::Owned>,
        direction: Direction,
        visit: Visitor<'_, K>,
    ) -> Result<Shown<K::Owned>> {
        let Located { node, state, seen } = located;
        let Some(guard) = seen.try_lock() else { return Ok(Shown::Nothing) };
        let shown = self.show_locked(node, state, bound, direction, visit);
        guard.unlock_unchanged();
        shown
    }

    fn show_locked(
        &self,
        node: Node<'_>,
        state: State,
        bound: &Bound<K::Owned>,
        direction: Direction,
        visit: Visitor<'_, K>,
    ) -> Result<Shown<K::Owned>> {
        let media = self.pool.media();
        let count = usize::from(state.count);
        let positions = match (bound, direction) {
            (Bound::Unbounded, _) => 0..count,
            (Bound::Included(key), Direction::Forward) => {
                self.rank_below(node, state, K::borrow(key))?..count
            }
            (Bound::Excluded(key), Direction::Forward) => {
                self.rank(node, state, K::borrow(key))?..count
            }
            (Bound::Included(key), Direction::Backward) => {
                0..self.rank(node, state, K::borrow(key))?
            }
            (Bound::Excluded(key), Direction::Backward) => {
                0..self.rank_below(node, state, K::borrow(key))?
            }
        };
        let records = self.pool.pin();
        let mut last: Option<K::Ref<'_>> = None;
        let mut show = |position| -> Result<ControlFlow<()>> {
            let (word, value) = node.entry(media, state, position);
            let key = K::read(&records, word)?;
            let ordered = match direction {
                Direction::Forward => last.is_none_or(|last| last < key),
                Direction::Backward => last.is_none_or(|last| last > key),
            };
            if !ordered {
                return Err(IndexError::Corrupt {
                    offset: node.offset,
                    what: "keys are out of order",
                });
            }
            last = Some(key);
            Ok(visit(key, &[value]))
        };
        let mut positions = positions;
        while let Some(position) =
            if direction == Direction::Forward { positions.next() } else { positions.next_back() }
        {
            if show(position)?.is_break() {
                return Ok(Shown::Enough);
            }
        }
        Ok(Shown::Whole(last.map(K::to_owned)))
    }
}
