//! The invariants as code, under the numbers of the family's page. Writes nothing.

use std::cmp::Ordering;
use std::collections::HashSet;

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, RecordGuard};

use super::ClfTree;
use super::leaf::Leaf;
use super::scan::Content;
use super::search::Nodes;
use super::space::{Space, nodes_of};
use everleaf_tree::key::TreeKey;

/// A node that is to be looked at: where, above how many levels, and the keys that bound its range.
struct Visited {
    offset: u64,
    height: u32,
    lower: Option<u64>,
    upper: Option<u64>,
}

/// A check under way.
struct Check<'c, 'p, K: TreeKey, M: Media> {
    nodes: Nodes<'p, K, M>,
    records: &'c RecordGuard<'p, M>,
    audit: &'c mut Audit,
    report: CheckReport,
    leaves: HashSet<u64>,
    lines: HashSet<u64>,
}

impl<K: TreeKey, M: Media> ClfTree<K, M> {
    /// Checks everything, and reports every block that the tree has.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let records = self.pool.pin();
        let mut check = Check {
            nodes: self.nodes(),
            records: &records,
            audit,
            report: CheckReport::default(),
            leaves: HashSet::new(),
            lines: HashSet::new(),
        };
        let root = check.nodes.root()?;
        let top =
            Visited { offset: root.offset(), height: root.height(), lower: None, upper: None };
        let mut to_visit = vec![top];
        while let Some(node) = to_visit.pop() {
            let is_root = node.offset == root.offset();
            let visited = match node.height {
                0 => check.leaf(&node, is_root),
                _ => check.line(&node, is_root, &mut to_visit),
            };
            if let Err(error) = visited {
                check.found(format!("I1: {error}"));
            }
        }
        check.space("leaf", &self.leaves, true)?;
        check.space("inner node", &self.lines, false)?;
        let mut report = check.report;
        if report.keys != self.keys {
            let (found, counted) = (report.keys, self.keys);
            report.violations.push(format!("I8: {found} keys found, {counted} were counted"));
        }
        Ok(report)
    }
}

impl<K: TreeKey, M: Media> Check<'_, '_, K, M> {
    fn found(&mut self, sentence: String) {
        self.report.violations.push(sentence);
    }

    /// How the keys of two words compare.
    fn compare(&self, left: u64, right: u64) -> Result<Ordering> {
        Ok(K::cmp_keys(K::read(self.records, left)?, K::read(self.records, right)?))
    }

    /// I1 to I3 of an inner node.
    fn line(&mut self, node: &Visited, is_root: bool, to_visit: &mut Vec<Visited>) -> Result<()> {
        let offset = node.offset;
        if !self.lines.insert(offset) {
            self.found(format!("I6: the tree leads to the inner node at {offset:#x} twice"));
            return Ok(());
        }
        let line = self.nodes.decode(offset, self.nodes.words(offset)?)?;
        if is_root && line.keys() == 0 {
            self.found("I3: the topmost inner node has only one child".to_owned());
        }
        let keys = (0..line.keys()).map(|key| Some(line.key(key)));
        let bounds: Vec<_> = [node.lower].into_iter().chain(keys).chain([node.upper]).collect();
        for (child, pair) in bounds.windows(2).enumerate() {
            if let [Some(lower), Some(upper)] = *pair
                && self.compare(lower, upper)?.is_ge()
            {
                self.found(format!(
                    "I2: the range of child {child} of the inner node at {offset:#x} is empty"
                ));
            }
            let offset = self.nodes.offset_of(line.child(child))?;
            let [lower, upper] = [pair[0], pair[1]];
            to_visit.push(Visited { offset, height: node.height - 1, lower, upper });
        }
        if K::RECORDS {
            (0..line.keys()).for_each(|key| self.audit.reach(line.key(key)));
        }
        Ok(())
    }

    /// I1, I4 and I5 of a leaf.
    fn leaf(&mut self, node: &Visited, is_root: bool) -> Result<()> {
        let offset = node.offset;
        if !self.leaves.insert(offset) {
            self.found(format!("I6: the tree leads to the leaf at {offset:#x} twice"));
            return Ok(());
        }
        let leaf = self.nodes.leaf(offset)?;
        let content = Content::of(self.nodes, leaf)?;
        self.report.keys += content.count() as u64;
        if content.count() == 0 && !is_root {
            self.found(format!("I5: the leaf at {offset:#x} has no live key"));
        }
        let entries = content.entries::<K, M>(self.records)?;
        for pair in entries.windows(2) {
            let slots = [pair[0].slot, pair[1].slot];
            match K::cmp_keys(pair[0].key, pair[1].key) {
                Ordering::Less => {}
                Ordering::Equal => self
                    .found(format!("I4: slots {slots:?} of the leaf at {offset:#x} have one key")),
                Ordering::Greater => self
                    .found(format!("I4: slots {slots:?} of the leaf at {offset:#x} do not ascend")),
            }
        }
        for entry in &entries {
            let (slot, nodes) = (entry.slot, self.nodes);
            let below =
                node.lower.map(|bound| K::compare(nodes.pool, bound, entry.key)).transpose()?;
            let above =
                node.upper.map(|bound| K::compare(nodes.pool, bound, entry.key)).transpose()?;
            if below.is_some_and(Ordering::is_gt) || above.is_some_and(Ordering::is_le) {
                self.found(format!("I4: slot {slot} of the leaf at {offset:#x} is out of range"));
            }
            self.record(leaf, slot, entry.key);
        }
        Ok(())
    }

    /// I7: the record of an entry.
    fn record(&mut self, leaf: Leaf<'_>, slot: usize, key: K::Ref<'_>) {
        let media = self.nodes.media();
        if self.nodes.owns_keys() {
            self.audit.reach(leaf.key_of::<K, M>(media, slot));
        }
        if !leaf.may_be::<K, M>(media, slot, K::hash(key)) {
            let offset = leaf.offset();
            self.found(format!(
                "I7: slot {slot} of the leaf at {offset:#x} has another key's hash"
            ));
        }
    }

    /// I6: every node of every run is in the tree or free.
    fn space(&mut self, name: &str, space: &Space, leaves: bool) -> Result<()> {
        let runs = self.nodes.pool.runs(space.kind())?;
        if runs.len() != space.groups().len() {
            let known = space.groups().len();
            self.found(format!("I6: the pool has {} runs, the tree knows {known}", runs.len()));
        }
        let mut in_runs = 0;
        for group in space.groups() {
            self.audit.reach(group.run.offset);
            let mut used = 0;
            for offset in nodes_of(group.run, space.node_bytes()) {
                let reached = if leaves { &self.leaves } else { &self.lines }.contains(&offset);
                used += u64::from(reached);
                if reached == space.is_free(offset) {
                    self.found(format!(
                        "I6: the {name} at {offset:#x} is both in the tree and free, or neither"
                    ));
                }
            }
            in_runs += used;
            if used != group.used {
                let (at, counted) = (group.run.offset, group.used);
                self.found(format!(
                    "I6: the run at {at:#x} has {used} nodes in use, not {counted}"
                ));
            }
        }
        let reached = if leaves { self.leaves.len() } else { self.lines.len() } as u64;
        if reached != in_runs {
            self.found(format!(
                "I6: {reached} nodes are reached, {in_runs} of them in runs ({name})"
            ));
        }
        Ok(())
    }
}
