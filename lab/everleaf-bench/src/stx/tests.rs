use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

impl<K: Ord + Clone + Default, V: Default> StxTree<K, V> {
    /// Holds the tree to its invariants.
    fn check(&self) {
        let mut leaves = Vec::new();
        let len = self.check_below(self.root, self.levels, None, None, &mut leaves);
        assert_eq!(len, self.len);
        leaves.push(NO_LEAF);
        for pair in leaves.windows(2) {
            assert_eq!(self.next[pair[0] as usize], pair[1], "I4");
        }
    }

    /// The entries below a node whose keys lie from `least` on and below `most`.
    fn check_below(
        &self,
        node: NodeIndex,
        level: usize,
        least: Option<&K>,
        most: Option<&K>,
        leaves: &mut Vec<NodeIndex>,
    ) -> usize {
        let is_leaf = level == 0;
        let keys = if is_leaf { self.leaves.keys(node) } else { self.inner.keys(node) };
        assert!(keys.is_sorted_by(|one, next| one < next), "I1");
        let within =
            |key: &K| least.is_none_or(|least| key >= least) && most.is_none_or(|most| key < most);
        assert!(keys.iter().all(within), "I2");
        let half = if is_leaf { self.min_entries() } else { self.min_inner_keys() };
        assert!(keys.len() >= half || node == self.root && level == self.levels, "I3");
        if is_leaf {
            leaves.push(node);
            return keys.len();
        }
        (0..=keys.len())
            .map(|at| {
                let least = if at == 0 { least } else { keys.get(at - 1) };
                let most = keys.get(at).or(most);
                self.check_below(*self.inner.item(node, at), level - 1, least, most, leaves)
            })
            .sum()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u64),
    Update(u16, u64),
    Remove(u16),
    Get(u16),
    Scan(u16, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few enough keys that most are met again, and many enough for three levels.
    let key = 0..600u16;
    let step = prop_oneof![
        4 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        1 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Step::Update(key, value)),
        3 => key.clone().prop_map(Step::Remove),
        1 => key.clone().prop_map(Step::Get),
        1 => (key, 0..50usize).prop_map(|(key, most)| Step::Scan(key, most)),
    ];
    prop::collection::vec(step, 1..1500)
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let of = |(inner_keys, leaf_entries)| Sizes { inner_keys, leaf_entries };
    (4..12usize, 4..40usize).prop_map(of)
}

/// Does the steps on a tree and on std's map, which must agree on every answer.
fn agrees<K: Ord + Clone + Default>(sizes: Sizes, steps: &[Step], key_of: fn(u16) -> K) {
    let (mut tree, mut model) = (StxTree::<K, u64>::new(sizes), BTreeMap::<K, u64>::new());
    for step in steps {
        match step {
            Step::Insert(key, value) => {
                assert_eq!(tree.insert(key_of(*key), *value), model.insert(key_of(*key), *value));
            }
            Step::Update(key, value) => {
                let update = |place: &mut u64| replace(place, *value);
                let key = key_of(*key);
                assert_eq!(tree.get_mut(&key).map(update), model.get_mut(&key).map(update));
            }
            Step::Remove(key) => {
                assert_eq!(tree.remove(&key_of(*key)), model.remove(&key_of(*key)));
            }
            Step::Get(key) => assert_eq!(tree.get(&key_of(*key)), model.get(&key_of(*key))),
            Step::Scan(key, most) => {
                let found = tree.range_from(&key_of(*key)).take(*most);
                assert!(found.eq(model.range(key_of(*key)..).take(*most)));
            }
        }
        assert_eq!(tree.len(), model.len());
    }
    tree.check();
    assert!(tree.range_from(&key_of(0)).eq(model.range(key_of(0)..)));
    let mut again = StxTree::of_sorted(sizes, model.clone().into_iter());
    again.check();
    assert!(again.range_from(&key_of(0)).eq(model.iter()));
    for key in model.keys() {
        assert_eq!(again.remove(key), model.get(key).copied());
        again.check();
    }
    assert_eq!((again.len(), again.levels), (0, 0));
}

fn number(key: u16) -> u64 {
    u64::from(key).wrapping_mul(u64::MAX / 599)
}

fn string(key: u16) -> Box<[u8]> {
    let width = 1 + usize::from(key % 7);
    format!("{key:0width$}").into_bytes().into()
}

proptest! {
    #[test]
    fn numbers_are_held_as_a_map_holds_them(sizes in sizes(), steps in steps()) {
        agrees(sizes, &steps, number);
    }
    #[test]
    fn strings_are_held_as_a_map_holds_them(sizes in sizes(), steps in steps()) {
        agrees(sizes, &steps, string);
    }
}

#[test]
fn ascending_and_descending_keys_fill_a_tree_and_leave_it() {
    for (inner_keys, leaf_entries) in [(4, 4), (5, 5), (16, 16), (64, 33)] {
        let mut tree = StxTree::<u64, u64>::new(Sizes { inner_keys, leaf_entries });
        (0..2000).for_each(|key| assert_eq!(tree.insert(key, key), None));
        tree.check();
        (0..1000).for_each(|key| assert_eq!(tree.remove(&key), Some(key)));
        (0..1000).rev().for_each(|key| assert_eq!(tree.insert(key, key + 1), None));
        tree.check();
        (0..2000).rev().for_each(|key| assert!(tree.remove(&key).is_some()));
        tree.check();
        assert_eq!(tree.levels, 0);
    }
}

#[test]
fn the_greatest_and_the_least_number_are_keys_like_others() {
    let mut tree = StxTree::<u64, u64>::new(Sizes { inner_keys: 4, leaf_entries: 4 });
    for key in [0, u64::MAX, 1, u64::MAX - 1] {
        assert_eq!(tree.get(&key), None);
        assert_eq!(tree.insert(key, key), None);
    }
    let keys: Vec<u64> = tree.range_from(&0).map(|(key, _)| *key).collect();
    assert_eq!(keys, [0, 1, u64::MAX - 1, u64::MAX]);
    assert_eq!(tree.range_from(&2).count(), 2);
}

#[test]
fn parts_are_equal_and_none_is_too_large() {
    for (all, most, parts) in [(0, 4, vec![0]), (9, 4, vec![3, 3, 3]), (8, 4, vec![4, 4])] {
        assert_eq!(shares(all, most).collect::<Vec<_>>(), parts);
    }
}
