//! Finding a key: from the root down, each node searched by halves.

use everleaf_index::Result;
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::layout::{LcbRoot, Shape};
use super::node::Node;
use everleaf_tree::path::{Path, Step};

/// The nodes of a pool.
pub(super) struct Nodes<'p, M: Media> {
    pub pool: &'p Pool<M>,
    pub shape: Shape,
}

impl<M: Media> Clone for Nodes<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Media> Copy for Nodes<'_, M> {}

/// A node on a path that goes on through a slot.
fn step(node: Node<'_>, slot: usize) -> Step {
    Step { offset: node.offset(), slot, count: node.count() }
}

impl<'p, M: Media> Nodes<'p, M> {
    pub fn new(pool: &'p Pool<M>, shape: Shape) -> Self {
        Self { pool, shape }
    }

    pub fn media(self) -> &'p M {
        self.pool.media()
    }

    /// The word that leads to the root.
    pub fn anchor(self) -> Result<&'p LcbRoot> {
        Ok(self.pool.index_root::<LcbRoot>()?)
    }

    /// The node at a place that the tree knows.
    #[inline(always)]
    pub fn node(self, offset: u64) -> Result<Node<'p>> {
        Node::at(self.media(), offset, self.shape)
    }

    /// The topmost node.
    #[inline(always)]
    pub fn root(self) -> Result<Node<'p>> {
        self.node(self.media().load(&self.anchor()?.root).offset())
    }

    /// The child that an element leads to: of the level below, so every way down ends.
    #[inline(always)]
    pub fn child(self, node: Node<'p>, slot: usize) -> Result<Node<'p>> {
        let child = self.node(node.value(self.media(), slot))?;
        if child.level() + 1 == node.level() {
            Ok(child)
        } else {
            Err(child.damaged("a node is not of the level below the one that leads to it"))
        }
    }

    /// The leaf that a key belongs to.
    #[inline(always)]
    pub fn leaf_of(self, key: u64) -> Result<Node<'p>> {
        let mut node = self.root()?;
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
        Ok(slot.map(|slot| leaf.value(self.media(), slot)))
    }

    /// The way to the leaf that a key belongs to, and that leaf. The slot of the last step is 0.
    #[inline(always)]
    pub fn descend(self, key: u64) -> Result<(Path, Node<'p>)> {
        let mut path = Path::default();
        let leaf =
            self.descend_from(self.root()?, &mut path, |node| node.child_of(self.media(), key))?;
        Ok((path, leaf))
    }

    /// Goes down from a node to a leaf, through the child that `choose` says.
    #[inline(always)]
    pub fn descend_from(
        self,
        mut node: Node<'p>,
        path: &mut Path,
        choose: impl Fn(Node<'p>) -> Result<usize>,
    ) -> Result<Node<'p>> {
        if !path.has_room(node.level()) {
            return Err(node.damaged("a node is of a level that the tree does not have"));
        }
        while node.level() > 0 {
            let slot = choose(node)?;
            path.push(step(node, slot));
            node = self.child(node, slot)?;
        }
        path.push(step(node, 0));
        Ok(node)
    }
}
