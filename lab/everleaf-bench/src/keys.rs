//! Keys that are computed, not stored: key number `i` of a run is a bijection of `i`, so keys are
//! distinct without a set of those that were used, and a random present key is the key of a random
//! number.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::Order;

/// A random permutation of the numbers `0 .. 2^bits`, by rounds of xor-shift and multiplication by
/// an odd constant. Each of these is a bijection of `bits`-bit words, and so is what they make
/// together.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    bits: u32,
    offset: u64,
}

/// Odd constants of the SplitMix64 finaliser, the third of the 64-bit golden ratio.
pub const MULTIPLIERS: [u64; 3] =
    [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0x9e37_79b9_7f4a_7c15];

impl Permutation {
    /// The permutation of `bits`-bit numbers (1 to 64) that `seed` chooses.
    pub const fn new(bits: u32, seed: u64) -> Self {
        assert!(bits >= 1 && bits <= 64);
        Self { bits, offset: mix(seed) }
    }

    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Where `number`, which must be below `2^bits`, goes to.
    pub const fn apply(self, number: u64) -> u64 {
        let shift = self.bits.div_ceil(2);
        let mut x = number.wrapping_add(self.offset) & self.mask();
        let mut round = 0;
        while round < MULTIPLIERS.len() {
            // A shift by all the bits of a 1-bit word leaves nothing to xor, which is a bijection
            // too.
            x ^= x >> shift;
            x = x.wrapping_mul(MULTIPLIERS[round]) & self.mask();
            round += 1;
        }
        x ^ (x >> shift)
    }
}

/// A random order of `0 .. len`: the permutation of the next power of two, applied until it lands
/// inside.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    permutation: Permutation,
    len: u64,
}

impl Shuffle {
    /// An order of `len` numbers.
    pub const fn new(len: u64, seed: u64) -> Self {
        let bits = if len <= 2 { 1 } else { u64::BITS - (len - 1).leading_zeros() };
        Self { permutation: Permutation::new(bits, seed), len }
    }

    /// The number at place `i < len`.
    pub const fn at(self, i: u64) -> u64 {
        let mut x = self.permutation.apply(i);
        while x >= self.len {
            x = self.permutation.apply(x);
        }
        x
    }
}

/// The finaliser of SplitMix64.
pub const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(MULTIPLIERS[2]);
    x = (x ^ (x >> 30)).wrapping_mul(MULTIPLIERS[0]);
    x = (x ^ (x >> 27)).wrapping_mul(MULTIPLIERS[1]);
    x ^ (x >> 31)
}

/// A reproducible stream of random numbers (SplitMix64): the same on every machine and in every
/// release, which a benchmark's seed needs.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, which is not 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    const fn next(&mut self) -> u64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(MULTIPLIERS[2]);
        word
    }
}

/// A generator for distributions of other crates.
impl rand::TryRng for Draws {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok((self.next() >> 32) as u32)
    }
    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.next())
    }
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        bytes
            .chunks_mut(8)
            .for_each(|chunk| chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]));
        Ok(())
    }
}

/// Keys of a normal distribution around 2^63, distinct and computed: the key of rank `r` among `n`
/// lies at a place between the quantiles of (r + 1/4) / n and (r + 3/4) / n that the seed chooses,
/// and `r` units further up, by which no two are the same. So the keys have the deviation that was
/// asked for where it is much greater than their number, and follow each other without gaps where
/// it is much less.
#[derive(Clone, Copy, Debug)]
struct Bell {
    deviation: f64,
    order: Shuffle,
    total: u64,
    seed: u64,
}

/// Deviations beyond which the keys of as many as there can be would not all be numbers of 64 bits.
pub const MAX_DEVIATION: u64 = 1 << 59;

impl Bell {
    fn number(self, rank: u64) -> u64 {
        let jitter =
            0.25 + 0.5 * (mix(self.seed.wrapping_add(rank)) >> 11) as f64 / (1u64 << 53) as f64;
        let quantile = Normal::standard().inverse_cdf((rank as f64 + jitter) / self.total as f64);
        let offset = (quantile * self.deviation).floor() as i64;
        (1u64 << 63).wrapping_add_signed(offset).wrapping_add(rank).wrapping_sub(self.total / 2)
    }
}

/// The keys of a run in the order in which they are inserted.
#[derive(Clone, Copy, Debug)]
pub struct KeySequence {
    order: Order,
    permutation: Permutation,
    total: u64,
    bell: Option<Bell>,
}

impl KeySequence {
    /// `total` distinct numbers of `bits` bits; there must be as many.
    pub const fn new(order: Order, bits: u32, total: u64, seed: u64) -> Self {
        Self { order, permutation: Permutation::new(bits, seed), total, bell: None }
    }

    /// The same with numbers of a normal distribution, of 64 bits, with this standard deviation (1
    /// to [`MAX_DEVIATION`]).
    pub const fn normal(mut self, deviation: u64, seed: u64) -> Self {
        let order = Shuffle::new(self.total, seed);
        self.bell =
            Some(Bell { deviation: deviation as f64, order, total: self.total, seed: mix(seed) });
        self
    }

    /// The number behind the `i`-th key.
    pub fn number(self, i: u64) -> u64 {
        if let Some(bell) = self.bell {
            return bell.number(match self.order {
                Order::Random => bell.order.at(i),
                Order::Ascending => i,
                Order::Descending => self.total - 1 - i,
            });
        }
        match self.order {
            Order::Random => self.permutation.apply(i),
            Order::Ascending => i,
            Order::Descending => self.total - 1 - i,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn permutations_of_few_bits_are_bijections() {
        for bits in 1..=14 {
            for seed in [0, 1, 42, u64::MAX] {
                let permutation = Permutation::new(bits, seed);
                let images: HashSet<u64> = (0..1 << bits).map(|i| permutation.apply(i)).collect();
                assert_eq!(images.len(), 1 << bits, "{bits} bits, seed {seed}");
                assert!(images.iter().all(|x| *x < 1 << bits), "{bits} bits, seed {seed}");
            }
        }
    }

    #[test]
    fn permutations_of_many_bits_are_injective_on_a_sample_and_stay_inside() {
        for bits in 15..=64 {
            let permutation = Permutation::new(bits, 7);
            let images: HashSet<u64> = (0..10_000).map(|i| permutation.apply(i)).collect();
            assert_eq!(images.len(), 10_000, "{bits} bits");
            assert!(bits == 64 || images.iter().all(|x| x >> bits == 0), "{bits} bits");
        }
    }

    #[test]
    fn permuted_numbers_look_random() {
        for bits in [16, 20, 32, 48, 64] {
            let permutation = Permutation::new(bits, 3);
            let numbers: Vec<u64> = (0..4096).map(|i| permutation.apply(i)).collect();
            let ascents = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
            assert!((1900..2200).contains(&ascents), "{bits} bits: {ascents} ascents of 4095");
            let mut sixteenths = [0u32; 16];
            numbers.iter().for_each(|x| sixteenths[(x >> (bits - 4)) as usize] += 1);
            assert!(
                sixteenths.iter().all(|n| (180..340).contains(n)),
                "{bits} bits: {sixteenths:?}"
            );
        }
    }

    #[test]
    fn shuffles_visit_every_number_once() {
        for len in [1, 2, 3, 5, 64, 65, 1000, 4097] {
            let shuffle = Shuffle::new(len, 9);
            let seen: HashSet<u64> = (0..len).map(|i| shuffle.at(i)).collect();
            assert_eq!(seen.len() as u64, len);
            assert!(seen.iter().all(|x| *x < len));
        }
    }

    #[test]
    fn sequences_follow_their_order() {
        let numbers = |order| {
            (0..100).map(|i| KeySequence::new(order, 64, 100, 1).number(i)).collect::<Vec<_>>()
        };
        assert!(numbers(Order::Ascending).is_sorted_by(|a, b| a < b));
        assert!(numbers(Order::Descending).is_sorted_by(|a, b| a > b));
        assert!(!numbers(Order::Random).is_sorted());
    }

    #[test]
    fn normal_keys_are_distinct_and_have_their_deviation() {
        for (total, deviation) in [
            (1, 5),
            (2, 1),
            (50_000, 1),
            (50_000, 50_000),
            (50_000, 1 << 30),
            (50_000, MAX_DEVIATION),
        ] {
            let numbers = |order, seed| -> Vec<u64> {
                let sequence = KeySequence::new(order, 64, total, seed).normal(deviation, seed);
                (0..total).map(|i| sequence.number(i)).collect()
            };
            let ascending = numbers(Order::Ascending, 7);
            assert!(ascending.is_sorted_by(|a, b| a < b), "{total} keys, deviation {deviation}");
            assert!(numbers(Order::Descending, 7).iter().rev().eq(&ascending));
            let mut random = numbers(Order::Random, 7);
            assert!(total < 3 || !random.is_sorted() && random != numbers(Order::Random, 8));
            random.sort_unstable();
            assert_eq!(random, ascending, "the order decides nothing else");
            if deviation > 1 << 20 && total > 1000 {
                let away = |number: &u64| number.wrapping_sub(1 << 63) as i64 as f64;
                let mean = ascending.iter().map(away).sum::<f64>() / total as f64;
                let variance =
                    ascending.iter().map(|number| (away(number) - mean).powi(2)).sum::<f64>()
                        / total as f64;
                assert!(
                    (variance.sqrt() / deviation as f64 - 1.0).abs() < 0.01
                        && mean.abs() < 0.01 * deviation as f64
                );
                let near =
                    ascending.iter().filter(|number| away(number).abs() < deviation as f64).count();
                assert!(
                    (0.67..0.695).contains(&(near as f64 / total as f64)),
                    "{near} within a deviation"
                );
            }
        }
    }

    #[test]
    fn draws_stay_below_their_bound_and_repeat_with_the_seed() {
        let (mut a, mut b) = (Draws::new(5), Draws::new(5));
        let drawn: Vec<u64> = (0..1000).map(|_| a.below(10)).collect();
        assert!(drawn.iter().all(|x| *x < 10));
        assert_eq!(drawn, (0..1000).map(|_| b.below(10)).collect::<Vec<_>>());
        assert!((0..10).all(|x| drawn.contains(&x)));
    }
}
