//! The inner nodes, in DRAM: parents of leaves, and above them levels of nodes without pointers,
//! found by arithmetic. Nothing of it is persistent: it is built from the list of leaves.
//!
//! # Layout
//! All keys of all inner nodes are in one array, level by level. A node has up to `fanout`
//! children; child `k` of node `id` of a level is node `id * fanout + k` of the level below, and
//! its key, the least that it may hold, is at that place among the keys of the level. The lowest
//! level are the parents, also in one array, with `fanout` places each for the lower bounds of
//! leaves and the pointers to them.
//!
//! The keys of inner nodes divide the parents: what a parent holds is at least its key and less
//! than that of the next parent. A key below the first bound of its parent belongs to the last leaf
//! of the parents before.
//!
//! # A full parent
//! Nodes cannot be split, for every place is taken. The slides rebuild all inner nodes when a
//! parent is full; then ascending keys, which always meet the same parent, rebuild them every few
//! splits, at a cost that grows with the tree. Here the entries of as many neighbouring parents as
//! necessary are spread evenly: the parents below one inner node, else those below its parent, and
//! so on, of which the first is taken that is not too full (`spread`). How full it may be falls
//! from level to level, to five eighths of the whole array; beyond that all is rebuilt, with
//! parents half full. So a part that was spread takes one place in `4 * levels` more, at least,
//! before the part above it is spread: whatever the order of insertions, a split moves no more than
//! `4 * fanout * levels^2` entries, amortised, if the fanout is 8 or more, and a rebuild comes only
//! after the tree has grown by a quarter. Parents that are emptied are filled up in the same way,
//! with limits from below.
//!
//! Map of the files: `keys` (an array of separators) · `spread` (redistribution and rebuild) ·
//! `check` (what must hold).

mod check;
mod keys;
mod spread;
#[cfg(test)]
mod tests;

use std::collections::TryReserveError;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, DramSource, MapError, Media};
use everleaf_pool::PoolError;

use everleaf_tree::key::{KeepError, Kept, TreeKey};
use keys::Keys;

/// Where a leaf stands: its parent, and which of the parent's entries it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    parent: usize,
    index: usize,
}

impl Place {
    /// That of the first leaf of all.
    const FIRST: Self = Self { parent: 0, index: 0 };

    /// Whether it is the first leaf of all.
    #[inline(always)]
    pub fn is_first(self) -> bool {
        self == Self::FIRST
    }
}

/// A place that was made for a leaf, and its kept separator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    place: Place,
    kept: Kept,
}

/// The keys of one level of inner nodes: one for each node of the level below.
#[derive(Clone, Copy, Debug)]
struct Level {
    start: usize,
    len: usize,
}

/// How often inner nodes were changed by more than one entry, and how many entries were moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// All of them were rebuilt.
    pub rebuilds: u64,
    /// Some parents were spread.
    pub spreads: u64,
    /// Entries moved by either.
    pub entries: u64,
}

/// The inner nodes over at least one leaf.
pub(super) struct Inner<K: TreeKey> {
    fanout: usize,
    separators: K::Separators,
    /// From the level above the parents to the one with a single node; none above one parent.
    levels: Vec<Level>,
    /// The keys of all levels.
    keys: Keys,
    /// Of each parent: the leaf whose bound its key is has gone, so no other owner has
    /// the key's string (byte-string keys).
    orphans: Vec<bool>,
    /// Entries of each parent.
    counts: Vec<u32>,
    /// The lower bounds of leaves, `fanout` places a parent.
    bounds: Keys,
    /// Leaves, likewise.
    leaves: Vec<u64>,
    len: usize,
    moves: Moves,
}

impl<K: TreeKey> Inner<K> {
    /// Inner nodes over leaves with their lower bounds, ascending, of which the first is the least
    /// key: a rebuild from leaves.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] if bounds do not ascend or there is no leaf, [`IndexError::Pool`]
    /// when there is no memory.
    pub fn build(
        fanout: usize,
        dram: DramSource<'_>,
        leaves: impl Iterator<Item = Result<(K::Owned, u64)>>,
    ) -> Result<Self> {
        let separators = K::separators(dram).map_err(no_memory)?;
        let mut entries: Vec<(Kept, u64)> = Vec::with_capacity(leaves.size_hint().0);
        let mut before: Option<K::Owned> = None;
        for leaf in leaves {
            let (bound, leaf) = leaf?;
            let kept = match &before {
                None => Kept::default(),
                Some(before) if *before < bound => keep::<K>(&separators, K::borrow(&bound))?,
                Some(_) => {
                    let what = "the lower bounds of leaves do not ascend";
                    return Err(IndexError::Corrupt { offset: leaf, what });
                }
            };
            entries.push((kept, leaf));
            before = Some(bound);
        }
        let mut inner = Self::empty(fanout, separators);
        inner.lay_out(entries.into_iter())?;
        Ok(inner)
    }

    /// Inner nodes over leaves of `u64` keys, likewise, whose bounds are known to ascend: they are
    /// written once.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when there is no memory.
    pub fn build_known(
        fanout: usize,
        dram: DramSource<'_>,
        leaves: impl ExactSizeIterator<Item = (u64, u64)>,
    ) -> Result<Self> {
        let mut inner = Self::empty(fanout, K::separators(dram).map_err(no_memory)?);
        let kept = |(word, leaf)| (Kept { word, ..Kept::default() }, leaf);
        inner.lay_out(leaves.map(kept))?;
        Ok(inner)
    }

    /// Without a node; to be laid out.
    fn empty(fanout: usize, separators: K::Separators) -> Self {
        Self {
            fanout,
            separators,
            levels: Vec::new(),
            keys: Keys::default(),
            orphans: Vec::new(),
            counts: Vec::new(),
            bounds: Keys::default(),
            leaves: Vec::new(),
            len: 0,
            moves: Moves::default(),
        }
    }

    /// The parent whose part of the keys `key` lies in.
    #[inline(always)]
    fn parent_of(&self, key: K::Ref<'_>) -> usize {
        let mut node = 0;
        for level in self.levels.iter().rev() {
            let first = node * self.fanout;
            let count = self.fanout.min(level.len - first);
            let before = self.keys.up_to::<K>(&self.separators, level.start + first, count, key);
            node = first + before.saturating_sub(1);
        }
        node
    }

    /// The place of the leaf that covers `key`.
    #[inline(always)]
    pub fn find(&self, key: K::Ref<'_>) -> Place {
        let parent = self.parent_of(key);
        let count = self.counts[parent] as usize;
        match self.bounds.up_to::<K>(&self.separators, parent * self.fanout, count, key) {
            0 => self.last_before(parent).unwrap_or(Place::FIRST),
            before => Place { parent, index: before - 1 },
        }
    }

    /// The last place of the parents before this one.
    fn last_before(&self, parent: usize) -> Option<Place> {
        let parent = (0..parent).rev().find(|parent| self.counts[*parent] > 0)?;
        Some(Place { parent, index: self.counts[parent] as usize - 1 })
    }

    /// The leaf at a place.
    #[inline(always)]
    pub fn leaf(&self, place: Place) -> u64 {
        self.leaves[place.parent * self.fanout + place.index]
    }

    /// The place before this one.
    pub fn previous(&self, place: Place) -> Option<Place> {
        match place.index {
            0 => self.last_before(place.parent),
            index => Some(Place { index: index - 1, ..place }),
        }
    }

    /// The place behind this one.
    pub fn next(&self, place: Place) -> Option<Place> {
        if place.index + 1 < self.counts[place.parent] as usize {
            return Some(Place { index: place.index + 1, ..place });
        }
        let mut behind = place.parent + 1..self.counts.len();
        let parent = behind.find(|parent| self.counts[*parent] > 0)?;
        Some(Place { parent, index: 0 })
    }

    /// The first place.
    pub fn first(&self) -> Place {
        Place::FIRST
    }

    /// The last place.
    pub fn last(&self) -> Place {
        self.last_before(self.counts.len()).unwrap_or(Place::FIRST)
    }

    /// The lower bound of the leaf at a place.
    pub fn lower_bound(&self, place: Place) -> K::Owned {
        let kept = self.bounds.get(place.parent * self.fanout + place.index);
        K::copy_kept(&self.separators, kept)
    }

    /// Makes room for a leaf with this lower bound, which none has. Places change.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when there is no memory; nothing has changed then but places.
    pub fn make_room<M: Media>(&mut self, separator: K::Ref<'_>, media: &M) -> Result<Room> {
        let full = self.parent_of(separator);
        if self.counts[full] as usize == self.fanout {
            self.relieve(full)?;
            media.count(Counter::InnerSplits, 1);
        }
        let parent = self.parent_of(separator);
        let count = self.counts[parent] as usize;
        let start = parent * self.fanout;
        let index = self.bounds.up_to::<K>(&self.separators, start, count, separator);
        let kept = keep::<K>(&self.separators, separator)?;
        Ok(Room { place: Place { parent, index }, kept })
    }

    /// Gives room back that is not used.
    pub fn forget(&mut self, room: Room) {
        K::release(&self.separators, room.kept.handle);
    }

    /// Puts a leaf where room was made for it; no place has changed since.
    pub fn insert(&mut self, room: Room, leaf: u64) {
        let Place { parent, index } = room.place;
        let (at, end) = (parent * self.fanout + index, self.counts[parent] as usize);
        let end = parent * self.fanout + end;
        self.bounds.open(at, end, room.kept);
        self.leaves.copy_within(at..end, at + 1);
        self.leaves[at] = leaf;
        self.counts[parent] += 1;
        self.len += 1;
    }

    /// Puts another leaf at a place.
    pub fn set_leaf(&mut self, place: Place, leaf: u64) {
        self.leaves[place.parent * self.fanout + place.index] = leaf;
    }

    /// Removes a leaf that is not the first. Its range falls to the one before. Places change.
    pub fn remove(&mut self, place: Place) {
        let Place { parent, index } = place;
        let (at, start) = (parent * self.fanout + index, parent * self.fanout);
        let end = start + self.counts[parent] as usize;
        let kept = self.bounds.get(at);
        if K::RECORDS {
            let is_key = self
                .levels
                .first()
                .is_some_and(|level| self.keys.get(level.start + parent).handle == kept.handle);
            if is_key {
                self.orphans[parent] = true;
            } else {
                K::release(&self.separators, kept.handle);
            }
        }
        self.bounds.close(at, end);
        self.leaves.copy_within(at + 1..end, at);
        self.counts[parent] -= 1;
        self.len -= 1;
        if self.counts[parent] == 0 {
            self.refill(parent);
        }
    }

    /// Levels, the parents included.
    pub fn height(&self) -> u32 {
        self.levels.len() as u32 + 1
    }

    /// Nodes, the parents included.
    pub fn nodes(&self) -> u64 {
        let inner = self.levels.iter().map(|level| level.len.div_ceil(self.fanout));
        (self.counts.len() + inner.sum::<usize>()) as u64
    }

    /// Leaves.
    pub fn len(&self) -> usize {
        self.len
    }

    /// What was moved so far.
    #[cfg(test)]
    pub fn moves(&self) -> Moves {
        self.moves
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> u64 {
        let words = self.keys.words_taken() + self.bounds.words_taken() + self.leaves.capacity();
        let parents = self.counts.capacity() * size_of::<u32>() + self.orphans.capacity();
        (words * size_of::<u64>() + parents) as u64 + K::separator_bytes(&self.separators)
    }
}

/// Keeps a separator.
fn keep<K: TreeKey>(separators: &K::Separators, separator: K::Ref<'_>) -> Result<Kept> {
    let handle = K::keep(separators, separator).map_err(|error| match error {
        KeepError::Memory(error) => no_memory(error),
        KeepError::TooLong { .. } => IndexError::Corrupt {
            offset: 0,
            what: "the lower bound of a leaf is longer than a key can be",
        },
    })?;
    Ok(Kept { word: K::word(separator, 0), handle })
}

fn no_memory(error: MapError) -> IndexError {
    IndexError::Pool(PoolError::Map(error))
}

/// The system gives no memory for arrays of this length.
fn no_array(_: TryReserveError) -> IndexError {
    let source = std::io::ErrorKind::OutOfMemory.into();
    no_memory(MapError::System { action: "taking memory for the inner nodes", source })
}
