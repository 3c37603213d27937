//! The media of counting runs: it counts, and asks a model of a cache which reads would have gone
//! to persistent memory.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::{CacheModel, Counting, Counts, Hardware, Hook, Instrumented, Media};

/// What a counting run counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub counts: Counts,
    /// Reads of lines that the modelled cache did not hold.
    pub misses: u64,
}

/// Counts the reads that miss the cache which [`Emulated`](everleaf_pmem::Emulated) models.
#[derive(Default)]
pub(crate) struct Misses {
    cache: CacheModel,
    misses: AtomicU64,
}

impl Hook for Misses {
    fn before_load(&self, offset: u64) {
        if self.cache.misses(offset) {
            self.misses.fetch_add(1, Relaxed);
        }
    }
}

/// Counts operations, and misses of the cache.
pub(crate) type Modelled = Instrumented<(Misses, Counting)>;

/// Hardware that counts from zero.
pub(crate) fn modelled(hardware: Hardware) -> Modelled {
    let counting = Counting::new(hardware.region().max_len());
    Instrumented::with_hook(hardware, (Misses::default(), counting))
}

/// Everything counted since the last reset.
pub(crate) fn tally(media: &Modelled) -> Tally {
    let (misses, counting) = media.hook();
    Tally { counts: counting.counts(), misses: misses.misses.load(Relaxed) }
}

/// Starts from zero; the cache keeps what it holds.
pub(crate) fn reset(media: &Modelled) {
    let (misses, counting) = media.hook();
    misses.misses.store(0, Relaxed);
    counting.reset();
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Line, PPtr, Region, site};

    use super::*;

    #[test]
    fn a_line_misses_when_it_is_first_read_and_when_another_took_its_place() {
        let region = Region::anonymous(2 * CacheModel::BYTES, 4 * CacheModel::BYTES).unwrap();
        let media = modelled(Hardware::new(region, &Cpu::detect()).unwrap());
        let line = |offset: u64| media.region().get::<Line>(PPtr::at(offset)).unwrap();
        let misses = |offsets: &[u64]| {
            reset(&media);
            for offset in offsets {
                media.load(&line(*offset).0[3]);
            }
            media.end_operation();
            (tally(&media).misses, tally(&media).counts.pm_lines_read)
        };
        let (a, far) = (640, 640 + CacheModel::BYTES);
        assert_eq!(misses(&[a, a, 704]), (2, 2));
        assert_eq!(misses(&[a, 704]), (0, 2), "the cache keeps what it holds");
        assert_eq!(misses(&[far, a, far]), (3, 2), "they share a place");
        media.store(&line(128).0[0], 1);
        media.flush(site!("test.flush"), &line(128).0[0]);
        assert_eq!(
            (tally(&media).misses, tally(&media).counts.flushes.len()),
            (3, 1),
            "stores are not asked about"
        );
    }
}
