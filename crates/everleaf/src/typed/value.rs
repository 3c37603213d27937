//! Types of values.
//!
//! ```text
//! number      little-endian; usize and isize as u64 and i64
//! bool        00 or 01
//! SystemTime  as a tuple: the seconds since 1970, rounded down (i64), and the nanoseconds (u32)
//! bytes, text as they are
//! Option      00, or 01 and the value
//! tuple       each part but the last one behind its length, as u32
//! ```

use std::borrow::Cow;
use std::time::SystemTime;

use super::key::{from_seconds, to_seconds};
use super::{StoredValue, ValueFor, names};
use crate::{Error, MAX_VALUE_BYTES, Result};

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
            fn type_name() -> String {
                stringify!($type).to_owned()
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
    {N} [u8; N]: Vec<u8>;
    String: Vec<u8>;
    str: Vec<u8>;
    {N} [u8; N]: [u8; N];
}

impl StoredValue for String {
    fn decode(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    }
    fn type_name() -> String {
        "String".to_owned()
    }
}
impl StoredValue for Vec<u8> {
    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
    fn type_name() -> String {
        "Vec<u8>".to_owned()
    }
}
impl<const N: usize> StoredValue for [u8; N] {
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
    fn type_name() -> String {
        format!("[u8; {N}]")
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
    fn type_name() -> String {
        "bool".to_owned()
    }
}

/// Types that are encoded as another one is: how they are made that, and back.
macro_rules! as_other {
    ($($type:ty, $name:literal: $other:ty, $there:expr, $back:expr;)*) => { $(
        impl ValueFor<$type> for $type {
            fn encode(&self) -> Result<Cow<'_, [u8]>> {
                let there: fn(&$type) -> $other = $there;
                Ok(Cow::Owned(ValueFor::<$other>::encode(&there(self))?.into_owned()))
            }
        }
        impl StoredValue for $type {
            fn decode(bytes: &[u8]) -> Option<Self> {
                let back: fn($other) -> Option<$type> = $back;
                <$other>::decode(bytes).and_then(back)
            }
            fn type_name() -> String {
                $name.to_owned()
            }
        }
    )* };
}
as_other! {
    usize, "u64": u64, |value| *value as u64, |value| value.try_into().ok();
    isize, "i64": i64, |value| *value as i64, |value| value.try_into().ok();
    char, "char": u32, |value| u32::from(*value), char::from_u32;
    SystemTime, "SystemTime": (i64, u32), to_seconds, from_seconds;
}
#[cfg(feature = "uuid")]
as_other! {
    uuid::Uuid, "Uuid": [u8; 16],
    |value| *value.as_bytes(), |bytes| Some(uuid::Uuid::from_bytes(bytes));
}

/// As a map of such values has it, `None` needs no type.
impl<V: StoredValue> ValueFor<Option<V>> for Option<V> {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        let Some(value) = self else { return Ok(Cow::Borrowed(&[0])) };
        let mut bytes = vec![1];
        bytes.extend_from_slice(&value.encode()?);
        Ok(Cow::Owned(bytes))
    }
}
impl<V: StoredValue> StoredValue for Option<V> {
    fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(None),
            [1, value @ ..] => V::decode(value).map(Some),
            _ => None,
        }
    }
    fn type_name() -> String {
        format!("Option<{}>", V::type_name())
    }
}

/// Appends a part of a tuple that others follow.
fn encode_part<V>(part: &impl ValueFor<V>, bytes: &mut Vec<u8>) -> Result<()> {
    let part = part.encode()?;
    let too_long = |_| Error::ValueTooLong { bytes: part.len() as u64, max_bytes: MAX_VALUE_BYTES };
    let length = u32::try_from(part.len()).map_err(too_long)?;
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&part);
    Ok(())
}

/// Reads such a part from the front, and leaves the rest.
fn decode_part<V: StoredValue>(bytes: &mut &[u8]) -> Option<V> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
    *bytes = rest;
    V::decode(part)
}

macro_rules! tuples {
    ($((
        $($given:ident $value:ident $part:ident),*;
        $last_given:ident $last:ident $last_part:ident
    ))*) => { $(
        impl<$($value, $given: ValueFor<$value>,)* $last, $last_given: ValueFor<$last>>
            ValueFor<($($value,)* $last,)> for ($($given,)* $last_given,)
        {
            fn encode(&self) -> Result<Cow<'_, [u8]>> {
                let ($($part,)* $last_part,) = self;
                let mut bytes = Vec::new();
                $( encode_part::<$value>($part, &mut bytes)?; )*
                bytes.extend_from_slice(&$last_part.encode()?);
                Ok(Cow::Owned(bytes))
            }
        }
        impl<$($value: StoredValue,)* $last: StoredValue> StoredValue for ($($value,)* $last,) {
            fn decode(mut bytes: &[u8]) -> Option<Self> {
                Some(($(decode_part::<$value>(&mut bytes)?,)* $last::decode(bytes)?,))
            }
            fn type_name() -> String {
                names::tuple(&[$($value::type_name(),)* $last::type_name()])
            }
        }
    )* };
}
tuples! {
    (A J a; B K b)
    (A J a, B K b; C L c)
    (A J a, B K b, C L c; D M d)
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
    fn type_name() -> String {
        "()".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn there_and_back<V: StoredValue + PartialEq + std::fmt::Debug>(value: V) {
        let bytes = value.encode().unwrap().into_owned();
        assert_eq!(V::decode(&bytes), Some(value));
        for shorter in 0..bytes.len() {
            let _ = V::decode(&bytes[..shorter]); // Damage is no panic.
        }
    }

    #[test]
    fn values_come_back_as_they_were() {
        there_and_back((usize::MAX, isize::MIN));
        there_and_back(('\u{e4}', UNIX_EPOCH - Duration::from_nanos(1)));
        there_and_back(SystemTime::now());
        there_and_back((String::from("text"), vec![1u8], 7u64, Some(false)));
        there_and_back((Some(String::new()), None::<u8>, ()));
        there_and_back(((1u8, String::from("nested")), Some(Some(2i64))));
        #[cfg(feature = "uuid")]
        there_and_back(uuid::Uuid::from_u128(7));
    }

    #[test]
    fn what_is_no_value_is_refused() {
        assert_eq!(Option::<u8>::decode(&[]), None);
        assert_eq!(Option::<u8>::decode(&[0, 0]), None, "nothing, and something");
        assert_eq!(Option::<u8>::decode(&[2]), None, "no tag");
        assert_eq!(<(u8, u8)>::decode(&[1, 0, 0, 0]), None, "too short");
        assert_eq!(<(String, u8)>::decode(&[0xff; 6]), None, "a length beyond the end");
        assert_eq!(char::decode(&0xd800u32.to_le_bytes()), None, "a surrogate");
    }
}
