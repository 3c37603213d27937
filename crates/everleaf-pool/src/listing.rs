//! What is in a pool, by its chunk table: runs, nodes, records, space.

use everleaf_pmem::{Media, PPtr};

use crate::PoolError;
use crate::chunks::Chunks;
use crate::classes::{Class, Usage};
use crate::layout::{CHUNK, ChunkLine};
use crate::pool::{Pool, Run, Space};

/// A chunk that holds nodes: the first of a run, or blocks of one size.
#[derive(Clone, Copy, Debug)]
pub struct NodeChunk {
    chunk: u64,
    /// Of its blocks; none for a run.
    class: Option<Class>,
    line: PPtr<ChunkLine>,
}

impl NodeChunk {
    /// Nodes that it has room for.
    pub fn room(&self) -> usize {
        self.class.map_or(1, Class::blocks)
    }
}

impl<M: Media> Pool<M> {
    /// Every run of nodes, in the order of their offsets: one line read a chunk.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if a descriptor is damaged.
    pub fn runs(&self) -> Result<Vec<Run>, PoolError> {
        let mut runs = Vec::new();
        let mut failure = None;
        self.chunks().for_each_usage(self.media(), |chunk, _, usage| match usage {
            Ok(Usage::NodeRun(chunks)) => runs.push(Run { offset: chunk * CHUNK, bytes: chunks * CHUNK }),
            Ok(_) => {}
            Err(e) => failure = failure.take().or(Some(e)),
        });
        failure.map_or(Ok(runs), Err)
    }

    /// Every chunk that holds nodes, in order: one line read a chunk. [`for_each_node`](Pool::for_each_node) says which nodes these are; several
    /// threads may each ask for some chunks.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if a descriptor is damaged.
    pub fn node_chunks(&self) -> Result<Vec<NodeChunk>, PoolError> {
        let mut found = Vec::new();
        let mut failure = None;
        self.chunks().for_each_usage(self.media(), |chunk, line, usage| match usage {
            Ok(Usage::NodeRun(_)) => found.push(NodeChunk { chunk, class: None, line }),
            Ok(Usage::NodeBlocks(class)) => found.push(NodeChunk { chunk, class: Some(class), line }),
            Ok(_) => {}
            Err(e) => failure = failure.take().or(Some(e)),
        });
        failure.map_or(Ok(found), Err)
    }

    /// Calls `visit` with every allocated node of the chunk, in the order of their offsets; a run counts as one. What a worker was about to allocate
    /// or free when a crash came has been settled by [`open`](Pool::open).
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if a word of the chunk table is damaged.
    pub fn for_each_node(&self, chunk: NodeChunk, mut visit: impl FnMut(u64)) -> Result<(), PoolError> {
        match chunk.class {
            None => visit(chunk.chunk * CHUNK),
            Some(class) => Chunks::for_each_block(self.media(), chunk.chunk, chunk.line, class, visit)?,
        }
        Ok(())
    }

    /// Every allocated node that is not part of a larger run, in the order of their offsets.
    ///
    /// # Errors
    /// As [`for_each_node`](Pool::for_each_node).
    pub fn nodes(&self) -> Result<Vec<u64>, PoolError> {
        let mut nodes = Vec::new();
        for chunk in self.node_chunks()? {
            self.for_each_node(chunk, |offset| nodes.push(offset))?;
        }
        Ok(nodes)
    }

    /// How full the pool is: reads the whole chunk table.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`] if a descriptor is damaged.
    pub fn space(&self) -> Result<Space, PoolError> {
        let total_bytes = self.chunks().end() * CHUNK;
        let (in_chunks, free_in_blocks_bytes) = self.chunks().free_bytes(self.media())?;
        let free_bytes = in_chunks + free_in_blocks_bytes;
        Ok(Space {
            total_bytes,
            used_bytes: total_bytes.saturating_sub(free_bytes),
            free_bytes,
            free_in_blocks_bytes,
            max_bytes: self.media().region().max_len(),
        })
    }

    /// Copies of all allocated records, as the chunk table alone tells of them; or why one, or a chunk, cannot be read. Of a chunk whose bitmap is damaged every record is
    /// shown that matches its checksum, whether it was in use or not.
    pub fn for_each_record(&self, mut visit: impl FnMut(Result<Vec<u8>, PoolError>)) {
        self.chunks().for_each_usage(self.media(), |chunk, line, usage| match usage {
            Ok(Usage::RecordRun(chunks)) => visit(self.copy_within(chunk * CHUNK, chunks * CHUNK)),
            Ok(Usage::RecordBlocks(class)) => {
                let whole = Chunks::for_each_block(self.media(), chunk, line, class, |offset| {
                    visit(self.copy_within(offset, class.block_bytes()));
                });
                if let Err(error) = whole {
                    let blocks = (0..class.blocks() as u64).map(|block| chunk * CHUNK + block * class.block_bytes());
                    blocks
                        .filter_map(|offset| self.copy_within(offset, class.block_bytes()).ok())
                        .for_each(|found| visit(Ok(found)));
                    visit(Err(error));
                }
            }
            Ok(_) => {}
            Err(error) => visit(Err(error)),
        });
    }
}
