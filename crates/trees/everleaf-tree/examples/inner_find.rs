//! What a search through the volatile inner nodes costs: `cargo run --release -p everleaf-tree
//! --example inner_find [CHILDREN]`.
//!
//! `chained`: each key depends on the child found before, so searches do not overlap (latency).
//! `free`: they may overlap. `leaf`: chained, and after each search two lines of a random 1 KiB
//! leaf are read, as a tree does; the cost of the leaf alone is measured too, in column `leaf
//! only`. `many`: 16 keys at a time.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pmem::{Cpu, DramArena};
use everleaf_tree::inner::{Inner, InnerError};

const FINDS: u64 = 2_000_000;
const ROUNDS: usize = 3;

fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Nanoseconds for each of `operations`, the best of some rounds.
fn ns(operations: u64, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos() as f64 / operations as f64);
    }
    best
}

fn u64_keys<const CAPACITY: usize>(children: u64, leaves: &DramArena) -> Result<(), InnerError> {
    let simd = Cpu::detect().simd();
    let mut inner = Inner::<U64Keys, CAPACITY>::new(simd, 0)?;
    let start = Instant::now();
    for child in 1..children {
        inner.insert(mix(child), child)?;
    }
    let insert = start.elapsed().as_nanos() as f64 / children as f64;
    let bytes = inner.dram_bytes() as f64 / children as f64;
    let mut sorted: Vec<(u64, u64)> = (1..children).map(|child| (mix(child), child)).collect();
    sorted.sort_unstable();
    let build = ns(1, || {
        black_box(
            Inner::<U64Keys, CAPACITY>::build(simd, 0, sorted.iter().copied(), 70)
                .map(|inner| inner.len())
                .unwrap_or(0),
        );
    });
    let mut child = 0;
    let chained =
        ns(FINDS, || (0..FINDS).for_each(|number| child = inner.find(mix(number ^ child << 32))));
    let free = ns(FINDS, || (0..FINDS).for_each(|number| child ^= inner.find(mix(number))));
    let read = |leaf: u64, word: u64| {
        let first = leaves.line(leaf as u32 * 16).0[word as usize % 8].load(Relaxed);
        first
            + leaves.line(leaf as u32 * 16 + 2 + (word as u32 + first as u32) % 14).0[3]
                .load(Relaxed)
    };
    let leaf = ns(FINDS, || {
        (0..FINDS).for_each(|number| {
            let key = mix(number ^ child << 32);
            child = inner.find(key);
            child += read(child, key);
        });
    });
    let leaf_only = ns(FINDS, || {
        (0..FINDS).for_each(|number| {
            let key = mix(number ^ child << 32);
            child = key % children;
            child += read(child, key);
        });
    });
    let mut found = [0; 16];
    let many = ns(FINDS, || {
        for number in 0..FINDS / 16 {
            let keys: [u64; 16] =
                std::array::from_fn(|i| mix((number * 16 + i as u64) ^ (found[i] << 32)));
            inner.find_many(&keys, &mut found);
        }
    });
    let height = inner.height();
    println!(
        "{CAPACITY:8} {height:6} {chained:8.1} {free:6.1} {leaf:6.1} {leaf_only:9.1} {many:6.1} \
        {insert:7.1} {:9.2} {bytes:11.1}",
        build / 1e6
    );
    Ok(())
}

fn byte_keys<const CAPACITY: usize>(
    children: u64,
    key: impl Fn(u64) -> [u8; 16],
) -> Result<(), InnerError> {
    let mut inner = Inner::<BytesKeys, CAPACITY>::new(Cpu::detect().simd(), 0)?;
    let start = Instant::now();
    for child in 1..children {
        inner.insert(&key(mix(child)), child)?;
    }
    let insert = start.elapsed().as_nanos() as f64 / children as f64;
    let mut child = 0;
    let chained = ns(FINDS, || {
        (0..FINDS).for_each(|number| child = inner.find(&key(mix(number ^ child << 32))))
    });
    let nothing = ns(FINDS, || {
        (0..FINDS).for_each(|number| child = u64::from(key(mix(number ^ child << 32))[15]))
    });
    let mut found = [0; 16];
    let many = ns(FINDS, || {
        for number in 0..FINDS / 16 {
            let keys: [[u8; 16]; 16] =
                std::array::from_fn(|i| key(mix((number * 16 + i as u64) ^ (found[i] << 32))));
            inner.find_many(&keys.each_ref().map(|key| &key[..]), &mut found);
        }
    });
    let (height, bytes) = (inner.height(), inner.dram_bytes() as f64 / children as f64);
    let (chained, many) = (chained - nothing, many - nothing);
    println!("{CAPACITY:8} {height:6} {chained:8.1} {many:6.1} {insert:7.1} {bytes:11.1}");
    Ok(())
}

fn main() -> Result<(), InnerError> {
    let children = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(255_000);
    let leaves = DramArena::reserve(children * 1024 + (1 << 20))?;
    leaves.ensure(children as usize * 16 + 64)?;
    (0..leaves.lines() as u32)
        .step_by(16)
        .for_each(|line| leaves.line(line).0[0].store(0, Relaxed));
    println!(
        "{children} children, u64 keys; ns an operation\ncapacity height  chained   free   leaf \
        leaf only   many  insert build, ms bytes/child"
    );
    u64_keys::<16>(children, &leaves)?;
    u64_keys::<32>(children, &leaves)?;
    u64_keys::<64>(children, &leaves)?;
    println!("random strings of 16 bytes\ncapacity height  chained   many  insert bytes/child");
    let random = |number: u64| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key[8..].copy_from_slice(&mix(number).to_be_bytes());
        key
    };
    byte_keys::<64>(children, random)?;
    println!("user000123456789\ncapacity height  chained   many  insert bytes/child");
    let user = |number: u64| {
        let (mut key, mut number) = (*b"user000000000000", number % 1_000_000_000_000);
        for digit in key[4..].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        key
    };
    byte_keys::<64>(children, user)
}
