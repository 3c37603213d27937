//! The protocol of optimistic latches: a lock bit and a version in one word. Writers lock; readers
//! only look at the word before and after they read, so they never write shared memory, and scale.
//!
//! - A reader loads the word (Acquire) until it is unlocked, reads the data (atomics, Relaxed or
//!   stronger), and then asks [`is_current`]: `fence(Acquire)`, and a Relaxed load of the word. If
//!   it is still the same, all that was read was there together.
//! - A writer exchanges the unlocked word for the locked one (Acquire), `fence(Release)`, stores
//!   the data (Relaxed or stronger), and stores the unlocked word with the next version (Release).
//!
//! Why this is right in the memory model of Rust (which is that of C++20; Boehm, "Can seqlocks get
//! along with programming language memory models?", 2012). Let a reader have loaded version `v`.
//! - *Nothing newer is accepted.* If one of its data loads reads a store of a writer that locked at
//!   `v` or later, then the writer's release fence, which is before that store, synchronises with
//!   the reader's acquire fence, which is after that load. So the writer's lock happened before the
//!   second load of the word, and by coherence this load sees the locked word or what came after
//!   it; none of these equals `v`, because versions do not come back. Acquire loads and Release
//!   stores of data would do instead of the fences; on x86 either is free.
//! - *Nothing older is accepted.* The unlock that stored `v` is a Release store and the first load
//!   an Acquire load: all stores of that writer, and of those before it (each locks with Acquire),
//!   happened before the data loads.
//! - A writer may decide by what it read since `v`: its exchange succeeds only while the word is
//!   `v`. That an earlier load of it read from a later writer is impossible, since that writer's
//!   stores happen after its lock, hence after this one's unlock.
//!
//! Vector loads of eight words count as Relaxed loads of each: they are assembly, which the fence
//! keeps in its place.
//!
//! Two latches are coupled by loading the word of the second before the first is asked whether it
//! is current: then the second word was loaded at a moment when the first still led there.
//!
//! A version has at least 36 bits. It would have to go round once between the two loads of one
//! reader to deceive it.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// An atomic word: the real one, or that of a model checker.
pub(super) trait Atom {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, word: u64, order: Ordering);
    /// Acquire if it succeeds, Relaxed if not.
    fn exchange(&self, current: u64, new: u64) -> bool;
    fn fence(order: Ordering);
}

impl Atom for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }
    #[inline(always)]
    fn store(&self, word: u64, order: Ordering) {
        self.store(word, order);
    }
    #[inline(always)]
    fn exchange(&self, current: u64, new: u64) -> bool {
        self.compare_exchange(current, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
    #[inline(always)]
    fn fence(order: Ordering) {
        fence(order);
    }
}

/// What a word with a latch in it must tell.
pub(super) trait LatchWord: Copy {
    /// The bit that locks; those above it are the version.
    const LOCK: u64;

    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    #[inline(always)]
    fn is_locked(self) -> bool {
        self.bits() & Self::LOCK != 0
    }
    /// The same with the lock bit set.
    #[inline(always)]
    fn locked(self) -> Self {
        Self::from_bits(self.bits() | Self::LOCK)
    }
    /// The same with the lock bit cleared.
    #[inline(always)]
    fn unlocked(self) -> Self {
        Self::from_bits(self.bits() & !Self::LOCK)
    }
    /// The same with the version that follows.
    #[inline(always)]
    fn next_version(self) -> Self {
        Self::from_bits(self.bits().wrapping_add(Self::LOCK << 1))
    }
}

/// The word, which may be locked.
#[inline(always)]
pub(super) fn load<W: LatchWord>(atom: &impl Atom) -> W {
    W::from_bits(atom.load(Ordering::Acquire))
}

/// The word once it is unlocked. `relax` is called for each turn of waiting.
#[inline(always)]
pub(super) fn read<W: LatchWord>(atom: &impl Atom, relax: impl Fn()) -> W {
    loop {
        let word: W = load(atom);
        if !word.is_locked() {
            return word;
        }
        relax();
    }
}

/// Whether all that was read since the word was loaded was there together.
#[inline(always)]
pub(super) fn is_current<A: Atom>(atom: &A, seen: impl LatchWord) -> bool {
    is_still(atom, seen.bits())
}

/// The same by the bits of the word.
#[inline(always)]
pub(super) fn is_still<A: Atom>(atom: &A, seen: u64) -> bool {
    A::fence(Ordering::Acquire);
    atom.load(Ordering::Relaxed) == seen
}

/// Locks if the word is still `seen`, which is unlocked; does not wait.
#[inline(always)]
pub(super) fn try_lock<A: Atom>(atom: &A, seen: impl LatchWord) -> bool {
    let won = atom.exchange(seen.bits(), seen.locked().bits());
    A::fence(Ordering::Release);
    won
}

/// Locks, and returns what the word was. `relax` is called for each turn of waiting.
pub(super) fn lock<W: LatchWord>(atom: &impl Atom, relax: impl Fn()) -> W {
    loop {
        let seen: W = read(atom, &relax);
        if try_lock(atom, seen) {
            return seen;
        }
        relax();
    }
}

/// Unlocks; a thread that read before finds that it is not current. For the thread that locked.
#[inline(always)]
pub(super) fn unlock<W: LatchWord>(atom: &impl Atom) {
    let word = W::from_bits(atom.load(Ordering::Relaxed));
    debug_assert!(word.is_locked());
    atom.store(word.next_version().unlocked().bits(), Ordering::Release);
}

/// Unlocks; what was read before is still right. For the thread that locked, and has changed
/// nothing.
#[inline(always)]
pub(super) fn unlock_unchanged<W: LatchWord>(atom: &impl Atom) {
    let word = W::from_bits(atom.load(Ordering::Relaxed));
    debug_assert!(word.is_locked());
    atom.store(word.unlocked().bits(), Ordering::Release);
}

#[cfg(test)]
pub(super) mod tests {
    //! The protocol under a model checker, with the latch words that the crate has.

    use super::*;
    use crate::inner::NodeWord;
    use crate::version_locks::Version;
    use loom::sync::Arc;
    use loom::thread;

    impl Atom for loom::sync::atomic::AtomicU64 {
        fn load(&self, order: Ordering) -> u64 {
            self.load(order)
        }
        fn store(&self, word: u64, order: Ordering) {
            self.store(word, order);
        }
        fn exchange(&self, current: u64, new: u64) -> bool {
            self.compare_exchange(current, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }
        fn fence(order: Ordering) {
            loom::sync::atomic::fence(order);
        }
    }

    type Cell = loom::sync::atomic::AtomicU64;

    fn cell(bits: u64) -> Arc<Cell> {
        Arc::new(Cell::new(bits))
    }

    fn relax() {
        thread::yield_now();
    }

    /// Two words that must be read together.
    fn readers_see_all_of_a_change_or_nothing<W: LatchWord + Send + Sync + 'static>(fresh: W) {
        loom::model(move || {
            let (latch, data) = (cell(fresh.bits()), [cell(0), cell(0)]);
            let writer = {
                let (latch, data) = (latch.clone(), data.clone());
                thread::spawn(move || {
                    for value in 1..=2 {
                        lock::<W>(&*latch, relax);
                        data.iter().for_each(|cell| cell.store(value, Ordering::Relaxed));
                        unlock::<W>(&*latch);
                    }
                })
            };
            let seen: W = load(&*latch);
            if !seen.is_locked() {
                let read = data.each_ref().map(|cell| cell.load(Ordering::Relaxed));
                if is_current(&*latch, seen) {
                    assert_eq!(read[0], read[1], "torn");
                }
            }
            writer.join().unwrap();
        });
    }

    #[test]
    fn readers_of_leaves_see_all_of_a_change_or_nothing() {
        readers_see_all_of_a_change_or_nothing(Version::from_bits(0));
    }

    #[test]
    fn readers_of_nodes_see_all_of_a_change_or_nothing() {
        readers_see_all_of_a_change_or_nothing(NodeWord::EMPTY);
    }

    #[test]
    fn increments_under_the_lock_are_not_lost() {
        loom::model(|| {
            let (latch, data) = (cell(0), cell(0));
            let add = |latch: &Cell, data: &Cell| {
                let seen: Version = read(latch, relax);
                let value = data.load(Ordering::Relaxed);
                // Decides by what it read before it locked; else reads again.
                let value = if try_lock(latch, seen) {
                    value
                } else {
                    lock::<Version>(latch, relax);
                    data.load(Ordering::Relaxed)
                };
                data.store(value + 1, Ordering::Relaxed);
                unlock::<Version>(latch);
            };
            let other = {
                let (latch, data) = (latch.clone(), data.clone());
                thread::spawn(move || add(&latch, &data))
            };
            add(&latch, &data);
            other.join().unwrap();
            assert_eq!(
                (
                    data.load(Ordering::Relaxed),
                    Version::from_bits(latch.load(Ordering::Relaxed)).is_locked()
                ),
                (2, false)
            );
        });
    }

    /// A parent leads to node 0, which holds 10 and 20; a writer moves 20 to node 1 and tells the
    /// parent. Readers that couple latches always find 20. With two nodes that are freed and taken
    /// again in `reuse`, also when node 1 held 99 before.
    #[test]
    fn coupled_readers_find_what_a_split_moves() {
        struct Node {
            latch: Cell,
            data: [Cell; 2],
        }
        let node = |data: [u64; 2]| Node {
            latch: Cell::new(NodeWord::EMPTY.bits()),
            data: data.map(Cell::new),
        };
        loom::model(move || {
            // Slots of the parent: the separator from which on node 1 is right, and node 1's
            // number.
            let tree = Arc::new((node([u64::MAX, 0]), [node([10, 20]), node([99, 99])]));
            let writer = {
                let tree = tree.clone();
                thread::spawn(move || {
                    let (parent, nodes) = &*tree;
                    lock::<NodeWord>(&nodes[0].latch, relax);
                    lock::<NodeWord>(&parent.latch, relax);
                    nodes[1].data[0].store(20, Ordering::Relaxed);
                    nodes[1].data[1].store(0, Ordering::Relaxed);
                    nodes[0].data[1].store(0, Ordering::Relaxed);
                    parent.data[1].store(1, Ordering::Relaxed);
                    parent.data[0].store(20, Ordering::Relaxed);
                    unlock::<NodeWord>(&parent.latch);
                    unlock::<NodeWord>(&nodes[0].latch);
                })
            };
            let (parent, nodes) = &*tree;
            let attempt = || {
                let seen: NodeWord = read(&parent.latch, relax);
                let child = if 20 >= parent.data[0].load(Ordering::Relaxed) {
                    parent.data[1].load(Ordering::Relaxed)
                } else {
                    0
                };
                let node = &nodes[child as usize];
                let node_seen: NodeWord = load(&node.latch);
                if !is_current(&parent.latch, seen) || node_seen.is_locked() {
                    return None;
                }
                let found = node.data.iter().any(|cell| cell.load(Ordering::Relaxed) == 20);
                is_current(&node.latch, node_seen).then_some(found)
            };
            if let Some(found) = attempt() {
                assert!(found, "a key that was there all the time was not found");
            }
            writer.join().unwrap();
            assert_eq!(attempt(), Some(true));
        });
    }

    /// A node is given back and taken anew for other keys, while a reader comes to it by an old
    /// number: what it covers is stored last, and loaded first after the word. The reader finds a
    /// key only with the child that belongs to it.
    #[test]
    fn a_reader_from_the_side_finds_no_half_of_a_node() {
        struct Node {
            latch: Cell,
            /// The keys from `first` on, so many, are of the child.
            first: Cell,
            span: Cell,
            child: Cell,
        }
        let try_find = |node: &Node, key: u64| {
            let seen: NodeWord = load(&node.latch);
            let span = node.span.load(Ordering::Acquire);
            if key.wrapping_sub(node.first.load(Ordering::Relaxed)) >= span || seen.is_locked() {
                return None;
            }
            let child = node.child.load(Ordering::Relaxed);
            is_current(&node.latch, seen).then_some(child)
        };
        loom::model(move || {
            let node = Arc::new(Node {
                latch: Cell::new(NodeWord::EMPTY.bits()),
                first: Cell::new(10),
                span: Cell::new(10),
                child: Cell::new(10),
            });
            let writer = {
                let node = node.clone();
                thread::spawn(move || {
                    lock::<NodeWord>(&node.latch, relax);
                    node.span.store(0, Ordering::Relaxed);
                    unlock::<NodeWord>(&node.latch);
                    loom::sync::atomic::fence(Ordering::Release);
                    node.first.store(15, Ordering::Relaxed);
                    node.child.store(15, Ordering::Relaxed);
                    node.span.store(10, Ordering::Release);
                })
            };
            assert!(try_find(&node, 12).is_none_or(|child| child == 10));
            assert!(try_find(&node, 17).is_none_or(|child| child == 10 || child == 15));
            assert!(try_find(&node, 22).is_none_or(|child| child == 15));
            writer.join().unwrap();
            assert_eq!((try_find(&node, 12), try_find(&node, 22)), (None, Some(15)));
        });
    }
}
