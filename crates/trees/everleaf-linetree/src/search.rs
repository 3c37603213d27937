//! Finding a key without writing anything that is shared, and locking the leaf that covers it.

use everleaf_index::Result;
use everleaf_pmem::{Counter, Media, Word};
use everleaf_pool::Pool;

use super::LineTree;
use super::layout::{KEY_WORDS, Leaf, Slot, Wanted, home, key_word, window};
use super::records::is_key;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{GROUP, SkipIf};
use everleaf_tree::version_locks::{LockGuard, Seen};
use everleaf_tree::wait::wait;

/// Lines that are asked for ahead of a search which finds: it reads 1.16.
const PRESENT_IN: usize = 1;
/// And of one which does not find: it reads 1.69.
pub(super) const ABSENT_IN: usize = 2;

/// A locked leaf that covers the key it was looked for by.
pub(super) struct LockedLeaf<'t, const LINES: usize> {
    /// Where it is.
    pub offset: u64,
    /// Its cells.
    pub leaf: &'t Leaf<LINES>,
    /// Unlocks it when dropped.
    pub guard: LockGuard<'t>,
}

/// What a writer found.
pub(super) enum Found<'t, const LINES: usize> {
    /// The entry of the key, in the leaf, which is locked.
    Present(LockedLeaf<'t, LINES>, Slot<'t>),
    /// It is not there; the leaf where it belongs is locked.
    Absent(LockedLeaf<'t, LINES>),
    /// What there is nothing to do about, and nothing is locked.
    Nothing,
}

/// A leaf that no thread was changing, and that covered a key, at one moment.
struct Located<'t, const LINES: usize> {
    offset: u64,
    leaf: &'t Leaf<LINES>,
    /// The version that it had then.
    seen: Seen<'t>,
}

/// The slot that has an entry of this key. What the leaf holds may be changing, and an error comes
/// from that or from damage.
#[inline(always)]
pub(super) fn find_in<'p, K: TreeKey, M: Media, const LINES: usize>(
    pool: &Pool<M>,
    leaf: &'p Leaf<LINES>,
    key: K::Ref<'_>,
    wanted: Wanted,
) -> Result<Option<Slot<'p>>> {
    let media = pool.media();
    for number in window::<LINES>(wanted.home) {
        let line = &leaf.lines[number];
        let (equal, zero) = media.match_word(line, wanted.word.into_word());
        let mut equal = equal & KEY_WORDS;
        while equal != 0 {
            media.count(Counter::LeafProbes, 1);
            let slot = Slot { line, number: equal.trailing_zeros() as usize / 2 };
            // Byte strings may have the same hash; else the word is the key.
            if !K::RECORDS || is_key::<K, M>(pool, slot, key, wanted)? {
                return Ok(Some(slot));
            }
            equal &= equal - 1;
        }
        // No entry went on past a line that has room.
        if zero & KEY_WORDS != 0 {
            return Ok(None);
        }
    }
    Ok(None)
}

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// What a leaf has of a key.
    #[inline(always)]
    pub(super) fn wanted(key: K::Ref<'_>) -> Wanted {
        Wanted { word: key_word::<K>(key), home: home::<K, LINES>(key) }
    }

    /// The leaf of `key`, on its way into the cache, at the first attempt: none if others are in
    /// the way, or the inner nodes cannot tell so quickly. Neither waits nor begins again, so that
    /// the operations, into which it is inlined, are straight code; [`locate`](Self::locate) is for
    /// the rest.
    #[inline(always)]
    fn try_locate(
        &self,
        key: K::Ref<'_>,
        wanted: Wanted,
        ahead: usize,
    ) -> Option<Located<'_, LINES>> {
        let (offset, ticket) = self.inner.find_unvalidated(key)?;
        let leaf = self.fetched(offset, wanted, ahead).ok()?;
        let seen = self.locks.look(offset);
        if seen.is_locked() || !ticket.is_current() {
            self.restarted();
            return None;
        }
        Some(Located { offset, leaf, seen })
    }

    /// The same, and waits for who has the leaf locked; none if others changed the tree meanwhile.
    fn locate(&self, key: K::Ref<'_>, wanted: Wanted) -> Result<Option<Located<'_, LINES>>> {
        let (offset, ticket) = self.inner.find(&wait(self.pool.media()), key);
        let leaf = self.fetched(offset, wanted, PRESENT_IN)?;
        let seen = self.locks.read(&wait(self.pool.media()), offset);
        Ok(ticket.is_current().then_some(Located { offset, leaf, seen }))
    }

    /// The leaf at `offset`, of whose window the first lines are prefetched.
    #[inline(always)]
    pub(super) fn fetched(
        &self,
        offset: u64,
        wanted: Wanted,
        ahead: usize,
    ) -> Result<&Leaf<LINES>> {
        let leaf = self.leaf(offset)?;
        let lines = window::<LINES>(wanted.home).take(ahead);
        lines.for_each(|line| self.pool.media().prefetch(&leaf.lines[line]));
        Ok(leaf)
    }

    /// Looks for `key` as a reader does, and then locks the leaf if it is still as it was read. The
    /// exchange that locks waits for the fence of the operation before: all that can be read comes
    /// before it. None if others are in the way, or something is the matter:
    /// [`lock_leaf`](Self::lock_leaf) tells.
    #[inline(always)]
    pub(super) fn try_lock_leaf(
        &self,
        key: K::Ref<'_>,
        wanted: Wanted,
        skip: SkipIf,
    ) -> Option<Found<'_, LINES>> {
        let ahead = if skip == SkipIf::Absent { PRESENT_IN } else { ABSENT_IN };
        let located = self.try_locate(key, wanted, ahead)?;
        let found = self.lock_located(located, key, wanted, skip);
        self.restarts.at_once(self.pool.media(), found)
    }

    /// The same, as often as it takes.
    pub(super) fn lock_leaf(
        &self,
        key: K::Ref<'_>,
        wanted: Wanted,
        skip: SkipIf,
    ) -> Result<Found<'_, LINES>> {
        self.restarts.until_done(self.pool.media(), || match self.locate(key, wanted)? {
            Some(located) => self.lock_located(located, key, wanted, skip).transpose(),
            None => Ok(None),
        })
    }

    /// Looks for a key in the leaf that covers it, and locks the leaf; none if the leaf changed
    /// meanwhile.
    #[inline(always)]
    fn lock_located<'t>(
        &'t self,
        Located { offset, leaf, seen }: Located<'t, LINES>,
        key: K::Ref<'_>,
        wanted: Wanted,
        skip: SkipIf,
    ) -> Option<Result<Found<'t, LINES>>> {
        let slot = match find_in::<K, M, LINES>(&self.pool, leaf, key, wanted) {
            Ok(slot) => slot,
            Err(error) => return seen.is_current().then_some(Err(error)),
        };
        if skip.applies(slot.is_some()) {
            return seen.is_current().then_some(Ok(Found::Nothing));
        }
        let guard = seen.try_lock()?;
        let locked = LockedLeaf { offset, leaf, guard };
        Some(Ok(match slot {
            Some(slot) => Found::Present(locked, slot),
            None => Found::Absent(locked),
        }))
    }

    /// The value of `key`, if the key is there; none if others are in the way, or something is the
    /// matter: [`find`](Self::find) tells.
    #[inline(always)]
    pub(super) fn try_find(&self, key: K::Ref<'_>) -> Option<Option<u64>> {
        let wanted = Self::wanted(key);
        let located = self.try_locate(key, wanted, PRESENT_IN)?;
        let found = self.read_leaf(located, key, wanted);
        self.restarts.at_once(self.pool.media(), found)
    }

    /// The same, as often as it takes.
    #[inline(never)]
    pub(super) fn find(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let wanted = Self::wanted(key);
        self.restarts.until_done(self.pool.media(), || match self.locate(key, wanted)? {
            Some(located) => self.read_leaf(located, key, wanted).transpose(),
            None => Ok(None),
        })
    }

    /// Looks for a key in the leaf that covers it; none if the leaf changed meanwhile.
    #[inline(always)]
    fn read_leaf(
        &self,
        Located { leaf, seen, .. }: Located<'_, LINES>,
        key: K::Ref<'_>,
        wanted: Wanted,
    ) -> Option<Result<Option<u64>>> {
        let found = find_in::<K, M, LINES>(&self.pool, leaf, key, wanted);
        let found = found.map(|slot| slot.map(|slot| self.pool.media().load(slot.value())));
        seen.is_current().then_some(found)
    }

    /// Looks up to 16 keys up together: each level of misses is in flight for all of them at once.
    /// A key that others were in the way of is looked up again by itself.
    pub(super) fn find_group(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let mut children = [0; GROUP];
        let mut tickets = [self.inner.stale_ticket(); GROUP];
        let (children, tickets) = (&mut children[..keys.len()], &mut tickets[..keys.len()]);
        self.inner.find_many_unvalidated(keys, children, tickets);
        let mut located = [const { None }; GROUP];
        for ((key, child), located) in keys.iter().zip(&*children).zip(&mut located) {
            self.locks.prefetch(*child);
            let wanted = Self::wanted(*key);
            *located = self.fetched(*child, wanted, PRESENT_IN).ok().map(|leaf| (leaf, wanted));
        }
        for (i, key) in keys.iter().enumerate() {
            let seen = self.locks.look(children[i]);
            let found = located[i].filter(|_| !seen.is_locked() && tickets[i].is_current());
            let found = found.and_then(|(leaf, wanted)| {
                self.read_leaf(Located { offset: children[i], leaf, seen }, *key, wanted)
            });
            values[i] = match found {
                Some(Ok(found)) => found,
                Some(Err(_)) | None => self.find(*key)?,
            };
        }
        Ok(())
    }
}
