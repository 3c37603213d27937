//! Trees beside each other on a machine whose speed changes from second to second: `cargo run
//! --release -p everleaf-trees --example alternate -- [KEYS] [THREADS] [TURNS] [OPERATIONS]
//! [strings] [unflushed] [btreemap] [PHASE ..]`.
//!
//! All trees are filled first and stay in memory. Then they take turns: each thread does some
//! operations (48,000, or as many as are asked for), some ten milliseconds of them, then the next
//! does the same, so that what slows the machine down meets all of them. A short turn begins with
//! the other trees in the processor's cache: a tree whose inner nodes would stay there needs longer
//! ones beside a large map. Shown are the medians of all turns, the median of the ratios of
//! neighbouring turns to the first tree, and the middle half of these ratios.
//!
//! With one thread: `fptree`, and `fptree-c` beside it; before them, if asked for, `btreemap`,
//! std's map, which like `fptree` is behind a lock. With several, all of `fptree-c`: `copies`,
//! where each thread has a tree with all keys to itself, which is what the hardware gives where
//! nothing is shared; `parts`, where it has a tree with its part of the keys; and `shared`, one
//! tree for all threads.
//!
//! Keys are random. Each turn inserts new keys, finds, updates and scans from random ones, and
//! deletes those that were inserted first, so trees keep their sizes. `mixed` inserts as many keys
//! as it looks up. `find`, `many`, `update` and `scan` among the arguments: these phases alone.
#![forbid(unsafe_code)]

use std::error::Error;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use everleaf_index::{BytesKeys, Direction, Index, KeyKind, Model, Serialized, U64Keys};
use everleaf_pmem::{Cpu, FlushInstruction, Hardware, Media, Region};
use everleaf_pool::{Format, KeyType, Pool};
use everleaf_trees::fptree::{LeafKey, Parameters, Variant, create};

/// Operations of a thread in a turn, if nothing else is asked for.
const OPERATIONS: u64 = 48_000;
const PHASES: [&str; 7] = ["insert", "find", "many", "update", "scan", "mixed", "delete"];
/// Those that leave the keys as they are.
const STEADY: [&str; 4] = ["find", "many", "update", "scan"];
/// Keys that `many` looks up together.
const MANY: usize = 16;
/// Records of a scan, which are an operation each.
const SCAN: u64 = 100;

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
    /// An empty `BTreeMap`.
    fn map() -> Tree<Self>;
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
    fn map() -> Tree<Self> {
        Arc::new(Serialized::new(Model::<Self>::new()))
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
    fn map() -> Tree<Self> {
        Arc::new(Serialized::new(Model::<Self>::new()))
    }
}

/// What is asked for.
struct Asked {
    keys: u64,
    threads: u64,
    turns: u64,
    /// Of a thread in a turn.
    operations: u64,
    flush: FlushInstruction,
    btreemap: bool,
    /// The phases; none for all.
    phases: Vec<String>,
}

impl Asked {
    /// Keys that a turn inserts and deletes in each thread: those of `insert`, and half of `mixed`.
    fn new_keys(&self) -> u64 {
        self.operations + self.operations / 2
    }
}

fn tree<K: Key>(
    variant: Variant,
    &Asked { keys, operations, flush, .. }: &Asked,
) -> Result<Tree<K>, Box<dyn Error>> {
    let engine = if variant == Variant::Concurrent { "fptree-c" } else { "fptree" };
    let format = Format {
        engine: engine.into(),
        key_type: K::TYPE,
        parameters: Parameters::defaults(variant).pack(),
    };
    let bytes = (keys + 20 * operations) * 128 + (64 << 20);
    let pool = Pool::create(
        Hardware::forced(Region::anonymous(bytes, bytes)?, &Cpu::detect(), flush)?,
        &format,
    )?;
    pool.media().region().prefault();
    Ok(Arc::from(create::<K, _>(&pool, variant)?))
}

/// Does `work(thread, tree)` on all threads; nanoseconds from the common start to the end of the
/// last.
fn on_threads<K: KeyKind>(
    threads: u64,
    contender: &Contender<K>,
    work: impl Fn(u64, &dyn Index<K>) + Sync,
) -> f64 {
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

/// One turn of a phase; the keys have `moved` on so many times. In the trees of `copies` each
/// thread has keys of its own everywhere; else thread `t` of `T` has those whose number is `t`
/// modulo `T`.
fn turn<K: Key>(
    phase: usize,
    turn: u64,
    moved: u64,
    asked: &Asked,
    contender: &Contender<K>,
) -> f64 {
    let (&Asked { keys, threads, operations, .. }, new) = (asked, asked.new_keys());
    let (all, own) = if contender.copies { (keys, 1) } else { (keys / threads, threads) };
    let (low, high) = (moved * new, all + moved * new);
    on_threads(threads, contender, |thread, tree| {
        let number = |place: u64| if own == 1 { place } else { place * own + thread };
        let present = |i: u64| {
            number(
                low + mix(i ^ (turn << 32) ^ (thread << 60) ^ (phase as u64) << 56) % (all - new)
                    + new,
            )
        };
        let insert =
            |i: u64| assert!(K::with(number(high + i), |key| tree.insert(key, i).unwrap()));
        let find = |i: u64| assert!(K::with(present(i), |key| tree.get(key).unwrap()).is_some());
        match phase {
            0 => (0..operations).for_each(insert),
            1 => (0..operations).for_each(find),
            2 => (0..operations).step_by(MANY).for_each(|i| {
                let keys: [K::Bytes; MANY] =
                    std::array::from_fn(|at| K::bytes(present(i + at as u64)));
                let keys = keys.each_ref().map(K::of);
                let mut values = [None; MANY];
                tree.get_many(&keys, &mut values).unwrap();
                assert!(values.iter().all(Option::is_some));
            }),
            3 => (0..operations).for_each(|i| {
                assert!(K::with(present(i), |key| tree.update(key, i).unwrap()).is_some())
            }),
            4 => (0..operations / SCAN).for_each(|i| {
                let (mut left, mut sum) = (SCAN, 0);
                let mut show = |_: K::Ref<'_>, value: &[u64]| {
                    (left, sum) = (left - 1, sum ^ value[0]);
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                K::with(present(i), |key| {
                    tree.scan(Bound::Included(key), Direction::Forward, &mut show)
                })
                .unwrap();
                std::hint::black_box(sum);
            }),
            5 => (0..operations / 2).for_each(|i| {
                insert(operations + i);
                find(i);
            }),
            _ => (0..new).for_each(|i| {
                assert!(K::with(number(low + i), |key| tree.remove(key).unwrap()).is_some())
            }),
        }
    })
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

fn run<K: Key>(asked: &Asked) -> Result<(), Box<dyn Error>> {
    let &Asked { keys, threads, turns, operations, flush, btreemap, ref phases } = asked;
    let fill = |name, trees, copies| {
        let contender = Contender { name, trees, copies };
        let own = if copies { keys } else { keys / threads };
        on_threads(threads, &contender, |thread, tree| {
            let number = |place: u64| if copies { place } else { place * threads + thread };
            (0..own).for_each(|place| {
                assert!(K::with(number(place), |key| tree.insert(key, place).unwrap()))
            });
        });
        contender
    };
    let make = |name, variant, count: u64, copies| -> Result<Contender<K>, Box<dyn Error>> {
        Ok(fill(
            name,
            (0..count).map(|_| tree::<K>(variant, asked)).collect::<Result<Vec<_>, _>>()?,
            copies,
        ))
    };
    let contenders = match threads {
        1 => {
            let trees = [
                make("fptree", Variant::FpTree, 1, true)?,
                make("fptree-c", Variant::Concurrent, 1, true)?,
            ];
            btreemap
                .then(|| fill("btreemap", vec![K::map()], true))
                .into_iter()
                .chain(trees)
                .collect()
        }
        _ => vec![
            make("copies", Variant::Concurrent, threads, true)?,
            make("parts", Variant::Concurrent, threads, false)?,
            make("shared", Variant::Concurrent, 1, false)?,
        ],
    };
    let is_chosen = |phase: &str| phases.is_empty() || phases.iter().any(|name| name == phase);
    // Of each phase and contender.
    let mut ns = vec![vec![Vec::new(); contenders.len()]; PHASES.len()];
    for number in 0..turns {
        let moved = if phases.is_empty() { number } else { 0 };
        for (phase, ns) in ns.iter_mut().enumerate().filter(|(phase, _)| is_chosen(PHASES[*phase]))
        {
            let done =
                (if phase == PHASES.len() - 1 { asked.new_keys() } else { operations }) * threads;
            for place in 0..contenders.len() {
                let place = (place + number as usize) % contenders.len();
                ns[place].push(turn(phase, number, moved, asked, &contenders[place]) / done as f64);
            }
        }
    }
    println!(
        "{keys} keys, {threads} threads, {turns} turns of {operations} operations a thread, \
        {flush:?}: ns an operation; speed to {}'s",
        contenders[0].name
    );
    for (phase, ns) in PHASES.iter().zip(&ns).filter(|(phase, _)| is_chosen(phase)) {
        for (contender, times) in contenders.iter().zip(ns) {
            let mut ratios: Vec<f64> =
                ns[0].iter().zip(times).map(|(first, own)| first / own).collect();
            let mut times = times.clone();
            times.sort_by(f64::total_cmp);
            ratios.sort_by(f64::total_cmp);
            let [quarter, half, rest] = [0.25, 0.5, 0.75].map(|part| quantile(&ratios, part));
            println!(
                "{phase:7} {:9} {:7.1} {half:6.2} ({quarter:.2} to {rest:.2})",
                contender.name,
                quantile(&times, 0.5)
            );
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<u64>().ok());
    let [keys, threads, turns, operations] =
        [1_000_000, 2, 25, OPERATIONS].map(|default| numbers.next().unwrap_or(default));
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let flush =
        if flag("unflushed") { Some(FlushInstruction::None) } else { Cpu::detect().best_flush() };
    let flush = flush.unwrap_or(FlushInstruction::None);
    let phases =
        arguments.iter().filter(|argument| STEADY.contains(&argument.as_str())).cloned().collect();
    // Whole scans, whole lookups of many, and halves.
    let operations = operations.clamp(1, 1 << 24).next_multiple_of(SCAN * MANY as u64);
    let threads = threads.clamp(1, 64);
    let asked = Asked {
        keys,
        threads,
        turns: turns.max(1),
        operations,
        flush,
        btreemap: flag("btreemap"),
        phases,
    };
    let asked = Asked { keys: keys.max(4 * asked.new_keys() * threads), ..asked };
    if flag("strings") { run::<BytesKeys>(&asked) } else { run::<U64Keys>(&asked) }
}
