//! Spreading the entries of neighbouring parents evenly, and rebuilding all inner nodes from the
//! parents.

use std::ops::Range;

use everleaf_index::{IndexError, Result};

use super::keys::{Keys, zeros};
use super::{Inner, Level, no_array};
use everleaf_tree::key::{Kept, TreeKey};

/// The whole array is rebuilt when more than this part of its places is taken: five eighths.
const FULL_PART: (usize, usize) = (5, 8);
/// It is rebuilt when a parent is empty and less than this part is taken: an eighth.
const EMPTY_PART: (usize, usize) = (1, 8);

impl<K: TreeKey> Inner<K> {
    /// Makes room around a full parent.
    #[cold]
    pub(super) fn relieve(&mut self, parent: usize) -> Result<()> {
        let top = self.levels.len();
        for level in 1..=top {
            let part = self.part(parent, level);
            let (parents, entries) = (part.len(), self.entries_in(part.clone()));
            // Afterwards no parent may be full, so the limits begin below that. They are apart from
            // level to level, else a part that was spread would be full at once, again and again.
            let (most, of) = FULL_PART;
            let one = self.fanout - 1;
            let limit = parents * (one * top - (one - self.fanout * most / of) * level) / top;
            if parents > 1 && entries < limit {
                self.spread(part);
                return Ok(());
            }
        }
        self.rebuild()
    }

    /// Fills an empty parent from its neighbours.
    #[cold]
    pub(super) fn refill(&mut self, parent: usize) {
        let top = self.levels.len();
        for level in 1..=top {
            let part = self.part(parent, level);
            let (parents, entries) = (part.len(), self.entries_in(part.clone()));
            let (least, of) = EMPTY_PART;
            let limit = parents * self.fanout * least * level / (of * top);
            // Afterwards no parent is empty.
            if entries >= limit.max(parents) {
                self.spread(part);
                return;
            }
        }
        // Without memory for smaller arrays the parent stays empty: searches pass over it.
        let _ = self.rebuild();
    }

    /// The parents below the inner node of this level that is above `parent`.
    fn part(&self, parent: usize, level: usize) -> Range<usize> {
        let parents = self.fanout.saturating_pow(level as u32);
        let first = parent / parents * parents;
        first..first.saturating_add(parents).min(self.counts.len())
    }

    fn entries_in(&self, parents: Range<usize>) -> usize {
        if parents.len() == self.counts.len() {
            return self.len;
        }
        self.counts[parents].iter().map(|count| *count as usize).sum()
    }

    /// The entries of some parents, in their order.
    fn collect(&self, parents: Range<usize>) -> Vec<(Kept, u64)> {
        let mut entries = Vec::with_capacity(self.entries_in(parents.clone()));
        for parent in parents {
            let start = parent * self.fanout;
            let places = start..start + self.counts[parent] as usize;
            entries.extend(places.map(|at| (self.bounds.get(at), self.leaves[at])));
        }
        entries
    }

    /// Spreads the entries of some parents evenly over them. The key of the first parent stays,
    /// and with it all that is outside.
    fn spread(&mut self, parents: Range<usize>) {
        let entries = self.collect(parents.clone());
        self.moves.spreads += 1;
        self.moves.entries += entries.len() as u64;
        for parent in parents.clone().skip(1) {
            self.release_orphan(parent);
        }
        self.place(entries.into_iter(), parents);
    }

    /// Gives the key of a parent back if it is no leaf's.
    fn release_orphan(&mut self, parent: usize) {
        if let Some(level) = self.levels.first()
            && std::mem::take(&mut self.orphans[parent])
        {
            let handle = self.keys.get(level.start + parent).handle;
            K::release(&self.separators, handle);
        }
    }

    /// Puts entries into some parents, as many into each, and makes the keys of all but the first
    /// those of their first entries.
    fn place(
        &mut self,
        mut entries: impl ExactSizeIterator<Item = (Kept, u64)>,
        parents: Range<usize>,
    ) {
        let (each, more) = (entries.len() / parents.len(), entries.len() % parents.len());
        for (number, parent) in parents.clone().enumerate() {
            let (count, start) = (each + usize::from(number < more), parent * self.fanout);
            for (at, (kept, leaf)) in (start..).zip(entries.by_ref().take(count)) {
                self.bounds.set(at, kept);
                self.leaves[at] = leaf;
            }
            self.counts[parent] = count as u32;
            if number == 0 || count == 0 {
                continue;
            }
            let key = self.bounds.get(start);
            let mut node = parent;
            for level in &self.levels {
                self.keys.set(level.start + node, key);
                // It is also the key of the node above if it is its first child.
                if !node.is_multiple_of(self.fanout) {
                    break;
                }
                node /= self.fanout;
            }
        }
    }

    /// Builds all inner nodes anew from the entries of the parents.
    #[cold]
    pub(in super::super) fn rebuild(&mut self) -> Result<()> {
        let entries = self.collect(0..self.counts.len());
        self.moves.entries += entries.len() as u64;
        self.lay_out(entries.into_iter())?;
        self.moves.rebuilds += 1;
        Ok(())
    }

    /// Replaces all inner nodes by new ones over these entries, with parents half full.
    pub(super) fn lay_out(
        &mut self,
        entries: impl ExactSizeIterator<Item = (Kept, u64)>,
    ) -> Result<()> {
        if entries.len() == 0 {
            return Err(IndexError::Corrupt { offset: 0, what: "a tree has no leaf" });
        }
        let parents = entries.len().div_ceil(self.fanout / 2);
        let (mut levels, mut start, mut len) = (Vec::new(), 0, parents);
        while len > 1 {
            levels.push(Level { start, len });
            start += len;
            len = len.div_ceil(self.fanout);
        }
        let places = parents.saturating_mul(self.fanout);
        let keys = Keys::with_len::<K>(start).map_err(no_array)?;
        let bounds = Keys::with_len::<K>(places).map_err(no_array)?;
        let leaves = zeros(places).map_err(no_array)?;
        let (counts, orphans) =
            (zeros(parents).map_err(no_array)?, zeros(parents).map_err(no_array)?);
        for parent in 0..self.counts.len() {
            self.release_orphan(parent);
        }
        (self.levels, self.keys, self.bounds) = (levels, keys, bounds);
        (self.leaves, self.counts, self.orphans) = (leaves, counts, orphans);
        self.len = entries.len();
        self.place(entries, 0..parents);
        Ok(())
    }
}
