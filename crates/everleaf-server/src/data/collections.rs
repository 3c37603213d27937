//! Collections: a header under the key, and parts under the collection's id.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf::{Direction, Error, Scan};

use super::ranks::{FEW, Numbers, Spot, prefix_of};
use super::record::{Collection, Header, Kind};
use super::rows::{Ends, Part, behind_prefix, is_empty, part_prefix, part_rest, part_row};
use super::stored::Merge;
use super::work::Work;

impl Work<'_> {
    /// Visits rows of a range in order, what is pending included, until `visit` breaks.
    ///
    /// # Errors
    /// Damage.
    pub fn scan(
        &self,
        ends: Ends,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        if is_empty(&ends) {
            return Ok(());
        }
        let mut scan = Scan::of(ends.clone());
        scan.direction = direction;
        let forward = direction == Direction::Forward;
        let mut mine = self.pending.range(ends);
        let next = || if forward { mine.next() } else { mine.next_back() };
        let own = std::iter::from_fn(next).map(|(row, value)| (&row[..], value.as_deref()));
        let mut merge = Merge::new(own, forward, visit);
        self.data.rows.scan_with(scan, |row, value| merge.row(row, value))?;
        let _either_way = merge.finish();
        Ok(())
    }

    /// Visits all parts of a collection in order: what stands behind the prefix, and the value.
    ///
    /// # Errors
    /// Damage.
    pub fn scan_part(
        &self,
        id: u64,
        part: Part,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let range = (Bound::Included(part_prefix(id, part)), Bound::Excluded(behind(id, part)));
        self.scan(range, direction, |row, value| visit(part_rest(row), value))
    }

    /// Says that a collection has changed: its header is stored where `members` has changed, and
    /// the key is removed where it has none.
    pub fn changed_collection(
        &mut self,
        row: &[u8],
        header: &Header,
        collection: &Collection,
        members: bool,
    ) {
        if collection.members == 0 {
            self.forget_parts(collection.id);
            self.delete(row.to_vec());
        } else if members {
            self.put(row.to_vec(), header.with(&collection.bytes()));
        } else {
            self.touched_bytes += size_of::<Vec<u8>>() + row.len();
            self.touched.push(row.to_vec());
        }
    }

    /// A new collection of a kind: nothing of it is stored yet.
    ///
    /// # Errors
    /// As a write.
    pub fn new_collection(&self, kind: Kind) -> Result<(Header, Collection), Error> {
        self.data.expect_collection();
        let id = self.data.next_number()?;
        Ok((Header::new(kind, id), Collection { id, members: 0, first: 1 << 63, end: 0 }))
    }

    /// The value of a part.
    ///
    /// # Errors
    /// Damage.
    pub fn part(&self, id: u64, part: Part, rest: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get(&part_row(id, part, rest))
    }

    // ---- ranks
    // ---------------------------------------------------------------------------------------------

    /// The numbers of a part, if it has so many rows that they are worth it.
    fn stretches(&self, prefix: &[u8], rows: u64, waits: bool) -> Result<Stretched, Error> {
        let Some(prefix) = prefix_of(prefix) else { return Ok(Stretched::Few) };
        // What is to be written is not in the numbers.
        let mut of_part = self.pending.range(prefix.to_vec()..behind_prefix(&prefix));
        if rows <= FEW || of_part.next().is_some() {
            return Ok(Stretched::Few);
        }
        let counted = self.data.ranks.counted(&self.data.rows, prefix, waits)?;
        Ok(counted.map_or(Stretched::Later, Stretched::Known))
    }

    /// How many rows of a part lie before `row`; the part has `rows`. None: some more rows were
    /// counted, ask again; with `waits` all are.
    ///
    /// # Errors
    /// Damage.
    pub fn rank(
        &self,
        prefix: &[u8],
        rows: u64,
        row: &[u8],
        waits: bool,
    ) -> Result<Option<u64>, Error> {
        match self.stretches(prefix, rows, waits)? {
            Stretched::Later => Ok(None),
            Stretched::Known(part) => part.rank(&self.data.rows, row).map(Some),
            Stretched::Few => {
                let mut before = 0;
                let ends = (Bound::Included(prefix.to_vec()), Bound::Excluded(row.to_vec()));
                self.scan(ends, Direction::Forward, |_, _| {
                    before += 1;
                    ControlFlow::Continue(())
                })?;
                Ok(Some(before))
            }
        }
    }

    /// About where the row of a part lies that has `number` others before it, of `rows`; else as
    /// [`rank`](Work::rank).
    ///
    /// # Errors
    /// Damage.
    pub fn spot(
        &self,
        prefix: &[u8],
        rows: u64,
        number: u64,
        waits: bool,
    ) -> Result<Option<Spot>, Error> {
        Ok(match self.stretches(prefix, rows, waits)? {
            Stretched::Later => None,
            Stretched::Known(part) => Some(part.spot(prefix, number)),
            Stretched::Few => Some(Spot {
                from: prefix.to_vec(),
                skip: number,
                to: behind_prefix(prefix),
                skip_back: rows.saturating_sub(number + 1),
            }),
        })
    }
}

/// How the number of rows before another one is found.
enum Stretched {
    /// Reading is as good.
    Few,
    /// They are being counted.
    Later,
    Known(Arc<Numbers>),
}

/// The least row behind all parts of this kind of a collection.
pub fn behind(id: u64, part: Part) -> Vec<u8> {
    // Numbers of a sequence never reach the greatest one.
    part_prefix(id + 1, part)
}
