//! Which record an operation is on.

use rand_distr::{Distribution as _, Normal, Zipf};

use super::workloads::Distribution;
use crate::keys::{Draws, Shuffle};

/// The exponent of YCSB.
const EXPONENT: f64 = 0.99;

/// Draws places of records among those that there are.
pub enum Picks {
    /// All alike.
    Uniform,
    /// A rank by Zipf's law, and a random order that says whose rank it is.
    Zipfian(Zipf<f64>, Shuffle),
    /// A rank by Zipf's law, counted from the newest record.
    Latest(Zipf<f64>),
    /// Around the middle, as a part of all records.
    Normal(Normal<f64>),
}

impl Picks {
    /// From `records` records that are there at first; the seed chooses those that are wanted.
    pub fn new(distribution: Distribution, records: u64, seed: u64) -> Self {
        // No panic: there is a record, and exponents and deviations were looked at.
        let zipf = || {
            Zipf::new(records as f64, EXPONENT)
                .expect("at least one record, and an exponent above 0")
        };
        match distribution {
            Distribution::Uniform => Self::Uniform,
            Distribution::Zipfian => Self::Zipfian(zipf(), Shuffle::new(records, seed)),
            Distribution::Latest => Self::Latest(zipf()),
            Distribution::Normal { deviation } => {
                Self::Normal(Normal::new(0.5, deviation).expect("a finite deviation"))
            }
        }
    }

    /// Whether a place is one in the order of keys, and not in that of insertion.
    pub const fn is_in_key_order(&self) -> bool {
        matches!(self, Self::Normal(_))
    }

    /// A place below `records`, of which there are by now at least as many as at first.
    pub fn pick(&self, draws: &mut Draws, records: u64) -> u64 {
        match self {
            Self::Uniform => draws.below(records),
            Self::Zipfian(zipf, order) => order.at(zipf.sample(draws) as u64 - 1),
            Self::Latest(zipf) => records - zipf.sample(draws) as u64,
            Self::Normal(normal) => loop {
                let part = normal.sample(draws);
                if (0.0..1.0).contains(&part) {
                    return (part * records as f64) as u64;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: u64 = 1000;

    fn histogram(distribution: Distribution, records: u64) -> Vec<u64> {
        let (picks, mut draws) = (Picks::new(distribution, RECORDS, 5), Draws::new(7));
        let mut histogram = vec![0; records as usize];
        (0..100_000).for_each(|_| histogram[picks.pick(&mut draws, records) as usize] += 1);
        histogram
    }

    /// The share of rank `r` by Zipf's law among 1000.
    fn zipf(rank: u64) -> f64 {
        let all: f64 = (1..=RECORDS).map(|rank| (rank as f64).powf(-EXPONENT)).sum();
        (rank as f64).powf(-EXPONENT) / all
    }

    #[test]
    fn uniform_picks_are_alike() {
        assert!(histogram(Distribution::Uniform, RECORDS).iter().all(|n| (40..200).contains(n)));
    }

    #[test]
    fn zipfian_picks_follow_the_law_and_are_scattered() {
        let histogram = histogram(Distribution::Zipfian, RECORDS);
        let mut sorted = histogram.clone();
        sorted.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        for rank in [1, 2, 10] {
            let share = sorted[rank as usize - 1] as f64 / 100_000.0;
            assert!(
                (share / zipf(rank) - 1.0).abs() < 0.2,
                "rank {rank}: {share}, by the law {}",
                zipf(rank)
            );
        }
        assert_ne!(histogram[0], sorted[0], "the most wanted record is not the first");
        assert!(histogram.iter().filter(|n| **n > 0).count() > 950);
    }

    #[test]
    fn the_latest_record_is_the_most_wanted() {
        let histogram = histogram(Distribution::Latest, 1200);
        let share = histogram[1199] as f64 / 100_000.0;
        assert!((share / zipf(1) - 1.0).abs() < 0.1, "{share}");
        assert!(histogram[1199] > histogram[1198] && histogram[1190] > histogram[300]);
        assert!(
            histogram[..200].iter().all(|n| *n == 0),
            "as many records are wanted as there were at first"
        );
    }

    #[test]
    fn normal_picks_have_their_deviation() {
        let histogram = histogram(Distribution::Normal { deviation: 0.1 }, RECORDS);
        let near: u64 = histogram[400..600].iter().sum();
        assert!((66_000..70_000).contains(&near), "{near} of 100,000 within a deviation");
    }
}
