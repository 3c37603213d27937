//! All leaves are known (after a crash): nodes are written from left to right, each once. Several
//! threads make the bottom nodes, each above a part of the leaves at a time; one makes what is
//! above them. Their memory can be taken while the leaves are still being looked for.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::DramSource;

use super::{Entry, Inner, InnerError};
use crate::key::{Kept, TreeKey};

impl<K: TreeKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// Builds the tree over a first child, which covers all that is below the first separator, and
    /// the others with their separators, ascending. Nodes are filled to `fill_percent` (1 to 100)
    /// of their capacity.
    ///
    /// # Errors
    /// [`InnerError::Order`] if separators do not ascend strictly from above the smallest key;
    /// [`InnerError::Memory`], [`InnerError::TooLong`].
    pub fn build<'a, 'd>(
        dram: impl Into<DramSource<'d>>,
        first_child: u64,
        others: impl Iterator<Item = (K::Ref<'a>, u64)>,
        fill_percent: usize,
    ) -> Result<Self, InnerError> {
        let others: Vec<_> = others.collect();
        let building = Building::begin(dram, fill_percent)?;
        building.plan(first_child, others.len() + 1, 1)?;
        let bottom = building.bottom(0, others.len(), others.into_iter())?;
        building.end(vec![bottom])
    }
}

/// A tree that is built above parts of its children: several threads at a time make the
/// [`bottom`](Building::bottom) nodes above a part each, then one [ends](Building::end) it.
///
/// ```
/// use everleaf_index::U64Keys;
/// use everleaf_pmem::Cpu;
/// use everleaf_tree::inner::Building;
///
/// let building = Building::<U64Keys, 64>::begin(Cpu::detect().simd(), 85)?;
/// building.plan(1000, 3, 2)?;
/// let low = building.bottom(0, 1, [(50, 2000)].into_iter())?;
/// let high = building.bottom(1, 1, [(90, 3000)].into_iter())?;
/// let inner = building.end(vec![low, high])?;
/// assert_eq!((inner.find(49), inner.find(50), inner.find(90)), (1000, 2000, 3000));
/// # Ok::<(), everleaf_tree::inner::InnerError>(())
/// ```
#[derive(Debug)]
pub struct Building<K: TreeKey, const CAPACITY: usize> {
    inner: Inner<K, CAPACITY>,
    /// Slots that are filled of a node.
    slots: usize,
    /// The huge page of the nodes' memory that is to be faulted in next.
    page: AtomicUsize,
}

/// The bottom nodes above a part of the children.
#[derive(Debug)]
pub struct Bottom {
    /// The nodes, with their separators.
    nodes: Vec<Entry>,
    /// The first and the last separator of the part.
    ends: Option<(Kept, Kept)>,
    children: u64,
}

impl<K: TreeKey, const CAPACITY: usize> Building<K, CAPACITY> {
    /// Begins a tree whose nodes will be filled to `fill_percent` (1 to 100) of their capacity.
    /// Takes no memory yet.
    ///
    /// # Errors
    /// [`InnerError::Memory`] when the system has no addresses.
    pub fn begin<'d>(
        dram: impl Into<DramSource<'d>>,
        fill_percent: usize,
    ) -> Result<Self, InnerError> {
        let slots = (CAPACITY * fill_percent / 100).clamp(2, CAPACITY);
        Ok(Self { inner: Inner::new(dram, 0)?, slots, page: AtomicUsize::new(0) })
    }

    /// Takes memory for the nodes above so many children, where that is more than half a huge page.
    /// The system zeroes a huge page when it is first used, which takes half a millisecond, or some
    /// milliseconds where the machine is virtual and its host must find the memory first: a thread
    /// that sees to it while others can take over its work keeps no thread waiting. To be called
    /// with more and more children as they become known, by one thread at a time. Where there is no
    /// memory, [`plan`](Building::plan) says so.
    pub fn expect(&self, children: usize) {
        let nodes = children.div_ceil(self.slots);
        if self.inner.nodes.fill_huge_pages(nodes) && self.inner.nodes.reserve(nodes).is_ok() {
            self.fault_in();
        }
    }

    /// Plans a tree over a first child, which covers all that is below the first separator; `most`
    /// children at most, in so many parts, so that memory is set aside for all nodes at once.
    /// After all expecting has ended.
    ///
    /// # Errors
    /// [`InnerError::Memory`].
    pub fn plan(&self, first_child: u64, most: usize, parts: usize) -> Result<(), InnerError> {
        // Each part may end with a node that is not full. A small arena is made at once: to make
        // it larger costs more than to make it.
        let bottom = most.div_ceil(self.slots) + parts;
        let above = std::iter::successors(Some(bottom), |nodes| {
            (*nodes > 1).then(|| nodes.div_ceil(self.slots))
        })
        .skip(1);
        self.inner.nodes.reserve(bottom + above.sum::<usize>())?;
        self.inner.only_child.store(first_child, Relaxed);
        Ok(())
    }

    /// Takes memory for separators of so many words.
    pub fn expect_separators(&self, words: u64) {
        K::expect(&self.inner.separators, words);
    }

    /// Takes part in faulting the memory of the nodes in: each huge page is zeroed by one of the
    /// threads that do this.
    pub fn fault_in(&self) {
        let arena = &self.inner.nodes.arena;
        let next = |page: usize| (page < arena.huge_pages()).then_some(page + 1);
        while let Ok(page) = self.page.fetch_update(Relaxed, Relaxed, next) {
            arena.fault_in(page);
        }
    }

    /// Makes the nodes above a part of the children, which come with their separators, ascending.
    /// `number`: of the part, from 0 on; every part is above the one before it. `length`: about
    /// how many there are. For each of the parts that were planned, once: the first child is in
    /// part 0, and no memory is set aside for more.
    ///
    /// # Errors
    /// As [`Inner::build`].
    pub fn bottom<'a>(
        &self,
        number: usize,
        length: usize,
        children: impl Iterator<Item = (K::Ref<'a>, u64)>,
    ) -> Result<Bottom, InnerError> {
        let separators = &self.inner.separators;
        let mut row = Row::new(self, length);
        if number == 0 {
            row.push(Entry { kept: Kept::default(), child: self.inner.only_child.load(Relaxed) });
        }
        for (separator, child) in children {
            if row
                .made
                .ends
                .is_some_and(|(_, last)| K::compare_kept(separators, last, separator, 0).is_ge())
            {
                return Err(InnerError::Order);
            }
            let handle = K::keep(separators, separator)?;
            row.push(Entry { kept: Kept { word: K::word(separator, 0), handle }, child });
        }
        Ok(row.end())
    }

    /// The tree, from the bottom nodes above all `parts` in their order.
    ///
    /// # Errors
    /// As [`Inner::build`].
    pub fn end(self, parts: Vec<Bottom>) -> Result<Inner<K, CAPACITY>, InnerError> {
        let Self { inner, slots, .. } = self;
        let mut levels = Levels { pending: Vec::new(), slots };
        let (mut last, mut children) = (None, 0);
        let mut bottoms = Vec::with_capacity(parts.iter().map(|bottom| bottom.nodes.len()).sum());
        for bottom in parts {
            let Some((lowest, highest)) = bottom.ends else { continue };
            if last.is_some_and(|last| {
                K::compare_kept(
                    &inner.separators,
                    last,
                    K::borrow(&K::copy_kept(&inner.separators, lowest)),
                    0,
                )
                .is_ge()
            }) {
                return Err(InnerError::Order);
            }
            (last, children) = (Some(highest), children + bottom.children);
            for node in bottom.nodes {
                bottoms.push((node.kept.word, node.child as u32));
                levels.push(&inner, 0, node)?;
            }
        }
        inner.len.store(children.max(1), Relaxed);
        match children {
            // Without an inner node the root leads to the child itself.
            ..=1 => levels
                .pending
                .iter()
                .flatten()
                .for_each(|entry| inner.nodes.free(entry.child as u32)),
            _ => {
                levels.finish(&inner)?;
                inner.enter_bottoms(&bottoms);
            }
        }
        Ok(inner)
    }
}

/// Bottom nodes that are being written.
struct Row<'b, K: TreeKey, const CAPACITY: usize> {
    building: &'b Building<K, CAPACITY>,
    /// Nodes that were taken for the part, the next one last.
    taken: Vec<u32>,
    /// Entries of the last node, which is not written yet.
    pending: Vec<Entry>,
    made: Bottom,
}

impl<'b, K: TreeKey, const CAPACITY: usize> Row<'b, K, CAPACITY> {
    fn new(building: &'b Building<K, CAPACITY>, length: usize) -> Self {
        let nodes = length.div_ceil(building.slots);
        let made = Bottom { nodes: Vec::with_capacity(nodes), ends: None, children: 0 };
        Self {
            building,
            taken: building.inner.nodes.allocate_many(nodes),
            pending: Vec::with_capacity(building.slots),
            made,
        }
    }

    fn push(&mut self, entry: Entry) {
        if self.pending.len() == self.building.slots {
            self.write();
        }
        self.pending.push(entry);
        self.made.ends =
            Some((self.made.ends.map_or(entry.kept, |(lowest, _)| lowest), entry.kept));
        self.made.children += 1;
    }

    /// Writes the pending node. Its memory was set aside, also where it is one more than was taken.
    fn write(&mut self) {
        let inner = &self.building.inner;
        let node = self.taken.pop().unwrap_or_else(|| inner.nodes.allocate());
        inner.nodes.write_entries(&inner.separators, node, &self.pending);
        self.made.nodes.push(Entry { kept: self.pending[0].kept, child: u64::from(node) });
        self.pending.clear();
    }

    fn end(mut self) -> Bottom {
        if !self.pending.is_empty() {
            self.write();
        }
        self.taken.into_iter().for_each(|node| self.building.inner.nodes.free(node));
        self.made
    }
}

/// For each level above the bottom nodes the entries of its last node, which is not written yet.
struct Levels {
    pending: Vec<Vec<Entry>>,
    slots: usize,
}

impl Levels {
    /// Adds an entry at the end of a level; a full node before it is written.
    fn push<K: TreeKey, const C: usize>(
        &mut self,
        inner: &Inner<K, C>,
        level: usize,
        entry: Entry,
    ) -> Result<(), InnerError> {
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
    fn write<K: TreeKey, const C: usize>(
        &mut self,
        inner: &Inner<K, C>,
        level: usize,
    ) -> Result<(), InnerError> {
        inner.nodes.reserve(1)?;
        let node = inner.nodes.allocate();
        inner.nodes.write_entries(&inner.separators, node, &self.pending[level]);
        let kept = self.pending[level][0].kept;
        self.pending[level].clear();
        self.push(inner, level + 1, Entry { kept, child: u64::from(node) })
    }

    /// Writes the last node of every level; the only entry of the topmost level leads to the root.
    fn finish<K: TreeKey, const C: usize>(mut self, inner: &Inner<K, C>) -> Result<(), InnerError> {
        let mut level = 0;
        while level + 1 < self.pending.len() || self.pending[level].len() > 1 {
            self.write(inner, level)?;
            level += 1;
        }
        inner.set_root(self.pending[level][0].child as u32, level as u32 + 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use everleaf_index::U64Keys;
    use everleaf_pmem::Cpu;

    use super::*;

    #[test]
    fn memory_is_faulted_in_as_children_are_expected() {
        let building = Building::<U64Keys, 64>::begin(Cpu::detect().simd(), 85).unwrap();
        let pages = || (building.page.load(Relaxed), building.inner.nodes.arena.huge_pages());
        building.expect(1000);
        assert_eq!(pages(), (0, 0), "so few are not worth it");
        building.expect(150_000);
        assert_eq!(pages(), (2, 2));
        building.expect(300_000);
        assert_eq!(pages(), (3, 3));
        building.plan(1, 400_000, 1).unwrap();
        assert_eq!(pages(), (3, 4), "the rest is for all threads");
        building.fault_in();
        assert_eq!(pages(), (4, 4));
    }
}
