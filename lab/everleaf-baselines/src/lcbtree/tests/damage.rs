//! Damage is an error or a violation, never a panic and never an endless loop.

use std::convert::identity;

use everleaf_conformance::damage::{self, cells, finds, fuzz, reopened, violations};
use everleaf_conformance::{Opened, image_of};
use everleaf_crash::Traced;
use everleaf_index::U64Keys;
use everleaf_pmem::{Media, PCell, PPtr, Word};
use everleaf_pool::Pool;
use everleaf_tree::redo::Target;

use super::super::layout::{Commit, LOG, LcbRoot, Shape, State};
use super::super::open;
use super::{BOTH, Logging, Parameters, TINY};

const BYTES: u64 = 128 << 10;

fn grown(logging: Logging) -> Opened<U64Keys, Traced> {
    damage::grown(Parameters { logging, ..TINY }, BYTES, identity)
}

fn refused(pool: &Pool<Traced>, part: &str) {
    damage::refused(TINY, pool, part);
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
        finds(&*tree, "I1");
        refused(&pool, "more elements than slots");
        (0..200).for_each(|key| _ = tree.upsert(key, key));
    }
    media.store(state, State::new(right.level() as u8 + 1, 2));
    finds(&*tree, "not of the level below");
    refused(&pool, "not of the level below");
    media.store(state, State::new(right.level() as u8, 0));
    finds(&*tree, "I4");
    refused(&pool, "leads nowhere");
    media.store(state, right);
    assert_eq!(violations(&*tree), "");
    let state = cells(&pool, root, 1)[0].view::<State>();
    media.store(state, State::new(media.load(state).level() as u8, 1));
    finds(&*tree, "I4");
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
        assert!(!violations(&*tree).is_empty());
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
    finds(&*tree, "I2");
    media.store(&element[4], u64::MAX);
    finds(&*tree, "I3");
    media.store(&element[4], key);
    assert_eq!(violations(&*tree), "");
    media.store(&element[3], 0);
    finds(&*tree, "has no mark");
}

#[test]
fn a_log_that_goes_astray_is_refused() {
    for logging in BOTH {
        let (pool, _tree) = grown(logging);
        let log = pool.runs(LOG).unwrap()[0];
        let half_words = Shape::new(4).unwrap().half_words();
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
        assert!(reopened(TINY, &pool).is_ok());
    }
}

/// The commit words of both halves of the log, that of the newest operation first.
fn commits(pool: &Pool<Traced>) -> [&PCell<Commit>; 2] {
    let log = pool.runs(LOG).unwrap()[0];
    let half_words = Shape::new(TINY.slots).unwrap().half_words() as u64;
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
        assert!(reopened(TINY, &pool).is_ok());
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
    let (pool, _) = Pool::open(image_of(&pool.media().image())).unwrap();
    assert!(open::<U64Keys, _>(&pool).is_err());
    let place = &cells(&pool, first.offset(), first.words())[0];
    assert_eq!(pool.media().load(place), 99, "nothing was stored");
}

#[test]
fn random_damage_never_panics() {
    for (seed, logging) in (1..5).zip(BOTH.into_iter().cycle()) {
        fuzz(Parameters { logging, ..TINY }, BYTES, identity, seed);
    }
}
