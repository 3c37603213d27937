//! Types of values.

use std::borrow::Cow;

use super::{StoredValue, ValueFor};
use crate::Result;

impl<V, T: ValueFor<V> + ?Sized> ValueFor<V> for &T {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        (**self).encode()
    }
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl ValueFor<$type> for $type {
            fn encode(&self) -> Result<Cow<'_, [u8]>> {
                Ok(Cow::Owned(self.to_le_bytes().to_vec()))
            }
        }
        impl StoredValue for $type {
            fn decode(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_le_bytes)
            }
        }
    )* };
}
numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

/// Values that are their bytes, or are borrowed from what is.
macro_rules! bytes {
    ($($({$generics:ident})? $given:ty: $type:ty;)*) => { $(
        impl $(<const $generics: usize>)? ValueFor<$type> for $given {
            fn encode(&self) -> Result<Cow<'_, [u8]>> {
                Ok(Cow::Borrowed(self.as_ref()))
            }
        }
    )* };
}
bytes! {
    String: String;
    str: String;
    Vec<u8>: Vec<u8>;
    [u8]: Vec<u8>;
    {N} [u8; N]: [u8; N];
}

impl StoredValue for String {
    fn decode(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    }
}
impl StoredValue for Vec<u8> {
    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}
impl<const N: usize> StoredValue for [u8; N] {
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

impl ValueFor<bool> for bool {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(if *self { &[1] } else { &[0] }))
    }
}
impl StoredValue for bool {
    fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl ValueFor<()> for () {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(&[]))
    }
}
impl StoredValue for () {
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}
