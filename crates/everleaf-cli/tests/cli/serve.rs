//! The server, by its options.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::common::Bench;
use crate::common::ended::{SIGTERM, send};

#[test]
fn a_server_closes_what_is_idle_for_its_timeout() {
    let bench = Bench::with_pool();
    let mut server = bench
        .command(["serve", "p", "--redis", "unix:socket", "--timeout", "1"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, server.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut client = UnixStream::connect(bench.path("socket")).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client.write_all(b"PING\r\n*2\r\n$3\r\nGET\r\n").unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert_eq!(said, "+PONG\r\n");
    assert!(send(server, SIGTERM).success());
    let refused = bench.refused(["serve", "p", "--redis", "unix:socket", "--timeout", "soon"]);
    assert!(refused.contains("--timeout"), "{refused}");
}

#[test]
fn a_server_tells_its_health_at_the_address_of_metrics() {
    let bench = Bench::with_pool();
    let mut server = bench
        .command(["serve", "p", "--redis", "unix:socket", "--metrics", "unix:metrics"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::with_capacity(1, server.stderr.as_mut().unwrap());
    let mut lines = String::new();
    stderr.read_line(&mut lines).unwrap();
    stderr.read_line(&mut lines).unwrap();
    assert!(lines.ends_with("metrics at unix:metrics\n"), "{lines}");
    let mut client = UnixStream::connect(bench.path("metrics")).unwrap();
    client.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\nok\n"), "{said}");
    assert!(send(server, SIGTERM).success());
}

#[test]
fn a_server_writes_its_events_as_objects_of_json() {
    let bench = Bench::with_pool();
    let mut server = bench
        .command(["serve", "p", "--prefault", "--redis", "unix:socket", "--log-format", "json"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::with_capacity(1, server.stderr.take().unwrap());
    let mut lines = String::new();
    stderr.read_line(&mut lines).unwrap();
    let mut client = UnixStream::connect(bench.path("socket")).unwrap();
    client.write_all(b"POST / HTTP/1.1\r\n").unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert!(send(server, SIGTERM).success());
    stderr.read_to_string(&mut lines).unwrap();
    let events: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let said = |level: &str, begin: &str| {
        let message = |event: &serde_json::Value| event["message"].as_str().map(str::to_owned);
        let begins = |event| message(event).is_some_and(|said| said.starts_with(begin));
        events.iter().any(|event| event["level"] == level && begins(event))
    };
    assert!(said("INFO", "redis at unix:socket, durability"), "{lines}");
    assert!(said("WARN", "closed a connection: a request of HTTP"), "{lines}");
    assert!(said("INFO", "SIGTERM: closing"), "{lines}");
    let refused = bench.refused(["serve", "p", "--redis", "unix:socket", "--log-level", "loud"]);
    assert!(refused.contains("--log-level") && refused.contains("warn"), "{refused}");
}

#[test]
fn the_longest_value_is_one_that_the_pool_can_hold() {
    let bench = Bench::with_pool();
    for max in ["0", "1023", "2TiB"] {
        let refused = bench.refused(["serve", "p", "--redis", "unix:socket", "--max-value", max]);
        assert!(refused.contains("this pool can hold values from 1 KiB to"), "{refused}");
    }
}

#[test]
fn any_of_the_protocols_is_enough_and_none_is_not() {
    let bench = Bench::with_pool();
    let refused = bench.refused(["serve", "p"]);
    for option in ["--redis", "--memcached", "--tls-redis", "--tls-memcached"] {
        assert!(refused.contains(option), "{refused}");
    }
    assert!(refused.contains("<ADDR>|--redis"), "any of them, not all: {refused}");
}

#[test]
fn a_server_that_is_open_to_all_is_told_the_option_for_its_protocol() {
    let bench = Bench::with_pool();
    for (protocol, option, other) in [
        ("--redis", "--password-file", "--memcached-auth-file"),
        ("--memcached", "--memcached-auth-file", "--password-file"),
    ] {
        let mut server =
            bench.command(["serve", "p", protocol, "0.0.0.0:0"]).stderr(Stdio::piped()).spawn();
        let server = server.as_mut().unwrap();
        let mut line = String::new();
        BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(line.starts_with("warning: other machines can reach"), "{line}");
        assert!(line.contains(option) && !line.contains(other), "{line}");
    }
}

#[test]
fn wrong_files_for_tls_are_one_sentence() {
    let bench = Bench::with_pool();
    let serve = ["serve", "p", "--tls-redis", "unix:socket"];
    let sentence = bench.refused(serve);
    assert!(sentence.contains("--tls-cert"), "{sentence}");
    let sentence = bench.refused([&serve[..], &["--tls-cert", "missing"]].concat());
    assert!(sentence.contains("--tls-key"), "{sentence}");
    bench.write("empty", "");
    let said = match cfg!(feature = "tls") {
        true => ["cannot read missing: ", "empty holds no certi"],
        false => ["built without TLS; build it with --features tls"; 2],
    };
    for (file, said) in ["missing", "empty"].into_iter().zip(said) {
        let files = ["--tls-cert", file, "--tls-key", file];
        let sentence = bench.fails([&serve[..], &files].concat());
        assert!(sentence.contains(said), "{sentence}");
    }
}

/// The system lets the server write no byte more to any file, as a disk that fails.
#[test]
fn a_server_that_cannot_sync_answers_no_write_and_says_that_it_is_ill() {
    let bench = Bench::with_pool();
    let ran = bench.ok(["info", "p"]);
    if !ran.contains("immediate") {
        return eprintln!("skipped: no writes wait for a sync here");
    }
    let serve = ["serve", "p", "--redis", "unix:socket", "--metrics", "unix:metrics"];
    let everleaf = bench.command(serve);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(everleaf.get_program());
    shell.args(everleaf.get_args()).current_dir(everleaf.get_current_dir().unwrap());
    let mut server = shell.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::with_capacity(1, server.stderr.take().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
    stderr.read_line(&mut String::new()).unwrap();
    let health = || {
        let mut client = UnixStream::connect(bench.path("metrics")).unwrap();
        client.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        said
    };
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(Pid::from_child(&server)), Resource::Fsize, nothing).unwrap();
    let mut client = UnixStream::connect(bench.path("socket")).unwrap();
    client.write_all(b"SET leaf green\r\n").unwrap();
    let mut said = Vec::new();
    client.read_to_end(&mut said).unwrap();
    let (replied, said) = (said, health());
    let ended = send(server, SIGTERM);
    assert!(replied.is_empty(), "{}", replied.escape_ascii());
    assert!(said.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{said}");
    assert!(said.contains("writes do not become durable: "), "{said}");
    assert!(!ended.success(), "what cannot be written is no clean close");
}

/// Clients would look for these keys in vain.
#[test]
fn a_pool_with_keys_of_its_own_is_served_only_beside_them() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "ages", "other tree", "--tree", "ages"]);
    let ask = |options: &[&str], request: &[u8], reply: &str| {
        let serve = [&["serve", "p", "--redis", "unix:socket"], options].concat();
        let mut server = bench.command(serve).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::with_capacity(1, server.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("redis at"), "{line}");
        let mut client = UnixStream::connect(bench.path("socket")).unwrap();
        client.write_all(request).unwrap();
        let mut said = vec![0; reply.len()];
        client.read_exact(&mut said).unwrap();
        assert_eq!(String::from_utf8_lossy(&said), reply);
        assert!(send(server, SIGTERM).success());
    };
    let refused = || {
        let said = bench.refused(["serve", "p", "--redis", "unix:socket"]);
        assert!(said.contains("p has keys, which clients would not see"), "{said}");
        assert!(said.contains("everleaf scan p") && said.contains("--beside"), "{said}");
    };
    bench.ok(["put", "p", "leaf", "a blade"]);
    refused();
    assert_eq!(bench.ok(["trees", "p"]), "ages\tbytes\t1\n", "what is refused is not changed");
    ask(&["--beside"], b"SET leaf green\r\n", "+OK\r\n");
    refused();
    ask(&["--beside"], b"GET leaf\r\n", "$5\r\ngreen\r\n");
    assert_eq!(bench.ok(["get", "p", "leaf"]), "a blade\n");
    bench.ok(["del", "p", "leaf"]);
    ask(&[], b"GET leaf\r\n", "$5\r\ngreen\r\n");
}

/// The way that docs/server.md shows.
#[test]
fn keys_of_a_pool_get_into_a_server_by_a_client() {
    const DOCUMENT: &str = include_str!("../../../../docs/server.md");
    let line = DOCUMENT.lines().find(|line| line.starts_with("everleaf scan words.pool |"));
    let bench = Bench::with_pool();
    if Command::new("redis-cli").arg("--version").output().is_err() {
        return eprintln!("skipped: redis-cli is not installed");
    }
    let entries = ["a\t\"1\" \\\\ \\n\\t'\n", "b c\t\\x01\\xff\n", "ü\t$x `y` %s\n"].concat();
    bench.write("entries", &entries);
    bench.ok(["create", "words.pool"]);
    bench.ok(["load", "words.pool", "entries", "--format", "tsv"]);
    let serve = ["serve", "p", "--redis", "unix:socket"];
    let mut server = bench.command(serve).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::with_capacity(1, server.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let line = line.unwrap().replace("everleaf", crate::PROGRAM);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{line} -s socket")]).current_dir(bench.path(""));
    let output = shell.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "OK\nOK\nOK\n", "{output:?}");
    let mut client = UnixStream::connect(bench.path("socket")).unwrap();
    let value = "\"1\" \\ \n\t'";
    let first = format!("${}\r\n{value}\r\n", value.len());
    let replies = [first.as_bytes(), b"$2\r\n\x01\xff\r\n"].concat();
    client.write_all(b"GET a\r\nGET \"b c\"\r\n").unwrap();
    let mut said = vec![0; replies.len()];
    client.read_exact(&mut said).unwrap();
    assert_eq!(said, replies, "{}", said.escape_ascii());
    assert!(send(server, SIGTERM).success());
}

#[test]
fn backups_need_a_folder_that_there_is() {
    let bench = Bench::with_pool();
    bench.write("file", "");
    for folder in ["file", "none"] {
        let serve = ["serve", "p", "--redis", "unix:socket", "--backups", folder];
        let sentence = bench.fails(serve);
        assert!(
            sentence.contains(&format!("backups cannot be written to {folder}: ")),
            "{sentence}"
        );
        assert!(sentence.contains("name a folder that can be written"), "{sentence}");
    }
}

/// Whatever ends a server, nothing of a backup that is not complete is taken for one.
#[test]
fn what_is_left_of_a_backup_goes_at_the_next_start() {
    let bench = Bench::with_pool();
    std::fs::create_dir(bench.path("backups")).unwrap();
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(bench.path("backups")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let parts = || names().iter().filter(|name| !name.ends_with(".dump")).count();
    let serve = || {
        let serve = ["serve", "p", "--redis", "unix:socket", "--backups", "backups"];
        let mut server = bench.command(serve).stderr(Stdio::piped()).spawn().unwrap();
        BufReader::with_capacity(1, server.stderr.as_mut().unwrap())
            .read_line(&mut String::new())
            .unwrap();
        (server, UnixStream::connect(bench.path("socket")).unwrap())
    };
    let ask = |client: &mut UnixStream, request: &[u8], reply: &str| {
        client.write_all(request).unwrap();
        let mut said = vec![0; reply.len()];
        client.read_exact(&mut said).unwrap();
        assert_eq!(String::from_utf8_lossy(&said), reply);
    };
    let (mut server, mut client) = serve();
    for number in 10..26 {
        let head = format!("*3\r\n$3\r\nSET\r\n$2\r\n{number}\r\n$524288\r\n");
        ask(&mut client, &[head.as_bytes(), &[b'x'; 524_288], b"\r\n"].concat(), "+OK\r\n");
    }
    for _ in 0..100 {
        ask(&mut client, b"BGSAVE\r\n", "+Background saving started\r\n");
        server.kill().unwrap();
        server.wait().unwrap();
        let left = parts();
        (server, client) = serve();
        assert_eq!(parts(), 0, "{:?}", names());
        if left > 0 {
            break;
        }
    }
    ask(&mut client, b"BGSAVE\r\n", "+Background saving started\r\n");
    assert!(send(server, SIGTERM).success());
    assert_eq!(parts(), 0, "{:?}", names());
    let (server, mut client) = serve();
    let before = names();
    ask(&mut client, b"SAVE\r\n", "+OK\r\n");
    assert!(send(server, SIGTERM).success());
    let made = names().into_iter().find(|name| !before.contains(name)).unwrap();
    bench.ok(["create", "restored"]);
    bench.ok(["restore", "restored", &format!("backups/{made}")]);
    assert_eq!(bench.ok(["trees", "restored"]), bench.ok(["trees", "p"]));
}
