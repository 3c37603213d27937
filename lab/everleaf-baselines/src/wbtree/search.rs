//! Finding a key: from the root down, each node searched by halves through its slot array.

use std::cmp::Ordering;
use std::marker::PhantomData;

use everleaf_index::Result;
use everleaf_pmem::{Counter, Media};
use everleaf_pool::Pool;

use super::layout::{Shape, WbAnchor};
use super::node::Node;
use super::publish::mend;
use everleaf_tree::key::TreeKey;
use everleaf_tree::path::{Path, Step};

/// The nodes of a pool.
pub(super) struct Nodes<'p, K: TreeKey, M: Media> {
    pub pool: &'p Pool<M>,
    pub shape: Shape,
    kind: PhantomData<fn() -> K>,
}

impl<K: TreeKey, M: Media> Clone for Nodes<'_, K, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: TreeKey, M: Media> Copy for Nodes<'_, K, M> {}

impl<'p, K: TreeKey, M: Media> Nodes<'p, K, M> {
    pub fn new(pool: &'p Pool<M>, shape: Shape) -> Self {
        Self { pool, shape, kind: PhantomData }
    }

    pub fn media(self) -> &'p M {
        self.pool.media()
    }

    /// What the index has beside its nodes.
    pub fn anchor(self) -> Result<&'p WbAnchor> {
        Ok(self.pool.index_root::<WbAnchor>()?)
    }

    /// The node at a place that the tree knows. A crash may have left a leaf whose slot array is
    /// not valid: who looks at it first makes it so.
    #[inline(always)]
    pub fn node(self, offset: u64) -> Result<Node<'p>> {
        self.mended(Node::at(self.media(), offset, self.shape)?)
    }

    #[inline(always)]
    fn mended(self, node: Node<'p>) -> Result<Node<'p>> {
        if node.is_valid() { Ok(node) } else { mend::<K, M>(self.pool, self.shape, node) }
    }

    /// The topmost node.
    #[inline(always)]
    pub fn root(self) -> Result<Node<'p>> {
        self.node(self.media().load(&self.anchor()?.root).offset())
    }

    /// The child of a slot: of the level below, so every way down ends.
    #[inline(always)]
    pub fn child(self, node: Node<'p>, slot: usize) -> Result<Node<'p>> {
        let child = Node::at(self.media(), node.value(self.media(), slot), self.shape)?;
        if child.level() + 1 == node.level() {
            self.mended(child)
        } else {
            Err(child.damaged("a node is not of the level below the one that leads to it"))
        }
    }

    /// The slot of a key among those of a node from `first` on, or else that of the first greater
    /// one.
    #[inline(always)]
    fn slot_from(
        self,
        node: Node<'p>,
        first: usize,
        key: K::Ref<'_>,
    ) -> Result<Result<usize, usize>> {
        let (mut low, mut high) = (first, node.count());
        while low < high {
            let middle = (low + high) / 2;
            self.media().count(Counter::LeafProbes, u64::from(node.level() == 0));
            match K::compare(self.pool, node.key(self.media(), middle), key)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// The slot of a key of a leaf, or where it would be.
    #[inline(always)]
    pub fn slot_of(self, leaf: Node<'p>, key: K::Ref<'_>) -> Result<Result<usize, usize>> {
        self.slot_from(leaf, 0, key)
    }

    /// The slot of the child that a key belongs to.
    #[inline(always)]
    pub fn child_of(self, node: Node<'p>, key: K::Ref<'_>) -> Result<usize> {
        node.expect_entry()?;
        Ok(self.slot_from(node, 1, key)?.unwrap_or_else(|greater| greater - 1))
    }

    /// The leaf that a key belongs to.
    #[inline(always)]
    pub fn leaf_of(self, key: K::Ref<'_>) -> Result<Node<'p>> {
        let mut node = self.root()?;
        while node.level() > 0 {
            node = self.child(node, self.child_of(node, key)?)?;
        }
        Ok(node)
    }

    /// The leaf that a key belongs to, and the key's slot or where it would be.
    #[inline(always)]
    pub fn find(self, key: K::Ref<'_>) -> Result<(Node<'p>, Result<usize, usize>)> {
        let leaf = self.leaf_of(key)?;
        Ok((leaf, self.slot_of(leaf, key)?))
    }

    /// The way to the leaf that a key belongs to, and that leaf. The slot of the last step is 0.
    pub fn descend(self, key: K::Ref<'_>) -> Result<(Path, Node<'p>)> {
        let mut path = Path::default();
        let leaf = self.descend_from(self.root()?, &mut path, |node| self.child_of(node, key))?;
        Ok((path, leaf))
    }

    /// Goes down from a node to a leaf, through the child that `choose` says.
    pub fn descend_from(
        self,
        mut node: Node<'p>,
        path: &mut Path,
        choose: impl Fn(Node<'p>) -> Result<usize>,
    ) -> Result<Node<'p>> {
        if !path.has_room(node.level()) {
            return Err(node.damaged("a node is of a level that the tree does not have"));
        }
        let step = |node: Node<'p>, slot| Step { offset: node.offset(), slot, count: node.count() };
        while node.level() > 0 {
            let slot = choose(node)?;
            path.push(step(node, slot));
            node = self.child(node, slot)?;
        }
        path.push(step(node, 0));
        Ok(node)
    }
}
