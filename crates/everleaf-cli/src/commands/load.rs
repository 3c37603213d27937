//! `load`: the records of a file, in its order.

use std::borrow::Cow;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use everleaf::{DurabilityMode, Error, Key, MAX_KEY_BYTES, MAX_VALUE_BYTES, OpenOptions, Store};
use indicatif::ProgressBar;
use serde_json::{Map, Value};

use crate::digits::unhex;
use crate::failure::{Failure, Outcome, complain, sentence};
use crate::forms::{self, FormArgument, ValueForm};
use crate::key_forms::KeyForm;
use crate::keys::{KeyArgument, parse_u64, readable};
use crate::load::{
    HeaderError, JsonLines, JsonObjects, Lines, Record, Records, Rows, Tsv, unreadable,
};
use crate::signals::Ending;
use crate::size::{display_counted, parse_size};
use crate::target::{TreeArgument, TreeKeys, WrittenTree};
use crate::{input, open, progress};

/// Put the records of a file, in file order.
///
/// At any moment, even after a crash, the pool holds a prefix of the file. When loading ends, also
/// by a signal, a line on stderr says how many records are acknowledged. The value of an existing
/// key is replaced, unless --on-duplicate says otherwise. A named tree that does not exist is made,
/// unless nothing can be loaded. A byte-order mark before the text is skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Formats:
  lines  one key per line; its value is the line's number, from 1; empty lines are skipped
  tsv    key TAB value, one per line, as `scan` prints them: \\t, \\n, \\r, \\\\ and \\xHH \
stand for bytes; empty lines are skipped
  jsonl  an object of JSON per line, as `scan --json` prints them, or any with --key-column; \
empty lines are skipped
  csv    with a header, RFC 4180; the value is the row as a JSON object of strings

Examples:
  everleaf load words.pool words.txt
  everleaf load cities.pool world-cities.csv --key-column country,subcountry,name
  everleaf load shop.pool scores.tsv --tree scores --keys float
  everleaf load users.pool users.jsonl --key-column id --on-duplicate fail
  zcat pairs.tsv.gz | everleaf load pairs.pool - --format tsv
  everleaf scan words.pool | everleaf load other.pool - --format tsv --tree words
  everleaf scan words.pool --json | everleaf load other.pool - --format jsonl")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// The file; `-` is standard input.
    file: PathBuf,
    /// Format of the file [default: by its extension .tsv, .jsonl or .csv, else lines].
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// The csv column that is the key, by name or by number from 1, or the field of jsonl objects,
    /// by name: the value is the row or the object then. Several, with commas between, are joined
    /// by `/`.
    #[arg(long, value_name = "NAME[,NAME..]|N")]
    key_column: Option<String>,
    /// Treat backslashes in tsv files as ordinary characters.
    #[arg(long)]
    raw: bool,
    /// Read keys and values as hexadecimal digits, as `scan --hex` writes them (lines: keys, tsv).
    /// Whole numbers that are keys stay decimal.
    #[arg(long, conflicts_with = "raw")]
    hex: bool,
    #[command(flatten)]
    form: FormArgument,
    /// What becomes of a record whose key is there already, from before or from this file:
    /// `replace` its value, `keep` the value and pass the record over, or `fail`, at this record.
    #[arg(long, value_name = "HOW", default_value = "replace", hide_possible_values = true)]
    on_duplicate: OnDuplicate,
    #[command(flatten)]
    tree: TreeArgument,
    /// The kind of keys that a named tree is made with, if there is none: `bytes`; `u64`, whole
    /// numbers; `float`, numbers with a fraction; both in the order of numbers [default: the
    /// pool's].
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    keys: Option<TreeKeys>,
    /// Say on stderr after every N records how many are acknowledged.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        allow_hyphen_values = true
    )]
    acknowledge_every: Option<u64>,
    /// Memory that changed pages of a pool with a log may take, before they are written to its file
    /// [default: half of the memory that the process may use].
    #[arg(long, value_name = "S", value_parser = parse_size, allow_hyphen_values = true)]
    memory: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnDuplicate {
    Replace,
    Keep,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Lines,
    Tsv,
    Jsonl,
    Csv,
}

impl Format {
    /// The format that a file's name tells.
    fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "tsv" => Some(Self::Tsv),
            "jsonl" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }

    /// As `--format` has it.
    const fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Tsv => "tsv",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }
}

/// How many lines are looked at for what their format may be.
const LOOKED_AT: u64 = 16;

/// Lines that nothing but the want of a name says are `lines`.
#[derive(Default)]
struct Guess {
    lines: u64,
    with_tab: u64,
    objects: u64,
    said: bool,
}

impl Guess {
    /// A line was read, or there is no more: what they may be instead, if all of them look so.
    fn look(&mut self, line: Option<&[u8]>) -> Option<String> {
        if let Some(line) = line.filter(|_| self.lines < LOOKED_AT) {
            self.lines += 1;
            self.with_tab += u64::from(line.contains(&b'\t'));
            let is_object = || serde_json::from_slice::<Map<String, Value>>(line).is_ok();
            self.objects += u64::from(line.starts_with(b"{") && is_object());
        }
        if self.said || self.lines == 0 || line.is_some() && self.lines < LOOKED_AT {
            return None;
        }
        self.said = true;
        let (format, what) = match self.lines {
            lines if self.objects == lines => ("jsonl", "is an object of JSON"),
            lines if self.with_tab == lines => ("tsv", "has a TAB"),
            _ => return None,
        };
        Some(format!(
            "taken for `lines`, each line a key, as neither the name nor --format says otherwise; \
            each of the first lines {what}: --format {format} reads keys and values"
        ))
    }
}

/// How far it went.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    stored: u64,
    replaced: u64,
    kept: u64,
    acknowledged: u64,
}

/// Loads.
pub fn run(args: Args) -> Outcome {
    let told = args.format.or_else(|| Format::of(&args.file));
    let format = told.unwrap_or(Format::Lines);
    match (format, &args.key_column) {
        (Format::Csv, None) => {
            return Err(Failure::usage(
                "a csv file needs --key-column, the name or number of its key column",
            ));
        }
        (Format::Lines | Format::Tsv, Some(_)) => {
            return Err(Failure::usage("--key-column is for csv and jsonl files; leave it out"));
        }
        (Format::Lines | Format::Jsonl | Format::Csv, _) if args.raw => {
            return Err(Failure::usage("--raw is for tsv files; leave it out"));
        }
        (Format::Jsonl | Format::Csv, _) if args.hex => {
            return Err(Failure::usage("--hex is for lines and tsv files; leave it out"));
        }
        _ => {}
    }
    let (file, name) = input::open(&args.file)?;
    // One sync of a log for many records.
    let mut options = OpenOptions::new().relaxed_durability(DurabilityMode::buffered());
    options.memory_bytes = args.memory;
    let store = open::to_write_with(&args.pool, options)?;
    let tree = args.tree.to_write_with(&store, args.keys)?;
    let ending = Ending::awaited()?;
    let length = file.metadata().ok().filter(|file| file.is_file()).map(|file| file.len());
    let bar = progress::bytes_bar(length);
    let input = progress::watch(&bar, ending.input(file));
    let input = BufReader::with_capacity(256 << 10, input);
    let mut tally = Tally::default();
    let into = Into {
        store: &store,
        tree: &tree,
        hex_keys: args.hex,
        // Of lines, the value is a number.
        form: args.form.or_hex(args.hex && format == Format::Tsv),
        on_duplicate: args.on_duplicate,
        acknowledge_every: args.acknowledge_every,
    };
    let failed = |complaint| Failure::failed(format!("{name}: {complaint}"));
    let guess = told.is_none().then(Guess::default);
    let loaded = text(input, &args).map_err(HeaderError::Header);
    let loaded = loaded.and_then(|input| records(input, format, &args));
    let loaded = match loaded {
        Ok(mut records) => {
            load(&into, &mut *records, guess, ending, &bar, &mut tally).map_err(failed)
        }
        Err(HeaderError::KeyColumn(complaint)) => {
            Err(Failure::usage(format!("{name}: {complaint}")))
        }
        Err(HeaderError::Header(complaint)) => Err(failed(complaint)),
    };
    // A failure midway does not undo what went before: that is made durable and counted all the
    // same.
    let closed = store.sync().and_then(|()| store.close());
    if closed.is_ok() {
        tally.acknowledged = tally.stored;
    }
    bar.finish_and_clear();
    // Programs read these numbers: they have no separators.
    let records = if tally.acknowledged == 1 { "record" } else { "records" };
    let kept = match args.on_duplicate {
        OnDuplicate::Keep => format!(", {} kept", tally.kept),
        OnDuplicate::Replace | OnDuplicate::Fail => String::new(),
    };
    complain(&format!(
        "acknowledged {} {records} ({} replaced{kept})",
        tally.acknowledged, tally.replaced
    ));
    ending.take_effect();
    loaded.and(closed.map_err(Failure::from))
}

/// The text of a file: without a byte-order mark, and not of one that is compressed.
fn text(input: impl BufRead + 'static, args: &Args) -> Result<Box<dyn BufRead>, String> {
    let (mut input, packed) = input::begin(input).map_err(|error| unreadable(&error))?;
    if let Some((by, unpacks)) = packed {
        let (file, within) = (args.file.display(), args.file.with_extension(""));
        let format = args.format.or_else(|| Format::of(&within));
        let format = format.map_or(String::new(), |format| format!(" --format {}", format.name()));
        let unpack = match input::is_standard(&args.file) {
            true => unpacks.to_owned(),
            false => format!("{unpacks} {file}"),
        };
        return Err(format!(
            "it is compressed by {by}; unpack it (`{unpack} | everleaf load {} -{format}`)",
            args.pool.display()
        ));
    }
    if input.get_ref().0.get_ref().starts_with(input::BYTE_ORDER_MARK) {
        input.consume(input::BYTE_ORDER_MARK.len());
    }
    Ok(Box::new(input))
}

fn records(
    input: Box<dyn BufRead>,
    format: Format,
    args: &Args,
) -> Result<Box<dyn Records>, HeaderError> {
    let max_bytes = MAX_KEY_BYTES as u64 + MAX_VALUE_BYTES;
    Ok(match format {
        Format::Lines => Box::new(Lines::new(input, MAX_KEY_BYTES)),
        Format::Tsv => {
            // A byte of the text form has up to four characters.
            let times = if args.raw { 1 } else { 4 };
            let max_bytes = usize::try_from(max_bytes * times).unwrap_or(usize::MAX);
            Box::new(Tsv::new(input, max_bytes, args.raw))
        }
        Format::Jsonl => {
            // A character of JSON has up to six, and what is around them is short.
            let max_bytes = usize::try_from(max_bytes * 6 + 64).unwrap_or(usize::MAX);
            match &args.key_column {
                None => Box::new(JsonLines::new(input, max_bytes)),
                Some(fields) => Box::new(JsonObjects::new(input, fields, max_bytes)),
            }
        }
        Format::Csv => {
            let column = args.key_column.as_deref().unwrap_or_default();
            Box::new(Rows::new(input, column, max_bytes)?)
        }
    })
}

/// Where records go.
struct Into<'s> {
    store: &'s Store,
    tree: &'s WrittenTree<'s>,
    /// Whether byte-string keys are digits.
    hex_keys: bool,
    form: Option<ValueForm>,
    on_duplicate: OnDuplicate,
    acknowledge_every: Option<u64>,
}

/// Puts all records, or those before a signal.
fn load(
    into: &Into<'_>,
    records: &mut dyn Records,
    mut guess: Option<Guess>,
    ending: &Ending,
    bar: &ProgressBar,
    tally: &mut Tally,
) -> Result<(), String> {
    let mode = into.store.capabilities().durability_mode;
    let buffered = matches!(mode, DurabilityMode::Buffered { .. });
    let unit = records.unit();
    while ending.signal().is_none() {
        let record = records.next()?;
        let line = record.as_ref().map(|record| record.key);
        if let Some(hint) = guess.as_mut().and_then(|guess| guess.look(line)) {
            bar.suspend(|| complain(&hint));
        }
        let Some(record) = record else {
            return into.tree.write(|_| Ok::<_, Error>(())).map_err(|error| sentence(&error));
        };
        let put = into
            .put(&record)
            .map_err(|complaint| format!("{unit} {}: {complaint}", record.number))?;
        tally.stored += u64::from(put != Put::Kept);
        tally.replaced += u64::from(put == Put::Replaced);
        tally.kept += u64::from(put == Put::Kept);
        if !buffered {
            tally.acknowledged = tally.stored;
        }
        if tally.stored.is_multiple_of(1024) {
            bar.set_message(display_counted(tally.stored, "record"));
        }
        let is_told = |every| put != Put::Kept && tally.stored.is_multiple_of(every);
        if into.acknowledge_every.is_some_and(is_told) {
            if buffered {
                into.store.sync().map_err(|error| error.to_string())?;
                tally.acknowledged = tally.stored;
            }
            complain(&format!("acknowledged {}", tally.acknowledged));
        }
    }
    Ok(())
}

/// What a record has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
    New,
    Replaced,
    Kept,
}

impl Into<'_> {
    /// Puts a record.
    fn put(&self, record: &Record<'_>) -> Result<Put, String> {
        let value = match self.form {
            None => Cow::Borrowed(record.value),
            form => Cow::Owned(forms::read(form, record.value).map_err(Failure::into_sentence)?),
        };
        let bytes = match self.tree.keys() {
            TreeKeys::U64 => Cow::Borrowed(&b""[..]),
            TreeKeys::Float => {
                let key = float_key(record.key, self.hex_keys);
                Cow::Owned(key.map_err(Failure::into_sentence)?)
            }
            TreeKeys::Bytes => bytes(record.key, self.hex_keys)?,
        };
        let key = match self.tree.keys() {
            TreeKeys::U64 => Key::U64(parse_u64(record.key, self.tree.name())?),
            TreeKeys::Float | TreeKeys::Bytes => Key::Bytes(&bytes),
        };
        let put = self.tree.write(|tree| match self.on_duplicate {
            OnDuplicate::Replace => tree.put(key, &*value).map(|replaced| match replaced {
                true => Put::Replaced,
                false => Put::New,
            }),
            OnDuplicate::Keep | OnDuplicate::Fail => {
                tree.put_if_absent(key, &*value).map(|absent| match absent {
                    true => Put::New,
                    false => Put::Kept,
                })
            }
        });
        match put.map_err(|error| sentence(&error))? {
            Put::Kept if self.on_duplicate == OnDuplicate::Fail => {
                let key = match self.tree.keys() {
                    TreeKeys::Float => format!("`{}`", readable(record.key)),
                    TreeKeys::U64 | TreeKeys::Bytes => KeyArgument::from(key).to_string(),
                };
                Err(format!("the key {key} is there already"))
            }
            put => Ok(put),
        }
    }
}

/// The key of a tree of floats that a text stands for, or digits.
fn float_key(text: &[u8], hex: bool) -> Result<Vec<u8>, Failure> {
    let form = KeyForm::of("f64").map_err(Failure::failed)?;
    if !hex {
        return form.read(text, false);
    }
    let key = unhex(text).map_err(Failure::failed)?;
    form.show(&key).map(|_| key)
}

/// The bytes of a file, or those that its digits stand for.
fn bytes(text: &[u8], hex: bool) -> Result<Cow<'_, [u8]>, String> {
    if hex { unhex(text).map(Cow::Owned) } else { Ok(Cow::Borrowed(text)) }
}
