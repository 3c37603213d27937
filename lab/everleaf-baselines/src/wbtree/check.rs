//! The invariants as code, under the same numbers. Writes nothing but the slot array that a crash
//! has left.

use std::collections::HashSet;

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, RecordGuard, Run};

use super::WbTree;
use super::layout::NODES;
use super::node::Node;
use super::recover::targets;
use super::redo::records;
use super::search::Nodes;
use super::space::taken_of;
use everleaf_tree::key::TreeKey;
use everleaf_tree::redo::Record;

/// A node that is to be looked at, and the key words that bound its range.
struct Visited<'p> {
    node: Node<'p>,
    lower: Option<u64>,
    upper: Option<u64>,
}

/// A check under way.
struct Check<'c, 'p, K: TreeKey, M: Media> {
    nodes: Nodes<'p, K, M>,
    records: &'c RecordGuard<'p, M>,
    audit: &'c mut Audit,
    /// Nodes that the tree leads to, and those that are free.
    reached: HashSet<u64>,
    report: CheckReport,
}

impl<K: TreeKey, M: Media> WbTree<K, M> {
    /// Checks everything, and reports every block that the tree has.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let (nodes, records) = (self.nodes(), self.pool.pin());
        let (reached, report) = (HashSet::new(), CheckReport::default());
        let mut check = Check { nodes, records: &records, audit, reached, report };
        let root = nodes.root()?;
        let mut to_visit = vec![Visited { node: root, lower: None, upper: None }];
        while let Some(visited) = to_visit.pop() {
            check.node(&visited, root.offset(), &mut to_visit)?;
        }
        check.free_nodes()?;
        self.check_runs(&mut check)?;
        check.log(self.space.runs())?;
        let mut report = check.report;
        let counted = self.totals().keys;
        if report.keys as i64 != counted {
            let found = report.keys;
            report.violations.push(format!("I6: {found} keys found, {counted} were counted"));
        }
        Ok(report)
    }

    /// I5: every node that was taken from a run is in the tree or free.
    fn check_runs(&self, check: &mut Check<'_, '_, K, M>) -> Result<()> {
        let (media, shape) = (check.nodes.media(), self.shape);
        let runs = self.pool.runs(NODES)?;
        if runs.len() != self.space.runs().len() {
            let known = self.space.runs().len();
            check.found(format!("I5: the pool has {} runs, the tree knows {known}", runs.len()));
        }
        let mut in_runs = 0;
        for run in runs {
            check.audit.reach(run.offset);
            for number in 1..taken_of(media, run, shape)? {
                let offset = run.offset + number * shape.node_bytes();
                in_runs += 1;
                if !check.reached.contains(&offset) {
                    check.found(format!("I5: the node at {offset:#x} is lost"));
                }
            }
        }
        if in_runs != check.reached.len() {
            let reached = check.reached.len();
            check.found(format!("I5: {reached} nodes are reached, {in_runs} were taken from runs"));
        }
        Ok(())
    }
}

impl<'p, K: TreeKey, M: Media> Check<'_, 'p, K, M> {
    fn found(&mut self, sentence: String) {
        self.report.violations.push(sentence);
    }

    /// I5: the list of free nodes.
    fn free_nodes(&mut self) -> Result<()> {
        let media = self.nodes.media();
        let mut next = media.load(&self.nodes.anchor()?.free).offset();
        while next != 0 {
            if !self.reached.insert(next) {
                self.found(format!("I5: the free node at {next:#x} is in the tree, or free twice"));
                break;
            }
            next = Node::after_free(media, next, self.nodes.shape)?;
        }
        Ok(())
    }

    /// I7: the log.
    fn log(&mut self, runs: &[Run]) -> Result<()> {
        let media = self.nodes.media();
        for Record { target, places, words } in records(self.nodes, targets(self.nodes, runs)?)? {
            if places.iter().zip(words).any(|(place, word)| media.load(place) != media.load(word)) {
                let offset = target.offset();
                self.found(format!("I7: the words at {offset:#x} are not those of the log"));
            }
        }
        Ok(())
    }

    /// Whether the key of a word is less than that of another.
    fn is_less(&self, left: u64, right: u64) -> Result<bool> {
        Ok(K::cmp_keys(K::read(self.records, left)?, K::read(self.records, right)?).is_lt())
    }

    /// I1 to I4 of a node; its children are looked at later.
    fn node(
        &mut self,
        visited: &Visited<'p>,
        root: u64,
        to_visit: &mut Vec<Visited<'p>>,
    ) -> Result<()> {
        let node = visited.node;
        let (offset, is_leaf) = (node.offset(), node.level() == 0);
        if !self.reached.insert(offset) {
            self.found(format!("I5: the tree leads to the node at {offset:#x} twice"));
            return Ok(());
        }
        let least = match (offset == root, is_leaf) {
            (true, true) => 0,
            (true, false) => 2,
            _ => 1,
        };
        if node.count() < least {
            self.found(format!("I4: the node at {offset:#x} has {} entries", node.count()));
        }
        self.places(node);
        self.keys(visited)?;
        if is_leaf {
            self.report.keys += node.count() as u64;
            return Ok(());
        }
        let media = self.nodes.media();
        for slot in 0..node.count() {
            let lower = if slot == 0 { visited.lower } else { Some(node.key(media, slot)) };
            let behind = (slot + 1 < node.count()).then(|| node.key(media, slot + 1));
            match self.nodes.child(node, slot) {
                Ok(node) => to_visit.push(Visited { node, lower, upper: behind.or(visited.upper) }),
                Err(error) => self.found(format!("I1: {error}")),
            }
        }
        Ok(())
    }

    /// I2: the slot array.
    fn places(&mut self, node: Node<'p>) {
        let (media, offset) = (self.nodes.media(), node.offset());
        let slots = node.slots(media);
        let bitmap = slots.bitmap();
        let most = self.nodes.shape.slots();
        if bitmap.count() < slots.count()
            || slots.places().iter().any(|place| usize::from(*place) >= most)
        {
            self.found(format!("I2: the slot array of the node at {offset:#x} names wrong places"));
        }
        if node.has_bitmap() && media.load(node.bitmap_cell()) != bitmap {
            self.found(format!("I2: the bitmap of the node at {offset:#x} has other places"));
        }
    }

    /// I3: the keys of a node, and their records.
    fn keys(&mut self, visited: &Visited<'p>) -> Result<()> {
        let (node, media) = (visited.node, self.nodes.media());
        let offset = node.offset();
        // The first key of an inner node means nothing: its child has the lower bound of all.
        let first = usize::from(node.level() > 0);
        if K::RECORDS && first == 1 && node.key(media, 0) != 0 {
            self.found(format!("I3: the first key of the inner node at {offset:#x} is a record"));
        }
        for slot in first..node.count() {
            let key = node.key(media, slot);
            if slot > first && !self.is_less(node.key(media, slot - 1), key)? {
                self.found(format!("I3: keys of the node at {offset:#x} do not ascend at {slot}"));
            }
            let mut is_within = true;
            if let Some(lower) = visited.lower {
                is_within &= !self.is_less(key, lower)?;
            }
            if let Some(upper) = visited.upper {
                is_within &= self.is_less(key, upper)?;
            }
            if !is_within {
                self.found(format!("I3: key {slot} of the node at {offset:#x} is out of range"));
            }
            if K::RECORDS {
                self.audit.reach(key);
            }
        }
        Ok(())
    }
}
