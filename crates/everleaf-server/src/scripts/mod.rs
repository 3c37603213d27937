//! Scripts in Lua, as Redis runs them; of the store and of connections nothing is known here.
//!
//! A script runs in a state of Lua of its own for as long as it runs. States are kept for the next
//! ones: what scripts see of them cannot be changed, so nothing of one script is left for another.
//! * L1. A run has an end: it is stopped after a time, at a limit of memory, or when somebody asks
//!   for it, whatever it catches. What is not written in Lua, and so has no hook, asks as well
//!   (`patterns`), or is bounded by the memory.
//! * L2. A run may be done again from its beginning: it has no effects but those of its host.
//! * L3. What a script can call has no way to a file, to the process, or to Lua's own globals, and
//!   code comes as text only.
//!
//! Map of the files: `state` (a state of Lua, and one run) · `sandbox` (what it begins with) ·
//! `prelude.lua` (what scripts see) · `script` (one of them) · `cache` (by their names) · `library`
//! (functions) · `shebang` (their first line) · `api` (the module `redis`) · `json` `msgpack`
//! `structs` `bits` `strings` (other modules) · `patterns` (of strings) · `values` (replies and
//! values) · `control` (when a run ends) · `arguments` `errors` `numbers`.

mod api;
mod arguments;
mod bits;
mod cache;
mod control;
mod errors;
mod json;
mod library;
mod msgpack;
mod numbers;
mod patterns;
mod sandbox;
mod script;
mod shebang;
mod state;
mod strings;
mod structs;
mod values;

pub use api::{Level, Message};
pub use cache::Scripts;
pub use control::{Bounds, Stop};
pub use library::{Libraries, Library};
pub use script::Script;
pub use state::{Asked, Ended, Host};
