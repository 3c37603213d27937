//! What `stats` tells.

use std::sync::atomic::Ordering;

use everleaf::Error;

use super::VERSION;
use crate::data::Work;
use crate::shared::Shared;

/// The lines of `stats`.
///
/// # Errors
/// Damage.
pub fn lines(shared: &Shared) -> Result<Vec<(&'static str, String)>, Error> {
    let c = &shared.counters;
    let store = shared.data.statistics()?;
    let misses = c.gets.get().saturating_sub(c.get_hits.get());
    let numbers = [
        ("pid", u64::from(std::process::id())),
        ("uptime", shared.began.elapsed().as_secs()),
        ("time", shared.data.now_ms() / 1000),
        ("pointer_size", 64),
        ("curr_connections", shared.open_connections.load(Ordering::Relaxed)),
        ("total_connections", c.connections.get()),
        ("max_connections", shared.settings.connections.load(Ordering::Relaxed)),
        ("rejected_connections", c.refused_connections.get()),
        ("idle_kicks", c.idle_connections.get()),
        ("cmd_get", c.gets.get()),
        ("cmd_set", c.sets.get()),
        ("cmd_flush", c.flushes.get()),
        ("cmd_touch", c.touch_hits.get() + c.touch_misses.get()),
        ("get_hits", c.get_hits.get()),
        ("get_misses", misses),
        ("delete_hits", c.delete_hits.get()),
        ("delete_misses", c.delete_misses.get()),
        ("incr_hits", c.incr_hits.get()),
        ("incr_misses", c.incr_misses.get()),
        ("decr_hits", c.decr_hits.get()),
        ("decr_misses", c.decr_misses.get()),
        ("cas_hits", c.cas_hits.get()),
        ("cas_misses", c.cas_misses.get()),
        ("cas_badval", c.cas_others.get()),
        ("touch_hits", c.touch_hits.get()),
        ("touch_misses", c.touch_misses.get()),
        ("auth_cmds", c.authentications.get()),
        ("auth_errors", c.refused_authentications.get()),
        ("bytes_read", c.bytes_read.get()),
        ("bytes_written", c.bytes_written.get()),
        ("limit_maxbytes", shared.data.evicts_beyond().unwrap_or(u64::MAX).min(store.max_bytes)),
        ("threads", shared.options.threads as u64),
        ("bytes", store.used_bytes),
        ("curr_items", Work::new(&shared.data, shared.data.now_ms()).count_keys(0)?),
        ("total_items", c.sets.get()),
        ("evictions", shared.data.evicted()),
    ];
    let mut lines = vec![("version", VERSION.to_owned())];
    lines.extend(numbers.map(|(name, number)| (name, number.to_string())));
    Ok(lines)
}

/// The lines of `stats settings`.
pub fn settings(shared: &Shared) -> Vec<(&'static str, String)> {
    let limits = &shared.options.limits;
    vec![
        ("maxconns", shared.settings.connections.load(Ordering::Relaxed).to_string()),
        ("item_size_max", limits.value_bytes.to_string()),
        ("num_threads", shared.options.threads.to_string()),
        ("idle_timeout", shared.settings.idle_seconds().to_string()),
        ("cas_enabled", "yes".to_owned()),
        ("evictions", if shared.data.evicts_beyond().is_some() { "on" } else { "off" }.to_owned()),
        ("flush_enabled", "yes".to_owned()),
        ("dump_enabled", "yes".to_owned()),
        ("binding_protocol", "ascii".to_owned()),
        ("auth_enabled_ascii", on_off(shared.options.memcached_users.is_some())),
    ]
}

fn on_off(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}
