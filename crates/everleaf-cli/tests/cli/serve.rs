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
