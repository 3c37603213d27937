//! All keys of a database, with what is to be written to it.

use std::ops::{Bound, ControlFlow};

use everleaf::{Direction, Error};

use super::record::Header;
use super::rows::{Ends, key_of, key_row, keys_prefix};
use super::work::Work;

/// So many keys are read in less than a millisecond.
const FEW_KEYS: u64 = 2048;

/// A key and what is told of it.
pub struct ListedKey {
    /// The key.
    pub key: Vec<u8>,
    /// Its header.
    pub header: Header,
    /// Bytes of its record.
    pub bytes: u64,
}

/// Some keys of a database.
pub struct Listed {
    /// Those that are there, in order.
    pub keys: Vec<ListedKey>,
    /// The last one that was looked at, if there are more behind it.
    pub next: Option<Vec<u8>>,
}

/// The rows of all keys of a database.
pub fn key_ends(database: u8) -> Ends {
    // No database has the last number.
    let (prefix, next) = (keys_prefix(Some(database)), keys_prefix(Some(database + 1)));
    (Bound::Included(prefix), Bound::Excluded(next))
}

impl Work<'_> {
    /// Keys of a database that expire: what the sweep has found last, and all that there are where
    /// they are few.
    ///
    /// # Errors
    /// Damage.
    pub fn count_expiring(&self, database: u8) -> Result<u64, Error> {
        if self.data.keys_of(database).is_none_or(|keys| keys > FEW_KEYS) {
            return Ok(self.data.picture.expires(database));
        }
        let few = self.keys_after(database, None, (usize::MAX, usize::MAX))?;
        Ok(few.keys.iter().filter(|key| key.header.expires_ms.is_some()).count() as u64)
    }

    /// A key at random; `below` draws a number below another one. Where there are many, keys that
    /// are newer than the last round of the sweep are drawn with what lies before them.
    ///
    /// # Errors
    /// Damage.
    pub fn random_key(
        &self,
        database: u8,
        mut below: impl FnMut(u64) -> u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let draw = |few: Listed, below: &mut dyn FnMut(u64) -> u64| {
            let at = below(few.keys.len().max(1) as u64);
            few.keys.into_iter().nth(at as usize).map(|key| key.key)
        };
        let many = self.data.keys_of(database).is_none_or(|keys| keys > FEW_KEYS);
        if let Some((row, apart)) = self.data.picture.place(database, &mut below).filter(|_| many) {
            let before = key_of(&row).map(|(_, key)| key);
            let apart = usize::try_from(apart).unwrap_or(usize::MAX);
            let few = self.keys_after(database, before, (apart, usize::MAX))?;
            if let Some(key) = draw(few, &mut below) {
                return Ok(Some(key));
            }
        }
        Ok(draw(self.keys_after(database, None, (FEW_KEYS as usize, usize::MAX))?, &mut below))
    }

    /// Looks at `limit` keys of a database behind `after`, or at fewer that have `limit_bytes`.
    ///
    /// # Errors
    /// Damage.
    pub fn keys_after(
        &self,
        database: u8,
        after: Option<&[u8]>,
        (limit, limit_bytes): (usize, usize),
    ) -> Result<Listed, Error> {
        let (live, (mut from, to)) = (self.live(database), key_ends(database));
        if let Some(after) = after {
            from = Bound::Excluded(key_row(database, after));
        }
        let (mut keys, mut last, mut looked_at, mut bytes) = (Vec::new(), None, 0, 0);
        self.scan((from, to), Direction::Forward, |row, value| {
            let Some((_, key)) = key_of(row) else { return ControlFlow::Break(()) };
            if let Some(header) = Header::read(value).filter(|header| live.shows(header)) {
                keys.push(ListedKey { key: key.to_vec(), header, bytes: value.len() as u64 });
                bytes += key.len();
            }
            looked_at += 1;
            if looked_at < limit && bytes < limit_bytes {
                return ControlFlow::Continue(());
            }
            last = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(Listed { keys, next: last })
    }
}
