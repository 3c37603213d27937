//! What must hold of inner nodes.

use std::cmp::Ordering;

use super::Inner;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey> Inner<K> {
    /// What is wrong, a sentence each.
    pub fn check(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut before: Option<K::Owned> = None;
        for parent in 0..self.counts.len() {
            let count = self.counts[parent] as usize;
            if count > self.fanout {
                found.push(format!("parent {parent} has {count} entries"));
                continue;
            }
            for index in 0..count {
                let bound = self.lower_bound(super::Place { parent, index });
                if before.as_ref().is_some_and(|before| *before >= bound) {
                    found.push(format!("entry {index} of parent {parent} does not ascend"));
                }
                for (other, expected) in [(parent, true), (parent + 1, false)] {
                    if let Some(level) = self.levels.first()
                        && other < level.len
                        && self.is_at_least(&bound, level.start + other) != expected
                    {
                        found.push(format!("entry {index} of parent {parent} belongs elsewhere"));
                    }
                }
                before = Some(bound);
            }
        }
        let sum: usize = self.counts.iter().map(|count| *count as usize).sum();
        if sum != self.len || self.counts.first() == Some(&0) {
            found.push(format!("parents have {sum} entries, not {}", self.len));
        }
        for (below, above) in self.levels.iter().zip(self.levels.iter().skip(1)) {
            for node in 0..above.len {
                let child = self.keys.get(below.start + node * self.fanout);
                if self.keys.get(above.start + node) != child {
                    found.push(format!("the key of node {node} is not that of its first child"));
                }
            }
        }
        found
    }

    /// Whether the key at this place is at most `bound`.
    fn is_at_least(&self, bound: &K::Owned, key: usize) -> bool {
        let order = K::compare_kept(&self.separators, self.keys.get(key), K::borrow(bound), 0);
        order != Ordering::Greater
    }
}
