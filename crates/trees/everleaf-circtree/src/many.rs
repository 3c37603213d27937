//! Looking many keys up: a group goes down together, so that the misses of a level are in flight
//! for all of its keys at once.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::layout::Anchor;
use super::search::{Descent, Destination};
use super::{ROOT, SortedTree};
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::GROUP;
use everleaf_tree::version_locks::Seen;
use everleaf_tree::wait::wait;

/// Where one key of a group is.
#[derive(Clone, Copy)]
struct Position<'t> {
    /// The node that is read next.
    offset: u64,
    /// That of the one before, for which this held.
    level: Option<u8>,
    above: Seen<'t>,
}

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Looks up to 16 keys up together. A key that meets a change is looked up again by itself.
    pub(super) fn find_group(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let above = self.locks.read(&wait(self.pool.media()), ROOT);
        let offset = self.pool.media().load(&self.pool.index_root::<Anchor>()?.root).offset();
        let mut positions = [Some(Position { offset, level: None, above }); GROUP];
        let mut on_the_way = keys.len();
        while on_the_way > 0 {
            on_the_way = 0;
            for ((position, key), value) in positions.iter_mut().zip(keys).zip(&mut *values) {
                let Some(at) = *position else { continue };
                match self.step_down(at, *key) {
                    Some(DescentStep::Down(below)) => {
                        self.prefetch_node(below.offset);
                        *position = Some(below);
                        on_the_way += 1;
                    }
                    Some(DescentStep::Found(found)) => (*value, *position) = (found, None),
                    None => (*value, *position) = (self.find(*key)?, None),
                }
            }
        }
        Ok(())
    }

    /// One node on the way; none if it has changed, or anything else is the matter: a search for
    /// this key alone finds out what.
    #[inline(always)]
    fn step_down<'t>(&'t self, at: Position<'t>, key: K::Ref<'_>) -> Option<DescentStep<'t>> {
        let seen = self.locks.read(&wait(self.pool.media()), at.offset);
        if !at.above.is_current() {
            return None;
        }
        let (node, state, turn) = self.turn(at.offset, at.level, Destination::To(key)).ok()?;
        let step = match turn {
            Descent::Leaf => DescentStep::Found(self.find_in(node, state, key).ok()?),
            Descent::Child { offset, .. } => {
                DescentStep::Down(Position { offset, level: Some(state.level), above: seen })
            }
            Descent::Interrupted => return None,
        };
        seen.is_current().then_some(step)
    }

    /// Prefetches what is read first of a node, and for its latch.
    #[inline(always)]
    pub(super) fn prefetch_node(&self, offset: u64) {
        self.locks.prefetch(offset);
        if let Ok(node) = self.node(offset) {
            self.pool.media().prefetch(&node.head.state);
            node.prefetch(self.pool.media());
        }
    }
}

/// What a node says to a key.
enum DescentStep<'t> {
    Down(Position<'t>),
    Found(Option<u64>),
}
