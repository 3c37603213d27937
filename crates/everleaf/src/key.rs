//! Keys as a store takes and gives them.

use std::fmt;

use everleaf_index::{BytesKeys, IndexError, KeyKind, MAX_KEY_BYTES, U64Keys};
use everleaf_pool::KeyType;

use crate::Error;

/// A key that is handed to a store: made from a `u64`, or from anything that lends bytes.
///
/// ```
/// use everleaf::Key;
/// assert_eq!(Key::from(7u64), Key::U64(7));
/// assert_eq!(Key::from("seven"), Key::Bytes(b"seven"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key<'a> {
    /// An integer, ordered by number.
    U64(u64),
    /// A byte string of 0 to 64 KiB, ordered lexicographically.
    Bytes(&'a [u8]),
}

/// A key that a store hands out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnedKey {
    /// An integer.
    U64(u64),
    /// A byte string.
    Bytes(Box<[u8]>),
}

impl Key<'_> {
    /// A copy that keeps its own bytes.
    pub fn to_owned(self) -> OwnedKey {
        match self {
            Key::U64(key) => OwnedKey::U64(key),
            Key::Bytes(key) => OwnedKey::Bytes(key.into()),
        }
    }

    /// Which kind of key this is.
    pub const fn key_type(self) -> KeyType {
        match self {
            Key::U64(_) => KeyType::U64,
            Key::Bytes(_) => KeyType::Bytes,
        }
    }
}

impl OwnedKey {
    /// The key, borrowed.
    pub fn as_ref(&self) -> Key<'_> {
        match self {
            OwnedKey::U64(key) => Key::U64(*key),
            OwnedKey::Bytes(key) => Key::Bytes(key),
        }
    }
}

/// Bytes of a key that are shown.
const SHOWN_BYTES: usize = 64;

impl fmt::Display for Key<'_> {
    /// The number, or the bytes in quotes with escapes, cut after 64 bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::U64(key) => write!(f, "{key}"),
            Key::Bytes(key) if key.len() > SHOWN_BYTES => {
                write!(f, "\"{}...\"", key[..SHOWN_BYTES].escape_ascii())
            }
            Key::Bytes(key) => write!(f, "\"{}\"", key.escape_ascii()),
        }
    }
}

impl From<u64> for Key<'_> {
    fn from(key: u64) -> Self {
        Key::U64(key)
    }
}
impl<'a> From<&'a [u8]> for Key<'a> {
    fn from(key: &'a [u8]) -> Self {
        Key::Bytes(key)
    }
}
impl<'a> From<&'a str> for Key<'a> {
    fn from(key: &'a str) -> Self {
        Key::Bytes(key.as_bytes())
    }
}
impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    fn from(key: &'a [u8; N]) -> Self {
        Key::Bytes(key)
    }
}
impl<'a> From<&'a Vec<u8>> for Key<'a> {
    fn from(key: &'a Vec<u8>) -> Self {
        Key::Bytes(key)
    }
}
impl<'a> From<&'a String> for Key<'a> {
    fn from(key: &'a String) -> Self {
        Key::Bytes(key.as_bytes())
    }
}
impl<'a> From<&'a OwnedKey> for Key<'a> {
    fn from(key: &'a OwnedKey) -> Self {
        key.as_ref()
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        key.to_owned()
    }
}
impl From<u64> for OwnedKey {
    fn from(key: u64) -> Self {
        OwnedKey::U64(key)
    }
}
impl From<&[u8]> for OwnedKey {
    fn from(key: &[u8]) -> Self {
        OwnedKey::Bytes(key.into())
    }
}
impl From<&str> for OwnedKey {
    fn from(key: &str) -> Self {
        OwnedKey::Bytes(key.as_bytes().into())
    }
}
impl<const N: usize> From<&[u8; N]> for OwnedKey {
    fn from(key: &[u8; N]) -> Self {
        OwnedKey::Bytes(key.as_slice().into())
    }
}
impl From<Vec<u8>> for OwnedKey {
    fn from(key: Vec<u8>) -> Self {
        OwnedKey::Bytes(key.into())
    }
}
impl From<String> for OwnedKey {
    fn from(key: String) -> Self {
        OwnedKey::Bytes(key.into_bytes().into())
    }
}
impl From<Box<[u8]>> for OwnedKey {
    fn from(key: Box<[u8]>) -> Self {
        OwnedKey::Bytes(key)
    }
}

/// How a kind of key is called on the command line and in JSON.
pub const fn key_type_name(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::U64 => "u64",
        KeyType::Bytes => "bytes",
    }
}

mod sealed {
    /// A kind of key that every engine has.
    pub trait EngineKey: everleaf_trees::support::key::TreeKey {}
    impl<K: everleaf_trees::support::key::TreeKey> EngineKey for K {}
}

/// A kind of key that stores have: [`U64Keys`] or [`BytesKeys`]. How [`Key`], which is either kind,
/// becomes a key of this kind and back.
pub trait StoreKey: KeyKind + sealed::EngineKey {
    /// Its name in the header.
    const TYPE: KeyType;

    /// The key, if it is of this kind.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`].
    fn narrow(key: Key<'_>) -> Result<Self::Ref<'_>, Error>;

    /// The key as either kind.
    fn widen(key: Self::Ref<'_>) -> Key<'_>;

    /// The same, of a key whose length is to be checked because it will be stored or looked up.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`], [`IndexError::KeyTooLong`].
    fn narrow_checked(key: Key<'_>) -> Result<Self::Ref<'_>, Error> {
        match key {
            Key::Bytes(bytes) if bytes.len() > MAX_KEY_BYTES => {
                Self::narrow(key)?;
                Err(IndexError::KeyTooLong { bytes: bytes.len(), max_bytes: MAX_KEY_BYTES }.into())
            }
            _ => Self::narrow(key),
        }
    }
}

impl StoreKey for U64Keys {
    const TYPE: KeyType = KeyType::U64;

    fn narrow(key: Key<'_>) -> Result<u64, Error> {
        match key {
            Key::U64(key) => Ok(key),
            Key::Bytes(_) => Err(Error::WrongKeyType { expected: Self::TYPE }),
        }
    }

    fn widen(key: Self::Ref<'_>) -> Key<'_> {
        Key::U64(key)
    }
}

impl StoreKey for BytesKeys {
    const TYPE: KeyType = KeyType::Bytes;

    fn narrow(key: Key<'_>) -> Result<&[u8], Error> {
        match key {
            Key::Bytes(key) => Ok(key),
            Key::U64(_) => Err(Error::WrongKeyType { expected: Self::TYPE }),
        }
    }

    fn widen(key: Self::Ref<'_>) -> Key<'_> {
        Key::Bytes(key)
    }
}
