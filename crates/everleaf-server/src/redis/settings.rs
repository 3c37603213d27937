//! CONFIG: settings that are told, and those that can be changed while it runs.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::call::Call;
use super::failure::{Failure, Outcome, SYNTAX};
use super::ignored::{self, refused};
use crate::Address;
use crate::data::DATABASES;
use crate::open_files::allow_files;
use crate::resp::argument::is;
use crate::resp::glob;
use crate::resp::number::{float, integer};
use crate::shared::{Classes, Shared};

/// A setting that can be changed: its name, and the numbers that it may have.
struct Changeable {
    name: &'static str,
    least: i64,
    most: i64,
    set: fn(&Shared, i64),
}

/// After how long who waits for a script is turned away: both names of it.
const BUSY: [Changeable; 2] = [busy("busy-reply-threshold"), busy("lua-time-limit")];

const fn busy(name: &'static str) -> Changeable {
    Changeable {
        name,
        least: 0,
        most: i64::MAX,
        set: |shared, number| shared.settings.busy_ms.store(number.unsigned_abs(), Relaxed),
    }
}

const CHANGEABLE: &[Changeable] = &[
    Changeable {
        name: "maxclients",
        least: 1,
        most: u32::MAX as i64,
        set: |shared, number| {
            allow_files(number.unsigned_abs());
            shared.settings.connections.store(number.unsigned_abs(), Relaxed);
        },
    },
    Changeable {
        name: "latency-monitor-threshold",
        least: 0,
        most: i64::MAX,
        set: |shared, number| shared.settings.latency_ms.store(number.unsigned_abs(), Relaxed),
    },
    Changeable {
        name: "slowlog-log-slower-than",
        least: -1,
        most: i64::MAX,
        set: |shared, number| shared.settings.slow_micros.store(number, Relaxed),
    },
    Changeable {
        name: "slowlog-max-len",
        least: 0,
        most: i64::MAX,
        set: |shared, number| shared.settings.slow_entries.store(number.unsigned_abs(), Relaxed),
    },
    Changeable {
        name: "stream-node-max-entries",
        least: 0,
        most: i64::MAX,
        set: |shared, number| {
            shared.settings.stream_node_entries.store(number.unsigned_abs(), Relaxed)
        },
    },
    Changeable {
        name: "timeout",
        least: 0,
        most: i32::MAX as i64,
        set: |shared, number| {
            shared.settings.set_idle(Duration::from_secs(number.unsigned_abs()));
        },
    },
    Changeable {
        name: "tracking-table-max-keys",
        least: 0,
        most: i64::MAX,
        set: |shared, number| shared.tracking.set_max_keys(number.unsigned_abs()),
    },
];

/// What Redis calls the choice of the keys that are evicted.
pub fn eviction_policy(call: &Call<'_, '_, '_>) -> &'static str {
    if call.shared.data.evicts_beyond().is_some() { "allkeys-lru" } else { "noeviction" }
}

/// Bytes of the pool beyond which keys are evicted, or nothing is added; 0: there is no such limit.
pub fn max_bytes(shared: &Shared) -> u64 {
    match shared.data.evicts_beyond() {
        Some(limit) => {
            if limit < u64::MAX {
                limit
            } else {
                0
            }
        }
        None => shared.settings.max_bytes.load(Relaxed),
    }
}

/// Where Redis' clients connect to, over the network.
fn ends(shared: &Shared) -> Vec<SocketAddr> {
    let ends = shared.options.redis.iter().filter_map(|address| match address {
        Address::Tcp(address) => Some(*address),
        Address::Unix(_) => None,
    });
    ends.collect()
}

fn set_max_bytes(shared: &Shared, bytes: u64) {
    if shared.data.evicts_beyond().is_some() {
        shared.data.evict_beyond(if bytes == 0 { u64::MAX } else { bytes });
    } else {
        shared.settings.max_bytes.store(bytes, Relaxed);
    }
}

fn settings(call: &Call<'_, '_, '_>) -> Vec<(&'static str, String)> {
    let settings = &call.shared.settings;
    let percents: Vec<_> = settings.percents.lock().iter().map(f64::to_string).collect();
    let ends = ends(call.shared);
    let mut known = vec![
        ("save", String::new()),
        ("appendonly", "no".to_owned()),
        ("appendfsync", "no".to_owned()),
        ("bind", ends.iter().map(|end| end.ip().to_string()).collect::<Vec<_>>().join(" ")),
        ("busy-reply-threshold", settings.busy_ms.load(Relaxed).to_string()),
        ("daemonize", yes_no(false)),
        ("databases", DATABASES.to_string()),
        ("latency-monitor-threshold", settings.latency_ms.load(Relaxed).to_string()),
        ("latency-tracking", yes_no(settings.tracks_latency.load(Relaxed))),
        ("latency-tracking-info-percentiles", percents.join(" ")),
        ("lua-time-limit", settings.busy_ms.load(Relaxed).to_string()),
        ("maxclients", settings.connections.load(Relaxed).to_string()),
        ("maxmemory", max_bytes(call.shared).to_string()),
        ("maxmemory-policy", eviction_policy(call).to_owned()),
        ("notify-keyspace-events", call.shared.notifications.classes().text()),
        ("port", ends.first().map_or(0, SocketAddr::port).to_string()),
        ("proto-max-bulk-len", call.shared.longest.redis.to_string()),
        ("replicaof", String::new()),
        ("slaveof", String::new()),
        ("slowlog-log-slower-than", settings.slow_micros.load(Relaxed).to_string()),
        ("slowlog-max-len", settings.slow_entries.load(Relaxed).to_string()),
        ("stream-node-max-entries", settings.stream_node_entries.load(Relaxed).to_string()),
        ("timeout", settings.idle_seconds().to_string()),
        ("tracking-table-max-keys", call.shared.tracking.max_keys().to_string()),
    ];
    let set = settings.ignored.lock();
    known.extend(
        ignored::all().map(|(name, first)| {
            (name, set.get(name).cloned().unwrap_or_else(|| first.to_owned()))
        }),
    );
    known
}

fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

/// Settings whose values are words: what one is told as, and how it is set. None: it is not one of
/// them.
fn worded(name: &'static str, value: &[u8]) -> Outcome<Option<Change>> {
    match name {
        "latency-tracking" => {
            let yes = is(value, "yes");
            if !yes && !is(value, "no") {
                return Err(refused(name, "argument must be 'yes' or 'no'"));
            }
            Ok(Some(Box::new(move |shared| shared.settings.tracks_latency.store(yes, Relaxed))))
        }
        "maxmemory" => {
            let why = "argument must be a memory value";
            let bytes = ignored::bytes(value).ok_or_else(|| refused(name, why))?;
            Ok(Some(Box::new(move |shared| set_max_bytes(shared, bytes.unsigned_abs()))))
        }
        "notify-keyspace-events" => {
            let why = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
            let classes = Classes::read(value).ok_or_else(|| refused(name, why))?;
            Ok(Some(Box::new(move |shared| shared.notifications.set(classes))))
        }
        "latency-tracking-info-percentiles" => {
            let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let percents: Option<Vec<f64>> = words.map(float).collect();
            let why = "Invalid latency-tracking-info-percentiles parameters";
            let percents = percents.ok_or_else(|| refused(name, why))?;
            if percents.iter().any(|percent| !(0.0..=100.0).contains(percent)) {
                let why = "latency-tracking-info-percentiles parameters should sit between \
                           [0.0,100.0]";
                return Err(refused(name, why));
            }
            Ok(Some(Box::new(move |shared| *shared.settings.percents.lock() = percents)))
        }
        name => Ok(ignored::value(name, value)?.map(|(name, told)| -> Change {
            Box::new(move |shared| drop(shared.settings.ignored.lock().insert(name, told)))
        })),
    }
}

/// What sets a setting.
type Change = Box<dyn FnOnce(&Shared)>;

/// What a pair of CONFIG SET changes; none: it has this value, and keeps it.
fn change(pair: &[&[u8]], known: &[(&'static str, String)]) -> Outcome<Option<Change>> {
    let [name, value] = pair else { return Err(SYNTAX.into()) };
    let Some((name, now)) = known.iter().find(|(known, _)| is(name, known)) else {
        return Err(Failure::Text(format!(
            "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
            name.escape_ascii()
        )));
    };
    if let Some(change) = worded(name, value)? {
        return Ok(Some(change));
    }
    let Some(setting) = CHANGEABLE.iter().chain(&BUSY).find(|setting| setting.name == *name) else {
        return match *name != "databases" && is(value, now) {
            true => Ok(None),
            false => Err(refused(name, "can't set immutable config")),
        };
    };
    let number = integer(value)
        .ok_or_else(|| refused(name, "argument couldn't be parsed into an integer"))?;
    let Changeable { least, most, set, .. } = setting;
    if !(*least..=*most).contains(&number) {
        let why = format!("argument must be between {least} and {most} inclusive");
        return Err(refused(name, &why));
    }
    Ok(Some(Box::new(move |shared| set(shared, number))))
}

/// Sets all, or nothing.
fn set(call: &mut Call<'_, '_, '_>) -> Outcome {
    let pairs = call.rest(2);
    if !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    let known = settings(call);
    let changes = pairs.chunks(2).map(|pair| change(pair, &known)).collect::<Outcome<Vec<_>>>()?;
    for (at, pair) in pairs.chunks(2).enumerate() {
        if pairs.chunks(2).take(at).any(|before| before[0].eq_ignore_ascii_case(pair[0])) {
            let name = pair[0].escape_ascii().to_string();
            return Err(refused(&name, "duplicate parameter"));
        }
    }
    changes.into_iter().flatten().for_each(|change| change(call.shared));
    call.reply.ok();
    Ok(())
}

/// CONFIG.
pub fn config(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.args[1] {
        what if is(what, "GET") => {
            let patterns = call.rest(2);
            let asked = |name: &str| {
                patterns.iter().any(|p| glob::matches(&p.to_ascii_lowercase(), name.as_bytes()))
            };
            let found: Vec<_> =
                settings(call).into_iter().filter(|(name, _)| asked(name)).collect();
            call.reply.map(found.len());
            for (name, value) in found {
                call.reply.bulk(name);
                call.reply.bulk(value);
            }
        }
        what if is(what, "SET") => set(call)?,
        what if is(what, "RESETSTAT") => {
            call.shared.counters.reset();
            call.shared.data.reset_counters();
            call.shared.metrics.redis.reset();
            call.shared.errors.reset();
            call.reply.ok();
        }
        what if is(what, "REWRITE") => {
            return Err("ERR The server is running without a config file".into());
        }
        _ => call.help(&[
            "GET <pattern>",
            "    Return parameters matching the glob-like <pattern> and their values.",
            "SET <directive> <value>",
            "    Set the configuration <directive> to <value>.",
            "RESETSTAT",
            "    Reset statistics reported by the INFO command.",
            "REWRITE",
            "    Rewrite the configuration file.",
        ]),
    }
    Ok(())
}
