//! Named trees, and writes that ask for what is there, from the command line.

use crate::common::{Bench, content, json};

#[test]
fn every_command_reaches_a_named_tree() {
    let bench = Bench::with_pool();
    let tree = ["--tree", "herbs"];
    let on = |words: &[&str]| bench.ok(words.iter().copied().chain(tree));
    on(&["put", "p", "mint", "green"]);
    on(&["put", "p", "sage", "grey"]);
    bench.ok(["put", "p", "mint", "another tree's"]);
    assert_eq!(on(&["get", "p", "mint"]), "green\n");
    assert_eq!(on(&["scan", "p"]), "mint\tgreen\nsage\tgrey\n");
    assert_eq!(on(&["cas", "p", "sage", "grey", "blue"]), "");
    assert_eq!(on(&["incr", "p", "count", "-7"]), "-7\n");
    assert_eq!(on(&["ttl", "p", "count"]), "never\n");
    on(&["del", "p", "count"]);
    bench.write("a.tsv", "basil\tgreen\n");
    on(&["load", "p", "a.tsv"]);
    assert_eq!(on(&["count", "p"]), "3\n");
    assert_eq!(bench.ok(["count", "p"]), "1\n");
    assert_eq!(bench.ok(["trees", "p"]), "herbs\tbytes\t3\n");
    let row = json(&bench.ok(["trees", "p", "--json"]));
    assert_eq!((&row["name"], &row["keys"]), (&"herbs".into(), &3.into()));
    let deleted = bench.run(["del", "p", "--all", "--tree", "herbs"]);
    assert_eq!(deleted.stderr.trim_end(), "deleted 3 keys");
    bench.ok(["drop", "p", "herbs"]);
    assert_eq!(bench.ok(["trees", "p"]), "");
    assert!(bench.fails(["drop", "p", "herbs"]).contains("there is no tree `herbs`"));
    assert_eq!(bench.ok(["get", "p", "mint"]), "another tree's\n");
}

#[test]
fn reading_makes_no_tree() {
    let bench = Bench::with_pool();
    for command in [
        &["get", "p", "k"][..],
        &["del", "p", "k"],
        &["scan", "p"],
        &["count", "p"],
        &["ttl", "p", "k"],
        &["cas", "p", "k", "a", "b"],
    ] {
        let sentence = bench.fails(command.iter().copied().chain(["--tree", "typo"]));
        assert!(sentence.contains("there is no tree `typo`"), "{sentence}");
    }
    assert_eq!(bench.ok(["trees", "p"]), "");
    let numbers = Bench::with_u64_pool();
    numbers.refused(["put", "n", "1", "x", "--tree", "t"]);
}

#[test]
fn ranges_of_keys_are_deleted() {
    let bench = Bench::with_pool();
    bench.run_with_input(["load", "p", "-"], b"a1\na2\nb1\nb2\nc1\n").ok();
    assert_eq!(bench.run(["del", "p", "--prefix", "a"]).stderr.trim_end(), "deleted 2 keys");
    assert_eq!(bench.run(["del", "p", "--from", "c"]).stderr.trim_end(), "deleted 1 key");
    assert_eq!(bench.ok(["scan", "p", "--keys-only"]), "b1\nb2\n");
    bench.refused(["del", "p"]);
    bench.refused(["del", "p", "b1", "--prefix", "b"]);
    bench.refused(["del", "p", "b1", "--all"]);
    bench.refused(["del", "p", "--from", "b", "--all"]);
    assert_eq!(bench.run(["del", "p", "--all"]).stderr.trim_end(), "deleted 2 keys");
}

#[test]
fn a_variable_that_is_not_set_names_no_tree_and_deletes_nothing() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "k", "v"]);
    for bound in ["--prefix", "--from", "--to"] {
        let refused = bench.refused(["del", "p", bound, ""]);
        assert!(refused.contains("to delete all keys, use --all"), "{refused}");
    }
    bench.refused(["del", "p", "--from", "", "--to", "x"]);
    for command in [&["put", "p", "k", "w"][..], &["get", "p", "k"], &["dump", "p", "d"]] {
        let refused = bench.refused(command.iter().copied().chain(["--tree", ""]));
        assert!(refused.contains("leave --tree out for the pool's own tree"), "{refused}");
    }
    assert_eq!((&*bench.ok(["scan", "p"]), &*bench.ok(["trees", "p"])), ("k\tv\n", ""));
}

#[test]
fn values_that_expire_and_values_that_must_be_absent() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "k", "v", "--ttl", "3600"]);
    let left = || bench.ok(["ttl", "p", "k"]).trim().parse::<f64>().unwrap();
    assert!(left() > 3000.0 && left() <= 3600.0, "{}", left());
    for (time, seconds) in [("90s", 90.0), ("15m", 900.0), ("1h", 3600.0), ("2d", 172_800.0)] {
        bench.ok(["put", "p", "k", "v", "--ttl", time]);
        assert!(left() > seconds / 2.0 && left() <= seconds, "{time}: {}", left());
        bench.run_with_input(["shell", "p"], format!("put k v {time}\n").as_bytes()).ok();
        assert!(left() > seconds / 2.0 && left() <= seconds, "{time}: {}", left());
    }
    for (time, seconds) in [("30m", 1800.0), ("40", 40.0)] {
        bench.ok(["expire", "p", "k", "1h"]);
        bench.ok(["put", "p", "n", "1", "--ttl", "1h"]);
        bench.ok(["incr", "p", "n"]);
        bench.ok(["cas", "p", "n", "2", "3"]);
        assert!(bench.ok(["ttl", "p", "n"]).trim().parse::<f64>().unwrap() > 3000.0, "it stays");
        bench.ok(["expire", "p", "n", time]);
        let left = bench.ok(["ttl", "p", "n"]);
        assert!(left.trim().parse::<f64>().is_ok_and(|left| left <= seconds), "{left}");
        bench.ok(["put", "p", "n", "1"]);
    }
    let commands = [&["put", "p", "n", "2"][..], &["incr", "p", "n"], &["cas", "p", "n", "1", "2"]];
    for command in commands {
        for (told, left) in [("40", "39."), ("keep", "3599."), ("never", "never")] {
            bench.ok(["put", "p", "n", "1", "--ttl", "1h"]);
            bench.ok([command, &["--ttl", told]].concat());
            assert_eq!(bench.ok(["get", "p", "n"]), "2\n");
            let ttl = bench.ok(["ttl", "p", "n"]);
            assert!(ttl.starts_with(left), "{command:?} --ttl {told}: {ttl}");
        }
    }
    let lock = ["put", "p", "lock", "v", "--if-absent", "--ttl", "40"];
    bench.ok(lock);
    assert!(bench.ok(["ttl", "p", "lock"]).starts_with("39.") && !bench.fails(lock).is_empty());
    bench.ok(["del", "p", "lock"]);
    let lines = b"expire k 40\nttl k\npersist k\nttl k\n";
    let shell = bench.run_with_input(["shell", "p"], lines).ok();
    assert!(shell.starts_with("39.") && shell.ends_with("\nnever\n"), "{shell}");
    for line in ["expire nosuch 40", "persist nosuch", "expire k", "begin\nput k v\nincr k"] {
        assert!(!bench.run_with_input(["shell", "p"], line.as_bytes()).failed().is_empty());
    }
    let lines = b"begin\nput k w 1h\nput k v keep\nexpire n 40\ncommit\nttl k\nttl n\n";
    let shell = bench.run_with_input(["shell", "p"], lines).ok();
    let left = |begin: &str| shell.lines().any(|line| line.starts_with(begin));
    assert!(left("3599.") && left("39."), "{shell}");
    bench.ok(["expire", "p", "k", "40"]);
    bench.ok(["persist", "p", "k"]);
    assert_eq!(bench.ok(["ttl", "p", "k"]), "never\n");
    assert!(bench.fails(["expire", "p", "nosuch", "1h"]).contains("no key"));
    assert!(bench.fails(["persist", "p", "nosuch"]).contains("no key"));
    assert!(bench.refused(["expire", "p", "k", "soon"]).contains("seconds"));
    for command in [&["put", "p", "k", "v", "--ttl", "0"][..], &["expire", "p", "k", "0s"]] {
        assert!(bench.refused(command).contains("more than 0"));
    }
    assert_eq!(bench.ok(["get", "p", "k"]), "v\n");
    let sentence = bench.fails(["put", "p", "k", "w", "--if-absent"]);
    assert!(sentence.contains("is there already"), "{sentence}");
    bench.ok(["put", "p", "new", "w", "--if-absent"]);
    assert_eq!(bench.ok(["get", "p", "new", "--no-newline"]), "w");
    assert!(bench.refused(["put", "p", "k", "v", "--ttl", "soon"]).contains("seconds"));
    assert!(bench.refused(["put", "p", "k", "v", "--ttl", "1M"]).contains("15m (minutes)"));
    assert!(bench.fails(["ttl", "p", "nosuch"]).contains("no key"));
    assert!(bench.fails(["cas", "p", "new", "x", "y"]).contains("another one"));
    assert!(bench.fails(["cas", "p", "nosuch", "x", "y"]).contains("no key"));
    assert!(bench.fails(["incr", "p", "new"]).contains("is not a whole number"));
    bench.refused(["incr", "p", "new", "much"]);
    assert_eq!(bench.ok(["get", "p", "new"]), "w\n");
}

#[test]
fn a_tree_is_dumped_alone_and_restored_under_its_name() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "mint", "green", "--tree", "herbs"]);
    bench.ok(["put", "p", "oak", "tall", "--tree", "plants"]);
    bench.ok(["put", "p", "k", "v"]);
    let dumped = bench.run(["dump", "p", "d", "--tree", "herbs"]);
    assert_eq!(dumped.stderr, "dumped 1 entry\n");
    assert_eq!(bench.run(["dump", "p", "--tree", "herbs"]).stdout, content(&bench.path("d")));
    bench.ok(["create", "q", "--size", "1MiB"]);
    assert_eq!(bench.run(["restore", "q", "d"]).stderr, "restored 1 entry\n");
    assert_eq!(bench.ok(["trees", "q"]), "herbs\tbytes\t1\n");
    assert_eq!(bench.ok(["scan", "q", "--tree", "herbs"]), "mint\tgreen\n");
    assert_eq!(bench.ok(["count", "q"]), "0\n");
    for arguments in [&["dump", "p", "e", "--tree", "typo"][..], &["dump", "p", "--tree", "typo"]] {
        assert!(bench.fails(arguments).contains("there is no tree `typo`"));
    }
    assert!(!bench.path("e").exists());
    let numbers = Bench::with_u64_pool();
    assert!(numbers.fails(["dump", "n", "d", "--tree", "t"]).contains("there is no tree `t`"));
}

#[test]
fn hexadecimal_digits_reach_every_key() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "00", "0aff", "--hex"]);
    assert_eq!(bench.ok(["get", "p", "00", "--hex"]), "0aff\n");
    assert_eq!(bench.run(["get", "p", "00", "--hex", "-n"]).stdout, b"0aff");
    bench.ok(["cas", "p", "00", "0aff", "01", "--hex"]);
    bench.run_with_input(["put", "p", "01", "--hex", "--value-from", "-"], b"6162\n").ok();
    assert_eq!(bench.ok(["scan", "p", "--hex"]), "00\t01\n01\t6162\n");
    bench.ok(["del", "p", "00", "--hex"]);
    assert!(bench.fails(["del", "p", "00", "--hex"]).contains("no key"));
    assert!(bench.refused(["get", "p", "0", "--hex"]).contains("is not hexadecimal"));
    assert!(bench.refused(["put", "p", "00", "xy", "--hex"]).contains("is not hexadecimal"));
}
