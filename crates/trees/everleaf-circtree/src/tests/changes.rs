//! What changes of the structure leave to other threads, and to recovery, in states that whole
//! trees seldom show.

use std::sync::Arc;

use everleaf_conformance::assert_sound;
use everleaf_crash::{Dram, Event, Traced};
use everleaf_index::{BytesKeys, Index};
use everleaf_pmem::{Cpu, LINE, Media, Region};
use everleaf_pool::{KeyType, Pool, Shutdown};

use super::super::SortedTree;
use super::super::layout::{Anchor, Discipline, Shape};
use super::super::search::{Destination, Located, Path};
use super::format;
use crate::shifted;
use everleaf_tree::key::TestKey;
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

const SLOTS: usize = 4;
const KEYS: u16 = 100;

type Strings<M> = SortedTree<BytesKeys, M>;

fn shape<M: Media>(pool: &Arc<Pool<M>>, shifted: bool) -> Shape {
    let discipline = if shifted { shifted::begin_session(pool).unwrap() } else { Discipline::Ring };
    Shape { slots: SLOTS, discipline }
}

fn key(number: u16) -> Box<[u8]> {
    BytesKeys::ascending(number)
}

/// A tree of several levels, whose keys come in some order: every `stride`-th.
fn grown(shifted: bool, stride: u16) -> (Arc<Pool<Dram>>, Strings<Dram>) {
    let media = Dram::new(Region::anonymous(64 << 10, 64 << 20).unwrap(), &Cpu::detect());
    let pool = Pool::create(media, &format(KeyType::Bytes, SLOTS as u64)).unwrap();
    let tree = Strings::open(&pool, shape(&pool, shifted), false, Shutdown::Clean).unwrap();
    (0..KEYS).for_each(|i| assert!(tree.insert(&key(i * stride % KEYS), 1).unwrap()));
    (pool, tree)
}

/// Removes all keys below `least` and inserts them again; whether the leaf that `path` leads to is
/// what it was, and its bound another key's.
fn misleads(
    pool: &Pool<Dram>,
    tree: &Strings<Dram>,
    path: &Path<'_>,
    located: &Located<'_>,
    least: u16,
) -> bool {
    let Some((word, _)) = path.low else { return false };
    let low = BytesKeys::copy(pool, word).unwrap();
    (0..least).for_each(|number| {
        assert!(tree.remove(&key(number), &mut Steps::none()).unwrap().is_some())
    });
    (0..least).for_each(|number| assert!(tree.insert(&key(number), 1).unwrap()));
    located.seen.is_current() && BytesKeys::copy(pool, word).ok() != Some(low)
}

#[test]
fn a_bound_whose_record_became_another_keys_does_not_mislead_a_scan() {
    for shifted in [false, true] {
        let mut met = 0;
        for (least, stride) in
            (1..KEYS).flat_map(|least| [1, 37, 41, 63, 99].map(|stride| (least, stride)))
        {
            let (pool, tree) = grown(shifted, stride);
            let (path, located) = tree.path(Destination::To(&key(least))).unwrap();
            if misleads(&pool, &tree, &path, &located, least) {
                met += 1;
                assert!(tree.low_of(&path).is_none(), "{least}, {stride}, shifted: {shifted}");
            }
            assert_sound(&pool, &tree as &dyn Index<BytesKeys>);
        }
        assert!(met > 0, "shifted: {shifted}");
        println!("{met} bounds became others, shifted: {shifted}");
    }
}

#[test]
fn a_node_that_changed_since_it_was_seen_is_not_settled() {
    let (pool, tree) = grown(false, 37);
    let located = tree.path(Destination::To(&key(7))).unwrap().1;
    assert!(tree.remove(&key(7), &mut Steps::none()).unwrap().is_some());
    // It was freed, let us say, and its memory is in other use.
    let state = pool.media().load(&located.node.head.state);
    pool.media().store(located.node.head.state.as_word(), 7);
    tree.recover_unchanged(located.node, located.seen).unwrap();
    assert_eq!(pool.media().load(located.node.head.state.as_word()), 7);
    pool.media().store(&located.node.head.state, state);
    assert_sound(&pool, &tree as &dyn Index<BytesKeys>);
}

/// What a crash has left when the node above a split announces its new entry, and nothing else has
/// become durable since the new node was written.
fn announced_above_only(pool: &Arc<Pool<Traced>>, tree: &Strings<Traced>, key: &[u8]) -> Vec<u64> {
    let media = pool.media();
    let mut image = media.image();
    media.take_events();
    let left = tree.path(Destination::To(key)).unwrap().1.node.offset;
    media.take_events();
    assert!(tree.insert(key, 1).unwrap());
    let events = media.take_events();
    let at = |name: &str| {
        events
            .iter()
            .position(|event| matches!(event, Event::Flush { site, .. } if site.name() == name))
            .unwrap()
    };
    let (log, header) = (at("sorted.split.C1.log"), at("circtree.insert.P1.header"));
    for (i, event) in events[..header].iter().enumerate() {
        if let Event::Store { offset, new, .. } = *event
            && (i < log || offset / LINE as u64 != left / LINE as u64)
        {
            image[offset as usize / 8] = new;
        }
    }
    image
}

#[test]
fn the_key_of_a_split_that_is_undone_is_freed_once_though_two_have_it() {
    let media = Traced::new(64 << 10, 256 << 10, 1).unwrap();
    let pool = Pool::create(media, &format(KeyType::Bytes, SLOTS as u64)).unwrap();
    let tree = Strings::open(&pool, shape(&pool, false), false, Shutdown::Clean).unwrap();
    // The separator of the left leaf, and no other record, has some 90 bytes.
    let left = |number: u8| [&[b'b'; 90][..], &[number], &[0; 110]].concat();
    let right = |number: u8| vec![b'z' + number; 200];
    let keys = [right(0), right(1), right(2), left(0), left(2), left(4)];
    keys.iter().for_each(|key| assert!(tree.insert(key, 1).unwrap()));
    assert_eq!(tree.statistics().leaves, 2);
    let image = announced_above_only(&pool, &tree, &left(3));

    let open = |image: &[u64]| {
        let media = Traced::from_image(image, 256 << 10, 1).unwrap();
        let (pool, opened) = Pool::open(media).unwrap();
        let log = &pool.index_root::<Anchor>().unwrap().log;
        let cut = !pool.media().load(&log.left).is_null();
        pool.media().take_events();
        let tree = Strings::open(&pool, shape(&pool, false), false, opened.shutdown).unwrap();
        let freed = |event: &&Event| {
            let Event::Flush { site, .. } = event else { return false };
            site.name() == "pool.exchange.A2.destination"
        };
        let freed = pool.media().take_events().iter().filter(freed).count();
        assert_sound(&pool, &tree as &dyn Index<BytesKeys>);
        assert_eq!(tree.len(), keys.len() as u64);
        (cut, freed, pool.media().image())
    };
    let (cut, freed, recovered) = open(&image);
    assert!(cut && freed == 2, "the new node and the record of its key are freed: {freed}");
    let (cut, freed, _) = open(&recovered);
    assert!(!cut && freed == 0, "nothing is left to be freed: {freed}");
}
