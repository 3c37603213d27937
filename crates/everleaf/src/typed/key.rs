//! Types of keys, and how their encodings keep their order.
//!
//! ```text
//! unsigned integer  big-endian
//! signed integer    big-endian, with the sign's bit turned around
//! usize, isize      as u64 and i64, so that a pool means the same on every machine
//! bool, char        as the unsigned integer that it is
//! f32, f64          big-endian, with the sign's bit turned around, and of negative numbers all
//!                   bits; -0.0 as 0.0, every NaN as ff ff ff ff ..
//! SystemTime        the seconds since 1970 as i64, rounded down, and the nanoseconds as u32
//! [u8; N], Uuid     its bytes
//! String, Vec<u8>   its bytes; as a part that others follow: 00 as 00 01, then 00 00
//! tuple             its parts one after the other
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everleaf_pool::KeyType;

use super::{KeyFor, OrderedKey, PrefixFor, names};

impl<K, T: KeyFor<K> + ?Sized> KeyFor<K> for &T {
    fn encode(&self, bytes: &mut Vec<u8>) {
        (**self).encode(bytes);
    }
    fn encode_part(&self, bytes: &mut Vec<u8>) {
        (**self).encode_part(bytes);
    }
}

/// Takes so many bytes from the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (front, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*front)
}

macro_rules! integers {
    ($($type:ty: $unsigned:ty, $turned:expr, $key_type:ident;)*) => { $(
        impl KeyFor<$type> for $type {
            fn encode(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&(*self as $unsigned ^ $turned).to_be_bytes());
            }
        }
        impl OrderedKey for $type {
            const KEY_TYPE: KeyType = KeyType::$key_type;
            fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
                take(bytes).map(|bytes| (<$unsigned>::from_be_bytes(bytes) ^ $turned) as $type)
            }
            fn type_name() -> String {
                stringify!($type).to_owned()
            }
        }
    )* };
}
integers! {
    u8: u8, 0, Bytes;
    u16: u16, 0, Bytes;
    u32: u32, 0, Bytes;
    u64: u64, 0, U64;
    u128: u128, 0, Bytes;
    i8: u8, 1 << 7, Bytes;
    i16: u16, 1 << 15, Bytes;
    i32: u32, 1 << 31, Bytes;
    i64: u64, 1 << 63, Bytes;
    i128: u128, 1 << 127, Bytes;
}

/// Types that are encoded as another one is: how they are made that, and back.
macro_rules! as_other {
    ($($type:ty, $name:literal: $other:ty, $there:expr, $back:expr;)*) => { $(
        impl KeyFor<$type> for $type {
            fn encode(&self, bytes: &mut Vec<u8>) {
                let there: fn(&$type) -> $other = $there;
                KeyFor::<$other>::encode(&there(self), bytes);
            }
        }
        impl OrderedKey for $type {
            const KEY_TYPE: KeyType = <$other>::KEY_TYPE;
            fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
                let back: fn($other) -> Option<$type> = $back;
                <$other>::decode_part(bytes).and_then(back)
            }
            fn type_name() -> String {
                $name.to_owned()
            }
        }
    )* };
}
as_other! {
    usize, "u64": u64, |key| *key as u64, |key| key.try_into().ok();
    isize, "i64": i64, |key| *key as i64, |key| key.try_into().ok();
    char, "char": u32, |key| u32::from(*key), char::from_u32;
    SystemTime, "SystemTime": (i64, u32), to_seconds, from_seconds;
}
#[cfg(feature = "uuid")]
as_other! {
    uuid::Uuid, "Uuid": [u8; 16],
    |key| *key.as_bytes(), |bytes| Some(uuid::Uuid::from_bytes(bytes));
}

const NANOSECONDS: i128 = 1_000_000_000;

/// Seconds since 1970, rounded down, and the nanoseconds behind them.
pub(super) fn to_seconds(time: &SystemTime) -> (i64, u32) {
    let since = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    };
    (since.div_euclid(NANOSECONDS) as i64, since.rem_euclid(NANOSECONDS) as u32)
}

/// None if no clock shows this time.
pub(super) fn from_seconds((seconds, nanoseconds): (i64, u32)) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds {
        0.. => UNIX_EPOCH.checked_add(whole)?,
        _ => UNIX_EPOCH.checked_sub(whole)?,
    };
    let is_part = i128::from(nanoseconds) < NANOSECONDS;
    second.checked_add(Duration::new(0, nanoseconds)).filter(|_| is_part)
}

/// Floats, in the order of numbers. What is not a number comes behind all, and is one key.
macro_rules! floats {
    ($($type:ty: $bits:ty;)*) => { $(
        impl KeyFor<$type> for $type {
            fn encode(&self, bytes: &mut Vec<u8>) {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                // A sum with zero is not -0.0.
                let bits = (*self + 0.0).to_bits();
                let ordered = match bits & SIGN {
                    _ if self.is_nan() => !0,
                    0 => bits | SIGN,
                    _ => !bits,
                };
                bytes.extend_from_slice(&ordered.to_be_bytes());
            }
        }
        impl OrderedKey for $type {
            fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let ordered = take(bytes).map(<$bits>::from_be_bytes)?;
                let float = <$type>::from_bits(match ordered & SIGN {
                    0 => !ordered,
                    _ => ordered & !SIGN,
                });
                // Of what is written nothing else is NaN, or negative and zero.
                let is_other = float.is_nan() && ordered != !0 || float == 0.0 && ordered != SIGN;
                (!is_other).then_some(if ordered == !0 { <$type>::NAN } else { float })
            }
            fn type_name() -> String {
                stringify!($type).to_owned()
            }
        }
    )* };
}
floats! {
    f32: u32;
    f64: u64;
}

impl KeyFor<bool> for bool {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(*self));
    }
}
impl OrderedKey for bool {
    fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
        match take(bytes)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
    fn type_name() -> String {
        "bool".to_owned()
    }
}

impl<const N: usize> KeyFor<[u8; N]> for [u8; N] {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }
}
impl<const N: usize> OrderedKey for [u8; N] {
    fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes)
    }
    fn type_name() -> String {
        format!("[u8; {N}]")
    }
}

impl<const N: usize> KeyFor<Vec<u8>> for [u8; N] {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }
    fn encode_part(&self, bytes: &mut Vec<u8>) {
        encode_delimited(self, bytes);
    }
}

/// Bytes that others follow. A shorter string comes before one that goes on, whatever follows: its
/// end, 00 00, is less than anything that the other one may have there.
fn encode_delimited(string: &[u8], bytes: &mut Vec<u8>) {
    for byte in string {
        bytes.push(*byte);
        if *byte == 0 {
            bytes.push(1);
        }
    }
    bytes.extend_from_slice(&[0, 0]);
}

fn decode_delimited(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let mut string = Vec::new();
    loop {
        match bytes {
            [0, 0, rest @ ..] => {
                *bytes = rest;
                return Some(string);
            }
            [0, 1, rest @ ..] => {
                string.push(0);
                *bytes = rest;
            }
            [byte, rest @ ..] if *byte != 0 => {
                string.push(*byte);
                *bytes = rest;
            }
            _ => return None,
        }
    }
}

macro_rules! strings {
    ($($type:ty, $name:literal, $borrowed:ty, $from:expr;)*) => { $(
        impl KeyFor<$type> for $type {
            fn encode(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(self.as_ref());
            }
            fn encode_part(&self, bytes: &mut Vec<u8>) {
                encode_delimited(self.as_ref(), bytes);
            }
        }
        impl KeyFor<$type> for $borrowed {
            fn encode(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(self.as_ref());
            }
            fn encode_part(&self, bytes: &mut Vec<u8>) {
                encode_delimited(self.as_ref(), bytes);
            }
        }
        impl OrderedKey for $type {
            fn decode(bytes: &[u8]) -> Option<Self> {
                $from(bytes.to_vec())
            }
            fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
                decode_delimited(bytes).and_then($from)
            }
            fn type_name() -> String {
                $name.to_owned()
            }
        }
    )* };
}
strings! {
    String, "String", str, |bytes: Vec<u8>| String::from_utf8(bytes).ok();
    Vec<u8>, "Vec<u8>", [u8], Some;
}

/// What strings of bytes may begin with.
macro_rules! prefixes {
    ($($({$($generics:tt)*})? $key:ty: $prefix:ty;)*) => { $(
        impl $(<$($generics)*>)? PrefixFor<$key> for $prefix {
            fn encode_prefix(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(self.as_ref());
            }
        }
    )* };
}
prefixes! {
    String: str;
    String: String;
    Vec<u8>: [u8];
    Vec<u8>: Vec<u8>;
    {const N: usize} Vec<u8>: [u8; N];
    {const N: usize} [u8; N]: [u8];
    {const N: usize} [u8; N]: Vec<u8>;
    {const N: usize, const M: usize} [u8; N]: [u8; M];
}

impl<K, P: PrefixFor<K> + ?Sized> PrefixFor<K> for &P {
    fn encode_prefix(&self, bytes: &mut Vec<u8>) {
        (**self).encode_prefix(bytes);
    }
}

macro_rules! tuples {
    ($(($($given:ident $key:ident $part:ident),*; $last_given:ident $last:ident $last_part:ident))*)
    => { $(
        impl<$($key, $given: KeyFor<$key>,)* $last, $last_given: KeyFor<$last>>
            KeyFor<($($key,)* $last,)> for ($($given,)* $last_given,)
        {
            fn encode(&self, bytes: &mut Vec<u8>) {
                let ($($part,)* $last_part,) = self;
                $( $part.encode_part(bytes); )*
                $last_part.encode(bytes);
            }
            fn encode_part(&self, bytes: &mut Vec<u8>) {
                let ($($part,)* $last_part,) = self;
                $( $part.encode_part(bytes); )*
                $last_part.encode_part(bytes);
            }
        }
        impl<$($key: OrderedKey,)* $last: OrderedKey> OrderedKey for ($($key,)* $last,) {
            fn decode(mut bytes: &[u8]) -> Option<Self> {
                Some(($($key::decode_part(&mut bytes)?,)* $last::decode(bytes)?,))
            }
            fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($key::decode_part(bytes)?,)* $last::decode_part(bytes)?,))
            }
            fn type_name() -> String {
                names::tuple(&[$($key::type_name(),)* $last::type_name()])
            }
        }
        /// The last part may be a prefix itself.
        impl<$($key, $given: KeyFor<$key>,)* $last, $last_given: PrefixFor<$last>>
            PrefixFor<($($key,)* $last,)> for ($($given,)* $last_given,)
        {
            fn encode_prefix(&self, bytes: &mut Vec<u8>) {
                let ($($part,)* $last_part,) = self;
                $( $part.encode_part(bytes); )*
                $last_part.encode_prefix(bytes);
            }
        }
    )* };
}
tuples! {
    (A J a; B K b)
    (A J a, B K b; C L c)
    (A J a, B K b, C L c; D M d)
}

/// The first parts of tuples, each a whole one.
macro_rules! first_parts {
    ($(($($given:ident $key:ident $part:ident),*) $($rest:ident),*;)*) => { $(
        impl<$($key, $given: KeyFor<$key>,)* $($rest),*> PrefixFor<($($key,)* $($rest,)*)>
            for ($($given,)*)
        {
            fn encode_prefix(&self, bytes: &mut Vec<u8>) {
                let ($($part,)*) = self;
                $( $part.encode_part(bytes); )*
            }
        }
    )* };
}
first_parts! {
    (A J a) K;
    (A J a) K, L;
    (A J a) K, L, M;
    (A J a, B K b) L;
    (A J a, B K b) L, M;
    (A J a, B K b, C L c) M;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded<K: OrderedKey>(key: &K) -> Vec<u8> {
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        bytes
    }

    fn same_order_and_back<K: OrderedKey + Ord + std::fmt::Debug>(a: &K, b: &K) {
        assert_eq!(encoded(a).cmp(&encoded(b)), a.cmp(b), "{a:?} {b:?}");
        assert_eq!(K::decode(&encoded(a)).as_ref(), Some(a));
        let mut parts = Vec::new();
        a.encode_part(&mut parts);
        b.encode_part(&mut parts);
        let mut rest = &parts[..];
        let found = (K::decode_part(&mut rest), K::decode_part(&mut rest));
        assert_eq!((found.0.as_ref(), found.1.as_ref()), (Some(a), Some(b)));
        assert!(rest.is_empty());
    }

    /// Zeros are the same key, and so are all NaNs, behind all others.
    fn same_float_order<F: OrderedKey + Into<f64> + Copy + std::fmt::Debug>(a: F, b: F) {
        let float = |float: F| -> f64 { float.into() };
        let order = match (float(a).is_nan(), float(b).is_nan()) {
            (false, false) => float(a).partial_cmp(&float(b)).unwrap(),
            (a, b) => a.cmp(&b),
        };
        assert_eq!(encoded(&a).cmp(&encoded(&b)), order, "{a:?} {b:?}");
        let read = float(F::decode(&encoded(&a)).unwrap());
        let same = read == float(a) || read.is_nan() && float(a).is_nan();
        assert!(same && (read != 0.0 || read.is_sign_positive()), "{a:?} {read}");
    }

    /// Strings of few different bytes, so that one is often the beginning of another.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 1, 2, 0xff]), 0..4)
    }

    proptest! {
        #[test]
        fn integers_keep_their_order(a: (i8, i16, i32, i64), b: (i8, i16, i32, i64)) {
            same_order_and_back(&a, &b);
            same_order_and_back(&a.3, &b.3);
        }

        #[test]
        fn unsigned_integers_keep_their_order(a: (u8, u16, u32, u64), b: (u8, u16, u32, u64)) {
            same_order_and_back(&a, &b);
            same_order_and_back(&(a.3, i128::from(b.3), true), &(b.3, i128::from(a.3), false));
        }

        #[test]
        fn times_and_sizes_keep_their_order(a: (usize, isize), b: (usize, isize),
                                            s: (i32, i32), n in (0..3u32, 0..3u32)) {
            same_order_and_back(&a, &b);
            same_order_and_back(&a.0, &b.0);
            // Around 1970, too.
            for (a, b) in [s, (s.0 % 3, s.1 % 3)] {
                let time =
                    |seconds: i32, n| from_seconds((seconds.into(), n * 499_999_999)).unwrap();
                same_order_and_back(&time(a, n.0), &time(b, n.1));
            }
        }

        /// Of bits at random many are no numbers, and few are near zero: these are tried as well.
        #[test]
        fn floats_keep_their_order(a: u64, b: u64, small: (i8, i8)) {
            for (a, b) in [(a, b), (a, a ^ (b & 1)), (a, a | 1 << 63)] {
                same_float_order(f64::from_bits(a), f64::from_bits(b));
                same_float_order(f32::from_bits(a as u32), f32::from_bits(b as u32));
            }
            same_float_order(f64::from(small.0), f64::from(small.1));
            same_float_order(f32::from(small.0) * 0.0, f32::from(small.1));
        }

        /// Just the keys that begin so are in the range that a prefix stands for.
        #[test]
        fn prefixes_are_of_the_keys_that_begin_so(key in (bytes(), bytes()), p in bytes()) {
            let begins = |prefix: &dyn PrefixFor<(Vec<u8>, Vec<u8>)>| {
                let mut bytes = Vec::new();
                prefix.encode_prefix(&mut bytes);
                encoded(&key).starts_with(&bytes)
            };
            prop_assert_eq!(begins(&(&p,)), key.0 == p);
            prop_assert_eq!(begins(&(&key.0, &p)), key.1.starts_with(&p));
        }

        #[test]
        fn tuples_of_strings_keep_their_order(a in (bytes(), bytes(), any::<char>()),
                                              b in (bytes(), bytes(), any::<char>())) {
            same_order_and_back(&a, &b);
            same_order_and_back(&(a.2, a.1.clone()), &(b.2, b.1.clone()));
            same_order_and_back(&a.0, &b.0);
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert_eq!(u32::decode(b"\0\0\0"), None, "too short");
        assert_eq!(u32::decode(b"\0\0\0\0\0"), None, "too long");
        assert_eq!(bool::decode(b"\x02"), None);
        assert_eq!(char::decode(&[0, 0, 0xd8, 0]), None, "a surrogate");
        assert_eq!(SystemTime::decode(&encoded(&(0i64, 1_000_000_000u32))), None);
        assert_eq!(String::decode(b"\xff"), None);
        assert_eq!(f64::decode(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None, "-0.0");
        assert_eq!(f64::decode(&[0xff, 0xf8, 0, 0, 0, 0, 0, 0]), None, "another NaN");
        assert_eq!(f32::decode(&[0, 0, 0, 0]), None, "a negative NaN");
        assert_eq!(<(String, u8)>::decode(b"a\0\x02\0"), None, "a bad escape");
        assert_eq!(<(Vec<u8>, u8)>::decode(b"a"), None, "no end");
    }
}
