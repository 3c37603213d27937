//! The invariants of the family's page as code, under the same numbers. Writes nothing.

use everleaf_index::{CheckReport, Direction, Result};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::FpTree;
use crate::check::{Child, check_first, check_leaf, check_slots};
use crate::layout::{LEAVES, Shape, SplitLog};
use everleaf_tree::groups::leaves_of;
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Tests every invariant and reports the runs, the records of keys and those of bounds.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        self.check_log(&mut report)?;
        let children = self.children(&mut report);
        self.check_groups(&children, audit, &mut report)?;
        for (i, child) in children.iter().enumerate() {
            let next = children.get(i + 1).and_then(|next| next.separator.as_ref());
            check_leaf(&self.pool, self.shape, child, next, audit, &mut report)?;
        }
        image::reach(&self.pool, audit);
        if report.keys != self.keys {
            report.violations.push(format!(
                "I10: {} slots are live, {} keys were counted",
                report.keys, self.keys
            ));
        }
        Ok(report)
    }

    /// I9.
    fn check_log(&self, report: &mut CheckReport) -> Result<()> {
        let current = self.pool.media().load(&self.pool.index_root::<SplitLog>()?.current);
        if !current.is_null() {
            report.violations.push(format!(
                "I9: the micro-log speaks of a split of the leaf at {:#x}",
                current.offset()
            ));
        }
        Ok(())
    }

    /// I6: the inner nodes themselves, and the order of their separators.
    fn children(&self, report: &mut CheckReport) -> Vec<Child<K>> {
        report.violations.extend(
            self.inner.check().into_iter().map(|sentence| format!("I6: inner nodes: {sentence}")),
        );
        let mut children: Vec<Child<K>> = Vec::new();
        let mut leaves = self.inner.start(Direction::Forward);
        let mut next = Some(leaves.current());
        while let Some(offset) = next {
            let separator = (!children.is_empty()).then(|| leaves.lower_bound());
            children.push(Child { offset, separator });
            next = leaves.step(Direction::Forward);
        }
        check_first(&children, self.leftmost, report);
        children
    }

    /// I1, I6, I7, I8: every leaf of every run is in the tree or free.
    fn check_groups(
        &self,
        children: &[Child<K>],
        audit: &mut Audit,
        report: &mut CheckReport,
    ) -> Result<()> {
        let media = self.pool.media();
        let mut in_tree: Vec<u64> = children.iter().map(|child| child.offset).collect();
        in_tree.sort_unstable();
        let mut free = self.groups.free().to_vec();
        free.sort_unstable();
        let runs = self.pool.runs(LEAVES)?;
        if runs.len() != self.groups.all().len() {
            report.violations.push(format!(
                "I7: the pool has {} runs, the tree knows {}",
                runs.len(),
                self.groups.all().len()
            ));
        }
        let mut leaves = 0;
        for group in self.groups.all() {
            audit.reach(group.run.offset);
            let mut used = 0;
            for offset in leaves_of(group.run, self.shape.leaf_bytes()) {
                leaves += 1;
                let leaf = self.leaf(offset)?;
                let (tree, listed) =
                    (in_tree.binary_search(&offset).is_ok(), free.binary_search(&offset).is_ok());
                used += u64::from(tree);
                if !leaf.live(media).is_empty() && !tree {
                    report.violations.push(format!(
                        "I6: the leaf at {offset:#x} has keys and no inner node leads to it"
                    ));
                }
                if tree == listed {
                    report.violations.push(format!(
                        "I7: the leaf at {offset:#x} is both in the tree and free, or neither"
                    ));
                }
                let needs_key = tree && offset != self.leftmost;
                check_slots::<K, M, S>(media, leaf, offset, needs_key, report);
            }
            if used != group.used {
                let offset = group.run.offset;
                report.violations.push(format!(
                    "I7: the group at {offset:#x} has {used} leaves in use, not {}",
                    group.used
                ));
            }
        }
        if leaves != in_tree.len() + free.len() {
            report.violations.push(format!(
                "I7: {leaves} leaves, {} of them in the tree, {} free",
                in_tree.len(),
                free.len()
            ));
        }
        Ok(())
    }
}
