//! Libraries of functions, by their names. Their code is kept in the store by who changes them;
//! here is what runs them.
//!
//! The code of a library is run before each call of one of its functions, and for its own sake once
//! when it is loaded. So a call begins with what the code has made, whatever an earlier one has
//! changed of it, and a run that is done again does the same once more (L2).

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::script::Script;
use super::shebang::{self, Flags};

/// Memory that a function takes beside its name and what is said of it.
const FUNCTION_BYTES: usize = 256;

/// What a library has registered: a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub name: String,
    pub description: Option<Vec<u8>>,
    pub flags: Flags,
}

impl Registered {
    /// Memory that it takes: its name stands in two places.
    pub fn bytes(&self) -> usize {
        FUNCTION_BYTES + 2 * self.name.len() + self.description.as_ref().map_or(0, Vec::len)
    }
}

/// A function of a library.
pub struct Function {
    pub script: Arc<Script>,
    pub description: Option<Vec<u8>>,
}

/// A library.
pub struct Library {
    pub name: String,
    pub code: Arc<[u8]>,
    /// By their names.
    pub functions: Vec<Function>,
    /// Memory of its code and its functions.
    bytes: usize,
}

/// What is loaded of a library: its name is read, and its functions are not known.
pub struct Code {
    pub name: String,
    /// What registers the functions.
    pub script: Script,
}

impl Code {
    /// A library of any bytes.
    ///
    /// # Errors
    /// The first line is wrong: why.
    pub fn new(code: &[u8]) -> Result<Self, String> {
        let (name, begins) = shebang::of_library(code)?;
        let code: Arc<[u8]> = code.into();
        let script = Script::of_library(&code, begins, (name.clone(), Flags::default()));
        Ok(Self { name, script })
    }

    /// The library that it is with these functions.
    pub fn with(self, mut registered: Vec<Registered>) -> Library {
        registered.sort_by(|one, other| one.name.cmp(&other.name));
        let code = Arc::clone(&self.script.body);
        let bytes = code.len() + registered.iter().map(Registered::bytes).sum::<usize>();
        let functions = registered.into_iter().map(|Registered { name, description, flags }| {
            let script = Arc::new(self.script.function(name, flags));
            Function { script, description }
        });
        Library { name: self.name, functions: functions.collect(), code, bytes }
    }
}

/// All libraries, by name, and their functions, by name in small letters.
#[derive(Clone, Default)]
pub struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    functions: FxHashMap<String, Arc<Script>>,
}

impl Libraries {
    /// The function of a name, in any case.
    pub fn function(&self, name: &[u8]) -> Option<&Arc<Script>> {
        self.functions.get(&str::from_utf8(name).ok()?.to_ascii_lowercase())
    }

    /// The library of a name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.by_name.get(str::from_utf8(name).ok()?)
    }

    /// All of them, in the order of their names.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// How many functions there are.
    pub fn functions(&self) -> usize {
        self.functions.len()
    }

    /// Memory of their code and their functions.
    pub fn bytes(&self) -> usize {
        self.all().map(|library| library.bytes).sum()
    }

    /// Removes a library; whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = str::from_utf8(name).ok().and_then(|name| self.by_name.remove(name))
        else {
            return false;
        };
        for function in &library.functions {
            self.functions.remove(&function.script.name().to_ascii_lowercase());
        }
        true
    }

    /// Adds a library; `replaces`: instead of one of the same name.
    ///
    /// # Errors
    /// There is such a library, or another one has one of its functions: nothing is changed.
    pub fn add(&mut self, library: Arc<Library>, replaces: bool) -> Result<(), String> {
        let before = self.by_name.get(&library.name);
        if before.is_some() && !replaces {
            return Err(format!("Library '{}' already exists", library.name));
        }
        let own: FxHashSet<String> = before.iter().flat_map(|before| names(before)).collect();
        let is_taken = |name: &String| self.functions.contains_key(name) && !own.contains(name);
        let taken = names(&library).zip(&library.functions).find(|(name, _)| is_taken(name));
        if let Some((_, function)) = taken {
            return Err(format!("Function {} already exists", function.script.name()));
        }
        self.remove(library.name.as_bytes());
        for function in &library.functions {
            let name = function.script.name().to_ascii_lowercase();
            self.functions.insert(name, Arc::clone(&function.script));
        }
        self.by_name.insert(library.name.clone(), library);
        Ok(())
    }
}

/// The names of a library's functions, in small letters.
fn names(library: &Library) -> impl Iterator<Item = String> {
    library.functions.iter().map(|function| function.script.name().to_ascii_lowercase())
}
