//! One node: its version and its lock, and searching it.
//!
//! A thread marks a node as changing only when it holds every lock that its change needs. So no
//! thread that a reader waits for waits itself, and a thread may wait for a stable version while it
//! holds locks.

use everleaf_index::IndexError;
use everleaf_pmem::Media;
use everleaf_pool::PoolError;

use super::layout::{FANOUT, Meta, Node, Permutation, Version, WIDTH};

/// How often a lock is looked at before the operation begins again, without its locks.
const PATIENCE: u32 = 1 << 12;

/// Why a step of an operation ended early. Nothing has been changed then.
#[derive(Debug)]
pub(super) enum Halt {
    /// Another thread was at work: the operation begins again.
    Retry,
    /// It cannot be done.
    Failed(IndexError),
}

impl Halt {
    /// Of something that may be left undone where there is no room for a log.
    pub fn left_undone(self) -> Self {
        match self {
            Self::Failed(IndexError::Pool(error)) if error.is_full() => Self::Retry,
            other => other,
        }
    }
}

/// The outcome of a step.
pub(super) type Step<T> = Result<T, Halt>;

impl From<IndexError> for Halt {
    fn from(error: IndexError) -> Self {
        Self::Failed(error)
    }
}

impl From<PoolError> for Halt {
    fn from(error: PoolError) -> Self {
        Self::Failed(error.into())
    }
}

/// A node and its place.
#[derive(Clone, Copy)]
pub(super) struct At<'t> {
    pub node: &'t Node,
    pub offset: u64,
}

impl<'t> At<'t> {
    /// Asks for its lines.
    #[inline(always)]
    pub fn prefetch<M: Media>(self, media: &M) {
        media.prefetch(&self.node.version);
        for line in self.node.body.chunks(8) {
            media.prefetch(&line[0]);
        }
    }

    /// Whether nothing was changed since it was seen.
    #[inline(always)]
    pub fn is_current<M: Media>(self, media: &M, seen: Version) -> bool {
        !media.load(&self.node.version).differs(seen)
    }

    /// An error that was met counts only if the node is as it was seen.
    #[cold]
    pub fn judge<M: Media>(self, media: &M, seen: Version, error: IndexError) -> Halt {
        if self.is_current(media, seen) { Halt::Failed(error) } else { Halt::Retry }
    }

    /// Locks the node if it is as it was seen; waits while another thread has it locked.
    #[inline]
    pub fn lock<M: Media>(self, media: &'t M, seen: Version) -> Step<Locked<'t, M>> {
        for _ in 0..PATIENCE {
            let version = media.load(&self.node.version);
            if version.differs(seen) {
                return Err(Halt::Retry);
            }
            if version.is_locked() {
                media.relax();
            } else if media.compare_exchange(&self.node.version, version, version.locked()).is_ok()
            {
                return Ok(Locked { media, at: self });
            }
        }
        Err(Halt::Retry)
    }

    /// The same without waiting.
    pub fn try_lock<M: Media>(self, media: &'t M) -> Option<Locked<'t, M>> {
        let version = media.load(&self.node.version);
        let free = !version.is_locked() && !version.is_changing() && !version.is_deleted();
        let locks = || media.compare_exchange(&self.node.version, version, version.locked());
        // Not before it is known: a `Locked` unlocks when it is dropped.
        (free && locks().is_ok()).then(|| Locked { media, at: self })
    }

    /// Which child of an inner node leads to a slice.
    #[inline(always)]
    pub fn child_for<M: Media>(self, media: &M, keys: usize, slice: u64) -> usize {
        (0..WIDTH)
            .map(|i| usize::from((i < keys) & (media.load(self.node.key(i)) <= slice)))
            .sum::<usize>()
            .min(FANOUT - 1)
    }

    /// The live slot of a slice with this length code; not in the order of the keys, so that there
    /// is nothing to be predicted.
    #[inline(always)]
    pub fn find<M: Media, const ONE_SLICE: bool>(
        self,
        media: &M,
        perm: Permutation,
        slice: u64,
        code: u8,
    ) -> Option<usize> {
        let mut equal = (0..WIDTH).fold(0u32, |mask, slot| {
            mask | u32::from(media.load(self.node.key(slot)) == slice) << slot
        });
        let meta = if ONE_SLICE { Meta::border() } else { media.load(&self.node.meta) };
        while equal != 0 {
            let slot = equal.trailing_zeros() as usize;
            if perm.has(slot) && (ONE_SLICE || meta.code(slot) == code) {
                return Some(slot);
            }
            equal &= equal - 1;
        }
        None
    }

    /// How many live entries are less than a slice with this length code, and the slot of the entry
    /// itself.
    #[inline(always)]
    pub fn rank<M: Media, const ONE_SLICE: bool>(
        self,
        media: &M,
        perm: Permutation,
        slice: u64,
        code: u8,
    ) -> (usize, Option<usize>) {
        let meta = if ONE_SLICE { Meta::border() } else { media.load(&self.node.meta) };
        for position in 0..perm.count() {
            let slot = perm.slot(position).min(WIDTH - 1);
            let key = media.load(self.node.key(slot));
            if key < slice {
                continue;
            }
            let at = if ONE_SLICE { code } else { meta.code(slot) };
            if key > slice || at >= code {
                return (position, (key == slice && at == code).then_some(slot));
            }
        }
        (perm.count(), None)
    }
}

/// A locked node; dropped, it is unlocked, and if it was marked as changing or deleted its version
/// is another one.
#[must_use = "the node is unlocked when this is dropped"]
pub(super) struct Locked<'t, M: Media> {
    media: &'t M,
    pub at: At<'t>,
}

impl<'t, M: Media> Locked<'t, M> {
    /// The node.
    #[inline(always)]
    pub fn node(&self) -> &'t Node {
        self.at.node
    }

    fn set(&self, change: impl FnOnce(Version) -> Version) {
        let version = &self.node().version;
        self.media.store(version, change(self.media.load(version)));
    }

    /// Readers wait from here on, and begin again.
    pub fn mark_changing(&self) {
        self.set(Version::changing);
    }

    /// As [`mark_changing`](Self::mark_changing), and no thread finds the node any more.
    pub fn mark_deleted(&self) {
        self.set(Version::deleted);
    }

    /// An entry was removed.
    pub fn mark_recycled(&self) {
        self.set(Version::recycled);
    }

    /// Before a slot is taken: readers begin again if it may have been an entry that they see.
    #[inline(always)]
    pub fn mark_if_recycled(&self) {
        if self.media.load(&self.node().version).is_recycled() {
            self.mark_changing();
        }
    }

    /// The node becomes one of the other kind.
    pub fn change_kind(&self, border: bool) {
        self.set(|version| version.changing().of_kind(border));
    }
}

impl<M: Media> Drop for Locked<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        self.set(Version::released);
    }
}
