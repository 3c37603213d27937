//! Maps in the code that transactions execute.
//!
//! A page of the program is mapped when an instruction of it is first fetched. In a transaction
//! that is a page fault, which aborts it, and the fault is not served. The way without transactions
//! is other code, often on other pages: a page that only transactions execute is then never mapped,
//! and every one of them aborts for ever, with status 0.
//!
//! So the whole text of the program is mapped when a transaction was aborted without a reason, and
//! again after some more such aborts: the system may take pages away. This costs some ten
//! microseconds where all is mapped, and a fault for each 64 KiB where nothing is.

/// Aborts without a reason from one mapping to the next.
pub(super) const ABORTS_BETWEEN: u64 = 64;

/// Text beyond this is left out: a program can be a hundred times as large as what it executes.
const MAX_BYTES: usize = 64 << 20;
const PAGE: usize = 4096;

/// Maps the text of the program, or of the shared library, that this code is part of.
#[cold]
pub(super) fn map_in() {
    let here = map_in as fn() as usize;
    let Some((start, end)) = segment_of(here) else { return };
    let start = start.max(here.saturating_sub(MAX_BYTES / 2)) / PAGE * PAGE;
    let end = end.min(here.saturating_add(MAX_BYTES / 2));
    // SAFETY: a readable mapping of the program itself; the advice changes nothing that it holds.
    let status = unsafe { libc::madvise(start as *mut _, end - start, libc::MADV_POPULATE_READ) };
    if status != 0 {
        // Linux before 5.14 does not know the advice.
        for page in (start..end).step_by(PAGE) {
            // SAFETY: a byte of a readable segment of the program, which does not change.
            unsafe { (page as *const u8).read_volatile() };
        }
    }
}

/// What is looked for, and what is found: the first and the last address of a readable segment.
struct Search {
    address: usize,
    found: Option<(usize, usize)>,
}

/// The loaded segment that holds `address`.
fn segment_of(address: usize) -> Option<(usize, usize)> {
    /// Called for each object of the process until it returns other than 0.
    unsafe extern "C" fn look_through(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        search: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: `dl_iterate_phdr` passes a valid object, and the search that it was given.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the object has so many program headers, which live as long as it is loaded.
        let headers =
            unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        let loaded = |header: &&libc::Elf64_Phdr| {
            header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_R != 0
        };
        for header in headers.iter().filter(loaded) {
            let start = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize);
            if (start..end).contains(&search.address) {
                search.found = Some((start, end));
                return 1;
            }
        }
        0
    }
    let mut search = Search { address, found: None };
    // SAFETY: the callback takes what it is given here, and the search outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look_through), (&raw mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segment_of_this_code_holds_it_and_that_of_a_heap_is_none() {
        let here = segment_of as fn(usize) -> Option<(usize, usize)> as usize;
        let (start, end) = segment_of(here).unwrap();
        assert!((start..end).contains(&here));
        assert_eq!(segment_of(Box::new(7).as_ref() as *const i32 as usize), None);
        map_in();
    }
}
