//! The invariants of the inner nodes as code.

use std::cmp::Ordering;

use crate::latch::LatchWord;

use super::Inner;
use super::heads::Head;
use super::nodes::WORDS;
use super::prefix::has_prefix;
use crate::key::{Kept, TreeKey};

/// What the walk over all nodes adds up.
#[derive(Default)]
struct Tally {
    children: u64,
    nodes: u64,
    separator_words: u64,
    violations: Vec<String>,
}

impl<K: TreeKey, const CAPACITY: usize> Inner<K, CAPACITY> {
    /// Every violation of the invariants I1 to I7, as sentences; empty if all is well. Reads the
    /// whole tree.
    pub fn check(&self) -> Vec<String> {
        let mut tally = Tally::default();
        if self.height() > 0 {
            self.check_node(self.root().node(), 0, Kept::default(), None, &mut tally);
        } else {
            tally.children = 1;
        }
        let Tally { children, nodes, separator_words, mut violations } = tally;
        if children != self.len() {
            violations
                .push(format!("I4: {children} children are reachable, {} are counted", self.len()));
        }
        if nodes != self.inner_nodes() {
            violations.push(format!(
                "I5: {nodes} nodes are reachable, {} are in use",
                self.inner_nodes()
            ));
        }
        if self.nodes.lost_lines() != 0 {
            violations
                .push(format!("I5: {} lines are neither in use nor free", self.nodes.lost_lines()));
        }
        if self.nodes.promised() != 0 {
            violations.push(format!(
                "I6: memory is promised to {} changes, and none is under way",
                self.nodes.promised()
            ));
        }
        let live_words = K::words_in_use(&self.separators);
        if separator_words != live_words {
            violations.push(format!(
                "I5: separators take {separator_words} words, {live_words} are handed out"
            ));
        }
        violations
    }

    fn compare(&self, kept: Kept, other: Kept) -> Ordering {
        K::compare_kept(
            &self.separators,
            kept,
            K::borrow(&K::copy_kept(&self.separators, other)),
            0,
        )
    }

    /// Checks a node at `depth` whose keys begin at `lower` and end before `upper`, and all below
    /// it.
    fn check_node(
        &self,
        node: u32,
        depth: u32,
        lower: Kept,
        upper: Option<Kept>,
        tally: &mut Tally,
    ) {
        let count = self.nodes.count(node);
        let mut wrong =
            |what: String| tally.violations.push(format!("{what} (node {node} at depth {depth})"));
        if count == 0 || count > CAPACITY {
            return wrong(format!("I1: the node has {count} slots"));
        }
        if self.nodes.node_word(node).is_locked() {
            wrong("I6: the node is locked".into());
        }
        let first = self.nodes.kept(node, 0);
        if self.compare(first, lower).is_ne() || (K::RECORDS && first.handle != lower.handle) {
            wrong("I2: the first separator is not what the parent says".into());
        }
        for slot in 0..count {
            let kept = self.nodes.kept(node, slot);
            let next = if slot + 1 < count { Some(self.nodes.kept(node, slot + 1)) } else { upper };
            if next.is_some_and(|next| self.compare(kept, next).is_ge()) {
                wrong(format!("I1: the separator in slot {slot} is not less than the next one"));
            }
        }
        self.check_words(node, count, &mut wrong);
        let is_bottom = depth + 1 == self.height() && !K::RECORDS;
        let is_right = match is_bottom {
            true => self.check_span(node, lower.word, upper.map(|upper| upper.word)),
            false => self.nodes.head(node).covers_nothing(),
        };
        if !is_right {
            wrong("I7: the head does not say which keys the node covers".into());
        }
        tally.nodes += 1;
        for slot in 0..count {
            let kept = self.nodes.kept(node, slot);
            if depth + 1 == self.height() {
                tally.children += 1;
                tally.separator_words += K::words_kept(kept.handle);
            } else {
                let next =
                    if slot + 1 < count { Some(self.nodes.kept(node, slot + 1)) } else { upper };
                self.check_node(self.nodes.child(node, slot) as u32, depth + 1, kept, next, tally);
            }
        }
    }

    /// I3: the words by which the node is searched.
    fn check_words(&self, node: u32, count: usize, wrong: &mut impl FnMut(String)) {
        if !self.nodes.has_right_head(node) {
            wrong("I3: the head is not that of the node".into());
        }
        let skip = self.nodes.skip(node);
        for slot in 0..count {
            let kept = self.nodes.kept(node, slot);
            if K::RECORDS && slot == 0 {
                if kept.word != 0 {
                    wrong("I3: the first word is not 0".into());
                }
                continue;
            }
            if K::kept_word(&self.separators, kept, skip) != kept.word {
                wrong(format!("I3: the word in slot {slot} is not that of its separator"));
            }
            if !has_prefix::<K>(&self.separators, kept, self.nodes.prefix(node)) {
                wrong(format!("I3: the separator in slot {slot} does not have the node's prefix"));
            }
        }
        let blocks = count.div_ceil(WORDS);
        let last = self.nodes.block(node, blocks - 1);
        if (count - (blocks - 1) * WORDS..WORDS).any(|word| self.nodes.load(last, word) != u64::MAX)
        {
            wrong("I3: an unused word of the last block is not padding".into());
        }
        for block in (1..WORDS).filter(|_| K::RECORDS) {
            if self.nodes.load(node + 1, block - 1) != self.nodes.first_word(node, block) {
                wrong(format!("I3: the pivot of block {block} is not its first word"));
            }
        }
    }

    /// I7: what a node covers, whose keys begin at `lower` and end before `upper`.
    fn check_span(&self, node: u32, lower: u64, upper: Option<u64>) -> bool {
        let head = self.nodes.head(node);
        let last = upper.map_or(Head::GREATEST, |upper| (upper - 1).min(Head::GREATEST));
        !head.covers(last.wrapping_add(1))
            && (lower == u64::MAX || (head.covers(lower) && head.covers(last)))
    }
}
