//! New layers: where a second key with the slice of a record comes, what both have behind the slice
//! goes into a layer of its own, and into one more for each slice that they share. Long keys make
//! many layers: a loop makes them, from the first to the last, and the first one is published last.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::Masstree;
use super::insert::NewEntry;
use super::layout::{BUFFER_BYTES, LONGER, Meta, NODE_BYTES, Onward, Permutation, RECORD_HEAD};
use everleaf_tree::key::slices::{SLICE, SliceKey, slice_of};

/// What was allocated, to be given back if there is no room for all.
type Made = Vec<(u64, u64)>;

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Layers for the key of a record, which keeps its value, and for another key; the root of the
    /// first. The record itself is not used any more.
    pub(super) fn new_layers(&self, record: u64, behind: &[u8], value: u64) -> Result<u64> {
        let media = self.pool.media();
        let old = self.own_record(record)?;
        let mut suffix = Vec::new();
        old.append_to(media, &mut suffix);
        let (value, mut made) = (self.new_value(value)?, Made::new());
        if self.buffers {
            made.push((value, BUFFER_BYTES));
        }
        match self.link_layers((&suffix, old.value(media)), (behind, value), &mut made) {
            Ok((root, layers)) => {
                self.count_nodes(layers, 0);
                Ok(root)
            }
            Err(error) => {
                made.into_iter().try_for_each(|(offset, bytes)| self.memory.free(offset, bytes))?;
                Err(error)
            }
        }
    }

    /// The first layer, and how many there are.
    fn link_layers(
        &self,
        (mut a, of_a): (&[u8], u64),
        (mut b, of_b): (&[u8], u64),
        made: &mut Made,
    ) -> Result<(u64, i64)> {
        let first = self.new_border(made)?;
        let (mut layer, mut layers) = (first, 1);
        loop {
            let ((slice_a, code_a), (slice_b, code_b)) = (slice_of(a), slice_of(b));
            if (slice_a, code_a) != (slice_b, code_b) {
                let entries = [
                    NewEntry { slice: slice_a, code: code_a, word: self.word(a, of_a, made)? },
                    NewEntry { slice: slice_b, code: code_b, word: self.word(b, of_b, made)? },
                ];
                self.fill(layer, &entries)?;
                return Ok((first, layers));
            }
            let next = self.new_border(made)?;
            let word = Onward::Layer(next).word();
            self.fill(layer, &[NewEntry { slice: slice_a, code: LONGER, word }])?;
            (a, b, layer) = (&a[SLICE..], &b[SLICE..], next);
            layers += 1;
        }
    }

    fn new_border(&self, made: &mut Made) -> Result<u64> {
        let offset = self.memory.alloc_border()?;
        made.push((offset, NODE_BYTES));
        Ok(offset)
    }

    /// The value of a key that ends in its slice, or a record of it.
    fn word(&self, rest: &[u8], value: u64, made: &mut Made) -> Result<u64> {
        if rest.len() <= SLICE {
            return Ok(value);
        }
        let offset = self.new_record(&rest[SLICE..], value)?;
        made.push((offset, RECORD_HEAD + (rest.len() - SLICE) as u64));
        Ok(offset)
    }

    /// Gives entries to a border node that no thread sees, in their order.
    pub(super) fn fill(&self, offset: u64, entries: &[NewEntry]) -> Result<()> {
        let (media, node) = (self.pool.media(), self.memory.node(offset)?);
        let mut sorted: Vec<NewEntry> = entries.to_vec();
        sorted.sort_by_key(|entry| (entry.slice, entry.code));
        let mut meta = Meta::border();
        for (slot, entry) in sorted.iter().enumerate() {
            media.store(node.key(slot), entry.slice);
            media.store(node.value::<DURABLE>(slot), entry.word);
            meta = meta.with_code(slot, entry.code);
        }
        media.store(&node.meta, meta);
        media.store(&node.perm, Permutation::first(sorted.len()));
        Ok(())
    }
}
