//! Crashes at every event of every operation, with a sample of what may be durable then; crashes of
//! the recovery too.
//!
//! The explorer of everleaf-crash does this exhaustively; here a small one guards the family by
//! itself.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use everleaf_conformance::{TestedTree, opened, problems, scanned, traced_pool};
use everleaf_crash::{Event, Traced};
use everleaf_index::{BytesKeys, Direction, Index, U64Keys};
use everleaf_pmem::{LINE, WORD};
use everleaf_pool::{Pool, Run, Shutdown};
use everleaf_tree::key::TestKey;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::super::layout::LEAVES;
use super::{Parameters, TINY, Tested, Variant};

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
                self.pending
                    .entry((word / LINE_WORDS) as u64)
                    .or_default()
                    .stores
                    .push((word, *new));
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
            Event::UnorderedStore { .. } | Event::Grow { .. } => {
                panic!("not of this tree: {event:?}")
            }
            _ => {}
        }
    }

    /// A line within the runs, or of the anchor, that holds something not durable.
    fn unfenced(&self, runs: &[Run]) -> Option<u64> {
        const ANCHOR_OFFSET: u64 = 8192;
        let of_tree = |offset: &u64| {
            *offset == ANCHOR_OFFSET
                || runs.iter().any(|run| (run.offset..run.offset + run.bytes).contains(offset))
        };
        self.pending.keys().map(|line| line * LINE as u64).find(of_tree)
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
    plan: Plan,
    suppressed: Option<&'static str>,
    random: StdRng,
    images: u64,
    last_key: u64,
    kind: std::marker::PhantomData<K>,
}

impl<K: TestKey> Exploration<K> {
    fn new(plan: Plan, seed: u64, suppressed: Option<&'static str>) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self {
            plan,
            suppressed,
            random,
            images: 0,
            last_key: plan.first_key,
            kind: std::marker::PhantomData,
        }
    }

    fn apply(&mut self, tree: &dyn Index<K>, model: &mut Model<K>, op: Op) -> Result<(), String> {
        let seed = self.random.next_u64();
        let value: Vec<u64> = (0..self.plan.words).map(|i| seed ^ i).collect();
        let mut old = vec![0; self.plan.words as usize];
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
                tree.remove_words(K::borrow(&key), &mut old).map_err(|e| e.to_string())?;
                model.remove(&key);
            }
        }
        Ok(())
    }

    fn draw(&mut self, growing: bool) -> Op {
        // The same key again, often: what one operation leaves unfenced, the next may stumble over.
        if self.random.random_ratio(2, 3) {
            self.last_key = self.plan.first_key + self.random.random_range(0..self.plan.keys);
        }
        let key = self.last_key;
        match self.random.random_range(0..10) {
            0..2 => Op::Update(key),
            2..5 if growing => Op::Remove(key),
            2..8 if !growing => Op::Remove(key),
            _ => Op::Insert(key),
        }
    }

    /// Opens an image and compares; the state after the opening, whose events are recorded.
    fn recovered(
        &mut self,
        image: Vec<u64>,
        before: &Model<K>,
        after: &Model<K>,
    ) -> Result<State<K>, String> {
        self.images += 1;
        let media = Traced::from_image(&image, POOL_BYTES, 9).unwrap();
        let (pool, _) = Pool::open(media).map_err(|e| e.to_string())?;
        let tree = Tested(self.plan.variant, TINY).open(&pool, Shutdown::Crash.into());
        let tree: Box<dyn Index<K>> = tree.map_err(|e| e.to_string())?;
        let found = scanned(&*tree, Bound::Unbounded, Direction::Forward, usize::MAX)
            .map_err(|e| e.to_string())?;
        let model: Model<K> = found.into_iter().collect();
        if model != *before && model != *after {
            return Err("the tree is neither as before the operation nor as after it".into());
        }
        let wrong = problems(&pool, &*tree);
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        Ok(State { pool, tree, durable: Durable::new(image), model })
    }

    /// Recovers one of the images that a crash may leave now; what is found must be usable.
    fn examine(
        &mut self,
        durable: &Durable,
        before: &Model<K>,
        after: &Model<K>,
    ) -> Result<(), String> {
        let image = durable.crashed(&mut self.random);
        let State { pool, tree, mut model, .. } = self.recovered(image, before, after)?;
        pool.media().record(false, false);
        for _ in 0..4 {
            let op = self.draw(true);
            self.apply(&*tree, &mut model, op)?;
        }
        let wrong = problems(&pool, &*tree);
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("after more operations: {}", wrong.join("; ")))
        }
    }

    /// Goes through what was recorded; a crash in earnest is somewhere in it, and the state goes on
    /// from there.
    fn follow(
        &mut self,
        state: &mut State<K>,
        before: &Model<K>,
        crash: bool,
        sparse: u32,
    ) -> Result<(), String> {
        let events = state.pool.media().take_events();
        let crash_at =
            (crash && !events.is_empty()).then(|| self.random.random_range(0..events.len()));
        for (i, event) in events.iter().enumerate() {
            state.durable.apply(event, self.suppressed);
            let context = |e| format!("after event {i}, {event:?}: {e}");
            if crash_at == Some(i) {
                let image = state.durable.crashed(&mut self.random);
                *state = self.recovered(image, before, &state.model.clone()).map_err(context)?;
                // The recovery is crashed as well.
                let (model, again) = (state.model.clone(), self.random.random());
                let outcome = self.follow(state, &model, again, 2);
                return outcome.map_err(|e| context(format!("recovering, {e}")));
            }
            if self.random.random_ratio(1, sparse) {
                self.examine(&state.durable, before, &state.model).map_err(context)?;
            }
        }
        Ok(())
    }

    /// Explores operations, one image for every `sparse` events.
    fn explore(&mut self, ops: usize, sparse: u32) -> Result<(), String> {
        let parameters = Parameters { value_words: self.plan.words, ..TINY };
        let tested = Tested(self.plan.variant, parameters);
        let pool = traced_pool::<K>(tested, POOL_BYTES);
        let tree = opened::<K>(tested, &pool);
        let durable = Durable::new(pool.media().image());
        pool.media().record(true, false);
        let mut state = State { pool, tree, durable, model: Model::<K>::new() };
        for number in 0..ops {
            let before = state.model.clone();
            let op = self.draw(number % 120 < 70);
            let context = |e| format!("operation {number}, {op:?}, {e}");
            self.apply(&*state.tree, &mut state.model, op).map_err(context)?;
            let crash = self.random.random_ratio(1, 3);
            self.follow(&mut state, &before, crash, sparse).map_err(context)?;
            // The operation, or the recovery, has returned: from here on its effect is durable, and
            // another thread may go on.
            if let Some(line) = state.durable.unfenced(&state.pool.runs(LEAVES).unwrap()) {
                return Err(context(format!(
                    "has returned with something not durable in the line at {line:#x}"
                )));
            }
            self.examine(&state.durable, &state.model, &state.model)
                .map_err(|e| context(format!("has returned: {e}")))?;
        }
        Ok(())
    }
}

/// A pool, its tree, what of it is durable, and what it should hold.
struct State<K: TestKey> {
    pool: Arc<Pool<Traced>>,
    tree: Box<dyn Index<K>>,
    durable: Durable,
    model: Model<K>,
}

/// What is explored: sizes that split leaves, that take and give back groups, and a pool that is
/// full of long keys.
#[derive(Clone, Copy, Debug)]
struct Plan {
    variant: Variant,
    bytes: bool,
    words: u64,
    first_key: u64,
    keys: u64,
}

const PLANS: [Plan; 19] = [
    Plan { variant: Variant::FpTree, bytes: false, words: 1, first_key: 0, keys: 40 },
    Plan { variant: Variant::FpTree, bytes: false, words: 14, first_key: 0, keys: 60 },
    Plan { variant: Variant::PTree, bytes: false, words: 2, first_key: 0, keys: 40 },
    Plan { variant: Variant::FpTree, bytes: true, words: 1, first_key: 0, keys: 40 },
    Plan { variant: Variant::FpTree, bytes: true, words: 3, first_key: 0, keys: 40 },
    Plan { variant: Variant::FpTree, bytes: true, words: 14, first_key: 0, keys: 60 },
    Plan { variant: Variant::PTree, bytes: true, words: 1, first_key: 0, keys: 40 },
    Plan { variant: Variant::FpTree, bytes: true, words: 1, first_key: 10_000, keys: 60 },
    Plan { variant: Variant::FpTree, bytes: true, words: 2, first_key: 10_000, keys: 30 },
    Plan { variant: Variant::FpTree, bytes: true, words: 2, first_key: 10_000, keys: 6 },
    Plan { variant: Variant::FpTree, bytes: true, words: 2, first_key: 20, keys: 7 },
    Plan { variant: Variant::FpTree, bytes: false, words: 1, first_key: 0, keys: 8 },
    Plan { variant: Variant::Concurrent, bytes: false, words: 1, first_key: 0, keys: 40 },
    Plan { variant: Variant::Concurrent, bytes: false, words: 14, first_key: 0, keys: 60 },
    Plan { variant: Variant::Concurrent, bytes: true, words: 1, first_key: 0, keys: 40 },
    Plan { variant: Variant::Concurrent, bytes: true, words: 3, first_key: 0, keys: 40 },
    Plan { variant: Variant::Concurrent, bytes: true, words: 2, first_key: 10_000, keys: 30 },
    Plan { variant: Variant::Concurrent, bytes: false, words: 1, first_key: 0, keys: 8 },
    Plan { variant: Variant::Concurrent, bytes: true, words: 1, first_key: 20, keys: 7 },
];

impl Plan {
    /// Explores `ops` operations with one image for every `sparse` events; the number of images.
    fn explore(
        &self,
        ops: usize,
        seed: u64,
        sparse: u32,
        suppressed: Option<&'static str>,
    ) -> Result<u64, String> {
        if self.bytes {
            self.explore_kind::<BytesKeys>(ops, seed, sparse, suppressed)
        } else {
            self.explore_kind::<U64Keys>(ops, seed, sparse, suppressed)
        }
    }

    fn explore_kind<K: TestKey>(
        &self,
        ops: usize,
        seed: u64,
        sparse: u32,
        suppressed: Option<&'static str>,
    ) -> Result<u64, String> {
        let mut exploration = Exploration::<K>::new(*self, seed, suppressed);
        exploration.explore(ops, sparse).map_err(|e| format!("{self:?}, seed {seed}: {e}"))?;
        Ok(exploration.images)
    }
}

#[test]
fn every_crash_is_recovered() {
    for plan in PLANS {
        let images = plan.explore(160, 1, 8, None).unwrap();
        assert!(images > 100, "{plan:?}: {images} images");
    }
}

/// The explorer's scenarios have values of one word; these barriers belong to wider ones.
#[test]
fn barriers_of_wide_updates_are_needed() {
    for site in [
        "fptree.update.W1.entry",
        "fptree.update.W1.fence",
        "fptree.update.W2.bitmap",
        "fptree.update.W2.fence",
    ] {
        let wide = || PLANS.iter().filter(|plan| plan.words > 1);
        let noticed =
            (0..20).any(|seed| wide().any(|plan| plan.explore(160, seed, 4, Some(site)).is_err()));
        assert!(noticed, "{site}");
    }
}
