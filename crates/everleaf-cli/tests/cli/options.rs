//! Words that look like options, where keys and values are expected.

use crate::common::Bench;

/// Nothing is stored, nothing is printed on standard output, and it is wrong usage.
#[track_caller]
fn refused_silently(bench: &Bench, arguments: &[&str]) -> String {
    let ran = bench.run(arguments);
    assert!(ran.stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stdout));
    ran.refused()
}

#[test]
fn what_looks_like_an_option_is_not_taken_as_a_key_or_a_value() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "k", "v"]);
    for arguments in [
        &["put", "p", "--hexx", "v"][..],
        &["put", "p", "k", "--iff-absent"],
        &["put", "p", "k", "-x"],
        &["put", "p", "-inf", "v"],
        &["get", "p", "--hexx"],
        &["get", "p", "-x"],
        &["del", "p", "--prefi"],
        &["del", "p", "-x"],
        &["cas", "p", "k", "--absent", "1"],
        &["cas", "p", "k", "v", "--new"],
        &["incr", "p", "--by"],
        &["incr", "p", "k", "-inf"],
        &["incr", "p", "k", "-1.5"],
        &["ttl", "p", "--sec"],
        &["scan", "p", "--prefix", "--json"],
        &["scan", "p", "--from", "-x"],
        &["count", "p", "--to", "--hex"],
        &["del", "p", "--prefix", "--hex"],
    ] {
        refused_silently(&bench, arguments);
    }
    assert_eq!(bench.ok(["scan", "p"]), "k\tv\n");
}

#[test]
fn help_and_version_where_a_key_or_a_value_is_expected_are_wrong_usage() {
    let bench = Bench::with_pool();
    for word in ["-h", "--help", "-V", "--version"] {
        for arguments in [
            &["put", "p", "k", word][..],
            &["put", "p", word, "v"],
            &["put", "p", word],
            &["get", "p", word],
            &["get", "p", "k", "-nh"],
            &["del", "p", word],
            &["cas", "p", "k", "v", word],
            &["incr", "p", word],
            &["ttl", "p", word],
            &["scan", "p", "--from", word],
        ] {
            let complaint = refused_silently(&bench, arguments);
            assert!(complaint.contains("--"), "{complaint}");
        }
        assert!(!bench.ok(["put", word]).is_empty());
        assert!(!bench.ok(["scan", "p", word]).is_empty(), "no key is expected there");
    }
    assert_eq!(bench.ok(["count", "p"]), "0\n");
}

#[test]
fn two_hyphens_stand_before_keys_and_values_that_begin_with_one() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "--", "--help", "--json"]);
    assert_eq!(bench.ok(["get", "p", "--", "--help"]), "--json\n");
    bench.ok(["cas", "p", "--", "--help", "--json", "-h"]);
    assert_eq!(bench.ok(["get", "p", "-n", "--", "--help"]), "-h");
    bench.ok(["put", "p", "--", "--", "v"]);
    assert_eq!(bench.ok(["scan", "p", "--prefix=--h"]), "--help\t-h\n");
    assert_eq!(bench.ok(["count", "p", "--from=--", "--to=--z"]), "2\n");
    bench.ok(["del", "p", "--", "--"]);
    assert_eq!(bench.ok(["incr", "p", "--", "-n", "-5"]), "-5\n");
}

#[test]
fn negative_numbers_are_keys_values_and_summands() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "-5", "-1.5e3"]);
    assert_eq!(bench.ok(["get", "p", "-5"]), "-1.5e3\n");
    assert_eq!(bench.ok(["incr", "p", "k", "-5"]), "-5\n");
    bench.ok(["cas", "p", "k", "-5", "-4"]);
    assert_eq!(bench.ok(["count", "p", "--from", "-9", "--to", "-1"]), "0\n");
    bench.ok(["del", "p", "-5"]);
    bench.ok(["put", "p", "-", "-"]);
    assert_eq!(bench.ok(["get", "p", "-"]), "-\n");
}

#[test]
fn values_of_options_that_begin_with_a_hyphen_are_judged_by_the_option() {
    let bench = Bench::with_pool();
    for (arguments, complaint) in [
        (&["put", "p", "k", "v", "--ttl", "-5"][..], "`-5` is not a number of seconds"),
        (&["put", "p", "k", "v", "--ttl", "-5s"], "`-5s` is not a number of seconds"),
        (&["put", "p", "k", "v", "--ttl", "--if-absent"], "is not a number of seconds"),
        (&["put", "p", "k", "v", "--ttl", "0"], "give more than 0"),
        (&["incr", "p", "k", "--ttl", "0s"], "give more than 0"),
        (&["cas", "p", "k", "v", "w", "--ttl", "-1"], "`-1` is not a number of seconds"),
        (&["expire", "p", "k", "0.0"], "give more than 0"),
        (&["expire", "p", "k", "keep"], "`keep` is not a number of seconds"),
        (&["scan", "p", "--limit", "-1"], "invalid value '-1' for '--limit <N>'"),
        (&["create", "x", "--size", "-1"], "`-1` is not a size"),
        (&["create", "x", "--max-size", "-1MiB"], "`-1MiB` is not a size"),
        (&["copy", "p", "x", "--max-size", "-1"], "`-1` is not a size"),
        (&["load", "p", "-", "--memory", "-1"], "`-1` is not a size"),
        (&["load", "p", "-", "--acknowledge-every", "-1"], "invalid value '-1'"),
        (&["serve", "p", "--redis", "0", "--threads", "-1"], "-1 is not in 1..=65535"),
        (&["serve", "p", "--redis", "0", "--max-connections", "-1"], "invalid value '-1'"),
        (&["serve", "p", "--redis", "0", "--timeout", "-1"], "invalid value '-1'"),
        (&["serve", "p", "--redis", "0", "--max-value", "-1"], "`-1` is not a size"),
        (&["serve", "p", "--redis", "0", "--memory", "-1"], "`-1` is not a size"),
    ] {
        let refused = refused_silently(&bench, arguments);
        assert!(refused.contains(complaint) && !refused.contains("'-- "), "{refused}");
    }
    assert_eq!(bench.ok(["count", "p"]), "0\n");
}

#[test]
fn the_shell_refuses_words_that_look_like_options() {
    let bench = Bench::with_pool();
    let shell = |line: &str| bench.run_with_input(["shell", "p"], line.as_bytes());
    for line in [
        "put --hexx v",
        "put k -h",
        "put k v --ttl",
        "insert -x v",
        "update k -x",
        "get --hexx",
        "cas k --absent 1",
        "del -x",
        "incr k -inf",
        "incr --by",
        "ttl -x",
        "scan --revers",
        "scan --limits 5",
        "prefix -x",
        "use --tree",
        "copy --help",
        "begin\nput --hexx v\ncommit",
    ] {
        let ran = shell(&format!("{line}\n"));
        assert_eq!(ran.code, Some(1), "{line}");
        assert!(ran.stderr.contains("`--`"), "{line}: {}", ran.stderr);
    }
    assert_eq!(bench.ok(["count", "p"]), "0\n");
    assert!(!bench.path("--help").exists() && bench.ok(["trees", "p"]).is_empty());
}

#[test]
fn the_shell_takes_words_behind_two_hyphens_as_they_are() {
    let bench = Bench::with_pool();
    let lines = "put -- --hexx -h\nget -- --hexx\nput a -5\nincr a -5\nput - 1\nput -- -- 2\n\
        get -- --\nput -7 -1e3\nget -7\nscan --limit 1 -- --h\nprefix --reverse -- --\n";
    let expected = "-h\n-10\n2\n-1e3\n--hexx\t-h\n--hexx\t-h\n--\t2\n";
    assert_eq!(bench.run_with_input(["shell", "p"], lines.as_bytes()).ok(), expected);
}
