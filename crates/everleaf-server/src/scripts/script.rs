//! A script, and what its runs have shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::shebang::{self, Flags};

/// Runs of a script that begin where they may take long, after one that took long.
const LONG_RUNS: u32 = 64;

/// A script, or a function of a library.
pub struct Script {
    /// Of the whole text; of a function that of its library.
    pub sha1: [u8; 20],
    pub body: Arc<[u8]>,
    /// Where its code begins.
    begins: usize,
    pub flags: Flags,
    /// The name of the function; none: it is a script.
    function: Option<String>,
    /// Runs of it that are expected to take long.
    long_runs: AtomicU32,
    /// Whether it uses keys that it does not declare.
    is_open: AtomicBool,
}

impl Script {
    /// A script of any bytes.
    ///
    /// # Errors
    /// The first line is wrong: why.
    pub fn new(body: &[u8]) -> Result<Self, String> {
        let (flags, begins) = shebang::read(body)?;
        Ok(Self::of((sha1(body), body.into()), begins, flags, None))
    }

    /// What registers the functions of a library, whose code begins there.
    pub fn of_library(body: &Arc<[u8]>, begins: usize, (name, flags): (String, Flags)) -> Self {
        Self::of((sha1(body), Arc::clone(body)), begins, flags, Some(name))
    }

    /// A function of the library that this registers the functions of.
    pub fn function(&self, name: String, mut flags: Flags) -> Self {
        flags.is_said = true;
        Self::of((self.sha1, Arc::clone(&self.body)), self.begins, flags, Some(name))
    }

    fn of(
        (sha1, body): ([u8; 20], Arc<[u8]>),
        begins: usize,
        flags: Flags,
        function: Option<String>,
    ) -> Self {
        Self {
            sha1,
            body,
            begins,
            flags,
            function,
            long_runs: AtomicU32::new(0),
            is_open: AtomicBool::new(false),
        }
    }

    /// The name by which it is asked for: of a function its own, of a script its SHA-1 in small
    /// hexadecimal digits.
    pub fn name(&self) -> String {
        match &self.function {
            Some(name) => name.clone(),
            None => self.sha1.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// Whether it is a function of a library.
    pub fn is_function(&self) -> bool {
        self.function.is_some()
    }

    /// What Lua reads of it.
    pub fn code(&self) -> &[u8] {
        &self.body[self.begins..]
    }

    /// A run took long, so the next ones begin where they may.
    pub fn took_long(&self) {
        self.long_runs.store(LONG_RUNS, Ordering::Relaxed);
    }

    /// Whether this run is expected to take long.
    pub fn takes_long(&self) -> bool {
        let less = |runs: u32| runs.checked_sub(1);
        self.long_runs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// It has used a key that it had not declared.
    pub fn uses_more(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Whether it is expected to use keys that it does not declare.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}

/// The SHA-1 of some bytes.
pub fn sha1(bytes: &[u8]) -> [u8; 20] {
    sha1_smol::Sha1::from(bytes).digest().bytes()
}
