//! Damage is an error or a violation, never a panic and never an endless loop.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::{Direction, Index, IndexError, U64Keys};
use everleaf_pmem::{Media, PCell, PPtr, Word};
use everleaf_pool::{Audit, Pool};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::super::layout::{Commit, LOG, LcbRoot, State};
use super::super::open;
use super::{BOTH, Logging, Parameters, TINY, assert_sound, format_of, opened};
use everleaf_tree::redo::Target;

const BYTES: u64 = 128 << 10;

type Opened = (Arc<Pool<Traced>>, Box<dyn Index<U64Keys>>);

/// A tree of some 60 keys in a pool that was not closed.
fn grown(logging: Logging) -> Opened {
    let traced = Traced::new(BYTES, BYTES, 7).unwrap();
    traced.record(false, false);
    let pool = Pool::create(traced, &format_of(Parameters { logging, ..TINY })).unwrap();
    let tree = opened(&pool);
    for i in 0..80 {
        tree.insert(i * 37 % 100, i).unwrap();
        if i % 5 == 0 {
            tree.remove(i * 37 % 100).unwrap();
        }
    }
    assert_sound(&pool, &*tree);
    (pool, tree)
}

fn reopened(pool: &Pool<Traced>) -> Result<Opened, IndexError> {
    let media = Traced::from_image(&pool.media().image(), BYTES, 3).unwrap();
    media.record(false, false);
    let (pool, _) = Pool::open(media)?;
    let tree = open(&pool)?;
    Ok((pool, tree))
}

fn refused(pool: &Pool<Traced>, part: &str) {
    let error = reopened(pool).map(drop).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

fn problems(tree: &dyn Index<U64Keys>) -> String {
    match tree.check(&mut Audit::new()) {
        Ok(report) => report.violations.join("; "),
        Err(e) => e.to_string(),
    }
}

fn cells(pool: &Pool<Traced>, offset: u64, count: usize) -> &[PCell] {
    pool.media().region().cells(offset, count).unwrap()
}

/// The root, and its second child.
fn root_and_child(pool: &Pool<Traced>) -> (u64, u64) {
    let media = pool.media();
    let root = media.load(&pool.index_root::<LcbRoot>().unwrap().root).offset();
    (root, media.load(&cells(pool, root + 64, 6)[5]))
}

#[test]
fn a_state_that_cannot_be_is_found() {
    let (pool, tree) = grown(Logging::WholeNodes);
    let (root, child) = root_and_child(&pool);
    let media = pool.media();
    let state = cells(&pool, child, 1)[0].view::<State>();
    let right = media.load(state);
    for wrong in [State::new(right.level() as u8, 5), State::new(200, 2)] {
        media.store(state, wrong);
        assert!(problems(&*tree).contains("I1"), "{}", problems(&*tree));
        refused(&pool, "more elements than slots");
        (0..200).for_each(|key| _ = tree.upsert(key, key));
    }
    media.store(state, State::new(right.level() as u8 + 1, 2));
    assert!(problems(&*tree).contains("not of the level below"));
    refused(&pool, "not of the level below");
    media.store(state, State::new(right.level() as u8, 0));
    assert!(problems(&*tree).contains("I4"));
    refused(&pool, "leads nowhere");
    media.store(state, right);
    assert_eq!(problems(&*tree), "");
    let state = cells(&pool, root, 1)[0].view::<State>();
    media.store(state, State::new(media.load(state).level() as u8, 1));
    assert!(problems(&*tree).contains("I4"));
}

#[test]
fn an_inner_node_that_leads_astray_is_found() {
    let (pool, tree) = grown(Logging::WholeNodes);
    let (root, child) = root_and_child(&pool);
    let (media, pointer) = (pool.media(), &cells(&pool, root + 64, 6)[5]);
    let first = media.load(&cells(&pool, root + 64, 3)[2]);
    for (leads, part) in [(first, "twice"), (u64::MAX - 63, "outside the pool"), (root, "level")] {
        media.store(pointer, leads);
        refused(&pool, part);
        assert!(!problems(&*tree).is_empty());
        (0..200).for_each(|key| _ = tree.upsert(key, key));
    }
    media.store(pointer, child);
}

#[test]
fn elements_without_a_mark_and_keys_out_of_order_are_found() {
    let (pool, tree) = grown(Logging::Ranges);
    let (root, _) = root_and_child(&pool);
    let mut leaf = root;
    while pool.media().load(cells(&pool, leaf, 1)[0].view::<State>()).level() > 0 {
        leaf = pool.media().load(&cells(&pool, leaf + 64, 3)[2]);
    }
    let (media, element) = (pool.media(), cells(&pool, leaf + 64, 6));
    let key = media.load(&element[4]);
    media.store(&element[4], 0);
    assert!(problems(&*tree).contains("I2"));
    media.store(&element[4], u64::MAX);
    assert!(problems(&*tree).contains("I3"));
    media.store(&element[4], key);
    assert_eq!(problems(&*tree), "");
    media.store(&element[3], 0);
    assert!(problems(&*tree).contains("has no mark"));
}

#[test]
fn a_log_that_goes_astray_is_refused() {
    for logging in BOTH {
        let (pool, _tree) = grown(logging);
        let log = pool.runs(LOG).unwrap()[0];
        let half_words = super::super::layout::Shape::new(4).unwrap().half_words();
        let halves = [0, half_words as u64 * 8].map(|half| log.offset + half);
        let media = pool.media();
        let commits = halves.map(|half| media.load(cells(&pool, half, 1)[0].view::<Commit>()));
        let newest = usize::from(commits[1].is_after(commits[0]));
        let (half, right) = (cells(&pool, halves[newest], 2), commits[newest]);
        for words in [0, 64, log.offset, u64::MAX - 63] {
            let target = media.load(&half[1]);
            media.store(&half[1], Target::new(words / 8 * 8 % (1 << 40), 1).into_word());
            refused(&pool, "a record of the log goes into no node");
            media.store(&half[1], target);
        }
        media.store(half[0].view(), Commit::NONE.next(half_words));
        media.store(cells(&pool, halves[1 - newest], 1)[0].view(), Commit::NONE);
        if newest == 1 {
            refused(&pool, "more records than room");
        }
        media.store(half[0].view(), right);
        media.store(cells(&pool, halves[1 - newest], 1)[0].view(), commits[1 - newest]);
        assert!(reopened(&pool).is_ok());
    }
}

/// The commit words of both halves of the log, that of the newest operation first.
fn commits(pool: &Pool<Traced>) -> [&PCell<Commit>; 2] {
    let log = pool.runs(LOG).unwrap()[0];
    let half_words = super::super::layout::Shape::new(TINY.slots).unwrap().half_words() as u64;
    let halves = [0, 1].map(|half| cells(pool, log.offset + half * half_words * 8, 1)[0].view());
    let [even, odd] = halves.map(|half| pool.media().load::<Commit>(half));
    if odd.is_after(even) { [halves[1], halves[0]] } else { halves }
}

#[test]
fn a_log_whose_halves_are_not_of_two_operations_in_a_row_is_refused_and_changes_nothing() {
    for logging in BOTH {
        let (pool, _tree) = grown(logging);
        let (media, [newest, before]) = (pool.media(), commits(&pool));
        let (right, older) = (media.load(newest), media.load(before));
        let numbered =
            |number: u32, words: usize| Commit::from_word(u64::from(number) << 32 | words as u64);
        for (cell, number) in (0..32).flat_map(|bit| [(newest, bit), (before, bit)]) {
            let commit = media.load(cell);
            let damaged = commit.sequence() ^ 1 << number;
            // A step of two that leaves the halves neighbours is all that cannot be told.
            let (one, other) =
                if std::ptr::eq(cell, newest) { (damaged, older) } else { (damaged, right) };
            if one.wrapping_sub(other.sequence()).wrapping_add(1) <= 2
                && one % 2 != other.sequence() % 2
            {
                continue;
            }
            media.store(cell, numbered(damaged, commit.words()));
            refused(&pool, "two operations in a row");
            media.store(cell, commit);
        }
        assert!(reopened(&pool).is_ok());
    }
}

#[test]
fn a_tree_that_has_lost_its_root_is_refused_and_not_taken_for_a_fresh_one() {
    for logging in BOTH {
        let (pool, tree) = grown(logging);
        assert!(tree.update(37, 5).unwrap().is_some());
        pool.media().store(&pool.index_root::<LcbRoot>().unwrap().root, PPtr::NULL);
        refused(&pool, "the tree has no root any more");
    }
}

#[test]
fn a_log_with_a_record_that_goes_astray_is_refused_before_another_is_stored() {
    // The insertion splits a leaf: its log has several records.
    let (pool, tree) = grown(Logging::WholeNodes);
    let media = pool.media();
    let splits = |key: &u64| {
        let before = tree.statistics().leaves;
        tree.insert(*key, 1).unwrap() && tree.statistics().leaves > before
    };
    assert!((1000..1010).any(|key| splits(&key)));
    let commit = commits(&pool)[0];
    let records = cells(
        &pool,
        pool.media().region().pointer_to(commit).offset(),
        1 + media.load(commit).words(),
    );
    let first = Target::from_word(media.load(&records[1]));
    let second = 2 + first.words();
    assert!(second < records.len());
    media.store(&records[second], Target::new(64, 1).into_word());
    let place = &cells(&pool, first.offset(), first.words())[0];
    media.store(place, 99);
    let image = pool.media().image();
    let media = Traced::from_image(&image, BYTES, 3).unwrap();
    media.record(false, false);
    let (pool, _) = Pool::open(media).unwrap();
    assert!(open::<U64Keys, _>(&pool).is_err());
    let place = &cells(&pool, first.offset(), first.words())[0];
    assert_eq!(pool.media().load(place), 99, "nothing was stored");
}

/// Words of the pool overwritten at random: whatever is done then ends, with any outcome but a
/// panic.
fn fuzz(logging: Logging, seed: u64) {
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (pool, _tree) = grown(logging);
    let image = pool.media().image();
    let mut opened_though_damaged = 0;
    for _ in 0..300 {
        let mut damaged = image.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..damaged.len());
            damaged[at] = match random.random_range(0..4) {
                0 => 0,
                1 => damaged[at] ^ 1 << random.random_range(0..64),
                2 => damaged[random.random_range(0..image.len())],
                _ => random.next_u64(),
            };
        }
        let media = Traced::from_image(&damaged, BYTES, 3).unwrap();
        media.record(false, false);
        let Ok((pool, _)) = Pool::open(media) else { continue };
        let Ok(tree) = open(&pool) else { continue };
        opened_though_damaged += 1;
        let _ = problems(&*tree);
        let all = &mut |_: u64, _: &[u64]| ControlFlow::Continue(());
        let _ = tree.scan(Bound::Unbounded, Direction::Backward, all);
        for i in 0..100 {
            let key = random.random_range(0..100);
            let _ = match i % 4 {
                0 => tree.insert(key, 1).map(drop),
                1 => tree.remove(key).map(drop),
                2 => tree.upsert(key, 1).map(drop),
                _ => tree.get(key).map(drop),
            };
        }
        let _ = problems(&*tree);
    }
    assert!(opened_though_damaged > 10, "damage was to be met by operations too");
}

#[test]
fn random_damage_never_panics() {
    for (seed, logging) in (1..5).zip(BOTH.into_iter().cycle()) {
        fuzz(logging, seed);
    }
}
