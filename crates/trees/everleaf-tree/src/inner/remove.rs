//! A leaf became empty: its range falls to its left neighbour.

use std::sync::atomic::Ordering::Relaxed;

use super::latches::{Alone, Latches};
use super::{Entry, Inner, Path};
use crate::key::TreeKey;

impl<K: TreeKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// A node with fewer slots is merged with a neighbour, or shares the neighbour's.
    pub(super) const FEW: usize = if CAPACITY / 4 > 2 { CAPACITY / 4 } else { 2 };
    /// Merged nodes keep some room for inserts.
    const MERGED: usize = CAPACITY - CAPACITY / 8;

    /// Removes the child that covers `key`; its left neighbour covers its range from now on. False,
    /// and nothing is done, if it is the first child: that one cannot go.
    pub fn remove(&mut self, key: K::Ref<'_>) -> bool {
        let (path, _) = self.path(key, &mut Alone);
        let removed = self.remove_at(&path, &mut Alone);
        self.tend_directory();
        removed
    }

    /// Removes the child that the path leads to; false if it is the first.
    pub(super) fn remove_at(&self, path: &Path, latches: &mut impl Latches) -> bool {
        let mut depth = self.height() as usize;
        if path.0[..depth].iter().all(|(_, slot)| *slot == 0) {
            return false;
        }
        depth -= 1;
        let removed = self.nodes.kept(path.0[depth].0, path.0[depth].1 as usize);
        let passed_on = self.passed_on(path.0[depth]);
        // Nodes that become empty go. The root does not: the child is not the first.
        while self.nodes.count(path.0[depth].0) == 1 {
            latches.change(path.0[depth].0);
            self.nodes.free(path.0[depth].0);
            depth -= 1;
        }
        let (node, slot) = path.0[depth];
        latches.change(node);
        self.nodes.remove_entry(node, slot as usize);
        if slot == 0 {
            self.pass_lower_bound_up(path, depth, latches);
        }
        if let Some(last) = passed_on {
            self.cover(removed.word, last, latches);
        }
        K::release(&self.separators, removed.handle);
        self.len.fetch_sub(1, Relaxed);
        self.refill(path, depth, latches);
        self.lower_root(latches);
        true
    }

    /// The last number of a child that is about to go, if another bottom node takes it over: that
    /// of a node's first one.
    fn passed_on(&self, (node, slot): (u32, u32)) -> Option<u64> {
        match self.nodes.count(node) {
            _ if K::RECORDS || slot > 0 => None,
            1 => Some(self.nodes.head(node).last()),
            _ => Some(self.nodes.word(node, 1) - 1),
        }
    }

    /// The bottom node before number `first` covers all from there up to `last`.
    fn cover(&self, first: u64, last: u64, latches: &mut impl Latches) {
        let (path, _) = self.path(K::of(first - 1, &[]), latches);
        let (node, _) = path.0[self.height() as usize - 1];
        self.nodes.head(node).set_last(last);
        self.directory.set(first, last, node);
    }

    /// The node at `depth` has a new first separator: its ancestors must say so, up to the one
    /// where it is not in the first slot.
    fn pass_lower_bound_up(&self, path: &Path, depth: usize, latches: &mut impl Latches) {
        let lower_bound = self.nodes.kept(path.0[depth].0, 0);
        for (node, slot) in path.0[..depth].iter().rev() {
            latches.change(*node);
            self.nodes.set_separator(&self.separators, *node, *slot as usize, lower_bound);
            if *slot > 0 {
                break;
            }
        }
    }

    /// Merges the node at `depth`, and then its ancestors, with a neighbour while they have few
    /// slots.
    fn refill(&self, path: &Path, mut depth: usize, latches: &mut impl Latches) {
        while depth > 0 && self.nodes.count(path.0[depth].0) < Self::FEW {
            let (parent, slot) = path.0[depth - 1];
            let siblings = self.nodes.count(parent);
            if siblings < 2 {
                return;
            }
            let right_slot = (slot as usize + 1).min(siblings - 1);
            let [left, right] =
                [right_slot - 1, right_slot].map(|slot| self.nodes.child(parent, slot) as u32);
            [parent, left, right].into_iter().for_each(|node| latches.change(node));
            let mut entries = Vec::with_capacity(2 * CAPACITY);
            self.nodes.read_entries(left, &mut entries);
            self.nodes.read_entries(right, &mut entries);
            let is_bottom = !K::RECORDS && depth + 1 == self.height() as usize;
            let bounds =
                is_bottom.then(|| (self.nodes.word(right, 0), self.nodes.head(right).last()));
            if entries.len() > Self::MERGED {
                self.redistribute(parent, right_slot, &entries, bounds);
                return;
            }
            self.nodes.free(right);
            self.nodes.remove_entry(parent, right_slot);
            self.nodes.write_entries(&self.separators, left, &entries);
            if let Some((first, last)) = bounds {
                self.nodes.head(left).set_last(last);
                self.directory.set(first, last, left);
            }
            depth -= 1;
        }
    }

    /// Gives half of the entries to the child in `right_slot`, the others to the one before it.
    /// `bounds`: the first number that the right one covers, and the last, if these are bottom
    /// nodes of numbers.
    fn redistribute(
        &self,
        parent: u32,
        right_slot: usize,
        entries: &[Entry],
        bounds: Option<(u64, u64)>,
    ) {
        let (first, second) = entries.split_at(entries.len() / 2);
        let [left, right] =
            [right_slot - 1, right_slot].map(|slot| self.nodes.child(parent, slot) as u32);
        self.nodes.write_entries(&self.separators, left, first);
        self.nodes.write_entries(&self.separators, right, second);
        self.nodes.set_separator(&self.separators, parent, right_slot, second[0].kept);
        if let Some((old_first, last)) = bounds {
            let new_first = second[0].kept.word;
            self.nodes.head(left).set_last(new_first - 1);
            self.nodes.head(right).set_last(last);
            self.directory.set(new_first, last, right);
            if new_first > old_first {
                self.directory.set(old_first, new_first - 1, left);
            }
        }
    }

    /// A root with one child is one too many.
    fn lower_root(&self, latches: &mut impl Latches) {
        while self.height() > 0 && self.nodes.count(self.root().node()) == 1 {
            let (root, height) = (self.root().node(), self.height());
            latches.change(root);
            let only = self.nodes.child(root, 0);
            self.nodes.free(root);
            if height == 1 {
                self.only_child.store(only, Relaxed);
                self.set_root(0, 0);
            } else {
                self.set_root(only as u32, height - 1);
            }
        }
    }
}
