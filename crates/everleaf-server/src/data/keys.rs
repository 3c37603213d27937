//! All keys of a database, with what is to be written to it.

use std::ops::{Bound, ControlFlow};

use everleaf::{Direction, Error};

use super::moment::Ends;
use super::record::Header;
use super::rows::{key_of, key_row, keys_prefix};
use super::work::Work;

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
    /// Numbers of keys that are there, and of those that expire: reads all of them.
    ///
    /// # Errors
    /// Damage.
    pub fn count_keys(&self, database: u8) -> Result<(u64, u64), Error> {
        let (live, mut keys, mut expire) = (self.live(database), 0, 0);
        self.scan(key_ends(database), Direction::Forward, |_, value| {
            if let Some(header) = Header::read(value).filter(|header| live.shows(header)) {
                keys += 1;
                expire += u64::from(header.expires_ms.is_some());
            }
            ControlFlow::Continue(())
        })?;
        Ok((keys, expire))
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
