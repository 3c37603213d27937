//! SLOWLOG: commands that took long.

use super::call::Call;
use super::failure::{Failure, Outcome};
use crate::resp::argument::is;

/// SLOWLOG.
pub fn slowlog(call: &mut Call<'_, '_, '_>) -> Outcome {
    let log = &call.shared.slowlog;
    match call.args[1] {
        what if is(what, "LEN") => call.reply.count(log.count()),
        what if is(what, "RESET") => {
            log.clear();
            call.reply.ok();
        }
        what if is(what, "HELP") => call.help(&[
            "GET [<count>]",
            "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
            "    Entries are made of:",
            "    id, timestamp, time in microseconds, arguments array, client IP and port,",
            "    client name",
            "LEN",
            "    Return the length of the slowlog.",
            "RESET",
            "    Reset the slowlog.",
        ]),
        what if call.args.len() > 3 => {
            return Err(Failure::Text(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try SLOWLOG HELP.",
                what.escape_ascii()
            )));
        }
        _ => {
            let sentence = "ERR count should be greater than or equal to -1";
            let count = match call.args.get(2) {
                None => 10,
                Some(_) if call.integer(2).is_ok_and(|count| count == -1) => usize::MAX,
                Some(_) => usize::try_from(call.at_least(2, 0, sentence)?).unwrap_or(usize::MAX),
            };
            get(call, count);
        }
    }
    Ok(())
}

fn get(call: &mut Call<'_, '_, '_>, count: usize) {
    let latest = call.shared.slowlog.latest(count);
    call.reply.array(latest.len());
    for slow in &latest {
        call.reply.array(6);
        call.reply.integer(slow.number as i64);
        call.reply.integer((slow.at_ms / 1000) as i64);
        call.reply.integer(slow.took.as_micros() as i64);
        call.reply.array(slow.arguments.len());
        slow.arguments.iter().for_each(|argument| call.reply.bulk(argument));
        call.reply.bulk(&slow.peer);
        call.reply.bulk(&slow.name);
    }
}
