//! Pools damaged at random, and then everything that a user can do.
//!
//! What holds for every seed:
//! * opening, reading, checking, writing and closing end, with a result or an error;
//! * a value that is shown is one that this key once had, scans come in order and end;
//! * what reads wrongly (a key that is missing, an older value) is found by `check`, unless it is
//!   the write that a crash cut;
//! * what was put into a damaged store is read back, or is an error.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use everleaf::{Error, OwnedKey, PoolError, Scan, Store};
use everleaf_crash::Traced;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::harm::harm;
use super::images::{Content, History, KEYS, Recipe, content, next_step, open};
use crate::common::{folder, key, value};

/// Seeds that are run if nothing else is said.
const SEEDS: u64 = 2000;
/// One seed in so many is run on a file too.
const FILE_EVERY: u64 = 8;
/// Entries that a scan may show: more than there ever were keys.
const MAX_ENTRIES: usize = 3 * KEYS as usize;

fn seeds() -> Range<u64> {
    let Ok(wish) = std::env::var("EVERLEAF_DAMAGE_SEEDS") else { return 0..SEEDS };
    let number = |text: &str| {
        text.parse()
            .unwrap_or_else(|_| panic!("EVERLEAF_DAMAGE_SEEDS={wish} is no number, and no range"))
    };
    wish.split_once("..")
        .map_or_else(|| 0..number(&wish), |(first, end)| number(first)..number(end))
}

/// Runs `test` with every seed, and names the first that fails.
fn for_each_seed(seeds: impl Iterator<Item = u64>, mut test: impl FnMut(u64, &mut String)) {
    for seed in seeds {
        let mut story = String::new();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed, &mut story))) {
            println!("EVERLEAF_DAMAGE_SEEDS={seed}..{}: {story}", seed + 1);
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn random_damage_is_an_error_and_nothing_worse() {
    let recipes = Recipe::all();
    let (mut opened, mut noticed, mut run) = (0, 0, 0u64);
    for_each_seed(seeds(), |seed, story| {
        let mut random = StdRng::seed_from_u64(seed);
        let recipe = &recipes[seed as usize % recipes.len()];
        let sample = recipe.sample(&mut random);
        let reference = content(&sample.words);
        let mut words = sample.words;
        let harm = harm(&mut words, &mut random);
        *story = format!("{}, cut: {:?}: {harm}", recipe.name, sample.cut);
        let (store, media) = open(&words);
        run += 1;
        let Ok(store) = store.inspect_err(expected_of_opening) else {
            noticed += 1;
            return;
        };
        opened += 1;
        let right = reads_right(&store, &media, &recipe.history, &reference, sample.cut.as_ref());
        next_step(&media);
        let checked = store.check();
        let sound = checked.as_ref().is_ok_and(|outcome| outcome.ok);
        assert!(right || !sound, "check sees nothing: {checked:?}");
        noticed += u64::from(!sound);
        let mut history = recipe.history.clone();
        write_everything(&store, &media, &mut random, recipe.key_type, &mut history);
        next_step(&media);
        let _ = (store.check(), store.statistics(), store.sync());
        next_step(&media);
        let _ = store.close();
        let (store, media) = open(&media.image());
        if let Ok(store) = store {
            reads_right(&store, &media, &history, &reference, None);
        }
    });
    println!("{run} damaged pools, {opened} could be opened, {noticed} were found damaged");
    let (opened, noticed) = (opened * 4, noticed * 4);
    assert!(
        run < 100 || opened > run && noticed > run,
        "damage was to be met by operations, and to be noticed"
    );
}

#[test]
fn a_damaged_file_is_an_error_and_nothing_worse() {
    let recipes = Recipe::all();
    let folder = folder();
    let path = folder.path().join("damaged.pool");
    for_each_seed(seeds().step_by(FILE_EVERY as usize), |seed, story| {
        let mut random = StdRng::seed_from_u64(!seed);
        let recipe = &recipes[(seed / FILE_EVERY) as usize % recipes.len()];
        let mut words = recipe.sample(&mut random).words;
        *story = format!("file, {}: {}", recipe.name, harm(&mut words, &mut random));
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(bytes.len() - random.random_range(0..8));
        let read = |store: &Store, history: &History| {
            store.iter().flatten().for_each(|entry| assert_was_put(&entry, history))
        };
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(store) = crate::common::open_read_only(&path).inspect_err(expected_of_opening) {
            read(&store, &recipe.history);
            let _ = (store.check(), store.statistics(), store.close());
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "reading wrote to the file");
        if let Ok(store) = crate::common::open(&path).inspect_err(expected_of_opening) {
            let mut history = recipe.history.clone();
            for step in 0..20 {
                let (key, value) =
                    (key(recipe.key_type, random.random_range(0..KEYS)), value(step, 60));
                if store.put(&key, &value).is_ok() {
                    history.entry(key.clone()).or_default().insert(value);
                }
                let _ = (store.delete(&key), store.get(&key));
            }
            read(&store, &history);
            let _ = store.close();
        }
    });
}

/// Damage, a file that is too short, or no room for what opening needs; and nothing else.
fn expected_of_opening(error: &Error) {
    let file = matches!(
        error,
        Error::Pool(PoolError::Map(_) | PoolError::NotAPool { .. } | PoolError::OtherBoot { .. })
    );
    assert!(error.is_corruption() || error.is_full() || file, "{error}");
}

/// Gets every key and scans both ways; whether all of it was as in the reference, but for the write
/// that was cut.
fn reads_right(
    store: &Store,
    media: &Traced,
    history: &History,
    reference: &Content,
    cut: Option<&OwnedKey>,
) -> bool {
    let mut right = true;
    for key in history.keys() {
        next_step(media);
        match store.get(key) {
            Ok(found) => {
                right &= found.as_ref() == reference.get(key) || Some(key) == cut;
                found.into_iter().for_each(|value| assert_was_put(&(key.clone(), value), history));
            }
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                right = false;
            }
        }
    }
    for scan in [Scan::all(), Scan::all().backward()] {
        next_step(media);
        let backward = scan == Scan::all().backward();
        let entries: Result<Vec<_>, Error> = store.scan(scan).take(MAX_ENTRIES).collect();
        let Ok(mut entries) =
            entries.inspect_err(|error| assert!(error.is_corruption(), "{error}"))
        else {
            return false;
        };
        assert!(entries.len() < MAX_ENTRIES, "a scan shows more entries than there can be");
        if backward {
            entries.reverse();
        }
        assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "a scan is out of order");
        entries.iter().for_each(|entry| assert_was_put(entry, history));
        let others = |key: &OwnedKey| Some(key) != cut;
        right &= entries
            .iter()
            .map(|(key, value)| (key, value))
            .filter(|(key, _)| others(key))
            .eq(reference.iter().filter(|(key, _)| others(key)));
    }
    right
}

fn assert_was_put((key, value): &(OwnedKey, Vec<u8>), history: &History) {
    let once = history.get(key).is_some_and(|values| values.contains(value));
    assert!(once, "{key:?} never had the value that is shown: {value:?}");
}

/// Puts and deletes; whatever becomes of it, what was put is there, unless damage is met.
fn write_everything(
    store: &Store,
    media: &Traced,
    random: &mut StdRng,
    key_type: everleaf::KeyType,
    history: &mut History,
) {
    for step in 0..40 {
        next_step(media);
        let key = key(key_type, random.random_range(0..KEYS + 20));
        if step % 3 == 2 {
            if store.delete(&key).is_ok() {
                assert_eq!(store.get(&key).ok().flatten(), None, "{key:?} was deleted");
            }
            continue;
        }
        let value = value(1000 + step, random.random_range(0..80));
        // Refused or not, it may have been written: an error of the clean-up comes after the
        // commit.
        history.entry(key.clone()).or_default().insert(value.clone());
        if store.put(&key, &value).is_ok()
            && let Ok(found) = store.get(&key)
        {
            assert_eq!(found.as_ref(), Some(&value), "{key:?} was put");
        }
    }
}
