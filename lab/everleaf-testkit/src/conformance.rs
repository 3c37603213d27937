//! The conformance suite: what every index must do, written once against [`Index`] and compared
//! with the model.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use everleaf::internal::{BytesKeys, U64Keys};
use everleaf::{IndexError, MAX_KEY_BYTES};
use everleaf_index::{Direction, Index, KeyKind, Model, SerialIndex};
use everleaf_pool::Audit;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Keys that tests can draw.
pub trait TestKeys: KeyKind {
    /// A key drawn from a space of about `space` keys, extremes among them.
    fn draw(rng: &mut StdRng, space: u64) -> Self::Owned;
    /// The key of a number, in the same order as the numbers.
    fn ordered(number: u64) -> Self::Owned;
    /// Keys at the edges of what is allowed.
    fn edges() -> Vec<Self::Owned>;
    /// A key that must be refused, if there is one.
    fn too_long() -> Option<Self::Owned>;
}

impl TestKeys for U64Keys {
    fn draw(rng: &mut StdRng, space: u64) -> u64 {
        let number = rng.random_range(0..space);
        match number % 7 {
            0 => u64::MAX - number,
            1 => number << 56,
            _ => number,
        }
    }
    fn ordered(number: u64) -> u64 {
        number
    }
    fn edges() -> Vec<u64> {
        vec![0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1]
    }
    fn too_long() -> Option<u64> {
        None
    }
}

impl TestKeys for BytesKeys {
    fn draw(rng: &mut StdRng, space: u64) -> Box<[u8]> {
        let number = rng.random_range(0..space);
        match number % 5 {
            0 => number.to_le_bytes()[..(number % 9) as usize].into(),
            1 => vec![0; (number % 30) as usize].into(),
            2 => format!("a-prefix-that-many-keys-share-{number}").into_bytes().into(),
            3 => vec![0xff; (number % 20) as usize].into(),
            _ => number.to_be_bytes().into(),
        }
    }
    fn ordered(number: u64) -> Box<[u8]> {
        number.to_be_bytes().into()
    }
    fn edges() -> Vec<Box<[u8]>> {
        vec![
            [].into(),
            [0].into(),
            [0, 0].into(),
            [0xff].into(),
            vec![0xff; 9].into(),
            vec![b'x'; MAX_KEY_BYTES].into(),
        ]
    }
    fn too_long() -> Option<Box<[u8]>> {
        Some(vec![0; MAX_KEY_BYTES + 1].into())
    }
}

/// The suite for one index, which must be empty. Panics, with the seed, at the first difference.
pub struct Conformance<'i, K: TestKeys> {
    index: &'i dyn Index<K>,
    model: Model<K>,
    seed: u64,
}

impl<'i, K: TestKeys> Conformance<'i, K>
where
    Model<K>: SerialIndex<K>,
{
    /// Takes an empty index of one-word values.
    pub fn new(index: &'i dyn Index<K>, seed: u64) -> Self {
        assert_eq!((index.len(), index.value_words()), (0, 1));
        Self { index, model: Model::new(), seed }
    }

    /// Runs everything; the index is left as the last step made it, and the model of that is
    /// returned.
    pub fn run(mut self, operations: usize) -> Model<K> {
        self.scans();
        self.random(operations, operations as u64 / 3 + 2);
        self.edges();
        self.fill_in_order(operations as u64, false);
        self.empty();
        self.fill_in_order(operations as u64, true);
        self.shown_entries_stay();
        self.random(operations, 50);
        self.model
    }

    fn step(&mut self, kind: u32, key: K::Ref<'_>, value: u64) {
        let (seed, index) = (self.seed, self.index);
        let (mut old, mut model_old) = ([7], [7]);
        let (done, expected) = match kind {
            0 => (index.insert_words(key, &[value]), self.model.insert_words(key, &[value])),
            1 => (
                index.update_words(key, &[value], &mut old),
                self.model.update_words(key, &[value], &mut model_old),
            ),
            2 => (
                index.upsert_words(key, &[value], &mut old),
                self.model.upsert_words(key, &[value], &mut model_old),
            ),
            3 => (index.remove_words(key, &mut old), self.model.remove_words(key, &mut model_old)),
            _ => (index.get_words(key, &mut old), self.model.get_words(key, &mut model_old)),
        };
        let name = ["insert", "update", "upsert", "remove", "get"][kind.min(4) as usize];
        let (done, expected) = (
            done.unwrap_or_else(|e| panic!("{name} {key:?}: {e}, seed {seed}")),
            expected.unwrap(),
        );
        assert_eq!((done, old), (expected, model_old), "{name} {key:?} {value}, seed {seed}");
        assert_eq!(index.len(), self.model.len(), "length after {name} {key:?}, seed {seed}");
    }

    /// Random operations over a space of keys small enough that they meet.
    fn random(&mut self, operations: usize, space: u64) {
        let mut rng = StdRng::seed_from_u64(self.seed ^ space);
        for i in 0..operations {
            let key = K::draw(&mut rng, space);
            let value = [rng.random(), u64::MAX, 0][rng.random_range(0..3)];
            self.step([0, 0, 0, 1, 2, 3, 3, 4][rng.random_range(0..8)], K::borrow(&key), value);
            if i % (operations / 4 + 1) == 0 {
                self.compare();
            }
        }
        self.compare();
        self.scans();
        self.many(&mut rng, space);
    }

    fn edges(&mut self) {
        for key in K::edges() {
            for kind in [3, 4, 1, 0, 0, 4, 1, 2, 4, 3, 3, 2, 4] {
                self.step(kind, K::borrow(&key), u64::MAX);
            }
        }
        if let Some(key) = K::too_long() {
            let refused = self.index.insert(K::borrow(&key), 1);
            assert!(matches!(refused, Err(IndexError::KeyTooLong { .. })), "{refused:?}");
        }
        assert!(matches!(
            self.index.insert_words(K::borrow(&K::ordered(1)), &[1, 2]),
            Err(IndexError::ValueWords { .. })
        ));
        self.compare();
    }

    /// Ascending or descending keys: each split at the end of the tree.
    fn fill_in_order(&mut self, keys: u64, descending: bool) {
        for i in 0..keys {
            let key = K::ordered(if descending { keys - i } else { i });
            self.step(2, K::borrow(&key), i);
        }
        self.compare();
        self.scans();
    }

    fn empty(&mut self) {
        let keys: Vec<K::Owned> = self.model.map().keys().cloned().collect();
        for key in &keys {
            self.step(3, K::borrow(key), 0);
        }
        assert!(self.index.is_empty());
        self.compare();
        self.scans();
    }

    /// The whole content, both ways, and the index's own check.
    fn compare(&self) {
        for direction in [Direction::Forward, Direction::Backward] {
            let expected =
                collect(&self.model, |m, visit| m.scan(Bound::Unbounded, direction, visit));
            let found = collect(self.index, |i, visit| i.scan(Bound::Unbounded, direction, visit));
            assert_eq!(found, expected, "{direction:?}, seed {}", self.seed);
        }
        let report = self.index.check(&mut Audit::new()).expect("a check");
        assert_eq!(report.violations, Vec::<String>::new(), "seed {}", self.seed);
        assert_eq!(report.keys, self.model.len());
        assert_eq!(self.index.statistics().keys, self.model.len());
    }

    /// Scans from bounds that are and are not keys, some of them cut short.
    fn scans(&self) {
        let mut rng = StdRng::seed_from_u64(self.seed + 1);
        for i in 0..40 {
            let key = K::draw(&mut rng, 60);
            let key = K::borrow(&key);
            let from = [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded][i % 3];
            for direction in [Direction::Forward, Direction::Backward] {
                let limit = if i % 2 == 0 { usize::MAX } else { i };
                let expected =
                    collect_some(&self.model, limit, |m, visit| m.scan(from, direction, visit));
                let found =
                    collect_some(self.index, limit, |x, visit| x.scan(from, direction, visit));
                assert_eq!(found, expected, "{direction:?} from {from:?}, seed {}", self.seed);
            }
        }
    }

    /// What a scan shows is not replaced or removed before the visitor has returned: it may lead to
    /// what the visitor reads.
    fn shown_entries_stay(&mut self) {
        let (number, seed) = (self.model.len() / 2, self.seed);
        let key = K::ordered(number);
        for (kind, direction) in
            [(1, Direction::Forward), (2, Direction::Backward), (3, Direction::Forward)]
        {
            self.step(2, K::borrow(&key), number);
            let (begun, returned) = (AtomicBool::new(false), AtomicBool::new(false));
            let write = || {
                begun.store(true, Relaxed);
                let (index, key) = (self.index, K::borrow(&key));
                let written = match kind {
                    1 => index.update_words(key, &[5], &mut [0]),
                    2 => index.upsert_words(key, &[5], &mut [0]),
                    _ => index.remove_words(key, &mut [0]),
                };
                returned.store(true, Relaxed);
                assert!(written.expect("a write beside a scan"), "seed {seed}");
            };
            std::thread::scope(|scope| {
                let mut visit = |shown: K::Ref<'_>, value: &[u64]| {
                    if K::to_owned(shown) == key {
                        scope.spawn(write);
                        while !begun.load(Relaxed) {
                            std::thread::yield_now();
                        }
                        std::thread::sleep(Duration::from_millis(2));
                        assert!(
                            !returned.load(Relaxed),
                            "a shown entry was written, {direction:?}, seed {seed}"
                        );
                        assert_eq!(value, [number], "seed {seed}");
                    }
                    ControlFlow::Continue(())
                };
                self.index.scan(Bound::Unbounded, direction, &mut visit).expect("a scan");
            });
            assert!(returned.into_inner(), "the key was not shown, seed {seed}");
            match kind {
                3 => _ = self.model.remove_words(K::borrow(&key), &mut [0]),
                _ => _ = self.model.upsert_words(K::borrow(&key), &[5], &mut [0]),
            }
        }
    }

    /// get_many of present and absent keys, of every group size.
    fn many(&self, rng: &mut StdRng, space: u64) {
        for count in [0, 1, 2, 15, 16, 17, 33, 100] {
            let keys: Vec<K::Owned> = (0..count).map(|_| K::draw(rng, space * 2)).collect();
            let borrowed: Vec<K::Ref<'_>> = keys.iter().map(|key| K::borrow(key)).collect();
            let (mut found, mut expected) = (vec![Some(3); count], vec![Some(4); count]);
            self.index.get_many(&borrowed, &mut found).expect("get_many");
            self.model.get_many(&borrowed, &mut expected).unwrap();
            assert_eq!(found, expected, "seed {}", self.seed);
        }
    }
}

type Entries<K> = Vec<(<K as KeyKind>::Owned, Vec<u64>)>;
type Visitor<'v, K> = dyn for<'a> FnMut(<K as KeyKind>::Ref<'a>, &[u64]) -> ControlFlow<()> + 'v;

fn collect<K: KeyKind, T: ?Sized>(
    of: &T,
    scan: impl FnOnce(&T, &mut Visitor<'_, K>) -> Result<(), IndexError>,
) -> Entries<K> {
    collect_some::<K, T>(of, usize::MAX, scan)
}

fn collect_some<K: KeyKind, T: ?Sized>(
    of: &T,
    limit: usize,
    scan: impl FnOnce(&T, &mut Visitor<'_, K>) -> Result<(), IndexError>,
) -> Entries<K> {
    let mut entries = Vec::new();
    if limit > 0 {
        scan(of, &mut |key, value| {
            entries.push((K::to_owned(key), value.to_vec()));
            if entries.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .expect("a scan");
    }
    entries
}
