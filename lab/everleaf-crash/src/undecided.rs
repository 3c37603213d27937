//! Images that a recovery cannot tell apart: lines are decided by what is read of them, and by
//! nothing else.
//!
//! A run on one image stands for many: for every image that has the same content in all words that
//! the run has loaded (before storing there), since it would have done the same on each of them.
//! What it stands for is a product again, of some outcomes of each line, and so is each of the
//! rests that are left when a run is taken out of such a product, load by load: those that agree
//! with it up to one load, and there no more.
//!
//! Products of rests are disjoint, and a run of an image in one of them stands for nothing outside
//! of it: up to the load that made this rest it does what the run did that was taken out, and then
//! it finds something else. So when no rest is left, every image is accounted for, and never one
//! twice.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::domain::Range;
use crate::machine::Machine;
use crate::outcomes::{LineOutcomes, Product};

/// How many images a product has.
fn size_of(product: &Product) -> u128 {
    product.iter().fold(1, |size: u128, outcomes| size.saturating_mul(outcomes.len() as u128))
}

/// A line that was left undecided by a crash.
#[derive(Clone, Debug)]
pub(crate) struct UndecidedLine {
    /// Which line of that crash point it is.
    pub line: usize,
    /// Its outcomes there; the first is that of the image which was recovered.
    pub outcomes: Vec<usize>,
    contents: Rc<LineOutcomes>,
}

impl UndecidedLine {
    /// As a line of a crash point that lies behind the one it is of: what it chooses from.
    pub fn range(&self) -> Range {
        let to = self.outcomes.len();
        Range { from: 0, to, fullest: to - 1, possible: to as u64 }
    }

    /// Gives a line of such a crash point the outcome at `place`, in an image that has its first
    /// one.
    pub fn apply(&self, place: usize, image: &mut [u64]) {
        for (at, word) in self.contents.words.iter().enumerate() {
            image[*word] = self.contents.value(place, at);
        }
    }

    /// The words in which its outcomes differ.
    pub fn words(&self) -> impl Iterator<Item = usize> {
        self.contents.words.iter().copied()
    }

    /// What that does to the image's hash.
    pub fn delta(&self, place: usize) -> u128 {
        self.contents.hashes[0] ^ self.contents.hashes[place]
    }
}

/// A line of a crash point.
struct PossibleLine {
    /// The first of its outcomes that can be chosen.
    from: usize,
    contents: Rc<LineOutcomes>,
}

impl PossibleLine {
    fn value(&self, outcome: usize, place: usize) -> u64 {
        self.contents.value(outcome - self.from, place)
    }
}

/// All images of a crash point.
pub(crate) struct ImageSet {
    lines: Vec<PossibleLine>,
    /// The words that differ between images, ascending, each with its line and its place there.
    words: Vec<(usize, usize, usize)>,
}

impl ImageSet {
    /// The lines that the machine has pending stores for, then those that were left undecided by
    /// the crash before.
    pub fn new(machine: &Machine, inherited: &[UndecidedLine], ranges: &[Range]) -> Self {
        let pending = &ranges[..ranges.len() - inherited.len()];
        let of_machine = pending.iter().enumerate().map(|(line, range)| PossibleLine {
            from: range.from,
            contents: machine.outcomes(line, range),
        });
        let inherited =
            inherited.iter().map(|line| PossibleLine { from: 0, contents: line.contents.clone() });
        let lines: Vec<PossibleLine> = of_machine.chain(inherited).collect();
        let mut words =
            Vec::with_capacity(lines.iter().map(|line| line.contents.words.len()).sum());
        for (number, line) in lines.iter().enumerate() {
            let places = line.contents.words.iter().enumerate();
            words.extend(places.map(|(place, word)| (*word, number, place)));
        }
        if !words.is_sorted() {
            words.sort_unstable();
        }
        Self { lines, words }
    }

    /// Every word that differs between images.
    pub fn words(&self) -> impl Iterator<Item = usize> {
        self.words.iter().map(|(word, ..)| *word)
    }

    /// All of them.
    fn whole(&self) -> Product {
        let outcomes =
            |line: &PossibleLine| (line.from..line.from + line.contents.count()).collect();
        self.lines.iter().map(outcomes).collect()
    }

    /// The line of a word, and its place there.
    fn find(&self, word: usize) -> Option<(usize, usize)> {
        let at = self.words.binary_search_by_key(&word, |(word, ..)| *word).ok()?;
        Some((self.words[at].1, self.words[at].2))
    }

    /// Divides a product: keeps the images that agree with one of its images, `choice`, in the
    /// words `decided`; `rest` is given what is taken away of a line, and the product as it was.
    fn divide(
        &self,
        within: &mut Product,
        choice: &[usize],
        decided: &[usize],
        mut rest: impl FnMut(&Product, usize, Rc<[usize]>),
    ) {
        for (number, place) in decided.iter().filter_map(|word| self.find(*word)) {
            let line = &self.lines[number];
            let chosen = line.value(choice[number], place);
            let agrees = |outcome: &usize| line.value(*outcome, place) == chosen;
            if within[number].iter().all(agrees) {
                continue;
            }
            let (same, other): (Vec<usize>, Vec<usize>) =
                within[number].iter().partition(|o| agrees(o));
            rest(within, number, other.into());
            within[number] = same.into();
        }
    }

    /// The lines that are left undecided among the images that agree with `choice` in the words
    /// `decided`.
    pub fn undecided(
        &self,
        within: &Product,
        choice: &[usize],
        decided: &[usize],
    ) -> Vec<UndecidedLine> {
        let mut class = within.clone();
        self.divide(&mut class, choice, decided, |_, _, _| {});
        let undecided = |(number, (line, left)): (usize, (&PossibleLine, &Rc<[usize]>))| {
            let first = choice[number];
            let mut outcomes = Vec::with_capacity(left.len());
            outcomes.push(first);
            outcomes.extend(left.iter().filter(|outcome| **outcome != first));
            let contents = if left.len() == line.contents.count() {
                line.contents.beginning_with(first - line.from)
            } else {
                let places: Vec<usize> =
                    outcomes.iter().map(|outcome| outcome - line.from).collect();
                line.contents.selected(&places)
            };
            UndecidedLine { line: number, outcomes, contents }
        };
        let lines = self.lines.iter().zip(&class).enumerate();
        lines.filter(|(_, (_, left))| left.len() > 1).map(undecided).collect()
    }

    /// A number for this set of images, given the hash of the one in which each line has its first
    /// outcome.
    pub fn hash(&self, first: u128) -> u128 {
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        self.lines.iter().fold(first, |hash, line| {
            hash.rotate_left(29).wrapping_mul(ODD).wrapping_add(line.contents.hash())
        })
    }
}

/// The products that no run stands for yet.
pub(crate) struct Rests {
    /// By size, then by age.
    products: BTreeMap<(u128, usize), Product>,
    added: usize,
    /// Images of products that were given up.
    given_up: u128,
}

impl Rests {
    /// Everything is left.
    pub fn all(images: &ImageSet) -> Self {
        let mut rests = Self { products: BTreeMap::new(), added: 0, given_up: 0 };
        rests.push(images.whole());
        rests
    }

    fn push(&mut self, product: Product) {
        self.products.insert((size_of(&product), self.added), product);
        self.added += 1;
    }

    /// Takes the product out that an image is in, if it is in any.
    pub fn take_with(&mut self, choice: &[usize]) -> Option<Product> {
        let has = |product: &Product| {
            product.iter().zip(choice).all(|(outcomes, chosen)| outcomes.contains(chosen))
        };
        let key = *self.products.iter().find(|(_, product)| has(product))?.0;
        self.products.remove(&key)
    }

    /// Takes the largest product out.
    pub fn take_largest(&mut self) -> Option<Product> {
        self.products.pop_last().map(|(_, product)| product)
    }

    /// Puts back what a run of `choice` does not stand for.
    pub fn put_back(
        &mut self,
        images: &ImageSet,
        mut within: Product,
        choice: &[usize],
        decided: &[usize],
    ) {
        images.divide(&mut within, choice, decided, |before, line, other| {
            let mut rest = before.clone();
            rest[line] = other;
            self.push(rest);
        });
    }

    /// Whether each image has a run that stands for it.
    pub fn is_empty(&self) -> bool {
        self.products.is_empty()
    }

    /// Gives up the smallest products where there are more than `runs`, which is all that are still
    /// to be made.
    pub fn give_up(&mut self, runs: u64) {
        while self.products.len() as u64 > runs {
            let smallest = self.products.pop_first();
            self.given_up = self.given_up.saturating_add(smallest.map_or(0, |((size, _), _)| size));
        }
    }

    /// Images that no run stands for.
    pub fn images(&self) -> u128 {
        self.products.keys().fold(self.given_up, |sum, (size, _)| sum.saturating_add(*size))
    }
}
