//! The file of an open pool becomes shorter.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};

use crate::common::{Bench, Ran};

/// A pool `p` without a log, so that its file is mapped, with a few entries.
pub fn mapped_pool() -> Bench {
    let bench = Bench::new();
    bench.ok(["create", "p", "--size", "4MiB", "--durability", "process"]);
    bench.ok(["put", "p", "leaf", "a blade"]);
    bench
}

/// Truncates the file of the pool `p`.
pub fn truncate(bench: &Bench) {
    let file = OpenOptions::new().write(true).open(bench.path("p")).unwrap();
    file.set_len(8192).unwrap();
}

fn started(bench: &Bench, arguments: &[&str]) -> Child {
    let mut command = bench.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// One sentence that names the pool, and exit code 1.
#[track_caller]
fn told(child: Child) {
    let sentence = Ran::new(child.wait_with_output().unwrap()).failed();
    assert!(sentence.contains("/p was truncated while it was open"), "{sentence}");
}

#[test]
fn a_pool_that_is_truncated_under_a_shell_is_one_sentence() {
    let bench = mapped_pool();
    for arguments in [&["shell", "p", "--read-only"][..], &["shell", "p"]] {
        let mut shell = started(&bench, arguments);
        let mut input = shell.stdin.take().unwrap();
        input.write_all(b"get leaf\n").unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
        let whole = crate::common::content(&bench.path("p"));
        truncate(&bench);
        input.write_all(b"scan\nput wood many trees\ncheck\n").unwrap();
        drop(input);
        told(shell);
        bench.write("p", whole);
    }
}

#[test]
fn a_pool_that_is_truncated_under_a_load_is_one_sentence() {
    let bench = mapped_pool();
    let mut load = started(&bench, &["load", "p", "-", "--acknowledge-every", "1"]);
    let mut input = load.stdin.take().unwrap();
    input.write_all(b"wood\n").unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, load.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "acknowledged 1\n");
    truncate(&bench);
    // It may have ended before it has read all of this.
    let _ = input.write_all("more\nand more\n".repeat(1000).as_bytes());
    drop(input);
    told(load);
}

#[test]
fn a_pool_that_is_truncated_under_a_server_is_one_sentence() {
    let bench = mapped_pool();
    let mut server = started(&bench, &["serve", "p", "--beside", "--redis", "unix:socket"]);
    let mut stderr = BufReader::with_capacity(1, server.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("redis at unix:socket"), "{line}");
    truncate(&bench);
    // The server looks through its keys, so it may have ended by itself.
    if let Ok(mut client) = std::os::unix::net::UnixStream::connect(bench.path("socket")) {
        let _ = client.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n");
    }
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("/p was truncated while it was open"), "{said}");
    assert_eq!((said.lines().count(), server.wait().unwrap().code()), (1, Some(1)), "{said}");
}

#[test]
fn a_pool_with_a_log_that_is_truncated_is_not_written_and_its_close_says_so() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "leaf", "a blade"]);
    let mut shell = started(&bench, &["shell", "p"]);
    let mut input = shell.stdin.take().unwrap();
    input.write_all(b"get leaf\n").unwrap();
    shell.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    truncate(&bench);
    input.write_all(b"put wood many\n").unwrap();
    drop(input);
    let ended = shell.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("truncated while it was open"), "{said}");
    assert_eq!(crate::common::content(&bench.path("p")).len(), 8192);
    assert!(bench.fails(["get", "p", "leaf"]).contains("the file is truncated"));
}

#[test]
fn another_cause_of_the_signal_ends_the_process_by_it() {
    use std::os::unix::process::ExitStatusExt;
    const SIGBUS: i32 = 7;
    let bench = mapped_pool();
    let mut shell = started(&bench, &["shell", "p"]);
    // It is held, so that the shell does not come to its end.
    let mut input = shell.stdin.take().unwrap();
    input.write_all(b"get leaf\n").unwrap();
    shell.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    let kill = std::process::Command::new("kill").args(["-BUS", &shell.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert_eq!(shell.wait().unwrap().signal(), Some(SIGBUS));
}
