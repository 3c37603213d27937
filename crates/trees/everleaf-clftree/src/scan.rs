//! Scans: leaf by leaf by the inner nodes above, for leaves are not linked; the entries of a leaf
//! that is appended to are sorted when it is reached.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, IndexError, Result, Start};
use everleaf_pmem::Media;
use everleaf_pool::RecordGuard;

use super::ClfTree;
use super::encode::Encoded;
use super::layout::LiveSet;
use super::leaf::Leaf;
use super::search::Nodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::{ScanRequest, within_by};

/// A live entry.
pub(super) struct Entry<'p, K: TreeKey> {
    pub key: K::Ref<'p>,
    pub slot: usize,
}

/// What stands in a leaf.
pub(super) enum Content<'p> {
    Appended(Leaf<'p>, LiveSet),
    Encoded(Encoded),
}

impl<'p> Content<'p> {
    /// Of a leaf of the kind that the tree has.
    pub fn of<K: TreeKey, M: Media>(nodes: Nodes<'p, K, M>, leaf: Leaf<'p>) -> Result<Self> {
        Ok(match nodes.settings.encoded {
            true => Self::Encoded(nodes.decode_leaf(leaf)?.1),
            false => Self::Appended(leaf, leaf.live(nodes.media())?),
        })
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Appended(_, live) => live.count(),
            Self::Encoded(line) => line.keys(),
        }
    }

    /// The entries, by ascending keys; those of an encoded leaf as they stand there.
    pub fn entries<'r, K: TreeKey, M: Media>(
        &self,
        records: &'r RecordGuard<'_, M>,
    ) -> Result<Vec<Entry<'r, K>>> {
        match self {
            Self::Appended(leaf, live) => sorted_entries(records, *leaf, *live),
            Self::Encoded(line) => (0..line.keys())
                .map(|slot| Ok(Entry { key: K::read(records, line.key(slot))?, slot }))
                .collect(),
        }
    }

    /// The value of an entry.
    pub fn value<M: Media>(&self, media: &M, slot: usize) -> u64 {
        match self {
            Self::Appended(leaf, _) => media.load(leaf.value(slot)),
            Self::Encoded(line) => line.child(slot),
        }
    }
}

/// The live entries of a leaf, by ascending keys.
pub(super) fn sorted_entries<'p, K: TreeKey, M: Media>(
    records: &'p RecordGuard<'_, M>,
    leaf: Leaf<'_>,
    live: LiveSet,
) -> Result<Vec<Entry<'p, K>>> {
    let media = records.media();
    if K::RECORDS && !M::COUNTS_READS {
        live.iter().for_each(|slot| K::prefetch(media, leaf.key_of::<K, M>(media, slot)));
    }
    let mut entries = Vec::with_capacity(live.count());
    for slot in live.iter() {
        entries.push(Entry { key: leaf.read_key::<K, M>(records, slot)?, slot });
    }
    entries.sort_unstable_by(|a: &Entry<'p, K>, b| K::cmp_keys(a.key, b.key));
    Ok(entries)
}

/// A leaf, and the way to it: each inner node with the child that the way takes.
struct Cursor {
    path: Vec<(Encoded, usize)>,
    leaf: u64,
}

impl Cursor {
    /// At the first leaf in a direction that may have keys within the bound.
    fn first<K: TreeKey, M: Media>(
        nodes: Nodes<'_, K, M>,
        from: Start<'_, K>,
        direction: Direction,
    ) -> Result<Self> {
        let key = match from {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        let root = nodes.root()?;
        let mut cursor = Self { path: Vec::new(), leaf: root.offset() };
        cursor.descend(nodes, root.height(), |line| match key {
            Some(key) => nodes.child_of(line, key),
            None => Ok(first_child(line, direction)),
        })?;
        Ok(cursor)
    }

    /// From where it is down so many levels.
    fn descend<K: TreeKey, M: Media>(
        &mut self,
        nodes: Nodes<'_, K, M>,
        levels: u32,
        child: impl Fn(&Encoded) -> Result<usize>,
    ) -> Result<()> {
        for _ in 0..levels {
            let line = nodes.decode(self.leaf, nodes.words(self.leaf)?)?;
            let at = child(&line)?;
            self.leaf = nodes.offset_of(line.child(at))?;
            self.path.push((line, at));
        }
        Ok(())
    }

    /// To the next leaf in a direction; false if there is none.
    fn advance<K: TreeKey, M: Media>(
        &mut self,
        nodes: Nodes<'_, K, M>,
        direction: Direction,
    ) -> Result<bool> {
        let mut levels = 0;
        while let Some((line, at)) = self.path.pop() {
            let next = match direction {
                Direction::Forward => (at < line.keys()).then_some(at + 1),
                Direction::Backward => at.checked_sub(1),
            };
            if let Some(next) = next {
                self.leaf = nodes.offset_of(line.child(next))?;
                self.path.push((line, next));
                self.descend(nodes, levels, |line| Ok(first_child(line, direction)))?;
                return Ok(true);
            }
            levels += 1;
        }
        Ok(false)
    }
}

/// The child that a scan in this direction reaches first.
fn first_child(line: &Encoded, direction: Direction) -> usize {
    if direction == Direction::Forward { 0 } else { line.keys() }
}

impl<K: TreeKey, M: Media> ClfTree<K, M> {
    /// Visits entries in key order from `from` on.
    pub(super) fn scan_from(&self, scan: ScanRequest<'_, '_, K>) -> Result<()> {
        let ScanRequest { from, direction, visit } = scan;
        let (media, nodes) = (self.pool.media(), self.nodes());
        let mut bound = from;
        let mut cursor = Cursor::first(nodes, from, direction)?;
        // Inner nodes that are damaged may lead to leaves more than once.
        for _ in 0..self.leaves.used() {
            let leaf = nodes.leaf(cursor.leaf)?;
            leaf.prefetch(media);
            let records = self.pool.pin();
            let content = Content::of(nodes, leaf)?;
            let entries = content.entries::<K, M>(&records)?;
            let mut show = |entry: &Entry<'_, K>| -> ControlFlow<()> {
                visit(entry.key, &[content.value(media, entry.slot)])
            };
            let entries = within_by::<K, _>(&entries, |entry| entry.key, bound, direction);
            let shown = match direction {
                Direction::Forward => entries.iter().try_for_each(&mut show),
                Direction::Backward => entries.iter().rev().try_for_each(&mut show),
            };
            if shown.is_break() || !cursor.advance(nodes, direction)? {
                return Ok(());
            }
            bound = Bound::Unbounded;
        }
        let what = "the inner nodes lead to more leaves than there are";
        Err(IndexError::Corrupt { offset: cursor.leaf, what })
    }
}
