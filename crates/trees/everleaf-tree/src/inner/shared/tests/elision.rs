//! The protocol of transactions and of the fallback lock under a model checker, with the latch
//! words that the crate has.
//!
//! A transaction is what its simulation makes of it: a section under a gate, which reads first
//! whether the fallback lock is held. The thread that takes the fallback lock waits once for the
//! gate. Readers by versions take neither.

use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::NodeWord;
use crate::latch::{self, Atom, LatchWord};

/// A node of two words that always agree.
struct Node {
    gate: Mutex<()>,
    /// 1 while the fallback lock is held.
    fallback: AtomicU64,
    latch: AtomicU64,
    data: [AtomicU64; 2],
}

impl Node {
    fn new() -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self {
            gate: Mutex::new(()),
            fallback: zero(),
            latch: AtomicU64::new(NodeWord::EMPTY.bits()),
            data: [zero(), zero()],
        })
    }

    fn read(&self) -> [u64; 2] {
        self.data.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    /// Adds one to both words, under the latch of the node.
    fn add(&self) {
        latch::lock::<NodeWord>(&self.latch, thread::yield_now);
        let [first, second] = self.read();
        assert_eq!(first, second, "two changes met");
        self.data.iter().for_each(|word| word.store(first + 1, Ordering::Relaxed));
        latch::unlock::<NodeWord>(&self.latch);
    }

    /// What `body` returns, in a transaction; none if the fallback lock is held.
    fn transaction<T>(&self, body: impl FnOnce() -> T) -> Option<T> {
        let _gate = self.gate.lock().unwrap();
        let held = self.fallback.load(Ordering::Relaxed) != 0;
        fence(Ordering::Acquire);
        (!held).then(body)
    }

    /// Takes the fallback lock, changes the node, and lets go of it.
    fn fall_back(&self) {
        while !Atom::exchange(&self.fallback, 0, 1) {
            thread::yield_now();
        }
        drop(self.gate.lock().unwrap());
        self.add();
        self.fallback.store(0, Ordering::Release);
    }

    /// The words as a reader by versions sees them; none if it must begin again.
    fn read_by_version(&self) -> Option<[u64; 2]> {
        let seen: NodeWord = latch::load(&self.latch);
        let words = self.read();
        (!seen.is_locked() && latch::is_current(&self.latch, seen)).then_some(words)
    }
}

fn together(words: Option<[u64; 2]>) {
    assert!(words.is_none_or(|words| words[0] == words[1]), "a change was seen in part: {words:?}");
}

#[test]
fn transactions_and_the_holder_of_the_fallback_lock_exclude_each_other() {
    loom::model(|| {
        let node = Node::new();
        let holder = {
            let node = node.clone();
            thread::spawn(move || node.fall_back())
        };
        let changed = node.transaction(|| node.add()).is_some();
        together(node.transaction(|| node.read()));
        holder.join().unwrap();
        assert_eq!(node.read(), [1 + u64::from(changed); 2], "no change is lost");
    });
}

#[test]
fn readers_by_versions_see_all_of_a_transaction_or_nothing() {
    loom::model(|| {
        let node = Node::new();
        let writer = {
            let node = node.clone();
            thread::spawn(move || {
                assert!(node.transaction(|| node.add()).is_some());
                assert!(node.transaction(|| node.add()).is_some());
            })
        };
        together(node.read_by_version());
        writer.join().unwrap();
        assert_eq!(node.read_by_version(), Some([2; 2]));
    });
}

#[test]
fn transactions_see_what_the_last_holder_of_the_fallback_lock_did() {
    loom::model(|| {
        let node = Node::new();
        let holder = {
            let node = node.clone();
            thread::spawn(move || node.fall_back())
        };
        let seen = node.transaction(|| node.read());
        together(seen);
        let later = node.transaction(|| node.read());
        together(later);
        if let (Some(seen), Some(later)) = (seen, later) {
            assert!(seen[0] <= later[0]);
        }
        holder.join().unwrap();
        assert_eq!(node.transaction(|| node.read()), Some([1; 2]));
    });
}
