//! Errors that Redis clients were told, by the first word of each.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::counters::Counter;

/// Kinds that are told apart; there are no more but by scripts, which make their own.
const KINDS: usize = 128;

/// How many errors of which kind.
#[derive(Default)]
pub struct Errors {
    /// All of them.
    pub total: Counter,
    kinds: Mutex<BTreeMap<String, u64>>,
}

impl Errors {
    /// Counts a reply, if it is an error.
    pub fn note(&self, reply: &[u8]) {
        let [b'-', line @ ..] = reply else { return };
        let end = line.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(line.len());
        self.total.add(1);
        let kind = line[..end].escape_ascii().to_string();
        let mut kinds = self.kinds.lock();
        if kinds.len() < KINDS || kinds.contains_key(&kind) {
            *kinds.entry(kind).or_default() += 1;
        }
    }

    /// How many of each kind.
    pub fn kinds(&self) -> Vec<(String, u64)> {
        self.kinds.lock().iter().map(|(kind, count)| (kind.clone(), *count)).collect()
    }

    /// Begins anew.
    pub fn reset(&self) {
        self.total.reset();
        self.kinds.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let errors = Errors::default();
        for reply in ["+OK\r\n", "-ERR one\r\n", "-OOM two\r\n", "-ERR three\r\n", "", "-LAST\r\n"]
        {
            errors.note(reply.as_bytes());
        }
        let kinds = [("ERR", 2), ("LAST", 1), ("OOM", 1)].map(|(kind, n)| (kind.to_owned(), n));
        assert_eq!((errors.total.get(), errors.kinds()), (4, kinds.to_vec()));
        (0..1000).for_each(|at| errors.note(format!("-MINE{at} x\r\n").as_bytes()));
        assert_eq!(errors.kinds().len(), KINDS);
        errors.reset();
        assert_eq!((errors.total.get(), errors.kinds().len()), (0, 0));
    }
}
