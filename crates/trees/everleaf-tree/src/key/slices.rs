//! Keys as slices of eight bytes, the first byte most significant, so that numbers are in the order
//! of the bytes. A slice that the key ends in is filled with zeros: its length tells "a" from
//! "a\0".

use everleaf_index::{BytesKeys, IndexError, KeyKind, MAX_KEY_BYTES, Result, U64Keys};

/// Bytes of a slice.
pub const SLICE: usize = 8;

/// The length code of a key that goes on after its slice; else it is the number of bytes.
pub const LONGER: u8 = 9;

/// A kind of key that can be cut into slices.
pub trait SliceKey: KeyKind {
    /// A key is one slice, all of it.
    const ONE_SLICE: bool;

    /// Refuses a key that is too long.
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`].
    fn admit_slices(key: Self::Ref<'_>) -> Result<()>;

    /// The slice `depth` bytes into the key, and its length code.
    fn slice(key: Self::Ref<'_>, depth: usize) -> (u64, u8);

    /// The bytes of the key from there on; nothing where a key is one slice.
    fn rest<'k>(key: Self::Ref<'k>, depth: usize) -> &'k [u8];

    /// The key that ends in this slice, whose bytes are these.
    fn of<'b>(slice: u64, bytes: &'b [u8]) -> Self::Ref<'b>;
}

impl SliceKey for U64Keys {
    const ONE_SLICE: bool = true;

    #[inline(always)]
    fn admit_slices(_key: u64) -> Result<()> {
        Ok(())
    }
    #[inline(always)]
    fn slice(key: u64, _depth: usize) -> (u64, u8) {
        (key, SLICE as u8)
    }
    #[inline(always)]
    fn rest<'k>(_key: u64, _depth: usize) -> &'k [u8] {
        &[]
    }
    #[inline(always)]
    fn of(slice: u64, _bytes: &[u8]) -> u64 {
        slice
    }
}

impl SliceKey for BytesKeys {
    const ONE_SLICE: bool = false;

    fn admit_slices(key: &[u8]) -> Result<()> {
        if key.len() > MAX_KEY_BYTES {
            return Err(IndexError::KeyTooLong { bytes: key.len(), max_bytes: MAX_KEY_BYTES });
        }
        Ok(())
    }
    #[inline(always)]
    fn slice(key: &[u8], depth: usize) -> (u64, u8) {
        slice_of(key.get(depth..).unwrap_or_default())
    }
    #[inline(always)]
    fn rest<'k>(key: Self::Ref<'k>, depth: usize) -> &'k [u8] {
        key.get(depth..).unwrap_or_default()
    }
    #[inline(always)]
    fn of(_slice: u64, bytes: &[u8]) -> &[u8] {
        bytes
    }
}

/// The first slice of some bytes, and its length code.
#[inline(always)]
pub fn slice_of(bytes: &[u8]) -> (u64, u8) {
    if let Some(first) = bytes.first_chunk::<SLICE>() {
        let code = if bytes.len() > SLICE { LONGER } else { SLICE as u8 };
        return (u64::from_be_bytes(*first), code);
    }
    let mut filled = [0; SLICE];
    filled[..bytes.len()].copy_from_slice(bytes);
    (u64::from_be_bytes(filled), bytes.len() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_and_codes_are_in_the_order_of_the_bytes(
            a in prop::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..20),
            b in prop::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..20),
        ) {
            let (of_a, of_b) = (slice_of(&a), slice_of(&b));
            match of_a.cmp(&of_b) {
                std::cmp::Ordering::Equal if of_a.1 == LONGER => {
                    prop_assert_eq!(a.cmp(&b), a[SLICE..].cmp(&b[SLICE..]));
                }
                order => prop_assert_eq!(a.cmp(&b), order),
            }
        }
    }
}
