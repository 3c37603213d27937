//! The metrics in Prometheus' text format 0.0.4.
//!
//! Written by hand: the numbers are counted already, and a library's registry would count them a
//! second time.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

use everleaf::Statistics;

use crate::data::DATABASES;
use crate::metrics::Seen;
use crate::shared::Shared;

/// What the text is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const NS: f64 = 1e-9;

/// Text that grows by metrics.
struct Text(String);

impl Text {
    /// Begins a metric.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A number of a metric. Values of labels are words, which need no escapes.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<_> = labels.iter().map(|(key, word)| format!("{key}=\"{word}\"")).collect();
        let _ = match &labels[..] {
            [] => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{}}} {value}", labels.join(",")),
        };
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.metric(name, "counter", help);
        self.sample(name, &[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// The samples of a histogram, whose numbers are `unit` each.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], seen: &Seen, unit: f64) {
        let mut below = 0;
        for (at, bucket) in seen.buckets.iter().enumerate() {
            below += bucket;
            let bound = seen.bounds.get(at).map_or("+Inf".to_owned(), |bound| scaled(*bound, unit));
            let labels = [labels, &[("le", &bound)]].concat();
            self.sample(&format!("{name}_bucket"), &labels, below);
        }
        self.sample(&format!("{name}_sum"), labels, scaled(seen.sum, unit));
        self.sample(&format!("{name}_count"), labels, below);
    }
}

/// A number of units: to nine digits behind the point, which are nanoseconds of a second.
fn scaled(number: u64, unit: f64) -> String {
    let text = format!("{:.9}", number as f64 * unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// All metrics; those of the store only where its statistics are known.
pub fn text(shared: &Shared, store: Option<&Statistics>) -> String {
    let mut text = Text(String::new());
    server(&mut text, shared);
    requests(&mut text, shared);
    keys(&mut text, shared);
    if let Some(store) = store {
        pool(&mut text, shared, store);
    }
    text.0
}

fn server(text: &mut Text, shared: &Shared) {
    text.metric("everleaf_build_info", "gauge", "Always 1; the version is a label.");
    text.sample("everleaf_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let uptime = shared.began.elapsed().as_secs_f64();
    text.gauge("everleaf_uptime_seconds", "How long the server has run.", uptime);
    let open = shared.open_connections.load(Relaxed);
    text.gauge("everleaf_connections_open", "Connections that are open.", open);
    let limit = shared.settings.connections.load(Relaxed);
    text.gauge("everleaf_connections_limit", "Connections that may be open.", limit);
    let blocked = shared.data.waiting.clients();
    let help = "Connections that wait for something to pop.";
    text.gauge("everleaf_connections_blocked", help, blocked);
    if shared.options.backups.is_some() {
        backups(text, shared);
    }
    let c = &shared.counters;
    for (name, help, counter) in [
        ("connections_total", "Connections that were opened.", &c.connections),
        (
            "connections_refused_total",
            "Connections that were refused because there were too many.",
            &c.refused_connections,
        ),
        (
            "connections_idle_total",
            "Connections that were closed because nothing came.",
            &c.idle_connections,
        ),
        (
            "tls_handshakes_refused_total",
            "Connections by TLS that were never agreed on.",
            &c.refused_handshakes,
        ),
        ("received_bytes_total", "Bytes of requests that were answered.", &c.bytes_read),
        ("sent_bytes_total", "Bytes of replies that were sent.", &c.bytes_written),
        ("authentications_total", "Names and passwords that were given.", &c.authentications),
        (
            "authentications_refused_total",
            "Names and passwords that were wrong.",
            &c.refused_authentications,
        ),
    ] {
        text.counter(&format!("everleaf_{name}"), help, counter.get());
    }
}

fn backups(text: &mut Text, shared: &Shared) {
    let last = shared.backups.last();
    let help = "When the last backup was complete; before any: when the server began.";
    text.gauge("everleaf_backup_timestamp_seconds", help, last.saved_ms as f64 / 1e3);
    let help = "Whether the last backup was made: 1, or 0 if it failed.";
    text.gauge("everleaf_backup_ok", help, u8::from(!last.failed));
    let in_progress = u8::from(shared.backups.in_progress());
    text.gauge("everleaf_backup_in_progress", "Whether a backup is being made.", in_progress);
}

fn requests(text: &mut Text, shared: &Shared) {
    let metrics = &shared.metrics;
    let protocols =
        [("memcached", metrics.memcached.commands()), ("redis", metrics.redis.commands())];
    let name = "everleaf_requests_total";
    text.metric(name, "counter", "Requests that were answered.");
    for (protocol, commands) in &protocols {
        // What waited for EXEC is counted when it was done.
        let done = commands.iter().filter(|command| command.name != "queued");
        let count: u64 = done.map(|command| command.times.count() + command.rejected).sum();
        text.sample(name, &[("protocol", protocol)], count);
    }
    let name = "everleaf_request_duration_seconds";
    let help = "How long requests took, without their wait for a sync, by command.";
    text.metric(name, "histogram", help);
    for (protocol, commands) in &protocols {
        for command in commands.iter().filter(|command| command.times.count() > 0) {
            let word = command.name.to_ascii_lowercase();
            let labels = [("protocol", *protocol), ("command", &word)];
            text.histogram(name, &labels, &command.times, NS);
        }
    }
    let name = "everleaf_sync_duration_seconds";
    text.metric(name, "histogram", "How long the syncs took that replies waited for.");
    text.histogram(name, &[], &metrics.syncs.seen(), NS);
    let name = "everleaf_sync_connections";
    text.metric(name, "histogram", "Connections whose replies waited for the same sync.");
    text.histogram(name, &[], &metrics.groups.seen(), 1.0);
}

fn keys(text: &mut Text, shared: &Shared) {
    let c = &shared.counters;
    let (gets, hits) = (c.gets.get(), c.get_hits.get());
    let misses = gets.saturating_sub(hits);
    for (name, help, memcached, redis) in [
        ("hits", "Keys that were looked for and there.", hits, c.keyspace_hits.get()),
        ("misses", "Keys that were looked for and not there.", misses, c.keyspace_misses.get()),
    ] {
        let name = format!("everleaf_key_{name}_total");
        text.metric(&name, "counter", help);
        text.sample(&name, &[("protocol", "memcached")], memcached);
        text.sample(&name, &[("protocol", "redis")], redis);
    }
    let help = "Keys that were removed because they had expired.";
    text.counter("everleaf_expired_keys_total", help, shared.data.expired_keys.get());
    let help = "Keys that were evicted.";
    text.counter("everleaf_evicted_keys_total", help, shared.data.evicted());
    if shared.data.has_counted() {
        let name = "everleaf_keys";
        text.metric(name, "gauge", "Keys of a database, once they are counted.");
        for database in 0..DATABASES {
            let keys = shared.data.keys_of(database).unwrap_or(0);
            text.sample(name, &[("database", &database.to_string())], keys);
        }
    }
}

fn pool(text: &mut Text, shared: &Shared, store: &Statistics) {
    let limit = shared.data.evicts_beyond().unwrap_or(u64::MAX).min(store.max_bytes);
    let help = "Bytes beyond which keys are evicted, or writes refused.";
    text.gauge("everleaf_pool_limit_bytes", help, limit);
    let help = "Bytes of the pool that are in use.";
    text.gauge("everleaf_pool_used_bytes", help, store.used_bytes);
    text.gauge("everleaf_pool_size_bytes", "Bytes of the pool.", store.total_bytes);
    let help = "How long opening the pool took, recovery included.";
    text.gauge("everleaf_recovery_seconds", help, store.recovery_ms / 1e3);
    let Some(log) = store.log_counts else { return };
    for (name, help, count) in [
        ("syncs_total", "Times that the log was synced.", log.syncs),
        ("written_bytes_total", "Bytes that were appended to the log.", log.log_bytes),
        ("checkpoints_total", "Checkpoints that shortened the log.", log.checkpoints),
        (
            "checkpoint_bytes_total",
            "Bytes that checkpoints have written to the pool's file.",
            log.base_bytes,
        ),
    ] {
        text.counter(&format!("everleaf_log_{name}"), help, count);
    }
}
