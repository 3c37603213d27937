//! Who gives wrong passwords waits, by the address, and nobody else does.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_server::{ServeOptions, Users};

use crate::common::{Client, PATIENCE, Served, options, tcp};

const SECRET: &str = "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n";
const WRONG: &str = "*2\r\n$4\r\nAUTH\r\n$5\r\nwrong\r\n";
const REFUSED: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

fn served() -> Served {
    let redis = vec!["127.0.0.1:0".parse().unwrap()];
    let redis_password = Some(b"secret".to_vec());
    Served::with(ServeOptions { redis, redis_password, ..options() }, Clock::system())
}

fn redis(served: &Served) -> Client {
    Client::connect(tcp(&served.server.redis_addresses()[0]))
}

/// A client at another address of this machine.
fn elsewhere(server: SocketAddr) -> Client {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    );
    let socket = socket.unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
    rustix::net::connect(&socket, &server).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Client { stream }
}

fn timed(ask: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    ask();
    begun.elapsed()
}

#[test]
fn each_wrong_password_waits_longer_and_stops_nobody_else() {
    let served = served();
    let mut known = redis(&served);
    known.ask(SECRET, "+OK\r\n");
    let mut guesses: Vec<Client> = (0..4).map(|_| redis(&served)).collect();
    let first = timed(|| guesses[0].ask(WRONG, REFUSED));
    for guess in 0..6 {
        guesses[guess % 3].ask(WRONG, REFUSED);
    }
    let last = timed(|| guesses[3].ask(WRONG, REFUSED));
    assert!(last >= Duration::from_millis(320), "{first:?}, then {last:?}");
    // All of them wait now, and are answered in their order when it is their time.
    guesses.iter_mut().for_each(|guess| guess.send([WRONG, "PING\r\n"].concat()));
    let others = timed(|| {
        for _ in 0..100 {
            known.ask("PING\r\n", "+PONG\r\n");
        }
        elsewhere(tcp(&served.server.redis_addresses()[0])).ask(SECRET, "+OK\r\n");
    });
    assert!(others < Duration::from_millis(300), "{others:?}");
    guesses[0].expect([REFUSED, "-NOAUTH Authentication required.\r\n"].concat());
    // The right one waits as well, and HELLO does.
    let hello = "*5\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$6\r\nsecret\r\n";
    let waited = timed(|| {
        let mut late = redis(&served);
        late.send(hello);
        assert_eq!(late.line(), "*14");
    });
    assert!(waited >= Duration::from_millis(100), "{waited:?}");
}

#[test]
fn a_client_that_waits_for_its_password_may_not_send_everything() {
    let served = served();
    let mut client = redis(&served);
    (0..8).for_each(|_| client.ask(WRONG, REFUSED));
    client.send(WRONG);
    let much = [b'x'; 100_000];
    let sent = (0..100).take_while(|_| client.stream.write_all(&much).is_ok()).count();
    assert!(sent < 100 || client.rest().is_empty());
    let mut known = elsewhere(tcp(&served.server.redis_addresses()[0]));
    known.ask(SECRET, "+OK\r\n");
}

#[test]
fn memcached_passwords_wait_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "ann:one\n").unwrap();
    let memcached_users = Some(Users::read(&file).unwrap());
    let served = Served::with(ServeOptions { memcached_users, ..options() }, Clock::system());
    let mut client = served.memcached();
    let wrong = "set a 0 0 7\r\nann two\r\n";
    (0..6).for_each(|_| client.ask(wrong, "CLIENT_ERROR authentication failure\r\n"));
    let waited = timed(|| client.ask("set a 0 0 7\r\nann one\r\n", "STORED\r\n"));
    assert!(waited >= Duration::from_millis(160), "{waited:?}");
    client.ask("mn\r\n", "MN\r\n");
}

#[test]
fn what_is_no_request_is_said_without_a_password_too() {
    for (request, said) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        ("*1\r\n$16385\r\n", "unauthenticated bulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
    ] {
        let served = served();
        let mut client = redis(&served);
        client.send(request);
        let said = format!("-ERR Protocol error: {said}\r\n");
        assert_eq!(String::from_utf8(client.rest()).unwrap(), said);
        let mut client = redis(&served);
        client.ask(SECRET, "+OK\r\n");
        client.send("*11\r\n");
        client.ask(
            "$4\r\nPING\r\n".repeat(11),
            "-ERR wrong number of arguments for 'ping' command\r\n",
        );
    }
}
