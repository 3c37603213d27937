//! Commands that read a pool which another process has open to write.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use crate::common::{Bench, Ran, json};

/// A shell that has a pool open as long as its input is.
struct Holder {
    shell: Child,
    input: ChildStdin,
}

impl Holder {
    /// It answers, so it has the pool.
    fn of(bench: &Bench, pool: &str) -> Self {
        let mut command = bench.command(["shell", pool]);
        let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
        let mut shell = command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        let mut holder = Self { input: shell.stdin.take().unwrap(), shell };
        holder.does("count\n");
        holder
    }

    /// Does a line that answers with one; that.
    fn does(&mut self, line: &str) -> String {
        self.input.write_all(line.as_bytes()).unwrap();
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while byte != *b"\n" {
            self.shell.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        String::from_utf8(answer).unwrap()
    }

    /// Ends it; what it has said on stderr.
    fn end(self) -> String {
        drop(self.input);
        Ran::new(self.shell.wait_with_output().unwrap()).stderr
    }

    fn kill(mut self) {
        self.shell.kill().unwrap();
        self.shell.wait().unwrap();
    }
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|there| there.file_type().is_socket())
}

/// A load that never ends by itself: `00000000`, `00000001`, ..
fn endless_load(bench: &Bench) -> (Child, std::thread::JoinHandle<()>) {
    let mut load = bench.command(["load", "p", "-", "--acknowledge-every", "1000"]);
    let mut load = load.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = load.stdin.take().unwrap();
    let feed = std::thread::spawn(move || {
        let mut write = |number: u64| {
            if number.is_multiple_of(1000) {
                // A snapshot is lost when much is written before a slow reader ends.
                std::thread::sleep(Duration::from_millis(5));
            }
            writeln!(input, "{number:08}")
        };
        (0..).map(&mut write).take_while(Result::is_ok).for_each(drop);
    });
    let mut said = BufReader::new(load.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    // What it says further is read by nobody, and not waited for.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    (load, feed)
}

#[test]
fn every_command_that_reads_prints_what_it_prints_of_a_closed_pool() {
    let bench = Bench::with_pool();
    bench.ok(["create", "n", "--size", "1MiB", "--keys", "u64", "--engine", "linetree"]);
    let words: String = (0..1000).map(|number| format!("{number}\tvalue {number}\n")).collect();
    bench.write("words.tsv", words);
    bench.ok(["load", "n", "words.tsv"]);
    bench.ok(["load", "p", "words.tsv"]);
    bench.ok(["load", "p", "words.tsv", "--tree", "h"]);
    bench.ok(["put", "p", "brief", "", "--ttl", "1ms"]);
    bench.ok(["put", "p", "bytes", "00ff0a", "--hex", "--tree", "h"].map(|a| match a {
        "bytes" => "ff00",
        other => other,
    }));
    let mut commands = Vec::new();
    for pool in ["p", "n"] {
        for rest in [
            "info",
            "info --json",
            "check",
            "check --json",
            "get 7",
            "get 7 -n",
            "get missing",
            "scan",
            "scan --json",
            "scan --reverse --limit 5",
            "scan --from 3 --to 7",
            "scan --count",
            "scan --prefix 9 --keys-only",
            "scan --tree h --hex",
            "get brief",
            "get x --tree none",
            "count",
            "count --json",
            "count --from 500",
            "count --tree h",
            "dump",
            "dump --tree h",
            "trees",
            "trees --json",
            "ttl 7",
            "get",
        ] {
            let mut words = rest.split(' ');
            let command = words.next().unwrap();
            commands.push([command, pool].into_iter().chain(words).collect::<Vec<_>>());
        }
    }
    let run = |command: &Vec<&str>| {
        let ran = bench.run(command);
        match command[0] {
            // How long opening took differs, and what the owner has in DRAM.
            "info" if ran.stdout.starts_with(b"{") => {
                let mut report = json(&String::from_utf8(ran.stdout).unwrap());
                report.remove("recovery_ms").unwrap();
                report.remove("dram_bytes").unwrap();
                (ran.code, serde_json::to_vec(&report).unwrap(), ran.stderr)
            }
            "info" => {
                let text = String::from_utf8(ran.stdout).unwrap();
                let live = |line: &&str| line.contains("opened in") || line.contains("of memory");
                let lines = text.lines().filter(|line| !live(line));
                (ran.code, lines.collect::<String>().into_bytes(), ran.stderr)
            }
            _ => (ran.code, ran.stdout, ran.stderr),
        }
    };
    let closed: Vec<_> = commands.iter().map(run).collect();
    let holders = [Holder::of(&bench, "p"), Holder::of(&bench, "n")];
    for (command, closed) in commands.iter().zip(closed) {
        assert!(run(command) == closed, "{command:?} differs of a pool that is open");
    }
    for pool in ["p", "n"] {
        let copied = bench.run(["copy", pool, &format!("{pool}2"), "--max-size", "16MiB"]);
        assert!(copied.code == Some(0) && copied.stderr.contains("copied"), "{}", copied.stderr);
        bench.ok(["dump", pool, &format!("{pool}.dump")]);
    }
    for holder in holders {
        assert_eq!(holder.end(), "");
    }
    for pool in ["p", "n"] {
        let copy = format!("{pool}2");
        bench.ok(["check", &copy]);
        assert_eq!(bench.ok(["scan", &copy]), bench.ok(["scan", pool]));
        assert_eq!(json(&bench.ok(["info", &copy, "--json"]))["max_bytes"], 16 << 20);
        let dump = std::fs::read(bench.path(&format!("{pool}.dump"))).unwrap();
        assert!(dump == bench.run(["dump", pool]).stdout);
        assert!(!bench.path(&format!("{pool}.sock")).exists());
    }
}

#[test]
fn what_the_owner_has_written_is_seen_and_so_is_a_server_through_a_link() {
    let bench = Bench::with_pool();
    symlink("p", bench.path("link")).unwrap();
    let mut holder = Holder::of(&bench, "link");
    assert!(is_socket(&bench.path("p.sock")));
    holder.does("put new value\nget new\n");
    assert_eq!((bench.ok(["get", "p", "new"]), bench.ok(["get", "link", "new"])).0, "value\n");
    assert_eq!(holder.end(), "");
    let mut server = bench.command(["serve", "p", "--beside", "--redis", "unix:redis"]);
    let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let refusal = format!("close it there first (it is process {}, everleaf)\n", server.id());
    let (got, info, put) = (
        bench.run(["get", "p", "new"]),
        bench.run(["info", "p"]),
        bench.run(["put", "p", "a", "b"]),
    );
    crate::common::ended::send(server, crate::common::ended::SIGTERM);
    assert!((got.ok(), info.code) == ("value\n".to_owned(), Some(0)));
    assert!(put.stderr.ends_with(&refusal), "{}", put.stderr);
    assert!(!bench.path("p.sock").exists());
}

#[test]
fn a_pool_that_is_being_loaded_is_copied_and_dumped_as_it_was_at_one_moment() {
    let bench = Bench::with_pool();
    let (mut load, feed) = endless_load(&bench);
    bench.ok(["copy", "p", "copy"]);
    bench.ok(["dump", "p", "dump"]);
    let scanned = bench.ok(["scan", "p", "--keys-only"]);
    let found = json(&bench.ok(["check", "p", "--json"]));
    assert_eq!((&found["ok"], &found["leaked_blocks"]), (&true.into(), &0.into()));
    assert!(bench.ok(["count", "p"]).trim().parse::<u64>().unwrap() >= 1000);
    load.kill().unwrap();
    load.wait().unwrap();
    feed.join().unwrap();
    bench.ok(["check", "copy"]);
    bench.ok(["create", "restored", "--size", "1MiB"]);
    bench.ok(["restore", "restored", "dump"]);
    // It is a prefix of the file.
    let is_prefix = |keys: &str| {
        let count = keys.lines().count();
        let expected: String = (0..count).map(|number| format!("{number:08}\n")).collect();
        count >= 1000 && keys == expected
    };
    assert!(is_prefix(&scanned));
    assert!(is_prefix(&bench.ok(["scan", "copy", "--keys-only"])));
    assert!(is_prefix(&bench.ok(["scan", "restored", "--keys-only"])));
    // What the killed owner has left is taken over.
    assert!(is_socket(&bench.path("p.sock")));
    assert!(is_prefix(&bench.ok(["scan", "p", "--keys-only"])), "it is recovered here");
    let holder = Holder::of(&bench, "p");
    assert_eq!(bench.ok(["get", "p", "00000007"]), "8\n");
    assert_eq!(holder.end(), "");
}

/// With a pool `p` whose scan is longer than what pipes and buffers hold.
fn with_long_scan() -> Bench {
    let bench = Bench::with_pool();
    let value = "v".repeat(1000);
    let lines: String = (0..4000).map(|number| format!("{number:08}\t{value}\n")).collect();
    bench.write("long.tsv", lines);
    bench.ok(["load", "p", "long.tsv"]);
    bench
}

/// A scan that has begun to print. One is refused while the places of others are not free again.
fn begun_scan(bench: &Bench) -> Child {
    loop {
        let mut scan = bench.command(["scan", "p"]);
        let mut scan = scan.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if scan.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).is_ok() {
            return scan;
        }
        assert!(Ran::new(scan.wait_with_output().unwrap()).stderr.contains("others ask it"));
    }
}

#[test]
fn an_asker_of_a_killed_owner_ends_with_a_sentence() {
    let bench = with_long_scan();
    let holder = Holder::of(&bench, "p");
    let scan = begun_scan(&bench);
    holder.kill();
    let sentence = Ran::new(scan.wait_with_output().unwrap()).failed();
    assert!(sentence.contains("it has ended, or closed the pool"), "{sentence}");
    bench.ok(["check", "p"]);
    bench.ok(["put", "p", "key", "value"]);
}

#[test]
fn the_owner_of_a_killed_asker_goes_on() {
    let bench = with_long_scan();
    let mut holder = Holder::of(&bench, "p");
    for _ in 0..40 {
        let mut scan = begun_scan(&bench);
        scan.kill().unwrap();
        scan.wait().unwrap();
    }
    assert_eq!(holder.does("get 00000001\n").len(), 1001);
    // The places of those that were killed are free again.
    while bench.run(["count", "p"]).stdout != b"4000\n" {
        std::thread::yield_now();
    }
    assert_eq!(holder.end(), "");
}

/// Of the first thread of a process.
fn niceness(process: u32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let behind_name = stat.rsplit(')').next().unwrap(); // From the third field on.
    behind_name.split_whitespace().nth(19 - 3).unwrap().parse().unwrap()
}

/// Its owner's threads do not: others may wait for what they hold.
#[test]
fn an_asker_gives_way_to_the_owner() {
    let bench = with_long_scan();
    let mut holder = Holder::of(&bench, "p");
    let own = niceness(holder.shell.id());
    let mut scan = begun_scan(&bench);
    assert_eq!(niceness(scan.id()), (own + 10).min(19));
    assert_eq!(niceness(holder.shell.id()), own);
    scan.kill().unwrap();
    scan.wait().unwrap();
    assert_eq!(holder.does("count\n"), "4000\n");
}

#[test]
fn what_is_in_the_place_of_the_socket_is_left_and_everything_else_works() {
    let bench = Bench::with_pool();
    let socket = bench.path("p.sock");
    let opens = |why: &str| {
        let loaded = bench.run_with_input(["load", "p", "-"], b"word\n");
        let (warning, rest) = loaded.stderr.split_once('\n').unwrap();
        assert!(loaded.code == Some(0) && rest.starts_with("acknowledged 1"), "{}", loaded.stderr);
        assert!(warning.starts_with("warning: ") && warning.contains(why), "{warning}");
        assert_eq!(bench.ok(["get", "p", "word"]), "1\n");
    };
    bench.write("p.sock", "mine");
    opens("is no socket");
    assert_eq!(std::fs::read(&socket).unwrap(), b"mine");
    std::fs::remove_file(&socket).unwrap();
    symlink("elsewhere", &socket).unwrap();
    opens("is no socket");
    assert!(socket.is_symlink() && !bench.path("elsewhere").exists());
    std::fs::remove_file(&socket).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    opens("another process listens");
    // Whoever listens there is not believed: it says nothing that can be.
    let hold = bench.command(["shell", "p"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut hold = hold.unwrap();
    let fake = std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut end = [0];
            let _ = stream.write_all(b"220 ready\r\n");
            if stream.read(&mut end).is_ok_and(|read| read == 1) {
                return;
            }
        }
    });
    while bench.run(["get", "p", "word"]).code == Some(0) {
        std::thread::yield_now();
    }
    assert!(bench.fails(["get", "p", "word"]).contains("close it there first"));
    drop(hold.stdin.take());
    assert!(hold.wait().unwrap().success());
    std::os::unix::net::UnixStream::connect(&socket).unwrap().write_all(b"!").unwrap();
    fake.join().unwrap();
    // It listens no more.
    assert_eq!(bench.run_with_input(["load", "p", "-"], b"word\n").stderr.lines().count(), 1);
    assert!(!socket.exists());
}

#[test]
fn a_pool_of_a_long_path_has_no_socket_and_works() {
    let bench = Bench::new();
    let pool = "p".repeat(110);
    bench.ok(["create", &pool, "--size", "1MiB"]);
    let loaded = bench.run_with_input(["load", &pool, "-"], b"word\n");
    assert_eq!(loaded.code, Some(0));
    assert!(loaded.stderr.starts_with("warning: other processes cannot read"), "{}", loaded.stderr);
    let holder = Holder::of(&bench, &pool);
    let sentence = bench.fails(["get", &pool, "word"]);
    assert!(sentence.ends_with("is open in another process; close it there first"), "{sentence}");
    assert!(holder.end().starts_with("warning: "));
}
