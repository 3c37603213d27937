//! INFO: what dashboards read. What the server has no number for is zero where they expect one, and
//! is left out else.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::call::Call;
use super::failure::Outcome;
use super::names::is_command;
use super::settings::eviction_policy;
use super::{VERSION, functions, scripting};
use crate::data::DATABASES;
use crate::options::Address;
use crate::process;
use crate::resp::argument::is;
use crate::shared::Shared;

/// What is told where no section is named.
const DEFAULT: [&str; 11] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "modules",
    "errorstats",
    "cluster",
    "keyspace",
];

/// Text that grows by sections.
struct Text<'a> {
    text: String,
    asked: &'a [&'a [u8]],
}

impl Text<'_> {
    /// Begins a section, if it is asked for.
    fn section(&mut self, name: &str) -> bool {
        let is_default = DEFAULT.iter().any(|other| other.eq_ignore_ascii_case(name));
        let wants = |asked: &&[u8]| {
            is(asked, name)
                || is(asked, "all")
                || is(asked, "everything")
                || is_default && is(asked, "default")
        };
        let is_wanted =
            if self.asked.is_empty() { is_default } else { self.asked.iter().any(wants) };
        if is_wanted {
            // Writing to a string does not fail.
            let end = if self.text.is_empty() { "" } else { "\r\n" };
            let _ = write!(self.text, "{end}# {name}\r\n");
        }
        is_wanted
    }

    fn line(&mut self, name: impl Display, value: impl Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    /// Lines of the same value.
    fn lines(&mut self, names: &[&str], value: impl Display) {
        names.iter().for_each(|name| self.line(name, &value));
    }

    /// A number of bytes, and the same to be read by people.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.line(name, bytes);
        self.line(format_args!("{name}_human"), human(bytes));
    }
}

/// A number of bytes as people read it.
fn human(bytes: u64) -> String {
    let mut number = bytes as f64;
    for unit in ["B", "K", "M", "G", "T"] {
        if number < 1024.0 {
            return if unit == "B" { format!("{bytes}B") } else { format!("{number:.2}{unit}") };
        }
        number /= 1024.0;
    }
    format!("{number:.2}P")
}

/// INFO.
pub fn info(call: &mut Call<'_, '_, '_>) -> Outcome {
    let mut text = Text { text: String::new(), asked: call.rest(1) };
    let shared = call.shared;
    server(&mut text, shared);
    clients(&mut text, shared);
    memory(&mut text, call)?;
    persistence(&mut text, shared)?;
    stats(&mut text, shared);
    replication(&mut text, shared);
    processors(&mut text);
    text.section("Modules");
    commands(&mut text, shared);
    errors(&mut text, shared);
    latencies(&mut text, shared);
    if text.section("Cluster") {
        text.line("cluster_enabled", u8::from(shared.options.look.is_some()));
    }
    keyspace(&mut text, call)?;
    call.reply.text(&text.text);
    Ok(())
}

fn server(text: &mut Text<'_>, shared: &Shared) {
    if !text.section("Server") {
        return;
    }
    let port = shared.options.redis.iter().find_map(|address| match address {
        Address::Tcp(address) => Some(address.port()),
        Address::Unix(_) => None,
    });
    let up = shared.began.elapsed().as_secs();
    let program = std::env::current_exe().unwrap_or_default();
    text.line("redis_version", VERSION);
    text.line("everleaf_version", env!("CARGO_PKG_VERSION"));
    text.line("redis_git_sha1", "00000000");
    text.line("redis_git_dirty", 0);
    text.line("redis_mode", if shared.options.look.is_some() { "cluster" } else { "standalone" });
    text.line("os", process::system());
    text.line("arch_bits", usize::BITS);
    text.line("multiplexing_api", "epoll");
    text.line("process_id", std::process::id());
    text.line("process_supervised", "no");
    text.line("run_id", &shared.run_id);
    text.line("tcp_port", port.unwrap_or(0));
    text.line("server_time_usec", shared.data.now_ms() * 1000);
    text.line("uptime_in_seconds", up);
    text.line("uptime_in_days", up / (24 * 60 * 60));
    text.lines(&["hz", "configured_hz"], 10);
    text.line("lru_clock", shared.data.now_ms() / 1000 % (1 << 24));
    text.line("executable", program.display());
    text.line("config_file", "");
    text.line("io_threads_active", u8::from(shared.options.threads > 1));
}

fn clients(text: &mut Text<'_>, shared: &Shared) {
    if !text.section("Clients") {
        return;
    }
    let clients = &shared.clients;
    let waiting = shared.data.waiting.clients();
    text.line("connected_clients", clients.count());
    text.line("cluster_connections", 0);
    text.line("maxclients", shared.settings.connections.load(Relaxed));
    text.lines(&["client_recent_max_input_buffer", "client_recent_max_output_buffer"], 0);
    text.line("blocked_clients", waiting + clients.count_paused());
    text.line("tracking_clients", clients.with_flag(b't'));
    text.line("clients_in_timeout_table", waiting);
}

fn memory(text: &mut Text<'_>, call: &Call<'_, '_, '_>) -> Outcome {
    if !text.section("Memory") {
        return Ok(());
    }
    let shared = call.shared;
    let store = shared.data.statistics()?;
    let used = store.used_bytes;
    let resident = process::resident_bytes();
    let peak = shared.peak_bytes.fetch_max(used, Relaxed).max(used);
    let limit = shared.data.evicts_beyond().unwrap_or(u64::MAX).min(store.max_bytes);
    text.bytes("used_memory", used);
    text.bytes("used_memory_rss", resident);
    text.bytes("used_memory_peak", peak);
    let part = used as f64 / peak.max(1) as f64 * 100.0;
    text.line("used_memory_peak_perc", format_args!("{part:.2}%"));
    text.line("used_memory_overhead", store.dram_bytes);
    text.line("used_memory_startup", 0);
    text.line("used_memory_dataset", used);
    text.line("used_memory_dataset_perc", "100.00%");
    text.bytes("total_system_memory", process::machine_bytes());
    text.bytes("maxmemory", limit);
    text.line("maxmemory_policy", eviction_policy(call));
    let (scripts, script_bytes) = scripting::cached(shared);
    text.line("used_memory_scripts_eval", script_bytes);
    text.line("number_of_cached_scripts", scripts);
    let [libraries, functions, bytes] = functions::counts(shared);
    text.line("used_memory_functions", bytes);
    text.line("number_of_libraries", libraries);
    text.line("number_of_functions", functions);
    let ratio = resident as f64 / used.max(1) as f64;
    text.line("mem_fragmentation_ratio", format_args!("{ratio:.2}"));
    text.line("mem_fragmentation_bytes", resident as i64 - used as i64);
    text.lines(&["mem_not_counted_for_evict", "mem_replication_backlog", "mem_clients_slaves"], 0);
    text.line("mem_clients_normal", shared.unsent.taken() + shared.requests.taken());
    text.lines(&["mem_cluster_links", "mem_aof_buffer"], 0);
    text.line("mem_allocator", "everleaf");
    text.line("active_defrag_running", 0);
    text.line("lazyfree_pending_objects", u8::from(shared.data.removes_parts()?));
    text.line("lazyfreed_objects", shared.data.removed_later.get());
    Ok(())
}

fn persistence(text: &mut Text<'_>, shared: &Shared) -> Outcome {
    if !text.section("Persistence") {
        return Ok(());
    }
    let store = shared.data.statistics()?;
    let last = shared.backups.last();
    let took = last.took.map_or(-1, |took| took.as_secs() as i64);
    text.lines(&["loading", "async_loading", "rdb_changes_since_last_save"], 0);
    text.line("rdb_bgsave_in_progress", u8::from(shared.backups.in_progress()));
    text.line("rdb_last_save_time", last.saved_ms / 1000);
    text.line("rdb_last_bgsave_status", if last.failed { "err" } else { "ok" });
    text.line("rdb_last_bgsave_time_sec", took);
    text.line("rdb_current_bgsave_time_sec", -1);
    text.lines(&["rdb_last_cow_size", "aof_enabled", "aof_rewrite_in_progress"], 0);
    text.line("aof_rewrite_scheduled", 0);
    text.lines(&["aof_last_rewrite_time_sec", "aof_current_rewrite_time_sec"], -1);
    text.lines(&["aof_last_bgrewrite_status", "aof_last_write_status"], "ok");
    text.lines(&["aof_last_cow_size", "module_fork_in_progress"], 0);
    text.line("everleaf_durability", store.durability_mode);
    text.line("everleaf_recovery_ms", format_args!("{:.3}", store.recovery_ms));
    Ok(())
}

fn stats(text: &mut Text<'_>, shared: &Shared) {
    if !text.section("Stats") {
        return;
    }
    let counters = &shared.counters;
    let [commands, input, output] = shared.metrics.rates.in_a_second();
    let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    text.line("total_connections_received", counters.connections.get());
    text.line("total_commands_processed", counters.redis_commands.get());
    text.line("instantaneous_ops_per_sec", commands);
    text.line("total_net_input_bytes", counters.bytes_read.get());
    text.line("total_net_output_bytes", counters.bytes_written.get());
    text.lines(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"], 0);
    text.line("instantaneous_input_kbps", kilobytes(input));
    text.line("instantaneous_output_kbps", kilobytes(output));
    text.line("rejected_connections", counters.refused_connections.get());
    text.lines(&["sync_full", "sync_partial_ok", "sync_partial_err"], 0);
    text.line("expired_keys", shared.data.expired_keys.get());
    text.line("expired_stale_perc", "0.00");
    text.line("expired_time_cap_reached_count", 0);
    text.line("evicted_keys", shared.data.evicted());
    text.line("evicted_clients", 0);
    let (channels, patterns) = shared.channels.counts();
    text.line("pubsub_channels", channels);
    text.line("pubsub_patterns", patterns);
    text.lines(&["pubsubshard_channels", "latest_fork_usec", "total_forks"], 0);
    text.lines(&["migrate_cached_sockets", "slave_expires_tracked_keys"], 0);
    text.lines(&["active_defrag_hits", "active_defrag_misses"], 0);
    text.lines(&["active_defrag_key_hits", "active_defrag_key_misses"], 0);
    let [keys, items, fronts] = shared.tracking.counts();
    text.line("tracking_total_keys", keys);
    text.line("tracking_total_items", items);
    text.line("tracking_total_prefixes", fronts);
    text.line("unexpected_error_replies", 0);
    text.line("total_error_replies", shared.errors.total.get());
    // What both protocols have done, under the names of this server.
    counters.all().iter().for_each(|(name, count)| text.line(name, count));
}

fn replication(text: &mut Text<'_>, shared: &Shared) {
    if !text.section("Replication") {
        return;
    }
    let view = shared.view();
    let offset = view.as_ref().map_or(0, |view| view.committed);
    match &view {
        None => {
            text.line("role", "master");
            text.line("connected_slaves", 0);
        }
        Some(view) if view.leads() => {
            text.line("role", "master");
            text.line("connected_slaves", view.followers().count());
            for (at, (member, (host, port))) in view.followers().enumerate() {
                let matched = member.matched.unwrap_or(0);
                let told =
                    format_args!("ip={host},port={port},state=online,offset={matched},lag=0");
                text.line(format_args!("slave{at}"), told);
            }
        }
        Some(view) => {
            let leader = view.leader();
            let (host, port) = leader.map_or(("", 0), |(_, ends)| ends);
            text.line("role", "slave");
            text.line("master_host", host);
            text.line("master_port", port);
            text.line("master_link_status", if leader.is_some() { "up" } else { "down" });
            text.lines(&["master_last_io_seconds_ago", "master_sync_in_progress"], 0);
            text.lines(&["slave_read_repl_offset", "slave_repl_offset"], offset);
            text.line("slave_priority", 100);
            text.line("slave_read_only", 1);
            text.line("connected_slaves", 0);
        }
    }
    // All nodes of a cluster have the same.
    let id = view.map_or_else(|| shared.run_id.clone(), |view| view.digits(0));
    text.line("master_failover_state", "no-failover");
    text.line("master_replid", &id);
    text.line("master_replid2", "0".repeat(id.len()));
    text.line("master_repl_offset", offset);
    text.line("second_repl_offset", -1);
    text.lines(&["repl_backlog_active", "repl_backlog_size"], 0);
    text.lines(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"], 0);
}

fn processors(text: &mut Text<'_>) {
    if !text.section("CPU") {
        return;
    }
    let seconds = |time: Duration| format!("{:.6}", time.as_secs_f64());
    let (all, first) = (process::of_all_threads(), process::of_first_thread());
    text.line("used_cpu_sys", seconds(all.system));
    text.line("used_cpu_user", seconds(all.user));
    text.lines(&["used_cpu_sys_children", "used_cpu_user_children"], "0.000000");
    text.line("used_cpu_sys_main_thread", seconds(first.system));
    text.line("used_cpu_user_main_thread", seconds(first.user));
}

fn commands(text: &mut Text<'_>, shared: &Shared) {
    if !text.section("Commandstats") {
        return;
    }
    for command in shared.metrics.redis.commands() {
        if !is_command(command.name) {
            continue;
        }
        let (calls, micros) = (command.times.count(), command.times.sum as f64 / 1000.0);
        let each = micros / calls.max(1) as f64;
        text.line(
            format_args!("cmdstat_{}", command.name.to_ascii_lowercase()),
            format_args!(
                "calls={calls},usec={micros:.0},usec_per_call={each:.2},rejected_calls={},\
                 failed_calls={}",
                command.rejected, command.failed
            ),
        );
    }
}

fn errors(text: &mut Text<'_>, shared: &Shared) {
    if text.section("Errorstats") {
        for (kind, count) in shared.errors.kinds() {
            text.line(format_args!("errorstat_{kind}"), format_args!("count={count}"));
        }
    }
}

fn latencies(text: &mut Text<'_>, shared: &Shared) {
    if !text.section("Latencystats") || !shared.settings.tracks_latency.load(Relaxed) {
        return;
    }
    let percents = shared.settings.percents.lock().clone();
    for (name, seen) in shared.metrics.redis.seen() {
        if !is_command(name) || percents.is_empty() {
            continue;
        }
        let told = percents.iter().map(|percent| {
            let micros = seen.percentile(*percent) as f64 / 1000.0;
            format!("p{percent}={micros:.3}")
        });
        let told: Vec<_> = told.collect();
        let name = name.to_ascii_lowercase();
        text.line(format_args!("latency_percentiles_usec_{name}"), told.join(","));
    }
}

fn keyspace(text: &mut Text<'_>, call: &mut Call<'_, '_, '_>) -> Outcome {
    if !text.section("Keyspace") {
        return Ok(());
    }
    for database in 0..DATABASES {
        let keys = call.work.count_keys(database)?;
        if keys > 0 {
            let expire = call.work.count_expiring(database)?;
            let told = format_args!("keys={keys},expires={expire},avg_ttl=0");
            text.line(format_args!("db{database}"), told);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_as_people_read_them() {
        for (bytes, told) in [(0, "0B"), (1023, "1023B"), (1536, "1.50K"), (3 << 30, "3.00G")] {
            assert_eq!(human(bytes), told);
        }
    }
}
