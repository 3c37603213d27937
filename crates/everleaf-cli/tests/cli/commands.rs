//! create, put, get, del: good and bad input.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::common::{Bench, content, json};

#[test]
fn what_is_put_is_got_replaced_and_deleted() {
    let bench = Bench::with_pool();
    assert_eq!(bench.ok(["put", "p", "leaf", "a blade"]), "");
    assert_eq!(bench.ok(["get", "p", "leaf"]), "a blade\n");
    bench.ok(["put", "p", "leaf", "another"]);
    assert_eq!(bench.ok(["get", "p", "leaf"]), "another\n");
    bench.ok(["put", "p", "", ""]);
    assert_eq!(
        bench.ok(["get", "p", ""]),
        "\n",
        "an empty key is a key, an empty value is a value"
    );
    assert_eq!(bench.ok(["del", "p", "leaf"]), "");
    assert!(bench.fails(["get", "p", "leaf"]).contains("no key `leaf`"));
    assert!(bench.fails(["del", "p", "leaf"]).contains("no key `leaf`"));
    assert_eq!(bench.ok(["get", "p", ""]), "\n");
}

#[test]
fn keys_and_values_are_any_bytes() {
    let bench = Bench::with_pool();
    let [key, value] = [&b"\xff\xfe\t"[..], b"\x80\n\xc3"].map(OsStr::from_bytes);
    bench.ok([OsStr::new("put"), OsStr::new("p"), key, value]);
    let got = bench.run([OsStr::new("get"), OsStr::new("p"), key]);
    assert_eq!(got.stdout, b"\x80\n\xc3\n");
    bench.ok([OsStr::new("del"), OsStr::new("p"), key]);
}

#[test]
fn values_come_from_files_too() {
    let bench = Bench::with_pool();
    let long: Vec<u8> = (0..300_000u32).map(|i| (i * 7 % 251) as u8).collect();
    bench.write("long", &long);
    bench.ok(["put", "p", "file", "--value-from", "long"]);
    bench.run_with_input(["put", "p", "stdin", "--value-from", "-"], b"a\0b\n").ok();
    let got = bench.run(["get", "p", "file"]).stdout;
    assert!(got[..long.len()] == long && got[long.len()..] == *b"\n");
    assert_eq!(bench.run(["get", "p", "stdin"]).stdout, b"a\0b\n\n");
    assert!(bench.fails(["put", "p", "k", "--value-from", "nosuch"]).contains("nosuch"));
    bench.refused(["put", "p", "k", "v", "--value-from", "long"]);
}

#[test]
fn u64_pools_take_decimal_keys() {
    let bench = Bench::with_u64_pool();
    bench.ok(["put", "n", "18446744073709551615", "max"]);
    bench.ok(["put", "n", "0", "min"]);
    assert_eq!(bench.ok(["get", "n", "18446744073709551615"]), "max\n");
    assert!(bench.fails(["get", "n", "1"]).contains("no key 1"));
    for wrong in ["leaf", "", "-1", "+1", "18446744073709551616", "1.5"] {
        assert!(bench.refused(["put", "n", wrong, "v"]).contains("u64 keys"), "{wrong}");
        bench.refused(["get", "n", wrong]);
        bench.refused(["del", "n", wrong]);
    }
}

#[test]
fn create_refuses_an_existing_file_and_leaves_it_alone() {
    let bench = Bench::new();
    bench.write("file", "precious");
    assert!(bench.fails(["create", "file"]).contains("exists already"));
    assert_eq!(content(&bench.path("file")), b"precious");
    bench.ok(["create", "p", "--size", "64KiB"]);
    bench.ok(["put", "p", "k", "v"]);
    assert!(bench.fails(["create", "p"]).contains("exists already"));
    assert_eq!(bench.ok(["get", "p", "k"]), "v\n");
}

#[test]
fn a_folder_that_is_not_there_is_named_as_it_was_given() {
    let bench = Bench::with_pool();
    for command in [
        &["create", "nosuch/new"][..],
        &["tour", "--pool", "nosuch/new"],
        &["copy", "p", "nosuch/new"],
        &["dump", "p", "nosuch/new"],
        &["check", "p", "--salvage", "nosuch/new"],
        &["create", "new", "--size", "1MiB", "--log", "nosuch/log"],
    ] {
        if command.contains(&"--log") && !bench.path("p.log").exists() {
            continue; // No pool has a log here.
        }
        let sentence = bench.fails(command);
        let expected = "everleaf: the folder nosuch does not exist; make it first";
        assert_eq!(sentence, expected, "{command:?}");
    }
    assert!(!bench.path("new").exists());
}

#[test]
fn a_log_needs_a_folder_of_its_own_and_a_pool_that_has_one() {
    let bench = Bench::with_pool();
    let create = ["create", "new", "--size", "1MiB", "--log", "log"];
    let refused = bench.refused(create.iter().chain(&["--durability", "process"]));
    assert!(refused.contains("leave the folder out"), "{refused}");
    std::fs::create_dir(bench.path("log")).unwrap();
    bench.write("log/of others", "");
    if bench.path("p.log").exists() {
        let sentence = bench.fails(create);
        let expected = "everleaf: log exists already; give a folder for the log that does not";
        assert_eq!(sentence, expected);
    }
    assert!(!bench.path("new").exists());
}

#[test]
fn create_refuses_wrong_usage_and_makes_nothing() {
    let bench = Bench::new();
    for arguments in [
        &["--size", "lots"][..],
        &["--size", "1.5MiB"],
        &["--size", "-1"],
        &["--size", "99999999999GiB"],
        &["--max-size", "x"],
        &["--size", "2MiB", "--max-size", "1MiB"],
        &["--keys", "string"],
        &["--leaf-slots", "8"],
        &["--nosuch", "1"],
        &["extra"],
    ] {
        bench.refused(["create", "p"].iter().chain(arguments));
        assert!(!bench.path("p").exists(), "{arguments:?}");
    }
    bench.refused(["create"]);
    assert!(bench.refused(["create", "p", "--engine", "bogus"]).contains("choose one of fptree"));
    assert!(bench.refused(["create", "p", "--size", "1KiB"]).contains("too small"));
    assert!(!bench.path("p").exists());
}

#[test]
fn create_takes_sizes_with_units_and_an_engine() {
    let bench = Bench::new();
    let sizes = ["--size", "1MB", "--max-size", "2MiB"];
    bench.ok(["create", "a", "--engine", "nvtree"].into_iter().chain(sizes));
    bench.ok(["put", "a", "k", "v"]);
    assert_eq!(bench.ok(["get", "a", "k"]), "v\n");
}

#[test]
fn info_says_how_nodes_of_one_line_are_written() {
    let bench = Bench::new();
    bench.ok(["create", "p", "--size", "4MiB", "--keys", "u64", "--engine", "clftree-append"]);
    let lines: String = (0..100).map(|key| format!("{key}\tv\n")).collect();
    bench.write("lines.tsv", lines);
    bench.ok(["load", "p", "lines.tsv", "--format", "tsv"]);
    assert_eq!(bench.ok(["get", "p", "99"]), "v\n");
    bench.ok(["check", "p"]);
    let writes = json(&bench.ok(["info", "p", "--json"]))["node_writes"].clone();
    assert!(["line", "log"].contains(&writes.as_str().unwrap()), "{writes}");
    let told = if writes == "line" { "whole lines" } else { "word by word" };
    assert!(bench.ok(["info", "p"]).contains(told));
    bench.ok(["create", "other", "--keys", "u64", "--engine", "fptree"]);
    assert!(json(&bench.ok(["info", "other", "--json"]))["node_writes"].is_null());
}

#[test]
fn a_pool_that_is_none_gives_one_sentence() {
    let bench = Bench::new();
    bench.write("text", "this is no pool, whatever it says".repeat(10_000));
    bench.write("empty", "");
    for (pool, complaint) in [
        ("nosuch", "everleaf create"),
        ("text", "not an Everleaf pool"),
        ("empty", "not an Everleaf pool"),
    ] {
        for command in [
            &["get", pool, "k"][..],
            &["put", pool, "k", "v"],
            &["del", pool, "k"],
            &["scan", pool],
            &["info", pool],
        ] {
            let sentence = bench.fails(command);
            assert!(sentence.contains(complaint), "{command:?}: {sentence}");
        }
    }
    assert!(!bench.path("nosuch").exists(), "only create makes a pool");
    assert_eq!(content(&bench.path("empty")), b"");
}

#[test]
fn a_pool_that_does_not_grow_gets_full_and_stays_readable() {
    let bench = Bench::new();
    bench.ok(["create", "p", "--size", "128KiB", "--max-size", "128KiB"]);
    bench.ok(["put", "p", "small", "value"]);
    bench.write("large", vec![b'x'; 200_000]);
    let sentence = bench.fails(["put", "p", "large", "--value-from", "large"]);
    assert!(sentence.contains("full"), "{sentence}");
    assert_eq!(bench.ok(["get", "p", "small"]), "value\n");
    bench.ok(["check", "p"]);
    // What the sentence advises helps.
    assert!(sentence.contains("`everleaf copy POOL NEW --max-size SIZE`"), "{sentence}");
    bench.ok(["copy", "p", "larger", "--max-size", "64MiB"]);
    bench.ok(["put", "larger", "large", "--value-from", "large"]);
    assert_eq!(bench.ok(["get", "larger", "small"]), "value\n");
    assert_eq!(json(&bench.ok(["info", "larger", "--json"]))["max_bytes"], 64 << 20);
    bench.ok(["check", "larger"]);
    bench.ok(["copy", "p", "same"]);
    bench.fails(["put", "same", "large", "--value-from", "large"]);
    let refused = bench.refused(["copy", "p", "new", "--max-size", "1KiB"]);
    assert!(refused.contains("--max-size 1 KiB is too small"), "{refused}");
    assert!(!bench.path("new").exists());
}

#[test]
fn keys_that_are_too_long_are_refused() {
    let bench = Bench::with_pool();
    let longest = "k".repeat(64 << 10);
    bench.ok(["put", "p", &longest, "v"]);
    assert_eq!(bench.ok(["get", "p", &longest]), "v\n");
    let sentence = bench.fails(["put", "p", &(longest + "k"), "v"]);
    assert!(sentence.contains("65,536 bytes"), "{sentence}");
}

#[test]
fn help_shows_an_example_and_what_is_unknown_is_wrong_usage() {
    let bench = Bench::new();
    let laboratory = ["bench", "explore", "torture"];
    for command in crate::common::COMMANDS.into_iter().filter(|name| !laboratory.contains(name)) {
        let help = bench.ok([command, "--help"]);
        assert!(
            help.contains("Example") && help.contains(&format!("everleaf {command}")),
            "{help}"
        );
        bench.refused([command, "--nosuch-option", "a", "b", "c", "d"]);
    }
    for line in [
        &[][..],
        &["nosuch"],
        &["put"],
        &["put", "p"],
        &["put", "p", "k"],
        &["put", "p", "k", "v", "w"],
        &["get", "p"],
        &["scan"],
    ] {
        bench.refused(line);
    }
    assert!(bench.ok(["--help"]).contains("tour"));
    assert!(bench.ok(["--version"]).starts_with("everleaf "));
}

/// A script tells what is absent from what failed.
#[test]
fn an_absent_key_exits_with_another_code_than_a_failure() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "leaf", "green"]);
    let codes = |words: &[&str]| {
        let of = |pool| bench.run([&words[..1], &[pool], &words[1..]].concat()).code;
        (of("p"), of("absent"))
    };
    for words in [
        &["get", "none"][..],
        &["ttl", "none"],
        &["del", "none"],
        &["cas", "none", "a", "b"],
        &["cas", "leaf", "red", "blue"],
        &["put", "leaf", "red", "--if-absent"],
    ] {
        assert_eq!(codes(words), (Some(1), Some(3)), "{words:?}");
    }
    assert_eq!(codes(&["put", "leaf", "red"]), (Some(0), Some(1)), "all others keep 1");
    assert_eq!(codes(&["expire", "none", "1h"]), (Some(1), Some(1)));
}
