//! What an operator is told: metrics and health.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use everleaf::Clock;
use everleaf_server::{Address, ServeOptions};

use crate::common::{Client, Served, options, tcp};

fn served() -> Served {
    let any: Vec<Address> = vec!["127.0.0.1:0".parse().unwrap()];
    let options = ServeOptions { redis: any.clone(), metrics: any, ..options() };
    Served::with(options, Clock::system())
}

/// Head and body of the reply to a request.
fn answer(served: &Served, request: &str) -> (String, String) {
    let mut client = Client::connect(tcp(&served.server.metrics_addresses()[0]));
    client.send(request);
    let reply = String::from_utf8(client.rest()).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").expect("a reply of HTTP");
    let length = format!("Content-Length: {}", body.len());
    assert!(head.contains(&length), "{head}");
    (head.to_owned(), body.to_owned())
}

fn get(served: &Served, path: &str) -> (String, String) {
    answer(served, &format!("GET {path} HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n"))
}

// ---- the text format
// -------------------------------------------------------------------------------------------------

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// A metric: its kind, and its samples with the series that they belong to.
#[derive(Debug)]
struct Metric {
    kind: String,
    samples: Vec<(String, f64)>,
}

/// The labels of a series in their order. Values have no escapes here.
fn labels(series: &str) -> Vec<(&str, &str)> {
    let Some((_, rest)) = series.split_once('{') else { return Vec::new() };
    let pairs = rest.strip_suffix('}').expect("labels end").split(',');
    let label = |pair| {
        let (key, value): (&str, &str) = str::split_once(pair, '=').expect("a label has a value");
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        assert!(is_name(key), "{series}");
        (key, value.expect("values are quoted"))
    };
    pairs.map(label).collect()
}

/// Parses the text format, strictly: each metric has one HELP, then one TYPE, then its samples, and
/// no series is there twice.
fn parse(text: &str) -> BTreeMap<String, Metric> {
    let (mut metrics, mut current) = (BTreeMap::<String, Metric>::new(), String::new());
    let (mut helped, mut series_seen) = (String::new(), HashSet::new());
    assert!(text.ends_with('\n'), "the last line ends");
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, sentence) = help.split_once(' ').expect("a help is there");
            assert!(is_name(name) && sentence.ends_with('.') && !sentence.contains('\\'), "{line}");
            helped = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type is there");
            assert_eq!(name, helped, "a help comes before the type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            let metric = Metric { kind: kind.to_owned(), samples: Vec::new() };
            assert!(metrics.insert(name.to_owned(), metric).is_none(), "{name} is there twice");
            current = name.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
            let name = series.split('{').next().unwrap();
            labels(series);
            let metric = metrics.get_mut(&current).expect("a type comes before the samples");
            let suffixes: &[_] = match &metric.kind[..] {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let belongs = suffixes.iter().any(|suffix| name == format!("{current}{suffix}"));
            assert!(is_name(name) && belongs, "{line} is no sample of {current}");
            assert!(series_seen.insert(series.to_owned()), "{series} is there twice");
            metric.samples.push((series.to_owned(), value.parse().expect("a number")));
        }
    }
    metrics.iter().filter(|(_, m)| m.kind == "histogram").for_each(|(name, m)| check(name, m));
    metrics
}

/// Buckets of a histogram grow with their bounds, and the last one has all.
fn check(name: &str, histogram: &Metric) {
    let (mut below, mut bound) = (0.0, f64::NEG_INFINITY);
    for (series, value) in &histogram.samples {
        let labels = labels(series);
        if series.starts_with(&format!("{name}_bucket")) {
            let (key, end) = labels.last().unwrap();
            let end: f64 = end.parse().unwrap();
            assert!(*key == "le" && end > bound && *value >= below, "{series}");
            (below, bound) = (*value, end);
        } else if series.starts_with(&format!("{name}_sum")) {
            assert!(bound.is_infinite() && (*value > 0.0) == (below > 0.0), "{series} {value}");
        } else {
            assert_eq!(*value, below, "{series}");
            (below, bound) = (0.0, f64::NEG_INFINITY);
        }
    }
}

/// The metrics, and a way to ask for the value of a series.
struct Scraped(BTreeMap<String, Metric>);

impl Scraped {
    fn of(served: &Served) -> Self {
        let (head, body) = get(served, "/metrics");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
        Self(parse(&body))
    }

    #[track_caller]
    fn value(&self, series: &str) -> f64 {
        let all = self.0.values().flat_map(|metric| &metric.samples);
        let found = all.clone().find(|(name, _)| name == series);
        found.unwrap_or_else(|| panic!("no {series} in {:?}", self.0)).1
    }
}

/// How often a command was asked for.
fn asked(protocol: &str, command: &str) -> String {
    let labels = format!("{{protocol=\"{protocol}\",command=\"{command}\"}}");
    format!("everleaf_request_duration_seconds_count{labels}")
}

// ---- tests
// -------------------------------------------------------------------------------------------------

#[test]
fn metrics_tell_what_clients_did() {
    if crate::common::cluster::is_wanted() {
        return; // Its replies wait for a majority, not for syncs of its own.
    }
    let served = served();
    let before = Scraped::of(&served);
    assert_eq!(before.value("everleaf_requests_total{protocol=\"redis\"}"), 0.0);
    let mut memcached = served.memcached();
    for at in 0..20 {
        memcached.ask(format!("set k{at} 0 0 2\r\nab\r\n"), "STORED\r\n");
    }
    memcached.ask("get k1 k2 none\r\n", "VALUE k1 0 2\r\nab\r\nVALUE k2 0 2\r\nab\r\nEND\r\n");
    memcached.ask("verbosity 1\r\n", "OK\r\n");
    let mut redis = Client::connect(tcp(&served.server.redis_addresses()[0]));
    redis.ask(
        "SELECT 3\r\nSET a 1\r\nget a\r\nGET b\r\nNONSENSE\r\n",
        "+OK\r\n+OK\r\n$1\r\n1\r\n$-1\r\n",
    );
    assert!(redis.line().starts_with("-ERR unknown command"));
    redis.ask(
        "MULTI\r\nSET c 1\r\nSET d 1\r\nEXEC\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n",
    );
    redis.ask("BLPOP list 0.01\r\n", "*-1\r\n");
    let after = Scraped::of(&served);
    for (series, expected) in [
        ("everleaf_connections_open", 2.0),
        ("everleaf_connections_total", 2.0),
        ("everleaf_connections_refused_total", 0.0),
        ("everleaf_requests_total{protocol=\"memcached\"}", 22.0),
        ("everleaf_requests_total{protocol=\"redis\"}", 10.0),
        (&asked("memcached", "set"), 20.0),
        (&asked("memcached", "get"), 1.0),
        (&asked("memcached", "other"), 1.0),
        (&asked("redis", "set"), 3.0), // Two of them by EXEC.
        (&asked("redis", "get"), 2.0),
        (&asked("redis", "select"), 1.0),
        (&asked("redis", "unknown"), 1.0),
        (&asked("redis", "multi"), 1.0),
        (&asked("redis", "queued"), 2.0),
        (&asked("redis", "exec"), 1.0),
        (&asked("redis", "blpop"), 1.0),
        ("everleaf_key_hits_total{protocol=\"memcached\"}", 2.0),
        ("everleaf_key_misses_total{protocol=\"memcached\"}", 1.0),
        ("everleaf_key_hits_total{protocol=\"redis\"}", 1.0),
        ("everleaf_keys{database=\"0\"}", 20.0),
        ("everleaf_keys{database=\"3\"}", 3.0),
        ("everleaf_keys{database=\"15\"}", 0.0),
        ("everleaf_evicted_keys_total", 0.0),
        ("everleaf_pool_limit_bytes", f64::from(1 << 30)),
    ] {
        assert_eq!(after.value(series), expected, "{series}");
    }
    let shared = served.shared();
    let counters = &shared.counters;
    assert_eq!(after.value("everleaf_received_bytes_total"), counters.bytes_read.get() as f64);
    let sent = after.value("everleaf_sent_bytes_total");
    // The last reply of a connection is counted when it was sent: not before its client has it.
    assert!(sent <= counters.bytes_written.get() as f64 && sent > 20.0 * 8.0, "{sent}");
    let store = served.shared().data.store().statistics().unwrap();
    assert_eq!(after.value("everleaf_recovery_seconds"), store.recovery_ms / 1e3);
    assert!(after.value("everleaf_pool_used_bytes") > 0.0);
    if store.log {
        let syncs = after.value("everleaf_sync_duration_seconds_count");
        assert!(syncs >= 20.0, "each reply to a set waited for a sync: {syncs}");
        assert_eq!(after.value("everleaf_sync_connections_count"), syncs);
        assert!(after.value("everleaf_log_written_bytes_total") > 0.0);
    }
}

#[test]
fn a_sync_that_several_connections_share_is_counted_once() {
    if crate::common::cluster::is_wanted() {
        return; // Its replies wait for a majority, not for syncs of its own.
    }
    let served = served();
    if !served.shared().data.store().statistics().unwrap().log {
        return eprintln!("skipped: no log, so nothing waits for a sync");
    }
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let mut client = served.memcached();
            std::thread::spawn(move || {
                for at in 0..50 {
                    client.ask(format!("set {thread}-{at} 0 0 1\r\na\r\n"), "STORED\r\n");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let after = Scraped::of(&served);
    let (syncs, replies) = (
        after.value("everleaf_sync_connections_count"),
        after.value("everleaf_sync_connections_sum"),
    );
    // What another's sync has made durable already waits for none.
    assert!(syncs > 0.0 && syncs <= replies && replies <= 400.0, "{syncs} {replies}");
    assert_eq!(after.value(&asked("memcached", "set")), 400.0);
}

#[test]
fn health_is_ok_and_what_else_is_asked_is_refused() {
    let served = served();
    let (head, body) = get(&served, "/health");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body == "ok\n", "{head} {body}");
    let (head, _) = get(&served, "/metrics?name=1");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        ("GET /metrics\r\n\r\n", "400 Bad Request"),
        ("GET /metrics HTTP/2.0\r\n\r\n", "400 Bad Request"),
        ("\r\n\r\n", "400 Bad Request"),
        (&"a".repeat(10_000), "431 Request Header Fields Too Large"),
    ] {
        let (head, _) = answer(&served, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {head}");
    }
    // One that sends half of a request does not hold up others, nor the end.
    let mut half = Client::connect(tcp(&served.server.metrics_addresses()[0]));
    half.send("GET /me");
    assert_eq!(get(&served, "/health").1, "ok\n");
    served.server.stop();
    assert_eq!(half.rest(), b"");
}

#[test]
fn a_socket_of_the_file_system_tells_metrics_and_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics");
    let options = ServeOptions { metrics: vec![Address::Unix(path.clone())], ..options() };
    let served = Served::with(options, Clock::system());
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    parse(reply.split_once("\r\n\r\n").unwrap().1);
    served.server.stop();
    assert!(!path.exists());
}
