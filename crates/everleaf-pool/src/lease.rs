//! Workers for callers that are no threads of their own: whoever needs one takes a free one for the length of an operation.
//!
//! Seats are tried in their order, so few threads use few workers, and a worker's chunks stay warm. No thread waits while a seat is
//! free, and none keeps a seat beyond an operation, so any number of threads can share the pool's 64 workers.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use everleaf_pmem::Media;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::{Pool, PoolError, Worker};

/// Some workers of one pool, made when they are first needed.
pub struct Workers<M: Media> {
    pool: Arc<Pool<M>>,
    seats: Box<[Mutex<Option<Worker<M>>>]>,
}

/// A worker, until this is dropped.
///
/// The next holder may be another thread, and its fence orders nothing of this one: **end with a fence**. Every operation that is durable on
/// return does.
pub struct Lease<'w, M: Media>(MappedMutexGuard<'w, Worker<M>>);

impl<M: Media> Workers<M> {
    /// At most `seats` workers of `pool`.
    pub fn new(pool: Arc<Pool<M>>, seats: usize) -> Self {
        Self { pool, seats: (0..seats).map(|_| Mutex::new(None)).collect() }
    }

    /// A worker that nobody else uses. Waits while all are in use.
    ///
    /// # Errors
    /// [`PoolError::WorkersExhausted`] if others hold all of the pool's workers for good, or panics left all of these in the middle of a
    /// link.
    pub fn lease(&self) -> Result<Lease<'_, M>, PoolError> {
        loop {
            let mut refused = None;
            let mut some = false;
            for seat in &self.seats {
                // Looked at before it is written to: a seat in use stays in its user's cache.
                let guard = if seat.is_locked() { None } else { seat.try_lock() };
                let Some(mut guard) = guard else {
                    some = true;
                    continue;
                };
                if guard.is_none() {
                    match self.pool.worker() {
                        Ok(worker) => *guard = Some(worker),
                        Err(error) => {
                            refused = Some(error);
                            continue;
                        }
                    }
                }
                // A worker that a panic left in the middle of a link keeps its intent for recovery.
                match MutexGuard::try_map(guard, |worker| worker.as_mut().filter(|worker| !worker.is_linking())) {
                    Ok(worker) => return Ok(Lease(worker)),
                    Err(_) => continue,
                }
            }
            if !some {
                return Err(refused.unwrap_or(PoolError::WorkersExhausted { slots: self.seats.len() }));
            }
            self.pool.media().relax();
        }
    }
}

impl<M: Media> Deref for Lease<'_, M> {
    type Target = Worker<M>;
    fn deref(&self) -> &Worker<M> {
        &self.0
    }
}

impl<M: Media> DerefMut for Lease<'_, M> {
    fn deref_mut(&mut self) -> &mut Worker<M> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Hardware, Region};

    use super::*;
    use crate::{Format, KeyType};

    #[test]
    fn workers_are_shared_by_more_threads_than_there_are() {
        let media = Hardware::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap();
        let format = Format { engine: "none".into(), key_type: KeyType::U64, parameters: [0; 8] };
        let pool = Pool::create(media, &format).unwrap();
        let workers = Workers::new(Arc::clone(&pool), 2);
        let (first, second) = (workers.lease().unwrap(), workers.lease().unwrap());
        assert_ne!(first.slot(), second.slot());
        drop((first, second));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| assert!(workers.lease().unwrap().slot() < 2)));
            }
        });
        let others: Vec<_> = (0..62).map(|_| pool.worker().unwrap()).collect();
        let mut late = Workers::new(Arc::clone(&pool), 2);
        assert!(matches!(late.lease(), Err(PoolError::WorkersExhausted { .. })));
        drop(others);
        late = Workers::new(pool, 1);
        assert!(late.lease().is_ok());
    }
}
