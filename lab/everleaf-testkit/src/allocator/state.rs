//! An opened pool and its two workers.

use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_pmem::{LINE, Media, PCell, PPtr, WORD, persistent, site};
use everleaf_pool::{
    Audit, Format, KeyType, NodeKind, PendingLink, Pool, PoolError, Record, RootName, Run,
    Shutdown, Worker,
};

use super::operation::{Content, Kind, NODE_BYTES, ROOT_BYTES, SLOTS};
use super::session::{self, sentence};
use super::{Action, AllocatorOperation};

persistent! {
    /// What the root of the index holds: the destinations of exchanges, and an index of one word a
    /// key.
    struct Slots {
        records: [PCell<PPtr<Record>>; SLOTS],
        nodes: [PCell<PPtr<Node>>; SLOTS],
        links: [PCell<PPtr<Record>>; SLOTS],
    }

    struct Node {
        words: [PCell; 4 * LINE / WORD],
    }
}

const RUNS: NodeKind = NodeKind::new(2);

impl everleaf_pool::Node for Node {
    const KIND: NodeKind = NodeKind::new(1);
}

const _: () = assert!(size_of::<Node>() as u64 == NODE_BYTES && NODE_BYTES == ROOT_BYTES);
/// Roots that are made.
const ROOTS: [RootName; 2] = [RootName::new("first"), RootName::new("second")];
const MARK: RootName = RootName::new("mark");
/// The first word of a run: this and its place.
const RUN_STAMP: u64 = 0x5eaf_0000_0000_0000;
const CHUNK: u64 = 4096;

/// An opened pool.
pub struct AllocatorState {
    media: Traced,
    /// None before there is a pool, and between a close and an open that failed.
    open: Option<Open>,
    /// How the pool was found, if it was opened.
    pub shutdown: Option<Shutdown>,
    /// The pool was left by a session without flushes, under another boot of the machine.
    is_refused: bool,
}

struct Open {
    pool: Arc<Pool<Traced>>,
    workers: [Worker<Traced>; 2],
}

/// The bytes of a record: they tell its length.
fn content_of(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + bytes) as u8).collect()
}

impl AllocatorState {
    /// Memory without a pool.
    pub fn without_pool(media: Traced) -> Self {
        Self { media, open: None, shutdown: None, is_refused: false }
    }

    /// Whether there is a pool.
    pub fn is_open(&self) -> bool {
        self.open.is_some() || self.is_refused
    }

    /// Whether there is one that must not be opened.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    pub fn create(media: Traced) -> Result<Self, String> {
        let format =
            Format { engine: "allocator".into(), key_type: KeyType::U64, parameters: [0; 8] };
        let pool = Pool::create(media.clone(), &format).map_err(sentence)?;
        Self::over(media, pool)
    }

    /// Opens what a power failure left.
    pub fn recover(media: Traced) -> Result<Self, String> {
        if session::is_refused(&media)? {
            return Ok(Self { is_refused: true, ..Self::without_pool(media) });
        }
        Self::open(media)
    }

    fn open(media: Traced) -> Result<Self, String> {
        let (pool, opened) = Pool::open(media.clone()).map_err(sentence)?;
        let mut live = Self { shutdown: Some(opened.shutdown), ..Self::over(media, pool)? };
        let Open { pool, workers: [worker, _] } = live.parts()?;
        for pending in opened.pending_links {
            let changed = holds(pool, pending).map_err(sentence)?;
            worker.resolve_link(pending, changed).map_err(sentence)?;
        }
        let held = opened.doubts.iter().map(|doubt| leads_to(pool, doubt.record()));
        let held = held.collect::<Result<Vec<_>, _>>().map_err(sentence)?;
        pool.end_doubts(&opened.doubts, &held).map_err(sentence)?;
        Ok(live)
    }

    fn over(media: Traced, pool: Arc<Pool<Traced>>) -> Result<Self, String> {
        let workers = [pool.worker().map_err(sentence)?, pool.worker().map_err(sentence)?];
        let open = Some(Open { pool, workers });
        Ok(Self { open, ..Self::without_pool(media) })
    }

    fn parts(&mut self) -> Result<&mut Open, String> {
        self.open.as_mut().ok_or_else(|| "the pool is closed".to_owned())
    }

    /// Runs an operation.
    pub fn run(&mut self, operation: &AllocatorOperation) -> Result<(), String> {
        if operation.action == Action::Create {
            *self = Self::create(self.media.clone())?;
            return Ok(());
        }
        if operation.action == Action::Reopen {
            let Open { pool, workers } = self.open.take().ok_or("the pool is closed")?;
            drop(workers);
            pool.close().map_err(sentence)?;
        }
        if let Action::Unflushed(slot, bytes) = operation.action {
            self.open = None;
            return session::without_flushes(&self.media, |media| {
                let mut session = Self::open(media)?;
                session.run(&AllocatorOperation {
                    worker: operation.worker,
                    action: Action::Record(slot, bytes),
                })
            });
        }
        if operation.action == Action::Open && self.open.is_some() {
            // The crash came while no session had the pool open, and the recovery has opened it.
            return Ok(());
        }
        if matches!(operation.action, Action::Reopen | Action::Open) {
            *self = Self::open(self.media.clone())?;
            return Ok(());
        }
        let Open { pool, workers } = self.parts()?;
        act(pool, &mut workers[operation.worker], &operation.action).map_err(sentence)
    }

    /// What is allocated, as its owners see it.
    pub fn content(&mut self) -> Result<Content, String> {
        let Open { pool, .. } = self.parts()?;
        let slots = pool.index_root::<Slots>().map_err(sentence)?;
        let mut content = Content::new();
        let records = pool.pin();
        for slot in 0..SLOTS {
            for (kind, cell) in
                [(Kind::Record, &slots.records[slot]), (Kind::Link, &slots.links[slot])]
            {
                let pointer = pool.media().load(cell);
                if pointer.is_null() {
                    continue;
                }
                let found = records.record(pointer).map_err(|e| format!("{kind:?} {slot}: {e}"))?;
                if found != content_of(found.len() as u64) {
                    return Err(format!("{kind:?} {slot} has another content than was written"));
                }
                content.insert((kind, slot), found.len() as u64);
            }
            if !pool.media().load(&slots.nodes[slot]).is_null() {
                content.insert((Kind::Node, slot), NODE_BYTES);
            }
        }
        for (slot, name) in ROOTS.into_iter().enumerate().filter(|(_, name)| pool.has_root(*name)) {
            let root = pool.root::<Node>(name).map_err(sentence)?;
            if root.words.iter().any(|word| pool.media().load(word) != 0) {
                return Err(format!("the root {name} is not empty"));
            }
            content.insert((Kind::Root, slot), ROOT_BYTES);
        }
        content.extend(pool.has_root(MARK).then_some(((Kind::Mark, 0), 0)));
        for run in pool.runs(RUNS).map_err(sentence)? {
            let stamp = pool.media().load(
                &pool.media().region().cells(run.offset, 1).ok_or("a run outside the pool")?[0],
            );
            let slot = (stamp ^ RUN_STAMP) as usize;
            if slot >= SLOTS || content.insert((Kind::Run, slot), run.bytes / CHUNK).is_some() {
                return Err(format!("the run at {:#x} is none that was prepared", run.offset));
            }
        }
        Ok(content)
    }

    /// The leak audit.
    pub fn check(&mut self) -> Result<(), String> {
        let Open { pool, .. } = self.parts()?;
        let slots = pool.index_root::<Slots>().map_err(sentence)?;
        let mut audit = Audit::new();
        let media = pool.media();
        let records =
            slots.records.iter().chain(&slots.links).map(|cell| media.load(cell).offset());
        let nodes = slots.nodes.iter().map(|cell| media.load(cell).offset());
        let runs = pool.runs(RUNS).map_err(sentence)?;
        let runs = runs.iter().map(|run| run.offset);
        records
            .chain(nodes)
            .chain(runs)
            .filter(|offset| *offset != 0)
            .for_each(|offset| audit.reach(offset));
        let report = pool.finish_audit(audit);
        match (report.violations.into_iter().next(), report.leaked_blocks) {
            (Some(violation), _) => Err(violation),
            (None, 0) => Ok(()),
            (None, leaked) => {
                Err(format!("{leaked} blocks are allocated and reachable from nowhere"))
            }
        }
    }

    /// The allocator must also work: every place is filled by both workers in turn, then emptied.
    pub fn go_on(&mut self) -> Result<(), String> {
        let mut content = self.content()?;
        let there = |content: &Content, kind, slot| content.contains_key(&(kind, slot));
        for round in 0..2 {
            for slot in 0..SLOTS {
                let worker = (slot + round) % 2;
                let bytes = 30 + 40 * slot as u64;
                let actions = [
                    if there(&content, Kind::Record, slot) {
                        Action::FreeRecord(slot)
                    } else {
                        Action::Record(slot, bytes)
                    },
                    if there(&content, Kind::Node, slot) {
                        Action::FreeNode(slot)
                    } else {
                        Action::Node(slot)
                    },
                    Action::Link(slot, bytes),
                ];
                for action in actions {
                    let operation = AllocatorOperation { worker, action };
                    match self.run(&operation) {
                        Ok(()) => operation.model(&mut content),
                        Err(e) if e.contains("full") => {}
                        Err(e) => return Err(format!("{operation}: {e}")),
                    }
                }
            }
        }
        let found = self.content()?;
        if found != content {
            return Err(format!("what is allocated is {found:?} and should be {content:?}"));
        }
        self.check()
    }
}

fn act(pool: &Pool<Traced>, worker: &mut Worker<Traced>, action: &Action) -> Result<(), PoolError> {
    let slots = pool.index_root::<Slots>()?;
    let media = pool.media();
    match *action {
        Action::Record(slot, bytes) => {
            worker.alloc_record_into(&slots.records[slot], &[&content_of(bytes)])?;
            // What an allocation leaves without a fence is its caller's to fence, before another
            // thread sees the block.
            media.fence(site!("testkit.caller.fence"));
        }
        Action::FreeRecord(slot) => worker.free_from(&slots.records[slot])?,
        Action::Node(slot) => {
            worker.alloc_node_into(&slots.nodes[slot])?;
            media.fence(site!("testkit.caller.fence"));
        }
        Action::FreeNode(slot) => worker.free_from(&slots.nodes[slot])?,
        Action::Link(slot, bytes) => {
            link(pool, worker, &slots.links[slot], Some(&content_of(bytes)))?
        }
        Action::Unlink(slot) => link(pool, worker, &slots.links[slot], None)?,
        Action::RefusedLink(bytes) => {
            worker.begin_link(PPtr::NULL, Some(&[&content_of(bytes)]))?;
            worker.end_link(false)?;
        }
        Action::Doubt(slot, bytes) => {
            link_in_doubt(pool, worker, &slots.links[slot], Some(&content_of(bytes)))?
        }
        Action::DoubtOff(slot) => link_in_doubt(pool, worker, &slots.links[slot], None)?,
        Action::RefusedDoubt(bytes) => {
            worker.begin_doubt(PPtr::NULL, Some(&[&content_of(bytes)]))?;
            worker.end_doubt()?;
        }
        Action::RefusedBatch(bytes) => {
            worker.begin_batch();
            worker.stage(PPtr::NULL, Some(&[&content_of(bytes)]))?;
            worker.abandon_batch()?;
        }
        Action::Run(slot, chunks) => {
            worker.alloc_run(RUNS, chunks * CHUNK, |pool, run| stamp(pool, run, slot))?;
        }
        Action::FreeRun(slot) => {
            let of_slot = |run: &Run| {
                media
                    .region()
                    .cells(run.offset, 1)
                    .is_some_and(|cells| media.load(&cells[0]) == RUN_STAMP ^ slot as u64)
            };
            if let Some(run) = pool.runs(RUNS)?.into_iter().find(of_slot) {
                worker.free_run(RUNS, run.offset)?;
            }
        }
        Action::RefusedRun(chunks) => {
            let refusal = || PoolError::PoolFull { requested_bytes: 0 };
            match worker.alloc_run(RUNS, chunks * CHUNK, |_, _| Err(refusal())) {
                Err(error) if error.is_full() => {}
                other => _ = other?,
            }
        }
        Action::Root(slot) => {
            let is_there = pool.has_root(ROOTS[slot]);
            worker.create_root::<Node>(ROOTS[slot])?;
            if !is_there {
                media.fence(site!("testkit.caller.fence"));
            }
        }
        Action::Mark => pool.set_mark(MARK)?,
        Action::Unmark => pool.clear_mark(MARK)?,
        Action::Unflushed(..) | Action::Open | Action::Reopen | Action::Create => {}
    }
    Ok(())
}

/// An index of one word a key: one p-atomic store is its commit.
fn link(
    pool: &Pool<Traced>,
    worker: &mut Worker<Traced>,
    cell: &PCell<PPtr<Record>>,
    content: Option<&[u8]>,
) -> Result<(), PoolError> {
    let media = pool.media();
    let new = worker.begin_link(media.load(cell), content.as_ref().map(std::slice::from_ref))?;
    media.store(cell, new);
    media.flush(site!("testkit.index.slot"), cell);
    media.fence(site!("testkit.index.fence"));
    worker.end_link(true)
}

/// The same of an index that takes part.
fn link_in_doubt(
    pool: &Pool<Traced>,
    worker: &mut Worker<Traced>,
    cell: &PCell<PPtr<Record>>,
    content: Option<&[u8]>,
) -> Result<(), PoolError> {
    let media = pool.media();
    let old = media.load(cell);
    let Some(new) = worker.begin_doubt(old, content.as_ref().map(std::slice::from_ref))? else {
        return link(pool, worker, cell, content); // The old record is a run.
    };
    worker.state_doubt()?;
    media.fence(site!("testkit.index.doubt.fence"));
    media.store(cell, new);
    media.flush(site!("testkit.index.doubt.slot"), cell);
    worker.mark_doubt()?;
    media.fence(site!("testkit.index.doubt.end"));
    worker.end_doubt()
}

fn stamp(pool: &Pool<Traced>, run: Run, slot: usize) -> Result<(), PoolError> {
    let cells = pool.media().region().cells(run.offset, 1);
    let cell = cells.ok_or(PoolError::PoolFull { requested_bytes: run.bytes })?;
    pool.media().store(&cell[0], RUN_STAMP ^ slot as u64);
    pool.media().flush(site!("testkit.run.stamp"), &cell[0]);
    Ok(())
}

/// Whether the index holds what a pending link was to put there.
fn holds(pool: &Pool<Traced>, link: PendingLink) -> Result<bool, PoolError> {
    Ok(if link.new.is_null() { !leads_to(pool, link.old)? } else { leads_to(pool, link.new)? })
}

/// Whether the index holds a record.
fn leads_to(pool: &Pool<Traced>, record: PPtr<Record>) -> Result<bool, PoolError> {
    let links = &pool.index_root::<Slots>()?.links;
    Ok(links.iter().any(|cell| pool.media().load(cell) == record))
}
