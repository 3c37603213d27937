//! What is promised at a moment, as the explorer of crashes asks for it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use everleaf_pmem::Site;

use super::subject::ConcurrentSubject;
use crate::known::Moment;
use crate::violation::During;
use crate::{Acknowledges, Promise as Numbers, Subject, Traced};

/// Makes a [`Subject`] of a [`ConcurrentSubject`] and of what was promised: the "number of
/// acknowledged operations" is the number of a promise, a set of legal contents.
pub(crate) struct Judge<'a, S: ConcurrentSubject> {
    subject: &'a S,
    /// Operations to be run after a recovery that returned before its own writes were durable, or
    /// left work behind.
    follow_up: Vec<usize>,
    promises: RefCell<Promises<S::Content>>,
}

/// What is there when nothing runs, and what a crash may leave then.
#[derive(Clone)]
pub(crate) struct Durable<C> {
    pub content: C,
    pub legal: BTreeSet<C>,
}

impl<C: Clone + Ord> Durable<C> {
    /// All that is there is durable.
    pub fn of(content: C) -> Self {
        Self { legal: [content.clone()].into(), content }
    }

    /// An operation runs alone.
    pub fn run<S: ConcurrentSubject<Content = C>>(&mut self, subject: &S, operation: usize) {
        subject.apply(&mut self.content, operation);
        match subject.acknowledges(operation) {
            Acknowledges::Everything => self.legal = [self.content.clone()].into(),
            Acknowledges::EndOfEpoch => drop(self.legal.insert(self.content.clone())),
            Acknowledges::Nothing => {}
        }
    }
}

struct Promises<C> {
    listed: Vec<Promise<C>>,
    by_contents: BTreeMap<BTreeSet<C>, usize>,
    /// By the content that a recovery found: the first of the promises for the operations after it.
    follow_ups: BTreeMap<C, usize>,
}

struct Promise<C> {
    legal: BTreeSet<C>,
    /// What is run next, where this is the promise before an operation that follows a recovery. The
    /// next promise is the one after it.
    next: Option<usize>,
}

impl<'a, S: ConcurrentSubject> Judge<'a, S> {
    pub fn new(subject: &'a S, follow_up: Vec<usize>) -> Self {
        let promises = Promises {
            listed: Vec::new(),
            by_contents: BTreeMap::new(),
            follow_ups: BTreeMap::new(),
        };
        Self { subject, follow_up, promises: RefCell::new(promises) }
    }

    /// The moment at which these contents are legal.
    pub fn moment(&self, legal: BTreeSet<S::Content>) -> Moment {
        let Promises { listed, by_contents, .. } = &mut *self.promises.borrow_mut();
        let number = *by_contents.entry(legal).or_insert_with_key(|legal| {
            listed.push(Promise { legal: legal.clone(), next: None });
            listed.len() - 1
        });
        Moment::between(number)
    }

    /// Where a crash was, in operations of the program.
    pub fn during(&self, during: During) -> During {
        let operation = |promise: usize| {
            self.promises.borrow().listed.get(promise).and_then(|promise| promise.next)
        };
        match during {
            During::FollowUp(promise) => operation(promise).map_or(during, During::FollowUp),
            other => other,
        }
    }

    /// Some contents in words.
    pub fn describe<'c>(&self, contents: impl IntoIterator<Item = &'c S::Content>) -> String
    where
        S::Content: 'c,
    {
        const SHOWN: usize = 4;
        let mut contents = contents.into_iter();
        let shown: Vec<String> = contents
            .by_ref()
            .take(SHOWN)
            .map(|content| self.subject.describe_content(content))
            .collect();
        match (shown.is_empty(), contents.count()) {
            (true, _) => "nothing at all: what was returned contradicts itself".to_owned(),
            (false, 0) => shown.join(" or "),
            (false, more) => format!("{}, or {more} others", shown.join(" or ")),
        }
    }
}

impl<S: ConcurrentSubject> Subject for Judge<'_, S> {
    type State = S::State;

    fn prepare(&self, media: Traced) -> Result<S::State, String> {
        self.subject.prepare(media)
    }

    /// As many as there may be promises.
    fn operation_count(&self) -> usize {
        usize::MAX
    }

    fn run(&self, state: &mut S::State, promise: usize) -> Result<(), String> {
        let next = self.promises.borrow().listed[promise].next;
        next.map_or(Ok(()), |operation| self.subject.run(state, operation).map(drop))
    }

    /// A thread of its own: none of its fences completes what the recovery has flushed.
    fn thread(&self, _: usize) -> u16 {
        u16::MAX
    }

    fn recover(&self, image: Traced) -> Result<S::State, String> {
        self.subject.recover(image)
    }

    fn describe_operation(&self, promise: usize) -> String {
        let next = self.promises.borrow().listed[promise].next;
        next.map_or_else(
            || "nothing more".to_owned(),
            |operation| self.subject.describe_operation(operation),
        )
    }

    fn verify(&self, state: &mut S::State, promise: &Numbers) -> Result<(), String> {
        let found = self.subject.content(state).map_err(|e| format!("after recovery: {e}"))?;
        {
            let listed = &self.promises.borrow().listed;
            let mut legal = promise.boundaries().iter().flat_map(|number| &listed[*number].legal);
            if !legal.clone().any(|content| *content == found) {
                let found = self.subject.describe_content(&found);
                return Err(format!(
                    "the content is {found}; what was returned promises {}",
                    self.describe(&mut legal)
                ));
            }
        }
        self.subject.go_on(state)
    }

    fn completed(&self, state: &mut S::State, _: &Numbers) -> Option<usize> {
        let found = self.subject.content(state).ok()?;
        let Promises { listed, follow_ups, .. } = &mut *self.promises.borrow_mut();
        let first = *follow_ups.entry(found).or_insert_with_key(|found| {
            let first = listed.len();
            let mut base = Durable::of(found.clone());
            for operation in &self.follow_up {
                listed.push(Promise { legal: base.legal.clone(), next: Some(*operation) });
                base.run(self.subject, *operation);
            }
            listed.push(Promise { legal: base.legal, next: None });
            first
        });
        Some(first)
    }

    fn sites(&self) -> Vec<Site> {
        self.subject.sites()
    }

    fn describe_line(&self, line: u64) -> Option<String> {
        self.subject.describe_line(line)
    }
}
