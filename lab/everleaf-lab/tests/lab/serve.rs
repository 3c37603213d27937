//! bench serve: its JSON, what it leaves out and refuses, and that its servers end with it; figures
//! of servers.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use everleaf::{Engine, KeyType};
use everleaf_bench::serve::{SERVER, Served};
use everleaf_engines::pools;

use crate::common::ended::{SIGTERM, end, names};
use crate::common::{Bench, json};

const SERVE_KEYS: [&str; 23] = [
    "server",
    "protocol",
    "mix",
    "value_bytes",
    "connections",
    "pipeline",
    "keys",
    "requests",
    "rounds",
    "median_requests_per_second",
    "min_requests_per_second",
    "max_requests_per_second",
    "ratio",
    "ratio_min",
    "ratio_max",
    "server_us",
    "server_us_ratio",
    "client_us",
    "p50_us",
    "p99_us",
    "max_us",
    "threads",
    "settings",
];
const SMALL: [&str; 6] = ["--keys", "500", "--ops", "1000", "--rounds", "2"];

#[test]
fn servers_take_turns_and_answer_rightly() {
    let bench = Bench::new();
    let printed = bench.ok(["bench", "serve", "--server", "memcached,redis,ours,ours:fptree"]
        .iter()
        .chain(&["--mix", "set,get,20/80,status-update,session-store", "--pipeline", "1,16"])
        .chain(&["--value-bytes", "32,1000", "--connections", "3", "--client-threads", "2"])
        .chain(&["--pool", "q", "--json"])
        .chain(&SMALL));
    let rows: Vec<_> = printed.lines().map(json).collect();
    let is_here = |server: Served| usize::from(server.missing_program().is_none());
    let servers = 4 + is_here(Served::Memcached) + is_here(Served::Redis(None));
    assert_eq!(rows.len(), 5 * 2 * 2 * servers, "mixes, pipelines, sizes, servers");
    for row in &rows {
        assert_eq!(row.keys().collect::<Vec<_>>(), SERVE_KEYS);
        let of = |key: &str| row[key].as_f64().unwrap();
        let rates =
            ["min", "median", "max"].map(|which| of(&format!("{which}_requests_per_second")));
        assert!(rates.is_sorted() && rates[0] > 0.0, "{row:?}");
        assert!(["p50_us", "p99_us", "max_us"].map(of).is_sorted());
        assert!(of("p50_us") > 1.0, "a pipeline takes two calls of the system: {row:?}");
        assert!(of("server_us") >= 0.0);
    }
    assert!(!bench.path("q").exists());
}

#[test]
fn values_that_wait_for_a_disk_are_served_too() {
    let bench = Bench::new();
    let servers = "redis,ours,ours";
    let given = ["bench", "serve", "--protocol", "redis", "--server", servers, "--pool", "q"];
    let table = bench.ok(given.iter().chain(&["--durability", "immediate"]).chain(&SMALL));
    assert!(table.starts_with("protocol") && table.contains("durability immediate"), "{table}");
}

#[test]
fn what_cannot_be_measured_is_refused_before_any_work() {
    let bench = Bench::new();
    for (wrong, words) in [
        (["--server", "bogus"], "there is no server bogus"),
        (["--server", "127.0.0.1:1"], "takes no part"),
        (["--mix", "60/60"], "there is no mix 60/60"),
        (["--protocol", "http"], "there is no protocol http"),
        (["--ops", "10"], "--ops 10 is out of range"),
        (["--connections", "0"], "--connections 0"),
    ] {
        let said = bench.refused(["bench", "serve", "--server", "ours"].iter().chain(&wrong));
        assert!(said.contains(words), "{said}");
    }
    let nobody = ["bench", "serve", "--server", "127.0.0.1:1", "--protocol", "redis"];
    assert!(bench.fails(nobody).contains("asking the server 127.0.0.1:1"));
}

#[test]
fn what_is_not_installed_is_left_out() {
    let bench = Bench::new();
    let given = ["bench", "serve", "--protocol", "memcached", "--server", "memcached,ours"];
    let mut command = bench.command(given.iter().chain(&SMALL));
    let ran = command.env("PATH", "/nonexistent").output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success() && said.contains("memcached is left out"), "{said}");
    let mut alone = bench.command(["bench", "serve", "--server", "redis"]);
    let ran = alone.env("PATH", "/nonexistent").output().unwrap();
    assert!(String::from_utf8(ran.stderr).unwrap().contains("no server is left"));
}

/// Whether a server runs whose files lie in this folder.
fn is_served(bench: &Bench) -> bool {
    let folder = bench.path("").into_os_string().into_string().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let words = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    words.map(|words| String::from_utf8_lossy(&words).into_owned()).any(|words| {
        let mut words = words.split('\0').skip(1);
        words.next() == Some(SERVER) && words.next().is_some_and(|pool| pool.starts_with(&folder))
    })
}

#[test]
fn a_signal_ends_the_servers() {
    let bench = Bench::new();
    let pool = bench.path("q").into_os_string().into_string().unwrap();
    let given = ["bench", "serve", "--protocol", "redis", "--server", "ours", "--rounds", "1000"];
    let mut command = bench.command(given.iter().chain(&["--pool", &pool]));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !is_served(&bench) {
        assert!(child.try_wait().unwrap().is_none(), "it has work for long");
        sleep(Duration::from_millis(1));
    }
    end(child, SIGTERM);
    assert!(!is_served(&bench));
    assert_eq!(names(&bench), [""; 0]);
}

#[test]
fn figures_of_servers_show_every_engine() {
    let bench = Bench::new();
    let figure = json(&bench.ok(["bench", "figure", "fptree-13", "--json", "--keys", "200"]));
    let names = |panel: usize| -> Vec<String> {
        let series = figure["panels"][panel]["series"].as_array().unwrap();
        series.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let with_byte_strings =
        pools().map(Engine::of).filter(|engine| engine.has_keys(KeyType::Bytes)).count();
    let ours = names(0).iter().filter(|name| *name != "memcached").count();
    assert_eq!(ours, with_byte_strings);
    assert_eq!(figure["panels"].as_array().unwrap().len(), 3);
}
