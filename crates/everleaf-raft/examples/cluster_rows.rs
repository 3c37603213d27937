//! A cluster of rows: serves the folder of a node, and is a client of a cluster.
//!
//! ```text
//! cluster_rows serve FOLDER [--listen ADDR] [--trusted-network]
//! cluster_rows put|get|scan|watch|metrics --via ADDR[,ADDR..] --secret FILE [WORD..]
//! ```
//! `put KEY VALUE`, `get KEY`, `scan [FROM]`, `watch [PREFIX]`. `everleaf cluster init` and `join`
//! make the folders. A get sees every put that was answered before. Exit codes: 0, 1 if something
//! failed or a key is not there, 2 of a wrong command line.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use everleaf_raft::{Client, Keys, Node, NodeOptions, Secret};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: cluster_rows serve FOLDER [--listen ADDR] [--trusted-network] | \
    put KEY VALUE | get KEY | scan [FROM] | watch [PREFIX] | metrics, \
    each of these with --via ADDR[,ADDR..] --secret FILE";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some("serve") => serve(&words[1..]).await,
        Some(_) => match client(&mut words) {
            Ok(client) => ask(client, &words).await,
            Err(sentence) => Err((2, sentence)),
        },
        None => Err((2, USAGE.to_owned())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, sentence)) => {
            eprintln!("cluster_rows: {sentence}");
            ExitCode::from(code)
        }
    }
}

type Done = Result<(), (u8, String)>;

fn failed(error: impl ToString) -> (u8, String) {
    (1, error.to_string())
}

async fn serve(words: &[String]) -> Done {
    let usage = || (2, USAGE.to_owned());
    let (folder, mut words) = words.split_first().ok_or_else(usage)?;
    let mut options = NodeOptions::default();
    while let Some((word, rest)) = words.split_first() {
        words = rest;
        match word.as_str() {
            "--trusted-network" => options.trusted_network = true,
            "--listen" => {
                let (address, rest) = words.split_first().ok_or_else(usage)?;
                (options.listen, words) = (Some(address.clone()), rest);
            }
            _ => return Err(usage()),
        }
    }
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate()).map_err(failed)?,
        signal(SignalKind::interrupt()).map_err(failed)?,
    );
    let node = Node::start(Path::new(folder), options).await.map_err(failed)?;
    println!("node {} at {}", node.number(), node.address());
    let ended = tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        why = node.stopped() => Err((1, why)),
    };
    node.stop().await;
    ended
}

/// Takes the options out of the words.
fn client(words: &mut Vec<String>) -> Result<Client, String> {
    let mut take = |name: &str| {
        let at = words.iter().position(|word| word == name).ok_or(USAGE)?;
        words.remove(at);
        if at < words.len() { Ok(words.remove(at)) } else { Err(USAGE) }
    };
    let (via, secret) = (take("--via")?, take("--secret")?);
    let keys = Keys { secret: Secret::read(Path::new(&secret))?, tls: None };
    Ok(Client::new(via.split(',').map(String::from).collect(), keys))
}

async fn ask(mut client: Client, words: &[String]) -> Done {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["put", key, value] => {
            client.put(vec![(key.into(), Some(value.into()))]).await.map_err(failed)
        }
        ["get", key] => match client.get(key).await.map_err(failed)? {
            Some(value) => show(&[&value]),
            None => Err((1, format!("no key {key}"))),
        },
        ["scan"] => scan(client, "").await,
        ["scan", from] => scan(client, from).await,
        ["watch"] => watch(client, "").await,
        ["watch", prefix] => watch(client, prefix).await,
        ["metrics"] => {
            let status = client.status().await.map_err(failed)?;
            show(&[status.by.prometheus().trim_end().as_bytes()])
        }
        _ => Err((2, USAGE.to_owned())),
    }
}

/// A line of fields.
fn show(fields: &[&[u8]]) -> Done {
    let line = [&fields.join(&b'\t')[..], b"\n"].concat();
    std::io::stdout().lock().write_all(&line).map_err(failed)
}

async fn scan(mut client: Client, from: &str) -> Done {
    let mut from = from.as_bytes().to_vec();
    loop {
        let rows = client.scan(from, 1000).await.map_err(failed)?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        from = [last, &b"\0"[..]].concat();
        for (key, value) in &rows {
            show(&[key, value.as_deref().unwrap_or_default()])?;
        }
    }
}

async fn watch(mut client: Client, prefix: &str) -> Done {
    let tell = |rows: Vec<(Vec<u8>, Option<Vec<u8>>)>| {
        rows.iter().all(|(key, value)| match value {
            Some(value) => show(&[b"put", key, value]).is_ok(),
            None => show(&[b"delete", key]).is_ok(),
        })
    };
    client.watch(prefix, tell).await.map_err(failed)
}
