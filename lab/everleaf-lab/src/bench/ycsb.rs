//! `bench ycsb`.

use everleaf_bench::MicroOptions;
use everleaf_bench::ycsb::{
    Distribution, Record, Workload, YcsbOptions, YcsbReport, run_ycsb_with_progress,
};

use super::subject::{EpochOptions, FlushKind, Scheme};
use super::{show, with_bar};
use crate::failure::failure;
use everleaf_cli::failure::{Failure, Outcome};

/// Run a core workload of YCSB on the store, its peers and indexes: throughput, its course,
/// latencies, bytes per record.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Workloads: a half reads, half updates; b 95 percent reads; c reads; d reads of the latest and 5
percent inserts; e scans and 5 percent inserts; f half reads, half read-modify-writes.

Examples:
  everleaf-lab bench ycsb --workload a --engine lmdb,redb,fjall,store --keys 1000000 \
    --operations 1000000
  everleaf-lab bench ycsb --workload c --engine fptree-c,skipmap --record 8/8 --keys 1000000 \
    --operations 5000000 --threads 2 --json")]
pub struct Args {
    /// The workload, a to f.
    #[arg(long, value_parser = str::parse::<Workload>)]
    workload: Workload,
    /// The engines, with commas between; the others are compared with the first.
    #[arg(long, value_name = "E,..", value_delimiter = ',', required = true)]
    engine: Vec<String>,
    /// Records that are loaded.
    #[arg(long, value_name = "N")]
    keys: u64,
    /// Operations.
    #[arg(long, value_name = "M")]
    operations: u64,
    /// The distribution of the requested records: uniform, zipfian, latest or normal [default: the
    /// workload's].
    #[arg(long, value_name = "NAME")]
    distribution: Option<String>,
    /// Standard deviation of --distribution normal, as a fraction of all records [default: 0.1].
    #[arg(long, value_name = "D")]
    deviation: Option<f64>,
    /// The keys themselves have a normal distribution with this standard deviation [default:
    /// uniform].
    #[arg(long, value_name = "D")]
    key_deviation: Option<u64>,
    /// Shape of a record: fields (ten of 100 bytes under a key of 24), 8/B or 16/B (bytes of the
    /// key and of the value).
    #[arg(long, default_value = "fields", value_parser = str::parse::<Record>)]
    record: Record,
    /// Threads that share the operations.
    #[arg(long, value_name = "T", default_value_t = 1)]
    threads: u32,
    /// How often each engine is measured.
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: u32,
    /// The flush instruction.
    #[arg(long, default_value = "auto")]
    flush: FlushKind,
    #[command(flatten)]
    epochs: EpochOptions,
    #[command(flatten)]
    scheme: Scheme,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Standard deviation of normal, if none is given.
const DEVIATION: f64 = 0.1;

impl Args {
    fn options(&self) -> Result<YcsbOptions, Failure> {
        if self.deviation.is_some() && self.distribution.as_deref() != Some("normal") {
            return Err(Failure::usage(
                "--deviation belongs to --distribution normal: give both, or neither",
            ));
        }
        let named = |name: &String| Distribution::named(name, self.deviation.unwrap_or(DEVIATION));
        Ok(YcsbOptions {
            engines: self.engine.clone(),
            workload: self.workload,
            distribution: self.distribution.as_ref().map(named).transpose().map_err(failure)?,
            record: self.record,
            operations: self.operations,
            rounds: self.rounds,
            micro: MicroOptions {
                keys: self.keys,
                threads: self.threads,
                flush: self.flush.into(),
                transactions: self.scheme.transactions()?,
                key_deviation: self.key_deviation,
                buffers: self.epochs.buffers,
                epoch_ops: self.epochs.epoch_ops,
                seed: self.scheme.basics.seed,
                pool: self.scheme.basics.place()?,
                ..MicroOptions::default()
            },
        })
    }
}

/// Measures.
pub fn run(args: &Args) -> Outcome {
    let options = args.options()?;
    let rows = with_bar(|tell| run_ycsb_with_progress(&options, tell))?;
    show(&rows, args.json, YcsbReport::table_heading(), YcsbReport::table_row)
}
