//! Reading: one key, many keys, ranges.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everleaf_index::{Contract, Direction};

use super::Handle;
use crate::core::entry_batches::{BATCH_ENTRIES, Entry, borrowed, passes};
use crate::core::keyspace::Encoded;
use crate::core::reentrancy::Showing;
use crate::core::value::TimedValue;
use crate::scan::Cursor;
use crate::{Error, Key, OwnedKey, Range, Result, Scan};

impl Handle {
    pub(crate) fn get(&self, key: Key<'_>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    pub(crate) fn get_with<R>(
        &self,
        key: Key<'_>,
        show: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let (mut show, mut result) = (Some(show), None);
        self.find(key, &mut |found| {
            // What a snapshot shows is a copy, and nothing is held.
            let _showing = self.images.is_none().then(|| Showing::of(&*self.backend));
            result = show.take().map(|show| show(found.value));
        })?;
        Ok(result)
    }

    pub(crate) fn contains_key(&self, key: Key<'_>) -> Result<bool> {
        self.find(key, &mut |_| {})
    }

    pub(crate) fn expiry(&self, key: Key<'_>) -> Result<Option<Option<SystemTime>>> {
        let mut expiry = None;
        self.find(key, &mut |found| {
            expiry = Some(found.expires_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)))
        })?;
        Ok(expiry)
    }

    /// How long the value of a key lives on; the inner none: for ever.
    pub(crate) fn ttl(&self, key: Key<'_>) -> Result<Option<Option<Duration>>> {
        let mut expiry = None;
        self.find(key, &mut |found| expiry = Some(found.expires_ms))?;
        let left = |ms: u64| Duration::from_millis(ms.saturating_sub(self.backend.now_ms()));
        Ok(expiry.map(|expires_ms| expires_ms.map(left)))
    }

    fn find(&self, key: Key<'_>, show: &mut dyn FnMut(TimedValue<'_>)) -> Result<bool> {
        let key = self.space.encode(key)?;
        match &self.images {
            None => self.backend.get_with(&self.life, key.as_key(), show),
            Some(images) => {
                // A value that has expired by now is read from the index as absent, which a
                // snapshot must not believe.
                let mut found: Option<(Vec<u8>, Option<u64>)> = None;
                let key = key.as_key();
                let mut visit = |at: Key<'_>, here: TimedValue<'_>| {
                    if at == key {
                        found = Some((here.value.to_vec(), here.expires_ms));
                    }
                    ControlFlow::Break(())
                };
                let from = Bound::Included(key);
                self.backend.scan(&self.life, from, Direction::Forward, true, &mut visit)?;
                let found = found
                    .as_ref()
                    .map(|(value, expires_ms)| TimedValue { value, expires_ms: *expires_ms });
                images.prevail(key, found, show)
            }
        }
    }

    pub(crate) fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Vec<u8>>>> {
        if self.images.is_some() {
            return keys.iter().map(|key| self.get(*key)).collect();
        }
        let encoded: Vec<Encoded<'_>> =
            keys.iter().map(|key| self.space.encode(*key)).collect::<Result<_>>()?;
        let keys: Vec<Key<'_>> = encoded.iter().map(Encoded::as_key).collect();
        let mut values = vec![None; keys.len()];
        let mut copy = |at: usize, found: TimedValue<'_>| values[at] = Some(found.value.to_vec());
        self.backend.get_many(&self.life, &keys, &mut copy)?;
        Ok(values)
    }

    pub(crate) fn prefetch(&self, keys: &[Key<'_>]) -> Result<()> {
        let encoded: Vec<Encoded<'_>> =
            keys.iter().map(|key| self.space.encode(*key)).collect::<Result<_>>()?;
        let keys: Vec<Key<'_>> = encoded.iter().map(Encoded::as_key).collect();
        self.backend.prefetch(&self.life, &keys)
    }

    /// The entry with the least key, or with the greatest one.
    pub(crate) fn outermost(&self, end: Direction) -> Result<Option<Entry>> {
        let fetched = self.cursor(Scan::all())?.fetch(end, 1)?;
        Ok(self.space.decode_all(fetched)?.into_iter().next())
    }

    pub(crate) fn len(&self) -> Result<u64> {
        if self.images.is_some() {
            self.count_in(Scan::all())
        } else {
            self.backend.keys_in(&self.life, Some(self.space))
        }
    }

    pub(crate) fn count_in(&self, scan: Scan) -> Result<u64> {
        let mut count = 0;
        if self.copies_what_it_shows() {
            let direction = scan.direction;
            let mut cursor = self.cursor(scan)?.without_values();
            while !cursor.exhausted {
                count += cursor.fetch(direction, BATCH_ENTRIES)?.len() as u64;
            }
        } else {
            self.show_each(scan, |_, _| {
                count += 1;
                ControlFlow::Continue(())
            })?;
        }
        Ok(count)
    }

    /// The index shows an entry under a lock that writers wait for, and an epoch with them: what is
    /// of epochs is copied first, so that no callback delays an end; what is of a snapshot, too.
    fn copies_what_it_shows(&self) -> bool {
        self.images.is_some() || self.backend.capabilities().contract == Contract::Buffered
    }

    pub(crate) fn scan(&self, scan: Scan) -> Range<'_> {
        let direction = scan.direction;
        Range::new(self.space, self.cursor(scan), direction)
    }

    pub(crate) fn scan_with(
        &self,
        scan: Scan,
        mut visit: impl FnMut(Key<'_>, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.copies_what_it_shows() {
            for entry in self.scan(scan) {
                let (key, value) = entry?;
                if visit(key.as_ref(), &value).is_break() {
                    break;
                }
            }
            return Ok(());
        }
        self.show_each(scan, visit)
    }

    /// Shows entries where they are.
    fn show_each(
        &self,
        scan: Scan,
        mut visit: impl FnMut(Key<'_>, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let forward = scan.direction == Direction::Forward;
        let (direction, (lower, upper)) = (scan.direction, self.bounds_of(scan)?);
        let (start, stop) = if forward { (&lower, &upper) } else { (&upper, &lower) };
        let (mut previous, mut wrong, mut showing) = (None, None, None);
        self.backend.scan(&self.life, borrowed(start), direction, false, &mut |key, found| {
            if !passes(stop, key, !forward) {
                return ControlFlow::Break(());
            }
            if !follows(&mut previous, key, forward) {
                wrong = Some("its keys are out of order");
                return ControlFlow::Break(());
            }
            // From the first entry to the end: what the store itself does meanwhile asks nothing.
            showing.get_or_insert_with(|| Showing::of(&*self.backend));
            let shown = self.space.show(key, |key| visit(key, found.value));
            shown.unwrap_or_else(|| {
                wrong = Some("a key belongs to no tree");
                ControlFlow::Break(())
            })
        })?;
        wrong.map_or(Ok(()), |what| Err(Error::corrupt(0, what)))
    }

    /// What `scan` describes, in keys of the index.
    fn bounds_of(&self, scan: Scan) -> Result<(Bound<OwnedKey>, Bound<OwnedKey>)> {
        let (lower, upper) = scan.bounds();
        Ok((
            self.space.encode_bound(lower.as_ref(), true)?,
            self.space.encode_bound(upper.as_ref(), false)?,
        ))
    }

    /// What `scan` describes, to be fetched.
    pub(crate) fn cursor(&self, scan: Scan) -> Result<Cursor> {
        let (backend, life) = (Arc::clone(&self.backend), self.life.clone());
        Ok(Cursor::new(backend, life, self.images.clone(), self.bounds_of(scan)?))
    }
}

/// Whether a key comes behind the one before it, which it then takes the place of.
fn follows(previous: &mut Option<OwnedKey>, key: Key<'_>, forward: bool) -> bool {
    let onward = previous.as_ref().is_none_or(|before| {
        let order = key.cmp(&before.as_ref());
        if forward { order.is_gt() } else { order.is_lt() }
    });
    match (previous, key) {
        (Some(OwnedKey::U64(kept)), Key::U64(number)) => *kept = number,
        // Most keys of a tree have the same length: the place of the one before is taken without a
        // look for room.
        (Some(OwnedKey::Bytes(kept)), Key::Bytes(bytes)) if kept.len() == bytes.len() => {
            kept.copy_from_slice(bytes)
        }
        (previous, key) => *previous = Some(key.to_owned()),
    }
    onward
}
