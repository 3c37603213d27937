//! What the targets do with the bytes that they are given: nothing may panic, hang, or take memory
//! without bound.
//!
//! Random bytes are refused at the first checksum. So pools and logs begin as sound ones, the bytes
//! say what is changed in them, and checksums are made right again, unless the bytes say otherwise.
//!
//! Map of the files: `pool` · `log` (beside a pool) · `text` (dumps, tables, scripts, the shell) ·
//! `server` (both protocols, scripts in Lua) · `damage` (what the bytes change) · `store` (small
//! ones, and their use).

mod damage;
pub mod log;
pub mod pool;
pub mod server;
mod store;
pub mod text;
