//! stub
use crate::fptree::inner::InnerNodes;
use crate::fptree::key::LeafKey;
use everleaf_index::{Direction, IndexError};
use everleaf_pmem::SimdLevel;
use parking_lot::RwLock;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ticket(u64);
pub(super) struct Place<K: LeafKey> {
    pub child: u64,
    pub ticket: Ticket,
    pub border: Option<K::Owned>,
    pub next: Option<u64>,
}
pub(super) struct Prepared<K: LeafKey>(K::Owned);
pub(super) struct SharedNodes<K: LeafKey> {
    inner: RwLock<InnerNodes<K>>,
    version: AtomicU64,
}
impl<K: LeafKey> SharedNodes<K> {
    pub fn build<'a>(
        capacity: u64,
        simd: SimdLevel,
        first: u64,
        others: impl Iterator<Item = (K::Ref<'a>, u64)>,
    ) -> Result<Self, IndexError> {
        Ok(Self { inner: RwLock::new(InnerNodes::build(capacity, simd, first, others)?), version: AtomicU64::new(0) })
    }
    pub fn find(&self, _relax: &impl Fn(), key: K::Ref<'_>) -> (u64, Ticket) {
        let i = self.inner.read();
        (i.find(key), Ticket(self.version.load(Ordering::Acquire)))
    }
    pub fn is_current(&self, t: Ticket) -> bool {
        self.version.load(Ordering::Acquire) == t.0
    }
    pub fn find_many(&self, _relax: &impl Fn(), keys: &[K::Ref<'_>], children: &mut [u64], tickets: &mut [Ticket]) {
        let i = self.inner.read();
        i.find_many(keys, children);
        tickets.fill(Ticket(self.version.load(Ordering::Acquire)));
    }
    pub fn prepare(&self, _relax: &impl Fn(), separator: K::Ref<'_>, left: u64) -> Result<Prepared<K>, IndexError> {
        let i = self.inner.read();
        let at = i.seek(separator);
        let low = at.lower_bound();
        if at.current() != left || K::cmp_keys(K::borrow(&low), separator).is_ge() {
            return Err(IndexError::Corrupt { offset: left, what: "a leaf holds keys beyond its bounds" });
        }
        Ok(Prepared(K::to_owned(separator)))
    }
    pub fn insert(&self, _relax: &impl Fn(), p: Prepared<K>, child: u64) -> u64 {
        let mut i = self.inner.write();
        let n = i.insert(K::borrow(&p.0), child).unwrap();
        self.version.fetch_add(1, Ordering::Release);
        n
    }
    pub fn remove(&self, _relax: &impl Fn(), key: K::Ref<'_>) -> bool {
        let mut i = self.inner.write();
        let n = i.remove(key);
        self.version.fetch_add(1, Ordering::Release);
        n
    }
    pub fn is_last(&self, _relax: &impl Fn(), key: K::Ref<'_>) -> bool {
        self.inner.read().is_last(key)
    }
    pub fn seek(&self, _relax: &impl Fn(), from: Bound<K::Ref<'_>>, direction: Direction) -> Place<K> {
        let i = self.inner.read();
        let ticket = Ticket(self.version.load(Ordering::Acquire));
        let mut at = match (from, direction) {
            (Bound::Included(k) | Bound::Excluded(k), _) => i.seek(k),
            _ => i.start(direction),
        };
        if let (Bound::Excluded(k), Direction::Backward) = (from, direction)
            && K::cmp_keys(K::borrow(&at.lower_bound()), k).is_eq()
        {
            at.step(Direction::Backward);
        }
        let child = at.current();
        let low = at.lower_bound();
        let next = at.step(direction);
        let border = next.map(|_| if direction == Direction::Forward { at.lower_bound() } else { low });
        Place { child, ticket, border, next }
    }
    pub fn for_each_child(&self, mut visit: impl FnMut(K::Owned, u64)) {
        let i = self.inner.read();
        let mut at = i.start(Direction::Forward);
        loop {
            visit(at.lower_bound(), at.current());
            if at.step(Direction::Forward).is_none() {
                return;
            }
        }
    }
    pub fn height(&self) -> u32 {
        self.inner.read().height()
    }
    pub fn count(&self) -> u64 {
        self.inner.read().count()
    }
    pub fn dram_bytes(&self) -> u64 {
        self.inner.read().dram_bytes()
    }
    pub fn check(&self) -> Vec<String> {
        self.inner.read().check()
    }
}
