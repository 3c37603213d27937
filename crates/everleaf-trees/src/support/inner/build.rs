//! All leaves are known (after a crash): nodes are written from left to right, each once.

use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::DramSource;

use super::{Entry, Inner, InnerError, InnerKey, Kept};

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
        let inner = Self::new(dram, first_child)?;
        let slots = (CAPACITY * fill_percent / 100).clamp(2, CAPACITY);
        inner.nodes.reserve(others.size_hint().0.div_ceil(slots))?;
        let mut levels = Levels { pending: vec![Vec::with_capacity(slots)], slots };
        levels.pending[0].push(Entry { kept: Kept::default(), child: first_child });
        let mut last = Kept::default();
        let mut children = 1;
        for (separator, child) in others {
            if K::compare(&inner.separators, last, separator, 0).is_ge() {
                return Err(InnerError::Order);
            }
            let handle = K::keep(&inner.separators, separator)?;
            last = Kept { word: K::word(separator, 0), handle };
            levels.push(&inner, 0, Entry { kept: last, child })?;
            children += 1;
        }
        levels.finish(&inner)?;
        inner.len.store(children, Relaxed);
        Ok(inner)
    }
}

/// For each level, from the one above the leaves, the entries of its last node, which is not written yet.
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
        if level > 0 {
            inner.set_root(self.pending[level][0].child as u32, level as u32);
        }
        Ok(())
    }
}
