//! Scans beside others: visitors that panic, and leaves that change all the time.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A scan that shows a leaf has it locked; a panic must not leave it so.
fn a_visitor_panics<K: TestKey>() {
    let parameters = parameters(8, 4, 1);
    let pool = pool::<K>(parameters, 1 << 20);
    let tree = tree::<K>(&pool, parameters, None);
    (0..100).for_each(|number| {
        assert!(Index::insert(&tree, K::borrow(&K::unique(number)), number).unwrap())
    });
    std::thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            tree.scan(Bound::Unbounded, Direction::Forward, &mut |_, _| panic!("in a callback"))
        });
        assert!(visitor.join().is_err());
    });
    (0..100).for_each(|number| {
        assert_eq!(Index::remove(&tree, K::borrow(&K::unique(number))).unwrap(), Some(number))
    });
    assert_sound(&pool, &tree);
}

#[test]
fn a_panic_in_a_visitor_leaves_the_tree_usable() {
    a_visitor_panics::<U64Keys>();
    a_visitor_panics::<BytesKeys>();
}

/// Tells a writer to end, when the test fails too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A scan of a leaf that others always change comes to an end, and shows one moment of it.
#[test]
fn a_scan_of_a_leaf_that_always_changes_comes_to_an_end() {
    let parameters = parameters(9, 4, 3); // One leaf, with room for one update at a time.
    let pool = pool::<U64Keys>(parameters, 1 << 20);
    let tree = tree::<U64Keys>(&pool, parameters, None);
    (0..8).for_each(|key| assert!(tree.insert_words(key, &[0; 3]).unwrap()));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        scope.spawn(|| {
            for round in (1..).take_while(|_| !done.load(Ordering::Relaxed)) {
                (0..8).for_each(|key| {
                    assert!(tree.update_words(key, &[round; 3], &mut [0; 3]).unwrap())
                });
            }
        });
        for turn in 0..20_000 {
            let direction = if turn % 2 == 0 { Direction::Forward } else { Direction::Backward };
            let mut shown = Vec::new();
            let show = &mut |key: u64, value: &[u64]| {
                shown.push((key, value[0]));
                assert!(value.iter().all(|word| *word == value[0]), "half of a change: {value:?}");
                ControlFlow::Continue(())
            };
            tree.scan(Bound::Unbounded, direction, show).unwrap();
            shown.sort_unstable();
            assert!(shown.iter().map(|(key, _)| *key).eq(0..8), "{shown:?}");
            // One moment: the writer has come so far, and the keys after that are one round behind.
            let rounds: Vec<_> = shown.iter().map(|(_, round)| *round).collect();
            assert!(
                rounds.is_sorted_by(|a, b| a >= b) && rounds[0] - rounds[7] <= 1,
                "not of one moment: {rounds:?}"
            );
        }
    });
    assert_sound(&pool, &tree);
}
