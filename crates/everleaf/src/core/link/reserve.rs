//! Writing in a full pool what makes it no fuller: a removal, or a record that fits into the block
//! of the one which it replaces; by itself, or several in a batch.
//!
//! A pool holds some chunks back for that, its reserve. What is refused for want of room is done
//! once more by a thread that draws on them. Then each record that came to lie there moves into the
//! place of the one which it has replaced, by a link of its own that changes no value; so the pool
//! is as full as it was before, and the reserve is whole. A crash in between leaves the record
//! where it is: every state is that before the write or that after it.
//!
//! One thread at a time draws. It has the locks of its keys by then, and no worker, no guard of an
//! epoch and no lock that scans wait for: who has those waits for no other thread here.

use everleaf_pmem::{Media, PPtr};
use everleaf_pool::{Place, Record};

use super::{Change, OpenStore, with_parts};
use crate::{Error, StoreKey};

/// Where a new record goes.
pub(super) enum Room<'p, M: Media> {
    /// Where the pool has room.
    Pool,
    /// There too, or into the reserve.
    Reserve,
    /// Into the block of a record that was replaced.
    Place(&'p Place<'p, M>),
}

impl<M: Media> Clone for Room<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Media> Copy for Room<'_, M> {}

impl<M: Media, K: StoreKey> OpenStore<M, K> {
    /// Links a new record of `parts`, or nothing, in place of `old`. The caller has the key's lock.
    pub(super) fn exchange(
        &self,
        key: K::Ref<'_>,
        old: PPtr<Record>,
        parts: Option<&[&[u8]]>,
    ) -> Result<(), Error> {
        let refused = match self.exchange_in(key, old, parts, Room::Pool) {
            Err(error) if error.is_full() && !self.is_interrupted() => error,
            done => return done,
        };
        if !self.takes_no_more(old, parts)? {
            return Err(refused);
        }
        let reserve = self.pool.draw_on_reserve();
        let place = if parts.is_some() { reserve.keep(old)? } else { None };
        self.exchange_in(key, old, parts, Room::Reserve)?;
        self.end_drawing_epoch()?;
        match (place, parts) {
            (Some(place), Some(parts)) => self.leave_reserve(key, parts, &place),
            _ => Ok(()),
        }
    }

    /// Does all changes of a batch or none. The caller has the locks of the keys.
    pub(super) fn exchange_many(&self, changes: &[Change<'_, K>]) -> Result<(), Error> {
        let refused = match self.exchange_all_at_once(changes) {
            Err(error) if error.is_full() && !self.is_interrupted() => error,
            done => return done,
        };
        for Change { key, old, new } in changes {
            let takes_no_more = match new {
                None => true,
                Some(new) => {
                    with_parts::<K, _>(*key, *new, |parts| self.takes_no_more(*old, Some(parts)))?
                }
            };
            if !takes_no_more {
                return Err(refused);
            }
        }
        let reserve = self.pool.draw_on_reserve();
        let mut places = Vec::new();
        for Change { key, old, new } in changes {
            if let Some(new) = new
                && let Some(place) = reserve.keep(*old)?
            {
                places.push((*key, *new, place));
            }
        }
        self.exchange_all_at_once(changes)?;
        self.end_drawing_epoch()?;
        for (key, new, place) in &places {
            with_parts::<K, _>(*key, *new, |parts| self.leave_reserve(*key, parts, place))?;
        }
        Ok(())
    }

    fn takes_no_more(&self, old: PPtr<Record>, parts: Option<&[&[u8]]>) -> Result<bool, Error> {
        let Some(parts) = parts else { return Ok(true) };
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        Ok(self.pool.takes_no_more(old, bytes)?)
    }

    /// Moves the record of a key, which has these parts, from the reserve into the place of the one
    /// that it has replaced. Nothing if it is not there, or if the place is still read.
    fn leave_reserve(
        &self,
        key: K::Ref<'_>,
        parts: &[&[u8]],
        place: &Place<'_, M>,
    ) -> Result<(), Error> {
        let Some(offset) = self.index.get(key)? else { return Ok(()) };
        let record = PPtr::at(offset);
        if !self.pool.is_drawn(record)? || !place.is_left()? {
            return Ok(());
        }
        match self.exchange_in(key, record, Some(parts), Room::Place(place)) {
            // The value is there all the same. The place is anybody's when nothing of an epoch is
            // in it any more.
            Err(error) if !error.is_full() => Err(error),
            _ => self.end_drawing_epoch(),
        }
    }
}
