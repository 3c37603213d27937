//! Running a program up to one of its steps, and that step in one interleaving.

use std::sync::Arc;

use everleaf_pmem::MapError;
use parking_lot::Mutex;

use super::history::History;
use super::interleaving::Interleaving;
use super::processor::OneProcessor;
use super::scheduler::{Plan, Schedule, SeededScheduler};
use super::subject::{ConcurrentSubject, Step, ThreadOperations};
use crate::trace::{Trace, caught};
use crate::{Options, Traced};

/// Runs programs, each time from the beginning (or from the last crash that is a step), so that
/// DRAM is as fresh as memory is.
pub(crate) struct Executor<'a, S: ConcurrentSubject> {
    subject: &'a S,
    options: &'a Options,
    pub steps: Vec<Step>,
    scheduler: Arc<SeededScheduler>,
    /// What fresh memory holds.
    pub start: Vec<u64>,
    media: Option<Traced>,
    /// The last crash among the steps so far: its place and what it left.
    restart: Option<(usize, Vec<u64>)>,
}

/// A step in one interleaving.
pub(crate) struct Execution<S: ConcurrentSubject> {
    pub interleaving: Interleaving,
    pub trace: Trace,
    pub history: History<S::Outcome>,
    pub schedule: Schedule,
    /// The content afterwards, or what failed.
    pub content: Result<S::Content, String>,
}

impl<'a, S: ConcurrentSubject> Executor<'a, S> {
    pub fn new(subject: &'a S, options: &'a Options) -> Result<Self, MapError> {
        let start = options.fresh_media()?.image();
        let scheduler = Arc::new(SeededScheduler::new());
        Ok(Self {
            subject,
            options,
            steps: subject.steps(),
            scheduler,
            start,
            media: None,
            restart: None,
        })
    }

    /// Memory that holds `image`: the mapping of last time, unless the subject kept it.
    fn media_with(&mut self, image: &[u64]) -> Result<Traced, String> {
        if !self.media.as_mut().is_some_and(|media| media.restore(image)) {
            let media = self.options.media_of(image).map_err(|e| e.to_string())?;
            self.media = media.with_scheduler(self.scheduler.clone());
        }
        let media = self.media.clone().ok_or("no memory")?;
        media.limit_accesses(self.options.access_limit);
        self.scheduler.alone(0);
        Ok(media)
    }

    /// Prepares, and returns the trace and the content.
    pub fn prepare(&mut self) -> Result<(Trace, S::Content), String> {
        let start = self.start.clone();
        let media = self.media_with(&start)?;
        let state = caught(|| self.subject.prepare(media.clone()))?;
        let trace = Trace::take_of_threads(&media);
        let content = caught(|| self.subject.content(&state))?;
        Ok((trace, content))
    }

    /// Lets step `step` be a crash that left `image`; returns what the recovery did and found.
    pub fn crash(&mut self, step: usize, image: Vec<u64>) -> Result<(Trace, S::Content), String> {
        let media = self.media_with(&image)?;
        self.restart = Some((step, image));
        let state = caught(|| self.subject.recover(media.clone()))?;
        let trace = Trace::take_of_threads(&media);
        let content = caught(|| self.subject.content(&state))?;
        Ok((trace, content))
    }

    /// The state before a step, the steps before it having been run thread after thread.
    fn advance_to(&mut self, step: usize) -> Result<(Traced, S::State), String> {
        let (first, image) =
            self.restart.clone().map_or((0, None), |(crash, image)| (crash + 1, Some(image)));
        let media = self.media_with(image.as_ref().unwrap_or(&self.start.clone()))?;
        let state = caught(|| {
            let recovers = image.is_some();
            let state = if recovers {
                self.subject.recover(media.clone())
            } else {
                self.subject.prepare(media.clone())
            }?;
            self.steps[first..step].iter().try_for_each(|step| self.run_in_turn(&state, step))?;
            Ok(state)
        })?;
        media.take_events();
        media.limit_accesses(self.options.access_limit);
        Ok((media, state))
    }

    /// Runs a step as every later one finds it: thread after thread. What it did, and the content
    /// afterwards or what failed.
    pub fn in_turn(&mut self, step: usize) -> Result<(Trace, Result<S::Content, String>), String> {
        let (media, state) = self.advance_to(step)?;
        let ran = caught(|| self.run_in_turn(&state, &self.steps[step]));
        self.scheduler.alone(0);
        let trace = Trace::take_of_threads(&media);
        media.record(false, false);
        media.limit_accesses(self.options.access_limit);
        Ok((trace, ran.and_then(|()| caught(|| self.subject.content(&state)))))
    }

    fn run_in_turn(&self, state: &S::State, step: &Step) -> Result<(), String> {
        for ThreadOperations { thread, operations } in step.threads() {
            self.scheduler.alone(thread);
            operations
                .iter()
                .try_for_each(|operation| self.subject.run(state, *operation).map(drop))?;
        }
        Ok(())
    }

    /// Runs a step in one interleaving.
    pub fn execute(&mut self, step: usize, plan: Plan) -> Result<Execution<S>, String> {
        let (media, state) = self.advance_to(step)?;
        let threads = self.steps[step].threads();
        let first = threads[plan.first].thread;
        let (history, schedule, failure) = match &threads[..] {
            [alone] => self.run_alone(&media, &state, alone),
            threads => self.run_threads(&media, &state, threads, plan),
        };
        self.scheduler.alone(0);
        let trace = Trace::take_of_threads(&media);
        media.record(false, false);
        media.limit_accesses(self.options.access_limit);
        let content = failure.map_or_else(|| caught(|| self.subject.content(&state)), Err);
        let interleaving = Interleaving { step, first, preemptions: schedule.preemptions.clone() };
        Ok(Execution { interleaving, trace, history, schedule, content })
    }

    fn run_alone(&self, media: &Traced, state: &S::State, alone: &ThreadOperations) -> Ran<S> {
        let mut history = History::default();
        self.scheduler.alone(alone.thread);
        for operation in &alone.operations {
            let place = history.invoke(alone.thread, *operation, media.event_count());
            match caught(|| self.subject.run(state, *operation)) {
                Ok(outcome) => history.returns(place, outcome, media.event_count()),
                Err(error) => return (history, Schedule::default(), Some(error)),
            }
        }
        (history, Schedule::default(), None)
    }

    fn run_threads(
        &self,
        media: &Traced,
        state: &S::State,
        threads: &[ThreadOperations],
        plan: Plan,
    ) -> Ran<S> {
        let history = Mutex::new(History::default());
        let failure = Mutex::new(None);
        let run = |slot: usize, ThreadOperations { thread, operations }: &ThreadOperations| {
            if !self.scheduler.enter(slot) {
                return;
            }
            for operation in operations {
                let place = history.lock().invoke(*thread, *operation, media.event_count());
                match caught(|| self.subject.run(state, *operation)) {
                    Ok(outcome) => history.lock().returns(place, outcome, media.event_count()),
                    Err(error) => {
                        failure.lock().get_or_insert(error);
                        return self.scheduler.stop("another thread has failed");
                    }
                }
                self.scheduler.progress();
            }
            self.scheduler.leave(slot);
        };
        // What one thread sees of another has left the store buffer.
        media.record(true, self.options.assumptions.eadr);
        let _kept = OneProcessor::keep();
        self.scheduler.begin(threads.iter().map(|thread| thread.thread).collect(), plan);
        std::thread::scope(|scope| {
            let run = &run;
            for (slot, thread) in threads.iter().enumerate() {
                scope.spawn(move || run(slot, thread));
            }
            self.scheduler.watch();
        });
        let schedule = self.scheduler.end();
        let deadlock = schedule.stopped.clone().filter(|reason| reason.starts_with("deadlock"));
        (history.into_inner(), schedule, deadlock.or(failure.into_inner()))
    }
}

/// What the threads did; why they did not come to their end, if they did not.
type Ran<S> = (History<<S as ConcurrentSubject>::Outcome>, Schedule, Option<String>);
