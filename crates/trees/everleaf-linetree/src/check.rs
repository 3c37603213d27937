//! The invariants of the family's page as code, under the same numbers. Writes nothing. No other
//! operation may run meanwhile.

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::LineTree;
use super::layout::{
    HALF, KeyWord, LEAVES, LIVE, Leaf, Slot, half_of, home_of, last_before, leaf_bytes, window,
};
use everleaf_tree::groups::leaves_of;
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;

/// A leaf in the order of the inner nodes.
struct Child {
    offset: u64,
    lower: u64,
    upper: Option<u64>,
}

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Tests every invariant and reports the runs.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let nodes = self.inner.check().into_iter();
        report.violations.extend(nodes.map(|sentence| format!("I5: inner nodes: {sentence}")));
        let leaves: Vec<_> = self.leaves().collect();
        let in_tree: Vec<u64> = leaves.iter().map(|(_, sought)| sought.child).collect();
        self.check_groups(in_tree, audit, &mut report)?;
        let mut has_upper_half = K::RECORDS;
        for (lower, sought) in &leaves {
            self.check_head(sought.child, &mut report)?;
            if K::RECORDS {
                self.check_records(lower, sought, audit, &mut report)?;
                continue;
            }
            let number = |key: &K::Owned| K::word(K::borrow(key), 0);
            let upper = sought.bound.as_ref().map(number);
            let child = Child { offset: sought.child, lower: number(lower), upper };
            has_upper_half |= child.lower == HALF;
            self.check_leaf(&child, &mut report)?;
        }
        image::reach(&self.pool, audit);
        if !has_upper_half {
            report.violations.push("I5: no leaf begins with the upper half of all keys".into());
        }
        if report.keys != self.keys() {
            let (found, counted) = (report.keys, self.keys());
            report.violations.push(format!("I7: there are {found} keys, {counted} were counted"));
        }
        Ok(report)
    }

    /// I1.
    fn check_head(&self, offset: u64, report: &mut CheckReport) -> Result<()> {
        let (media, head) = (self.pool.media(), &self.leaf(offset)?.head);
        if media.load(&head.live) != LIVE || !media.load(&head.dying).is_null() {
            report.violations.push(format!("I1: the leaf at {offset:#x} is free or dying"));
        }
        Ok(())
    }

    /// I2 to I5 of one leaf of numbers.
    fn check_leaf(&self, child: &Child, report: &mut CheckReport) -> Result<()> {
        let (media, leaf, offset) = (self.pool.media(), self.leaf(child.offset)?, child.offset);
        if media.load(&leaf.head.lower_bound) != child.lower {
            report.violations.push(format!(
                "I5: the separator of the leaf at {offset:#x} is not its lower bound"
            ));
        }
        let (half, last) = (half_of(child.lower), last_before(child.upper));
        let mut found = Vec::new();
        for (number, line) in leaf.lines.iter().enumerate() {
            for word in Slot::all_of(line).map(|slot| media.load(slot.key())) {
                if !word.is_entry() {
                    if word != KeyWord::NEVER_USED && word != KeyWord::DEAD {
                        report.violations.push(format!(
                            "I2: line {number} of the leaf at {offset:#x} has an impossible key"
                        ));
                    }
                    continue;
                }
                if word < KeyWord::of(child.lower) {
                    report.violations.push(format!(
                        "I2: a key in line {number} of the leaf at {offset:#x} is below its range"
                    ));
                }
                if word <= last {
                    found.push(word);
                    self.check_place(leaf, home_of::<K, LINES>(word, half), number, offset, report);
                }
            }
        }
        report.keys += found.len() as u64;
        found.sort_unstable();
        if found.windows(2).any(|pair| pair[0] == pair[1]) {
            report.violations.push(format!("I4: the leaf at {offset:#x} has a key twice"));
        }
        Ok(())
    }

    /// I3.
    pub(super) fn check_place(
        &self,
        leaf: &Leaf<LINES>,
        home: usize,
        place: usize,
        offset: u64,
        report: &mut CheckReport,
    ) {
        let media = self.pool.media();
        let mut window = window::<LINES>(home);
        let has_room = |line: usize| {
            let mut slots = Slot::all_of(&leaf.lines[line]);
            slots.any(|slot| media.load(slot.key()) == KeyWord::NEVER_USED)
        };
        let stops = window.find(|line| *line == place || has_room(*line));
        if stops != Some(place) {
            report.violations.push(format!(
                "I3: a search does not find a key in line {place} of the leaf at {offset:#x}"
            ));
        }
    }

    /// I1, I6: every leaf of every run is in the tree or free.
    fn check_groups(
        &self,
        mut in_tree: Vec<u64>,
        audit: &mut Audit,
        report: &mut CheckReport,
    ) -> Result<()> {
        let media = self.pool.media();
        let groups = self.stock.groups(media);
        in_tree.sort_unstable();
        let mut free = groups.free().to_vec();
        free.sort_unstable();
        let runs = self.pool.runs(LEAVES)?.len();
        if runs != groups.all().len() {
            report.violations.push(format!(
                "I6: the pool has {runs} runs, the tree knows {}",
                groups.all().len()
            ));
        }
        let mut leaves = 0;
        for group in groups.all() {
            audit.reach(group.run.offset);
            let mut used = 0;
            for offset in leaves_of(group.run, leaf_bytes(LINES)) {
                leaves += 1;
                let (tree, listed) =
                    (in_tree.binary_search(&offset).is_ok(), free.binary_search(&offset).is_ok());
                used += u64::from(tree);
                if tree == listed {
                    report.violations.push(format!(
                        "I6: the leaf at {offset:#x} is both in the tree and free, or neither"
                    ));
                }
                let head = &self.leaf(offset)?.head;
                if !tree && media.load(&head.live) != 0 {
                    report.violations.push(format!("I1: the free leaf at {offset:#x} is live"));
                }
                if K::RECORDS && !tree && !media.load(&head.spare).is_null() {
                    report.violations.push(format!("I8: the free leaf at {offset:#x} has a bound"));
                }
            }
            if used != group.used {
                report.violations.push(format!(
                    "I6: the group at {:#x} has {used} leaves in use, not {}",
                    group.run.offset, group.used
                ));
            }
        }
        if leaves != in_tree.len() + free.len() {
            report.violations.push(format!(
                "I6: {leaves} leaves, {} of them in the tree, {} free",
                in_tree.len(),
                free.len()
            ));
        }
        Ok(())
    }
}
