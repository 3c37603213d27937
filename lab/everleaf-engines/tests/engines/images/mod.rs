//! Images of all engines that have any: taken after a close, by which no leaf is read, and never in
//! the place of what the pool holds.

mod damage;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::{Event, Traced};
use everleaf_engines::{FPTREE, FPTREE_C, NVTREE, NVTREE_C, PTREE};
use everleaf_index::{BytesKeys, Direction, Index, InnerFrom, KeyKind, NoImage, U64Keys};
use everleaf_pmem::{Media, PPtr, WORD};
use everleaf_pool::{Audit, AuditReport, Format, NodeKind, Pool, Shutdown};
use proptest::prelude::*;

use crate::{Engine, open};
use everleaf_tree::Opening;
use everleaf_tree::image::{IMAGE, ImageHead, ImageRoot};
use everleaf_tree::key::TestKey;
use everleaf_tree::parameters::EngineParameters;

const BYTES: u64 = 1 << 20;
const LEAVES: NodeKind = NodeKind::new(1);
/// Offset of the state, behind which the seal stands.
const STATE: usize = 192;

const ENGINES: [Engine; 5] = [&NVTREE, &NVTREE_C, &FPTREE, &FPTREE_C, &PTREE];

type Keys<K> = BTreeMap<<K as KeyKind>::Owned, u64>;
type Opened<K> = (Arc<Pool<Traced>>, Box<dyn Index<K>>);

/// What is tested of each engine, with numbers and with byte strings.
fn each(of_numbers: impl Fn(Engine), of_strings: impl Fn(Engine)) {
    for engine in ENGINES {
        of_numbers(engine);
        of_strings(engine);
    }
}

fn insert<K: TestKey>(tree: &dyn Index<K>, number: u64, value: u64) -> bool {
    tree.insert(K::borrow(&K::unique(number)), value).unwrap()
}

fn update<K: TestKey>(tree: &dyn Index<K>, number: u64, value: u64) -> Option<u64> {
    tree.update(K::borrow(&K::unique(number)), value).unwrap()
}

fn upsert<K: TestKey>(tree: &dyn Index<K>, number: u64, value: u64) -> Option<u64> {
    tree.upsert(K::borrow(&K::unique(number)), value).unwrap()
}

fn remove<K: TestKey>(tree: &dyn Index<K>, number: u64) -> Option<u64> {
    tree.remove(K::borrow(&K::unique(number))).unwrap()
}

fn sizes(engine: Engine, slots: u32, inner_keys: u32) -> EngineParameters {
    let sizes = EngineParameters::default().leaf_slots(slots).inner_keys(inner_keys);
    let has_groups = engine.parameters.contains(&EngineParameters::GROUP_BYTES);
    if has_groups { sizes.group_bytes(4096) } else { sizes }
}

fn made<K: TestKey>(engine: Engine, sizes: EngineParameters, uuid: u128, bytes: u64) -> Opened<K> {
    let parameters = (engine.pack)(&sizes, 1).unwrap();
    let format = Format { engine: engine.name.to_owned(), key_type: K::KEY_TYPE, parameters };
    let media = Traced::new(bytes, bytes, 7).unwrap();
    media.record(false, false);
    let pool = Pool::create_as(media, &format, uuid).unwrap();
    let tree = open::<K>(&pool, Shutdown::Clean.into());
    (pool, tree)
}

fn small<K: TestKey>(engine: Engine) -> Opened<K> {
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
fn opened<K: TestKey>(engine: Engine, image: &[u64]) -> Opened<K> {
    let media = Traced::from_image(image, (image.len() * WORD) as u64, 3).unwrap();
    media.record(false, false);
    let (pool, opened) = Pool::open(media).unwrap();
    assert_eq!(pool.format().engine, engine.name);
    let tree = open::<K>(&pool, Opening::from(&opened));
    (pool, tree)
}

/// Some keys, and some removed again.
fn filled<K: TestKey>(tree: &dyn Index<K>, keys: u64) -> Keys<K> {
    let mut model = Keys::<K>::new();
    for key in (0..keys).map(|i| i * 37 % 1009 * 5) {
        assert!(insert(tree, key, key + 1));
        model.insert(K::unique(key), key + 1);
    }
    for key in (0..keys).step_by(3).map(|i| i * 37 % 1009 * 5) {
        assert_eq!(remove(tree, key), model.remove(&K::unique(key)));
    }
    model
}

fn content<K: TestKey>(tree: &dyn Index<K>) -> Keys<K> {
    let mut content = Keys::<K>::new();
    let mut visit = |key: K::Ref<'_>, value: &[u64]| {
        content.insert(K::to_owned(key), value[0]);
        ControlFlow::Continue(())
    };
    tree.scan(Bound::Unbounded, Direction::Forward, &mut visit).unwrap();
    content
}

/// The tree holds this, nothing leaks, and it goes on.
fn assert_holds<K: TestKey>((pool, tree): &Opened<K>, model: &Keys<K>) {
    assert_eq!((&content(&**tree), tree.len()), (model, model.len() as u64));
    let sound = || {
        let mut audit = Audit::new();
        let report = tree.check(&mut audit).unwrap();
        assert_eq!((report.violations, report.keys), (Vec::new(), tree.len()));
        assert_eq!(pool.finish_audit(audit), AuditReport::default());
    };
    sound();
    (0..60).for_each(|i| assert!(insert(&**tree, i * 5 + 1, i)));
    (0..60).for_each(|i| assert_eq!(remove(&**tree, i * 5 + 1), Some(i)));
    sound();
}

fn from<K: KeyKind>(tree: &dyn Index<K>) -> InnerFrom {
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
    each(reads_no_leaf::<U64Keys>, reads_no_leaf::<BytesKeys>);
}

fn reads_no_leaf<K: TestKey>(engine: Engine) {
    for keys in [0, 1, 5, 300] {
        let made = small::<K>(engine);
        let model = filled(&*made.1, keys);
        let image = closed(made);
        let media = Traced::from_image(&image, BYTES, 3).unwrap();
        media.record(false, false);
        let (pool, opened) = Pool::open(media.clone()).unwrap();
        let leaves = words_of_leaves(&pool, 192);
        assert!(!leaves.is_empty());
        media.watch_loads(leaves);
        let tree = open::<K>(&pool, Opening::from(&opened));
        assert_eq!(media.take_watched_loads(), [0; 0], "{engine}");
        assert_eq!(from(&*tree), InnerFrom::Image, "{engine}");
        assert_holds(&(pool, tree), &model);
    }
}

/// Flushes of the image at a close that follows this.
fn flushes_at_close<K: TestKey>((pool, tree): Opened<K>, change: impl Fn(&dyn Index<K>)) -> usize {
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
    each(writes_what_is_new::<U64Keys>, writes_what_is_new::<BytesKeys>);
}

fn writes_what_is_new<K: TestKey>(engine: Engine) {
    let image = {
        let made = small::<K>(engine);
        filled(&*made.1, 600);
        closed(made)
    };
    let lines = flushes_at_close(small::<K>(engine), |tree| drop(filled(tree, 600)));
    assert!(lines > 20, "{engine}: {lines} of a new one");
    let same = flushes_at_close(opened::<K>(engine, &image), |_| ());
    // A key whose leaf is not replaced for its new value.
    let key = if K::RECORDS { 2 } else { 1 } * 5 * 37;
    let value = flushes_at_close(opened::<K>(engine, &image), |tree| {
        assert_eq!(update(tree, key, 7), Some(key + 1));
    });
    assert_eq!((same, value), (1, 1), "{engine}: the line of the number");
}

#[test]
fn an_image_is_not_taken_after_a_crash_of_the_session_that_it_was_taken_by() {
    each(is_not_taken_after_a_crash::<U64Keys>, is_not_taken_after_a_crash::<BytesKeys>);
}

fn is_not_taken_after_a_crash<K: TestKey>(engine: Engine) {
    let made = small::<K>(engine);
    let mut model = filled(&*made.1, 100);
    let again = opened::<K>(engine, &closed(made));
    assert_eq!(from(&*again.1), InnerFrom::Image);
    let crashed = opened::<K>(engine, &again.0.media().image());
    assert_eq!(from(&*crashed.1), InnerFrom::Leaves(NoImage::Crash));
    assert!(insert(&*again.1, 3, 4));
    model.insert(K::unique(3), 4);
    let crashed = opened::<K>(engine, &again.0.media().image());
    assert_eq!(from(&*crashed.1), InnerFrom::Leaves(NoImage::Crash));
    assert_holds(&crashed, &model);
}

#[test]
fn a_pool_that_was_closed_without_a_seal_has_no_image() {
    each(has_none_without_a_seal::<U64Keys>, has_none_without_a_seal::<BytesKeys>);
}

fn has_none_without_a_seal<K: TestKey>(engine: Engine) {
    let made = small::<K>(engine);
    let model = filled(&*made.1, 100);
    let again = opened::<K>(engine, &closed(made));
    drop(again.1);
    again.0.close().unwrap();
    let found = opened::<K>(engine, &again.0.media().image());
    assert_eq!(from(&*found.1), InnerFrom::Leaves(NoImage::None));
    assert_holds(&found, &model);
}

#[test]
fn a_pool_has_no_seal_as_long_as_a_tree_could_write() {
    each(has_no_seal::<U64Keys>, has_no_seal::<BytesKeys>);
}

fn has_no_seal<K: TestKey>(engine: Engine) {
    let (pool, tree) = small::<K>(engine);
    let seal = tree.close().unwrap();
    assert!(seal.is_some() && insert(&*tree, 2, 3));
    pool.close_with(seal).unwrap();
    let found = opened::<K>(engine, &pool.media().image());
    assert_eq!(from(&*found.1), InnerFrom::Leaves(NoImage::None));
    assert_holds(&found, &Keys::<K>::from([(K::unique(2), 3)]));
}

/// Where the image is, and how many words it has.
fn place(pool: &Pool<Traced>) -> (usize, usize) {
    let media = pool.media();
    let image = media.load(&pool.root::<ImageRoot>(IMAGE).unwrap().image);
    let head = pool.node::<ImageHead>(image).unwrap();
    let (leaves, own_bytes) = (media.load(&head.leaves), media.load(&head.own_bytes));
    let entries = leaves as usize * everleaf_tree::image::ENTRY_WORDS;
    let words = everleaf_tree::image::HEAD_WORDS + entries + (own_bytes as usize).div_ceil(WORD);
    (image.offset() as usize / WORD, words)
}

/// Leaves in it.
fn leaves_of(pool: &Pool<Traced>) -> u64 {
    let head: PPtr<ImageHead> = PPtr::at((place(pool).0 * WORD) as u64);
    pool.media().load(&pool.node(head).unwrap().leaves)
}

#[test]
fn a_pool_without_room_is_closed_without_an_image() {
    each(is_closed_without_room::<U64Keys>, is_closed_without_room::<BytesKeys>);
}

fn is_closed_without_room<K: TestKey>(engine: Engine) {
    let (pool, tree) = made::<K>(engine, sizes(engine, 4, 4), 1, 64 << 10);
    let mut model = Keys::<K>::new();
    for key in 0.. {
        match tree.insert(K::borrow(&K::unique(key)), key) {
            Ok(inserted) => assert!(inserted),
            Err(error) => {
                assert!(error.to_string().contains("full"), "{error}");
                break;
            }
        }
        model.insert(K::unique(key), key);
    }
    let found = opened::<K>(engine, &closed((pool, tree)));
    assert_eq!(content(&*found.1), model);
    let why = from(&*found.1);
    assert_eq!(why, InnerFrom::Leaves(NoImage::None), "{engine}");
    // With room there is one again.
    for (key, value) in &model {
        assert_eq!(found.1.remove(K::borrow(key)).unwrap(), Some(*value));
    }
    let again = opened::<K>(engine, &closed(found));
    assert_eq!((from(&*again.1), again.1.len()), (InnerFrom::Image, 0), "{engine}");
}

#[test]
fn an_image_uses_its_memory_again() {
    each(uses_its_memory_again::<U64Keys>, uses_its_memory_again::<BytesKeys>);
}

fn uses_its_memory_again<K: TestKey>(engine: Engine) {
    let made = small::<K>(engine);
    filled(&*made.1, 300);
    let first = Arc::clone(&made.0);
    let mut image = closed(made);
    for number in 2..6 {
        let again = opened::<K>(engine, &image);
        let pool = Arc::clone(&again.0);
        assert_eq!(update(&*again.1, 5 * 37, number).is_some(), number > 0);
        image = closed(again);
        assert_eq!(place(&pool).0, place(&first).0, "{engine}");
        let head: PPtr<ImageHead> = PPtr::at((place(&pool).0 * WORD) as u64);
        assert_eq!(pool.media().load(&pool.node(head).unwrap().number), number);
    }
}

#[test]
fn bounds_of_every_length_stand_in_an_image() {
    for engine in ENGINES {
        let (pool, tree) = made::<BytesKeys>(engine, sizes(engine, 4, 4), 1, 8 << 20);
        let mut model = Keys::<BytesKeys>::new();
        // Plain numbers are for those that come later.
        let is_meant = |number: &u64| *number == 0 || !number.is_multiple_of(4);
        for number in (0..1200).chain(10_000..10_400).filter(is_meant) {
            let key = BytesKeys::make(number);
            assert_eq!(tree.upsert(&key, number).unwrap(), model.insert(key, number));
        }
        let found = opened::<BytesKeys>(engine, &closed((pool, tree)));
        assert_eq!(from(&*found.1), InnerFrom::Image, "{engine}");
        assert_holds(&found, &model);
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

fn run<K: TestKey>(engine: Engine, actions: &[Action]) {
    let (mut index, mut model) = (small::<K>(engine), Keys::<K>::new());
    for action in actions {
        match *action {
            Action::Put(key, value) => {
                let old = upsert(&*index.1, key.into(), value);
                assert_eq!(old, model.insert(K::unique(key.into()), value));
            }
            Action::Remove(key) => {
                let old = remove(&*index.1, key.into());
                assert_eq!(old, model.remove(&K::unique(key.into())));
            }
            Action::Row(start, put) => {
                for key in (start..start.saturating_add(40)).map(u64::from) {
                    if put {
                        let old = upsert(&*index.1, key, 1);
                        assert_eq!(old, model.insert(K::unique(key), 1));
                    } else {
                        assert_eq!(remove(&*index.1, key), model.remove(&K::unique(key)));
                    }
                }
            }
            Action::Close => {
                index = opened::<K>(engine, &closed(index));
                assert_eq!(from(&*index.1), InnerFrom::Image);
            }
            Action::Crash => {
                index = opened::<K>(engine, &index.0.media().image());
                assert_eq!(from(&*index.1), InnerFrom::Leaves(NoImage::Crash));
            }
        }
        assert_eq!(index.1.len(), model.len() as u64);
    }
    let index = opened::<K>(engine, &closed(index));
    assert_eq!(from(&*index.1), InnerFrom::Image);
    for key in (0..60).map(|i| i * 5 + 1) {
        // `assert_holds` puts these.
        assert_eq!(remove(&*index.1, key), model.remove(&K::unique(key)));
    }
    assert_holds(&index, &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_closed_and_opened_in_a_chain_does_what_the_model_does(
        actions in actions(),
        engine in prop::sample::select(&ENGINES),
        strings in any::<bool>(),
    ) {
        if strings { run::<BytesKeys>(engine, &actions) } else { run::<U64Keys>(engine, &actions) }
    }
}
