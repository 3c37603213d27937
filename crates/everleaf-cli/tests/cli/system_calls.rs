//! What commands make of system calls that fail: strace lets one of them fail at a time. Where
//! there is no strace, or none may trace, the tests say so and end.

use std::process::Command;

use crate::common::ended::names;
use crate::common::{Bench, Ran};

const TRACE: &str = "trace";

/// With a pool `p` and a dump `d`, both small, on a disk.
fn bench() -> Option<Bench> {
    let traces = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    if !traces.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: strace is not there, or may not trace");
        return None;
    }
    let bench = Bench::new();
    bench.ok(["create", "p", "--size", "256KiB"]);
    bench.ok(["put", "p", "key", "value"]);
    bench.ok(["dump", "p", "d"]);
    Some(bench)
}

/// Runs with strace's `options`; what came out, and which calls were traced.
fn traced(bench: &Bench, options: &[&str], arguments: &[&str]) -> (Ran, String) {
    let program = bench.command(arguments);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-y", "-o", TRACE]).args(options).arg(program.get_program());
    command.args(program.get_args()).current_dir(bench.path(""));
    let ran = Ran::new(command.output().unwrap());
    let trace = std::fs::read_to_string(bench.path(TRACE)).unwrap();
    std::fs::remove_file(bench.path(TRACE)).unwrap();
    (ran, trace)
}

/// Lets the call number `time` fail, in each thread; none if there was none.
fn failing(bench: &Bench, call: &str, time: u32, arguments: &[&str]) -> Option<(Ran, String)> {
    let (name, error) = call.split_once(':').unwrap();
    let inject = format!("inject={name}:error={error}:when={time}");
    let traced = traced(bench, &["-e", &format!("trace={name}"), "-e", &inject], arguments);
    traced.1.contains("(INJECTED)").then_some(traced)
}

/// Commands that make `o`.
const MAKING: [&[&str]; 3] = [
    &["create", "o", "--size", "256KiB", "--log", "elsewhere"],
    &["copy", "p", "o"],
    &["dump", "p", "o"],
];
/// One more, which does it as a copy.
const SALVAGE: &[&str] = &["check", "p", "--salvage", "o"];

fn remove_made(bench: &Bench, before: &[String]) {
    for name in names(bench).iter().filter(|name| !before.contains(name)) {
        let path = bench.path(name);
        match path.is_dir() && !path.is_symlink() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
    }
}

/// Each such call fails once: the command fails, and leaves nothing that is in the way of the next.
#[track_caller]
fn fails_and_leaves_nothing(call: &str) {
    let Some(bench) = bench() else { return };
    let before = names(&bench);
    for command in MAKING {
        for time in 1.. {
            let Some((ran, trace)) = failing(&bench, call, time, command) else { break };
            assert_eq!(ran.code, Some(1), "{command:?}: nobody sees {call} {time}\n{trace}");
            assert_eq!(names(&bench), before, "{command:?}: {call} {time}\n{trace}");
        }
        remove_made(&bench, &before); // The last one succeeded.
        bench.ok(command);
        remove_made(&bench, &before);
    }
}

#[test]
fn a_sync_of_files_and_folders_that_fails_is_seen_and_leaves_nothing() {
    fails_and_leaves_nothing("fsync:EIO");
}

#[test]
fn a_name_that_a_full_disk_refuses_leaves_nothing() {
    for call in ["linkat:ENOSPC", "renameat2:ENOSPC", "symlinkat:ENOSPC"] {
        fails_and_leaves_nothing(call);
    }
}

#[test]
fn the_folder_around_a_bare_name_is_synced_after_the_name_was_given() {
    let Some(bench) = bench() else { return };
    let before = names(&bench);
    for command in MAKING.into_iter().chain([SALVAGE]) {
        let (ran, trace) = traced(&bench, &["-e", "trace=linkat,renameat2,fsync"], command);
        ran.ok();
        let named = trace.lines().position(|line| line.contains("\"o\"") && line.ends_with("= 0"));
        let folder = format!("<{}>) ", bench.path("").canonicalize().unwrap().display());
        let synced = |line: &str| line.contains("fsync(") && line.contains(&folder);
        let after = trace.lines().skip(named.expect(&trace));
        assert!(after.clone().any(synced), "{command:?}\n{trace}");
        remove_made(&bench, &before);
    }
}

#[test]
fn file_systems_that_know_one_way_only_to_give_a_new_name_get_it_that_way() {
    let Some(bench) = bench() else { return };
    let before = names(&bench);
    let (link, rename) = ("inject=linkat:error=EPERM", "inject=renameat2:error=EINVAL");
    for unknown in [&[link][..], &[rename], &[link, rename]] {
        for command in MAKING {
            let mut options = vec!["-e", "trace=linkat,renameat2"];
            options.extend(unknown.iter().flat_map(|inject| ["-e", inject]));
            let (ran, trace) = traced(&bench, &options, command);
            ran.ok();
            assert!(names(&bench).contains(&"o".to_owned()), "{trace}");
            assert!(!names(&bench).iter().any(|name| name.starts_with('.')), "{trace}");
            // What is there already is not replaced.
            let made = names(&bench);
            let (again, trace) = traced(&bench, &options, command);
            assert!(again.failed().contains("exists already"), "{trace}");
            assert_eq!(names(&bench), made);
            if command[0] != "dump" {
                bench.ok(["put", "o", "another", "value"]);
            }
            remove_made(&bench, &before);
        }
    }
}

#[test]
fn what_a_killed_process_has_left_is_removed_by_the_next() {
    let Some(bench) = bench() else { return };
    let before = names(&bench);
    for command in MAKING {
        for call in ["mkdirat", "fsync", "linkat", "renameat2"] {
            for time in 1.. {
                let inject = format!("inject={call}:signal=KILL:when={time}");
                let options = ["-e", &format!("trace={call}"), "-e", &inject];
                let (ran, trace) = traced(&bench, &options, command);
                match bench.path("o").exists() {
                    true if command[0] == "dump" => {}
                    true => assert!(bench.ok(["check", "o"]).contains("sound"), "{trace}"),
                    false => drop(bench.ok(command)),
                }
                let left = |name: &String| name.contains("unfinished") || name.starts_with('.');
                assert!(
                    !names(&bench).iter().any(left),
                    "{command:?} {:?}\n{trace}",
                    names(&bench)
                );
                remove_made(&bench, &before);
                if ran.code == Some(0) {
                    break;
                }
            }
        }
    }
}
