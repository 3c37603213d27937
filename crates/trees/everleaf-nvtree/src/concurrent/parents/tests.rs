//! Inner nodes against a sorted map, by one thread at random, and beside readers.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use everleaf_crash::Dram;
use everleaf_pmem::{Cpu, Region, SimdLevel};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

fn media() -> Dram {
    Dram::new(Region::anonymous(4096, 4096).unwrap(), &Cpu::detect())
}

fn built(fanout: usize, map: &BTreeMap<u64, u64>) -> Parents {
    let leaves = map.iter().map(|(bound, leaf)| Ok((*bound, *leaf)));
    Parents::build(fanout, SimdLevel::SCALAR.into(), leaves).unwrap()
}

fn compare(parents: &Parents, pinned: &Pinned<'_>, map: &BTreeMap<u64, u64>) {
    let entries: Vec<Entry> = map.iter().map(|(bound, leaf)| (*bound, *leaf)).collect();
    assert_eq!((parents.entries(), parents.check()), (entries.clone(), Vec::new()));
    for (at, (bound, leaf)) in entries.iter().enumerate() {
        for key in [*bound, bound + 1] {
            let covering = entries.partition_point(|(other, _)| *other <= key) - 1;
            let place = parents.find(pinned, key);
            assert_eq!((place.lower, place.leaf), entries[covering], "{key}");
            assert!(parents.is_current(&place));
        }
        let place = parents.find(pinned, *bound);
        assert_eq!(place.leaf, *leaf);
        let entry = |place: Option<Place>| place.map(|place| (place.lower, place.leaf));
        assert_eq!(entry(parents.next(pinned, &place)), entries.get(at + 1).copied());
        let before = at.checked_sub(1).map(|before| entries[before]);
        assert_eq!(entry(parents.previous(pinned, &place)), before);
    }
}

#[test]
fn they_lead_where_a_sorted_map_leads() {
    let (pins, media) = (Pins::default(), media());
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let fanout = [4, 8, 32][seed as usize % 3];
        let mut map: BTreeMap<u64, u64> = (0..seed * 3 + 1).map(|i| (i * 100, i + 1)).collect();
        let parents = built(fanout, &map);
        for step in 0..600_u64 {
            let nth = random.random_range(0..map.len());
            let (bound, leaf) = map.iter().nth(nth).map(|(bound, leaf)| (*bound, *leaf)).unwrap();
            let upper = map.range(bound + 1..).next().map_or(1 << 40, |(upper, _)| *upper);
            // Rows of removals leave parents whose first bounds are far above their keys.
            let removing = step / 100 % 2 == 1;
            match random.random_range(0..4) {
                0 => {
                    parents.replace(&pins, bound, leaf + 1);
                    map.insert(bound, leaf + 1);
                }
                1 if removing && map.range(bound + 1..).next().is_some() => {
                    parents.merge(&pins, parents.reserve().unwrap(), bound, leaf + 3);
                    map.remove(&upper);
                    map.insert(bound, leaf + 3);
                }
                1 | 2 if removing && bound > 0 => {
                    parents.remove(&pins, parents.reserve().unwrap(), bound);
                    map.remove(&bound);
                }
                _ if upper > bound + 1 && !removing => {
                    let second = random.random_range(bound + 1..upper);
                    let room = parents.reserve().unwrap();
                    parents.split(&pins, room, bound, Some(leaf + 2), (second, step + 1));
                    map.insert(bound, leaf + 2);
                    map.insert(second, step + 1);
                }
                _ => {}
            }
            compare(&parents, &pins.enter(&media), &map);
        }
    }
}

#[test]
fn bounds_that_do_not_ascend_are_refused() {
    let build = |leaves: &[Entry]| {
        let leaves = leaves.iter().copied().map(Ok);
        Parents::build(4, SimdLevel::SCALAR.into(), leaves).map(drop)
    };
    for leaves in [&[(0, 1), (5, 2), (5, 3)][..], &[(0, 1), (5, 2), (4, 3)], &[]] {
        assert!(matches!(build(leaves), Err(IndexError::Corrupt { .. })));
    }
    assert!(build(&[(0, 1), (u64::MAX, 2)]).is_ok());
}

/// Entries between staying ones come and go; readers always find the staying ones, and for others
/// one that is no greater.
#[test]
fn readers_find_what_stays_while_its_neighbours_come_and_go() {
    const STAYING: u64 = 200;
    let (pins, done) = (Pins::default(), AtomicBool::new(false));
    let map = (0..STAYING).map(|i| (i * 1000, i + 1)).collect();
    let parents = built(4, &map);
    let write = |part: u64| {
        let mut random = StdRng::seed_from_u64(part);
        let mut mine: Vec<Vec<u64>> = vec![Vec::new(); STAYING as usize];
        for step in 0..40_000_usize {
            let at = random.random_range(0..STAYING / 2) * 2 + part;
            let list = &mut mine[at as usize];
            let before = at * 1000 + list.last().copied().unwrap_or(0);
            let room = parents.reserve().unwrap();
            if list.len() < 9 && (step / 3000 % 2 == 0 || list.is_empty()) {
                let last = list.last().copied().unwrap_or(0) + 1;
                parents.split(&pins, room, before, None, (at * 1000 + last, at + 1));
                list.push(last);
            } else {
                list.pop();
                parents.remove(&pins, room, before);
            }
        }
    };
    let (write, done, pins, parents) = (&write, &done, &pins, &parents);
    std::thread::scope(|scope| {
        let writers = [0, 1].map(|part| scope.spawn(move || write(part)));
        for seed in [7, 8] {
            scope.spawn(move || {
                let (media, mut random) = (media(), StdRng::seed_from_u64(seed));
                while !done.load(Relaxed) {
                    let key = random.random_range(0..STAYING * 1000);
                    let place = parents.find(&pins.enter(&media), key);
                    assert_eq!(place.leaf, key / 1000 + 1, "{key}: {place:?}");
                    assert!(place.lower <= key && place.lower >= key / 1000 * 1000);
                }
            });
        }
        let ended = writers.map(|writer| writer.join());
        done.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    assert_eq!(parents.check(), Vec::<String>::new());
}
