//! What a killed child owes, and what of it is there.
//!
//! A strict engine owes every operation that has returned; a buffered one those that had returned
//! when a `sync` began that has returned since. What a thread did after that may be there up to
//! some point and no further: for a strict engine this is at most the operation that was running.
//! The threads' points must make a *consistent cut*: where an operation is there, so is everything
//! that had returned before it began.

use std::collections::{BTreeMap, BTreeSet};

use everleaf::{Contract, KeyType, OwnedKey};

use super::operations::{KEYS_PER_THREAD, Life, Operation, OperationsOfThread, key};
use super::{Course, TortureReport};

/// What a child tells its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// An operation of a thread has returned.
    Returned,
    /// A thread calls `sync`.
    SyncBegins,
    /// It has returned.
    Synced,
}

impl Note {
    const ALL: [Self; 3] = [Self::Returned, Self::SyncBegins, Self::Synced];

    /// On the pipe: what it is, and the thread.
    pub fn bytes(self, thread: u8) -> [u8; 2] {
        [self as u8, thread]
    }

    fn read(bytes: [u8; 2]) -> Option<(Self, u8)> {
        Some((*Self::ALL.get(usize::from(bytes[0]))?, bytes[1]))
    }
}

/// What a child has told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Acknowledged {
    /// The thread of each operation that has returned, in this order.
    pub returned: Vec<u8>,
    /// By thread: so many of its operations must be there.
    pub floors: Vec<u64>,
    /// Calls of `sync` that have returned.
    pub syncs: u64,
}

impl Acknowledged {
    /// Reads what a child of so many threads has told; none if it is none of what a child tells.
    pub fn read(notes: &[u8], threads: u8, contract: Contract) -> Option<Self> {
        let none = vec![0; usize::from(threads)];
        let (mut counts, mut begun) = (none.clone(), vec![none.clone(); none.len()]);
        let mut told = Self { returned: Vec::new(), floors: none, syncs: 0 };
        for note in notes.chunks_exact(2) {
            let (note, thread) = Note::read([note[0], note[1]])?;
            let at = usize::from(thread);
            match note {
                Note::Returned => {
                    *counts.get_mut(at)? += 1;
                    told.returned.push(thread);
                }
                Note::SyncBegins => begun.get_mut(at)?.clone_from(&counts),
                Note::Synced => {
                    told.syncs += 1;
                    let covered = told.floors.iter_mut().zip(begun.get(at)?);
                    covered.for_each(|(floor, count)| *floor = (*floor).max(*count));
                }
            }
        }
        if contract == Contract::Strict {
            told.floors = counts;
        }
        Some(told)
    }

    /// By thread: how many operations had returned before its operation `number`, counted from 1,
    /// began: when its operation before that one had returned.
    fn before(&self, thread: usize, number: u64) -> Vec<u64> {
        let mut counts = vec![0; self.floors.len()];
        for by in &self.returned {
            if counts[thread] + 1 >= number {
                break;
            }
            counts[usize::from(*by)] += 1;
        }
        counts
    }

    /// The consistent cut with the fewest operations, where `fits` has for each thread, ascending,
    /// the numbers of its operations that agree with what was found; none if there is none.
    fn consistent_cut(&self, fits: &[Vec<u64>]) -> Option<Vec<u64>> {
        let least = |fits: &Vec<u64>, bound: u64| fits.iter().copied().find(|n| *n >= bound);
        let mut cut: Vec<u64> = fits.iter().map(|fits| least(fits, 0)).collect::<Option<_>>()?;
        loop {
            let mut needed = cut.clone();
            for (thread, number) in cut.iter().enumerate().filter(|(_, number)| **number > 0) {
                let before = self.before(thread, *number);
                needed.iter_mut().zip(before).for_each(|(needed, n)| *needed = n.max(*needed));
            }
            let next = fits.iter().zip(&needed).map(|(fits, bound)| least(fits, *bound));
            let next: Vec<u64> = next.collect::<Option<_>>()?;
            if next == cut {
                return Some(cut);
            }
            cut = next;
        }
    }
}

/// What one thread's keys should hold.
pub(super) type State = BTreeMap<u64, Vec<u8>>;

fn apply(state: &mut State, operation: &Operation) {
    for (number, value) in operation.changes() {
        match value {
            Some(value) if value.life != Life::Short => {
                drop(state.insert(*number, value.bytes.clone()))
            }
            _ => drop(state.remove(number)),
        }
    }
}

/// What a store held after a kill.
pub(super) struct Found {
    pub key_type: KeyType,
    /// Of the default tree, and of the other one.
    pub entries: BTreeMap<(bool, OwnedKey), Vec<u8>>,
}

impl Found {
    fn differs(&self, state: &State, number: u64) -> bool {
        self.entries.get(&key(self.key_type, number)) != state.get(&number)
    }
}

/// One thread after a kill.
struct Thread {
    /// What its keys hold after its first operations, as many as must be there at least.
    state: State,
    floor: u64,
    /// What it did after that: what may be there, up to some point.
    pending: Vec<Operation>,
}

impl Thread {
    /// The numbers of its operations after which its keys hold what was found; and the one after
    /// which the fewest keys hold something else.
    fn fits(&self, found: &Found, numbers: impl Iterator<Item = u64>) -> (Vec<u64>, u64) {
        let mut state = self.state.clone();
        let mut wrong: BTreeSet<u64> = numbers.filter(|n| found.differs(&state, *n)).collect();
        let (mut fits, mut closest, mut fewest) = (Vec::new(), self.floor, wrong.len());
        fits.extend(wrong.is_empty().then_some(self.floor));
        for (number, operation) in (self.floor + 1..).zip(&self.pending) {
            apply(&mut state, operation);
            for (key, _) in operation.changes() {
                if found.differs(&state, *key) {
                    wrong.insert(*key)
                } else {
                    wrong.remove(key)
                };
            }
            fits.extend(wrong.is_empty().then_some(number));
            if wrong.len() < fewest {
                (closest, fewest) = (number, wrong.len());
            }
        }
        (fits, closest)
    }

    /// What its keys hold after so many operations.
    fn after(mut self, number: u64) -> State {
        let done = (number - self.floor) as usize;
        self.pending[..done].iter().for_each(|operation| apply(&mut self.state, operation));
        self.state
    }
}

/// Brings the states, one for each thread, to what was found, as far as that is explained by what
/// was acknowledged, and counts what is not.
pub(super) fn judge(
    states: &mut [State],
    acknowledged: &Acknowledged,
    course: Course,
    found: &Found,
    report: &mut TortureReport,
) {
    let threads: Vec<Thread> = states
        .iter_mut()
        .enumerate()
        .map(|(number, state)| {
            replayed(std::mem::take(state), number, acknowledged, course, report)
        })
        .collect();
    let keys = |thread: usize| {
        (0..KEYS_PER_THREAD).map(move |i| i * u64::from(course.threads) + thread as u64)
    };
    let fits = threads.iter().enumerate().map(|(number, thread)| thread.fits(found, keys(number)));
    let (fits, closest): (Vec<Vec<u64>>, Vec<u64>) = fits.unzip();
    let cut = acknowledged.consistent_cut(&fits);
    // Each thread by itself may be right where the cut is not: then something was lost before
    // something that is there.
    report.lost += u64::from(cut.is_none() && fits.iter().all(|fits| !fits.is_empty()));
    let points = cut.unwrap_or(closest);
    for ((state, thread), point) in states.iter_mut().zip(threads).zip(points) {
        *state = thread.after(point);
    }
    count_what_differs(states, found, report);
}

/// A thread whose state is brought to what must be there.
fn replayed(
    mut state: State,
    number: usize,
    acknowledged: &Acknowledged,
    course: Course,
    report: &mut TortureReport,
) -> Thread {
    let mut operations = OperationsOfThread::new(course, number as u8);
    let floor = acknowledged.floors[number];
    let returned =
        acknowledged.returned.iter().filter(|thread| usize::from(**thread) == number).count();
    let is_batch = |operation: &Operation| matches!(operation, Operation::Batch(_));
    let is_transaction = |operation: &Operation| matches!(operation, Operation::Transaction(_));
    for _ in 0..floor {
        let operation = operations.next();
        report.batches += u64::from(is_batch(&operation));
        report.transactions += u64::from(is_transaction(&operation));
        apply(&mut state, &operation);
    }
    // One more than has returned: it may have been running.
    let pending: Vec<Operation> = (floor..=returned as u64).map(|_| operations.next()).collect();
    let (last, before) = pending.split_last().map_or((None, &[][..]), |(l, b)| (Some(l), b));
    report.batches += before.iter().filter(|operation| is_batch(operation)).count() as u64;
    report.transactions += before.iter().filter(|of| is_transaction(of)).count() as u64;
    let cut = last.is_some_and(|last| is_batch(last) || is_transaction(last));
    report.cut_batches += u64::from(cut);
    Thread { state, floor, pending }
}

fn count_what_differs(states: &[State], found: &Found, report: &mut TortureReport) {
    let mut expected: BTreeMap<(bool, OwnedKey), &Vec<u8>> = states
        .iter()
        .flatten()
        .map(|(number, value)| (key(found.key_type, *number), value))
        .collect();
    for (key, value) in &found.entries {
        match expected.remove(key) {
            Some(wanted) if wanted == value => {}
            Some(_) => report.lost += 1,
            None => report.phantom += 1,
        }
    }
    report.lost += expected.len() as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    const COURSE: Course = Course { threads: 2, batches: 20, transactions: 10, seed: 5 };

    fn notes(notes: &[(Note, u8)]) -> Vec<u8> {
        notes.iter().flat_map(|(note, thread)| note.bytes(*thread)).collect()
    }

    /// Both threads do ten operations in turn; the first one syncs after its fourth.
    fn told(contract: Contract) -> Acknowledged {
        let mut all = Vec::new();
        for i in 0..10 {
            all.extend([(Note::Returned, 0), (Note::Returned, 1)]);
            if i == 3 {
                all.push((Note::SyncBegins, 0));
            }
            if i == 5 {
                all.push((Note::Synced, 0));
            }
        }
        Acknowledged::read(&notes(&all), 2, contract).unwrap()
    }

    /// What a store holds with so many operations of each thread.
    fn holding(points: [u64; 2]) -> Found {
        let key_type = KeyType::U64;
        let mut entries = BTreeMap::new();
        for (thread, point) in points.into_iter().enumerate() {
            let (mut state, mut operations) =
                (State::new(), OperationsOfThread::new(COURSE, thread as u8));
            (0..point).for_each(|_| apply(&mut state, &operations.next()));
            entries.extend(state.into_iter().map(|(number, v)| (key(key_type, number), v)));
        }
        Found { key_type, entries }
    }

    fn judged(contract: Contract, found: &Found) -> TortureReport {
        let mut report = TortureReport::default();
        judge(&mut [State::new(), State::new()], &told(contract), COURSE, found, &mut report);
        report
    }

    fn is_good(report: &TortureReport) -> bool {
        report.lost + report.phantom == 0
    }

    #[test]
    fn a_sync_covers_what_had_returned_when_it_began() {
        assert_eq!(told(Contract::Strict).floors, [10, 10]);
        let buffered = told(Contract::Buffered);
        assert_eq!((buffered.floors, buffered.syncs), (vec![4, 4], 1));
        let unfinished = notes(&[(Note::Returned, 1), (Note::SyncBegins, 0)]);
        let told = Acknowledged::read(&unfinished, 2, Contract::Buffered).unwrap();
        assert_eq!(told.floors, [0, 0]);
        assert_eq!(Acknowledged::read(&[7, 0], 2, Contract::Strict), None);
        assert_eq!(Acknowledged::read(&[0, 2], 2, Contract::Strict), None);
    }

    #[test]
    fn a_strict_engine_owes_what_returned() {
        for points in [[10, 10], [11, 10], [11, 11]] {
            assert!(is_good(&judged(Contract::Strict, &holding(points))), "{points:?}");
        }
        let report = judged(Contract::Strict, &holding([8, 10]));
        assert!(!is_good(&report), "{report:?}");
    }

    #[test]
    fn a_buffered_engine_owes_what_was_synced_and_a_consistent_cut_of_the_rest() {
        for points in [[4, 4], [5, 4], [4, 5], [7, 7], [8, 7], [11, 11]] {
            assert!(is_good(&judged(Contract::Buffered, &holding(points))), "{points:?}");
        }
        for points in [[2, 4], [4, 9], [10, 5], [3, 3]] {
            assert!(!is_good(&judged(Contract::Buffered, &holding(points))), "{points:?}");
        }
    }

    #[test]
    fn what_no_operation_explains_is_counted() {
        let mut found = holding([7, 7]);
        found.entries.insert((false, OwnedKey::U64(u64::MAX)), vec![1]);
        assert_eq!(judged(Contract::Buffered, &found).phantom, 1);
        let mut found = holding([7, 7]);
        let first = found.entries.keys().next().unwrap().clone();
        found.entries.remove(&first);
        let report = judged(Contract::Buffered, &found);
        assert!(report.lost + report.phantom > 0, "{report:?}");
    }
}
