//! `load`: the records of a file, in its order.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use everleaf::{Contract, Key, KeyType, MAX_KEY_BYTES, MAX_VALUE_BYTES, Store};
use indicatif::ProgressBar;

use crate::failure::{Failure, Outcome, complain};
use crate::keys::parse_u64;
use crate::load::{Lines, Record, Records, Rows, Tsv};
use crate::progress;

/// Put the records of a file, in file order.
///
/// At every moment, after a crash too, the pool holds the records of a beginning of the file; when
/// loading ends, for whatever reason that it can still tell, it says on stderr how many records are
/// acknowledged. A key that is there already is replaced.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Formats:
  lines  a key a line; its value is the line's number, from 1; empty lines are skipped
  tsv    key TAB value, one a line; empty lines are skipped
  csv    with a header, RFC 4180; the value is the row as a JSON object of strings

Examples:
  everleaf load words.pool words.txt
  everleaf load cities.pool world-cities.csv --key-column country,subcountry,name
  zcat pairs.tsv.gz | everleaf load pairs.pool - --format tsv")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// The file; `-` is standard input.
    file: PathBuf,
    /// What the file holds [default: by its extension .tsv or .csv, else lines].
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// The csv column that is the key, by name or by number from 1; several, with commas between,
    /// are joined by `/`.
    #[arg(long, value_name = "NAME[,NAME..]|N")]
    key_column: Option<String>,
    /// Say on stderr after every N records how many are acknowledged.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    acknowledge_every: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Lines,
    Tsv,
    Csv,
}

impl Format {
    fn of(file: &Path) -> Self {
        match file
            .extension()
            .and_then(|extension| extension.to_str())
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
            Some("tsv") => Self::Tsv,
            Some("csv") => Self::Csv,
            _ => Self::Lines,
        }
    }
}

/// How far it went.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    stored: u64,
    replaced: u64,
    acknowledged: u64,
}

/// Loads.
pub fn run(args: Args) -> Outcome {
    let format = args.format.unwrap_or_else(|| Format::of(&args.file));
    match (format, &args.key_column) {
        (Format::Csv, None) => {
            return Err(Failure::usage(
                "a csv file needs --key-column, the name or number of its key column",
            ));
        }
        (Format::Lines | Format::Tsv, Some(_)) => {
            return Err(Failure::usage("--key-column is for csv files; leave it out"));
        }
        _ => {}
    }
    let (file, bytes) = open(&args.file)?;
    let store = Store::open(&args.pool)?;
    let bar = progress::bytes_bar(bytes);
    let input: Box<dyn BufRead> =
        Box::new(BufReader::with_capacity(256 << 10, progress::watch(&bar, file)));
    let mut tally = Tally::default();
    let loaded = records(input, format, args.key_column.as_deref())
        .map_err(|sentence| in_file(&args.file, &sentence))
        .and_then(|mut records| load(&args, &store, &mut *records, &bar, &mut tally));
    // A failure midway does not undo what went before: that is made durable and counted all the
    // same.
    let closed = store.sync().and_then(|()| store.close());
    if closed.is_ok() {
        tally.acknowledged = tally.stored;
    }
    bar.finish_and_clear();
    complain(&format!("acknowledged {} records ({} replaced)", tally.acknowledged, tally.replaced));
    loaded.and(closed.map_err(Failure::from))
}

fn open(file: &Path) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if file.as_os_str() == "-" {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let refuse =
        |error: io::Error| Failure::failed(format!("{} cannot be read: {error}", file.display()));
    let opened = File::open(file).map_err(refuse)?;
    let metadata = opened.metadata().map_err(refuse)?;
    if metadata.is_dir() {
        return Err(Failure::failed(format!("{} is a folder; give a file", file.display())));
    }
    Ok((Box::new(opened), metadata.is_file().then_some(metadata.len())))
}

fn records(
    input: Box<dyn BufRead>,
    format: Format,
    key_column: Option<&str>,
) -> Result<Box<dyn Records>, String> {
    let max_bytes = MAX_KEY_BYTES as u64 + MAX_VALUE_BYTES;
    Ok(match format {
        Format::Lines => Box::new(Lines::new(input, MAX_KEY_BYTES)),
        Format::Tsv => Box::new(Tsv::new(input, usize::try_from(max_bytes).unwrap_or(usize::MAX))),
        Format::Csv => Box::new(Rows::new(input, key_column.unwrap_or_default(), max_bytes)?),
    })
}

fn load(
    args: &Args,
    store: &Store,
    records: &mut dyn Records,
    bar: &ProgressBar,
    tally: &mut Tally,
) -> Outcome {
    let buffered = store.capabilities().contract == Contract::Buffered;
    let key_type = store.key_type();
    let unit = records.unit();
    while let Some(record) = records.next().map_err(|sentence| in_file(&args.file, &sentence))? {
        let replaced = put(store, key_type, &record).map_err(|sentence| {
            in_file(&args.file, &format!("{unit} {}: {sentence}", record.number))
        })?;
        tally.stored += 1;
        tally.replaced += u64::from(replaced);
        if !buffered {
            tally.acknowledged = tally.stored;
        }
        if tally.stored.is_multiple_of(1024) {
            bar.set_message(format!("{} records", tally.stored));
        }
        if args.acknowledge_every.is_some_and(|every| tally.stored.is_multiple_of(every)) {
            if buffered {
                store.sync()?;
                tally.acknowledged = tally.stored;
            }
            complain(&format!("acknowledged {}", tally.acknowledged));
        }
    }
    Ok(())
}

/// Puts a record; whether it replaced another.
fn put(store: &Store, key_type: KeyType, record: &Record<'_>) -> Result<bool, String> {
    let key = match key_type {
        KeyType::U64 => Key::U64(parse_u64(record.key)?),
        KeyType::Bytes => Key::Bytes(record.key),
    };
    store.put(key, record.value).map_err(|error| error.to_string())
}

fn in_file(file: &Path, sentence: &str) -> Failure {
    let name =
        if file.as_os_str() == "-" { "standard input".into() } else { file.display().to_string() };
    Failure::failed(format!("{name}: {sentence}"))
}
