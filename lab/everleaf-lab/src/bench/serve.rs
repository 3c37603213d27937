//! `bench serve`.

use everleaf_bench::serve::run_serve_with_progress;
use everleaf_bench::serve::{Mix, Protocol, ServeOptions, ServeRow, Served};

use super::{Basics, Durability, show, with_bar};
use everleaf_cli::failure::{Failure, Outcome, complain};

/// Servers of memcached's and of Redis' protocol in turn, driven by one client: requests per
/// second, processor time of the server per request, and latency of a pipeline.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Servers: ours (ours:E over engine E), memcached, redis (redis:no, redis:everysec or redis:always:
its appendfsync), or HOST:PORT of one that runs: its keys of 16 hexadecimal digits are written. What
is not installed is left out. The ratios are to the first server that speaks the protocol.
Mixes: set, get, SETS/GETS in percent; status-update (GETs of the latest records, 5 percent new
ones) and session-store (half SETs, half GETs), both by Zipf's law.

Examples:
  everleaf-lab bench serve --server memcached,redis,ours --protocol memcached,redis \
    --pipeline 1,16 --value-bytes 32,100
  everleaf-lab bench serve --server redis,ours --protocol redis --durability immediate \
    --connections 50 --mix set --ops 20000 --json
  everleaf-lab bench serve --server 127.0.0.1:11211 --mix 10/90")]
pub struct Args {
    /// The servers, with commas between.
    #[arg(long, value_name = "S,..", value_delimiter = ',', value_parser = str::parse::<Served>)]
    #[arg(default_value = "memcached,redis,ours")]
    server: Vec<Served>,
    /// memcached, redis, or one after the other.
    #[arg(long, value_name = "P,..", value_delimiter = ',', value_parser = str::parse::<Protocol>)]
    #[arg(default_value = "memcached,redis")]
    protocol: Vec<Protocol>,
    /// Numbers of connections, with commas between.
    #[arg(long, value_name = "C,..", value_delimiter = ',', default_value = "50")]
    connections: Vec<u32>,
    /// Requests that a connection sends before it waits for their replies, with commas between.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1")]
    pipeline: Vec<u32>,
    /// Bytes of a value, with commas between.
    #[arg(long, value_name = "B,..", value_delimiter = ',', default_value = "32")]
    value_bytes: Vec<u32>,
    /// The kinds of requests, with commas between.
    #[arg(long, value_name = "MIX,..", value_delimiter = ',', value_parser = str::parse::<Mix>)]
    #[arg(default_value = "set,get")]
    mix: Vec<Mix>,
    /// Keys of 16 bytes that are there.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u64,
    /// Requests of a server in a round.
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    ops: u64,
    /// How often each is measured.
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: u32,
    /// Threads of our servers and of memcached; Redis has one [default: the number of processors].
    #[arg(long, value_name = "T")]
    threads: Option<u32>,
    /// Threads of the client.
    #[arg(long, value_name = "T", default_value_t = 1)]
    client_threads: u32,
    /// What a reply to a SET promises, where a server can promise it: that it outlives the machine,
    /// the same with a bound for what is lost, or that it outlives the process.
    #[arg(long, value_enum, default_value = "process")]
    durability: Durability,
    #[command(flatten)]
    basics: Basics,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Servers that can run here; the others are named.
    fn servers(&self) -> Result<Vec<Served>, Failure> {
        let mut servers = Vec::new();
        for server in &self.server {
            match server.missing_program() {
                Some(program) => complain(&format!("{server} is left out: {program} is not there")),
                None => servers.push(*server),
            }
        }
        if servers.is_empty() {
            return Err(Failure::failed("no server is left: install one of them, or give ours"));
        }
        Ok(servers)
    }
}

/// Measures.
pub fn run(args: Args) -> Outcome {
    let options = ServeOptions {
        servers: args.servers()?,
        threads: args.threads.unwrap_or(ServeOptions::default().threads),
        program: std::env::current_exe().ok(),
        acknowledged: args.durability.into(),
        seed: args.basics.seed,
        place: args.basics.place()?,
        protocols: args.protocol,
        connections: args.connections,
        pipelines: args.pipeline,
        value_bytes: args.value_bytes,
        mixes: args.mix,
        keys: args.keys,
        requests: args.ops,
        rounds: args.rounds,
        client_threads: args.client_threads,
    };
    let rows = with_bar(|tell| run_serve_with_progress(&options, tell))?;
    show(&rows, args.json, ServeRow::table_heading(), ServeRow::table_row)
}
