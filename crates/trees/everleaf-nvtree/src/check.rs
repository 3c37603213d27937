//! The invariants as code, under the numbers of the family's page. Writes nothing.

use std::collections::BTreeMap;

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool};

use super::NvTree;
use super::layout::{Kind, LEAVES, ListHead, Shape};
use super::leaf::{Leaf, tag_of};
use super::scan::newest_of_each;
use everleaf_tree::groups::{Groups, leaves_of};
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;

/// What a tree has in DRAM, as the check compares it with the pool.
pub(super) struct Checked<'t, K: TreeKey, M: Media> {
    pub pool: &'t Pool<M>,
    pub shape: Shape,
    /// Leaves, and their separators, in the order of the inner nodes.
    pub places: Vec<(u64, K::Owned)>,
    pub groups: &'t Groups,
    /// Leaves that have left the list and may still be read.
    pub limbo: Vec<u64>,
    pub keys: u64,
}

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// Checks everything, and reports every block that the tree has.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let place = |place: &_| (self.inner.leaf(*place), self.inner.lower_bound(*place));
        let places = std::iter::successors(Some(self.inner.first()), |at| self.inner.next(*at));
        let places = places.map(|at| place(&at)).collect();
        let (pool, shape, groups, keys) = (&*self.pool, self.shape, &self.groups, self.keys);
        let checked = Checked::<K, M> { pool, shape, places, groups, limbo: Vec::new(), keys };
        checked.check(self.inner.check(), audit)
    }
}

impl<K: TreeKey, M: Media> Checked<'_, K, M> {
    /// Checks everything but the inner nodes, of which `inner` says what is wrong.
    pub fn check(&self, inner: Vec<String>, audit: &mut Audit) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let sentences = inner.into_iter();
        report.violations.extend(sentences.map(|sentence| format!("I6: inner nodes: {sentence}")));
        self.check_list(audit, &mut report)?;
        self.check_groups(audit, &mut report)?;
        image::reach(self.pool, audit);
        if report.keys != self.keys {
            let (found, counted) = (report.keys, self.keys);
            report.violations.push(format!("I10: {found} keys found, {counted} were counted"));
        }
        Ok(report)
    }

    fn leaf(&self, offset: u64) -> Result<Leaf<'_>> {
        Leaf::at(self.pool.media().region(), offset, self.shape)
    }

    /// I5, I6, I9 and what each leaf must keep.
    fn check_list(&self, audit: &mut Audit, report: &mut CheckReport) -> Result<()> {
        let media = self.pool.media();
        let mut link = media.load(&self.pool.index_root::<ListHead>()?.first);
        for (at, (offset, lower)) in self.places.iter().enumerate() {
            if link.offset() != *offset {
                report.violations.push(format!(
                    "I6: the list leads to {:#x}, the inner nodes to {offset:#x}",
                    link.offset()
                ));
            }
            let leaf = self.leaf(*offset)?;
            let upper = self.places.get(at + 1).map(|(_, upper)| upper);
            self.check_bound(leaf, lower, at == 0, audit, report);
            self.check_leaf(leaf, lower, upper, at == 0, audit, report)?;
            link = media.load(&leaf.head.next);
        }
        if !link.is_null() {
            let offset = link.offset();
            report.violations.push(format!("I6: the list goes on at {offset:#x}"));
        }
        Ok(())
    }

    /// I5, I6.
    fn check_bound(
        &self,
        leaf: Leaf<'_>,
        separator: &K::Owned,
        first: bool,
        audit: &mut Audit,
        report: &mut CheckReport,
    ) {
        let offset = leaf.offset();
        let word = self.pool.media().load(&leaf.head.lower_bound);
        let mut found = |sentence: String| report.violations.push(sentence);
        match K::read_bound(&self.pool.pin(), word) {
            _ if first && word != 0 => {
                found(format!("I5: the first leaf, at {offset:#x}, has a lower bound"));
            }
            Ok(bound) if K::cmp_keys(bound, K::borrow(separator)).is_eq() => {}
            Ok(_) => found(format!(
                "I6: the separator of the leaf at {offset:#x} is not its lower bound"
            )),
            Err(e) => {
                found(format!("I5: the bound of the leaf at {offset:#x} cannot be read: {e}"));
            }
        }
        if K::RECORDS && word != 0 {
            audit.reach(word);
        }
    }

    /// I1 to I4, I8 and I9 of one leaf; reports its records.
    fn check_leaf(
        &self,
        leaf: Leaf<'_>,
        lower: &K::Owned,
        upper: Option<&K::Owned>,
        first: bool,
        audit: &mut Audit,
        report: &mut CheckReport,
    ) -> Result<()> {
        let (media, offset) = (self.pool.media(), leaf.offset());
        let mut found = |sentence: &str| {
            report.violations.push(format!("{sentence} (leaf at {offset:#x})"));
        };
        let fill = match leaf.fill(media) {
            Ok(fill) => fill,
            Err(e) => {
                found(&format!("I1: {e}"));
                return Ok(());
            }
        };
        let records = self.pool.pin();
        let entries = match newest_of_each::<K, M>(&records, leaf, fill) {
            Ok(entries) => entries,
            Err(e) => {
                found(&format!("I2: the elements cannot be read: {e}"));
                return Ok(());
            }
        };
        let mut record_of = BTreeMap::new();
        for slot in 0..fill.count() {
            let word = media.load(leaf.key(slot));
            let key = K::read(&records, word)?;
            if media.load(leaf.mark(slot)).tag() != tag_of::<K>(K::hash(key)) {
                found(&format!("I2: the mark of element {slot} has another key's hash"));
            }
            if self.shape.is_hashed() && leaf.hash(media, slot) != K::hash(key).fingerprint() {
                found(&format!("I2: the head has another key's hash for element {slot}"));
            }
            if *record_of.entry(key).or_insert(word) != word {
                found(&format!("I8: element {slot} has not the record of the others of its key"));
            }
        }
        let mut live = 0;
        for entry in &entries {
            if K::RECORDS {
                audit.reach(media.load(leaf.key(entry.slot)));
            }
            if entry.kind == Kind::Removed {
                continue;
            }
            live += 1;
            let above = upper.is_some_and(|upper| K::cmp_keys(entry.key, K::borrow(upper)).is_ge());
            if above || K::cmp_keys(entry.key, K::borrow(lower)).is_lt() {
                found(&format!("I3: the key of element {} is out of range", entry.slot));
            }
        }
        if live != fill.live() {
            found(&format!("I4: {live} keys are live, {} were counted", fill.live()));
        }
        if live == 0 && !first {
            found("I9: no key is live");
        }
        if K::RECORDS {
            for slot in fill.count()..self.shape.slots() {
                if media.load(leaf.key(slot)) != 0 {
                    found(&format!("I8: there is a pointer in slot {slot}, behind the count"));
                }
            }
        }
        report.keys += live as u64;
        Ok(())
    }

    /// I7, I8: every leaf of every run is in the list or free, and free leaves are clean.
    fn check_groups(&self, audit: &mut Audit, report: &mut CheckReport) -> Result<()> {
        let sorted = |mut leaves: Vec<u64>| {
            leaves.sort_unstable();
            leaves
        };
        let in_tree = sorted(self.places.iter().map(|(offset, _)| *offset).collect());
        let (free, limbo) = (sorted(self.groups.free().to_vec()), sorted(self.limbo.clone()));
        let mut found = |sentence: String| report.violations.push(sentence);
        let runs = self.pool.runs(LEAVES)?;
        if runs.len() != self.groups.all().len() {
            let known = self.groups.all().len();
            found(format!("I7: the pool has {} runs, the tree knows {known}", runs.len()));
        }
        if free.is_empty() && limbo.is_empty() {
            found("I7: no leaf is free".to_owned());
        }
        let mut leaves = 0;
        for group in self.groups.all() {
            audit.reach(group.run.offset);
            let mut used = 0;
            for offset in leaves_of(group.run, self.shape.leaf_bytes()) {
                leaves += 1;
                let places = [&in_tree, &free, &limbo];
                let [tree, listed, kept] = places.map(|set| set.binary_search(&offset).is_ok());
                used += u64::from(tree || kept);
                if u8::from(tree) + u8::from(listed) + u8::from(kept) != 1 {
                    found(format!(
                        "I7: the leaf at {offset:#x} is both in the list and free, or neither"
                    ));
                }
                if K::RECORDS && !tree {
                    self.check_free(offset, &mut found)?;
                }
            }
            if used != group.used {
                let (at, counted) = (group.run.offset, group.used);
                found(format!("I7: the group at {at:#x} has {used} leaves in use, not {counted}"));
            }
        }
        if leaves != in_tree.len() + free.len() + limbo.len() {
            let (tree, free) = (in_tree.len(), free.len() + limbo.len());
            found(format!("I7: {leaves} leaves, {tree} of them in the list, {free} free"));
        }
        Ok(())
    }

    /// I8 of a free leaf.
    fn check_free(&self, offset: u64, found: &mut impl FnMut(String)) -> Result<()> {
        let (media, leaf) = (self.pool.media(), self.leaf(offset)?);
        let words = (0..self.shape.slots()).map(|slot| media.load(leaf.key(slot)));
        let pointers = words.filter(|word| *word != 0).count();
        if pointers > 0 || media.load(&leaf.head.lower_bound) != 0 {
            found(format!("I8: the free leaf at {offset:#x} has pointers"));
        }
        Ok(())
    }
}
