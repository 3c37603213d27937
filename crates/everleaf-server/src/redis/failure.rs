//! Why commands are not done, in the words of Redis.

use everleaf::Error;
use tracing::error;

use crate::data::MAX_KEY_BYTES;
use crate::resp::reply::Reply;

/// Why a command was not done.
#[derive(Debug)]
pub enum Failure {
    /// The sentence that Redis says.
    Said(&'static str),
    /// A sentence of ours.
    Text(String),
    /// The store failed.
    Store(Error),
    /// It takes long: some of it is done, and the rest when it is asked again.
    Later,
    /// A request that takes long has the locks that it needs: nothing of it is done.
    Locked,
    /// A script takes long: nothing of it is done.
    Script,
    /// A script uses keys that it has not declared: nothing of it is done without all locks.
    Undeclared,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<&'static str> for Failure {
    fn from(sentence: &'static str) -> Self {
        Self::Said(sentence)
    }
}

/// What a command returns.
pub type Outcome<T = ()> = Result<T, Failure>;

pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub const SYNTAX: &str = "ERR syntax error";
pub const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
pub const NOT_FLOAT: &str = "ERR value is not a valid float";
pub const NO_SUM: &str = "ERR increment would produce NaN or Infinity";
pub const NO_KEY: &str = "ERR no such key";
pub const OUT_OF_RANGE: &str = "ERR index out of range";
pub const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
                        SHUTDOWN NOSAVE.";
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
pub const TOO_LONG: &str = "ERR the reply takes too much memory; ask for less at a time";

/// What Redis says where a command has too few or too many arguments.
pub fn wrong_number(name: &[u8]) -> Failure {
    let name = name.escape_ascii().to_string().to_ascii_lowercase();
    Failure::Text(format!("ERR wrong number of arguments for '{name}' command"))
}

/// Refuses a key, field or member that the store would not take.
pub fn check_length(key: &[u8]) -> Outcome {
    if key.len() > MAX_KEY_BYTES {
        return Err(Failure::Text(format!(
            "ERR a key, field or member has at most {MAX_KEY_BYTES} bytes, not {}",
            key.len()
        )));
    }
    Ok(())
}

fn store_failed(error: &Error, reply: &mut Reply<'_>) {
    if error.is_full() {
        reply.error(OUT_OF_MEMORY);
    } else {
        error!(%error, "a request failed in the store");
        reply.error(&format!("ERR {error}"));
    }
}

/// Says why a command was not done.
pub fn failed(failure: Failure, reply: &mut Reply<'_>) {
    match failure {
        Failure::Said(sentence) => reply.error(sentence),
        Failure::Text(sentence) => reply.error(&sentence),
        Failure::Store(error) => store_failed(&error, reply),
        // In a transaction nothing is done later.
        Failure::Later | Failure::Locked | Failure::Script | Failure::Undeclared => {
            reply.error("ERR ask again")
        }
    }
}
