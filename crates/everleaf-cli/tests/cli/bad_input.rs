//! Pools and files that are not what they should be: one sentence, and nothing is lost. (Foreign
//! and missing pools, long keys and wrong usage are in `commands`, locked pools and other damage in
//! `inspect`, files that are no CSV in `load`.)

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::common::{Bench, Ran, content, json};
use everleaf_pmem::grouped;

/// Where the words of a pool's header stand (docs/format.md).
const VERSION: usize = 8;
const ENGINE: usize = 32;
const PARAMETERS: usize = 64;
const CHECKSUM: usize = 184;
const STATE: usize = 192;
const BOOT_ID: usize = 200;

/// Every command that opens a pool.
const COMMANDS: [&[&str]; 9] = [
    &["get", "p", "key 7"],
    &["put", "p", "key 7", "other"],
    &["del", "p", "key 7"],
    &["scan", "p"],
    &["load", "p", "lines"],
    &["info", "p"],
    &["info", "p", "--json"],
    &["check", "p"],
    &["upgrade", "p"],
];

fn filled() -> Bench {
    filled_with(&[])
}

fn filled_with(options: &[&str]) -> Bench {
    let bench = Bench::new();
    bench.ok(["create", "p", "--size", "1MiB"].iter().chain(options));
    let lines: String = (0..500).map(|i| format!("key {i}\n")).collect();
    bench.write("lines", lines);
    bench.ok(["load", "p", "lines"]);
    bench
}

/// Every command says this and leaves the file as it is.
fn all_say(bench: &Bench, pool: &[u8], complaint: &str) {
    bench.write("p", pool);
    for command in COMMANDS {
        let sentence = bench.fails(command);
        assert!(sentence.contains(complaint), "{command:?}: {sentence}");
        assert!(content(&bench.path("p")) == pool, "{command:?} wrote to the pool");
    }
}

/// The pool itself is as good as before.
fn still_good(bench: &Bench, pool: &[u8]) {
    bench.write("p", pool);
    assert_eq!(bench.ok(["get", "p", "key 7"]), "8\n");
    assert_eq!(bench.ok(["upgrade", "p"]), "p has today's format\n");
    assert_eq!(bench.ok(["scan", "p"]).lines().count(), 500);
    bench.ok(["check", "p"]);
}

#[test]
fn a_truncated_pool_says_how_much_is_missing() {
    let bench = filled();
    let sound = content(&bench.path("p"));
    let [half, whole] = [sound.len() / 2, sound.len()].map(|bytes| grouped(bytes as u64));
    let complaint = format!("truncated: it has {half} bytes and should have {whole}");
    all_say(&bench, &sound[..sound.len() / 2], &complaint);
    all_say(&bench, &sound[..5000], "truncated: it has 5,000 bytes");
    all_say(&bench, &sound[..4000], "is not an Everleaf pool");
    let advice = "; restore it from a backup, or salvage what can be read (`everleaf check POOL \
        --salvage NEW`)";
    all_say(&bench, &sound[..5000], advice);
    let check = bench.run(["check", "p", "--json"]);
    let details = &json(str::from_utf8(&check.stdout).unwrap())["details"][0];
    assert!(details.as_str().unwrap().ends_with(&grouped(sound.len() as u64)), "{details}");
    still_good(&bench, &sound);
}

#[test]
fn a_pool_without_its_log_can_be_salvaged_and_says_so() {
    let bench = filled();
    if !bench.path("p.log").exists() {
        return println!("skipped: no pool has a log here");
    }
    std::fs::rename(bench.path("p.log"), bench.path("moved")).unwrap();
    for command in COMMANDS {
        let sentence = bench.fails(command);
        let advice = "without the log (`everleaf check POOL --salvage NEW`)";
        assert!(sentence.contains("the log of the pool is missing; "), "{sentence}");
        assert!(sentence.ends_with(advice), "{sentence}");
    }
    let salvaged = bench.run(["check", "p", "--salvage", "new"]);
    let said = String::from_utf8_lossy(&salvaged.stdout).into_owned();
    assert!(said.contains("p.log: the log of the pool is missing\n500 keys saved;"), "{said}");
    salvaged.failed();
    assert_eq!(bench.ok(["get", "new", "key 7"]), "8\n");
}

#[test]
fn a_pool_of_another_version_names_both_versions() {
    let bench = filled();
    let sound = content(&bench.path("p"));
    let newer = "the pool has format 6, and this release knows formats up to 5: use a newer";
    let older = "the pool has format version 2, this program reads version 5";
    for (version, complaint) in [(6, newer), (2, older)] {
        let mut other = sound.clone();
        other[VERSION] = version;
        let checksum = u64::from(crc32fast::hash(&other[..CHECKSUM]));
        other[CHECKSUM..CHECKSUM + 8].copy_from_slice(&checksum.to_le_bytes());
        all_say(&bench, &other, complaint);
    }
    still_good(&bench, &sound);
}

#[test]
fn a_pool_of_an_engine_of_the_laboratory_names_the_program_that_opens_it() {
    let bench = filled();
    let sound = content(&bench.path("p"));
    for (engine, complaint) in [
        ("wbtree-slot", "engine wbtree-slot, which this program does not have; open it with the"),
        ("wbtree-slot", "everleaf-lab dump"),
        ("nosuch", "engine nosuch, which this program does not have; open it with the release"),
    ] {
        let mut other = sound.clone();
        other[ENGINE..ENGINE + 24].fill(0);
        other[ENGINE..ENGINE + engine.len()].copy_from_slice(engine.as_bytes());
        let checksum = u64::from(crc32fast::hash(&other[..CHECKSUM]));
        other[CHECKSUM..CHECKSUM + 8].copy_from_slice(&checksum.to_le_bytes());
        all_say(&bench, &other, complaint);
    }
    still_good(&bench, &sound);
}

#[test]
fn a_pool_with_sizes_that_there_are_not_is_a_failure_and_no_wrong_usage() {
    let bench = filled();
    let sound = content(&bench.path("p"));
    let with = |parameter: usize, value: u64| {
        let mut other = sound.clone();
        other[PARAMETERS + 8 * parameter..][..8].copy_from_slice(&value.to_le_bytes());
        let checksum = u64::from(crc32fast::hash(&other[..CHECKSUM]));
        other[CHECKSUM..CHECKSUM + 8].copy_from_slice(&checksum.to_le_bytes());
        other
    };
    for (parameter, complaint) in
        [(0, "leaf_slots = 57, which this program does not have"), (1, "inner_keys = 57")]
    {
        let other = with(parameter, 57);
        all_say(&bench, &other, complaint);
        all_say(&bench, &other, "the pool was made with engine fptree-c");
    }
    // Inner nodes are not in the pool: one that was made with others has those of this program.
    for inner_keys in [32, 128, 4096] {
        still_good(&bench, &with(1, inner_keys));
    }
    still_good(&bench, &sound);
}

#[test]
fn what_cannot_hold_a_pool_is_refused_at_once() {
    let bench = filled();
    bench.ok(["dump", "p", "dump"]);
    let made = std::process::Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap();
    assert!(made.success());
    std::fs::create_dir(bench.path("folder")).unwrap();
    let others: [&[&str]; 5] = [
        &["dump", "p"],
        &["restore", "p", "dump"],
        &["copy", "p", "new"],
        &["shell", "p"],
        &["check", "p", "--salvage", "new"],
    ];
    for (pool, what) in [
        ("pipe", "a pipe"),
        ("folder", "a folder"),
        ("/dev/null", "a character device without persistent memory"),
    ] {
        for command in COMMANDS.iter().chain(&others) {
            let mut command = command.to_vec();
            command[1] = pool;
            let sentence = bench.fails(&command);
            assert!(
                sentence.contains(&format!("{pool} is {what}, which cannot hold a pool")),
                "{command:?}: {sentence}"
            );
        }
        let sentence = bench.fails(["create", pool]);
        assert!(
            sentence.contains("exists already") || sentence.contains("cannot hold a pool"),
            "{sentence}"
        );
    }
    assert!(!bench.path("new").exists());
}

#[test]
fn a_pool_that_is_larger_than_the_disk_is_refused_before_anything_is_taken() {
    for bench in [Some(Bench::new()), Bench::on("/dev/shm")].into_iter().flatten() {
        let sentence = bench.fails(["create", "p", "--size", "4096TiB"]);
        assert!(
            sentence.contains("needs 4,503,599,627,370,496 bytes, and ")
                && sentence.contains(" are free"),
            "{sentence}"
        );
        assert!(!bench.path("p").exists());
    }
}

#[test]
fn sizes_and_names_that_there_are_not_are_wrong_usage() {
    let bench = Bench::new();
    assert!(
        bench
            .refused(["create", "p", "--size", "1B"])
            .contains("--size 1 B is too small; the smallest pool has ")
    );
    let complaint = bench.refused(["create", "p", "--engine", ""]);
    assert!(complaint.contains("without a name") && complaint.contains("; choose "), "{complaint}");
    assert!(!bench.path("p").exists());
}

#[test]
fn a_flipped_bit_is_named_with_its_place() {
    // A session with a log marks the file before it looks at what the pool says of itself.
    let bench = filled_with(&["--durability", "process"]);
    let sound = content(&bench.path("p"));
    for (place, complaint) in [
        (CHECKSUM, "damaged at offset 0x0"),
        (VERSION, "damaged at offset 0x0"),
        (STATE, "damaged at offset 0xc0"),
    ] {
        let mut flipped = sound.clone();
        flipped[place] ^= 4;
        all_say(&bench, &flipped, complaint);
        all_say(&bench, &flipped, "salvage what can be read (`everleaf check POOL --salvage NEW`)");
    }
    let spoiled = |rest: &[u8]| [&sound[..CHECKSUM], b"\0", rest].concat();
    bench.write("p", spoiled(&sound[CHECKSUM + 1..]));
    let rest = bench.fails(["check", "p", "--salvage", "rest"]);
    assert!(rest.ends_with("of p could not be read; the rest is in rest"), "{rest}");
    assert_eq!(bench.ok(["count", "rest"]), "500\n");
    bench.write("p", spoiled(&vec![0; sound.len() - CHECKSUM - 1]));
    let nothing = bench.fails(["check", "p", "--salvage", "new"]);
    assert!(nothing.ends_with("; nothing of it can be salvaged, so restore a backup"), "{nothing}");
    // The value of one key: the others can still be read.
    let value = sound.windows(10).position(|bytes| bytes == b"key 321322").unwrap();
    let mut flipped = sound.clone();
    flipped[value + 9] ^= 1;
    bench.write("p", &flipped);
    assert!(bench.fails(["get", "p", "key 321"]).contains("a record does not match its checksum"));
    assert_eq!(bench.ok(["get", "p", "key 320"]), "321\n");
    assert!(bench.run(["scan", "p"]).failed().contains("damaged at offset"));
    let check = bench.run(["check", "p"]);
    let details = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(details.ends_with(": a record does not match its checksum\n"), "{details}");
    let sentence = check.failed();
    assert!(sentence.contains("1 violation"), "{sentence}");
    assert!(sentence.contains("with `everleaf check POOL --salvage NEW`"), "{sentence}");
    still_good(&bench, &sound);
}

#[test]
fn a_pool_that_another_boot_left_open_is_refused() {
    let bench = filled_with(&["--durability", "process"]); // A log is made for another boot.
    let closed = content(&bench.path("p"));
    let mut child = bench.command(["load", "p", "-", "--acknowledge-every", "1"]);
    let mut child = child.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"another\n").unwrap();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let crashed = content(&bench.path("p"));
    let mut of_another_boot = crashed.clone();
    of_another_boot[BOOT_ID..BOOT_ID + 24].fill(0x11);
    all_say(
        &bench,
        &of_another_boot,
        "it is not known whether the machine restarted while this pool was open",
    );
    bench.write("p", &crashed);
    assert_eq!(bench.ok(["get", "p", "another"]), "1\n");
    still_good(&bench, &closed);
}

#[test]
fn a_value_over_the_limit_is_refused_before_it_is_read() {
    let bench = filled();
    let sound = content(&bench.path("p"));
    File::create(bench.path("huge")).unwrap().set_len((1 << 30) + 1).unwrap();
    let sentence = bench.fails(["put", "p", "key 7", "--value-from", "huge"]);
    assert!(
        sentence.contains("1,073,741,825 bytes")
            && sentence.contains("at most 1,073,741,824 bytes"),
        "{sentence}"
    );
    still_good(&bench, &content(&bench.path("p")));
    still_good(&bench, &sound);
}

#[test]
fn an_unknown_engine_and_parameters_that_it_has_not_are_wrong_usage() {
    let bench = Bench::new();
    let complaint = bench.refused(["create", "p", "--engine", "bogus"]);
    assert!(complaint.contains("bogus") && complaint.contains("; choose "), "{complaint}");
    for command in [
        &["create", "p", "--engine", "stx"][..],
        &["create", "p", "--engine", "btreemap"],
        &["create", "p", "--engine", "wbtree-slot"],
        &["create", "p", "--engine", "ptree"],
    ] {
        assert!(bench.refused(command).contains("choose one of"), "{command:?}");
    }
    assert!(bench.refused(["create", "p", "--inner-keys", "4"]).contains("--inner-keys"));
    let sentence = bench.refused(["create", "p", "--engine", "clftree-encoded"]);
    assert!(sentence.contains("add `--keys u64`, or choose another engine"), "{sentence}");
    assert!(!bench.path("p").exists());
}

#[test]
fn a_pool_that_may_not_be_written_says_which_commands_only_read() {
    let bench = filled();
    let read_only = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(bench.path("p"), read_only).unwrap();
    // The administrator may write whatever the permissions say, but for this; another user cannot
    // ask for it, and need not.
    let put = bench.command(["put", "p", "k", "v"]);
    let mut bound = std::process::Command::new("setpriv");
    bound.arg("--bounding-set=-dac_override").arg(put.get_program()).args(put.get_args());
    let ran = match bound.current_dir(bench.path("")).output().map(Ran::new) {
        Ok(ran) if !ran.stderr.contains("setpriv: ") => ran,
        _ => bench.run(["put", "p", "k", "v"]),
    };
    if ran.code == Some(0) {
        return println!("skipped: this user may write everything");
    }
    let sentence = ran.failed();
    assert!(sentence.contains("p cannot be opened to write: "), "{sentence}");
    assert!(sentence.contains("`everleaf shell POOL --read-only`"), "{sentence}");
    assert_eq!(bench.ok(["get", "p", "key 7"]), "8\n");
}

/// What a pool does when its disk is full: a creation leaves nothing, a load keeps a prefix, and
/// where a record was there is room for one of its size.
const FILL: &str = r#"
"$EVERLEAF" create large --size 16MiB; echo "create $?"
ls
"$EVERLEAF" create p --size 128KiB || exit 1
seq 1 200000 | "$EVERLEAF" load p -; echo "load $?"
"$EVERLEAF" put p 1 replaced; echo "put $?"
"$EVERLEAF" del p 20000 && "$EVERLEAF" put p 20000 again; echo "reuse $?"
"$EVERLEAF" check p > /dev/null; echo "check $?"
"$EVERLEAF" scan p | wc -l
"#;

/// What asks for room where there is none at all.
const NO_ROOM: &str = r#"
head -c 10000000 /dev/zero > filler 2> /dev/null
"$EVERLEAF" copy p copied; echo "copy $?"
"$EVERLEAF" dump p dumped; echo "dump $?"
"$EVERLEAF" check p --salvage salvaged > /dev/null; echo "salvage $?"
ls
"$EVERLEAF" check p > /dev/null; echo "check $?"
"#;

/// Files of at most 2 MiB; the system sends SIGXFSZ to who goes beyond.
const SMALL_FILES: &str = "ulimit -f 4096 || exit 77";

/// Runs the script, and `after`, in a shell that was prepared by `before`, if this is possible
/// here; what `after` must print.
fn on_a_full_disk(bench: &Bench, before: &str, shell: &[&str], after: &str, printed: &[&str]) {
    let mut command = std::process::Command::new(shell[0]);
    command.args(&shell[1..]).arg("-c").arg(format!("{before}\n{FILL}\n{after}"));
    command.env("EVERLEAF", env!("CARGO_BIN_EXE_everleaf")).current_dir(bench.path(""));
    let output = command.stdin(Stdio::null()).output();
    let Some(output) =
        output.ok().filter(|output| output.status.code() != Some(77) && !output.stdout.is_empty())
    else {
        println!("skipped: this system does not let a test run `{}`, `{before}`", shell.join(" "));
        return;
    };
    let ran = Ran {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    let stdout = str::from_utf8(&ran.stdout).unwrap();
    let mut lines = stdout.lines();
    assert_eq!(lines.next(), Some("create 1"), "{ran:?}");
    assert_eq!(
        lines.next(),
        Some("load 1"),
        "nothing was left of the creation, and the load met the end: {ran:?}"
    );
    assert!(matches!(lines.next(), Some("put 0" | "put 1")), "{ran:?}");
    assert!(matches!(lines.next(), Some("reuse 0")), "what is freed serves again: {ran:?}");
    assert_eq!(lines.next(), Some("check 0"), "{ran:?}");
    let acknowledged = ran
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("acknowledged ")?.split(' ').next())
        .unwrap();
    assert!(acknowledged.parse::<u64>().unwrap() > 100, "{ran:?}");
    assert_eq!(lines.next().map(str::trim), Some(acknowledged), "{ran:?}");
    assert_eq!(lines.collect::<Vec<_>>(), printed, "{ran:?}");
    let complaints: Vec<_> =
        ran.stderr.lines().filter(|line| line.starts_with("everleaf: ")).collect();
    assert!(
        complaints.len() >= 2
            && complaints.iter().all(|sentence| sentence.contains("the disk is full")),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
}

#[test]
fn a_full_tmpfs_is_one_sentence_and_loses_nothing() {
    let before = "mkdir small && mount -t tmpfs -o size=2m none small && cd small || exit 77";
    // Nothing is left of what found no room.
    let printed = ["copy 1", "dump 1", "salvage 1", "filler", "p", "check 0"];
    on_a_full_disk(&Bench::new(), before, &["unshare", "-rm", "sh"], NO_ROOM, &printed);
}

#[test]
fn a_file_that_may_not_grow_is_one_sentence_and_loses_nothing() {
    on_a_full_disk(&Bench::new(), SMALL_FILES, &["sh"], "", &[]);
}

#[test]
fn a_file_in_memory_that_may_not_grow_is_one_sentence_and_loses_nothing() {
    match Bench::on("/dev/shm") {
        Some(bench) => on_a_full_disk(&bench, SMALL_FILES, &["sh"], "", &[]),
        None => println!("skipped: nothing can be made on /dev/shm"),
    }
}

#[test]
fn a_pool_is_made_and_opened_where_addresses_are_scarce() {
    let with_addresses = |bench: &Bench, gigabytes: u64, arguments: &str| {
        let command = bench.command([""; 0]);
        let line = format!("ulimit -v {} && exec \"$0\" {arguments}", gigabytes << 20);
        let program = command.get_program().to_owned();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line]).arg(program).current_dir(bench.path(""));
        Ran::new(shell.stdin(Stdio::null()).output().unwrap())
    };
    for gigabytes in [1, 3, 9, 17, 20, 33] {
        let bench = Bench::new();
        with_addresses(&bench, gigabytes, "create p --size 1MiB").ok();
        with_addresses(&bench, gigabytes, "put p key value").ok();
        assert_eq!(with_addresses(&bench, gigabytes, "get p key").ok(), "value\n");
    }
}
