//! Clients that write before they read: all of it is answered, and what waits is bounded.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use everleaf_server::{Address, Limits, ServeOptions};
use rustix::net::sockopt;
use tempfile::TempDir;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::version::TLS13;

use crate::common::{Client, PATIENCE, Served, options, tcp};
#[cfg(feature = "tls")]
use crate::tls::Pair;

/// Bytes of a long value.
const VALUE: usize = 10_000;
/// More than sockets of the network hold in one direction.
const MUCH: usize = 11 << 20;

/// Requests and the replies that are expected.
#[derive(Default)]
struct Pipeline {
    requests: Vec<u8>,
    replies: Vec<u8>,
    seed: u64,
    /// The end of its keys, which are its own.
    own: u64,
}

impl Pipeline {
    fn add(&mut self, request: impl AsRef<[u8]>, reply: impl AsRef<[u8]>) {
        self.requests.extend_from_slice(request.as_ref());
        self.replies.extend_from_slice(reply.as_ref());
    }

    /// A number that looks random.
    fn below(&mut self, limit: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) % limit
    }

    /// Any mix of what `add` draws, until both directions have so many bytes.
    fn drawn(own: u64, bytes: usize, add: fn(&mut Self, u64, &str)) -> Self {
        let mut drawn = Self { seed: own, own, ..Self::default() };
        while drawn.requests.len().min(drawn.replies.len()) < bytes {
            let (kind, number) = (drawn.below(16), drawn.below(1 << 20));
            let value = format!("{number:0>10}").repeat(VALUE / 10);
            add(&mut drawn, kind, &value);
        }
        drawn
    }

    fn redis(own: u64, bytes: usize) -> Self {
        Self::drawn(own, bytes, |drawn, kind, value| {
            let own = drawn.own;
            let bulk = format!("${VALUE}\r\n{value}\r\n");
            let set = format!("*3\r\n$3\r\nSET\r\n$6\r\nk{own:0>5}\r\n{bulk}");
            let get = format!("GET k{own:0>5}\r\n");
            match kind {
                0 => {
                    let requests = format!("PING\r\nINCR n{own}\r\nDEL n{own}\r\n");
                    drawn.add(requests, "+PONG\r\n:1\r\n:1\r\n");
                }
                1 => {
                    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
                    drawn.add(format!("MULTI\r\n{set}{get}"), queued);
                    drawn.add("EXEC\r\n", format!("*2\r\n+OK\r\n{bulk}"));
                }
                2 => {
                    let push = format!("*3\r\n$5\r\nRPUSH\r\n$6\r\nl{own:0>5}\r\n{bulk}");
                    drawn.add(push, ":1\r\n");
                    let popped = format!("*2\r\n$6\r\nl{own:0>5}\r\n{bulk}");
                    drawn.add(format!("BLPOP l{own:0>5} 0\r\n"), popped);
                }
                // A reply in parts.
                3 => {
                    drawn.add(set, "+OK\r\n");
                    let keys = format!(" k{own:0>5}").repeat(30);
                    drawn.add(format!("MGET{keys}\r\n"), format!("*30\r\n{}", bulk.repeat(30)));
                }
                _ => {
                    drawn.add(set, "+OK\r\n");
                    drawn.add(get, bulk);
                }
            }
        })
    }

    fn memcached(own: u64, bytes: usize) -> Self {
        Self::drawn(own, bytes, |drawn, kind, value| {
            let own = drawn.own;
            let block = format!("{VALUE}\r\n{value}\r\n");
            let got = format!("VALUE k{own} 0 {block}");
            match kind {
                0 => drawn.add("mn\r\nmg none v q\r\nmg none v\r\n", "MN\r\nEN\r\n"),
                1 => {
                    drawn.add(format!("ms k{own} {block}"), "HD\r\n");
                    drawn.add(format!("mg k{own} v q\r\n"), format!("VA {block}"));
                }
                // A reply in parts.
                2 => {
                    drawn.add(format!("set k{own} 0 0 {block}"), "STORED\r\n");
                    let keys = format!(" k{own}").repeat(30);
                    drawn.add(format!("get{keys}\r\n"), format!("{}END\r\n", got.repeat(30)));
                }
                _ => {
                    let set = format!("set k{own} 0 0 {VALUE} noreply\r\n{value}\r\n");
                    drawn.add(set, "");
                    drawn.add(format!("get k{own}\r\n"), format!("{got}END\r\n"));
                }
            }
        })
    }

    /// Writes all, then reads all.
    #[track_caller]
    fn ask<S: Read + Write>(&self, client: &mut Client<S>) {
        client.send(&self.requests);
        client.stream.flush().unwrap();
        self.expect(client);
    }

    #[track_caller]
    fn expect<S: Read + Write>(&self, client: &mut Client<S>) {
        let mut got = vec![0; self.replies.len()];
        client.stream.read_exact(&mut got).unwrap();
        if got != self.replies {
            let same = got.iter().zip(&self.replies).take_while(|(got, reply)| got == reply);
            panic!("byte {} of {} is another one", same.count(), got.len());
        }
    }
}

/// A client whose sockets hold little, and that does not wait for ever.
fn small(address: &Address) -> Client {
    let client = Client::connect(tcp(address));
    sockopt::set_socket_recv_buffer_size(&client.stream, 16 << 10).unwrap();
    sockopt::set_socket_send_buffer_size(&client.stream, 16 << 10).unwrap();
    client.stream.set_write_timeout(Some(PATIENCE)).unwrap();
    client
}

fn unix(address: &Address) -> Client<UnixStream> {
    let Address::Unix(path) = address else { panic!("{address} is no file") };
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    Client { stream }
}

fn both(limits: Limits) -> ServeOptions {
    ServeOptions { redis: vec!["127.0.0.1:0".parse().unwrap()], limits, ..options() }
}

/// A server at sockets of the file system, which hold little.
fn by_unix(limits: Limits) -> (Served, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let unix = |name| vec![Address::Unix(folder.path().join(name))];
    let (redis, memcached) = (unix("redis"), unix("memcached"));
    let options = ServeOptions { redis, memcached, limits, ..options() };
    (Served::without_syncs(options), folder)
}

/// Waits until all the memory is given back: who has read is a little ahead of the server.
#[track_caller]
fn expect_nothing_unsent(served: &Served) {
    let end = Instant::now() + PATIENCE;
    while served.shared().unsent.taken() > 0 {
        assert!(Instant::now() < end, "{} bytes", served.shared().unsent.taken());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_pipeline_is_answered_that_is_written_before_it_is_read() {
    let served = Served::without_syncs(both(Limits::default()));
    Pipeline::redis(1, MUCH).ask(&mut small(&served.server.redis_addresses()[0]));
    Pipeline::memcached(2, MUCH).ask(&mut small(&served.server.memcached_addresses()[0]));
    expect_nothing_unsent(&served);
}

#[test]
fn a_pipeline_by_a_socket_of_the_file_system_is_answered_too() {
    let (served, _folder) = by_unix(Limits::default());
    Pipeline::redis(3, 2 << 20).ask(&mut unix(&served.server.redis_addresses()[0]));
    Pipeline::memcached(4, 2 << 20).ask(&mut unix(&served.server.memcached_addresses()[0]));
    // Short requests with shorter replies.
    let mut many = Pipeline::default();
    many.add("*1\r\n$4\r\nPING\r\n".repeat(60_000), "+PONG\r\n".repeat(60_000));
    many.ask(&mut unix(&served.server.redis_addresses()[0]));
    expect_nothing_unsent(&served);
}

#[cfg(feature = "tls")]
#[test]
fn a_pipeline_by_tls_is_answered_too() {
    let pair = Pair::new();
    let served = pair.serve(Limits::default());
    let mut client = pair.connect(tcp(&served.server.tls_redis_addresses()[0]), &TLS13);
    client.stream.sock.set_write_timeout(Some(PATIENCE)).unwrap();
    Pipeline::redis(5, MUCH).ask(&mut client);
    expect_nothing_unsent(&served);
}

/// Writes until the server takes no more for a while; what it has taken.
fn fill(stream: &UnixStream, bytes: &[u8]) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let (mut stream, mut taken) = (stream, 0);
    while taken < bytes.len() {
        match stream.write(&bytes[taken..]) {
            Ok(more) => taken += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error} behind {taken} bytes"),
        }
    }
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    taken
}

/// Limits of clients that have little each, and the most bytes that so many clients take: the
/// shared ones, and each a part of requests, one of replies and one that is being made.
fn little(unsent_bytes: u64, clients: u64) -> (Limits, u64) {
    const PART: u64 = 32 << 10;
    let (reply_bytes, value_bytes) = (PART as usize, Some(PART as usize));
    let limits = Limits { reply_bytes, value_bytes, unsent_bytes, ..Limits::default() };
    (limits, unsent_bytes + clients * 8 * PART)
}

#[test]
fn clients_that_never_read_share_a_limit_and_the_others_are_answered() {
    let (limits, most) = little(2 << 20, 8);
    let (served, _folder) = by_unix(limits);
    let redis = &served.server.redis_addresses()[0];
    let memcached = &served.server.memcached_addresses()[0];
    let mut deaf: Vec<_> = (0..8)
        .map(|own| match own % 2 {
            0 => (unix(redis), Pipeline::redis(own, 1 << 20)),
            _ => (unix(memcached), Pipeline::memcached(own, 1 << 20)),
        })
        .collect();
    let written: Vec<usize> = std::thread::scope(|scope| {
        let fill = |(client, all): &mut (Client<UnixStream>, Pipeline)| {
            let (stream, all) = (client.stream.try_clone().unwrap(), all.requests.clone());
            scope.spawn(move || fill(&stream, &all))
        };
        let threads: Vec<_> = deaf.iter_mut().map(fill).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let is_read_no_more = deaf.iter().zip(&written).any(|((_, all), n)| *n < all.requests.len());
    assert!(is_read_no_more, "the server takes all: {written:?}");
    let taken = served.shared().unsent.taken();
    assert!((1 << 20..=most).contains(&taken), "{taken} bytes of at most {most}");
    // Others are answered, also if they leave a little unread.
    let value = "v".repeat(VALUE);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\no\r\n${VALUE}\r\n{value}\r\nGET o\r\n");
    let got = format!("+OK\r\n${VALUE}\r\n{value}\r\n");
    let mut other = unix(redis);
    (0..50).for_each(|_| other.ask(set.repeat(3), got.repeat(3)));
    // One by one they read while they write the rest: each is answered to its end.
    for ((client, all), written) in deaf.iter_mut().zip(written) {
        std::thread::scope(|scope| {
            let mut stream = client.stream.try_clone().unwrap();
            let rest = &all.requests[written..];
            scope.spawn(move || stream.write_all(rest).unwrap());
            all.expect(client);
        });
    }
    expect_nothing_unsent(&served);
}

#[test]
fn who_waits_for_memory_goes_on_when_others_give_it_back() {
    let (limits, _) = little(2 << 20, 1);
    let (served, _folder) = by_unix(limits);
    let redis = &served.server.redis_addresses()[0];
    let (deaf, first) = (unix(redis), Pipeline::redis(1, 2 << 20));
    assert!(fill(&deaf.stream, &first.requests) < first.requests.len());
    let (mut client, second) = (unix(redis), Pipeline::redis(2, 700 << 10));
    let written = fill(&client.stream, &second.requests);
    assert!(written < second.requests.len(), "there is memory for it");
    drop(deaf);
    client.send(&second.requests[written..]);
    second.expect(&mut client);
    expect_nothing_unsent(&served);
}

#[test]
fn who_takes_nothing_while_the_memory_is_used_up_is_closed() {
    let (limits, _) = little(1 << 20, 1);
    let patience = Duration::from_millis(700);
    let (served, _folder) = by_unix(Limits { unsent_patience: patience, ..limits });
    let redis = &served.server.redis_addresses()[0];
    let mut deaf: Vec<_> = (1..4).map(|own| (unix(redis), Pipeline::redis(own, 2 << 20))).collect();
    for (client, all) in &mut deaf {
        while client.stream.write_all(&all.requests).is_ok() {}
    }
    expect_nothing_unsent(&served);
    // Without want of memory nobody is closed.
    let (mut client, all) = (unix(redis), Pipeline::redis(9, 300 << 10));
    client.send(&all.requests);
    std::thread::sleep(2 * patience);
    all.expect(&mut client);
}

/// What a client has left unread when it says that it will write no more is sent, as is what it
/// asked for before it quit.
#[test]
fn a_client_that_ends_gets_the_replies_that_it_has_left() {
    let (served, _folder) = by_unix(Limits::default());
    for end in ["", "QUIT\r\n"] {
        let (mut client, mut all) =
            (unix(&served.server.redis_addresses()[0]), Pipeline::redis(1, 2 << 20));
        all.add(end, if end.is_empty() { "" } else { "+OK\r\n" });
        client.send(&all.requests);
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        all.expect(&mut client);
        assert_eq!(client.rest(), b"");
    }
    // One that is gone takes nothing with it.
    for own in 0..4 {
        let client = unix(&served.server.redis_addresses()[0]);
        fill(&client.stream, &Pipeline::redis(own, 1 << 20).requests);
    }
    expect_nothing_unsent(&served);
}

#[test]
fn messages_and_replies_of_a_client_that_reads_late_are_all_there() {
    let (served, _folder) = by_unix(Limits::default());
    let redis = &served.server.redis_addresses()[0];
    let (mut client, mut other) = (unix(redis), unix(redis));
    client.ask("HELLO 3\r\nSUBSCRIBE c\r\n", []);
    let mut greeting = String::new();
    while greeting.matches("subscribe").count() == 0 || !greeting.ends_with(":1\r\n") {
        greeting += &client.line();
        greeting += "\r\n";
    }
    let value = "v".repeat(VALUE);
    let publish = format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n${VALUE}\r\n{value}\r\n");
    let publisher = std::thread::spawn(move || {
        (0..100).for_each(|_| other.ask(&publish, ":1\r\n"));
    });
    let (message, ping) =
        (format!(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${VALUE}\r\n{value}\r\n"), "+PONG\r\n");
    client.send("PING\r\n".repeat(50_000));
    publisher.join().unwrap();
    let mut got = vec![0; 100 * message.len() + 50_000 * ping.len()];
    client.stream.read_exact(&mut got).unwrap();
    let text = String::from_utf8(got).unwrap();
    assert_eq!(text.matches(&message).count(), 100);
    assert_eq!(text.replace(&message, ""), ping.repeat(50_000));
}
