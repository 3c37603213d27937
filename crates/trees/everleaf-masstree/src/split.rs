//! Splitting: a full border node gives its upper half to a new one on its right, and so do the full
//! inner nodes above. The root of a layer keeps its place: its entries go into two new nodes, and
//! it becomes the inner node above them.
//!
//! All that can fail comes first: locks, from the border node upwards to the first node with room,
//! and memory. Then the nodes are marked as changing and changed.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PPtr};

use super::Masstree;
use super::insert::NewEntry;
use super::layout::{FANOUT, Meta, NODE_BYTES, Onward, Permutation, WIDTH};
use super::node::{At, Halt, Locked, Step};
use super::search::{MAX_LEVELS, Place, Seen};
use everleaf_tree::key::slices::SliceKey;

/// A locked inner node that gets a child more.
struct Level<'t, M: Media> {
    locked: Locked<'t, M>,
    /// The child that is split.
    index: usize,
    /// If the node is full: a new one, and a second one if it is the root.
    new: [u64; 2],
}

/// A child that an inner node gets, and the least slice that it covers.
#[derive(Clone, Copy)]
struct NewChild {
    key: u64,
    child: u64,
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Adds an entry to a full node.
    #[cold]
    #[inline(never)]
    pub(super) fn split(&self, place: Place<'_, '_, M>, entry: NewEntry) -> Step<()> {
        let media = self.pool.media();
        let node = place.locked.node();
        let mut entries = self.entries(place.locked.at);
        entries.insert(place.position, entry);
        let appends = place.position + 1 == entries.len() && media.load(&node.next).is_null();
        let Some(cut) = cut(&entries, appends) else {
            // All entries have one slice. There are no more than ten of them, so there is room.
            if entries.len() > Self::SLOTS {
                let what = "a slice has more entries than there are lengths";
                return Err(IndexError::Corrupt { offset: place.locked.at.offset, what }.into());
            }
            self.touch_free_slot(place.locked.at, media.load(&node.perm))?;
            self.put_entry(&place.locked, place.position, entry);
            return Ok(());
        };
        let mut made = Vec::new();
        let done = if place.locked.at.offset == place.root.offset {
            self.split_root(&place.locked, &entries, cut, &mut made)
        } else {
            self.split_border(&place, &entries, cut, appends, &mut made)
        };
        if done.is_err() {
            made.into_iter().try_for_each(|offset| self.memory.free(offset, NODE_BYTES))?;
        }
        done
    }

    /// The entries of a locked border node, in their order.
    pub(super) fn entries(&self, at: At<'_>) -> Vec<NewEntry> {
        self.entries_in(at, self.pool.media().load(&at.node.perm))
    }

    /// The same of a border node that has this permutation.
    pub(super) fn entries_in(&self, at: At<'_>, perm: Permutation) -> Vec<NewEntry> {
        let media = self.pool.media();
        let meta = media.load(&at.node.meta);
        let mut entries = Vec::with_capacity(WIDTH + 1);
        entries.extend((0..perm.count()).map(|position| {
            let slot = perm.slot(position).min(WIDTH - 1);
            NewEntry {
                slice: media.load(at.node.key(slot)),
                code: if K::ONE_SLICE { size_of::<u64>() as u8 } else { meta.code(slot) },
                word: media.load(at.node.value::<DURABLE>(slot)),
            }
        }));
        entries
    }

    fn split_root(
        &self,
        locked: &Locked<'_, M>,
        entries: &[NewEntry],
        cut: usize,
        made: &mut Vec<u64>,
    ) -> Step<()> {
        let media = self.pool.media();
        let (left, right) = (self.new_border_in(made)?, self.new_border_in(made)?);
        self.fill(left, &entries[..cut])?;
        self.fill(right, &entries[cut..])?;
        media.store(&self.memory.node(left)?.next, PPtr::at(right));
        self.log(locked.at)?;
        locked.mark_changing();
        let children = [left, right];
        self.write_inner(locked.at, &[entries[cut].slice], &children);
        locked.change_kind(false);
        self.count_nodes(1, 1);
        Ok(())
    }

    fn split_border(
        &self,
        place: &Place<'_, '_, M>,
        entries: &[NewEntry],
        cut: usize,
        appends: bool,
        made: &mut Vec<u64>,
    ) -> Step<()> {
        let media = self.pool.media();
        let right = self.new_border_in(made)?;
        let levels = self.lock_above(place, made)?;
        self.fill(right, &entries[cut..])?;
        let (node, right_node) = (place.locked.node(), self.memory.node(right)?);
        self.log(place.locked.at)?;
        levels.iter().try_for_each(|level| self.log(level.locked.at))?;
        place.locked.mark_changing();
        levels.iter().for_each(|level| level.locked.mark_changing());
        media.store(&right_node.next, media.load(&node.next));
        media.store(&node.next, PPtr::at(right));
        let perm = media.load(&node.perm);
        if place.position < cut {
            media.store(&node.perm, perm.truncated(cut - 1));
            self.put_entry(&place.locked, place.position, entries[place.position]);
        } else {
            media.store(&node.perm, perm.truncated(cut));
        }
        let mut new = Some(NewChild { key: entries[cut].slice, child: right });
        for level in &levels {
            new = match new {
                Some(child) => self.add_child(level, child, appends)?,
                None => None,
            };
        }
        let inner = levels.iter().flat_map(|level| level.new).filter(|new| *new != 0);
        self.count_nodes(1, inner.count() as i64);
        Ok(())
    }

    fn new_border_in(&self, made: &mut Vec<u64>) -> Step<u64> {
        let offset = self.memory.alloc_border()?;
        made.push(offset);
        Ok(offset)
    }

    fn new_inner_in(&self, made: &mut Vec<u64>) -> Step<u64> {
        let offset = self.memory.alloc_inner()?;
        made.push(offset);
        Ok(offset)
    }

    /// Locks the nodes above a border node up to the first one with room, or the root.
    fn lock_above<'t>(
        &'t self,
        place: &Place<'t, '_, M>,
        made: &mut Vec<u64>,
    ) -> Step<Vec<Level<'t, M>>> {
        let mut levels: Vec<Level<'t, M>> = Vec::new();
        let mut child = place.locked.at.offset;
        loop {
            let held = |offset| levels.iter().any(|level| level.locked.at.offset == offset);
            let (locked, index) = self.lock_parent(place.root, child, place.slice, held)?;
            let full = self.pool.media().load(&locked.node().meta).keys() >= self.inner_keys;
            let is_root = locked.at.offset == place.root.offset;
            let mut new = [0; 2];
            if full {
                new[0] = self.new_inner_in(made)?;
            }
            if full && is_root {
                new[1] = self.new_inner_in(made)?;
            }
            child = locked.at.offset;
            levels.push(Level { locked, index, new });
            if !full || is_root {
                return Ok(levels);
            }
        }
    }

    /// Locks the inner node above a locked one, and says which child that is. The child stays under
    /// some parent while it is locked; a descent finds under which. Of the nodes that this thread
    /// holds none is above: it would wait for itself.
    pub(super) fn lock_parent<'t>(
        &'t self,
        root: At<'t>,
        child: u64,
        slice: u64,
        is_held: impl Fn(u64) -> bool,
    ) -> Step<(Locked<'t, M>, usize)> {
        let media = self.pool.media();
        let mut above = Seen { at: root, version: self.stable(root)? };
        for _ in 0..=MAX_LEVELS {
            if above.version.is_border() || is_held(above.at.offset) {
                break;
            }
            let keys = media.load(&above.at.node.meta).keys();
            let index = above.at.child_for(media, keys, slice);
            if media.load(above.at.node.child(index)).offset() == child {
                return Ok((above.at.lock(media, above.version)?, index));
            }
            (above, _) = self.step_down(above, slice)?;
        }
        let what = "a node is not below the one that leads to it";
        Err(above.at.judge(media, above.version, IndexError::Corrupt { offset: child, what }))
    }

    /// Adds a child behind the one that was split; what the node above gets if this one is split.
    fn add_child(
        &self,
        level: &Level<'_, M>,
        new: NewChild,
        appends: bool,
    ) -> Step<Option<NewChild>> {
        let media = self.pool.media();
        let Level { locked, index, new: [right, left] } = level;
        let (mut keys, mut children) = self.contents(locked.at);
        keys.insert(*index, new.key);
        children.insert(index + 1, new.child);
        if *right == 0 {
            self.write_inner(locked.at, &keys, &children);
            return Ok(None);
        }
        // Where keys ascend the left node stays full.
        let half = if appends { keys.len() - 2 } else { keys.len() / 2 };
        let (up, right_keys) = (keys[half], &keys[half + 1..]);
        self.write_inner(self.fresh_at(*right)?, right_keys, &children[half + 1..]);
        if *left == 0 {
            self.write_inner(locked.at, &keys[..half], &children[..=half]);
            return Ok(Some(NewChild { key: up, child: *right }));
        }
        self.write_inner(self.fresh_at(*left)?, &keys[..half], &children[..=half]);
        self.write_inner(locked.at, &[up], &[*left, *right]);
        media.count(everleaf_pmem::Counter::InnerSplits, 1);
        Ok(None)
    }

    fn fresh_at(&self, offset: u64) -> Result<At<'_>> {
        Ok(At { node: self.memory.node(offset)?, offset })
    }

    /// Keys and children of a locked inner node.
    pub(super) fn contents(&self, at: At<'_>) -> (Vec<u64>, Vec<u64>) {
        let media = self.pool.media();
        let count = media.load(&at.node.meta).keys();
        let mut keys = Vec::with_capacity(WIDTH + 1);
        keys.extend((0..count).map(|i| media.load(at.node.key(i))));
        let mut children = Vec::with_capacity(FANOUT + 1);
        children.extend((0..=count).map(|i| media.load(at.node.child(i)).offset()));
        (keys, children)
    }

    /// Writes keys and children of an inner node that readers wait for, or do not know.
    pub(super) fn write_inner(&self, at: At<'_>, keys: &[u64], children: &[u64]) {
        let media = self.pool.media();
        for (i, key) in keys.iter().enumerate() {
            media.store(at.node.key(i), *key);
        }
        for (i, child) in children.iter().enumerate() {
            media.store(at.node.child(i), PPtr::at(*child));
        }
        media.store(&at.node.meta, Meta::inner(keys.len()));
    }
}

/// Where entries are divided: between two slices, as near to the middle as can be, or before the
/// last entry where keys ascend. None if all have one slice.
fn cut(entries: &[NewEntry], appends: bool) -> Option<usize> {
    let aim = if appends { entries.len() - 1 } else { entries.len().div_ceil(2) };
    let divides = |at: &usize| entries[at - 1].slice != entries[*at].slice;
    (1..entries.len()).filter(divides).min_by_key(|at| at.abs_diff(aim))
}

/// Whether a word of an entry with this length code leads to a layer.
pub(super) fn layer_of(code: u8, word: u64) -> Option<u64> {
    match Onward::of(word) {
        Onward::Layer(offset) if code == super::layout::LONGER => Some(offset),
        _ => None,
    }
}

/// The outcome of something that may be left undone.
pub(super) fn if_possible<T>(step: Step<T>) -> Result<Option<T>> {
    match step {
        Ok(value) => Ok(Some(value)),
        Err(Halt::Retry) => Ok(None),
        Err(Halt::Failed(error)) => Err(error),
    }
}
