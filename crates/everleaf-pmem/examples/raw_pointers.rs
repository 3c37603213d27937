//! What safe code costs: FPTree's search of a leaf and insertion into one (u64 keys, 56 slots),
//! once through the media, with checked pointers and atomic cells, and once with raw
//! pointers, plain loads and stores, and no choice left for run time.
//!
//! `cargo run --release -p everleaf-pmem --example raw_pointers [LEAVES] [ROUNDS]`. Both sides do
//! the same to the same kind of memory; which comes first alternates, and so does which memory is
//! whose: both matter as much as what is measured. Inner nodes are left out: the key itself says
//! which leaf it is. Needs AVX-512 and `clwb`.

#[cfg(not(target_arch = "x86_64"))]
fn main() {}
#[cfg(target_arch = "x86_64")]
use sides::main;
#[cfg(target_arch = "x86_64")]
mod sides {
    use std::arch::asm;
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    use std::hint::black_box;
    use std::sync::atomic::{Ordering::SeqCst, compiler_fence};
    use std::time::Instant;

    use everleaf_pmem::{
        Cpu, FlushInstruction, Line, MapError, Mapped, Media, PCell, PPtr, Region, site,
    };

    /// Slots of a leaf, and how many of them are live before insertions; bytes of a leaf, and of
    /// its head.
    const SLOTS: u64 = 56;
    const FILLED: u64 = 40;
    const LEAF_BYTES: u64 = 1024;
    const HEAD_BYTES: u64 = 128;

    /// Leaf 0 is not used: offset 0 is null.
    fn offset_of(key: u64) -> u64 {
        ((key >> 6) + 1) * LEAF_BYTES
    }

    fn hash(key: u64) -> u64 {
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The first of the four slots of a key's home line.
    fn home(hash: u64) -> u64 {
        ((((hash << 8) >> 32) * (SLOTS / 4)) >> 32) * 4
    }

    fn dead_slot(live: u64, hash: u64) -> u64 {
        let dead = !live & ((1 << SLOTS) - 1);
        let near = dead & (u64::MAX << home(hash));
        u64::from(if near == 0 { dead.trailing_zeros() } else { near.trailing_zeros() })
    }

    /// The bits of a mask.
    fn slots(mut mask: u64) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            let slot = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
            mask &= mask - 1;
            Some(slot)
        })
    }

    #[inline(always)]
    fn leaf(media: &Mapped, key: u64) -> Option<(&Line, &[PCell])> {
        let (region, offset) = (media.region(), offset_of(key));
        Some((
            region.get(PPtr::at(offset))?,
            region.cells(offset + HEAD_BYTES, 2 * SLOTS as usize)?,
        ))
    }

    #[inline(always)]
    fn find(media: &Mapped, key: u64) -> Option<u64> {
        let hash = hash(key);
        let (line, body) = leaf(media, key)?;
        media.prefetch(&body[2 * home(hash) as usize]);
        let (live, mask) = media.match_line(line, (hash >> 56) as u8);
        let candidates = live & (mask >> 8) & ((1 << SLOTS) - 1);
        let slot = slots(candidates).find(|slot| media.load(&body[2 * slot]) == key)?;
        Some(media.load(&body[2 * slot + 1]))
    }

    #[inline(always)]
    fn insert(media: &Mapped, key: u64, value: u64) {
        let hash = hash(key);
        let (Some((line, body)), None) = (leaf(media, key), find(media, key)) else { return };
        let live: u64 = media.load(&line.0[0]);
        let slot = dead_slot(live, hash) as usize;
        media.store(&body[2 * slot], key);
        media.store(&body[2 * slot + 1], value);
        media.flush(site!("raw.P1.entry"), &body[2 * slot]);
        media.fence(site!("raw.P1.fence"));
        let (cell, shift) = (&line.0[1 + slot / 8], slot % 8 * 8);
        media.store(cell, media.load(cell) & !(0xff << shift) | (hash >> 56) << shift);
        media.order(site!("raw.P2.order"));
        media.store(&line.0[0], live | 1 << slot);
        media.flush(site!("raw.P2.bitmap"), &line.0[0]);
        media.fence(site!("raw.P2.fence"));
    }

    /// A flush and a fence, as every step of the insertion has them.
    #[inline(always)]
    fn write_back(address: *mut u64) {
        // SAFETY: a mapped line; the processor was asked.
        unsafe { asm!("clwb [{}]", "sfence", in(reg) address, options(nostack, preserves_flags)) };
    }

    /// The bytes of a line that equal `byte`, as the media asks for them.
    #[inline(always)]
    fn match_line(line: *const u64, byte: u8) -> u64 {
        let mask: u64;
        // SAFETY: 64 aligned bytes of a leaf; the processor was asked.
        unsafe {
            asm!("vpbroadcastb zmm17, {byte:e}",
                "vpcmpeqb k1, zmm17, zmmword ptr [{line}]",
                "kmovq {mask}, k1",
                byte = in(reg) u32::from(byte), line = in(reg) line, mask = lateout(reg) mask,
                out("xmm17") _, out("k1") _, options(nostack, preserves_flags, readonly)
            );
        }
        mask
    }

    #[inline(always)]
    fn raw_find(base: *mut u64, key: u64) -> Option<u64> {
        let hash = hash(key);
        // SAFETY: keys are made for the leaves that there are; a leaf is 16 words and two a slot,
        // of 56. There is no other thread.
        unsafe {
            let leaf = base.add(offset_of(key) as usize / 8);
            let body = leaf.add(HEAD_BYTES as usize / 8);
            _mm_prefetch::<_MM_HINT_T0>(body.add(2 * home(hash) as usize).cast());
            let candidates = *leaf & (match_line(leaf, (hash >> 56) as u8) >> 8);
            let slot = slots(candidates).find(|slot| *body.add(2 * slot) == key)?;
            Some(*body.add(2 * slot + 1))
        }
    }

    #[inline(always)]
    fn raw_insert(base: *mut u64, key: u64, value: u64) {
        let (None, hash) = (raw_find(base, key), hash(key)) else { return };
        // SAFETY: as in `raw_find`; a dead slot is one of the 56.
        unsafe {
            let leaf = base.add(offset_of(key) as usize / 8);
            let slot = dead_slot(*leaf, hash) as usize;
            let entry = leaf.add(HEAD_BYTES as usize / 8 + 2 * slot);
            (*entry, *entry.add(1)) = (key, value);
            write_back(entry);
            *leaf.cast::<u8>().add(8 + slot) = (hash >> 56) as u8;
            compiler_fence(SeqCst);
            *leaf |= 1 << slot;
            write_back(leaf);
        }
    }

    /// Nanoseconds for each key that `work` is done with.
    fn ns(keys: u64, work: impl FnMut(u64)) -> f64 {
        let start = Instant::now();
        (0..keys).for_each(work);
        start.elapsed().as_nanos() as f64 / keys as f64
    }

    fn bitmap(memory: &Mapped, leaf: u64) -> &PCell {
        &memory.region().get::<Line>(PPtr::at(offset_of(leaf << 6))).expect("mapped").0[0]
    }

    /// Finds, and insertions that are taken back afterwards; ns an operation.
    fn round(
        memory: &Mapped,
        leaves: u64,
        find: impl Fn(u64) -> Option<u64>,
        insert: impl Fn(u64, u64),
    ) -> [f64; 2] {
        let before: Vec<u64> = (0..leaves).map(|leaf| memory.load(bitmap(memory, leaf))).collect();
        let leaf = |n: u64| (hash(n) >> 20) % leaves;
        let find =
            ns(2 * leaves, |n| assert!(black_box(find((leaf(n) << 6) | (n % FILLED))).is_some()));
        // An odd factor: each leaf once in `leaves`, which is a power of two.
        let insert = ns(2 * leaves, |n| {
            insert((((n * 0x9e37_79b1) % leaves) << 6) | (FILLED + n / leaves), n)
        });
        for (leaf, before) in (0..leaves).zip(before) {
            let live: u64 = memory.load(bitmap(memory, leaf));
            assert_eq!(live.count_ones() as u64, FILLED + 2);
            memory.store(bitmap(memory, leaf), before);
        }
        [find, insert]
    }

    fn compare(memories: &[Mapped; 2], leaves: u64, rounds: usize) {
        let mut ratios = [Vec::new(), Vec::new()];
        for i in 0..rounds {
            let (mine, other) = (&memories[i % 2], &memories[1 - i % 2]);
            let base = other.region().cells(0, 1).expect("mapped").as_ptr().cast_mut().cast();
            let checked = || {
                round(mine, leaves, |key| find(mine, key), |key, value| insert(mine, key, value))
            };
            let raw = || {
                round(
                    other,
                    leaves,
                    |key| raw_find(base, key),
                    |key, value| raw_insert(base, key, value),
                )
            };
            let (checked, raw) = if i / 2 % 2 == 0 {
                let checked = checked();
                (checked, raw())
            } else {
                let raw = raw();
                (checked(), raw)
            };
            println!(
                "find {:6.1} ns, raw {:6.1}   insert {:6.1} ns, raw {:6.1}",
                checked[0], raw[0], checked[1], raw[1]
            );
            (0..2).for_each(|what| ratios[what].push(checked[what] / raw[what]));
        }
        for (what, mut ratios) in ["find", "insert"].into_iter().zip(ratios) {
            ratios.sort_by(f64::total_cmp);
            println!(
                "{what}: {:.3} times raw (median; {:.3} to {:.3})",
                ratios[rounds / 2],
                ratios[0],
                ratios[rounds - 1]
            );
        }
    }

    pub fn main() -> Result<(), MapError> {
        let argument = |n| {
            std::env::args()
                .nth(n)
                .map(|argument| argument.parse::<u64>().expect("LEAVES ROUNDS: numbers"))
        };
        let (leaves, rounds) = (
            argument(1).unwrap_or(1 << 18).next_power_of_two(),
            argument(2).unwrap_or(12).max(1) as usize,
        );
        let cpu = Cpu::detect();
        assert!(cpu.simd().bytes() == 64, "the raw side is written for AVX-512");
        let bytes = (leaves + 1) * LEAF_BYTES;
        let memory =
            || Mapped::forced(Region::anonymous(bytes, bytes)?, &cpu, FlushInstruction::Clwb);
        let memories = [memory()?, memory()?];
        for memory in &memories {
            (0..leaves)
                .for_each(|leaf| (0..FILLED).for_each(|n| insert(memory, (leaf << 6) | n, n)));
        }
        compare(&memories, leaves, rounds);
        Ok(())
    }
}
