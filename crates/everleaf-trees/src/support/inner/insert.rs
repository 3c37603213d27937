//! A leaf was split: its right part becomes a child of its own.

use super::{Entry, Inner, InnerError, InnerKey, Kept};

impl<K: InnerKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// Makes sure that one [`insert`](Inner::insert) of a separator finds the memory for nodes that it needs. To be called
    /// before a split is made durable, so that the split cannot end half-done for want of memory.
    ///
    /// # Errors
    /// [`InnerError::Memory`].
    pub fn reserve(&mut self) -> Result<(), InnerError> {
        Ok(self.nodes.reserve(self.height as usize + 1)?)
    }

    /// Adds the child whose lower bound is `separator`; it takes over the keys from there on from the child that covered them.
    /// Returns how many inner nodes were split.
    ///
    /// # Errors
    /// [`InnerError::Order`] if a child has this lower bound already (the first child has the smallest key);
    /// [`InnerError::Memory`], [`InnerError::TooLong`]. The tree is unchanged then.
    pub fn insert(&mut self, separator: K::Ref<'_>, child: u64) -> Result<u64, InnerError> {
        self.reserve()?;
        let (path, _) = self.path(separator);
        let covering = match self.height {
            0 => Kept::default(),
            height => {
                let (node, slot) = path.0[height as usize - 1];
                self.nodes.kept(node, slot as usize)
            }
        };
        if K::compare(&self.separators, covering, separator, 0).is_ge() {
            return Err(InnerError::Order);
        }
        let handle = K::keep(&mut self.separators, separator)?;
        let mut entry = Entry { kept: Kept { word: K::word(separator, 0), handle }, child };
        self.len += 1;
        let depths = self.height as usize;
        // At the right edge of the whole tree keys ascend: nodes are left full there instead of half full.
        let ascending = path.0[..depths].iter().all(|(node, slot)| *slot as usize + 1 == self.nodes.count(*node));
        let mut splits = 0;
        for (node, slot) in path.0[..depths].iter().rev() {
            match self.insert_into(*node, *slot as usize + 1, entry, ascending) {
                None => return Ok(splits),
                Some(right) => entry = right,
            }
            splits += 1;
        }
        let left = Entry { kept: Kept::default(), child: self.root };
        let root = self.nodes.allocate();
        self.nodes.write_entries(&self.separators, root, &[left, entry]);
        self.root = u64::from(root);
        self.height += 1;
        Ok(splits)
    }

    /// Inserts into a node; a full one is split, and the entry of its right part is returned.
    fn insert_into(&mut self, node: u32, slot: usize, entry: Entry, ascending: bool) -> Option<Entry> {
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
        Some(Entry { kept: right[0].kept, child: u64::from(right_node) })
    }
}
