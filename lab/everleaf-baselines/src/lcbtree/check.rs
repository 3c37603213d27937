//! The invariants as code, under the same numbers. Writes nothing.

use std::collections::HashSet;

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::LcbTree;
use super::layout::{LOG, NODES, PRESENT};
use super::node::Node;
use super::search::Nodes;
use crate::shared::check_groups;
use everleaf_tree::key::TreeKey;

/// A node that is to be looked at, and the keys that bound its range.
struct Visited<'p> {
    node: Node<'p>,
    lower: u64,
    upper: Option<u64>,
}

/// A check under way.
struct Check<'p, M: Media> {
    nodes: Nodes<'p, M>,
    reached: HashSet<u64>,
    report: CheckReport,
}

impl<K: TreeKey, M: Media> LcbTree<K, M> {
    /// Checks everything, and reports every block that the tree has.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let nodes = self.nodes();
        let mut check = Check { nodes, reached: HashSet::new(), report: CheckReport::default() };
        let root = nodes.root()?;
        let mut to_visit = vec![Visited { node: root, lower: 0, upper: None }];
        while let Some(visited) = to_visit.pop() {
            check.node(&visited, root.offset(), &mut to_visit);
        }
        let Check { reached, mut report, .. } = check;
        let (runs, node_bytes) = (self.pool.runs(NODES)?.len(), self.shape.node_bytes());
        check_groups(&self.groups, runs, node_bytes, &reached, audit, &mut report);
        self.check_log(audit, &mut report)?;
        if report.keys != self.keys {
            let (found, counted) = (report.keys, self.keys);
            report.violations.push(format!("I6: {found} keys found, {counted} were counted"));
        }
        Ok(report)
    }

    /// I7. That the records fit was found when the pool was opened.
    fn check_log(&self, audit: &mut Audit, report: &mut CheckReport) -> Result<()> {
        let runs = self.pool.runs(LOG)?;
        let is_it = |offset: u64| offset == self.redo.offset();
        if runs.len() != 1 || !runs.iter().all(|run| is_it(run.offset)) {
            report.violations.push(format!("I7: there are {} logs in place of one", runs.len()));
        }
        audit.reach(self.redo.offset());
        Ok(())
    }
}

impl<'p, M: Media> Check<'p, M> {
    fn found(&mut self, sentence: String) {
        self.report.violations.push(sentence);
    }

    /// I1 to I4 of a node; its children are looked at later.
    fn node(&mut self, visited: &Visited<'p>, root: u64, to_visit: &mut Vec<Visited<'p>>) {
        let (node, media) = (visited.node, self.nodes.media());
        let (offset, is_leaf) = (node.offset(), node.level() == 0);
        if !self.reached.insert(offset) {
            self.found(format!("I5: the tree leads to the node at {offset:#x} twice"));
            return;
        }
        let least = match (offset == root, is_leaf) {
            (true, true) => 0,
            (true, false) => 2,
            _ => 1,
        };
        if node.count() < least {
            self.found(format!("I4: the node at {offset:#x} has {} elements", node.count()));
        }
        let elements: Vec<_> = (0..node.count()).map(|slot| node.element(media, slot)).collect();
        // The first key of an inner node means nothing: its child has the lower bound of all.
        let first = if is_leaf { 0 } else { 1 };
        let mut keys: Vec<u64> = elements.iter().map(|element| element[1]).collect();
        if !is_leaf && let Some(key) = keys.first_mut() {
            *key = visited.lower;
        }
        for (slot, element) in elements.iter().enumerate() {
            let key = keys[slot];
            if element[0] != PRESENT {
                self.found(format!("I2: element {slot} of the node at {offset:#x} has no mark"));
            }
            if slot > first && keys[slot - 1] >= key {
                self.found(format!("I2: keys of the node at {offset:#x} do not ascend at {slot}"));
            }
            if key < visited.lower || visited.upper.is_some_and(|upper| key >= upper) {
                self.found(format!("I3: key {slot} of the node at {offset:#x} is out of range"));
            }
        }
        if is_leaf {
            self.report.keys += node.count() as u64;
            return;
        }
        for slot in 0..node.count() {
            let upper = keys.get(slot + 1).copied().or(visited.upper);
            match self.nodes.child(node, slot) {
                Ok(child) => to_visit.push(Visited { node: child, lower: keys[slot], upper }),
                Err(error) => self.found(format!("I1: {error}")),
            }
        }
    }
}
