//! The state of one moment, read while others write.
//!
//! No engine keeps versions. So a writer that is about to change a key, while there is a snapshot,
//! first notes in DRAM what the key was: its *image*. A snapshot reads the index and then its
//! images, which prevail.
//!
//! S1: an image is there before the index changes, and both happen under the lock of the key. So
//! who reads the index first and the images afterwards sees either the old value in the index, or
//! its image.
//! S2: a snapshot begins when no write is under way; so none is cut in two, and no batch.
//! S3: values expire for a snapshot by the time at which it began.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use everleaf_pmem::planted;
use parking_lot::{Mutex, RwLock};

use super::entry_batches::Fetched;
use super::value::{TimedValue, is_expired};
use crate::{Error, Key, OwnedKey, Result};

/// What an image costs beside its bytes.
const IMAGE_BYTES: u64 = 96;

/// A value that a key had: none if it was absent.
#[derive(Clone)]
struct Image(Option<(Box<[u8]>, Option<u64>)>);

#[derive(Default)]
struct Kept {
    images: BTreeMap<OwnedKey, Image>,
    bytes: u64,
    /// Keys up to this one will not be read again.
    passed: Option<OwnedKey>,
}

impl Image {
    fn bytes(&self, key: &OwnedKey) -> u64 {
        let key_bytes = if let OwnedKey::Bytes(key) = key { key.len() as u64 } else { 0 };
        IMAGE_BYTES + key_bytes + self.0.as_ref().map_or(0, |(value, _)| value.len() as u64)
    }
}

/// What keys were when a snapshot began, of those that changed since.
pub struct Images {
    /// The time when it began.
    pub(crate) now_ms: u64,
    limit_bytes: u64,
    kept: Mutex<Kept>,
    lost: AtomicBool,
}

impl Images {
    pub(crate) fn new(now_ms: u64, limit_bytes: u64) -> Self {
        Self { now_ms, limit_bytes, kept: Mutex::default(), lost: AtomicBool::new(false) }
    }

    fn keep(&self, key: Key<'_>, found: Option<TimedValue<'_>>) {
        if self.lost.load(Ordering::Relaxed) {
            return;
        }
        let mut kept = self.kept.lock();
        let key = key.to_owned();
        if kept.images.contains_key(&key) && !planted(330)
            || kept.passed.as_ref().is_some_and(|passed| key <= *passed)
        {
            return;
        }
        let image = Image(found.map(|found| (found.value.into(), found.expires_ms)));
        kept.bytes += image.bytes(&key);
        kept.images.insert(key, image);
        if kept.bytes > self.limit_bytes {
            self.lost.store(true, Ordering::Release);
            (kept.images, kept.bytes) = (BTreeMap::new(), 0);
        }
    }

    /// Bytes of DRAM that it has gathered.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept.lock().bytes
    }

    /// Forgets the images of keys up to this one, and keeps none of them any more: the reader
    /// has passed it and does not come back.
    pub(crate) fn pass(&self, key: &OwnedKey) {
        let mut guard = self.kept.lock();
        let kept = &mut *guard;
        // One by one: the reader comes by every few hundred entries, and the images ahead may be
        // millions.
        while let Some(first) = kept.images.first_entry().filter(|first| first.key() <= key) {
            kept.bytes -= first.get().bytes(first.key());
            first.remove();
        }
        kept.passed = Some(key.clone());
    }

    /// Whether keys up to this one were passed, and no further.
    #[cfg(feature = "control")]
    pub(crate) fn has_passed(&self, key: Key<'_>) -> bool {
        self.kept.lock().passed.as_ref().is_some_and(|passed| passed.as_ref() == key)
    }

    fn check(&self) -> Result<()> {
        if self.lost.load(Ordering::Acquire) {
            Err(Error::SnapshotLost { limit_bytes: self.limit_bytes })
        } else {
            Ok(())
        }
    }

    /// Shows what a key was. `found` was read from the index before.
    pub(crate) fn prevail(
        &self,
        key: Key<'_>,
        found: Option<TimedValue<'_>>,
        show: &mut dyn FnMut(TimedValue<'_>),
    ) -> Result<bool> {
        let image = self.image(key)?;
        let found = match &image {
            Some(image) => image
                .0
                .as_ref()
                .map(|(value, expires_ms)| TimedValue { value, expires_ms: *expires_ms }),
            None => found,
        };
        let found = found.filter(|found| !is_expired(found.expires_ms, self.now_ms));
        found.into_iter().for_each(show);
        Ok(found.is_some())
    }

    /// A copy of the image of a key, so that writers, who all keep their images here, do not wait
    /// for whom it is shown to.
    fn image(&self, key: Key<'_>) -> Result<Option<Image>> {
        let kept = self.kept.lock();
        self.check()?;
        Ok(kept.images.get(&key.to_owned()).cloned())
    }

    /// Puts images over what was just read from the index, which is all that there is within
    /// `bounds`, in ascending order.
    pub(crate) fn overlay(
        &self,
        fetched: &mut Vec<Fetched>,
        bounds: (Bound<OwnedKey>, Bound<OwnedKey>),
    ) -> Result<()> {
        let kept = self.kept.lock();
        self.check()?;
        if is_possible(&bounds) {
            let mut images = kept.images.range(bounds).peekable();
            if images.peek().is_some() {
                let mut merged: BTreeMap<OwnedKey, Fetched> =
                    fetched.drain(..).map(|entry| (entry.key.clone(), entry)).collect();
                for (key, image) in images {
                    match &image.0 {
                        Some((value, expires_ms)) => {
                            let entry = Fetched {
                                key: key.clone(),
                                value: value.to_vec(),
                                expires_ms: *expires_ms,
                            };
                            merged.insert(key.clone(), entry);
                        }
                        None if planted(329) => {}
                        None => drop(merged.remove(key)),
                    }
                }
                fetched.extend(merged.into_values());
            }
        }
        fetched.retain(|entry| !is_expired(entry.expires_ms, self.now_ms));
        Ok(())
    }
}

/// Whether a range of these bounds is one: `BTreeMap` panics at others.
fn is_possible((lower, upper): &(Bound<OwnedKey>, Bound<OwnedKey>)) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(a), Bound::Excluded(b)) => a < b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a <= b
        }
    }
}

/// The snapshots of an open store.
#[derive(Default)]
pub(crate) struct Snapshots {
    count: AtomicUsize,
    list: RwLock<Vec<Arc<Images>>>,
}

impl Snapshots {
    /// No thread may be writing (S2).
    pub(crate) fn begin(&self, now_ms: u64, limit_bytes: u64) -> Arc<Images> {
        let images = Arc::new(Images::new(now_ms, limit_bytes));
        let mut list = self.list.write();
        list.push(Arc::clone(&images));
        self.count.store(list.len(), Ordering::Release);
        images
    }

    pub(crate) fn end(&self, images: &Arc<Images>) {
        images.lost.store(true, Ordering::Release); // Views of trees may outlive the snapshot.
        let mut list = self.list.write();
        list.retain(|other| !Arc::ptr_eq(other, images));
        self.count.store(list.len(), Ordering::Release);
    }

    /// Whether writers must keep images.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Notes what a key is, before it changes.
    pub(crate) fn keep(&self, key: Key<'_>, found: Option<TimedValue<'_>>) {
        self.list.read().iter().for_each(|images| images.keep(key, found));
    }
}
