//! What is in a pool, by its chunk table: runs, nodes, space. Records: `search`.

use std::ops::Range;

use everleaf_pmem::Media;

use crate::chunks::Chunks;
use crate::classes::Usage;
use crate::layout::CHUNK;
use crate::pool::{Pool, Run, SpaceUsage};
use crate::{NodeKind, PoolError};

/// Chunks that are looked at to find each place of some nodes.
const LOOKS_PER_PLACE: u64 = 16;
/// Nodes that are shown of a place, at most.
const NODES_OF_PLACE: usize = 4;

/// Some neighbouring chunks, so that several threads can look through a pool together.
#[derive(Clone, Debug)]
pub struct TablePart {
    chunks: Range<u64>,
}

impl<M: Media> Pool<M> {
    /// Every run of nodes of this kind, in the order of their offsets: one line read a chunk.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if a descriptor is damaged.
    pub fn runs(&self, kind: NodeKind) -> Result<Vec<Run>, PoolError> {
        let mut runs = Vec::new();
        let mut failure = None;
        self.chunks().for_each_usage(self.media(), |chunk, _, usage| match usage {
            Ok(Usage::NodeRun(of, chunks)) if of == kind => {
                runs.push(Run { offset: chunk * CHUNK, bytes: chunks * CHUNK })
            }
            Ok(_) => {}
            Err(e) => failure = failure.take().or(Some(e)),
        });
        failure.map_or(Ok(runs), Err)
    }

    /// All chunks, in `parts` equal parts, fewer if there are not so many chunks.
    pub fn table_parts(&self, parts: usize) -> Vec<TablePart> {
        let end = self.chunks().end();
        let chunks = end.div_ceil(parts.max(1) as u64).max(1);
        (0..end)
            .step_by(chunks as usize)
            .map(|start| TablePart { chunks: start..end.min(start + chunks) })
            .collect()
    }

    /// Calls `visit` with every allocated node of this kind that begins in these chunks, in the
    /// order of their offsets: one line read a chunk. A run counts as one node. What a worker was
    /// about to allocate or free when a crash came has been settled by [`open`](Pool::open).
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if a word of the chunk table is damaged; then some nodes are left
    /// out.
    ///
    /// # Examples
    /// ```
    /// use everleaf_pmem::{Cpu, Mapped, Region};
    /// use everleaf_pool::{Format, KeyType, NodeKind, Pool};
    ///
    /// const LEAVES: NodeKind = NodeKind::new(1);
    /// let engine = "example".to_owned();
    /// let format = Format { engine, key_type: KeyType::U64, parameters: [0; 8] };
    /// let region = Region::anonymous(1 << 20, 1 << 20)?;
    /// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
    /// let mut nodes = Vec::new();
    /// for part in pool.table_parts(4) {
    ///     pool.for_each_node_in(LEAVES, &part, |offset| nodes.push(offset))?;
    /// }
    /// assert_eq!(nodes, pool.nodes(LEAVES)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each_node_in(
        &self,
        kind: NodeKind,
        part: &TablePart,
        mut visit: impl FnMut(u64),
    ) -> Result<(), PoolError> {
        let mut failure = None;
        self.chunks().for_each_usage_in(self.media(), part.chunks.clone(), |chunk, line, usage| {
            let visited = usage.and_then(|usage| {
                match usage {
                    Usage::NodeRun(of, _) if of == kind => visit(chunk * CHUNK),
                    Usage::NodeBlocks(of, class) if of == kind => {
                        Chunks::for_each_block(self.media(), chunk, line, class, &mut visit)?
                    }
                    _ => {}
                }
                Ok(())
            });
            failure = failure.take().or(visited.err());
        });
        failure.map_or(Ok(()), Err)
    }

    /// Some of the allocated nodes that [`for_each_node_in`](Pool::for_each_node_in) would visit,
    /// in the order of their offsets: at most four of each of at most `places` chunks, spread
    /// evenly over what is in use. Reads about sixteen lines of the chunk table a place, and one
    /// more for a chunk of blocks. A damaged chunk gives what stands before the damage: a look
    /// at all nodes meets it.
    ///
    /// # Examples
    /// ```
    /// use everleaf_pmem::{Cpu, Mapped, Region};
    /// use everleaf_pool::{Format, KeyType, NodeKind, Pool};
    ///
    /// let engine = "example".to_owned();
    /// let format = Format { engine, key_type: KeyType::U64, parameters: [0; 8] };
    /// let region = Region::anonymous(1 << 20, 1 << 20)?;
    /// let pool = Pool::create(Mapped::new(region, &Cpu::detect())?, &format)?;
    /// assert!(pool.sample_nodes(NodeKind::new(1), 64).len() <= 4 * 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sample_nodes(&self, kind: NodeKind, places: usize) -> Vec<u64> {
        // An odd step: of runs of two chunks that all begin at even ones, or all at odd ones, it
        // meets some.
        let step =
            (self.chunks().end() / (places.max(1) as u64).saturating_mul(LOOKS_PER_PLACE)) | 1;
        let mut in_use = Vec::new();
        self.chunks().for_each_usage_by_step(
            self.media(),
            0..u64::MAX,
            step,
            |chunk, line, usage| match usage {
                Ok(usage) if usage.node_kind() == Some(kind) => {
                    in_use.push((chunk, line, usage.class()))
                }
                _ => {}
            },
        );
        let mut nodes = Vec::new();
        for (chunk, line, class) in
            in_use.iter().step_by(in_use.len().div_ceil(places.max(1)).max(1))
        {
            let Some(class) = class else {
                nodes.push(chunk * CHUNK);
                continue;
            };
            let known = nodes.len();
            let _met_later =
                Chunks::for_each_block(self.media(), *chunk, *line, *class, |offset| {
                    nodes.push(offset)
                });
            nodes.truncate(known + NODES_OF_PLACE);
        }
        nodes
    }

    /// Every allocated node of this kind that is not part of a larger run, in the order of their
    /// offsets.
    ///
    /// # Errors
    /// As [`for_each_node_in`](Pool::for_each_node_in).
    pub fn nodes(&self, kind: NodeKind) -> Result<Vec<u64>, PoolError> {
        let mut nodes = Vec::new();
        self.for_each_node_in(kind, &TablePart { chunks: 0..u64::MAX }, |offset| {
            nodes.push(offset)
        })?;
        Ok(nodes)
    }

    /// How full the pool is: costs the same for every size, but the first time since it was
    /// opened, when the chunks are looked at that were not used yet.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if a descriptor is damaged.
    pub fn space(&self) -> Result<SpaceUsage, PoolError> {
        let total_bytes = self.chunks().end() * CHUNK;
        let (in_chunks, free_in_blocks_bytes) = self.chunks().free_bytes(self.media())?;
        let free_bytes = in_chunks + free_in_blocks_bytes;
        Ok(SpaceUsage {
            total_bytes,
            used_bytes: total_bytes.saturating_sub(free_bytes),
            free_bytes,
            free_in_blocks_bytes,
            reserve_bytes: (self.chunks().reserve() * CHUNK).min(in_chunks),
            max_bytes: self.media().region().max_len(),
        })
    }

    /// Whether any record is in use: reads the table of chunks as far as the first one.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if a line of the table is damaged.
    pub fn holds_records(&self) -> Result<bool, PoolError> {
        let mut found = Ok(false);
        self.chunks().for_each_usage(self.media(), |chunk, line, usage| {
            if !matches!(found, Ok(false)) {
                return;
            }
            match usage {
                Ok(Usage::RecordRun(_)) => found = Ok(true),
                Ok(Usage::RecordBlocks(class)) => {
                    let mut any = false;
                    let whole = Chunks::for_each_block(self.media(), chunk, line, class, |_| {
                        any = true;
                    });
                    found = whole.map(|()| any);
                }
                Ok(_) => {}
                Err(error) => found = Err(error),
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everleaf_pmem::{Cpu, Mapped, PCell, PPtr, Region, persistent};

    use super::*;
    use crate::{EpochWorker, Format, KeyType, Node, Record, Worker};

    persistent! {
        struct Slots {
            records: [PCell<PPtr<Record>>; 128],
        }
    }

    impl Node for Slots {
        const KIND: NodeKind = NodeKind::new(1);
    }

    fn pool(max_bytes: u64) -> Arc<Pool<Mapped>> {
        let region = Region::anonymous(1 << 20, max_bytes).unwrap();
        let format = Format { engine: "test".into(), key_type: KeyType::U64, parameters: [0; 8] };
        Pool::create(Mapped::new(region, &Cpu::detect()).unwrap(), &format).unwrap()
    }

    /// Numbers that look random and are the same every time.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % below
        }
    }

    #[track_caller]
    fn compare(pool: &Pool<Mapped>) {
        let known = pool.chunks().free_bytes(pool.media()).unwrap();
        assert_eq!(known, pool.chunks().count_free_bytes(pool.media()));
    }

    fn size(below: &mut impl FnMut(u64) -> u64) -> usize {
        let most = [40, 600, 4000, 30_000][below(4) as usize];
        below(most) as usize
    }

    /// Exchanges some records; whether all had room.
    fn exchange_some(
        worker: &mut Worker<Mapped>,
        slots: &Slots,
        below: &mut impl FnMut(u64) -> u64,
    ) -> bool {
        (0..40).all(|_| {
            let cell = &slots.records[below(128) as usize];
            worker.free_from(cell).unwrap();
            let bytes = vec![7; size(below)];
            below(3) == 0 || worker.alloc_record_into(cell, &[&bytes]).is_ok()
        })
    }

    #[test]
    fn the_space_that_is_known_is_that_of_the_table_whatever_was_done() {
        for max_bytes in [1 << 20, 8 << 20] {
            let (pool, mut below) = (pool(max_bytes), numbers(max_bytes));
            let slots = pool.index_root::<Slots>().unwrap();
            let mut workers: Vec<_> = (0..3).map(|_| pool.worker().unwrap()).collect();
            let mut epochs = EpochWorker::new(pool.worker().unwrap()).unwrap();
            let (mut of_epochs, mut refused) = (Vec::new(), 0);
            for epoch in 1..60 {
                for worker in &mut workers {
                    refused += u64::from(!exchange_some(worker, slots, &mut below));
                }
                compare(&pool);
                for _ in 0..20 {
                    let bytes = vec![7; size(&mut below)];
                    of_epochs.extend(epochs.alloc_record(&[&bytes]));
                    if below(2) == 0 && !of_epochs.is_empty() {
                        let retired = of_epochs.swap_remove(below(of_epochs.len() as u64) as usize);
                        epochs.retire(retired).unwrap();
                    }
                }
                epochs.prepare(epoch).unwrap();
                pool.media().fence(everleaf_pmem::site!("test"));
                pool.commit_epoch(epoch).unwrap();
                epochs.finish().unwrap();
                compare(&pool);
            }
            assert_eq!(refused > 0, max_bytes == 1 << 20, "{refused}");
            drop((workers, epochs));
            compare(&pool);
        }
    }

    #[test]
    fn threads_that_allocate_and_free_leave_the_space_right() {
        let pool = pool(8 << 20);
        let slots = pool.index_root::<Slots>().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    let (mut worker, mut below) = (pool.worker().unwrap(), numbers(thread));
                    for _ in 0..300 {
                        let cell = &slots.records[(4 * below(32) + thread) as usize];
                        worker.free_from(cell).unwrap();
                        let bytes = vec![7; size(&mut below)];
                        worker.alloc_record_into(cell, &[&bytes]).unwrap();
                        pool.space().unwrap();
                    }
                });
            }
        });
        compare(&pool);
    }
}
