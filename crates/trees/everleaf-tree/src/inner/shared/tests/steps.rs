//! Steps from child to child, and places that were found before: what saves a descent says what the
//! descent would say.

use super::*;

impl<K: TreeKey, const CAPACITY: usize> Twin<K, CAPACITY> {
    /// A step is what a descent from the bound would find.
    pub(super) fn step_on(&self, sought: &Sought<'_, K::Owned>, direction: Direction) {
        let Some(next) = self.inner.seek_on(sought, direction) else { return };
        let from = K::borrow(sought.bound.as_ref().expect("there is a child behind it"));
        let found = match direction {
            Direction::Forward => Some(self.inner.seek(&relax, from, direction)),
            Direction::Backward => self.inner.seek_before(&relax, from),
        };
        let found = found.expect("there is a child before it");
        assert_eq!((next.child, next.bound, next.hint), (found.child, found.bound, found.hint));
        assert!(next.ticket.is_current());
    }

    /// Walks over all children by steps, and by descents where a node ends; the steps.
    pub(super) fn walk(&self, direction: Direction) -> usize {
        let mut sought = self.inner.seek_edge(&relax, direction);
        let (mut children, mut steps) = (vec![sought.child], 0);
        while let Some(bound) = &sought.bound {
            self.step_on(&sought, direction);
            let next = self.inner.seek_on(&sought, direction);
            steps += usize::from(next.is_some());
            sought = match (next, direction) {
                (Some(next), _) => next,
                (None, Direction::Forward) => self.inner.seek(&relax, K::borrow(bound), direction),
                (None, Direction::Backward) => self
                    .inner
                    .seek_before(&relax, K::borrow(bound))
                    .expect("there is a child before it"),
            };
            children.push(sought.child);
        }
        if direction == Direction::Backward {
            children.reverse();
        }
        assert_eq!(children, self.model.values().copied().collect::<Vec<_>>());
        steps
    }
}

#[test]
fn a_place_that_was_prepared_is_looked_for_again_if_the_node_has_changed() {
    let inner = SharedInner::<U64Keys, 64>::new(simd(), 1).unwrap();
    insert(&inner, 100, 2).unwrap();
    insert(&inner, 200, 5).unwrap();
    let (right, left) =
        (inner.prepare(&relax, 150, 2).unwrap(), inner.prepare(&relax, 50, 1).unwrap());
    let found = inner.seek(&relax, 0, Direction::Forward);
    assert_eq!(inner.seek_on(&found, Direction::Forward).map(|next| next.child), Some(2));
    inner.insert(&relax, left, 3);
    assert!(inner.seek_on(&found, Direction::Forward).is_none(), "the node has changed");
    inner.insert(&relax, right, 4);
    assert_eq!(inner.check(), Vec::<String>::new());
    assert_eq!([0, 50, 100, 150, 200].map(|key| inner.find(&relax, key).0), [1, 3, 2, 4, 5]);
    assert_eq!(inner.conflicts().restarts, 0, "a place is only tried");
}
