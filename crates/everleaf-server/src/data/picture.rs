//! What the last round of the sweep has seen: where keys lie, and how many of them expire. It is a
//! little old, and small: for what need not be exact.

use parking_lot::RwLock;

use super::record::Header;
use super::rows::{DATABASES, key_of, keys_prefix};

/// Places that are kept: with more of them every other one is forgotten.
const PLACES: usize = 1 << 14;
/// The longest place.
const PLACE_BYTES: usize = 128;

/// What a round has seen.
pub(crate) struct Picture {
    /// Rows in order, as many keys apart as `apart` says.
    places: Vec<Box<[u8]>>,
    apart: u64,
    /// Keys that were seen since the last place.
    since: u64,
    expires: [u64; DATABASES as usize],
}

impl Default for Picture {
    fn default() -> Self {
        let expires = [0; DATABASES as usize];
        Self { places: Vec::new(), apart: 1, since: 0, expires }
    }
}

impl Picture {
    /// A key that is there; they come in order.
    pub fn add(&mut self, row: &[u8], value: &[u8]) {
        let Some((database, _)) = key_of(row) else { return };
        let expires = Header::read(value).is_some_and(|header| header.expires_ms.is_some());
        if let Some(number) = self.expires.get_mut(usize::from(database)) {
            *number += u64::from(expires);
        }
        self.since += 1;
        if self.since < self.apart {
            return;
        }
        self.since = 0;
        // The beginning of a long key is a place as good.
        self.places.push(row[..row.len().min(PLACE_BYTES)].into());
        if self.places.len() > PLACES {
            let mut is_kept = false;
            self.places.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.apart *= 2;
        }
    }
}

/// The picture of the last round.
#[derive(Default)]
pub(super) struct LastPicture(RwLock<Picture>);

impl LastPicture {
    pub fn set(&self, picture: Picture) {
        *self.0.write() = picture;
    }

    /// Keys of a database that expired some time later.
    pub fn expires(&self, database: u8) -> u64 {
        self.0.read().expires.get(usize::from(database)).copied().unwrap_or(0)
    }

    /// As [`place`](LastPicture::place), of all databases.
    pub fn any_place(&self, below: &mut dyn FnMut(u64) -> u64) -> Option<(Vec<u8>, u64)> {
        let picture = self.0.read();
        let place = picture.places.get(below(picture.places.len().max(1) as u64) as usize)?;
        Some((place.to_vec(), picture.apart))
    }

    /// A row at random, and how many keys lie between it and the next one; none where no key of
    /// the database was seen. `below` draws a number below another one.
    pub fn place(&self, database: u8, below: &mut dyn FnMut(u64) -> u64) -> Option<(Vec<u8>, u64)> {
        let picture = self.0.read();
        let first = |row: &[u8]| picture.places.partition_point(|place| **place < *row);
        let (from, to) = (keys_prefix(Some(database)), keys_prefix(Some(database + 1)));
        let places = &picture.places[first(&from)..first(&to)];
        let place = places.get(below(places.len().max(1) as u64) as usize)?;
        Some((place.to_vec(), picture.apart))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Kind, key_row};

    #[test]
    fn places_are_few_and_far_apart_alike() {
        let mut picture = Picture::default();
        let value = Header { expires_ms: Some(1), ..Header::new(Kind::String, 1) }.with(b"");
        let keys = 5 * PLACES as u64;
        for key in 0..keys {
            picture.add(&key_row(3, &key.to_be_bytes()), &value);
        }
        assert!(picture.places.len() <= PLACES && picture.places.len() > PLACES / 4);
        assert_eq!((picture.expires[3], picture.expires[2]), (keys, 0));
        let last = LastPicture::default();
        last.set(picture);
        assert_eq!(last.place(2, &mut |_| 0), None);
        for drawn in [0, 1, 2000] {
            let (row, apart) = last.place(3, &mut |limit| drawn.min(limit - 1)).unwrap();
            let (_, key) = key_of(&row).unwrap();
            let key = u64::from_be_bytes(key.try_into().unwrap());
            assert!(key.abs_diff(drawn * apart) <= 2 * apart, "{key} is place {drawn} of {apart}");
        }
    }
}
