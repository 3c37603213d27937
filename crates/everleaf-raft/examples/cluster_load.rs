//! Clients of a cluster, for tests/cluster: a history of what they were told, or how many puts a
//! second they get.
//!
//! ```text
//! cluster_load history --via ADDR,.. --secret FILE [--clients 8] [--keys 5] [--seed 0]
//! cluster_load rate    --via ADDR,.. --secret FILE [--clients 8] [--seconds 5] [--bytes 100]
//! ```
//! `history` puts values that differ, and gets, until its standard input ends; then it gets each
//! key once more. Each call is a line of JSON (lab/everleaf-testkit, the example linearizable, says
//! which): when it was invoked and when it returned, in nanoseconds of the system's monotonic
//! clock. A put whose outcome is unknown has no end, and its client another number from then on.
//! The keys change every ten seconds, so that few such puts are of one key.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use everleaf_raft::{Client, Keys, PeerError, Secret};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// A client that is not answered asks another node.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long keys are used.
const EPOCH_NS: u64 = 10_000_000_000;
/// Keys of a measurement.
const RATE_KEYS: u64 = 100_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match Options::of(&words) {
        Ok(options) if words[0] == "history" => history(Arc::new(options)).await,
        Ok(options) if words[0] == "rate" => rate(Arc::new(options)).await,
        Ok(_) => Err("write `cluster_load history|rate --via ADDR,.. --secret FILE`".to_owned()),
        Err(sentence) => Err(sentence),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("cluster_load: {sentence}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    via: Vec<String>,
    keys: Keys,
    clients: u64,
    key_count: u64,
    seed: u64,
    seconds: u64,
    bytes: u64,
}

impl Options {
    fn of(words: &[String]) -> Result<Self, String> {
        let find = |name: &str| {
            let at = words.iter().position(|word| word == name)?;
            words.get(at + 1)
        };
        let number = |name: &str, default: u64| match find(name) {
            Some(word) => word.parse().map_err(|_| format!("{name} {word}: not a number")),
            None => Ok(default),
        };
        let via = find("--via").ok_or("--via ADDR,.. is missing")?;
        let secret = find("--secret").ok_or("--secret FILE is missing")?;
        Ok(Self {
            via: via.split(',').map(String::from).collect(),
            keys: Keys { secret: Secret::read(Path::new(secret))?, tls: None },
            clients: number("--clients", 8)?,
            key_count: number("--keys", 5)?,
            seed: number("--seed", 0)?,
            seconds: number("--seconds", 5)?,
            bytes: number("--bytes", 100)?,
        })
    }

    /// A client that asks the node of this number first.
    fn client(&self, first: u64) -> Client {
        let mut via = self.via.clone();
        let nodes = via.len() as u64;
        via.rotate_left((first % nodes) as usize);
        Client::new(via, self.keys.clone())
    }
}

/// The clock that all programs of a test share.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Random numbers: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }
}

/// What all clients of a history share.
struct Shared {
    options: Arc<Options>,
    begun: u64,
    ends: AtomicBool,
    next_client: AtomicU64,
    next_value: AtomicU64,
    seen: Mutex<BTreeSet<String>>,
}

impl Shared {
    fn tell(&self, line: &Value) -> Result<(), String> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").map_err(|error| error.to_string())
    }
}

async fn history(options: Arc<Options>) -> Result<(), String> {
    let shared = Arc::new(Shared {
        begun: now(),
        ends: AtomicBool::new(false),
        next_client: AtomicU64::new(0),
        next_value: AtomicU64::new(1),
        seen: Mutex::default(),
        options,
    });
    let mut clients = JoinSet::new();
    for number in 0..shared.options.clients {
        clients.spawn(call_until_the_end(Arc::clone(&shared), number));
    }
    let waiting = Arc::clone(&shared);
    std::thread::spawn(move || {
        // Whether it ends or fails, there is nobody any more.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        waiting.ends.store(true, Ordering::SeqCst);
    });
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    get_all(&shared).await
}

async fn call_until_the_end(shared: Arc<Shared>, number: u64) -> Result<(), String> {
    let options = &shared.options;
    let mut random = Random(options.seed ^ number << 32);
    let (mut first, mut client) = (number, options.client(number));
    let mut name = shared.next_client.fetch_add(1, Ordering::SeqCst);
    while !shared.ends.load(Ordering::SeqCst) {
        let epoch = (now() - shared.begun) / EPOCH_NS;
        let key = format!("{epoch}-{}", random.below(options.key_count));
        shared.seen.lock().insert(key.clone());
        let put = (random.below(2) == 0).then(|| shared.next_value.fetch_add(1, Ordering::SeqCst));
        let called = call(&mut client, &key, put, name);
        let (line, answered) = called.await?;
        if line["op"] == "put" && line["to"].is_null() {
            name = shared.next_client.fetch_add(1, Ordering::SeqCst);
        }
        shared.tell(&line)?;
        if !answered {
            first += 1;
            client = options.client(first);
        }
        sleep(Duration::from_micros(random.below(16_000))).await;
    }
    Ok(())
}

/// Makes a call, and what is told of it; whether it was answered.
async fn call(
    client: &mut Client,
    key: &str,
    put: Option<u64>,
    name: u64,
) -> Result<(Value, bool), String> {
    let from = now();
    let mut line = json!({"client": name, "key": key, "from": from, "to": null});
    let Some(value) = put else {
        let got = timeout(PATIENCE, client.get(key)).await;
        let to = now();
        line["op"] = "get".into();
        match got {
            Ok(Ok(got)) => {
                (line["to"], line["value"]) = (to.into(), number(got)?);
                return Ok((line, true));
            }
            Ok(Err(error)) => line["error"] = error.to_string().into(),
            Err(_) => line["error"] = "no answer in time".into(),
        }
        return Ok((line, false));
    };
    let row = (key.into(), Some(value.to_string().into_bytes()));
    let done = timeout(PATIENCE, client.put(vec![row])).await;
    let to = now();
    (line["op"], line["value"]) = ("put".into(), value.into());
    let error = match done {
        Ok(Ok(())) => {
            line["to"] = to.into();
            return Ok((line, true));
        }
        Ok(Err(error)) => error,
        Err(_) => PeerError::Refused("no answer in time".to_owned()),
    };
    line["error"] = error.to_string().into();
    // All others say that nothing was asked: then nobody may ever see the value.
    if !matches!(error, PeerError::Refused(_) | PeerError::Stream(_)) {
        (line["op"], line["to"]) = ("nothing".into(), to.into());
    }
    Ok((line, false))
}

/// The number that a value is.
fn number(value: Option<Vec<u8>>) -> Result<Value, String> {
    let Some(bytes) = value else { return Ok(Value::Null) };
    let text = String::from_utf8_lossy(&bytes);
    let number: u64 = text.parse().map_err(|_| format!("the value {text} was never put"))?;
    Ok(number.into())
}

/// Gets each key, for what was lost and not asked for again.
async fn get_all(shared: &Shared) -> Result<(), String> {
    let mut client = shared.options.client(0);
    let name = shared.next_client.fetch_add(1, Ordering::SeqCst);
    let (keys, deadline) = (shared.seen.lock().clone(), now() + 60_000_000_000);
    for key in keys {
        loop {
            let (line, answered) = call(&mut client, &key, None, name).await?;
            shared.tell(&line)?;
            if answered {
                break;
            }
            if now() > deadline {
                return Err(format!("{key} is not answered at the end: {}", line["error"]));
            }
            client = shared.options.client(now());
        }
    }
    Ok(())
}

async fn rate(options: Arc<Options>) -> Result<(), String> {
    let end = now() + options.seconds * 1_000_000_000;
    let mut clients = JoinSet::new();
    for number in 0..options.clients {
        let options = Arc::clone(&options);
        clients.spawn(async move { put_until(&options, number, end).await });
    }
    let (begun, mut times, mut failed) = (now(), Vec::new(), 0);
    while let Some(ended) = clients.join_next().await {
        let (some, wrong) = ended.map_err(|error| error.to_string())?;
        times.extend(some);
        failed += wrong;
    }
    let seconds = (now() - begun) as f64 / 1e9;
    times.sort_unstable();
    let ms = |part: usize| times.get(times.len() * part / 100).map(|ns| *ns as f64 / 1e6);
    let told = json!({
        "clients": options.clients, "puts_per_second": (times.len() as f64 / seconds).round(),
        "p50_ms": ms(50), "p99_ms": ms(99), "failed": failed,
    });
    println!("{told}");
    Ok(())
}

/// How long each put took, and how many failed.
async fn put_until(options: &Options, number: u64, end: u64) -> (Vec<u64>, u64) {
    let (mut client, mut random) = (options.client(number), Random(options.seed ^ number << 32));
    let (mut times, mut failed) = (Vec::new(), 0);
    while now() < end {
        let key = format!("rate-{:06}", random.below(RATE_KEYS)).into_bytes();
        let begun = now();
        match client.put(vec![(key, Some(vec![b'v'; options.bytes as usize]))]).await {
            Ok(()) => times.push(now() - begun),
            Err(_) => failed += 1,
        }
    }
    (times, failed)
}
