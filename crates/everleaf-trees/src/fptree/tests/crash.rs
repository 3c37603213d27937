//! Crashes at every event of every operation, with a sample of what may be durable then; crashes of the recovery too.
//!
//! The explorer of everleaf-crash does this exhaustively; here a small one guards the room by itself.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use everleaf_index::{BytesKeys, Direction, Index, U64Keys};
use everleaf_pmem::{Event, LINE, Media, Traced, WORD};
use everleaf_pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::{Parameters, TINY, TestKey, Variant, opened, problems, scanned, traced_pool};

const POOL_BYTES: u64 = 64 << 10;
const LINE_WORDS: usize = LINE / WORD;

/// What is durable, and what waits in each line, in the order of the stores.
#[derive(Clone)]
struct Durable {
    image: Vec<u64>,
    pending: HashMap<u64, Line>,
}

#[derive(Clone, Default)]
struct Line {
    stores: Vec<(usize, u64)>,
    /// So many of the stores were flushed since the last fence.
    flushed: usize,
}

impl Durable {
    fn new(image: Vec<u64>) -> Self {
        Self { image, pending: HashMap::new() }
    }

    fn apply(&mut self, event: &Event, suppressed: Option<&str>) {
        match event {
            Event::Store { offset, new, .. } => {
                let word = *offset as usize / WORD;
                self.pending.entry((word / LINE_WORDS) as u64).or_default().stores.push((word, *new));
            }
            Event::Flush { site, line } if Some(site.name()) != suppressed => {
                if let Some(line) = self.pending.get_mut(line) {
                    line.flushed = line.stores.len();
                }
            }
            Event::Fence { site } if Some(site.name()) != suppressed => {
                for line in self.pending.values_mut() {
                    for (word, value) in line.stores.drain(..std::mem::take(&mut line.flushed)) {
                        self.image[word] = value;
                    }
                }
                self.pending.retain(|_, line| !line.stores.is_empty());
            }
            Event::UnorderedStore { .. } | Event::Grow { .. } => panic!("not in this room: {event:?}"),
            _ => {}
        }
    }

    /// One of the images that a crash may leave: of each line a prefix of its stores.
    fn crashed(&self, random: &mut StdRng) -> Vec<u64> {
        let mut image = self.image.clone();
        let style = random.random_range(0..4);
        let mut lines: Vec<_> = self.pending.iter().collect();
        lines.sort_by_key(|(line, _)| **line);
        for (_, line) in lines {
            let durable = match style {
                0 => 0,
                1 => line.stores.len(),
                2 => {
                    if random.random() {
                        line.stores.len()
                    } else {
                        0
                    }
                }
                _ => random.random_range(0..=line.stores.len()),
            };
            for (word, value) in &line.stores[..durable] {
                image[*word] = *value;
            }
        }
        image
    }
}

type Model<K> = BTreeMap<<K as everleaf_index::KeyKind>::Owned, Vec<u64>>;

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64),
    Update(u64),
    Remove(u64),
}

struct Exploration<K: TestKey> {
    variant: Variant,
    words: usize,
    suppressed: Option<&'static str>,
    random: StdRng,
    images: u64,
    kind: std::marker::PhantomData<K>,
}

impl<K: TestKey> Exploration<K> {
    fn new(variant: Variant, words: usize, seed: u64, suppressed: Option<&'static str>) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { variant, words, suppressed, random, images: 0, kind: std::marker::PhantomData }
    }

    fn apply(&mut self, tree: &dyn Index<K>, model: &mut Model<K>, op: Op) {
        let seed = self.random.next_u64();
        let value: Vec<u64> = (0..self.words as u64).map(|i| seed ^ i).collect();
        let mut old = vec![0; self.words];
        match op {
            Op::Insert(k) => {
                let key = K::make(k);
                // A full pool is an ordinary outcome.
                if tree.insert_words(K::borrow(&key), &value).unwrap_or(false) {
                    model.insert(key, value);
                }
            }
            Op::Update(k) => {
                let key = K::make(k);
                if tree.update_words(K::borrow(&key), &value, &mut old).unwrap_or(false) {
                    model.insert(key, value);
                }
            }
            Op::Remove(k) => {
                let key = K::make(k);
                tree.remove_words(K::borrow(&key), &mut old).unwrap();
                model.remove(&key);
            }
        }
    }

    fn draw(&mut self, keys: u64, growing: bool) -> Op {
        let key = self.random.random_range(0..keys);
        match self.random.random_range(0..10) {
            0..2 => Op::Update(key),
            2..5 if growing => Op::Remove(key),
            2..8 if !growing => Op::Remove(key),
            _ => Op::Insert(key),
        }
    }

    /// Opens an image; the events of the opening, and the tree.
    #[allow(clippy::type_complexity)]
    fn recovered(&mut self, image: &[u64]) -> Result<(Arc<Pool<Traced>>, Box<dyn Index<K>>, Vec<Event>), String> {
        self.images += 1;
        let media = Traced::from_image(image, POOL_BYTES, 9).unwrap();
        let (pool, _) = Pool::open(media).map_err(|e| e.to_string())?;
        let tree = super::open::<K, _>(&pool, self.variant, everleaf_pool::Shutdown::Crash).map_err(|e| e.to_string())?;
        let events = pool.media().take_events();
        pool.media().record(false, false);
        Ok((pool, tree, events))
    }

    /// Recovers an image and compares; with some luck crashes the recovery and does so again.
    fn examine(&mut self, image: &[u64], before: &Model<K>, after: &Model<K>, depth: u32) -> Result<(), String> {
        let (pool, tree, events) = self.recovered(image)?;
        let found: Model<K> = scanned(&*tree, Bound::Unbounded, Direction::Forward, usize::MAX).into_iter().collect();
        if found != *before && found != *after {
            return Err("the tree is neither as before the operation nor as after it".into());
        }
        let wrong = problems(&pool, &*tree);
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        let mut model = found;
        for _ in 0..4 {
            let op = self.draw(60, true);
            self.apply(&*tree, &mut model, op);
        }
        let wrong = problems(&pool, &*tree);
        if !wrong.is_empty() {
            return Err(format!("after more operations: {}", wrong.join("; ")));
        }
        // Opening by itself stores into three lines or so; more is a recovery worth crashing.
        if depth < 2 && events.len() > 24 {
            let mut durable = Durable::new(image.to_vec());
            let crash_at = self.random.random_range(0..=events.len());
            events[..crash_at].iter().for_each(|event| durable.apply(event, self.suppressed));
            let image = durable.crashed(&mut self.random);
            self.examine(&image, before, after, depth + 1).map_err(|e| format!("after a crash of the recovery: {e}"))?;
        }
        Ok(())
    }

    /// Explores `ops` operations, `images` images at each event.
    fn explore(&mut self, parameters: Parameters, ops: usize, keys: u64, images: u32) -> Result<(), String> {
        let pool = traced_pool::<K>(parameters, POOL_BYTES);
        let tree = opened::<K, _>(&pool, self.variant);
        let mut durable = Durable::new(pool.media().image());
        pool.media().record(true, false);
        let mut model = Model::<K>::new();
        for number in 0..ops {
            let before = model.clone();
            let op = self.draw(keys, number % 120 < 70);
            self.apply(&*tree, &mut model, op);
            for (i, event) in pool.media().take_events().iter().enumerate() {
                durable.apply(event, self.suppressed);
                for _ in 0..images {
                    let image = durable.crashed(&mut self.random);
                    let outcome = self.examine(&image, &before, &model, 0);
                    outcome.map_err(|e| format!("operation {number}, {op:?}, after event {i}, {event:?}: {e}"))?;
                }
            }
            // The operation has returned: from here on its effect is durable.
            let image = durable.crashed(&mut self.random);
            let outcome = self.examine(&image, &model, &model, 0);
            outcome.map_err(|e| format!("operation {number}, {op:?}, has returned: {e}"))?;
        }
        Ok(())
    }
}

fn explore<K: TestKey>(variant: Variant, words: u64, seed: u64) {
    println!("seed {seed}");
    let parameters = Parameters { value_words: words, ..TINY };
    let mut exploration = Exploration::<K>::new(variant, words as usize, seed, None);
    exploration.explore(parameters, 160, 40, 1).unwrap();
    assert!(exploration.images > 1000, "{} images", exploration.images);
}

#[test]
fn every_crash_of_u64_keys_is_recovered() {
    explore::<U64Keys>(Variant::FpTree, 1, 1);
    explore::<U64Keys>(Variant::PTree, 1, 2);
    explore::<U64Keys>(Variant::FpTree, 3, 3);
}

#[test]
fn every_crash_of_byte_keys_is_recovered() {
    explore::<BytesKeys>(Variant::FpTree, 1, 4);
    explore::<BytesKeys>(Variant::PTree, 1, 5);
    explore::<BytesKeys>(Variant::FpTree, 3, 6);
}
