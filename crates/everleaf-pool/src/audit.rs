//! The leak audit: every block of the pool is reachable exactly once, or free.

use everleaf_pmem::Media;

use crate::Pool;
use crate::classes::Usage;
use crate::layout::{BITMAP_WORDS, CHUNK, WORKER_SLOTS};
use crate::word::SEALED_BITS;

/// Collects the blocks that the owners of structures reach; [`Pool::finish_audit`] compares them
/// with what the allocator says.
#[derive(Debug, Default)]
pub struct Audit {
    reached: Vec<u64>,
}

impl Audit {
    /// Nothing reached yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The structure reaches the block, record or run that starts at `offset`.
    pub fn reach(&mut self, offset: u64) {
        self.reached.push(offset);
    }
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Blocks that are allocated and that no owner reaches.
    pub leaked_blocks: u64,
    /// Blocks reached twice, or reached and free, damaged allocator words, and intents that are
    /// not retired although no operation runs: each a sentence.
    pub violations: Vec<String>,
}

impl<M: Media> Pool<M> {
    /// Compares what owners reach with what is allocated, and looks whether an intent is left that
    /// a later recovery would act on, and what is known of the free memory with what there is of
    /// it. Reads the whole chunk table, writes nothing. No operation may run meanwhile.
    pub fn finish_audit(&self, audit: Audit) -> AuditReport {
        let mut report = AuditReport::default();
        let mut reached = audit.reached;
        reached.extend(self.roots().blocks());
        reached.sort_unstable();
        for pair in reached.windows(2).filter(|pair| pair[0] == pair[1]) {
            report.violations.push(format!("the block at {:#x} is reached twice", pair[0]));
        }
        reached.dedup();
        self.check_intents(&mut report);
        let allocated = self.allocated_blocks(&mut report);
        let mut reached = reached.into_iter().peekable();
        for block in allocated {
            while let Some(stray) = reached.next_if(|offset| *offset < block) {
                report
                    .violations
                    .push(format!("the block at {stray:#x} is in use but not allocated"));
            }
            if reached.next_if_eq(&block).is_none() {
                report.leaked_blocks += 1;
            }
        }
        for stray in reached {
            report.violations.push(format!("the block at {stray:#x} is in use but not allocated"));
        }
        if report.violations.is_empty()
            && let Ok(known) = self.chunks().free_bytes(self.media())
            && let there = self.chunks().count_free_bytes(self.media())
            && known != there
        {
            report.violations.push(format!("{known:?} bytes are known to be free, not {there:?}"));
        }
        report
    }

    fn check_intents(&self, report: &mut AuditReport) {
        for slot in 0..WORKER_SLOTS {
            let tag = self.intent(slot).map(|intent| self.media().load(&intent.tag).open());
            let what = match tag {
                Ok(Some(0)) => continue,
                Ok(Some(_)) => "not retired",
                Ok(None) | Err(_) => "damaged",
            };
            report.violations.push(format!("the intent of worker {slot} is {what}"));
        }
    }

    /// The offsets of all allocated blocks and runs, ascending.
    fn allocated_blocks(&self, report: &mut AuditReport) -> Vec<u64> {
        let mut blocks = Vec::new();
        self.chunks().for_each_usage(self.media(), |chunk, _, usage| match usage {
            Ok(Usage::Free) => {}
            Ok(usage) => {
                let Some(class) = usage.class() else { return blocks.push(chunk * CHUNK) };
                let Ok(line) = self.chunks().line(self.media(), chunk) else { return };
                for word in 0..BITMAP_WORDS {
                    let first = word * SEALED_BITS as usize;
                    let Some(bits) = self.media().load(&line.bitmap[word]).open() else {
                        report.violations.push(format!(
                            "a bitmap word of the chunk at {:#x} is damaged",
                            chunk * CHUNK
                        ));
                        continue;
                    };
                    let set = (0..SEALED_BITS as usize)
                        .filter(|bit| bits & 1 << bit != 0)
                        .map(|bit| first + bit);
                    for block in set {
                        if block >= class.blocks() {
                            report.violations.push(format!(
                                "the chunk at {:#x} has a bit beyond its blocks",
                                chunk * CHUNK
                            ));
                        } else {
                            blocks.push(chunk * CHUNK + block as u64 * class.block_bytes());
                        }
                    }
                }
            }
            Err(e) => report.violations.push(e.to_string()),
        });
        blocks
    }
}
