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

use crate::domain::{Range, word_hash};
use crate::machine::Machine;

/// Some outcomes of each line: all images that combine them. An outcome is the place that it has in
/// the line's whole list.
pub(crate) type Product = Vec<Rc<[usize]>>;

/// How many images a product has.
fn size_of(product: &Product) -> u128 {
    product.iter().fold(1, |size: u128, outcomes| size.saturating_mul(outcomes.len() as u128))
}

/// A line that a crash may have left in several ways (under eADR: all lines together).
#[derive(Clone, Debug)]
pub(crate) struct UndecidedLine {
    /// Which line of the crash point it is.
    pub line: usize,
    /// The words in which its outcomes differ.
    words: Vec<usize>,
    /// Its outcomes.
    pub outcomes: Vec<usize>,
    /// What each of them has in these words.
    contents: Vec<Vec<u64>>,
}

impl UndecidedLine {
    /// The outcomes of a line of a crash point.
    fn of(machine: &Machine, line: usize, range: &Range) -> Self {
        let outcomes: Vec<usize> = (range.from..range.to).collect();
        let changes = |outcome: &usize| machine.changes(line, *outcome);
        let mut words: Vec<usize> =
            outcomes.iter().flat_map(changes).map(|(word, _)| *word).collect();
        words.sort_unstable();
        words.dedup();
        let floor: Vec<u64> = words.iter().map(|word| machine.floor()[*word]).collect();
        let content = |outcome: &usize| {
            let mut content = floor.clone();
            for (word, value) in changes(outcome) {
                if let Ok(place) = words.binary_search(word) {
                    content[place] = *value;
                }
            }
            content
        };
        let contents = outcomes.iter().map(content).collect();
        Self { line, words, outcomes, contents }.reduced()
    }

    /// Without the words in which there is no difference.
    fn reduced(mut self) -> Self {
        let differs = |place: &usize| {
            self.contents.iter().any(|content| content[*place] != self.contents[0][*place])
        };
        let places: Vec<usize> = (0..self.words.len()).filter(differs).collect();
        self.words = places.iter().map(|place| self.words[*place]).collect();
        self.contents
            .iter_mut()
            .for_each(|content| *content = places.iter().map(|place| content[*place]).collect());
        self
    }

    /// Those of the outcomes that are among `left`, `first` before all others.
    fn narrowed(&self, left: &[usize], first: usize) -> Self {
        let mut outcomes = vec![first];
        outcomes.extend(left.iter().filter(|outcome| **outcome != first));
        let place = |outcome: &usize| {
            self.outcomes.iter().position(|known| known == outcome).expect("one of the line's")
        };
        let contents =
            outcomes.iter().map(|outcome| self.contents[place(outcome)].clone()).collect();
        Self { outcomes, contents, ..self.clone() }.reduced()
    }

    /// As a line of a crash point that lies behind the one it is of: what it chooses from.
    pub fn range(&self) -> Range {
        let to = self.outcomes.len();
        Range { from: 0, to, fullest: to - 1, possible: to as u64 }
    }

    /// Gives a line of such a crash point the outcome at `place`, in an image that has its first
    /// one.
    pub fn apply(&self, place: usize, image: &mut [u64]) {
        self.words
            .iter()
            .zip(&self.contents[place])
            .for_each(|(word, value)| image[*word] = *value);
    }

    /// What that does to the image's hash.
    pub fn delta(&self, place: usize) -> u128 {
        let (first, chosen) = (&self.contents[0], &self.contents[place]);
        let changes = self.words.iter().zip(first.iter().zip(chosen));
        changes.fold(0, |delta, (word, (first, chosen))| {
            delta ^ word_hash(*word, *first) ^ word_hash(*word, *chosen)
        })
    }
}

/// All images of a crash point.
pub(crate) struct ImageSet {
    lines: Vec<UndecidedLine>,
    /// By word: its line, and its place there.
    places: BTreeMap<usize, (usize, usize)>,
    whole: Product,
}

impl ImageSet {
    /// The lines that the machine has pending stores for, then those that were left undecided by
    /// the crash before.
    pub fn new(machine: &Machine, inherited: &[UndecidedLine], ranges: &[Range]) -> Self {
        let pending = ranges.len() - inherited.len();
        let of_machine = ranges[..pending]
            .iter()
            .enumerate()
            .map(|(line, range)| UndecidedLine::of(machine, line, range));
        let numbered = |(i, line): (usize, &UndecidedLine)| {
            let outcomes = (0..line.outcomes.len()).collect();
            UndecidedLine { line: pending + i, outcomes, ..line.clone() }
        };
        let lines: Vec<UndecidedLine> =
            of_machine.chain(inherited.iter().enumerate().map(numbered)).collect();
        let place = |line: &UndecidedLine| -> Vec<(usize, (usize, usize))> {
            line.words.iter().enumerate().map(|(place, word)| (*word, (line.line, place))).collect()
        };
        let places = lines.iter().flat_map(place).collect();
        let whole = lines.iter().map(|line| line.outcomes.as_slice().into()).collect();
        Self { lines, places, whole }
    }

    /// Every word that differs between images.
    pub fn words(&self) -> impl Iterator<Item = usize> {
        self.places.keys().copied()
    }

    /// Divides a product: first the images that agree with one of its images, `choice`, in the
    /// words `decided`; then the rests.
    fn divide(
        &self,
        mut within: Product,
        choice: &[usize],
        decided: &[usize],
    ) -> (Product, Vec<Product>) {
        let mut rests = Vec::new();
        for (line, place) in decided.iter().filter_map(|word| self.places.get(word).copied()) {
            let UndecidedLine { outcomes, contents, .. } = &self.lines[line];
            let content = |outcome: usize| contents[outcome - outcomes[0]][place];
            let (same, other): (Vec<usize>, Vec<usize>) = within[line]
                .iter()
                .partition(|outcome| content(**outcome) == content(choice[line]));
            if !other.is_empty() {
                let mut rest = within.clone();
                rest[line] = other.into();
                rests.push(rest);
                within[line] = same.into();
            }
        }
        (within, rests)
    }

    /// The lines that are left undecided among the images that agree with `choice` in the words
    /// `decided`.
    pub fn undecided(
        &self,
        within: &Product,
        choice: &[usize],
        decided: &[usize],
    ) -> Vec<UndecidedLine> {
        let (class, _) = self.divide(within.clone(), choice, decided);
        let lines = self.lines.iter().zip(&class).filter(|(_, left)| left.len() > 1);
        lines.map(|(line, left)| line.narrowed(left, choice[line.line])).collect()
    }

    /// A number for this set of images, given the hash of the one in which each line has its first
    /// outcome.
    pub fn hash(&self, first: u128) -> u128 {
        let content = |words: &[usize], content: &[u64]| {
            words
                .iter()
                .zip(content)
                .fold(0, |hash: u128, (word, value)| hash ^ word_hash(*word, *value))
        };
        // Whatever their order.
        let outcomes = |line: &UndecidedLine| {
            line.contents
                .iter()
                .fold(0, |sum: u128, outcome| sum.wrapping_add(content(&line.words, outcome)))
        };
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        self.lines.iter().fold(first, |hash, line| {
            hash.rotate_left(29).wrapping_mul(ODD).wrapping_add(outcomes(line))
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
    pub fn all(space: &ImageSet) -> Self {
        let mut rests = Self { products: BTreeMap::new(), added: 0, given_up: 0 };
        rests.push(space.whole.clone());
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
        space: &ImageSet,
        within: Product,
        choice: &[usize],
        decided: &[usize],
    ) {
        for rest in space.divide(within, choice, decided).1 {
            self.push(rest);
        }
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
