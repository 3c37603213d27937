//! Choosing outcomes: all combinations where they are few, the telling ones and a seeded sample where they are many.

use std::collections::HashSet;
use std::ops::ControlFlow;

use rand::RngExt;
use rand::rngs::SmallRng;

use crate::domain::Range;

/// Combinations that the ranges allow.
pub(crate) fn possible(ranges: &[Range]) -> u64 {
    ranges.iter().fold(1, |product: u64, range| product.saturating_mul(range.possible))
}

/// Calls `each` with one outcome for each range, at most `budget` times or so, until it breaks off. Returns how many of the possible combinations were
/// left out (not those after a break).
pub(crate) fn visit(ranges: &[Range], budget: u64, rng: &mut SmallRng, each: &mut dyn FnMut(&[usize]) -> ControlFlow<()>) -> u64 {
    if ranges.iter().any(|range| range.from == range.to) {
        return 0;
    }
    let listed = ranges.iter().fold(1, |product: u64, range| product.saturating_mul((range.to - range.from) as u64));
    let visited = if listed <= budget { visit_all(ranges, each) } else { sample(ranges, budget, rng, each) };
    possible(ranges).saturating_sub(visited)
}

/// The combination with nothing durable comes first; returns how many there are.
fn visit_all(ranges: &[Range], each: &mut dyn FnMut(&[usize]) -> ControlFlow<()>) -> u64 {
    let mut choice: Vec<usize> = ranges.iter().map(|range| range.from).collect();
    let mut visited = 0;
    loop {
        visited += 1;
        if each(&choice).is_break() {
            return visited;
        }
        let Some(digit) = (0..choice.len()).find(|i| choice[*i] + 1 < ranges[*i].to) else { return visited };
        choice[digit] += 1;
        for (place, range) in choice.iter_mut().zip(ranges).take(digit) {
            *place = range.from;
        }
    }
}

fn sample(ranges: &[Range], budget: u64, rng: &mut SmallRng, each: &mut dyn FnMut(&[usize]) -> ControlFlow<()>) -> u64 {
    let mut seen: HashSet<Vec<usize>> = HashSet::new();
    let mut candidates = telling(ranges).chain(std::iter::repeat_with(|| draw(ranges, rng)));
    // Chance repeats itself: so many draws, and no more.
    for choice in candidates.by_ref().take(budget.saturating_mul(2) as usize) {
        if seen.len() as u64 >= budget {
            break;
        }
        if seen.insert(choice.clone()) && each(&choice).is_break() {
            break;
        }
    }
    seen.len() as u64
}

/// Nothing durable, everything durable, each domain the only durable one, each the only one that is not.
fn telling(ranges: &[Range]) -> impl Iterator<Item = Vec<usize>> {
    let least: Vec<usize> = ranges.iter().map(|range| range.from).collect();
    let most: Vec<usize> = ranges.iter().map(|range| range.fullest).collect();
    let extremes = [least.clone(), most.clone()];
    let alone = (0..ranges.len()).flat_map(move |i| {
        let (mut only, mut missing) = (least.clone(), most.clone());
        (only[i], missing[i]) = (most[i], least[i]);
        [only, missing]
    });
    extremes.into_iter().chain(alone)
}

/// Extremes are likelier than what lies between: most errors need one line early and another late.
fn draw(ranges: &[Range], rng: &mut SmallRng) -> Vec<usize> {
    let pick = |range: &Range| match rng.random_range(0..3u8) {
        0 => range.from,
        1 => range.fullest,
        _ => rng.random_range(range.from..range.to),
    };
    ranges.iter().map(pick).collect()
}
