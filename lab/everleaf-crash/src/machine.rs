//! The persistence model: what may be durable after a sequence of events. Nothing here knows what
//! the bytes mean.

use std::rc::Rc;

use everleaf_pmem::{LINE, WORD};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::domain::{Domain, PendingStore, Range};
use crate::outcomes::{LineOutcomes, word_hash};
use crate::{Assumptions, Event, images};

/// The thread of operations that run one after another.
pub(crate) const ONLY_THREAD: u16 = 0;

/// Outcomes that are listed of a domain, however few images may be tried: what does not matter of
/// them is never branched on. The subsets of a line write are fewer.
const LISTED_OUTCOMES: u64 = 1024;

/// What is durable for certain, and what waits.
#[derive(Clone)]
pub(crate) struct Machine {
    assumptions: Assumptions,
    floor: Vec<u64>,
    hash: u128,
    /// Ascending keys, none empty. Copies of a machine share what neither has changed.
    domains: Vec<Rc<Domain>>,
    outcome_cap: u64,
    rng: SmallRng,
    units: u32,
    last_unordered: Option<(u16, u64)>,
}

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// More images are possible: those in which this domain has one of its new outcomes.
    Stored(u64),
    /// Fewer images are possible.
    Fenced,
    /// All images are longer now.
    Grown,
    Nothing,
}

/// Which images an enumeration ranges over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    All,
    /// Those in which this domain has an outcome that was not possible at the previous crash point.
    New(u64),
}

impl Machine {
    /// Memory whose every word is durable.
    pub fn new(image: Vec<u64>, assumptions: Assumptions, outcome_cap: u64, seed: u64) -> Self {
        let hash = image_hash(&image);
        Self::hashed(image, hash, assumptions, outcome_cap, seed)
    }

    /// The same for an image whose hash is known.
    pub fn hashed(
        floor: Vec<u64>,
        hash: u128,
        assumptions: Assumptions,
        outcome_cap: u64,
        seed: u64,
    ) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        let outcome_cap = outcome_cap.max(LISTED_OUTCOMES);
        Self {
            assumptions,
            floor,
            hash,
            domains: Vec::new(),
            outcome_cap,
            rng,
            units: 0,
            last_unordered: None,
        }
    }

    pub fn floor(&self) -> &[u64] {
        &self.floor
    }

    /// The memory that it used for the floor.
    pub fn into_floor(self) -> Vec<u64> {
        self.floor
    }

    /// Whether something visible is not durable for certain.
    pub fn has_pending(&self) -> bool {
        !self.domains.is_empty()
    }

    /// Takes one event in. `fresh` is what grown memory holds, by word from offset 0.
    pub fn apply(&mut self, thread: u16, event: &Event, fresh: &[u64]) -> Effect {
        let last_unordered = self.last_unordered.take();
        match *event {
            Event::Store { offset, new, .. } => {
                self.store(PendingStore { word: word_of(offset), value: new, thread, unit: None })
            }
            Event::UnorderedStore { offset, new, .. } => {
                let continues = last_unordered == Some((thread, offset.wrapping_sub(WORD as u64)))
                    && offset % LINE as u64 != 0;
                self.units += u32::from(!(self.assumptions.atomic_line && continues));
                self.last_unordered = Some((thread, offset));
                self.store(PendingStore {
                    word: word_of(offset),
                    value: new,
                    thread,
                    unit: Some(self.units),
                })
            }
            Event::Flush { line, .. } if !self.assumptions.eadr => {
                if let Ok(place) = self.domains.binary_search_by_key(&line, |domain| domain.key) {
                    Rc::make_mut(&mut self.domains[place]).flush(thread);
                }
                Effect::Nothing
            }
            Event::Fence { .. } => {
                self.fence(thread);
                Effect::Fenced
            }
            Event::Load { offset } if self.assumptions.eadr => {
                self.show(thread, word_of(offset));
                Effect::Nothing
            }
            Event::Grow { len } => {
                for word in self.floor.len()..len as usize / WORD {
                    let value = fresh.get(word).copied().unwrap_or(0);
                    self.hash ^= word_hash(word, value);
                    self.floor.push(value);
                }
                Effect::Grown
            }
            _ => Effect::Nothing,
        }
    }

    fn store(&mut self, store: PendingStore) -> Effect {
        let key = if self.assumptions.eadr { 0 } else { (store.word * WORD / LINE) as u64 };
        let place =
            self.domains.binary_search_by_key(&key, |domain| domain.key).unwrap_or_else(|place| {
                self.domains.insert(place, Rc::new(Domain::new(key)));
                place
            });
        Rc::make_mut(&mut self.domains[place]).push(store);
        Effect::Stored(key)
    }

    /// Under eADR: `thread` reads a word. If it sees what another one has stored, that has left the
    /// store buffer, and so has what became visible before.
    fn show(&mut self, thread: u16, word: usize) {
        let Self { floor, hash, .. } = self;
        for domain in &mut self.domains {
            let Some(prefix) = domain.shown(thread, word) else { continue };
            Rc::make_mut(domain).persist_prefix(prefix, |word, value| {
                *hash ^= word_hash(word, floor[word]) ^ word_hash(word, value);
                floor[word] = value;
            });
        }
        self.domains.retain(|domain| !domain.is_empty());
    }

    fn fence(&mut self, thread: u16) {
        let Self { floor, hash, .. } = self;
        for domain in &mut self.domains {
            let Some(prefix) = domain.fenced(thread, self.assumptions.eadr) else { continue };
            Rc::make_mut(domain).fence(thread, prefix, |word, value| {
                *hash ^= word_hash(word, floor[word]) ^ word_hash(word, value);
                floor[word] = value;
            });
        }
        self.domains.retain(|domain| !domain.is_empty());
    }

    // ---- images
    // ---------------------------------------------------------------------------------------------

    /// What an enumeration may choose from, a range of outcomes for each domain. What is asked for
    /// as new is new since the last call.
    pub fn ranges(&mut self, scope: Scope) -> Vec<Range> {
        for domain in self.domains.iter_mut().filter(|domain| domain.is_stale()) {
            Rc::make_mut(domain).refresh(&self.floor, self.outcome_cap, &mut self.rng);
        }
        let is_new = |key| matches!(scope, Scope::New(new) if new == key);
        self.domains.iter().map(|domain| domain.range(is_new(domain.key))).collect()
    }

    /// The hash of the image in which domain `i` has outcome `choice[i]`.
    pub fn hash_of(&self, choice: &[usize]) -> u128 {
        self.chosen(choice)
            .fold(self.hash, |hash, (domain, outcome)| hash ^ domain.outcome(outcome).delta)
    }

    /// The image in which domain `i` has outcome `choice[i]`.
    pub fn image_of(&self, choice: &[usize]) -> Vec<u64> {
        let mut image = Vec::new();
        self.write_image(choice, &mut image);
        image
    }

    /// The same, in place of what `image` held.
    pub fn write_image(&self, choice: &[usize], image: &mut Vec<u64>) {
        image.clone_from(&self.floor);
        for (domain, outcome) in self.chosen(choice) {
            for (word, value) in &domain.outcome(outcome).changes {
                image[*word] = *value;
            }
        }
    }

    /// What domain `i` holds after each outcome of a range.
    pub fn outcomes(&self, i: usize, range: &Range) -> Rc<LineOutcomes> {
        self.domains[i].contents(range, &self.floor)
    }

    /// The pending stores of every domain, with whether they are durable in this image.
    pub fn stores_of(&self, choice: &[usize]) -> Vec<(PendingStore, bool)> {
        self.chosen(choice).flat_map(|(domain, outcome)| domain.stores(outcome)).collect()
    }

    fn chosen(&self, choice: &[usize]) -> impl Iterator<Item = (&Domain, usize)> {
        self.domains.iter().map(|domain| &**domain).zip(choice.iter().copied())
    }
}

/// Whether a crash right after event `i` can leave something that no crash before it could.
pub(crate) fn is_crash_point(events: &[Event], i: usize) -> bool {
    match events[i] {
        Event::Store { .. } | Event::Fence { .. } | Event::Grow { .. } => true,
        // A line write counts as one store: its last word offers all images of the words before it.
        Event::UnorderedStore { offset, .. } => match events.get(i + 1) {
            Some(Event::UnorderedStore { offset: next, .. }) => {
                *next != offset + WORD as u64 || next % LINE as u64 == 0
            }
            _ => true,
        },
        _ => false,
    }
}

pub(crate) fn image_hash(image: &[u64]) -> u128 {
    image.iter().enumerate().fold(0, |hash, (word, value)| hash ^ word_hash(word, *value))
}

fn word_of(offset: u64) -> usize {
    offset as usize / WORD
}

/// Every image that a power failure may leave after `events`, if they began on memory that durably
/// held `before` (its 8-byte words); `None` if there are more than `limit`. Memory grown by the
/// events holds zeros. This is the model by itself, for tests and for the curious.
///
/// ```
/// use everleaf_crash::{Assumptions, crash_images, Event};
/// let events = [
///     Event::Store { offset: 0, old: 0, new: 1 },
///     Event::Store { offset: 8, old: 0, new: 2 },
/// ];
/// let mut images = crash_images(&[0; 8], &events, Assumptions::default(), 100).unwrap();
/// images.sort();
/// // One line, two stores: nothing, the first, or both; never the second alone.
/// let images: Vec<_> = images.iter().map(|words| (words[0], words[1])).collect();
/// assert_eq!(images, [(0, 0), (1, 0), (1, 2)]);
/// ```
pub fn crash_images(
    before: &[u64],
    events: &[Event],
    assumptions: Assumptions,
    limit: u64,
) -> Option<Vec<Vec<u64>>> {
    let events: Vec<(u16, Event)> = events.iter().map(|event| (ONLY_THREAD, *event)).collect();
    crash_images_of_threads(before, &events, assumptions, limit)
}

/// As [`crash_images`], for events of several threads in the order in which they became visible,
/// each with its thread.
pub fn crash_images_of_threads(
    before: &[u64],
    events: &[(u16, Event)],
    assumptions: Assumptions,
    limit: u64,
) -> Option<Vec<Vec<u64>>> {
    let mut machine = Machine::new(before.to_vec(), assumptions, limit, 0);
    for (thread, event) in events {
        machine.apply(*thread, event, &[]);
    }
    let ranges = machine.ranges(Scope::All);
    if images::possible(&ranges) > limit {
        return None;
    }
    let mut all = Vec::new();
    images::visit_all(&ranges, &mut |choice| {
        all.push(machine.image_of(choice));
        std::ops::ControlFlow::Continue(())
    });
    Some(all)
}
