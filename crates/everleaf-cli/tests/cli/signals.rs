//! What a signal that ends a command leaves behind: nothing that the command made for itself.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use crate::common::ended::{SIGTERM, end, interrupt, made_and_removed, names, send};
use crate::common::{Bench, json};

/// A pool `p` of 8 MB.
fn large() -> Bench {
    let bench = Bench::with_pool();
    let value = "x".repeat(1000);
    bench.write("lines", (0..8000).map(|i| format!("key {i}\t{value}\n")).collect::<String>());
    bench.ok(["load", "p", "lines", "--format", "tsv"]);
    std::fs::remove_file(bench.path("lines")).unwrap();
    bench
}

/// Runs what makes the file `new`, sends the signal when there is something of it, and this again
/// until the signal came before the end. Whenever it comes, the file is there whole or not at all,
/// and nothing else is.
fn whole_or_not_at_all(bench: &Bench, arguments: &[&str], signal: i32) {
    let before = names(bench);
    loop {
        let mut child =
            bench.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let status = loop {
            match child.try_wait().unwrap() {
                // It has no number any more that a signal could be sent to.
                Some(status) => break status,
                None if names(bench) != before => break send(child, signal),
                None => std::thread::yield_now(),
            }
        };
        if status.signal() == Some(signal) {
            assert_eq!(names(bench), before, "{arguments:?}");
            return;
        }
        assert!(status.success(), "{arguments:?}: {status}");
        std::fs::remove_file(bench.path("new")).unwrap();
        assert_eq!(names(bench), before, "{arguments:?}");
    }
}

#[test]
fn a_tour_that_is_ended_removes_its_pool_and_its_folder() {
    let bench = Bench::new();
    let mut child =
        bench.command(["tour"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines
        .find_map(|line| Some(line.unwrap().strip_prefix("1. Made the pool ")?.to_owned()))
        .unwrap();
    let path = Path::new(line.split(' ').next().unwrap());
    assert!(path.exists());
    end(child, SIGTERM);
    assert!(!path.exists() && !path.parent().unwrap().exists(), "{}", path.display());
}

#[test]
fn a_tour_that_is_ended_removes_what_it_made_at_a_given_place() {
    made_and_removed(&["tour", "--pool", "scratch"], interrupt());
}

#[test]
fn a_copy_a_dump_or_a_salvage_that_is_ended_leaves_nothing() {
    let bench = large();
    whole_or_not_at_all(&bench, &["copy", "p", "new"], interrupt());
    whole_or_not_at_all(&bench, &["dump", "p", "new"], SIGTERM);
    whole_or_not_at_all(&bench, &["check", "p", "--salvage", "new"], interrupt());
}

#[test]
fn a_restore_that_is_ended_while_it_waits_for_its_input_leaves_the_empty_pool() {
    let bench = large();
    let dump = bench.run(["dump", "p"]).stdout;
    bench.ok(["create", "q", "--size", "1MiB", "--durability", "process"]);
    let before = names(&bench);
    for signal in [interrupt(), SIGTERM] {
        let mut child = bench
            .command(["restore", "q"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // Most of it was read, as in a pipe there is little room.
        input.write_all(&dump[..dump.len() - 10]).unwrap();
        end(child, signal);
        assert_eq!(names(&bench), before);
        assert_eq!(json(&bench.ok(["info", "q", "--json"]))["keys"], 0);
    }
    bench.write("d", &dump);
    bench.ok(["restore", "q", "d"]);
    assert_eq!(bench.ok(["scan", "q"]), bench.ok(["scan", "p"]));
}

#[test]
fn a_load_that_is_ended_closes_the_pool_and_says_what_is_acknowledged() {
    let bench = Bench::with_pool();
    for (signal, replaced) in [(interrupt(), 0), (SIGTERM, 100)] {
        let mut child = bench
            .command(["load", "p", "-", "--acknowledge-every", "100"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let lines: String = (0..100).map(|i| format!("key {i}\n")).collect();
        input.write_all(lines.as_bytes()).unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "acknowledged 100");
        // It waits for more, and the signal reaches it there.
        end(child, signal);
        let last = said.next().unwrap().unwrap();
        assert_eq!(last, format!("acknowledged 100 records ({replaced} replaced)"));
        let info = json(&bench.ok(["info", "p", "--json"]));
        assert_eq!((&info["keys"], &info["shutdown"]), (&100.into(), &"clean".into()));
    }
}

#[test]
fn what_somebody_else_has_at_the_place_is_left_alone() {
    let bench = Bench::new();
    bench.write("scratch", "precious");
    assert!(bench.fails(["tour", "--pool", "scratch"]).contains("exists already"));
    assert_eq!(crate::common::content(&bench.path("scratch")), b"precious");
    bench.ok(["create", "p", "--size", "1MiB"]);
    for arguments in [&["copy", "p", "scratch"][..], &["dump", "p", "scratch"]] {
        bench.fails(arguments);
        assert_eq!(crate::common::content(&bench.path("scratch")), b"precious");
    }
}

#[test]
fn a_server_that_is_ended_when_it_has_just_begun_closes_its_pool() {
    let bench = Bench::with_pool();
    for _ in 0..20 {
        let mut child = bench
            .command(["serve", "p", "--redis", "unix:socket"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::with_capacity(1, child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("redis at"), "{line}");
        assert!(send(child, SIGTERM).success());
    }
}
