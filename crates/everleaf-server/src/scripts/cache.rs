//! Scripts by their names, which all connections share, and states to run them in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::control::{Bounds, Stop};
use super::library::{Code, Libraries, Library};
use super::script::{Script, sha1};
use super::state::{Asked, Ended, Host, State, not_compiled};
use crate::resp::reply::Reply;

/// Scripts that nobody has loaded and that are kept, as with later versions of Redis.
const KEPT: usize = 500;
/// Memory that a script takes beside its bytes.
const SCRIPT_BYTES: usize = 256;
/// States that are kept for the next scripts.
const STATES: usize = 64;
fn of_name(name: &[u8]) -> Option<[u8; 20]> {
    if name.len() != 40 || !name.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut sha1 = [0; 20];
    for (byte, digits) in sha1.iter_mut().zip(name.chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(sha1)
}

#[derive(Default)]
struct Cached {
    scripts: FxHashMap<[u8; 20], (Arc<Script>, bool)>,
    /// Those that nobody has loaded, in the order in which they came.
    passing: VecDeque<[u8; 20]>,
    loaded_bytes: usize,
    passing_bytes: usize,
}

/// What a server has of scripts.
pub struct Scripts {
    cached: Mutex<Cached>,
    libraries: Mutex<Arc<Libraries>>,
    states: Mutex<Vec<State>>,
    version: &'static str,
    /// Bytes of scripts that are loaded, at most.
    most_bytes: usize,
    /// What a script is compiled with.
    memory_bytes: u64,
    seed: AtomicU32,
}

impl Scripts {
    /// None.
    pub fn new(version: &'static str, most_bytes: usize, memory_bytes: u64, seed: u32) -> Self {
        Self {
            cached: Mutex::default(),
            libraries: Mutex::default(),
            states: Mutex::default(),
            version,
            most_bytes,
            memory_bytes,
            seed: AtomicU32::new(seed),
        }
    }

    fn state(&self) -> Result<State, String> {
        if let Some(state) = self.states.lock().pop() {
            return Ok(state);
        }
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        State::new(self.version, seed as i32).map_err(|error| format!("ERR {error}"))
    }

    fn give_back(&self, mut state: State) {
        if state.is_kept() {
            let mut states = self.states.lock();
            if states.len() < STATES {
                states.push(state);
            }
        }
    }

    /// The script of a name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<Script>> {
        let sha1 = of_name(name)?;
        self.cached.lock().scripts.get(&sha1).map(|(script, _)| Arc::clone(script))
    }

    /// A script, which is compiled if it is new; `loads`: it stays until all are forgotten.
    ///
    /// # Errors
    /// What is replied: it cannot be compiled, or there are too many.
    pub fn add(&self, body: &[u8], loads: bool) -> Result<Arc<Script>, String> {
        let key = sha1(body);
        if let Some((script, is_loaded)) = self.cached.lock().scripts.get(&key)
            && (*is_loaded || !loads)
        {
            return Ok(Arc::clone(script));
        }
        let script = Script::new(body).map_err(|sentence| format!("ERR {sentence}"))?;
        let mut state = self.state()?;
        let made = state.compile(&script, self.memory_bytes);
        self.give_back(state);
        made.map_err(|sentence| not_compiled(&sentence))?;
        self.keep(Arc::new(script), loads)
    }

    fn keep(&self, script: Arc<Script>, loads: bool) -> Result<Arc<Script>, String> {
        let bytes = script.body.len() + SCRIPT_BYTES;
        let mut cached = self.cached.lock();
        if loads && cached.loaded_bytes + bytes > self.most_bytes {
            return Err("ERR too many scripts are loaded; SCRIPT FLUSH forgets them".to_owned());
        }
        match cached.scripts.get_mut(&script.sha1) {
            Some((there, is_loaded)) => {
                let there = Arc::clone(there);
                if loads && !std::mem::replace(is_loaded, true) {
                    cached.loaded_bytes += bytes;
                    cached.passing_bytes -= bytes;
                    cached.passing.retain(|sha1| *sha1 != script.sha1);
                }
                return Ok(there);
            }
            None if loads => cached.loaded_bytes += bytes,
            None => {
                cached.passing.push_back(script.sha1);
                cached.passing_bytes += bytes;
                while cached.passing.len() > KEPT || cached.passing_bytes > self.most_bytes {
                    let Some(oldest) = cached.passing.pop_front() else { break };
                    if let Some((oldest, _)) = cached.scripts.remove(&oldest) {
                        cached.passing_bytes -= oldest.body.len() + SCRIPT_BYTES;
                    }
                    if oldest == script.sha1 {
                        return Ok(script); // It alone is too long to be kept.
                    }
                }
            }
        }
        cached.scripts.insert(script.sha1, (Arc::clone(&script), loads));
        Ok(script)
    }

    /// Forgets all scripts.
    pub fn forget(&self) {
        *self.cached.lock() = Cached::default();
        self.states.lock().clear();
    }

    /// How many there are, and their bytes.
    pub fn count(&self) -> (usize, usize) {
        let cached = self.cached.lock();
        (cached.scripts.len(), cached.scripts.values().map(|(script, _)| script.body.len()).sum())
    }

    // ---- libraries
    // ---------------------------------------------------------------------------------------------

    /// The libraries that there are.
    pub fn libraries(&self) -> Arc<Libraries> {
        Arc::clone(&self.libraries.lock())
    }

    /// These are the libraries from now on.
    pub fn set_libraries(&self, libraries: &Arc<Libraries>) {
        *self.libraries.lock() = Arc::clone(libraries);
    }

    /// Runs the code of a library, which registers its functions.
    ///
    /// # Errors
    /// It was stopped at these bounds; or the sentence that says what is wrong.
    pub fn load(&self, code: &[u8], bounds: &Bounds) -> Result<Result<Library, String>, Stop> {
        let code = match Code::new(code) {
            Ok(code) => code,
            Err(sentence) => return Ok(Err(sentence)),
        };
        let mut state = match self.state() {
            Ok(state) => state,
            Err(sentence) => return Ok(Err(sentence)),
        };
        let read = state.read(&code.script, bounds);
        self.give_back(state);
        Ok(read?.map(|registered| code.with(registered)))
    }

    /// Runs a script.
    pub fn run(&self, asked: &Asked<'_>, host: &mut dyn Host, reply: &mut Reply<'_>) -> Ended {
        let mut state = match self.state() {
            Ok(state) => state,
            Err(sentence) => {
                reply.error(&sentence);
                return Ended::Replied(Vec::new());
            }
        };
        let ended = state.run(asked, host, reply);
        self.give_back(state);
        ended
    }
}
