//! Keys from what users have, back to it, and compared with it.

use crate::{AsKey, Error, Key, KeyType, OwnedKey};

impl<'a, K: AsKey + ?Sized> From<&'a K> for Key<'a> {
    fn from(key: &'a K) -> Self {
        key.as_key()
    }
}
impl From<u64> for Key<'_> {
    fn from(key: u64) -> Self {
        Key::U64(key)
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        key.to_owned()
    }
}
impl<K: AsKey + ?Sized> From<&K> for OwnedKey {
    fn from(key: &K) -> Self {
        key.as_key().to_owned()
    }
}
impl From<u64> for OwnedKey {
    fn from(key: u64) -> Self {
        OwnedKey::U64(key)
    }
}
impl<const N: usize> From<[u8; N]> for OwnedKey {
    fn from(key: [u8; N]) -> Self {
        OwnedKey::Bytes(key.into())
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

impl TryFrom<OwnedKey> for u64 {
    type Error = Error;
    fn try_from(key: OwnedKey) -> Result<Self, Error> {
        Self::try_from(&key)
    }
}
impl TryFrom<&OwnedKey> for u64 {
    type Error = Error;
    fn try_from(key: &OwnedKey) -> Result<Self, Error> {
        key.as_u64().ok_or(Error::WrongKeyType { expected: KeyType::Bytes })
    }
}
impl TryFrom<OwnedKey> for Vec<u8> {
    type Error = Error;
    fn try_from(key: OwnedKey) -> Result<Self, Error> {
        match key {
            OwnedKey::Bytes(bytes) => Ok(bytes.into_vec()),
            OwnedKey::U64(_) => Err(Error::WrongKeyType { expected: KeyType::U64 }),
        }
    }
}
impl TryFrom<OwnedKey> for String {
    type Error = Error;
    fn try_from(key: OwnedKey) -> Result<Self, Error> {
        let bytes = Vec::try_from(key)?;
        String::from_utf8(bytes).map_err(|_| Error::WrongType { expected: "String" })
    }
}

/// Keys compare with what they can be made of.
macro_rules! compares {
    ($($({$generics:ident})? $type:ty),*) => { $(
        impl $(<const $generics: usize>)? PartialEq<$type> for OwnedKey {
            fn eq(&self, other: &$type) -> bool {
                self.as_ref() == other.as_key()
            }
        }
        impl $(<const $generics: usize>)? PartialEq<$type> for Key<'_> {
            fn eq(&self, other: &$type) -> bool {
                *self == other.as_key()
            }
        }
    )* };
}
compares!(u64, str, &str, String, [u8], &[u8], Vec<u8>, {N} [u8; N], {N} &[u8; N]);

impl PartialEq<Key<'_>> for OwnedKey {
    fn eq(&self, other: &Key<'_>) -> bool {
        self.as_ref() == *other
    }
}
