//! What a server begins with: nothing was done yet.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::authentication::Attempts;
use crate::backup::Backups;
use crate::counters::Counters;
use crate::data::Database;
use crate::memcached::{Prefixes, Uses};
use crate::memory::MemoryBudget;
use crate::metrics::Metrics;
use crate::options::ServeOptions;
use crate::random::Random;
use crate::shared::{Cursors, Errors, Settings, Shared, Slowlog};
use crate::{memcached, redis};

/// Requests that take long and are served at a time, for each thread that answers.
const LONG_REQUESTS: usize = 2;

impl Shared {
    /// Nothing was done yet.
    pub fn new(data: Arc<Database>, options: ServeOptions) -> Arc<Self> {
        let limits = options.limits.clone();
        let random = Random::default();
        let digits = (0..40).map(|_| char::from_digit(random.below(16) as u32, 16).unwrap_or('0'));
        // What cannot be asked is told by the first request that needs it.
        let pool_bytes = data.statistics().map_or(u64::MAX, |store| store.max_bytes);
        Arc::new(Self {
            requests: MemoryBudget::of(limits.buffered_bytes),
            unsent: MemoryBudget::of(limits.unsent_bytes),
            replies: MemoryBudget::of(limits.whole_bytes),
            images: MemoryBudget::of(limits.whole_bytes),
            backups: Backups::new(options.backups.clone(), data.now_ms()),
            uses: Uses::new(data.now_ms()),
            prefixes: Prefixes::default(),
            settings: Settings::of(&options, data.holders.busy_ms()),
            data,
            longest: limits.longest(pool_bytes),
            attempts: Attempts::default(),
            long_requests: Semaphore::new(LONG_REQUESTS * options.threads.max(1)),
            long_scripts: Semaphore::new(LONG_REQUESTS * options.threads.max(1)),
            #[cfg(feature = "scripts")]
            scripts: crate::scripts::Scripts::new(
                redis::VERSION,
                usize::try_from(limits.waiting_bytes()).unwrap_or(usize::MAX),
                limits.script_bytes,
                Random::default().below(u64::from(u32::MAX)) as u32,
            ),
            metrics: Metrics::new(redis::names(), memcached::COMMANDS.to_vec(), options.threads),
            options,
            counters: Counters::default(),
            open_connections: AtomicU64::new(0),
            cursors: Cursors::default(),
            channels: Arc::default(),
            clients: Arc::default(),
            slowlog: Slowlog::default(),
            errors: Errors::default(),
            peak_bytes: AtomicU64::new(0),
            run_id: digits.collect(),
            random,
            began: Instant::now(),
        })
    }
}
