//! `info`: what a pool is and how full.

use std::io::Write;
use std::path::PathBuf;

use everleaf::internal::InjectedAborts;
use everleaf::internal::key_type_name;
use everleaf::statistics::InnerFrom;
use everleaf::{OpenOptions, Shutdown, Store};
use serde::Serialize;

use super::trees::{Row, bytes_in, rows};
use crate::escape::Controls;
use crate::failure::{Failure, Outcome};
use crate::open;
use crate::rtm::Rtm;
use crate::size::{display_count, display_counted, display_size};

/// Show the kind of a pool, how full it is, and what it promises.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf info words.pool --json
  everleaf info words.pool --trees")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// Which transactions to open it with (engine fptree-c).
    #[arg(long, value_name = "WHICH", default_value = "off")]
    rtm: Rtm,
    /// Show every tree with the bytes of its keys and values, which are all read for it.
    #[arg(long)]
    trees: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The keys are a contract, and so is the order of the first ten; what else there is comes behind
/// them.
#[derive(Serialize)]
struct Report {
    engine: &'static str,
    key_type: &'static str,
    keys: u64,
    pm_bytes: u64,
    dram_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    durability: String,
    shutdown: &'static str,
    recovery_ms: f64,
    total_bytes: u64,
    max_bytes: u64,
    medium: String,
    flush: String,
    eadr: bool,
    hint: Option<String>,
    height: u32,
    leaves: u64,
    inner_nodes: u64,
    recovered_writes: u64,
    fill: Option<f64>,
    fragmentation: f64,
    trees: usize,
    concurrency: &'static str,
    durability_mode: String,
    reserve_bytes: u64,
    /// Whether a log stands beside the pool.
    log: bool,
    /// Where inner nodes came from: `pool`, `image` or `leaves`.
    inner_from: &'static str,
    /// Why there was no image to be taken, if the engine has any.
    no_image: Option<String>,
    /// How nodes of which several words change together are written: `line`, `log` or `copy`.
    node_writes: Option<&'static str>,
    /// Bytes of the index's nodes in the pool, without records of keys and values.
    node_bytes: u64,
    /// Keys of the pool's own tree.
    own_keys: u64,
    /// Bytes of its keys and values, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    own_bytes: Option<u64>,
    /// The named trees.
    named_trees: Vec<Row>,
}

impl Report {
    fn of(store: &Store, controls: Controls, count: bool) -> Result<Self, Failure> {
        let statistics = store.statistics()?;
        let named_trees = rows(store, controls, count)?;
        Ok(Self {
            engine: statistics.engine.name(),
            key_type: key_type_name(statistics.key_type),
            keys: store.len_of_all_trees()?,
            pm_bytes: statistics.pm_bytes,
            dram_bytes: statistics.dram_bytes,
            used_bytes: statistics.used_bytes,
            free_bytes: statistics.free_bytes,
            durability: statistics.durability.to_string(),
            shutdown: match statistics.shutdown {
                Shutdown::Clean => "clean",
                Shutdown::Crash => "crash",
            },
            recovery_ms: (statistics.recovery_ms * 1000.0).round() / 1000.0,
            total_bytes: statistics.total_bytes,
            max_bytes: statistics.max_bytes,
            medium: statistics.medium.to_string(),
            flush: statistics.flush.to_string(),
            eadr: statistics.caches_persist,
            hint: statistics.dax_hint.map(|hint| hint.to_string()),
            height: statistics.height,
            leaves: statistics.leaves,
            inner_nodes: statistics.inner_nodes,
            recovered_writes: statistics.recovered_writes,
            fill: statistics.fill,
            fragmentation: statistics.fragmentation,
            trees: named_trees.len(),
            concurrency: statistics.concurrency.name(),
            durability_mode: statistics.durability_mode.to_string(),
            reserve_bytes: statistics.reserve_bytes,
            log: statistics.log,
            inner_from: statistics.inner_from.name(),
            no_image: match statistics.inner_from {
                InnerFrom::Leaves(why) => Some(why.to_string()),
                _ => None,
            },
            node_writes: statistics.node_writes,
            node_bytes: statistics.node_bytes,
            own_keys: store.len()?,
            own_bytes: count.then(|| bytes_in(store)).transpose()?,
            named_trees,
        })
    }
}

impl Report {
    fn for_people(&self) -> String {
        let Self { engine, key_type, height, medium, durability, shutdown, recovery_ms, .. } = self;
        let buffered = self.durability_mode.starts_with("buffered");
        let promise = match durability.as_str() {
            "power-fail" if buffered => {
                "a power failure leaves a state of at most so many milliseconds ago, and what was \
                 synced"
            }
            "process-crash" if buffered => {
                "a crash of the process, not of the machine, leaves a state of at most so many \
                 milliseconds ago, and what was synced"
            }
            "power-fail" => "what is acknowledged survives a power failure",
            "process-crash" => {
                "what is acknowledged survives a crash of the process, not of the machine"
            }
            _ => "nothing survives the process",
        };
        let flush = match (self.flush.as_str(), durability.as_str()) {
            _ if self.log => "into the log beside the pool".to_owned(),
            ("none", "power-fail") => "sfence alone: the device's power supply covers the caches \
                 (eADR)"
                .to_owned(),
            ("none", _) => "none: what the caches hold outlives the process".to_owned(),
            (flush, _) => format!("{flush} for each line, and sfence"),
        };
        let hint = self.hint.iter().map(|hint| format!("hint        {hint}\n")).collect::<String>();
        let nodes = match self.node_writes {
            Some("line") => "nodes       written as whole lines\n",
            Some("copy") => "nodes       copied, and led to by one word\n",
            Some(_) => "nodes       written word by word, by a log in the pool\n",
            None => "",
        };
        let threads = match self.concurrency {
            "rtm" => "kept apart by transactions of the processor (rtm), and locks of leaves",
            "simulated-rtm" => "kept apart by simulated transactions",
            "version-locks" => "kept apart by version-locks",
            _ => "write one at a time (one-lock)",
        };
        let inner = match (self.inner_from, &self.no_image) {
            ("image", _) => ", inner nodes from the image".to_owned(),
            (_, Some(why)) => format!(", inner nodes rebuilt from the leaves: {why}"),
            _ => String::new(),
        };
        format!(
            "engine      {engine}\n\
             keys        {keys} ({key_type})\n\
             tree        height {height}, leaves {leaves}{fill}, inner nodes {inner_nodes}; \
             {trees}\n\
             {by_tree}\
             index       {nodes_size} in the pool, {dram} of memory\n\
             pool        {used} of {total} in use, {free} free ({fragmentation:.0} percent of it \
             between others), grows up to {max}\n\
             {nodes}\
             threads     {threads}\n\
             durability  {durability} on {medium}, {mode}: {promise}\n\
             flush       {flush}\n\
             {hint}\
             shutdown    {shutdown}; opened in {recovery_ms:.3} ms{inner}\n",
            keys = display_count(self.keys),
            leaves = display_count(self.leaves),
            fill = self
                .fill
                .map_or(String::new(), |fill| format!(", {:.0} percent full", fill * 100.0)),
            trees = display_counted(self.trees as u64, "named tree"),
            by_tree = self.by_tree(),
            mode = self.durability_mode,
            fragmentation = self.fragmentation * 100.0,
            inner_nodes = display_count(self.inner_nodes),
            nodes_size = display_size(self.node_bytes),
            dram = display_size(self.dram_bytes),
            used = display_size(self.used_bytes),
            total = display_size(self.total_bytes),
            free = display_size(self.free_bytes),
            max = display_size(self.max_bytes),
        )
    }
}

impl Report {
    /// The keys of each tree, if there are named ones, a line each: no more than fit a screen,
    /// unless their bytes were asked for.
    fn by_tree(&self) -> String {
        const SHOWN: usize = 20;
        if self.named_trees.is_empty() && self.own_bytes.is_none() {
            return String::new();
        }
        let shown = if self.own_bytes.is_some() { usize::MAX } else { SHOWN };
        let line = |name: &str, keys, bytes: Option<u64>| {
            let bytes = bytes.map_or(String::new(), |bytes| format!(", {}", display_size(bytes)));
            format!("              {name}: {keys}{bytes}\n")
        };
        let own = display_counted(self.own_keys, "key");
        let mut text = line("the pool's own tree", own, self.own_bytes);
        for Row { name, key_type, keys, bytes } in self.named_trees.iter().take(shown) {
            text += &line(name, format!("{} ({key_type})", display_counted(*keys, "key")), *bytes);
        }
        if let Some(more @ 1..) = self.named_trees.len().checked_sub(shown) {
            text += &line(
                "more",
                format!("{}; `everleaf trees` lists all", display_count(more as u64)),
                None,
            );
        }
        text
    }
}

/// Shows.
pub fn run(args: Args) -> Outcome {
    let options = OpenOptions::new().transactions(args.rtm.with(1, InjectedAborts::Nothing)?);
    let store = open::to_read_with(&args.pool, &options)?;
    let controls = if args.json { Controls::Kept } else { Controls::on_stdout() };
    let report = Report::of(&store, controls, args.trees)?;
    let text = if args.json {
        serde_json::to_string(&report).map_err(|error| Failure::failed(error.to_string()))? + "\n"
    } else {
        report.for_people()
    };
    let mut output = std::io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Failure::output(&error))
}
