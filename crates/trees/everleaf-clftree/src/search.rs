//! Finding a key: every inner node is one line, in which the keys are searched by halves; the
//! entries of the leaf are looked at one by one.
//!
//! One line a level, and the lines of the leaf, which are asked for together.

use std::marker::PhantomData;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, LINE, Line, LineAtomicity, Media, PPtr};
use everleaf_pool::Pool;

use super::ClfTree;
use super::encode::{Encoded, Kind, MAX_ENTRIES, Words};
use super::layout::{ClfAnchor, InnerLine, LeafHead, LeafLine, LiveSet, Root, Shape};
use super::leaf::Leaf;
use everleaf_tree::key::{KeyHash, TreeKey};
use everleaf_tree::operations::GROUP;

/// Bytes that a difference of children counts in.
const UNIT: u64 = LINE as u64;

/// Access to the nodes of a tree; what leads to a node is checked.
pub(super) struct Nodes<'p, K, M: Media> {
    pub pool: &'p Pool<M>,
    pub settings: Settings,
    keys: PhantomData<fn() -> K>,
}

/// What is fixed when a tree is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Sizes of leaves.
    pub shape: Shape,
    /// Whether a leaf is one encoded line.
    pub encoded: bool,
    /// When inner nodes, and encoded leaves, are written at once.
    pub at_once: AtOnce,
    /// Whether inner nodes, and encoded leaves, are copied and not overwritten, if there is room.
    pub shadow: bool,
    /// Whether as much is flushed as in the paper, and children are bytes and not lines.
    pub paper_order: bool,
}

impl Settings {
    /// Entries that a leaf may have.
    pub const fn max_entries(&self) -> u64 {
        let entries = if self.encoded { MAX_ENTRIES } else { self.shape.slots() };
        entries as u64
    }

    /// How inner nodes, and encoded leaves, are written.
    pub fn node_writes<M: Media>(&self, media: &M) -> &'static str {
        match (self.shadow, self.at_once.on(media)) {
            (true, _) => "copy",
            (false, true) => "line",
            (false, false) => "log",
        }
    }
}

/// When a line is written at once, and not by the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtOnce {
    /// Never.
    Never,
    /// Where the media promises that a line is never torn.
    Promised,
    /// Also where it has a way to write a line at once: the pool has the assumption `atomic-line`.
    Assumed,
    /// Everywhere, to count what the paper counts: a media that has no way stores word by word.
    Always,
}

impl AtOnce {
    /// Whether this media does.
    #[inline(always)]
    pub fn on<M: Media>(self, media: &M) -> bool {
        let promised = media.line_atomicity() == LineAtomicity::Line;
        match self {
            Self::Never => false,
            Self::Promised => promised,
            Self::Assumed => promised || media.may_write_lines(),
            Self::Always => true,
        }
    }
}

impl<K, M: Media> Clone for Nodes<'_, K, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, M: Media> Copy for Nodes<'_, K, M> {}

/// A leaf, and where a key is in it.
pub(super) struct Found<'p> {
    pub leaf: Leaf<'p>,
    pub live: LiveSet,
    pub slot: Option<usize>,
}

/// An inner node on the way to a leaf.
pub(super) struct Step {
    /// Where it is.
    pub offset: u64,
    /// What stands in it.
    pub words: Words,
    /// The same, checked.
    pub line: Encoded,
    /// The child that the way goes on to.
    pub at: usize,
}

impl<'p, K: TreeKey, M: Media> Nodes<'p, K, M> {
    /// What inner nodes are.
    pub const INNER: Kind = Kind::inner(K::RECORDS);

    /// Those of a pool.
    #[inline(always)]
    pub fn new(pool: &'p Pool<M>, settings: Settings) -> Self {
        Self { pool, settings, keys: PhantomData }
    }

    /// Where a child is.
    #[inline(always)]
    pub fn offset_of(self, child: u64) -> Result<u64> {
        let what = "a child lies outside the pool";
        let offset = if self.settings.paper_order { Some(child) } else { child.checked_mul(UNIT) };
        offset.ok_or(IndexError::Corrupt { offset: u64::MAX, what })
    }

    /// The number by which a node is a child.
    #[inline(always)]
    pub fn child_at(self, offset: u64) -> u64 {
        if self.settings.paper_order { offset } else { offset / UNIT }
    }

    /// The media.
    #[inline(always)]
    pub fn media(self) -> &'p M {
        self.pool.media()
    }

    /// The anchor.
    #[inline(always)]
    pub fn anchor(self) -> Result<&'p ClfAnchor> {
        Ok(self.pool.index_root::<ClfAnchor>()?)
    }

    /// The topmost node.
    #[inline(always)]
    pub fn root(self) -> Result<Root> {
        Ok(self.media().load(&self.anchor()?.root))
    }

    /// The cells of an inner node.
    #[inline(always)]
    pub fn line(self, offset: u64) -> Result<&'p Line> {
        Ok(&self.pool.node(PPtr::<InnerLine>::at(offset))?.line)
    }

    /// The words of an inner node.
    #[inline(always)]
    pub fn words(self, offset: u64) -> Result<Words> {
        let line = self.line(offset)?;
        Ok(std::array::from_fn(|word| self.media().load(&line.0[word])))
    }

    /// What stands in an inner node.
    #[inline(always)]
    pub fn decode(self, offset: u64, words: Words) -> Result<Encoded> {
        let what = "an inner node cannot be read, or was left in the middle of a change";
        Encoded::new(words, Self::INNER).ok_or(IndexError::Corrupt { offset, what })
    }

    /// The cells of an encoded leaf.
    #[inline(always)]
    pub fn leaf_line(self, offset: u64) -> Result<&'p Line> {
        Ok(&self.pool.node(PPtr::<LeafLine>::at(offset))?.line)
    }

    /// What stands in an encoded leaf.
    #[inline(always)]
    pub fn decode_leaf(self, leaf: Leaf<'_>) -> Result<(Words, Encoded)> {
        let words = leaf.first_line(self.media());
        let what = "a leaf cannot be read, or was left in the middle of a change";
        let line = Encoded::new(words, Kind::Leaf).ok_or_else(|| leaf.damaged(what))?;
        Ok((words, line))
    }

    /// A leaf.
    #[inline(always)]
    pub fn leaf(self, offset: u64) -> Result<Leaf<'p>> {
        self.pool.node(PPtr::<LeafHead>::at(offset))?;
        let words = self.media().region().cells(offset, self.settings.shape.words());
        let what = "a leaf lies outside the pool";
        let words = words.ok_or(IndexError::Corrupt { offset, what })?;
        Ok(Leaf::new(words, self.settings.shape, offset))
    }

    /// Which child of an inner node has the range that a key is in: a key equal to a separator is
    /// on the right.
    #[inline(always)]
    pub fn child_of(self, line: &Encoded, key: K::Ref<'_>) -> Result<usize> {
        let (mut first, mut behind) = (0, line.keys());
        while first < behind {
            let middle = (first + behind) / 2;
            if K::compare(self.pool, line.key(middle), key)?.is_le() {
                first = middle + 1;
            } else {
                behind = middle;
            }
        }
        Ok(first)
    }

    /// Whether key words own records.
    #[inline(always)]
    pub fn owns_keys(self) -> bool {
        self.settings.shape.owns_keys::<K>()
    }

    /// The leaf whose range a key is in.
    #[inline(always)]
    pub fn leaf_of(self, key: K::Ref<'_>) -> Result<Leaf<'p>> {
        let root = self.root()?;
        let mut offset = root.offset();
        for _ in 0..root.height() {
            let line = self.decode(offset, self.words(offset)?)?;
            offset = self.offset_of(line.child(self.child_of(&line, key)?))?;
        }
        self.leaf(offset)
    }

    /// The inner nodes on the way to the leaf of a key, and the leaf.
    pub fn path_to(self, key: K::Ref<'_>) -> Result<(Vec<Step>, Leaf<'p>)> {
        let root = self.root()?;
        let mut offset = root.offset();
        let mut path = Vec::with_capacity(root.height() as usize);
        for _ in 0..root.height() {
            let words = self.words(offset)?;
            let line = self.decode(offset, words)?;
            let at = self.child_of(&line, key)?;
            path.push(Step { offset, words, line, at });
            offset = self.offset_of(line.child(at))?;
        }
        Ok((path, self.leaf(offset)?))
    }

    /// The slot of a key among the live ones of a leaf.
    #[inline(always)]
    pub fn slot_of(
        self,
        leaf: Leaf<'_>,
        live: LiveSet,
        key: K::Ref<'_>,
        hash: KeyHash,
    ) -> Result<Option<usize>> {
        let media = self.media();
        for slot in live.iter() {
            if !leaf.may_be::<K, M>(media, slot, hash) {
                continue;
            }
            media.count(Counter::LeafProbes, 1);
            let word = leaf.key_of::<K, M>(media, slot);
            let found = match K::RECORDS && leaf.shape().one_record() {
                true => K::is_hashed(self.pool, word, key, hash.into())?,
                false => K::is_key(self.pool, word, key)?,
            };
            if found {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// The value of a key that is in the range of a leaf.
    #[inline(always)]
    fn value_in(self, leaf: Leaf<'_>, key: K::Ref<'_>, hash: KeyHash) -> Result<Option<u64>> {
        let media = self.media();
        if self.settings.encoded {
            let (_, line) = self.decode_leaf(leaf)?;
            media.count(Counter::LeafProbes, 1);
            return Ok(self.place_in(&line, key)?.ok().map(|slot| line.child(slot)));
        }
        let slot = self.slot_of(leaf, leaf.live(media)?, key, hash)?;
        Ok(slot.map(|slot| media.load(leaf.value(slot))))
    }

    /// Where a key is in an encoded leaf, or where it would be.
    #[inline(always)]
    pub fn place_in(self, line: &Encoded, key: K::Ref<'_>) -> Result<Result<usize, usize>> {
        let behind = self.child_of(line, key)?;
        let before = behind.checked_sub(1).filter(|slot| line.key(*slot) == K::word(key, 0));
        Ok(before.ok_or(behind))
    }

    /// Looks for a key.
    #[inline(always)]
    pub fn search(self, key: K::Ref<'_>, hash: KeyHash) -> Result<Found<'p>> {
        let leaf = self.leaf_of(key)?;
        leaf.prefetch(self.media());
        let live = leaf.live(self.media())?;
        Ok(Found { leaf, live, slot: self.slot_of(leaf, live, key, hash)? })
    }

    /// Looks up to 16 keys up together: each level of misses is in flight for all of them at once.
    pub(super) fn find_group(self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let (media, root) = (self.media(), self.root()?);
        let mut places = [root.offset(); GROUP];
        for level in (0..root.height()).rev() {
            for (place, key) in places.iter_mut().zip(keys) {
                let line = self.decode(*place, self.words(*place)?)?;
                *place = self.offset_of(line.child(self.child_of(&line, *key)?))?;
                if level > 0 {
                    media.prefetch(&self.line(*place)?.0[0]);
                } else {
                    self.leaf(*place)?.prefetch(media);
                }
            }
        }
        for ((place, key), value) in places.iter().zip(keys).zip(values) {
            let leaf = self.leaf(*place)?;
            *value = self.value_in(leaf, *key, K::hash(*key))?;
        }
        Ok(())
    }
}

impl<K: TreeKey, M: Media> ClfTree<K, M> {
    /// Access to the nodes.
    #[inline(always)]
    pub(super) fn nodes(&self) -> Nodes<'_, K, M> {
        Nodes::new(&self.pool, self.settings)
    }

    /// The value of a key.
    #[inline(always)]
    pub(super) fn find(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let leaf = self.nodes().leaf_of(key)?;
        leaf.prefetch(self.pool.media());
        self.nodes().value_in(leaf, key, K::hash(key))
    }
}
