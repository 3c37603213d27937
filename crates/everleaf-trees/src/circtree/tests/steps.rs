//! Single steps of a node of 8 entries, from every slot, with every number of entries, at every position, by words that do not tell entries apart by
//! their values and by what dead slots hold: cut after each store, with only the stores of whole lines in doubt that the model of `docs/persistence-model.md`
//! leaves in doubt there. The explorer does this with whole trees; here no state is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everleaf_index::U64Keys;
use everleaf_pmem::{Event, LINE, Media, PPtr, Traced};
use everleaf_pool::{KeyType, Pool, Shutdown};

use super::super::insert::insert_entry;
use super::super::layout::{Anchor, State};
use super::super::node::Node;
use super::super::remove::remove_entry;
use super::super::{CircTree, ROOT};
use super::format;

const SLOTS: usize = 8;

/// A pool of one leaf in a given state.
fn leaf(state: State, keys: impl Fn(usize) -> u64, values: impl Fn(usize) -> u64, dead: u64) -> (Traced, u64) {
    let media = Traced::new(64 << 10, 64 << 10, 1).unwrap();
    let pool = Pool::create(media.clone(), &format(KeyType::U64, SLOTS as u64)).unwrap();
    drop(CircTree::<U64Keys, _>::open(&pool, SLOTS, false, Shutdown::Clean).unwrap());
    let offset = media.load(&pool.anchor::<Anchor>().unwrap().root).offset();
    let node = Node::at(&pool, offset, SLOTS).unwrap();
    for slot in 0..SLOTS {
        media.store(node.key(slot), dead);
        media.store(node.value(slot), !dead);
    }
    for position in 0..usize::from(state.count) {
        let slot = node.slot(state, position);
        media.store(node.key(slot), keys(position));
        media.store(node.value(slot), values(position));
    }
    media.store(&node.head.state, state.seal());
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

/// Every image that a crash after `events` can have left: of each line with stores that are not certainly durable, any number of its first.
fn images(before: &[u64], events: &[Event]) -> Vec<Vec<u64>> {
    let mut lines = BTreeMap::<u64, LineStores>::new();
    for event in events {
        match *event {
            Event::Store { offset, new, .. } => lines.entry(offset / LINE as u64).or_default().stores.push((offset, new)),
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
fn content(image: &[u64]) -> Vec<(u64, u64)> {
    let media = Traced::from_image(image, 64 << 10, 1).unwrap();
    media.record(false, false);
    let (pool, opened) = Pool::open(media).unwrap();
    let tree = CircTree::<U64Keys, _>::open(&pool, SLOTS, false, opened.shutdown).unwrap();
    super::assert_sound(&pool, &tree as &dyn everleaf_index::Index<U64Keys>);
    let node = Node::at(&pool, pool.media().load(&pool.anchor::<Anchor>().unwrap().root).offset(), SLOTS).unwrap();
    let state = node.state(pool.media()).unwrap();
    (0..usize::from(state.count)).map(|position| node.entry(pool.media(), state, position)).collect()
}

fn cut_everywhere(state: State, dead: u64, values: impl Fn(usize) -> u64 + Copy, run: impl Fn(&Traced, Node<'_>)) -> usize {
    let keys = |position: usize| position as u64 * 2 + 10;
    let (media, offset) = leaf(state, keys, values, dead);
    let image = media.image();
    let pool: Arc<Pool<Traced>> = Pool::open(media.clone()).unwrap().0;
    media.take_events();
    run(&media, Node::at(&pool, offset, SLOTS).unwrap());
    let events = media.take_events();
    let (before, after) = (content(&image), content(&media.image()));
    assert_ne!(before, after);
    let mut seen = BTreeSet::new();
    for end in 0..=events.len() {
        for image in images(&image, &events[..end]) {
            if seen.insert(image.clone()) {
                let found = content(&image);
                assert!(found == before || found == after, "{state:?}, dead {dead}: after {end} of {events:#?}: {found:?}");
                assert!(end < events.len() || found == after, "{state:?}: it has returned, and is undone");
            }
        }
    }
    seen.len()
}

#[test]
fn a_step_that_is_cut_has_happened_or_not_from_every_slot_with_every_number_of_entries() {
    assert_eq!(ROOT, PPtr::<u64>::NULL.offset());
    let mut states = 0;
    for base in 0..SLOTS as u16 {
        for count in 1..=SLOTS as u16 {
            let state = State::at_rest(0, base, count);
            for at in 0..=usize::from(count) {
                // Values that are all alike, and different ones; dead slots with a key of the node, the last, and another one.
                for (alike, dead) in [(true, 0), (false, u64::from(count) * 2 + 8), (false, 0), (false, 99)] {
                    let values = move |position: usize| if alike { 0 } else { position as u64 + 50 };
                    if count < SLOTS as u16 {
                        states += cut_everywhere(state, dead, values, |media, node| {
                            insert_entry::<U64Keys, _>(media, node, state, at, at as u64 * 2 + 9, 7);
                        });
                    }
                    if at < usize::from(count) {
                        states +=
                            cut_everywhere(state, dead, values, |media, node| remove_entry::<U64Keys, _>(media, node, state, at));
                    }
                }
            }
        }
    }
    println!("{states} states");
}
