//! Trees beside each other on a machine whose speed changes from second to second: `cargo run --release -p everleaf-trees --example alternate --
//! [KEYS] [THREADS] [TURNS] [strings] [unflushed] [PHASE ..]`.
//!
//! All trees are filled first and stay in memory. Then they take turns: each does some ten milliseconds of an operation, then the next does the same, so that
//! what slows the machine down meets all of them. Shown are the medians of all turns, the median of the ratios of neighbouring turns to the first
//! tree, and the middle half of these ratios.
//!
//! With one thread: `fptree`, and `fptree-c` beside it. With several, all of `fptree-c`: `copies`, where each thread has a tree with all keys to itself, which is
//! what the hardware gives where nothing is shared; `parts`, where it has a tree with its part of the keys; and `shared`, one tree for all threads.
//!
//! Keys are random. Each turn inserts new keys, finds, updates and scans from random ones, and deletes those that were inserted first, so trees keep their sizes.
//! `mixed` inserts as many keys as it looks up. `find`, `many`, `update` and `scan` among the arguments: these phases alone.
#![forbid(unsafe_code)]

use std::error::Error;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use everleaf_index::{BytesKeys, Direction, Index, KeyKind, U64Keys};
use everleaf_pmem::{Cpu, FlushInstruction, Hardware, Media, Region};
use everleaf_pool::{Format, KeyType, Pool};
use everleaf_trees::fptree::{LeafKey, Parameters, Variant, create};

/// Operations of a thread in a turn.
const TURN: u64 = 50_000;
const PHASES: [&str; 7] = ["insert", "find", "many", "update", "scan", "mixed", "delete"];
/// Those that leave the keys as they are.
const STEADY: [&str; 4] = ["find", "many", "update", "scan"];
/// Keys that `many` looks up together.
const MANY: usize = 16;
/// Records of a scan, which are an operation each.
const SCAN: u64 = 100;
/// Keys that a turn inserts and deletes in each thread: those of `insert`, and half of `mixed`.
const NEW: u64 = TURN + TURN / 2;

type Tree<K> = Arc<dyn Index<K>>;

/// What is measured.
struct Contender<K: KeyKind> {
    name: &'static str,
    /// One for all threads, or one for each.
    trees: Vec<Tree<K>>,
    /// Whether each tree has all keys, those of the other threads too.
    copies: bool,
}

/// A bijection.
fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

trait Key: LeafKey {
    const TYPE: KeyType;
    /// A key by itself.
    type Bytes;
    fn bytes(number: u64) -> Self::Bytes;
    fn of(bytes: &Self::Bytes) -> Self::Ref<'_>;
    fn with<T>(number: u64, act: impl FnOnce(Self::Ref<'_>) -> T) -> T {
        act(Self::of(&Self::bytes(number)))
    }
}

impl Key for U64Keys {
    const TYPE: KeyType = KeyType::U64;
    type Bytes = u64;
    fn bytes(number: u64) -> u64 {
        mix(number)
    }
    fn of(bytes: &u64) -> u64 {
        *bytes
    }
}

impl Key for BytesKeys {
    const TYPE: KeyType = KeyType::Bytes;
    type Bytes = [u8; 16];
    fn bytes(number: u64) -> [u8; 16] {
        (u128::from(mix(number)) << 64 | u128::from(mix(!number))).to_be_bytes()
    }
    fn of(bytes: &[u8; 16]) -> &[u8] {
        bytes
    }
}

fn tree<K: Key>(variant: Variant, keys: u64, flush: FlushInstruction) -> Result<Tree<K>, Box<dyn Error>> {
    let engine = if variant == Variant::Concurrent { "fptree-c" } else { "fptree" };
    let format = Format { engine: engine.into(), key_type: K::TYPE, parameters: Parameters::defaults(variant).pack() };
    let bytes = (keys + 20 * TURN) * 128 + (64 << 20);
    let pool = Pool::create(Hardware::forced(Region::anonymous(bytes, bytes)?, &Cpu::detect(), flush)?, &format)?;
    pool.media().region().prefault();
    Ok(Arc::from(create::<K, _>(&pool, variant)?))
}

/// Does `work(thread, tree)` on all threads; nanoseconds from the common start to the end of the last.
fn on_threads<K: KeyKind>(threads: u64, contender: &Contender<K>, work: impl Fn(u64, &dyn Index<K>) + Sync) -> f64 {
    let (barrier, work) = (Barrier::new(threads as usize), &work);
    let one = |thread: u64| {
        let tree = &*contender.trees[thread as usize % contender.trees.len()];
        barrier.wait();
        let start = Instant::now();
        work(thread, tree);
        start.elapsed().as_nanos() as f64
    };
    std::thread::scope(|scope| {
        let one = &one;
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let first = one(0);
        others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .fold(first, f64::max)
    })
}

/// One turn of a phase; the keys have `moved` on so many times. In the trees of `copies` each thread has keys of its own everywhere; else thread `t` of `T`
/// has those whose number is `t` modulo `T`.
fn turn<K: Key>(phase: usize, turn: u64, moved: u64, keys: u64, threads: u64, contender: &Contender<K>) -> f64 {
    let (all, own) = if contender.copies { (keys, 1) } else { (keys / threads, threads) };
    let (low, high) = (moved * NEW, all + moved * NEW);
    on_threads(threads, contender, |thread, tree| {
        let number = |place: u64| if own == 1 { place } else { place * own + thread };
        let present = |i: u64| number(low + mix(i ^ (turn << 32) ^ (thread << 60) ^ (phase as u64) << 56) % (all - NEW) + NEW);
        let insert = |i: u64| assert!(K::with(number(high + i), |key| tree.insert(key, i).unwrap()));
        let find = |i: u64| assert!(K::with(present(i), |key| tree.get(key).unwrap()).is_some());
        match phase {
            0 => (0..TURN).for_each(insert),
            1 => (0..TURN).for_each(find),
            2 => (0..TURN).step_by(MANY).for_each(|i| {
                let keys: [K::Bytes; MANY] = std::array::from_fn(|at| K::bytes(present(i + at as u64)));
                let keys = keys.each_ref().map(K::of);
                let mut values = [None; MANY];
                tree.get_many(&keys, &mut values).unwrap();
                assert!(values.iter().all(Option::is_some));
            }),
            3 => (0..TURN).for_each(|i| assert!(K::with(present(i), |key| tree.update(key, i).unwrap()).is_some())),
            4 => (0..TURN / SCAN).for_each(|i| {
                let (mut left, mut sum) = (SCAN, 0);
                let mut show = |_: K::Ref<'_>, value: &[u64]| {
                    (left, sum) = (left - 1, sum ^ value[0]);
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                K::with(present(i), |key| tree.scan(Bound::Included(key), Direction::Forward, &mut show)).unwrap();
                std::hint::black_box(sum);
            }),
            5 => (0..TURN / 2).for_each(|i| {
                insert(TURN + i);
                find(i);
            }),
            _ => (0..NEW).for_each(|i| assert!(K::with(number(low + i), |key| tree.remove(key).unwrap()).is_some())),
        }
    })
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

fn run<K: Key>(keys: u64, threads: u64, turns: u64, flush: FlushInstruction, chosen: &[String]) -> Result<(), Box<dyn Error>> {
    let make = |name, variant, count: u64, copies| -> Result<Contender<K>, Box<dyn Error>> {
        let trees = (0..count).map(|_| tree::<K>(variant, keys, flush)).collect::<Result<Vec<_>, _>>()?;
        let contender = Contender { name, trees, copies };
        let own = if copies { keys } else { keys / threads };
        on_threads(threads, &contender, |thread, tree| {
            let number = |place: u64| if copies { place } else { place * threads + thread };
            (0..own).for_each(|place| assert!(K::with(number(place), |key| tree.insert(key, place).unwrap())));
        });
        Ok(contender)
    };
    let contenders = match threads {
        1 => vec![make("fptree", Variant::FpTree, 1, true)?, make("fptree-c", Variant::Concurrent, 1, true)?],
        _ => vec![
            make("copies", Variant::Concurrent, threads, true)?,
            make("parts", Variant::Concurrent, threads, false)?,
            make("shared", Variant::Concurrent, 1, false)?,
        ],
    };
    let is_chosen = |phase: &str| chosen.is_empty() || chosen.iter().any(|name| name == phase);
    // Of each phase and contender.
    let mut ns = vec![vec![Vec::new(); contenders.len()]; PHASES.len()];
    for number in 0..turns {
        let moved = if chosen.is_empty() { number } else { 0 };
        for (phase, ns) in ns.iter_mut().enumerate().filter(|(phase, _)| is_chosen(PHASES[*phase])) {
            let operations = (if phase == PHASES.len() - 1 { NEW } else { TURN }) * threads;
            for place in 0..contenders.len() {
                let place = (place + number as usize) % contenders.len();
                ns[place].push(turn(phase, number, moved, keys, threads, &contenders[place]) / operations as f64);
            }
        }
    }
    println!(
        "{keys} keys, {threads} threads, {turns} turns of {TURN} operations a thread, {flush:?}: ns an operation; speed to {}'s",
        contenders[0].name
    );
    for (phase, ns) in PHASES.iter().zip(&ns).filter(|(phase, _)| is_chosen(phase)) {
        for (contender, times) in contenders.iter().zip(ns) {
            let mut ratios: Vec<f64> = ns[0].iter().zip(times).map(|(first, own)| first / own).collect();
            let mut times = times.clone();
            times.sort_by(f64::total_cmp);
            ratios.sort_by(f64::total_cmp);
            let [quarter, half, rest] = [0.25, 0.5, 0.75].map(|part| quantile(&ratios, part));
            println!("{phase:7} {:9} {:7.1} {half:6.2} ({quarter:.2} to {rest:.2})", contender.name, quantile(&times, 0.5));
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<u64>().ok());
    let [keys, threads, turns] = [1_000_000, 2, 25].map(|default| numbers.next().unwrap_or(default));
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let flush = if flag("unflushed") { Some(FlushInstruction::None) } else { Cpu::detect().best_flush() };
    let flush = flush.unwrap_or(FlushInstruction::None);
    let (keys, threads) = (keys.max(4 * NEW * threads.max(1)), threads.clamp(1, 64));
    let chosen: Vec<String> = arguments.iter().filter(|argument| STEADY.contains(&argument.as_str())).cloned().collect();
    if flag("strings") {
        run::<BytesKeys>(keys, threads, turns.max(1), flush, &chosen)
    } else {
        run::<U64Keys>(keys, threads, turns.max(1), flush, &chosen)
    }
}
