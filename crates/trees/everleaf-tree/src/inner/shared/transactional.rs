//! Descents and changes as transactions: the code of the tree for one thread, and no other thread
//! is there while it runs.

use std::sync::atomic::{Ordering, fence};

use everleaf_pmem::{Aborted, Attempt, TransactionCounts, TransactionalMemory};

use super::super::entries::Entry;
use super::super::latches::Alone;
use super::SharedInner;
use super::held::Held;
use super::seek::{Place, SeekMode};
use crate::key::TreeKey;

impl<K: TreeKey, const CAPACITY: usize> SharedInner<K, CAPACITY> {
    /// The same tree, whose descents and changes are transactions while these are on.
    ///
    /// ```
    /// use everleaf_index::U64Keys;
    /// use everleaf_pmem::{Cpu, Simulation, TransactionalMemory, Transactions};
    /// use everleaf_tree::inner::SharedInner;
    ///
    /// let relax = std::hint::spin_loop;
    /// let memory = TransactionalMemory::new(Transactions::Simulated(Simulation::default()), None);
    /// let inner = SharedInner::<U64Keys, 64>::new(Cpu::detect().simd(), 1000)?;
    /// let inner = inner.with_transactions(memory);
    /// let prepared = inner.prepare(&relax, 50, 1000)?;
    /// inner.insert(&relax, prepared, 2000);
    /// // The child, and what the caller says of it, at one moment.
    /// assert_eq!(inner.find_in_transaction(&relax, 70, |child| child * 2), Some((2000, 4000)));
    /// assert_eq!(inner.transaction_counts().committed, 3);
    /// # Ok::<(), everleaf_tree::inner::InnerError>(())
    /// ```
    #[must_use]
    pub fn with_transactions(mut self, transactions: TransactionalMemory) -> Self {
        self.transactions = transactions;
        if self.is_transactional() {
            // It would be one more thing that transactions meet at.
            self.tree.directory.turn_off();
        }
        self
    }

    /// Whether transactions are on.
    #[inline(always)]
    pub fn is_transactional(&self) -> bool {
        self.transactions.is_on()
    }

    /// What became of transactions since the tree was made.
    pub fn transaction_counts(&self) -> TransactionCounts {
        self.transactions.counts()
    }

    /// The child that covers `key`, and what `look` says of it at the same moment. None if
    /// transactions gave up, or there are none: the way is then [`find`](SharedInner::find). `look`
    /// reads DRAM and stores nothing.
    #[inline]
    pub fn find_in_transaction<T>(
        &self,
        relax: &impl Fn(),
        key: K::Ref<'_>,
        look: impl Fn(u64) -> T,
    ) -> Option<(u64, T)> {
        self.transactions.read(&|| self.is_held(), relax, || {
            let child = self.tree.find_by_descent(key);
            (child, look(child))
        })
    }

    /// Whether a thread holds the fallback lock. If not, what its last holder did is visible.
    #[inline(always)]
    fn is_held(&self) -> bool {
        let held = self.structure.is_locked();
        fence(Ordering::Acquire);
        held
    }

    /// A place, and what `read` says of it at the same moment; none if transactions gave up, or
    /// there are none.
    pub(super) fn visit_in_transaction<T>(
        &self,
        relax: &impl Fn(),
        key: K::Ref<'_>,
        which: SeekMode,
        read: &impl Fn(&Place<'_>) -> T,
    ) -> Option<(Place<'_>, T)> {
        if !self.is_transactional() {
            return None;
        }
        self.transactions.read(&|| self.is_held(), relax, || {
            // Nothing changes meanwhile: the versions that are compared on the way are always
            // current.
            let place = self.try_place(relax, key, which)?;
            let answer = read(&place);
            Some((place, answer))
        })?
    }

    /// Inserts in one transaction, and returns how many nodes were split; none if transactions gave
    /// up, or there are none.
    pub(super) fn insert_in_transaction(
        &self,
        relax: &impl Fn(),
        separator: K::Ref<'_>,
        entry: Entry,
    ) -> Option<u64> {
        self.change_in_transaction(relax, |attempt, held| {
            let (path, _) = self.tree.path(separator, &mut Alone);
            attempt.decided()?;
            Ok(self.tree.insert_at(&path, entry, held))
        })
    }

    /// Removes in one transaction; none if transactions gave up, or there are none.
    pub(super) fn remove_in_transaction(&self, relax: &impl Fn(), key: K::Ref<'_>) -> Option<bool> {
        self.change_in_transaction(relax, |attempt, held| {
            let (path, _) = self.tree.path(key, &mut Alone);
            attempt.decided()?;
            Ok(self.tree.remove_at(&path, held))
        })
    }

    /// The locks that the change takes are free, for their holders have the fallback lock; they are
    /// free again when it is seen, and only the versions tell of it. What it asks of the system's
    /// allocator may abort it, and so may its size: the fallback sees to that.
    fn change_in_transaction<T>(
        &self,
        relax: &impl Fn(),
        change: impl Fn(&Attempt, &mut Held<'_, K, CAPACITY, fn()>) -> Result<T, Aborted>,
    ) -> Option<T> {
        if !self.is_transactional() {
            return None;
        }
        let mut held = Held::new(&self.tree, std::hint::spin_loop as fn());
        self.transactions.change(&|| self.is_held(), relax, |attempt| {
            let done = change(attempt, &mut held)?;
            held.unlock();
            Ok(done)
        })
    }
}
