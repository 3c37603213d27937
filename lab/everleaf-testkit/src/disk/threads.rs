//! A program of three threads: two write keys of their own, and one reads all of them.
//!
//! A writer gives no key the same value twice. So what is found of its keys tells how far it was,
//! and so does what the reader is shown: from then on that must be there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use everleaf::{Clock, Store};
use everleaf_log::SimulatedDisk;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::case::{DiskCase, Opened};
use super::judge::{Judge, one_of};
use crate::draw::script_key;
use crate::model::{Content, model, show};
use crate::subject::{owned, sentence, value_of};
use crate::{Key, Operation, Target};

/// Keys of each writer.
const KEYS: u64 = 4;
/// A buffered program syncs after so many operations of a writer.
const SYNC: usize = 5;
/// How long an operation of the disk takes, so that others meet it.
const PAUSE: Duration = Duration::from_micros(200);

/// What one thread writes.
struct Writer {
    operations: Vec<Operation>,
    /// What its keys hold after each number of operations.
    contents: Vec<Content>,
    keys: BTreeSet<Key>,
    /// Operations that have begun, that have returned, and that must be there.
    begun: AtomicUsize,
    done: AtomicUsize,
    floor: AtomicUsize,
}

/// The disk at some moment; how many operations of each writer must be there, and how many may.
type Moment = (SimulatedDisk, [usize; 2], [usize; 2]);

impl Writer {
    fn new(case: &DiskCase, number: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(case.seed ^ (number + 1) << 32);
        let keys: Vec<Key> = (0..KEYS).map(|i| script_key(case.keys, 2 * i + number)).collect();
        let (mut contents, mut operations) = (vec![Content::new()], Vec::new());
        for i in 0..case.operations.div_ceil(2) as u64 {
            let mut put = |value: u64| {
                let kib = if i % 4 == 1 { rng.random_range(1..30) } else { 0 };
                Operation::Upsert(keys[rng.random_range(0..keys.len())].clone(), kib << 32 | value)
            };
            let operation = match i % 5 {
                2 => Operation::Batch(vec![put(2 * i), put(2 * i + 1)]),
                4 => Operation::Remove(keys[rng.random_range(0..keys.len())].clone()),
                _ => put(2 * i),
            };
            let mut content = contents[i as usize].clone();
            model(&mut content, &operation);
            contents.push(content);
            operations.push(operation);
        }
        let (begun, done, floor) = Default::default();
        Self { operations, contents, keys: keys.into_iter().collect(), begun, done, floor }
    }

    /// Those of these entries that are this writer's.
    fn part(&self, found: &Content) -> Content {
        let own = found.iter().filter(|(key, _)| self.keys.contains(key));
        own.map(|(key, value)| (key.clone(), *value)).collect()
    }

    fn run(&self, case: &DiskCase, store: &Store, writers: &[Self; 2]) -> Result<(), String> {
        for (number, operation) in (1..).zip(&self.operations) {
            self.begun.store(number, Ordering::SeqCst);
            let done = Target::apply(store, operation);
            done.map_err(|error| format!("{operation}: {error}"))?;
            self.done.store(number, Ordering::SeqCst);
            if !case.buffered {
                self.floor.fetch_max(number, Ordering::SeqCst);
            } else if number % SYNC == 0 {
                let done = writers.each_ref().map(|writer| writer.done.load(Ordering::SeqCst));
                store.sync().map_err(sentence)?;
                for (writer, done) in writers.iter().zip(done) {
                    writer.floor.fetch_max(done, Ordering::SeqCst);
                }
            }
        }
        Ok(())
    }

    /// A reader that began when `from` operations were known to be there was shown this: so many
    /// are there at least.
    fn shown(&self, from: usize, key: &Key, value: Option<u64>) -> Result<usize, String> {
        let begun = self.begun.load(Ordering::SeqCst);
        let shows = |number: &usize| self.contents[*number].get(key).copied() == value;
        (from..=begun).find(shows).ok_or_else(|| {
            format!("{key} was shown as {value:?}, which it was not after {from} to {begun} writes")
        })
    }
}

/// Reads keys, one or all of them, until there is nothing more to come.
fn read(
    case: &DiskCase,
    store: &Store,
    writers: &[Writer; 2],
    stop: &AtomicBool,
) -> Result<(), String> {
    for round in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let floors = writers.each_ref().map(|writer| writer.floor.load(Ordering::SeqCst));
        for (writer, from) in writers.iter().zip(floors) {
            let mut keys: Vec<&Key> = writer.keys.iter().collect();
            let values = match round % 3 {
                0 => {
                    keys = vec![keys[round / 3 % keys.len()]];
                    store.get(owned(keys[0])).map(|value| vec![value])
                }
                1 => store.get_many(keys.iter().map(|key| owned(key))),
                _ => store
                    .iter()
                    .collect::<Result<BTreeMap<_, _>, _>>()
                    .map(|mut shown| keys.iter().map(|key| shown.remove(&owned(key))).collect()),
            };
            for (key, value) in keys.into_iter().zip(values.map_err(sentence)?) {
                let value = value.map(|bytes| value_of(&bytes)).transpose()?;
                let number = writer.shown(from, key, value)?;
                if !case.buffered {
                    writer.floor.fetch_max(number, Ordering::SeqCst);
                }
            }
        }
    }
    Ok(())
}

/// Explores the program of a case.
pub(super) fn explore(case: &DiskCase, judge: &mut Judge<'_>) -> Result<(), String> {
    let disk = SimulatedDisk::new();
    let opened = case.create(&disk, &Clock::manual(0))?;
    let store = &opened.store;
    let writers = Arc::new([Writer::new(case, 0), Writer::new(case, 1)]);
    let moments: Arc<Mutex<Vec<Moment>>> = Arc::default();
    let (watching, seen) = (Arc::clone(&writers), Arc::clone(&moments));
    disk.watch(move |disk| {
        // In this order: what was acknowledged is there, and no more than has begun.
        let floors = watching.each_ref().map(|writer| writer.floor.load(Ordering::SeqCst));
        let left = disk.after_kill();
        let begun = watching.each_ref().map(|writer| writer.begun.load(Ordering::SeqCst));
        seen.lock().push((left, floors, begun));
        std::thread::sleep(PAUSE);
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(case, store, &writers, &stop));
        let running = writers.each_ref().map(|writer| {
            let writers = &writers;
            scope.spawn(move || writer.run(case, store, writers))
        });
        let ended = running.map(|thread| thread.join());
        stop.store(true, Ordering::SeqCst);
        ended
            .into_iter()
            .chain([reader.join()])
            .try_for_each(|ended| ended.unwrap_or_else(|_| Err("a thread has panicked".to_owned())))
    })?;
    judge.report.operations +=
        writers.iter().map(|writer| writer.operations.len() as u64).sum::<u64>();
    let (grown, checkpoints) = opened.has_done()?;
    judge.report.grown += u64::from(grown);
    judge.report.checkpoints += checkpoints - 1; // A new pool has one.
    let Opened { store, pool } = opened;
    store.close().map_err(|error| format!("it is not closed: {error}"))?;
    drop(pool);
    let moments = std::mem::take(&mut *moments.lock());
    for (cut, (disk, floors, begun)) in moments.iter().enumerate() {
        let promise = |found: &Content| promised(&writers, found, *floors, *begun);
        let judged = judge.judge(disk, &promise);
        judged.map_err(|error| format!("cut before operation {cut} of the disk: {error}"))?;
    }
    Ok(())
}

/// Whether the keys of each writer hold what some number of its operations has left.
fn promised(
    writers: &[Writer; 2],
    found: &Content,
    floors: [usize; 2],
    begun: [usize; 2],
) -> Result<(), String> {
    let mut left = found.clone();
    for (writer, (from, to)) in writers.iter().zip(floors.into_iter().zip(begun)) {
        let part = writer.part(found);
        one_of(&writer.contents[from..=to], &part)?;
        left.retain(|key, _| !part.contains_key(key));
    }
    if left.is_empty() { Ok(()) } else { Err(format!("{} was never written", show(&left))) }
}
