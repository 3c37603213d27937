//! A server that is killed at any moment: everything that it acknowledged is there afterwards.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everleaf::{CreateOptions, OpenOptions};
use everleaf_server::{Database, ServeOptions, Server};

use crate::common::{Client, options, tcp};

/// Names the pool for the process that is killed.
const CHILD: &str = "EVERLEAF_SERVER_TEST_CHILD";
const KILLS: usize = 10;
const WRITERS: usize = 3;

/// No test: the process that is killed, which serves until then.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let path = Path::new(&path);
    if !path.exists() {
        CreateOptions::new().size_bytes(64 << 20).create(path).unwrap().close().unwrap();
    }
    let data = Database::open(path, &OpenOptions::new()).unwrap();
    let redis = vec!["127.0.0.1:0".parse().unwrap()];
    let server = Server::start(Arc::new(data), ServeOptions { redis, ..options() }).unwrap();
    let addresses = [&server.memcached_addresses()[0], &server.redis_addresses()[0]];
    println!("\nserving {} {}", tcp(addresses[0]), tcp(addresses[1]));
    loop {
        std::thread::park();
    }
}

/// The process, and its addresses for memcached and Redis.
fn start(pool: &Path) -> (Child, [SocketAddr; 2]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["restart::child", "--exact", "--nocapture"]);
    let mut child = command.env(CHILD, pool).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let addresses = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("serving ").map(str::to_owned))
        .unwrap();
    let mut addresses = addresses.split(' ').map(|address| address.parse().unwrap());
    (child, [addresses.next().unwrap(), addresses.next().unwrap()])
}

/// What a writer knows: the last number that was acknowledged for its counter, and what was
/// acknowledged for its other keys.
#[derive(Clone, Default)]
struct Known {
    counter: u64,
    sets: Vec<u64>,
    greatest_cas: u64,
}

/// Writes until the server is gone.
fn write(writer: usize, address: SocketAddr, known: &mut Known) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    let mut ask = |request: String, line: &mut String| {
        line.clear();
        stream.write_all(request.as_bytes()).is_ok()
            && reader.read_line(line).is_ok_and(|bytes| bytes > 0 && line.ends_with('\n'))
    };
    loop {
        let next = known.sets.len() as u64;
        let body = format!("{next:>100}");
        if !ask(format!("ms {writer}-{next} 100 F{next} c\r\n{body}\r\n"), &mut line) {
            return;
        }
        let cas = line.trim_end().strip_prefix("HD c").unwrap().parse().unwrap();
        assert!(cas > known.greatest_cas, "a CAS number came twice, or backwards");
        known.greatest_cas = cas;
        known.sets.push(cas);
        if !ask(format!("ma {writer} N0 J1 v\r\n"), &mut line) || !ask(String::new(), &mut line) {
            return;
        }
        known.counter = line.trim_end().parse().unwrap();
    }
}

fn look(writer: usize, client: &mut Client, known: &mut Known) {
    for (number, cas) in known.sets.iter().enumerate() {
        let body = format!("{number:>100}");
        client.ask(
            format!("mg {writer}-{number} f c t v\r\n"),
            format!("VA 100 f{number} c{cas} t-1\r\n{body}\r\n"),
        );
    }
    // The write that was cut may have happened or not.
    client.send(format!("ma {writer} N0 J0 D0 v\r\n"));
    client.line();
    let counter: u64 = client.line().parse().unwrap();
    assert!((known.counter..=known.counter + 1).contains(&counter), "{counter}");
    known.counter = counter;
    // Waited for: the writer sets this key next, on a connection of its own.
    client.send(format!("md {writer}-{}\r\n", known.sets.len()));
    client.line(); // It may be there or not.
    client.ask("mn\r\n", "MN\r\n");
}

#[test]
fn what_was_acknowledged_is_there_after_the_server_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("killed.pool");
    CreateOptions::new().size_bytes(64 << 20).create(&pool).unwrap().close().unwrap();
    let mut known = vec![Known::default(); WRITERS];
    for kill in 0..KILLS {
        let (mut child, [address, _]) = start(&pool);
        let mut client = Client::connect(address);
        known.iter_mut().enumerate().for_each(|(writer, known)| {
            if kill > 0 {
                look(writer, &mut client, known);
            }
        });
        std::thread::scope(|scope| {
            for (writer, known) in known.iter_mut().enumerate() {
                scope.spawn(move || write(writer, address, known));
            }
            std::thread::sleep(Duration::from_millis(30 + 7 * kill as u64));
            child.kill().unwrap();
        });
        child.wait().unwrap();
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest); // The connection is gone in some way.
    }
    assert!(known.iter().all(|known| known.sets.len() > KILLS));
    let store = everleaf::Store::open(&pool).unwrap();
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "{:?}", outcome.violations);
}

/// Pushes numbers until the server is gone; the number behind the last that was acknowledged.
fn push(address: SocketAddr, from: u64) -> u64 {
    let Ok(mut stream) = TcpStream::connect(address) else { return from };
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    for number in from.. {
        line.clear();
        let sent = stream.write_all(format!("RPUSH l {number}\r\n").as_bytes());
        if sent.is_err() || !reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            return number;
        }
    }
    from
}

/// Pops numbers until the server is gone: those that it was told.
fn pop(address: SocketAddr) -> Vec<u64> {
    let Ok(mut stream) = TcpStream::connect(address) else { return Vec::new() };
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut popped, mut line) = (Vec::new(), String::new());
    loop {
        if stream.write_all(b"BLPOP l 0\r\n").is_err() {
            return popped;
        }
        for _ in 0..5 {
            line.clear();
            if !reader.read_line(&mut line).is_ok_and(|_| line.ends_with('\n')) {
                return popped;
            }
        }
        popped.push(line.trim_end().parse().unwrap());
    }
}

#[test]
fn what_was_popped_by_who_waited_is_gone_after_the_server_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("killed.pool");
    let (mut next, mut popped, mut all) = (0, 0, 0);
    for kill in 0..KILLS {
        let (mut child, [_, address]) = start(&pool);
        let mut client = Client::connect(address);
        client.send("LPOP l 1000000\r\n");
        let head = client.line();
        let left: Vec<u64> = match head.as_str() {
            "*-1" => Vec::new(),
            head => (0..head[1..].parse().unwrap())
                .map(|_| {
                    client.line();
                    client.line().parse().unwrap()
                })
                .collect(),
        };
        // The request that was cut may have happened or not, of either side.
        let first = left.first().copied().unwrap_or(next);
        assert!((popped..=popped + 1).contains(&first), "{first} is left behind {popped}");
        assert!(left.iter().copied().eq(first..first + left.len() as u64), "{left:?}");
        assert!((next..=next + 1).contains(&(first + left.len() as u64)), "{left:?} to {next}");
        popped = first + left.len() as u64;
        next = popped;
        let (last, got) = std::thread::scope(|scope| {
            let pushing = scope.spawn(move || push(address, next));
            let popping = scope.spawn(move || pop(address));
            std::thread::sleep(Duration::from_millis(30 + 7 * kill as u64));
            child.kill().unwrap();
            (pushing.join().unwrap(), popping.join().unwrap())
        });
        child.wait().unwrap();
        assert!(got.iter().copied().eq(popped..popped + got.len() as u64), "{got:?}");
        all += got.len();
        (next, popped) = (last, popped + got.len() as u64);
        next = next.max(popped);
    }
    assert!(all > 0, "nothing was popped");
}

/// A client of streams, whose server may be gone.
struct Asking {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Asking {
    fn connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        let reader = BufReader::new(stream.try_clone().ok()?);
        Some(Self { stream, reader })
    }

    /// The lines of a reply.
    fn ask(&mut self, line: &str) -> Option<Vec<String>> {
        self.stream.write_all(format!("{line}\r\n").as_bytes()).ok()?;
        let (mut lines, mut left) = (Vec::new(), 1);
        while left > 0 {
            let mut line = String::new();
            self.reader.read_line(&mut line).ok().filter(|_| line.ends_with('\n'))?;
            left -= 1;
            match (line.as_bytes()[0], line[1..].trim_end().parse::<usize>()) {
                (b'*', Ok(more)) => left += more,
                (b'$', Ok(_)) => {
                    line.clear();
                    self.reader.read_line(&mut line).ok().filter(|_| line.ends_with('\n'))?;
                }
                _ => {}
            }
            lines.push(line.trim_end().to_owned());
        }
        Some(lines)
    }
}

/// Adds entries until the server is gone; how many were acknowledged.
fn add(address: SocketAddr) -> u64 {
    let Some(mut asking) = Asking::connect(address) else { return 0 };
    let (mut added, mut last) = (0, String::new());
    while let Some(reply) = asking.ask("XADD s * field value") {
        assert!(reply[0] != last && reply[0].contains('-'), "{reply:?}");
        (added, last) = (added + 1, reply[0].clone());
    }
    added
}

/// Reads and acknowledges entries until the server is gone; how many of either it was told.
fn read(address: SocketAddr) -> [u64; 2] {
    let Some(mut asking) = Asking::connect(address) else { return [0; 2] };
    let [mut got, mut acknowledged] = [0; 2];
    let line = "XREADGROUP GROUP g c COUNT 3 BLOCK 0 STREAMS s >";
    while let Some(reply) = asking.ask(line) {
        let ids: Vec<&str> =
            reply.iter().filter(|line| line.contains('-')).map(String::as_str).collect();
        got += ids.len() as u64;
        let Some(reply) = asking.ask(&format!("XACK s g {}", ids.join(" "))) else { break };
        assert_eq!(reply[0], format!(":{}", ids.len()));
        acknowledged += ids.len() as u64;
    }
    [got, acknowledged]
}

#[test]
fn what_streams_and_groups_acknowledged_is_there_after_the_server_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("killed.pool");
    let [mut added, mut got, mut acknowledged] = [0; 3];
    for kill in 0..=KILLS {
        let (mut child, [_, address]) = start(&pool);
        let mut asking = Asking::connect(address).unwrap();
        asking.ask("XGROUP CREATE s g 0 ENTRIESREAD 0 MKSTREAM").unwrap();
        let mut ask = |line: &str| asking.ask(line).unwrap();
        let number = |line: &String| line[1..].parse::<u64>().unwrap();
        let length = number(&ask("XLEN s")[0]);
        let group = ask("XINFO GROUPS s");
        let told =
            |name: &str| number(&group[group.iter().position(|line| line == name).unwrap() + 1]);
        let (read_before, pending, lag) = (told("entries-read"), told("pending"), told("lag"));
        // A request that was cut may have happened or not, wholly.
        assert!((added..=added + 1).contains(&length), "{length} entries, not {added}");
        assert_eq!(read_before + lag, length);
        assert!((got..=got + 3).contains(&read_before), "{read_before} were read, not {got}");
        let taken = read_before - pending;
        assert!((acknowledged..=acknowledged + 3).contains(&taken), "{taken} {acknowledged}");
        let count = |lines: &[String]| lines.iter().filter(|line| line.contains('-')).count();
        assert_eq!(count(&ask("XRANGE s - +")) as u64, length);
        assert_eq!(number(&ask("XPENDING s g")[1]), pending);
        assert_eq!(count(&ask("XPENDING s g - + 1000000")) as u64, pending);
        assert_eq!(count(&ask("XREADGROUP GROUP g c STREAMS s 0")) as u64, pending);
        (added, got, acknowledged) = (length, read_before, taken);
        let (more, [new, done]) = std::thread::scope(|scope| {
            let adding = scope.spawn(move || add(address));
            let reading = scope.spawn(move || read(address));
            std::thread::sleep(Duration::from_millis(30 + 7 * kill as u64));
            child.kill().unwrap();
            (adding.join().unwrap(), reading.join().unwrap())
        });
        child.wait().unwrap();
        (added, got, acknowledged) = (added + more, got + new, acknowledged + done);
    }
    assert!(acknowledged > KILLS as u64, "nothing was acknowledged");
}

/// Scripts that move an amount from one key to another, so that the sum stays.
#[cfg(feature = "scripts")]
#[test]
fn scripts_that_are_killed_have_happened_wholly_or_not_at_all() {
    use crate::redis::Redis;

    const ACCOUNTS: usize = 20;
    const SUM: i64 = 1000 * ACCOUNTS as i64;
    const DECLARED: &str = "local have = tonumber(redis.call('GET', KEYS[1])) \
                            redis.call('DECRBY', KEYS[1], ARGV[1]) \
                            redis.call('INCRBY', KEYS[2], ARGV[1]) return have";
    let not_declared = DECLARED.replace("KEYS[1]", "ARGV[2]").replace("KEYS[2]", "ARGV[3]");
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("moved.pool");
    let mut moved = 0;
    for round in 0..KILLS {
        let (mut child, [_, address]) = start(&pool);
        let mut redis = Redis::connect(address);
        let sum: i64 = (0..ACCOUNTS)
            .map(|n| match redis.ask(&format!("GET account{n}")).lines().nth(1) {
                Some(amount) => amount.parse().unwrap(),
                None => {
                    redis.ask(&format!("SET account{n} 1000"));
                    1000
                }
            })
            .sum();
        assert_eq!(sum, SUM, "round {round}");
        let not_declared = not_declared.as_str();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    scope.spawn(move || {
                        let mut stream = TcpStream::connect(address).unwrap();
                        let mut reply = BufReader::new(stream.try_clone().unwrap());
                        for n in 0_usize.. {
                            let [from, to] = [n * 7 + writer, n * 3 + 1]
                                .map(|at| format!("account{}", at % ACCOUNTS));
                            let by = (n % 90).to_string();
                            let words = match n % 5 {
                                0 => vec!["EVAL", not_declared, "0", &by, &from, &to],
                                _ => vec!["EVAL", DECLARED, "2", &from, &to, &by],
                            };
                            let request =
                                words.iter().fold(format!("*{}\r\n", words.len()), |all, word| {
                                    format!("{all}${}\r\n{word}\r\n", word.len())
                                });
                            let mut line = String::new();
                            if stream.write_all(request.as_bytes()).is_err()
                                || reply.read_line(&mut line).unwrap_or(0) == 0
                            {
                                return n;
                            }
                            assert!(line.starts_with(':'), "{line}");
                        }
                        0
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(50 + 20 * round as u64));
            child.kill().unwrap();
            child.wait().unwrap();
            moved += writers.into_iter().map(|writer| writer.join().unwrap()).sum::<usize>();
        });
    }
    assert!(moved > KILLS, "nothing was moved");
}
