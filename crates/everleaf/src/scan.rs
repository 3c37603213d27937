//! Ranges: what to iterate over, and the iterator.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_index::Direction;

use crate::core::backend::Backend;
use crate::core::entry_batches::{BATCH_BYTES, BATCH_ENTRIES, Entry, Fetched, borrowed, passes};
use crate::core::images::Images;
use crate::core::keyspace::{Space, successor};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value_record::KeyBytes;
use crate::{AsKey, Error, Key, KeyRange, OwnedKey, Result};

/// What to iterate over. `from` is always the lower end and `to` the upper one, whichever the
/// direction. A range of Rust's is one as well: `store.count_in("a".."c")`.
///
/// ```
/// use everleaf::Scan;
/// let scan = Scan::all().starting_at("a").ending_before("c").backward();
/// assert!(matches!(scan.to, std::ops::Bound::Excluded(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scan {
    /// The lower end.
    pub from: Bound<OwnedKey>,
    /// The upper end.
    pub to: Bound<OwnedKey>,
    /// Only keys that begin with these bytes (byte-string keys only).
    pub prefix: Option<Box<[u8]>>,
    /// Which end comes first.
    pub direction: Direction,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            prefix: None,
            direction: Direction::Forward,
        }
    }
}

impl<R: KeyRange> From<R> for Scan {
    fn from(range: R) -> Self {
        Self::of(range)
    }
}

impl Scan {
    /// Every key, the least first.
    pub fn all() -> Self {
        Self::default()
    }

    /// The keys in a range, the least first.
    pub fn of(range: impl KeyRange) -> Self {
        let (from, to) = range.bounds();
        Self { from: from.map(Key::to_owned), to: to.map(Key::to_owned), ..Self::all() }
    }

    /// Only this key and greater ones.
    #[must_use]
    pub fn starting_at(mut self, key: impl AsKey) -> Self {
        self.from = Bound::Included(key.as_key().to_owned());
        self
    }

    /// Only keys less than this one.
    #[must_use]
    pub fn ending_before(mut self, key: impl AsKey) -> Self {
        self.to = Bound::Excluded(key.as_key().to_owned());
        self
    }

    /// Only keys that begin with these bytes.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.prefix = Some(prefix.as_ref().into());
        self
    }

    /// The greatest key first.
    #[must_use]
    pub fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// The bounds that the prefix and the ends amount to.
    pub(crate) fn bounds(self) -> (Bound<OwnedKey>, Bound<OwnedKey>) {
        let Some(prefix) = self.prefix else { return (self.from, self.to) };
        let behind = match successor(&prefix) {
            Some(behind) => Bound::Excluded(OwnedKey::from(behind)),
            None => Bound::Unbounded,
        };
        (tighter(self.from, Bound::Included(prefix.into()), true), tighter(self.to, behind, false))
    }
}

/// The bound that lets fewer keys pass: the greater of two lower bounds, the lesser of two upper
/// ones.
fn tighter(a: Bound<OwnedKey>, b: Bound<OwnedKey>, lower: bool) -> Bound<OwnedKey> {
    let (key_a, key_b) = match (&a, &b) {
        (Bound::Unbounded, _) => return b,
        (_, Bound::Unbounded) => return a,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            (a, b)
        }
    };
    let take_a = match key_a.cmp(key_b) {
        std::cmp::Ordering::Equal => matches!(a, Bound::Excluded(_)),
        order => order.is_gt() == lower,
    };
    if take_a { a } else { b }
}

/// What is left of a range, in keys of the index; it shrinks from both ends.
pub(crate) struct Cursor {
    backend: Arc<dyn Backend>,
    life: TreeLiveness,
    images: Option<Arc<Images>>,
    /// What has not been fetched yet.
    lower: Bound<OwnedKey>,
    upper: Bound<OwnedKey>,
    /// Nothing is left to be fetched.
    pub(crate) exhausted: bool,
    /// What was fetched is not asked of the snapshot again.
    once: bool,
    /// Expired entries are shown as well; a snapshot, which has a time of its own, looks for
    /// itself.
    expired: bool,
    /// Values are copied; else they are empty.
    values: bool,
}

impl Cursor {
    /// `images` is the snapshot that is read, if one is.
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        life: TreeLiveness,
        images: Option<Arc<Images>>,
        (lower, upper): (Bound<OwnedKey>, Bound<OwnedKey>),
    ) -> Self {
        Self {
            backend,
            life,
            expired: images.is_some(),
            images,
            lower,
            upper,
            exhausted: false,
            once: false,
            values: true,
        }
    }

    /// The same without a copy of the values.
    pub(crate) fn without_values(self) -> Self {
        Self { values: false, ..self }
    }

    /// The same with what has expired and was not removed yet.
    pub(crate) fn with_expired(self) -> Self {
        Self { expired: true, ..self }
    }

    /// The same of a snapshot that is read this once, forward.
    pub(crate) fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Leaves out what lies before a bound: a lower one, or an upper one.
    fn narrow(&mut self, bound: Bound<OwnedKey>, lower: bool) {
        let end = if lower { &mut self.lower } else { &mut self.upper };
        let old = std::mem::replace(end, Bound::Unbounded);
        *end = tighter(old, bound, lower);
    }

    /// Fetches up to `limit` entries from one end, the outermost first. Without any, everything is
    /// exhausted.
    pub(crate) fn fetch(&mut self, end: Direction, limit: usize) -> Result<Vec<Fetched>> {
        loop {
            let fetched = self.fetch_once(end, limit)?;
            if !fetched.is_empty() || self.exhausted {
                return Ok(fetched);
            }
        }
    }

    /// The same, where what was found may all be invisible in the snapshot.
    fn fetch_once(&mut self, end: Direction, limit: usize) -> Result<Vec<Fetched>> {
        let forward = end == Direction::Forward;
        let (start, stop) =
            if forward { (&self.lower, &self.upper) } else { (&self.upper, &self.lower) };
        let mut batch: Vec<Fetched> = Vec::new();
        let (mut bytes, mut reached_stop, mut disordered) = (0, true, false);
        self.backend.scan(&self.life, borrowed(start), end, self.expired, &mut |key, found| {
            if !passes(stop, key, !forward) {
                return ControlFlow::Break(());
            }
            let previous = batch.last().map(|previous| previous.key.as_ref());
            let onward = previous
                .map_or_else(|| passes(start, key, forward), |p| key != p && (key > p) == forward);
            if !onward {
                disordered = true; // A damaged index must not make this go round in circles.
                return ControlFlow::Break(());
            }
            let value = if self.values { found.value } else { &[] };
            bytes += KeyBytes::of(key).as_slice().len() + value.len();
            batch.push(Fetched {
                key: key.to_owned(),
                value: value.to_vec(),
                expires_ms: found.expires_ms,
            });
            reached_stop = batch.len() < limit && bytes < BATCH_BYTES;
            if reached_stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if disordered {
            return Err(Error::corrupt(0, "its keys are out of order"));
        }
        let far = match batch.last() {
            Some(last) if !reached_stop => Bound::Included(last.key.clone()),
            _ => stop.clone(),
        };
        if let Some(images) = &self.images {
            if !forward {
                batch.reverse();
            }
            images.overlay(
                &mut batch,
                if forward { (start.clone(), far.clone()) } else { (far.clone(), start.clone()) },
            )?;
            if !forward {
                batch.reverse();
            }
        }
        self.exhausted = reached_stop;
        if let Bound::Included(last) = far
            && !reached_stop
        {
            if let Some(images) = self.images.as_ref().filter(|_| self.once) {
                images.pass(&last);
            }
            *(if forward { &mut self.lower } else { &mut self.upper }) = Bound::Excluded(last);
        }
        Ok(batch)
    }
}

/// An iterator over entries in key order, from either end; [`rev`](Iterator::rev) turns it around.
///
/// Of a [`Snapshot`](crate::Snapshot) it shows exactly the state of that moment. Of a store or a
/// tree, entries are fetched a batch at a time (128 entries, or 1 MiB of values), so the store can
/// be written to while one iterates, by this thread too. What is promised then: keys come in order
/// and none comes twice; a key that is present all the while comes; a key that is absent all the
/// while does not; and each value was the key's value at some moment of the iteration. It is no
/// snapshot: of two writes made during the iteration the later one may be seen and the earlier one
/// not. What was committed as one [`Batch`](crate::Batch) is seen wholly or not at all by each step
/// of fetching.
///
/// After an error the iterator ends.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
/// store.put_many([("ash", "1"), ("beech", "2"), ("cedar", "3"), ("oak", "4")])?;
/// let mut range = store.range("b"..);
/// assert_eq!(range.next().transpose()?.unwrap().0, "beech");
/// range.seek("d")?;
/// assert_eq!(range.peek()?.unwrap().0, "oak");
/// assert_eq!(range.next_back().transpose()?.unwrap().0, "oak");
/// assert!(range.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Range<'s> {
    space: Space,
    /// None if the bounds were refused.
    cursor: Option<Cursor>,
    /// The least entries, the least in front.
    least: VecDeque<Entry>,
    /// The greatest entries, the greatest in front.
    greatest: VecDeque<Entry>,
    direction: Direction,
    /// The bounds are of the wrong kind: the first item.
    refused: Option<Error>,
    of_store: PhantomData<&'s ()>,
}

impl Range<'_> {
    pub(crate) fn new(space: Space, cursor: Result<Cursor>, direction: Direction) -> Self {
        let (cursor, refused) = match cursor {
            Ok(cursor) => (Some(cursor), None),
            Err(error) => (None, Some(error)),
        };
        let (least, greatest) = (VecDeque::new(), VecDeque::new());
        Self { space, cursor, least, greatest, direction, refused, of_store: PhantomData }
    }

    /// The same without the borrow of what it is of: an iterator to be kept, beside its store for
    /// instance. Where that is closed before, the next item is [`Error::Closed`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// use everleaf::{Error, Store};
    ///
    /// let store = Store::create(folder.path().join("a.pool"))?;
    /// let mut entries = store.iter().into_owned();
    /// drop(store);
    /// assert!(matches!(entries.next(), Some(Err(Error::Closed))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_owned(self) -> Range<'static> {
        Range { of_store: PhantomData, ..self }
    }

    /// The same without a copy of the values: they are empty.
    pub(crate) fn without_values(mut self) -> Self {
        self.cursor = self.cursor.map(Cursor::without_values);
        self
    }

    /// The next entry, which stays the next one; none at the end.
    ///
    /// # Errors
    /// What [`next`](Iterator::next) would give; the iterator ends with it.
    pub fn peek(&mut self) -> Result<Option<&Entry>> {
        let next = self.next().transpose()?;
        let near = match self.direction {
            Direction::Forward => &mut self.least,
            Direction::Backward => &mut self.greatest,
        };
        if let Some(entry) = next {
            near.push_front(entry);
        }
        Ok(near.front())
    }

    /// Leaves out what comes before `key`: the next entry is the one of `key`, or the first that
    /// comes after it. A key that lies behind is not gone back to.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`].
    pub fn seek(&mut self, key: impl AsKey) -> Result<()> {
        self.seek_to(key.as_key())
    }

    fn seek_to(&mut self, key: Key<'_>) -> Result<()> {
        let forward = self.direction == Direction::Forward;
        let owned = key.to_owned();
        let bound = self.space.encode_bound(Bound::Included(&owned), forward)?;
        let before =
            |entry: &Entry| !passes(&Bound::Included(owned.clone()), entry.0.as_ref(), forward);
        let (near, far) = match self.direction {
            Direction::Forward => (&mut self.least, &mut self.greatest),
            Direction::Backward => (&mut self.greatest, &mut self.least),
        };
        while near.front().is_some_and(before) {
            near.pop_front();
        }
        while far.back().is_some_and(before) {
            far.pop_back();
        }
        if let Some(cursor) = &mut self.cursor {
            cursor.narrow(bound, forward);
        }
        Ok(())
    }

    fn take(&mut self, end: Direction) -> Option<Result<Entry>> {
        if let Some(refused) = self.refused.take() {
            return Some(Err(refused));
        }
        let (near, far) = match end {
            Direction::Forward => (&mut self.least, &mut self.greatest),
            Direction::Backward => (&mut self.greatest, &mut self.least),
        };
        if let Some(entry) = near.pop_front() {
            return Some(Ok(entry));
        }
        let Some(cursor) = self.cursor.as_mut().filter(|cursor| !cursor.exhausted) else {
            // What was fetched from the other end is all there is in between.
            return far.pop_back().map(Ok);
        };
        let fetched = cursor.fetch(end, BATCH_ENTRIES);
        match fetched.and_then(|fetched| self.space.decode_all(fetched)) {
            Ok(entries) => near.extend(entries),
            Err(error) => {
                self.cursor = None;
                self.least.clear();
                self.greatest.clear();
                return Some(Err(error));
            }
        }
        self.take(end)
    }
}

impl Iterator for Range<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take(self.direction)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(match self.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        })
    }
}

impl FusedIterator for Range<'_> {}

impl fmt::Debug for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range").field("direction", &self.direction).finish_non_exhaustive()
    }
}

/// An iterator over keys in order, from either end, which does not read the values. As [`Range`]
/// otherwise.
#[derive(Debug)]
pub struct Keys<'s>(pub(crate) Range<'s>);

impl Keys<'_> {
    /// As [`Range::into_owned`].
    pub fn into_owned(self) -> Keys<'static> {
        Keys(self.0.into_owned())
    }
}

impl Iterator for Keys<'_> {
    type Item = Result<OwnedKey>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for Keys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.0.next_back()?.map(|(key, _)| key))
    }
}

impl FusedIterator for Keys<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_of_prefixes() {
        assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(successor(b"\xff\xff"), None);
        assert_eq!(successor(b""), None);
    }

    #[test]
    fn a_prefix_and_ends_intersect() {
        let key = |key: &str| OwnedKey::from(key);
        let scan = Scan::all().starting_at("abc").ending_before("b").with_prefix("ab");
        assert_eq!(scan.bounds(), (Bound::Included(key("abc")), Bound::Excluded(key("ac"))));
        let scan = Scan {
            from: Bound::Excluded(key("ab")),
            to: Bound::Included(key("abx")),
            ..Scan::all().with_prefix("ab")
        };
        assert_eq!(scan.bounds(), (Bound::Excluded(key("ab")), Bound::Included(key("abx"))));
        let scan = Scan::all().with_prefix(b"\xff");
        assert_eq!(scan.bounds(), (Bound::Included(OwnedKey::from(b"\xff")), Bound::Unbounded));
    }
}
