//! A leaf as the operations see it: cells by slot.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{LINE, Media, PCell, Site, WORD};
use everleaf_pool::RecordGuard;

use super::encode::Words;
use super::layout::{LiveSet, RecordKey, Shape};
use everleaf_tree::key::{KeyHash, TreeKey};

/// Words in a line.
const LINE_WORDS: usize = LINE / WORD;

/// The 16 bits of a hash that stand beside a record.
#[inline(always)]
pub(super) fn tag_of(hash: KeyHash) -> u16 {
    (hash.tag() >> 40) as u16
}

/// The key word of an entry: the key, or its record with a tag, or the key's hash.
#[inline(always)]
pub(super) fn entry_word<K: TreeKey>(shape: Shape, word: u64, hash: KeyHash) -> u64 {
    match (K::RECORDS, shape.one_record()) {
        (false, _) => word,
        (true, false) => RecordKey::new(word, tag_of(hash)).into_word(),
        (true, true) => hash.word(),
    }
}

/// A leaf whose place was checked.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'p> {
    words: &'p [PCell],
    shape: Shape,
    offset: u64,
}

impl<'p> Leaf<'p> {
    /// Over the words of a leaf, as many as its shape has.
    #[inline(always)]
    pub fn new(words: &'p [PCell], shape: Shape, offset: u64) -> Self {
        Self { words, shape, offset }
    }

    /// Its place in the pool.
    #[inline(always)]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its sizes.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The words of its first line.
    #[inline(always)]
    pub fn first_line<M: Media>(&self, media: &M) -> Words {
        std::array::from_fn(|word| media.load(&self.words[word]))
    }

    /// The live slots.
    #[inline(always)]
    pub fn live<M: Media>(&self, media: &M) -> Result<LiveSet> {
        let mut words = LiveSet::default();
        for word in 0..self.shape.live_words() {
            words = words.with_word(word, media.load(&self.words[word]));
        }
        if words.fits(self.shape.slots()) {
            Ok(words)
        } else {
            Err(self.damaged("a leaf has live slots that it has no room for"))
        }
    }

    /// Stores the word of the live slots that has the bit of `slot`. No flush.
    #[inline(always)]
    pub fn store_live<M: Media>(&self, media: &M, live: LiveSet, slot: usize) {
        media.store(self.live_cell(slot), live.word(LiveSet::word_of(slot)));
    }

    /// Stores all live slots. No flush.
    #[inline(always)]
    pub fn store_all_live<M: Media>(&self, media: &M, live: LiveSet) {
        (0..self.shape.live_words())
            .for_each(|word| media.store(&self.words[word], live.word(word)));
    }

    /// The cell with the live bit of a slot.
    #[inline(always)]
    pub fn live_cell(&self, slot: usize) -> &'p PCell {
        &self.words[LiveSet::word_of(slot)]
    }

    /// The key word of a slot's entry.
    #[inline(always)]
    pub fn key(&self, slot: usize) -> &'p PCell {
        &self.words[self.shape.entry_index(slot)]
    }

    /// The value of a slot's entry.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> &'p PCell {
        &self.words[self.shape.entry_index(slot) + 1]
    }

    /// Where the record of a slot's key is, or the key itself.
    #[inline(always)]
    pub fn key_of<K: TreeKey, M: Media>(&self, media: &M, slot: usize) -> u64 {
        match (K::RECORDS, self.shape.one_record()) {
            (false, _) => media.load(self.key(slot)),
            (true, false) => RecordKey::from_word(media.load(self.key(slot))).record(),
            (true, true) => media.load(self.value(slot)),
        }
    }

    /// Whether the key of a live slot may be one of this hash: else its record is not looked at.
    #[inline(always)]
    pub fn may_be<K: TreeKey, M: Media>(&self, media: &M, slot: usize, hash: KeyHash) -> bool {
        let word = || media.load(self.key(slot));
        match (K::RECORDS, self.shape.one_record()) {
            (false, _) => true,
            (true, false) => RecordKey::from_word(word()).tag() == tag_of(hash),
            (true, true) => word() == hash.word(),
        }
    }

    /// The key of a live slot.
    #[inline(always)]
    pub fn read_key<'g, K: TreeKey, M: Media>(
        &self,
        records: &'g RecordGuard<'_, M>,
        slot: usize,
    ) -> Result<K::Ref<'g>> {
        let (media, word) = (records.media(), self.key_of::<K, M>(records.media(), slot));
        if K::RECORDS && self.shape.one_record() {
            return K::read_hashed(records, word, KeyHash::new(media.load(self.key(slot))).into());
        }
        K::read(records, word)
    }

    /// Stores an entry. No flush.
    #[inline(always)]
    pub fn store_entry<M: Media>(&self, media: &M, slot: usize, key: u64, value: u64) {
        media.store(self.value(slot), value);
        media.store(self.key(slot), key);
    }

    /// Flushes the lines of the head and of the first entries.
    #[inline(always)]
    pub fn flush_first<M: Media>(&self, media: &M, site: Site, entries: usize) {
        (0..self.shape.lines_of(entries))
            .for_each(|line| media.flush(site, &self.words[line * LINE_WORDS]));
    }

    /// Asks for all lines.
    #[inline(always)]
    pub fn prefetch<M: Media>(&self, media: &M) {
        self.words.chunks(LINE_WORDS).for_each(|line| media.prefetch(&line[0]));
    }

    /// An error that leads here.
    #[cold]
    pub fn damaged(&self, what: &'static str) -> IndexError {
        IndexError::Corrupt { offset: self.offset, what }
    }
}
