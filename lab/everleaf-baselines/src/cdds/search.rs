//! Finding a key: from the root down, each node searched by halves.

use everleaf_index::Result;
use everleaf_pmem::{Media, Word};
use everleaf_pool::Pool;

use super::layout::{Child, MAX_LEVELS, Shape};
use super::node::Node;

/// The nodes of a pool, from a root on.
pub(super) struct Nodes<'p, M: Media> {
    pub pool: &'p Pool<M>,
    pub shape: Shape,
    pub root: Child,
}

impl<M: Media> Clone for Nodes<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Media> Copy for Nodes<'_, M> {}

/// A node on a path, and the slot that the path goes on through.
#[derive(Clone, Copy)]
pub(super) struct Step<'p> {
    pub node: Node<'p>,
    pub slot: usize,
}

/// The way from the root to a leaf.
pub(super) struct Path<'p> {
    steps: [Option<Step<'p>>; MAX_LEVELS],
    len: usize,
}

impl<'p> Path<'p> {
    /// Of no steps.
    pub fn new() -> Self {
        Self { steps: [None; MAX_LEVELS], len: 0 }
    }

    /// The steps through inner nodes, that of the root last.
    pub fn upwards(&self) -> impl Iterator<Item = Step<'p>> {
        self.steps[..self.len].iter().rev().flatten().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes the last step away.
    pub fn pop(&mut self) -> Option<Step<'p>> {
        self.len = self.len.checked_sub(1)?;
        self.steps[self.len].take()
    }

    /// Adds a step: the levels of nodes bound how many there are.
    pub fn push(&mut self, node: Node<'p>, slot: usize) {
        self.steps[self.len] = Some(Step { node, slot });
        self.len += 1;
    }
}

impl<'p, M: Media> Nodes<'p, M> {
    pub fn media(self) -> &'p M {
        self.pool.media()
    }

    /// The node that a word leads to.
    #[inline(always)]
    pub fn node(self, child: Child) -> Result<Node<'p>> {
        Node::at(self.media(), child, self.shape)
    }

    /// The child that a slot leads to.
    #[inline(always)]
    pub fn child(self, node: Node<'p>, slot: usize) -> Result<Node<'p>> {
        self.child_at(node, self.media().load(node.value(slot)))
    }

    /// The child that a value of a node leads to: of the level below, so every way down ends.
    #[inline(always)]
    pub fn child_at(self, node: Node<'_>, value: u64) -> Result<Node<'p>> {
        let child = self.node(Child::from_word(value))?;
        if child.level() + 1 == node.level() {
            Ok(child)
        } else {
            Err(child.damaged("a node is not of the level below the one that leads to it"))
        }
    }

    /// The leaf that a key belongs to.
    #[inline(always)]
    pub fn leaf_of(self, key: u64) -> Result<Node<'p>> {
        let mut node = self.node(self.root)?;
        while node.level() > 0 {
            node = self.child(node, node.child_of(self.media(), key)?)?;
        }
        Ok(node)
    }

    /// The value of a key.
    #[inline(always)]
    pub fn find(self, key: u64) -> Result<Option<u64>> {
        let leaf = self.leaf_of(key)?;
        let slot = leaf.slot_of(self.media(), key).ok();
        Ok(slot.map(|slot| self.media().load(leaf.value(slot))))
    }

    /// The way to the leaf that a key belongs to, and that leaf.
    #[inline(always)]
    pub fn descend(self, key: u64) -> Result<(Path<'p>, Node<'p>)> {
        let mut path = Path::new();
        let root = self.node(self.root)?;
        let leaf = self.descend_from(root, &mut path, |node| node.child_of(self.media(), key))?;
        Ok((path, leaf))
    }

    /// Goes down from a node to a leaf, through the slot that `choose` says.
    #[inline(always)]
    pub fn descend_from(
        self,
        mut node: Node<'p>,
        path: &mut Path<'p>,
        choose: impl Fn(Node<'p>) -> Result<usize>,
    ) -> Result<Node<'p>> {
        while node.level() > 0 {
            let slot = choose(node)?;
            path.push(node, slot);
            node = self.child(node, slot)?;
        }
        Ok(node)
    }
}
