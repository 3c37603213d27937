//! The server, by its options.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

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
