//! Maps in the code that transactions execute.
//!
//! A page of the program is mapped when an instruction of it is first fetched. In a transaction
//! that is a page fault, which aborts it, and the fault is not served. The way without transactions
//! is other code, often on other pages: a page that only transactions execute is then never mapped,
//! and every one of them aborts for ever, with status 0.
//!
//! A virtual machine adds a second table of pages, whose faults abort in the same way. Its host may
//! have no entry for a page that only the disk has written, and one that forbids to execute for a
//! page that was only read. So each page must be executed once, outside of a transaction.
//!
//! That is done for the whole text of the program when a transaction was aborted without a reason,
//! and again when there were twice as many such aborts: the system may take pages away. It costs
//! some 150 nanoseconds a page where all is mapped, and a fault for each 64 KiB where nothing is.

/// Text beyond this is left out: a program can be a hundred times as large as what it executes.
const MAX_BYTES: usize = 64 << 20;
const PAGE: usize = 4096;
/// The instruction that returns. A function that begins with it does nothing else.
#[cfg(target_arch = "x86_64")]
const RETURN: u8 = 0xc3;

/// Maps the text of the program, or of the shared library, that this code is part of, and fetches
/// an instruction of each page.
#[cold]
pub(super) fn map_in() {
    let here = map_in as fn() as usize;
    let Some((start, end)) = segment_of(here) else { return };
    let mut at = start.max(here.saturating_sub(MAX_BYTES / 2));
    let end = end.min(here.saturating_add(MAX_BYTES / 2));
    while at < end {
        let next = (at / PAGE + 1) * PAGE;
        // SAFETY: bytes of a readable, executable segment of the program, which does not change.
        execute_one(unsafe { std::slice::from_raw_parts(at as *const u8, next.min(end) - at) });
        at = next;
    }
}

/// Executes one instruction of `text`, a part of an executable segment, if there is one that
/// returns; which bytes the compiler meant to be instructions does not matter.
#[cfg(target_arch = "x86_64")]
fn execute_one(text: &[u8]) {
    if let Some(at) = text.iter().position(|&byte| byte == RETURN) {
        // SAFETY: the processor finds a return there, and comes back with all as it was.
        unsafe { std::mem::transmute::<*const u8, extern "C" fn()>(&raw const text[at])() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn execute_one(_: &[u8]) {}

/// What is looked for, and what is found: the first and the last address of a segment.
struct Search {
    address: usize,
    found: Option<(usize, usize)>,
}

/// The loaded segment of code that holds `address`.
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
        let code = libc::PF_R | libc::PF_X;
        let loaded = |header: &&libc::Elf64_Phdr| {
            header.p_type == libc::PT_LOAD && header.p_flags & code == code
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
