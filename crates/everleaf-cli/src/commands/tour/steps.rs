//! The steps between making the pool and removing it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

use everleaf::{Scan, Shutdown, Store};

use super::{Guide, WORDS, timed, writer};
use crate::failure::{Failure, Outcome};
use crate::size::{display_count, display_counted};

/// Acknowledged inserts after which the writer is killed; fewer where each waits for a disk.
const KILL_AFTER: u64 = 20_000;
const KILL_AFTER_SYNCS: u64 = 500;
/// Words of a batch, where each write would wait for a disk.
const BATCH: usize = 1000;

/// The words with their numbers from 1, as `load` would count them.
fn words() -> impl Iterator<Item = (&'static str, String)> {
    WORDS.lines().zip(1u64..).map(|(word, number)| (word, number.to_string()))
}

/// Whether a write waits for the sync of a log.
pub fn waits_for_a_disk(store: &Store) -> Result<bool, Failure> {
    Ok(store.statistics()?.log)
}

pub fn load(guide: &mut Guide, store: &Store) -> Outcome {
    let by_batches = waits_for_a_disk(store)?;
    let (loaded, took) = timed(|| -> Result<u64, Failure> {
        let words: Vec<_> = words().collect();
        if by_batches {
            for batch in words.chunks(BATCH) {
                store.put_many(batch.iter().map(|(word, number)| (*word, number.as_bytes())))?;
            }
        } else {
            for (word, number) in &words {
                store.put(*word, number.as_bytes())?;
            }
        }
        Ok(words.len() as u64)
    });
    let count = loaded?;
    let rate = display_count((count as f64 / took.as_secs_f64()) as u64);
    let words = display_count(count);
    let each = if by_batches { "each batch of a thousand" } else { "each" };
    guide.step(
        &format!(
            "Loaded {words} English words, each with its number, {each} durable before the next: \
            {rate} per second"
        ),
        took,
    )
}

pub fn read(guide: &mut Guide, store: &Store) -> Outcome {
    let asked = words().nth(words().count() / 2).map_or("a", |(word, _)| word);
    let (value, took) = timed(|| store.get(asked));
    let value = value?
        .ok_or_else(|| Failure::failed(format!("the word {asked} was loaded and is not there")))?;
    guide.step(
        &format!("Read one word: {asked} is number {}", String::from_utf8_lossy(&value)),
        took,
    )?;
    let wanted = [
        ("the first words that begin with `leaf`", Scan::all().with_prefix("leaf")),
        (
            "the first words from `persist` up to `pest`",
            Scan::all().starting_at("persist").ending_before("pest"),
        ),
        ("the last words, backwards", Scan::all().backward()),
    ];
    for (what, scan) in wanted {
        let (entries, took) = timed(|| store.scan(scan).take(5).collect::<Result<Vec<_>, _>>());
        let names: Vec<String> = entries?
            .iter()
            .map(|(key, _)| match key.as_ref() {
                everleaf::Key::Bytes(key) => String::from_utf8_lossy(key).into_owned(),
                everleaf::Key::U64(key) => key.to_string(),
            })
            .collect();
        guide.step(&format!("Read {what}: {}", names.join(", ")), took)?;
    }
    Ok(())
}

/// Starts a process that inserts, kills it in the middle, and says which insert it acknowledged
/// last.
pub fn kill_a_writer(guide: &mut Guide, pool: &Path, on_a_disk: bool) -> Result<u64, Failure> {
    let enough = if on_a_disk { KILL_AFTER_SYNCS } else { KILL_AFTER };
    let broken =
        |error: std::io::Error| Failure::failed(format!("a second process cannot be run: {error}"));
    let program = std::env::current_exe().map_err(broken)?;
    let (killed, took) = timed(|| -> Result<(u64, bool), Failure> {
        let mut child = Command::new(program)
            .arg(writer::NAME)
            .arg("--")
            .arg(pool)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(broken)?;
        let acknowledgements = child.stdout.take();
        let mut acknowledged = 0;
        let heard = acknowledgements.map_or(Ok(()), |output| {
            let mut output = BufReader::new(output);
            listen(&mut output, &mut acknowledged, enough)?;
            // SIGKILL: the writer gets no chance to tidy up. What it had acknowledged is still in
            // the pipe, and counts.
            child.kill()?;
            listen(&mut output, &mut acknowledged, u64::MAX)
        });
        let status = child.wait().map_err(broken)?;
        heard.map_err(broken)?;
        Ok((acknowledged, status.code().is_none()))
    });
    let (acknowledged, by_signal) = killed?;
    if !by_signal || acknowledged < enough {
        return Err(Failure::failed("the writing process ended before it was killed"));
    }
    let count = display_count(acknowledged);
    guide.step(
        &format!(
            "Started a second process that inserts, and killed it (SIGKILL) in the middle; it \
            had acknowledged {count}"
        ),
        took,
    )?;
    Ok(acknowledged)
}

/// Reads acknowledgements until one reaches `enough`, or the writer is gone.
fn listen(
    output: &mut BufReader<ChildStdout>,
    acknowledged: &mut u64,
    enough: u64,
) -> std::io::Result<()> {
    let mut line = String::new();
    while *acknowledged < enough {
        line.clear();
        if output.by_ref().take(64).read_line(&mut line)? == 0 {
            break;
        }
        if let Some(number) = line.strip_suffix('\n').and_then(|number| number.parse().ok()) {
            *acknowledged = number;
        }
    }
    Ok(())
}

/// Opens what the killed process left, and compares it with what was acknowledged.
pub fn reopen_and_verify(guide: &mut Guide, pool: &Path, acknowledged: u64) -> Outcome {
    let (store, took) = timed(|| Store::open(pool));
    let store = store?;
    let statistics = store.statistics()?;
    let left = match statistics.shutdown {
        Shutdown::Crash => "the pool was left by a crash, and recovered",
        Shutdown::Clean => "the pool was closed",
    };
    guide.step(
        &format!("Opened the pool again: {left}, with {}", display_counted(store.len()?, "key")),
        took,
    )?;
    let (beyond, took) = timed(|| verify(&store, acknowledged));
    let beyond = match beyond? {
        0 => "and nothing else is",
        _ => "and the one that the kill cut off, whole, is there too",
    };
    let (words, inserts) = (display_count(words().count() as u64), display_count(acknowledged));
    guide.step(
        &format!(
            "Verified that all {words} words and all {inserts} acknowledged inserts \
        are there, {beyond}"
        ),
        took,
    )?;
    let (outcome, took) = timed(|| store.check());
    let outcome = outcome?;
    if !outcome.ok {
        let first = outcome.violations.first().map_or("blocks have leaked", String::as_str);
        return Err(Failure::failed(format!("the check after the kill found damage: {first}")));
    }
    guide.step(
        "Checked every invariant of the tree and every block of the pool: all is well",
        took,
    )?;
    Ok(store.close()?)
}

/// How many inserts are there beyond the acknowledged ones: 0, or 1.
fn verify(store: &Store, acknowledged: u64) -> Result<u64, Failure> {
    let mut words_found = 0;
    for (word, number) in words() {
        if store.get(word)?.as_deref() != Some(number.as_bytes()) {
            return Err(Failure::failed(format!("the word {word} was acknowledged and is lost")));
        }
        words_found += 1;
    }
    let mut beyond = 0;
    for number in 1..=acknowledged + 1 {
        match store.get(writer::key(number))? {
            Some(value) if value == number.to_string().as_bytes() => {
                beyond = number.saturating_sub(acknowledged)
            }
            Some(_) => {
                return Err(Failure::failed(format!(
                    "insert {number} is there with another value"
                )));
            }
            None if number <= acknowledged => {
                return Err(Failure::failed(format!(
                    "insert {number} was acknowledged and is lost"
                )));
            }
            None => {}
        }
    }
    // The insert that the kill cut is the only thing that may be there beside.
    if store.len()? != words_found + acknowledged + beyond {
        return Err(Failure::failed(format!(
            "the pool has {} keys, which is not what was put there",
            store.len()?
        )));
    }
    Ok(beyond)
}
