//! The external log in memory that held something else before.

use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf_crash::{Event, Traced};
use everleaf_index::{Index, U64Keys};
use everleaf_pmem::{Cpu, LINE, Mapped, Media, PPtr, Region, WORD};
use everleaf_pool::{Format, KeyType, Pool};

use super::super::layout::{
    KIND, LOG_KIND, LOGGED_LINES, LOGGED_WORDS, NODE_BYTES, NODE_WORDS, Node,
};
use super::super::log::{Segment, apply};
use super::super::{OFFER, TUNED, open};

/// The number of the epoch that fails.
const EPOCH: u64 = 5;
const BYTES: u64 = 64 << 10;

/// What is durable of an image after these events.
fn durable(mut image: Vec<u64>, events: Vec<Event>) -> Vec<u64> {
    let mut stored: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut flushed = Vec::new();
    for event in events {
        match event {
            Event::Store { offset, new, .. } => {
                stored.entry(offset / LINE as u64).or_default().push((offset, new));
            }
            Event::Flush { line, .. } => flushed.extend(stored.remove(&line).unwrap_or_default()),
            Event::Fence { .. } => {
                flushed.drain(..).for_each(|(offset, new)| image[offset as usize / WORD] = new)
            }
            _ => {}
        }
    }
    image
}

/// A run whose words are all `word`.
fn run_of(pool: &Arc<Pool<Traced>>, bytes: u64, word: u64) -> u64 {
    let fill = |pool: &Pool<Traced>, run: everleaf_pool::Run| {
        let cells = pool.media().region().cells(run.offset, run.bytes as usize / WORD).unwrap();
        cells.iter().for_each(|cell| pool.media().store(cell, word));
        Ok(())
    };
    pool.worker().unwrap().alloc_run(KIND, bytes, fill).unwrap().offset
}

#[test]
fn old_bytes_in_a_new_segment_are_no_entry_when_its_first_line_alone_is_durable() {
    let parameters = OFFER.pack(TUNED);
    let format = Format { engine: "masstree".into(), key_type: KeyType::U64, parameters };
    let media = Traced::new(BYTES, BYTES, 1).unwrap();
    let pool = Pool::create(media.clone(), &format).unwrap();
    // A node, and bytes of a user that look like an entry for it, in memory that is free again.
    let node = run_of(&pool, NODE_BYTES, 77);
    let old = run_of(&pool, 4096, EPOCH);
    let entry_bytes = (LOGGED_LINES * LINE) as u64;
    for entry in (old..old + 4096 - entry_bytes).step_by(entry_bytes as usize) {
        let (line, word) = (NODE_WORDS / LOGGED_WORDS, NODE_WORDS % LOGGED_WORDS);
        let place = entry + (line * LINE + word * WORD) as u64;
        media.store(&media.region().cells(place, 1).unwrap()[0], node);
    }
    pool.worker().unwrap().free_run(KIND, old).unwrap();
    media.take_events();
    let before = media.image();
    let mut segment = Segment::add(&mut pool.worker().unwrap(), 0).unwrap();
    let mut image = durable(before, media.take_events());
    // An entry is written, and power fails when its first line is durable, and no other.
    let other = pool.node::<Node>(PPtr::at(run_of(&pool, NODE_BYTES, 3))).unwrap();
    media.take_events();
    segment.write(&pool, other, node, EPOCH).unwrap();
    for event in media.take_events() {
        match event {
            Event::Store { offset, new, .. } if (old..old + LINE as u64).contains(&offset) => {
                image[offset as usize / WORD] = new;
            }
            _ => {}
        }
    }
    assert_eq!(
        image[old as usize / WORD + LOGGED_WORDS],
        EPOCH,
        "the segment is where the run was"
    );
    let media = Traced::from_image(&image, BYTES, 1).unwrap();
    let (pool, _) = Pool::open(media.clone()).unwrap();
    apply(&pool, EPOCH).unwrap();
    let words = media.region().cells(node, NODE_WORDS).unwrap();
    let changed = words.iter().filter(|cell| media.load(*cell) != 77).count();
    assert_eq!(changed, 0, "words of a node that was never logged are overwritten");
}

/// A tree of so many keys in an epoch that has ended, and updates that were logged since.
fn updated(keys: u64, updates: u64) -> (Arc<Pool<Mapped>>, Box<dyn Index<U64Keys>>) {
    let parameters = OFFER.pack(TUNED);
    let format = Format { engine: "masstree".into(), key_type: KeyType::U64, parameters };
    let region = Region::anonymous(1 << 20, 4 << 30).unwrap();
    let media = Mapped::new(region, &Cpu::detect()).unwrap();
    let pool = Pool::create(media, &format).unwrap();
    let tree = open::<U64Keys, _>(&pool, false).unwrap();
    let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for n in 0..keys {
        tree.insert(spread(n), n).unwrap();
        if n % 100_000 == 0 {
            tree.sync().unwrap();
        }
    }
    tree.sync().unwrap();
    // Of a line of values the second change in an epoch is logged, and those that follow are not.
    for n in 0..updates {
        tree.update(spread(spread(n) % keys), u64::MAX - n).unwrap();
    }
    (pool, tree)
}

#[test]
#[ignore = "a measurement: --release, gigabytes of memory"]
fn time_to_apply_the_log() {
    for keys in [1_000_000, 10_000_000] {
        let (pool, tree) = updated(keys, 400_000);
        let epoch = pool.durable_epoch().unwrap() + 1;
        let bytes: u64 = pool.runs(LOG_KIND).unwrap().iter().map(|run| run.bytes).sum();
        let times: Vec<f64> = (0..7)
            .map(|_| {
                let begun = std::time::Instant::now();
                apply(&pool, epoch).unwrap();
                begun.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        println!("{keys} keys, a log of {bytes} bytes: {times:.1?} ms");
        drop(tree);
        let begun = std::time::Instant::now();
        let tree = open::<U64Keys, _>(&pool, true).unwrap();
        println!("opened in {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(tree.len(), keys);
    }
}
