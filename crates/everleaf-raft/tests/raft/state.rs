//! The state of a node on disks whose power fails.

use std::sync::Arc;

use everleaf_raft::{C, Entry, Group, LogId, Pools, Rows, State};
use futures_util::stream;
use openraft::EntryPayload;
use openraft::storage::{IOFlushed, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{RaftLogReader, StorageError};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::machine::{Chance, Machine, entry, log_id};

/// Rows of a group: more than a group of the pool's log holds in these tests.
const ROWS: u64 = 120;

/// The entry with this index: it sets all rows to its number.
fn group(index: u64) -> Entry {
    let mut rows = Rows::new();
    let value = format!("{index:0100}");
    for row in 0..ROWS {
        rows.push(format!("row {row}").as_bytes(), Some(value.as_bytes()));
    }
    let group = Group { reign: 1, number: index, clock_ms: index, rows };
    Entry { log_id: log_id(1, index), payload: EntryPayload::Normal(group) }
}

async fn apply(state: &mut State, entry: Entry) {
    let entries = stream::iter([Ok((entry, None))]);
    RaftStateMachine::<C>::apply(state, entries).await.unwrap();
}

/// Up to where the state of a machine is applied, if its rows are those of that entry.
fn found(machine: &Machine) -> Result<u64, String> {
    let pools = Pools::open_at(Arc::new(machine.clone())).map_err(|error| error.to_string())?;
    let (tree, applied) = (pools.state().tree(), pools.state().applied());
    let index = applied.log_id.map_or(0, |id| id.index);
    for row in 0..ROWS {
        let found = tree.get(format!("row {row}")).map_err(|error| error.to_string())?;
        let expected = (index > 0).then(|| format!("{index:0100}").into_bytes());
        if found != expected {
            return Err(format!("applied up to {index}, but row {row} is {found:?}"));
        }
    }
    Ok(index)
}

/// What a power failure leaves, looked at before each operation of a disk: rows of the entry that
/// it says, and none before what was promised.
struct Explored {
    machine: Machine,
    /// The least entry that must be there.
    promised: Arc<Mutex<u64>>,
    left: Arc<Mutex<Vec<(Machine, u64)>>>,
}

impl Explored {
    fn new() -> (Self, Pools) {
        let machine = Machine::default();
        let pools = Pools::create_at(Arc::new(machine.clone()), Uuid::new_v4(), 1).unwrap();
        let explored = Self { machine, promised: Arc::default(), left: Arc::default() };
        explored.watch("raft");
        explored.watch("state.1");
        (explored, pools)
    }

    fn watch(&self, name: &str) {
        let (machine, promised) = (self.machine.clone(), Arc::clone(&self.promised));
        let left = Arc::clone(&self.left);
        self.machine.watch(name, move || {
            left.lock().push((machine.after(|disk| disk.after_kill()), *promised.lock()));
        });
    }

    fn promise(&self, index: u64) {
        *self.promised.lock() = index;
    }

    /// How many states were judged.
    fn judge(&self, chance: &mut Chance) -> u64 {
        let now = (self.machine.after(|disk| disk.after_kill()), *self.promised.lock());
        let all = std::mem::take(&mut *self.left.lock()).into_iter().chain([now]);
        let mut judged = 0;
        for (machine, promised) in all {
            for way in 0..3 {
                let left = machine.after(|disk| match way {
                    0 => disk.after_power_failure(|_| 0),
                    1 => disk.after_power_failure(|ways| ways - 1),
                    _ => disk.after_power_failure(|ways| chance.below(ways)),
                });
                let index = found(&left).unwrap_or_else(|violation| panic!("{violation}"));
                assert!(index >= promised, "applied up to {index}, {promised} was promised");
                judged += 1;
            }
        }
        judged
    }
}

#[tokio::test]
async fn a_power_failure_leaves_the_state_of_one_entry_and_none_before_a_snapshot() {
    let (explored, pools) = Explored::new();
    let (mut state, mut chance, mut judged) = (pools.state(), Chance(7), 0);
    for index in 1..=12 {
        apply(&mut state, group(index)).await;
        if index % 4 == 0 {
            let built = RaftSnapshotBuilder::<C>::build_snapshot(&mut state).await.unwrap();
            explored.promise(built.meta.last_log_id.unwrap().index);
        }
        judged += explored.judge(&mut chance);
    }
    assert!(judged > 100, "{judged}");
}

#[tokio::test]
async fn a_snapshot_that_is_installed_is_the_state_from_then_on() {
    let (explored, pools) = Explored::new();
    let (_, other) = Explored::new();
    let (mut state, mut leader, mut chance) = (pools.state(), other.state(), Chance(8));
    apply(&mut state, group(1)).await;
    for number in 1..=3 {
        for index in number * 10 - 9..=number * 10 {
            apply(&mut leader, group(index)).await;
        }
        let built = RaftSnapshotBuilder::<C>::build_snapshot(&mut leader).await.unwrap();
        let (meta, snapshot) = (built.meta.clone(), built.snapshot);
        RaftStateMachine::<C>::install_snapshot(&mut state, &meta, snapshot).await.unwrap();
        explored.promise(number * 10);
        explored.judge(&mut chance);
        assert_eq!(state.applied().log_id, meta.last_log_id);
    }
    apply(&mut state, group(31)).await;
    assert_eq!(state.tree().get("row 5").unwrap().unwrap(), format!("{:0100}", 31).as_bytes());
}

#[tokio::test]
async fn a_group_that_does_not_follow_the_last_one_is_passed_over() {
    let (_, pools) = Explored::new();
    let mut state = pools.state();
    let of = |index, reign, number| {
        let mut rows = Rows::new();
        rows.push(b"last", Some(format!("{reign} {number}").as_bytes()));
        let group = Group { reign, number, clock_ms: 0, rows };
        Entry { log_id: log_id(1, index), payload: EntryPayload::Normal(group) }
    };
    let groups = [(1, 1), (1, 2), (1, 4), (2, 2), (3, 1), (1, 3), (2, 1), (3, 2)];
    let counts = ["1 1", "1 2", "1 2", "1 2", "3 1", "3 1", "3 1", "3 2"];
    for (index, ((reign, number), last)) in groups.into_iter().zip(counts).enumerate() {
        apply(&mut state, of(index as u64 + 1, reign, number)).await;
        let found = state.tree().get("last").unwrap().unwrap();
        assert_eq!(str::from_utf8(&found).unwrap(), last, "{reign} {number}");
    }
    assert_eq!(state.applied().passed_over, 4);
    assert_eq!(state.applied().log_id.unwrap().index, 8);
}

/// The state was synced by itself, and the log has lost its end: there an entry of an earlier
/// leader may stand again.
#[tokio::test]
async fn entries_that_contradict_the_state_are_removed() -> Result<(), StorageError<C>> {
    let (_, pools) = Explored::new();
    let mut log = pools.log().unwrap();
    log.append((0..8).map(|index| entry(1, index)), IOFlushed::noop()).await.unwrap();
    let applied: LogId = log_id(2, 5);
    apply(&mut pools.state(), Entry { log_id: applied, payload: EntryPayload::Blank }).await;
    drop(log);
    let mut log = pools.log().unwrap();
    let left = log.try_get_log_entries(0..u64::MAX).await.unwrap();
    assert!(left.iter().all(|entry| entry.log_id.index < 5), "{left:?}");
    let known = log.get_log_state().await.unwrap();
    assert!(known.last_log_id == Some(applied) || left.len() == 5, "{known:?}");
    assert_eq!(known.last_purged_log_id.or(known.last_log_id), Some(applied));
    Ok(())
}
