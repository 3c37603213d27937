//! The allocator under several threads: each allocates and frees records in slots of the index
//! root, in every interleaving with few preemptions, with every crash.

use std::sync::Arc;

use everleaf_crash::{
    ConcurrentSubject, Options, Report, Step, ThreadOperations, Traced, explore_threads,
};
use everleaf_pmem::{Media, PCell, PPtr, Site, persistent, site};
use everleaf_pool::{Audit, Format, KeyType, Pool, PoolError, Record, Worker, Workers};

persistent! {
    struct Slots {
        records: [PCell<PPtr<Record>>; 16],
    }
}

/// A record of so many bytes goes to a slot, or what is there is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The slot is empty, or it was filled by this act before a crash and nothing is to be done.
    Alloc(usize, usize),
    Free(usize),
    /// A record of so many bytes is linked in place of what is there, as a store does with its
    /// index.
    Link(usize, usize),
    /// The same with an index that takes part: the slot holds a linked record, or none.
    Doubt(usize, usize),
    /// What is there is removed so.
    DoubtOff(usize),
}

/// One step of threads, each with its own acts; what was done before.
struct Program {
    before: Vec<Act>,
    threads: Vec<Vec<Act>>,
}

struct Opened {
    pool: Arc<Pool<Traced>>,
    workers: Workers<Traced>,
}

fn opened(pool: Arc<Pool<Traced>>) -> Opened {
    Opened { workers: Workers::new(Arc::clone(&pool), 4), pool }
}

fn act(state: &Opened, act: Act) -> Result<(), String> {
    let mut worker = state.workers.lease().map_err(|e| e.to_string())?;
    let slots = state.pool.index_root::<Slots>().map_err(|e| e.to_string())?;
    match act {
        Act::Alloc(slot, _) if !state.pool.media().load(&slots.records[slot]).is_null() => Ok(()),
        Act::Alloc(slot, bytes) => {
            worker.alloc_record_into(&slots.records[slot], &[&vec![slot as u8; bytes]])
        }
        Act::Free(slot) => worker.free_from(&slots.records[slot]),
        Act::Link(slot, bytes) => link(&mut worker, &slots.records[slot], &vec![slot as u8; bytes]),
        Act::Doubt(slot, bytes) => {
            link_in_doubt(&mut worker, &slots.records[slot], Some(&vec![slot as u8; bytes]))
        }
        Act::DoubtOff(slot) => link_in_doubt(&mut worker, &slots.records[slot], None),
    }
    .map_err(|e| e.to_string())
}

/// The slot is an index of one word: one p-atomic store is its commit.
fn link(
    worker: &mut Worker<Traced>,
    slot: &PCell<PPtr<Record>>,
    content: &[u8],
) -> Result<(), PoolError> {
    let pool = Arc::clone(worker.pool());
    let new = worker.begin_link(pool.media().load(slot), Some(&[content]))?;
    pool.media().store(slot, new);
    pool.media().flush(site!("testkit.index.slot"), slot);
    pool.media().fence(site!("testkit.index.fence"));
    worker.end_link(true)
}

/// The slot is a locked leaf, too: no other thread uses it meanwhile.
fn link_in_doubt(
    worker: &mut Worker<Traced>,
    slot: &PCell<PPtr<Record>>,
    content: Option<&[u8]>,
) -> Result<(), PoolError> {
    let pool = Arc::clone(worker.pool());
    let media = pool.media();
    let parts = content.as_ref().map(std::slice::from_ref);
    let new = worker.begin_doubt(media.load(slot), parts)?.expect("no record is a run");
    worker.state_doubt()?;
    media.fence(site!("testkit.index.doubt.fence"));
    media.store(slot, new);
    media.flush(site!("testkit.index.doubt.slot"), slot);
    worker.mark_doubt()?;
    media.fence(site!("testkit.index.doubt.end"));
    worker.end_doubt()
}

impl ConcurrentSubject for Program {
    type State = Opened;
    /// By slot: the length of its record.
    type Content = Vec<Option<usize>>;
    type Outcome = ();

    fn steps(&self) -> Vec<Step> {
        let mut first = 0;
        let mut thread = |(i, acts): (usize, &Vec<Act>)| {
            first += acts.len();
            ThreadOperations {
                thread: i as u16 + 1,
                operations: (first - acts.len()..first).collect(),
            }
        };
        vec![Step::Concurrent(self.threads.iter().enumerate().map(&mut thread).collect())]
    }
    fn prepare(&self, media: Traced) -> Result<Opened, String> {
        let format = Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
        let state = opened(Pool::create(media, &format).map_err(|e| e.to_string())?);
        self.before.iter().try_for_each(|before| act(&state, *before))?;
        Ok(state)
    }
    fn run(&self, state: &Opened, operation: usize) -> Result<(), String> {
        act(state, *self.threads.iter().flatten().nth(operation).ok_or("no such operation")?)
    }
    fn recover(&self, image: Traced) -> Result<Opened, String> {
        let (pool, found) = Pool::open(image).map_err(|e| e.to_string())?;
        let state = opened(pool);
        let slots = state.pool.index_root::<Slots>().map_err(|e| e.to_string())?;
        for pending in found.pending_links {
            let linked =
                slots.records.iter().any(|cell| state.pool.media().load(cell) == pending.new);
            let mut worker = state.workers.lease().map_err(|e| e.to_string())?;
            worker.resolve_link(pending, linked).map_err(|e| e.to_string())?;
        }
        let leads_to = |record| slots.records.iter().any(|c| state.pool.media().load(c) == record);
        let held: Vec<bool> = found.doubts.iter().map(|doubt| leads_to(doubt.record())).collect();
        state.pool.end_doubts(&found.doubts, &held).map_err(|e| e.to_string())?;
        Ok(state)
    }
    fn content(&self, Opened { pool, .. }: &Opened) -> Result<Self::Content, String> {
        let (mut content, mut audit) = (Vec::new(), Audit::new());
        for (slot, cell) in
            pool.index_root::<Slots>().map_err(|e| e.to_string())?.records.iter().enumerate()
        {
            let pointer = pool.media().load(cell);
            if pointer.is_null() {
                content.push(None);
                continue;
            }
            audit.reach(pointer.offset());
            let records = pool.pin();
            let record = records.record(pointer).map_err(|e| e.to_string())?;
            if record.iter().any(|byte| *byte != slot as u8) {
                return Err(format!("the record of slot {slot} is another one"));
            }
            content.push(Some(record.len()));
        }
        let report = pool.finish_audit(audit);
        match (report.violations.first(), report.leaked_blocks) {
            (Some(violation), _) => Err(violation.clone()),
            (None, 0) => Ok(content),
            (None, leaked) => Err(format!("{leaked} blocks are leaked")),
        }
    }
    fn go_on(&self, state: &mut Opened) -> Result<(), String> {
        act(state, Act::Free(15))?;
        act(state, Act::Alloc(15, 40))?;
        act(state, Act::Free(0))?;
        let content = self.content(state)?;
        if (content[15], content[0]) == (Some(40), None) {
            Ok(())
        } else {
            Err(format!("what follows went wrong: {content:?}"))
        }
    }
    fn apply(&self, content: &mut Self::Content, operation: usize) {
        match *self.threads.iter().flatten().nth(operation).expect("one of the acts") {
            Act::Alloc(slot, bytes) | Act::Link(slot, bytes) | Act::Doubt(slot, bytes) => {
                content[slot] = Some(bytes)
            }
            Act::Free(slot) | Act::DoubtOff(slot) => content[slot] = None,
        }
    }
    fn sites(&self) -> Vec<Site> {
        let index = [
            site!("testkit.index.slot"),
            site!("testkit.index.fence"),
            site!("testkit.index.doubt.fence"),
            site!("testkit.index.doubt.slot"),
            site!("testkit.index.doubt.end"),
        ];
        everleaf_testkit::POOL_SITES.iter().copied().chain(index).collect()
    }
    fn describe_operation(&self, operation: usize) -> String {
        format!("{:?}", self.threads.iter().flatten().nth(operation))
    }
}

fn explored(before: &[Act], threads: &[&[Act]], bound: usize) -> Report {
    let program = Program {
        before: before.to_vec(),
        threads: threads.iter().map(|acts| acts.to_vec()).collect(),
    };
    let options = Options {
        len: 64 << 10,
        max_len: 128 << 10,
        budget: 16,
        recovery_budget: 4,
        access_limit: 100_000,
        preemption_bound: bound,
        interleavings_beyond: 10,
        ..Options::default()
    };
    let report = explore_threads(&program, &options).expect("it runs");
    assert_eq!(report.violations.first().map(ToString::to_string), None);
    assert_eq!((report.interleavings_left_out, report.undeclared.len()), (0, 0));
    report
}

#[test]
fn two_threads_allocate_at_once() {
    let report = explored(&[], &[&[Act::Alloc(1, 20)], &[Act::Alloc(2, 20)]], 1);
    assert!(report.interleavings > Some(50), "{:?}", report.interleavings);
}

#[test]
fn one_thread_frees_what_shares_a_word_with_what_another_one_allocates() {
    explored(&[Act::Alloc(0, 20), Act::Alloc(1, 20)], &[&[Act::Free(0)], &[Act::Alloc(2, 20)]], 1);
    explored(&[Act::Alloc(0, 20), Act::Alloc(1, 20)], &[&[Act::Free(0)], &[Act::Free(1)]], 1);
}

#[test]
fn a_freed_block_is_not_taken_while_an_intent_still_speaks_of_it() {
    // The first thread owns the chunk; the second frees a block of it, and is held up between the
    // bit and the end of its intent.
    explored(&[Act::Alloc(0, 20), Act::Alloc(1, 20)], &[&[Act::Alloc(2, 20)], &[Act::Free(0)]], 2);
    explored(
        &[Act::Alloc(0, 20), Act::Alloc(1, 20)],
        &[&[Act::Link(2, 20)], &[Act::Link(0, 20)]],
        2,
    );
    // The same with a chunk of two blocks without an owner: it becomes empty, and would be one of
    // smaller blocks next.
    let full = [Act::Alloc(0, 1800), Act::Alloc(1, 1800), Act::Alloc(2, 1800)];
    explored(&full, &[&[Act::Free(0)], &[Act::Free(1), Act::Alloc(3, 20)]], 2);
}

#[test]
fn a_block_that_one_thread_had_in_doubt_is_what_another_one_takes() {
    let full = [Act::Doubt(0, 20), Act::Doubt(1, 20)];
    explored(&full, &[&[Act::Doubt(0, 30)], &[Act::Doubt(1, 20)]], 2);
    explored(&full, &[&[Act::DoubtOff(0)], &[Act::Alloc(2, 20)]], 2);
    explored(&full, &[&[Act::DoubtOff(0), Act::Link(3, 20)], &[Act::Doubt(2, 20)]], 1);
    // A chunk of two blocks, which becomes empty.
    let full = [Act::Doubt(0, 1800), Act::Doubt(1, 1800), Act::Doubt(2, 1800)];
    explored(&full, &[&[Act::DoubtOff(0)], &[Act::DoubtOff(1), Act::Doubt(3, 20)]], 2);
}

#[test]
fn a_thread_takes_the_chunk_that_another_one_gives_back() {
    explored(&[Act::Alloc(0, 20)], &[&[Act::Free(0)], &[Act::Alloc(1, 100)]], 1);
}

#[test]
fn two_threads_grow_the_pool_at_once() {
    let report =
        explored(&[Act::Alloc(0, 36_000)], &[&[Act::Alloc(1, 20)], &[Act::Alloc(2, 20)]], 0);
    assert!(report.sites_reached.iter().any(|site| site.name() == "pool.grow.extent"), "it grew");
}
