//! A full pool refuses nothing that makes room: removals, one by one or together, and values that
//! take no more room than those which they replace.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{folder, key, value};
use everleaf::{Clock, CreateOptions, Engine, KeyType, OwnedKey, Result, Store};

/// A value, and whether it expires.
type Model = BTreeMap<OwnedKey, (Vec<u8>, bool)>;

/// An index may keep so much more for nodes and for its log when it is empty again.
const KEPT_FOR_NODES: u64 = 32 << 10;
const LIFE: Duration = Duration::from_secs(1);

/// Numbers that a seed leads to.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % limit
    }
}

/// Of each kind of write how many were done, and how many were refused.
#[derive(Default, Debug)]
struct Tally(BTreeMap<&'static str, (u64, u64)>);

impl Tally {
    /// Whether the write was done.
    fn note<R>(&mut self, what: &'static str, done: Result<R>) -> bool {
        let counts = self.0.entry(what).or_default();
        match done {
            Ok(_) => counts.0 += 1,
            Err(ref error) if error.is_full() => counts.1 += 1,
            Err(error) => panic!("{what}: {error}"),
        }
        done.is_ok()
    }
}

struct Subject {
    store: Store,
    clock: Clock,
    model: Model,
    random: Random,
    tally: Tally,
    key_type: KeyType,
    next: u64,
}

impl Subject {
    fn random_key(&mut self) -> OwnedKey {
        let at = self.random.below(self.model.len());
        self.model.keys().nth(at).unwrap().clone()
    }

    fn random_keys(&mut self, most: usize) -> Vec<OwnedKey> {
        let count = 2 + self.random.below(most - 1);
        (0..count.min(self.model.len())).map(|_| self.random_key()).collect()
    }

    /// Mostly short, at times up to a chunk.
    fn random_bytes(&mut self) -> usize {
        let most = [20, 100, 600, 4000][self.random.below(4)];
        self.random.below(most)
    }

    fn put(&self, key: &OwnedKey, value: &[u8], expires: bool) -> Result<bool> {
        match expires {
            true => self.store.put_for(key, value, LIFE),
            false => self.store.put(key, value),
        }
    }

    /// Puts new keys until one is refused.
    fn fill(&mut self) {
        loop {
            let (key, bytes) = (key(self.key_type, self.next), self.random_bytes());
            let (value, expires) = (value(self.next, bytes), self.random.below(4) == 0);
            match self.put(&key, &value, expires) {
                Ok(_) => drop(self.model.insert(key, (value, expires))),
                Err(error) => break assert!(error.is_full(), "{error}"),
            }
            self.next += 1;
        }
    }

    fn replace(&mut self, what: &'static str, shorter: bool) {
        let key = self.random_key();
        let (old, expires) = self.model[&key].clone();
        let bytes = if shorter { self.random.below(old.len() + 1) } else { old.len() };
        let new = value(self.random.below(1 << 20) as u64, bytes);
        let done = self.put(&key, &new, expires);
        if self.tally.note(what, done) {
            self.model.insert(key, (new, expires));
        }
    }

    /// A batch that shortens some values and removes others.
    fn change_together(&mut self) {
        let keys: Vec<OwnedKey> = self.random_keys(2);
        let mut batch = self.store.batch();
        let mut after = self.model.clone();
        for key in keys {
            let (old, expires) = &self.model[&key];
            if *expires || self.random.below(3) == 0 {
                batch.delete(&key).unwrap();
                after.remove(&key);
            } else {
                let new = value(self.next, self.random.below(old.len() + 1));
                batch.put(&key, &new).unwrap();
                after.insert(key, (new, false));
            }
        }
        if self.tally.note("batch of shorter values", batch.commit()) {
            self.model = after;
        }
    }

    fn remove_together(&mut self, transaction: bool) {
        let keys = self.random_keys(8);
        let (what, done) = if transaction {
            let removed = self
                .store
                .transaction(|tx| keys.iter().try_for_each(|key| tx.delete(key).map(drop)));
            ("transaction of removals", removed)
        } else {
            let mut batch = self.store.batch();
            keys.iter().for_each(|key| _ = batch.delete(key).unwrap());
            ("batch of removals", batch.commit().map(drop))
        };
        if self.tally.note(what, done) {
            self.model.retain(|key, _| !keys.contains(key));
        }
    }

    fn expire(&mut self) {
        self.clock.advance(LIFE);
        if self.tally.note("expiry", self.store.remove_expired().map(drop)) {
            self.model.retain(|_, (_, expires)| !*expires);
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0 => self.expire(),
            1..30 => self.replace("same size", false),
            30..60 => self.replace("shorter", true),
            60..75 => self.change_together(),
            75..80 => {
                let key = self.random_key();
                let done = self.store.delete(&key);
                if self.tally.note("removal", done) {
                    self.model.remove(&key);
                }
            }
            80..83 => self.remove_together(false),
            83..86 => self.remove_together(true),
            _ => self.fill(),
        }
    }

    fn expect(&self) {
        let found: BTreeMap<_, _> = self.store.iter().collect::<Result<_>>().unwrap();
        let same = found.len() == self.model.len()
            && found.iter().zip(&self.model).all(|((key, value), (of_model, (expected, _)))| {
                key == of_model && value == expected
            });
        assert!(same, "{} keys, {} expected", found.len(), self.model.len());
        let outcome = self.store.check().unwrap();
        assert!(outcome.ok, "{outcome:?}");
    }
}

/// Values of these bytes until the pool is full; how many.
fn fill_again(store: &Store, key_type: KeyType, bytes: usize) -> u64 {
    (0..).find(|n| store.put(key(key_type, *n), value(*n, bytes)).is_err()).unwrap()
}

/// Bytes in use.
fn used(store: &Store) -> u64 {
    store.statistics().unwrap().used_bytes
}

fn run(engine: Engine, key_type: KeyType, pool_bytes: u64, seed: u64) -> Tally {
    let folder = folder();
    let clock = Clock::manual(1000);
    let store = CreateOptions::new()
        .engine(engine)
        .key_type(key_type)
        .size_bytes(pool_bytes)
        .max_size_bytes(pool_bytes)
        .clock(clock.clone())
        .create(folder.path().join("a.pool"))
        .unwrap();
    let before = fill_again(&store, key_type, 100);
    store.clear().unwrap();
    let used_before = used(&store);
    let (random, tally) = (Random(seed), Tally::default());
    let (model, next) = (Model::new(), 0);
    let mut subject = Subject { store, clock, model, random, tally, key_type, next };
    subject.fill();
    for step in 0..400 {
        subject.step();
        if step % 100 == 0 || subject.model.len() < 10 {
            subject.expect();
            subject.fill();
        }
    }
    subject.expect();
    while !subject.model.is_empty() {
        let keys = subject.random_keys(8);
        for key in keys {
            let done = subject.store.delete(&key);
            subject.tally.note("removal", done);
            subject.model.remove(&key);
        }
    }
    subject.expect();
    // Nothing has leaked. How many values of another size fit then is not told: chunks that are not
    // in a row serve no run of nodes.
    let used_after = used(&subject.store);
    let after = fill_again(&subject.store, key_type, 100);
    println!("{before} values, then {used_before} bytes in use; {after} and {used_after}");
    assert!(used_after <= used_before + KEPT_FOR_NODES, "{used_after}, {used_before} before");
    assert!(subject.store.check().unwrap().ok);
    subject.tally
}

#[test]
fn what_makes_room_is_not_refused_in_a_full_pool() {
    let mut refused = false;
    for engine in Engine::available() {
        for key_type in [KeyType::U64, KeyType::Bytes].into_iter().filter(|of| engine.has_keys(*of))
        {
            for (pool_bytes, seed) in [(256 << 10, 1), (1 << 20, 2)] {
                let tally = run(engine, key_type, pool_bytes, seed);
                println!("{engine}, {key_type:?}, {pool_bytes} bytes, seed {seed}: {tally:?}");
                refused |= tally.0.values().any(|(_, refused)| *refused > 0);
            }
        }
    }
    assert!(!refused, "see above");
}

#[test]
fn values_that_become_shorter_one_by_one_use_nothing_up() {
    let folder = folder();
    let mut refused = Vec::new();
    for engine in Engine::available().filter(|engine| engine.has_keys(KeyType::Bytes)) {
        let store = CreateOptions::new()
            .engine(engine)
            .size_bytes(4 << 20)
            .max_size_bytes(4 << 20)
            .create(folder.path().join(format!("{engine}.pool")))
            .unwrap();
        let header = |n: u64| format!("header {n:024}");
        let field = |n: u64| format!("field {n:08}");
        store.put(header(0), [0; 24]).unwrap();
        let mut fields = 0;
        while store.put(field(fields), [b'x'; 60]).is_ok() {
            fields += 1;
        }
        let mut tally = Tally::default();
        for n in 0..fields {
            let mut batch = store.batch();
            batch.put(field(n), b"x").unwrap().put(header(0), [n as u8; 24]).unwrap();
            tally.note("a field and the header", batch.commit());
            if n % 64 == 0 {
                tally.note("the header", store.put(header(0), [1; 24]));
            }
        }
        println!("{engine}: {fields} fields, {tally:?}");
        if tally.0.values().any(|(_, refused)| *refused > 0) {
            refused.push(engine.name());
        }
        assert!(store.check().unwrap().ok);
    }
    assert!(refused.is_empty(), "{refused:?}");
}
