//! Keys that tests make of numbers.

use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pool::KeyType;

use super::TreeKey;

/// A kind of key whose keys can be made of numbers.
pub trait TestKey: TreeKey {
    /// What pools with such keys say.
    const KEY_TYPE: KeyType;
    /// Keys of every shape that may be met, in no order; some numbers make the same.
    fn make(number: u64) -> Self::Owned;
    /// Keys in the order of their numbers.
    fn ascending(number: u16) -> Self::Owned;
    /// Keys of which no two numbers make the same.
    fn unique(number: u64) -> Self::Owned;
}

impl TestKey for U64Keys {
    const KEY_TYPE: KeyType = KeyType::U64;

    /// Spread over the whole range, both ends included.
    fn make(number: u64) -> u64 {
        match number {
            0..1000 => number * (u64::MAX / 999),
            _ => number,
        }
    }
    fn ascending(number: u16) -> u64 {
        u64::from(number) * (u64::MAX / u64::from(u16::MAX))
    }
    fn unique(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl TestKey for BytesKeys {
    const KEY_TYPE: KeyType = KeyType::Bytes;

    /// The empty string, strings that are prefixes of others, with zero bytes, longer than a block
    /// of the pool, of the longest length.
    fn make(number: u64) -> Box<[u8]> {
        let mut key = format!("{:03}", number / 4).into_bytes();
        match number % 4 {
            _ if number == 0 => key.clear(),
            _ if (10_000..11_000).contains(&number) => key.resize(2000, number as u8),
            0 => {}
            1 => key.push(0),
            2 if number == 402 => key.resize(everleaf_index::MAX_KEY_BYTES, b'x'),
            2 => key.extend((0..number as usize % 50).map(|_| b'a')),
            _ => key.extend((0..number as usize % 400).map(|_| b'b')),
        }
        key.into()
    }
    /// The empty one, prefixes of others, zero bytes, lines and more.
    fn ascending(number: u16) -> Box<[u8]> {
        if number == 0 {
            return [].into();
        }
        let mut key = (number / 4).to_be_bytes().to_vec();
        key.extend(std::iter::repeat_n(0, [0, 1, 9, 90][usize::from(number % 4)]));
        key.into()
    }
    fn unique(number: u64) -> Box<[u8]> {
        format!("{:0width$}", number, width = 1 + number as usize % 40).into_bytes().into()
    }
}
