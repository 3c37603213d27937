//! The inner nodes that threads share, of the capacity that was chosen when the tree was made.
//!
//! `relax` is called where a thread waits, which is rare: as a trait object it does not multiply
//! this code by the media and shapes of trees.

use std::ops::Bound;

use everleaf_index::{Direction, Result, Start};
use everleaf_pmem::{TransactionCounts, TransactionalMemory};

use crate::inner::{ConflictCounts, Prepared, SharedInner, Sought, Ticket};
use crate::inner_nodes::{InnerNodes, index_error, of_capacity};
use crate::key::TreeKey;

/// Inner nodes with room for so many children.
pub enum SharedNodes<K: TreeKey> {
    /// 4 children a node.
    Of4(SharedInner<K, 4>),
    /// 64 children a node.
    Of64(SharedInner<K, 64>),
}

impl<K: TreeKey> SharedNodes<K> {
    /// Nodes that were built for one thread, shared from now on.
    pub fn new(nodes: InnerNodes<K>, transactions: TransactionalMemory) -> Self {
        match nodes {
            InnerNodes::Of4(inner) => {
                Self::Of4(SharedInner::from(inner).with_transactions(transactions))
            }
            InnerNodes::Of64(inner) => {
                Self::Of64(SharedInner::from(inner).with_transactions(transactions))
            }
        }
    }

    /// The leaf that covers `key`, and a ticket that holds until the node above it changes.
    #[inline(never)]
    pub fn find(&self, relax: &dyn Fn(), key: K::Ref<'_>) -> (u64, Ticket<'_>) {
        of_capacity!(self, inner => inner.find(&relax, key))
    }

    /// The same without a wait or a second attempt: the leaf may be any number until the
    /// ticket is found current. The default capacity is inlined into every operation, the
    /// others are a call away.
    #[inline(always)]
    pub fn find_unvalidated(&self, key: K::Ref<'_>) -> Option<(u64, Ticket<'_>)> {
        match self {
            Self::Of64(inner) => inner.find_unvalidated(key),
            _ => self.find_unvalidated_by_call(key),
        }
    }

    #[inline(never)]
    fn find_unvalidated_by_call(&self, key: K::Ref<'_>) -> Option<(u64, Ticket<'_>)> {
        of_capacity!(self, inner => inner.find_unvalidated(key))
    }

    /// The leaf that covers `key`, and what `look` says of it at the same moment; none if
    /// transactions gave up.
    #[inline]
    pub fn find_in_transaction<T>(
        &self,
        relax: &dyn Fn(),
        key: K::Ref<'_>,
        look: impl Fn(u64) -> T,
    ) -> Option<(u64, T)> {
        of_capacity!(self, inner => inner.find_in_transaction(&relax, key, look))
    }

    /// A ticket that is never current.
    pub fn stale_ticket(&self) -> Ticket<'_> {
        of_capacity!(self, inner => inner.stale_ticket())
    }

    /// The leaves of a batch of keys, each any number until its ticket is found current.
    pub fn find_many_unvalidated<'t>(
        &'t self,
        keys: &[K::Ref<'_>],
        leaves: &mut [u64],
        tickets: &mut [Ticket<'t>],
    ) {
        of_capacity!(self, inner => inner.find_many_unvalidated(keys, leaves, tickets))
    }

    /// Does all that can fail of the insertion of a leaf with this lower bound behind the
    /// leaf `left`.
    pub fn prepare<'i, 'k>(
        &'i self,
        relax: &dyn Fn(),
        separator: K::Ref<'k>,
        left: u64,
    ) -> Result<Prepared<'i, 'k, K>> {
        of_capacity!(self, inner => inner.prepare(&relax, separator, left)).map_err(index_error)
    }

    /// Adds the prepared leaf; inner nodes that were split.
    pub fn insert(&self, relax: &dyn Fn(), prepared: Prepared<'_, '_, K>, leaf: u64) -> u64 {
        of_capacity!(self, inner => inner.insert(&relax, prepared, leaf))
    }

    /// Removes the leaf that covers `key`, which is not the first.
    pub fn remove(&self, relax: &dyn Fn(), key: K::Ref<'_>) -> bool {
        of_capacity!(self, inner => inner.remove(&relax, key))
    }

    /// Makes `leaf` the one that covers what `old` covers, which covers `key`.
    pub fn replace(&self, relax: &dyn Fn(), key: K::Ref<'_>, old: u64, leaf: u64) -> bool {
        of_capacity!(self, inner => inner.replace(&relax, key, old, leaf))
    }

    /// The leaf where a scan from this bound begins; none where nothing is before the bound
    /// (backward).
    pub fn seek(
        &self,
        relax: &dyn Fn(),
        from: Start<'_, K>,
        direction: Direction,
    ) -> Option<Sought<'_, K::Owned>> {
        match from {
            Bound::Unbounded => {
                Some(of_capacity!(self, inner => inner.seek_edge(&relax, direction)))
            }
            Bound::Excluded(key) if direction == Direction::Backward => {
                of_capacity!(self, inner => inner.seek_before(&relax, key))
            }
            Bound::Included(key) | Bound::Excluded(key) => {
                Some(of_capacity!(self, inner => inner.seek(&relax, key, direction)))
            }
        }
    }

    /// The leaf after `sought`, if the node above it can tell and has not changed.
    #[inline]
    pub fn seek_on<'t>(
        &'t self,
        sought: &Sought<'t, K::Owned>,
        direction: Direction,
    ) -> Option<Sought<'t, K::Owned>> {
        of_capacity!(self, inner => inner.seek_on(sought, direction))
    }

    /// All leaves in their order, each with where its range begins.
    pub fn leaves<'t>(
        &'t self,
        relax: impl Fn() + 't,
    ) -> impl Iterator<Item = (K::Owned, Sought<'t, K::Owned>)> {
        let seek = move |from: Start<'_, K>| self.seek(&relax, from, Direction::Forward);
        let mut next = seek(Bound::Unbounded).map(|first| (K::to_owned(K::least()), first));
        std::iter::from_fn(move || {
            let (lower, sought) = next.take()?;
            if let Some(upper) = &sought.bound {
                let beside = self.seek_on(&sought, Direction::Forward);
                let behind = beside.or_else(|| seek(Bound::Included(K::borrow(upper))));
                next = behind.map(|behind| (upper.clone(), behind));
            }
            Some((lower, sought))
        })
    }

    /// Whether the leaf that covers `key` is the last.
    pub fn is_last(&self, relax: &dyn Fn(), key: K::Ref<'_>) -> bool {
        of_capacity!(self, inner => inner.is_last(&relax, key))
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

    /// How often threads met.
    pub fn conflicts(&self) -> ConflictCounts {
        of_capacity!(self, inner => inner.conflicts())
    }

    /// What became of transactions.
    pub fn transaction_counts(&self) -> TransactionCounts {
        of_capacity!(self, inner => inner.transaction_counts())
    }

    /// What is wrong with them, a sentence each.
    pub fn check(&self) -> Vec<String> {
        of_capacity!(self, inner => inner.check())
    }
}
