//! Kinds of keys: one trait, by which everything that is measured takes them.

use std::borrow::Borrow;

use everleaf::Key;
use everleaf::internal::StoreKey;
use everleaf_index::{BytesKeys, KeyKind, U64Keys};

use crate::keys::MULTIPLIERS;

/// A key as the measuring loops hold it.
pub trait BenchKey: Copy + Ord + Send + Sync + 'static {
    /// Its kind in an index.
    type Kind: StoreKey;
    /// What a map looks it up by.
    type Lookup: Ord + ?Sized;
    /// What a map keeps.
    type Kept: Borrow<Self::Lookup> + Ord + Clone + Default + Send + Sync + 'static;
    /// Its bytes, in the order of keys.
    type Bytes: AsRef<[u8]>;

    /// The key of a number; keys are ordered as their numbers are.
    fn of(number: u64) -> Self;

    /// As an index wants it.
    fn borrow(&self) -> <Self::Kind as KeyKind>::Ref<'_>;

    /// Whether an index showed this key.
    fn is(&self, found: <Self::Kind as KeyKind>::Ref<'_>) -> bool;

    /// As the store wants it.
    #[inline(always)]
    fn store_key(&self) -> Key<'_> {
        Self::Kind::widen(BenchKey::borrow(self))
    }

    /// As a map wants it.
    fn lookup(&self) -> &Self::Lookup;

    /// For a map to keep: of strings an allocation, which is part of what an insertion costs.
    fn keep(&self) -> Self::Kept;

    /// As stores of bytes want it: numbers with the highest byte first.
    fn bytes(&self) -> Self::Bytes;

    /// A word that depends on all of the key, for little: what its value is made of.
    fn word(&self) -> u64;
}

impl BenchKey for u64 {
    type Kind = U64Keys;
    type Lookup = u64;
    type Kept = u64;
    type Bytes = [u8; 8];

    #[inline(always)]
    fn of(number: u64) -> Self {
        number
    }
    #[inline(always)]
    fn borrow(&self) -> u64 {
        *self
    }
    #[inline(always)]
    fn is(&self, found: u64) -> bool {
        found == *self
    }
    #[inline(always)]
    fn lookup(&self) -> &u64 {
        self
    }
    #[inline(always)]
    fn keep(&self) -> u64 {
        *self
    }
    #[inline(always)]
    fn bytes(&self) -> [u8; 8] {
        self.to_be_bytes()
    }
    #[inline(always)]
    fn word(&self) -> u64 {
        self.wrapping_mul(MULTIPLIERS[2])
    }
}

/// A key of 16 bytes: a number in hexadecimal digits.
pub type String16 = [u8; 16];

/// A key as YCSB has them: `user` and 20 digits.
pub type UserKey = [u8; 24];

/// The digits of a number, as [`String16`].
fn hexadecimal(number: u64) -> String16 {
    std::array::from_fn(|i| b"0123456789abcdef"[(number >> (60 - 4 * i)) as usize & 0xf])
}

/// The digits of a number, as [`UserKey`].
fn user(number: u64) -> UserKey {
    let (mut key, mut rest) = (*b"user00000000000000000000", number);
    for digit in key.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// A string: how it is made of a number, and where its two halves are of which a word is made.
macro_rules! string_key {
    ($key:ty, $of:ident, $halves:expr) => {
        impl BenchKey for $key {
            type Kind = BytesKeys;
            type Lookup = [u8];
            type Kept = Box<[u8]>;
            type Bytes = $key;

            fn of(number: u64) -> Self {
                $of(number)
            }
            #[inline(always)]
            fn borrow(&self) -> &[u8] {
                self
            }
            #[inline(always)]
            fn is(&self, found: &[u8]) -> bool {
                found == self
            }
            #[inline(always)]
            fn lookup(&self) -> &[u8] {
                self
            }
            #[inline(always)]
            fn keep(&self) -> Box<[u8]> {
                self.as_slice().into()
            }
            #[inline(always)]
            fn bytes(&self) -> $key {
                *self
            }
            #[inline(always)]
            fn word(&self) -> u64 {
                let half =
                    |start: usize| u64::from_le_bytes(std::array::from_fn(|i| self[start + i]));
                let [high, low] = $halves.map(half);
                high.wrapping_mul(MULTIPLIERS[0]) ^ low.wrapping_mul(MULTIPLIERS[2])
            }
        }
    };
}

string_key!(String16, hexadecimal, [0, 8]);
string_key!(UserKey, user, [8, 16]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_keys_are_digits_in_the_order_of_their_numbers() {
        assert_eq!(&String16::of(0x0123_4567_89ab_cdef), b"0123456789abcdef");
        assert!(String16::of(9) < String16::of(10) && String16::of(255) < String16::of(256));
        assert_eq!(
            (&UserKey::of(0), &UserKey::of(u64::MAX)),
            (b"user00000000000000000000", b"user18446744073709551615")
        );
        assert!(UserKey::of(9) < UserKey::of(10) && UserKey::of(99) < UserKey::of(100));
    }

    #[test]
    fn a_key_is_the_same_however_it_is_taken() {
        fn same<K: BenchKey>(number: u64) {
            let key = K::of(number);
            assert!(key.keep().borrow() == key.lookup() && key.is(BenchKey::borrow(&key)));
            match key.store_key() {
                Key::U64(number) => assert_eq!(number.to_be_bytes(), key.bytes().as_ref()),
                Key::Bytes(bytes) => assert_eq!(bytes, key.bytes().as_ref()),
            }
        }
        for number in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            same::<u64>(number);
            same::<String16>(number);
            same::<UserKey>(number);
        }
    }
}
