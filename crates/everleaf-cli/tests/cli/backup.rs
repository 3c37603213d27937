//! Dumps, copies, salvages and the shell, from the command line.

use std::time::Duration;

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
    bench.ok(["create", "q", "--size", "1MiB", "--engine", "nvtree"]);
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
    let bench = Bench::new();
    fill(&bench, 8000);
    bench.ok(["create", "q", "--size", "1MiB", "--engine", "nvtree", "--durability", "process"]);
    bench
}

fn fill(bench: &Bench, keys: usize) {
    bench.ok(["create", "p", "--size", "1MiB"]);
    let value = "x".repeat(1000);
    bench.write("lines", (0..keys).map(|i| format!("key {i}\t{value}\n")).collect::<String>());
    bench.ok(["load", "p", "lines", "--format", "tsv"]);
}

/// Kills a restore of a dump that it has read, and stored, but for the last part: what does not fit
/// into the pipe and its buffers.
fn kill_a_restore(bench: &Bench, pool: &str, dump: &[u8]) {
    kill_a_restore_after(Duration::ZERO, bench, pool, dump);
}

/// Like [`kill_a_restore`], when it has had this long to store what it was given.
fn kill_a_restore_after(pause: Duration, bench: &Bench, pool: &str, dump: &[u8]) {
    let mut child =
        bench.command(["restore", pool]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &dump[..dump.len() - 10]).unwrap();
    std::thread::sleep(pause);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_restore_that_is_killed_leaves_a_pool_that_all_refuse_until_it_is_restored_again() {
    // With a log, and without one; in memory, where there is such a file system; of epochs.
    let benches = [Some(Bench::new()), Bench::on("/dev/shm")];
    for bench in benches.into_iter().flatten() {
        fill(&bench, 1500);
        let dump = bench.run(["dump", "p"]).stdout;
        for (i, options) in [
            &["--engine", "nvtree"][..],
            &["--engine", "nvtree", "--durability", "process"],
            &["--engine", "masstree", "--durability", "buffered=5"],
        ]
        .into_iter()
        .enumerate()
        {
            let pool = &format!("q{i}");
            bench.ok(["create", pool, "--size", "1MiB"].iter().chain(options));
            let names = crate::common::ended::names(&bench);
            // A restore that is killed early has stored nothing yet that outlives it.
            let mut salvaged = (0..12).map(|doubled| {
                let pause = Duration::from_millis((1 << doubled) - 1);
                kill_a_restore_after(pause, &bench, pool, &dump);
                assert_eq!(crate::common::ended::names(&bench), names, "nothing is left beside it");
                all_refuse(&bench, pool)
            });
            assert!(salvaged.any(|keys| keys > 0), "a part can be salvaged");
            kill_a_restore(&bench, pool, &dump); // Of the restore that begins anew.
            bench.write("cut", &dump[..dump.len() - 10]);
            assert!(bench.fails(["restore", pool, "lines"]).contains("not a valid dump"));
            assert!(bench.fails(["get", pool, "key 1"]).contains("being restored"));
            assert!(bench.fails(["restore", pool, "cut"]).contains("ends too early"));
            assert_eq!(bench.ok(["scan", pool]), "", "it is empty then, and can be used");
            assert_eq!(json(&bench.ok(["check", pool, "--json"]))["leaked_blocks"], 0);
            kill_a_restore(&bench, pool, &dump);
            let restored = bench.run_with_input(["restore", pool], &dump);
            assert!(restored.stderr.contains("restored 1,500 entries"), "{}", restored.stderr);
            assert_eq!(bench.ok(["scan", pool]), bench.ok(["scan", "p"]));
            let check = json(&bench.ok(["check", pool, "--json"]));
            assert_eq!((&check["keys"], &check["leaked_blocks"]), (&1500.into(), &0.into()));
            bench.ok(["put", pool, "a", "b"]);
        }
    }
}

/// No command but `restore` opens a pool whose restore was cut off; what is there can be salvaged.
/// Returns how many keys were.
fn all_refuse(bench: &Bench, pool: &str) -> u64 {
    for arguments in [
        &["get", pool, "key 1"][..],
        &["put", pool, "a", "b"],
        &["del", pool, "key 1"],
        &["scan", pool],
        &["count", pool],
        &["dump", pool, "no dump"],
        &["copy", pool, "no copy"],
        &["load", pool, "lines"],
        &["info", pool],
        &["trees", pool],
        &["shell", pool],
        &["shell", pool, "--read-only"],
        &["serve", pool, "--redis", "127.0.0.1:0"],
        &["check", pool],
    ] {
        let refused = bench.fails(arguments);
        let sentence = "the pool is being restored: its restore was cut off, and it holds a part \
                        of the dump; restore it again, or make a new pool (`everleaf restore";
        assert!(refused.contains(sentence), "{arguments:?}: {refused}");
    }
    let check = bench.run(["check", pool, "--json"]);
    let report = json(&String::from_utf8(check.stdout.clone()).unwrap());
    assert_eq!((&report["ok"], &report["violations"]), (&false.into(), &1.into()));
    assert!(check.failed().contains("being restored"));
    let salvaged = bench.run(["check", pool, "--salvage", "saved", "--json"]);
    let report = json(&String::from_utf8(salvaged.stdout.clone()).unwrap());
    assert!(report["details"][0].as_str().unwrap().contains("being restored"), "{report:?}");
    let keys = report["keys"].as_u64().unwrap();
    assert!(salvaged.failed().contains("could not be read; the rest is in saved"));
    bench.ok(["check", "saved"]);
    std::fs::remove_file(bench.path("saved")).unwrap();
    let _ = std::fs::remove_dir_all(bench.path("saved.log"));
    keys
}

#[test]
fn a_copy_and_a_salvage_keep_what_was_chosen_for_the_pool() {
    let memory = Bench::on("/dev/shm");
    let mode = |bench: &Bench, pool: &str| {
        let info = json(&bench.ok(["info", pool, "--json"]));
        (info["durability_mode"].clone(), info["log"].clone(), info["engine"].clone())
    };
    let options: [&[&str]; 6] = [
        &[],
        &["--durability", "process"],
        &["--durability", "immediate"],
        &["--durability", "buffered=17"],
        &["--engine", "masstree"],
        &["--engine", "masstree", "--durability", "buffered=17"],
    ];
    for (bench, on_disk) in [(Some(Bench::new()), true), (memory, false)] {
        let Some(bench) = bench else { continue };
        for (i, options) in options.iter().enumerate() {
            let pool = format!("p{i}");
            let small = ["create", &pool, "--size", "1MiB", "--max-size", "32MiB"];
            let made = bench.run(small.iter().chain(*options));
            if made.code != Some(0) {
                assert!(!on_disk || made.stderr.contains("cannot be kept"), "{}", made.stderr);
                continue;
            }
            bench.ok(["put", &pool, "k", "v", "--tree", "t", "--ttl", "1h"]);
            let [copied, saved] = [format!("c{i}"), format!("s{i}")];
            bench.ok(["copy", &pool, &copied]);
            bench.ok(["check", &pool, "--salvage", &saved]);
            for new in [&copied, &saved] {
                assert_eq!(mode(&bench, new), mode(&bench, &pool), "{options:?} {new}");
                assert_ne!(bench.ok(["ttl", new, "k", "--tree", "t"]), "never\n");
            }
            let limit = |pool| json(&bench.ok(["info", pool, "--json"]))["max_bytes"].clone();
            assert_eq!(limit(&copied), 32 << 20);
        }
        // Another one by choice; one that the medium or the engine does not have is refused.
        bench.ok(["copy", "p0", "other", "--durability", "process"]);
        if mode(&bench, "p0").1 == true {
            assert_eq!(mode(&bench, "other").0, "process");
            bench.ok(["copy", "other", "back", "--durability", "buffered=3"]);
            assert_eq!(mode(&bench, "back").0, "buffered=3");
        }
        bench.refused(["copy", "p4", "no", "--durability", "immediate"]);
        bench.refused(["copy", "p0", "no", "--durability", "soon"]);
        // What this medium cannot keep is not what its copy is refused for.
        if let Some(other) = Bench::on("/dev/shm").filter(|_| on_disk) {
            let path = other.path("copied");
            bench.ok(["copy", "p3", path.to_str().unwrap()]);
            other.ok(["get", "copied", "k", "--tree", "t"]);
        }
    }
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
    let holder = format!("(it is process {}, everleaf)", shell.id());
    for command in [
        &["put", "p", "a", "b"][..],
        &["del", "p", "key"],
        &["del", "p", "--all"],
        &["load", "p", "-"],
        &["restore", "p", "-"],
        &["check", "p", "--salvage", "c"],
        &["shell", "p"],
        &["shell", "p", "--read-only"],
    ] {
        let sentence = bench.fails(command);
        assert!(sentence.contains("open in another process"), "{command:?}: {sentence}");
        assert!(sentence.ends_with(&holder), "{command:?}: {sentence}");
    }
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
