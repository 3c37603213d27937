//! The invariants, under the numbers of the module's page.

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::Masstree;
use super::epochs::Sizes;
use super::layout::{
    BUFFER_BYTES, KIND, LOG_KIND, LONGER, NODE_BYTES, Onward, RunHead, SIZES, WIDTH, class_for,
};
use super::node::At;
use everleaf_tree::key::slices::SliceKey;

/// A node that is to be looked at: its place, and the slices that it covers.
struct Task {
    offset: u64,
    low: u64,
    /// None: to the greatest one.
    high: Option<u64>,
    /// Which layer.
    layer: u64,
    level: u32,
}

/// What a check has found so far.
#[derive(Default)]
struct Found {
    report: CheckReport,
    /// Everything that is in use or free: place and length.
    parts: Vec<(u64, u64)>,
    /// Border nodes in the order of their keys, by layer, with what each has to its right.
    chain: Vec<(u64, u64, u64)>,
    tasks: Vec<Task>,
    layers: u64,
    border_nodes: u64,
    inner_nodes: u64,
}

impl Found {
    fn violation(&mut self, number: u32, offset: u64, what: &str) {
        self.report.violations.push(format!("I{number}: {what}, at {offset:#x}"));
    }
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Tests all invariants. No other operation may run meanwhile.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let mut found = Found::default();
        self.add_layer(&mut found, self.root);
        while let Some(task) = found.tasks.pop() {
            if found.parts.len() as u64 > self.memory.bytes() / SIZES[0] {
                found.violation(2, task.offset, "there are more nodes than there is memory for");
                break;
            }
            self.check_node(&mut found, &task)?;
        }
        self.check_chain(&mut found);
        let (keys, border_nodes) = (found.report.keys, found.border_nodes);
        if (Sizes { keys, border_nodes, inner_nodes: found.inner_nodes }) != self.sizes() {
            found.violation(7, self.root, "the number of keys or of nodes is wrong");
        }
        self.memory.for_each_free(|offset, bytes| found.parts.push((offset, bytes)))?;
        self.check_memory(&mut found, audit)?;
        Ok(found.report)
    }

    fn add_layer(&self, found: &mut Found, offset: u64) {
        found.layers += 1;
        let layer = found.layers;
        found.tasks.push(Task { offset, low: 0, high: None, layer, level: 0 });
    }

    fn check_node(&self, found: &mut Found, task: &Task) -> Result<()> {
        let media = self.pool.media();
        let at = At { node: self.memory.node(task.offset)?, offset: task.offset };
        if DURABLE
            && self.is_unseen(at.node)
            && let Err(error) = self.recover_node(at)
        {
            found.violation(1, at.offset, &error.to_string());
            return Ok(());
        }
        let version = media.load(&at.node.version);
        if version.is_locked() || version.is_changing() || version.is_deleted() {
            found.violation(3, at.offset, "a node that is in use is locked or deleted");
        }
        // The first root is behind the arenas, whose length has it.
        if at.offset != self.root {
            found.parts.push((at.offset, NODE_BYTES));
        }
        match media.load(&at.node.meta).is_border() {
            Some(border) if border != version.is_border() => {
                found.violation(3, at.offset, "a node is of two kinds");
            }
            Some(true) => self.check_border(found, at, task)?,
            Some(false) if task.level < 64 => self.check_inner(found, at, task),
            _ => found.violation(2, at.offset, "a node is of no kind, or below too many others"),
        }
        Ok(())
    }

    fn check_inner(&self, found: &mut Found, at: At<'_>, task: &Task) {
        found.inner_nodes += 1;
        let (keys, children) = self.contents(at);
        let bounds = [task.low].into_iter().chain(keys.iter().copied());
        let highs = keys.iter().map(|key| Some(*key)).chain([task.high]);
        if !keys.windows(2).all(|pair| pair[0] < pair[1])
            || keys.first().is_some_and(|first| *first <= task.low)
            || keys.last().is_some_and(|last| task.high.is_some_and(|high| *last >= high))
        {
            found.violation(1, at.offset, "keys of an inner node are out of order");
        }
        let (layer, level) = (task.layer, task.level + 1);
        let below: Vec<Task> = (bounds.zip(highs).zip(children))
            .map(|((low, high), offset)| Task { offset, low, high, layer, level })
            .collect();
        found.tasks.extend(below.into_iter().rev());
    }

    fn check_border(&self, found: &mut Found, at: At<'_>, task: &Task) -> Result<()> {
        let media = self.pool.media();
        found.border_nodes += 1;
        if !media.load(&at.node.perm).is_sound(Self::SLOTS) {
            found.violation(4, at.offset, "a permutation names a slot twice");
            return Ok(());
        }
        let next = media.load(&at.node.next).offset();
        found.chain.push((task.layer, at.offset, next));
        let entries = self.entries(at);
        if !entries
            .windows(2)
            .all(|pair| (pair[0].slice, pair[0].code) < (pair[1].slice, pair[1].code))
        {
            found.violation(1, at.offset, "keys of a border node are out of order");
        }
        for entry in entries {
            if entry.slice < task.low || task.high.is_some_and(|high| entry.slice >= high) {
                found.violation(1, at.offset, "a key is in a node that does not cover it");
            }
            match Onward::of(entry.word) {
                _ if entry.code > LONGER => {
                    found.violation(4, at.offset, "an entry has an impossible length");
                }
                Onward::Layer(root) if entry.code == LONGER => self.add_layer(found, root),
                Onward::Record(offset) if entry.code == LONGER => {
                    found.report.keys += 1;
                    match self.own_record(offset) {
                        Ok(record) => {
                            found.parts.push((offset, size(record.block_bytes())));
                            self.check_value(found, at, record.value(media));
                        }
                        Err(error) => found.report.violations.push(format!("I5: {error}")),
                    }
                }
                _ => {
                    found.report.keys += 1;
                    self.check_value(found, at, entry.word);
                }
            }
        }
        Ok(())
    }

    /// I5 of a value.
    fn check_value(&self, found: &mut Found, at: At<'_>, word: u64) {
        match self.value_of(word) {
            Ok(_) if self.buffers => found.parts.push((word, BUFFER_BYTES)),
            Ok(_) => {}
            Err(error) => found.violation(5, at.offset, &error.to_string()),
        }
    }

    /// I2: each border node has the next one of its layer to its right, the last none.
    fn check_chain(&self, found: &mut Found) {
        let mut chain = std::mem::take(&mut found.chain);
        chain.sort_by_key(|(layer, ..)| *layer); // Stable: in the order of the keys.
        let following = chain.iter().skip(1).map(Some).chain([None]);
        for ((layer, offset, next), following) in chain.iter().zip(following) {
            let expected =
                following.filter(|(other, ..)| other == layer).map_or(0, |(_, at, _)| *at);
            if *next != expected {
                found.violation(2, *offset, "a border node has another one to its right");
            }
        }
    }

    /// I6: what is in use and what is free fill the runs of the pool, and nothing is both.
    fn check_memory(&self, found: &mut Found, audit: &mut Audit) -> Result<()> {
        for run in self.pool.runs(LOG_KIND)? {
            audit.reach(run.offset);
        }
        found.parts.push(self.memory.base()?);
        found.parts.sort_unstable();
        let mut parts = found.parts.iter().copied().peekable();
        let mut bad = Vec::new();
        let base = self.memory.base()?;
        for run in self.pool.runs(KIND)? {
            audit.reach(run.offset);
            let mut at = run.offset;
            if at != base.0 {
                at += size_of::<RunHead>() as u64;
            }
            while let Some((offset, bytes)) =
                parts.next_if(|(offset, _)| *offset < run.offset + run.bytes)
            {
                if offset != at {
                    bad.push(at.min(offset));
                }
                at = offset + bytes;
            }
            // Less than a block may be left at the end; all of the arenas' own run.
            if at != base.0 + base.1 && run.offset + run.bytes - at >= SIZES[0] {
                bad.push(at);
            }
        }
        bad.extend(parts.map(|(offset, _)| offset));
        for offset in bad {
            found.violation(6, offset, "memory is lost, or in use twice");
        }
        Ok(())
    }
}

/// Bytes of the block that has so many.
fn size(bytes: u64) -> u64 {
    class_for(bytes).map_or(bytes, |class| SIZES[class])
}

const _: () = assert!(WIDTH < 16);
