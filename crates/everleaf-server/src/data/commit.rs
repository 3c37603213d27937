//! The end of a request's writes: all are done, or none, and room is made for them in a full pool.

use everleaf::Error;

use super::counts::Growth;
use super::record::collection_of;
use super::rows::{Pending, deleted_row, key_of};
use super::work::Work;

impl Work<'_> {
    /// Does all writes, or none.
    ///
    /// # Errors
    /// [`Error::is_full`], damage: nothing was written.
    pub fn commit(&mut self) -> Result<(), Error> {
        self.commit_with(|work, pending| {
            work.data.write_with_room(pending, || work.write_or_mark(pending))
        })
    }

    fn write_or_mark(&self, pending: &Pending) -> Result<Growth, Error> {
        match self.write(pending) {
            Err(error) if error.is_full() => match self.without_marks(pending)? {
                Some(instead) => self.write(&instead),
                None => Err(error),
            },
            done => done,
        }
    }

    /// The same writes without the rows that mark collections as deleted, for a full pool, which
    /// takes no new row. Instead the header of the key says that it has expired: the sweep removes
    /// the parts and then the key. None if there are no such rows.
    fn without_marks(&self, pending: &Pending) -> Result<Option<Pending>, Error> {
        let mut instead = pending.clone();
        let removed =
            pending.iter().filter(|(row, value)| value.is_none() && key_of(row).is_some());
        for (row, _) in removed {
            let found = self.data.show(row, collection_of)?.flatten();
            if let Some((header, collection)) = found
                && instead.remove(&deleted_row(collection.id)).is_some()
            {
                instead.insert(row.clone(), Some(header.expired().with(&collection.bytes())));
            }
        }
        Ok((instead.len() < pending.len()).then_some(instead))
    }
}
