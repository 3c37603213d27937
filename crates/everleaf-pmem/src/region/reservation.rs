//! A range of addresses, reserved once, in which a region grows.

use std::ptr::NonNull;

use super::{HUGE_PAGE, MAX_REGION_BYTES, MapError, PAGE, round_up};

/// The smallest reservation that is tried when the address space is scarce.
const SMALLEST: u64 = 64 << 20;

/// Addresses without access rights, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    start: usize,
    reserved_bytes: usize,
    base: NonNull<u8>,
    usable_bytes: u64,
}

impl Reservation {
    /// Reserves `wished` bytes, at most [`MAX_REGION_BYTES`]. Where the system refuses that, about
    /// half of what it would give, because the rest of the process needs addresses too; but not
    /// fewer than `needed`. The base, and the end of what may be mapped, are multiples of `align`
    /// (a power of two) and of a huge page.
    pub fn new(needed: u64, wished: u64, align: u64) -> Result<Self, MapError> {
        if needed > MAX_REGION_BYTES {
            return Err(MapError::TooLarge { bytes: needed, max_bytes: MAX_REGION_BYTES });
        }
        let align = align.max(HUGE_PAGE);
        let least = round_up(needed.max(PAGE), PAGE);
        let wished = round_up(wished.min(MAX_REGION_BYTES), PAGE).max(least);
        let half = |bytes: u64| round_up(bytes / 2, PAGE).max(least);
        let mut usable_bytes = wished;
        loop {
            match Self::of(usable_bytes, align) {
                Ok(reservation) if usable_bytes == wished => return Ok(reservation),
                Ok(reservation) => {
                    drop(reservation);
                    return Self::of(half(usable_bytes), align);
                }
                Err(error) if usable_bytes <= least.max(SMALLEST) => return Err(error),
                Err(_) => usable_bytes = half(usable_bytes),
            }
        }
    }

    fn of(usable_bytes: u64, align: u64) -> Result<Self, MapError> {
        let reserved_bytes = (round_up(usable_bytes, align) + align) as usize;
        // SAFETY: a fresh anonymous mapping without access rights; it touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                reserved_bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(MapError::last("reserving addresses"));
        }
        let slack = round_up(start as u64, align) as usize - start as usize;
        let base =
            NonNull::new(start.cast::<u8>().wrapping_add(slack)).expect("mmap returns no null");
        Ok(Self { start: start as usize, reserved_bytes, base, usable_bytes })
    }

    /// The first address that may be mapped.
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes that may be mapped.
    #[inline(always)]
    pub fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped, and what was mapped over it since; no reference
        // into it outlives the region that owns `self`.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.reserved_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_without_limit_is_bounded_and_what_is_needed_is_not_given_up() {
        let all = Reservation::new(PAGE, u64::MAX, 1).unwrap();
        assert!(all.usable_bytes() <= MAX_REGION_BYTES && all.usable_bytes() >= SMALLEST);
        assert!(all.reserved_bytes as u64 > all.usable_bytes());
        let small = Reservation::new(3 * PAGE, 0, 1 << 30).unwrap();
        assert_eq!(small.usable_bytes(), 3 * PAGE);
        assert_eq!(small.base() as u64 % (1 << 30), 0);
        let refused = Reservation::new(MAX_REGION_BYTES + 1, u64::MAX, 1);
        assert!(matches!(refused, Err(MapError::TooLarge { .. })), "{refused:?}");
    }
}
