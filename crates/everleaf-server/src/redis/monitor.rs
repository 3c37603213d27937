//! MONITOR: a client is told of every command.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use super::failure::Outcome;
use super::session::Session;
use super::table::find;
use super::timing;
use crate::resp::argument::is;
use crate::resp::reply::Reply;

/// What stands in the place of a password.
const HIDDEN: &[u8] = b"(redacted)";

/// Commands that are not told, as in Redis: those of who operates the server.
const UNTOLD: &[&str] = &[
    "acl",
    "bgsave",
    "config",
    "client|kill",
    "client|list",
    "client|no-evict",
    "client|pause",
    "client|unblock",
    "client|unpause",
    "failover",
    "latency",
    "module",
    "monitor",
    "save",
    "slowlog",
    "unknown",
];

fn is_told(name: &str) -> bool {
    let short = name.split('|').next().unwrap_or_default();
    let untold = UNTOLD.contains(&name) || UNTOLD.contains(&short);
    !untold || name == "acl|whoami" || name == "acl|cat"
}

/// An argument as Redis prints it.
fn print(line: &mut String, argument: &[u8]) {
    line.push('"');
    for byte in argument {
        match byte {
            b'\\' | b'"' => line.extend(['\\', *byte as char]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            7 => line.push_str("\\a"),
            8 => line.push_str("\\b"),
            b' '..=b'~' => line.push(*byte as char),
            byte => {
                // Writing to a string does not fail.
                let _ = write!(line, "\\x{byte:02x}");
            }
        }
    }
    line.push('"');
}

/// Which arguments are passwords, or names of users beside them.
fn is_hidden(args: &[&[u8]], at: usize) -> bool {
    if is(args[0], "AUTH") {
        return at > 0;
    }
    let auth = args.iter().skip(2).position(|arg| is(arg, "AUTH")).map(|auth| auth + 2);
    is(args[0], "HELLO") && auth.is_some_and(|auth| (auth + 1..=auth + 2).contains(&at))
}

/// The line that tells of a command of a client in a database.
fn told(args: &[&[u8]], database: u8, client: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, micros) = (now.as_secs(), now.subsec_micros());
    let mut line = format!("+{seconds}.{micros:06} [{database} {client}]");
    for (at, arg) in args.iter().enumerate() {
        line.push(' ');
        print(&mut line, if is_hidden(args, at) { HIDDEN } else { arg });
    }
    line.push_str("\r\n");
    line
}

impl Session {
    /// MONITOR.
    pub(super) fn begin_monitor(&mut self, reply: &mut Reply<'_>) -> Outcome {
        if self.unsent.is_some() {
            return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
        }
        if self.monitor.is_none() {
            self.monitor = Some(self.shared.monitors.enter(&self.client.mailbox));
        }
        reply.ok();
        Ok(())
    }

    /// Tells those who monitor of a command that was done, and of those that it ran as a script.
    pub(super) fn feed_monitors(&mut self, args: &[&[u8]]) {
        let lines = self.lines_for_monitors(args);
        lines.iter().for_each(|line| self.shared.monitors.tell(line));
    }

    /// What they are told of it; its place among the names is
    /// [`last_command`](Session::last_command).
    pub(super) fn lines_for_monitors(&mut self, args: &[&[u8]]) -> Vec<String> {
        let within = std::mem::take(&mut self.monitored);
        if self.shared.monitors.is_empty() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        if is_told(&timing::name(self.last_command)) {
            let peer = self.client.peer();
            let peer =
                if self.is_local { format!("unix:{}", peer.trim_end_matches(":0")) } else { peer };
            lines.push(told(args, self.database, &peer));
        }
        lines.extend(within);
        lines
    }

    /// What they will be told of a command of a script.
    pub(super) fn monitored_within(&self, args: &[&[u8]], database: u8) -> Option<String> {
        let is_told = || is_told(&timing::name(timing::command(find(args[0]), args)));
        let is_wanted = !self.shared.monitors.is_empty() && is_told();
        is_wanted.then(|| told(args, database, "lua"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_printed_as_redis_prints_them() {
        let mut line = String::new();
        print(&mut line, b"a \"b\" \\ \r\n\t\x07\x08\x00\xff");
        assert_eq!(line, "\"a \\\"b\\\" \\\\ \\r\\n\\t\\a\\b\\x00\\xff\"");
    }

    #[test]
    fn passwords_are_hidden() {
        let hidden = |line: &'static str| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            (0..args.len()).filter(|at| is_hidden(&args, *at)).collect::<Vec<_>>()
        };
        assert_eq!(hidden("auth secret"), [1]);
        assert_eq!(hidden("AUTH user secret"), [1, 2]);
        assert_eq!(hidden("HELLO 3 SETNAME x AUTH user secret"), [5, 6]);
        assert!(hidden("SET auth secret").is_empty() && hidden("HELLO 3").is_empty());
    }
}
