//! Links that a crash cut, between the opening of the pool and their owner's judgement.

use everleaf_crash::{Event, Traced};
use everleaf_pmem::{PCell, PPtr, persistent};
use everleaf_pool::{
    Audit, AuditReport, Format, KeyType, NodeKind, Pool, PoolError, Record, Run, Worker,
};

const KIND: NodeKind = NodeKind::new(3);

const BYTES: u64 = 256 << 10;

persistent! {
    struct Anchor {
        record: PCell<PPtr<Record>>,
    }
}

fn format() -> Format {
    Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] }
}

fn audit(pool: &Pool<Traced>, records: &[PPtr<Record>], runs: &[Run]) -> AuditReport {
    let mut audit = Audit::new();
    records.iter().for_each(|record| audit.reach(record.offset()));
    runs.iter().for_each(|run| audit.reach(run.offset));
    pool.finish_audit(audit)
}

/// The tag of an intent that speaks of nothing: 0, with its checksum.
const RETIRED: u64 = 0x5ea1 << 48;

#[test]
fn both_records_of_a_cut_link_stay_untouched_until_it_is_resolved() {
    // Runs and blocks; cut before and after the index would have changed.
    for (old_bytes, new_bytes) in [(9000, 20_000), (9000, 50), (50, 9000), (50, 60)] {
        for changed in [false, true] {
            let cut = Pool::create(Traced::new(BYTES, BYTES, 1).unwrap(), &format()).unwrap();
            let mut worker = cut.worker().unwrap();
            let old = worker.begin_link(PPtr::NULL, Some(&[&vec![1; old_bytes]])).unwrap();
            worker.end_link(true).unwrap();
            let new = worker.begin_link(old, Some(&[&vec![2; new_bytes]])).unwrap();
            if changed {
                worker.end_link(true).unwrap();
            }
            // The crash comes before the intent is retired, whatever was done to the blocks.
            let events = cut.media().take_events();
            let retired =
                |event: &&Event| matches!(event, Event::Store { offset: 4096, new: RETIRED, .. });
            let mut image = cut.media().image();
            if let Some(Event::Store { offset, old: tag, .. }) =
                events.iter().rfind(retired).filter(|_| changed)
            {
                image[*offset as usize / 8] = *tag;
            }

            let (pool, opened) = Pool::open(Traced::from_image(&image, BYTES, 2).unwrap()).unwrap();
            let [pending] = opened.pending_links[..] else { panic!("{:?}", opened.pending_links) };
            assert_eq!((pending.old, pending.new), (old, new));
            let mut worker = pool.worker().unwrap();
            // What an index does when it is opened: it looks at the pool, and allocates; its
            // intents are written elsewhere than the pending one.
            let anchor = pool.index_root::<Anchor>().unwrap();
            worker.alloc_record_into(&anchor.record, &[b"of the index"]).unwrap();
            worker.free_from(&anchor.record).unwrap();
            let runs: Vec<Run> =
                (0..8).map(|_| worker.alloc_run(KIND, 4096, |_, _| Ok(())).unwrap()).collect();
            for run in &runs {
                for (record, bytes) in [(old, old_bytes), (new, new_bytes)] {
                    let apart = run.offset + run.bytes <= record.offset()
                        || record.offset() + bytes as u64 <= run.offset;
                    assert!(apart, "{run:?} lies over the record at {record:?}");
                }
            }
            assert_eq!(pool.pin().record(old).unwrap(), vec![1; old_bytes]);
            assert_eq!(pool.pin().record(new).unwrap(), vec![2; new_bytes]);
            worker.resolve_link(pending, changed).unwrap();
            let kept = if changed { new } else { old };
            assert_eq!(audit(&pool, &[kept], &runs), AuditReport::default());
            // What was freed serves again: the pool can be filled to the last chunk, and nothing
            // lies over what is kept.
            while worker.alloc_run(KIND, 4096, |_, _| Ok(())).is_ok() {}
            let runs = pool.runs(KIND).unwrap();
            assert_eq!(audit(&pool, &[kept], &runs), AuditReport::default());
            assert_eq!(
                pool.pin().record(kept).unwrap(),
                if changed { vec![2; new_bytes] } else { vec![1; old_bytes] }
            );
        }
    }
}

#[test]
fn crash_between_the_intent_and_the_typing_of_its_chunk_leaves_a_pool_that_opens() {
    let pool = Pool::create(Traced::new(BYTES, BYTES, 1).unwrap(), &format()).unwrap();
    let mut worker = pool.worker().unwrap();
    let mut image = pool.media().image();
    pool.media().take_events();
    worker.begin_link(PPtr::NULL, Some(&[b"never linked"])).unwrap();
    // Only the line of the intent was evicted before the power failed.
    for event in pool.media().take_events() {
        if let Event::Store { offset, new, .. } = event
            && offset / 64 == 4096 / 64
        {
            image[offset as usize / 8] = new;
        }
    }
    let (pool, opened) = Pool::open(Traced::from_image(&image, BYTES, 2).unwrap()).unwrap();
    assert_eq!(opened.pending_links, [], "nothing can have been linked");
    assert_eq!(audit(&pool, &[], &[]), AuditReport::default());
}

#[test]
fn a_worker_that_is_dropped_in_the_middle_of_a_link_keeps_its_slot_for_recovery() {
    let pool = Pool::create(Traced::new(BYTES, BYTES, 1).unwrap(), &format()).unwrap();
    let mut worker = pool.worker().unwrap();
    let old = worker.begin_link(PPtr::NULL, Some(&[b"old"])).unwrap();
    worker.end_link(true).unwrap();
    let new = worker.begin_link(old, Some(&[b"new"])).unwrap();
    assert!(matches!(
        worker.begin_link(PPtr::NULL, Some(&[b"another"])),
        Err(PoolError::WorkerBusy { .. })
    ));
    drop(worker);
    // All the others are to be had, and some use their intents.
    let mut others: Vec<_> = (0..63).map(|_| pool.worker().unwrap()).collect();
    assert!(matches!(pool.worker(), Err(PoolError::WorkersExhausted { .. })));
    for other in &mut others[..8] {
        other.begin_link(PPtr::NULL, Some(&[b"refused"])).unwrap();
        other.end_link(false).unwrap();
    }
    drop(others);
    let media = Traced::from_image(&pool.media().image(), BYTES, 2).unwrap();
    let (pool, opened) = Pool::open(media).unwrap();
    let [pending] = opened.pending_links[..] else { panic!("{:?}", opened.pending_links) };
    assert_eq!((pending.old, pending.new), (old, new));
    pool.worker().unwrap().resolve_link(pending, true).unwrap();
    assert_eq!(audit(&pool, &[new], &[]), AuditReport::default());
}

#[test]
fn a_worker_that_is_dropped_with_a_batch_that_never_happened_gives_all_of_it_back() {
    let pool = Pool::create(Traced::new(BYTES, BYTES, 1).unwrap(), &format()).unwrap();
    let free = pool.space().unwrap().free_bytes;
    let mut worker = pool.worker().unwrap();
    worker.begin_batch();
    worker.stage(PPtr::NULL, Some(&[&[7; 9000]])).unwrap();
    worker.stage(PPtr::NULL, Some(&[b"short"])).unwrap();
    worker.log_batch().unwrap();
    drop(worker);
    assert_eq!(pool.space().unwrap().free_bytes, free);
    assert_eq!(pool.worker().unwrap().slot(), 0);
}

#[test]
fn a_batch_that_is_abandoned_leaves_no_flush_without_a_fence() {
    let pool = Pool::create(Traced::new(BYTES, BYTES, 1).unwrap(), &format()).unwrap();
    let mut worker = pool.worker().unwrap();
    let last = || {
        let is_barrier = |event: &Event| matches!(event, Event::Flush { .. } | Event::Fence { .. });
        pool.media().take_events().into_iter().rfind(is_barrier)
    };
    worker.begin_batch();
    worker.stage(PPtr::NULL, Some(&[b"the first of its chunk"])).unwrap();
    assert!(matches!(last(), Some(Event::Flush { .. })));
    assert!(worker.stage(PPtr::at(12345), None).is_err(), "no record");
    worker.abandon_batch().unwrap();
    assert!(matches!(last(), Some(Event::Fence { .. })));
    worker.begin_batch();
    worker.abandon_batch().unwrap();
    assert!(last().is_none(), "nothing was flushed");
}

#[test]
fn a_batch_whose_log_is_a_run_is_completed_after_a_crash() {
    const BYTES: u64 = 4 << 20;
    // Records of blocks, and runs of 1 to 4 chunks; a log of several chunks.
    let bytes_of = |i: usize| if i.is_multiple_of(7) { 4000 * (1 + i % 4) } else { 30 };
    for done in [true, false] {
        let cut = Pool::create(Traced::new(BYTES, BYTES, 1).unwrap(), &format()).unwrap();
        let mut worker = cut.worker().unwrap();
        let link = |worker: &mut Worker<Traced>, i: usize| {
            let old = worker.begin_link(PPtr::NULL, Some(&[&vec![1; bytes_of(i)]])).unwrap();
            worker.end_link(true).map(|()| old).unwrap()
        };
        let old: Vec<_> = (0..300).map(|i| link(&mut worker, i)).collect();
        worker.begin_batch();
        let stage = |(i, old): (usize, &PPtr<Record>)| {
            let content = vec![2; bytes_of(i + 1)];
            worker.stage(*old, Some(&[&content])).unwrap()
        };
        let new: Vec<_> = old.iter().enumerate().map(stage).collect();
        worker.log_batch().unwrap();
        worker.commit_batch().unwrap();

        let image = cut.media().image();
        let (pool, opened) = Pool::open(Traced::from_image(&image, BYTES, 2).unwrap()).unwrap();
        let [pending] = &opened.pending_batches[..] else { panic!("{opened:?}") };
        let links: Vec<_> = old.iter().copied().zip(new.iter().copied()).collect();
        assert!(pending.links().eq(links), "every link of the batch is known");
        let mut worker = pool.worker().unwrap();
        worker.resolve_batch(pending, done).unwrap();
        let (kept, byte, shift) = if done { (&new, 2, 1) } else { (&old, 1, 0) };
        assert_eq!(audit(&pool, kept, &[]), AuditReport::default());
        // The pool is used to its end, and nothing lies over what is kept.
        while worker.alloc_run(KIND, 4096, |_, _| Ok(())).is_ok() {}
        assert_eq!(audit(&pool, kept, &pool.runs(KIND).unwrap()), AuditReport::default());
        for (i, record) in kept.iter().enumerate() {
            let content = vec![byte; bytes_of(i + shift)];
            assert_eq!(pool.pin().record(*record).unwrap(), content);
        }
    }
}

#[test]
fn blocks_in_doubt_are_kept_until_they_are_settled() {
    let cut = Pool::create(Traced::new(BYTES, BYTES, 1).unwrap(), &format()).unwrap();
    let mut worker = cut.worker().unwrap();
    let new = worker.begin_doubt(PPtr::NULL, Some(&[b"in doubt"])).unwrap().unwrap();
    worker.state_doubt().unwrap();
    // The entry is durable, and the bit is not.
    let image = cut.media().image();
    let (pool, opened) = Pool::open(Traced::from_image(&image, BYTES, 2).unwrap()).unwrap();
    assert_eq!(opened.doubts.len(), 1);
    let mut worker = pool.worker().unwrap();
    let link = |_| {
        let record = worker.begin_link(PPtr::NULL, Some(&[b"of another"])).unwrap();
        worker.end_link(true).map(|()| record).unwrap()
    };
    let mut records: Vec<_> = (0..200).map(link).collect();
    assert!(!records.contains(&new), "it has gone to another");
    assert_eq!(pool.end_doubts(&opened.doubts, &[true]).unwrap(), 1);
    records.push(new);
    assert_eq!(pool.pin().record(new).unwrap(), b"in doubt");
    assert_eq!(audit(&pool, &records, &[]), AuditReport::default());
}

#[test]
fn what_a_batch_decides_about_is_in_no_doubt() {
    let cut = Pool::create(Traced::new(BYTES, BYTES, 1).unwrap(), &format()).unwrap();
    let mut workers = [cut.worker().unwrap(), cut.worker().unwrap()];
    let doubt = |worker: &mut Worker<Traced>, old| {
        let new = worker.begin_doubt(old, Some(&[b"in doubt"])).unwrap().unwrap();
        worker.state_doubt().unwrap();
        worker.mark_doubt().unwrap();
        worker.end_doubt().map(|()| new).unwrap()
    };
    let [first, other] = [PPtr::NULL; 2].map(|old| doubt(&mut workers[0], old));
    let second = doubt(&mut workers[0], first);
    workers[1].begin_batch();
    let third = workers[1].stage(second, Some(&[b"of a batch"])).unwrap();
    workers[1].log_batch().unwrap();
    workers[1].commit_batch().unwrap();

    let image = cut.media().image();
    let (pool, opened) = Pool::open(Traced::from_image(&image, BYTES, 2).unwrap()).unwrap();
    let doubted: Vec<_> = opened.doubts.iter().map(|doubt| doubt.record()).collect();
    assert!(!doubted.contains(&second) && !doubted.contains(&third), "{doubted:?}");
    let mut worker = pool.worker().unwrap();
    worker.resolve_batch(&opened.pending_batches[0], true).unwrap();
    pool.end_doubts(&opened.doubts, &vec![false; doubted.len()]).unwrap();
    assert_eq!(audit(&pool, &[other, third], &[]), AuditReport::default());
}
