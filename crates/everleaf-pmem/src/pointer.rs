//! Persistent pointers: typed offsets from the base of the pool.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use crate::Word;

/// An 8-byte offset from the pool's base to a `T`; 0 is null. It is published p-atomically and
/// survives mapping the pool at another address (FPTree, section 2, uses 16 bytes, which no store
/// writes atomically).
pub struct PPtr<T> {
    offset: u64,
    to: PhantomData<fn() -> T>,
}

impl<T> PPtr<T> {
    /// The pointer to nothing.
    pub const NULL: Self = Self::at(0);

    /// A pointer to the object `offset` bytes into the pool. Nothing is checked before it is
    /// followed.
    #[inline(always)]
    pub const fn at(offset: u64) -> Self {
        Self { offset, to: PhantomData }
    }

    /// Bytes from the pool's base.
    #[inline(always)]
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// Whether this points to nothing.
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.offset == 0
    }

    /// The same place as another type; following it is checked as ever.
    #[inline(always)]
    pub const fn cast<U>(self) -> PPtr<U> {
        PPtr::at(self.offset)
    }
}

impl<T: 'static> Word for PPtr<T> {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.offset
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self::at(word)
    }
}

impl<T> Clone for PPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for PPtr<T> {}
impl<T> PartialEq for PPtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.offset == other.offset
    }
}
impl<T> Eq for PPtr<T> {}
impl<T> PartialOrd for PPtr<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for PPtr<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.offset.cmp(&other.offset)
    }
}
impl<T> Hash for PPtr<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.offset.hash(state);
    }
}
impl<T> fmt::Debug for PPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() { write!(f, "null") } else { write!(f, "+{:#x}", self.offset) }
    }
}
