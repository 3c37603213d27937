//! All leaves are known (after a crash): nodes are written from left to right, each once.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::DramSource;

use super::{Entry, Inner, InnerError, InnerKey, Kept};
use crate::support::parallel::shared_out;

impl<K: InnerKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// Builds the tree over a first child, which covers all that is below the first separator, and the others with
    /// their separators, ascending. Nodes are filled to `fill_percent` (1 to 100) of their capacity.
    ///
    /// # Errors
    /// [`InnerError::Order`] if separators do not ascend strictly from above the smallest key; [`InnerError::Memory`],
    /// [`InnerError::TooLong`].
    pub fn build<'a, 'd>(
        dram: impl Into<DramSource<'d>>,
        first_child: u64,
        others: impl Iterator<Item = (K::Ref<'a>, u64)>,
        fill_percent: usize,
    ) -> Result<Self, InnerError> {
        let others: Vec<_> = others.collect();
        Self::build_on_threads(
            dram,
            first_child,
            others.len() + 1,
            1,
            vec![(others.len(), || others.iter().copied())],
            fill_percent,
        )
    }

    /// The same by several threads, which take a share of the children at a time, sorted, and make the bottom nodes above them. Every share is above
    /// the one before it, and comes with about its length. `most`: children at most, so that memory is set aside for all nodes at once.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_on_threads<'a, 'd, I: Iterator<Item = (K::Ref<'a>, u64)>>(
        dram: impl Into<DramSource<'d>>,
        first_child: u64,
        most: usize,
        threads: usize,
        shares: Vec<(usize, impl FnOnce() -> I + Send)>,
        fill_percent: usize,
    ) -> Result<Self, InnerError> {
        let inner = Self::new(dram, first_child)?;
        let slots = (CAPACITY * fill_percent / 100).clamp(2, CAPACITY);
        // Each share may end with a node that is not full. Memory is taken once: to make a small arena larger costs more than to make it.
        let bottom = most.div_ceil(slots) + shares.len();
        let above = std::iter::successors(Some(bottom), |nodes| (*nodes > 1).then(|| nodes.div_ceil(slots))).skip(1);
        inner.nodes.reserve(bottom + above.sum::<usize>())?;
        let page = AtomicUsize::new(0);
        let bottom_of = |(number, (length, share))| {
            let (inner, page, first) = (&inner, &page, (number == 0).then_some(first_child));
            let work = move || {
                while inner.nodes.arena.fault_in(page.fetch_add(1, Relaxed)) {}
                Bottom::new(inner, slots, first, length).fill(share)
            };
            (length, work)
        };
        let bottoms = shared_out(threads, shares.into_iter().enumerate().map(bottom_of).collect());
        let mut levels = Levels { pending: Vec::new(), slots };
        let (mut last, mut children) = (None, 0);
        for bottom in bottoms {
            let bottom = bottom?;
            let Some((lowest, highest)) = bottom.ends else { continue };
            if last.is_some_and(|last| {
                K::compare(&inner.separators, last, K::borrow(&K::owned(&inner.separators, lowest)), 0).is_ge()
            }) {
                return Err(InnerError::Order);
            }
            (last, children) = (Some(highest), children + bottom.children);
            bottom.nodes.into_iter().try_for_each(|node| levels.push(&inner, 0, node))?;
        }
        inner.len.store(children.max(1), Relaxed);
        match children {
            // Without an inner node the root leads to the child itself.
            ..=1 => levels.pending.iter().flatten().for_each(|entry| inner.nodes.free(entry.child as u32)),
            _ => levels.finish(&inner)?,
        }
        Ok(inner)
    }
}

/// The nodes above a share of the children.
struct Bottom<'i, K: InnerKey, const CAPACITY: usize> {
    inner: &'i Inner<K, CAPACITY>,
    slots: usize,
    /// Nodes that were taken for the share, the next one last.
    taken: Vec<u32>,
    /// Entries of the last node, which is not written yet.
    pending: Vec<Entry>,
    /// The nodes that are written, with their separators.
    nodes: Vec<Entry>,
    /// The first and the last separator.
    ends: Option<(Kept, Kept)>,
    children: u64,
}

impl<'i, K: InnerKey, const CAPACITY: usize> Bottom<'i, K, CAPACITY> {
    /// `first`: the child that covers all that is below the first separator, for the leftmost share. `length`: of the share.
    fn new(inner: &'i Inner<K, CAPACITY>, slots: usize, first: Option<u64>, length: usize) -> Self {
        let taken = inner.nodes.allocate_many(length.div_ceil(slots));
        let (pending, nodes) = (Vec::with_capacity(slots), Vec::new());
        let mut bottom = Self { inner, slots, taken, pending, nodes, ends: None, children: 0 };
        if let Some(child) = first {
            bottom.push(Entry { kept: Kept::default(), child });
        }
        bottom
    }

    fn push(&mut self, entry: Entry) {
        if self.pending.len() == self.slots {
            self.write();
        }
        self.pending.push(entry);
        self.ends = Some((self.ends.map_or(entry.kept, |(lowest, _)| lowest), entry.kept));
        self.children += 1;
    }

    /// Writes the pending node. Its memory was set aside, also where it is one more than was taken.
    fn write(&mut self) {
        let node = self.taken.pop().unwrap_or_else(|| self.inner.nodes.allocate());
        self.inner.nodes.write_entries(&self.inner.separators, node, &self.pending);
        self.nodes.push(Entry { kept: self.pending[0].kept, child: u64::from(node) });
        self.pending.clear();
    }

    fn fill<'a, I: Iterator<Item = (K::Ref<'a>, u64)>>(mut self, share: impl FnOnce() -> I) -> Result<Self, InnerError> {
        for (separator, child) in share() {
            if self.ends.is_some_and(|(_, last)| K::compare(&self.inner.separators, last, separator, 0).is_ge()) {
                return Err(InnerError::Order);
            }
            let handle = K::keep(&self.inner.separators, separator)?;
            self.push(Entry { kept: Kept { word: K::word(separator, 0), handle }, child });
        }
        if !self.pending.is_empty() {
            self.write();
        }
        self.taken.drain(..).for_each(|node| self.inner.nodes.free(node));
        Ok(self)
    }
}

/// For each level above the bottom nodes the entries of its last node, which is not written yet.
struct Levels {
    pending: Vec<Vec<Entry>>,
    slots: usize,
}

impl Levels {
    /// Adds an entry at the end of a level; a full node before it is written.
    fn push<K: InnerKey, const C: usize>(&mut self, inner: &Inner<K, C>, level: usize, entry: Entry) -> Result<(), InnerError> {
        if self.pending.len() == level {
            self.pending.push(Vec::with_capacity(self.slots));
        }
        if self.pending[level].len() == self.slots {
            self.write(inner, level)?;
        }
        self.pending[level].push(entry);
        Ok(())
    }

    /// Writes the pending node of a level and tells its parent.
    fn write<K: InnerKey, const C: usize>(&mut self, inner: &Inner<K, C>, level: usize) -> Result<(), InnerError> {
        inner.nodes.reserve(1)?;
        let node = inner.nodes.allocate();
        inner.nodes.write_entries(&inner.separators, node, &self.pending[level]);
        let kept = self.pending[level][0].kept;
        self.pending[level].clear();
        self.push(inner, level + 1, Entry { kept, child: u64::from(node) })
    }

    /// Writes the last node of every level; the only entry of the topmost level leads to the root.
    fn finish<K: InnerKey, const C: usize>(mut self, inner: &Inner<K, C>) -> Result<(), InnerError> {
        let mut level = 0;
        while level + 1 < self.pending.len() || self.pending[level].len() > 1 {
            self.write(inner, level)?;
            level += 1;
        }
        inner.set_root(self.pending[level][0].child as u32, level as u32 + 1);
        Ok(())
    }
}
