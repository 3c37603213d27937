//! Forms of keys and values: what programs store, read and written by the command line.

use crate::common::{Bench, json};
use everleaf::Store;

/// A pool `p` with what a program of Rust makes.
fn with_typed_trees() -> Bench {
    let bench = Bench::with_pool();
    let store = Store::open(bench.path("p")).unwrap();
    store.typed_tree::<String, u64>("counters").unwrap().put("next", 300).unwrap();
    let visits = store.typed_tree::<(String, u64), Vec<u8>>("visits").unwrap();
    visits.put(("ann", 7), b"{\"page\": 1}").unwrap();
    visits.put(("ann", 258), b"{}").unwrap();
    visits.put(("anna", 1), b"[1, 2]").unwrap();
    let scores = store.typed_tree::<f64, String>("scores").unwrap();
    scores.put(2.5, "b").unwrap();
    scores.put(-0.125, "a").unwrap();
    store.close().unwrap();
    bench
}

#[test]
fn numbers_of_programs_are_read_written_and_added_to() {
    let bench = with_typed_trees();
    let counters = ["--tree", "counters", "--as", "u64le"];
    let run = |words: &[&str]| bench.run(words.iter().chain(&counters));
    assert_eq!(run(&["get", "p", "next"]).ok(), "300\n");
    assert_eq!(run(&["incr", "p", "next", "7"]).ok(), "307\n");
    run(&["cas", "p", "next", "307", "18446744073709551615"]).ok();
    assert!(run(&["incr", "p", "next"]).failed().contains("no number from 0 to"));
    run(&["put", "p", "last", "1"]).ok();
    assert_eq!(run(&["scan", "p"]).ok(), "last\t1\nnext\t18446744073709551615\n");
    let lines = run(&["scan", "p", "--json", "--reverse", "--limit", "1"]).ok();
    assert_eq!(lines, "{\"key\":\"next\",\"value\":18446744073709551615}\n");
    bench.ok(["put", "p", "short", "12345", "--tree", "counters"]);
    let said = run(&["get", "p", "short"]).failed();
    assert!(
        said.ends_with(
            "the value of `short` has 5 bytes, and a u64 has 8; --as hex shows any value"
        ),
        "{said}"
    );
    assert!(run(&["put", "p", "k", "-1"]).refused().contains("no whole number"));
    assert!(run(&["put", "p", "k", "1.5"]).refused().contains("no whole number"));
    // What was right before it is printed.
    let ran = run(&["scan", "p", "--from", "last"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout).lines().count(), 2);
    ran.failed();
    assert!(bench.refused(["get", "p", "next", "--as", "u32"]).contains("--as"));
}

#[test]
fn values_are_text_json_or_digits_where_that_is_said() {
    let bench = Bench::with_pool();
    bench.write("value", b"{ \"a\": [1.0, 2],\n \"b\": \"x \\\" y\" }\n");
    bench.ok(["put", "p", "object", "--value-from", "value", "--as", "json"]);
    bench.ok(["put", "p", "bytes", "00ff", "--as", "hex"]);
    assert_eq!(
        bench.ok(["get", "p", "object", "--as", "json"]),
        "{\"a\":[1.0,2],\"b\":\"x \\\" y\"}\n"
    );
    assert_eq!(bench.ok(["get", "p", "bytes", "--as", "hex"]), "00ff\n");
    let lines = bench.ok(["scan", "p", "--from", "o", "--json", "--as", "json"]);
    assert_eq!(lines, "{\"key\":\"object\",\"value\":{\"a\":[1.0,2],\"b\":\"x \\\" y\"}}\n");
    for (form, what) in [("json", "is no JSON"), ("utf8", "is not UTF-8"), ("u64le", "has 2 bytes")]
    {
        let said = bench.fails(["get", "p", "bytes", "--as", form]);
        assert!(said.contains(&format!("the value of `bytes` {what}")), "{said}");
        assert!(bench.refused(["put", "p", "k", "{", "--as", "json"]).contains("is no JSON"));
    }
    assert_eq!(bench.ok(["scan", "p", "--to", "63", "--hex"]), "6279746573\t00ff\n");
    assert_eq!(bench.ok(["get", "p", "6279746573", "--hex", "--as", "hex"]), "00ff\n");
}

#[test]
fn tuples_are_arrays_by_the_types_that_are_recorded_or_named() {
    let bench = with_typed_trees();
    let visits = ["--tree", "visits", "--key-as", "tuple"];
    let run = |words: &[&str]| bench.run(words.iter().chain(&visits));
    assert_eq!(
        run(&["scan", "p", "--as", "json"]).ok(),
        "[\"ann\",7]\t{\"page\":1}\n[\"ann\",258]\t{}\n[\"anna\",1]\t[1,2]\n"
    );
    assert_eq!(run(&["get", "p", "[\"ann\",7]", "--as", "utf8"]).ok(), "{\"page\": 1}\n");
    assert_eq!(run(&["count", "p", "--prefix", "[\"ann\"]"]).ok(), "2\n");
    assert_eq!(run(&["scan", "p", "--keys-only", "--from", "[\"ann\",8]"]).ok().lines().count(), 2);
    let line = run(&["scan", "p", "--limit", "1", "--json", "--as", "json"]).ok();
    assert_eq!(json(&line)["key"], serde_json::json!(["ann", 7]));
    run(&["put", "p", "[\"bob\",1]", "x"]).ok();
    run(&["del", "p", "[\"bob\",1]"]).ok();
    assert_eq!(run(&["get", "p", "[\"bob\",1]"]).code, Some(1));
    let named = ["scan", "p", "--tree", "visits", "--key-as", "(String, u64)", "--keys-only"];
    assert_eq!(bench.ok(named).lines().count(), 3);
    for key in ["ann", "[\"ann\"]", "[\"ann\",-7]", "[7,\"ann\"]"] {
        assert!(run(&["get", "p", key]).refused().contains("is no key of type (String, u64)"));
    }
    let own = bench.refused(["get", "p", "k", "--key-as", "tuple"]);
    assert!(own.contains("is not recorded; name them"), "{own}");
    assert!(bench.refused(["get", "p", "k", "--key-as", "str"]).contains("is no type of keys"));
    bench.ok(["put", "p", "k", "v"]);
    let said = bench.fails(["scan", "p", "--key-as", "u64"]);
    assert!(said.contains("the key `k` is not of type u64; --hex shows its bytes"), "{said}");
    let other = bench.refused(["get", "p", "7", "--tree", "visits", "--key-as", "u64", "--hex"]);
    assert!(other.contains("--hex"), "{other}");
}

#[test]
fn trees_of_floats_and_of_numbers_are_made_by_load_and_are_in_the_order_of_numbers() {
    let bench = with_typed_trees();
    assert_eq!(bench.ok(["scan", "p", "--tree", "scores"]), "-0.125\ta\n2.5\tb\n");
    assert_eq!(bench.ok(["get", "p", "2.50", "--tree", "scores"]), "b\n");
    bench.write("points.tsv", "10\tten\n9.5\tnine\n-3\tminus\n1e2\thundred\n-0\tnought\n");
    bench.ok(["load", "p", "points.tsv", "--tree", "points", "--keys", "float"]);
    let top = bench.ok(["scan", "p", "--tree", "points", "--reverse", "--limit", "2"]);
    assert_eq!(top, "100.0\thundred\n10.0\tten\n");
    assert_eq!(bench.ok(["get", "p", "0", "--tree", "points"]), "nought\n");
    assert_eq!(bench.ok(["count", "p", "--tree", "points", "--from", "-3", "--to", "10"]), "3\n");
    assert!(bench.refused(["scan", "p", "--tree", "points", "--prefix", "1"]).contains("--from"));
    let lines = bench.ok(["scan", "p", "--tree", "points", "--json", "--limit", "1"]);
    assert_eq!(lines, "{\"key\":-3.0,\"value\":\"minus\"}\n");
    bench.write("n.tsv", "10\tten\n9\tnine\n");
    bench.ok(["load", "p", "n.tsv", "--tree", "numbers", "--keys", "u64"]);
    assert_eq!(bench.ok(["scan", "p", "--tree", "numbers"]), "9\tnine\n10\tten\n");
    // The kind of a tree that there is is not changed, and what is no number is named.
    for (tree, keys) in [("numbers", "float"), ("points", "bytes"), ("visits", "u64")] {
        let said = bench.refused(["load", "p", "n.tsv", "--tree", tree, "--keys", keys]);
        assert!(said.contains("leave it out"), "{said}");
    }
    assert!(bench.refused(["load", "p", "n.tsv", "--keys", "u64"]).contains("--tree"));
    bench.ok(["load", "p", "n.tsv", "--tree", "points"]);
    bench.write("bad.tsv", "1\ta\nx\tb\n");
    let said = bench.fails(["load", "p", "bad.tsv", "--tree", "points"]);
    assert!(said.contains("line 2: `x` is no key of type f64"), "{said}");
    bench.write("large.tsv", "1\ta\n-1e999\tb\n");
    let said = bench.fails(["load", "p", "large.tsv", "--tree", "points"]);
    assert!(said.contains("line 2: `-1e999` is no key of type f64; write a number that"), "{said}");
    let said = bench.refused(["get", "p", "1e999", "--tree", "points"]);
    assert!(said.contains("`1e999` is no key of type f64; write a number that"), "{said}");
    bench.write("worse.tsv", "x\tb\n");
    let said = bench.fails(["load", "p", "worse.tsv", "--tree", "numbers"]);
    let none = "the tree `numbers` has u64 keys, and `x` is not a whole number";
    assert!(said.contains(&format!("line 1: {none}")), "{said}");
    assert!(bench.refused(["get", "p", "x", "--tree", "numbers"]).contains(none));
    let shell = bench.run_with_input(["shell", "p"], b"use numbers\nget x\n").stderr;
    assert!(shell.contains(none), "{shell}");
    // A program opens what was loaded.
    let store = Store::open(bench.path("p")).unwrap();
    let points = store.typed_tree::<f64, String>("points").unwrap();
    assert_eq!(points.last().unwrap(), Some((100.0, "hundred".to_owned())));
    assert_eq!(store.typed_tree::<u64, String>("numbers").unwrap().len().unwrap(), 2);
}

#[test]
fn what_is_scanned_of_floats_is_loaded_back() {
    let bench = with_typed_trees();
    bench.write("points.tsv", "10\tten\n-3\tminus\n4e15\tbig\ninf\tend\nNaN\tnone\n");
    bench.ok(["load", "p", "points.tsv", "--tree", "points", "--keys", "float"]);
    let points = bench.ok(["scan", "p", "--tree", "points"]);
    for (file, forms) in
        [("back.tsv", &[][..]), ("back.jsonl", &["--json"]), ("hex.tsv", &["--hex"])]
    {
        let told = bench.ok(["scan", "p", "--tree", "points"].iter().chain(forms));
        bench.write(file, told);
        let load = ["load", "p", file, "--tree", file, "--keys", "float"];
        bench.ok(load.iter().chain(forms.iter().filter(|form| **form == "--hex")));
        assert_eq!(bench.ok(["scan", "p", "--tree", file]), points, "{file}");
    }
    bench.write("short.tsv", "c024\t00\n");
    let said = bench.fails(["load", "p", "short.tsv", "--tree", "points", "--hex"]);
    assert!(said.contains("is not of type f64"), "{said}");
    // Messages name keys as they were given.
    let said =
        bench.fails(["load", "p", "points.tsv", "--tree", "points", "--on-duplicate", "fail"]);
    assert!(said.contains("line 1: the key `10` is there already"), "{said}");
    for (line, said) in [
        (&["get", "p", "7", "--tree", "points"][..], "there is no key `7.0` in tree `points`"),
        (&["put", "p", "10", "x", "--if-absent", "--tree", "points"], "the key `10.0` is there"),
        (&["cas", "p", "10", "x", "y", "--tree", "points"], "the value of `10.0` is another one"),
        (
            &["get", "p", "10", "--as", "u64le", "--tree", "points"],
            "the value of `10.0` has 3 bytes",
        ),
    ] {
        let ran = bench.run(line);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

#[test]
fn a_key_that_comes_again_replaces_is_passed_over_or_fails() {
    let bench = Bench::with_pool();
    bench.write("f.tsv", "a\t1\nb\t2\na\t3\nc\t4\n");
    let load = |how: &str, tree: &str| {
        bench.run(["load", "p", "f.tsv", "--tree", tree, "--on-duplicate", how])
    };
    let ran = load("replace", "replaced");
    assert!(ran.stderr.contains("acknowledged 4 records (1 replaced)"), "{}", ran.stderr);
    let ran = load("keep", "kept");
    assert!(ran.stderr.contains("acknowledged 3 records (0 replaced, 1 kept)"), "{}", ran.stderr);
    assert_eq!(bench.ok(["scan", "p", "--tree", "kept"]), "a\t1\nb\t2\nc\t4\n");
    // What is passed over acknowledges nothing.
    let line = ["load", "p", "f.tsv", "--tree", "kept", "--on-duplicate", "keep"];
    let ran = bench.run(line.iter().chain(&["--acknowledge-every", "1"]));
    assert_eq!(ran.stderr, "acknowledged 0 records (0 replaced, 4 kept)\n");
    let ran = load("fail", "failed");
    assert!(ran.stderr.contains("acknowledged 2 records (0 replaced)"), "{}", ran.stderr);
    let said = ran.failed();
    assert!(said.contains("line 3: the key `a` is there already"), "{said}");
    assert_eq!(bench.ok(["scan", "p", "--tree", "failed"]), "a\t1\nb\t2\n");
}

#[test]
fn json_lines_of_others_have_a_field_that_is_the_key() {
    let bench = Bench::with_pool();
    bench.write("users.jsonl", "{\"id\":7, \"name\":\"ann\"}\n{\"id\":8,\"name\":\"bob\"}\n");
    bench.ok(["load", "p", "users.jsonl", "--key-column", "id"]);
    assert_eq!(bench.ok(["get", "p", "7"]), "{\"id\":7, \"name\":\"ann\"}\n");
    bench.ok(["load", "p", "users.jsonl", "--key-column", "id", "--tree", "n", "--keys", "u64"]);
    assert_eq!(bench.ok(["count", "p", "--tree", "n", "--from", "8"]), "1\n");
    bench.write("bad.jsonl", "{\"id\":9}\n{\"name\":\"eve\"}\n");
    let said = bench.fails(["load", "p", "bad.jsonl", "--key-column", "id"]);
    assert!(said.ends_with("line 2 has no field `id`, which is to be its key"), "{said}");
    assert_eq!(bench.ok(["count", "p"]), "3\n", "what was before it is there");
}

#[test]
fn info_tells_the_bytes_of_each_tree() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "key", "value"]);
    bench.ok(["put", "p", "k", "v", "--tree", "t"]);
    let report = json(&bench.ok(["info", "p", "--json", "--trees"]));
    assert_eq!(report["own_bytes"], 8);
    assert_eq!(report["named_trees"][0]["bytes"], 2);
    let text = bench.ok(["info", "p", "--trees"]);
    assert!(text.contains("the pool's own tree: 1 key, 8 B"), "{text}");
    assert!(text.contains("t: 1 key (bytes), 2 B"), "{text}");
    let report = json(&bench.ok(["info", "p", "--json"]));
    assert!(!report.contains_key("own_bytes"), "values are not read unless it is asked for");
}

#[test]
fn help_of_create_names_the_engines_that_one_would_choose_and_lists_the_rest_last() {
    let help = Bench::new().ok(["create", "--help"]);
    let (options, rest) = help.split_once("Engines: ").unwrap();
    assert!(options.contains("fptree-c") && !options.contains("clftree"), "{help}");
    assert!(rest.contains("clftree-append") && rest.contains("docs/guide.md"), "{help}");
}
