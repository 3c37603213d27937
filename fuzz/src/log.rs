//! Logs beside a pool, on a disk in memory.

use std::sync::{Arc, LazyLock};

use everleaf::internal::{create_on, open_on};
use everleaf::{DurabilityMode, Engine, KeyType, OpenOptions, Store};
use everleaf_engines::all;
use everleaf_log::{Base, Disk, DiskFile, Log, LogOptions, SimulatedDisk, read_damaged, read_only};
use everleaf_pmem::{Cpu, Mapped, Region};
use everleaf_pool::LOG_STAMP_OFFSET;

use crate::damage::{STAYS, change, changes, word};
use crate::store::{fill, options, read, write};

/// Bytes of a pool, and that it may grow to.
const BYTES: (u64, u64) = (160 << 10, 512 << 10);
/// What files of a log consist of.
const BLOCK: usize = 4096;
/// Bytes of a header: of a group, of a segment, and of a control block; the last four are the
/// checksum of the others.
const GROUP: usize = 96;
const SEGMENT: usize = 40;
const CONTROL: usize = 140;

/// Logs of processes that were killed: of the first session, and of the third.
static DISKS: LazyLock<Vec<SimulatedDisk>> = LazyLock::new(|| {
    let disk = SimulatedDisk::new();
    disk.nameless();
    let media = Log::create(&base(&disk), Arc::new(disk.clone()), BYTES.0, log());
    let media = media.expect("a log");
    let options = options(Engine::default(), KeyType::Bytes).durability(DurabilityMode::Immediate);
    let (store, pool) = create_on(all(), &options, media).expect("a store");
    let log = Log::of(pool.media()).expect("a log");
    log.checkpoint().expect("room on the disk");
    fill(&store);
    let first = disk.after_kill();
    drop((store, pool));
    drop(open(&disk));
    let third = open(&disk).expect("the store opens");
    fill(&third);
    vec![first, disk.after_kill()]
});

fn log() -> LogOptions {
    let mut log = LogOptions::for_pool(BYTES.0);
    (log.segment_bytes, log.log_bytes, log.background) = (32 << 10, 64 << 10, false);
    log
}

fn base(disk: &SimulatedDisk) -> Base {
    let (file, stamp_offset) = (disk.first_file(), LOG_STAMP_OFFSET);
    Base { file, uuid: 1, max_bytes: BYTES.1, stamp_offset, read_whole: false }
}

fn open(disk: &SimulatedDisk) -> Option<Store> {
    let media = Log::open(&base(disk), Arc::new(disk.clone()), log()).ok()?;
    open_on(all(), &OpenOptions::new(), media).ok().map(|(store, _pool)| store)
}

/// Reads what is in a region; its pool was not closed.
fn look(region: Region) {
    let media = Mapped::new(region, &Cpu::detect()).expect("a processor that flushes");
    if let Ok((store, _pool)) = open_on(all(), &OpenOptions::new(), media) {
        read(&store);
    }
}

/// A disk that the bytes have changed.
fn damaged(kind: u8, bytes: &[u8]) -> SimulatedDisk {
    let disk = DISKS[usize::from(kind & !STAYS) % DISKS.len()].after_kill();
    let names = disk.names().expect("a folder");
    for (what, place, value) in changes(bytes) {
        let name = &names[(value >> 56) as usize % names.len()];
        match what % 16 {
            15 => drop(disk.remove(name)),
            14 => pool_word(&disk, place, value),
            13 => drop(disk.rename(name, &names[place % names.len()])),
            what => drop(disk.change(name, |file| change(file, &[], (what, place, value)))),
        }
    }
    if kind & STAYS == 0 {
        let mut before = None;
        for name in &names {
            let _ = disk.change(name, |file| seal(file, &mut before));
        }
    }
    disk
}

/// Changes a word of the first page of the pool's file.
fn pool_word(disk: &SimulatedDisk, place: usize, value: u64) {
    let _ = disk.first_file().write((place % (BLOCK / 8) * 8) as u64, &value.to_le_bytes());
}

/// Makes the checksums of a file right; a group holds the one of the group before it.
fn seal(file: &mut [u8], before: &mut Option<u32>) {
    for at in (0..file.len() / BLOCK).map(|block| block * BLOCK) {
        let header = &file[at..at + BLOCK];
        let bytes = match &header[..8] {
            b"ELgroup2" => GROUP,
            b"ELsegmt2" => SEGMENT,
            b"ELlogctl" => CONTROL,
            _ => continue,
        };
        if bytes == GROUP {
            let length = usize::try_from(word(header, 72)).unwrap_or(usize::MAX);
            if let Some(payload) = file[at + GROUP..].get(..length) {
                let crc = crc32c::crc32c(payload).to_le_bytes();
                file[at + 84..at + 88].copy_from_slice(&crc);
            }
            if let Some(before) = before {
                file[at + 80..at + 84].copy_from_slice(&before.to_le_bytes());
            }
        }
        let crc = crc32c::crc32c(&file[at..at + bytes - 4]);
        file[at + bytes - 4..at + bytes].copy_from_slice(&crc.to_le_bytes());
        if bytes == GROUP {
            *before = Some(crc);
        }
    }
}

/// Reads, salvages and opens what is on a damaged disk, and opens what that leaves.
pub fn open_and_salvage(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let disk = damaged(*kind, rest);
    let before = disk.operations();
    let _ = read_only(&base(&disk), &disk).map(look);
    let _ = read_damaged(&base(&disk), &disk).map(|(region, _)| look(region));
    assert_eq!(disk.operations(), before, "reading wrote to the disk");
    for _ in 0..2 {
        let _ = open(&disk).map(write);
    }
}
