//! scan: order, bounds, escapes, and readers that go away.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::common::Bench;

fn letters() -> Bench {
    let bench = Bench::with_pool();
    bench
        .run_with_input(["load", "p", "-", "--format", "tsv"], b"b\t2\na\t1\nab\t3\nc\t4\nabc\t5\n")
        .ok();
    bench
}

#[test]
fn entries_come_in_key_order_within_the_bounds() {
    let bench = letters();
    for (arguments, keys) in [
        (&[][..], "a ab abc b c"),
        (&["--reverse"], "c b abc ab a"),
        (&["--from", "ab"], "ab abc b c"),
        (&["--to", "b"], "a ab abc"),
        (&["--from", "ab", "--to", "c"], "ab abc b"),
        (&["--from", "ab", "--to", "c", "--reverse"], "b abc ab"),
        (&["--from", "aa", "--to", "aa"], ""),
        (&["--from", "c", "--to", "a"], ""),
        (&["--prefix", "ab"], "ab abc"),
        (&["--prefix", "ab", "--reverse"], "abc ab"),
        (&["--prefix", "a", "--from", "ab", "--to", "abc"], "ab"),
        (&["--prefix", ""], "a ab abc b c"),
        (&["--prefix", "x"], ""),
        (&["--limit", "2"], "a ab"),
        (&["--limit", "2", "--reverse"], "c b"),
        (&["--limit", "0"], ""),
        (&["--limit", "99"], "a ab abc b c"),
    ] {
        let printed = bench.ok(["scan", "p"].iter().chain(arguments));
        let found: Vec<&str> =
            printed.lines().map(|line| line.split('\t').next().unwrap()).collect();
        assert_eq!(found.join(" "), keys, "{arguments:?}");
    }
    assert_eq!(bench.ok(["scan", "p", "--limit", "1"]), "a\t1\n");
}

#[test]
fn u64_keys_come_in_numeric_order() {
    let bench = Bench::with_u64_pool();
    bench
        .run_with_input(
            ["load", "n", "-", "--format", "tsv"],
            b"10\tten\n9\tnine\n100\thundred\n18446744073709551615\tmax\n",
        )
        .ok();
    assert_eq!(
        bench.ok(["scan", "n"]),
        "9\tnine\n10\tten\n100\thundred\n18446744073709551615\tmax\n"
    );
    assert_eq!(bench.ok(["scan", "n", "--from", "10", "--to", "100"]), "10\tten\n");
    assert_eq!(
        bench.ok(["scan", "n", "--from", "10", "--reverse", "--limit", "2"]),
        "18446744073709551615\tmax\n100\thundred\n"
    );
    assert!(bench.refused(["scan", "n", "--prefix", "1"]).contains("--prefix"));
    bench.refused(["scan", "n", "--from", "x"]);
    bench.refused(["scan", "n", "--to", ""]);
    bench.refused(["scan", "n", "--limit", "-1"]);
}

#[test]
fn what_would_break_a_line_is_escaped() {
    let bench = Bench::with_pool();
    let put = |key: &[u8], value: &[u8]| {
        bench.ok([
            OsStr::new("put"),
            OsStr::new("p"),
            OsStr::from_bytes(key),
            OsStr::from_bytes(value),
        ]);
    };
    put(b"a\tb\nc\\", "ä\r".as_bytes());
    put(b"\xff\xc3(", b"\xe2\x82");
    assert_eq!(bench.ok(["scan", "p"]), "a\\tb\\nc\\\\\tä\\r\n\\xff\\xc3(\t\\xe2\\x82\n");
    let from =
        [OsStr::new("scan"), OsStr::new("p"), OsStr::new("--prefix"), OsStr::from_bytes(b"\xff")];
    assert_eq!(bench.ok(from), "\\xff\\xc3(\t\\xe2\\x82\n");
}

#[test]
fn what_scan_prints_is_loaded_byte_for_byte() {
    let bench = Bench::with_pool();
    // Every byte, at the beginning and at the end, alone and behind a backslash.
    let lines: String =
        (0..=255u8).map(|byte| format!("{byte:02x}\t{byte:02x}5c{byte:02x}\n")).collect();
    for line in lines.lines() {
        let (key, value) = line.split_once('\t').unwrap();
        bench.ok(["put", "p", key, value, "--hex"]);
    }
    let text = bench.run(["scan", "p"]).stdout;
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 256);
    bench.write("x.tsv", text);
    bench.ok(["create", "q", "--size", "1MiB"]);
    bench.ok(["load", "q", "x.tsv"]);
    assert_eq!(bench.ok(["scan", "q", "--hex"]), lines);
    // As a file of another program's, whose backslashes are backslashes:
    bench.write("raw.tsv", b"a\\t\tC:\\new\n");
    bench.ok(["create", "r", "--size", "1MiB"]);
    bench.ok(["load", "r", "raw.tsv", "--raw"]);
    assert_eq!(bench.ok(["get", "r", "a\\t"]), "C:\\new\n");
    assert!(
        bench.refused(["load", "r", "raw.tsv", "--format", "lines", "--raw"]).contains("--raw")
    );
}

#[test]
fn json_that_scan_prints_is_loaded_byte_for_byte() {
    let bench = Bench::with_pool();
    let lines: String =
        (0..=255u8).map(|byte| format!("{byte:02x}\t{byte:02x}5c{byte:02x}\n")).collect();
    bench.run_with_input(["load", "p", "-", "--format", "tsv", "--hex"], lines.as_bytes()).ok();
    for (name, arguments) in
        [("q", &["scan", "p", "--json"][..]), ("r", &["scan", "p", "--json", "--hex"])]
    {
        let json = bench.ok(arguments);
        assert_eq!(json.lines().count(), 256);
        bench.write("all.jsonl", json);
        bench.ok(["create", name, "--size", "1MiB"]);
        bench.ok(["load", name, "all.jsonl"]);
        assert_eq!(bench.ok(["scan", name, "--hex"]), lines);
    }
    let numbers = Bench::with_u64_pool();
    numbers.ok(["put", "n", "18446744073709551615", "max"]);
    let json = numbers.ok(["scan", "n", "--json"]);
    numbers.ok(["create", "m", "--size", "1MiB", "--keys", "u64"]);
    numbers.run_with_input(["load", "m", "-", "--format", "jsonl"], json.as_bytes()).ok();
    assert_eq!(numbers.ok(["scan", "m"]), "18446744073709551615\tmax\n");
}

#[test]
fn keys_alone_json_and_counts() {
    let bench = letters();
    bench.ok(["put", "p", "ff00", "80", "--hex"]);
    assert_eq!(bench.ok(["scan", "p", "--keys-only", "--prefix", "ab"]), "ab\nabc\n");
    let lines = bench.ok(["scan", "p", "--json", "--from", "c"]);
    let expected = "{\"key\":\"c\",\"value\":\"4\"}\n{\"key_hex\":\"ff00\",\"value_hex\":\"80\"}\n";
    assert_eq!(lines, expected);
    assert_eq!(
        bench.ok(["scan", "p", "--json", "--keys-only", "--limit", "1"]),
        "{\"key\":\"a\"}\n"
    );
    assert_eq!(
        bench.ok(["scan", "p", "--json", "--hex", "--limit", "1"]),
        "{\"key_hex\":\"61\",\"value_hex\":\"31\"}\n"
    );
    assert_eq!(bench.ok(["scan", "p", "--hex", "--prefix", "61", "--limit", "1"]), "61\t31\n");
    for (arguments, count) in [
        (&["count", "p"][..], "6\n"),
        (&["count", "p", "--prefix", "a"], "3\n"),
        (&["count", "p", "--from", "b", "--to", "c"], "1\n"),
        (&["scan", "p", "--count"], "6\n"),
        (&["scan", "p", "--count", "--limit", "2"], "2\n"),
        (&["count", "p", "--json"], "{\"count\":6}\n"),
        (&["count", "p", "--prefix", "a", "--json"], "{\"count\":3}\n"),
        (&["scan", "p", "--count", "--json", "--limit", "2"], "{\"count\":2}\n"),
    ] {
        assert_eq!(bench.ok(arguments), count, "{arguments:?}");
    }
    let numbers = Bench::with_u64_pool();
    numbers.ok(["put", "n", "18446744073709551615", "max"]);
    let line = numbers.ok(["scan", "n", "--json"]);
    assert_eq!(line, "{\"key\":18446744073709551615,\"value\":\"max\"}\n");
    assert_eq!(numbers.ok(["scan", "n", "--hex"]), "18446744073709551615\t6d6178\n");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_scan_quietly() {
    let bench = Bench::with_pool();
    let lines: String =
        (0..20_000).map(|i| format!("key {i:08} with some length to fill pipes\n")).collect();
    bench.run_with_input(["load", "p", "-"], lines.as_bytes()).ok();
    let mut child =
        bench.command(["scan", "p"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    drop(output);
    let ended = child.wait_with_output().unwrap();
    assert!(first.starts_with("key 00000000"));
    assert_eq!(String::from_utf8(ended.stderr).unwrap(), "");
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn a_full_standard_output_is_a_failure() {
    let bench = letters();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = bench.command(["scan", "p"]).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8(ended.stderr).unwrap().starts_with("everleaf: standard output"));
}
