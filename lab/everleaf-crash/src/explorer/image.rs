//! One image: its recovery, the checks, and the crashes inside the recovery and behind it.

use std::ops::ControlFlow::Break;

use everleaf_pmem::{Site, WORD};

use super::left::Left;
use super::{Explorer, Failure, Fresh, IMAGE_WORK, Walk};
use crate::known::Moment;
use crate::machine::{Machine, Scope};
use crate::mutant::Mutant;
use crate::outcomes::Product;
use crate::trace::{Trace, barrier, caught};
use crate::undecided::{ImageSet, UndecidedLine};
use crate::violation::During;
use crate::{Options, RECOVERY, Subject, Traced};

/// The images that one is tried for: it may stand for some of them.
#[derive(Clone, Copy)]
pub(super) struct Among<'s> {
    pub set: &'s ImageSet,
    pub within: &'s Product,
}

impl Among<'_> {
    fn is_single(&self) -> bool {
        self.within.iter().all(|outcomes| outcomes.len() == 1)
    }

    /// What is to be watched: the words in which the images differ.
    fn words(among: Option<Self>) -> impl Iterator<Item = usize> {
        among.into_iter().flat_map(|among| among.set.words())
    }
}

impl Walk<'_> {
    /// Makes `image` the one in which line `i` has outcome `choice[i]`.
    fn write_image(&self, machine: &Machine, choice: &[usize], image: &mut Vec<u64>) {
        machine.write_image(choice, image);
        self.inherited(choice).for_each(|(line, outcome)| line.apply(outcome, image));
    }

    /// Its hash.
    pub(super) fn hash_of(&self, machine: &Machine, choice: &[usize]) -> u128 {
        self.inherited(choice)
            .fold(machine.hash_of(choice), |hash, (line, outcome)| hash ^ line.delta(outcome))
    }

    fn inherited<'w>(
        &'w self,
        choice: &'w [usize],
    ) -> impl Iterator<Item = (&'w UndecidedLine, usize)> {
        let chosen = &choice[choice.len() - self.inherited.len()..];
        self.inherited.iter().zip(chosen.iter().copied())
    }
}

impl<S: Subject> Explorer<'_, S> {
    /// Recovers one image, checks it, and explores the crashes inside its recovery. Where it is
    /// tried for many, returns the words on which all of this depended: each image that agrees in
    /// them would have done the same.
    pub(super) fn try_image(
        &mut self,
        machine: &Machine,
        choice: &[usize],
        walk: &Walk,
        fresh: Fresh,
        among: Option<Among>,
    ) -> Result<Vec<usize>, Failure> {
        let (hash, moment, depth) = (walk.hash_of(machine, choice), walk.moment, walk.depth);
        let among = among.filter(|among| !among.is_single());
        // What it reads must be learnt where an operation goes on from what a recovery has left.
        let may_know = fresh == Fresh::Required && self.going_on_from.is_none();
        if may_know && among.is_none() && self.is_known(moment, hash, depth) {
            self.point_sites.extend(self.known.sites_of(moment, hash));
            self.note_known_reads();
            return Ok(Vec::new());
        }
        let mut image = self.images.pop().unwrap_or_default();
        walk.write_image(machine, choice, &mut image);
        let failed = |error| Failure { moment, crashes: Vec::new(), error, settled: Vec::new() };
        let asks = depth > 0 && self.options.follow_up > 0;
        let (recovery, asked, mut decided) =
            self.recover_and_verify(&image, moment, among, asks).map_err(failed)?;
        let mut sites: Vec<Site> = Vec::new();
        let mut tried = depth;
        if depth > 0 {
            // What the recovery stores is explored word by word, so it must be known what was there
            // before.
            decided.extend(recovery.stored_words().filter(|_| among.is_some()));
            let recovery = self.mutated(&recovery, RECOVERY);
            sites.extend(recovery.events.iter().filter_map(barrier));
            self.reach(&recovery, RECOVERY);
            let first = First { image: &image, hash, choice, among, asked };
            self.crash_in_recovery(first, &recovery, walk, &mut sites, &mut decided)?;
            sites.sort_unstable();
            sites.dedup();
            self.point_sites.extend(&sites);
            // A recovery that stores nothing can be crashed in nowhere, however deep.
            tried = if recovery.stores_anything() { depth } else { u8::MAX };
        }
        self.images.push(image);
        let is_new = self.known.insert(moment, hash, tried, sites);
        self.tally.states += u64::from(is_new);
        Ok(decided)
    }

    fn is_known(&self, moment: Moment, hash: u128, depth: u8) -> bool {
        self.known.covers(moment, hash, depth, None)
            || self.spares(depth)
                && self.baseline.is_some_and(|known| {
                    known.covers(moment, hash, depth, self.mutant.map(Mutant::site))
                })
    }

    /// Whether what is known of an image may excuse it in the mutant: its own recovery's barriers
    /// were noted, but not those of recoveries inside which another crash came.
    pub(super) fn spares(&self, depth: u8) -> bool {
        depth < 2 || self.spares_recoveries
    }

    /// What the recovery did, how far it came where that is asked, and the watched words that were
    /// loaded until all was checked.
    fn recover_and_verify(
        &mut self,
        image: &[u64],
        moment: Moment,
        among: Option<Among>,
        asks: bool,
    ) -> Result<(Trace, Asked, Vec<usize>), String> {
        let media = self.media_with(image)?;
        self.tally.recoveries += 1;
        match self.going_on_from {
            Some(_) => media.watch_all_loads(),
            None => media.watch_loads(Among::words(among).map(|word| (word * WORD) as u64)),
        }
        let promise = self.promise(moment);
        let (recovery, asked) = caught(|| {
            let mut state = self.subject.recover(media.clone())?;
            let recovery = Trace::take(&media);
            let mut asked = Asked::default();
            if asks {
                let found = self.subject.completed(&mut state, &promise);
                asked = Asked { found, writes: Trace::take(&media).stores_anything() };
            }
            media.record(false, false);
            self.subject.verify(&mut state, &promise)?;
            Ok((recovery, asked))
        })?;
        let loaded = watched_loads(&media);
        self.note_work(&media);
        self.note_reads(&media);
        self.note_loads(image, &loaded);
        Ok((recovery, asked, loaded))
    }

    /// Notes what a run has cost.
    fn note_work(&mut self, media: &Traced) {
        let accesses = self.options.access_limit - media.accesses_left();
        self.tally.spend(IMAGE_WORK + accesses);
    }

    /// Notes which words a run has read.
    fn note_reads(&mut self, media: &Traced) {
        self.run_reads.clear();
        media.take_reads(&mut self.run_reads);
        self.chain.read().add(&self.run_reads);
        self.known.read.add(&self.run_reads);
    }

    /// Memory that holds `image`: the mapping of last time, unless the subject kept it.
    fn media_with(&mut self, image: &[u64]) -> Result<Traced, String> {
        let restored = self.scratch.as_mut().is_some_and(|media| media.restore(image));
        if !restored {
            let media = self.options.media_of(image).map_err(|e| e.to_string())?;
            self.scratch = Some(media);
        }
        let media = self.scratch.clone().ok_or("no memory")?;
        media.limit_accesses(self.options.access_limit);
        Ok(media)
    }

    /// Crashes inside a recovery; then in the operations after it, where they may find what no
    /// operation has found.
    fn crash_in_recovery(
        &mut self,
        first: First,
        recovery: &Trace,
        outer: &Walk,
        sites: &mut Vec<Site>,
        decided: &mut Vec<usize>,
    ) -> Result<(), Failure> {
        let inherited = &first.undecided(decided);
        let walk = Walk {
            trace: recovery,
            during: During::Recovery,
            moment: outer.moment,
            from: 0,
            depth: 0,
            budget: self.options.recovery_budget,
            until: outer.until,
            inherited,
        };
        let mut machine = self.walk_recovery(&first, &walk)?;
        if self.options.follow_up > 0 {
            self.crash_behind_recovery(&mut machine, &first, &walk, sites, decided)?;
        }
        for depth in 1..outer.depth {
            let was_deeper = std::mem::replace(&mut self.deeper, true);
            let walked = self.on_credit(walk.until, |explorer, until| {
                explorer.walk_recovery(&first, &Walk { depth, until, ..walk })
            });
            self.deeper = was_deeper;
            self.images.push(walked?.into_floor());
        }
        self.images.push(machine.into_floor());
        Ok(())
    }

    /// Crashes inside a recovery; what is durable when it has returned.
    fn walk_recovery(&mut self, first: &First, walk: &Walk) -> Result<Machine, Failure> {
        let Options { assumptions, recovery_budget: budget, seed, .. } = *self.options;
        let mut floor = self.images.pop().unwrap_or_default();
        floor.clear();
        floor.extend_from_slice(first.image);
        let mut machine = Machine::hashed(floor, first.hash, assumptions, budget, seed);
        self.walk_through(&mut machine, walk)?;
        Ok(machine)
    }

    /// Crashes wherever a trace allows, up to the first failure.
    fn walk_through(&mut self, machine: &mut Machine, walk: &Walk) -> Result<(), Failure> {
        let mut failure = None;
        let _ = self.walk(machine, walk, &mut |found| {
            failure = Some(found);
            Break(())
        });
        failure.map_or(Ok(()), Err)
    }

    /// Crashes behind a recovery, which has promised what it found by returning: at once, where it
    /// returned before all that it wrote was durable; and in the operations after it. These are run
    /// where the recovery has left something that is not durable, or work for the first access to
    /// the structure, and else once for each memory that it leaves and that they can tell from
    /// others.
    fn crash_behind_recovery(
        &mut self,
        machine: &mut Machine,
        first: &First,
        recovery: &Walk,
        sites: &mut Vec<Site>,
        decided: &mut Vec<usize>,
    ) -> Result<(), Failure> {
        let Asked { found: Some(next), writes } = first.asked else { return Ok(()) };
        let found = self.found(next);
        if writes || machine.has_pending() {
            return self.go_on(machine, first, recovery, found, sites, decided);
        }
        // A mutant differs from the program in one barrier; that no operation acts on what
        // recoveries leave is shown for the program. And what an operation of the program begins
        // with is gone on from by the program.
        let begins = || self.begun.contains(&(next, machine.hash_of(&[])));
        let is_last = next >= self.subject.operation_count();
        if self.is_plain || self.mutant.is_some() || is_last {
            return Ok(());
        }
        if first.among.is_none() && begins() {
            // What the program reads as it runs is not noted.
            self.chain.forget();
            return Ok(());
        }
        if let Some(left) = self.leftovers.standing_for(found, machine.floor()) {
            left.add_reads_to(self.chain.read());
            decided.extend(Among::words(first.among).filter(|word| left.reads(*word)));
            return Ok(());
        }
        if self.leftovers.are_many(found) || self.credit() == 0 {
            self.leave_out(1);
            return Ok(());
        }
        let left = Left::new(machine.floor().to_vec(), &first.undecided(decided));
        let outer = self.going_on_from.replace(left);
        let gone_on = self.on_credit(recovery.until, |explorer, until| {
            explorer.go_on(machine, first, &Walk { until, ..*recovery }, found, sites, decided)
        });
        let left = std::mem::replace(&mut self.going_on_from, outer);
        gone_on?;
        self.leftovers.insert(found, left.expect("it was set above"));
        Ok(())
    }

    /// Crashes right behind a recovery and in the operations after it.
    fn go_on(
        &mut self,
        machine: &mut Machine,
        first: &First,
        recovery: &Walk,
        found: Moment,
        sites: &mut Vec<Site>,
        decided: &mut Vec<usize>,
    ) -> Result<(), Failure> {
        let traces = self.follow_up(first, recovery.moment, found.acknowledged, decided)?;
        let inherited = &first.undecided(decided);
        let recovery = Walk { depth: 0, inherited, ..*recovery };
        if machine.has_pending() {
            let budget = self.share_of_point(&recovery, 1);
            let walk = Walk { moment: found, budget, ..recovery };
            self.crash_at(machine, &walk, walk.trace.events.len(), Scope::All)?;
        }
        for (operation, trace) in traces {
            let trace = self.mutated(&trace, self.subject.path(operation));
            sites.extend(trace.events.iter().filter_map(barrier));
            let during = During::FollowUp(operation);
            let moment = Moment { recovered: found.recovered, ..Moment::during(operation) };
            let walk = Walk { trace: &trace, during, moment, ..recovery };
            self.walk_through(machine, &walk)?;
            let budget = self.share_of_point(&walk, 1);
            let moment = Moment { recovered: found.recovered, ..Moment::between(operation + 1) };
            let walk = Walk { moment, budget, ..walk };
            self.crash_at(machine, &walk, trace.events.len(), Scope::All)?;
        }
        Ok(())
    }

    /// Recovers once more and runs the operations from `next` on, on what a recovery
    /// has left that was asked nothing. What they depend on and what they store is decided too.
    fn follow_up(
        &mut self,
        first: &First,
        moment: Moment,
        next: usize,
        decided: &mut Vec<usize>,
    ) -> Result<Vec<FollowUp>, Failure> {
        let end = self.subject.operation_count().min(next + self.options.follow_up);
        self.tally.recoveries += 1;
        let traces: Vec<FollowUp> =
            self.recovered(first, moment, decided, |subject, state, media| {
                let run = |operation| {
                    let outcome = subject.run(state, operation);
                    outcome.map_err(|error| {
                        format!(
                            "after recovery, {}: {error}",
                            subject.describe_operation(operation)
                        )
                    })?;
                    Ok((operation, Trace::take(media).on_thread(subject.thread(operation))))
                };
                (next..end).take_while(|operation| !subject.is_crash(*operation)).map(run).collect()
            })?;
        decided.extend(traces.iter().flat_map(|(_, trace)| trace.stored_words()));
        Ok(traces)
    }

    /// Recovers once more and does something with what there is then. What that depends on is
    /// decided too.
    fn recovered<T>(
        &mut self,
        first: &First,
        moment: Moment,
        decided: &mut Vec<usize>,
        act: impl FnOnce(&S, &mut S::State, &Traced) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let failed = |error| Failure { moment, crashes: Vec::new(), error, settled: Vec::new() };
        let media = self.media_with(first.image).map_err(failed)?;
        media.watch_loads(Among::words(first.among).map(|word| (word * WORD) as u64));
        let learns = self.going_on_from.is_some();
        let outcome = caught(|| {
            let mut state = self.subject.recover(media.clone())?;
            media.take_events();
            if learns {
                decided.extend(watched_loads(&media));
                media.watch_all_loads();
            }
            act(self.subject, &mut state, &media)
        });
        self.note_work(&media);
        let loaded = watched_loads(&media);
        self.note_reads(&media);
        if let Some(left) = &mut self.going_on_from {
            left.note_all(&loaded);
        }
        decided.extend(loaded);
        outcome.map_err(failed)
    }
}

/// An operation after a recovery, and what it did.
type FollowUp = (usize, Trace);

/// How far a recovery came.
#[derive(Clone, Copy, Default)]
struct Asked {
    /// How many operations it has found, where that was asked and has an answer.
    found: Option<usize>,
    /// Whether the question alone made the structure write: it mends what the crash cut when it is
    /// first touched.
    writes: bool,
}

/// The image that a crash left, and what else it may have left.
struct First<'s> {
    image: &'s [u64],
    hash: u128,
    choice: &'s [usize],
    among: Option<Among<'s>>,
    asked: Asked,
}

impl First<'_> {
    /// The lines that are undecided still.
    fn undecided(&self, decided: &[usize]) -> Vec<UndecidedLine> {
        self.among
            .map_or(Vec::new(), |among| among.set.undecided(among.within, self.choice, decided))
    }
}

/// Ends the watch; the words.
fn watched_loads(media: &Traced) -> Vec<usize> {
    media.take_watched_loads().into_iter().map(|offset| offset as usize / WORD).collect()
}
