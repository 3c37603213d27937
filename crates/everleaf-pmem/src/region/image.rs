//! Memory that is a file's but for what was stored to it: a private mapping, for whoever writes the
//! file by other means.

use std::fs::File;

use super::growth::Source;
use super::{Backing, MapError, Mapping, PAGE, Region, file, round_up};

impl Region {
    /// The first `len` bytes of a file as memory of this process, for whoever writes the file by
    /// other means. A page takes memory from the first store on; before that it is the file's, and
    /// shows what is written there. A file that is truncated, or a disk that cannot be read, ends
    /// in a SIGBUS. It counts as anonymous memory: nothing that is stored reaches the file. A
    /// growth maps the file, which must be long enough already. A process that is forked has none
    /// of it.
    ///
    /// None where there can be none: of a file with holes on tmpfs, each page of which would have
    /// to be allocated to be read; and where the system's pages are larger than 4096 bytes, so that
    /// it would give back more than was written.
    ///
    /// # Errors
    /// [`MapError::Truncated`] when the file is shorter; [`MapError::TooLarge`],
    /// [`MapError::System`].
    pub fn image(file: File, len: u64, max_len: u64) -> Result<Option<Self>, MapError> {
        let found_bytes = file::length(&file)?;
        // Behind the end of the file its last page shows zeros.
        if round_up(found_bytes, PAGE) < len {
            return Err(MapError::Truncated { found_bytes, expected_bytes: len });
        }
        if file::is_on_tmpfs(&file)? && file::holes(&file, len, 0).is_none() {
            return Ok(None);
        }
        // SAFETY: it only tells a number.
        if unsafe { libc::sysconf(libc::_SC_PAGESIZE) } != PAGE as libc::c_long {
            return Ok(None);
        }
        let backing = Backing::ANONYMOUS;
        let region = Self::reserve(Some(file), Mapping::Image, backing, len, max_len.max(len))?;
        region.map_existing(len)?;
        Ok(Some(region))
    }

    /// Gives pages of an image back to the file: they show what it holds, and take no memory. For
    /// who has written them there, and keeps others from storing to them meanwhile; what was stored
    /// there and is not in the file is lost. A system call. False where there is no image, or the
    /// system refuses: then nothing has changed.
    ///
    /// # Panics
    /// If the pages lie outside the region, or are no whole ones: a mistake of the program.
    pub fn revert(&self, offset: u64, bytes: u64) -> bool {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.len());
        assert!(inside && offset.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE));
        self.memory.mapping == Mapping::Image && self.advise(offset, bytes, libc::MADV_DONTNEED)
    }

    /// Lets the system read pages of an image that are not cached, while the caller goes on. A
    /// system call; a hint only.
    pub fn will_need(&self, offset: u64, bytes: u64) {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.len());
        if inside && self.memory.mapping == Mapping::Image {
            self.advise(offset, bytes, libc::MADV_WILLNEED);
        }
    }

    /// Maps a part of an image. What a forked process would have of it are pages that nobody
    /// captures, at the price of a copy of each that is stored to here.
    pub(super) fn map_image(&self, file: &File, offset: u64, bytes: u64) -> Result<(), MapError> {
        self.map(offset, bytes, Source::Private(file))?;
        self.advise(offset, bytes, libc::MADV_DONTFORK);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{Medium, WORD};

    fn new_file() -> File {
        tempfile::tempfile().unwrap()
    }

    fn load(region: &Region, offset: u64) -> u64 {
        region.cells(offset, 1).unwrap()[0].load(Ordering::Relaxed)
    }

    #[test]
    fn an_image_is_the_file_but_for_the_pages_that_were_stored_to() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            let Ok(file) = tempfile::tempfile_in(&folder) else { continue };
            let write = |page: u64, byte: u8| {
                file.write_all_at(&[byte; PAGE as usize], page * PAGE).unwrap();
                u64::from_ne_bytes([byte; WORD])
            };
            let words: Vec<u64> = (0..4).map(|page| write(page, page as u8)).collect();
            let image =
                Region::image(file.try_clone().unwrap(), 4 * PAGE, 1 << 20).unwrap().unwrap();
            assert!((0..4).all(|page| load(&image, page * PAGE) == words[page as usize]));
            image.cells(PAGE, 1).unwrap()[0].store(7, Ordering::Relaxed);
            let now = [write(1, 0xa1), write(2, 0xa2)];
            assert_eq!((load(&image, PAGE), load(&image, PAGE + 8)), (7, words[1]), "stored to");
            assert_eq!(load(&image, 2 * PAGE), now[1]);
            let mut bytes = [0; WORD];
            file.read_exact_at(&mut bytes, PAGE).unwrap();
            assert_eq!(u64::from_ne_bytes(bytes), now[0], "nothing reaches the file");
            // What was added is the file's, or there is no growth.
            file.set_len(6 * PAGE).unwrap();
            image.grow(6 * PAGE).unwrap();
            assert_eq!((load(&image, 5 * PAGE), write(5, 0xa5)), (0, load(&image, 5 * PAGE)));
            let refused = image.grow(8 * PAGE);
            assert!(matches!(refused, Err(MapError::Truncated { .. })), "{refused:?}");
            assert_eq!(image.len(), 6 * PAGE);
            assert!(image.file().is_none() && image.medium() == Medium::Anonymous);
            assert!(image.sync().is_ok());
        }
    }

    #[test]
    fn pages_that_are_given_back_are_the_files_again() {
        let file = new_file();
        file.write_all_at(&[1; 4 * PAGE as usize], 0).unwrap();
        let image = Region::image(file.try_clone().unwrap(), 4 * PAGE, 4 * PAGE).unwrap().unwrap();
        let store = |page: u64| image.cells(page * PAGE, 1).unwrap()[0].store(7, Ordering::Relaxed);
        (0..4).for_each(store);
        file.write_all_at(&[2; PAGE as usize], 2 * PAGE).unwrap();
        assert!(image.revert(2 * PAGE, PAGE));
        let words = [0, 1, 2, 3].map(|page| load(&image, page * PAGE));
        assert_eq!(words, [7, 7, u64::from_ne_bytes([2; WORD]), 7]);
        let memory = Region::anonymous(PAGE, PAGE).unwrap();
        memory.cells(0, 1).unwrap()[0].store(7, Ordering::Relaxed);
        assert!(!memory.revert(0, PAGE));
        assert_eq!(load(&memory, 0), 7, "what has no file stays");
    }

    /// Whether advice is heeded. One that there is not is refused then; an emulator of processes
    /// takes all advice for hints, and says yes to anything.
    fn advice_is_heeded() -> bool {
        const NO_ADVICE: libc::c_int = libc::c_int::MAX;
        let region = Region::anonymous(PAGE, PAGE).unwrap();
        !region.advise(0, PAGE, NO_ADVICE)
    }

    #[test]
    fn a_process_that_is_forked_has_no_image() {
        if !advice_is_heeded() {
            println!("not run: what emulates this processor ignores advice about memory");
            return;
        }
        let file = new_file();
        file.set_len(4 * PAGE).unwrap();
        let image = Region::image(file, 4 * PAGE, 1 << 20).unwrap().unwrap();
        image.memory.file.as_ref().unwrap().set_len(8 * PAGE).unwrap();
        image.grow(8 * PAGE).unwrap();
        assert!([0, 4 * PAGE].iter().all(|offset| has_flag(&image, *offset, "dc")));
    }

    /// Whether the kernel has noted something of a part of a region.
    fn has_flag(region: &Region, offset: u64, flag: &str) -> bool {
        let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (address, mut range) = (region.base().addr() as u64 + offset, 0..0);
        let flags = mappings.lines().find_map(|line| {
            let ends = line.split(' ').next().and_then(|ends| ends.split_once('-'));
            let ends = ends.map(|(from, to)| [from, to].map(|e| u64::from_str_radix(e, 16)));
            if let Some([Ok(from), Ok(to)]) = ends {
                range = from..to;
            }
            line.strip_prefix("VmFlags:").filter(|_| range.contains(&address))
        });
        flags.unwrap().split(' ').any(|found| found == flag)
    }

    #[test]
    fn single_pages_are_read_of_what_is_longer_than_the_bound() {
        if !advice_is_heeded() {
            println!("not run: what emulates this processor ignores advice about memory");
            return;
        }
        let files = [(); 2].map(|()| new_file());
        files[0].set_len(16 * PAGE).unwrap();
        let [file, of_all] = files;
        let image = Region::image(file, 4 * PAGE, 1 << 20).unwrap().unwrap();
        let shared = Region::create(of_all, 4 * PAGE, 1 << 20).unwrap();
        for region in [image, shared] {
            let are_single = |pages: Range<u64>| {
                pages.map(|page| has_flag(&region, page * PAGE, "rr")).collect::<Vec<_>>()
            };
            region.read_ahead_up_to(6 * PAGE);
            region.grow(6 * PAGE).unwrap();
            assert_eq!(are_single(0..6), [false; 6]);
            region.grow(8 * PAGE).unwrap();
            region.grow(12 * PAGE).unwrap();
            let is_cached =
                region.memory.mapping == Mapping::Image || region.medium() == Medium::PageCache;
            assert_eq!(are_single(0..12), [is_cached; 12]);
        }
    }

    #[test]
    fn no_image_is_made_of_what_cannot_be_one() {
        let short = new_file();
        short.set_len(PAGE).unwrap();
        let refused = Region::image(short, 2 * PAGE, 2 * PAGE);
        assert!(matches!(refused, Err(MapError::Truncated { .. })), "{refused:?}");
        if let Ok(file) = tempfile::tempfile_in("/dev/shm") {
            file.set_len(2 * PAGE).unwrap();
            let refused = Region::image(file, 2 * PAGE, 2 * PAGE);
            assert!(matches!(refused, Ok(None)), "{refused:?}");
        }
    }
}
