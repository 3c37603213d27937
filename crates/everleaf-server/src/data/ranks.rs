//! How many rows of a large collection lie before one of them: numbers of stretches, in DRAM.
//!
//! * K1. A part of a collection is counted when a rank in it is first asked for, some thousand rows
//!   at a time. Who asks has the lock of the key, as has everybody who writes the collection.
//! * K2. Writers add what they have changed, under the same lock, of rows that were counted.
//! * K3. The numbers go with the collection, with the process, or when other collections need the
//!   room.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf::{Error, Scan};
use parking_lot::Mutex;

use super::rows::{Ends, PREFIX_BYTES, Pending, behind_prefix, part_id};
use super::stored::Stored;

/// Rows of a stretch, mostly: reading so many takes less than a tenth of a millisecond.
const STRETCH: u64 = 512;
/// Rows that are counted at a time.
const TOGETHER: u64 = 8 * STRETCH;
/// A collection with fewer members is read from its beginning.
pub const FEW: u64 = 2 * STRETCH;
/// Parts of collections whose numbers are kept.
const PARTS: usize = 64;

/// What the rows of a part begin with.
pub type Prefix = [u8; PREFIX_BYTES];

/// The numbers of all collections that were asked for.
#[derive(Default)]
pub(super) struct Ranks {
    parts: Mutex<HashMap<Prefix, Arc<Numbers>>>,
    /// How many questions there were.
    asked: AtomicU64,
    /// Whether there may be any, for writers.
    some: AtomicBool,
}

/// Where a row with a number lies: before it `skip` rows from `from` on, behind it `skip_back` rows
/// up to `to`.
pub struct Spot {
    /// A row, or a prefix of rows.
    pub from: Vec<u8>,
    /// The rows from there that come before it.
    pub skip: u64,
    /// What is not before this row lies behind it.
    pub to: Vec<u8>,
    /// The rows behind it that are before that.
    pub skip_back: u64,
}

/// The rows of a part in stretches: the first row that each may have, and how many it has.
struct Stretches {
    starts: Vec<Box<[u8]>>,
    counts: Vec<u64>,
    /// The last row that was counted; none: all were.
    last: Option<Vec<u8>>,
}

/// The numbers of a part.
pub struct Numbers {
    /// When it was asked for last, as a number of questions.
    asked: AtomicU64,
    stretches: Mutex<Stretches>,
}

/// What the row of a part begins with, or its prefix.
pub fn prefix_of(row: &[u8]) -> Option<Prefix> {
    part_id(row)?;
    row.first_chunk().copied()
}

/// Visits the rows of a range in order.
fn visit(
    rows: &Stored,
    ends: Ends,
    mut each: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), Error> {
    rows.scan_with(Scan::of(ends), |row, _| each(row))
}

impl Stretches {
    fn new(prefix: Prefix) -> Self {
        let last = Some(prefix.to_vec());
        Self { starts: vec![prefix.into()], counts: vec![0], last }
    }

    /// The stretch of a row.
    fn at(&self, row: &[u8]) -> usize {
        self.starts.partition_point(|start| **start <= *row).saturating_sub(1)
    }

    /// Counts some rows more; true: all are counted.
    fn count(&mut self, rows: &Stored, prefix: &[u8]) -> Result<bool, Error> {
        let Some(last) = self.last.take() else { return Ok(true) };
        let (mut counted, mut next) = (0, None);
        let ends = (Bound::Excluded(last), Bound::Excluded(behind_prefix(prefix)));
        let visited = visit(rows, ends, |row| {
            if self.counts.last().is_some_and(|count| *count >= STRETCH) {
                self.starts.push(row.into());
                self.counts.push(0);
            }
            if let Some(count) = self.counts.last_mut() {
                *count += 1;
            }
            counted += 1;
            if counted < TOGETHER {
                return ControlFlow::Continue(());
            }
            next = Some(row.to_vec());
            ControlFlow::Break(())
        });
        if let Err(error) = visited {
            let first = self.starts.swap_remove(0);
            // It begins anew.
            *self = Self { last: Some(first.to_vec()), starts: vec![first], counts: vec![0] };
            return Err(error);
        }
        self.last = next;
        Ok(self.last.is_none())
    }

    /// Adds what was written.
    fn add(&mut self, rows: &Stored, prefix: &[u8], changed: &[(&[u8], i64)]) -> Result<(), Error> {
        for (row, by) in changed {
            if self.last.as_ref().is_none_or(|last| *row <= &last[..]) {
                let at = self.at(row);
                self.counts[at] = self.counts[at].saturating_add_signed(*by);
            }
        }
        // What is empty goes, but the first one, and what is too long is divided.
        let mut counts = std::mem::take(&mut self.counts).into_iter().enumerate();
        self.starts.retain(|_| {
            let kept = counts.next().filter(|(at, count)| *at == 0 || *count > 0);
            self.counts.extend(kept.map(|(_, count)| count));
            kept.is_some()
        });
        let mut at = 0;
        while at < self.counts.len() {
            if self.counts[at] > 2 * STRETCH {
                self.divide(rows, prefix, at)?;
            }
            at += 1;
        }
        Ok(())
    }

    /// Lets a stretch have its first rows only, and another one the others.
    fn divide(&mut self, rows: &Stored, prefix: &[u8], at: usize) -> Result<(), Error> {
        let from = Bound::Included(self.starts[at].to_vec());
        let (mut seen, mut start) = (0, None);
        visit(rows, (from, Bound::Excluded(behind_prefix(prefix))), |row| {
            if seen == STRETCH {
                start = Some(row.into());
                return ControlFlow::Break(());
            }
            seen += 1;
            ControlFlow::Continue(())
        })?;
        if let Some(start) = start {
            let rest = self.counts[at] - STRETCH;
            self.counts[at] = STRETCH;
            self.starts.insert(at + 1, start);
            self.counts.insert(at + 1, rest);
        }
        Ok(())
    }

    fn rank(&self, rows: &Stored, row: &[u8]) -> Result<u64, Error> {
        let at = self.at(row);
        let mut before: u64 = self.counts[..at].iter().sum();
        let from = self.starts[at].to_vec();
        if *from < *row {
            visit(rows, (Bound::Included(from), Bound::Excluded(row.to_vec())), |_| {
                before += 1;
                ControlFlow::Continue(())
            })?;
        }
        Ok(before)
    }

    /// The spot of the row with this number; that of the last one where there are fewer.
    fn spot(&self, prefix: &[u8], number: u64) -> Spot {
        let mut skip = number;
        let last = self.counts.len() - 1;
        let mut at = 0;
        while at < last && skip >= self.counts[at] {
            skip -= self.counts[at];
            at += 1;
        }
        let to = self.starts.get(at + 1).map_or_else(|| behind_prefix(prefix), |row| row.to_vec());
        let skip_back = self.counts[at].saturating_sub(skip + 1);
        Spot { from: self.starts[at].to_vec(), skip, to, skip_back }
    }
}

impl Numbers {
    /// How many rows lie before this one.
    pub fn rank(&self, rows: &Stored, row: &[u8]) -> Result<u64, Error> {
        self.stretches.lock().rank(rows, row)
    }

    /// The spot of the row with this number; that of the last one where there are fewer.
    pub fn spot(&self, prefix: &[u8], number: u64) -> Spot {
        self.stretches.lock().spot(prefix, number)
    }
}

impl Ranks {
    /// The numbers of a part whose rows are all counted. None: some more were counted, ask again;
    /// with `waits` all are.
    pub fn counted(
        &self,
        rows: &Stored,
        prefix: Prefix,
        waits: bool,
    ) -> Result<Option<Arc<Numbers>>, Error> {
        let part = self.of(prefix);
        loop {
            if part.stretches.lock().count(rows, &prefix)? {
                return Ok(Some(part));
            }
            if !waits {
                return Ok(None);
            }
        }
    }

    /// The numbers of a part; none of it is counted where they are new.
    fn of(&self, prefix: Prefix) -> Arc<Numbers> {
        let now = self.asked.fetch_add(1, Ordering::Relaxed);
        let mut parts = self.parts.lock();
        self.some.store(true, Ordering::Release);
        if parts.len() >= PARTS && !parts.contains_key(&prefix) {
            let oldest = parts.iter().min_by_key(|(_, part)| part.asked.load(Ordering::Relaxed));
            if let Some(oldest) = oldest.map(|(prefix, _)| *prefix) {
                parts.remove(&oldest);
            }
        }
        let new = || Numbers { asked: now.into(), stretches: Mutex::new(Stretches::new(prefix)) };
        let part = parts.entry(prefix).or_insert_with(|| Arc::new(new()));
        part.asked.store(now, Ordering::Relaxed);
        Arc::clone(part)
    }

    /// The rows that will come and go with these writes, of parts whose numbers are kept.
    pub fn changes<'p>(
        &self,
        rows: &Stored,
        pending: &'p Pending,
    ) -> Result<Vec<(&'p [u8], i64)>, Error> {
        let mut changes = Vec::new();
        if !self.some.load(Ordering::Acquire) {
            return Ok(changes);
        }
        let mut last = (None, false);
        for (row, value) in pending {
            let prefix = prefix_of(row);
            if prefix != last.0 {
                // Nobody else counts what this writes, whose key is locked.
                let is_kept = prefix.is_some_and(|part| self.parts.lock().contains_key(&part));
                last = (prefix, is_kept);
            }
            if last.1 {
                let had = rows.get_with(row, |_| ())?.is_some();
                let by = i64::from(value.is_some()) - i64::from(had);
                changes.extend((by != 0).then_some((&row[..], by)));
            }
        }
        Ok(changes)
    }

    /// They have come and gone. Numbers that cannot be kept up are forgotten.
    pub fn add(&self, rows: &Stored, changes: &[(&[u8], i64)]) {
        for of_part in changes.chunk_by(|(a, _), (b, _)| prefix_of(a) == prefix_of(b)) {
            let Some(prefix) = of_part.first().and_then(|(row, _)| prefix_of(row)) else {
                continue;
            };
            let Some(part) = self.parts.lock().get(&prefix).cloned() else { continue };
            let added = part.stretches.lock().add(rows, &prefix, of_part);
            if added.is_err() {
                self.parts.lock().remove(&prefix);
            }
        }
    }

    /// A collection was removed.
    pub fn forget(&self, id: u64) {
        if self.some.load(Ordering::Acquire) {
            let mut parts = self.parts.lock();
            parts.retain(|prefix, _| part_id(prefix) != Some(id));
            self.some.store(!parts.is_empty(), Ordering::Release);
        }
    }
}
