//! A load that is killed with SIGKILL leaves a prefix of its file.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, Stdio};

use crate::common::{Bench, json};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const LINES: usize = 40_000;

/// Loads `file` into `pool` and kills the process once it has acknowledged `after` records; how
/// many it had acknowledged in the end.
fn kill_a_load(bench: &Bench, pool: &str, file: &str, after: usize) -> usize {
    let arguments = ["load", pool, file, "--acknowledge-every", "1"];
    let mut child =
        bench.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut acknowledged = 0;
    // The pipe holds a few thousand acknowledgements, so the process cannot reach the end of the
    // file before it is killed.
    listen(&mut stderr, &mut acknowledged, after);
    child.kill().unwrap();
    listen(&mut stderr, &mut acknowledged, usize::MAX);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), None, "it ended by itself after {acknowledged} records");
    acknowledged
}

fn listen(stderr: &mut BufReader<ChildStderr>, acknowledged: &mut usize, enough: usize) {
    let mut line = String::new();
    while *acknowledged < enough {
        line.clear();
        if stderr.by_ref().read_line(&mut line).unwrap() == 0 {
            return;
        }
        *acknowledged = line
            .trim_end()
            .strip_prefix("acknowledged ")
            .and_then(|n| n.parse().ok())
            .unwrap_or_else(|| panic!("{line}"));
    }
}

/// What the first `count` lines make of a pool, as `scan` prints it. Numbers are keys of different
/// lengths, so that both kinds of keys have an order of their own.
fn scan_of<K: Ord>(lines: &[String], count: usize, key: impl Fn(&str) -> K) -> String {
    let mut entries = BTreeMap::new();
    for (place, line) in lines[..count].iter().enumerate() {
        entries.insert(key(line), format!("{line}\t{}\n", place + 1));
    }
    entries.into_values().collect()
}

fn rounds<K: Ord>(keys: &str, key: impl Fn(&str) -> K + Copy, distinct: u64) {
    let seed = 20_26;
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let bench = Bench::new();
    let lines: Vec<String> =
        (0..LINES).map(|_| random.random_range(0..distinct).to_string()).collect();
    bench.write("numbers", lines.join("\n"));
    for round in 0..5 {
        let pool = format!("p{round}");
        bench.ok(["create", &pool, "--size", "256KiB", "--keys", keys]);
        let acknowledged = kill_a_load(&bench, &pool, "numbers", random.random_range(1..LINES / 2));
        assert_eq!(json(&bench.ok(["info", &pool, "--json"]))["shutdown"], "crash");
        let check = json(&bench.ok(["check", &pool, "--json"]));
        assert_eq!((&check["violations"], &check["leaked_blocks"]), (&0.into(), &0.into()));
        let scanned = bench.ok(["scan", &pool]);
        let prefix = [acknowledged, acknowledged + 1]
            .into_iter()
            .find(|count| scanned == scan_of(&lines, *count, key));
        assert!(
            prefix.is_some(),
            "round {round}: not the first {acknowledged} lines, nor one more"
        );
        // A writer recovers it for good, and all that was cut off can be done again.
        bench.ok(["load", &pool, "numbers"]);
        bench.ok(["check", &pool]);
        assert_eq!(bench.ok(["scan", &pool]), scan_of(&lines, LINES, key));
        assert_eq!(json(&bench.ok(["info", &pool, "--json"]))["shutdown"], "clean");
    }
}

#[test]
fn a_killed_load_of_byte_keys_leaves_a_prefix() {
    rounds("bytes", str::to_owned, u64::MAX);
}

#[test]
fn a_killed_load_of_u64_keys_leaves_a_prefix() {
    rounds("u64", |line| line.parse::<u64>().unwrap(), u64::MAX);
}

#[test]
fn a_killed_load_with_keys_that_come_again_leaves_a_prefix() {
    rounds("bytes", str::to_owned, 5_000);
}
