//! What a server begins with: nothing was done yet.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::authentication::Attempts;
use crate::backup::Backups;
use crate::counters::Counters;
use crate::data::{Database, Gone, LONGEST, Listener};
use crate::memory::MemoryBudget;
use crate::metrics::Metrics;
use crate::options::ServeOptions;
use crate::random::Random;
use crate::shared::{
    Channels, Clients, Connections, Cursors, Errors, Event, Latency, Notifications, Prefixes,
    Settings, Shared, Slowlog, Tracking, Uses,
};
use crate::{memcached, redis};

/// Requests that take long and are served at a time, for each thread that answers.
const LONG_REQUESTS: usize = 2;

/// Who is told of changes of keys.
struct Told {
    channels: Arc<Channels>,
    notifications: Arc<Notifications>,
    /// It has the database, which has this.
    tracking: Weak<Tracking>,
}

impl Listener for Told {
    fn changed(&self, rows: &[&[u8]], by: u64) {
        self.tracking.upgrade().iter().for_each(|tracking| tracking.changed(rows, by));
    }

    fn emptied(&self) {
        self.tracking.upgrade().iter().for_each(|tracking| tracking.emptied());
    }

    fn gone(&self, row: &[u8], why: Gone) {
        if !self.notifications.is_on() {
            return;
        }
        let (class, name) = match why {
            Gone::Expired => (b'x', "expired"),
            Gone::Evicted => (b'e', "evicted"),
        };
        let event = Event { class, name, row: row.to_vec() };
        self.notifications.tell(&self.channels, &event);
    }
}

impl Shared {
    /// Nothing was done yet.
    pub fn new(data: Arc<Database>, options: ServeOptions) -> Arc<Self> {
        Self::with_connections(data, options, Default::default())
    }

    /// The same of a server whose connections are counted, and told of, there.
    pub(crate) fn with_connections(
        data: Arc<Database>,
        options: ServeOptions,
        (open, connections): (Arc<AtomicU64>, Arc<Connections>),
    ) -> Arc<Self> {
        let limits = options.limits.clone();
        let random = Random::default();
        let clients = Arc::<Clients>::default();
        let (channels, notifications) = (Arc::<Channels>::default(), Arc::default());
        let tracking = Arc::new(Tracking::of(&data, &clients));
        data.listening.set(Arc::new(Told {
            channels: Arc::clone(&channels),
            notifications: Arc::clone(&notifications),
            tracking: Arc::downgrade(&tracking),
        }));
        let digits = (0..40).map(|_| char::from_digit(random.below(16) as u32, 16).unwrap_or('0'));
        // What cannot be asked is told by the first request that needs it.
        let pool_bytes = data.statistics().map_or(u64::MAX, |store| store.max_bytes);
        let pool_bytes = if data.ahead().is_some() { pool_bytes.min(LONGEST) } else { pool_bytes };
        let shared = Arc::new(Self {
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
            open_connections: open,
            cursors: Cursors::default(),
            channels,
            clients,
            connections,
            monitors: Arc::default(),
            notifications,
            tracking,
            slowlog: Slowlog::default(),
            errors: Errors::default(),
            latency: Latency::default(),
            peak_bytes: AtomicU64::new(0),
            run_id: digits.collect(),
            random,
            began: Instant::now(),
        });
        #[cfg(feature = "scripts")]
        redis::load_libraries(&shared);
        shared
    }

    /// Ends what would keep a server from stopping: scripts, and a backup. The thread that has to
    /// end.
    pub(crate) fn end(&self) -> Option<JoinHandle<()>> {
        self.data.holders.kill_all();
        self.backups.stop()
    }
}
