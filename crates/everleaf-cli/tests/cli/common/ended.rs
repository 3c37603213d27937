//! Commands that a signal ends.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::Bench;

pub const SIGTERM: i32 = 15;

/// SIGINT; or SIGTERM where this test was started to ignore SIGINT, as a script's command in the
/// background is: so the commands do.
pub fn interrupt() -> i32 {
    const SIGINT: i32 = 2;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    if ignored & 1 << (SIGINT - 1) == 0 { SIGINT } else { SIGTERM }
}

/// Sends the signal; it must be this that ends the process.
#[track_caller]
pub fn end(child: Child, signal: i32) {
    assert_eq!(send(child, signal).signal(), Some(signal));
}

/// Sends the signal to a process that was not waited for yet; how it ended.
pub fn send(mut child: Child, signal: i32) -> ExitStatus {
    let sent =
        Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    child.wait().unwrap()
}

/// Names in the folder in which commands are run, in order.
pub fn names(bench: &Bench) -> Vec<String> {
    let entries = std::fs::read_dir(bench.path("")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs until there is something that it made, and then sends the signal.
pub fn made_and_removed(arguments: &[&str], signal: i32) {
    let bench = Bench::new();
    let mut child =
        bench.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while names(&bench).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?} ended");
        std::thread::yield_now();
    }
    end(child, signal);
    assert_eq!(names(&bench), [""; 0], "{arguments:?}");
}
