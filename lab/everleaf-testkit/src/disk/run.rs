//! A program of one thread: cut before each operation of the disk, and run on disks that fail.
//!
//! The promise is a list of contents: the first is what was acknowledged last, the last one what
//! the store shows. An operation that is under way has put what it leaves behind them.

use std::sync::Arc;
use std::time::Duration;

use everleaf::{Clock, Contract};
use everleaf_log::{Log, SimulatedDisk};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::case::{DiskCase, Opened};
use super::judge::{Judge, drawn, one_of};
use crate::concurrent::specification;
use crate::model::Content;
use crate::subject::{expand, owned, sentence};
use crate::{Answer, Key, Level, Operation, Scenario, Target};

/// A value that expires: its number says when it was put.
const EXPIRES: u64 = 1 << 62;
/// How long such a value lives.
const LIFE: Duration = Duration::from_secs(60);
/// Of so many operations of the disk one fails, in a run of its own.
const FAILING: u64 = 9;

/// Why a program does not go on.
enum Stop {
    /// The store refuses.
    Refused(String),
    /// It says something wrong.
    Wrong(String),
}

/// A disk that fails.
#[derive(Clone, Copy)]
enum Failure {
    /// The power fails before this operation of the program's disks, and the process goes on.
    Power(u64),
    /// A sync fails after so many others.
    Sync(u64),
}

struct Run<'c> {
    case: &'c DiskCase,
    disk: SimulatedDisk,
    opened: Option<Opened>,
    clock: Clock,
    promise: Vec<Content>,
    /// The disk before each of its operations since they were judged last.
    snapshots: Arc<Mutex<Vec<SimulatedDisk>>>,
    /// Whether they are taken.
    watches: bool,
    failure: Option<Failure>,
    /// Operations of the disks before this one.
    earlier: u64,
    /// Operations of this disk before the program began.
    first: u64,
    sessions: usize,
    checkpoints: u64,
    grown: bool,
    /// Values that expire so far.
    expiring: u64,
}

/// Explores the program of a case.
pub(super) fn explore(case: &DiskCase, judge: &mut Judge<'_>) -> Result<(), String> {
    let program = program(case);
    let operations = Run::begin(case, None)?.judged(&program, judge)?;
    for number in (0..operations).step_by(FAILING as usize) {
        let nth = number / FAILING;
        let failure =
            if nth.is_multiple_of(3) { Failure::Sync(nth / 3) } else { Failure::Power(number) };
        Run::begin(case, Some(failure))?.failing(&program, judge)?;
    }
    Ok(())
}

/// The operations: some values are large, so that the pool grows.
fn program(case: &DiskCase) -> Vec<Operation> {
    let drawn = Scenario::random_with_batches(case.keys, case.operations, case.seed).explore;
    let mut program = Vec::new();
    for (number, mut operation) in (0..).zip(drawn) {
        if let Operation::Insert(_, value) | Operation::Update(_, value) = &mut operation
            && number % 3 == 1
        {
            *value = (10 + number * 7 % 40) << 32 | *value & 3;
        }
        match operation {
            Operation::Reopen => program.extend([Operation::Close, Operation::Open]),
            operation => program.push(operation),
        }
    }
    program.push(Operation::Close);
    program
}

impl<'c> Run<'c> {
    /// A new pool.
    fn begin(case: &'c DiskCase, failure: Option<Failure>) -> Result<Self, String> {
        let (disk, clock) = (SimulatedDisk::new(), Clock::manual(0));
        let opened = case.create(&disk, &clock)?;
        let mut run = Self {
            case,
            first: disk.operations(),
            disk: disk.clone(),
            opened: Some(opened),
            clock,
            promise: vec![Content::new()],
            snapshots: Arc::default(),
            watches: failure.is_none(),
            failure,
            earlier: 0,
            sessions: 0,
            checkpoints: 0,
            grown: false,
            expiring: 0,
        };
        if let Some(Failure::Sync(successes)) = failure {
            disk.fail_sync_after(successes);
        }
        run.uses(disk);
        Ok(run)
    }

    /// Goes on with a disk.
    fn uses(&mut self, disk: SimulatedDisk) {
        match self.failure {
            Some(Failure::Power(number)) if number >= self.earlier => {
                disk.cut_before(self.first + number - self.earlier);
            }
            _ => {}
        }
        if self.watches {
            let snapshots = Arc::clone(&self.snapshots);
            disk.watch(move |disk| snapshots.lock().push(disk.after_kill()));
        }
        self.disk = disk;
    }

    /// Runs the program, and judges every moment of it. How many operations the disk has done.
    fn judged(mut self, program: &[Operation], judge: &mut Judge<'_>) -> Result<u64, String> {
        for (number, operation) in program.iter().enumerate() {
            let at = |error: String| format!("operation {number}, {operation}: {error}");
            let done = self.step(number, operation);
            let snapshots = std::mem::take(&mut *self.snapshots.lock());
            for (cut, snapshot) in snapshots.iter().enumerate() {
                let judged = judge.judge(snapshot, &|found| one_of(&self.promise, found));
                judged.map_err(|error| {
                    at(format!("cut before operation {cut} of the disk: {error}"))
                })?;
            }
            if let Err(Stop::Refused(error) | Stop::Wrong(error)) = done {
                return Err(at(error));
            }
            self.acknowledge(operation);
            judge.report.operations += 1;
        }
        judge.report.checkpoints += self.checkpoints;
        judge.report.grown += u64::from(self.grown);
        Ok(self.earlier + self.disk.operations() - self.first)
    }

    /// Runs the program until the disk fails. Nothing is acknowledged then; what can be read is
    /// there whatever the failure has left.
    fn failing(mut self, program: &[Operation], judge: &mut Judge<'_>) -> Result<(), String> {
        for (number, operation) in program.iter().enumerate() {
            let at = |error: String| {
                format!("a disk that fails, in operation {number}, {operation}: {error}")
            };
            match self.step(number, operation) {
                Ok(()) => self.acknowledge(operation),
                Err(Stop::Wrong(error)) => return Err(at(error)),
                Err(Stop::Refused(_)) => {
                    let shown = self.last_look().map_err(at)?;
                    judge.report.failures += 1;
                    let promise = |found: &Content| {
                        one_of(&self.promise, found)?;
                        match shown.iter().find(|(key, value)| found.get(key) != value.as_ref()) {
                            Some((key, _)) => Err(format!("{key} was shown otherwise")),
                            None => Ok(()),
                        }
                    };
                    return judge.judge(&self.disk, &promise).map_err(at);
                }
            }
        }
        Ok(())
    }

    /// What a store shows after a failure; it must take nothing any more.
    fn last_look(&mut self) -> Result<Vec<(Key, Option<u64>)>, String> {
        let mut shown = Vec::new();
        let Some(Opened { store, .. }) = &self.opened else { return Ok(shown) };
        let keys: Vec<Key> =
            self.promise.iter().flat_map(|content| content.keys().cloned()).collect();
        for key in keys {
            if let Ok(Answer::Value(value)) = store.answer(&Operation::Get(key.clone()))
                && !self.case.buffered
            {
                shown.push((key, value));
            }
        }
        let more = Operation::Upsert(self.case.other_key(), 1);
        let taken = store.answer(&more).is_ok() || store.sync().is_ok();
        if taken { Err("it takes writes after a failure".to_owned()) } else { Ok(shown) }
    }

    /// What an operation promises when it has returned.
    fn acknowledge(&mut self, operation: &Operation) {
        let syncs = matches!(operation, Operation::Sync | Operation::Close | Operation::Crash);
        if !self.case.buffered || syncs {
            self.promise.drain(..self.promise.len() - 1);
        }
    }

    /// What the store shows.
    fn shown(&self) -> &Content {
        &self.promise[self.promise.len() - 1]
    }

    fn opened(&self) -> Result<&Opened, Stop> {
        self.opened.as_ref().ok_or_else(|| Stop::Wrong("the pool is not open".to_owned()))
    }

    /// One operation; what it may leave is promised before it begins.
    fn step(&mut self, number: usize, operation: &Operation) -> Result<(), Stop> {
        match operation {
            Operation::Open => self.open(),
            Operation::Close => self.close(),
            Operation::Crash => self.crash(number),
            Operation::Epoch => self.end_epoch(),
            Operation::Scan => self.sweep(),
            Operation::Upsert(key, value) => self.put_for_a_while(key, *value),
            // The value would be another one: that does not expire.
            Operation::Move(from, _) if self.expires(from) => {
                self.answer(&Operation::Get(from.clone()))
            }
            operation => self.answer(operation),
        }
    }

    fn expires(&self, key: &Key) -> bool {
        self.shown().get(key).is_some_and(|value| value & EXPIRES != 0 && *value < u64::MAX)
    }

    /// The caller is told what it would be told of the content.
    fn answer(&mut self, operation: &Operation) -> Result<(), Stop> {
        let mut content = self.shown().clone();
        let expected = specification(Level::Store, &mut content, operation);
        self.promise.push(content);
        let told = self.opened()?.store.answer(operation).map_err(Stop::Refused)?;
        if told == expected {
            return Ok(());
        }
        Err(Stop::Wrong(format!("{told:?} was told and {expected:?} is right")))
    }

    /// Puts a value that expires.
    fn put_for_a_while(&mut self, key: &Key, value: u64) -> Result<(), Stop> {
        self.expiring += 1;
        self.clock.advance(Duration::from_millis(1));
        let value = EXPIRES | self.expiring << 2 | value & 3;
        let mut content = self.shown().clone();
        content.insert(key.clone(), value);
        self.promise.push(content);
        let put = self.opened()?.store.put_for(owned(key), expand(value), LIFE);
        put.map(drop).map_err(|error| Stop::Refused(sentence(error)))
    }

    /// Everything is shown; then what expires has expired, and is removed in the order in which it
    /// was put.
    fn sweep(&mut self) -> Result<(), Stop> {
        let found = Target::content(&self.opened()?.store).map_err(Stop::Refused)?;
        one_of(std::slice::from_ref(self.shown()), &found).map_err(Stop::Wrong)?;
        let mut content = found;
        let mut expired: Vec<(u64, Key)> = content
            .iter()
            .filter(|(key, _)| self.expires(key))
            .map(|(key, value)| (*value, key.clone()))
            .collect();
        expired.sort_unstable();
        for (_, key) in &expired {
            content.remove(key);
            self.promise.push(content.clone());
        }
        self.clock.advance(2 * LIFE);
        let swept = self.opened()?.store.remove_expired();
        let removed = swept.map_err(|error| Stop::Refused(sentence(error)))?.removed;
        if removed == expired.len() as u64 {
            return Ok(());
        }
        Err(Stop::Wrong(format!("{removed} values have expired and not {}", expired.len())))
    }

    /// A checkpoint of the log; an engine of epochs ends one, which nothing commits.
    fn end_epoch(&mut self) -> Result<(), Stop> {
        let Opened { store, pool } = self.opened()?;
        match self.case.engine.contract() {
            Contract::Buffered => Target::check(store).map_err(Stop::Refused),
            _ => Log::of(pool.media())
                .unwrap()
                .checkpoint()
                .map_err(|error| Stop::Refused(sentence(error))),
        }
    }

    fn open(&mut self) -> Result<(), Stop> {
        self.sessions += 1;
        let opened = self.case.open(&self.disk, &self.clock, self.sessions);
        self.opened = Some(opened.map_err(Stop::Refused)?);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Stop> {
        let Some(Opened { store, pool }) = self.leave()? else { return Ok(()) };
        store.close().map_err(|error| Stop::Refused(sentence(error)))?;
        drop(pool);
        Ok(())
    }

    /// What is closed or dropped next is counted.
    fn leave(&mut self) -> Result<Option<Opened>, Stop> {
        if let Some(opened) = &self.opened {
            let (grown, checkpoints) = opened.has_done().map_err(Stop::Refused)?;
            self.checkpoints += checkpoints - u64::from(self.sessions == 0); // A new pool has one.
            self.grown |= grown;
        }
        Ok(self.opened.take())
    }

    /// The process is killed, or the power fails; the next one opens what is left.
    fn crash(&mut self, number: usize) -> Result<(), Stop> {
        let mut rng = StdRng::seed_from_u64(self.case.seed ^ (number as u64) << 32);
        let left = match number.is_multiple_of(2) {
            true => self.disk.after_kill(),
            false => drawn(&self.disk, &mut rng),
        };
        let opened = self.leave()?;
        self.earlier += self.disk.operations() - self.first;
        self.disk.cut_before(self.disk.operations()); // What is dropped closes its pool.
        drop(opened);
        self.first = 0;
        self.uses(left);
        self.open()?;
        let found = Target::content(&self.opened()?.store).map_err(Stop::Refused)?;
        one_of(&self.promise, &found).map_err(Stop::Wrong)?;
        self.promise.push(found);
        Ok(())
    }
}
