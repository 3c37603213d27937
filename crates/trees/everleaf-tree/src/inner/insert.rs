//! A leaf was split: its right part becomes a child of its own.

use std::sync::atomic::Ordering::Relaxed;

use super::latches::{Alone, Latches};
use super::{Entry, Inner, InnerError, Path};
use crate::key::{Kept, TreeKey};

impl<K: TreeKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// Makes sure that one [`insert`](Inner::insert) of a separator finds the memory for nodes that
    /// it needs. To be called before a split is made durable, so that the split cannot end
    /// half-done for want of memory.
    ///
    /// # Errors
    /// [`InnerError::Memory`].
    pub fn reserve(&mut self) -> Result<(), InnerError> {
        Ok(self.nodes.reserve(self.height() as usize + 1)?)
    }

    /// Adds the child whose lower bound is `separator`; it takes over the keys from there on from
    /// the child that covered them. Returns how many inner nodes were split.
    ///
    /// # Errors
    /// [`InnerError::Order`] if a child has this lower bound already (the first child has the
    /// smallest key); [`InnerError::Memory`], [`InnerError::TooLong`]. The tree is unchanged then.
    pub fn insert(&mut self, separator: K::Ref<'_>, child: u64) -> Result<u64, InnerError> {
        self.reserve()?;
        let (path, _) = self.path(separator, &mut Alone);
        let covering = match self.height() {
            0 => Kept::default(),
            height => {
                let (node, slot) = path.0[height as usize - 1];
                self.nodes.kept(node, slot as usize)
            }
        };
        if K::compare_kept(&self.separators, covering, separator, 0).is_ge() {
            return Err(InnerError::Order);
        }
        let handle = K::keep(&self.separators, separator)?;
        let entry = Entry { kept: Kept { word: K::word(separator, 0), handle }, child };
        let splits = self.insert_at(&path, entry, &mut Alone);
        self.tend_directory();
        Ok(splits)
    }

    /// Inserts an entry after those that the path leads to, and returns how many nodes were split.
    /// Memory must be reserved.
    pub(super) fn insert_at(
        &self,
        path: &Path,
        mut entry: Entry,
        latches: &mut impl Latches,
    ) -> u64 {
        self.len.fetch_add(1, Relaxed);
        let depths = self.height() as usize;
        // At the right edge of the whole tree keys ascend: nodes are left full there instead of
        // half full.
        let ascending = path.0[..depths]
            .iter()
            .all(|(node, slot)| *slot as usize + 1 == self.nodes.count(*node));
        let mut splits = 0;
        for (node, slot) in path.0[..depths].iter().rev() {
            latches.change(*node);
            let is_bottom = splits == 0;
            match self.insert_into((*node, is_bottom), *slot as usize + 1, entry, ascending) {
                None => return splits,
                Some(right) => entry = right,
            }
            splits += 1;
        }
        let (left, height) = self.top();
        let root = self.nodes.allocate();
        self.nodes.write_entries(
            &self.separators,
            root,
            &[Entry { kept: Kept::default(), child: left }, entry],
        );
        if height == 0 && !K::RECORDS {
            self.nodes.head(root).set_last(u64::MAX);
        }
        self.set_root(root, height + 1);
        splits
    }

    /// Inserts into a node; a full one is split, and the entry of its right part is returned.
    fn insert_into(
        &self,
        (node, is_bottom): (u32, bool),
        slot: usize,
        entry: Entry,
        ascending: bool,
    ) -> Option<Entry> {
        let count = self.nodes.count(node);
        if count < CAPACITY {
            self.nodes.insert_entry(&self.separators, node, slot, entry);
            return None;
        }
        let mut entries = Vec::with_capacity(count + 1);
        self.nodes.read_entries(node, &mut entries);
        entries.insert(slot, entry);
        let (left, right) = entries.split_at(if ascending { count } else { count.div_ceil(2) });
        let right_node = self.nodes.allocate();
        self.nodes.write_entries(&self.separators, node, left);
        self.nodes.write_entries(&self.separators, right_node, right);
        if is_bottom && !K::RECORDS {
            self.share_out(node, right_node);
        }
        Some(Entry { kept: right[0].kept, child: u64::from(right_node) })
    }

    /// The second of two bottom nodes of numbers takes over what the first one covers from the
    /// second one's first number on.
    fn share_out(&self, left: u32, right: u32) {
        let (first, last) = (self.nodes.word(right, 0), self.nodes.head(left).last());
        self.nodes.head(right).set_last(last);
        self.nodes.head(left).set_last(first - 1);
        self.directory.set(first, last, right);
    }
}
