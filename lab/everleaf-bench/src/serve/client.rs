//! The client: threads that share out the connections, each with a pipeline under way.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{ClockId, clock_gettime};

use super::requests::Request;
use super::wire::{Protocol, Wire};

/// How long a server may say nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// What is asked of a server.
pub struct Load<'l> {
    pub address: SocketAddr,
    pub protocol: Protocol,
    pub wire: &'l Wire,
    /// Requests of each connection.
    pub requests: &'l [Vec<Request>],
    /// Requests that a connection sends before it waits for replies.
    pub pipeline: usize,
    pub threads: usize,
}

/// What came of it.
pub struct Driven {
    pub seconds: f64,
    /// Processor time of the client.
    pub client_seconds: f64,
    /// Nanoseconds from the first byte of a pipeline to the last of its replies.
    pub latencies: Histogram<u64>,
}

/// An empty histogram: three digits, as wide as need be.
pub fn histogram() -> Histogram<u64> {
    // No panic: the digits are a constant within 0 to 5.
    Histogram::new(3).expect("three digits are offered")
}

/// Sends everything and reads all replies.
pub fn drive(load: &Load<'_>) -> io::Result<Driven> {
    let threads = load.threads.min(load.requests.len()).max(1);
    let mut lanes: Vec<Vec<Connection<'_>>> = (0..threads).map(|_| Vec::new()).collect();
    for (place, requests) in load.requests.iter().enumerate() {
        lanes[place % threads].push(Connection::open(load, requests)?);
    }
    let (start, client) = (Instant::now(), processor_seconds());
    let driven: Vec<io::Result<Histogram<u64>>> = std::thread::scope(|scope| {
        let start = |lane| scope.spawn(move || run(lane, load));
        let lanes: Vec<_> = lanes.into_iter().map(start).collect();
        // What a thread panics with goes on here.
        lanes
            .into_iter()
            .map(|lane| lane.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
            .collect()
    });
    let seconds = start.elapsed().as_secs_f64().max(1e-9);
    let client_seconds = processor_seconds() - client;
    let mut latencies = histogram();
    for of_lane in driven {
        let _ = latencies.add(of_lane?); // It resizes itself.
    }
    Ok(Driven { seconds, client_seconds, latencies })
}

/// Processor time of this process.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The connections of a thread, to their ends.
fn run(mut connections: Vec<Connection<'_>>, load: &Load<'_>) -> io::Result<Histogram<u64>> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    // Edges: what can be written or read is told once, and first of all that one can write.
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
    for (place, connection) in connections.iter().enumerate() {
        epoll::add(&epoll, &connection.stream, EventData::new_u64(place as u64), flags)?;
    }
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let (mut events, mut buffer) = (Vec::with_capacity(256), vec![0; READ_BYTES]);
    let (mut latencies, mut left) = (histogram(), connections.len());
    while left > 0 {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), Some(&patience)) {
            Ok(0) => return Err(silent()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let connection = &mut connections[event.data.u64() as usize];
            left -= usize::from(connection.advance(load, &mut buffer, &mut latencies)?);
        }
    }
    Ok(latencies)
}

fn silent() -> io::Error {
    let seconds = PATIENCE.as_secs();
    io::Error::new(ErrorKind::TimedOut, format!("nothing came for {seconds} seconds"))
}

/// A connection and the pipeline that is under way.
struct Connection<'l> {
    stream: TcpStream,
    /// Those that are not begun yet; at first there is one.
    requests: &'l [Request],
    out: Vec<u8>,
    sent: usize,
    expected: Vec<u8>,
    received: usize,
    began: Option<Instant>,
}

impl<'l> Connection<'l> {
    /// Connects, and waits until the server knows it.
    fn open(load: &Load<'_>, requests: &'l [Request]) -> io::Result<Self> {
        let mut stream = TcpStream::connect(load.address)?;
        stream.set_nodelay(true)?;
        greet(&mut stream, load.protocol)?;
        stream.set_nonblocking(true)?;
        let (out, expected) = (Vec::new(), Vec::new());
        Ok(Self { stream, requests, out, sent: 0, expected, received: 0, began: None })
    }

    /// Goes on as far as the socket lets it; whether it came to its end now.
    fn advance(
        &mut self,
        load: &Load<'_>,
        buffer: &mut [u8],
        latencies: &mut Histogram<u64>,
    ) -> io::Result<bool> {
        self.send()?;
        if !self.receive(buffer)? {
            return Ok(false);
        }
        let had_begun = self.began.take();
        if let Some(began) = had_begun {
            // The histogram resizes itself.
            let _ = latencies.record(began.elapsed().as_nanos() as u64);
        }
        if self.requests.is_empty() {
            return Ok(had_begun.is_some()); // Whatever is told behind the end is no other end.
        }
        self.begin(load);
        self.send()?;
        Ok(false)
    }

    /// Makes the next pipeline.
    fn begin(&mut self, load: &Load<'_>) {
        let (now, later) = self.requests.split_at(load.pipeline.min(self.requests.len()));
        self.requests = later;
        (self.sent, self.received) = (0, 0);
        self.out.clear();
        self.expected.clear();
        now.iter().for_each(|request| load.wire.put(request, &mut self.out, &mut self.expected));
        self.began = Some(Instant::now());
    }

    /// Writes what the socket takes.
    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what has come; whether all replies of the pipeline are there.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        while self.received < self.expected.len() {
            let bytes = match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (expected, got) = (&self.expected[self.received..], &buffer[..bytes]);
            if !expected.starts_with(got) {
                return Err(wrong(expected, got));
            }
            self.received += bytes;
            // Less than was asked for: what comes later is told.
            if bytes < buffer.len() && self.received < self.expected.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The first line that is not as it must be.
fn wrong(expected: &[u8], got: &[u8]) -> io::Error {
    let same = expected.iter().zip(got).take_while(|(one, other)| one == other).count();
    let line = got[..same].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let shown = |bytes: &[u8]| {
        let bytes = bytes.get(line..).unwrap_or_default();
        bytes[..bytes.len().min(60)].escape_ascii().to_string()
    };
    let sentence = format!("it answered {} where {} was due", shown(got), shown(expected));
    io::Error::new(ErrorKind::InvalidData, sentence)
}

/// A request and its line.
pub fn greet(stream: &mut TcpStream, protocol: Protocol) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(protocol.greeting())?;
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Drives a server that gives these replies, in small pieces, to two SETs and to a GET.
    fn driven(replies: [&'static [u8]; 2]) -> io::Result<Driven> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (protocol, wire) = (Protocol::Redis, Wire::new(Protocol::Redis, 3));
        let request = |stores| Request { key: *b"0123456789abcdef", stores };
        let requests = [vec![request(true), request(true), request(false)]];
        let asked = |requests: &[Request]| {
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            requests.iter().for_each(|request| wire.put(request, &mut out, &mut expected));
            out
        };
        let pipelines = [&b"PING\r\n"[..], &asked(&requests[0][..2]), &asked(&requests[0][2..])];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                for (pipeline, reply) in
                    pipelines.iter().zip([b"+PONG\r\n", replies[0], replies[1]])
                {
                    let mut got = vec![0; pipeline.len()];
                    if stream.read_exact(&mut got).is_err() {
                        return; // The client has seen enough.
                    }
                    assert_eq!(got, *pipeline);
                    for piece in reply.chunks(3) {
                        let _ = stream.write_all(piece);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            let (wire, requests) = (&wire, &requests);
            drive(&Load { address, protocol, wire, requests, pipeline: 2, threads: 1 })
        })
    }

    #[test]
    fn every_reply_is_waited_for_and_compared() {
        let rightly = driven([b"+OK\r\n+OK\r\n", b"$3\r\n012\r\n"]).unwrap();
        assert_eq!(rightly.latencies.len(), 2, "two pipelines");
        assert!(rightly.latencies.max() >= 1_000_000, "pieces come a millisecond apart");
        let lied = driven([b"+OK\r\n-ERR no\r\n", b""]).err().unwrap();
        assert!(lied.to_string().starts_with("it answered -"), "{lied}");
        let other = driven([b"+OK\r\n+OK\r\n", b"$3\r\n013\r\n"]).err().unwrap();
        assert_eq!(other.kind(), ErrorKind::InvalidData);
        let ended = driven([b"+OK\r\n+OK\r\n", b"$3\r\n"]).err().unwrap();
        assert_eq!(ended.kind(), ErrorKind::UnexpectedEof);
    }
}
