//! `cluster`: several machines that hold the same rows (everleaf-raft). These commands make the
//! folders of nodes, and ask the cluster to do something.

mod show;

use std::path::{Path, PathBuf};

use everleaf_raft::{
    Client, FolderError, Keys, NodeError, PeerError, PoolOptions, Secret, Tls, block_on, init,
    prepare_to_join, recover, verify,
};

use crate::failure::{Failure, Outcome};
use crate::size::{display_counted, parse_size};

/// Replicate rows to several machines: make a cluster, look at it, change it.
///
/// Three or five nodes hold the same rows, and what is acknowledged is on the disks of a majority.
/// Each node has a folder, and an address for the other nodes (--raft). The file of the cluster's
/// secret is made by `init`; whoever has it can join, look at and change the cluster.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Example:
  everleaf cluster init /srv/a --raft 10.0.0.1:7400
  everleaf cluster join /srv/b --raft 10.0.0.2:7400 --via 10.0.0.1:7400 --secret secret
  everleaf cluster status --via 10.0.0.1:7400 --secret secret")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make the folder of the first node of a new cluster, and the secret in it.
    #[command(after_help = "Example:\n  everleaf cluster init /srv/a --raft 10.0.0.1:7400")]
    Init(InitArgs),
    /// Make the folder of a node that joins a cluster when it is run.
    #[command(after_help = "\
Example:
  everleaf cluster join /srv/b --raft 10.0.0.2:7400 --via 10.0.0.1:7400 --secret secret")]
    Join(JoinArgs),
    /// Show who leads, and how each node is. Exit code 1: nobody leads.
    #[command(after_help = "\
Example:
  everleaf cluster status --via 10.0.0.1:7400 --secret secret --json")]
    Status(StatusArgs),
    /// Remove a node for ever. Its folder cannot be used again.
    #[command(after_help = "\
Example:
  everleaf cluster remove 3 --via 10.0.0.1:7400 --secret secret")]
    Remove(NodeArgs),
    /// Let another node lead.
    #[command(after_help = "\
Example:
  everleaf cluster transfer 2 --via 10.0.0.1:7400 --secret secret")]
    Transfer(NodeArgs),
    /// Make the folder of a node that takes the place of another one, which is lost, when it is
    /// run.
    #[command(after_help = "\
Example:
  everleaf cluster replace 3 /srv/d --raft 10.0.0.4:7400 --via 10.0.0.1:7400 --secret secret")]
    Replace(ReplaceArgs),
    /// Compare the rows of all nodes, while they are served. Exit code 1: they differ.
    #[command(after_help = "\
Example:
  everleaf cluster verify --via 10.0.0.1:7400 --secret secret")]
    Verify(ViaArgs),
    /// Go on with one node when a majority is lost for ever. What only the others had is lost.
    #[command(after_help = "Example:\n  everleaf cluster recover /srv/a --alone")]
    Recover(RecoverArgs),
}

/// How to reach a cluster.
#[derive(Debug, clap::Args)]
struct ViaArgs {
    /// The --raft address of a node that runs.
    #[arg(long, value_name = "ADDR")]
    via: String,
    /// The file of the cluster's secret.
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
    /// Use TLS: the certificates, in PEM format, of those who signed the nodes' ones.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

/// A folder that is made.
#[derive(Debug, clap::Args)]
struct FolderArgs {
    /// The folder, which must not exist.
    folder: PathBuf,
    /// The address that the other nodes use: HOST:PORT.
    #[arg(long, value_name = "ADDR")]
    raft: String,
    /// The most that each of its pools may grow to.
    #[arg(long, value_name = "S", value_parser = parse_size, allow_hyphen_values = true)]
    max_size: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct InitArgs {
    #[command(flatten)]
    folder: FolderArgs,
    /// Begin with a copy of this pool.
    #[arg(long, value_name = "POOL")]
    from: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct JoinArgs {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    via: ViaArgs,
}

#[derive(Debug, clap::Args)]
struct ReplaceArgs {
    /// The number of the node that is lost; `status` shows it.
    node: u64,
    #[command(flatten)]
    join: JoinArgs,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    via: ViaArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct NodeArgs {
    /// The number of the node; `status` shows it.
    node: u64,
    #[command(flatten)]
    via: ViaArgs,
}

#[derive(Debug, clap::Args)]
struct RecoverArgs {
    /// The folder of the node, which must not run.
    folder: PathBuf,
    /// The node becomes a cluster of one.
    #[arg(long, required = true)]
    alone: bool,
}

impl From<PeerError> for Failure {
    fn from(error: PeerError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Folder(FolderError::Pool(error)) | NodeError::Pool(error) => error.into(),
            NodeError::Address { .. } => Self::usage(error.to_string()),
            error => Self::failed(error.to_string()),
        }
    }
}

/// Waits for a future, on threads of its own.
fn wait_for<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let ended = block_on(work);
    ended
        .map_err(|error| Failure::failed(format!("no thread can be started: {error}")))?
        .map_err(Failure::from)
}

impl ViaArgs {
    fn keys(&self) -> Result<Keys, Failure> {
        let tls = self.tls_ca.as_deref().map(|authority| Tls::read(authority, None)).transpose();
        let secret = Secret::read(&self.secret).map_err(Failure::failed)?;
        Ok(Keys { secret, tls: tls.map_err(Failure::failed)? })
    }

    fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(vec![self.via.clone()], self.keys()?))
    }
}

impl FolderArgs {
    fn options(&self, from: Option<PathBuf>) -> PoolOptions {
        PoolOptions { max_size_bytes: self.max_size, from }
    }
}

/// Does what the command line says.
pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Init(args) => found(args),
        Command::Join(args) => join(&args, None),
        Command::Replace(args) => join(&args.join, Some(args.node)),
        Command::Status(args) => show::status(wait_for(args.via.client()?.status())?, args.json),
        Command::Remove(args) => {
            wait_for(args.via.client()?.remove(args.node))?;
            say(&format!("node {} is removed; stop it and delete its folder", args.node))
        }
        Command::Transfer(args) => {
            wait_for(args.via.client()?.transfer(args.node))?;
            say(&format!("node {} leads", args.node))
        }
        Command::Verify(args) => compare(&args),
        Command::Recover(args) => go_on_alone(&args.folder),
    }
}

/// A sentence on standard output.
fn say(sentence: &str) -> Outcome {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{sentence}").map_err(|error| Failure::output(&error))
}

fn found(args: InitArgs) -> Outcome {
    let options = args.folder.options(args.from);
    let secret = wait_for(init(&args.folder.folder, &args.folder.raft, &options))?;
    say(&format!(
        "{} is the first node of a new cluster; its secret is in {}: nodes that join need a copy",
        args.folder.folder.display(),
        secret.display()
    ))
}

fn join(args: &JoinArgs, replaces: Option<u64>) -> Outcome {
    let FolderArgs { folder, raft, .. } = &args.folder;
    let (keys, options) = (args.via.keys()?, args.folder.options(None));
    wait_for(prepare_to_join(folder, raft, &args.via.via, &keys, replaces, &options))?;
    let then = replaces.map(|old| format!(", in the place of node {old},")).unwrap_or_default();
    say(&format!("{} is made; run the node: it joins{then} by itself", folder.display()))
}

fn compare(args: &ViaArgs) -> Outcome {
    let mut client = args.client()?;
    let verified = wait_for(verify(&mut client))?;
    if verified.is_equal() {
        let (nodes, rows) = (verified.sums.len(), verified.sums.first().map_or(0, |sum| sum.2));
        let (nodes, rows) = (display_counted(nodes as u64, "node"), display_counted(rows, "row"));
        let left_out = match verified.left_out {
            0 => String::new(),
            some => format!("; {} changed meanwhile and left out", display_counted(some, "row")),
        };
        return say(&format!("{nodes}: the same {rows}{left_out}"));
    }
    for (node, crc, rows) in &verified.sums {
        say(&format!("node {node}: {}, checksum {crc:08x}", display_counted(*rows, "row")))?;
    }
    Err(Failure::failed(
        "the nodes have different rows; replace the one that differs from the others",
    ))
}

fn go_on_alone(folder: &Path) -> Outcome {
    let recovered = wait_for(recover(folder))?;
    let end = recovered.last_log.map_or("is empty".to_owned(), |at| format!("ends at entry {at}"));
    say(&format!(
        "node {} is a cluster of one now, {}; its log {end}: what other nodes had acknowledged \
         behind it is lost. Let the others join with new folders",
        recovered.node, recovered.cluster
    ))
}
