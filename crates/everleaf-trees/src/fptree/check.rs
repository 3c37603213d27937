//! The invariants of the room's page as code, under the same numbers. Writes nothing.

use everleaf_index::{CheckReport, Direction, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool};

use super::FpTree;
use super::groups::Groups;
use super::key::LeafKey;
use super::layout::{LEAVES, Shape, SplitLog};
use super::leaf::Leaf;

/// A leaf in the order of the inner nodes.
pub(super) struct Child<K: LeafKey> {
    /// Where it is.
    pub offset: u64,
    /// None: the first.
    pub separator: Option<K::Owned>,
}

impl<K: LeafKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Tests every invariant and reports the runs, the records of keys and those of bounds.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport, IndexError> {
        let mut report = CheckReport::default();
        self.check_log(&mut report)?;
        let children = self.children(&mut report);
        self.check_groups(&children, audit, &mut report)?;
        for (i, child) in children.iter().enumerate() {
            let next = children.get(i + 1).and_then(|next| next.separator.as_ref());
            check_leaf(&self.pool, self.shape, child, next, audit, &mut report)?;
        }
        if report.keys != self.keys {
            report.violations.push(format!(
                "I10: {} slots are live, {} keys were counted",
                report.keys, self.keys
            ));
        }
        Ok(report)
    }

    /// I9.
    fn check_log(&self, report: &mut CheckReport) -> Result<(), IndexError> {
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
        if children.first().is_none_or(|first| first.offset != self.leftmost) {
            report.violations.push(format!(
                "I6: the first leaf is not the leftmost one at {:#x}",
                self.leftmost
            ));
        }
        children
    }

    /// I1, I6, I7, I8: every leaf of every run is in the tree or free.
    fn check_groups(
        &self,
        children: &[Child<K>],
        audit: &mut Audit,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
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
            for offset in Groups::leaves(group.run, self.shape.leaf_bytes()) {
                leaves += 1;
                let leaf = self.leaf(offset)?;
                let live = leaf.live(media);
                let (tree, listed) =
                    (in_tree.binary_search(&offset).is_ok(), free.binary_search(&offset).is_ok());
                used += u64::from(tree);
                if !live.minus(self.shape.all()).is_empty() {
                    report
                        .violations
                        .push(format!("I1: the leaf at {offset:#x} has bits beyond its slots"));
                }
                if !live.is_empty() && !tree {
                    report.violations.push(format!(
                        "I6: the leaf at {offset:#x} has keys and no inner node leads to it"
                    ));
                }
                if live.is_empty() && tree && offset != self.leftmost {
                    report
                        .violations
                        .push(format!("I6: the leaf at {offset:#x} has no key and is in the tree"));
                }
                if tree == listed {
                    report.violations.push(format!(
                        "I7: the leaf at {offset:#x} is both in the tree and free, or neither"
                    ));
                }
                check_dead_slots::<K, M, S>(media, leaf, offset, report);
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

/// I8.
pub(super) fn check_dead_slots<K: LeafKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    offset: u64,
    report: &mut CheckReport,
) {
    if !K::RECORDS {
        return;
    }
    let live = leaf.live(media);
    for slot in leaf.shape().all().minus(live) {
        if media.load(leaf.key(slot)) != 0 {
            report
                .violations
                .push(format!("I8: dead slot {slot} of the leaf at {offset:#x} has a pointer"));
        }
    }
    if live.is_empty() && media.load(&leaf.head.lower_bound) != 0 {
        report.violations.push(format!("I8: the empty leaf at {offset:#x} has a lower bound"));
    }
}

/// I2 to I5 of one leaf; reports its records.
pub(super) fn check_leaf<K: LeafKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    shape: S,
    child: &Child<K>,
    next: Option<&K::Owned>,
    audit: &mut Audit,
    report: &mut CheckReport,
) -> Result<(), IndexError> {
    let media = pool.media();
    let offset = child.offset;
    let leaf = Leaf::at(media.region(), offset, shape)?;
    let live = leaf.live(media).and(shape.all());
    report.keys += live.count() as u64;
    check_bound(pool, child, leaf, audit, report);
    let lower = child.separator.as_ref().map_or(K::least(), K::borrow);
    let mut keys = Vec::with_capacity(live.count());
    for slot in live {
        let word = media.load(leaf.key(slot));
        if K::RECORDS {
            audit.reach(word);
        }
        let key = match K::read(pool, word) {
            Ok(key) => key,
            Err(e) => {
                report.violations.push(format!(
                    "I3: the key in slot {slot} of the leaf at {offset:#x} cannot be read: {e}"
                ));
                continue;
            }
        };
        if S::FINGERPRINTS && leaf.fingerprint(media, slot) != K::hash(key).fingerprint() {
            report.violations.push(format!(
                "I2: the fingerprint in slot {slot} of the leaf at {offset:#x} is wrong"
            ));
        }
        let above = next.is_some_and(|next| K::cmp_keys(key, K::borrow(next)).is_ge());
        if above || K::cmp_keys(key, lower).is_lt() {
            report.violations.push(format!(
                "I3: the key in slot {slot} of the leaf at {offset:#x} is out of its range"
            ));
        }
        keys.push(key);
    }
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        report.violations.push(format!("I4: the leaf at {offset:#x} has a key twice"));
    }
    Ok(())
}

/// I5, I6.
fn check_bound<K: LeafKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    child: &Child<K>,
    leaf: Leaf<'_, S>,
    audit: &mut Audit,
    report: &mut CheckReport,
) {
    let offset = child.offset;
    let word = pool.media().load(&leaf.head.lower_bound);
    match &child.separator {
        None if word != 0 => {
            report.violations.push(format!(
                "I5: the bound of the leftmost leaf at {offset:#x} is not the minimum"
            ));
        }
        None => {}
        Some(separator) => match K::read_bound(pool, word) {
            Ok(bound) if K::cmp_keys(bound, K::borrow(separator)).is_eq() => {}
            Ok(_) => report.violations.push(format!(
                "I6: the separator of the leaf at {offset:#x} is not its lower bound"
            )),
            Err(e) => report
                .violations
                .push(format!("I5: the bound of the leaf at {offset:#x} cannot be read: {e}")),
        },
    }
    if K::RECORDS && word != 0 {
        audit.reach(word);
    }
}
