//! What the operations of all trees have in common.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PCell};

/// Keys that go down together: enough misses in flight to saturate a core's line-fill buffers.
pub const GROUP: usize = 16;

/// In which case a writer has nothing to do, and the leaf is not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipIf {
    /// The key is there.
    Present,
    /// It is not.
    Absent,
    /// There is always something to do.
    Never,
}

impl SkipIf {
    /// Whether there is nothing to do about a key that is there, or is not.
    #[inline(always)]
    pub fn applies(self, is_present: bool) -> bool {
        self != Self::Never && is_present == (self == Self::Present)
    }
}

/// Ends an operation.
#[inline(always)]
pub fn ended<T, M: Media>(result: T, media: &M) -> T {
    media.end_operation();
    result
}

/// Refuses values of another number of words than the tree has.
#[inline(always)]
pub fn expect_words<const VALUES: usize>(expected: usize, words: [usize; VALUES]) -> Result<()> {
    for words in words {
        if words != expected {
            return Err(IndexError::ValueWords { words, expected });
        }
    }
    Ok(())
}

/// Copies cells to words, of which there are as many.
#[inline(always)]
pub fn read_words<M: Media>(media: &M, cells: &[PCell], words: &mut [u64]) {
    for (word, cell) in words.iter_mut().zip(cells) {
        *word = media.load(cell);
    }
}

/// Looks many keys up, a group at a time, each an operation; `find` takes up to [`GROUP`] keys.
///
/// # Panics
/// If the slices differ in length.
#[inline]
pub fn in_groups<R, M: Media>(
    media: &M,
    keys: &[R],
    values: &mut [Option<u64>],
    find: impl Fn(&[R], &mut [Option<u64>]) -> Result<()>,
) -> Result<()> {
    assert_eq!(keys.len(), values.len(), "get_many wants a place for the value of each key");
    for (keys, values) in keys.chunks(GROUP).zip(values.chunks_mut(GROUP)) {
        ended(find(keys, values), media)?;
    }
    Ok(())
}

/// How often operations began again, because other threads were in their way.
#[derive(Debug, Default)]
pub struct Restarts(CachePadded<AtomicU64>);

impl Restarts {
    /// Counts an operation that begins again.
    #[cold]
    pub fn again<M: Media>(&self, media: &M) {
        self.0.fetch_add(1, Ordering::Relaxed);
        media.relax();
    }

    /// The result of a first attempt. None if others were in its way, which is counted; and none if
    /// it failed: [`until_done`](Self::until_done), which follows, finds the error again.
    #[inline(always)]
    pub fn at_once<T, M: Media>(&self, media: &M, attempt: Option<Result<T>>) -> Option<T> {
        if attempt.is_none() {
            self.again(media);
        }
        attempt?.ok()
    }

    /// The result of the first attempt in whose way no other thread was. The others are counted.
    #[inline(always)]
    pub fn until_done<T, M: Media>(
        &self,
        media: &M,
        mut attempt: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            if let Some(done) = attempt()? {
                return Ok(done);
            }
            self.again(media);
        }
    }

    /// How often that was.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_skips_what_it_is_told_to() {
        let applies = |skip: SkipIf| [skip.applies(true), skip.applies(false)];
        assert_eq!(applies(SkipIf::Present), [true, false]);
        assert_eq!(applies(SkipIf::Absent), [false, true]);
        assert_eq!(applies(SkipIf::Never), [false, false]);
    }

    #[test]
    fn each_value_has_the_words_of_the_tree() {
        assert!(expect_words(2, [2, 2]).is_ok());
        for words in [[1, 2], [2, 1]] {
            let refused = expect_words(2, words);
            assert!(matches!(refused, Err(IndexError::ValueWords { words: 1, expected: 2 })));
        }
    }
}
