//! Memory that an epoch has allocated and whose end is not written to the table yet.
//!
//! A block of an epoch that has not been finished has a clear bit, and the descriptor of its run is
//! not stored. Whoever reads or retires it learns from here what the table does not say: how long a
//! run is, and that what is retired was never durable. All of this is in DRAM: after a crash such
//! memory is free, or recovery has written it to the table.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Block;
use crate::classes::Usage;

/// What the table does not say yet.
pub(crate) struct Unpublished {
    /// What is in the runs, by offset.
    runs: Mutex<BTreeMap<u64, Usage>>,
    run_count: AtomicUsize,
    /// Blocks and runs that were retired while the table did not say that they are in use, each
    /// with the epoch that was durable then. The worker that allocated one in the same epoch takes
    /// it from here.
    retired: Mutex<BTreeMap<u64, u64>>,
    retired_count: AtomicUsize,
    /// The epoch that workers have prepared and not finished, and how many of them.
    ending: Mutex<(u64, usize)>,
}

impl Unpublished {
    pub fn new() -> Self {
        let [run_count, retired_count] = [const { AtomicUsize::new(0) }; 2];
        let (runs, retired, ending) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { runs, run_count, retired, retired_count, ending }
    }

    /// A worker has taken a run, which its epoch will publish.
    pub fn add_run(&self, block: Block) {
        let Some(usage) = block.run else { return };
        let mut runs = self.runs.lock();
        runs.insert(block.offset, usage);
        self.run_count.store(runs.len(), Ordering::Release);
    }

    /// What is in the run at `offset`, if the table does not say so yet. Asked before the table: a
    /// run is published there before it leaves here.
    pub fn run(&self, offset: u64) -> Option<Usage> {
        if self.run_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.runs.lock().get(&offset).copied()
    }

    /// The table says of these what they are, or they are free.
    pub fn remove_runs<'b>(&self, blocks: impl Iterator<Item = &'b Block>) {
        if self.run_count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut runs = self.runs.lock();
        blocks.filter(|block| block.run.is_some()).for_each(|block| _ = runs.remove(&block.offset));
        self.run_count.store(runs.len(), Ordering::Release);
    }

    /// What is at `offset` was retired after the epoch `durable`, and the table does not say that
    /// it is in use.
    pub fn retire(&self, offset: u64, durable: u64) {
        let mut retired = self.retired.lock();
        retired.insert(offset, durable);
        self.retired_count.store(retired.len(), Ordering::Release);
    }

    /// Whether what is at `offset` was retired before it was published; that is forgotten.
    pub fn take_retired(&self, offset: u64) -> bool {
        self.take_retired_if(offset, |_| true)
    }

    /// Forgets that what is at `offset` was retired after the epoch `durable`.
    pub fn forget_retired(&self, offset: u64, durable: u64) {
        self.take_retired_if(offset, |retired_after| retired_after == durable);
    }

    fn take_retired_if(&self, offset: u64, is_meant: impl Fn(u64) -> bool) -> bool {
        if self.retired_count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut retired = self.retired.lock();
        let was_retired = retired.get(&offset).is_some_and(|after| is_meant(*after));
        if was_retired {
            retired.remove(&offset);
        }
        self.retired_count.store(retired.len(), Ordering::Release);
        was_retired
    }

    /// A worker prepares the end of an epoch; false if one has not finished an earlier epoch.
    pub fn begin_end(&self, epoch: u64) -> bool {
        let mut ending = self.ending.lock();
        if ending.1 > 0 && ending.0 != epoch {
            return false;
        }
        *ending = (epoch, ending.1 + 1);
        true
    }

    /// A worker has finished the epoch that it had prepared.
    pub fn finish_end(&self) {
        let mut ending = self.ending.lock();
        ending.1 = ending.1.saturating_sub(1);
    }
}
