//! What can be changed while a server runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::options::ServeOptions;

/// Settings that CONFIG and its like change.
#[derive(Debug)]
pub struct Settings {
    /// Milliseconds that a connection may be idle; 0: for ever.
    idle_ms: AtomicU64,
    /// Connections at a time.
    pub connections: AtomicU64,
    /// Microseconds from which on a command is slow; negative: none is.
    pub slow_micros: AtomicI64,
    /// Slow commands that are remembered.
    pub slow_entries: AtomicU64,
    /// Milliseconds after which who waits for a script is turned away.
    pub busy_ms: Arc<AtomicU64>,
    /// Whether INFO tells how long commands took.
    pub tracks_latency: AtomicBool,
    /// The percentiles of it.
    pub percents: Mutex<Vec<f64>>,
    /// Milliseconds beyond which an event is remembered for LATENCY; 0: none is.
    pub latency_ms: AtomicU64,
    /// What was set and changes nothing here.
    pub ignored: Mutex<BTreeMap<&'static str, String>>,
    /// Bytes of the pool beyond which Redis' clients add nothing; 0: as many as it may have.
    pub max_bytes: AtomicU64,
    /// Entries by which a stream is trimmed where that may be approximate; 0: a hundred.
    pub stream_node_entries: AtomicU64,
}

impl Settings {
    /// As a server begins with them.
    pub fn of(options: &ServeOptions, busy_ms: &Arc<AtomicU64>) -> Self {
        let settings = Self {
            idle_ms: AtomicU64::new(0),
            connections: AtomicU64::new(options.limits.connections as u64),
            slow_micros: AtomicI64::new(10_000),
            slow_entries: AtomicU64::new(128),
            busy_ms: Arc::clone(busy_ms),
            tracks_latency: AtomicBool::new(true),
            percents: Mutex::new(vec![50.0, 99.0, 99.9]),
            latency_ms: AtomicU64::new(0),
            ignored: Mutex::default(),
            max_bytes: AtomicU64::new(0),
            stream_node_entries: AtomicU64::new(100),
        };
        settings.set_idle(options.idle.unwrap_or_default());
        settings
    }

    /// How long a connection may be idle; no time: for ever.
    pub fn set_idle(&self, idle: Duration) {
        let ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        self.idle_ms.store(ms, Ordering::Relaxed);
    }

    /// How long a connection may be idle.
    pub fn idle(&self) -> Option<Duration> {
        let ms = self.idle_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// The same in seconds; 0: for ever, as both protocols have it.
    pub fn idle_seconds(&self) -> u64 {
        self.idle().map_or(0, |idle| idle.as_secs())
    }
}
