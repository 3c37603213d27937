//! What a signal that ends a command leaves behind: nothing that the command made for itself.

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::Bench;

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// Sends the signal; whether it was this that ended the process.
fn end(mut child: Child, signal: i32) {
    let sent = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().signal(), Some(signal));
}

/// Names in the folder in which commands are run.
fn names(bench: &Bench) -> Vec<String> {
    let entries = std::fs::read_dir(bench.path("")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Runs until there is something that it made, and then sends the signal.
fn made_and_removed(arguments: &[&str], signal: i32) {
    let bench = Bench::new();
    let mut child = bench.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while names(&bench).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?} ended");
        std::thread::yield_now();
    }
    end(child, signal);
    assert_eq!(names(&bench), [""; 0], "{arguments:?}");
}

#[test]
fn a_tour_that_is_ended_removes_its_pool_and_its_folder() {
    let bench = Bench::new();
    let mut child = bench.command(["tour"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.find_map(|line| Some(line.unwrap().strip_prefix("1. Made the pool ")?.to_owned())).unwrap();
    let path = Path::new(line.split(' ').next().unwrap());
    assert!(path.exists());
    end(child, SIGTERM);
    assert!(!path.exists() && !path.parent().unwrap().exists(), "{}", path.display());
}

#[test]
fn commands_that_are_ended_remove_what_they_made_at_a_given_place() {
    made_and_removed(&["tour", "--pool", "scratch"], SIGINT);
    made_and_removed(&["torture", "--kills", "1000000", "--pool", "scratch"], SIGTERM);
    made_and_removed(&["bench", "space", "--keys", "200000", "--pool", "scratch"], SIGINT);
    made_and_removed(&["bench", "growth", "--to", "1GiB", "--pool", "scratch"], SIGTERM);
    made_and_removed(&["bench", "stores", "--engines", "fjall", "--keys", "200000", "--pool", "scratch"], SIGTERM);
}

#[test]
fn what_somebody_else_has_at_the_place_is_left_alone() {
    let bench = Bench::new();
    bench.write("scratch", "precious");
    assert!(bench.fails(["torture", "--kills", "1", "--pool", "scratch"]).contains("exists already"));
    assert_eq!(common::content(&bench.path("scratch")), b"precious");
}
