//! The images that the model allows, against cases counted by hand. A memory of two lines, words
//! 0..8 and 8..16.

use everleaf_crash::{Assumptions, Event, crash_images, crash_images_of_threads};
use everleaf_pmem::{Site, site};

const X: Site = site!("test.x");

fn store(word: u64, new: u64) -> Event {
    Event::Store { offset: word * 8, old: 0, new }
}
fn flush(line: u64) -> Event {
    Event::Flush { site: X, line }
}
fn fence() -> Event {
    Event::Fence { site: X }
}
/// A whole-line write: eight unordered stores of `value`.
fn write_line(line: u64, value: u64) -> Vec<Event> {
    (0..8)
        .map(|i| Event::UnorderedStore { site: X, offset: line * 64 + i * 8, old: 0, new: value })
        .collect()
}

/// The images as lists of the words that are not zero, sorted.
fn images_under(assumptions: Assumptions, events: &[Event]) -> Vec<Vec<(usize, u64)>> {
    let images = crash_images(&[0; 16], events, assumptions, 1 << 20).expect("few enough");
    let words =
        |image: Vec<u64>| image.into_iter().enumerate().filter(|(_, value)| *value != 0).collect();
    let mut lists: Vec<Vec<(usize, u64)>> = images.into_iter().map(words).collect();
    lists.sort();
    let count = lists.len();
    lists.dedup();
    assert_eq!(count, lists.len(), "an image was listed twice");
    lists
}

fn images(events: &[Event]) -> Vec<Vec<(usize, u64)>> {
    images_under(Assumptions::default(), events)
}

const ADR: Assumptions = Assumptions { eadr: false, atomic_line: false };
const EADR: Assumptions = Assumptions { eadr: true, atomic_line: false };
const ATOMIC_LINE: Assumptions = Assumptions { eadr: false, atomic_line: true };

#[test]
fn stores_to_one_line_become_durable_in_their_order() {
    let found = images(&[store(3, 1), store(1, 2), store(2, 3)]);
    assert_eq!(found, [vec![], vec![(1, 2), (2, 3), (3, 1)], vec![(1, 2), (3, 1)], vec![(3, 1)]]);
}

#[test]
fn lines_are_independent_of_each_other() {
    // Line 0: nothing, 1, 1+2. Line 1: nothing, 8, 8+9, 8+9+10.
    let found = images(&[store(0, 1), store(8, 1), store(9, 1), store(1, 1), store(10, 1)]);
    assert_eq!(found.len(), 3 * 4);
    assert!(found.contains(&vec![(8, 1), (9, 1), (10, 1)]));
    assert!(!found.contains(&vec![(1, 1)]), "the second store of line 0 without the first");
}

#[test]
fn a_flush_is_nothing_without_a_fence() {
    let stores = [store(0, 1), store(8, 1)];
    let flushed = [store(0, 1), flush(0), store(8, 1), flush(1)];
    assert_eq!(images(&stores), images(&flushed));
    assert_eq!(images(&flushed).len(), 4);
}

#[test]
fn a_fence_is_nothing_without_a_flush() {
    assert_eq!(images(&[store(0, 1), fence(), store(1, 1), fence()]).len(), 3);
}

#[test]
fn flush_and_fence_make_what_was_stored_before_the_flush_durable() {
    // Store 0 is captured by the flush; store 1 came after it and is still pending.
    let found = images(&[store(0, 1), flush(0), store(1, 1), fence(), store(2, 1)]);
    assert_eq!(found, [vec![(0, 1)], vec![(0, 1), (1, 1)], vec![(0, 1), (1, 1), (2, 1)]]);
    // A flush of the other line captures nothing here.
    assert_eq!(images(&[store(0, 1), flush(1), fence()]).len(), 2);
    // The last flush before the fence counts.
    assert_eq!(
        images(&[store(0, 1), flush(0), store(1, 1), flush(0), fence()]),
        [vec![(0, 1), (1, 1)]]
    );
}

#[test]
fn several_stores_to_one_word_leave_any_of_its_values() {
    assert_eq!(
        images(&[store(0, 1), store(0, 2), store(0, 1)]),
        [vec![], vec![(0, 1)], vec![(0, 2)]]
    );
    // After it was flushed with 2, the word is never 1 again.
    assert_eq!(
        images(&[store(0, 1), store(0, 2), flush(0), fence(), store(0, 3)]),
        [vec![(0, 2)], vec![(0, 3)]]
    );
}

#[test]
fn a_store_of_what_is_there_already_adds_no_image() {
    assert_eq!(images(&[store(0, 0), store(1, 0), store(8, 0)]), [vec![]]);
}

#[test]
fn unordered_stores_leave_any_subset_of_their_words() {
    assert_eq!(images(&write_line(0, 7)).len(), 256);
    // Together with a prefix of two ordinary stores to the other line.
    let events = [write_line(0, 7), vec![store(8, 1), store(9, 1)]].concat();
    assert_eq!(images(&events).len(), 256 * 3);
}

#[test]
fn a_fence_makes_unordered_stores_durable_and_a_flush_alone_does_not() {
    let mut events = write_line(0, 7);
    events.push(flush(0));
    assert_eq!(images(&events).len(), 256);
    events.push(fence());
    assert_eq!(images(&events), [(0..8).map(|word| (word, 7)).collect::<Vec<_>>()]);
}

#[test]
fn unordered_and_ordinary_stores_to_one_line_have_no_order() {
    let unordered = Event::UnorderedStore { site: X, offset: 0, old: 0, new: 5 };
    // Word 0 unordered, word 1 ordinary: all four combinations, in either program order.
    assert_eq!(images(&[unordered, store(1, 1)]).len(), 4);
    assert_eq!(images(&[store(1, 1), unordered]).len(), 4);
    // To one word, the later one wins where both are durable.
    assert_eq!(images(&[store(0, 1), unordered]), [vec![], vec![(0, 1)], vec![(0, 5)]]);
    // The fence makes 5 durable; the older ordinary store cannot bring 1 back.
    assert_eq!(images(&[store(0, 1), unordered, fence()]), [vec![(0, 5)]]);
    assert_eq!(images(&[unordered, store(0, 1), fence()]), [vec![(0, 1)], vec![(0, 5)]]);
}

#[test]
fn atomic_line_leaves_a_line_write_whole_or_not_at_all() {
    let whole: Vec<(usize, u64)> = (0..8).map(|word| (word, 7)).collect();
    assert_eq!(images_under(ATOMIC_LINE, &write_line(0, 7)), [vec![], whole]);
    // Two writes of one line: nothing, the first, the second (which may overtake the first).
    let twice = [write_line(0, 7), write_line(0, 8)].concat();
    assert_eq!(images_under(ATOMIC_LINE, &twice).len(), 3);
    // Neighbouring lines are two writes.
    let both = [write_line(0, 7), write_line(1, 7)].concat();
    assert_eq!(images_under(ATOMIC_LINE, &both).len(), 4);
    // Ordinary stores are as ever.
    assert_eq!(
        images_under(ATOMIC_LINE, &[store(0, 1), store(1, 1)]),
        images_under(ADR, &[store(0, 1), store(1, 1)])
    );
}

#[test]
fn eadr_makes_stores_durable_in_program_order_across_lines() {
    // Not fenced: whatever left the store buffer, which is a prefix.
    let found = images_under(EADR, &[store(0, 1), store(8, 1), store(1, 1)]);
    assert_eq!(found, [vec![], vec![(0, 1)], vec![(0, 1), (1, 1), (8, 1)], vec![(0, 1), (8, 1)]]);
    // Fenced: visible is durable, one image, and no flush was needed.
    assert_eq!(images_under(EADR, &[store(0, 1), store(8, 1), fence()]), [vec![(0, 1), (8, 1)]]);
    assert_eq!(
        images_under(EADR, &[store(0, 1), flush(0), store(8, 1)]).len(),
        3,
        "a flush does not empty the store buffer"
    );
    // Line writes stay unordered.
    assert_eq!(images_under(EADR, &write_line(0, 7)).len(), 256);
}

// ---- several threads
// -------------------------------------------------------------------------------------------------

fn of_threads(assumptions: Assumptions, events: &[(u16, Event)]) -> usize {
    crash_images_of_threads(&[0; 16], events, assumptions, 1 << 20).expect("few enough").len()
}

#[test]
fn a_fence_waits_for_the_flushes_of_its_own_thread_only() {
    let started = [(1, store(0, 1)), (1, flush(0))];
    let then = |events: &[(u16, Event)]| of_threads(ADR, &[&started[..], events].concat());
    assert_eq!(then(&[(2, fence())]), 2, "another thread's fence");
    assert_eq!(then(&[(2, fence()), (1, fence())]), 1, "its own");
    assert_eq!(
        then(&[(2, flush(0)), (2, fence())]),
        1,
        "another thread's flush and fence make durable what any thread stored"
    );
    // A flush captures what stood there, whichever thread stored it, and nothing that came later.
    assert_eq!(then(&[(2, store(1, 1)), (1, fence())]), 2);
    assert_eq!(then(&[(2, store(1, 1)), (2, flush(0)), (1, fence())]), 2);
    assert_eq!(then(&[(2, store(1, 1)), (2, flush(0)), (1, fence()), (2, fence())]), 1);
}

#[test]
fn unordered_stores_wait_for_a_fence_of_their_own_thread() {
    let write: Vec<(u16, Event)> = write_line(0, 7).into_iter().map(|event| (1, event)).collect();
    let then = |event| of_threads(ADR, &[&write[..], &[event]].concat());
    assert_eq!((then((2, fence())), then((1, fence()))), (256, 1));
}

#[test]
fn stores_of_several_threads_to_one_line_have_the_order_in_which_they_became_visible() {
    assert_eq!(of_threads(ADR, &[(1, store(0, 1)), (2, store(1, 1)), (1, store(2, 1))]), 4);
}

#[test]
fn with_eadr_a_fence_empties_the_store_buffer_of_its_own_thread() {
    let events = [(1, store(0, 1)), (2, store(8, 1)), (1, store(1, 1)), (2, store(9, 1))];
    let then = |thread| of_threads(EADR, &[&events[..], &[(thread, fence())]].concat());
    assert_eq!(of_threads(EADR, &events), 5);
    // What became visible before its last store is durable with it; the other thread's last store
    // is not, or is.
    assert_eq!((then(1), then(2)), (2, 1));
}

#[test]
fn grown_memory_is_durable_and_its_content_pending() {
    let images = crash_images(&[0; 8], &[Event::Grow { len: 128 }, store(8, 1)], ADR, 10).unwrap();
    assert!(images.len() == 2 && images.iter().all(|image| image.len() == 16));
}

#[test]
fn the_example_of_the_documentation_is_right() {
    let before_the_fence = [store(0, 1), store(1, 2), flush(0), store(8, 3), store(2, 4)];
    let found = images(&before_the_fence);
    assert_eq!(found.len(), 8);
    assert!(found.contains(&vec![(8, 3)]));
    let found = images(&[&before_the_fence[..], &[fence()]].concat());
    let a = [(0, 1), (1, 2)];
    let with = |more: &[(usize, u64)]| [&a[..], more].concat();
    assert_eq!(found, [with(&[]), with(&[(2, 4)]), with(&[(2, 4), (8, 3)]), with(&[(8, 3)])]);
}

#[test]
fn too_many_images_are_refused_and_not_cut_short() {
    let events = [write_line(0, 7), write_line(1, 7)].concat();
    assert_eq!(crash_images(&[0; 16], &events, ADR, 65_536).unwrap().len(), 65_536);
    assert!(crash_images(&[0; 16], &events, ADR, 65_535).is_none());
}

/// The same images, found in the most naive way: a set of stores is legal if for every line the
/// durable ordinary stores are a prefix that contains what was flushed and fenced.
#[test]
fn enumeration_agrees_with_trying_every_subset() {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    let seed = 20_260_729;
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    for round in 0..300 {
        let mut events = Vec::new();
        for i in 0..rng.random_range(1..12u64) {
            events.push(match rng.random_range(0..8u8) {
                0 => fence(),
                1 | 2 => flush(rng.random_range(0..2)),
                3 => Event::UnorderedStore {
                    site: X,
                    offset: rng.random_range(0..16u64) * 8,
                    old: 0,
                    new: i + 1,
                },
                _ => store(rng.random_range(0..16), i + 1),
            });
        }
        let mut naive = naive_images(&events);
        naive.sort();
        naive.dedup();
        let mut found = crash_images(&[0; 16], &events, ADR, 1 << 20).unwrap();
        found.sort();
        assert_eq!(found, naive, "round {round}: {events:?}");
    }
}

fn naive_images(events: &[Event]) -> Vec<Vec<u64>> {
    let stores: Vec<(usize, u64, u64, bool)> = events
        .iter()
        .enumerate()
        .filter_map(|(at, event)| match *event {
            Event::Store { offset, new, .. } => Some((at, offset / 8, new, true)),
            Event::UnorderedStore { offset, new, .. } => Some((at, offset / 8, new, false)),
            _ => None,
        })
        .collect();
    let fenced_after =
        |at: usize| events[at..].iter().any(|event| matches!(event, Event::Fence { .. }));
    let certain = |(at, word, _, ordered): &(usize, u64, u64, bool)| {
        let is_flush =
            |event: &Event| matches!(event, Event::Flush { line, .. } if *line == word / 8);
        let flushed = (*at..events.len()).any(|i| is_flush(&events[i]) && fenced_after(i));
        if *ordered { flushed } else { fenced_after(*at) }
    };
    let legal = |set: u32| {
        let durable = |i: usize| set >> i & 1 == 1;
        (0..stores.len()).all(|i| {
            let in_order = (0..i).all(|j| {
                !(stores[i].3 && stores[j].3 && stores[i].1 / 8 == stores[j].1 / 8) || durable(j)
            });
            if durable(i) { in_order } else { !certain(&stores[i]) }
        })
    };
    let image = |set: u32| {
        let mut image = vec![0; 16];
        for (_, (_, word, value, _)) in stores.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1)
        {
            image[*word as usize] = *value;
        }
        image
    };
    (0..1u32 << stores.len()).filter(|set| legal(*set)).map(image).collect()
}

#[test]
fn with_eadr_what_another_thread_has_read_is_durable_with_all_before_it() {
    let load = |word: u64| Event::Load { offset: word * 8 };
    let stored = [(1, store(0, 1)), (1, store(8, 2)), (1, store(9, 3))];
    let images = |assumptions, read: &[(u16, Event)]| {
        let events = [&stored[..], read].concat();
        let images = crash_images_of_threads(&[0; 16], &events, assumptions, 100).unwrap();
        let mut words: Vec<_> = images.iter().map(|image| [image[0], image[8], image[9]]).collect();
        words.sort_unstable();
        words
    };
    let all = [[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]];
    assert_eq!(images(EADR, &[]), all);
    assert_eq!(images(EADR, &[(2, load(8))]), all[2..], "it was seen");
    assert_eq!(images(EADR, &[(1, load(8))]), all, "one's own stores are seen in the buffer");
    assert_eq!(images(EADR, &[(2, load(10))]), all, "nobody has stored there");
    assert_eq!(images(EADR, &[(2, store(8, 4)), (2, load(8))]).len(), 5, "it sees its own");
    let without = images(ADR, &[]);
    assert_eq!(images(ADR, &[(2, load(8))]), without, "a cache may be lost");
}
