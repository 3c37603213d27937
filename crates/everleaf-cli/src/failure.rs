//! How a command ends when it does not succeed.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use everleaf::internal::process_of;
use everleaf::{IndexError, PoolError};
use everleaf_pmem::MapError;

use crate::size::display_size;

/// Why a command did not succeed; it decides the exit code.
#[derive(Debug)]
pub enum Failure {
    /// The command line does not fit: exit code 2.
    Usage(String),
    /// It could not be done: exit code 1, or 3 where [1 says something else](told_apart).
    Failed(String),
    /// The key is not there, or what was asked for did not hold: exit code 1.
    Absent(String),
    /// The reader closed the pipe: exit 0 silently.
    OutputClosed,
}

/// The exit code of a failure.
static CODE: AtomicU8 = AtomicU8::new(1);

/// From here on a failure of this command has the exit code 3: its 1 says that a key is absent.
pub fn told_apart() {
    CODE.store(3, Ordering::Relaxed);
}

/// The exit code of a failure.
pub fn code() -> u8 {
    CODE.load(Ordering::Relaxed)
}

/// What every command returns.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// Exit code 2 with a sentence.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self::Usage(sentence.into())
    }

    /// Exit code 1 with a sentence.
    pub fn failed(sentence: impl Into<String>) -> Self {
        Self::Failed(sentence.into())
    }

    /// Exit code 1 with a sentence: nothing failed.
    pub fn absent(sentence: impl Into<String>) -> Self {
        Self::Absent(sentence.into())
    }

    /// What is said of it.
    pub fn into_sentence(self) -> String {
        match self {
            Self::Usage(sentence) | Self::Failed(sentence) | Self::Absent(sentence) => sentence,
            Self::OutputClosed => "the output is closed".to_owned(),
        }
    }

    /// A write to standard output did not work.
    pub fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Failed(format!("standard output cannot be written: {error}"))
        }
    }

    /// Says it on stderr; the exit code.
    pub fn report(&self) -> ExitCode {
        let (sentence, code) = match self {
            Self::Usage(sentence) => (sentence, 2),
            Self::Failed(sentence) => (sentence, code()),
            Self::Absent(sentence) => (sentence, 1),
            Self::OutputClosed => return ExitCode::SUCCESS,
        };
        complain(&format!("everleaf: {sentence}"));
        ExitCode::from(code)
    }
}

impl From<everleaf::Error> for Failure {
    /// What only another command line can mend is wrong usage; the rest is a failure.
    fn from(error: everleaf::Error) -> Self {
        use everleaf::Error;
        match error {
            Error::Index(IndexError::Parameter { parameter, value, offered }) => {
                let option = parameter.replace('_', "-");
                Self::Usage(format!(
                    "--{option} {value} is not offered by this engine; choose one of {offered}"
                ))
            }
            Error::Pool(PoolError::TooSmall { bytes, min_bytes }) => {
                let (size, smallest) = (display_size(bytes), display_size(min_bytes));
                Self::Usage(format!("--size {size} is too small; the smallest pool has {smallest}"))
            }
            Error::NoByteStrings { engine } => Self::Usage(format!(
                "engine {engine} has u64 keys only; add `--keys u64`, or choose another engine"
            )),
            Error::UnknownEngine { .. }
            | Error::UnknownParameter { .. }
            | Error::NoLog { .. }
            | Error::NoTrees
            | Error::DurabilityOfEngine { .. }
            | Error::DurabilityOfMedium { .. } => Self::Usage(error.to_string()),
            _ => Self::Failed(sentence(&error)),
        }
    }
}

/// An error of the library as a sentence, with the commands that help, or with the process that has
/// the pool open.
pub fn sentence(error: &everleaf::Error) -> String {
    if let everleaf::Error::Pool(PoolError::Locked { path, here: false }) = error
        && let Some((number, program)) = process_of(path)
    {
        return format!("{error} (it is process {number}, {program})");
    }
    match commands_for(error) {
        Some(commands) => format!("{error} ({commands})"),
        None => error.to_string(),
    }
}

/// What the library says of damage, without its advice, which would stand in each line of a list.
pub fn without_advice(sentence: &str) -> &str {
    match sentence.rsplit_once("; ") {
        Some((fact, advice)) if advice.contains("salvage what can be read") => fact,
        _ => sentence,
    }
}

const SALVAGE: &str = "`everleaf check POOL --salvage NEW`";
const RESTORE: &str = "`everleaf restore POOL DUMP`; `everleaf check POOL --salvage NEW` saves \
    what there is";
/// What opens a pool read-only.
const READERS: &str = "get, scan, count, ttl, trees, dump, copy, info and check only read, and so \
    does `everleaf shell POOL --read-only`";

/// What a user of the command line can do about an error that the library tells in its own words.
fn commands_for(error: &everleaf::Error) -> Option<&'static str> {
    use everleaf::Error;
    let pool = match error {
        Error::Pool(pool) | Error::Index(IndexError::Pool(pool)) => pool,
        Error::Index(IndexError::Corrupt { .. }) => return Some(SALVAGE),
        Error::BeingRestored => return Some(RESTORE),
        Error::SnapshotLost { .. } => return Some("run the command again"),
        Error::Log { source, .. } => {
            use everleaf::LogError::{Copied, Damaged, Missing, NotAFolder, OtherTime};
            return match **source {
                Missing | Damaged { .. } | NotAFolder | OtherTime => Some(SALVAGE),
                Copied { .. } => Some("`everleaf copy POOL NEW`"),
                _ => None,
            };
        }
        _ => return None,
    };
    match pool {
        PoolError::Missing { .. } => Some("`everleaf create POOL`"),
        PoolError::OtherBoot { .. }
        | PoolError::SyncFailed
        | PoolError::Corrupt { .. }
        | PoolError::Map(MapError::Truncated { .. }) => Some(SALVAGE),
        PoolError::PoolFull { .. } | PoolError::Map(MapError::MaxSize { .. }) => {
            Some("`everleaf copy POOL NEW --max-size SIZE`")
        }
        PoolError::NotWritable { .. } => Some(READERS),
        _ => None,
    }
}

/// A line on stderr. That stderr itself is closed must not change how a command ends (`eprintln!`
/// would panic).
pub fn complain(line: &str) {
    use io::Write;
    let _ = writeln!(io::stderr().lock(), "{line}");
}
