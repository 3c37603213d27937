//! Memory that follows epochs: after every crash it is what it was at the end of the last durable
//! epoch, and every barrier of that is needed.

use std::sync::Arc;

use everleaf_crash::{Mutant, Options, Promise, Report, Subject, Traced, explore};
use everleaf_pmem::{Cpu, Mapped, Media, PCell, PPtr, Region, Site, persistent, site};
use everleaf_pool::{
    Audit, EpochWorker, Format, KeyType, Node, NodeKind, Pool, PoolError, Record, RootName,
};

const SLOTS: usize = 6;
const WORKERS: usize = 2;

persistent! {
    /// What the engine leads to at the ends of epochs, in turn.
    struct Images {
        records: [PCell<PPtr<Record>>; 16],
        nodes: [PCell<PPtr<Leaf>>; 16],
    }

    struct Leaf {
        words: [PCell; 16],
    }
}

impl Node for Leaf {
    const KIND: NodeKind = NodeKind::new(4);
}

/// Every barrier of epochs and of further roots.
const BARRIERS: [Site; 16] = [
    site!("pool.epoch.E2.records"),
    site!("pool.epoch.E2.chunks"),
    site!("pool.epoch.E2.intent"),
    site!("pool.epoch.E3.commit"),
    site!("pool.epoch.E3.fence"),
    site!("pool.epoch.E4.allocated"),
    site!("pool.epoch.E4.retired"),
    site!("pool.epoch.E4.fence"),
    site!("pool.epoch.E5.retire"),
    site!("pool.epoch.E5.fence"),
    site!("pool.recover.epoch.allocated"),
    site!("pool.recover.epoch.retired"),
    site!("pool.recover.epoch.fence"),
    site!("pool.recover.epoch.end"),
    site!("pool.recover.epoch.end.fence"),
    site!("pool.root.T1.content"),
];

const ROOT: RootName = RootName::new("other");

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// A worker puts a record of so many bytes into a slot, in place of what is there.
    Record(usize, usize, usize),
    /// A node; more than a chunk is a run.
    Node(usize, usize, usize),
    /// What is in a slot is retired.
    Remove(usize, usize),
    /// The epoch ends.
    End,
    /// A root is made.
    Root,
}

/// By slot: the bytes of the record, and whether there is a node.
type Content = [(Option<usize>, bool); SLOTS];

fn apply(content: &mut Content, act: Act) {
    match act {
        Act::Record(_, slot, bytes) => content[slot].0 = Some(bytes),
        Act::Node(_, slot, _) => content[slot].1 = true,
        Act::Remove(_, slot) => content[slot] = (None, false),
        Act::End | Act::Root => {}
    }
}

/// An engine of two slots arrays: what it leads to is in DRAM, and is written to one of two places
/// at the end of an epoch.
struct Engine<M: Media> {
    pool: Arc<Pool<M>>,
    workers: Vec<EpochWorker<M>>,
    records: [PPtr<Record>; SLOTS],
    nodes: [PPtr<Leaf>; SLOTS],
    epoch: u64,
}

fn format() -> Format {
    Format { engine: "epochs".into(), key_type: KeyType::Bytes, parameters: [0; 8] }
}

fn content_of(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + bytes) as u8).collect()
}

impl<M: Media> Engine<M> {
    fn over(pool: Arc<Pool<M>>) -> Result<Self, PoolError> {
        let epoch = pool.durable_epoch()?;
        let mut engine = Self {
            workers: (0..WORKERS)
                .map(|_| EpochWorker::new(pool.worker()?))
                .collect::<Result<_, _>>()?,
            records: [PPtr::NULL; SLOTS],
            nodes: [PPtr::NULL; SLOTS],
            pool,
            epoch: epoch + 1,
        };
        if epoch > 0 {
            let (records, nodes) = engine.image(epoch)?;
            let media = engine.pool.media();
            let records = std::array::from_fn(|slot| media.load(&records[slot]));
            let nodes = std::array::from_fn(|slot| media.load(&nodes[slot]));
            (engine.records, engine.nodes) = (records, nodes);
        }
        Ok(engine)
    }

    /// Where the image of an epoch is: the one after the next takes its place.
    #[allow(clippy::type_complexity)]
    fn image(
        &self,
        epoch: u64,
    ) -> Result<(&[PCell<PPtr<Record>>], &[PCell<PPtr<Leaf>>]), PoolError> {
        let images = self.pool.index_root::<Images>()?;
        let from = (epoch % 2) as usize * 8;
        Ok((&images.records[from..from + SLOTS], &images.nodes[from..from + SLOTS]))
    }

    fn act(&mut self, act: Act) -> Result<(), PoolError> {
        match act {
            Act::Record(worker, slot, bytes) => {
                let new = self.workers[worker].alloc_record(&[&content_of(bytes)])?;
                let old = std::mem::replace(&mut self.records[slot], new);
                if !old.is_null() {
                    self.workers[worker].retire(old)?;
                }
            }
            Act::Node(worker, slot, bytes) => {
                let new = self.workers[worker].alloc_node::<Leaf>(bytes as u64)?;
                let old = std::mem::replace(&mut self.nodes[slot], new);
                if !old.is_null() {
                    self.workers[worker].retire(old)?;
                }
            }
            Act::Remove(worker, slot) => {
                let record = std::mem::replace(&mut self.records[slot], PPtr::NULL);
                let node = std::mem::replace(&mut self.nodes[slot], PPtr::NULL);
                if !record.is_null() {
                    self.workers[worker].retire(record)?;
                }
                if !node.is_null() {
                    self.workers[worker].retire(node)?;
                }
            }
            Act::End => self.end()?,
            Act::Root => {
                self.pool.worker()?.create_root::<Leaf>(ROOT)?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), PoolError> {
        let epoch = self.epoch;
        for worker in &mut self.workers {
            worker.prepare(epoch)?;
        }
        let media = self.pool.media();
        let (records, nodes) = self.image(epoch)?;
        for slot in 0..SLOTS {
            media.store(&records[slot], self.records[slot]);
            media.store(&nodes[slot], self.nodes[slot]);
        }
        media.flush(site!("epochs.image"), &records[0]);
        media.flush(site!("epochs.image"), &nodes[0]);
        media.fence(site!("epochs.fence"));
        self.pool.commit_epoch(epoch)?;
        self.epoch += 1;
        self.workers.iter_mut().try_for_each(EpochWorker::finish)
    }

    /// What the engine leads to, all of it whole.
    fn content(&self) -> Result<Content, String> {
        let mut content = Content::default();
        let records = self.pool.pin();
        for (slot, found) in content.iter_mut().enumerate() {
            if !self.records[slot].is_null() {
                let record = records.record(self.records[slot]).map_err(|e| e.to_string())?;
                if record != content_of(record.len()) {
                    return Err(format!("the record of slot {slot} is another one"));
                }
                found.0 = Some(record.len());
            }
            if !self.nodes[slot].is_null() {
                self.pool.node(self.nodes[slot]).map_err(|e| e.to_string())?;
                found.1 = true;
            }
        }
        Ok(content)
    }

    /// The root holds zeros, if it is there.
    fn check_root(&self, must_be: bool) -> Result<(), String> {
        match self.pool.root::<Leaf>(ROOT) {
            Ok(root) if root.words.iter().any(|word| self.pool.media().load(word) != 0) => {
                Err("the root holds something".to_owned())
            }
            Err(PoolError::NoRoot { .. }) if must_be => Err("the root is gone".to_owned()),
            Ok(_) | Err(PoolError::NoRoot { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Where no epoch is under way.
    fn audit(&self) -> Result<(), String> {
        let mut audit = Audit::new();
        let nodes = self.nodes.iter().map(|node| node.offset());
        let offsets = self.records.iter().map(|record| record.offset()).chain(nodes);
        offsets.filter(|offset| *offset != 0).for_each(|offset| audit.reach(offset));
        let report = self.pool.finish_audit(audit);
        match (report.violations.into_iter().next(), report.leaked_blocks) {
            (Some(violation), _) => Err(violation),
            (None, 0) => Ok(()),
            (None, leaked) => Err(format!("{leaked} blocks are leaked")),
        }
    }
}

struct Program {
    before: Vec<Act>,
    acts: Vec<Act>,
}

impl Program {
    /// The contents at the ends of epochs of everything before and the first `acts`.
    fn at_last_end(&self, acts: usize) -> Content {
        let (mut now, mut at_end) = (Content::default(), Content::default());
        for act in self.before.iter().chain(&self.acts[..acts]) {
            apply(&mut now, *act);
            if *act == Act::End {
                at_end = now;
            }
        }
        at_end
    }
}

impl Subject for Program {
    type State = Engine<Traced>;

    fn prepare(&self, media: Traced) -> Result<Engine<Traced>, String> {
        let pool = Pool::create(media, &format()).map_err(|e| e.to_string())?;
        let mut engine = Engine::over(pool).map_err(|e| e.to_string())?;
        self.before.iter().try_for_each(|act| engine.act(*act)).map_err(|e| e.to_string())?;
        Ok(engine)
    }
    fn operation_count(&self) -> usize {
        self.acts.len()
    }
    fn run(&self, engine: &mut Engine<Traced>, operation: usize) -> Result<(), String> {
        engine.act(self.acts[operation]).map_err(|e| e.to_string())
    }
    fn recover(&self, image: Traced) -> Result<Engine<Traced>, String> {
        let (pool, _) = Pool::open(image).map_err(|e| e.to_string())?;
        Engine::over(pool).map_err(|e| e.to_string())
    }
    /// Epochs are ended by a thread of its own: what it leaves without a fence is not fenced by the
    /// thread that goes on.
    fn thread(&self, operation: usize) -> u16 {
        if self.acts[operation] == Act::End { 1 } else { 2 }
    }
    /// Nothing is lost, where what was done has ended.
    fn completed(&self, engine: &mut Engine<Traced>, promise: &Promise) -> Option<usize> {
        let Promise { acknowledged, cut, .. } = *promise;
        let found = engine.content().ok()?;
        let is_all = |acts: &usize| {
            let acts = &self.acts[..*acts];
            let mut before = self.before.iter().chain(acts).rev();
            let ended = before.find(|act| **act != Act::Root).is_none_or(|act| *act == Act::End);
            let has_root = engine.check_root(acts.contains(&Act::Root)).is_ok();
            ended && has_root && found == self.at_last_end(acts.len())
        };
        [cut.map(|cut| cut + 1), Some(acknowledged)].into_iter().flatten().find(is_all)
    }
    fn verify(&self, engine: &mut Engine<Traced>, promise: &Promise) -> Result<(), String> {
        let Promise { acknowledged, cut, .. } = *promise;
        engine.audit().map_err(|e| format!("after recovery: {e}"))?;
        engine.check_root(self.acts[..acknowledged].contains(&Act::Root))?;
        let found = engine.content()?;
        let expected = self.at_last_end(acknowledged);
        if found != expected && cut.is_none_or(|cut| found != self.at_last_end(cut + 1)) {
            return Err(format!("there is {found:?} and should be {expected:?}"));
        }
        // What was taken back is used again, and ends in an epoch.
        let mut content = found;
        for (worker, slot, bytes) in [(0, 0, 40), (1, 1, 40), (0, 2, 1000), (1, 0, 5000)] {
            for act in [Act::Record(worker, slot, bytes), Act::Node(worker, slot, 128)] {
                engine.act(act).map_err(|e| e.to_string())?;
                apply(&mut content, act);
            }
        }
        engine.act(Act::Root).map_err(|e| e.to_string())?;
        engine.end().map_err(|e| e.to_string())?;
        engine.audit().map_err(|e| format!("an epoch later: {e}"))?;
        let found = engine.content()?;
        if found == content { Ok(()) } else { Err(format!("{found:?} instead of {content:?}")) }
    }
    fn sites(&self) -> Vec<Site> {
        BARRIERS.to_vec()
    }
    fn describe_operation(&self, operation: usize) -> String {
        format!("{:?}", self.acts[operation])
    }
}

fn explored(before: &[Act], acts: &[Act], mutate: bool) -> Report {
    let program = Program { before: before.to_vec(), acts: acts.to_vec() };
    let options = Options {
        len: 128 << 10,
        max_len: 256 << 10,
        budget: 8,
        recovery_budget: 4,
        recoveries: 24,
        mutate,
        ..Options::default()
    };
    let report = explore(&program, &options).unwrap();
    assert_eq!(report.violations.first().map(ToString::to_string), None);
    let of_epochs = |site: &&Site| {
        ["pool.epoch.", "pool.recover.epoch.", "pool.root."]
            .iter()
            .any(|part| site.name().starts_with(part))
    };
    assert_eq!(report.undeclared.iter().find(of_epochs), None);
    report
}

#[test]
fn every_crash_leaves_the_end_of_an_epoch_and_every_barrier_is_needed() {
    // The second worker's log, and the run behind it, are the first that is free again.
    let before = [
        Act::Record(1, 2, 5000),
        Act::Record(0, 0, 100),
        Act::Record(1, 1, 100),
        Act::Node(0, 0, 128),
        Act::Node(1, 1, 6000),
        Act::End,
    ];
    let programs: [&[Act]; 5] = [
        // Replaced within a chunk, retired by the worker that did not allocate it.
        &[Act::Record(1, 0, 90), Act::Remove(0, 1), Act::End, Act::Record(0, 1, 100), Act::End],
        // Runs; allocated and retired in one epoch.
        &[Act::Record(0, 3, 5000), Act::Remove(1, 2), Act::Record(0, 3, 20), Act::End, Act::End],
        &[Act::Node(1, 1, 128), Act::Node(0, 2, 6000), Act::End, Act::Record(1, 4, 5000)],
        // What the last worker has retired is taken by one that does not follow epochs.
        &[Act::Remove(1, 2), Act::End, Act::Root, Act::Record(0, 5, 8)],
        &[Act::Node(1, 1, 128), Act::End, Act::Root, Act::Record(0, 5, 8)],
    ];
    let mut killed = std::collections::BTreeSet::new();
    for acts in programs {
        let report = explored(&before, acts, true);
        let without =
            |mutant: &Mutant| matches!(mutant, Mutant::Without(_)).then(|| mutant.site().name());
        killed.extend(report.killed.iter().filter_map(|(mutant, _)| without(mutant)));
    }
    let names = BARRIERS.iter().map(|site| site.name());
    let survivors: Vec<&str> = names.filter(|name| !killed.contains(name)).collect();
    assert_eq!(survivors, Vec::<&str>::new());
}

#[test]
fn what_a_worker_allocates_another_may_retire_in_the_same_epoch() {
    let before = [Act::Record(1, 2, 5000), Act::Record(0, 0, 100), Act::End];
    let run = [Act::Record(0, 3, 5000), Act::Remove(1, 3), Act::Record(1, 4, 5000), Act::End];
    explored(&before, &run, false);
    // Then what an epoch before had allocated.
    let block = [Act::Record(0, 4, 60), Act::Record(1, 4, 70), Act::End, Act::Record(0, 4, 80)];
    explored(&before, &block, false);
}

#[test]
fn what_follows_the_end_of_an_epoch_does_not_disturb_it() {
    let many = |worker: usize, from: usize| {
        (0..12).map(move |i| Act::Record(worker, (from + i) % SLOTS, 100 + 40 * (i % 3)))
    };
    let before: Vec<Act> = many(0, 0).chain([Act::End]).chain(many(1, 2)).collect();
    let acts: Vec<Act> = [Act::End].into_iter().chain(many(0, 1)).chain([Act::End]).collect();
    explored(&before, &acts, false);
}

fn engine(bytes: u64) -> Engine<Mapped> {
    let region = Region::anonymous(bytes, bytes).unwrap();
    let media = Mapped::new(region, &Cpu::detect()).unwrap();
    Engine::over(Pool::create(media, &format()).unwrap()).unwrap()
}

#[test]
fn retired_memory_is_used_again_when_its_epoch_is_durable() {
    let mut engine = engine(128 << 10);
    engine.act(Act::Record(0, 0, 4000)).unwrap();
    engine.end().unwrap();
    let first = engine.records[0];
    // The pool is filled by replacing one record: what is replaced is not to be had in the epoch.
    let mut replaced = 0;
    let refused = loop {
        match engine.workers[0].alloc_record(&[&content_of(4000)]) {
            Ok(new) => {
                let old = std::mem::replace(&mut engine.records[0], new);
                engine.workers[0].retire(old).unwrap();
                assert_ne!(new, first);
                replaced += 1;
            }
            Err(error) => break error,
        }
    };
    assert!(
        matches!(refused, PoolError::PoolFull { .. }) && replaced > 10,
        "{replaced}: {refused}"
    );
    // The epoch ends early, and all of that is free.
    engine.end().unwrap();
    engine.audit().unwrap();
    for _ in 0..replaced - 1 {
        engine.act(Act::Record(1, 0, 4000)).unwrap();
    }
    engine.end().unwrap();
    engine.audit().unwrap();
    assert!(matches!(engine.pool.commit_epoch(1), Err(PoolError::EpochOrder { .. })));
    engine.act(Act::Remove(0, 0)).unwrap();
    engine.end().unwrap();
    engine.workers.clear();
    let space = engine.pool.space().unwrap();
    assert!(space.used_bytes < 20_000, "{space:?}");
    assert_eq!(engine.pool.worker().unwrap().slot(), 0, "a worker at rest gives its slot back");
}

#[test]
fn the_steps_of_an_epochs_end_are_refused_out_of_their_order() {
    let mut engine = engine(128 << 10);
    let worker = &mut engine.workers[0];
    worker.alloc_record(&[b"of the first epoch"]).unwrap();
    worker.prepare(1).unwrap();
    let early = worker.finish();
    assert!(matches!(early, Err(PoolError::EpochNotDurable { epoch: 1 })), "{early:?}");
    engine.pool.commit_epoch(1).unwrap();
    worker.finish().unwrap();
    worker.finish().unwrap();
    worker.alloc_record(&[b"of the second epoch"]).unwrap();
    for late in [0, 1, 1 << 48] {
        let refused = worker.prepare(late);
        assert!(matches!(refused, Err(PoolError::EpochOrder { .. })), "{late}: {refused:?}");
    }
    worker.prepare(2).unwrap();
    engine.pool.commit_epoch(2).unwrap();
    worker.finish().unwrap();
}

#[test]
fn a_worker_that_is_dropped_within_an_epoch_keeps_what_it_took() {
    let mut engine = engine(128 << 10);
    let taken = engine.workers[0].alloc_record(&[b"taken"]).unwrap();
    let prepared = engine.workers[1].alloc_record(&[b"prepared"]).unwrap();
    engine.workers[1].prepare(1).unwrap();
    assert!(matches!(engine.workers[1].prepare(2), Err(PoolError::EpochNotFinished { .. })));
    engine.workers.clear();
    let mut next = EpochWorker::new(engine.pool.worker().unwrap()).unwrap();
    assert_eq!(next.slot(), 2);
    for _ in 0..100 {
        let new = next.alloc_record(&[b"new"]).unwrap();
        assert!(new != taken && new != prepared);
    }
}

#[test]
fn a_record_is_read_and_retired_before_its_epoch_has_ended() {
    let mut engine = engine(256 << 10);
    engine.act(Act::Record(0, 0, 9000)).unwrap();
    engine.act(Act::Record(0, 1, 90)).unwrap();
    engine.act(Act::Node(0, 2, 9000)).unwrap();
    assert_eq!(engine.content().unwrap()[0].0, Some(9000));
    let pool = Arc::clone(&engine.pool);
    let records = pool.pin();
    let lent = [0, 1].map(|slot| records.record(engine.records[slot]).unwrap());
    // By the other worker, in the epoch that has allocated them.
    for slot in 0..3 {
        engine.act(Act::Remove(1, slot)).unwrap();
    }
    engine.end().unwrap();
    engine.audit().unwrap();
    for slot in 0..4 {
        engine.act(Act::Record(slot % 2, slot, 9000)).unwrap();
        engine.act(Act::Record(slot % 2, slot, 90)).unwrap();
    }
    assert!(lent[0] == content_of(9000) && lent[1] == content_of(90), "lent, and used again");
    engine.end().unwrap();
    engine.audit().unwrap();
}

#[test]
fn what_an_ending_epoch_has_allocated_may_be_retired_before_it_is_finished() {
    let mut engine = engine(256 << 10);
    let taken =
        [60, 5000].map(|bytes| engine.workers[0].alloc_record(&[&content_of(bytes)]).unwrap());
    for worker in &mut engine.workers {
        worker.prepare(1).unwrap();
    }
    engine.pool.commit_epoch(1).unwrap();
    for record in taken {
        engine.workers[1].retire(record).unwrap();
    }
    let early = engine.workers[1].prepare(2);
    assert!(matches!(early, Err(PoolError::EpochNotFinished { epoch: 2 })), "{early:?}");
    engine.workers.iter_mut().try_for_each(EpochWorker::finish).unwrap();
    engine.epoch = 2;
    assert!(engine.audit().is_err(), "retired, and in use until the epoch ends");
    engine.end().unwrap();
    engine.audit().unwrap();
}

#[test]
fn a_free_block_that_is_retired_does_not_take_the_next_ones_memory_away() {
    let mut engine = engine(256 << 10);
    engine.act(Act::Record(0, 0, 60)).unwrap();
    engine.act(Act::Record(0, 1, 60)).unwrap();
    engine.end().unwrap();
    let stale = engine.records[1];
    engine.act(Act::Remove(0, 1)).unwrap();
    engine.end().unwrap();
    // An engine whose pointer is damaged.
    engine.workers[1].retire(stale).unwrap();
    engine.end().unwrap();
    for slot in 0..SLOTS {
        engine.act(Act::Record(1, slot, 60)).unwrap();
        engine.act(Act::Record(0, slot, 60)).unwrap();
        engine.end().unwrap();
        engine.audit().unwrap();
    }
}
