//! A sum that is kept as a journal of what was added; recovery folds the journal into the sum and
//! empties it.

use everleaf_crash::Traced;
use everleaf_pmem::{Media, Site, site};

use super::{Structure, flush, load, store};

const HEADER: usize = 1;
const SUMS: usize = 2;
const ENTRIES: usize = 3;

pub struct Journal {
    /// Recovery adds to the sum in place, then empties the journal: if it is cut in between, it
    /// adds everything a second time.
    pub adds_twice: bool,
}

/// The header: how many entries the journal has, and which of two sums is meant.
fn header(count: u64, selected: u64) -> u64 {
    count | selected << 32
}

fn parts(header: u64) -> (usize, usize) {
    ((header & 0xff) as usize, (header >> 32 & 1) as usize)
}

fn set_header(media: &Traced, value: u64) {
    store(media, HEADER, 0, value);
    flush(media, site!("journal.header"), HEADER);
    media.fence(site!("journal.header.fence"));
}

fn total(media: &Traced) -> u64 {
    let (count, selected) = parts(load(media, HEADER, 0));
    (0..count.min(8))
        .fold(load(media, SUMS, selected), |sum, i| sum.wrapping_add(load(media, ENTRIES, i)))
}

impl Structure for Journal {
    fn create(&self, media: &Traced) {
        store(media, SUMS, 0, 0);
        flush(media, site!("journal.create.sum"), SUMS);
        set_header(media, 0);
    }

    /// Adds 2^i, so that the total after n operations is 2^n - 1.
    fn operate(&self, media: &Traced, i: usize) {
        let (count, selected) = parts(load(media, HEADER, 0));
        store(media, ENTRIES, count, 1 << i);
        flush(media, site!("journal.add.entry"), ENTRIES);
        media.fence(site!("journal.add.fence"));
        set_header(media, header(count as u64 + 1, selected as u64));
    }

    fn recover(&self, media: &Traced) {
        let (count, selected) = parts(load(media, HEADER, 0));
        if count == 0 {
            return;
        }
        let target = if self.adds_twice { selected } else { 1 - selected };
        store(media, SUMS, target, total(media));
        flush(media, site!("journal.fold.sum"), SUMS);
        media.fence(site!("journal.fold.fence"));
        store(media, HEADER, 0, header(0, target as u64));
        flush(media, site!("journal.fold.header"), HEADER);
        media.fence(site!("journal.fold.header.fence"));
    }

    fn completed(&self, media: &Traced) -> Result<usize, String> {
        let total = total(media);
        if (total.wrapping_add(1)).is_power_of_two() {
            Ok((total + 1).trailing_zeros() as usize)
        } else {
            Err(format!("something was added twice or torn: the total is {total:#b}"))
        }
    }

    fn sites(&self) -> Vec<Site> {
        vec![
            site!("journal.header"),
            site!("journal.header.fence"),
            site!("journal.add.entry"),
            site!("journal.add.fence"),
            site!("journal.fold.sum"),
            site!("journal.fold.fence"),
            site!("journal.fold.header"),
            site!("journal.fold.header.fence"),
        ]
    }
}
