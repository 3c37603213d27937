//! Pools to be damaged, in memory: closed ones, and ones that a crash cut at any store of an
//! operation.

use everleaf_engines::all;
use std::collections::{BTreeMap, BTreeSet};

use everleaf::internal::{create_on, open_on};
use everleaf::{CreateOptions, Engine, EngineParameters, KeyType, OwnedKey, Store};
use everleaf_crash::{Event, Traced};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::common::{key, value};

/// Bytes of a pool; nothing that is done here makes it grow, unless damage does.
const POOL_BYTES: u64 = 160 << 10;
/// Bytes that it may grow to.
const MAX_BYTES: u64 = 512 << 10;
/// What memory holds that was never written.
const GARBAGE_SEED: u64 = 7;
/// Keys that pools are filled with.
pub const KEYS: u64 = 90;
/// Operations of which one is cut.
const CUT_OPERATIONS: u64 = 30;
/// Accesses to persistent memory that one thing done to a pool this small may make: more is a hang.
const MAX_ACCESSES: u64 = 1_000_000;

/// Every value that a key ever had.
pub type History = BTreeMap<OwnedKey, BTreeSet<Vec<u8>>>;

/// What is in a pool that was not damaged.
pub type Content = BTreeMap<OwnedKey, Vec<u8>>;

/// A pool of one engine and one kind of keys.
pub struct Recipe {
    pub name: String,
    pub key_type: KeyType,
    pub history: History,
    closed: Vec<u64>,
    /// An image, the stores that followed it, and how many of them had been made before each
    /// operation.
    open: Vec<u64>,
    stores: Vec<(u64, u64)>,
    operations: Vec<(usize, OwnedKey)>,
}

/// One pool to be damaged.
pub struct Sample {
    pub words: Vec<u64>,
    /// The key whose write the crash cut, if there was a crash.
    pub cut: Option<OwnedKey>,
}

impl Recipe {
    /// All engines, both kinds of keys, small leaves and tuned ones.
    pub fn all() -> Vec<Self> {
        let mut recipes = Vec::new();
        for engine in Engine::available() {
            for key_type in
                [KeyType::U64, KeyType::Bytes].into_iter().filter(|of| engine.has_keys(*of))
            {
                let has = |name| engine.entry().parameters.contains(&name);
                let least = engine.entry().min_leaf_slots;
                let mut small = EngineParameters::default().leaf_slots(least);
                small.inner_keys = has(EngineParameters::INNER_KEYS).then_some(4);
                small.group_bytes = has(EngineParameters::GROUP_BYTES).then_some(4096);
                recipes.extend(
                    [small, EngineParameters::default()].map(|p| Self::new(engine, key_type, p)),
                );
            }
        }
        recipes
    }

    fn new(engine: Engine, key_type: KeyType, parameters: EngineParameters) -> Self {
        let options = CreateOptions::new()
            .engine(engine)
            .key_type(key_type)
            .size_bytes(POOL_BYTES)
            .engines(everleaf_engines::all())
            .parameters(parameters);
        let media = Traced::new(POOL_BYTES, MAX_BYTES, GARBAGE_SEED).unwrap();
        let (store, _pool) = create_on(all(), &options, media.clone()).unwrap();
        let mut history = History::new();
        (0..2 * KEYS).for_each(|step| drop(write(&store, key_type, step, &mut history)));
        media.take_events();
        let open = media.image();
        let (mut stores, mut operations) = (Vec::new(), Vec::new());
        for step in 0..CUT_OPERATIONS {
            let written = write(&store, key_type, 7 * step + 3, &mut history);
            operations.push((stores.len(), written));
            stores.extend(media.take_events().into_iter().filter_map(|event| match event {
                Event::Store { offset, new, .. } => Some((offset, new)),
                Event::Grow { .. } | Event::UnorderedStore { .. } => {
                    panic!("{event:?} is not expected here")
                }
                _ => None,
            }));
        }
        store.close().unwrap();
        let name = format!("{engine}, {key_type:?} keys, {parameters:?}");
        Self { name, key_type, history, closed: media.image(), open, stores, operations }
    }

    /// The closed pool, or one that was cut at a random store.
    pub fn sample(&self, random: &mut StdRng) -> Sample {
        if random.random_bool(0.4) {
            return Sample { words: self.closed.clone(), cut: None };
        }
        let mut words = self.open.clone();
        let cut = random.random_range(0..=self.stores.len());
        self.stores[..cut].iter().for_each(|(offset, new)| words[*offset as usize / 8] = *new);
        let operation =
            self.operations.partition_point(|(start, _)| *start < cut).saturating_sub(1);
        Sample { words, cut: Some(self.operations[operation].1.clone()) }
    }
}

/// Puts or deletes: new keys, other lengths, values of more than a chunk.
fn write(store: &Store, key_type: KeyType, step: u64, history: &mut History) -> OwnedKey {
    let number = step * 31 % KEYS;
    let key = key(key_type, number);
    if step % 5 == 4 {
        store.delete(&key).unwrap();
    } else {
        let bytes = if number == 11 { 5000 } else { step * 13 % 70 };
        let value = value(step, bytes as usize);
        store.put(&key, &value).unwrap();
        history.entry(key.clone()).or_default().insert(value);
    }
    key
}

/// Opens what `words` hold; every step that follows is limited in its accesses, so that an endless
/// one panics.
pub fn open(words: &[u64]) -> (Result<Store, everleaf::Error>, Traced) {
    let media = Traced::from_image(words, MAX_BYTES, GARBAGE_SEED).unwrap();
    media.record(false, false);
    media.limit_accesses(MAX_ACCESSES);
    let store =
        open_on(all(), &crate::common::opening(), media.clone()).map(|(store, _pool)| store);
    media.limit_accesses(MAX_ACCESSES);
    (store, media)
}

/// What the pool holds, which must be sound.
pub fn content(words: &[u64]) -> Content {
    let (store, _media) = open(words);
    let store = store.unwrap();
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "{outcome:?}");
    store.iter().collect::<Result<_, _>>().unwrap()
}

/// Lets the next step make as many accesses as one may.
pub fn next_step(media: &Traced) {
    media.limit_accesses(MAX_ACCESSES);
}
