//! What `stats` tells: the lines of a memcached 1.6.18 that has no LRU crawler and no LRU
//! maintainer. What does not exist here is 0.
//!
//! Items have no classes by their size: `stats items` and `stats slabs` tell of one class that has
//! all items, and of the pool as its memory.

use std::sync::atomic::Ordering;

use everleaf::{Error, Statistics};

use super::{VERSION, items};
use crate::Address;
use crate::data::Work;
use crate::shared::Shared;
use crate::shared::prefixes::DELIMITER;

/// Names and what they stand for.
type Lines = Vec<(&'static str, String)>;

/// Bytes of a page of memcached's slabs.
const PAGE_BYTES: u64 = 1 << 20;
/// Ticks of the processor's time in a second, as Linux tells them on every machine.
const TICKS: u64 = 100;

/// The pool, and how many items there are.
fn pool(shared: &Shared) -> Result<(Statistics, u64), Error> {
    let work = Work::new(&shared.data, shared.data.now_ms());
    Ok((shared.data.statistics()?, work.count_keys(items::DATABASE)?))
}

/// Bytes beyond which items are evicted, or refused.
fn limit(shared: &Shared, store: &Statistics) -> u64 {
    shared.data.evicts_beyond().unwrap_or(u64::MAX).min(store.max_bytes)
}

/// Seconds that the processor has worked for this process: as itself, and in the system.
fn processor_seconds() -> [String; 2] {
    let told = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name stands in parentheses, and may hold blanks.
    let words = told.rsplit(')').next().unwrap_or_default().split_whitespace();
    let mut ticks = words.skip(11).map(|word| word.parse::<u64>().unwrap_or(0));
    [(); 2].map(|()| {
        let ticks = ticks.next().unwrap_or(0);
        format!("{}.{:06}", ticks / TICKS, ticks % TICKS * (1_000_000 / TICKS))
    })
}

fn told<const N: usize>(numbers: [(&'static str, u64); N]) -> Lines {
    numbers.map(|(name, number)| (name, number.to_string())).into()
}

/// The lines of `stats`.
///
/// # Errors
/// Damage.
pub fn lines(shared: &Shared) -> Result<Lines, Error> {
    let (store, count) = pool(shared)?;
    let mut lines = told([
        ("pid", u64::from(std::process::id())),
        ("uptime", shared.began.elapsed().as_secs()),
        ("time", shared.data.now_ms() / 1000),
    ]);
    let [user, system] = processor_seconds();
    lines.extend([
        ("version", VERSION.to_owned()),
        ("libevent", "none".to_owned()),
        ("pointer_size", usize::BITS.to_string()),
        ("rusage_user", user),
        ("rusage_system", system),
    ]);
    lines.extend(connections(shared));
    lines.extend(requests(shared));
    lines.extend(state(shared, &store));
    lines.extend(memory(shared, &store, count));
    Ok(lines)
}

fn connections(shared: &Shared) -> Lines {
    let c = &shared.counters;
    let open = shared.open_connections.load(Ordering::Relaxed);
    told([
        ("max_connections", shared.settings.connections.load(Ordering::Relaxed)),
        ("curr_connections", open),
        ("total_connections", c.connections.get()),
        ("rejected_connections", c.refused_connections.get()),
        ("connection_structures", open),
        ("response_obj_oom", 0),
        ("response_obj_count", 0),
        ("response_obj_bytes", 0),
        ("read_buf_count", 0),
        ("read_buf_bytes", 0),
        ("read_buf_bytes_free", 0),
        ("read_buf_oom", 0),
        ("reserved_fds", 0),
    ])
}

fn requests(shared: &Shared) -> Lines {
    let c = &shared.counters;
    told([
        ("cmd_get", c.gets.get()),
        ("cmd_set", c.sets.get()),
        ("cmd_flush", c.flushes.get()),
        ("cmd_touch", c.touch_hits.get() + c.touch_misses.get()),
        ("cmd_meta", c.meta_commands.get()),
        ("get_hits", c.get_hits.get()),
        ("get_misses", c.gets.get().saturating_sub(c.get_hits.get())),
        ("get_expired", c.get_expired.get()),
        ("get_flushed", c.get_flushed.get()),
        ("delete_misses", c.delete_misses.get()),
        ("delete_hits", c.delete_hits.get()),
        ("incr_misses", c.incr_misses.get()),
        ("incr_hits", c.incr_hits.get()),
        ("decr_misses", c.decr_misses.get()),
        ("decr_hits", c.decr_hits.get()),
        ("cas_misses", c.cas_misses.get()),
        ("cas_hits", c.cas_hits.get()),
        ("cas_badval", c.cas_others.get()),
        ("touch_hits", c.touch_hits.get()),
        ("touch_misses", c.touch_misses.get()),
        ("store_too_large", c.too_large.get()),
        ("store_no_memory", c.no_memory.get()),
        ("auth_cmds", c.authentications.get()),
        ("auth_errors", c.refused_authentications.get()),
    ])
}

fn state(shared: &Shared, store: &Statistics) -> Lines {
    let c = &shared.counters;
    let mut lines = told([
        ("bytes_read", c.bytes_read.get()),
        ("bytes_written", c.bytes_written.get()),
        ("limit_maxbytes", limit(shared, store)),
        ("accepting_conns", 1),
        ("listen_disabled_num", 0),
        ("time_in_listen_disabled_us", 0),
        ("threads", shared.options.threads as u64),
        ("conn_yields", c.yields.get()),
    ]);
    if shared.settings.idle().is_some() {
        lines.push(("idle_kicks", c.idle_connections.get().to_string()));
    }
    lines.extend(told([
        ("hash_power_level", 0),
        ("hash_bytes", 0),
        ("hash_is_expanding", 0),
        ("slab_reassign_rescues", 0),
        ("slab_reassign_chunk_rescues", 0),
        ("slab_reassign_evictions_nomem", 0),
        ("slab_reassign_inline_reclaim", 0),
        ("slab_reassign_busy_items", 0),
        ("slab_reassign_busy_deletes", 0),
        ("slab_reassign_running", 0),
        ("slabs_moved", 0),
        ("malloc_fails", 0),
        ("log_worker_dropped", 0),
        ("log_worker_written", 0),
        ("log_watcher_skipped", 0),
        ("log_watcher_sent", 0),
        ("log_watchers", 0),
        ("unexpected_napi_ids", 0),
        ("round_robin_fallback", 0),
    ]));
    lines
}

fn memory(shared: &Shared, store: &Statistics, count: u64) -> Lines {
    let data = &shared.data;
    told([
        ("bytes", if count > 0 { store.used_bytes } else { 0 }),
        ("curr_items", count),
        ("total_items", shared.counters.stored.get()),
        ("slab_global_page_pool", 0),
        ("expired_unfetched", 0),
        ("evicted_unfetched", 0),
        ("evictions", data.evicted()),
        ("reclaimed", data.reclaimed.get()),
        ("crawler_reclaimed", data.expired_keys.get()),
        ("crawler_items_checked", 0),
        ("lrutail_reflocked", 0),
    ])
}

/// The lines of `stats items`: none if there are no items.
///
/// # Errors
/// Damage.
pub fn items(shared: &Shared) -> Result<Lines, Error> {
    let (store, count) = pool(shared)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    Ok(told([
        ("items:1:number", count),
        ("items:1:age", 0),
        ("items:1:mem_requested", store.used_bytes),
        ("items:1:evicted", shared.data.evicted()),
        ("items:1:evicted_nonzero", 0),
        ("items:1:evicted_time", 0),
        ("items:1:outofmemory", shared.counters.no_memory.get()),
        ("items:1:tailrepairs", 0),
        ("items:1:reclaimed", shared.data.reclaimed.get()),
        ("items:1:expired_unfetched", 0),
        ("items:1:evicted_unfetched", 0),
        ("items:1:crawler_reclaimed", shared.data.expired_keys.get()),
        ("items:1:crawler_items_checked", 0),
        ("items:1:lrutail_reflocked", 0),
    ]))
}

/// The lines of `stats slabs`: a chunk is an item, and the pool's memory is told in pages.
///
/// # Errors
/// Damage.
pub fn slabs(shared: &Shared) -> Result<Lines, Error> {
    let (store, count) = pool(shared)?;
    let pages = store.used_bytes.div_ceil(PAGE_BYTES);
    let c = &shared.counters;
    let mut lines = Vec::new();
    if count > 0 {
        lines = told([
            ("1:chunk_size", shared.longest.memcached as u64),
            ("1:chunks_per_page", count.div_ceil(pages.max(1))),
            ("1:total_pages", pages),
            ("1:total_chunks", count),
            ("1:used_chunks", count),
            ("1:free_chunks", 0),
            ("1:free_chunks_end", 0),
            ("1:get_hits", c.get_hits.get()),
            ("1:cmd_set", c.sets.get()),
            ("1:delete_hits", c.delete_hits.get()),
            ("1:incr_hits", c.incr_hits.get()),
            ("1:decr_hits", c.decr_hits.get()),
            ("1:cas_hits", c.cas_hits.get()),
            ("1:cas_badval", c.cas_others.get()),
            ("1:touch_hits", c.touch_hits.get()),
        ]);
    }
    lines.extend(told([
        ("active_slabs", u64::from(count > 0)),
        ("total_malloced", pages * PAGE_BYTES),
    ]));
    Ok(lines)
}

/// The lines of `stats settings` that mean something here.
///
/// # Errors
/// Damage.
pub fn settings(shared: &Shared) -> Result<Lines, Error> {
    let options = &shared.options;
    let asked = || options.memcached.iter().chain(&options.tls_memcached);
    let tcp = asked().find_map(|address| match address {
        Address::Tcp(address) => Some(address),
        Address::Unix(_) => None,
    });
    let unix = asked().find_map(|address| match address {
        Address::Unix(path) => Some(path.display().to_string()),
        Address::Tcp(_) => None,
    });
    let none = || "NULL".to_owned();
    let named = |name, value: &str| (name, value.to_owned());
    let counted = |name, number: u64| (name, number.to_string());
    let evicts = shared.data.evicts_beyond().is_some();
    Ok(vec![
        counted("maxbytes", limit(shared, &shared.data.statistics()?)),
        counted("maxconns", shared.settings.connections.load(Ordering::Relaxed)),
        counted("tcpport", tcp.map_or(0, |address| u64::from(address.port()))),
        counted("udpport", 0),
        ("inter", tcp.map_or_else(none, |address| address.ip().to_string())),
        counted("verbosity", 0),
        counted("oldest", 0),
        named("evictions", if evicts { "on" } else { "off" }),
        ("domain_socket", unix.unwrap_or_else(none)),
        named("shutdown_command", "no"),
        counted("num_threads", options.threads as u64),
        counted("num_threads_per_udp", 0),
        ("stat_key_prefix", char::from(DELIMITER).to_string()),
        named("detail_enabled", yes_no(shared.prefixes.is_on())),
        named("cas_enabled", "yes"),
        named("binding_protocol", "ascii"),
        named("auth_enabled_sasl", "no"),
        named("auth_enabled_ascii", yes_no(options.memcached_users.is_some())),
        counted("item_size_max", shared.longest.memcached as u64),
        named("maxconns_fast", "yes"),
        named("slab_reassign", "no"),
        counted("slab_automove", 0),
        named("lru_crawler", "no"),
        counted("lru_crawler_sleep", 0),
        counted("lru_crawler_tocrawl", 0),
        named("flush_enabled", "yes"),
        named("dump_enabled", "yes"),
        named("lru_maintainer_thread", "no"),
        named("lru_segmented", "no"),
        counted("hot_lru_pct", 0),
        counted("warm_lru_pct", 0),
        named("hot_max_factor", "0.00"),
        named("warm_max_factor", "0.00"),
        named("temp_lru", "no"),
        counted("idle_timeout", shared.settings.idle_seconds()),
        named("track_sizes", "no"),
        named("ssl_enabled", yes_no(!options.tls_memcached.is_empty())),
    ])
}

const fn yes_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}
