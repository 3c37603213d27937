//! Copies of a pool's file and of its log that were made at different moments of a running program:
//! each two are refused together, or hold what the log's moment held.

use std::collections::BTreeMap;
use std::io;

use everleaf_pmem::Cpu;
use parking_lot::Mutex;

use super::*;
use crate::control::Control;
use crate::disk::{BLOCK, Disk, DiskFile};
use crate::read_only;

type Bytes = Arc<Vec<u8>>;

/// The files of a log as they were.
#[derive(Clone, Default, PartialEq, Eq)]
struct Files(BTreeMap<String, Bytes>);

struct OneFile(Bytes);

fn unchanging<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for Files {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let bytes = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(OneFile(Arc::clone(bytes))))
    }
    fn create(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        unchanging()
    }
    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        unchanging()
    }
    fn remove(&self, _name: &str) -> io::Result<()> {
        unchanging()
    }
    fn sync(&self) -> io::Result<()> {
        unchanging()
    }
}

impl DiskFile for OneFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let there = self.0.get(offset as usize..offset as usize + bytes.len());
        bytes.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
    fn write(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        unchanging()
    }
    fn allocate(&self, _length: u64) -> io::Result<()> {
        unchanging()
    }
    fn sync(&self) -> io::Result<()> {
        unchanging()
    }
}

fn content(file: &dyn DiskFile) -> Bytes {
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read(0, &mut bytes).unwrap();
    Arc::new(bytes)
}

/// What is there after an operation that changed something.
struct Moment {
    /// The pool's file, as another process reads it.
    file: Bytes,
    /// The same, as a power failure may leave it.
    left: Vec<Bytes>,
    log: Files,
    /// None before the log is complete.
    control: Option<Control>,
    /// Whether the pool is served: its opening has returned.
    served: bool,
}

/// A disk, and what was on it.
#[derive(Clone, Default)]
struct Recorded {
    disk: SimulatedDisk,
    moments: Arc<Mutex<Vec<Moment>>>,
    served: Arc<Mutex<bool>>,
}

impl Recorded {
    fn base(&self) -> Base {
        let file = RecordedFile { file: self.disk.first_file(), recorded: self.clone() };
        Base { file: Arc::new(file), ..base(&self.disk) }
    }

    fn note<T>(&self, done: io::Result<T>) -> io::Result<T> {
        let mut log = Files::default();
        for name in self.disk.names()? {
            log.0.insert(name.clone(), content(&*self.disk.open(&name)?));
        }
        let file = content(&*self.disk.first_file());
        let mut moments = self.moments.lock();
        let mut chance = Chance(moments.len() as u64);
        let mut left = |way: usize| {
            let left = self.disk.after_power_failure(|ways| match way {
                0 => 0,
                _ => chance.below(ways),
            });
            content(&*left.first_file())
        };
        let mut left: Vec<Bytes> = (0..4).map(&mut left).collect();
        left.dedup();
        let (control, served) =
            (Control::read(&log, Weakness::default()).ok(), *self.served.lock());
        moments.push(Moment { file, left, log, control, served });
        done
    }
}

struct RecordedFile {
    file: Arc<dyn DiskFile>,
    recorded: Recorded,
}

impl Disk for Recorded {
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(name)?;
        Ok(Arc::new(RecordedFile { file, recorded: self.clone() }))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.note(self.disk.create(name))?;
        Ok(Arc::new(RecordedFile { file, recorded: self.clone() }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.note(self.disk.rename(from, to))
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.note(self.disk.remove(name))
    }
    fn sync(&self) -> io::Result<()> {
        self.note(Disk::sync(&self.disk))
    }
}

impl DiskFile for RecordedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, bytes)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.recorded.note(self.file.write(offset, bytes))
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.recorded.note(self.file.allocate(length))
    }
    fn sync(&self) -> io::Result<()> {
        self.recorded.note(self.file.sync())
    }
    fn to_map(&self) -> io::Result<Option<std::fs::File>> {
        self.file.to_map()
    }
}

/// Sessions that are closed, killed, and killed in a checkpoint if `torn`, and the moments of all
/// of it since the pool was complete.
fn record(weak: Option<Weak>, torn: bool) -> Vec<Moment> {
    let recorded = Recorded::default();
    let (disk, log) = (recorded.disk.clone(), Arc::new(recorded.clone()));
    disk.nameless();
    let first = Log::create(&recorded.base(), log.clone(), BYTES, options(weak)).unwrap();
    first.checkpoint().unwrap();
    recorded.moments.lock().clear();
    let mut program = Program::default();
    let mut session = Some(first);
    for (steps, closes) in [(7, true), (12, false), (16, true), (18, true)] {
        let open = || Log::open(&recorded.base(), log.clone(), options(weak)).unwrap();
        let media = session.take().unwrap_or_else(open);
        *recorded.served.lock() = true;
        program.run(&media, steps);
        media.sync().unwrap();
        if torn && !closes {
            step(&media, steps + 1);
            program.begun = steps + 1;
            disk.cut_before(disk.operations() + 4);
            assert!(media.checkpoint().is_err(), "the checkpoint is cut");
            disk.cut_before(u64::MAX);
        }
        *recorded.served.lock() = false;
        if closes { drop(media) } else { media.kill() }
    }
    std::mem::take(&mut *recorded.moments.lock())
}

/// What a pool's file and a log hold together.
fn image(file: &Bytes, log: &Files) -> Result<Vec<u64>, LogError> {
    let file = Arc::new(OneFile(Arc::clone(file)));
    let base = Base { max_bytes: BYTES, ..base_of(file, 7) };
    let region = read_only(&base, log)?;
    let media = Mapped::new(region, &Cpu::detect()).unwrap();
    let cells = media.region().cells(0, BYTES as usize / 8).unwrap();
    Ok(cells.iter().map(|cell| media.load(cell)).collect())
}

/// How many pairs were tried, and what became of them.
#[derive(Debug, Default)]
struct Pairs {
    right: u64,
    refused: u64,
}

/// All that the moments hold, to be paired.
struct Copies {
    moments: Vec<Moment>,
    /// What each moment's own file and log hold.
    expected: Vec<Vec<u64>>,
    /// How many checkpoints are complete at each moment, by the log.
    complete: Vec<u64>,
    /// The moments at which the pool's file has changed, and those at which the log has.
    files: Vec<usize>,
    logs: Vec<usize>,
    pairs: Pairs,
}

impl Copies {
    fn of(moments: Vec<Moment>) -> Result<Self, String> {
        let expected = (moments.iter().enumerate())
            .map(|(at, moment)| {
                image(&moment.file, &moment.log).map_err(|error| format!("moment {at}: {error}"))
            })
            .collect::<Result<_, _>>()?;
        let mut complete = vec![0; moments.len()];
        for at in 1..moments.len() {
            let [before, now] = [&moments[at - 1], &moments[at]].map(|m| m.control.unwrap());
            let checkpoint = before.number != now.number && before.session == now.session;
            complete[at] = complete[at - 1] + u64::from(checkpoint);
        }
        let changes = |differ: fn(&Moment, &Moment) -> bool| {
            let changed = |at: &usize| *at == 0 || differ(&moments[at - 1], &moments[*at]);
            (0..moments.len()).filter(changed).collect()
        };
        let files = changes(|before, now| before.file != now.file);
        let logs = changes(|before, now| before.log != now.log);
        Ok(Self { expected, complete, files, logs, pairs: Pairs::default(), moments })
    }

    /// The log as it was at a moment, and all of them later.
    fn logs_from(&self, at: usize) -> Vec<usize> {
        let next = self.logs.partition_point(|log| *log <= at);
        std::iter::once(at).chain(self.logs[next..].iter().copied()).collect()
    }

    /// Whether a file is accepted beside the log of a moment; an error if it is and is wrong.
    fn accepts(&mut self, file: &Bytes, log: usize) -> Result<bool, String> {
        let (accepted, refused) = match image(file, &self.moments[log].log) {
            Ok(found) if found == self.expected[log] => (1, 0),
            Ok(_) => return Err(format!("accepted beside the log of {log}, and wrong")),
            Err(LogError::OtherTime) => (0, 1),
            Err(error) => return Err(format!("beside the log of {log}: {error}")),
        };
        self.pairs.right += accepted;
        self.pairs.refused += refused;
        Ok(accepted == 1)
    }

    /// How many checkpoints are complete in the file of a moment: one more than the log knows of
    /// once the stamp of the next is there.
    fn complete_in_file(&self, at: usize) -> u64 {
        let next = (at..self.moments.len()).find(|later| self.complete[*later] > self.complete[at]);
        let page = |at: usize| &self.moments[at].file[..BLOCK as usize];
        self.complete[at] + u64::from(next.is_some_and(|next| page(next) == page(at)))
    }

    /// The file read while the program runs, its first page before the others, and the log later.
    /// `exact`: not one is refused that was read since the log's last checkpoint.
    fn file_before_log(&mut self, exact: bool) -> Result<(), String> {
        let files = self.files.clone();
        for (i, first) in files.iter().enumerate() {
            for others in &files[i..] {
                let mut file = self.moments[*others].file.to_vec();
                file[..BLOCK as usize]
                    .copy_from_slice(&self.moments[*first].file[..BLOCK as usize]);
                let file = Arc::new(file);
                for log in self.logs_from(*others) {
                    let at = |error| format!("pages of {first} and {others} {error}");
                    let accepted = self.accepts(&file, log).map_err(at)?;
                    let fits = self.complete[log] <= self.complete_in_file(*first);
                    if exact && accepted != fits || accepted && !fits {
                        return Err(at(format!("beside the log of {log}: accepted {accepted}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// The same, with each page from a moment of its own.
    fn page_by_page(&mut self, times: u64) -> Result<(), String> {
        let (files, mut chance) = (self.files.clone(), Chance(times));
        for _ in 0..times {
            let (mut file, mut at) = (Vec::new(), 0);
            for page in 0..(BYTES / BLOCK) as usize {
                at += chance.below((files.len() - at).min(6));
                let page = page * BLOCK as usize..(page + 1) * BLOCK as usize;
                file.extend_from_slice(&self.moments[files[at]].file[page]);
            }
            let logs = self.logs_from(files[at]);
            let log = logs[chance.below(logs.len().min(20))];
            self.accepts(&Arc::new(file), log).map_err(|e| format!("page by page: {e}"))?;
        }
        Ok(())
    }

    /// The file as a power failure leaves it, and the log later.
    fn left_before_log(&mut self) -> Result<(), String> {
        for at in 0..self.moments.len() {
            for file in self.moments[at].left.clone() {
                for log in self.logs_from(at).into_iter().step_by(3) {
                    self.accepts(&file, log).map_err(|e| format!("what is left of {at} {e}"))?;
                }
            }
        }
        Ok(())
    }

    /// The log, and the file later. What a session has acknowledged is not taken back by the log
    /// of one before it.
    fn log_before_file(&mut self) -> Result<(), String> {
        for at in 0..self.moments.len() {
            let now = &self.moments[at];
            let (session, file) = (now.control.unwrap().session, Arc::clone(&now.file));
            let left = if now.served { now.left.clone() } else { Vec::new() };
            for log in self.logs.clone().into_iter().take_while(|log| *log < at) {
                let of = |error| format!("the file of {at} {error}");
                let mut accepted = self.accepts(&file, log).map_err(of)?;
                if session != self.moments[log].control.unwrap().session {
                    for file in &left {
                        accepted |= image(file, &self.moments[log].log).is_ok();
                    }
                    if accepted && self.moments[at].served {
                        return Err(of(format!("beside the log of {log}, of a session before")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Every pair.
fn pair(torn: bool) -> Result<Pairs, String> {
    let mut copies = Copies::of(record(None, torn))?;
    copies.file_before_log(!torn)?;
    copies.page_by_page(1000)?;
    copies.left_before_log()?;
    copies.log_before_file()?;
    println!("{} of the file, {} of the log", copies.files.len(), copies.logs.len());
    Ok(copies.pairs)
}

#[test]
fn a_file_copied_in_a_checkpoint_is_accepted_beside_the_log_of_that_time_only() {
    for torn in [false, true] {
        let pairs = pair(torn).unwrap_or_else(|violation| panic!("{violation}"));
        println!("{pairs:?}");
        assert!(pairs.right > 1000 && pairs.refused > 1000, "{pairs:?}");
    }
}

#[test]
fn without_the_sync_of_the_pages_the_stamp_is_there_before_them() {
    let mut copies = Copies::of(record(Some(Weak::PagesNotSynced), false)).unwrap();
    let violation = copies.left_before_log().unwrap_err();
    assert!(violation.contains("left of") && violation.contains("wrong"), "{violation}");
}

#[test]
fn without_a_durable_mark_the_log_of_the_session_before_takes_back_what_was_acknowledged() {
    let mut copies = Copies::of(record(Some(Weak::SessionNotMarked), false)).unwrap();
    let violation = copies.log_before_file().unwrap_err();
    assert!(violation.contains("of a session before"), "{violation}");
}
