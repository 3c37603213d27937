//! Damage is an error or a violation, never a panic and never an endless loop.

use std::ops::{Bound, ControlFlow};

use everleaf_crash::Traced;
use everleaf_index::{Direction, Index, IndexError, KeyKind};
use everleaf_pmem::{Media, PCell};
use everleaf_pool::{Audit, Pool, Shutdown};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::{KeyOf, Opened, TestedTree, assert_sound, image_of, opened, traced_pool};

/// A tree of some 60 keys in a pool of so many bytes that was not closed.
pub fn grown<K: KeyKind>(
    tested: impl TestedTree<K>,
    bytes: u64,
    key: KeyOf<K>,
) -> Opened<K, Traced> {
    let pool = traced_pool(tested, bytes);
    let tree = opened(tested, &pool);
    let words = tree.value_words();
    for i in 0..80 {
        let key = key(i * 37 % 100);
        tree.insert_words(K::borrow(&key), &vec![i; words]).unwrap();
        if i % 5 == 0 {
            tree.remove_words(K::borrow(&key), &mut vec![0; words]).unwrap();
        }
    }
    assert_sound(&pool, &*tree);
    (pool, tree)
}

/// The image of a pool, opened after a crash.
///
/// # Errors
/// Those of the pool and of the tree.
pub fn reopened<K: KeyKind>(
    tested: impl TestedTree<K>,
    pool: &Pool<Traced>,
) -> Result<Opened<K, Traced>, IndexError> {
    of_image(tested, &pool.media().image())
}

fn of_image<K: KeyKind>(
    tested: impl TestedTree<K>,
    image: &[u64],
) -> Result<Opened<K, Traced>, IndexError> {
    let (pool, _) = Pool::open(image_of(image))?;
    let tree = tested.open(&pool, Shutdown::Crash.into())?;
    Ok((pool, tree))
}

/// Opening what a pool holds fails with an error of which this is a part.
#[track_caller]
pub fn refused<K: KeyKind>(tested: impl TestedTree<K>, pool: &Pool<Traced>, part: &str) {
    let error = reopened(tested, pool).map(drop).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

/// What the check of a tree says.
pub fn violations<K: KeyKind>(tree: &dyn Index<K>) -> String {
    match tree.check(&mut Audit::new()) {
        Ok(report) => report.violations.join("; "),
        Err(error) => error.to_string(),
    }
}

/// The check of a tree says this among others.
#[track_caller]
pub fn finds<K: KeyKind>(tree: &dyn Index<K>, part: &str) {
    let found = violations(tree);
    assert!(found.contains(part), "{part:?} is not in {found:?}");
}

/// Cells of a pool.
pub fn cells(pool: &Pool<Traced>, offset: u64, count: usize) -> &[PCell] {
    pool.media().region().cells(offset, count).unwrap()
}

/// Every operation, with many keys: whatever it says, it ends.
pub fn use_all<K: KeyKind>(tree: &dyn Index<K>, key: KeyOf<K>) {
    let _ = (violations(tree), tree.len(), tree.statistics());
    for direction in [Direction::Forward, Direction::Backward] {
        let _ = tree.scan(Bound::Unbounded, direction, &mut |_, _| ControlFlow::Continue(()));
    }
    let keys: Vec<K::Owned> = (0..200).map(key).collect();
    let keys: Vec<K::Ref<'_>> = keys.iter().map(K::borrow).collect();
    let (value, mut old) = (vec![1; tree.value_words()], vec![0; tree.value_words()]);
    let _ = tree.get_many(&keys, &mut vec![None; keys.len()]);
    for (i, key) in keys.iter().enumerate() {
        let _ = tree.get_words(*key, &mut old);
        let _ = tree.insert_words(*key, &value);
        let _ = tree.upsert_words(*key, &value, &mut old);
        let _ = tree.update_words(*key, &value, &mut old);
        let _ = tree.remove_words(keys[(i + 3) % keys.len()], &mut old);
    }
    for i in 0..keys.len() {
        let _ = tree.remove_words(keys[i * 7 % keys.len()], &mut old);
    }
    let _ = violations(tree);
}

/// One to three words of an image overwritten at random; in every other round only where there is
/// something, since damage elsewhere may be met by nobody.
fn damaged(image: &[u64], used: &[usize], random: &mut StdRng) -> Vec<u64> {
    let mut damaged = image.to_vec();
    let anywhere = random.random();
    for _ in 0..random.random_range(1..4) {
        let at = match anywhere {
            true => random.random_range(0..image.len()),
            false => used[random.random_range(0..used.len())],
        };
        damaged[at] = match random.random_range(0..4) {
            0 => 0,
            1 => damaged[at] ^ 1 << random.random_range(0..64),
            2 => damaged[random.random_range(0..image.len())],
            _ => random.next_u64(),
        };
    }
    damaged
}

/// Words of a pool overwritten at random: whatever is done then ends, with any outcome but a panic.
pub fn fuzz<K: KeyKind>(tested: impl TestedTree<K>, bytes: u64, key: KeyOf<K>, seed: u64) {
    println!("{tested:?}, seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (pool, _tree) = grown(tested, bytes, key);
    let image = pool.media().image();
    let used: Vec<usize> = (0..image.len()).filter(|at| image[*at] != 0).collect();
    let mut opened_though_damaged = 0;
    for _ in 0..300 {
        let damaged = damaged(&image, &used, &mut random);
        let Ok((_pool, tree)) = of_image(tested, &damaged) else { continue };
        opened_though_damaged += 1;
        let _ = violations(&*tree);
        let (value, mut old) = (vec![1; tree.value_words()], vec![0; tree.value_words()]);
        for i in 0..100 {
            let key = key(random.random_range(0..100));
            let key = K::borrow(&key);
            let _ = match i % 4 {
                0 => tree.insert_words(key, &value),
                1 => tree.remove_words(key, &mut old),
                2 => tree.upsert_words(key, &value, &mut old),
                _ => tree.get_words(key, &mut old),
            };
        }
        use_all(&*tree, key);
    }
    assert!(opened_though_damaged > 10, "damage was to be met by operations too");
}
