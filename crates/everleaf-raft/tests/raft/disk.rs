//! The log of a node on a disk whose power fails before each of its operations.
//!
//! A program saves votes, appends, truncates, purges. What it has done are *moments*, one behind
//! the other; a truncation has one for each entry that it takes away. What a power failure leaves
//! must be the log of one moment: of none before the last that was told to be durable, and of none
//! that had not begun.

use std::sync::Arc;

use everleaf_log::SimulatedDisk;
use everleaf_raft::{C, Log, LogId, Vote};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{EntryPayload, RaftLogReader};
use parking_lot::Mutex;

use crate::machine::{Chance, create, entry, log_id, open};

/// The log at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
struct Moment {
    vote: Option<Vote>,
    purged: Option<LogId>,
    entries: Vec<LogId>,
}

impl Moment {
    fn last(&self) -> Option<LogId> {
        self.entries.last().copied().or(self.purged)
    }

    fn next_index(&self) -> u64 {
        self.last().map_or(0, |last| last.index + 1)
    }
}

/// What must be there.
#[derive(Clone, Debug)]
struct Promise {
    moments: Vec<Moment>,
    /// None before this one.
    least: usize,
}

impl Promise {
    fn now(&self) -> &Moment {
        self.moments.last().unwrap()
    }

    /// The moment that begins.
    fn begin(&mut self, change: impl FnOnce(&mut Moment)) -> usize {
        let mut next = self.now().clone();
        change(&mut next);
        self.moments.push(next);
        self.moments.len() - 1
    }

    fn judge(&self, found: &Moment) -> Result<(), String> {
        if self.moments[self.least..].contains(found) {
            return Ok(());
        }
        let state = &self.moments[self.least..];
        Err(format!("{found:?} is none of the moments from {} on: {state:?}", self.least))
    }
}

type Shared = Arc<Mutex<Promise>>;

/// Waits for the disk, and runs a callback; whether it was told of success.
type Call = Box<dyn FnOnce() -> bool + Send>;

/// A log whose callbacks are run by the program.
struct Program {
    log: Log<C>,
    promise: Shared,
    /// Appends whose callbacks have not run: the moment of each.
    waiting: Arc<Mutex<Vec<Call>>>,
    appended: Vec<usize>,
    term: u64,
}

impl Program {
    fn on(store: everleaf::Store, promise: Shared) -> Result<Self, String> {
        let waiting = Arc::new(Mutex::new(Vec::<Call>::new()));
        let to_wait = Arc::clone(&waiting);
        let sync = move |unsynced: everleaf::Unsynced, callback: IOFlushed<C>| {
            to_wait.lock().push(Box::new(move || {
                let synced = unsynced.wait().map_err(std::io::Error::other);
                let is_synced = synced.is_ok();
                callback.io_completed(synced);
                is_synced
            }));
        };
        let log = Log::open_with(store, Box::new(sync)).map_err(|error| error.to_string())?;
        Ok(Self { log, promise, waiting, appended: Vec::new(), term: 1 })
    }

    /// One operation; false: the disk does nothing any more.
    async fn step(&mut self, chance: &mut Chance) -> bool {
        let now = self.promise.lock().now().clone();
        let first = now.purged.map_or(0, |purged| purged.index + 1);
        let done = match chance.below(8) {
            0 => {
                self.term += 1;
                let vote = Vote::new(self.term, 1);
                let moment = self.promise.lock().begin(|next| next.vote = Some(vote));
                let saved = self.log.save_vote(&vote).await;
                if saved.is_ok() {
                    self.promise.lock().least = moment;
                }
                saved
            }
            1 if !now.entries.is_empty() => {
                let keep = chance.below(now.entries.len());
                for _ in keep..now.entries.len() {
                    self.promise.lock().begin(|next| next.entries.truncate(next.entries.len() - 1));
                }
                let last = now.entries[..keep].last().copied().or(now.purged);
                self.term += 1;
                self.log.truncate_after(last).await
            }
            2 if !now.entries.is_empty() => {
                let purged = now.entries[chance.below(now.entries.len())];
                self.promise.lock().begin(|next| {
                    next.purged = Some(purged);
                    next.entries.drain(..=(purged.index - first) as usize);
                });
                self.log.purge(purged).await
            }
            3 => self.log.save_committed(now.last()).await,
            4 => return self.call_back(),
            _ => {
                let from = now.next_index();
                // Now and then more than a truncation takes away at a time.
                let most = if chance.below(10) == 0 { 150 } else { 4 };
                let indexes = from..from + 1 + chance.below(most) as u64;
                let ids = indexes.clone().map(|index| log_id(self.term, index));
                let moment = self.promise.lock().begin(|next| next.entries.extend(ids));
                let term = self.term;
                let entries = indexes.map(move |index| entry(term, index));
                let appended = self.log.append(entries, IOFlushed::noop()).await;
                self.appended.push(moment);
                appended
            }
        };
        done.is_ok()
    }

    /// Runs the callbacks that wait, the oldest first.
    fn call_back(&mut self) -> bool {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for (call, moment) in waiting.into_iter().zip(self.appended.drain(..)) {
            if !call() {
                return false;
            }
            let mut promise = self.promise.lock();
            promise.least = promise.least.max(moment);
        }
        true
    }
}

/// The log that is on a disk, and that its entries are whole.
async fn found(disk: &SimulatedDisk) -> Result<(everleaf::Store, Moment), String> {
    let store = open(disk)?;
    let mut log = Log::<C>::open(store.clone()).map_err(|error| error.to_string())?;
    let failed = |error: std::io::Error| error.to_string();
    let purged = log.get_log_state().await.map_err(failed)?.last_purged_log_id;
    let entries = log.try_get_log_entries(0..u64::MAX).await.map_err(failed)?;
    for found in &entries {
        let expected = entry(found.log_id.leader_id.term, found.log_id.index);
        if found.payload != expected.payload {
            return Err(format!("entry {} has other rows", found.log_id));
        }
        assert!(matches!(found.payload, EntryPayload::Normal(_)));
    }
    let entries = entries.into_iter().map(|entry| entry.log_id).collect();
    let vote = log.read_vote().await.map_err(failed)?;
    Ok((store, Moment { vote, purged, entries }))
}

#[derive(Debug, Default)]
struct Seen {
    cuts: u64,
    states: u64,
}

/// A program, looked at before each operation of its disk; what is left of some goes on.
async fn explore(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let mut chance = Chance(seed);
    let disk = SimulatedDisk::new();
    let store = create(&disk);
    let start = Promise { moments: vec![Moment::default()], least: 0 };
    let promise = Arc::new(Mutex::new(start));
    let snapshots = Arc::new(Mutex::new(Vec::new()));
    let mut program = Program::on(store, Arc::clone(&promise))?;
    let (taken, promised) = (Arc::clone(&snapshots), Arc::clone(&promise));
    disk.watch(move |disk| taken.lock().push((disk.after_kill(), promised.lock().clone())));
    for step in 0..30 {
        program.step(&mut chance).await;
        let taken = std::mem::take(&mut *snapshots.lock());
        for (cut, (disk, promise)) in taken.into_iter().enumerate() {
            let at = |error: String| format!("seed {seed}, step {step}, cut {cut}: {error}");
            judge(&disk, promise, &mut chance, seen).await.map_err(at)?;
        }
    }
    Ok(())
}

async fn judge(
    disk: &SimulatedDisk,
    promise: Promise,
    chance: &mut Chance,
    seen: &mut Seen,
) -> Result<(), String> {
    seen.cuts += 1;
    let mut left = vec![disk.after_kill(), disk.after_power_failure(|_| 0)];
    left.push(disk.after_power_failure(|ways| chance.below(ways)));
    for disk in left {
        seen.states += 1;
        let (store, moment) = found(&disk).await?;
        promise.judge(&moment)?;
        if chance.below(8) > 0 {
            continue;
        }
        // It goes on from there, and the power fails again.
        let promise = Promise { moments: vec![moment], least: 0 };
        let promise = Arc::new(Mutex::new(promise));
        let mut program = Program::on(store, Arc::clone(&promise))?;
        program.term = 1_000;
        disk.cut_before(disk.operations() + chance.below(20) as u64);
        for _ in 0..8 {
            if !program.step(chance).await {
                break;
            }
        }
        drop(program);
        let left = disk.after_power_failure(|ways| chance.below(ways));
        let promise = promise.lock().clone();
        promise.judge(&found(&left).await?.1).map_err(|error| format!("afterwards: {error}"))?;
        seen.states += 1;
    }
    Ok(())
}

fn explored(seeds: std::ops::Range<u64>) -> Seen {
    let mut seen = Seen::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for seed in seeds {
        let explored = runtime.block_on(explore(seed, &mut seen));
        explored.unwrap_or_else(|violation| panic!("{violation}"));
    }
    println!("{seen:?}");
    seen
}

#[test]
fn no_power_failure_takes_back_a_vote_or_an_entry_or_leaves_a_hole() {
    let seen = explored(0..40);
    assert!(seen.cuts > 500 && seen.states > 2000, "{seen:?}");
}

/// `cargo test -p everleaf-raft --release --test raft -- --ignored many_programs`
#[test]
#[ignore = "takes minutes"]
fn many_programs_lose_nothing() {
    explored(1_000..2_000);
}
