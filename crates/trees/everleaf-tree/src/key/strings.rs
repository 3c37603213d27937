//! Where the whole bytes of byte-string separators are kept.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use crossbeam_utils::CachePadded;
use everleaf_pmem::{DramArena, DramSource, MapError};
use parking_lot::Mutex;

/// Addresses reserved for strings: memory is taken as it is needed.
const RESERVED_BYTES: u64 = 64 << 30;

/// Why a separator could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MapError),
    /// The separator is too long.
    #[error("a separator has {bytes} bytes, more than the limit of {max_bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
}

/// The eight bytes of a string from `skip` on, big-endian, padded with zeros.
#[inline(always)]
pub(super) fn word_of(key: &[u8], skip: usize) -> u64 {
    match key.get(skip..).and_then(|rest| rest.first_chunk()) {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => last_word(key, skip),
    }
}

/// Fewer than eight bytes are left from `skip` on.
#[inline(always)]
fn last_word(key: &[u8], skip: usize) -> u64 {
    let rest = key.len().saturating_sub(skip);
    match key.last_chunk() {
        _ if rest == 0 => 0,
        Some(bytes) => u64::from_be_bytes(*bytes) << ((8 - rest) * 8),
        None => key[skip..].iter().rev().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56),
    }
}

/// Byte strings in an arena of words, each padded with zeros to whole words, so that they are
/// compared eight bytes at a time.
///
/// Many threads keep, release and read. A reader that holds the handle of a released string reads
/// whatever is there now, and must ask the node that it has the handle from.
#[derive(Debug)]
pub struct Strings {
    arena: DramArena,
    /// Changed at every split: apart from what readers read. Its holder waits for nothing.
    state: CachePadded<Mutex<StringsState>>,
}

/// What is handed out, and what is free.
#[derive(Debug, Default)]
struct StringsState {
    used_words: u64,
    words_in_use: u64,
    /// Size in words -> first free block of this size; its first word leads to the next one (plus
    /// 1, 0 ends).
    free: BTreeMap<u64, u64>,
}

/// Length and place of a string: 24 bits of length in bytes, 40 bits of word index.
#[derive(Clone, Copy)]
pub(super) struct Handle(pub(super) u64);

impl Handle {
    const PLACE_BITS: u32 = 40;
    const MAX_BYTES: usize = (1 << (64 - Self::PLACE_BITS)) - 1;

    fn new(bytes: usize, place: u64) -> Self {
        Self((bytes as u64) << Self::PLACE_BITS | place)
    }
    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        (self.0 >> Self::PLACE_BITS) as usize
    }
    #[inline(always)]
    pub(super) fn words(self) -> u64 {
        self.bytes().div_ceil(8) as u64
    }
    #[inline(always)]
    fn place(self) -> u64 {
        self.0 & ((1 << Self::PLACE_BITS) - 1)
    }
}

impl Strings {
    pub(super) fn new(dram: DramSource<'_>) -> Result<Self, MapError> {
        Ok(Self { arena: dram.reserve(RESERVED_BYTES)?, state: CachePadded::default() })
    }

    pub(super) fn dram_bytes(&self) -> u64 {
        // A tree map spends about as much on its nodes as on its pairs.
        self.arena.bytes()
            + self.state.lock().free.len() as u64 * 2 * size_of::<(u64, u64)>() as u64
    }

    /// Words that are handed out.
    pub(super) fn words_in_use(&self) -> u64 {
        self.state.lock().words_in_use
    }

    /// A word of the arena; none beyond its end, where only a racing reader looks.
    #[inline(always)]
    fn cell(&self, place: u64) -> Option<&AtomicU64> {
        let line = (place / 8) as usize;
        (line < self.arena.lines()).then(|| &self.arena.line(line as u32).0[place as usize % 8])
    }

    /// A word of a string; 0 beyond its end.
    #[inline(always)]
    pub(super) fn word(&self, handle: Handle, index: usize) -> u64 {
        if (index as u64) < handle.words() { self.load(handle.place() + index as u64) } else { 0 }
    }

    #[inline(always)]
    fn load(&self, place: u64) -> u64 {
        self.cell(place).map_or(0, |cell| cell.load(Relaxed))
    }

    fn store(&self, place: u64, word: u64) {
        if let Some(cell) = self.cell(place) {
            cell.store(word, Relaxed);
        }
    }

    /// See [`TreeKey::expect`](super::TreeKey::expect): memory that grows step by step is faulted
    /// in by small pages.
    pub(super) fn expect(&self, words: u64) {
        let used_words = self.state.lock().used_words;
        let _ = self.arena.ensure(used_words.saturating_add(words).div_ceil(8) as usize);
    }

    pub(super) fn keep(&self, key: &[u8]) -> Result<u64, KeepError> {
        if key.is_empty() {
            return Ok(0);
        }
        if key.len() > Handle::MAX_BYTES {
            return Err(KeepError::TooLong { bytes: key.len(), max_bytes: Handle::MAX_BYTES });
        }
        let words = key.len().div_ceil(8) as u64;
        let mut state = self.state.lock();
        // What is now written there may be read by threads that still hold the handle of a released
        // string: they must then find that the node they have it from has changed.
        fence(Release);
        let place = match self.reuse(&mut state, words) {
            Some(place) => place,
            None => {
                self.arena.ensure((state.used_words + words).div_ceil(8) as usize)?;
                let place = state.used_words;
                state.used_words += words;
                place
            }
        };
        state.words_in_use += words;
        drop(state);
        for index in 0..words {
            self.store(place + index, word_of(key, index as usize * 8));
        }
        Ok(Handle::new(key.len(), place).0)
    }

    pub(super) fn release(&self, handle: Handle) {
        if handle.0 != 0 {
            let mut state = self.state.lock();
            fence(Release); // as above
            state.words_in_use -= handle.words();
            self.put_free(&mut state, handle.place(), handle.words());
        }
    }

    fn put_free(&self, state: &mut StringsState, place: u64, words: u64) {
        let next = state.free.insert(words, place);
        self.store(place, next.map_or(0, |next| next + 1));
    }

    /// Takes the smallest free block that is large enough; what is left over stays free.
    fn reuse(&self, state: &mut StringsState, words: u64) -> Option<u64> {
        let (&found, &place) = state.free.range(words..).next()?;
        match self.load(place) {
            0 => state.free.remove(&found),
            next => state.free.insert(found, next - 1),
        };
        if found > words {
            self.put_free(state, place + words, found - words);
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::SimdLevel;

    use super::super::{Kept, TreeKey};
    use super::*;
    use everleaf_index::BytesKeys;

    #[test]
    fn kept_strings_read_back_compare_and_are_reused() {
        let strings = BytesKeys::separators(SimdLevel::SCALAR.into()).unwrap();
        let keys: Vec<Vec<u8>> =
            (0..200usize).map(|i| (0..i).map(|j| (i * j % 7 * 40) as u8).collect()).collect();
        let handles: Vec<u64> = keys.iter().map(|key| strings.keep(key).unwrap()).collect();
        for (key, handle) in keys.iter().zip(&handles) {
            let kept = Kept { word: 0, handle: *handle };
            assert_eq!(&*BytesKeys::copy_kept(&strings, kept), &key[..]);
            for skip in [0, 1, 7, 8, 9, 55, 56, 300] {
                assert_eq!(BytesKeys::kept_word(&strings, kept, skip), BytesKeys::word(key, skip));
            }
            for other in &keys {
                assert_eq!(
                    BytesKeys::compare_kept(&strings, kept, other, 0),
                    key.as_slice().cmp(other)
                );
            }
        }
        let used = strings.state.lock().used_words;
        handles.iter().for_each(|handle| strings.release(Handle(*handle)));
        assert_eq!(BytesKeys::words_in_use(&strings), 0);
        let total = used as usize * 8;
        for _ in 0..total / 160 {
            strings.keep(&[7; 24]).unwrap();
        }
        let used_then = strings.state.lock().used_words;
        assert!(
            used_then <= used + 3 * 100,
            "freed blocks are cut up and reused: {used_then} then {used}"
        );
    }
}
