//! RESP2 and RESP3, Redis' protocol: the forms of requests and replies.
//!
//! Map of the files: `parse` (bytes to arguments) · `reply` (values to bytes) · `argument` `number`
//! `long_double` `glob` (forms that arguments have).

pub mod argument;
pub mod glob;
pub mod long_double;
pub mod number;
pub mod parse;
pub mod reply;
