//! load: formats, prefixes, and what it reports.

use crate::common::{Bench, json};

fn acknowledged(stderr: &str) -> &str {
    stderr
        .lines()
        .find(|line| line.starts_with("acknowledged ") && line.ends_with(" replaced)"))
        .unwrap_or(stderr)
}

#[test]
fn lines_are_keys_with_their_numbers() {
    let bench = Bench::with_pool();
    bench.write("words.txt", "one\r\n\n\ttwo  \nthree");
    let ran = bench.run(["load", "p", "words.txt"]);
    assert_eq!(acknowledged(&ran.stderr), "acknowledged 3 records (0 replaced)");
    assert_eq!(ran.ok(), "");
    assert_eq!(bench.ok(["scan", "p"]), "\\ttwo  \t3\none\t1\nthree\t4\n");
    let again = bench.run(["load", "p", "words.txt", "--format", "lines"]);
    assert_eq!(acknowledged(&again.stderr), "acknowledged 3 records (3 replaced)");
}

#[test]
fn the_extension_tells_the_format() {
    let bench = Bench::with_pool();
    bench.write("a.tsv", "k\tv\tw\n");
    bench.write("b.CSV", "id,x\n7,y\n");
    bench.write("c.other", "k\tv\n");
    bench.ok(["load", "p", "a.tsv"]);
    bench.ok(["load", "p", "b.CSV", "--key-column", "id"]);
    bench.ok(["load", "p", "c.other"]);
    bench.ok(["load", "p", "a.tsv", "--format", "lines"]);
    let expected = "7\t{\"id\":\"7\",\"x\":\"y\"}\nk\tv\\tw\nk\\tv\t1\nk\\tv\\tw\t1\n";
    assert_eq!(bench.ok(["scan", "p"]), expected);
}

#[test]
fn csv_rows_are_json_objects() {
    let bench = Bench::with_pool();
    bench.write(
        "cities.csv",
        "name,country,id\r\n\"Ware, \"\"Old\"\"\",UK,1\r\nBonn,DE,2\r\nBonn,DE,3\r\n",
    );
    let ran = bench.run(["load", "p", "cities.csv", "--key-column", "country,name"]);
    assert_eq!(acknowledged(&ran.stderr), "acknowledged 3 records (1 replaced)");
    let value = bench.ok(["get", "p", "UK/Ware, \"Old\""]);
    assert_eq!(value, "{\"name\":\"Ware, \\\"Old\\\"\",\"country\":\"UK\",\"id\":\"1\"}\n");
    assert_eq!(json(&bench.ok(["get", "p", "DE/Bonn"]))["id"], "3", "the later row replaces");
    bench.ok(["load", "p", "cities.csv", "--key-column", "3"]);
    assert_eq!(json(&bench.ok(["get", "p", "2"]))["name"], "Bonn");
}

#[test]
fn records_before_a_bad_one_stay() {
    for (name, content, options, complaint) in [
        ("a.tsv", &b"a\t1\nb\t2\nno tab\nc\t3\n"[..], &[][..], "a.tsv: line 3 has no TAB"),
        (
            "a.csv",
            b"k,v\na,1\nb,2\nc\nd,4\n",
            &["--key-column", "k"],
            "a.csv: row 3 (line 4) has 1 field,",
        ),
        ("b.csv", b"k,v\na,1\nb,2\nc,\"3\nd,4\n", &["--key-column", "k"], "line 4 is never closed"),
        ("c.csv", b"k,v\na,1\nb,2\nc,\xff\n", &["--key-column", "k"], "row 3 is not UTF-8"),
    ] {
        let bench = Bench::with_pool();
        bench.write(name, content);
        let ran = bench.run(["load", "p", name].iter().chain(options));
        assert_eq!(acknowledged(&ran.stderr), "acknowledged 2 records (0 replaced)");
        let sentence = ran.failed();
        assert!(sentence.contains(complaint), "{sentence}");
        let scanned = bench.ok(["scan", "p"]);
        assert!(scanned.lines().count() == 2 && scanned.starts_with("a\t"), "{scanned}");
        bench.ok(["check", "p"]);
    }
}

#[test]
fn u64_pools_take_files_whose_keys_are_numbers() {
    let bench = Bench::with_u64_pool();
    bench.write("numbers", "10\n9\n\n007\n");
    bench.ok(["load", "n", "numbers"]);
    assert_eq!(bench.ok(["scan", "n"]), "7\t4\n9\t2\n10\t1\n");
    bench.write("mixed", "11\ntwelve\n13\n");
    let ran = bench.run(["load", "n", "mixed"]);
    assert_eq!(acknowledged(&ran.stderr), "acknowledged 1 record (0 replaced)");
    let sentence = ran.failed();
    assert!(sentence.contains("mixed: line 2") && sentence.contains("`twelve`"), "{sentence}");
    assert_eq!(bench.ok(["scan", "n"]), "7\t4\n9\t2\n10\t1\n11\t1\n");
    bench.write("rows.csv", "id,v\n5,a\n-5,b\n");
    assert!(bench.fails(["load", "n", "rows.csv", "--key-column", "id"]).contains("row 2"));
    assert_eq!(bench.ok(["get", "n", "5"]), "{\"id\":\"5\",\"v\":\"a\"}\n");
}

#[test]
fn what_is_no_csv_is_refused() {
    let bench = Bench::with_pool();
    bench.write("binary", b"\x7fELF\0\x01\x02\n,\n");
    bench.write("prose", "Two roads diverged, and I\ntook one, the other, neither\n");
    bench.write("empty.csv", "");
    bench.write("header.csv", "a,b\n");
    bench.write("twice.csv", "a,a\n1,2\n");
    let load =
        |file, column| bench.run(["load", "p", file, "--format", "csv", "--key-column", column]);
    assert!(load("binary", "1").failed().contains("no CSV"));
    assert!(load("prose", "1").failed().contains("row 1 (line 2)"));
    assert!(load("empty.csv", "a").failed().contains("no header"));
    assert!(load("twice.csv", "a").failed().contains("two columns `a`"));
    assert!(load("header.csv", "c").refused().contains("the header names a, b"));
    assert!(load("header.csv", "3").refused().contains("no key column `3`"));
    assert_eq!(
        acknowledged(&load("header.csv", "b").stderr),
        "acknowledged 0 records (0 replaced)"
    );
    assert_eq!(bench.ok(["scan", "p"]), "");
}

#[test]
fn wrong_usage_and_missing_files() {
    let bench = Bench::with_pool();
    bench.write("a.csv", "k\n1\n");
    bench.write("words", "a\n");
    assert!(bench.refused(["load", "p", "a.csv"]).contains("--key-column"));
    bench.refused(["load", "p", "words", "--key-column", "k"]);
    bench.refused(["load", "p", "words", "--format", "json"]);
    bench.refused(["load", "p", "words", "--acknowledge-every", "0"]);
    bench.refused(["load", "p"]);
    assert!(bench.fails(["load", "p", "nosuch"]).contains("nosuch"));
    assert!(bench.fails(["load", "p", "."]).contains("folder"));
    assert!(bench.fails(["load", "nosuch", "words"]).contains("everleaf create"));
    assert!(!bench.path("nosuch").exists(), "only create makes a pool");
}

#[test]
fn a_file_without_newlines_does_not_fill_the_memory() {
    let bench = Bench::with_pool();
    let mut content = b"first\n".to_vec();
    content.extend(vec![b'x'; 10 << 20]);
    bench.write("long", content);
    let ran = bench.run(["load", "p", "long"]);
    assert_eq!(acknowledged(&ran.stderr), "acknowledged 1 record (0 replaced)");
    assert!(ran.failed().contains("line 2 has more than 65,536 bytes"));
}

#[test]
fn a_full_pool_keeps_a_prefix_and_says_how_much() {
    let bench = Bench::new();
    bench.ok(["create", "p", "--size", "256KiB", "--max-size", "256KiB"]);
    let lines: String = (0..50_000).map(|i| format!("{i:06}\n")).collect();
    let ran = bench.run_with_input(["load", "p", "-"], lines.as_bytes());
    let count: usize = acknowledged(&ran.stderr).split(' ').nth(1).unwrap().parse().unwrap();
    assert!(ran.failed().contains("full"));
    assert!(count > 100 && count < 50_000, "{count}");
    let expected: String = (0..count).map(|i| format!("{i:06}\t{}\n", i + 1)).collect();
    assert!(bench.ok(["scan", "p"]) == expected, "the pool does not hold the first {count} lines");
    bench.ok(["check", "p"]);
}

#[test]
fn hexadecimal_digits_are_loaded_as_bytes() {
    let bench = Bench::with_pool();
    bench.write("a.tsv", "00ff\t0a\n61\t\n");
    bench.write("lines", "6162\n\nFF\n");
    bench.ok(["load", "p", "a.tsv", "--hex"]);
    bench.ok(["load", "p", "lines", "--hex"]);
    assert_eq!(bench.ok(["scan", "p", "--hex"]), "00ff\t0a\n61\t\n6162\t31\nff\t33\n");
    bench.write("b.tsv", "61\t62\n6\t62\n");
    let sentence = bench.fails(["load", "p", "b.tsv", "--hex"]);
    assert!(sentence.contains("b.tsv: line 2: `6` is not hexadecimal"), "{sentence}");
    bench.refused(["load", "p", "b.tsv", "--hex", "--raw"]);
    bench.write("c.csv", "k\n61\n");
    assert!(bench.refused(["load", "p", "c.csv", "--key-column", "k", "--hex"]).contains("--hex"));
    let numbers = Bench::with_u64_pool();
    numbers.run_with_input(["load", "n", "-", "--format", "tsv", "--hex"], b"10\t6d\n").ok();
    assert_eq!(numbers.ok(["scan", "n"]), "10\tm\n");
}

#[test]
fn objects_without_a_key_or_a_value_are_refused() {
    let bench = Bench::with_pool();
    bench.write("a.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\"}\n");
    let ran = bench.run(["load", "p", "a.jsonl"]);
    assert_eq!(acknowledged(&ran.stderr), "acknowledged 1 record (0 replaced)");
    let sentence = ran.failed();
    assert!(sentence.contains("line 2") && sentence.contains("no `value`"), "{sentence}");
    bench.write("b.jsonl", "{\"key\":\"b\",\"value\":null}\n");
    assert_eq!(
        bench.fails(["load", "p", "b.jsonl"]),
        "everleaf: b.jsonl: line 1 is no object with a key and a value as `scan --json` prints \
        them: `value` is neither a text nor a whole number of 64 bits"
    );
    assert!(bench.refused(["load", "p", "a.jsonl", "--hex"]).contains("--hex"));
}

#[test]
fn the_example_files_are_those_that_the_readme_and_the_guide_load() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");
    let bench = Bench::with_pool();
    bench.ok(["load", "p", &format!("{examples}words.txt")]);
    assert!(bench.ok(["scan", "p", "--prefix", "lea", "--limit", "10"]).contains("leaf\t29\n"));
    bench.ok(["create", "c", "--size", "1MiB"]);
    let cities = format!("{examples}cities.csv");
    let loaded = bench.run(["load", "c", &cities, "--key-column", "country,name"]);
    assert_eq!(acknowledged(&loaded.stderr), "acknowledged 41 records (0 replaced)");
    assert_eq!(json(&bench.ok(["get", "c", "Germany/Bonn"]))["river"], "Rhine");
}

#[test]
fn acknowledgements_are_printed_on_demand() {
    let bench = Bench::with_pool();
    let ran =
        bench.run_with_input(["load", "p", "-", "--acknowledge-every", "2"], b"a\nb\nc\nd\ne\n");
    assert_eq!(ran.stderr, "acknowledged 2\nacknowledged 4\nacknowledged 5 records (0 replaced)\n");
    ran.ok();
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_key() {
    for (name, content, scanned) in [
        ("a.txt", "leaf\n", "leaf\t1\n"),
        ("a.tsv", "leaf\tgreen\n", "leaf\tgreen\n"),
        ("a.jsonl", "{\"key\":\"leaf\",\"value\":\"green\"}", "leaf\tgreen\n"),
        ("a.csv", "\"name\",x\nleaf,y\n", "leaf\t{\"name\":\"leaf\",\"x\":\"y\"}\n"),
        ("empty.tsv", "", ""),
    ] {
        let format = if name == "a.txt" { "lines" } else { name.split_once('.').unwrap().1 };
        let key: &[&str] = if format == "csv" { &["--key-column", "name"] } else { &[] };
        let content = ["\u{feff}", content].concat();
        let (bench, piped) = (Bench::with_pool(), Bench::with_pool());
        bench.write(name, &content);
        bench.ok(["load", "p", name].iter().chain(key));
        assert_eq!(bench.ok(["scan", "p"]), scanned, "{name}");
        let arguments = ["load", "p", "-", "--format", format];
        piped.run_with_input(arguments.iter().chain(key), content.as_bytes()).ok();
        assert_eq!(piped.ok(["scan", "p"]), scanned, "{name} from a pipe");
    }
    // A part of one is none, and the file ends before there could be more.
    let bench = Bench::with_pool();
    for (name, content) in
        [("a", &b"\xef"[..]), ("b", b"\xef\xbb"), ("c", b"\xef\xbbx"), ("d", b"x")]
    {
        bench.write(name, content);
        bench.ok(["load", "p", name]);
    }
    assert_eq!(bench.ok(["scan", "p"]), "x\t1\n\\xef\t1\n\\xef\\xbb\t1\n\\xef\\xbbx\t1\n");
}

#[test]
fn what_is_compressed_is_refused_with_what_unpacks_it() {
    let bench = Bench::with_pool();
    for (name, content, advice) in [
        ("a.tsv.gz", &b"\x1f\x8b\x08\0"[..], "`zcat a.tsv.gz | everleaf load p - --format tsv`"),
        ("a.zst", b"\x28\xb5\x2f\xfdx", "`zstdcat a.zst | everleaf load p -`"),
        ("a", b"\xfd7zXZ\0x", "`xzcat a | everleaf load p -`"),
        ("a.JSONL.bz2", b"BZh91AY&SYx", "`bzcat a.JSONL.bz2 | everleaf load p - --format jsonl`"),
    ] {
        bench.write(name, content);
        let refused = bench.fails(["load", "p", name, "--tree", "t"]);
        assert!(refused.contains("is compressed by ") && refused.contains(advice), "{refused}");
        let piped = bench.run_with_input(["load", "p", "-"], content).failed();
        assert!(piped.contains("compressed") && piped.contains("cat | everleaf load"), "{piped}");
        let restored = bench.fails(["restore", "p", name]);
        assert!(restored.contains("is compressed by"), "{restored}");
    }
    assert_eq!((bench.ok(["scan", "p"]), bench.ok(["trees", "p"])), Default::default());
}

/// A line says what it was taken for, and which option reads it otherwise.
#[test]
fn lines_that_look_like_another_format_are_told_of() {
    let bench = Bench::with_pool();
    let objects = "{\"key\":\"a\",\"value\":\"b\"}\n".repeat(20);
    let tabs = "a\tb\n".repeat(20);
    for (content, format) in [
        (&tabs[..], Some("tsv")),
        ("a\tb", Some("tsv")),
        ("\n\na\tb\n", Some("tsv")),
        (&objects, Some("jsonl")),
        ("{\"key\": \"a\\tb\"}\n", Some("jsonl")),
        ("leaf\ntree\n", None),
        ("a\tb\nleaf\n", None),
        ("{not an object}\n", None),
        ("", None),
    ] {
        bench.write("words.txt", content);
        for ran in [
            bench.run(["load", "p", "words.txt"]),
            bench.run_with_input(["load", "p", "-"], content.as_bytes()),
        ] {
            let told: Vec<_> = ran.stderr.lines().filter(|line| line.contains("lines`")).collect();
            assert_eq!(told.len(), usize::from(format.is_some()), "{content:?}: {}", ran.stderr);
            if let Some(format) = format {
                assert!(told[0].contains(&format!("--format {format} ")), "{}", told[0]);
            }
            ran.ok();
        }
        let said = bench.run(["load", "p", "words.txt", "--format", "lines"]).stderr;
        assert!(!said.contains("lines`"), "it was told: {said}");
    }
}

#[test]
fn a_command_that_fails_leaves_no_new_tree() {
    let bench = Bench::with_pool();
    bench.write("bad.tsv", "no tab\n");
    bench.write("a.csv", "k,v\n1,2\n");
    bench.write("hex.tsv", "xx\tyy\n");
    bench.write("long.tsv", format!("{}\tv\n", "k".repeat(65_535)));
    bench.write("bad.jsonl", "{\n");
    for arguments in [
        &["load", "p", "bad.tsv"][..],
        &["load", "p", "nosuch"],
        &["load", "p", "a.csv", "--key-column", "nosuch"],
        &["load", "p", "hex.tsv", "--hex"],
        &["load", "p", "long.tsv"],
        &["load", "p", "bad.jsonl"],
        &["put", "p", "0", "00", "--hex"],
        &["put", "p", &"k".repeat(65_535), "v"],
        &["incr", "p", &"k".repeat(65_535)],
        &["get", "p", "a"],
        &["scan", "p"],
        &["count", "p"],
        &["del", "p", "a"],
        &["cas", "p", "a", "b", "c"],
        &["ttl", "p", "a"],
        &["dump", "p", "no dump"],
    ] {
        let ran = bench.run(arguments.iter().chain(&["--tree", "misspelt"]));
        assert_ne!(ran.code, Some(0), "{arguments:?}");
        assert_eq!(bench.ok(["trees", "p"]), "", "{arguments:?}");
    }
    bench.write("empty", "");
    bench.ok(["load", "p", "empty", "--tree", "t"]);
    bench.write("two.tsv", "a\t1\nb\n");
    bench.fails(["load", "p", "two.tsv", "--tree", "u"]);
    bench.ok(["incr", "p", "n", "--tree", "v"]);
    bench.ok(["put", "p", "n", "1", "--tree", "w", "--if-absent"]);
    let trees = bench.ok(["trees", "p", "--json"]);
    let keys = |tree: &str| bench.ok(["count", "p", "--tree", tree]);
    assert_eq!(["t", "u", "v", "w"].map(keys), ["0\n", "1\n", "1\n", "1\n"], "{trees}");
    let numbers = Bench::with_u64_pool();
    numbers.write("keys", "1\n");
    assert!(numbers.refused(["load", "n", "keys", "--tree", "t"]).contains("no named trees"));
}
