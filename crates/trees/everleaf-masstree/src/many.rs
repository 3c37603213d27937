//! Looking many keys up: a group goes down together, so that the misses of a level are in flight
//! for all of its keys at once.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::Masstree;
use super::layout::LONGER;
use super::node::{At, Halt, Step};
use super::record::behind;
use super::search::{Look, MAX_LEVELS, Seen};
use everleaf_tree::key::slices::{SLICE, SliceKey};
use everleaf_tree::operations::GROUP;

/// How far one key of a group is.
#[derive(Clone, Copy)]
struct Stand<'t> {
    from: Seen<'t>,
    /// The child of that node which is read next, asked for already; 0: the node itself is.
    child: u64,
    depth: usize,
    /// Nodes that it has passed in its layer.
    levels: usize,
    /// Whether the buffer of its value was asked for.
    asked: bool,
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// A key that meets a change is looked up again by itself.
    pub(super) fn find_group(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let from = loop {
            match self.top() {
                Ok(from) => break from,
                Err(Halt::Retry) => self.restarted(),
                Err(Halt::Failed(error)) => return Err(error),
            }
        };
        let mut stands = [Some(Stand { from, child: 0, depth: 0, levels: 0, asked: false }); GROUP];
        let mut on_the_way = keys.len();
        while on_the_way > 0 {
            on_the_way = 0;
            for ((stand, key), value) in stands.iter_mut().zip(keys).zip(&mut *values) {
                let Some(at) = *stand else { continue };
                (*stand, *value) = match self.step_of(at, *key) {
                    Ok(Ok(below)) => (Some(below), None),
                    Ok(Err(found)) => (None, found),
                    Err(Halt::Retry) => (None, self.find(*key)?),
                    Err(Halt::Failed(error)) => return Err(error),
                };
                on_the_way += usize::from(stand.is_some());
            }
        }
        Ok(())
    }

    /// One node on the way: where the key goes on, or its value.
    #[inline(always)]
    fn step_of<'t>(
        &'t self,
        stand: Stand<'t>,
        key: K::Ref<'_>,
    ) -> Step<Result<Stand<'t>, Option<u64>>> {
        let media = self.pool.media();
        let Stand { mut from, child, depth, levels, asked } = stand;
        if child != 0 {
            let below = self.reach(from, child)?;
            if !from.at.is_current(media, from.version) {
                return Err(Halt::Retry);
            }
            from = below;
        }
        if from.version.is_deleted() || levels > MAX_LEVELS {
            return Err(Halt::Retry); // A search for this key alone finds out what is the matter.
        }
        let (slice, code) = K::slice(key, depth);
        if from.version.is_border() {
            if self.buffers && !asked && self.ask_for_value(from.at, slice, code) {
                return Ok(Ok(Stand { from, child: 0, asked: true, ..stand }));
            }
            return Ok(match self.look(from, slice, code, behind(K::rest(key, depth)))? {
                Look::Found(found) => Err(found),
                Look::Layer(from) => {
                    Ok(Stand { from, child: 0, depth: depth + SLICE, levels: 0, asked: false })
                }
            });
        }
        let keys = media.load(&from.at.node.meta).keys();
        let index = from.at.child_for(media, keys, slice);
        let child = media.load(from.at.node.child(index)).offset();
        let next = self.enter(child);
        next.map_err(|error| from.at.judge(media, from.version, error))?;
        Ok(Ok(Stand { from, child, depth, levels: levels + 1, asked: false }))
    }

    /// Asks for the buffer of a key's value; false if the border node has none for it.
    #[inline(always)]
    fn ask_for_value(&self, at: At<'_>, slice: u64, code: u8) -> bool {
        let perm = self.pool.media().load(&at.node.perm);
        let slot = self.slot_in(at, perm, slice, code).filter(|_| code < LONGER);
        slot.inspect(|slot| self.prefetch_values(at, std::iter::once(*slot))).is_some()
    }
}
