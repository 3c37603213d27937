//! `explore --disk`.

use std::io::Write;

use everleaf::Engine;
use everleaf_testkit::{DiskCase, DiskReport};
use serde::Serialize;

use everleaf_cli::failure::{Failure, Outcome, complain};
use everleaf_cli::progress::steps_bar;

use super::{Args, script_keys};

/// The first keys are those of every exploration; what else there is comes behind them. A disk has
/// no barriers of an engine, and no mutants here.
#[derive(Serialize)]
struct Summary {
    engine: &'static str,
    operations: u64,
    crash_points: u64,
    states: u64,
    recoveries: u64,
    violations: u64,
    sites: u64,
    sites_reached: u64,
    mutants: Option<u64>,
    mutants_killed: Option<u64>,
    redundant_flushes: u64,
    /// Second cuts are always a sample.
    exhaustive: bool,
    sampled_points: u64,
    /// Images of a crash point at most.
    budget: u64,
    seeds: u64,
    programs: usize,
    failing_disks: u64,
    checkpoints: u64,
    /// Programs whose pool has grown.
    grown: u64,
}

/// Explores the programs of an engine for the seeds from 1 on.
pub fn run(engine: Engine, seeds: u64, budget: u64, args: &Args) -> Outcome {
    let operations = args.ops.unwrap_or(1) as usize;
    let (mut seen, mut programs) = (DiskReport::default(), 0);
    let mut violations: Vec<String> = Vec::new();
    let bar = steps_bar(seeds);
    for seed in 1..=seeds {
        for case in DiskCase::all(engine, script_keys(args), operations, seed, budget) {
            violations.extend(case.explore(&mut seen).err());
            programs += 1;
            bar.set_message(format!("{} images", seen.images));
        }
        bar.set_position(seed);
    }
    bar.finish_and_clear();
    if programs == 0 {
        return Err(Failure::usage(format!("{engine} has no such keys; leave out --keys")));
    }
    let summary = Summary {
        engine: engine.name(),
        operations: seen.operations,
        crash_points: seen.cuts,
        states: seen.images,
        recoveries: seen.recoveries,
        violations: violations.len() as u64,
        sites: 0,
        sites_reached: 0,
        mutants: None,
        mutants_killed: None,
        redundant_flushes: 0,
        exhaustive: false,
        sampled_points: seen.sampled_cuts,
        budget,
        seeds,
        programs,
        failing_disks: seen.failures,
        checkpoints: seen.checkpoints,
        grown: seen.grown,
    };
    let text = if args.json {
        serde_json::to_string(&summary).map_err(|error| Failure::failed(error.to_string()))?
    } else {
        sentence(&summary)
    };
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| Failure::output(&error))?;
    let Some(first) = violations.first() else { return Ok(()) };
    complain(first);
    Err(Failure::failed(format!("{} programs do not survive a power failure", violations.len())))
}

fn sentence(summary: &Summary) -> String {
    let Summary { engine, operations, crash_points, states, recoveries, violations, .. } = summary;
    let Summary { sampled_points, budget, seeds, programs, failing_disks, .. } = summary;
    let Summary { checkpoints, grown, .. } = summary;
    format!(
        "{engine}: {programs} programs of {seeds} seeds, {operations} operations, {crash_points} \
        cuts of the power, {states} images (a sample of {budget} at {sampled_points} cuts), \
        {recoveries} recoveries, {failing_disks} disks that fail, {violations} violations; \
        {checkpoints} checkpoints, {grown} pools have grown"
    )
}
