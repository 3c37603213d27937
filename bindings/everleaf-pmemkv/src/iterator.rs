//! Iterators. They hold no lock: what they show is a copy of the entry that they have come to, and
//! what they write is written into the value that is there at the commit.

use std::ffi::{c_char, c_int};
use std::ops::{Bound, ControlFlow};

use everleaf::{OwnedKey, Scan, Store};
use everleaf_c::boundary::{bytes, give, give_handle, handle, handle_mut, taken};

use crate::Db;
use crate::status::number::{NOT_FOUND, OK};
use crate::status::{Fault, Result, found, guard};

/// A place in the order of the keys.
pub struct Iterator {
    /// None of a blackhole.
    store: Option<Store>,
    /// The entry that was come to; none where there was none.
    entry: Option<(OwnedKey, Vec<u8>)>,
    /// What is to be written where in its value. The boxes stay where they are.
    writes: Vec<(usize, Box<[u8]>)>,
}

/// The same, and it may write.
#[repr(C)]
pub struct WriteIterator {
    iter: *mut Iterator,
}

fn unordered() -> Fault {
    Fault::not_supported("ordered iterators are")
}

impl Iterator {
    fn of(db: &Db) -> Result<Self> {
        if !db.engine.iterators {
            return Err(Fault::not_supported("iterators are"));
        }
        Ok(Self { store: db.store.clone(), entry: None, writes: Vec::new() })
    }

    /// Comes to the first entry of a scan, and forgets what was to be written.
    fn move_to(&mut self, scan: Scan) -> Result<c_int> {
        self.writes.clear();
        let store = self.store.as_ref().ok_or_else(unordered)?;
        let mut entry = None;
        store.scan_with(scan, |key, value| {
            entry = Some((key.to_owned(), value.to_vec()));
            ControlFlow::Break(())
        })?;
        self.entry = entry;
        Ok(found(self.entry.is_some()))
    }

    fn seek(&mut self, key: &[u8]) -> Result<c_int> {
        self.writes.clear();
        let Some(store) = &self.store else { return Ok(OK) };
        self.entry = store.get(key)?.map(|value| (OwnedKey::from(key), value));
        Ok(found(self.entry.is_some()))
    }

    /// What lies behind the entry, or before it.
    fn onward(&self, forward: bool) -> Result<Option<Scan>> {
        if self.store.is_none() {
            return Err(unordered());
        }
        let Some((key, _)) = &self.entry else { return Ok(None) };
        Ok(Some(side(key.clone(), forward, false)))
    }

    fn step(&mut self, forward: bool) -> Result<c_int> {
        match self.onward(forward)? {
            Some(scan) => self.move_to(scan),
            None => Ok(NOT_FOUND),
        }
    }

    fn is_next(&self) -> Result<c_int> {
        let (Some(scan), Some(store)) = (self.onward(true)?, &self.store) else {
            return Ok(NOT_FOUND);
        };
        Ok(found(store.keys_in(scan).next().transpose()?.is_some()))
    }

    /// Bytes of the value to be changed, until the next call that moves or commits.
    fn write(&mut self, pos: usize, n: usize) -> Result<Option<&mut [u8]>> {
        if self.store.is_none() {
            return Err(Fault::not_supported("writing by iterators is"));
        }
        let Some((_, value)) = &self.entry else { return Ok(None) };
        let (start, part) = part(value, pos, n);
        self.writes.push((start, part.into()));
        Ok(self.writes.last_mut().map(|(_, bytes)| &mut **bytes))
    }

    fn commit(&mut self) -> Result<c_int> {
        let Some(store) = &self.store else {
            return Err(Fault::not_supported("writing by iterators is"));
        };
        let writes = std::mem::take(&mut self.writes);
        let Some((key, value)) = &mut self.entry else { return Ok(NOT_FOUND) };
        if writes.is_empty() {
            return Ok(OK);
        }
        match store.update(&*key, |current| Some(written(current?, &writes)))? {
            // In place: what `read_range` has shown stays where it is.
            Some(new) if new.len() == value.len() => value.copy_from_slice(&new),
            Some(new) => *value = new,
            None => return Ok(NOT_FOUND), // Another thread has removed it.
        }
        Ok(OK)
    }
}

/// A value with writes in it, as far as it reaches.
fn written(value: &[u8], writes: &[(usize, Box<[u8]>)]) -> Vec<u8> {
    let mut value = value.to_vec();
    for (start, bytes) in writes {
        for (place, byte) in value.iter_mut().skip(*start).zip(bytes) {
            *place = *byte;
        }
    }
    value
}

/// Up to `n` bytes of a value from `pos` on, and where they begin.
fn part(value: &[u8], pos: usize, n: usize) -> (usize, &[u8]) {
    let start = pos.min(value.len());
    let end = start.saturating_add(n).min(value.len());
    (start, &value[start..end])
}

/// The entries on one side of a key, the nearest first.
fn side(key: OwnedKey, forward: bool, with_key: bool) -> Scan {
    let bound = if with_key { Bound::Included(key) } else { Bound::Excluded(key) };
    let mut scan = Scan::all();
    if forward {
        scan.from = bound;
        scan
    } else {
        scan.to = bound;
        scan.backward()
    }
}

/// Makes an iterator that reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_iterator_new(db: *const Db, it: *mut *mut Iterator) -> c_int {
    guard("pmemkv_iterator_new", || {
        // SAFETY: the caller's contract.
        unsafe { give_handle(it, Iterator::of(handle(db)?)?) }?;
        Ok(OK)
    })
}

/// Makes an iterator that writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_write_iterator_new(
    db: *const Db,
    it: *mut *mut WriteIterator,
) -> c_int {
    guard("pmemkv_write_iterator_new", || {
        let mut iter = std::ptr::null_mut();
        // SAFETY: the caller's contract.
        unsafe {
            give_handle(&mut iter, Iterator::of(handle(db)?)?)?;
            give_handle(it, WriteIterator { iter })?;
        }
        Ok(OK)
    })
}

/// Frees an iterator. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_iterator_delete(it: *mut Iterator) {
    guard("pmemkv_iterator_delete", || {
        // SAFETY: the caller's contract.
        drop(unsafe { taken(it) });
        Ok(OK)
    });
}

/// Frees an iterator, and forgets what was not committed. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_write_iterator_delete(it: *mut WriteIterator) {
    guard("pmemkv_write_iterator_delete", || {
        // SAFETY: the caller's contract.
        unsafe {
            if let Some(it) = taken(it) {
                drop(taken(it.iter));
            }
        }
        Ok(OK)
    });
}

/// Comes to a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_iterator_seek(
    it: *mut Iterator,
    k: *const c_char,
    kb: usize,
) -> c_int {
    // SAFETY: the caller's contract.
    guard("pmemkv_iterator_seek", || unsafe { handle_mut(it)?.seek(bytes(k.cast(), kb)?) })
}

/// A function that comes to the entry next to a key.
macro_rules! seek {
    ($name:ident, $what:literal, $forward:literal, $with_key:literal) => {
        #[doc = concat!("Comes to ", $what, ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(it: *mut Iterator, k: *const c_char, kb: usize) -> c_int {
            guard(stringify!($name), || {
                // SAFETY: the caller's contract.
                let (it, key) = unsafe { (handle_mut(it)?, bytes(k.cast(), kb)?) };
                it.move_to(side(OwnedKey::from(key), $forward, $with_key))
            })
        }
    };
}
seek!(pmemkv_iterator_seek_lower, "the greatest key before a key", false, false);
seek!(pmemkv_iterator_seek_lower_eq, "a key, or the greatest one before it", false, true);
seek!(pmemkv_iterator_seek_higher, "the least key behind a key", true, false);
seek!(pmemkv_iterator_seek_higher_eq, "a key, or the least one behind it", true, true);

/// A function that moves without a key, or tells something.
macro_rules! by_itself {
    ($name:ident, $what:literal, $it:ident => $do:expr) => {
        #[doc = $what]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(it: *mut Iterator) -> c_int {
            guard(stringify!($name), || {
                // SAFETY: the caller's contract.
                let $it = unsafe { handle_mut(it) }?;
                $do
            })
        }
    };
}
by_itself!(pmemkv_iterator_seek_to_first, "Comes to the least key.", it => it.move_to(Scan::all()));
by_itself!(
    pmemkv_iterator_seek_to_last,
    "Comes to the greatest key.",
    it => it.move_to(Scan::all().backward())
);
by_itself!(pmemkv_iterator_is_next, "Whether there is a further entry.", it => it.is_next());
by_itself!(pmemkv_iterator_next, "Comes to the next entry.", it => it.step(true));
by_itself!(pmemkv_iterator_prev, "Comes to the entry before.", it => it.step(false));

/// Shows the key, until the iterator moves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_iterator_key(
    it: *const Iterator,
    k: *mut *const c_char,
    kb: *mut usize,
) -> c_int {
    guard("pmemkv_iterator_key", || {
        // SAFETY: the caller's contract.
        let Some((key, _)) = &unsafe { handle(it) }?.entry else { return Ok(NOT_FOUND) };
        let key = key.as_bytes().unwrap_or_default();
        // SAFETY: the caller's contract.
        unsafe {
            give(k, key.as_ptr().cast())?;
            give(kb, key.len())?;
        }
        Ok(OK)
    })
}

/// Shows a part of the value, until the iterator moves or commits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_iterator_read_range(
    it: *const Iterator,
    pos: usize,
    n: usize,
    data: *mut *const c_char,
    rb: *mut usize,
) -> c_int {
    guard("pmemkv_iterator_read_range", || {
        // SAFETY: the caller's contract.
        let Some((_, value)) = &unsafe { handle(it) }?.entry else { return Ok(NOT_FOUND) };
        let (_, part) = part(value, pos, n);
        // SAFETY: the caller's contract.
        unsafe {
            give(data, part.as_ptr().cast())?;
            give(rb, part.len())?;
        }
        Ok(OK)
    })
}

/// Shows a part of the value, to be changed until the commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_write_iterator_write_range(
    it: *const WriteIterator,
    pos: usize,
    n: usize,
    data: *mut *mut c_char,
    wb: *mut usize,
) -> c_int {
    guard("pmemkv_write_iterator_write_range", || {
        // SAFETY: the caller's contract.
        let it = unsafe { handle_mut(handle(it)?.iter) }?;
        let Some(part) = it.write(pos, n)? else { return Ok(NOT_FOUND) };
        // SAFETY: the caller's contract.
        unsafe {
            give(wb, part.len())?;
            give(data, part.as_mut_ptr().cast())?;
        }
        Ok(OK)
    })
}

/// Writes what was changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_write_iterator_commit(it: *const WriteIterator) -> c_int {
    // SAFETY: the caller's contract.
    guard("pmemkv_write_iterator_commit", || unsafe { handle_mut(handle(it)?.iter)?.commit() })
}

/// Forgets what was changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_write_iterator_abort(it: *const WriteIterator) {
    guard("pmemkv_write_iterator_abort", || {
        // SAFETY: the caller's contract.
        unsafe { handle_mut(handle(it)?.iter) }?.writes.clear();
        Ok(OK)
    });
}
