//! Eight words that are written as one line.

use everleaf_crash::Traced;
use everleaf_pmem::{Line, Media, PPtr, Site, site};

use super::{Structure, load};

const LINE: usize = 1;

pub struct Register;

fn write(media: &Traced, value: u64) {
    let line = media.region().get::<Line>(PPtr::at(LINE as u64 * 64)).expect("inside the page");
    media.write_line(site!("register.write"), line, [value; 8]);
    media.fence(site!("register.fence"));
}

impl Structure for Register {
    fn create(&self, media: &Traced) {
        write(media, 0);
    }
    fn operate(&self, media: &Traced, i: usize) {
        write(media, i as u64 + 1);
    }
    fn recover(&self, _media: &Traced) {}
    fn completed(&self, media: &Traced) -> Result<usize, String> {
        let words: Vec<u64> = (0..8).map(|word| load(media, LINE, word)).collect();
        if words.iter().all(|word| *word == words[0]) {
            Ok(words[0] as usize)
        } else {
            Err(format!("torn: {words:?}"))
        }
    }
    fn sites(&self) -> Vec<Site> {
        vec![site!("register.write"), site!("register.fence")]
    }
}
