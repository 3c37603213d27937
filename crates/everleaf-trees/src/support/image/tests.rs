//! Images of all engines that have any: taken after a close, by which no leaf is read, and never in
//! the place of what the pool holds.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::{Event, Traced};
use everleaf_index::{BytesKeys, Direction, Index, InnerFrom, KeyKind, NoImage, U64Keys};
use everleaf_pmem::{LINE, Media, PPtr, Transactions, WORD};
use everleaf_pool::{Audit, AuditReport, Format, KeyType, NodeKind, Pool, Shutdown};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{IMAGE, ImageHead, ImageRoot};
use crate::engine::Opening;
use crate::engines::Engine;
use crate::support::parameters::EngineParameters;

const BYTES: u64 = 1 << 20;
const LEAVES: NodeKind = NodeKind::new(1);
/// Offset of the state, behind which the seal stands.
const STATE: usize = 192;

const ENGINES: [Engine; 5] = [
    Engine::NvTree,
    Engine::NvTreeConcurrent,
    Engine::FpTree,
    Engine::FpTreeConcurrent,
    Engine::PTree,
];

type Keys = BTreeMap<u64, u64>;
type Opened<K> = (Arc<Pool<Traced>>, Box<dyn Index<K>>);

fn sizes(engine: Engine, slots: u32, inner_keys: u32) -> EngineParameters {
    let sizes = EngineParameters::default().leaf_slots(slots).inner_keys(inner_keys);
    let has_groups = engine.parameters().contains(&EngineParameters::GROUP_BYTES);
    if has_groups { sizes.group_bytes(4096) } else { sizes }
}

fn made<K: crate::support::key::TreeKey>(
    engine: Engine,
    sizes: EngineParameters,
    uuid: u128,
    bytes: u64,
) -> Opened<K> {
    let key_type = if K::RECORDS { KeyType::Bytes } else { KeyType::U64 };
    let parameters = engine.pack(&sizes, 1).unwrap();
    let format = Format { engine: engine.name().to_owned(), key_type, parameters };
    let media = Traced::new(bytes, bytes, 7).unwrap();
    media.record(false, false);
    let pool = Pool::create_as(media, &format, uuid).unwrap();
    let tree = engine.create::<K, _>(&pool, Transactions::Off).unwrap();
    (pool, tree)
}

fn small(engine: Engine) -> Opened<U64Keys> {
    made(engine, sizes(engine, 4, 4), 1, BYTES)
}

/// Closes a tree, and then the pool with its seal; what the pool holds then.
fn closed<K: KeyKind>((pool, tree): Opened<K>) -> Vec<u64> {
    let seal = tree.close().unwrap();
    drop(tree);
    pool.close_with(seal).unwrap();
    pool.media().image()
}

/// Opens a pool that holds this.
fn opened(engine: Engine, image: &[u64]) -> Opened<U64Keys> {
    let media = Traced::from_image(image, (image.len() * WORD) as u64, 3).unwrap();
    media.record(false, false);
    let (pool, opened) = Pool::open(media).unwrap();
    let tree = engine.open::<U64Keys, _>(&pool, Opening::from(&opened)).unwrap();
    (pool, tree)
}

/// Some keys, and some removed again.
fn filled(tree: &dyn Index<U64Keys>, keys: u64) -> Keys {
    let mut model = Keys::new();
    for key in (0..keys).map(|i| i * 37 % 1009 * 5) {
        assert!(tree.insert(key, key + 1).unwrap());
        model.insert(key, key + 1);
    }
    for key in (0..keys).step_by(3).map(|i| i * 37 % 1009 * 5) {
        assert_eq!(tree.remove(key).unwrap(), model.remove(&key));
    }
    model
}

fn content(tree: &dyn Index<U64Keys>) -> Keys {
    let mut content = Keys::new();
    let mut visit = |key, value: &[u64]| {
        content.insert(key, value[0]);
        ControlFlow::Continue(())
    };
    tree.scan(Bound::Unbounded, Direction::Forward, &mut visit).unwrap();
    content
}

/// The tree holds this, nothing leaks, and it goes on.
fn assert_holds((pool, tree): &Opened<U64Keys>, model: &Keys) {
    assert_eq!((&content(&**tree), tree.len()), (model, model.len() as u64));
    let sound = || {
        let mut audit = Audit::new();
        let report = tree.check(&mut audit).unwrap();
        assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
        assert_eq!(pool.finish_audit(audit), AuditReport::default());
    };
    sound();
    (0..60).for_each(|i| assert!(tree.insert(i * 5 + 1, i).unwrap()));
    (0..60).for_each(|i| assert_eq!(tree.remove(i * 5 + 1).unwrap(), Some(i)));
    sound();
}

fn from(tree: &dyn Index<U64Keys>) -> InnerFrom {
    tree.statistics().inner_from
}

/// The words of all leaves.
fn words_of_leaves(pool: &Pool<Traced>, leaf_bytes: u64) -> Vec<u64> {
    let runs = pool.runs(LEAVES).unwrap();
    let in_run =
        |offset: &u64| runs.iter().any(|run| (run.offset..run.offset + run.bytes).contains(offset));
    let nodes = pool.nodes(LEAVES).unwrap().into_iter().filter(|node| !in_run(node));
    let nodes = nodes.map(|node| node..node + leaf_bytes);
    let runs = runs.iter().map(|run| run.offset..run.offset + run.bytes);
    nodes.chain(runs).flat_map(|bytes| bytes.step_by(WORD)).collect()
}

#[test]
fn opening_after_a_close_reads_no_leaf() {
    for engine in ENGINES {
        for keys in [0, 1, 5, 300] {
            let made = small(engine);
            let model = filled(&*made.1, keys);
            let image = closed(made);
            let media = Traced::from_image(&image, BYTES, 3).unwrap();
            media.record(false, false);
            let (pool, opened) = Pool::open(media.clone()).unwrap();
            let leaves = words_of_leaves(&pool, 192);
            assert!(!leaves.is_empty());
            media.watch_loads(leaves);
            let tree = engine.open::<U64Keys, _>(&pool, Opening::from(&opened)).unwrap();
            assert_eq!(media.take_watched_loads(), [0; 0], "{engine}");
            assert_eq!(from(&*tree), InnerFrom::Image, "{engine}");
            assert_holds(&(pool, tree), &model);
        }
    }
}

/// Flushes of the image at a close that follows this.
fn flushes_at_close((pool, tree): Opened<U64Keys>, change: impl Fn(&dyn Index<U64Keys>)) -> usize {
    change(&*tree);
    pool.media().record(true, false);
    tree.close().unwrap();
    let of_image = |event: &Event| match event {
        Event::Flush { site, .. } => site.name() == "image.C1.body",
        _ => false,
    };
    pool.media().take_events().iter().filter(|event| of_image(event)).count()
}

#[test]
fn a_close_writes_of_an_image_what_is_new() {
    for engine in ENGINES {
        let image = {
            let made = small(engine);
            filled(&*made.1, 600);
            closed(made)
        };
        let lines = flushes_at_close(small(engine), |tree| drop(filled(tree, 600)));
        assert!(lines > 20, "{engine}: {lines} of a new one");
        let same = flushes_at_close(opened(engine, &image), |_| ());
        let value = flushes_at_close(opened(engine, &image), |tree| {
            assert_eq!(tree.update(5 * 37, 7).unwrap(), Some(5 * 37 + 1));
        });
        assert_eq!((same, value), (1, 1), "{engine}: the line of the number");
    }
}

#[test]
fn an_image_is_not_taken_after_a_crash_of_the_session_that_it_was_taken_by() {
    for engine in ENGINES {
        let made = small(engine);
        let mut model = filled(&*made.1, 100);
        let again = opened(engine, &closed(made));
        assert_eq!(from(&*again.1), InnerFrom::Image);
        let crashed = opened(engine, &again.0.media().image());
        assert_eq!(from(&*crashed.1), InnerFrom::Leaves(NoImage::Crash));
        assert!(again.1.insert(3, 4).unwrap());
        model.insert(3, 4);
        let crashed = opened(engine, &again.0.media().image());
        assert_eq!(from(&*crashed.1), InnerFrom::Leaves(NoImage::Crash));
        assert_holds(&crashed, &model);
    }
}

#[test]
fn a_pool_that_was_closed_without_a_seal_has_no_image() {
    for engine in ENGINES {
        let made = small(engine);
        let model = filled(&*made.1, 100);
        let again = opened(engine, &closed(made));
        drop(again.1);
        again.0.close().unwrap();
        let found = opened(engine, &again.0.media().image());
        assert_eq!(from(&*found.1), InnerFrom::Leaves(NoImage::None));
        assert_holds(&found, &model);
    }
}

#[test]
fn a_pool_has_no_seal_as_long_as_a_tree_could_write() {
    for engine in ENGINES {
        let (pool, tree) = small(engine);
        let seal = tree.close().unwrap();
        assert!(seal.is_some() && tree.insert(2, 3).unwrap());
        pool.close_with(seal).unwrap();
        let found = opened(engine, &pool.media().image());
        assert_eq!(from(&*found.1), InnerFrom::Leaves(NoImage::None));
        assert_holds(&found, &Keys::from([(2, 3)]));
    }
}

/// Where the image is, and how many words it has.
fn place(pool: &Pool<Traced>) -> (usize, usize) {
    let media = pool.media();
    let image = media.load(&pool.root::<ImageRoot>(IMAGE).unwrap().image);
    let leaves = media.load(&pool.node::<ImageHead>(image).unwrap().leaves);
    (image.offset() as usize / WORD, super::HEAD_WORDS + leaves as usize * super::ENTRY_WORDS)
}

fn root_of(pool: &Pool<Traced>) -> usize {
    let root = pool.root::<ImageRoot>(IMAGE).unwrap();
    pool.pointer_to(root).offset() as usize / WORD
}

#[test]
fn a_damaged_image_is_reported_and_never_taken() {
    let seed = 5;
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for engine in ENGINES {
        let made = small(engine);
        let model = filled(&*made.1, 200);
        let pool = Arc::clone(&made.0);
        let whole = closed(made);
        let (at, words) = place(&pool);
        let (root, seal) = (root_of(&pool), STATE / WORD + 1);
        let places = (at..at + words).chain([root]).chain(seal..seal + 3);
        for (number, word) in places.enumerate() {
            for damage in [1 << random.random_range(0..64), random.random(), u64::MAX] {
                let mut damaged = whole.clone();
                damaged[word] ^= damage;
                let found = opened(engine, &damaged);
                let why = from(&*found.1);
                assert!(matches!(why, InnerFrom::Leaves(_)), "{engine}, word {word}: {why}");
                assert_eq!(content(&*found.1), model, "{engine}, word {word}");
                if number % 17 == 0 && word != root {
                    assert_holds(&found, &model);
                    // What is closed again has an image again.
                    let again = opened(engine, &closed(found));
                    assert_eq!(from(&*again.1), InnerFrom::Image);
                    assert_holds(&again, &model);
                }
            }
        }
    }
}

#[test]
fn a_pool_whose_root_of_the_image_is_damaged_is_closed_without_an_image() {
    for engine in ENGINES {
        let made = small(engine);
        let model = filled(&*made.1, 200);
        let (pool, mut image) = (Arc::clone(&made.0), closed(made));
        for leads in [8, 64, 4096, BYTES, u64::MAX, u64::MAX - 63] {
            image[root_of(&pool)] = leads;
            let found = opened(engine, &image);
            assert_eq!(content(&*found.1), model);
            let again = opened(engine, &closed(found));
            assert_eq!(from(&*again.1), InnerFrom::Leaves(NoImage::None), "{engine}: {leads:#x}");
            assert_eq!(content(&*again.1), model);
        }
    }
}

/// Puts the seal and the image of one pool into another.
fn transplanted(from: &[u64], place: (usize, usize), to: &mut [u64], into: usize) {
    to[into..into + place.1].copy_from_slice(&from[place.0..place.0 + place.1]);
    let seal = STATE / WORD + 1;
    to[seal..seal + 3].copy_from_slice(&from[seal..seal + 3]);
}

#[test]
fn an_image_of_another_close_is_not_taken() {
    for engine in ENGINES {
        let made = small(engine);
        filled(&*made.1, 200);
        let pool = Arc::clone(&made.0);
        let first = closed(made);
        let (at, words) = place(&pool);
        let again = opened(engine, &first);
        for key in 0..20 {
            assert!(again.1.insert(key * 5 + 2, 1).unwrap());
        }
        let model = content(&*again.1);
        let second = closed(again);
        // The image of the first close, with the seal of the second, and the other way round.
        let mut stale = second.clone();
        stale[at..at + words].copy_from_slice(&first[at..at + words]);
        let mut stale_seal = second.clone();
        let seal = STATE / WORD + 1;
        stale_seal[seal..seal + 3].copy_from_slice(&first[seal..seal + 3]);
        for stale in [stale, stale_seal] {
            let found = opened(engine, &stale);
            let from = from(&*found.1);
            let expected = matches!(from, InnerFrom::Leaves(NoImage::Stale | NoImage::Damaged(_)));
            assert!(expected, "{engine}: {from}");
            assert_holds(&found, &model);
        }
    }
}

#[test]
fn an_image_of_another_pool_engine_or_size_is_not_taken_and_of_another_fanout_is() {
    for engine in ENGINES {
        let other = if engine == Engine::NvTree { Engine::FpTree } else { Engine::NvTree };
        let four = sizes(engine, 4, 4);
        let foreign = |what| InnerFrom::Leaves(NoImage::Foreign(what));
        for (engine_of, sizes, uuid, expected) in [
            (engine, four, 2, foreign("another pool")),
            (other, sizes(other, 4, 4), 1, foreign("another engine")),
            (engine, sizes(engine, 8, 4), 1, foreign("leaves of other sizes")),
            (engine, sizes(engine, 4, 32), 1, InnerFrom::Image),
        ] {
            // What is compared comes before what would be found of so few leaves.
            let keys = if expected == InnerFrom::Image { 200 } else { 60 };
            let image_of = |made: Opened<U64Keys>, keys| {
                let (model, pool) = (filled(&*made.1, keys), Arc::clone(&made.0));
                let image = closed(made);
                (model, place(&pool), image)
            };
            let (_, from_place, giver) = image_of(made(engine_of, sizes, uuid, BYTES), keys);
            let (model, (at, _), mut taker) = image_of(small(engine), 200);
            transplanted(&giver, from_place, &mut taker, at);
            let found = opened(engine, &taker);
            assert_eq!(from(&*found.1), expected, "{engine} from {engine_of}");
            assert_holds(&found, &model);
        }
    }
}

#[test]
fn an_entry_that_leads_to_no_leaf_or_to_one_twice_is_found_though_the_checksum_is_right() {
    for engine in ENGINES {
        let made = small(engine);
        let model = filled(&*made.1, 200);
        let (pool, whole) = (Arc::clone(&made.0), closed(made));
        let (at, words) = place(&pool);
        let seal = STATE / WORD + 1;
        let entry = at + super::HEAD_WORDS + 2 * 3;
        for (word, value) in [
            (entry + 1, whole[entry + 3]),
            (entry + 1, whole[entry + 1] + LINE as u64),
            (entry + 1, BYTES),
            (entry + 1, 64),
            (entry + 1, u64::MAX),
            (entry, whole[entry + 2]),
            (at + super::HEAD_WORDS, 1),
        ] {
            let mut damaged = whole.clone();
            damaged[word] = value;
            let mut checksum = super::Checksum::new();
            damaged[at..at + words].iter().for_each(|word| checksum.add(*word));
            damaged[seal + 1] = sealed(u64::from(checksum.end()));
            let found = opened(engine, &damaged);
            let why = from(&*found.1);
            assert!(
                matches!(why, InnerFrom::Leaves(NoImage::Damaged(what)) if !what.contains("sum")),
                "{engine}, word {word}: {why}"
            );
            assert_holds(&found, &model);
        }
    }
}

/// The content of a closed pool whose image says that the tree has so many keys.
fn with_count(pool: &Pool<Traced>, whole: &[u64], keys: u64) -> Vec<u64> {
    let ((at, words), mut counted) = (place(pool), whole.to_vec());
    counted[at + std::mem::offset_of!(ImageHead, keys) / WORD] = keys;
    let mut checksum = super::Checksum::new();
    counted[at..at + words].iter().for_each(|word| checksum.add(*word));
    counted[STATE / WORD + 2] = sealed(u64::from(checksum.end()));
    counted
}

#[test]
fn a_count_that_the_leaves_cannot_have_is_found_though_the_checksum_is_right() {
    for engine in ENGINES {
        let made = small(engine);
        let model = filled(&*made.1, 200);
        let (pool, whole) = (Arc::clone(&made.0), closed(made));
        let leaves = (place(&pool).1 - super::HEAD_WORDS) as u64 / 2;
        for keys in [0, leaves - 2, 4 * leaves + 1, u64::MAX] {
            let found = opened(engine, &with_count(&pool, &whole, keys));
            let why = from(&*found.1);
            let expected = matches!(why, InnerFrom::Leaves(NoImage::Damaged(_)));
            assert!(expected, "{engine}, {keys} keys in {leaves} leaves: {why}");
            assert_holds(&found, &model);
        }
    }
}

#[test]
fn a_wrong_count_of_an_image_is_found_by_the_check_and_never_panics() {
    for engine in ENGINES {
        let made = small(engine);
        let model = filled(&*made.1, 200);
        let (pool, whole) = (Arc::clone(&made.0), closed(made));
        let leaves = (place(&pool).1 - super::HEAD_WORDS) as u64 / 2;
        let (_, tree) = opened(engine, &with_count(&pool, &whole, leaves));
        assert_eq!((from(&*tree), tree.len()), (InnerFrom::Image, leaves), "{engine}");
        let problems = tree.check(&mut Audit::new()).unwrap().violations;
        assert!(problems.join("").contains("I10"), "{engine}: {problems:?}");
        for key in model.keys() {
            assert_eq!(tree.remove(*key).unwrap(), model.get(key).copied(), "{engine}");
        }
        assert_eq!((content(&*tree), tree.len()), (Keys::new(), 0), "{engine}");
    }
}

/// A word of the header: content and check, as docs/format.md says.
fn sealed(content: u64) -> u64 {
    let mixed = (content ^ (content >> 23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let check = ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 48) ^ 0x5ea1;
    content | check << 48
}

#[test]
fn a_pool_without_room_is_closed_without_an_image() {
    for engine in ENGINES {
        let (pool, tree) = made::<U64Keys>(engine, sizes(engine, 4, 4), 1, 64 << 10);
        let mut model = Keys::new();
        for key in 0.. {
            match tree.insert(key, key) {
                Ok(inserted) => assert!(inserted),
                Err(error) => {
                    assert!(error.to_string().contains("full"), "{error}");
                    break;
                }
            }
            model.insert(key, key);
        }
        let found = opened(engine, &closed((pool, tree)));
        assert_eq!(content(&*found.1), model);
        let why = from(&*found.1);
        assert_eq!(why, InnerFrom::Leaves(NoImage::None), "{engine}");
        // With room there is one again.
        model.keys().for_each(|key| assert_eq!(found.1.remove(*key).unwrap(), Some(*key)));
        let again = opened(engine, &closed(found));
        assert_eq!((from(&*again.1), again.1.len()), (InnerFrom::Image, 0), "{engine}");
    }
}

#[test]
fn byte_string_keys_have_no_image() {
    for engine in ENGINES {
        let (pool, tree) = made::<BytesKeys>(engine, sizes(engine, 4, 4), 1, BYTES);
        assert!(tree.insert(b"a", 1).unwrap());
        assert_eq!(tree.close().unwrap(), None);
        assert!(!pool.has_root(IMAGE));
        drop(tree);
        pool.close().unwrap();
        let opening = Opening::from(Shutdown::Clean);
        let tree = engine.open::<BytesKeys, _>(&pool, opening).unwrap();
        assert_eq!(tree.statistics().inner_from, InnerFrom::Leaves(NoImage::Bytes));
    }
}

#[test]
fn an_image_uses_its_memory_again() {
    for engine in ENGINES {
        let made = small(engine);
        filled(&*made.1, 300);
        let first = Arc::clone(&made.0);
        let mut image = closed(made);
        for number in 2..6 {
            let again = opened(engine, &image);
            let pool = Arc::clone(&again.0);
            assert_eq!(again.1.update(5 * 37, number).unwrap().is_some(), number > 0);
            image = closed(again);
            assert_eq!(place(&pool).0, place(&first).0, "{engine}");
            let head: PPtr<ImageHead> = PPtr::at((place(&pool).0 * WORD) as u64);
            assert_eq!(pool.media().load(&pool.node(head).unwrap().number), number);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Put(u16, u64),
    Remove(u16),
    Row(u16, bool),
    Close,
    Crash,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let key = prop_oneof![0..30u16, 0..1000u16, Just(u16::MAX)];
    let action = prop_oneof![
        6 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Action::Put(key, value)),
        5 => key.clone().prop_map(Action::Remove),
        2 => (key, any::<bool>()).prop_map(|(key, put)| Action::Row(key, put)),
        2 => Just(Action::Close),
        1 => Just(Action::Crash),
    ];
    proptest::collection::vec(action, 1..80)
}

fn run(engine: Engine, actions: &[Action]) {
    let (mut index, mut model) = (small(engine), Keys::new());
    for action in actions {
        match *action {
            Action::Put(key, value) => {
                let old = index.1.upsert(key.into(), value).unwrap();
                assert_eq!(old, model.insert(key.into(), value));
            }
            Action::Remove(key) => {
                let old = index.1.remove(key.into()).unwrap();
                assert_eq!(old, model.remove(&key.into()));
            }
            Action::Row(start, put) => {
                for key in (start..start.saturating_add(40)).map(u64::from) {
                    if put {
                        let old = index.1.upsert(key, 1).unwrap();
                        assert_eq!(old, model.insert(key, 1));
                    } else {
                        assert_eq!(index.1.remove(key).unwrap(), model.remove(&key));
                    }
                }
            }
            Action::Close => {
                index = opened(engine, &closed(index));
                assert_eq!(from(&*index.1), InnerFrom::Image);
            }
            Action::Crash => {
                index = opened(engine, &index.0.media().image());
                assert_eq!(from(&*index.1), InnerFrom::Leaves(NoImage::Crash));
            }
        }
        assert_eq!(index.1.len(), model.len() as u64);
    }
    let index = opened(engine, &closed(index));
    assert_eq!(from(&*index.1), InnerFrom::Image);
    for key in (0..60).map(|i| i * 5 + 1) {
        assert_eq!(index.1.remove(key).unwrap(), model.remove(&key)); // `assert_holds` puts these.
    }
    assert_holds(&index, &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn what_is_closed_and_opened_in_a_chain_does_what_the_model_does(
        actions in actions(),
        engine in prop::sample::select(&ENGINES),
    ) {
        run(engine, &actions);
    }
}
