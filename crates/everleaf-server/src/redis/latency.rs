//! LATENCY: what took long, and how long commands took.

use super::call::Call;
use super::failure::{Failure, Outcome};
use super::names::is_command;
use crate::metrics::Command;
use crate::resp::argument::is;

/// LATENCY.
pub fn latency(call: &mut Call<'_, '_, '_>) -> Outcome {
    let latency = &call.shared.latency;
    match call.args[1] {
        what if is(what, "LATEST") => {
            let all = latency.all();
            call.reply.array(all.len());
            for (kind, events) in all {
                let (at, ms) = events.last.back().copied().unwrap_or_default();
                call.reply.array(4);
                call.reply.bulk(kind);
                [at, ms, events.longest_ms].iter().for_each(|n| call.reply.integer(*n as i64));
            }
        }
        what if is(what, "HISTORY") => {
            let kind = String::from_utf8_lossy(call.args[2]);
            let events = latency.all().remove(&*kind).unwrap_or_default();
            call.reply.array(events.last.len());
            for (at, ms) in events.last {
                call.reply.array(2);
                call.reply.integer(at as i64);
                call.reply.integer(ms as i64);
            }
        }
        what if is(what, "RESET") => {
            let mut kinds: Vec<String> = latency.all().into_keys().map(str::to_owned).collect();
            if call.args.len() > 2 {
                let named = |kind: &String| call.rest(2).iter().any(|arg| is(arg, kind));
                kinds.retain(named);
            }
            let forgotten = kinds.iter().filter(|kind| latency.forget(kind)).count();
            call.reply.count(forgotten);
        }
        what if is(what, "DOCTOR") => doctor(call),
        what if is(what, "HISTOGRAM") => histogram(call),
        what if is(what, "GRAPH") => {
            let kind = call.args[2].escape_ascii();
            let sentence = format!("ERR No samples available for event '{kind}'");
            if !latency.all().contains_key(&*String::from_utf8_lossy(call.args[2])) {
                return Err(Failure::Text(sentence));
            }
            return Err("ERR no graph is drawn here; use LATENCY HISTORY".into());
        }
        _ => call.help(&[
            "DOCTOR",
            "    Return a human readable report of what took long.",
            "HISTOGRAM [COMMAND ...]",
            "    Return how long commands took: counts up to bounds in microseconds.",
            "HISTORY <event>",
            "    Return time-latency samples for the <event> class.",
            "LATEST",
            "    Return the latest latency samples for all events.",
            "RESET [<event> ...]",
            "    Reset latency data of one or more <event> classes",
            "    (default: reset all data for all event classes).",
        ]),
    }
    Ok(())
}

fn doctor(call: &mut Call<'_, '_, '_>) {
    let all = call.shared.latency.all();
    let text = if all.is_empty() {
        "Nothing took as long as latency-monitor-threshold says (0: nothing is watched).\n"
            .to_owned()
    } else {
        let line = |(kind, events): (&str, &crate::shared::Events)| {
            let count = events.last.len();
            format!("{kind}: {count} times lately, at most {} ms.\n", events.longest_ms)
        };
        let lines: String = all.iter().map(|(kind, events)| line((kind, events))).collect();
        lines + "SLOWLOG GET tells which commands took long.\n"
    };
    call.reply.text(&text);
}

/// Whether a command is asked for by a name, which may be that of all with second words.
fn is_asked(command: &Command, asked: &[&[u8]]) -> bool {
    let long = command.name.to_ascii_lowercase();
    let short = long.split('|').next().unwrap_or_default();
    asked.is_empty() || asked.iter().any(|word| is(word, &long) || is(word, short))
}

fn histogram(call: &mut Call<'_, '_, '_>) {
    let mut commands = call.shared.metrics.redis.commands();
    commands.retain(|command| {
        is_command(command.name) && command.times.count() > 0 && is_asked(command, call.rest(2))
    });
    call.reply.map(commands.len());
    for command in commands {
        call.reply.bulk(command.name.to_ascii_lowercase());
        call.reply.map(2);
        call.reply.bulk("calls");
        call.reply.integer(command.times.count() as i64);
        call.reply.bulk("histogram_usec");
        let (mut below, mut told) = (0, Vec::new());
        for (at, bucket) in command.times.buckets.iter().enumerate().filter(|(_, b)| **b > 0) {
            below += bucket;
            let last = command.times.bounds.len() - 1;
            told.push((command.times.bounds[at.min(last)].div_ceil(1000), below));
        }
        call.reply.map(told.len());
        for (micros, below) in told {
            call.reply.integer(micros as i64);
            call.reply.integer(below as i64);
        }
    }
}
