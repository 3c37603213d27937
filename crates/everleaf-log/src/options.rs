//! How long a log is, and what it does beside.

use std::time::Duration;

use crate::disk::Space;
use crate::weak::{Weak, Weakness};

/// Sizes and times of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Bytes of a new segment; a group that is longer has one of its own. Rounded up to 4096, and
    /// at least three times that; at most 4 GiB.
    pub segment_bytes: u64,
    /// Bytes of the log after which a checkpoint begins. At twice as many writers wait for it.
    pub log_bytes: u64,
    /// Bytes of pages of the image that were stored to, and so take memory of this process: about
    /// half of it starts a checkpoint, which gives pages back to the file; writers wait for it
    /// before more than this and a page a thread is taken, but for no more than two checkpoints. A
    /// file that cannot be mapped is in memory whole.
    pub memory_bytes: u64,
    /// How often what was captured is made durable without being asked for; none: never.
    pub interval: Option<Duration>,
    /// Whether a thread of its own makes checkpoints and everything else that nobody waits for.
    /// Without one, whoever waits for durability, or for memory, does.
    pub background: bool,
    /// What both lengths become as the pool becomes longer, from its bytes: options for a pool that
    /// has them from the beginning. None: they stay.
    pub growth: Option<fn(u64) -> Self>,
    pub(crate) weak: Weakness,
}

impl LogOptions {
    /// For a pool of so many bytes. The log is as long as a pool of up to 64 MiB, and a quarter of
    /// a larger one: a load that makes a small pool large has few checkpoints. The length of a
    /// segment is a power of two, so a log that grows has few segments that do not fit.
    pub fn for_pool(bytes: u64) -> Self {
        let log_bytes = bytes.min(64 << 20).max(bytes / 4).clamp(4 << 20, 128 << 20);
        Self {
            segment_bytes: (1 << (log_bytes / 4).ilog2()).min(16 << 20),
            log_bytes,
            memory_bytes: u64::MAX,
            interval: None,
            background: true,
            growth: None,
            weak: Weakness::default(),
        }
    }

    /// The same for a pool that has become so long, on this disk.
    pub(crate) fn grown(self, bytes: u64, space: Option<Space>) -> Self {
        let Some(growth) = self.growth else { return self };
        let Self { segment_bytes, log_bytes, .. } = growth(bytes).on(space);
        Self { segment_bytes, log_bytes, ..self }
    }

    /// The same for a log on a disk like this: on a small one the log is shorter, because twice its
    /// greatest length is kept free for it.
    #[must_use]
    pub fn on(self, space: Option<Space>) -> Self {
        let Some(space) = space else { return self };
        let log_bytes = self.log_bytes.min((space.total_bytes / 32).max(256 << 10));
        let segment_bytes = self.segment_bytes.min((log_bytes / 2).next_multiple_of(4096));
        Self { segment_bytes, log_bytes, ..self }
    }

    /// The same without a rule: what is proved without it is not proved.
    #[doc(hidden)]
    #[must_use]
    pub fn without(self, rule: Weak) -> Self {
        Self { weak: Weakness(Some(rule)), ..self }
    }
}
