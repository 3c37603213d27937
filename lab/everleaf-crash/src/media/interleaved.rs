//! What others do between two steps of a thread, which the operating system may let happen at any
//! of them. Between accesses to DRAM the explorer lets nothing happen; a test does with this, at
//! the place that it means.

use everleaf_pmem::{
    Line, LineAtomicity, Mapped, Media, PCell, Persistent, Region, SimdLevel, Site, Word,
};
use parking_lot::Mutex;

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load of a word.
    Load,
    /// A prefetch.
    Prefetch,
}

/// What others do, and behind which access.
type Meanwhile = (Access, Box<dyn FnOnce() + Send>);

/// Memory of whose accesses one is followed by what others do, before its thread goes on.
pub struct Interleaved {
    hardware: Mapped,
    next: Mutex<Option<Meanwhile>>,
}

impl Interleaved {
    /// Nothing happens in between so far.
    pub fn new(hardware: Mapped) -> Self {
        Self { hardware, next: Mutex::default() }
    }

    /// `others` is done behind the next access of this kind, once.
    pub fn after_next(&self, access: Access, others: impl FnOnce() + Send + 'static) {
        *self.next.lock() = Some((access, Box::new(others)));
    }

    /// Whether that was done.
    pub fn has_interleaved(&self) -> bool {
        self.next.lock().is_none()
    }

    fn after(&self, access: Access) {
        let others = self.next.lock().take_if(|(awaited, _)| *awaited == access);
        if let Some((_, others)) = others {
            others();
        }
    }
}

impl Media for Interleaved {
    fn region(&self) -> &Region {
        self.hardware.region()
    }
    fn simd(&self) -> SimdLevel {
        self.hardware.simd()
    }
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        let loaded = self.hardware.load(cell);
        self.after(Access::Load);
        loaded
    }
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        self.hardware.store(cell, value);
    }
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        self.hardware.compare_exchange(cell, current, new)
    }
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        self.hardware.match_line(line, byte)
    }
    fn prefetch<T: Persistent>(&self, object: &T) {
        self.hardware.prefetch(object);
        self.after(Access::Prefetch);
    }
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>) {
        self.hardware.flush(site, cell);
    }
    fn flush_object<T: Persistent>(&self, site: Site, object: &T) {
        self.hardware.flush_object(site, object);
    }
    fn fence(&self, site: Site) {
        self.hardware.fence(site);
    }
    fn order(&self, site: Site) {
        self.hardware.order(site);
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        self.hardware.write_line(site, line, words)
    }
    fn relax(&self) {
        self.hardware.relax();
    }
    fn end_operation(&self) {
        self.hardware.end_operation();
    }
}
