//! Judges a history that the clients of a cluster have written (tests/cluster). `cargo run
//! -p everleaf-testkit --example linearizable -- FILE`
//!
//! A line of it is a JSON object: `client`, `op` (put, get, or nothing), `key`, `value` (a number;
//! null: the key is not there), `from` and `to` in nanoseconds (null: no answer came). A client
//! makes no call after a put that was not answered.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::ExitCode;

use everleaf_testkit::linearizability::{Act, Call, check};
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    client: u64,
    op: String,
    key: String,
    #[serde(default)]
    value: Option<u64>,
    from: u64,
    to: Option<u64>,
}

impl Line {
    /// None: it says nothing.
    fn call(&self) -> Result<Option<Call>, String> {
        let act = match (self.op.as_str(), self.value, self.to) {
            ("put", Some(value), _) => Act::Put(value),
            ("get", value, Some(_)) => Act::Get(value),
            ("get", _, None) | ("nothing", ..) => return Ok(None),
            (op, ..) => return Err(format!("a line has op {op} without its value")),
        };
        Ok(Some(Call { invoked: self.from, returned: self.to.unwrap_or(u64::MAX), act }))
    }
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("write `linearizable FILE`");
        return ExitCode::from(2);
    };
    match judge(&path) {
        Ok(calls) => {
            println!("{calls} calls: linearizable");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{path}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// How many calls there are, or what is wrong.
fn judge(path: &str) -> Result<usize, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut clients: BTreeMap<(String, u64), Vec<Call>> = BTreeMap::new();
    let mut count = 0;
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|error| error.to_string())?;
        let line: Line = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        if let Some(call) = line.call()? {
            count += 1;
            clients.entry((line.key, line.client)).or_default().push(call);
        }
    }
    let mut history: BTreeMap<String, Vec<Vec<Call>>> = BTreeMap::new();
    for ((key, _), calls) in clients {
        history.entry(key).or_default().push(calls);
    }
    check(&history).map_err(|error| error.to_string())?;
    Ok(count)
}
