//! Removing a key: one store of the permutation. What becomes empty goes: the border node, inner
//! nodes above it that have no other child, the layer. Nodes are not merged before they are empty.
//!
//! That a node goes can be left undone, and is where its neighbour is locked for long: an empty
//! node is a node. Locks are taken from below upwards; the left neighbour, whose pointer to the
//! right passes the node over, is not waited for.

use everleaf_index::Result;
use everleaf_pmem::{Media, planted};

use super::Masstree;
use super::layout::{LONGER, NODE_BYTES};
use super::memory::write_empty_words;
use super::node::{At, Halt, Locked, Step};
use super::record::behind;
use super::search::{Entry, Look, Seen};
use super::split::{if_possible, layer_of};
use everleaf_tree::key::slices::{SLICE, SliceKey};

/// How often the left neighbour is asked for.
const ATTEMPTS: usize = 16;

/// A locked border node without entries, and the root of its layer.
struct Empty<'t, M: Media> {
    locked: Locked<'t, M>,
    root: At<'t>,
    depth: usize,
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Removes a key; its value, none if it is absent.
    pub(super) fn remove(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        if K::admit_slices(key).is_err() {
            return Ok(None); // No such key is ever present.
        }
        self.patiently(|| {
            let media = self.pool.media();
            let place = self.locate(key)?;
            let (word, record) = match self.entry(&place)? {
                Entry::Absent | Entry::Other(..) => return Ok(None),
                Entry::Value(slot) => {
                    (media.load(place.locked.node().value::<DURABLE>(slot)), None)
                }
                Entry::Record(offset) => (self.own_record(offset)?.value(media), Some(offset)),
            };
            let old = self.value_of(word)?;
            self.touch(place.locked.at)?;
            self.drop_entry(&place.locked, place.position);
            self.keys.add(place.locked.at.offset, -1);
            if let Some(offset) = record {
                self.free_record(offset)?;
            }
            self.free_value(word)?;
            if media.load(&place.locked.node().perm).count() == 0 {
                let (locked, root, depth) = (place.locked, place.root, place.depth);
                self.prune(key, Empty { locked, root, depth })?;
            }
            Ok(Some(old))
        })
    }

    /// Of a node that was [touched](Self::touch).
    fn drop_entry(&self, locked: &Locked<'_, M>, position: usize) {
        let (media, node) = (self.pool.media(), locked.node());
        locked.mark_recycled();
        let perm = media.load(&node.perm);
        media.store(&node.perm, perm.removed(position, Self::SLOTS));
    }

    /// Takes an empty node away, and what becomes empty by that.
    #[cold]
    #[inline(never)]
    fn prune<'t>(&'t self, key: K::Ref<'_>, mut empty: Empty<'t, M>) -> Result<()> {
        loop {
            if empty.locked.at.offset != empty.root.offset {
                let (slice, _) = K::slice(key, empty.depth);
                match self.unlink(empty, slice)? {
                    Some(root) => empty = root,
                    None => return Ok(()),
                }
            }
            if empty.depth == 0 {
                return Ok(());
            }
            match if_possible(self.leave_layer(key, empty))?.flatten() {
                Some(above) => empty = above,
                None => return Ok(()),
            }
        }
    }

    /// Takes an empty border node out of its layer. If the layer becomes empty by that, its root,
    /// which is an empty border node then.
    fn unlink<'t>(&'t self, empty: Empty<'t, M>, slice: u64) -> Result<Option<Empty<'t, M>>> {
        for _ in 0..ATTEMPTS {
            if let Some(done) = if_possible(self.try_unlink(&empty, slice))? {
                let root = empty.root;
                let depth = empty.depth;
                let Unlinked { gone, locks, layer } = done;
                let border = empty.locked.at.offset;
                drop((empty, locks));
                for offset in gone.into_iter().chain([border]) {
                    self.memory.free(offset, NODE_BYTES)?;
                }
                return Ok(layer.map(|locked| Empty { locked, root, depth }));
            }
            self.pool.media().relax();
        }
        Ok(None)
    }

    fn try_unlink<'t>(&'t self, empty: &Empty<'t, M>, slice: u64) -> Step<Unlinked<'t, M>> {
        let media = self.pool.media();
        let border = empty.locked.at;
        // Inner nodes that have no other child go too.
        let mut locks: Vec<Locked<'t, M>> = Vec::new();
        let mut child = border.offset;
        let (parent, index, keys) = loop {
            let held = |offset| locks.iter().any(|locked| locked.at.offset == offset);
            let (parent, index) = self.lock_parent(empty.root, child, slice, held)?;
            let keys = media.load(&parent.node().meta).keys();
            if keys > 0 || parent.at.offset == empty.root.offset {
                break (parent, index, keys);
            }
            child = parent.at.offset;
            locks.push(parent);
        };
        let left = if keys > 0 { self.lock_left(empty, slice)? } else { None };
        for changed in left.iter().chain([&parent]) {
            self.log(changed.at).map_err(Halt::left_undone)?;
        }
        empty.locked.mark_deleted();
        locks.iter().for_each(Locked::mark_deleted);
        let gone = locks.iter().map(|locked| locked.at.offset).collect();
        parent.mark_changing();
        if let Some(left) = left.as_ref().filter(|_| !planted(292)) {
            media.store(&left.node().next, media.load(&border.node.next));
        }
        if keys == 0 {
            // The root had nothing else below it.
            write_empty_words::<M, DURABLE>(media, parent.node());
            parent.change_kind(true);
            self.count_nodes(0, -1 - locks.len() as i64);
            return Ok(Unlinked { gone, locks, layer: Some(parent) });
        }
        let (mut keys, mut children) = self.contents(parent.at);
        keys.remove(index.saturating_sub(1));
        children.remove(index);
        self.write_inner(parent.at, &keys, &children);
        self.count_nodes(-1, -(locks.len() as i64));
        Ok(Unlinked { gone, locks, layer: None })
    }

    /// Locks the left neighbour of an empty border node; none if it is the first.
    fn lock_left<'t>(&'t self, empty: &Empty<'t, M>, slice: u64) -> Step<Option<Locked<'t, M>>> {
        let media = self.pool.media();
        let root = || Step::Ok(Seen { at: empty.root, version: self.stable(empty.root)? });
        let here = self.descend(root()?, slice)?;
        if here.border.at.offset != empty.locked.at.offset {
            return Err(Halt::Retry);
        }
        let Some(below) = here.low.checked_sub(1) else { return Ok(None) };
        let left = self.descend(root()?, below)?.border.at;
        let locked = left.try_lock(media).ok_or(Halt::Retry)?;
        if media.load(&left.node.next).offset() != empty.locked.at.offset {
            return Err(Halt::Retry);
        }
        Ok(Some(locked))
    }

    /// Takes the entry away that leads to a layer whose root is empty, and the root; the border
    /// node of the entry if that is empty now.
    fn leave_layer<'t>(
        &'t self,
        key: K::Ref<'_>,
        empty: Empty<'t, M>,
    ) -> Step<Option<Empty<'t, M>>> {
        let media = self.pool.media();
        let above = empty.depth - SLICE;
        let (mut root, mut depth) = (self.top()?, 0);
        loop {
            let (slice, code) = K::slice(key, depth);
            let spot = self.descend(root, slice)?;
            if depth < above {
                match self.look(spot.border, slice, code, behind(K::rest(key, depth)))? {
                    Look::Layer(next) => (root, depth) = (next, depth + SLICE),
                    Look::Found(_) => return Ok(None),
                }
                continue;
            }
            let locked = spot.border.at.lock(media, spot.border.version)?;
            let perm = media.load(&locked.node().perm);
            let (position, slot) = self.rank_in(locked.at, perm, slice, LONGER);
            let word = slot.map(|slot| media.load(locked.node().value::<DURABLE>(slot)));
            let offset = empty.locked.at.offset;
            if word.and_then(|word| layer_of(LONGER, word)) != Some(offset) {
                return Ok(None);
            }
            self.touch(locked.at).map_err(Halt::left_undone)?;
            empty.locked.mark_deleted();
            self.drop_entry(&locked, position);
            self.count_nodes(-1, 0);
            drop(empty);
            self.memory.free(offset, NODE_BYTES)?;
            let is_empty = media.load(&locked.node().perm).count() == 0;
            return Ok(is_empty.then_some(Empty { locked, root: root.at, depth: above }));
        }
    }
}

/// What was taken out of a layer. Its locks are given back before its memory is.
struct Unlinked<'t, M: Media> {
    /// Inner nodes.
    gone: Vec<u64>,
    locks: Vec<Locked<'t, M>>,
    /// The root, if it is an empty border node now.
    layer: Option<Locked<'t, M>>,
}
