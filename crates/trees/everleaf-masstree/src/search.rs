//! Finding: layer by layer, in each from its root to the border node of the slice.
//!
//! Nothing shared is written. A node is read between two looks at its version, and the version of
//! the node that comes next is taken before the second of them: so what led there was right at that
//! moment, and stays so while the version does. The same hands a search from an entry on to the
//! root of the layer behind it.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::Media;

use super::Masstree;
use super::layout::{LONGER, Onward, Permutation, Version};
use super::node::{At, Halt, Locked, Step};
use super::record::behind;
use everleaf_tree::key::slices::SliceKey;

/// How often the levels are counted while other threads change them.
const ATTEMPTS: usize = 16;
/// More levels than this a layer does not have.
pub(super) const MAX_LEVELS: usize = 64;

/// A node as it was seen.
#[derive(Clone, Copy)]
pub(super) struct Seen<'t> {
    pub at: At<'t>,
    pub version: Version,
}

impl Seen<'_> {
    /// A node that another one leads to, which did when this one had its version already. One that
    /// is deleted is unlocked only when nothing leads to it any more: then the tree is damaged.
    #[inline(always)]
    pub fn living(self) -> Step<Self> {
        if self.version.is_deleted() {
            let what = "a node leads to one that is deleted";
            return Err(IndexError::Corrupt { offset: self.at.offset, what }.into());
        }
        Ok(self)
    }
}

/// A border node that covers a slice while its version holds.
#[derive(Clone, Copy)]
pub(super) struct Spot<'t> {
    pub border: Seen<'t>,
    /// The least slice that it covers.
    pub low: u64,
}

/// A key's place in a locked border node.
pub(super) struct Place<'t, 'k, M: Media> {
    pub locked: Locked<'t, M>,
    /// The root of the layer.
    pub root: At<'t>,
    /// Bytes of the key before the slice.
    pub depth: usize,
    pub slice: u64,
    pub code: u8,
    /// The bytes of the key behind the slice.
    pub behind: &'k [u8],
    /// How many entries are less.
    pub position: usize,
    /// The entry with this slice and length code: the key's, or of another longer key.
    pub slot: Option<usize>,
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// The node at a place that another node knows, its lines asked for.
    #[inline(always)]
    pub(super) fn enter(&self, offset: u64) -> Result<At<'_>> {
        let node = self.memory.node(offset)?;
        let at = At { node, offset };
        at.prefetch(self.pool.media());
        Ok(at)
    }

    /// The version of a node, once no thread is changing it. None does if the version is of another
    /// run.
    #[inline(always)]
    pub(super) fn stable(&self, at: At<'_>) -> Step<Version> {
        let media = self.pool.media();
        loop {
            let version = media.load(&at.node.version);
            if !version.is_changing() {
                return Ok(version);
            }
            if DURABLE && !version.is_of(self.memory.epochs.run()) {
                return Err(Halt::Retry);
            }
            media.relax();
        }
    }

    /// A node that one leads to which was seen like this. Recovers it, if this is the first look at
    /// it in this run. Whether the one still leads to it is to be asked next.
    #[inline(always)]
    pub(super) fn reach<'t>(&'t self, from: Seen<'t>, offset: u64) -> Step<Seen<'t>> {
        let media = self.pool.media();
        let at = self.enter(offset).map_err(|error| from.at.judge(media, from.version, error))?;
        if DURABLE && self.is_unseen(at.node) {
            // What no node leads to any more may be anything by now.
            if !from.at.is_current(media, from.version) {
                return Err(Halt::Retry);
            }
            self.recover_node(at)?;
        }
        Ok(Seen { at, version: self.stable(at)? })
    }

    /// What a locked node leads to, which stays while that node is locked: not deleted.
    pub(super) fn reach_held<'t>(&'t self, from: At<'t>, offset: u64) -> Step<Seen<'t>> {
        let version = self.pool.media().load(&from.node.version);
        self.reach(Seen { at: from, version }, offset)?.living()
    }

    /// Recovers a record, if this is the first look at it in this run. As in
    /// [`reach`](Self::reach).
    #[inline(always)]
    fn reach_record(&self, from: Seen<'_>, offset: u64) -> Step<()> {
        let media = self.pool.media();
        if DURABLE {
            let block = self.memory.block(offset);
            let block = block.map_err(|error| from.at.judge(media, from.version, error))?;
            if self.is_unseen_record(block) {
                if !from.at.is_current(media, from.version) {
                    return Err(Halt::Retry);
                }
                self.recover_record(offset, block)?;
            }
        }
        Ok(())
    }

    /// The root of the first layer.
    #[inline(always)]
    pub(super) fn top(&self) -> Step<Seen<'_>> {
        let at = self.enter(self.root)?;
        if DURABLE && self.is_unseen(at.node) {
            self.recover_node(at)?;
        }
        Seen { at, version: self.stable(at)? }.living()
    }

    /// The child that an inner node leads to, and the greatest key that is at most the slice.
    #[inline(always)]
    pub(super) fn step_down<'t>(&'t self, from: Seen<'t>, slice: u64) -> Step<(Seen<'t>, u64)> {
        let (media, node) = (self.pool.media(), from.at.node);
        let meta = media.load(&node.meta);
        let index = from.at.child_for(media, meta.keys(), slice);
        let low = if index > 0 { media.load(node.key(index - 1)) } else { 0 };
        let below = self.reach(from, media.load(node.child(index)).offset())?;
        if !from.at.is_current(media, from.version) {
            return Err(Halt::Retry);
        }
        Ok((below.living()?, low))
    }

    /// Levels of the first layer, border nodes included; none while other threads change it.
    pub(super) fn height(&self) -> Option<u32> {
        let levels = || {
            let (mut node, mut levels) = (self.top()?, 1);
            while !node.version.is_border() && levels <= MAX_LEVELS as u32 {
                node = self.step_down(node, 0)?.0;
                levels += 1;
            }
            Step::Ok(levels)
        };
        (0..ATTEMPTS).find_map(|_| levels().ok())
    }

    /// The border node of a slice, in the layer with this root.
    #[inline(always)]
    pub(super) fn descend<'t>(&'t self, root: Seen<'t>, slice: u64) -> Step<Spot<'t>> {
        let (mut border, mut low) = (root, 0);
        if root.version.is_deleted() {
            return Err(Halt::Retry);
        }
        let mut levels = 0;
        while !border.version.is_border() {
            let (below, bound) = self.step_down(border, slice)?;
            (border, low) = (below, low.max(bound));
            levels += 1;
            if levels > MAX_LEVELS {
                let what = "a layer has too many levels";
                return Err(IndexError::Corrupt { offset: root.at.offset, what }.into());
            }
        }
        Ok(Spot { border, low })
    }

    /// The value of a key.
    #[inline]
    pub(super) fn find(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        loop {
            match self.try_find(key) {
                Ok(found) => return Ok(found),
                Err(Halt::Retry) => self.restarted(),
                Err(Halt::Failed(error)) => return Err(error),
            }
        }
    }

    #[inline(always)]
    fn try_find(&self, key: K::Ref<'_>) -> Step<Option<u64>> {
        let (mut root, mut depth) = (self.top()?, 0);
        loop {
            let (slice, code) = K::slice(key, depth);
            let spot = self.descend(root, slice)?;
            match self.look(spot.border, slice, code, behind(K::rest(key, depth)))? {
                Look::Found(found) => return Ok(found),
                Look::Layer(next) => root = next,
            }
            depth += size_of::<u64>();
        }
    }

    /// What a border node says of a key.
    #[inline(always)]
    pub(super) fn look<'t>(
        &'t self,
        border: Seen<'t>,
        slice: u64,
        code: u8,
        behind: &[u8],
    ) -> Step<Look<'t>> {
        let media = self.pool.media();
        let Seen { at, version } = border;
        let perm = media.load(&at.node.perm);
        let Some(slot) = self.slot_in(at, perm, slice, code) else {
            let current = at.is_current(media, version);
            return if current { Ok(Look::Found(None)) } else { Err(Halt::Retry) };
        };
        let word = media.load(at.node.value::<DURABLE>(slot));
        if K::ONE_SLICE || code < LONGER {
            if self.buffers {
                return Ok(Look::Found(Some(self.seen_value(border, perm, word)?)));
            }
            let current = at.is_current(media, version);
            return if current { Ok(Look::Found(Some(word))) } else { Err(Halt::Retry) };
        }
        let seen = match Onward::of(word) {
            Onward::Record(offset) => {
                self.reach_record(border, offset)?;
                self.record(offset).and_then(|record| {
                    let same = record.is(media, behind);
                    let value = same.then(|| self.value_of(record.value(media)));
                    Ok(Look::Found(value.transpose()?))
                })
            }
            Onward::Layer(offset) => match self.reach(border, offset) {
                Ok(root) => Ok(Look::Layer(root)),
                Err(Halt::Failed(error)) => Err(error),
                Err(Halt::Retry) => return Err(Halt::Retry),
            },
        };
        // A record was freed, or a layer left, only after the entry changed.
        let same =
            media.load(&at.node.perm) == perm && media.load(at.node.value::<DURABLE>(slot)) == word;
        if !same || !at.is_current(media, version) {
            return Err(Halt::Retry);
        }
        match seen? {
            Look::Layer(root) => Ok(Look::Layer(root.living()?)),
            found => Ok(found),
        }
    }

    /// The value in the buffer that an entry of a border node leads to, which was seen with this
    /// permutation. The buffer was freed, and may have been taken by another key, only after the
    /// version had changed, or the permutation.
    #[inline(always)]
    fn seen_value(&self, border: Seen<'_>, perm: Permutation, word: u64) -> Step<u64> {
        let (media, Seen { at, version }) = (self.pool.media(), border);
        let value = self.value_of(word).map_err(|error| at.judge(media, version, error))?;
        let same = media.load(&at.node.perm) == perm && at.is_current(media, version);
        if same { Ok(value) } else { Err(Halt::Retry) }
    }

    /// Locks the border node of a key.
    #[inline]
    pub(super) fn locate<'t, 'k>(&'t self, key: K::Ref<'k>) -> Step<Place<'t, 'k, M>> {
        let media = self.pool.media();
        let (mut root, mut depth) = (self.top()?, 0);
        loop {
            let (slice, code) = K::slice(key, depth);
            let behind = behind(K::rest(key, depth));
            let Spot { border, .. } = self.descend(root, slice)?;
            if !K::ONE_SLICE && code == LONGER {
                // Nodes on the way to a layer are not locked.
                if let Look::Layer(next) = self.look(border, slice, code, behind)? {
                    root = next;
                    depth += size_of::<u64>();
                    continue;
                }
            }
            let locked = border.at.lock(media, border.version)?;
            let perm = media.load(&border.at.node.perm);
            let (position, slot) = self.rank_in(border.at, perm, slice, code);
            let root = root.at;
            return Ok(Place { locked, root, depth, slice, code, behind, position, slot });
        }
    }

    /// The live slot of a slice, see [`At::find`].
    #[inline(always)]
    pub(super) fn slot_in(
        &self,
        at: At<'_>,
        perm: Permutation,
        slice: u64,
        code: u8,
    ) -> Option<usize> {
        if K::ONE_SLICE {
            at.find::<M, true>(self.pool.media(), perm, slice, code)
        } else {
            at.find::<M, false>(self.pool.media(), perm, slice, code)
        }
    }

    /// See [`At::rank`].
    #[inline(always)]
    pub(super) fn rank_in(
        &self,
        at: At<'_>,
        perm: Permutation,
        slice: u64,
        code: u8,
    ) -> (usize, Option<usize>) {
        if K::ONE_SLICE {
            at.rank::<M, true>(self.pool.media(), perm, slice, code)
        } else {
            at.rank::<M, false>(self.pool.media(), perm, slice, code)
        }
    }
}

/// What a border node says of a key.
pub(super) enum Look<'t> {
    /// Its value, or that it is absent.
    Found(Option<u64>),
    /// It is in the layer with this root, or absent.
    Layer(Seen<'t>),
}

/// What an entry is for a key whose place is locked.
pub(super) enum Entry {
    /// There is none.
    Absent,
    /// The value stands in the slot.
    Value(usize),
    /// The slot leads to the record of the key.
    Record(u64),
    /// The slot leads to the record of another key with the same slice.
    Other(usize, u64),
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// What there is at a place.
    #[inline(always)]
    pub(super) fn entry(&self, place: &Place<'_, '_, M>) -> Step<Entry> {
        let Some(slot) = place.slot else { return Ok(Entry::Absent) };
        if K::ONE_SLICE || place.code < LONGER {
            return Ok(Entry::Value(slot));
        }
        let media = self.pool.media();
        match Onward::of(media.load(place.locked.node().value::<DURABLE>(slot))) {
            Onward::Layer(_) => {
                // It came before the lock did, or the slice has two entries.
                let (at, perm) = (place.locked.at, media.load(&place.locked.node().perm));
                let same = self.slot_in(at, perm, place.slice, place.code) == Some(slot);
                let what = "a slice has two entries that go on";
                let twice = IndexError::Corrupt { offset: at.offset, what };
                Err(if same { Halt::Retry } else { twice.into() })
            }
            Onward::Record(offset) => {
                let same = self.own_record(offset)?.is(media, place.behind);
                Ok(if same { Entry::Record(offset) } else { Entry::Other(slot, offset) })
            }
        }
    }
}
