//! What cursors of SCAN stand for: where the next step begins. They are forgotten when there are
//! too many, and when the server stops.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

/// Cursors that are remembered.
const REMEMBERED: usize = 1 << 16;
/// Bytes of the keys that they stand for.
const REMEMBERED_BYTES: usize = 64 << 20;
/// What cursors stand for.
#[derive(Default)]
pub struct Cursors {
    inner: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    places: HashMap<u64, Vec<u8>>,
    oldest: VecDeque<u64>,
    /// Bytes of all places.
    bytes: usize,
    last: u64,
}

impl Cursors {
    /// A cursor that stands for a key.
    pub fn remember(&self, place: Vec<u8>) -> u64 {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let cursor = inner.last;
        inner.bytes += place.len();
        inner.places.insert(cursor, place);
        inner.oldest.push_back(cursor);
        while inner.oldest.len() > REMEMBERED || inner.bytes > REMEMBERED_BYTES {
            let Some(oldest) = inner.oldest.pop_front() else { break };
            let place = inner.places.remove(&oldest).unwrap_or_default();
            inner.bytes -= place.len();
        }
        cursor
    }

    /// The key that a cursor stands for, unless it was forgotten.
    pub fn place(&self, cursor: u64) -> Option<Vec<u8>> {
        self.inner.lock().places.get(&cursor).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_of_long_keys_take_a_bounded_memory() {
        let cursors = Cursors::default();
        let place = vec![b'k'; 1 << 16];
        let first = cursors.remember(place.clone());
        let others: Vec<u64> = (0..2000).map(|_| cursors.remember(place.clone())).collect();
        let kept = others.iter().filter(|cursor| cursors.place(**cursor).is_some()).count();
        assert!(cursors.place(first).is_none() && kept <= 1024, "{kept} are kept");
        assert!(cursors.place(others[1999]).is_some() && cursors.place(others[1000]).is_some());
    }
}
