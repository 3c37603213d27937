//! Trees whose entries have one record each, as a store has them: what is put there is a record
//! with the key, and the tree owns the records of bounds and separators only.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, CheckReport, Direction, Index, IndexError, LinkSteps, Links};
use everleaf_pmem::{Media, PPtr};
use everleaf_pool::{Audit, EntryHead, Format, KeyType, Pool, Record, Shutdown, Worker};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{Engine, open};
use everleaf_tree::key::{TestKey, TreeKey};
use everleaf_tree::parameters::{EngineParameters, ONE_RECORD};

type Model = BTreeMap<Box<[u8]>, Vec<u8>>;

/// What a store is: records, and an index that leads to them.
struct Linked {
    pool: Arc<Pool<Traced>>,
    worker: Worker<Traced>,
    tree: Box<dyn Index<BytesKeys>>,
}

struct Steps<'w>(&'w mut Worker<Traced>);

impl LinkSteps for Steps<'_> {
    fn prepare(&mut self, _old: Option<u64>) -> Result<(), IndexError> {
        Ok(self.0.state_doubt()?)
    }
    fn complete(&mut self) -> Result<(), IndexError> {
        Ok(self.0.mark_doubt()?)
    }
}

impl Linked {
    fn new(engine: Engine, parameters: &EngineParameters) -> Self {
        let key_type = KeyType::Bytes;
        let mut parameters = (engine.pack)(parameters, 1).unwrap();
        parameters[ONE_RECORD] = 1;
        let traced = Traced::new(4 << 20, 4 << 20, 7).unwrap();
        traced.record(false, false);
        let format = Format { engine: engine.name.to_owned(), key_type, parameters };
        Self::over(Pool::create(traced, &format).unwrap())
    }

    fn over(pool: Arc<Pool<Traced>>) -> Self {
        let tree = open(&pool, Shutdown::Crash.into());
        assert_eq!(tree.links(), Links::All);
        Self { worker: pool.worker().unwrap(), tree, pool }
    }

    /// Makes a record of these the entry's, or removes it; by the two fences where records are
    /// blocks, else in the way of runs.
    fn exchange(&mut self, key: &[u8], value: Option<&[u8]>) {
        let old = PPtr::<Record>::at(self.tree.get(key).unwrap().unwrap_or(0));
        let head = EntryHead::of(key.len(), false).to_bytes();
        let parts = value.map(|value| [&head, key, value]);
        let parts = parts.as_ref().map(|parts| &parts[..]);
        match self.worker.begin_doubt(old, parts).unwrap() {
            Some(new) => {
                let word = (!new.is_null()).then_some(new.offset());
                assert!(self.tree.link(key, word, &mut Steps(&mut self.worker)).unwrap());
                self.worker.end_doubt().unwrap();
            }
            None => {
                let new = self.worker.begin_link(old, parts).unwrap();
                let before = match new.is_null() {
                    true => self.tree.remove(key).unwrap(),
                    false => self.tree.upsert(key, new.offset()).unwrap(),
                };
                assert_eq!(before.unwrap_or(0), old.offset());
                self.worker.end_link(true).unwrap();
            }
        }
    }

    /// Entries, in this order.
    fn entries(&self, direction: Direction) -> Vec<(Box<[u8]>, Vec<u8>)> {
        let mut entries = Vec::new();
        let visit = &mut |key: &[u8], words: &[u64]| {
            let records = self.pool.pin();
            let record = records.record(PPtr::at(words[0])).unwrap();
            entries.push((key.into(), record[4 + key.len()..].to_vec()));
            ControlFlow::Continue(())
        };
        self.tree.scan(Bound::Unbounded, direction, visit).unwrap();
        entries
    }

    /// Violations, and leaks, where each entry's record is the caller's.
    fn problems(&self, model: &Model) -> Vec<String> {
        let mut audit = Audit::new();
        let CheckReport { keys, mut violations } = self.tree.check(&mut audit).unwrap();
        assert_eq!(keys, self.tree.len());
        for key in model.keys() {
            self.tree.get(key).into_iter().flatten().for_each(|record| audit.reach(record));
        }
        let report = self.pool.finish_audit(audit);
        violations.extend(report.violations);
        violations.extend((report.leaked_blocks > 0).then(|| "blocks leaked".to_owned()));
        violations
    }

    fn violations(&self) -> Vec<String> {
        self.tree.check(&mut Audit::new()).unwrap().violations
    }

    fn assert_is(&self, model: &Model) {
        assert_eq!(self.tree.len(), model.len() as u64);
        assert!(self.entries(Direction::Forward).into_iter().eq(model.clone()));
        assert!(self.entries(Direction::Backward).into_iter().rev().eq(model.clone()));
        let keys: Vec<&[u8]> = model.keys().map(|key| &**key).collect();
        let mut found = vec![None; keys.len()];
        self.tree.get_many(&keys, &mut found).unwrap();
        assert!(keys.iter().zip(found).all(|(key, found)| self.tree.get(key).unwrap() == found));
        assert_eq!(self.problems(model), Vec::<String>::new());
    }
}

fn engines() -> impl Iterator<Item = Engine> {
    everleaf_engines::pools().filter(|engine| engine.one_record)
}

/// The sizes that were measured best, and the smallest: every few operations change inner nodes,
/// take or give back a group.
fn sizes(engine: Engine) -> [EngineParameters; 2] {
    let has = |name| engine.parameters.contains(&name);
    let group_bytes = has(EngineParameters::GROUP_BYTES).then_some(4096);
    let tiny = EngineParameters {
        leaf_slots: Some(engine.min_leaf_slots),
        inner_keys: has(EngineParameters::INNER_KEYS).then_some(4),
        group_bytes,
        ..EngineParameters::default()
    };
    [tiny, EngineParameters { group_bytes, ..EngineParameters::default() }]
}

#[test]
fn random_exchanges_are_those_of_a_map_and_separators_are_all_that_the_tree_owns() {
    for engine in engines() {
        for parameters in sizes(engine) {
            let (mut linked, mut model) = (Linked::new(engine, &parameters), Model::new());
            let mut random = StdRng::seed_from_u64(11);
            for step in 0..1500 {
                // Also keys of 64 KiB, whose records are runs, and values that are.
                let key = BytesKeys::make(random.random_range(0..300));
                let length = [0, 3, 100, 5000][random.random_range(0..40usize).saturating_sub(36)];
                if random.random_range(0..5) < if step < 900 { 4 } else { 1 } {
                    let value = vec![step as u8; length];
                    linked.exchange(&key, Some(&value));
                    model.insert(key, value);
                } else if model.remove(&key).is_some() {
                    linked.exchange(&key, None);
                }
                assert_eq!(linked.tree.get(b"none of them").unwrap(), None);
                if step % 300 == 299 {
                    linked.assert_is(&model);
                    let Linked { pool, worker, tree } = linked;
                    drop((worker, tree));
                    linked = Linked::over(pool);
                    linked.assert_is(&model);
                }
            }
            model.keys().for_each(|key| linked.exchange(key, None));
            linked.assert_is(&Model::new());
        }
    }
}

/// A tree of some entries, one of their keys, and where the key word and the value of its live slot
/// are: a dead slot may have the same words.
fn grown(engine: Engine) -> (Linked, Model, [u64; 2], Box<[u8]>) {
    let (mut linked, mut model) = (Linked::new(engine, &sizes(engine)[0]), Model::new());
    for n in 0..40 {
        linked.exchange(&BytesKeys::make(n), Some(b"value"));
        model.insert(BytesKeys::make(n), b"value".to_vec());
    }
    let key = BytesKeys::make(21);
    let record = linked.tree.get(&key).unwrap().unwrap();
    let live = |word: u64| {
        let media = linked.pool.media();
        let is_live = |at: &u64| {
            if media.load(&media.region().cells(*at, 1).unwrap()[0]) != word {
                return false;
            }
            flip(&linked.pool, *at, 8);
            let changed = !matches!(linked.tree.get(&key), Ok(Some(found)) if found == record);
            flip(&linked.pool, *at, 8);
            changed
        };
        (0..media.region().len()).step_by(8).find(is_live).unwrap()
    };
    let words = [live(BytesKeys::hash(&key).word()), live(record)];
    (linked, model, words, key)
}

fn flip(pool: &Pool<Traced>, at: u64, bits: u64) {
    let cell = &pool.media().region().cells(at, 1).unwrap()[0];
    pool.media().store(cell, pool.media().load(cell) ^ bits);
}

#[test]
fn a_damaged_key_in_an_entry_s_record_is_an_error_and_no_missing_key() {
    for engine in engines() {
        let (linked, _, _, key) = grown(engine);
        let record = linked.tree.get(&key).unwrap().unwrap();
        // The head, and the first bytes of the key.
        for bits in [1, 1 << 23, 1 << 31, 1 << 32, 1 << 41] {
            flip(&linked.pool, record + 8, bits);
            assert!(linked.tree.get(&key).is_err(), "{bits:#x}");
            let visit = &mut |_: &[u8], _: &[u64]| ControlFlow::Continue(());
            assert!(linked.tree.scan(Bound::Unbounded, Direction::Forward, visit).is_err());
            assert_ne!(linked.violations(), Vec::<String>::new());
            flip(&linked.pool, record + 8, bits);
        }
        // The value is the caller's.
        flip(&linked.pool, record + 8 + (4 + key.len() as u64) / 8 * 8, 1 << 63);
        assert_eq!(linked.tree.get(&key).unwrap(), Some(record));
    }
}

#[test]
fn an_entry_that_leads_to_the_record_of_another_key_is_an_error() {
    for engine in engines() {
        let (linked, model, [key_at, value_at], key) = grown(engine);
        let others = linked.tree.get(&BytesKeys::make(22)).unwrap().unwrap();
        let own = linked.tree.get(&key).unwrap().unwrap();
        flip(&linked.pool, value_at, own ^ others);
        let error = linked.tree.get(&key).unwrap_err().to_string();
        assert!(error.contains("another key"), "{error}");
        flip(&linked.pool, value_at, own ^ others);
        linked.assert_is(&model);
        // A damaged hash is like a damaged fingerprint: the check finds it.
        flip(&linked.pool, key_at, 1);
        assert_eq!(linked.tree.get(&key).unwrap(), None);
        assert_ne!(linked.violations(), Vec::<String>::new());
    }
}
