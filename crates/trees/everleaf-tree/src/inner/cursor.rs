//! Steps from child to child, in either direction.

use everleaf_index::Direction;

use super::latches::Alone;
use super::{Inner, MAX_HEIGHT, Path};
use crate::key::{Kept, TreeKey};

/// Stands at a child. A step costs a few instructions; it goes up the tree only at the edge of a
/// node.
#[derive(Clone, Debug)]
pub struct Cursor<'a, K: TreeKey, const CAPACITY: usize> {
    inner: &'a Inner<K, CAPACITY>,
    path: Path,
    child: u64,
    /// Slots of the node above the child.
    siblings: u32,
}

impl<K: TreeKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// A cursor at the child that covers `key`.
    pub fn seek(&self, key: K::Ref<'_>) -> Cursor<'_, K, CAPACITY> {
        let (path, child) = self.path(key, &mut Alone);
        Cursor { inner: self, path, child, siblings: 0 }.arrived()
    }

    /// A cursor at the first (`Forward`) or the last (`Backward`) child.
    pub fn start(&self, direction: Direction) -> Cursor<'_, K, CAPACITY> {
        let mut cursor = Cursor {
            inner: self,
            path: Path([(0, 0); MAX_HEIGHT]),
            child: self.top().0,
            siblings: 0,
        };
        cursor.descend(0, direction);
        cursor.arrived()
    }

    /// The child after (or before) the one that covers `key`, and its lower bound; none at the
    /// edge.
    pub fn neighbor(&self, key: K::Ref<'_>, direction: Direction) -> Option<(K::Owned, u64)> {
        let mut cursor = self.seek(key);
        let child = cursor.step(direction)?;
        Some((cursor.lower_bound(), child))
    }
}

impl<K: TreeKey, const CAPACITY: usize> Cursor<'_, K, CAPACITY> {
    fn depths(&self) -> usize {
        self.inner.height() as usize
    }

    fn arrived(mut self) -> Self {
        self.count_siblings();
        self
    }

    fn count_siblings(&mut self) {
        if let Some((node, _)) = self.path.0[..self.depths()].last() {
            self.siblings = self.inner.nodes.count(*node) as u32;
        }
    }

    /// From `self.child`, which is a node at this depth, down to the first or last child below it.
    fn descend(&mut self, depth: usize, direction: Direction) {
        for depth in depth..self.depths() {
            let node = self.child as u32;
            let slot = match direction {
                Direction::Forward => 0,
                Direction::Backward => self.inner.nodes.count(node) - 1,
            };
            self.path.0[depth] = (node, slot as u32);
            self.child = self.inner.nodes.child(node, slot);
        }
    }

    /// The child at which the cursor stands.
    #[inline]
    pub fn child(&self) -> u64 {
        self.child
    }

    /// Goes to the next child in this direction and returns it; none at the edge, and the cursor
    /// stays.
    #[inline]
    pub fn step(&mut self, direction: Direction) -> Option<u64> {
        match self.peek(direction, 1) {
            Some(child) => {
                let (_, slot) = &mut self.path.0[self.inner.height() as usize - 1];
                *slot = if direction == Direction::Forward { *slot + 1 } else { *slot - 1 };
                self.child = child;
                Some(child)
            }
            None => self.step_over_the_edge(direction),
        }
    }

    #[cold]
    fn step_over_the_edge(&mut self, direction: Direction) -> Option<u64> {
        let depth = (0..self.depths().saturating_sub(1)).rev().find(|depth| {
            let (node, slot) = self.path.0[*depth];
            match direction {
                Direction::Forward => slot as usize + 1 < self.inner.nodes.count(node),
                Direction::Backward => slot > 0,
            }
        })?;
        let (node, slot) = &mut self.path.0[depth];
        *slot = if direction == Direction::Forward { *slot + 1 } else { *slot - 1 };
        self.child = self.inner.nodes.child(*node, *slot as usize);
        self.descend(depth + 1, direction);
        self.count_siblings();
        Some(self.child)
    }

    /// The child that is so many steps away, if the same node leads to it: for prefetching.
    #[inline]
    pub fn peek(&self, direction: Direction, steps: u32) -> Option<u64> {
        let (node, slot) = *self.path.0[..self.depths()].last()?;
        let slot = match direction {
            Direction::Forward => slot.checked_add(steps).filter(|slot| *slot < self.siblings)?,
            Direction::Backward => slot.checked_sub(steps)?,
        };
        Some(self.inner.nodes.child(node, slot as usize))
    }

    /// The smallest key that the child covers.
    pub fn lower_bound(&self) -> K::Owned {
        let kept = match self.path.0[..self.depths()].last() {
            Some((node, slot)) => self.inner.nodes.kept(*node, *slot as usize),
            None => Kept::default(),
        };
        K::copy_kept(&self.inner.separators, kept)
    }

    /// The separator above the child: the first key that it does not cover; none for the last
    /// child.
    pub fn upper_bound(&self) -> Option<K::Owned> {
        let kept = self.upper()?;
        Some(K::copy_kept(&self.inner.separators, kept))
    }

    /// Whether the child covers no key from `key` on (a scan that ends before `key` need not go
    /// further), without a copy.
    pub fn ends_by(&self, key: K::Ref<'_>) -> bool {
        self.upper()
            .is_some_and(|kept| K::compare_kept(&self.inner.separators, kept, key, 0).is_le())
    }

    fn upper(&self) -> Option<Kept> {
        (0..self.depths()).rev().find_map(|depth| {
            let (node, slot) = self.path.0[depth];
            let next = slot as usize + 1;
            (next < self.inner.nodes.count(node)).then(|| self.inner.nodes.kept(node, next))
        })
    }
}
