//! What a server tells of itself to dashboards.

use std::collections::BTreeSet;

use crate::redis::{Redis, serve};
use crate::stock::redis_server;

fn names(said: &str) -> BTreeSet<String> {
    let line = |line: &str| line.split_once(':').map(|(name, _)| name.to_owned());
    said.lines().filter_map(line).collect()
}

fn value(said: &str, name: &str) -> String {
    let line = said.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {said}")).to_owned()
}

/// What `redis_exporter` and dashboards over it read, as far as it is not about replicas, files of
/// Redis, its allocator or clusters.
const READ: &[&str] = &[
    "redis_version",
    "redis_mode",
    "os",
    "process_id",
    "run_id",
    "tcp_port",
    "uptime_in_seconds",
    "connected_clients",
    "blocked_clients",
    "tracking_clients",
    "maxclients",
    "used_memory",
    "used_memory_rss",
    "used_memory_peak",
    "used_memory_overhead",
    "used_memory_dataset",
    "total_system_memory",
    "maxmemory",
    "maxmemory_policy",
    "mem_fragmentation_ratio",
    "mem_clients_normal",
    "lazyfree_pending_objects",
    "loading",
    "rdb_changes_since_last_save",
    "rdb_bgsave_in_progress",
    "rdb_last_save_time",
    "rdb_last_bgsave_status",
    "aof_enabled",
    "aof_rewrite_in_progress",
    "total_connections_received",
    "total_commands_processed",
    "instantaneous_ops_per_sec",
    "total_net_input_bytes",
    "total_net_output_bytes",
    "instantaneous_input_kbps",
    "rejected_connections",
    "expired_keys",
    "evicted_keys",
    "keyspace_hits",
    "keyspace_misses",
    "pubsub_channels",
    "pubsub_patterns",
    "latest_fork_usec",
    "total_error_replies",
    "role",
    "connected_slaves",
    "master_replid",
    "master_repl_offset",
    "repl_backlog_size",
    "used_cpu_sys",
    "used_cpu_user",
    "used_cpu_sys_children",
    "cluster_enabled",
    "db0",
    "cmdstat_set",
    "cmdstat_config|get",
    "errorstat_ERR",
    "latency_percentiles_usec_set",
];

#[test]
fn what_dashboards_read_is_told() {
    let mut stock = redis_server();
    let (_served, address) = serve();
    for address in [Some(address), stock.as_mut().map(|stock| stock.address)].into_iter().flatten()
    {
        let mut redis = Redis::connect(address);
        for line in ["SET a 1", "NONSENSE", "CONFIG GET save"] {
            redis.ask(line);
        }
        let told = names(&redis.ask("INFO everything"));
        let missing: Vec<_> = READ.iter().filter(|name| !told.contains(**name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn sections_are_those_of_redis() {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    for asked in [
        "",
        "all",
        "everything",
        "default",
        "CPU",
        "cpu sentinel",
        "cpu all",
        "cpu default",
        "commandStats keyspace",
        "nonsense",
    ] {
        let told = [address, stock.address].map(|address| {
            let mut redis = Redis::connect(address);
            redis.ask("SET a 1");
            let said = redis.ask(&format!("INFO {asked}"));
            said.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(told[0], told[1], "INFO {asked}");
    }
}

#[test]
fn commands_and_their_errors_are_counted_as_redis_counts_them() {
    const LINES: &[&str] = &[
        "CONFIG RESETSTAT",
        "SET a 1",
        "SET a",
        "SET a 1 FOO",
        "INCR a",
        "LPUSH a 1",
        "NONSENSE",
        "CLIENT NONSENSE",
        "CLIENT GETNAME",
        "CLIENT SETNAME",
        "EXEC",
        "MULTI",
        "SET b 1",
        "LPUSH b 1",
        "PING",
        "EXEC",
        "MULTI",
        "SET b",
        "EXEC",
        "BLPOP l 0.01",
        "RPUSH l a",
        "BLPOP l 0.01",
        "AUTH x",
    ];
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let told = [address, stock.address].map(|address| {
        let mut redis = Redis::connect(address);
        LINES.iter().for_each(|line| drop(redis.ask(line)));
        let said = redis.ask("INFO commandstats errorstats stats");
        // Times are not compared.
        let counted = |line: &str| -> Option<String> {
            let (name, numbers) = line.split_once(':')?;
            let is_count = |word: &&str| !word.starts_with("usec");
            let counts: Vec<_> = numbers.trim().split(',').filter(is_count).collect();
            Some(format!("{name}:{}", counts.join(",")))
        };
        let told: BTreeSet<_> = said
            .lines()
            .filter(|line| {
                line.starts_with("cmdstat_") && !line.starts_with("cmdstat_info")
                    || line.starts_with("errorstat_")
                    || line.starts_with("total_error_replies")
            })
            .filter_map(counted)
            .collect();
        told
    });
    let different: Vec<_> = told[0].symmetric_difference(&told[1]).collect();
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn what_is_told_of_requests_grows_and_is_reset() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    redis.ask("SET a 1");
    let before = redis.ask("INFO");
    (0..100).for_each(|_| drop(redis.ask("GET a")));
    let after = redis.ask("INFO");
    for name in ["total_commands_processed", "total_net_input_bytes", "total_net_output_bytes"] {
        let [before, after] = [&before, &after].map(|said| value(said, name).parse::<u64>());
        assert!(after.unwrap() >= before.unwrap() + 100, "{name}");
    }
    assert_eq!(
        value(&redis.ask("INFO commandstats"), "cmdstat_get").split(',').next(),
        Some("calls=100")
    );
    assert!(
        value(&redis.ask("INFO latencystats"), "latency_percentiles_usec_get").contains("p99=")
    );
    assert_eq!(redis.ask("CONFIG SET latency-tracking-info-percentiles \"0 99.99\""), "+OK\r\n");
    let told = value(&redis.ask("INFO latencystats"), "latency_percentiles_usec_get");
    assert!(told.starts_with("p0=") && told.contains(",p99.99="), "{told}");
    assert_eq!(redis.ask("CONFIG SET latency-tracking no"), "+OK\r\n");
    assert!(!redis.ask("INFO latencystats").contains("percentiles"));
    redis.ask("CONFIG RESETSTAT");
    assert!(!redis.ask("INFO commandstats").contains("cmdstat_get"));
}

#[test]
fn settings_that_change_nothing_are_taken_and_told() {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let (mut ours, mut theirs) = (Redis::connect(address), Redis::connect(stock.address));
    for line in [
        "CONFIG GET list-max-listpack-size",
        "CONFIG GET hash-max-listpack-v*",
        "CONFIG SET hz 20 activerehashing no",
        "CONFIG GET activerehashing",
        "CONFIG SET loglevel debug hll-sparse-max-bytes 1kb",
        "CONFIG GET hll-sparse-max-bytes",
        "CONFIG SET loglevel loud",
        "CONFIG SET hz 10 activerehashing maybe",
        "CONFIG GET hz",
        "CONFIG SET latency-tracking-info-percentiles \"10.0 50.0 a\"",
        "CONFIG SET latency-tracking-info-percentiles \"10.0 50.0 101\"",
        "CONFIG SET latency-tracking-info-percentiles \"0.0 50.0 100.0\"",
        "CONFIG GET latency-tracking-info-percentiles",
        "CONFIG SET latency-tracking maybe",
        "CONFIG SET nonsense 1",
    ] {
        assert_eq!(ours.ask(line), theirs.ask(line), "{line}");
    }
    // What the server does not do is not promised.
    for line in ["CONFIG SET appendonly yes", "CONFIG SET save \"60 1\"", "CONFIG SET databases 3"]
    {
        assert!(ours.ask(line).contains("can't set immutable config"), "{line}");
    }
}
