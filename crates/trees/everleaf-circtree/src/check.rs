//! The invariants of the family's page as code, under the same numbers. Writes nothing: a node
//! whose last step a crash has cut is looked at as it will be once the step is ended. No other
//! operation may run meanwhile.

use everleaf_index::{CheckReport, Result};
use everleaf_pmem::Media;
use everleaf_pool::Audit;

use super::SortedTree;
use super::layout::{Anchor, MAX_LEVELS};
use everleaf_tree::key::TreeKey;

/// Violations that are written out; what exceeds them is only a sign of more of the same.
const MAX_SENTENCES: usize = 200;

/// What a check has seen so far.
struct Seen<'a> {
    report: CheckReport,
    audit: &'a mut Audit,
    /// Nodes of each level in the order of the nodes above, with where each leads.
    levels: Vec<Vec<(u64, u64)>>,
    left: u64,
}

impl Seen<'_> {
    fn violation(&mut self, sentence: String) {
        if self.report.violations.len() < MAX_SENTENCES {
            self.report.violations.push(sentence);
        }
    }
}

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Tests every invariant and reports the nodes.
    pub(super) fn check_all(&self, audit: &mut Audit) -> Result<CheckReport> {
        let media = self.pool.media();
        let anchor = self.pool.index_root::<Anchor>()?;
        let root = media.load(&anchor.root).offset();
        let levels = vec![Vec::new(); MAX_LEVELS];
        let mut seen =
            Seen { report: CheckReport::default(), audit, levels, left: self.max_nodes() + 1 };
        if [&anchor.log.new, &anchor.log.left, &anchor.log.removed]
            .into_iter()
            .any(|word| !media.load(word).is_null())
        {
            seen.violation("I6: the log of changes is not retired".to_owned());
        }
        let level = self.node(root).and_then(|node| Ok(node.state(media)?.level));
        match level {
            Ok(level) => self.check_node(root, level, (None, None), &mut seen),
            Err(error) => seen.violation(format!("I1: the root: {error}")),
        }
        self.check_chains(&mut seen);
        let (leaves, all) =
            (seen.levels[0].len() as u64, seen.levels.iter().map(Vec::len).sum::<usize>() as u64);
        let statistics = self.statistics_of()?;
        if (seen.report.keys, leaves, all - leaves)
            != (statistics.keys, statistics.leaves, statistics.inner_nodes)
        {
            let counted = (statistics.keys, statistics.leaves, statistics.inner_nodes);
            let found = (seen.report.keys, leaves, all - leaves);
            seen.violation(format!(
                "I7: found are {found:?} keys, leaves and inner nodes, counted were {counted:?}"
            ));
        }
        Ok(seen.report)
    }

    /// I1 to I4 of a node and what is below it. `bounds`: the key words that its keys must not be
    /// less than, and must be less than.
    fn check_node(
        &self,
        offset: u64,
        level: u8,
        bounds: (Option<u64>, Option<u64>),
        seen: &mut Seen<'_>,
    ) {
        let media = self.pool.media();
        if seen.left == 0 {
            return; // Pointers in a circle, or to nodes of others: it has been said.
        }
        seen.left -= 1;
        let read = self.node(offset).and_then(|node| Ok((node, node.state(media)?)));
        let (node, state) = match read {
            Ok(read) => read,
            Err(error) => return seen.violation(format!("I1: the node at {offset:#x}: {error}")),
        };
        if state.level != level {
            return seen.violation(format!(
                "I1: the node at {offset:#x} is of level {} below one of level {}",
                state.level,
                level + 1
            ));
        }
        seen.audit.reach(offset);
        seen.levels[usize::from(level)].push((offset, media.load(&node.head.next).offset()));
        let entries = match node.resolved(media, state) {
            Ok(entries) => entries,
            Err(error) => return seen.violation(format!("I2: the node at {offset:#x}: {error}")),
        };
        if K::RECORDS {
            let words = entries.iter().map(|entry| entry.0);
            let header = media.load(&node.head.key);
            let orphan =
                (header != 0 && !words.clone().any(|word| word == header)).then_some(header);
            words.chain(orphan).filter(|word| *word != 0).for_each(|word| seen.audit.reach(word));
        }
        self.check_keys(offset, level, &entries, bounds, seen);
        if level == 0 {
            seen.report.keys += entries.len() as u64;
            return;
        }
        if entries.is_empty() {
            seen.violation(format!("I2: the inner node at {offset:#x} leads nowhere"));
        }
        for (i, (word, child)) in entries.iter().enumerate() {
            let low = if i == 0 { bounds.0 } else { Some(*word) };
            let high = entries.get(i + 1).map(|next| next.0).or(bounds.1);
            self.check_node(*child, level - 1, (low, high), seen);
        }
    }

    /// I2 and I3.
    fn check_keys(
        &self,
        offset: u64,
        level: u8,
        entries: &[(u64, u64)],
        (low, high): (Option<u64>, Option<u64>),
        seen: &mut Seen<'_>,
    ) {
        // The first key of an inner node is its bound, or none.
        let keys = if level == 0 { entries } else { entries.get(1..).unwrap_or_default() };
        let records = self.pool.pin();
        let mut previous: Option<K::Ref<'_>> = None;
        for (word, _) in keys {
            let key = match K::read(&records, *word) {
                Ok(key) => key,
                Err(error) => {
                    return seen
                        .violation(format!("I2: a key of the node at {offset:#x}: {error}"));
                }
            };
            if previous.is_some_and(|previous| previous >= key) {
                return seen.violation(format!(
                    "I2: keys of the node at {offset:#x} do not ascend: {key:?}"
                ));
            }
            let below = low.is_some_and(|low| {
                K::read(&records, low).is_ok_and(|low| key < low || level > 0 && key == low)
            });
            let above =
                high.is_some_and(|high| K::read(&records, high).is_ok_and(|high| key >= high));
            if below || above {
                return seen.violation(format!(
                    "I3: key {key:?} does not belong into the node at {offset:#x}"
                ));
            }
            previous = Some(key);
        }
        let first = entries.first().map(|entry| entry.0);
        let bound = |word: u64| if word == 0 { Ok(K::least()) } else { K::read(&records, word) };
        let same = |first: u64, low: u64| {
            bound(first).is_ok_and(|first| bound(low).is_ok_and(|low| first == low))
        };
        if level > 0 && !first.is_some_and(|first| same(first, low.unwrap_or(0))) {
            seen.violation(format!(
                "I3: the first key of the inner node at {offset:#x} is not the one above"
            ));
        }
    }

    /// I4.
    fn check_chains(&self, seen: &mut Seen<'_>) {
        let mut wrong = Vec::new();
        for (level, nodes) in seen.levels.iter().enumerate() {
            for (i, (offset, next)) in nodes.iter().enumerate() {
                if *next != nodes.get(i + 1).map_or(0, |next| next.0) {
                    wrong.push(format!(
                        "I4: the node at {offset:#x} of level {level} leads to {next:#x}, which \
                        does not follow it"
                    ));
                }
            }
        }
        wrong.into_iter().for_each(|sentence| seen.violation(sentence));
    }
}
