//! Tables of cells that cost no memory before they are touched: a pool that may grow far wants
//! large ones, and most pools stay small.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64};

/// A cell whose bytes may all be zero, which is its default.
///
/// # Safety
/// Zeros are a valid value, and the type has a size.
pub unsafe trait ZeroCell: Default {}

// SAFETY: zeros are a valid integer, and it has a size.
unsafe impl ZeroCell for AtomicU8 {}
// SAFETY: as above.
unsafe impl ZeroCell for AtomicU16 {}
// SAFETY: as above.
unsafe impl ZeroCell for AtomicU64 {}

/// So many cells that are zero; one at least. None if the system refuses so many at once.
///
/// ```
/// use std::sync::atomic::AtomicU64;
///
/// let table = everleaf_pmem::try_zeroed_cells::<AtomicU64>(5000).ok_or("no memory")?;
/// assert_eq!(table[4999].load(std::sync::atomic::Ordering::Relaxed), 0);
/// # Ok::<(), &str>(())
/// ```
pub fn try_zeroed_cells<T: ZeroCell>(count: usize) -> Option<Box<[T]>> {
    let count = count.max(1);
    let layout = Layout::array::<T>(count).ok()?;
    // SAFETY: the layout has a size, because a cell has one (`ZeroCell`) and the count is not 0.
    let start = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<T>())?;
    let cells = NonNull::slice_from_raw_parts(start, count);
    // SAFETY: just allocated by the global allocator with this layout; zeros are valid
    // (`ZeroCell`).
    Some(unsafe { Box::from_raw(cells.as_ptr()) })
}

/// The same; where the system has no memory for them, it ends as it does for every allocation.
pub fn zeroed_cells<T: ZeroCell>(count: usize) -> Box<[T]> {
    try_zeroed_cells(count).unwrap_or_else(|| (0..count).map(|_| T::default()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn what_the_system_has_no_memory_for_is_refused() {
        for count in [usize::MAX, usize::MAX / 2, 1 << 60] {
            assert!(try_zeroed_cells::<AtomicU8>(count).is_none());
            assert!(try_zeroed_cells::<AtomicU16>(count).is_none());
        }
        for count in [0, 1, 5000, 1 << 20] {
            let cells = zeroed_cells::<AtomicU64>(count);
            assert!(
                cells.len() == count.max(1) && cells.iter().all(|cell| cell.load(Relaxed) == 0)
            );
            cells[count / 2].store(u64::MAX, Relaxed);
        }
    }

    #[test]
    fn what_is_not_touched_takes_no_memory() {
        let resident_pages = || -> u64 {
            let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
            sizes.split(' ').nth(1).unwrap().parse().unwrap()
        };
        let before = resident_pages();
        let cells = zeroed_cells::<AtomicU64>(128 << 20);
        assert!(resident_pages() < before + (64 << 20) / 4096, "of 1 GiB");
        cells[0].store(1, Relaxed);
    }
}
