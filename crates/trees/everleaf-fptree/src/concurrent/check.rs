//! The invariants of the family's page as code, under the same numbers; I7 is the pool's own audit,
//! for leaves are blocks of the pool. Writes nothing. No other operation may run meanwhile.

use std::ops::Bound;

use everleaf_index::{CheckReport, Direction, Result};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::ConcurrentFpTree;
use crate::check::{Child, check_first, check_leaf, check_slots};
use crate::layout::{LEAVES, Shape, WorkerLogs};
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Tests every invariant and reports the leaves, the records of keys and those of bounds.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        self.check_logs(&mut report)?;
        let children = self.children(&mut report);
        self.check_coverage(&children, audit, &mut report)?;
        for (i, child) in children.iter().enumerate() {
            let next = children.get(i + 1).and_then(|next| next.separator.as_ref());
            check_leaf::<K, M, S>(&self.pool, self.shape, child, next, audit, &mut report)?;
        }
        image::reach(&self.pool, audit);
        if report.keys != self.keys() {
            report.violations.push(format!(
                "I10: {} slots are live, {} keys were counted",
                report.keys,
                self.keys()
            ));
        }
        Ok(report)
    }

    /// I9.
    fn check_logs(&self, report: &mut CheckReport) -> Result<()> {
        let media = self.pool.media();
        for (slot, log) in self.pool.index_root::<WorkerLogs>()?.logs.iter().enumerate() {
            let words = [
                log.current.as_word(),
                log.new.as_word(),
                log.bound.as_word(),
                log.removed.as_word(),
            ];
            if words.into_iter().any(|word| media.load(word) != 0) {
                report
                    .violations
                    .push(format!("I9: the micro-log of worker {slot} is not retired"));
            }
        }
        Ok(())
    }

    /// I6: the inner nodes themselves, and the order of their separators.
    fn children(&self, report: &mut CheckReport) -> Vec<Child<K>> {
        report.violations.extend(
            self.inner.check().into_iter().map(|sentence| format!("I6: inner nodes: {sentence}")),
        );
        let mut children: Vec<Child<K>> = Vec::new();
        let mut separator: Option<K::Owned> = None;
        loop {
            let from =
                separator.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(K::borrow(key)));
            let Some(sought) = self.inner.seek(&wait(self.pool.media()), from, Direction::Forward)
            else {
                break;
            };
            children.push(Child { offset: sought.child, separator });
            separator = sought.bound;
            if separator.is_none() {
                break;
            }
        }
        check_first(&children, self.leftmost, report);
        children
    }

    /// I1, I6, I8: every leaf of the pool is in the tree.
    fn check_coverage(
        &self,
        children: &[Child<K>],
        audit: &mut Audit,
        report: &mut CheckReport,
    ) -> Result<()> {
        let media = self.pool.media();
        let mut in_tree: Vec<u64> = children.iter().map(|child| child.offset).collect();
        in_tree.sort_unstable();
        for offset in self.pool.nodes(LEAVES)? {
            if in_tree.binary_search(&offset).is_err() {
                let empty = self.leaf(offset)?.live(media).is_empty();
                let what = if empty {
                    "is empty and was not freed"
                } else {
                    "has keys and no inner node leads to it"
                };
                report.violations.push(format!("I6: the leaf at {offset:#x} {what}"));
            }
        }
        for offset in in_tree {
            audit.reach(offset);
            let leaf = self.leaf(offset)?;
            let needs_key = offset != self.leftmost;
            check_slots::<K, M, S>(media, leaf, offset, needs_key, report);
        }
        Ok(())
    }
}
