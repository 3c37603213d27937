//! `bench figure`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use everleaf_bench::figure::{
    Evidence, Figure, FigureOptions, HAS_PLOTS, Shown, check, evidence, figure_list, figure_png,
    figure_svg, record, run_figure_with_progress,
};
use everleaf_bench::{Made, page};

use super::output::Output;
use super::{Basics, say, show, with_bar};
use crate::failure::failure;
use crate::names;
use everleaf_cli::failure::{Failure, Outcome, complain};

/// Measure a figure of the papers: the table, the paper's values beside ours, a plot (SVG and PNG)
/// and a JSON file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a name, lists the figures. Engines of a figure that this release does not have are left
out and named. Plots are drawn by builds with the feature plots.

Examples:
  everleaf-lab bench figure --list
  everleaf-lab bench figure fptree-7
  everleaf-lab bench figure fptree-4 --keys 1000000 --folder plots --json
  everleaf-lab bench figure --all --folder plots --record docs/evidence.md")]
pub struct Args {
    /// The figure.
    #[arg(value_parser = names::figures(), hide_possible_values = true)]
    name: Option<String>,
    /// List every table, figure and printed result of the papers: the paper's value and the command
    /// that shows it here, or why none does.
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// Run every command of the list, and write what the papers show, ours beside it, to --record.
    /// A command that names its own keys or rounds keeps them.
    #[arg(long, conflicts_with_all = ["name", "list", "json"])]
    all: bool,
    /// With --all: the document, which is replaced.
    #[arg(long, value_name = "FILE", default_value = "docs/evidence.md", requires = "all")]
    record: PathBuf,
    /// With --all: take the figures that are in --folder already and were measured by the same
    /// command, as they are after a run that was interrupted.
    #[arg(long, requires = "all")]
    resume: bool,
    /// Keys of the largest index.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keys: u64,
    /// How often each point is measured; medians are shown.
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: u32,
    /// Where NAME.json and, by the feature plots, NAME.svg and NAME.png are written; made if it is
    /// missing.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    #[command(flatten)]
    basics: Basics,
    /// Print the JSON object instead of tables; with --list one object a line.
    #[arg(long)]
    json: bool,
}

/// Columns of the list.
const COLUMNS: usize = 80;

/// What the papers show.
pub fn the_evidence() -> Vec<Evidence> {
    evidence(include_str!("../../../everleaf-bench/data/evidence.json"))
}

/// Measures and draws.
pub fn run(args: &Args) -> Outcome {
    if args.list {
        return show(&the_evidence(), args.json, String::new(), |one: &Evidence| one.text(COLUMNS));
    }
    if args.all {
        return run_all(args);
    }
    let Some(name) = &args.name else {
        return figure_list()
            .iter()
            .try_for_each(|(name, title)| say(&format!("{name:<14} {title}")));
    };
    let figure = measure(args, &options(args, name, &[])?)?;
    let text = if args.json { as_json(serde_json::to_string(&figure))? } else { figure.table() };
    say(text.trim_end())
}

fn as_json(text: serde_json::Result<String>) -> Result<String, Failure> {
    text.map_err(|error| Failure::failed(error.to_string()))
}

/// A figure's options; those of a command go before the given ones.
fn options(args: &Args, name: &str, command: &[&str]) -> Result<FigureOptions, Failure> {
    let of_command = |option: &str| {
        let at = command.iter().position(|word| *word == option)?;
        command.get(at + 1)?.parse::<u64>().ok()
    };
    Ok(FigureOptions {
        name: name.to_owned(),
        keys: of_command("--keys").unwrap_or(args.keys),
        rounds: of_command("--rounds").map_or(args.rounds, |rounds| rounds as u32),
        seed: args.basics.seed,
        pool: args.basics.place()?,
        program: std::env::current_exe().ok(),
    })
}

/// Measures a figure and writes its files.
fn measure(args: &Args, options: &FigureOptions) -> Result<Figure, Failure> {
    check(options).map_err(failure)?;
    let (name, place) = (&options.name, &options.pool);
    let folders = place.folders_at(&args.folder).map_err(failure)?;
    let open = |ending: &str| Output::open(place, &args.folder.join(format!("{name}.{ending}")));
    // Before the work, not after it.
    let json = open("json")?;
    let plots = if HAS_PLOTS { Some((open("svg")?, open("png")?)) } else { None };
    let figure = with_bar(|tell| run_figure_with_progress(options, tell))?;
    json.write((as_json(serde_json::to_string_pretty(&figure))? + "\n").as_bytes())?;
    if let Some((svg, png)) = plots {
        svg.write(figure_svg(&figure).map_err(failure)?.as_bytes())?;
        png.write(&figure_png(&figure).map_err(failure)?)?;
    } else {
        complain("everleaf: no plots were drawn: build with --features plots");
    }
    folders.into_iter().for_each(Made::leave);
    Ok(figure)
}

/// Runs every command of the list, each once, and writes the record. What cannot be run is told
/// there, and does not keep the others from it.
fn run_all(args: &Args) -> Outcome {
    let place = args.basics.place()?;
    let folders = place.folders_at(&args.folder).map_err(failure)?;
    let output = Output::open(&place, &args.record)?;
    let (mut shown, mut failed) = (BTreeMap::new(), 0);
    let list = the_evidence();
    for one in &list {
        let Some(command) = &one.command else { continue };
        if shown.contains_key(command) {
            continue;
        }
        let start = std::time::Instant::now();
        let what = match one.figure() {
            Some(name) => figure_of(args, name, command),
            None => printed(command),
        };
        let what = match what {
            Err(Failure::Usage(why) | Failure::Failed(why)) => Shown::Failed(why),
            other => other?,
        };
        if let Shown::Failed(why) = &what {
            complain(&format!("everleaf: {command}: {why}"));
            failed += 1;
        }
        say(&format!("{:>6.1} s  {command}", start.elapsed().as_secs_f64()))?;
        shown.insert(command.clone(), what);
    }
    if failed == shown.len() {
        return Err(Failure::failed("no command of the list succeeded; the record is as it was"));
    }
    output.write(record(&list, &shown, &page::facts()).as_bytes())?;
    folders.into_iter().for_each(Made::leave);
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{failed} commands failed; the record says which"))),
    }
}

/// The figure of a command: measured, or taken from the folder if it was measured in the same way.
fn figure_of(args: &Args, name: &str, command: &str) -> Result<Shown, Failure> {
    let words: Vec<&str> = command.split(' ').collect();
    let options = options(args, name, &words)?;
    let known = if args.resume { measured(&args.folder, &options) } else { None };
    let figure = known.map_or_else(|| measure(args, &options), Ok)?;
    Ok(Shown::Figure(Box::new(figure)))
}

fn measured(folder: &Path, options: &FigureOptions) -> Option<Figure> {
    let file = std::fs::read(folder.join(format!("{}.json", options.name))).ok()?;
    let figure: Figure = serde_json::from_slice(&file).ok()?;
    (figure.command == options.command()).then_some(figure)
}

/// What another command of this program prints.
fn printed(command: &str) -> Result<Shown, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::failed(error.to_string()))?;
    let ran = Command::new(program).args(command.split(' ').skip(1)).output();
    let ran = ran.map_err(|error| Failure::failed(error.to_string()))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    Ok(match ran.status.success() {
        true => Shown::Text(text(ran.stdout)),
        false => Shown::Failed(text(ran.stderr)),
    })
}
