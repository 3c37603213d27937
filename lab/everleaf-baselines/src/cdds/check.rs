//! The invariants as code, under the same numbers. Writes nothing.

use std::collections::HashSet;

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::CddsTree;
use super::layout::{EMPTY, LIVE, NODES};
use super::node::{Entry, Node};
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
    version: u64,
    reached: HashSet<u64>,
    report: CheckReport,
}

impl<K: TreeKey, M: Media> CddsTree<K, M> {
    /// Checks everything, and reports every block that the tree has.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let (nodes, version) = (self.nodes(), self.current.version());
        let (reached, report) = (HashSet::new(), CheckReport::default());
        let mut check = Check { nodes, version, reached, report };
        let mut to_visit = vec![Visited { node: nodes.node(self.root)?, lower: 0, upper: None }];
        while let Some(visited) = to_visit.pop() {
            check.node(&visited, &mut to_visit);
        }
        let Check { reached, mut report, .. } = check;
        let (runs, node_bytes) = (self.pool.runs(NODES)?.len(), self.shape.node_bytes());
        check_groups(&self.groups, runs, node_bytes, &reached, audit, &mut report);
        if report.keys != self.keys {
            let (found, counted) = (report.keys, self.keys);
            report.violations.push(format!("I6: {found} keys found, {counted} were counted"));
        }
        Ok(report)
    }
}

impl<'p, M: Media> Check<'p, M> {
    fn found(&mut self, node: Node<'_>, what: &str) {
        let offset = node.offset();
        self.report.violations.push(format!("{what} (node {offset:#x})"));
    }

    /// I1 to I4 of a node; its children are looked at later.
    fn node(&mut self, visited: &Visited<'p>, to_visit: &mut Vec<Visited<'p>>) {
        let Visited { node, lower, upper } = *visited;
        let (media, is_leaf) = (self.nodes.media(), node.level() == 0);
        if !self.reached.insert(node.offset()) {
            return self.found(node, "I5: the tree leads to a node twice");
        }
        let slots: Vec<Entry> = (0..node.slots()).map(|slot| node.entry(media, slot)).collect();
        self.entries(node, &slots);
        let live: Vec<&Entry> =
            slots.iter().filter(|entry| entry.start != EMPTY && entry.end == LIVE).collect();
        let is_root = node.child() == self.nodes.root;
        let least = match (is_root, is_leaf) {
            (true, true) => 0,
            (true, false) => 2,
            _ => 1,
        };
        if live.len() < least {
            self.found(node, "I4: too few live entries");
        }
        if is_leaf && !node.has_free(media, 1, 0, self.version) {
            self.found(node, "I4: no slot is free");
        }
        // The first live key of an inner node means nothing: its child has the lower bound of all.
        let key = |number: usize| match number {
            0 if !is_leaf => lower,
            _ => live[number].key,
        };
        for number in 0..live.len() {
            if key(number) < lower || upper.is_some_and(|upper| key(number) >= upper) {
                self.found(node, "I3: a key is out of range");
            }
        }
        if is_leaf {
            self.report.keys += live.len() as u64;
            return;
        }
        for (number, entry) in live.iter().enumerate() {
            let upper = live.get(number + 1).map(|next| next.key).or(upper);
            match self.nodes.child_at(node, entry.value) {
                Ok(child) => to_visit.push(Visited { node: child, lower: key(number), upper }),
                Err(error) => self.report.violations.push(format!("I1: {error}")),
            }
        }
    }

    /// I1 and I2: what the slots of a node may have, whatever it is.
    fn entries(&mut self, node: Node<'_>, slots: &[Entry]) {
        let count = slots.iter().take_while(|entry| entry.start != EMPTY).count();
        if slots[count..].iter().any(|entry| entry.start != EMPTY) {
            self.found(node, "I1: an entry is behind an empty slot");
        }
        for entry in &slots[..count] {
            let is_past = entry.start < entry.end && entry.end <= self.version;
            if entry.start > self.version || entry.end != LIVE && !is_past {
                self.found(node, "I2: an entry is of a version that the tree never had");
            }
        }
        for pair in slots[..count].windows(2) {
            if pair[0].place() >= pair[1].place() {
                self.found(node, "I2: entries do not ascend");
            } else if pair[0].key == pair[1].key && pair[0].end > pair[1].start {
                self.found(node, "I2: two entries of a key hold for the same version");
            }
        }
    }
}
