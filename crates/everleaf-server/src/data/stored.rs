//! The rows of the store, and of a cluster those that will come to it: all reads look for the
//! latter first. Where there is no cluster it is the tree.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf::{Direction, Error, Key, OwnedKey, Scan, Tree};

use super::ahead::{Ahead, AheadRow};
use super::rows::{Ends, Pending};

/// Rows ahead of the store that are merged into a scan at a time.
const PIECE: usize = 256;

/// What is shown each row and its value of a range, until it breaks.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Rows as they are.
pub struct Stored {
    tree: Tree,
    ahead: Option<Arc<Ahead>>,
}

impl Stored {
    /// Those of a tree, and those that will come to it.
    pub fn of(tree: Tree, ahead: Option<Arc<Ahead>>) -> Self {
        Self { tree, ahead }
    }

    /// What of a cluster is not in the tree.
    pub fn ahead(&self) -> Option<&Arc<Ahead>> {
        self.ahead.as_ref()
    }

    /// The tree: of a cluster it lags behind.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    // ---- reading
    // ---------------------------------------------------------------------------------------------

    /// Shows the value of a row where it lies. `show` must not call the store.
    #[inline]
    pub fn get_with<R>(
        &self,
        row: &[u8],
        show: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Error> {
        match self.ahead.as_ref().and_then(|ahead| ahead.find(row)) {
            None => self.tree.get_with(row, show),
            Some(value) => Ok(value.as_deref().map(show)),
        }
    }

    /// A copy of the value of a row.
    pub fn get(&self, row: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(row, <[u8]>::to_vec)
    }

    /// Copies of many rows, which are looked up together.
    pub fn get_many(&self, rows: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let Some(ahead) = &self.ahead else { return self.tree.get_many(rows) };
        let found: Vec<_> = rows.iter().map(|row| ahead.find(row)).collect(); // First.
        let mut values = self.tree.get_many(rows)?;
        for (value, found) in values.iter_mut().zip(found) {
            if let Some(found) = found {
                *value = found.map(|value| value.to_vec());
            }
        }
        Ok(values)
    }

    /// Visits rows of a range in order, until `visit` breaks. It must not call the store.
    pub fn scan_with(
        &self,
        scan: Scan,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        match &self.ahead {
            None => scan_tree(&self.tree, scan, &mut visit),
            Some(ahead) => self.scan_both(ahead, scan, &mut visit),
        }
    }

    /// Piece by piece: the rows ahead that a piece has are known before the store is looked at, as
    /// they may come to it meanwhile. It is compiled once for all that visit.
    fn scan_both(&self, ahead: &Ahead, scan: Scan, visit: &mut Visit<'_>) -> Result<(), Error> {
        let (direction, (mut from, mut to)) = (scan.direction, ends_of(scan));
        let forward = direction == Direction::Forward;
        loop {
            let piece = ahead.first(&(from.clone(), to.clone()), direction, PIECE);
            let last = piece.last().filter(|_| piece.len() == PIECE).map(|(row, _)| row.to_vec());
            let mut ends = (from.clone(), to.clone());
            if let Some(last) = &last {
                *(if forward { &mut ends.1 } else { &mut ends.0 }) = Bound::Included(last.clone());
            }
            let mut part = Scan::of(ends);
            part.direction = direction;
            let own = piece.iter().map(|(row, value): &AheadRow| (&row[..], value.as_deref()));
            let mut merge = Merge::new(own, forward, &mut *visit);
            scan_tree(&self.tree, part, &mut |row, value| merge.row(row, value))?;
            match (merge.finish(), last) {
                (ControlFlow::Continue(()), Some(last)) => {
                    *(if forward { &mut from } else { &mut to }) = Bound::Excluded(last);
                }
                _ => return Ok(()),
            }
        }
    }

    // ---- writing
    // ---------------------------------------------------------------------------------------------

    /// Stores a row.
    pub fn put(&self, row: &[u8], value: &[u8]) -> Result<(), Error> {
        match &self.ahead {
            None => self.tree.put(row, value).map(drop),
            Some(ahead) => {
                Ok(ahead.propose(&Pending::from([(row.to_vec(), Some(value.to_vec()))]))?)
            }
        }
    }

    /// Removes rows, as one batch or, where its log has no room, one by one.
    pub fn remove(&self, rows: &[Vec<u8>]) -> Result<(), Error> {
        if let Some(ahead) = &self.ahead {
            return Ok(ahead.propose(&rows.iter().map(|row| (row.clone(), None)).collect())?);
        }
        let mut batch = self.tree.batch();
        rows.iter().try_for_each(|row| batch.delete(row).map(drop))?;
        match batch.commit() {
            Err(error) if error.is_full() => {
                rows.iter().try_for_each(|row| self.tree.delete(row).map(drop))
            }
            done => done.map(drop),
        }
    }
}

/// Visits rows of a tree. It is compiled once for all that visit, and so are the layers below.
fn scan_tree(tree: &Tree, scan: Scan, visit: &mut Visit<'_>) -> Result<(), Error> {
    tree.scan_with(scan, |row, value| match row {
        Key::Bytes(row) => visit(row, value),
        Key::U64(_) => ControlFlow::Break(()),
    })
}

/// The ends of a scan.
fn ends_of(scan: Scan) -> Ends {
    let row = |key: OwnedKey| match key {
        OwnedKey::Bytes(row) => row.to_vec(),
        OwnedKey::U64(_) => Vec::new(),
    };
    let (mut from, mut to) = (scan.from.map(row), scan.to.map(row));
    if let Some(prefix) = scan.prefix {
        let is_before = |from: &Vec<u8>| **from < *prefix;
        if match &from {
            Bound::Unbounded => true,
            Bound::Included(from) | Bound::Excluded(from) => is_before(from),
        } {
            from = Bound::Included(prefix.to_vec());
        }
        if to == Bound::Unbounded {
            let kept = prefix.iter().rposition(|byte| *byte < u8::MAX).map_or(0, |at| at + 1);
            let mut behind = prefix[..kept].to_vec();
            if let Some(last) = behind.last_mut() {
                *last += 1;
                to = Bound::Excluded(behind);
            }
        }
    }
    (from, to)
}

/// Rows of a scan, and others that come among them or replace them.
pub struct Merge<'a, I, V> {
    own: I,
    next: Option<(&'a [u8], Option<&'a [u8]>)>,
    forward: bool,
    visit: V,
    has_ended: bool,
}

impl<'a, I, V> Merge<'a, I, V>
where
    I: Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    V: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
{
    /// Of rows in the scan's order, which is that of `forward` or the other one.
    pub fn new(mut own: I, forward: bool, visit: V) -> Self {
        let next = own.next();
        Self { own, next, forward, visit, has_ended: false }
    }

    /// A row of the scan.
    pub fn row(&mut self, row: &[u8], value: &[u8]) -> ControlFlow<()> {
        let mut is_replaced = false;
        while let Some((key, own)) = self.next
            && (if self.forward { row >= key } else { row <= key })
        {
            is_replaced |= key == row;
            self.next = self.own.next();
            if let Some(own) = own {
                self.show(key, own)?;
            }
        }
        if is_replaced { ControlFlow::Continue(()) } else { self.show(row, value) }
    }

    fn show(&mut self, row: &[u8], value: &[u8]) -> ControlFlow<()> {
        let shown = (self.visit)(row, value);
        self.has_ended |= shown.is_break();
        shown
    }

    /// The scan has no more rows, or was ended: whether the visitor has ended it.
    pub fn finish(mut self) -> ControlFlow<()> {
        while !self.has_ended
            && let Some((key, own)) = self.next
        {
            self.next = self.own.next();
            if let Some(own) = own {
                self.show(key, own)?;
            }
        }
        if self.has_ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::sync::atomic::{AtomicBool, Ordering};

    use everleaf::Store;
    use parking_lot::Mutex;

    use super::super::ahead::{Propose, Refused, Ticket};
    use super::*;
    use crate::random::Random;

    /// What a cluster has and the store has not.
    #[derive(Default)]
    struct Log(Mutex<(Ticket, VecDeque<(Ticket, Pending)>)>, AtomicBool);

    impl Propose for Arc<Log> {
        fn propose(&self, rows: &Pending) -> Result<Ticket, Refused> {
            let (last, log) = &mut *self.0.lock();
            *last += 1;
            log.push_back((*last, rows.clone()));
            Ok(*last)
        }

        fn leads(&self) -> bool {
            self.1.load(Ordering::Relaxed)
        }

        fn log_statistics(&self) -> Result<everleaf::Statistics, Error> {
            unreachable!()
        }
    }

    struct Node {
        stored: Stored,
        log: Arc<Log>,
        _store: Store,
        _folder: tempfile::TempDir,
    }

    impl Node {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::create(folder.path().join("a.pool")).unwrap();
            let log = Arc::<Log>::default();
            let ahead = Arc::new(Ahead::new(Box::new(Arc::clone(&log))));
            let stored = Stored::of(store.tree("rows").unwrap(), Some(ahead));
            Self { stored, log, _store: store, _folder: folder }
        }

        fn ahead(&self) -> &Ahead {
            self.stored.ahead().unwrap()
        }

        /// Applies so many writes, if there are so many.
        fn apply(&self, writes: usize) {
            for _ in 0..writes {
                let Some((ticket, rows)) = self.log.0.lock().1.pop_front() else { return };
                let mut batch = self.stored.tree().batch();
                for (row, value) in rows {
                    match value {
                        Some(value) => batch.put(row, value).unwrap(),
                        None => batch.delete(row).unwrap(),
                    };
                }
                batch.commit().unwrap();
                self.ahead().applied(ticket);
            }
        }

        fn scan(&self, scan: Scan, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
            let mut rows = Vec::new();
            let visit = |row: &[u8], value: &[u8]| {
                rows.push((row.to_vec(), value.to_vec()));
                if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            self.stored.scan_with(scan, visit).unwrap();
            rows
        }
    }

    #[test]
    fn what_is_proposed_is_read_as_if_it_were_stored() {
        for _ in 0..5 {
            let seed = Random::default().below(u64::MAX);
            println!("seed {seed}");
            let random = Random::of(seed);
            let (node, mut model) = (Node::new(), BTreeMap::<Vec<u8>, Vec<u8>>::new());
            let row = || random.below(2_000).to_be_bytes()[6..].to_vec();
            for step in 0..600_u64 {
                match random.below(10) {
                    0..4 => {
                        let rows = (0..=random.below(12)).map(|_| {
                            let value = (random.below(3) > 0).then(|| step.to_le_bytes().to_vec());
                            (row(), value)
                        });
                        let rows: Pending = rows.collect();
                        for (row, value) in rows.clone() {
                            match value {
                                Some(value) => model.insert(row, value),
                                None => model.remove(&row),
                            };
                        }
                        node.ahead().propose(&rows).unwrap();
                    }
                    // Rarely, so that many rows are ahead.
                    4 if random.below(8) == 0 => node.apply(random.below(200) as usize),
                    5 => {
                        let asked: Vec<Vec<u8>> = (0..8).map(|_| row()).collect();
                        let known: Vec<_> =
                            asked.iter().map(|row| model.get(row).cloned()).collect();
                        assert_eq!(node.stored.get_many(&asked).unwrap(), known);
                        assert_eq!(node.stored.get(&asked[0]).unwrap(), known[0]);
                    }
                    _ => {
                        let end = |at| match at {
                            0 => Bound::Unbounded,
                            1 => Bound::Included(row()),
                            _ => Bound::Excluded(row()),
                        };
                        let ends = (end(random.below(3)), end(random.below(3)));
                        if crate::data::rows::is_empty(&ends) {
                            continue;
                        }
                        let mut scan = Scan::of(ends.clone());
                        let limit = 1 + random.below(3_000) as usize;
                        let known =
                            model.range(ends).map(|(row, value)| (row.clone(), value.clone()));
                        let known: Vec<_> = match random.below(2) {
                            0 => known.take(limit).collect(),
                            _ => {
                                scan = scan.backward();
                                known.rev().take(limit).collect()
                            }
                        };
                        assert_eq!(node.scan(scan, limit), known);
                        let known: Vec<_> = model.iter().filter(|(row, _)| row[0] == 3).collect();
                        let found = node.scan(Scan::all().with_prefix([3]), usize::MAX);
                        assert!(found.iter().map(|(row, value)| (row, value)).eq(known));
                    }
                }
            }
            node.apply(usize::MAX);
            assert!(node.scan(Scan::all(), usize::MAX).into_iter().eq(model));
            assert_eq!(node.ahead().bytes(), 0);
        }
    }

    #[test]
    fn a_prefix_that_ends_with_the_greatest_byte_has_its_rows() {
        let node = Node::new();
        let rows = [&[2, 254, 9][..], &[2, 255], &[2, 255, 0], &[2, 255, 255, 1], &[3], &[255, 7]];
        let pending = rows.iter().map(|row| (row.to_vec(), Some(vec![1])));
        node.ahead().propose(&pending.collect()).unwrap();
        for writes in [0, 1] {
            node.apply(writes);
            for prefix in [&[2, 255][..], &[2, 255, 255], &[255], &[]] {
                let scan = Scan::all().with_prefix(prefix);
                let found = node.scan(scan, usize::MAX).into_iter().map(|(row, _)| row);
                let known = rows.iter().filter(|row| row.starts_with(prefix));
                assert!(found.eq(known.map(|row| row.to_vec())), "{prefix:?}, {writes} applied");
            }
        }
    }

    /// One writes the same numbers to all rows, in order; another one applies.
    #[test]
    fn a_reader_finds_a_row_ahead_or_in_the_store_and_never_an_older_one() {
        const ROWS: u8 = 100;
        const WRITES: u64 = 3_000;
        let (node, has_ended) = (Node::new(), AtomicBool::new(false));
        let all = |number: u64| {
            (0..ROWS).map(|row| (vec![3, row], Some(number.to_be_bytes().to_vec()))).collect()
        };
        node.ahead().propose(&all(0)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..WRITES).for_each(|number| node.ahead().propose(&all(number)).unwrap());
                has_ended.store(true, Ordering::Release);
            });
            scope.spawn(|| {
                while !has_ended.load(Ordering::Acquire) {
                    node.apply(7);
                }
            });
            let (mut last, mut scans) = (vec![0; 8], 0);
            while !has_ended.load(Ordering::Acquire) || scans == 0 {
                let found = node.stored.get(&[3, ROWS / 2]).unwrap().unwrap();
                assert!(found >= last, "{found:?} is read after {last:?}");
                let scan = node.scan(Scan::all(), usize::MAX);
                assert_eq!(scan.len(), usize::from(ROWS));
                assert!(scan.iter().all(|(_, value)| *value >= found));
                (last, scans) = (found, scans + 1);
            }
        });
    }

    #[test]
    fn replies_are_held_until_what_they_tell_is_settled_and_what_was_read_is_confirmed() {
        let node = Node::new();
        let ahead = node.ahead();
        let held = |mark: &super::super::ahead::Mark| mark.is_reached(&ahead.progress().borrow());
        let write = || node.stored.put(b"a", b"1").unwrap();
        let read = || node.stored.get(b"a").unwrap();
        // A write confirms what was read before it, and nothing that is read behind it.
        let ((), written) = ahead.noted(|| {
            read();
            write();
        });
        let ((), both) = ahead.noted(|| {
            write();
            read();
        });
        let (value, seen) = ahead.noted(read);
        let ((), nothing) = ahead.noted(|| {});
        assert_eq!(value.as_deref(), Some(&b"1"[..]));
        assert_eq!(
            [&written, &both, &seen, &nothing].map(held).map(Option::unwrap),
            [false, false, false, true]
        );
        ahead.settled(1);
        assert_eq!([&written, &both, &seen].map(held).map(Option::unwrap), [true, false, false]);
        ahead.settled(2);
        assert_eq!([&both, &seen].map(held).map(Option::unwrap), [false, false]);
        ahead.confirmed(1);
        assert_eq!([&both, &seen].map(held).map(Option::unwrap), [true, true]);
        // One that was begun before does not confirm what is read now.
        node.apply(2);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let number = runtime.block_on(ahead.confirmation());
        let (_, later) = ahead.noted(read);
        ahead.confirmed(number);
        assert_eq!(held(&later), Some(false));
        ahead.confirmed(number + 1);
        assert_eq!(held(&later), Some(true));
        // By lease nobody is asked, and what is not settled is held all the same.
        node.log.1.store(true, Ordering::Relaxed);
        let (_, leased) = ahead.noted(read);
        let ((), unsettled) = ahead.noted(|| {
            write();
            read();
        });
        assert_eq!([&leased, &unsettled].map(held).map(Option::unwrap), [true, false]);
        ahead.settled(3);
        assert_eq!(held(&unsettled), Some(true));
        node.log.1.store(false, Ordering::Relaxed);
        // What is told without being read.
        let (_, told) = ahead.noted(|| {
            write();
            ahead.has_emptied();
        });
        let (_, emptied) = ahead.noted(|| ahead.saw_emptied());
        let (_, last) = ahead.noted(|| ahead.saw_last());
        ahead.confirmed(number + 2);
        assert_eq!([&told, &emptied, &last].map(held).map(Option::unwrap), [false; 3]);
        ahead.settled(4);
        assert_eq!([&told, &emptied, &last].map(held).map(Option::unwrap), [true; 3]);
        ahead.lose();
        assert_eq!(held(&told), None);
    }
}
