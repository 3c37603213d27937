//! Choosing outcomes: all combinations, the extremes, or some by chance.

use std::ops::ControlFlow;
use std::rc::Rc;

use rand::RngExt;
use rand::rngs::SmallRng;

use crate::domain::Range;
use crate::outcomes::Product;

/// Combinations that the ranges allow.
pub(crate) fn possible(ranges: &[Range]) -> u64 {
    ranges.iter().fold(1, |product: u64, range| product.saturating_mul(range.possible))
}

/// Combinations of the outcomes that were listed.
pub(crate) fn listed(ranges: &[Range]) -> u64 {
    ranges
        .iter()
        .fold(1, |product: u64, range| product.saturating_mul((range.to - range.from) as u64))
}

/// How many combinations cannot be chosen because not all outcomes were listed.
pub(crate) fn unlisted(ranges: &[Range]) -> u64 {
    let is_cut = ranges.iter().any(|range| range.possible > (range.to - range.from) as u64);
    possible(ranges).saturating_sub(listed(ranges)).max(u64::from(is_cut))
}

/// Calls `each` with one outcome for each range, in all combinations, until it breaks off. The one
/// with nothing durable comes first.
pub(crate) fn visit_all(ranges: &[Range], each: &mut dyn FnMut(&[usize]) -> ControlFlow<()>) {
    if listed(ranges) == 0 {
        return;
    }
    let mut choice: Vec<usize> = ranges.iter().map(|range| range.from).collect();
    while each(&choice).is_continue() {
        let Some(digit) = (0..choice.len()).find(|i| choice[*i] + 1 < ranges[*i].to) else {
            return;
        };
        choice[digit] += 1;
        for (place, range) in choice.iter_mut().zip(ranges).take(digit) {
            *place = range.from;
        }
    }
}

/// Nothing durable, everything durable, each domain the only durable one, each the only one that is
/// not.
pub(crate) fn extremes(ranges: &[Range]) -> impl Iterator<Item = Vec<usize>> {
    let least: Vec<usize> = ranges.iter().map(|range| range.from).collect();
    let most: Vec<usize> = ranges.iter().map(|range| range.fullest).collect();
    let both = [least.clone(), most.clone()];
    let alone = (0..ranges.len()).flat_map(move |i| {
        let (mut only, mut missing) = (least.clone(), most.clone());
        (only[i], missing[i]) = (most[i], least[i]);
        [only, missing]
    });
    both.into_iter().chain(alone)
}

/// One of some outcomes of each range. Extremes are likelier than what lies between: most errors
/// need one line early and another late.
pub(crate) fn draw(ranges: &[Range], within: &Product, rng: &mut SmallRng) -> Vec<usize> {
    let pick = |(range, outcomes): (&Range, &Rc<[usize]>)| match rng.random_range(0..3u8) {
        0 => outcomes[0],
        1 if outcomes.contains(&range.fullest) => range.fullest,
        _ => outcomes[rng.random_range(0..outcomes.len())],
    };
    ranges.iter().zip(within).map(pick).collect()
}
