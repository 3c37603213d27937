//! The store as it was at one moment, for a reply that is sent in parts: what is written between
//! two parts changes nothing of it.
//!
//! Writers copy what they replace into memory meanwhile. All moments share a limit of that memory;
//! the next one may have half of what is left, so that many readers who are slow take little from
//! one who comes later. A moment whose part is used up is lost, and its reply ends with an error.

use std::ops::ControlFlow;
use std::sync::Arc;

use everleaf::{Direction, Error, Key, Scan, Snapshot, View};

use super::ahead::Image;
use super::database::Database;
use super::rows::{Ends, is_empty, slice};
use super::stored::{Merge, Visit};
use super::work::Work;
use crate::memory::{MemoryBudget, Reservation};

/// The least memory that a moment may have, whatever the others have.
const MIN_BYTES: u64 = 1 << 20;

/// The store as it was at one moment.
pub struct Moment {
    view: View,
    /// What of a cluster was not in the store.
    ahead: Image,
    _snapshot: Snapshot,
    _reserved: Reservation,
}

impl Database {
    /// The store as it is now. Who holds the lock of a key has read the same of it.
    ///
    /// # Errors
    /// As a write: it waits until what was written is durable.
    pub fn moment(&self, budget: &Arc<MemoryBudget>) -> Result<Moment, Error> {
        let bytes = (budget.left() / 2).max(MIN_BYTES);
        let mut reserved = budget.reserve();
        // The least part is given in any case.
        let _ = reserved.set(bytes);
        let fix = || self.store.snapshot_with_limit(bytes);
        let (ahead, snapshot) = match self.rows.ahead() {
            None => (Image::default(), fix()),
            Some(ahead) => ahead.image(fix),
        };
        let (snapshot, tree) = (snapshot?, self.rows.tree());
        Ok(Moment { view: snapshot.of(tree)?, ahead, _snapshot: snapshot, _reserved: reserved })
    }
}

/// Where rows are read.
#[derive(Clone, Copy)]
pub enum Source<'s, 'd> {
    /// In the store as it is, with what is to be written.
    Work(&'s Work<'d>),
    /// In the store as it was.
    Moment(&'s Moment),
}

impl Source<'_, '_> {
    /// Shows the value of a row.
    ///
    /// # Errors
    /// Damage, a moment that is lost.
    pub fn show<R>(&self, row: &[u8], show: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Error> {
        match self {
            Self::Work(work) => work.show(row, show),
            Self::Moment(moment) => match moment.ahead.get(row) {
                None => moment.view.get_with(row, show),
                Some(value) => Ok(value.as_deref().map(show)),
            },
        }
    }

    /// Visits rows of a range in order, until `visit` breaks.
    ///
    /// # Errors
    /// Damage, a moment that is lost.
    pub fn scan(
        &self,
        ends: Ends,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        match self {
            Self::Work(work) => work.scan(ends, direction, visit),
            Self::Moment(moment) => moment.scan(ends, direction, visit),
        }
    }
}

impl Moment {
    /// Number of rows of a range.
    ///
    /// # Errors
    /// Damage, a moment that is lost.
    pub fn count(&self, ends: Ends) -> Result<u64, Error> {
        if self.ahead.is_empty() {
            return self.view.count_in(scan_of(ends, Direction::Forward));
        }
        let mut rows = 0;
        self.scan(ends, Direction::Forward, |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    fn scan(
        &self,
        ends: Ends,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        match self.ahead.is_empty() {
            _ if is_empty(&ends) => Ok(()),
            true => self.scan_view(scan_of(ends, direction), visit),
            false => self.scan_both(ends, direction, &mut visit),
        }
    }

    fn scan_view(
        &self,
        scan: Scan,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.view.scan_with(scan, |row, value| match row {
            Key::Bytes(row) => visit(row, value),
            Key::U64(_) => ControlFlow::Break(()),
        })
    }

    /// With the rows that were ahead of the store. It is compiled once for all that visit.
    fn scan_both(
        &self,
        ends: Ends,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let forward = direction == Direction::Forward;
        let mut mine = self.ahead.range::<[u8], _>((slice(&ends.0), slice(&ends.1)));
        let next = || if forward { mine.next() } else { mine.next_back() };
        let own = std::iter::from_fn(next).map(|(row, value)| (&row[..], value.as_deref()));
        let mut merge = Merge::new(own, forward, visit);
        self.scan_view(scan_of(ends.clone(), direction), |row, value| merge.row(row, value))?;
        let _either_way = merge.finish();
        Ok(())
    }
}

fn scan_of(ends: Ends, direction: Direction) -> Scan {
    let mut scan = Scan::of(ends);
    scan.direction = direction;
    scan
}
