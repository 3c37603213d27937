//! The tree against the model, at random, with small and full nodes and both kinds of keys.

use everleaf_conformance::dram_pool;
use everleaf_conformance::model::{Action, operations, run_on};
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_tree::key::SliceKey;
use proptest::prelude::*;

use super::{SIZES, Transient, packed};

/// Keys of numbers, some of which are alike for many slices.
pub(super) trait TestKey: SliceKey {
    fn make(number: u16) -> Self::Owned;
}

impl TestKey for U64Keys {
    fn make(number: u16) -> u64 {
        u64::from(number).wrapping_mul(0x1001_0010_0100_1001)
    }
}

impl TestKey for BytesKeys {
    /// Prefixes of each other, of every length around the ends of slices, zeros and other bytes.
    fn make(number: u16) -> Box<[u8]> {
        let length = [0, 1, 7, 8, 9, 15, 16, 17, 24, 25, 40][usize::from(number) % 11];
        let number = number / 11;
        let mut key = vec![[0, 255, b'k'][usize::from(number) % 3]; length];
        if let Some(last) = key.last_mut() {
            *last = last.wrapping_add((number / 3 % 5) as u8);
        }
        if number / 15 > 0 {
            key.extend((number / 15).to_be_bytes());
        }
        key.into()
    }
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    prop::collection::vec(operations(prop_oneof![0..60u64, 0..800u64]), 0..200)
}

fn run<K: TestKey>(actions: &[Action], parameters: [u64; 8]) {
    let tested = Transient(parameters);
    let pool = dram_pool::<K>(tested, 64 << 20);
    run_on::<K>(tested, pool, |number| K::make(number as u16), actions);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn trees_of_numbers_do_what_the_model_does(
        actions in actions(), size in 0usize..3, buffers: bool
    ) {
        run::<U64Keys>(&actions, packed(SIZES[size], buffers));
    }

    #[test]
    fn trees_of_byte_strings_do_what_the_model_does(
        actions in actions(), size in 0usize..3, buffers: bool
    ) {
        run::<BytesKeys>(&actions, packed(SIZES[size], buffers));
    }
}
