//! Named trees: how the keys of many trees share one index.
//!
//! A pool has one index, ordered by byte strings (or by `u64`, then it has no named trees). Every
//! key in it belongs to one *space*:
//!
//! ```text
//! a key of the store itself  its bytes; where they begin with ff: ff 00, the bytes after the ff
//! a key of a named tree      ff 01, the tree's number (2 bytes, big-endian), and its bytes;
//!                            a u64 key as 8 bytes, big-endian
//! an entry of the catalog     ff 02, and the tree's name
//! ```
//!
//! K1: the keys of a space lie together. K2: their order in the index is their order in the space.
//! So one order of persistence, one leak audit and one batch serve all trees of a pool, and
//! dropping a tree is the removal of a range.

use std::ops::Bound;

use everleaf_index::{IndexError, MAX_KEY_BYTES};
use everleaf_pmem::planted;
use everleaf_pool::KeyType;
use smallvec::SmallVec;

use crate::core::entry_batches::{Entry, Fetched};
use crate::{Error, Key, OwnedKey};

/// The first byte of every key that is not the store's own, or needs an escape.
const ESCAPE: u8 = 0xff;
const OWN: u8 = 0;
const NAMED: u8 = 1;
const CATALOG: u8 = 2;

/// A part of the index: the store's own keys, those of a named tree, or the catalog of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "control", derive(serde::Serialize, serde::Deserialize))]
pub enum Space {
    /// Keys as they are, in an index of `u64` keys, which has no other space.
    Numbers,
    /// The store's own byte-string keys.
    Own,
    /// A named tree, by number, and the kind of its keys.
    Named(u16, KeyType),
    /// The names of the trees.
    Catalog,
}

impl Space {
    /// The space of a store itself.
    pub(crate) const fn of_store(key_type: KeyType) -> Self {
        match key_type {
            KeyType::U64 => Self::Numbers,
            KeyType::Bytes => Self::Own,
        }
    }

    /// The kind of keys that callers give.
    pub(crate) const fn key_type(self) -> KeyType {
        match self {
            Self::Numbers => KeyType::U64,
            Self::Own | Self::Catalog => KeyType::Bytes,
            Self::Named(_, key_type) => key_type,
        }
    }

    /// Whether its keys are those of a tree, the store's own or a named one: the others are names.
    pub(crate) const fn is_of_tree(self) -> bool {
        !matches!(self, Self::Catalog)
    }

    /// What every key of the space begins with.
    fn prefix(self) -> Short {
        match self {
            Self::Numbers | Self::Own => Short::new(),
            Self::Named(number, _) => {
                Short::from_slice(&[ESCAPE, NAMED, (number >> 8) as u8, number as u8])
            }
            Self::Catalog => Short::from_slice(&[ESCAPE, CATALOG]),
        }
    }

    /// The key of the index for a key of a tree that has a prefix.
    fn with_prefix(self, key: &[u8]) -> Encoded<'static> {
        let mut built = self.prefix();
        built.extend_from_slice(key);
        Encoded::Built(built)
    }

    /// The space that a key of the index belongs to, but for the kind of keys of a named tree; none
    /// if it is none of this version.
    pub(crate) fn of_encoded(key: Key<'_>) -> Option<Self> {
        match key {
            Key::U64(_) => Some(Self::Numbers),
            Key::Bytes([ESCAPE, OWN, ..]) => Some(Self::Own),
            Key::Bytes([ESCAPE, NAMED, high, low, ..]) => {
                Some(Self::Named(u16::from(*high) << 8 | u16::from(*low), KeyType::Bytes))
            }
            Key::Bytes([ESCAPE, CATALOG, ..]) => Some(Self::Catalog),
            Key::Bytes([ESCAPE, ..]) => None,
            Key::Bytes(_) => Some(Self::Own),
        }
    }

    /// The key of the index for a key of this space.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`], [`IndexError::KeyTooLong`].
    pub(crate) fn encode(self, key: Key<'_>) -> Result<Encoded<'_>, Error> {
        let encoded = self.place(key)?;
        let length = |key: Key<'_>| if let Key::Bytes(bytes) = key { bytes.len() } else { 0 };
        let (bytes, encoded_bytes) = (length(key), length(encoded.as_key()));
        if encoded_bytes > MAX_KEY_BYTES {
            return Err(IndexError::KeyTooLong {
                bytes,
                max_bytes: MAX_KEY_BYTES - (encoded_bytes - bytes),
            }
            .into());
        }
        Ok(encoded)
    }

    /// As [`encode`](Self::encode), however long the key is.
    fn place(self, key: Key<'_>) -> Result<Encoded<'_>, Error> {
        Ok(match (self, key) {
            (Self::Numbers, Key::U64(_)) => Encoded::Same(key),
            (Self::Own, Key::Bytes([ESCAPE, rest @ ..])) => {
                let mut built = Short::from_slice(&[ESCAPE, OWN]);
                built.extend_from_slice(rest);
                Encoded::Built(built)
            }
            (Self::Own, Key::Bytes(_)) => Encoded::Same(key),
            (Self::Named(_, KeyType::U64), Key::U64(number)) => {
                self.with_prefix(&number.to_be_bytes())
            }
            (Self::Named(_, KeyType::Bytes) | Self::Catalog, Key::Bytes(bytes)) => {
                self.with_prefix(bytes)
            }
            _ => return Err(Error::WrongKeyType { expected: self.key_type() }),
        })
    }

    /// The key of this space that a key of the index stands for; none if it belongs to another
    /// space.
    pub(crate) fn decode(self, key: Key<'_>) -> Option<OwnedKey> {
        self.show(key, |key| key.to_owned())
    }

    /// As [`decode`](Self::decode), of a key that can be had: mostly it is the one that is wanted.
    pub(crate) fn decode_owned(self, key: OwnedKey) -> Option<OwnedKey> {
        match (self, &key) {
            (Self::Numbers, OwnedKey::U64(_)) => Some(key),
            (Self::Own, OwnedKey::Bytes(bytes)) if bytes.first() != Some(&ESCAPE) => Some(key),
            _ => self.decode(key.as_ref()),
        }
    }

    /// Entries whose keys are the index's, with keys of this space.
    ///
    /// # Errors
    /// Damage: a key is of another space.
    pub(crate) fn decode_all(self, fetched: Vec<Fetched>) -> Result<Vec<Entry>, Error> {
        let own = |entry: Fetched| {
            let key = self.decode_owned(entry.key);
            let key = key.ok_or(Error::corrupt(0, "a key belongs to no tree"))?;
            Ok((key, entry.value))
        };
        fetched.into_iter().map(own).collect()
    }

    /// As [`decode`](Self::decode), without a copy but of a key that was escaped.
    pub(crate) fn show<R>(self, key: Key<'_>, show: impl FnOnce(Key<'_>) -> R) -> Option<R> {
        let rest = match (self, key) {
            (Self::Numbers, Key::U64(_)) => return Some(show(key)),
            (Self::Own, Key::Bytes([ESCAPE, OWN, rest @ ..])) => {
                return Some(show(Key::Bytes(&[&[ESCAPE], rest].concat())));
            }
            (Self::Own, Key::Bytes([ESCAPE, ..])) => return None,
            (Self::Own, Key::Bytes(_)) => return Some(show(key)),
            (Self::Named(number, _), Key::Bytes([ESCAPE, NAMED, high, low, rest @ ..])) => {
                if number.to_be_bytes() != [*high, *low] {
                    return None;
                }
                rest
            }
            (Self::Catalog, Key::Bytes([ESCAPE, CATALOG, rest @ ..])) => rest,
            _ => return None,
        };
        match self.key_type() {
            KeyType::Bytes => Some(show(Key::Bytes(rest))),
            KeyType::U64 => {
                rest.try_into().ok().map(|bytes| show(Key::U64(u64::from_be_bytes(bytes))))
            }
        }
    }

    /// The bound in the index for a bound in this space.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`].
    pub(crate) fn encode_bound(
        self,
        bound: Bound<&OwnedKey>,
        lower: bool,
    ) -> Result<Bound<OwnedKey>, Error> {
        // A bound may be longer than any key that is stored: it still has its place among them.
        let encoded =
            |key: &OwnedKey| self.place(key.as_ref()).map(|encoded| encoded.as_key().to_owned());
        Ok(match (bound, lower) {
            (Bound::Included(key), _) => Bound::Included(encoded(key)?),
            (Bound::Excluded(key), _) => Bound::Excluded(encoded(key)?),
            (Bound::Unbounded, true) => match self {
                Self::Numbers | Self::Own => Bound::Unbounded,
                _ => Bound::Included(OwnedKey::from(self.prefix().to_vec())),
            },
            (Bound::Unbounded, false) => match self {
                Self::Numbers => Bound::Unbounded,
                Self::Own => Bound::Excluded(OwnedKey::from(vec![ESCAPE, NAMED])),
                _ => Bound::Excluded(OwnedKey::from(
                    successor(&self.prefix())
                        .filter(|_| !planted(337))
                        .unwrap_or_else(|| vec![ESCAPE; 3]),
                )),
            },
        })
    }
}

/// Bytes of a key, without an allocation where they are few.
type Short = SmallVec<[u8; 64]>;

/// A key of the index.
pub(crate) enum Encoded<'k> {
    /// It is the caller's.
    Same(Key<'k>),
    /// Made of the caller's.
    Built(Short),
}

impl Encoded<'_> {
    pub(crate) fn as_key(&self) -> Key<'_> {
        match self {
            Self::Same(key) => *key,
            Self::Built(bytes) => Key::Bytes(bytes),
        }
    }
}

/// The least byte string that is greater than every one that begins with `prefix`; none if there is
/// no such string.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut successor = prefix[..=last].to_vec();
    successor[last] += 1;
    Some(successor)
}

/// The names of the types that a tree was made for; an empty one was not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeNames {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl TypeNames {
    /// Bytes of a name at most: a longer one is cut, and compared as it was cut.
    const MAX_BYTES: usize = 1024;

    pub(crate) fn new(mut key: String, mut value: String) -> Self {
        for name in [&mut key, &mut value] {
            name.truncate(name.floor_char_boundary(Self::MAX_BYTES));
        }
        Self { key, value }
    }

    fn is_empty(&self) -> bool {
        self.key.is_empty() && self.value.is_empty()
    }
}

/// What the catalog says of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CatalogEntry {
    pub(crate) number: u16,
    pub(crate) key_type: KeyType,
    /// The tree is being dropped: its keys go first, then this entry.
    pub(crate) dropping: bool,
    pub(crate) types: TypeNames,
}

impl CatalogEntry {
    /// Of a tree whose types nothing tells.
    pub(crate) fn untyped(number: u16, key_type: KeyType) -> Self {
        Self { number, key_type, dropping: false, types: TypeNames::default() }
    }

    pub(crate) fn space(&self) -> Space {
        Space::Named(self.number, self.key_type)
    }

    /// Four bytes, as builds without names of types wrote them, and the names if there are any.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let [low, high] = self.number.to_le_bytes();
        let is_bytes = u8::from(self.key_type == KeyType::Bytes);
        let mut bytes = vec![low, high, is_bytes, u8::from(self.dropping)];
        if !self.types.is_empty() {
            // A name has at most 1,024 bytes.
            bytes.extend_from_slice(&(self.types.key.len() as u16).to_le_bytes());
            bytes.extend_from_slice(self.types.key.as_bytes());
            bytes.extend_from_slice(self.types.value.as_bytes());
        }
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (number, key_type, dropping, names) = match bytes {
            [low, high, key_type @ 0..=1, dropping @ 0..=1, names @ ..] => {
                (u16::from_le_bytes([*low, *high]), *key_type, *dropping, names)
            }
            _ => return None,
        };
        let types = match names {
            [] => TypeNames::default(),
            [low, high, names @ ..] => {
                let key_bytes = usize::from(u16::from_le_bytes([*low, *high]));
                let (key, value) = names.split_at_checked(key_bytes)?;
                let text = |name: &[u8]| std::str::from_utf8(name).ok().map(str::to_owned);
                TypeNames { key: text(key)?, value: text(value)? }
            }
            _ => return None,
        };
        let key_type = if key_type == 1 { KeyType::Bytes } else { KeyType::U64 };
        Some(Self { number, key_type, dropping: dropping == 1, types })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACES: [Space; 5] = [
        Space::Own,
        Space::Named(0, KeyType::Bytes),
        Space::Named(0xffff, KeyType::Bytes),
        Space::Named(7, KeyType::U64),
        Space::Catalog,
    ];

    fn keys(key_type: KeyType) -> Vec<OwnedKey> {
        if key_type == KeyType::U64 {
            return [0, 1, 255, 256, u64::MAX].map(OwnedKey::U64).to_vec();
        }
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for byte in [0, 1, 2, 0x61, 0xfe, 0xff] {
            keys.extend(
                keys.clone()
                    .into_iter()
                    .filter(|key| key.len() < 3)
                    .map(|key| [key, vec![byte]].concat()),
            );
        }
        keys.sort();
        keys.dedup();
        keys.into_iter().map(OwnedKey::from).collect()
    }

    #[test]
    fn every_key_round_trips_and_belongs_to_its_space_alone() {
        for space in SPACES {
            for key in keys(space.key_type()) {
                let encoded = space.encode(key.as_ref()).unwrap().as_key().to_owned();
                assert_eq!(space.decode(encoded.as_ref()).as_ref(), Some(&key));
                for other in SPACES.into_iter().filter(|other| *other != space) {
                    assert_eq!(
                        other.decode(encoded.as_ref()),
                        None,
                        "{key:?} of {space:?} in {other:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn keys_keep_their_order_and_lie_within_the_bounds_of_their_space() {
        for space in SPACES {
            let encoded: Vec<OwnedKey> = keys(space.key_type())
                .iter()
                .map(|key| space.encode(key.as_ref()).unwrap().as_key().to_owned())
                .collect();
            assert!(encoded.is_sorted_by(|a, b| a < b), "{space:?}");
            for other in SPACES {
                let lower = other.encode_bound(Bound::Unbounded, true).unwrap();
                let upper = other.encode_bound(Bound::Unbounded, false).unwrap();
                for key in &encoded {
                    let within =
                        std::ops::RangeBounds::contains(&(lower.as_ref(), upper.as_ref()), key);
                    assert_eq!(within, space == other, "{key:?} of {space:?} in {other:?}");
                }
            }
        }
    }

    #[test]
    fn the_longest_key_of_each_space_fits_the_index_and_a_longer_one_is_refused() {
        for (space, first, max) in [
            (Space::Own, b'a', MAX_KEY_BYTES),
            (Space::Own, ESCAPE, MAX_KEY_BYTES - 1),
            (SPACES[1], b'a', MAX_KEY_BYTES - 4),
        ] {
            let key = vec![first; max];
            assert!(matches!(
                space.encode(Key::Bytes(&key)).unwrap().as_key(),
                Key::Bytes(k) if k.len() == MAX_KEY_BYTES
            ));
            let longer = vec![first; max + 1];
            let refused = space.encode(Key::Bytes(&longer)).err().unwrap();
            assert!(matches!(
                refused,
                Error::Index(IndexError::KeyTooLong { max_bytes, .. }) if max_bytes == max
            ));
        }
    }

    #[test]
    fn catalog_entries_round_trip() {
        for key_type in [KeyType::U64, KeyType::Bytes] {
            for dropping in [false, true] {
                for (key, value) in [("", ""), ("u64", ""), ("", "f64"), ("(String, u64)", "Json")]
                {
                    let types = TypeNames::new(key.to_owned(), value.to_owned());
                    let entry = CatalogEntry { number: 0x1234, key_type, dropping, types };
                    let bytes = entry.to_bytes();
                    assert_eq!(bytes.len() == 4, key.is_empty() && value.is_empty());
                    assert_eq!(CatalogEntry::read(&bytes), Some(entry));
                }
            }
        }
        let long = TypeNames::new("\u{e4}".repeat(600), String::new());
        assert_eq!(long.key.len(), 1024);
        for bytes in [&b"\0\0\x02\0"[..], b"\0\0\0\0\x01", b"\0\0\0\0\x02\0a", b"\0\0\0\0\0\0\xff"]
        {
            assert_eq!(CatalogEntry::read(bytes), None);
        }
        assert_eq!(CatalogEntry::read(b""), None);
    }
}
