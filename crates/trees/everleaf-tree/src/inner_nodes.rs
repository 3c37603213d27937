//! The inner nodes, of the capacity that was chosen when the tree was made.

use everleaf_index::{Direction, IndexError, Result};
use everleaf_pmem::DramSource;
use everleaf_pool::PoolError;

use crate::inner::{self, Bottom, Cursor, Inner, InnerError};
use crate::key::TreeKey;

/// Capacities on offer.
pub const CAPACITIES: &[u64] = &[4, 64];
/// The capacity that measured best.
pub const DEFAULT_CAPACITY: u64 = 64;

/// Hands a call on to the nodes of the capacity that there is. The branch is the same every time.
macro_rules! of_capacity {
    ($nodes:expr, $inner:ident => $call:expr) => {
        match $nodes {
            Self::Of4($inner) => $call,
            Self::Of64($inner) => $call,
        }
    };
}
pub(crate) use of_capacity;

/// Inner nodes with room for so many children.
pub enum InnerNodes<K: TreeKey> {
    /// 4 children a node.
    Of4(Inner<K, 4>),
    /// 64 children a node.
    Of64(Inner<K, 64>),
}

/// Inner nodes that are being built by several threads.
pub enum Building<K: TreeKey> {
    /// 4 children a node.
    Of4(inner::Building<K, 4>),
    /// 64 children a node.
    Of64(inner::Building<K, 64>),
}

/// A walk from leaf to leaf.
pub enum Leaves<'a, K: TreeKey> {
    /// 4 children a node.
    Of4(Cursor<'a, K, 4>),
    /// 64 children a node.
    Of64(Cursor<'a, K, 64>),
}

impl<K: TreeKey> InnerNodes<K> {
    /// The leaf that covers `key`. The default capacity is inlined into every operation,
    /// the others are a call away.
    #[inline(always)]
    pub fn find(&self, key: K::Ref<'_>) -> u64 {
        match self {
            Self::Of64(inner) => inner.find(key),
            _ => self.find_by_call(key),
        }
    }

    #[inline(never)]
    fn find_by_call(&self, key: K::Ref<'_>) -> u64 {
        of_capacity!(self, inner => inner.find(key))
    }

    /// The leaves that cover `keys`.
    pub fn find_many(&self, keys: &[K::Ref<'_>], leaves: &mut [u64]) {
        of_capacity!(self, inner => inner.find_many(keys, leaves))
    }

    /// Adds the leaf whose lower bound is `separator`; inner nodes that were split.
    pub fn insert(&mut self, separator: K::Ref<'_>, leaf: u64) -> Result<u64> {
        of_capacity!(self, inner => inner.insert(separator, leaf)).map_err(index_error)
    }

    /// Removes the leaf that covers `key`, which is not the first.
    pub fn remove(&mut self, key: K::Ref<'_>) -> bool {
        of_capacity!(self, inner => inner.remove(key))
    }

    /// A walk that begins at the leaf that covers `key`.
    pub fn seek(&self, key: K::Ref<'_>) -> Leaves<'_, K> {
        match self {
            Self::Of4(inner) => Leaves::Of4(inner.seek(key)),
            Self::Of64(inner) => Leaves::Of64(inner.seek(key)),
        }
    }

    /// Whether the leaf that covers `key` is the last.
    pub fn is_last(&self, key: K::Ref<'_>) -> bool {
        self.seek(key).step(Direction::Forward).is_none()
    }

    /// A walk over all leaves in this direction.
    pub fn start(&self, direction: Direction) -> Leaves<'_, K> {
        match self {
            Self::Of4(inner) => Leaves::Of4(inner.start(direction)),
            Self::Of64(inner) => Leaves::Of64(inner.start(direction)),
        }
    }

    /// Levels of inner nodes.
    pub fn height(&self) -> u32 {
        of_capacity!(self, inner => inner.height())
    }

    /// Number of inner nodes.
    pub fn count(&self) -> u64 {
        of_capacity!(self, inner => inner.inner_nodes())
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        of_capacity!(self, inner => inner.dram_bytes())
    }

    /// What is wrong with them, a sentence each.
    pub fn check(&self) -> Vec<String> {
        of_capacity!(self, inner => inner.check())
    }
}

impl<K: TreeKey> Building<K> {
    /// Begins nodes of this capacity. Takes no memory yet.
    ///
    /// # Errors
    /// [`IndexError::Parameter`] for a capacity that is not offered.
    pub fn begin(capacity: u64, dram: DramSource<'_>) -> Result<Self> {
        match capacity {
            4 => inner::Building::begin(dram, FILL_PERCENT).map(Self::Of4).map_err(index_error),
            64 => inner::Building::begin(dram, FILL_PERCENT).map(Self::Of64).map_err(index_error),
            value => {
                let offered = format!("{CAPACITIES:?}");
                Err(IndexError::Parameter { parameter: "inner_keys", value, offered })
            }
        }
    }

    /// Takes memory for nodes above so many leaves, if that is worth it now.
    pub fn expect(&self, leaves: usize) {
        of_capacity!(self, building => building.expect(leaves))
    }

    /// Takes memory for lower bounds of so many words.
    pub fn expect_separators(&self, words: u64) {
        of_capacity!(self, building => building.expect_separators(words))
    }

    /// Plans nodes over the first leaf; `most` leaves at most, in so many parts.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when there is no memory.
    pub fn plan(&self, first: u64, most: usize, parts: usize) -> Result<()> {
        of_capacity!(self, building => building.plan(first, most, parts)).map_err(index_error)
    }

    /// Takes part in faulting their memory in.
    pub fn fault_in(&self) {
        of_capacity!(self, building => building.fault_in())
    }

    /// Makes the nodes above the part with this number, of about so many leaves with their
    /// lower bounds, ascending.
    pub fn bottom<'a>(
        &self,
        number: usize,
        length: usize,
        leaves: impl Iterator<Item = (K::Ref<'a>, u64)>,
    ) -> Result<Bottom> {
        of_capacity!(self, building => building.bottom(number, length, leaves)).map_err(index_error)
    }

    /// The inner nodes, from what is above all parts.
    pub fn end(self, bottoms: Vec<Bottom>) -> Result<InnerNodes<K>> {
        match self {
            Self::Of4(building) => building.end(bottoms).map(InnerNodes::Of4),
            Self::Of64(building) => building.end(bottoms).map(InnerNodes::Of64),
        }
        .map_err(index_error)
    }
}

impl<K: TreeKey> Leaves<'_, K> {
    /// The leaf at which the walk stands.
    #[inline(always)]
    pub fn current(&self) -> u64 {
        of_capacity!(self, cursor => cursor.child())
    }

    /// Goes on to the next leaf; none at the edge.
    pub fn step(&mut self, direction: Direction) -> Option<u64> {
        of_capacity!(self, cursor => cursor.step(direction))
    }

    /// The lower bound of the leaf at which the walk stands.
    pub fn lower_bound(&self) -> K::Owned {
        of_capacity!(self, cursor => cursor.lower_bound())
    }
}

/// Nodes that are built have some room left, so that the first insertions after a restart do not
/// split every one of them.
pub const FILL_PERCENT: usize = 85;

/// What the inner nodes refuse, in the words of an index.
pub fn index_error(error: InnerError) -> IndexError {
    match error {
        InnerError::Memory(source) => IndexError::Pool(PoolError::Map(source)),
        InnerError::Order => {
            IndexError::Corrupt { offset: 0, what: "the lower bounds of leaves do not ascend" }
        }
        InnerError::TooLong { .. } => IndexError::Corrupt {
            offset: 0,
            what: "the lower bound of a leaf is longer than a key can be",
        },
    }
}
