//! The invariants as code, under the numbers of the family's page. Writes nothing.

use std::collections::BTreeMap;

use everleaf_index::{CheckReport, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::NvTree;
use super::layout::{Kind, LEAVES, ListHead};
use super::leaf::{Leaf, tag_of};
use super::scan::newest_of_each;
use crate::support::groups::leaves_of;
use crate::support::key::TreeKey;

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// Checks everything, and reports every block that the tree has.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport, IndexError> {
        let mut report = CheckReport::default();
        let sentences = self.inner.check().into_iter();
        report.violations.extend(sentences.map(|sentence| format!("I6: inner nodes: {sentence}")));
        let in_tree = self.check_list(audit, &mut report)?;
        self.check_groups(&in_tree, audit, &mut report)?;
        if report.keys != self.keys {
            let (found, counted) = (report.keys, self.keys);
            report.violations.push(format!("I10: {found} keys found, {counted} were counted"));
        }
        Ok(report)
    }

    /// I5, I6, I9 and what each leaf must keep; the leaves of the list.
    fn check_list(
        &self,
        audit: &mut Audit,
        report: &mut CheckReport,
    ) -> Result<Vec<u64>, IndexError> {
        let media = self.pool.media();
        let mut in_tree = Vec::new();
        let mut link = media.load(&self.pool.index_root::<ListHead>()?.first);
        let mut place = Some(self.inner.first());
        while let Some(here) = place {
            let offset = self.inner.leaf(here);
            if link.offset() != offset {
                report.violations.push(format!(
                    "I6: the list leads to {:#x}, the inner nodes to {offset:#x}",
                    link.offset()
                ));
            }
            let leaf = self.leaf(offset)?;
            let next = self.inner.next(here);
            let lower = self.inner.lower_bound(here);
            let upper = next.map(|next| self.inner.lower_bound(next));
            self.check_bound(leaf, &lower, here.is_first(), audit, report);
            self.check_leaf(leaf, &lower, upper.as_ref(), here.is_first(), audit, report)?;
            link = media.load(&leaf.head.next);
            in_tree.push(offset);
            place = next;
        }
        if !link.is_null() {
            let offset = link.offset();
            report.violations.push(format!("I6: the list goes on at {offset:#x}"));
        }
        Ok(in_tree)
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
    ) -> Result<(), IndexError> {
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
    fn check_groups(
        &self,
        in_tree: &[u64],
        audit: &mut Audit,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        let media = self.pool.media();
        let (mut in_tree, mut free) = (in_tree.to_vec(), self.groups.free().to_vec());
        in_tree.sort_unstable();
        free.sort_unstable();
        let mut found = |sentence: String| report.violations.push(sentence);
        let runs = self.pool.runs(LEAVES)?;
        if runs.len() != self.groups.all().len() {
            let known = self.groups.all().len();
            found(format!("I7: the pool has {} runs, the tree knows {known}", runs.len()));
        }
        if free.is_empty() {
            found("I7: no leaf is free".to_owned());
        }
        let mut leaves = 0;
        for group in self.groups.all() {
            audit.reach(group.run.offset);
            let mut used = 0;
            for offset in leaves_of(group.run, self.shape.leaf_bytes()) {
                leaves += 1;
                let tree = in_tree.binary_search(&offset).is_ok();
                let listed = free.binary_search(&offset).is_ok();
                used += u64::from(tree);
                if tree == listed {
                    found(format!(
                        "I7: the leaf at {offset:#x} is both in the list and free, or neither"
                    ));
                }
                if K::RECORDS && !tree {
                    let leaf = self.leaf(offset)?;
                    let words = (0..self.shape.slots()).map(|slot| media.load(leaf.key(slot)));
                    let pointers = words.filter(|word| *word != 0).count();
                    if pointers > 0 || media.load(&leaf.head.lower_bound) != 0 {
                        found(format!("I8: the free leaf at {offset:#x} has pointers"));
                    }
                }
            }
            if used != group.used {
                let (at, counted) = (group.run.offset, group.used);
                found(format!("I7: the group at {at:#x} has {used} leaves in use, not {counted}"));
            }
        }
        if leaves != in_tree.len() + free.len() {
            let (tree, free) = (in_tree.len(), free.len());
            found(format!("I7: {leaves} leaves, {tree} of them in the list, {free} free"));
        }
        Ok(())
    }
}
