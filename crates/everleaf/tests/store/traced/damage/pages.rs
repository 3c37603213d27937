//! Every command on damaged pools of every engine ends, within so many accesses: pointers that lead
//! elsewhere, pages that are swapped, zeroed or copied over others, flipped bits.
//!
//! `cargo test -p everleaf --test store every_command_ends -- --ignored --nocapture` runs 2,000
//! pools an engine; the ordinary tests run a tenth of them.

use everleaf_engines::all;
use std::collections::BTreeMap;
use std::io::sink;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};

use everleaf::internal::{BytesKeys, StoreKey, U64Keys, create_on, registry};
use everleaf::{CreateOptions, Engine, EngineParameters, KeyType, Scan, Store};
use everleaf_crash::Traced;
use everleaf_index::Direction;
use everleaf_pool::{Pool, Shutdown};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::harm::used;
use super::images::{next_step, open};
use crate::common::{key, value};

/// Pools an engine, and in the ordinary tests.
const POOLS: u64 = 2000;
const SHARE: u64 = 200;
const KEYS: u64 = 260;
const POOL_BYTES: u64 = 192 << 10;
const MAX_BYTES: u64 = 512 << 10;
const PAGE_WORDS: usize = 512;
/// Pages that are never harmed whole: without the header nothing is opened.
const FIRST_PAGE: usize = 2;

/// A pool with nodes of four entries, some of them removed again; closed, or left by a crash.
fn intact(engine: Engine, key_type: KeyType, closed: bool) -> Vec<u64> {
    let has = |name| engine.entry().parameters.contains(&name);
    let mut small = EngineParameters::default().leaf_slots(engine.entry().min_leaf_slots);
    small.inner_keys = has(EngineParameters::INNER_KEYS).then_some(4);
    small.group_bytes = has(EngineParameters::GROUP_BYTES).then_some(4096);
    let options = CreateOptions::new()
        .engine(engine)
        .key_type(key_type)
        .size_bytes(POOL_BYTES)
        .engines(everleaf_engines::all())
        .parameters(small);
    let media = Traced::new(POOL_BYTES, MAX_BYTES, 5).unwrap();
    media.record(false, false);
    let (store, _pool) = create_on(all(), &options, media.clone()).unwrap();
    for n in 0..KEYS {
        store.put(long_key(key_type, n), value(n, n as usize % 40)).unwrap();
        if n % 7 == 3 {
            store.delete(long_key(key_type, n / 2)).unwrap();
        }
        if n % 50 == 49 {
            store.sync().unwrap();
        }
    }
    if closed {
        store.close().unwrap();
    } else {
        store.sync().unwrap();
        store.put(long_key(key_type, 5), b"after the sync").unwrap();
    }
    media.image()
}

/// Byte strings with long beginnings in common.
fn long_key(key_type: KeyType, n: u64) -> everleaf::OwnedKey {
    match key_type {
        KeyType::Bytes if n.is_multiple_of(3) => {
            let beginning = [b'x'; 40];
            let rest = (n % 40).to_be_bytes();
            [&beginning[..8 * (n as usize % 5)], &rest, &[n as u8]].concat().into()
        }
        _ => key(key_type, n),
    }
}

/// Damages a pool; says how.
fn harm(words: &mut [u64], random: &mut StdRng) -> String {
    let pages = words.len() / PAGE_WORDS;
    let page =
        |words: &[u64], random: &mut StdRng| (used(words, random) / PAGE_WORDS).max(FIRST_PAGE);
    let bytes = words.len() as u64 * 8;
    let is_place = |word: u64| word & !1 >= 4096 && word < bytes && word & 62 == 0;
    let place = |words: &[u64], random: &mut StdRng| {
        let start = random.random_range(FIRST_PAGE * PAGE_WORDS..words.len());
        let found = (start..words.len()).chain(0..start).find(|at| is_place(words[*at]));
        found.unwrap_or(start)
    };
    match random.random_range(0..8) {
        0 | 1 => {
            let (at, bit) = (used(words, random), random.random_range(0..64));
            words[at] ^= 1 << bit;
            format!("bit {bit} of the word at {:#x} flipped", at * 8)
        }
        2 | 3 => {
            let (at, bit) = (place(words, random), random.random_range(6..17));
            words[at] ^= 1 << bit;
            format!("bit {bit} of the pointer at {:#x} flipped", at * 8)
        }
        4 => {
            let (at, other) = (place(words, random), place(words, random));
            words[at] = words[other];
            format!("the pointer at {:#x} is the one at {:#x}", at * 8, other * 8)
        }
        5 => {
            let (one, other) = (page(words, random), page(words, random));
            for i in 0..PAGE_WORDS {
                words.swap(one * PAGE_WORDS + i, other * PAGE_WORDS + i);
            }
            format!("pages {one} and {other} swapped, of {pages}")
        }
        6 => {
            let one = page(words, random);
            words[one * PAGE_WORDS..][..PAGE_WORDS].fill(0);
            format!("page {one} of {pages} zeroed")
        }
        _ => {
            let (one, other) = (page(words, random), page(words, random));
            words.copy_within(one * PAGE_WORDS..(one + 1) * PAGE_WORDS, other * PAGE_WORDS);
            format!("page {one} copied over page {other}, of {pages}")
        }
    }
}

/// What became of commands: by engine and command, how many never ended, and how many panicked.
type Tally = BTreeMap<(&'static str, &'static str), [u64; 2]>;

struct Run<'t> {
    engine: &'static str,
    story: String,
    tally: &'t mut Tally,
}

impl Run<'_> {
    /// Runs a command; none if it did not end, or panicked: nothing is to be expected then.
    fn command<R>(&mut self, name: &'static str, command: impl FnOnce() -> R) -> Option<R> {
        catch_unwind(AssertUnwindSafe(command))
            .inspect_err(|panic| {
                let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                let text = text.or(panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                let endless = text.contains("never to end");
                let counts = self.tally.entry((self.engine, name)).or_default();
                counts[usize::from(!endless)] += 1;
                if counts.iter().sum::<u64>() <= 3 {
                    println!("{}: {name}: {}: {text}", self.engine, self.story);
                }
            })
            .ok()
    }
}

/// What a salvage reads of a damaged pool.
fn salvage<K: StoreKey>(words: &[u64]) {
    let media = Traced::from_image(words, MAX_BYTES, 7).unwrap();
    media.record(false, false);
    next_step(&media);
    let Ok((pool, _, _)) = Pool::open_damaged(media.clone(), words.len() as u64 * 8) else {
        return;
    };
    next_step(&media);
    if let Ok((index, _)) = registry::open_index::<K, Traced>(all(), &pool, Shutdown::Crash) {
        next_step(&media);
        let mut last: Option<K::Owned> = None;
        let visit = &mut |key: K::Ref<'_>, _: &[u64]| {
            let key = K::to_owned(key);
            if last.as_ref().is_some_and(|last| *last >= key) {
                return ControlFlow::Break(());
            }
            last = Some(key);
            ControlFlow::Continue(())
        };
        let _ = index.scan(Bound::Unbounded, Direction::Forward, visit);
    }
    next_step(&media);
    pool.for_each_record(|_| ControlFlow::Continue(()));
}

/// Goes through a scan to its end, or to an error.
fn shown(store: &Store, scan: Scan) {
    assert!(store.scan(scan).take_while(Result::is_ok).count() < usize::MAX);
}

/// All commands on one damaged pool.
fn commands(run: &mut Run<'_>, words: &[u64], key_type: KeyType, random: &mut StdRng) {
    run.command("salvage", || match key_type {
        KeyType::U64 => salvage::<U64Keys>(words),
        KeyType::Bytes => salvage::<BytesKeys>(words),
    });
    let Some((Ok(store), media)) = run.command("open", || open(words)) else { return };
    let any = |random: &mut StdRng| long_key(key_type, random.random_range(0..KEYS + 20));
    let keys: Vec<_> = (0..40).map(|_| any(random)).collect();
    type Command<'c> = (&'static str, Box<dyn Fn(&Store) + 'c>);
    let keys = &keys;
    let all: [Command<'_>; 9] = [
        ("scan", Box::new(|store| shown(store, Scan::all()))),
        ("scan backward", Box::new(|store| shown(store, Scan::all().backward()))),
        ("check", Box::new(|store| drop(store.check()))),
        ("dump", Box::new(|store| drop(store.dump(sink())))),
        ("get", Box::new(|store| keys.iter().for_each(|key| drop(store.get(key))))),
        ("put", Box::new(|store| keys.iter().for_each(|key| drop(store.put(key, b"new"))))),
        ("statistics", Box::new(|store| drop(store.statistics()))),
        ("delete", Box::new(|store| keys.iter().for_each(|key| drop(store.delete(key))))),
        ("sync", Box::new(|store| drop(store.sync()))),
    ];
    // Nodes that writes have met are looked at once more.
    for (name, command) in all.iter().chain(&all[..5]) {
        next_step(&media);
        if run.command(name, || command(&store)).is_none() {
            // What it held may be locked for ever.
            next_step(&media);
            std::mem::forget(store);
            return;
        }
    }
    next_step(&media);
    run.command("close", || drop(store.close()));
}

fn every_command_ends(pools: u64) {
    let mut tally = Tally::new();
    for engine in Engine::available() {
        let kinds = [(KeyType::U64, true), (KeyType::Bytes, true), (KeyType::Bytes, false)];
        let kinds = kinds.into_iter().filter(|(key_type, _)| engine.has_keys(*key_type));
        let images: Vec<_> =
            kinds.map(|(key_type, closed)| (key_type, intact(engine, key_type, closed))).collect();
        for seed in 0..pools {
            let mut random = StdRng::seed_from_u64(seed);
            let (key_type, image) = &images[seed as usize % images.len()];
            let mut words = image.clone();
            let story =
                format!("seed {seed}, {key_type:?} keys, {}", harm(&mut words, &mut random));
            let mut run = Run { engine: engine.name(), story, tally: &mut tally };
            commands(&mut run, &words, *key_type, &mut random);
        }
    }
    for ((engine, command), [endless, panics]) in &tally {
        println!("{engine}, {command}: {endless} never ended, {panics} panicked");
    }
    assert!(tally.is_empty(), "of {pools} damaged pools an engine");
}

#[test]
fn every_command_ends_on_a_share_of_the_damaged_pools() {
    every_command_ends(SHARE);
}

#[test]
#[ignore = "a minute: by name, with --ignored"]
fn every_command_ends_on_every_damaged_pool() {
    every_command_ends(POOLS);
}
