//! What can be given where a key is wanted, or a range of keys.

use std::borrow::Cow;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::rc::Rc;
use std::sync::Arc;

use crate::{Key, OwnedKey};

/// What can be given as a key: a `u64`, text, bytes, and references to these.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
/// let name = String::from("ann");
/// store.put(&name, "text")?;
/// store.put(b"bob", [1, 2, 3])?;
/// store.put(7u32.to_be_bytes(), name)?;
/// assert_eq!(store.get_many(["ann", "eve"])?, [Some(b"text".to_vec()), None]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Keys of other types, in an order of their own, are what [typed trees](crate::Tree) have.
pub trait AsKey {
    /// The key.
    fn as_key(&self) -> Key<'_>;
}

impl AsKey for u64 {
    fn as_key(&self) -> Key<'_> {
        Key::U64(*self)
    }
}

impl AsKey for Key<'_> {
    fn as_key(&self) -> Key<'_> {
        *self
    }
}

impl AsKey for OwnedKey {
    fn as_key(&self) -> Key<'_> {
        self.as_ref()
    }
}

/// Text and bytes, and what owns them.
macro_rules! bytes {
    ($($({$generics:ident})? $type:ty),*) => { $(
        impl $(<const $generics: usize>)? AsKey for $type {
            fn as_key(&self) -> Key<'_> {
                Key::Bytes(self.as_ref())
            }
        }
    )* };
}
bytes!(str, String, [u8], Vec<u8>, {N} [u8; N]);

/// What leads to another key.
macro_rules! pointers {
    ($($type:ty),*) => { $(
        impl<T: AsKey + ?Sized> AsKey for $type {
            fn as_key(&self) -> Key<'_> {
                (**self).as_key()
            }
        }
    )* };
}
pointers!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: AsKey + ToOwned + ?Sized> AsKey for Cow<'_, T> {
    fn as_key(&self) -> Key<'_> {
        (**self).as_key()
    }
}

/// A range of keys: what Rust has for ranges (`a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`), or a
/// pair of [`Bound`]s. One that is empty or upside down has no keys.
pub trait KeyRange {
    /// The lower end and the upper one.
    fn bounds(&self) -> (Bound<Key<'_>>, Bound<Key<'_>>);
}

impl KeyRange for RangeFull {
    fn bounds(&self) -> (Bound<Key<'_>>, Bound<Key<'_>>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsKey> KeyRange for Range<K> {
    fn bounds(&self) -> (Bound<Key<'_>>, Bound<Key<'_>>) {
        (Bound::Included(self.start.as_key()), Bound::Excluded(self.end.as_key()))
    }
}

impl<K: AsKey> KeyRange for RangeInclusive<K> {
    fn bounds(&self) -> (Bound<Key<'_>>, Bound<Key<'_>>) {
        (Bound::Included(self.start().as_key()), Bound::Included(self.end().as_key()))
    }
}

impl<K: AsKey> KeyRange for RangeFrom<K> {
    fn bounds(&self) -> (Bound<Key<'_>>, Bound<Key<'_>>) {
        (Bound::Included(self.start.as_key()), Bound::Unbounded)
    }
}

impl<K: AsKey> KeyRange for RangeTo<K> {
    fn bounds(&self) -> (Bound<Key<'_>>, Bound<Key<'_>>) {
        (Bound::Unbounded, Bound::Excluded(self.end.as_key()))
    }
}

impl<K: AsKey> KeyRange for RangeToInclusive<K> {
    fn bounds(&self) -> (Bound<Key<'_>>, Bound<Key<'_>>) {
        (Bound::Unbounded, Bound::Included(self.end.as_key()))
    }
}

impl<K: AsKey> KeyRange for (Bound<K>, Bound<K>) {
    fn bounds(&self) -> (Bound<Key<'_>>, Bound<Key<'_>>) {
        (self.0.as_ref().map(AsKey::as_key), self.1.as_ref().map(AsKey::as_key))
    }
}

impl<R: KeyRange + ?Sized> KeyRange for &R {
    fn bounds(&self) -> (Bound<Key<'_>>, Bound<Key<'_>>) {
        (**self).bounds()
    }
}
