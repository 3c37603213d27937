//! What a crash may leave of each line.

use std::cell::RefCell;
use std::rc::Rc;

/// Some outcomes of each line: all images that combine them. An outcome is the place that it has in
/// the line's whole list.
pub(crate) type Product = Vec<Rc<[usize]>>;

/// What a line may hold: one of its outcomes (under eADR, all lines together). It is made once and
/// shared by all crash points at which the line can be left in the same ways.
#[derive(Debug)]
pub(crate) struct LineOutcomes {
    /// The words in which the outcomes differ.
    pub words: Vec<usize>,
    /// What these words hold: outcome after outcome.
    values: Vec<u64>,
    /// By outcome: the hash of these words.
    pub hashes: Vec<u128>,
    /// The same with another outcome as the first, by its place.
    reordered: RefCell<Vec<(usize, Rc<LineOutcomes>)>>,
}

impl LineOutcomes {
    /// Of outcomes that are given by what they change of `floor`.
    pub fn of<'c>(
        outcomes: impl Iterator<Item = &'c [(usize, u64)]> + Clone,
        floor: &[u64],
    ) -> Rc<Self> {
        let mut words: Vec<usize> =
            outcomes.clone().flat_map(|changes| changes.iter().map(|(word, _)| *word)).collect();
        words.sort_unstable();
        words.dedup();
        let mut values = Vec::with_capacity(words.len() * outcomes.clone().count());
        let mut count = 0;
        for changes in outcomes {
            let begin = values.len();
            values.extend(words.iter().map(|word| floor[*word]));
            for (word, value) in changes {
                if let Ok(place) = words.binary_search(word) {
                    values[begin + place] = *value;
                }
            }
            count += 1;
        }
        Self::reduced(words, values, count)
    }

    /// Without the words in which there is no difference.
    fn reduced(mut words: Vec<usize>, mut values: Vec<u64>, count: usize) -> Rc<Self> {
        let width = words.len();
        let differs = |place: usize| {
            (1..count).any(|outcome| values[outcome * width + place] != values[place])
        };
        let places: Vec<usize> = (0..width).filter(|place| differs(*place)).collect();
        if places.len() < width {
            let kept = |outcome: usize| places.iter().map(move |place| outcome * width + place);
            values = (0..count).flat_map(kept).map(|at| values[at]).collect();
            words = places.iter().map(|place| words[*place]).collect();
        }
        let width = words.len();
        let hash = |outcome: usize| {
            let content = &values[outcome * width..][..width];
            words.iter().zip(content).fold(0, |hash, (word, value)| hash ^ word_hash(*word, *value))
        };
        let hashes = (0..count).map(hash).collect();
        Rc::new(Self { words, values, hashes, reordered: RefCell::default() })
    }

    /// What word `place` holds after an outcome.
    pub fn value(&self, outcome: usize, place: usize) -> u64 {
        self.values[outcome * self.words.len() + place]
    }

    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// Of these outcomes alone, in this order.
    pub fn selected(&self, outcomes: &[usize]) -> Rc<Self> {
        let width = self.words.len();
        let content = |outcome: &usize| &self.values[outcome * width..][..width];
        let values = outcomes.iter().flat_map(content).copied().collect();
        Self::reduced(self.words.clone(), values, outcomes.len())
    }

    /// Of all outcomes, `first` before the others.
    pub fn beginning_with(self: &Rc<Self>, first: usize) -> Rc<Self> {
        if first == 0 {
            return self.clone();
        }
        let mut reordered = self.reordered.borrow_mut();
        if let Some((_, known)) = reordered.iter().find(|(place, _)| *place == first) {
            return known.clone();
        }
        let others = (0..self.count()).filter(|outcome| *outcome != first);
        let made = self.selected(&[first].into_iter().chain(others).collect::<Vec<_>>());
        reordered.push((first, made.clone()));
        made
    }

    /// A number for the outcomes, whatever their order.
    pub fn hash(&self) -> u128 {
        self.hashes.iter().fold(0, |sum, hash| sum.wrapping_add(*hash))
    }
}

/// Hash of one word at its place; the hash of an image is the exclusive or over its words, so that
/// a change costs two of these.
pub(crate) fn word_hash(word: usize, value: u64) -> u128 {
    let place = (word as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (low, high) = (
        mix(value ^ place),
        mix(value.rotate_left(32).wrapping_add(place) ^ 0xd6e8_feb8_6659_fd93),
    );
    u128::from(high) << 64 | u128::from(low)
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
