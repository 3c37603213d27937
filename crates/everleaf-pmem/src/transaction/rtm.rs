//! The instructions of restricted transactional memory (RTM).
//!
//! What happens between [`begin`] and [`end`] happens at one moment for all other threads, or not
//! at all: on an abort the processor takes back every store and restores every register, and goes
//! on behind `xbegin` with a status in `eax`. So to the compiler `begin` is an instruction that
//! returns one of many values, once: a transaction that aborted was never begun. This is what C
//! compilers make of their own intrinsic.

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::asm;

    /// Begins a transaction and returns [`STARTED`](super::STARTED); or returns why the one that
    /// was begun here came to nothing.
    #[inline(always)]
    pub fn begin() -> u32 {
        let status: u32;
        // SAFETY: an abort goes on behind `xbegin`, within this block, with all memory and
        // registers as they were there but for eax, an output. The memory clobber (no `nomem`)
        // keeps loads and stores on their side. The CPU has the instruction: the caller holds
        // an `Rtm`.
        unsafe { asm!("mov eax, -1", "xbegin 2f", "2:", out("eax") status, options(nostack)) }
        status
    }

    /// Makes everything since `begin` visible. For a transaction that is under way: elsewhere it is
    /// a fault.
    #[inline(always)]
    pub fn end() {
        // SAFETY: the only caller has begun one, and is told nothing of it if it was aborted.
        unsafe { asm!("xend", options(nostack)) }
    }

    /// Aborts the transaction that is under way, for the reason that a lock is held; without one it
    /// does nothing.
    #[inline(always)]
    pub fn abort() {
        // SAFETY: goes back to `begin`, as any abort.
        unsafe { asm!("xabort {code}", code = const super::LOCKED_CODE, options(nostack)) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    /// Never begins one.
    pub fn begin() -> u32 {
        0
    }
    pub fn end() {}
    pub fn abort() {}
}

pub(super) use imp::{abort, begin, end};

/// Empty transactions of which one commits where any do: an interrupt or a page that is not mapped
/// aborts a few.
#[cfg(target_arch = "x86_64")]
const TRIALS: u32 = 256;

/// Whether transactions commit on this processor, which must have the instructions. Some 20 ns,
/// where none does some 20 us.
#[cfg(target_arch = "x86_64")]
pub(crate) fn commits() -> bool {
    (0..TRIALS).any(|_| {
        let started = begin() == STARTED;
        if started {
            end();
        }
        started
    })
}

/// What `begin` returns in a transaction.
pub(super) const STARTED: u32 = u32::MAX;
/// The code of [`abort`].
pub(super) const LOCKED_CODE: u8 = 0xff;
