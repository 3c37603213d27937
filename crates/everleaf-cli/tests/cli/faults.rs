//! System calls of a salvage that fail: what an exit of 0 has saved is everything.
//! `tests/faults/run` lets every call of every command fail that makes or rescues a pool.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::common::{Bench, Ran, content};

const IN_FILE: usize = 40;
const KEYS: usize = 100;

/// A pool `p` that a kill has left, with a log beside it that holds what the file does not.
fn killed() -> Bench {
    let bench = Bench::new();
    bench.ok(["create", "p", "--size", "256KiB"]);
    let lines = |keys: std::ops::Range<usize>| keys.map(|i| format!("key{i}\tvalue\n"));
    bench.write("lines", lines(0..IN_FILE).collect::<String>());
    bench.ok(["load", "p", "lines", "--format", "tsv"]);
    let mut command = bench.command(["shell", "p"]);
    let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    (IN_FILE..KEYS).for_each(|i| writeln!(input, "put key{i} value").unwrap());
    writeln!(input, "count").unwrap();
    let mut answer = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer.trim(), KEYS.to_string());
    shell.kill().unwrap();
    shell.wait().unwrap();
    bench
}

/// Whether strace is there, and may trace here.
fn can_trace() -> bool {
    let arguments = ["-qq", "-o", "/dev/null", "-e", "inject=sync:error=EIO", "true"];
    let traced = Command::new("strace").args(arguments).stderr(Stdio::null()).status();
    traced.is_ok_and(|status| status.success())
}

#[test]
fn a_salvage_whose_system_calls_fail_has_saved_everything_or_says_what_is_missing() {
    if !can_trace() {
        println!("skipped: strace is not installed, or may not trace here");
        return;
    }
    let bench = killed();
    let has_log = bench.path("p.log").is_dir();
    let before = content(&bench.path("p"));
    let segment = "segment-0000000000000001";
    // The first call of a kind that has to do with a file.
    let faults = [
        ("p", "openat", "EIO"),
        ("p", "flock", "ENOLCK"),
        ("p", "flock", "EIO"),
        ("p", "flock", "EINTR"),
        ("p", "pread64", "EIO"),
        ("p.log", "openat", "EACCES"),
        ("p.log", "openat", "EMFILE"),
        ("p.log", "flock", "EIO"),
        ("p.log", "getdents64", "EIO"),
        ("p.log/control", "openat", "EIO"),
        ("p.log/control", "pread64", "EIO"),
        (segment, "openat", "EIO"),
        (segment, "pread64", "EIO"),
    ];
    for (i, (file, call, error)) in faults.into_iter().enumerate() {
        let (new, trace) = (format!("new{i}"), bench.path("trace"));
        let name = file.rsplit('/').next().unwrap();
        let folder = if file == segment { "p.log" } else { "" };
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(&trace).args(["-e", &format!("trace={call}")]);
        // What is opened in a folder is named without it.
        command.arg("-P").arg(bench.path(folder).join(file)).args(["-P", name]);
        command.args(["-e", &format!("inject={call}:error={error}:when=1"), crate::PROGRAM]);
        command.args(["check", "p", "--salvage", &new]).current_dir(bench.path(""));
        let ran = Ran::new(command.stdin(Stdio::null()).output().unwrap());
        let story = format!("{call} of {file} = {error}: {ran:?}");
        let injected = String::from_utf8(content(&trace)).unwrap().contains("INJECTED");
        assert!(injected || !has_log, "{story}");
        assert_eq!(content(&bench.path("p")), before, "{story}");
        match ran.code {
            Some(0) => {
                let saved = bench.ok(["scan", &new]).lines().count();
                assert_eq!(saved, KEYS, "{story}");
            }
            code => assert!(code == Some(1) && !ran.failed().is_empty(), "{story}"),
        }
    }
}
