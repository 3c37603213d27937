//! Commands about the server and its databases.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use everleaf::DurabilityMode;

use super::VERSION;
use super::call::{Call, Wait};
use super::failure::{Failure, Outcome, SYNTAX};
use super::settings::eviction_policy;
use crate::data::{Awaited, DATABASES, Kind};
use crate::resp::argument::is;

/// DBSIZE.
pub fn dbsize(call: &mut Call<'_, '_, '_>) -> Outcome {
    let keys = call.work.count_keys(call.database)?;
    call.reply.integer(keys as i64);
    Ok(())
}

fn flush(call: &mut Call<'_, '_, '_>, databases: std::ops::Range<u8>) -> Outcome {
    match call.rest(1) {
        [] => {}
        [how] if is(how, "ASYNC") || is(how, "SYNC") => {}
        _ => return Err(SYNTAX.into()),
    }
    call.work.flush(databases)?;
    call.reply.ok();
    Ok(())
}

/// FLUSHDB.
pub fn flushdb(call: &mut Call<'_, '_, '_>) -> Outcome {
    flush(call, call.database..call.database + 1)
}

/// FLUSHALL.
pub fn flushall(call: &mut Call<'_, '_, '_>) -> Outcome {
    flush(call, 0..DATABASES)
}

/// ECHO.
pub fn echo(call: &mut Call<'_, '_, '_>) -> Outcome {
    call.reply.bulk(call.args[1]);
    Ok(())
}

/// TIME.
pub fn time(call: &mut Call<'_, '_, '_>) -> Outcome {
    let now_ms = call.work.now_ms;
    call.reply.array(2);
    call.reply.bulk((now_ms / 1000).to_string());
    call.reply.bulk((now_ms % 1000 * 1000).to_string());
    Ok(())
}

/// What a connection has written is durable when it is replied to, but where writes are durable
/// late.
fn sync(call: &Call<'_, '_, '_>) -> Outcome {
    let mode = call.work.data.store().capabilities().durability_mode;
    // Who has waited for replicas has synced before.
    let has_synced = call.blocking.place.is_some();
    if matches!(mode, DurabilityMode::Buffered { .. }) && !has_synced {
        call.work.data.sync()?;
    }
    Ok(())
}

/// Waits for as long as replicas are waited for, of which there are none.
fn waits_for(call: &mut Call<'_, '_, '_>, replicas: i64, timeout: usize) -> Outcome {
    let timeout = call.timeout_ms(timeout)?;
    if replicas > 0 && call.blocking.may_wait {
        let (rows, awaited) = (Vec::new(), Awaited::default());
        call.blocking.wait = Some(Wait { rows, kind: Kind::String, awaited, timeout });
    }
    Ok(())
}

/// WAIT: there are no replicas; what was written is durable when this is answered.
pub fn wait(call: &mut Call<'_, '_, '_>) -> Outcome {
    let replicas = call.integer(1)?;
    waits_for(call, replicas, 2)?;
    sync(call)?;
    call.reply.integer(0);
    Ok(())
}

/// WAITAOF: the pool is the only copy; what was written is durable when this is answered.
pub fn waitaof(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (_, replicas) = (call.range(1, 0, 1)?, call.integer(2)?);
    if replicas < 0 {
        return Err("ERR value is out of range, must be positive".into());
    }
    waits_for(call, replicas, 3)?;
    sync(call)?;
    call.reply.array(2);
    call.reply.integer(1);
    call.reply.integer(0);
    Ok(())
}

/// FUNCTION FLUSH: there are none.
pub fn function(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.rest(2) {
        [] => {}
        [how] if is(how, "ASYNC") || is(how, "SYNC") => {}
        [_] => return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into()),
        _ => {
            let flush = call.args[1].escape_ascii();
            return Err(Failure::Text(format!(
                "ERR unknown subcommand or wrong number of arguments for '{flush}'. Try FUNCTION \
                 HELP."
            )));
        }
    }
    call.reply.ok();
    Ok(())
}

// ---- INFO
// -------------------------------------------------------------------------------------------------

/// INFO.
pub fn info(call: &mut Call<'_, '_, '_>) -> Outcome {
    let wanted = |section: &str| {
        let every = ["all", "default", "everything"];
        let asked = call.rest(1);
        asked.is_empty()
            || asked.iter().any(|s| is(s, section) || every.iter().any(|every| is(s, every)))
    };
    let mut text = String::new();
    let shared = call.shared;
    let store = shared.data.statistics()?;
    let max_bytes = shared.data.evicts_beyond().unwrap_or(u64::MAX).min(store.max_bytes);
    let mut section = |name: &str, lines: &[(&str, String)]| {
        if wanted(name) {
            // Writing to a string does not fail.
            let _ = write!(text, "{}# {name}\r\n", if text.is_empty() { "" } else { "\r\n" });
            for (name, value) in lines {
                let _ = write!(text, "{name}:{value}\r\n");
            }
        }
    };
    section(
        "Server",
        &[
            ("redis_version", VERSION.to_owned()),
            ("everleaf_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("redis_mode", "standalone".to_owned()),
            ("process_id", std::process::id().to_string()),
            ("uptime_in_seconds", shared.began.elapsed().as_secs().to_string()),
        ],
    );
    let open = shared.open_connections.load(Ordering::Relaxed);
    section(
        "Clients",
        &[
            ("connected_clients", open.to_string()),
            ("blocked_clients", shared.data.waiting.clients().to_string()),
        ],
    );
    section(
        "Memory",
        &[
            ("used_memory", store.used_bytes.to_string()),
            ("maxmemory", max_bytes.to_string()),
            ("maxmemory_policy", eviction_policy(call).to_owned()),
        ],
    );
    let (backups, last) = (&shared.backups, shared.backups.last());
    let took = last.took.map(|took| took.as_secs());
    section(
        "Persistence",
        &[
            ("loading", "0".to_owned()),
            ("aof_enabled", "0".to_owned()),
            ("rdb_bgsave_in_progress", u8::from(backups.in_progress()).to_string()),
            ("rdb_last_save_time", (last.saved_ms / 1000).to_string()),
            ("rdb_last_bgsave_status", if last.failed { "err" } else { "ok" }.to_owned()),
            ("rdb_last_bgsave_time_sec", took.map_or(-1, |took| took as i64).to_string()),
            ("everleaf_durability", store.durability_mode.to_string()),
            ("everleaf_recovery_ms", format!("{:.3}", store.recovery_ms)),
        ],
    );
    let counters = shared.counters.all();
    let counters: Vec<_> = counters.iter().map(|(name, n)| (*name, n.to_string())).collect();
    let evicted = ("evicted_keys", shared.data.evicted().to_string());
    let expired = ("expired_keys", shared.data.expired_keys.get().to_string());
    let (channels, patterns) = shared.channels.counts();
    let subscribed = [("pubsub_channels", channels), ("pubsub_patterns", patterns)];
    let subscribed = subscribed.map(|(name, count)| (name, count.to_string()));
    section("Stats", &[&counters[..], &[expired, evicted], &subscribed].concat());
    section("Replication", &[("role", "master".into()), ("connected_slaves", "0".into())]);
    section("Cluster", &[("cluster_enabled", "0".to_owned())]);
    if wanted("Keyspace") {
        let mut lines = Vec::new();
        for database in 0..DATABASES {
            let keys = call.work.count_keys(database)?;
            if keys > 0 {
                let expire = call.work.count_expiring(database)?;
                let line = format!("keys={keys},expires={expire},avg_ttl=0");
                lines.push((format!("db{database}"), line));
            }
        }
        let lines: Vec<_> = lines.iter().map(|(name, line)| (&name[..], line.clone())).collect();
        section("Keyspace", &lines);
    }
    call.reply.text(&text);
    Ok(())
}
