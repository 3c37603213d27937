//! Dumps, copies, salvages and the shell, from the command line.

use crate::common::{Bench, content, json};

fn filled() -> Bench {
    let bench = Bench::with_pool();
    for (key, value) in [("leaf", "a blade"), ("tree", "a plant"), ("wood", "")] {
        bench.ok(["put", "p", key, value]);
    }
    bench
}

#[test]
fn what_is_dumped_is_restored_and_what_is_copied_is_there() {
    let bench = filled();
    let listing = bench.ok(["scan", "p"]);
    assert_eq!(bench.ok(["dump", "p", "d"]), "");
    assert!(bench.fails(["dump", "p", "d"]).contains("d exists already"));
    let piped = bench.run(["dump", "p"]);
    assert!(piped.stderr.contains("dumped 3 entries") && piped.stdout == content(&bench.path("d")));
    bench.ok(["create", "q", "--size", "1MiB", "--engine", "ptree"]);
    let restored = bench.run_with_input(["restore", "q"], &piped.stdout);
    assert!(restored.stderr.contains("restored 3 entries"), "{}", restored.stderr);
    restored.ok();
    assert_eq!(bench.ok(["scan", "q"]), listing);
    assert!(bench.fails(["restore", "q", "d"]).contains("not empty"));
    assert!(bench.run(["copy", "p", "c"]).stderr.contains("copied 3 entries"));
    assert_eq!(bench.ok(["scan", "c"]), listing);
    assert!(bench.fails(["copy", "p", "c"]).contains("exists already"));
    assert_eq!(json(&bench.ok(["check", "c", "--json"]))["ok"], true);
}

#[test]
fn a_dump_that_is_none_is_refused_with_a_sentence_and_changes_nothing() {
    let bench = filled();
    bench.ok(["dump", "p", "d"]);
    let dump = content(&bench.path("d"));
    bench.ok(["create", "q", "--size", "1MiB"]);
    bench.write("cut", &dump[..dump.len() - 3]);
    assert!(bench.fails(["restore", "q", "cut"]).contains("ends too early"));
    bench.write("text", "leaf\tof a tree that is no dump\n");
    assert!(
        bench
            .fails(["restore", "q", "text"])
            .contains("text is not a valid dump: it does not begin like one")
    );
    assert!(bench.fails(["restore", "q", "p"]).contains("p is not a valid dump: it is a pool"));
    bench.write("empty", "");
    assert!(bench.fails(["restore", "q", "empty"]).contains("ends too early"));
    assert!(bench.fails(["restore", "q", "nosuch"]).contains("cannot be read"));
    assert!(bench.fails(["restore", "q", "."]).contains("is a folder; give a file"));
    bench.ok(["create", "n", "--size", "1MiB", "--keys", "u64"]);
    let keys = bench.fails(["restore", "n", "d"]);
    assert!(
        keys.contains(
            "d is the dump of a pool with byte-string keys, and n has u64 keys; make a pool \
            with --keys bytes"
        ),
        "{keys}"
    );
    assert_eq!(bench.ok(["scan", "q"]), "");
    bench.ok(["restore", "q", "d"]);
    assert!(bench.fails(["restore", "nosuch", "d"]).contains("everleaf create"));
    assert!(bench.fails(["dump", "nosuch"]).contains("everleaf create"));
    let no_folder = bench.fails(["dump", "p", "no/such/folder"]);
    assert_eq!(no_folder, "everleaf: the folder no/such does not exist; make it first");
    bench.refused(["copy", "p"]);
}

#[test]
fn what_can_be_read_is_salvaged() {
    let bench = filled();
    let report = json(&bench.ok(["check", "p", "--salvage", "whole", "--json"]));
    assert_eq!((&report["from_index"], &report["unreadable"]), (&3.into(), &0.into()));
    bench.ok(["copy", "p", "t"]);
    bench.ok(["put", "t", "mint", "green", "--tree", "herbs"]);
    let said = bench.ok(["check", "t", "--salvage", "with tree"]);
    assert_eq!(said, "4 keys saved with 1 named tree; 0 records found without the index\n");
    let report = json(&bench.ok(["check", "t", "--salvage", "again", "--json"]));
    assert_eq!((&report["keys"], &report["trees"]), (&4.into(), &1.into()));
    assert!(bench.fails(["check", "p", "--salvage", "whole"]).contains("exists already"));
    let sound = content(&bench.path("p"));
    let mut damaged = sound.clone();
    let at = sound.windows(7).rposition(|bytes| bytes == b"a blade").unwrap();
    damaged[at] ^= 1;
    bench.write("p", &damaged);
    bench.fails(["check", "p"]);
    let salvaged = bench.run(["check", "p", "--salvage", "new"]);
    assert!(String::from_utf8_lossy(&salvaged.stdout).contains("2 keys saved"));
    assert!(salvaged.failed().contains("could not be read; the rest is in new"));
    assert_eq!(bench.ok(["scan", "new"]), "tree\ta plant\nwood\t\n");
    assert_eq!(content(&bench.path("p")), damaged, "it was not written");
    bench.write("p", vec![0; sound.len()]);
    assert!(bench.fails(["check", "p", "--salvage", "nothing"]).contains("not an Everleaf pool"));
    assert!(!bench.path("nothing").exists());
}

#[test]
fn a_pool_without_its_first_page_is_called_damaged_and_salvage_is_named() {
    let bench = filled();
    let sound = content(&bench.path("p"));
    let lost = |page: Vec<u8>| bench.write("p", [&page, &sound[4096..]].concat());
    for page in [vec![0; 4096], b"noise and ".iter().copied().cycle().take(4096).collect()] {
        lost(page);
        for command in [
            &["count", "p"][..],
            &["info", "p"],
            &["get", "p", "leaf"],
            &["put", "p", "leaf", "new"],
            &["scan", "p"],
            &["dump", "p", "d"],
            &["copy", "p", "c"],
            &["check", "p"],
            &["trees", "p"],
            &["shell", "p"],
        ] {
            let said = bench.fails(command);
            assert!(said.contains("everleaf check POOL --salvage NEW"), "{command:?}: {said}");
            assert!(!said.contains("not an Everleaf pool"), "{command:?}: {said}");
        }
    }
    let salvaged = bench.run(["check", "p", "--salvage", "new"]);
    assert!(salvaged.failed().contains("the rest is in new"));
    assert_eq!(bench.ok(["count", "new"]), "3\n");
    // What holds a pool somewhere is none; nor are texts, zeros, and beginnings of pools.
    let shifted = [&vec![0; 512], &sound[..]].concat();
    let text = "a line of a text\n".repeat(4000).into_bytes();
    let short = [&vec![0; 4096], &sound[4096..3 * 4096]].concat();
    for other in [shifted, text, vec![0; 1 << 20], short, vec![], b"text".to_vec()] {
        bench.write("p", other);
        for command in [&["count", "p"][..], &["check", "p", "--salvage", "nothing"]] {
            let said = bench.fails(command);
            assert!(said.contains("is not an Everleaf pool"), "{command:?}: {said}");
        }
    }
}

/// A pool `p` with some megabytes in it, and an empty one `q`.
fn large() -> Bench {
    let bench = Bench::with_pool();
    let value = "x".repeat(1000);
    bench.write("lines", (0..8000).map(|i| format!("key {i}\t{value}\n")).collect::<String>());
    bench.ok(["load", "p", "lines", "--format", "tsv"]);
    // With a log beside it a pool is filled in place.
    let without_log = ["--size", "1MiB", "--engine", "ptree", "--durability", "process"];
    bench.ok(["create", "q"].iter().chain(&without_log));
    bench
}

#[test]
fn a_restore_that_is_killed_leaves_the_pool_empty_as_it_was() {
    let bench = large();
    let dump = bench.run(["dump", "p"]).stdout;
    let mut child =
        bench.command(["restore", "q"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // What does not fit into the pipe and its buffers was read, and is stored but for the last
    // part.
    std::io::Write::write_all(&mut input, &dump[..dump.len() - 10]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(bench.ok(["scan", "q"]), "");
    let info = json(&bench.ok(["info", "q", "--json"]));
    assert_eq!((&info["engine"], &info["keys"]), (&"ptree".into(), &0.into()));
    let left: Vec<_> = std::fs::read_dir(bench.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(left.iter().any(|name| name.to_string_lossy().ends_with(".unfinished")), "{left:?}");
    let restored = bench.run_with_input(["restore", "q"], &dump);
    assert!(restored.stderr.contains("restored 8,000 entries"), "{}", restored.stderr);
    let info = json(&bench.ok(["info", "q", "--json"]));
    assert_eq!((&info["engine"], &info["keys"]), (&"ptree".into(), &8000.into()));
    assert_eq!(bench.ok(["scan", "q"]), bench.ok(["scan", "p"]));
}

#[test]
fn a_dump_has_its_name_when_it_is_complete() {
    let bench = large();
    let there = |file: &str| {
        std::fs::read_dir(bench.path(""))
            .unwrap()
            .any(|e| e.unwrap().file_name().to_string_lossy().starts_with(file))
    };
    let mut child = bench.command(["dump", "p", "dumped"]).spawn().unwrap();
    while !there("dumped") {
        assert!(child.try_wait().unwrap().is_none_or(|status| status.success()));
        std::thread::yield_now();
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(bench.path("dumped").exists() || !status.success());
    if bench.path("dumped").exists() {
        bench.ok(["restore", "q", "dumped"]);
        assert_eq!(bench.ok(["scan", "q"]), bench.ok(["scan", "p"]));
    }
}

#[test]
fn a_restored_pool_keeps_its_permissions_and_the_link_to_it() {
    use std::os::unix::fs::PermissionsExt;
    let bench = filled();
    bench.ok(["dump", "p", "d"]);
    bench.ok(["create", "q", "--size", "1MiB"]);
    std::fs::set_permissions(bench.path("q"), std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("q", bench.path("link")).unwrap();
    bench.ok(["restore", "link", "d"]);
    assert!(bench.path("link").is_symlink());
    assert_eq!(bench.path("q").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(bench.ok(["scan", "q"]), bench.ok(["scan", "p"]));
}

#[test]
fn the_shell_goes_on_after_a_line_that_is_no_text() {
    let bench = filled();
    let ran = bench.run_with_input(["shell", "p"], b"get wood\nput \xff x\nget leaf\r\n");
    assert!(ran.stderr.contains("line 2 is not UTF-8"), "{}", ran.stderr);
    assert_eq!(ran.stdout, b"\na blade\n");
    ran.failed();
}

#[test]
fn the_shell_does_line_after_line() {
    let bench = filled();
    let shell = |lines: &str| bench.run_with_input(["shell", "p"], lines.as_bytes());
    let lines = "get leaf\nput 'two words' \"a  value\"\nscan t\n# a comment\n\nuse herbs\nput \
        mint green\nbegin\nput sage grey\ndel mint\ncommit\n\
                 first\ncount\nuse\ncount\ntrees\ndel wood\ncas tree 'a plant' tall\nget tree\n\
                 incr visits\nincr visits 4\nttl visits\nscan --reverse --limit 1\ndel visits\n\
                 check\n";
    let expected = "a blade\ntree\ta plant\ntwo words\ta  value\nwood\t\n2 writes done, 0 without \
        effect\nsage\tgrey\n1\n4\nherbs\ntall\n1\n5\nnever\nvisits\t5\n\
        sound: 4 keys, 0 leaked blocks\n";
    assert_eq!(shell(lines).ok(), expected);
    assert_eq!(shell("insert leaf x\n").failed(), "everleaf: a line failed");
    for (line, sentence) in [
        ("frobnicate", "is not a command; `help` lists them"),
        ("put leaf", "usage: put KEY VALUE [TIME]"),
        ("get nosuch", "there is no such key"),
        ("ttl nosuch", "there is no such key"),
        ("cas nosuch a b", "there is no such key"),
        ("cas leaf a b", "the value is another one"),
        ("incr leaf", "is not a whole number"),
        ("scan a --limit x", "`x` is not a number of entries"),
        ("read nosuch", "nosuch cannot be read"),
        ("get 'leaf", "a quote is not closed"),
        ("commit", "no batch was begun"),
        ("drop nosuch", "there is no tree nosuch"),
        ("put a b soon", "is not a number of seconds"),
    ] {
        let ran = shell(&format!("{line}\nget leaf\n"));
        assert!(ran.stderr.contains(sentence), "{line}: {}", ran.stderr);
        assert_eq!(ran.stdout, b"a blade\n", "the shell goes on");
        ran.failed();
    }
    assert!(shell("use new\n").stderr.contains("the tree new is new"));
    bench.write("lines", "get leaf\nread lines\n");
    let ran = shell(".read lines\n");
    assert!(ran.stdout == b"a blade\n".repeat(16) && ran.stderr.contains("read files too deeply"));
    ran.failed();
    bench.write("lines", "get leaf\nquit\nget leaf\n");
    assert_eq!(shell("read lines\nget leaf\n").ok(), "a blade\n");
    assert!(shell("timer on\nget leaf\n").stderr.contains(" s\n"));
    assert!(shell("begin\ncas leaf a b\n").stderr.contains("a batch has no cas"));
    assert!(shell("begin\nput x y\n").stderr.contains("1 write not committed"));
    assert!(bench.run(["get", "p", "x"]).code == Some(1));
    let read_only = bench.run_with_input(["shell", "p", "--read-only"], b"put x y\nget leaf\n");
    assert!(read_only.stderr.contains("read") && read_only.stdout == b"a blade\n");
    assert!(shell("help\nquit\nget leaf\n").ok().lines().count() > 20, "and nothing after `quit`");
}

#[test]
fn two_processes_do_not_write_one_pool() {
    let bench = filled();
    let mut command = bench.command(["shell", "p"]);
    let mut shell = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It answers, so it has the pool.
    let mut input = shell.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"put key value\nget key\n").unwrap();
    let mut answer = [0; 6];
    std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut answer).unwrap();
    assert_eq!(&answer, b"value\n");
    for command in [
        &["put", "p", "a", "b"][..],
        &["get", "p", "key"],
        &["dump", "p"],
        &["copy", "p", "c"],
        &["check", "p"],
        &["shell", "p"],
    ] {
        assert!(bench.fails(command).contains("open in another process"), "{command:?}");
    }
    assert!(bench.fails(["check", "p", "--salvage", "c"]).contains("open in another process"));
    drop(input);
    assert!(shell.wait().unwrap().success());
    assert_eq!(bench.ok(["get", "p", "key"]), "value\n");
}

#[test]
fn a_shell_beside_readers_is_told_that_it_can_read() {
    let bench = filled();
    let hold = |arguments: &[&str]| {
        let mut command = bench.command(arguments);
        let (stdin, stdout) = (std::process::Stdio::piped(), std::process::Stdio::piped());
        let mut shell = command.stdin(stdin).stdout(stdout).spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, b"get leaf\n").unwrap();
        let mut answer = [0; 8];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut answer).unwrap();
        (shell, input)
    };
    for (holder, helps) in [(&["shell", "p", "--read-only"][..], true), (&["shell", "p"], false)] {
        let (mut shell, input) = hold(holder);
        let sentence = bench.fails(["shell", "p"]);
        assert!(sentence.contains("open in another process"), "{sentence}");
        assert_eq!(sentence.contains("--read-only"), helps, "{sentence}");
        let read = bench.run_with_input(["shell", "p", "--read-only"], b"get leaf\n");
        assert_eq!(read.code == Some(0), helps);
        drop(input);
        assert!(shell.wait().unwrap().success());
    }
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = bench.ok(["completions", shell]);
        assert!(crate::common::COMMANDS.iter().all(|command| text.contains(command)), "{shell}");
        assert!(!text.contains("-writer"), "what runs itself is nobody's to complete: {shell}");
    }
    bench.refused(["completions", "nosuch"]);
    assert!(bench.ok(["man"]).contains(".TH everleaf 1") && !bench.ok(["man"]).contains("-writer"));
    std::fs::create_dir(bench.path("man1")).unwrap();
    bench.ok(["man", "man1"]);
    assert!(
        crate::common::COMMANDS
            .iter()
            .all(|command| bench.path(&format!("man1/everleaf-{command}.1")).exists())
    );
    assert!(bench.fails(["man", "nosuch"]).contains("cannot be written"));
}
