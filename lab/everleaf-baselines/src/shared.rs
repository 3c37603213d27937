//! What the trees of this crate have in common.

use std::collections::HashSet;
use std::ops::{Bound, Range};

use everleaf_index::{CheckReport, Direction, Result, Start, Visitor};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, RecordGuard};
use everleaf_tree::groups::{Groups, leaves_of};
use everleaf_tree::key::TreeKey;

/// The word of a key, which is a number: pools of CDDS B-trees and LCB+Trees have no others.
pub(crate) fn word_of<K: TreeKey>(key: K::Ref<'_>) -> u64 {
    K::as_word(key).unwrap_or_default()
}

/// Looks many keys up, one behind the other.
///
/// # Panics
/// If the slices differ in length.
pub(crate) fn one_by_one<R: Copy>(
    keys: &[R],
    values: &mut [Option<u64>],
    find: impl Fn(R) -> Result<Option<u64>>,
) -> Result<()> {
    assert_eq!(keys.len(), values.len(), "get_many wants a place for the value of each key");
    for (key, value) in keys.iter().zip(values) {
        *value = find(*key)?;
    }
    Ok(())
}

/// The leaves of a tree of numbers, as a scan wants them.
pub(crate) trait LinkedLeaves: Copy {
    /// The way from the root to a leaf.
    type Path;
    /// A leaf.
    type Leaf: Copy;

    /// The leaf that a key belongs to, and the way there.
    fn way_to(self, key: u64) -> Result<(Self::Path, Self::Leaf)>;
    /// The leaf behind that of a path, to which the path leads then.
    fn next_leaf(self, path: &mut Self::Path, direction: Direction) -> Result<Option<Self::Leaf>>;
    /// The slots of a leaf on this side of the bound.
    fn within(self, leaf: Self::Leaf, bound: Bound<u64>, direction: Direction) -> Range<usize>;
    /// The key and the value of a slot; none if it has no entry.
    fn entry(self, leaf: Self::Leaf, slot: usize) -> Option<(u64, u64)>;
}

/// Visits entries in key order from `from` on.
pub(crate) fn walk<K: TreeKey, M: Media, L: LinkedLeaves>(
    leaves: L,
    records: &RecordGuard<'_, M>,
    from: Start<'_, K>,
    direction: Direction,
    visit: Visitor<'_, K>,
) -> Result<()> {
    let mut bound = from.map(word_of::<K>);
    let (mut path, mut leaf) = leaves.way_to(match (bound, direction) {
        (Bound::Included(key) | Bound::Excluded(key), _) => key,
        (Bound::Unbounded, Direction::Forward) => 0,
        (Bound::Unbounded, Direction::Backward) => u64::MAX,
    })?;
    loop {
        let mut slots = leaves.within(leaf, bound, direction);
        bound = Bound::Unbounded;
        while let Some(slot) = match direction {
            Direction::Forward => slots.next(),
            Direction::Backward => slots.next_back(),
        } {
            let Some((key, value)) = leaves.entry(leaf, slot) else { continue };
            if visit(K::read(records, key)?, &[value]).is_break() {
                return Ok(());
            }
        }
        match leaves.next_leaf(&mut path, direction)? {
            Some(next) => leaf = next,
            None => return Ok(()),
        }
    }
}

/// I5 of both trees of numbers: every node of every run of the pool is in the tree or free.
pub(crate) fn check_groups(
    groups: &Groups,
    runs: usize,
    node_bytes: u64,
    reached: &HashSet<u64>,
    audit: &mut Audit,
    report: &mut CheckReport,
) {
    let mut found = |sentence: String| report.violations.push(sentence);
    let known = groups.all().len();
    if runs != known {
        found(format!("I5: the pool has {runs} runs, the tree knows {known}"));
    }
    let free: HashSet<u64> = groups.free().iter().copied().collect();
    let mut in_runs = 0;
    for group in groups.all() {
        audit.reach(group.run.offset);
        let mut used = 0;
        for offset in leaves_of(group.run, node_bytes) {
            used += u64::from(reached.contains(&offset));
            if reached.contains(&offset) == free.contains(&offset) {
                found(format!(
                    "I5: the node at {offset:#x} is both in the tree and free, or neither"
                ));
            }
        }
        in_runs += used;
        if used != group.used {
            let (at, counted) = (group.run.offset, group.used);
            found(format!("I5: the group at {at:#x} has {used} nodes in use, not {counted}"));
        }
    }
    if in_runs != reached.len() as u64 {
        found(format!("I5: {} nodes are reached, {in_runs} of them in runs", reached.len()));
    }
}
