//! Writing: one key, and all of a range.

use everleaf_index::Direction;

use super::Handle;
use crate::core::backend::{Condition, WriteOutcome};
use crate::core::entry_batches::{BATCH_ENTRIES, Entry};
use crate::core::value::{Expiry, NewValue};
use crate::core::write::{Kind, Write};
use crate::error::check_value;
use crate::{Key, Result, Scan};

/// Makes a value of a value; none is no entry.
type Change<'c> = dyn FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>> + 'c;

impl Handle {
    fn write(
        &self,
        key: Key<'_>,
        condition: Condition<'_>,
        new: Option<NewValue<'_>>,
    ) -> Result<WriteOutcome> {
        if let Some(new) = new {
            check_value(new.value)?;
        }
        let key = self.space.encode(key)?;
        self.backend.write(&self.life, key.as_key(), condition, new)
    }

    fn new_value<'v>(&self, value: &'v [u8], expiry: Expiry) -> NewValue<'v> {
        NewValue { value, expiry: expiry.counted_from(|| self.backend.now_ms()) }
    }

    /// Stores a value in place of the one that there may be; whether there was one. It expires so,
    /// if that is said.
    pub(crate) fn put(&self, key: Key<'_>, value: &[u8], expiry: Option<Expiry>) -> Result<bool> {
        let new = self.new_value(value, expiry.or(self.expiry).unwrap_or(Expiry::Never));
        Ok(self.write(key, Condition::Always, Some(new))?.was_present)
    }

    /// Stores a value where there is one, or where there is none; whether it did.
    pub(crate) fn put_if(&self, key: Key<'_>, value: &[u8], present: bool) -> Result<bool> {
        let condition = if present { Condition::Present } else { Condition::Absent };
        let new = self.new_value(value, self.expiry.unwrap_or(Expiry::Never));
        Ok(self.write(key, condition, Some(new))?.done)
    }

    /// Stores a value, or removes the key, and returns the value that was there.
    pub(crate) fn exchange(&self, key: Key<'_>, new: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut old = None;
        let condition = &mut |value: Option<&[u8]>| {
            old = value.map(<[u8]>::to_vec);
            old.is_some() || new.is_some()
        };
        let expiry = self.expiry.unwrap_or(Expiry::Never);
        let value = new.map(|value| self.new_value(value, expiry));
        self.write(key, Condition::If(condition), value)?;
        Ok(old)
    }

    pub(crate) fn compare_and_swap(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let expiry = self.expiry.unwrap_or(Expiry::Kept);
        let new = new.map(|value| self.new_value(value, expiry));
        Ok(self.write(key, Condition::If(&mut |value| value == expected), new)?.done)
    }

    /// Lets the value that is there expire so; whether there is one.
    pub(crate) fn touch(&self, key: Key<'_>, expiry: Expiry) -> Result<bool> {
        let (life, key) = (self.life.clone(), self.space.encode(key)?.as_key().to_owned());
        let expiry = expiry.counted_from(|| self.backend.now_ms());
        let touch = Write { life, key, kind: Kind::Touch, value: Box::default(), expiry };
        Ok(self.backend.apply(&[touch])?.iter().all(|written| written.done))
    }

    /// Replaces the value by the result of `change` and returns it. Where another thread has
    /// written the key in between, it begins again.
    pub(crate) fn update(&self, key: Key<'_>, change: &mut Change<'_>) -> Result<Option<Vec<u8>>> {
        loop {
            let old = self.get(key)?;
            let new = change(old.as_deref())?;
            if self.compare_and_swap(key, old.as_deref(), new.as_deref())? {
                return Ok(new);
            }
        }
    }

    pub(crate) fn delete(&self, key: Key<'_>) -> Result<bool> {
        Ok(self.write(key, Condition::Always, None)?.was_present)
    }

    /// Removes and returns the entry with the smallest key, or with the greatest one.
    pub(crate) fn pop(&self, end: Direction) -> Result<Option<Entry>> {
        loop {
            let Some((key, _)) = self.outermost(end)? else { return Ok(None) };
            if let Some(value) = self.exchange(key.as_ref(), None)? {
                return Ok(Some((key, value)));
            }
        }
    }

    /// Removes each entry for which `keep` returns false. Returns how many were removed. One that
    /// is written after `keep` has seen it stays.
    pub(crate) fn retain(
        &self,
        keep: &mut dyn FnMut(Key<'_>, &[u8]) -> Result<bool>,
    ) -> Result<u64> {
        let mut removed = 0;
        for entry in self.scan(Scan::all()) {
            let (key, value) = entry?;
            if !keep(key.as_ref(), &value)? {
                removed += u64::from(self.compare_and_swap(key.as_ref(), Some(&value), None)?);
            }
        }
        Ok(removed)
    }

    /// Removes the entries that `scan` describes, expired ones too. Returns how many were removed.
    pub(crate) fn delete_in(&self, scan: Scan) -> Result<u64> {
        let direction = scan.direction;
        let mut cursor = self.cursor(scan)?.with_expired();
        let mut removed = 0;
        while !cursor.exhausted {
            let removal = |key| Write::removal(self.life.clone(), key);
            let writes: Vec<Write> = cursor
                .fetch(direction, BATCH_ENTRIES)?
                .into_iter()
                .map(|e| removal(e.key))
                .collect();
            removed += self.remove_all(&writes)?;
        }
        Ok(removed)
    }

    /// As a batch where there is room for its log, else one by one.
    pub(crate) fn remove_all(&self, writes: &[Write]) -> Result<u64> {
        let backend = &self.backend;
        let count = |written: &[WriteOutcome]| {
            written.iter().filter(|written| written.was_present).count() as u64
        };
        match backend.apply(writes) {
            Ok(written) => Ok(count(&written)),
            Err(error) if error.is_full() => {
                let one = |write: &Write| {
                    backend.write(&write.life, write.key.as_ref(), Condition::Always, None)
                };
                Ok(count(&writes.iter().map(one).collect::<Result<Vec<_>>>()?))
            }
            Err(error) => Err(error),
        }
    }
}
