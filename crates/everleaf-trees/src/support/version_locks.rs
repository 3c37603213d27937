//! stub
#![allow(missing_docs)]
use std::sync::atomic::{AtomicU64, Ordering, fence};
#[derive(Debug)]
pub struct VersionLocks {
    words: Box<[AtomicU64]>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);
#[derive(Debug)]
pub struct Guard<'l> {
    word: &'l AtomicU64,
    unchanged: bool,
}
impl Guard<'_> {
    pub fn release_unchanged(mut self) {
        self.unchanged = true;
    }
}
impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let w = self.word.load(Ordering::Relaxed);
        self.word.store(if self.unchanged { w - 1 } else { w + 1 }, Ordering::Release);
    }
}
impl VersionLocks {
    pub fn new(n: usize) -> Self {
        Self { words: (0..n).map(|_| AtomicU64::new(0)).collect() }
    }
    fn word(&self, o: u64) -> &AtomicU64 {
        let h = (o >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.words[h as usize & (self.words.len() - 1)]
    }
    pub fn dram_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
    pub fn prefetch(&self, _o: u64) {}
    pub fn read(&self, relax: &impl Fn(), o: u64) -> Version {
        loop {
            let v = self.word(o).load(Ordering::Acquire);
            if v & 1 == 0 {
                return Version(v);
            }
            relax();
        }
    }
    pub fn validate(&self, o: u64, v: Version) -> bool {
        fence(Ordering::Acquire);
        self.word(o).load(Ordering::Relaxed) == v.0
    }
    pub fn lock(&self, relax: &impl Fn(), o: u64) -> Guard<'_> {
        let word = self.word(o);
        loop {
            let v = word.load(Ordering::Relaxed);
            if v & 1 == 0 && word.compare_exchange(v, v + 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                fence(Ordering::Release);
                return Guard { word, unchanged: false };
            }
            relax();
        }
    }
}
