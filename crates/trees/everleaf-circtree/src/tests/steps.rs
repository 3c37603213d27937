//! Single steps of a node of 8 entries, from every slot, with every number of entries, at every
//! position, by words that do not tell entries apart by their values and by what dead slots hold:
//! cut after each store, with only the stores of whole lines in doubt that the model of
//! `docs/persistence-model.md` leaves in doubt there. The explorer does this with whole trees; here
//! no state is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everleaf_crash::{Event, Traced};
use everleaf_index::U64Keys;
use everleaf_pmem::{LINE, Media};
use everleaf_pool::{KeyType, Pool, Shutdown};

use super::super::SortedTree;
use super::super::layout::{Anchor, Discipline, Shape, State};
use super::super::node::Node;
use super::format;
use crate::shifted;
use everleaf_tree::steps::Steps;

const SLOTS: usize = 8;

/// How the nodes are kept; of arrays in the next session.
fn shape(pool: &Arc<Pool<Traced>>, shifted: bool) -> Shape {
    let discipline = if shifted { shifted::begin_session(pool).unwrap() } else { Discipline::Ring };
    Shape { slots: SLOTS, discipline }
}

/// A pool of one leaf in a given state.
fn leaf(
    state: State,
    shifted: bool,
    keys: impl Fn(usize) -> u64,
    values: impl Fn(usize) -> u64,
    dead: u64,
) -> (Traced, u64) {
    let media = Traced::new(64 << 10, 64 << 10, 1).unwrap();
    let pool = Pool::create(media.clone(), &format(KeyType::U64, SLOTS as u64)).unwrap();
    let shape = shape(&pool, shifted);
    drop(SortedTree::<U64Keys, _>::open(&pool, shape, false, Shutdown::Clean).unwrap());
    let offset = media.load(&pool.index_root::<Anchor>().unwrap().root).offset();
    let node = Node::at(&pool, offset, shape).unwrap();
    for slot in 0..SLOTS {
        media.store(node.key(slot), dead);
        media.store(node.value(slot), !dead);
    }
    for position in 0..usize::from(state.count) {
        let slot = node.slot(state, position);
        media.store(node.key(slot), keys(position));
        media.store(node.value(slot), values(position));
    }
    if state.count > 0 {
        node.terminate(&media, state.count.into());
    }
    media.store(&node.head.state, node.at_rest(state.level, state.base, state.count.into()).seal());
    media.store(&node.head.key, dead);
    media.take_events();
    (media, offset)
}

/// What was stored to a line, in order.
#[derive(Default)]
struct LineStores {
    stores: Vec<(u64, u64)>,
    /// So many are durable for certain.
    durable: usize,
    /// So many will be at the next fence.
    flushed: usize,
}

/// Every image that a crash after `events` can have left: of each line with stores that are not
/// certainly durable, any number of its first.
fn images(before: &[u64], events: &[Event]) -> Vec<Vec<u64>> {
    let mut lines = BTreeMap::<u64, LineStores>::new();
    for event in events {
        match *event {
            Event::Store { offset, new, .. } => {
                lines.entry(offset / LINE as u64).or_default().stores.push((offset, new))
            }
            Event::Flush { line, .. } => {
                if let Some(line) = lines.get_mut(&line) {
                    line.flushed = line.stores.len();
                }
            }
            Event::Fence { .. } => lines.values_mut().for_each(|line| line.durable = line.flushed),
            _ => {}
        }
    }
    let mut images = vec![before.to_vec()];
    for LineStores { stores, durable, .. } in lines.values() {
        let choices = images.into_iter().flat_map(|image| {
            (*durable..=stores.len()).map(move |kept| {
                let mut image = image.clone();
                stores[..kept].iter().for_each(|(offset, new)| image[*offset as usize / 8] = *new);
                image
            })
        });
        images = choices.collect();
    }
    images
}

/// What a recovery makes of an image.
fn content(image: &[u64], shifted: bool) -> Vec<(u64, u64)> {
    let media = Traced::from_image(image, 64 << 10, 1).unwrap();
    media.record(false, false);
    let (pool, opened) = Pool::open(media).unwrap();
    let shape = shape(&pool, shifted);
    let tree = SortedTree::<U64Keys, _>::open(&pool, shape, false, opened.shutdown).unwrap();
    everleaf_conformance::assert_sound(&pool, &tree as &dyn everleaf_index::Index<U64Keys>);
    let node = Node::at(
        &pool,
        pool.media().load(&pool.index_root::<Anchor>().unwrap().root).offset(),
        shape,
    )
    .unwrap();
    let state = node.state(pool.media()).unwrap();
    (0..usize::from(state.count))
        .map(|position| node.entry(pool.media(), state, position))
        .collect()
}

/// One step.
#[derive(Clone, Copy, Debug)]
enum Action {
    Insert(usize),
    Remove(usize),
}

/// Runs steps one after the other on a leaf, and cuts them everywhere; the number of images.
fn cut_everywhere(
    state: State,
    shifted: bool,
    dead: u64,
    values: impl Fn(usize) -> u64 + Copy,
    actions: &[Action],
) -> usize {
    // The first key of an array may be 0, which ends an array elsewhere.
    let key = |position: usize| if shifted && position == 0 { 0 } else { position as u64 * 4 + 10 };
    let (media, offset) = leaf(state, shifted, key, values, dead);
    let pool: Arc<Pool<Traced>> = Pool::open(media.clone()).unwrap().0;
    let shape = shape(&pool, shifted);
    let node = Node::at(&pool, offset, shape).unwrap();
    let state = node.state(&media).unwrap();
    node.end_step(&media, state).unwrap();
    let image = media.image();
    media.take_events();
    let (mut events, mut ends, mut contents) =
        (Vec::new(), Vec::new(), vec![content(&image, shifted)]);
    for act in actions {
        let state = node.state(&media).unwrap();
        match *act {
            Action::Insert(at) => {
                // Between its neighbours.
                let before =
                    at.checked_sub(1).map_or(0, |before| node.entry(&media, state, before).0);
                let behind = if at < usize::from(state.count) {
                    node.entry(&media, state, at).0
                } else {
                    before + 8
                };
                let key = before.midpoint(behind);
                node.insert::<U64Keys, _>(&media, state, at, (key, 7), &mut Steps::none());
            }
            Action::Remove(at) => node.remove::<U64Keys, _>(&media, state, at),
        }
        events.extend(media.take_events());
        ends.push(events.len());
        contents.push(content(&media.image(), shifted));
    }
    let mut seen = BTreeSet::new();
    for end in 0..=events.len() {
        let done = ends.iter().filter(|until| **until <= end).count();
        for image in images(&image, &events[..end]) {
            if seen.insert((done, image.clone())) {
                let found = content(&image, shifted);
                let right = contents[done..].iter().take(2).any(|content| *content == found);
                assert!(
                    right,
                    "{state:?}, dead {dead}, {actions:?}: {done} done, {found:?} after {end} of \
                    {events:#?}"
                );
            }
        }
    }
    seen.len()
}

/// All steps that a leaf with so many entries can make.
fn actions(count: usize) -> impl Iterator<Item = Action> {
    let inserts = (0..=count).filter(move |_| count < SLOTS).map(Action::Insert);
    inserts.chain((0..count).map(Action::Remove))
}

/// Where the first entry may be.
fn bases(shifted: bool) -> std::ops::Range<u16> {
    if shifted { 0..1 } else { 0..SLOTS as u16 }
}

#[test]
fn a_step_that_is_cut_has_happened_or_not_from_every_slot_with_every_number_of_entries() {
    for shifted in [false, true] {
        let mut states = 0;
        for base in bases(shifted) {
            for count in u16::from(!shifted)..=SLOTS as u16 {
                let last_key = u64::from(count) * 4 + 6;
                for act in actions(count.into())
                    .filter(|act| !shifted || count == 0 || !matches!(act, Action::Insert(0)))
                {
                    // Values that are all alike, and different ones; dead slots with a key of the
                    // node, its last one, and another one.
                    for (alike, dead) in
                        [(true, 10), (false, last_key), (false, 10), (false, 9999), (true, 0)]
                    {
                        let values =
                            move |position: usize| if alike { 0 } else { position as u64 + 50 };
                        states += cut_everywhere(
                            State::at_rest(0, base, count),
                            shifted,
                            dead,
                            values,
                            &[act],
                        );
                    }
                }
            }
        }
        println!("{states} states, shifted: {shifted}");
    }
}

#[test]
fn a_step_after_another_whose_end_is_not_durable_has_happened_or_not() {
    for shifted in [false, true] {
        let mut states = 0;
        for base in bases(shifted).step_by(3) {
            for count in 3..SLOTS as u16 {
                for first in actions(count.into()).skip(usize::from(shifted)) {
                    let between = usize::from(count) + 1
                        - 2 * usize::from(matches!(first, Action::Remove(_)));
                    for second in actions(between).skip(usize::from(shifted)) {
                        let values = |position: usize| position as u64 + 50;
                        states += cut_everywhere(
                            State::at_rest(0, base, count),
                            shifted,
                            14,
                            values,
                            &[first, second],
                        );
                    }
                }
            }
        }
        println!("{states} states, shifted: {shifted}");
    }
}
