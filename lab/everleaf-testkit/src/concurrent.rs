//! Engines as subjects of the crash explorer with several threads.

use std::fmt;

use everleaf::Transactions;
use everleaf_crash::{Acknowledges, ConcurrentSubject, Step, Subject, Traced};
use everleaf_pmem::Site;
use parking_lot::RwLock;

use crate::model::{Content, is_unclaimed, model, outermost, show, unnamed};
use crate::subject::part_of;
use crate::{EngineSubject, Key, Level, Operation, PathTaken, Target};

/// What an operation told its caller.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but that it is done.
    Done,
    /// Whether anything changed.
    Changed(bool),
    /// The value that was found, or replaced, or removed.
    Value(Option<u64>),
    /// What a scan has shown, or was taken out, in this order.
    Entries(Vec<(Key, u64)>),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Done => f.write_str("nothing"),
            Answer::Changed(changed) => write!(f, "{changed}"),
            Answer::Value(Some(value)) => write!(f, "{value}"),
            Answer::Value(None) => f.write_str("none"),
            Answer::Entries(entries) => f.write_str(&show(entries.iter().map(|(k, v)| (k, v)))),
        }
    }
}

/// What an operation does if nothing else runs. A store tells of a key that is replaced or removed
/// only that it was there.
pub(crate) fn specification(level: Level, content: &mut Content, operation: &Operation) -> Answer {
    let told = match operation {
        Operation::Thread { operation, .. } => return specification(level, content, operation),
        Operation::Insert(key, _) => Answer::Changed(!content.contains_key(key)),
        Operation::Update(key, _) | Operation::Upsert(key, _) | Operation::Remove(key)
            if level == Level::Store =>
        {
            Answer::Changed(content.contains_key(key))
        }
        Operation::Move(from, _) | Operation::Copy(from, _) => {
            Answer::Changed(content.contains_key(from))
        }
        Operation::Scan | Operation::Snapshot => Answer::Entries(entries(unnamed(content))),
        Operation::Pop(end) => {
            let key = outermost(content, *end);
            Answer::Entries(entries(key.and_then(|key| content.get_key_value(key))))
        }
        Operation::Take(key) => Answer::Value(content.get(key).copied()),
        Operation::PutFor(key, _) | Operation::PutExpired(key, _) => {
            Answer::Changed(content.contains_key(key))
        }
        Operation::Swap(key, old, _) => Answer::Changed(content.get(key) == old.as_ref()),
        Operation::Claim(from, below, ..) => Answer::Changed(is_unclaimed(content, from, below)),
        Operation::Get(key)
        | Operation::Update(key, _)
        | Operation::Upsert(key, _)
        | Operation::Remove(key) => Answer::Value(content.get(key).copied()),
        _ => Answer::Done,
    };
    model(content, operation);
    told
}

fn entries<'c>(of: impl IntoIterator<Item = (&'c Key, &'c u64)>) -> Vec<(Key, u64)> {
    of.into_iter().map(|(key, value)| (key.clone(), *value)).collect()
}

/// A scenario with threads on an engine that several threads may use.
#[derive(Clone, Debug)]
pub struct ConcurrentEngineSubject {
    subject: EngineSubject,
    /// Makes what the threads use of what was opened.
    shared: fn(Box<dyn Target>, &Traced) -> Box<dyn Target>,
}

impl ConcurrentEngineSubject {
    /// The scenario of `subject`, its threads being threads.
    pub fn new(subject: EngineSubject) -> Self {
        Self { subject, shared: |target, _| target }
    }

    /// The same with these transactions, as [`EngineSubject::with_transactions`].
    #[must_use]
    pub fn with_transactions(self, transactions: Transactions) -> Self {
        Self { subject: self.subject.with_transactions(transactions), ..self }
    }

    /// The same with threads that use what `shared` makes of what was opened: an engine for one
    /// thread behind a lock, say.
    #[must_use]
    pub fn sharing(self, shared: fn(Box<dyn Target>, &Traced) -> Box<dyn Target>) -> Self {
        Self { shared, ..self }
    }

    /// The paths of its operations when they run one after another, as [`EngineSubject::paths`]
    /// tells them.
    ///
    /// # Errors
    /// What an operation says that fails.
    pub fn paths(&self, len: u64, max_len: u64) -> Result<Vec<PathTaken>, String> {
        self.subject.paths(len, max_len)
    }

    pub(crate) fn level(&self) -> Level {
        self.subject.level()
    }

    fn with_target<R>(
        state: &Opened,
        use_it: impl FnOnce(&dyn Target) -> Result<R, String>,
    ) -> Result<R, String> {
        // Threads share this lock; only an operation that runs alone takes it for itself.
        use_it(state.target.read().as_deref().ok_or("the pool is closed")?)
    }
}

/// An opened target, or none between a close and an open that failed.
pub struct Opened {
    target: RwLock<Option<Box<dyn Target>>>,
    media: Traced,
}

impl ConcurrentSubject for ConcurrentEngineSubject {
    type State = Opened;
    type Content = Content;
    type Outcome = Answer;

    fn steps(&self) -> Vec<Step> {
        self.subject.scenario.steps()
    }

    fn prepare(&self, media: Traced) -> Result<Opened, String> {
        let target = self.subject.prepared(media.clone())?;
        Ok(Opened { target: RwLock::new(Some((self.shared)(target, &media))), media })
    }

    fn run(&self, state: &Opened, operation: usize) -> Result<Answer, String> {
        let operation = &self.subject.scenario.explore[operation];
        if *operation != Operation::Reopen {
            return Self::with_target(state, |target| target.answer(operation));
        }
        let mut target = state.target.write();
        target.take().map_or(Ok(()), |target| target.close())?;
        *target = Some((self.shared)(self.subject.open(state.media.clone())?.0, &state.media));
        Ok(Answer::Done)
    }

    fn recover(&self, image: Traced) -> Result<Opened, String> {
        let target = (self.shared)(self.subject.open(image.clone())?.0, &image);
        Ok(Opened { target: RwLock::new(Some(target)), media: image })
    }

    fn content(&self, state: &Opened) -> Result<Content, String> {
        Self::with_target(state, |target| {
            target.check()?;
            target.content()
        })
    }

    fn go_on(&self, state: &mut Opened) -> Result<(), String> {
        Self::with_target(state, |target| self.subject.go_on(target, target.content()?))
    }

    fn apply(&self, content: &mut Content, operation: usize) -> Answer {
        specification(self.subject.level(), content, &self.subject.scenario.explore[operation])
    }

    fn acknowledges(&self, operation: usize) -> Acknowledges {
        self.subject.acknowledges(operation)
    }

    fn sites(&self) -> Vec<Site> {
        self.subject.sites()
    }

    fn describe_operation(&self, operation: usize) -> String {
        match &self.subject.scenario.explore[operation] {
            Operation::Thread { operation, .. } => operation.to_string(),
            operation => operation.to_string(),
        }
    }

    fn describe_line(&self, line: u64) -> Option<String> {
        part_of(line)
    }

    fn subset(&self, operations: &[usize]) -> Option<Self> {
        Some(Self { subject: self.subject.subset(operations)?, shared: self.shared })
    }

    fn describe_content(&self, content: &Content) -> String {
        show(content)
    }
}
