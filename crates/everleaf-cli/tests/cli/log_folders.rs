//! Pools and the folders of their logs: copied, moved, linked to, replaced by something else.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Bench, Ran, content};

/// Of so many acknowledged puts none may be lost.
const PUTS: usize = 5;

/// Puts keys `k0` to `k4` in a process that is killed once it has acknowledged them.
fn put_and_kill(bench: &Bench, pool: &str) {
    let mut command = bench.command(["shell", pool, "--no-history"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for i in 0..PUTS {
        writeln!(input, "put k{i} {i}").unwrap();
    }
    writeln!(input, "get k{}", PUTS - 1).unwrap();
    input.flush().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "4\n");
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None);
}

/// The same, or in processes that close the pool.
fn put(bench: &Bench, pool: &str, killed: bool) {
    if killed {
        put_and_kill(bench, pool);
    } else {
        (0..PUTS).for_each(|i| _ = bench.ok(["put", pool, &format!("k{i}"), "closed"]));
    }
}

/// A bench with an empty folder `d`, and whether pools in it have logs.
fn ordinary() -> Option<Bench> {
    let bench = Bench::with_pool();
    if !bench.path("p.log").is_dir() {
        println!("skipped: pools in {} have no log", bench.path("").display());
        return None;
    }
    fs::create_dir(bench.path("d")).unwrap();
    Some(bench)
}

fn create(bench: &Bench, pool: &str, options: &[&str]) {
    bench.ok(["create", pool, "--size", "256KiB"].iter().chain(options));
}

fn keys(bench: &Bench, pool: &str) -> usize {
    bench.ok(["check", pool]);
    bench.ok(["count", pool]).trim().parse().unwrap()
}

/// Runs another program in the bench; whether there is one, and it has done it.
fn runs(bench: &Bench, program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let ran = command.args(arguments).current_dir(bench.path("")).stderr(Stdio::null()).status();
    let done = ran.is_ok_and(|status| status.success());
    if !done {
        println!("skipped: {program} {arguments:?}");
    }
    done
}

/// Ways to copy a folder that keep the links in it.
const COPIES: [&str; 4] = [
    "cp -r FROM TO",
    "cp -a FROM TO",
    "mkdir TO && tar -C FROM -c . | tar -C TO -x",
    "rsync -a FROM/ TO/",
];

fn copy(bench: &Bench, way: &str, from: &str, to: &str) -> bool {
    runs(bench, "sh", &["-c", &way.replace("FROM", from).replace("TO", to)])
}

#[test]
fn a_copied_folder_with_a_log_in_it_does_not_lead_to_the_log_of_the_original() {
    let Some(bench) = ordinary() else { return };
    create(&bench, "d/f", &["--log", "d/elsewhere"]);
    assert_eq!(fs::read_link(bench.path("d/f.log")).unwrap(), Path::new("elsewhere"));
    put_and_kill(&bench, "d/f");
    bench.ok(["put", "d/f", "k0", "again"]); // The next session of the original.
    put_and_kill(&bench, "d/f");
    for (i, way) in COPIES.iter().enumerate() {
        let to = format!("copy {i}");
        if copy(&bench, way, "d", &format!("'{to}'")) {
            bench.ok(["put", &format!("{to}/f"), "x", "1"]);
            assert_eq!(keys(&bench, &format!("{to}/f")), PUTS + 1, "{way}");
        }
    }
    assert_eq!(keys(&bench, "d/f"), PUTS);
    // Below, too; and a folder that is moved stays whole.
    fs::create_dir_all(bench.path("d/a/b")).unwrap();
    create(&bench, "d/g", &["--log", "d/a/b/log"]);
    assert_eq!(fs::read_link(bench.path("d/g.log")).unwrap(), Path::new("a/b/log"));
    put_and_kill(&bench, "d/g");
    fs::rename(bench.path("d"), bench.path("moved")).unwrap();
    assert_eq!((keys(&bench, "moved/g"), keys(&bench, "moved/f")), (PUTS, PUTS));
    // Elsewhere it is told from the root on.
    let log = bench.path("log of h");
    create(&bench, "moved/h", &["--log", log.to_str().unwrap()]);
    let linked = fs::read_link(bench.path("moved/h.log")).unwrap();
    assert_eq!(linked, log.canonicalize().unwrap());
}

#[test]
fn a_copy_that_leads_to_the_log_of_the_original_is_refused_and_takes_nothing_from_it() {
    for killed in [true, false] {
        let Some(bench) = ordinary() else { return };
        create(&bench, "d/f", &["--log", "log"]);
        put(&bench, "d/f", killed);
        assert!(copy(&bench, COPIES[0], "d", "e"));
        let log = |name: &str| content(&bench.path("log").join(name));
        let before = (log("control"), log("pool"));
        let original = bench.path("d/f").canonicalize().unwrap();
        for command in [
            &["put", "e/f", "x", "1"][..],
            &["get", "e/f", "k0"],
            &["info", "e/f"],
            &["check", "e/f"],
            &["scan", "e/f"],
        ] {
            let sentence = bench.fails(command);
            assert!(sentence.contains("is a copy of"), "{command:?}: {sentence}");
            assert!(sentence.contains(original.to_str().unwrap()), "{command:?}: {sentence}");
        }
        // A salvage says so, and has what the file alone has.
        let ran = bench.run(["check", "e/f", "--salvage", "s"]);
        assert!(String::from_utf8_lossy(&ran.stdout).contains("is a copy of"), "{ran:?}");
        assert_eq!(before, (log("control"), log("pool")));
        bench.ok(["put", "d/f", "y", "1"]);
        assert_eq!(keys(&bench, "d/f"), PUTS + 1);
        // As the sentence advises: a copy of both.
        fs::remove_dir_all(bench.path("e")).unwrap();
        assert!(runs(&bench, "cp", &["-rL", "d", "e"]));
        bench.ok(["put", "e/f", "z", "1"]);
        bench.ok(["put", "d/f", "y", "2"]);
        assert_eq!((keys(&bench, "e/f"), keys(&bench, "d/f")), (PUTS + 2, PUTS + 1));
    }
}

#[test]
fn a_copy_of_a_copy_takes_the_log_once_the_original_is_gone_or_has_another() {
    let Some(bench) = ordinary() else { return };
    create(&bench, "d/f", &["--log", "log"]);
    put_and_kill(&bench, "d/f");
    assert!(copy(&bench, COPIES[0], "d", "e"));
    bench.fails(["get", "e/f", "k0"]);
    fs::rename(bench.path("d"), bench.path("old")).unwrap();
    // Nothing stands where the original was: the copy is the pool now, and "old" the copy.
    bench.ok(["put", "e/f", "x", "1"]);
    let sentence = bench.fails(["get", "old/f", "k0"]);
    assert!(sentence.contains("is a copy of"), "{sentence}");
    fs::remove_file(bench.path("e/f.log")).unwrap();
    assert!(runs(&bench, "cp", &["-r", "log", "e/f.log"]));
    assert_eq!(keys(&bench, "e/f"), PUTS + 1);
    bench.ok(["put", "e/f", "x", "2"]);
}

#[test]
fn pools_and_logs_that_are_copied_moved_or_renamed_together_open_and_are_written() {
    for killed in [true, false] {
        let Some(bench) = ordinary() else { return };
        create(&bench, "d/f", &[]);
        put(&bench, "d/f", killed);
        for (i, way) in COPIES.iter().enumerate() {
            let to = format!("e{i}");
            if copy(&bench, way, "d", &to) {
                bench.ok(["put", &format!("{to}/f"), "x", "1"]);
                bench.ok(["put", "d/f", "y", "1"]);
                assert_eq!(keys(&bench, &format!("{to}/f")), PUTS + 1, "{way}");
                assert_eq!(keys(&bench, "d/f"), PUTS + 1, "{way}");
                bench.ok(["del", "d/f", "y"]);
            }
        }
        // Moved, and two of them in turns.
        put(&bench, "d/f", killed);
        put(&bench, "e0/f", killed);
        for (from, to) in [("d", "third"), ("e0", "d"), ("third", "e0")] {
            fs::rename(bench.path(from), bench.path(to)).unwrap();
        }
        assert_eq!((keys(&bench, "d/f"), keys(&bench, "e0/f")), (PUTS + 1, PUTS));
        bench.ok(["put", "d/f", "z", "1"]);
        bench.ok(["put", "e0/f", "z", "1"]);
        // Renamed, beside a copy that has the old name.
        put(&bench, "d/f", killed);
        for (from, to) in [("d/f", "d/g"), ("d/f.log", "d/g.log")] {
            fs::rename(bench.path(from), bench.path(to)).unwrap();
            assert!(runs(&bench, "cp", &["-r", to, from]));
        }
        for pool in ["d/g", "d/f", "d/g"] {
            bench.ok(["put", pool, "last", "1"]);
            assert_eq!(keys(&bench, pool), PUTS + 3);
        }
    }
}

#[test]
fn a_log_without_a_note_or_with_a_damaged_one_is_opened_and_gets_one() {
    let Some(bench) = ordinary() else { return };
    let note = bench.path("p.log/pool");
    let good = content(&note);
    let elsewhere: &[u8] = b"inode 1\npool /nowhere/p\n";
    for damaged in [b"" as &[u8], b"\xff\0", &good[..good.len() - 1], &good[1..], elsewhere] {
        fs::write(&note, damaged).unwrap();
        bench.ok(["count", "p"]);
        assert_eq!(content(&note), damaged, "reading writes nothing");
        bench.ok(["put", "p", "k", "1"]);
        assert_eq!(content(&note), good);
    }
    // As in a log of 0.2.0.
    fs::remove_file(&note).unwrap();
    bench.ok(["get", "p", "k"]);
    assert!(!note.exists());
    bench.ok(["put", "p", "k", "2"]);
    assert_eq!(content(&note), good);
    // Of another machine: the same path, another file.
    fs::write(
        &note,
        [b"inode 1\n", &good[good.iter().position(|b| *b == b'p').unwrap()..]].concat(),
    )
    .unwrap();
    bench.ok(["put", "p", "k", "3"]);
    assert_eq!(content(&note), good);
    // What is no file, or endless, is no note.
    let whole = fs::File::create(&note).unwrap();
    whole.set_len(1 << 40).unwrap();
    bench.ok(["put", "p", "k", "4"]);
    assert_eq!(content(&note), good);
    fs::remove_file(&note).unwrap();
    assert!(runs(&bench, "mkfifo", &["p.log/pool"]));
    assert_eq!(bench.ok(["get", "p", "k"]), "4\n");
    bench.ok(["put", "p", "k", "5"]);
    assert_eq!(content(&note), good);
}

#[test]
fn a_pool_reached_by_other_names_keeps_its_log() {
    let Some(bench) = ordinary() else { return };
    create(&bench, "d/f", &["--log", "log"]);
    put_and_kill(&bench, "d/f");
    // A link to the pool, one to its folder, and a second name of the file.
    symlink("d/f", bench.path("link")).unwrap();
    symlink("d", bench.path("e")).unwrap();
    fs::hard_link(bench.path("d/f"), bench.path("second")).unwrap();
    symlink(bench.path("log"), bench.path("second.log")).unwrap();
    for (i, pool) in ["link", "e/f", "second", "d/f", "second"].iter().enumerate() {
        assert_eq!(keys(&bench, pool), PUTS + i, "{pool}");
        bench.ok(["put", pool, &format!("by name {i}"), "1"]);
    }
}

#[test]
fn a_pool_is_opened_through_another_mount() {
    let Some(bench) = ordinary() else { return };
    create(&bench, "d/f", &["--log", "log"]);
    put_and_kill(&bench, "d/f");
    fs::create_dir(bench.path("e")).unwrap();
    let mounted = format!(
        "mount --bind d e && {program} put e/f x 1 && {program} put d/f y 1 && {program} check e/f",
        program = crate::PROGRAM
    );
    let tried = ["-m", "sh", "-c", "mount --bind d e"];
    if runs(&bench, "unshare", &tried) {
        assert!(runs(&bench, "unshare", &["-m", "sh", "-c", &mounted]));
        assert_eq!(keys(&bench, "d/f"), PUTS + 2);
    }
}

/// What can stand in the place of a file.
const KINDS: [&str; 6] = ["pipe", "socket", "folder", "link", "device", "sparse"];

/// Puts something at `path` in the place of what is there; whether it could be made.
fn replace(bench: &Bench, path: &str, kind: &str) -> bool {
    let (place, old) = (bench.path(path), bench.path("replaced"));
    let _ = fs::rename(&place, &old);
    match kind {
        "pipe" => return runs(bench, "mkfifo", &[path]),
        "device" => return runs(bench, "mknod", &[path, "c", "1", "5"]), // Endless zeros.
        "socket" => drop(UnixListener::bind(&place).unwrap()),
        "folder" => fs::create_dir(&place).unwrap(),
        "link" => symlink(&old, &place).unwrap(),
        _ => fs::File::create(&place).unwrap().set_len(1 << 40).unwrap(),
    }
    true
}

/// Runs a command that must end: one that does not is ended, and that is its failure.
fn run(bench: &Bench, arguments: &[&str]) -> Ran {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", crate::PROGRAM]).args(arguments);
    let ran = Ran::new(command.current_dir(bench.path("")).stdin(Stdio::null()).output().unwrap());
    assert!(matches!(ran.code, Some(0 | 1 | 3)), "{arguments:?} {ran:?}");
    ran
}

#[test]
fn what_is_no_file_in_the_place_of_a_log_is_refused_and_never_waited_for() {
    let Some(bench) = ordinary() else { return };
    put_and_kill(&bench, "p");
    let (first, second) = ("p.log/segment-0000000000000001", "p.log/segment-0000000000000002");
    let old = "p.log/segment-0000000000000000"; // Before the beginning, if it were one.
    let others = ["p.log/segment.new", "p.log/segment.spare", "p.log/pool", "p.log/pool.new"];
    assert!(bench.path(first).exists() && !bench.path(second).exists());
    assert!(runs(&bench, "sh", &["-c", "cp -r p.log good; cp p good.pool"]));
    for place in ["p.log", "p.log/control", first, second, old].into_iter().chain(others) {
        for kind in KINDS {
            // Of the others a pipe stands for all; a link to the folder is as good as the folder.
            let skipped = kind != "pipe" && (others.contains(&place) || place == old)
                || place == "p.log" && kind == "link";
            if skipped || !replace(&bench, place, kind) {
                continue;
            }
            let case = format!("{kind} at {place}");
            let needed = ["p.log", "p.log/control", first, second].contains(&place);
            // Who only reads has nothing to do with the others.
            let refused = |command: &[&str], refused: bool| {
                let ran = run(&bench, command);
                let code = if command[0] == "get" { 3 } else { 1 };
                let code = if refused { code } else { 0 };
                assert_eq!(ran.code, Some(code), "{case}: {command:?} {ran:?}");
                let says = ["not a file", "no folder", "missing"]
                    .iter()
                    .any(|what| ran.stderr.contains(what));
                assert!(!refused || kind == "sparse" || says, "{ran:?}");
            };
            refused(&["get", "p", "k4"], needed);
            if kind == "pipe" {
                refused(&["check", "p"], needed);
                refused(&["info", "p"], needed);
                // A salvage takes what stands before it, and complains.
                let salvaged = run(&bench, &["check", "p", "--salvage", "salvaged"]);
                assert_eq!(salvaged.code, Some(i32::from(needed)), "{case}: {salvaged:?}");
                if !needed || place == second {
                    assert_eq!(bench.ok(["get", "salvaged", "k4"]), "4\n", "{case}");
                }
            }
            refused(&["put", "p", "k4", "4"], needed || place.contains("segment"));
            let again = "rm -rf p.log replaced salvaged*; cp -r good p.log; cp good.pool p";
            assert!(runs(&bench, "sh", &["-c", again]));
        }
    }
    assert_eq!(keys(&bench, "p"), PUTS);
}

/// An owner and a group that this machine need not know.
const OWNER: u32 = 54_321;
const GROUP: u32 = 54_322;

/// Owner, group and permission bits.
fn rights(path: &Path) -> (u32, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o777)
}

fn in_folder(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect()
}

/// That a pool's log, and all that is in it, are its owner's.
#[track_caller]
fn assert_owned(bench: &Bench, pool: &str) {
    let (owner, group, bits) = rights(&bench.path(pool));
    let log = bench.path(&format!("{pool}.log"));
    assert_eq!(rights(&log), (owner, group, bits | (bits & 0o444) >> 2));
    for file in in_folder(&log) {
        assert_eq!(rights(&file), (owner, group, bits), "{}", file.display());
    }
}

#[test]
fn a_new_pool_and_its_log_have_the_same_permissions() {
    for mask in ["022", "027", "077"] {
        let Some(bench) = ordinary() else { return };
        let masked = |command: &str| {
            let line = format!("umask {mask}; {} {command}", crate::PROGRAM);
            assert!(runs(&bench, "sh", &["-c", &line]), "{command}");
        };
        masked("create q --size 256KiB");
        masked("create f --size 256KiB --log l");
        masked("copy p q2");
        masked("check p --salvage q3");
        for pool in ["q", "q2", "q3"] {
            assert_owned(&bench, pool);
        }
        assert_eq!(rights(&bench.path("l")), rights(&bench.path("q.log")));
        // Another mask takes no rights that the pool gives.
        put_and_kill(&bench, "q");
        for mask in ["000", "077"] {
            let line = format!("umask {mask}; {} put q x 1", crate::PROGRAM);
            assert!(runs(&bench, "sh", &["-c", &line]));
            assert_owned(&bench, "q");
        }
    }
}

#[test]
fn what_root_or_a_member_of_the_group_writes_belongs_to_the_owner_of_the_pool() {
    let Some(bench) = ordinary() else { return };
    if fs::metadata(bench.path("p")).unwrap().uid() != 0 {
        println!("skipped: only root can give a pool to another user");
        return;
    }
    bench.ok(["create", "q", "--size", "256KiB"]);
    let lines: String = (0..600).map(|i| format!("key {i}\t{}\n", "x".repeat(4000))).collect();
    bench.write("lines", lines);
    bench.ok(["dump", "p", "dump"]);
    let give = |path: &Path, bits: u32| {
        chown(path, Some(OWNER), Some(GROUP)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    };
    for pool in ["p", "q"] {
        let log = bench.path(&format!("{pool}.log"));
        in_folder(&log).iter().for_each(|file| give(file, 0o660));
        give(&bench.path(pool), 0o660);
        give(&log, 0o770);
    }
    // Root: more than one segment, a process that is killed, one that renews the note.
    bench.ok(["load", "p", "lines"]);
    assert_owned(&bench, "p");
    put_and_kill(&bench, "p");
    fs::remove_file(bench.path("p.log/pool")).unwrap();
    bench.ok(["put", "p", "by root", "1"]);
    assert_owned(&bench, "p");
    bench.ok(["restore", "q", "dump"]);
    assert_owned(&bench, "q");
    // Its owner, and a member of its group, which cannot give files away but to the group.
    give(&bench.path(""), 0o770);
    let by = |user: u32, arguments: &[&str]| {
        let mut command = bench.command(arguments);
        command.uid(user).gid(GROUP).output().map(Ran::new)
    };
    match by(OWNER, &["put", "p", "by owner", "1"]) {
        Ok(ran) => _ = ran.ok(),
        Err(error) => return println!("skipped: other users cannot run the program: {error}"),
    }
    for (user, mask) in [(OWNER + 5, "077"), (OWNER, "022"), (OWNER + 5, "022")] {
        let line = format!("umask {mask}; exec \"$0\" load p lines");
        let mut command = Command::new("sh");
        command.args(["-c", &line, crate::PROGRAM]).current_dir(bench.path(""));
        Ran::new(command.uid(user).gid(GROUP).output().unwrap()).ok();
    }
    by(OWNER, &["put", "p", "by owner", "2"]).unwrap().ok();
    assert_owned_by_group(&bench, "p");
}

/// The same, of a log that members of the group have written too.
#[track_caller]
fn assert_owned_by_group(bench: &Bench, pool: &str) {
    for file in in_folder(&bench.path(&format!("{pool}.log"))) {
        let (_, group, bits) = rights(&file);
        assert_eq!((group, bits), (GROUP, 0o660), "{}", file.display());
    }
}

#[test]
fn no_command_waits_for_a_pipe_that_nobody_has_open() {
    let Some(bench) = ordinary() else { return };
    if !runs(&bench, "mkfifo", &["pipe"]) {
        return;
    }
    for command in [
        &["get", "pipe", "k"][..],
        &["create", "pipe"],
        &["create", "pipe/q"],
        &["create", "q", "--log", "pipe"],
        &["create", "q", "--log", "pipe/log"],
        &["copy", "p", "pipe/q"],
        &["dump", "p", "pipe/q"],
        &["check", "p", "--salvage", "pipe/q"],
        &["serve", "p", "--redis", "127.0.0.1:0", "--password-file", "pipe"],
        &["serve", "p", "--memcached", "127.0.0.1:0", "--memcached-auth-file", "pipe"],
        &["serve", "p", "--tls-redis", "127.0.0.1:0", "--tls-cert", "pipe", "--tls-key", "pipe"],
    ] {
        run(&bench, command).failed();
    }
    assert!(!bench.path("q").exists() && !bench.path("q.log").exists());
}
