//! Threads that look at what others may free.
//!
//! Each is *pinned* while it looks: the epoch in which it began stands in a slot of its own. What
//! is taken out of a structure, so that no thread finds it any more, is kept with the
//! [moment](Pins::moment) after that until the [horizon](Pins::horizon) has passed it: then every
//! thread that was pinned at that moment has left.
//!
//! The order of a reader is: its slot, then the structure. That of a thread that frees is: the
//! structure, then all slots. There is a full barrier between the two of each, so at least one of
//! them sees the other. A thread that is pinned in an epoch after that in which something was freed
//! cannot have found it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};

use crossbeam_utils::CachePadded;
use everleaf_pmem::{Media, planted};

use crate::lease::{slot_of_thread, slots_of_thread};

/// Threads that can be pinned at a time, each in a slot. Those beyond are only counted.
pub(crate) const PIN_SLOTS: usize = 64;
/// A slot in which no thread is pinned.
const VACANT: u64 = 0;

/// Which threads are pinned, and since when.
pub struct Pins {
    epoch: CachePadded<AtomicU64>,
    slots: [CachePadded<AtomicU64>; PIN_SLOTS],
    /// Slots from this one on were never used.
    used: AtomicUsize,
    /// Threads that are pinned and found no slot. While there are any, nothing passes.
    crowd: AtomicU64,
}

/// Where a thread is pinned.
pub(crate) struct Pin(Option<usize>);

/// A pinned thread, until this is dropped.
pub struct Pinned<'p> {
    pins: &'p Pins,
    pin: Pin,
}

/// The full barrier between what says that a thread is pinned and what it reads afterwards. On
/// x86-64 the atomic exchange before it is one. Elsewhere a load may overtake the store of the
/// exchange.
#[inline(always)]
fn slot_before_structure() {
    if cfg!(target_arch = "x86_64") {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

impl Default for Pins {
    fn default() -> Self {
        Self {
            epoch: CachePadded::new(AtomicU64::new(VACANT + 1)),
            slots: [const { CachePadded::new(AtomicU64::new(VACANT)) }; PIN_SLOTS],
            used: AtomicUsize::new(0),
            crowd: AtomicU64::new(0),
        }
    }
}

impl Pins {
    /// The oldest epoch while threads without a slot are pinned.
    pub(crate) const CROWD: u64 = VACANT;

    /// Pins the calling thread. One atomic exchange.
    #[inline]
    pub fn enter<M: Media>(&self, media: &M) -> Pinned<'_> {
        Pinned { pins: self, pin: self.pin(slot_of_thread(media, PIN_SLOTS)) }
    }

    /// Pins the calling thread. `first`: the slot that it tries first.
    #[inline]
    pub(crate) fn pin(&self, first: usize) -> Pin {
        let epoch = self.epoch.load(Ordering::Acquire);
        for at in 0..PIN_SLOTS {
            let slot = (first + at) % PIN_SLOTS;
            let pinned = &self.slots[slot];
            if pinned.load(Ordering::Relaxed) == VACANT
                && pinned
                    .compare_exchange(VACANT, epoch, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
            {
                if self.used.load(Ordering::Relaxed) <= slot {
                    self.used.fetch_max(slot + 1, Ordering::SeqCst);
                }
                slot_before_structure();
                return Pin(Some(slot));
            }
        }
        self.crowd.fetch_add(1, Ordering::SeqCst);
        slot_before_structure();
        Pin(None)
    }

    #[inline]
    pub(crate) fn unpin(&self, pin: &Pin) {
        match pin.0 {
            Some(slot) => self.slots[slot].store(VACANT, Ordering::Release),
            None => _ = self.crowd.fetch_sub(1, Ordering::Release),
        }
    }

    /// The present moment: what the caller took out before it, no thread finds that is pinned after
    /// it. Moments do not go backwards.
    pub fn moment(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.epoch.load(Ordering::SeqCst)
    }

    /// Every thread that was pinned at a moment before this one has left. Threads that are pinned
    /// from here on do not keep what there is already.
    pub fn horizon(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.oldest().unwrap_or(u64::MAX)
    }

    /// The oldest epoch in which a thread is pinned; none if none is. What the caller did before is
    /// seen by threads that are pinned afterwards.
    pub(crate) fn oldest(&self) -> Option<u64> {
        fence(Ordering::SeqCst);
        if self.crowd.load(Ordering::Acquire) > u64::from(planted(142)) {
            return Some(Self::CROWD);
        }
        let used = self.used.load(Ordering::Acquire);
        let pinned = self.slots[..used].iter().map(|slot| slot.load(Ordering::Acquire));
        pinned.filter(|epoch| *epoch != VACANT).min()
    }

    /// Whether the calling thread is pinned in `epoch`, as far as can be told: another thread may
    /// have a slot that this one would take. A schedule that is repeated does not tell.
    pub(crate) fn is_caller_pinned_in<M: Media>(&self, media: &M, epoch: u64) -> bool {
        let slots = slots_of_thread(media, PIN_SLOTS);
        epoch != VACANT
            && !media.is_repeatable()
            && slots.iter().any(|slot| self.slots[*slot].load(Ordering::Relaxed) == epoch)
    }
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pins.unpin(&self.pin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_out_passes_when_those_have_left_that_were_pinned_then() {
        let pins = Pins::default();
        let (early, moment) = (pins.pin(0), pins.moment());
        assert!(pins.horizon() <= moment, "one is pinned that may have found it");
        let late = pins.pin(0);
        pins.unpin(&early);
        assert!(pins.horizon() > moment, "one is pinned that cannot");
        let later = pins.moment();
        assert!(later >= moment && pins.horizon() <= later);
        pins.unpin(&late);
        assert_eq!(pins.horizon(), u64::MAX);
    }

    #[test]
    fn nothing_passes_a_thread_without_a_slot() {
        let pins = Pins::default();
        let pinned: Vec<Pin> = (0..=PIN_SLOTS).map(|_| pins.pin(7)).collect();
        let moment = pins.moment();
        pinned[..PIN_SLOTS].iter().for_each(|pin| pins.unpin(pin));
        assert!(pins.horizon() <= moment);
        pins.unpin(&pinned[PIN_SLOTS]);
        assert_eq!(pins.horizon(), u64::MAX);
    }

    /// The order of a reader and of a thread that frees, under a model checker: a record stands in
    /// a place; one thread reads it, and another takes it out and uses its memory again as soon as
    /// nobody can be reading it. The exchange of the slot counts for no barrier here, as it is none
    /// on aarch64.
    fn nobody_reads_what_is_used_again(reader_has_barrier: bool, freeing_has_barrier: bool) {
        use loom::sync::Arc;
        use loom::sync::atomic::{AtomicU64, fence};

        loom::model(move || {
            let [place, record, slot] = [1, 7, VACANT].map(|word| Arc::new(AtomicU64::new(word)));
            let epoch = Arc::new(AtomicU64::new(VACANT + 1));
            let reader = {
                let (place, record, slot) = (place.clone(), record.clone(), slot.clone());
                let epoch = epoch.clone();
                loom::thread::spawn(move || {
                    let began = epoch.load(Ordering::Acquire);
                    slot.compare_exchange(VACANT, began, Ordering::AcqRel, Ordering::Relaxed)
                        .unwrap();
                    if reader_has_barrier {
                        fence(Ordering::SeqCst);
                    }
                    if place.load(Ordering::Acquire) == 1 {
                        assert_eq!(record.load(Ordering::Relaxed), 7, "it was used again");
                    }
                    slot.store(VACANT, Ordering::Release);
                })
            };
            place.store(0, Ordering::Release);
            if freeing_has_barrier {
                fence(Ordering::SeqCst);
            }
            let moment = epoch.load(Ordering::Relaxed);
            epoch.fetch_add(1, Ordering::AcqRel);
            if freeing_has_barrier {
                fence(Ordering::SeqCst);
            }
            let pinned = slot.load(Ordering::Acquire);
            if pinned == VACANT || pinned > moment {
                record.store(0, Ordering::Relaxed);
            }
            reader.join().unwrap();
        });
    }

    #[test]
    fn what_a_reader_may_have_found_is_not_used_again() {
        nobody_reads_what_is_used_again(true, true);
    }

    #[test]
    #[should_panic(expected = "it was used again")]
    fn a_reader_without_a_barrier_reads_what_is_used_again() {
        nobody_reads_what_is_used_again(false, true);
    }

    #[test]
    #[should_panic(expected = "it was used again")]
    fn a_thread_that_frees_without_a_barrier_uses_what_is_read() {
        nobody_reads_what_is_used_again(true, false);
    }
}
