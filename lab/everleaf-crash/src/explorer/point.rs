//! The images of one crash point: all of them where they are few; else one of each kind that a
//! recovery can tell apart, as far as the budget goes.

use std::ops::ControlFlow::{Break, Continue};

use super::image::Among;
use super::{Explorer, Failure, Fresh, Tally, Walk};
use crate::domain::Range;
use crate::machine::{Machine, Scope};
use crate::mutant::Mutant;
use crate::outcomes::Product;
use crate::undecided::{ImageSet, Rests};
use crate::violation::Crash;
use crate::{Subject, images};

/// The image in which something broke: an outcome for each line.
type Broken = (Vec<usize>, Box<Failure>);

/// What it costs to look at a line of a crash point, or of one of its images, in accesses to
/// memory.
const LINE_WORK: u64 = 3;

/// What a crash point may choose from: outcomes of the lines with pending stores, then of those
/// that the crash before has left undecided.
fn ranges(machine: &mut Machine, walk: &Walk, scope: Scope) -> Vec<Range> {
    let mut ranges = machine.ranges(scope);
    ranges.extend(walk.inherited.iter().map(|line| line.range()));
    ranges
}

impl<S: Subject> Explorer<'_, S> {
    /// Tries the images of one crash point, up to the first failure; returns how many were left
    /// out.
    pub(super) fn crash_at(
        &mut self,
        machine: &mut Machine,
        walk: &Walk,
        event: usize,
        scope: Scope,
    ) -> Result<u64, Failure> {
        let (mut until, mut budget) = (walk.until, walk.budget);
        if !walk.is_inner() {
            budget = budget.min(self.allow());
            until = self.tally.recoveries.saturating_add(self.allowance);
        }
        let walk = &Walk { moment: walk.moment_after(event), until, budget, ..*walk };
        let samples = self.tally.samples;
        let ranges = ranges(machine, walk, scope);
        self.tally.spend(LINE_WORK * ranges.len() as u64);
        let few = images::listed(&ranges) <= walk.budget;
        let tried = if walk.budget == 0 {
            Ok(images::possible(&ranges))
        } else if few {
            self.try_all(machine, walk, &ranges)
        } else {
            self.try_what_differs(machine, walk, &ranges)
        };
        let (mut choice, mut found) = match tried {
            Ok(left_out) => {
                self.leave_out(left_out);
                if !walk.is_inner() {
                    let is_sample = self.tally.samples > samples;
                    self.tally.note_samples(walk.during, u64::from(is_sample));
                    self.tally.lazily_exhaustive_points += u64::from(!is_sample && !few);
                }
                return Ok(left_out);
            }
            Err((choice, found)) => (choice, *found),
        };
        found.settled.drain(..).for_each(|(line, outcome)| choice[line] = outcome);
        if self.reduces {
            (choice, found) = self.reduce(machine, choice, found, walk);
        }
        let crash = Crash::new(self.subject, walk.during, walk.trace, event, machine, &choice);
        let inherited = &choice[choice.len() - walk.inherited.len()..];
        let settled = walk
            .inherited
            .iter()
            .zip(inherited)
            .map(|(line, place)| (line.line, line.outcomes[*place]))
            .collect();
        // What follows a recovery has a moment of its own; the counterexample speaks of the
        // outermost crash.
        Err(Failure {
            moment: walk.moment,
            crashes: [vec![crash], found.crashes].concat(),
            error: found.error,
            settled,
        })
    }

    /// Whether a crash point of the operations needs no try, since it differs from those before it
    /// in words that nothing reads. One with few images is tried all the same.
    pub(super) fn skips_unread(
        &mut self,
        machine: &mut Machine,
        walk: &Walk,
        scope: Scope,
        stored: &[usize],
    ) -> bool {
        if walk.is_inner() || matches!(scope, Scope::All) || !self.chain.has_read_none_of(stored) {
            return false;
        }
        let ranges = ranges(machine, walk, scope);
        if images::listed(&ranges) <= walk.budget {
            return false;
        }
        if self.chain.is_whole(self.tally.samples) {
            self.tally.lazily_exhaustive_points += 1;
        } else {
            let samples = self.tally.samples;
            self.leave_out(images::possible(&ranges));
            self.tally.note_samples(walk.during, self.tally.samples - samples);
        }
        true
    }

    /// Notes how many images were left out.
    pub(super) fn leave_out(&mut self, images: u64) {
        let Tally { left_out, left_out_deeper, samples, .. } = &mut self.tally;
        if self.deeper {
            *left_out_deeper = left_out_deeper.saturating_add(images);
        } else {
            *left_out = left_out.saturating_add(images);
            *samples += u64::from(images > 0);
        }
    }

    fn try_all(&mut self, machine: &Machine, walk: &Walk, ranges: &[Range]) -> Result<u64, Broken> {
        let mut broken = None;
        let mut images_left = images::listed(ranges);
        images::visit_all(ranges, &mut |choice| {
            let walk = Walk { until: self.share_of_image(walk, images_left), ..*walk };
            images_left -= 1;
            match self.try_image(machine, choice, &walk, Fresh::Required, None) {
                Ok(_) => Continue(()),
                Err(found) => {
                    broken = Some((choice.to_vec(), Box::new(found)));
                    Break(())
                }
            }
        });
        broken.map_or_else(|| Ok(images::unlisted(ranges)), Err)
    }

    /// Each run stands for all images that it could not have told from its own. First come the
    /// extremes, then one out of the largest set that no run stands for yet, drawn by chance;
    /// where the budget ends before the images do, that is the sample.
    fn try_what_differs(
        &mut self,
        machine: &Machine,
        walk: &Walk,
        ranges: &[Range],
    ) -> Result<u64, Broken> {
        let set = ImageSet::new(machine, walk.inherited, ranges);
        let first: Vec<usize> = ranges.iter().map(|range| range.from).collect();
        let hash = set.hash(walk.hash_of(machine, &first));
        if self.going_on_from.is_none()
            && let Some(left_out) = self.known_point(walk, hash)
        {
            self.note_known_reads();
            return Ok(left_out);
        }
        let outer = std::mem::take(&mut self.point_sites);
        let left = self.try_one_of_each(machine, walk, ranges, &set);
        let sites = std::mem::replace(&mut self.point_sites, outer);
        let left = u64::try_from(left?).unwrap_or(u64::MAX);
        let left_out = images::unlisted(ranges).saturating_add(left);
        self.known.insert_point(walk.moment, hash, walk.depth, left_out, sites);
        Ok(left_out)
    }

    /// Returns how many images no run stands for.
    fn try_one_of_each(
        &mut self,
        machine: &Machine,
        walk: &Walk,
        ranges: &[Range],
        set: &ImageSet,
    ) -> Result<u128, Broken> {
        let mut rests = Rests::all(set);
        let mut extremes = images::extremes(ranges);
        for runs_left in (0..walk.budget).rev() {
            if rests.is_empty() {
                break;
            }
            let extreme = extremes.find_map(|choice| Some((rests.take_with(&choice)?, choice)));
            let is_drawn = extreme.is_none();
            let mut drawn = |within: Product| {
                let choice = images::draw(ranges, &within, &mut self.rng);
                (within, choice)
            };
            let Some((within, choice)) = extreme.or_else(|| rests.take_largest().map(&mut drawn))
            else {
                break;
            };
            let among = Among { set, within: &within };
            let walk = Walk { until: self.share_of_image(walk, runs_left + 1), ..*walk };
            self.tally.spend(LINE_WORK * ranges.len() as u64);
            match self.try_image(machine, &choice, &walk, Fresh::Required, Some(among)) {
                Ok(decided) => rests.put_back(set, within, &choice, &decided),
                Err(found) => return Err((choice, Box::new(found))),
            }
            if is_drawn {
                rests.give_up(runs_left);
            }
        }
        Ok(rests.images())
    }

    /// What stands for images that were tried before may have read all that was ever read.
    pub(super) fn note_known_reads(&mut self) {
        match self.baseline {
            Some(_) => self.chain.forget(),
            None => self.chain.read().add(&self.known.read),
        }
    }

    /// How many images were left out of this set where it was tried before: in the program itself
    /// all of them must have been accounted for; a mutant does there what the program did, of which
    /// another sample would be no news.
    fn known_point(&self, walk: &Walk, hash: u128) -> Option<u64> {
        let (moment, depth) = (walk.moment, walk.depth);
        let own = self.known.covers_point(moment, hash, depth, None).filter(|left| *left == 0);
        let of_program = || {
            let site = self.mutant.map(Mutant::site);
            self.baseline?.covers_point(moment, hash, depth, site)
        };
        own.or_else(|| if self.spares(depth) { of_program() } else { None })
    }

    /// Makes as many lines as possible wholly durable, or wholly lost, whichever leaves fewer
    /// exceptions, while it still fails.
    fn reduce(
        &mut self,
        machine: &mut Machine,
        choice: Vec<usize>,
        found: Failure,
        walk: &Walk,
    ) -> (Vec<usize>, Failure) {
        let ranges = ranges(machine, walk, Scope::All);
        let most: Vec<usize> = ranges.iter().map(|range| range.fullest).collect();
        let least: Vec<usize> = ranges.iter().map(|range| range.from).collect();
        let mut best: Option<(usize, Vec<usize>, Failure)> = None;
        for (first, second) in [(&most, &least), (&least, &most)] {
            let (mut choice, mut found) = (choice.clone(), found.clone());
            for goal in [first, second] {
                for i in 0..choice.len() {
                    if choice[i] == first[i] || choice[i] == goal[i] {
                        continue;
                    }
                    let before = std::mem::replace(&mut choice[i], goal[i]);
                    // What the search has spent is not missing here: a recovery is looked into as
                    // far as any.
                    let until = self.tally.recoveries.saturating_add(self.options.recoveries);
                    match self.try_image(
                        machine,
                        &choice,
                        &Walk { until, ..*walk },
                        Fresh::Any,
                        None,
                    ) {
                        Err(still) => found = still,
                        Ok(_) => choice[i] = before,
                    }
                }
            }
            let exceptions = choice.iter().zip(first).filter(|(a, b)| a != b).count();
            if best.as_ref().is_none_or(|(fewest, ..)| exceptions < *fewest) {
                best = Some((exceptions, choice, found));
            }
        }
        best.map_or((choice, found), |(_, choice, found)| (choice, found))
    }
}
