//! An array of separators: a word each, and for byte strings the handle of the whole.

use std::collections::TryReserveError;

use everleaf_tree::key::{Kept, TreeKey};

/// Words and handles by index.
#[derive(Debug, Default)]
pub(super) struct Keys {
    words: Vec<u64>,
    /// Empty where the word is all.
    handles: Vec<u64>,
}

impl Keys {
    /// So many smallest separators.
    pub fn with_len<K: TreeKey>(len: usize) -> Result<Self, TryReserveError> {
        let handles = if K::RECORDS { len } else { 0 };
        Ok(Self { words: zeros(len)?, handles: zeros(handles)? })
    }

    /// The separator at `index`.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Kept {
        let handle = self.handles.get(index).copied().unwrap_or_default();
        Kept { word: self.words[index], handle }
    }

    /// Puts a separator at `index`.
    pub fn set(&mut self, index: usize, kept: Kept) {
        self.words[index] = kept.word;
        if let Some(handle) = self.handles.get_mut(index) {
            *handle = kept.handle;
        }
    }

    /// Puts a separator at `at`; those from there to `end` move one place on.
    pub fn open(&mut self, at: usize, end: usize, kept: Kept) {
        self.words.copy_within(at..end, at + 1);
        if !self.handles.is_empty() {
            self.handles.copy_within(at..end, at + 1);
        }
        self.set(at, kept);
    }

    /// Takes the separator at `at` out; those behind it, up to `end`, move one place back.
    pub fn close(&mut self, at: usize, end: usize) {
        self.words.copy_within(at + 1..end, at);
        if !self.handles.is_empty() {
            self.handles.copy_within(at + 1..end, at);
        }
    }

    /// How many of `count` ascending separators from `start` on are at most `key`.
    #[inline(always)]
    pub fn up_to<K: TreeKey>(
        &self,
        separators: &K::Separators,
        start: usize,
        count: usize,
        key: K::Ref<'_>,
    ) -> usize {
        let word = K::word(key, 0);
        let words = &self.words[start..start + count];
        if !K::RECORDS {
            return words.partition_point(|other| *other <= word);
        }
        // Equal words may be those of different strings.
        let less = words.partition_point(|other| *other < word);
        let equal = words[less..].partition_point(|other| *other == word);
        let (mut from, mut to) = (less, less + equal);
        while from < to {
            let middle = from.midpoint(to);
            let kept = self.get(start + middle);
            if K::compare_kept(separators, kept, key, 0).is_le() {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// Words of memory.
    pub fn words_taken(&self) -> usize {
        self.words.capacity() + self.handles.capacity()
    }
}

/// An array of zeros, if there is memory for it.
pub(super) fn zeros<T: Clone + Default>(len: usize) -> Result<Vec<T>, TryReserveError> {
    let mut array = Vec::new();
    array.try_reserve_exact(len)?;
    array.resize(len, T::default());
    Ok(array)
}
