//! SLOWLOG: commands that took long.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use super::call::{Call, Failure, Outcome, is};

/// Arguments of a command that are kept, and bytes of each.
const KEPT_ARGUMENTS: usize = 32;
const KEPT_BYTES: usize = 128;

/// A command that took long.
struct Slow {
    number: u64,
    at_ms: u64,
    took: Duration,
    arguments: Vec<Vec<u8>>,
    peer: String,
    name: Vec<u8>,
}

/// The last of them; the latest is the first.
#[derive(Default)]
pub struct Slowlog {
    inner: Mutex<(u64, VecDeque<Slow>)>,
}

fn kept(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let shown = if args.len() > KEPT_ARGUMENTS { KEPT_ARGUMENTS - 1 } else { args.len() };
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for arg in &args[..shown] {
        kept.push(match arg.get(KEPT_BYTES..) {
            Some(cut) if !cut.is_empty() => {
                let more = format!("... ({} more bytes)", cut.len());
                [&arg[..KEPT_BYTES], more.as_bytes()].concat()
            }
            _ => arg.to_vec(),
        });
    }
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}

impl Slowlog {
    /// Adds a command, and forgets the oldest beyond `limit`.
    pub fn add(
        &self,
        args: &[&[u8]],
        took: Duration,
        at_ms: u64,
        (peer, name): (&str, &[u8]),
        limit: u64,
    ) {
        let mut inner = self.inner.lock();
        let (next, log) = &mut *inner;
        let slow = Slow {
            number: *next,
            at_ms,
            took,
            arguments: kept(args),
            peer: peer.to_owned(),
            name: name.to_vec(),
        };
        *next += 1;
        log.push_front(slow);
        log.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
}

/// SLOWLOG.
pub fn slowlog(call: &mut Call<'_, '_, '_>) -> Outcome {
    let log = &call.shared.slowlog;
    match call.args[1] {
        what if is(what, "LEN") => call.reply.count(log.inner.lock().1.len()),
        what if is(what, "RESET") => {
            log.inner.lock().1.clear();
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
    let inner = call.shared.slowlog.inner.lock();
    let (_, log) = &*inner;
    call.reply.array(count.min(log.len()));
    for slow in log.iter().take(count) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_command_is_bounded() {
        let long = [b'x'; 1000];
        let args = vec![&long[..]; 40];
        let kept = kept(&args);
        assert_eq!(kept.len(), KEPT_ARGUMENTS);
        assert!(kept[0].ends_with(b"x... (872 more bytes)"));
        assert_eq!(kept[31], b"... (9 more arguments)");
    }
}
