//! Ranges: what to iterate over, and the iterator.

use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::ops::{Bound, ControlFlow};

use everleaf_index::Direction;

use crate::backend::Backend;
use crate::{Error, Key, OwnedKey};

/// Entries that are fetched under one hold of the store's lock.
const BATCH_ENTRIES: usize = 128;
/// Bytes of values after which a batch ends early, so that long values neither fill memory nor hold writers up.
const BATCH_BYTES: usize = 1 << 20;

/// What to iterate over. `from` is always the lower end and `to` the upper one, whichever the direction.
///
/// ```
/// use everleaf::Scan;
/// let scan = Scan::all().starting_at("a").ending_before("c").backward();
/// assert!(matches!(scan.to, std::ops::Bound::Excluded(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
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
        Self { from: Bound::Unbounded, to: Bound::Unbounded, prefix: None, direction: Direction::Forward }
    }
}

impl Scan {
    /// Every key, the least first.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only this key and greater ones.
    #[must_use]
    pub fn starting_at(mut self, key: impl Into<OwnedKey>) -> Self {
        self.from = Bound::Included(key.into());
        self
    }

    /// Only keys less than this one.
    #[must_use]
    pub fn ending_before(mut self, key: impl Into<OwnedKey>) -> Self {
        self.to = Bound::Excluded(key.into());
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
    fn bounds(self) -> (Bound<OwnedKey>, Bound<OwnedKey>) {
        let Some(prefix) = self.prefix else { return (self.from, self.to) };
        let behind = match successor(&prefix) {
            Some(behind) => Bound::Excluded(OwnedKey::from(behind)),
            None => Bound::Unbounded,
        };
        (tighter(self.from, Bound::Included(prefix.into()), true), tighter(self.to, behind, false))
    }
}

/// The least byte string that is greater than every one that begins with `prefix`; none if there is no such string.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut successor = prefix[..=last].to_vec();
    successor[last] += 1;
    Some(successor)
}

/// The bound that lets fewer keys pass: the greater of two lower bounds, the lesser of two upper ones.
fn tighter(a: Bound<OwnedKey>, b: Bound<OwnedKey>, lower: bool) -> Bound<OwnedKey> {
    let (key_a, key_b) = match (&a, &b) {
        (Bound::Unbounded, _) => return b,
        (_, Bound::Unbounded) => return a,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => (a, b),
    };
    let take_a = match key_a.cmp(key_b) {
        std::cmp::Ordering::Equal => matches!(a, Bound::Excluded(_)),
        order => order.is_gt() == lower,
    };
    if take_a { a } else { b }
}

fn borrowed(bound: &Bound<OwnedKey>) -> Bound<Key<'_>> {
    bound.as_ref().map(OwnedKey::as_ref)
}

/// Whether `key` lies on the allowed side of a lower (or upper) bound.
fn passes(bound: &Bound<OwnedKey>, key: Key<'_>, lower: bool) -> bool {
    let (at, included) = match bound {
        Bound::Unbounded => return true,
        Bound::Included(at) => (at, true),
        Bound::Excluded(at) => (at, false),
    };
    match key.cmp(&at.as_ref()) {
        std::cmp::Ordering::Equal => included,
        order => order.is_gt() == lower,
    }
}

/// A key and its value.
pub type Entry = (OwnedKey, Vec<u8>);

/// An iterator over entries in key order, from either end; [`rev`](Iterator::rev) turns it around.
///
/// Entries are fetched a batch at a time (128 entries, or 1 MiB of values), so the store can be written to while one iterates, by this
/// thread too. What is promised then: keys come in order and none comes twice; a key that is present all the while comes; a
/// key that is absent all the while does not; and each value was the key's value at some moment of the iteration. It is no snapshot: of
/// two writes made during the iteration the later one may be seen and the earlier one not.
///
/// After an error the iterator ends.
pub struct Range<'s> {
    backend: &'s dyn Backend,
    /// What has not been fetched yet.
    lower: Bound<OwnedKey>,
    upper: Bound<OwnedKey>,
    /// The least entries, the least in front.
    least: VecDeque<Entry>,
    /// The greatest entries, the greatest in front.
    greatest: VecDeque<Entry>,
    direction: Direction,
    /// Nothing is left to be fetched.
    exhausted: bool,
    /// The bounds are of the wrong kind: the first item.
    refused: Option<Error>,
}

impl<'s> Range<'s> {
    pub(crate) fn new(backend: &'s dyn Backend, scan: Scan) -> Self {
        let direction = scan.direction;
        let (lower, upper) = scan.bounds();
        let expected = backend.key_type();
        let alien = |bound: &Bound<OwnedKey>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.as_ref().key_type() != expected,
            Bound::Unbounded => false,
        };
        let refused = (alien(&lower) || alien(&upper)).then_some(Error::WrongKeyType { expected });
        let (least, greatest, exhausted) = (VecDeque::new(), VecDeque::new(), refused.is_some());
        Self { backend, lower, upper, least, greatest, direction, exhausted, refused }
    }

    fn take(&mut self, end: Direction) -> Option<Result<Entry, Error>> {
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
        if self.exhausted {
            return far.pop_back().map(Ok); // What was fetched from the other end is all there is in between.
        }
        if let Err(error) = self.fetch(end) {
            self.exhausted = true;
            self.least.clear();
            self.greatest.clear();
            return Some(Err(error));
        }
        self.take(end)
    }

    /// Fetches the next batch from one end. Afterwards the batch is not empty, or everything is exhausted.
    fn fetch(&mut self, end: Direction) -> Result<(), Error> {
        let forward = end == Direction::Forward;
        let (start, stop) = if forward { (&mut self.lower, &self.upper) } else { (&mut self.upper, &self.lower) };
        let batch = if forward { &mut self.least } else { &mut self.greatest };
        let (mut bytes, mut reached_stop, mut disordered) = (0, true, false);
        self.backend.scan(borrowed(start), end, &mut |key, value| {
            if !passes(stop, key, !forward) {
                return ControlFlow::Break(());
            }
            let previous = batch.back().map(|(previous, _)| previous.as_ref());
            let onward = previous.map_or_else(|| passes(start, key, forward), |p| key != p && (key > p) == forward);
            if !onward {
                disordered = true; // A damaged index must not make this go round in circles.
                return ControlFlow::Break(());
            }
            bytes += value.len();
            batch.push_back((key.to_owned(), value.to_vec()));
            reached_stop = batch.len() < BATCH_ENTRIES && bytes < BATCH_BYTES;
            if reached_stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if disordered {
            return Err(Error::corrupt(0, "its keys are out of order"));
        }
        self.exhausted = reached_stop;
        if let Some((last, _)) = batch.back() {
            *start = Bound::Excluded(last.clone());
        }
        Ok(())
    }
}

impl Iterator for Range<'_> {
    type Item = Result<Entry, Error>;

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
        let scan = Scan { from: Bound::Excluded(key("ab")), to: Bound::Included(key("abx")), ..Scan::all().with_prefix("ab") };
        assert_eq!(scan.bounds(), (Bound::Excluded(key("ab")), Bound::Included(key("abx"))));
        let scan = Scan::all().with_prefix(b"\xff");
        assert_eq!(scan.bounds(), (Bound::Included(OwnedKey::from(b"\xff")), Bound::Unbounded));
    }
}
