//! The tree against the model, at random, with small and full nodes and both kinds of keys.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{BytesKeys, Direction, Index, Model, SerialIndex, U64Keys};
use proptest::prelude::*;

use super::super::create;
use super::{SIZES, assert_sound, packed, pool_of};
use everleaf_tree::key::SliceKey;

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

#[derive(Clone, Copy, Debug)]
enum Act {
    Insert(u16, u64),
    Update(u16, u64),
    Upsert(u16, u64),
    Remove(u16),
    /// A row of insertions or removals.
    Row(u16, bool),
    Scan(u16, bool, bool),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let key = prop_oneof![0..60u16, 0..800u16];
    let value = prop_oneof![Just(0u64), Just(u64::MAX), Just(1), any::<u64>()];
    let act = prop_oneof![
        6 => (key.clone(), value.clone()).prop_map(|(key, value)| Act::Insert(key, value)),
        2 => (key.clone(), value.clone()).prop_map(|(key, value)| Act::Update(key, value)),
        2 => (key.clone(), value).prop_map(|(key, value)| Act::Upsert(key, value)),
        5 => key.clone().prop_map(Act::Remove),
        1 => (key.clone(), any::<bool>()).prop_map(|(key, add)| Act::Row(key, add)),
        2 => (key, any::<bool>(), any::<bool>()).prop_map(|(k, a, b)| Act::Scan(k, a, b)),
    ];
    prop::collection::vec(act, 0..200)
}

fn shown<K: TestKey, T: ?Sized>(
    of: &T,
    scan: impl FnOnce(
        &T,
        &mut dyn for<'a> FnMut(K::Ref<'a>, &[u64]) -> ControlFlow<()>,
    ) -> Result<(), everleaf_index::IndexError>,
) -> Vec<(K::Owned, u64)> {
    let mut entries = Vec::new();
    scan(of, &mut |key, value| {
        entries.push((K::to_owned(key), value[0]));
        ControlFlow::Continue(())
    })
    .unwrap();
    entries
}

fn same_scans<K: TestKey>(tree: &dyn Index<K>, model: &Model<K>, from: Bound<K::Ref<'_>>)
where
    Model<K>: SerialIndex<K>,
{
    for direction in [Direction::Forward, Direction::Backward] {
        let expected = shown::<K, _>(model, |m, visit| m.scan(from, direction, visit));
        let found = shown::<K, _>(tree, |t, visit| t.scan(from, direction, visit));
        assert_eq!(found, expected, "{direction:?} from {from:?}");
    }
}

fn run<K: TestKey>(acts: &[Act], parameters: [u64; 8])
where
    Model<K>: SerialIndex<K>,
{
    let pool = pool_of(parameters, 64 << 20);
    let tree = create::<K, _>(&pool).unwrap();
    let mut model = Model::<K>::new();
    let mut one = |kind: u32, number: u16, value: u64| {
        let key = K::make(number);
        let key = K::borrow(&key);
        let (mut old, mut expected_old) = ([3], [3]);
        let (done, expected) = match kind {
            0 => (tree.insert_words(key, &[value]), model.insert_words(key, &[value])),
            1 => (
                tree.update_words(key, &[value], &mut old),
                model.update_words(key, &[value], &mut expected_old),
            ),
            2 => (
                tree.upsert_words(key, &[value], &mut old),
                model.upsert_words(key, &[value], &mut expected_old),
            ),
            _ => (tree.remove_words(key, &mut old), model.remove_words(key, &mut expected_old)),
        };
        assert_eq!((done.unwrap(), old), (expected.unwrap(), expected_old), "{key:?}");
    };
    for act in acts {
        match *act {
            Act::Insert(number, value) => one(0, number, value),
            Act::Update(number, value) => one(1, number, value),
            Act::Upsert(number, value) => one(2, number, value),
            Act::Remove(number) => one(3, number, 0),
            Act::Row(from, add) => {
                (from..from + 60).for_each(|number| one(if add { 2 } else { 3 }, number, 9));
            }
            Act::Scan(..) => {}
        }
    }
    for act in acts {
        if let Act::Scan(number, bounded, inclusive) = *act {
            let key = K::make(number);
            let key = K::borrow(&key);
            let from = match (bounded, inclusive) {
                (true, true) => Bound::Included(key),
                (true, false) => Bound::Excluded(key),
                (false, _) => Bound::Unbounded,
            };
            same_scans(&*tree, &model, from);
        }
    }
    same_scans(&*tree, &model, Bound::Unbounded);
    let keys: Vec<K::Owned> = (0..900).map(K::make).collect();
    let keys: Vec<K::Ref<'_>> = keys.iter().map(K::borrow).collect();
    let (mut found, mut expected) = (vec![Some(1); keys.len()], vec![Some(2); keys.len()]);
    tree.get_many(&keys, &mut found).unwrap();
    model.get_many(&keys, &mut expected).unwrap();
    assert_eq!(found, expected);
    for (key, value) in keys.iter().zip(&expected) {
        assert_eq!(tree.get(*key).unwrap(), *value, "{key:?}");
    }
    assert_eq!(tree.len(), model.len());
    assert_sound(&pool, &*tree);
    for key in &keys {
        tree.remove(*key).unwrap();
    }
    assert!(tree.is_empty());
    assert_sound(&pool, &*tree);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn trees_of_numbers_do_what_the_model_does(
        acts in acts(), size in 0usize..3, buffers: bool
    ) {
        run::<U64Keys>(&acts, packed(SIZES[size], buffers));
    }

    #[test]
    fn trees_of_byte_strings_do_what_the_model_does(
        acts in acts(), size in 0usize..3, buffers: bool
    ) {
        run::<BytesKeys>(&acts, packed(SIZES[size], buffers));
    }
}
