//! `cluster`: what the commands say, to nodes that run in this process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everleaf_raft::{Node, NodeOptions, block_on};
use tokio::sync::oneshot;

use crate::common::ended::{SIGTERM, send};
use crate::common::{Bench, Ran, json};

/// A node that runs until it is stopped.
struct Running {
    number: u64,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(folder: &Path) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (started, is_started) = mpsc::channel();
        let folder = folder.to_owned();
        let run = async move {
            let node = Node::start(&folder, NodeOptions::default()).await.unwrap();
            node.joined().await;
            started.send(node.number()).unwrap();
            let _ = stopped.await;
            node.stop().await;
        };
        let thread = std::thread::spawn(move || block_on(run).unwrap());
        let number = is_started.recv_timeout(Duration::from_secs(60)).unwrap();
        Self { number, stop, thread }
    }

    fn stop(self) {
        let _ = self.stop.send(());
        self.thread.join().unwrap();
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// `everleaf cluster` and words.
fn words<'w>(of: &[&'w str], via: &'w str) -> Vec<&'w str> {
    [&["cluster"], of, &["--via", via, "--secret", "a/secret"]].concat()
}

/// A command that is run until it ends with this code, but not for ever.
fn ends_with(bench: &Bench, words: Vec<&str>, code: i32) -> Ran {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let ran = bench.run(words.clone());
        if ran.code == Some(code) || Instant::now() > deadline {
            return ran;
        }
    }
}

#[test]
fn a_cluster_is_made_shown_changed_and_recovered() {
    let bench = Bench::new();
    let (first, second) = (free_address(), free_address());
    let said = bench.ok(["cluster", "init", "a", "--raft", &first]);
    assert!(said.contains("need a copy of a/secret"), "{said}");
    let a = Running::start(&bench.path("a"));

    let join = ["join", "b", "--raft", &second];
    let said = bench.ok(words(&join, &first));
    assert!(said.contains("it joins by itself"), "{said}");
    let b = Running::start(&bench.path("b"));

    let status = json(&bench.ok(words(&["status", "--json"], &second)));
    assert!(status["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2), "{status:?}");
    assert_eq!(status["leader"], a.number);
    assert_eq!(status["nodes"][0]["version"], env!("CARGO_PKG_VERSION"));
    let shown = bench.ok(words(&["status"], &first));
    assert!(shown.contains(&format!("node {} leads", a.number)), "{shown}");
    assert!(shown.contains(&second) && shown.lines().count() == 4, "{shown}");

    let to = b.number.to_string();
    assert_eq!(bench.ok(words(&["transfer", &to], &first)), format!("node {to} leads\n"));
    let said = bench.ok(words(&["verify"], &first));
    assert!(said.starts_with("2 nodes: the same 0 rows"), "{said}");

    // A majority is lost: the last node says so, and goes on alone.
    a.stop();
    // It believes a moment longer that it leads.
    let sentence = ends_with(&bench, words(&["status"], &second), 1).failed();
    assert!(sentence.contains("no node leads") && sentence.contains("recover"), "{sentence}");
    let (last, gone) = (b.number, status["leader"].to_string());
    b.stop();
    let said = bench.ok(["cluster", "recover", "b", "--alone"]);
    assert!(said.contains(&format!("node {last} is a cluster of one now")), "{said}");
    let b = Running::start(&bench.path("b"));
    let ran = ends_with(&bench, words(&["status", "--json"], &second), 0);
    let status = json(str::from_utf8(&ran.stdout).unwrap());
    assert_eq!(status["leader"], last);
    let sentence = bench.fails(words(&["remove", &gone], &second));
    assert!(sentence.contains(&format!("no node {gone}")), "{sentence}");
    b.stop();
}

#[test]
fn each_mistake_is_one_sentence() {
    let bench = Bench::new();
    let address = free_address();
    for (usage, says) in [
        (&["cluster", "init", "a", "--raft", "nonsense"][..], "HOST:PORT"),
        (&["cluster", "recover", "a"], "--alone"),
        (&["cluster", "status", "--via", &address], "--secret"),
    ] {
        let sentence = bench.refused(usage);
        assert!(sentence.contains(says), "{sentence}");
    }
    bench.ok(["cluster", "init", "a", "--raft", &address]);
    bench.write("other", "a secret of another cluster\n");
    bench.write("short", "short\n");
    let status = |secret: &'static str| {
        ["cluster", "status", "--via", &address, "--secret", secret].map(str::to_owned)
    };
    for (words, says) in [
        (status("short"), "holds no secret"),
        (status("missing"), "cannot be read"),
        (status("a/secret"), "cannot be reached"),
    ] {
        let sentence = bench.fails(words);
        assert!(sentence.contains(says), "{sentence}");
    }
    let a = Running::start(&bench.path("a"));
    let sentence = bench.fails(status("other"));
    assert!(sentence.contains("the secret is not that of the cluster"), "{sentence}");
    let sentence = bench.fails(words(&["join", "b", "--raft", &address], &address));
    assert!(sentence.contains("has the address") && !bench.path("b").exists(), "{sentence}");
    let sentence = bench.fails(["cluster", "recover", "a", "--alone"]);
    assert!(sentence.contains("open"), "{sentence}");
    a.stop();
}

#[test]
fn a_node_is_served_to_clients_and_ends_when_it_is_told_to() {
    let (bench, address) = (Bench::new(), free_address());
    bench.ok(["cluster", "init", "a", "--raft", &address]);
    let words = ["serve", "--cluster", "a", "--redis", "unix:socket", "--reads", "lease"];
    for (ask, told) in [("SET a 1", "+OK\r\n"), ("GET a", "$1\r\n1\r\n")] {
        let mut server = bench.command(words).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(server.stderr.take().unwrap());
        let mut said = String::new();
        // It may lead before it says where it serves.
        while !said.ends_with("redis at unix:socket, on a majority\n") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        // It leads soon.
        let answer = loop {
            let mut client = UnixStream::connect(bench.path("socket")).unwrap();
            client.write_all(format!("{ask}\r\n").as_bytes()).unwrap();
            let mut answer = vec![0; told.len()];
            if client.read_exact(&mut answer).is_ok() && answer[0] != b'-' {
                break answer;
            }
            assert!(Instant::now() < deadline, "it does not lead");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(answer, told.as_bytes());
        assert!(send(server, SIGTERM).success());
        // Nothing is wrong, and nothing else is said of what is done all the time.
        stderr.read_to_string(&mut said).unwrap();
        assert!(said.contains("this node leads") && !said.contains(" WARN "), "{said}");
    }
    for (words, sentence) in [
        (&["serve", "--redis", "1"][..], "required"),
        (&["serve", "p", "--cluster", "a", "--redis", "1"], "cannot be used with"),
        (&["serve", "--cluster", "a", "--redis", "1", "--durability", "process"], "--durability"),
        (&["serve", "p", "--redis", "1", "--trusted-network"], "cannot be used with"),
        (&["serve", "p", "--redis", "1", "--reads", "lease"], "cannot be used with"),
        (&["serve", "--cluster", "none", "--redis", "1"], "is no folder of a node"),
    ] {
        let refused = bench.run(words.to_vec());
        let said = &refused.stderr;
        assert!(refused.code != Some(0) && said.contains(sentence), "{words:?}: {said}");
    }
}
