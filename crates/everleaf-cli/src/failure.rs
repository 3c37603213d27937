//! How a command ends when it does not succeed.

use std::io;
use std::process::ExitCode;

use everleaf::{IndexError, PoolError};
use everleaf_pmem::MapError;

use crate::size::display_size;

/// Why a command did not succeed; it decides the exit code.
#[derive(Debug)]
pub enum Failure {
    /// The command line does not fit: exit code 2.
    Usage(String),
    /// It could not be done: exit code 1.
    Failed(String),
    /// The reader closed the pipe: exit 0 silently.
    OutputClosed,
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
            Self::Failed(sentence) => (sentence, 1),
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

/// An error of the library as a sentence, with the command that helps.
pub fn sentence(error: &everleaf::Error) -> String {
    match command_for(error) {
        Some(command) => format!("{error} (`{command}`)"),
        None => error.to_string(),
    }
}

/// What a user of the command line can do about an error that the library tells in its own words.
fn command_for(error: &everleaf::Error) -> Option<&'static str> {
    use everleaf::Error;
    let pool = match error {
        Error::Pool(pool) | Error::Index(IndexError::Pool(pool)) => pool,
        Error::Index(IndexError::Corrupt { .. }) => return Some("everleaf check POOL"),
        _ => return None,
    };
    match pool {
        PoolError::Missing { .. } => Some("everleaf create POOL"),
        PoolError::OtherBoot { .. } | PoolError::SyncFailed => {
            Some("everleaf check POOL --salvage NEW")
        }
        PoolError::Corrupt { .. } => Some("everleaf check POOL"),
        PoolError::PoolFull { .. } | PoolError::Map(MapError::MaxSize { .. }) => {
            Some("everleaf create NEW --max-size SIZE")
        }
        _ => None,
    }
}

impl From<everleaf::EngineError> for Failure {
    fn from(error: everleaf::EngineError) -> Self {
        everleaf::Error::from(error).into()
    }
}

/// A line on stderr. That stderr itself is closed must not change how a command ends (`eprintln!`
/// would panic).
pub fn complain(line: &str) {
    use io::Write;
    let _ = writeln!(io::stderr().lock(), "{line}");
}
