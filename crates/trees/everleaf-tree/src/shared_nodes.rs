//! The inner nodes that threads share, of the capacity that was chosen when the tree was made.
//!
//! `relax` is called where a thread waits, which is rare: as a trait object it does not multiply
//! this code by the media and shapes of trees.

use std::ops::Bound;

use everleaf_index::{Direction, IndexError};
use everleaf_pmem::{TransactionCounts, TransactionalMemory};

use crate::inner::{ConflictCounts, Prepared, SharedInner, Sought, Ticket};
use crate::inner_nodes::{InnerNodes, index_error};
use crate::key::TreeKey;

/// Defines [`SharedNodes`]: one variant a capacity, every method handed on. The branch is the same
/// every time.
macro_rules! capacities {
    ($($variant:ident = $capacity:literal),+; default $default:ident) => {
        /// Inner nodes with room for so many children.
        pub enum SharedNodes<K: TreeKey> {
            $(
                #[doc = concat!(stringify!($capacity), " children a node.")]
                $variant(SharedInner<K, $capacity>)
            ),+
        }

        impl<K: TreeKey> SharedNodes<K> {
            /// Nodes that were built for one thread, shared from now on.
            pub fn new(nodes: InnerNodes<K>, transactions: TransactionalMemory) -> Self {
                match nodes {
                    $(InnerNodes::$variant(inner) => {
                        Self::$variant(SharedInner::from(inner).with_transactions(transactions))
                    })+
                }
            }

            /// The leaf that covers `key`, and a ticket that holds until the node above it changes.
            #[inline(never)]
            pub fn find(&self, relax: &dyn Fn(), key: K::Ref<'_>) -> (u64, Ticket<'_>) {
                match self {
                    $(Self::$variant(inner) => inner.find(&relax, key),)+
                }
            }

            /// The same without a wait or a second attempt: the leaf may be any number until the
            /// ticket is found current. The default capacity is inlined into every operation, the
            /// others are a call away.
            #[inline(always)]
            pub fn find_unvalidated(&self, key: K::Ref<'_>) -> Option<(u64, Ticket<'_>)> {
                match self {
                    Self::$default(inner) => inner.find_unvalidated(key),
                    _ => self.find_unvalidated_by_call(key),
                }
            }

            #[inline(never)]
            fn find_unvalidated_by_call(&self, key: K::Ref<'_>) -> Option<(u64, Ticket<'_>)> {
                match self {
                    $(Self::$variant(inner) => inner.find_unvalidated(key),)+
                }
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
                match self {
                    $(Self::$variant(inner) => inner.find_in_transaction(&relax, key, look),)+
                }
            }

            /// A ticket that is never current.
            pub fn stale_ticket(&self) -> Ticket<'_> {
                match self {
                    $(Self::$variant(inner) => inner.stale_ticket(),)+
                }
            }

            /// The leaves of a batch of keys, each any number until its ticket is found current.
            pub fn find_many_unvalidated<'t>(
                &'t self,
                keys: &[K::Ref<'_>],
                leaves: &mut [u64],
                tickets: &mut [Ticket<'t>],
            ) {
                match self {
                    $(Self::$variant(inner) => {
                        inner.find_many_unvalidated(keys, leaves, tickets)
                    })+
                }
            }

            /// Does all that can fail of the insertion of a leaf with this lower bound behind the
            /// leaf `left`.
            pub fn prepare<'i, 'k>(
                &'i self,
                relax: &dyn Fn(),
                separator: K::Ref<'k>,
                left: u64,
            ) -> Result<Prepared<'i, 'k, K>, IndexError> {
                match self {
                    $(Self::$variant(inner) => inner.prepare(&relax, separator, left),)+
                }
                .map_err(index_error)
            }

            /// Adds the prepared leaf; inner nodes that were split.
            pub fn insert(
                &self,
                relax: &dyn Fn(),
                prepared: Prepared<'_, '_, K>,
                leaf: u64,
            ) -> u64 {
                match self {
                    $(Self::$variant(inner) => inner.insert(&relax, prepared, leaf),)+
                }
            }

            /// Removes the leaf that covers `key`, which is not the first.
            pub fn remove(&self, relax: &dyn Fn(), key: K::Ref<'_>) -> bool {
                match self {
                    $(Self::$variant(inner) => inner.remove(&relax, key),)+
                }
            }

            /// Makes `leaf` the one that covers what `old` covers, which covers `key`.
            pub fn replace(&self, relax: &dyn Fn(), key: K::Ref<'_>, old: u64, leaf: u64) -> bool {
                match self {
                    $(Self::$variant(inner) => inner.replace(&relax, key, old, leaf),)+
                }
            }

            /// The leaf where a scan from this bound begins; none where nothing is before the bound
            /// (backward).
            pub fn seek(
                &self,
                relax: &dyn Fn(),
                from: Bound<K::Ref<'_>>,
                direction: Direction,
            ) -> Option<Sought<'_, K::Owned>> {
                match (self, from) {
                    $(
                        (Self::$variant(inner), Bound::Unbounded) => {
                            Some(inner.seek_edge(&relax, direction))
                        }
                        (Self::$variant(inner), Bound::Excluded(key))
                            if direction == Direction::Backward =>
                        {
                            inner.seek_before(&relax, key)
                        }
                        (Self::$variant(inner), Bound::Included(key) | Bound::Excluded(key)) => {
                            Some(inner.seek(&relax, key, direction))
                        }
                    )+
                }
            }

            /// The leaf after `sought`, if the node above it can tell and has not changed.
            #[inline]
            pub fn seek_on<'t>(
                &'t self,
                sought: &Sought<'t, K::Owned>,
                direction: Direction,
            ) -> Option<Sought<'t, K::Owned>> {
                match self {
                    $(Self::$variant(inner) => inner.seek_on(sought, direction),)+
                }
            }

            /// Whether the leaf that covers `key` is the last.
            pub fn is_last(&self, relax: &dyn Fn(), key: K::Ref<'_>) -> bool {
                match self {
                    $(Self::$variant(inner) => inner.is_last(&relax, key),)+
                }
            }

            /// Levels of inner nodes.
            pub fn height(&self) -> u32 {
                match self {
                    $(Self::$variant(inner) => inner.height(),)+
                }
            }

            /// Number of inner nodes.
            pub fn count(&self) -> u64 {
                match self {
                    $(Self::$variant(inner) => inner.inner_nodes(),)+
                }
            }

            /// Bytes of DRAM.
            pub fn dram_bytes(&self) -> u64 {
                match self {
                    $(Self::$variant(inner) => inner.dram_bytes(),)+
                }
            }

            /// How often threads met.
            pub fn conflicts(&self) -> ConflictCounts {
                match self {
                    $(Self::$variant(inner) => inner.conflicts(),)+
                }
            }

            /// What became of transactions.
            pub fn transaction_counts(&self) -> TransactionCounts {
                match self {
                    $(Self::$variant(inner) => inner.transaction_counts(),)+
                }
            }

            /// What is wrong with them, a sentence each.
            pub fn check(&self) -> Vec<String> {
                match self {
                    $(Self::$variant(inner) => inner.check(),)+
                }
            }
        }
    };
}

capacities! { Of4 = 4, Of64 = 64; default Of64 }
