//! Ranges of keys that have a type, and the iterators over them.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{
    Bound, Range as StdRange, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use super::{KeyFor, OrderedKey, PrefixFor, StoredValue, no};
use crate::scan::Range;
use crate::{Entry, Key, OwnedKey, Result, Scan};

/// A range of what stands for keys of type `K`: what Rust has for ranges, or a pair of [`Bound`]s.
pub trait RangeFor<K> {
    /// The lower end and the upper one, each as something encodes it.
    #[doc(hidden)]
    fn bounds(&self) -> (Bound<&dyn KeyFor<K>>, Bound<&dyn KeyFor<K>>);
}

impl<K> RangeFor<K> for RangeFull {
    fn bounds(&self) -> (Bound<&dyn KeyFor<K>>, Bound<&dyn KeyFor<K>>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K, Q: KeyFor<K>> RangeFor<K> for StdRange<Q> {
    fn bounds(&self) -> (Bound<&dyn KeyFor<K>>, Bound<&dyn KeyFor<K>>) {
        (Bound::Included(&self.start), Bound::Excluded(&self.end))
    }
}

impl<K, Q: KeyFor<K>> RangeFor<K> for RangeInclusive<Q> {
    fn bounds(&self) -> (Bound<&dyn KeyFor<K>>, Bound<&dyn KeyFor<K>>) {
        (Bound::Included(self.start()), Bound::Included(self.end()))
    }
}

impl<K, Q: KeyFor<K>> RangeFor<K> for RangeFrom<Q> {
    fn bounds(&self) -> (Bound<&dyn KeyFor<K>>, Bound<&dyn KeyFor<K>>) {
        (Bound::Included(&self.start), Bound::Unbounded)
    }
}

impl<K, Q: KeyFor<K>> RangeFor<K> for RangeTo<Q> {
    fn bounds(&self) -> (Bound<&dyn KeyFor<K>>, Bound<&dyn KeyFor<K>>) {
        (Bound::Unbounded, Bound::Excluded(&self.end))
    }
}

impl<K, Q: KeyFor<K>> RangeFor<K> for RangeToInclusive<Q> {
    fn bounds(&self) -> (Bound<&dyn KeyFor<K>>, Bound<&dyn KeyFor<K>>) {
        (Bound::Unbounded, Bound::Included(&self.end))
    }
}

impl<K, Q: KeyFor<K>> RangeFor<K> for (Bound<Q>, Bound<Q>) {
    fn bounds(&self) -> (Bound<&dyn KeyFor<K>>, Bound<&dyn KeyFor<K>>) {
        (dynamic(&self.0), dynamic(&self.1))
    }
}

fn dynamic<K, Q: KeyFor<K>>(bound: &Bound<Q>) -> Bound<&dyn KeyFor<K>> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// A key of the tree for a key of the type.
pub(super) fn encode<K: OrderedKey>(key: &(impl KeyFor<K> + ?Sized)) -> OwnedKey {
    let mut bytes = Vec::new();
    key.encode(&mut bytes);
    match (K::KEY_TYPE, bytes.as_slice().try_into()) {
        (everleaf_pool::KeyType::U64, Ok(number)) => OwnedKey::U64(u64::from_be_bytes(number)),
        _ => OwnedKey::from(bytes),
    }
}

/// The key of the type for a key of the tree.
pub(super) fn decode_key<K: OrderedKey>(key: Key<'_>) -> Result<K> {
    let decoded = match key {
        Key::U64(number) => K::decode(&number.to_be_bytes()),
        Key::Bytes(bytes) => K::decode(bytes),
    };
    decoded.ok_or_else(no::<K>)
}

pub(super) fn decode_value<V: StoredValue>(bytes: &[u8]) -> Result<V> {
    V::decode(bytes).ok_or_else(no::<V>)
}

/// As [`decode_value`], of a copy.
pub(super) fn decode_owned<V: StoredValue>(bytes: Vec<u8>) -> Result<V> {
    decode_value(&bytes)
}

pub(super) fn decode_entry<K: OrderedKey, V: StoredValue>((key, value): Entry) -> Result<(K, V)> {
    Ok((decode_key(key.as_ref())?, decode_value(&value)?))
}

pub(super) fn scan_of<K: OrderedKey>(range: &impl RangeFor<K>) -> Scan {
    let (from, to) = range.bounds();
    let mut scan = Scan::all();
    (scan.from, scan.to) = (from.map(encode::<K>), to.map(encode::<K>));
    scan
}

pub(super) fn scan_of_prefix<K>(prefix: &impl PrefixFor<K>) -> Scan {
    let mut bytes = Vec::new();
    prefix.encode_prefix(&mut bytes);
    Scan::all().with_prefix(bytes)
}

/// An iterator over the entries of a tree with types, in key order, from either end. It promises
/// what [`Range`] promises.
pub struct TypedRange<'s, K, V> {
    range: Range<'s>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> fmt::Debug for TypedRange<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.range.fmt(f)
    }
}

impl<'s, K, V> TypedRange<'s, K, V> {
    pub(super) fn over(range: Range<'s>) -> Self {
        Self { range, types: PhantomData }
    }
}

impl<K: OrderedKey, V: StoredValue> Iterator for TypedRange<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.range.next()?.and_then(decode_entry))
    }
}

impl<K: OrderedKey, V: StoredValue> DoubleEndedIterator for TypedRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.range.next_back()?.and_then(decode_entry))
    }
}

impl<K: OrderedKey, V: StoredValue> FusedIterator for TypedRange<'_, K, V> {}

/// An iterator over the keys of a tree with types, which does not read the values.
pub struct TypedKeys<'s, K> {
    range: Range<'s>,
    types: PhantomData<fn() -> K>,
}

impl<K> fmt::Debug for TypedKeys<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.range.fmt(f)
    }
}

impl<'s, K> TypedKeys<'s, K> {
    pub(super) fn over(range: Range<'s>) -> Self {
        Self { range: range.without_values(), types: PhantomData }
    }
}

impl<K: OrderedKey> Iterator for TypedKeys<'_, K> {
    type Item = Result<K>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.range.next()?.and_then(|(key, _)| decode_key(key.as_ref())))
    }
}

impl<K: OrderedKey> DoubleEndedIterator for TypedKeys<'_, K> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.range.next_back()?.and_then(|(key, _)| decode_key(key.as_ref())))
    }
}

impl<K: OrderedKey> FusedIterator for TypedKeys<'_, K> {}
