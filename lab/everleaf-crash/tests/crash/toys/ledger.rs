//! Two accounts on two lines whose sum never changes: a redo log of two lines, the entry and the
//! mark that makes it valid.

use everleaf_crash::Traced;
use everleaf_pmem::{Media, Site, site};

use super::{Structure, flush, load, store};

const MARK: usize = 1;
const ENTRY: usize = 2;
const A: usize = 3;
const B: usize = 4;
const SUM: u64 = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The entry is written, but not made durable before the mark.
    LogNotPersisted,
    /// The mark is taken back before the accounts are durable.
    ResetTooEarly,
    /// Recovery takes the mark back before the accounts are durable.
    RecoveryResetsTooEarly,
    /// Recovery leaves its last write without flush and fence.
    RecoveryForgetsItsEnd,
}

pub struct Ledger(pub Fault);

impl Ledger {
    fn log(&self, media: &Traced, amount: u64) {
        // L1: the entry. Crash: not marked, ignored.
        store(media, ENTRY, 0, load(media, A, 0) - amount);
        store(media, ENTRY, 1, load(media, B, 0) + amount);
        if self.0 != Fault::LogNotPersisted {
            flush(media, site!("ledger.L1.entry"), ENTRY);
            media.fence(site!("ledger.L1.fence"));
        }
        // L2 COMMIT: the mark. Crash: recovery applies the entry.
        store(media, MARK, 0, 1);
        flush(media, site!("ledger.L2.mark"), MARK);
        media.fence(site!("ledger.L2.fence"));
    }
}

impl Structure for Ledger {
    fn create(&self, media: &Traced) {
        for (line, value) in [(MARK, 0), (ENTRY, 0), (A, SUM), (B, 0)] {
            store(media, line, 0, value);
            store(media, line, 1, 0);
            flush(media, site!("ledger.create.line"), line);
        }
        media.fence(site!("ledger.create.fence"));
    }

    fn operate(&self, media: &Traced, _i: usize) {
        self.log(media, 1);
        // L3: the accounts. Crash: recovery applies the entry again.
        store(media, A, 0, load(media, ENTRY, 0));
        store(media, B, 0, load(media, ENTRY, 1));
        flush(media, site!("ledger.L3.a"), A);
        flush(media, site!("ledger.L3.b"), B);
        if self.0 != Fault::ResetTooEarly {
            media.fence(site!("ledger.L3.fence"));
        }
        // L4: the mark is taken back before the next entry is written.
        store(media, MARK, 0, 0);
        flush(media, site!("ledger.L4.mark"), MARK);
        media.fence(site!("ledger.L4.fence"));
    }

    fn recover(&self, media: &Traced) {
        if load(media, MARK, 0) != 1 {
            return;
        }
        store(media, A, 0, load(media, ENTRY, 0));
        store(media, B, 0, load(media, ENTRY, 1));
        flush(media, site!("ledger.recover.a"), A);
        flush(media, site!("ledger.recover.b"), B);
        if self.0 != Fault::RecoveryResetsTooEarly {
            media.fence(site!("ledger.recover.fence"));
        }
        store(media, MARK, 0, 0);
        if self.0 != Fault::RecoveryForgetsItsEnd {
            flush(media, site!("ledger.recover.mark"), MARK);
            media.fence(site!("ledger.recover.end"));
        }
    }

    fn completed(&self, media: &Traced) -> Result<usize, String> {
        let (a, b) = (load(media, A, 0), load(media, B, 0));
        if a.wrapping_add(b) == SUM {
            Ok(b as usize)
        } else {
            Err(format!("{a} and {b} do not make {SUM}"))
        }
    }

    fn sites(&self) -> Vec<Site> {
        vec![
            site!("ledger.L1.entry"),
            site!("ledger.L1.fence"),
            site!("ledger.L2.mark"),
            site!("ledger.L2.fence"),
            site!("ledger.L3.a"),
            site!("ledger.L3.b"),
            site!("ledger.L3.fence"),
            site!("ledger.L4.mark"),
            site!("ledger.L4.fence"),
            site!("ledger.recover.a"),
            site!("ledger.recover.b"),
            site!("ledger.recover.fence"),
            site!("ledger.recover.mark"),
            site!("ledger.recover.end"),
        ]
    }
}
