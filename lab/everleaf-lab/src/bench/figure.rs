//! `bench figure`.

use std::path::PathBuf;

use everleaf_bench::Made;
use everleaf_bench::figure::{
    Evidence, FigureOptions, HAS_PLOTS, check, evidence, figure_list, figure_png, figure_svg,
    run_figure_with_progress,
};

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
  everleaf-lab bench figure fptree-4 --keys 1000000 --folder plots --json")]
pub struct Args {
    /// The figure.
    #[arg(value_parser = names::figures(), hide_possible_values = true)]
    name: Option<String>,
    /// List every table, figure and printed result of the papers: the paper's value and the command
    /// that shows it here, or why none does.
    #[arg(long, conflicts_with = "name")]
    list: bool,
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

/// Measures and draws.
pub fn run(args: &Args) -> Outcome {
    if args.list {
        return show(&evidence(), args.json, String::new(), |one: &Evidence| one.text(COLUMNS));
    }
    let Some(name) = &args.name else {
        return figure_list()
            .iter()
            .try_for_each(|(name, title)| say(&format!("{name:<14} {title}")));
    };
    let place = args.basics.place()?;
    let options = FigureOptions {
        name: name.clone(),
        keys: args.keys,
        rounds: args.rounds,
        seed: args.basics.seed,
        pool: place.clone(),
        program: std::env::current_exe().ok(),
    };
    check(&options).map_err(failure)?;
    let folders = place.folders_at(&args.folder).map_err(failure)?;
    let open = |ending: &str| Output::open(&place, &args.folder.join(format!("{name}.{ending}")));
    // Before the work, not after it.
    let json = open("json")?;
    let plots = if HAS_PLOTS { Some((open("svg")?, open("png")?)) } else { None };
    let figure = with_bar(|tell| run_figure_with_progress(&options, tell))?;
    let as_json =
        |text: serde_json::Result<String>| text.map_err(|error| Failure::failed(error.to_string()));
    json.write((as_json(serde_json::to_string_pretty(&figure))? + "\n").as_bytes())?;
    if let Some((svg, png)) = plots {
        svg.write(figure_svg(&figure).map_err(failure)?.as_bytes())?;
        png.write(&figure_png(&figure).map_err(failure)?)?;
    } else {
        complain("everleaf: no plots were drawn: build with --features plots");
    }
    folders.into_iter().for_each(Made::leave);
    let text = if args.json { as_json(serde_json::to_string(&figure))? } else { figure.table() };
    say(text.trim_end())
}
