//! Waiting for what is not durable yet, on a media whose fences only order.
//!
//! A write waits when it holds no lock, lease or guard any more: else it would keep those who could
//! share its sync from coming as far. It notes, before it gives the lock of its key back, the point
//! that holds it; a read of the key that finds the point not reached copies what it has found,
//! gives the lock back, waits, and only then shows it. What reads many keys waits for everything.
//! So nobody is told what a power failure takes back.
//!
//! On other media there are no notes, and nothing is waited for.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use everleaf_pmem::{DurablePoint, Media, Process, zeroed_cells};
use everleaf_pool::{Pool, PoolError};
use rustc_hash::FxHasher;

use super::Attached;
use crate::core::deferred_waits::{self, Waiting};
use crate::core::link::OpenStore;
use crate::core::value_record::KeyBytes;
use crate::{DurabilityMode, Error, StoreKey};

/// Keys share one of so many notes: few reads wait for another key's write.
const STRIPES: usize = 1 << 16;

/// The durable point of the last write, by hash of the key.
pub(super) struct Stripes(Box<[AtomicU64]>);

impl Stripes {
    /// As many as this media needs.
    pub(super) fn of_media(media: &impl Media) -> Self {
        Self(if media.is_durable_later() { zeroed_cells(STRIPES) } else { Box::default() })
    }

    /// Whether there are any: then the media's fences only order.
    #[inline(always)]
    fn are_there(&self) -> bool {
        !self.0.is_empty()
    }

    fn of_key<K: StoreKey>(&self, key: K::Ref<'_>) -> &AtomicU64 {
        let mut hasher = FxHasher::default();
        KeyBytes::of(K::widen(key)).as_slice().hash(&mut hasher);
        &self.0[(hasher.finish() >> 32) as usize % STRIPES]
    }
}

/// What is to be waited for.
pub(super) struct Pending<M: Media> {
    pool: Arc<Pool<M>>,
    point: DurablePoint,
}

impl<M: Media> Pending<M> {
    /// What is put off is not waited for, but room is, in a log that has become too long and in
    /// memory; and a log that has failed is an error.
    fn wait(self) -> Result<(), Error> {
        let is_put_off = self.point != DurablePoint::REACHED
            && deferred_waits::puts_off(Arc::as_ptr(&self.pool).addr(), self.point.number());
        wait_for(&self.pool, if is_put_off { DurablePoint::REACHED } else { self.point })
    }
}

fn wait_for<M: Media>(pool: &Pool<M>, point: DurablePoint) -> Result<(), Error> {
    Ok(pool.media().wait_durable(point).map_err(PoolError::from)?)
}

/// A pool that may be closed by now, or be a forked process's copy.
struct Points<M: Media> {
    pool: Weak<Pool<M>>,
    opened_by: Process,
}

impl<M: Media> Waiting for Points<M> {
    fn pool(&self) -> usize {
        self.pool.as_ptr().addr()
    }

    fn is_reached(&self, point: u64) -> bool {
        self.opened_by.is_current()
            && self
                .pool
                .upgrade()
                .is_some_and(|pool| pool.media().is_durable(DurablePoint::new(point)))
    }

    fn wait(&self, point: u64) -> Result<(), Error> {
        if !self.opened_by.is_current() {
            return Err(Error::Forked);
        }
        wait_for(&*self.pool.upgrade().ok_or(Error::Closed)?, DurablePoint::new(point))
    }
}

/// Notes, when it is dropped, that keys were written: before their locks are given back.
pub(super) struct Note<'a, M: Media> {
    media: &'a M,
    stripes: Vec<&'a AtomicU64>,
}

impl<M: Media> Drop for Note<'_, M> {
    fn drop(&mut self) {
        if !self.stripes.is_empty() {
            let point = self.media.durable_point().number();
            self.stripes.iter().for_each(|stripe| _ = stripe.fetch_max(point, Ordering::AcqRel));
        }
    }
}

impl<M: Media, K: StoreKey> Attached<M, K> {
    /// To be held while keys are written, and dropped before their locks.
    pub(super) fn note<'a>(
        &'a self,
        live: &'a OpenStore<M, K>,
        keys: &[K::Ref<'_>],
    ) -> Note<'a, M> {
        let later = self.stripes.are_there();
        let noted = keys.iter().filter(|_| later).map(|key| self.stripes.of_key::<K>(*key));
        Note { media: live.pool.media(), stripes: noted.collect() }
    }

    /// Everything that was done so far; none where it is durable.
    #[inline(always)]
    pub(super) fn pending(&self, live: &OpenStore<M, K>) -> Option<Pending<M>> {
        if !self.stripes.are_there() {
            return None;
        }
        let point = match self.terms.mode {
            DurabilityMode::Immediate => live.pool.media().durable_point(),
            _ => DurablePoint::REACHED,
        };
        Some(Pending { pool: Arc::clone(&live.pool), point })
    }

    /// The last write of a key; none if it is durable. The caller has the key's lock, or has seen
    /// behind what it read that nothing under the lock is being written.
    #[inline(always)]
    pub(super) fn pending_of(&self, live: &OpenStore<M, K>, key: K::Ref<'_>) -> Option<Pending<M>> {
        if !self.stripes.are_there() || self.terms.mode != DurabilityMode::Immediate {
            return None;
        }
        let point = DurablePoint::new(self.stripes.of_key::<K>(key).load(Ordering::Acquire));
        let reached = live.pool.media().is_durable(point);
        (!reached).then(|| Pending { pool: Arc::clone(&live.pool), point })
    }

    /// As [`read`](Self::read) of many keys: what it has seen is durable when it returns.
    pub(super) fn read_durable<R>(
        &self,
        operation: impl FnOnce(&OpenStore<M, K>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (result, pending) = self.read(|live| {
            let result = operation(live)?;
            Ok((result, self.pending_to_reader(live)))
        })?;
        wait(pending)?;
        Ok(result)
    }

    /// What waits for points of the pool; none where nobody waits, or the store is closed.
    pub(super) fn points(&self) -> Option<Arc<dyn Waiting>> {
        if !self.stripes.are_there() {
            return None;
        }
        let points = |live: &OpenStore<M, K>| {
            Ok(Points { pool: Arc::downgrade(&live.pool), opened_by: self.opened_by })
        };
        self.read(points).ok().map(|points| Arc::new(points) as _)
    }

    /// Everything that was done so far, where readers wait.
    #[inline(always)]
    pub(super) fn pending_to_reader(&self, live: &OpenStore<M, K>) -> Option<Pending<M>> {
        let waits = self.stripes.are_there() && self.terms.mode == DurabilityMode::Immediate;
        if waits { self.pending(live) } else { None }
    }
}

/// Waits, if there is anything to wait for. The caller holds nothing.
#[inline(always)]
pub(super) fn wait<M: Media>(pending: Option<Pending<M>>) -> Result<(), Error> {
    pending.map_or(Ok(()), Pending::wait)
}
