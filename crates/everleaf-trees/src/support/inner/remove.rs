//! A leaf became empty: its range falls to its left neighbour.

use super::{Entry, Inner, InnerKey, Path};

impl<K: InnerKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// A node with fewer slots is merged with a neighbour, or shares the neighbour's.
    const FEW: usize = if CAPACITY / 4 > 2 { CAPACITY / 4 } else { 2 };
    /// Merged nodes keep some room for inserts.
    const MERGED: usize = CAPACITY - CAPACITY / 8;

    /// Removes the child that covers `key`; its left neighbour covers its range from now on. False, and nothing is done, if it
    /// is the first child: that one cannot go.
    pub fn remove(&mut self, key: K::Ref<'_>) -> bool {
        let (path, _) = self.path(key);
        let mut depth = self.height as usize;
        if path.0[..depth].iter().all(|(_, slot)| *slot == 0) {
            return false;
        }
        depth -= 1;
        let removed = self.nodes.kept(path.0[depth].0, path.0[depth].1 as usize);
        // Nodes that become empty go. The root does not: the child is not the first.
        while self.nodes.count(path.0[depth].0) == 1 {
            self.nodes.free(path.0[depth].0);
            depth -= 1;
        }
        let (node, slot) = path.0[depth];
        self.nodes.remove_entry(node, slot as usize);
        if slot == 0 {
            self.pass_lower_bound_up(&path, depth);
        }
        self.refill(&path, depth);
        self.lower_root();
        K::release(&mut self.separators, removed.handle);
        self.len -= 1;
        true
    }

    /// The node at `depth` has a new first separator: its ancestors must say so, up to the one where it is not in the first slot.
    fn pass_lower_bound_up(&mut self, path: &Path, depth: usize) {
        let lower_bound = self.nodes.kept(path.0[depth].0, 0);
        for (node, slot) in path.0[..depth].iter().rev() {
            self.nodes.set_separator(&self.separators, *node, *slot as usize, lower_bound);
            if *slot > 0 {
                break;
            }
        }
    }

    /// Merges the node at `depth`, and then its ancestors, with a neighbour while they have few slots.
    fn refill(&mut self, path: &Path, mut depth: usize) {
        while depth > 0 && self.nodes.count(path.0[depth].0) < Self::FEW {
            let (parent, slot) = path.0[depth - 1];
            let siblings = self.nodes.count(parent);
            if siblings < 2 {
                return;
            }
            let right_slot = (slot as usize + 1).min(siblings - 1);
            let [left, right] = [right_slot - 1, right_slot].map(|slot| self.nodes.child(parent, slot) as u32);
            let mut entries = Vec::with_capacity(2 * CAPACITY);
            self.nodes.read_entries(left, &mut entries);
            self.nodes.read_entries(right, &mut entries);
            if entries.len() > Self::MERGED {
                self.share(parent, right_slot, &entries);
                return;
            }
            self.nodes.free(right);
            self.nodes.remove_entry(parent, right_slot);
            self.nodes.write_entries(&self.separators, left, &entries);
            depth -= 1;
        }
    }

    /// Gives half of the entries to the child in `right_slot`, the others to the one before it.
    fn share(&mut self, parent: u32, right_slot: usize, entries: &[Entry]) {
        if self.nodes.reserve(1).is_err() {
            return; // The halves may take one segment more than before; a node with few slots does no harm.
        }
        let (first, second) = entries.split_at(entries.len() / 2);
        let [left, right] = [right_slot - 1, right_slot].map(|slot| self.nodes.child(parent, slot) as u32);
        // The one that shrinks first: it gives back the segments that the other takes.
        if self.nodes.count(left) > first.len() {
            self.nodes.write_entries(&self.separators, left, first);
            self.nodes.write_entries(&self.separators, right, second);
        } else {
            self.nodes.write_entries(&self.separators, right, second);
            self.nodes.write_entries(&self.separators, left, first);
        }
        self.nodes.set_separator(&self.separators, parent, right_slot, second[0].kept);
    }

    /// A root with one child is one too many.
    fn lower_root(&mut self) {
        while self.height > 0 && self.nodes.count(self.root as u32) == 1 {
            let only = self.nodes.child(self.root as u32, 0);
            self.nodes.free(self.root as u32);
            self.root = only;
            self.height -= 1;
        }
    }
}
